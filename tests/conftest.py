"""One thread for each test process: several processes that each use every core only wait for one another."""

import torch

torch.set_num_threads(1)
