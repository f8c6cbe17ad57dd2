"""Threads of the engine's own equations: one for small ones, all of torch's for large ones.

A kriging of a few hundred coalitions makes thousands of tensor operations, most of which take
microseconds. Threads that wait for each other there cost more than they save, and on a busy machine
each operation waits for the scheduler. The model is never called inside: it keeps its threads.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Thread

import torch

MAX_COALITIONS = 4096
"""Coalitions up to which equations are small: matrices of 2,048 x 2,048, in complement pairs."""


def threads_for(coalitions: int) -> AbstractContextManager[None]:
    """Return a context in which equations of this many coalitions take as many threads as help."""
    return one_thread() if coalitions <= MAX_COALITIONS else nullcontext()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute by one thread if it is called from this one; other threads do not notice.

    torch's number belongs to the thread that sets it, but a thread that calls torch for the first
    time begins with what any other has set last. So it is set once more, elsewhere, as it was.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        elsewhere = Thread(target=torch.set_num_threads, args=(before,))
        elsewhere.start()
        elsewhere.join()
        yield
    finally:
        torch.set_num_threads(before)
