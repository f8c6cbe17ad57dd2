"""What a device has free."""

import torch


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that a GPU has free; None of other devices, where they are not known.

    What torch keeps for later tensors is free too, though the driver counts it as used.
    """
    if device.type != "cuda":
        return None
    free, _total = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + kept
