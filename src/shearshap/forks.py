"""Forked processes, which `multiprocessing` starts by default on Linux up to Python 3.13.

Of all threads, a fork copies the one that forks. So the threads with which torch computes are
missing in the new process: torch would wait for them for ever, and computes with one thread there.
A lock that another thread held would never be released there: ours are free.
"""

import os
import sys
import threading
from collections.abc import Callable
from functools import cached_property, partial
from inspect import isclass
from weakref import WeakSet

import torch


def call_in_child(action: Callable[[], object]) -> None:
    """Call a function in every process that is forked from now on, at its beginning."""
    if hasattr(os, "register_at_fork"):  # Windows has no forks
        os.register_at_fork(after_in_child=action)


call_in_child(partial(torch.set_num_threads, 1))


class ForkSafeLock:
    """A lock that one thread may take several times; in a forked process it is free."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    @staticmethod
    def renew_all() -> None:
        """Let go of all locks, in a process that was just forked."""
        for each in _LOCKS:
            each._lock = threading.RLock()


_LOCKS: WeakSet[ForkSafeLock] = WeakSet()
call_in_child(ForkSafeLock.renew_all)


def _renew_cached_properties() -> None:
    """Renew the locks of our classes' cached properties, which have one each."""
    modules = [module for name, module in sys.modules.items() if name.startswith("shearshap.")]
    for kind in {each for module in modules for each in vars(module).values() if isclass(each)}:
        for attribute in vars(kind).values():
            if isinstance(attribute, cached_property):
                vars(attribute)["lock"] = threading.RLock()


if sys.version_info < (3, 12):  # later ones have none
    call_in_child(_renew_cached_properties)
