"""Progress bars: by default in a terminal and in a notebook, after two seconds.

A bar moves while the model is asked, and while equations are solved. `solved_games` is how the
mathematics, deep below the engine, says how far it is; without a listener it says so to nobody.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm import tqdm

DELAY = 2.0  #: seconds after which a bar appears by itself

_listener: ContextVar[Callable[[int], object] | None] = ContextVar("listener", default=None)


def progress_bar(progress: bool | None, **options: Any) -> Any:
    """Return a bar of tqdm's kind, with options of tqdm's.

    `progress` says when it is shown. True: at once; False: never; None: in a terminal or in a
    notebook, after two seconds.
    """
    delay = 0 if progress else DELAY
    if progress is not False and in_kernel():
        from shearshap.engine.notebook_bar import NotebookBar

        return NotebookBar(delay=delay, **options)
    disabled = None if progress is None else not progress
    return tqdm(disable=disabled, delay=delay, **options)


def in_kernel() -> bool:
    """Return whether this is a notebook's kernel, which shows HTML, and no terminal."""
    # where IPython is not imported yet, it does not run this code
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def solved_games(count: int) -> None:
    """Say that so many more games are solved: a game is one output of one row."""
    listener = _listener.get()
    if listener is not None:
        listener(count)


@contextmanager
def hearing(listener: Callable[[int], object]) -> Iterator[None]:
    """Pass what `solved_games` is called with to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
