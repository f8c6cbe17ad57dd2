"""Everything shearshap raises or warns about.

ShearError
├── InputError    rows, background, groups or output that cannot be explained
├── MethodError   a method, or an option of one, that does not exist
├── BudgetError   a budget that is not a positive integer, or too small for the method, or too large
├── ModelError    a model or game that fails, or answers with a wrong shape, NaN or infinity
└── JobError      a large job of which some shards could not be explained

ShearWarning      a valid result that needs attention; the message says why
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class ShearError(Exception):
    """The root of all exceptions raised by shearshap."""


class InputError(ShearError, ValueError):
    """The rows, background, groups or output cannot be explained."""


class MethodError(ShearError, ValueError):
    """The method or one of its options is unknown."""


class BudgetError(ShearError, ValueError):
    """The budget is not a positive integer, too small for the method, or too large for the memory.

    If it is too small or too large, `nearest` is the nearest budget that works.
    """

    nearest: int | None = None


class ModelError(ShearError, RuntimeError):
    """The model failed, or returned a wrong shape, NaN or infinity.

    `row` and `coalition` say where it failed first, and `inputs` is what it was called with. If it
    failed after some rows, `finished` is the `Explanation` of those that were done.
    """

    row: int | None = None  #: its number among the rows to explain
    coalition: Any = None  #: (p,) of bool: which players are present
    inputs: Any = None  #: what the model was called with there, once for each background row
    finished: Any = None
    known: Any = None  #: (n, c, k) the coalition values of the first n rows, if those are known


STOPS = (ModelError, KeyboardInterrupt)
"""What ends a call before all rows are done: its `finished` and `known` are those of `ModelError`.

Ctrl-C is a plain `KeyboardInterrupt`, which gets them as attributes of its own.
"""


class JobError(ShearError, RuntimeError):
    """Some shards of a large job could not be explained; `summary` says what was done."""

    summary: Any = None


def keep_finished(stop: BaseException, finished: Any) -> None:
    """Let what ends a call hold what was finished by then."""
    vars(stop)["finished"] = finished


def say_finished(stop: BaseException, words: str) -> None:
    """Let Ctrl-C say what is finished, and where it is; of a `ModelError` that is known."""
    if isinstance(stop, KeyboardInterrupt):
        place = "see `finished` of this error, in a notebook sys.last_value.finished"
        stop.args = ("; ".join(filter(None, [str(stop), words, place])),)


class ShearWarning(UserWarning):
    """The result is valid, but something about it needs attention; the message says what."""


_NOTES: ContextVar[list[str] | None] = ContextVar("notes", default=None)
"""The warnings of the call that is running."""

_ARE_SHOWN: ContextVar[bool] = ContextVar("are_shown", default=True)
"""Whether warnings are shown, and not only recorded."""


def warn(note: str) -> None:
    """Warn the user, and record the sentence for `Explanation.notes`; a call warns once of each."""
    notes = _NOTES.get()
    if notes is not None:
        if note in notes:
            return
        notes.append(note)
    if _ARE_SHOWN.get():
        warnings.warn(note, ShearWarning, stacklevel=level_of_caller())


@contextmanager
def recorded(notes: list[str]) -> Iterator[None]:
    """Add to `notes` what `warn` warns of; what is there already is not warned of again."""
    token = _NOTES.set(notes)
    try:
        yield
    finally:
        _NOTES.reset(token)


def record(notes: list[str]) -> None:
    """Add notes, of which users were warned, to those that are recorded here."""
    known = _NOTES.get()
    if known is not None:
        known += [note for note in notes if note not in known]


@contextmanager
def collect_warnings(notes: list[str]) -> Iterator[None]:
    """Add our own warnings to the notes, instead of showing them.

    Those of a call of an explainer are in the notes of its explanation.
    """
    # not a filter of the module warnings, which all threads share
    token = _ARE_SHOWN.set(False)
    try:
        with recorded(notes):
            yield
    finally:
        _ARE_SHOWN.reset(token)


def level_of_caller() -> int:
    """Return the `stacklevel` at which a warning points to the line that called the package.

    It counts from the function that calls this one, which must be the one that warns:

        level    4              3            2          1
        frame    user's code    explainer    methods    the function that warns
    """
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        level += 1
        frame = frame.f_back
    return level


_OURS = ("shearshap.", "captum.log.", "contextlib")
"""Module prefixes to skip when locating the caller: this package, and what it calls through."""
