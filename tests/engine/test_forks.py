"""Forked processes: an explainer works there, whatever was used, computed or locked before."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")

SCRIPT = """
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings

import numpy as np
import torch
from shearshap import Explainer

# Python 3.12 warns of any fork of a process with threads, as torch's are
warnings.filterwarnings("ignore", category=DeprecationWarning)
torch.set_num_threads(2)
forks = multiprocessing.get_context("fork")
rows = np.random.default_rng(0).normal(size=(40, 8))


def function(x):
    return x[:, :4].prod(axis=1) + np.sin(x).sum(axis=1)


layers = [torch.nn.Linear(8, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)]
network = torch.nn.Sequential(*layers).double()


def in_child(work):
    '''Return what a function returns in a forked process.'''
    receiver, sender = forks.Pipe(duplex=False)
    child = forks.Process(target=lambda: sender.send(work()))
    child.start()
    if not receiver.poll(120):
        sys.stderr.write("the forked process hangs")
        sys.stderr.flush()
        os.killpg(0, signal.SIGKILL)  # and all that hang
    found = receiver.recv()
    child.join()
    return found


"""

AFTER_USE = """
for model, method in [(function, "kriging"), (network, "kriging"), (network, "shear")]:
    explainer = Explainer(model, rows[:3], method=method)
    explain = lambda: explainer(rows, progress=False).values
    here = explain()
    np.testing.assert_allclose(in_child(explain), here)
    np.testing.assert_allclose(in_child(lambda: in_child(explain)), here)
assert torch.get_num_threads() == 2
assert in_child(torch.get_num_threads) == 1
"""

IN_USE = """
from shearshap.engine import prepared
from shearshap.games.structure import Structure
from shearshap.methods.base import Method


class Network(torch.nn.Linear):
    def train(self, mode=True):
        wait_in_thread()
        return super().train(mode)


def node(structure, *given):
    wait_in_thread()
    return usual_node(structure, *given)


def wait_in_thread():
    if threading.current_thread() is thread:
        begun.set()
        go.wait()


def slow(x):
    wait_in_thread()
    return function(x)


def stages(*given, **options):
    for number, stage in enumerate(usual_stages(*given, **options)):
        if number:
            wait_in_thread()
        yield stage


def made(*given, **contents):
    wait_in_thread()
    return usual_made(*given, **contents)


thread = None
usual_node, Structure._node = Structure._node, node
usual_stages, Method.stages = Method.stages, stages
usual_made, prepared.PreparedExplainer = prepared.PreparedExplainer, made
groups = {"both": {"x": [0, 1, 2], "y": [3, 4]}}
of_module = Explainer(Network(8, 1).double(), rows[:1])
of_groups = Explainer(function, rows[:1], groups=groups)
in_model = Explainer(slow, rows[:1], method="kriging").prepare(rows)
in_stages = Explainer(function, rows[:1], method="leverage").prepare(rows, tol=1e-9, budget=100)
for explain in [
    lambda: of_module(rows, progress=False).values,  # of a module that gets into eval mode
    lambda: of_groups(rows, progress=False).values,  # of a structure that is made
    lambda: in_model.explain(rows).values,
    lambda: in_stages.explain(rows).values,
    lambda: pickle.loads(pickle.dumps(in_model)).explain(rows).values,
]:
    begun, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=explain)
    thread.start()
    begun.wait()
    there = in_child(explain)
    go.set()
    thread.join()
    np.testing.assert_allclose(there, explain())
"""


@pytest.mark.slow
@pytest.mark.parametrize("then", [AFTER_USE, IN_USE], ids=["after use", "while in use"])
def test_an_explainer_works_in_a_forked_process(then: str) -> None:
    command = [sys.executable, "-c", SCRIPT + then]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, start_new_session=True
    )
    assert done.returncode == 0, done.stderr
