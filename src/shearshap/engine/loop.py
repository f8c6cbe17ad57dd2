"""The one loop: rows in blocks, one explanation a block, until all rows are done or time is up.

    for each block of rows     as many as the solver takes at once, and the deadline allows
        solver.explain(block)  sampling (sampling.py), trees (trees/), texts (text.py)
        yield an Explanation   of the block; the caller concatenates, saves or sends it

A solver knows how to explain a block. Deadlines, memory for the results of all blocks, progress,
and the rows that are finished when a model fails are the loop's.
"""

import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from importlib.util import find_spec
from math import inf
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from shearshap.errors import STOPS, BudgetError, keep_finished, warn
from shearshap.games.batches import Batch, HostCopies, OutOfTime, empty_array, to_numpy
from shearshap.result.explanation import Explanation
from shearshap.result.text import part_of

BATCHES_A_DEADLINE = 10
"""Into how many model calls a deadline is cut at least, if the time of a call is bounded."""

DELAY = 2.0
"""Seconds after which a progress bar appears by itself."""

BAR_FORMAT = (
    "{percentage:3.0f}%|{bar}| {n:,.0f}/{total:,.0f}{unit} [{elapsed}<{remaining}{postfix}]"
)
"""The line of a bar over rows; tqdm would write all digits of 3.5 rows."""


class Solver(Protocol):
    """Explains blocks of rows."""

    @property
    def rows(self) -> int:
        """The number of all rows."""

    @property
    def rows_at_once(self) -> int:
        """How many rows the next block may have."""

    def explain(self, rows: slice, buffer: "ResultBuffer", clock: "Clock") -> Explanation:
        """Return the explanation of a block, or of its first rows, with its arrays in a buffer.

        Its index is the rows' numbers, or their labels. If the model fails, the error's `finished`
        is the explanation of those rows of the block that are finished. If the time for the others
        is up, the clock is stopped; `OutOfTime` is raised if there are none.
        """


def blocks_of(
    solver: Solver,
    clock: "Clock",
    *,
    tol: float | None = None,
    at_once: bool = False,
    progress: "RowProgress | None" = None,
) -> Generator[Explanation]:
    """Yield the explanations of a solver's rows, block by block, in their order.

    After the deadline nothing more is begun; a warning says how many rows are left. With `tol`,
    another says how many rows did not reach it. If the model fails, the rows of the block that are
    finished come before the error. `at_once` says that all blocks will be joined, so that their
    arrays can be parts of one.
    """
    is_whole = at_once and clock.deadline is None
    buffer = ResultBuffer(solver.rows if is_whole else None)
    shown = progress or RowProgress()
    missed = _Missed(tol)
    # of joined blocks, each waits for the next: the last one has the notes on all of them
    waiting: Explanation | None = None
    try:
        for block in _timed_blocks(solver, buffer, clock):
            shown.finished(len(block))
            missed.count(block)
            if waiting is not None:
                yield waiting
            waiting = block
            if clock.goes_on(solver.rows) and not at_once:
                yield waiting
                waiting = None

        buffer.wait()  # the numbers of all blocks are there when the last one is
        clock.warn(solver.rows)
        missed.warn(clock)
        if waiting is not None:
            yield waiting
    except STOPS as error:
        finished: Explanation | None = vars(error).get("finished")
        keep_finished(error, None)
        buffer.wait()
        if waiting is not None:
            yield waiting
        if finished is not None:
            yield finished
        raise
    finally:
        buffer.wait()  # for the blocks of a caller that has stopped before the last one


def _timed_blocks(solver: Solver, buffer: "ResultBuffer", clock: "Clock") -> Generator[Explanation]:
    """Yield the blocks of a solver until all rows are done, or the clock stops."""
    while clock.goes_on(solver.rows):
        last = min(clock.done + clock.allowed(solver.rows_at_once), solver.rows)
        started = clock.now()
        try:
            block = solver.explain(slice(clock.done, last), buffer, clock)
        except OutOfTime:
            clock.stopped = True
            if clock.done:
                return
            raise BudgetError(
                f"deadline: expected enough seconds to explain one {clock.noun}, got "
                f"{clock.deadline:g}; try more seconds, or a smaller budget"
            ) from None
        clock.count(len(block), clock.now() - started)
        yield block


class Clock:
    """A run's deadline, in seconds from when the clock is made; None: there is none.

    It begins with one row, and takes more at a time as its speed becomes known. Solvers ask it
    before they begin a stage, and between two calls of the model.
    """

    def __init__(self, deadline: float | None, noun: str = "row") -> None:
        self.deadline = deadline
        self.noun = noun  #: what is explained, for the warning
        self.done = 0  #: rows
        self.stopped = False  #: whether rows were left out for want of time
        self.cut = False  #: whether rows have fewer evaluations for want of time
        self._whole = self  #: the clock that this is a part of
        self._started = self.now()
        self._rows_a_second = 0.0  #: of the last block

    @staticmethod
    def now() -> float:
        """Return the seconds of a clock that is never set back."""
        return time.monotonic()

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return inf if self.deadline is None else self._started + self.deadline - self.now()

    def part(self, count: int) -> "Clock":
        """Return the clock of one of several equal parts of the time left, with no rows done.

        Stages end with the part, and calls of the model with the whole.
        """
        part = copy(self)
        part.done = 0
        part.cut = False
        if self.deadline is not None:
            left = self.left
            part.deadline = self.deadline - left + left / count
        return part

    def has_time(self) -> bool:
        """Return whether the deadline is still to come."""
        return self.left > 0

    def first_half(self) -> Callable[[], bool]:
        """Return what says whether half of the time left now is still to come.

        What is made for all rows ends there, with what it has: the rows themselves take time too.
        """
        half = self.left / 2

        def has_time() -> bool:
            in_time = self.deadline is None or self.left > half
            self.cut |= not in_time
            return in_time

        return has_time

    def goes_on(self, rows: int) -> bool:
        """Return whether to start another row; the first of `rows` is always started."""
        return self.done < rows and not self.stopped and (self.has_time() or not self.done)

    def allowed(self, size: int) -> int:
        """Return how many rows to begin next, from 1 to `size`."""
        if self.deadline is None:
            return size
        # a quarter at a time, since later rows may take longer than the first
        quarter = min(self.left * self._rows_a_second / 4, size)
        return max(int(quarter), 1)

    def count(self, rows: int, seconds: float) -> None:
        """Count the rows of a block and its seconds."""
        self.done += rows
        self._rows_a_second = rows / max(seconds, 1e-9)

    def bound(self, batch: Batch) -> None:
        """Let batches of a game end with the deadline, and take a part of the time at most."""
        if self.deadline is None:
            return
        batch.has_time = self._whole.has_time
        if batch.pace is not None:
            batch.pace.seconds = min(batch.pace.seconds, self.deadline / BATCHES_A_DEADLINE)

    def warn(self, count: int) -> None:
        """Warn that the deadline came, if it did."""
        if not (self.cut or self.done < count):
            return
        if self.noun == "game":  # there is one
            warn(
                f"the deadline of {self.deadline:g} s was reached: the game has fewer "
                "evaluations than the budget allows"
            )
            return
        explained = part_of(self.done, count, self.noun)
        parts = []
        if self.done < count:
            parts.append(f"the other {count - self.done:,} are not explained")
        if self.cut:
            some = "it has" if count == 1 else f"some {self.noun}s have"
            parts.append(f"{some} fewer evaluations than the budget allows")
        warn(
            f"the deadline of {self.deadline:g} s was reached after {explained}; "
            f"{', and '.join(parts)}"
        )


class _Missed:
    """Counts the rows that did not reach a tolerance."""

    def __init__(self, tol: float | None) -> None:
        self.tol = tol
        self.rows = 0
        self.evaluations = 0  #: the most that a row was given

    def count(self, block: Explanation) -> None:
        """Count the rows of a block."""
        if self.tol is not None and block.converged is not None:
            self.rows += int((~block.converged).sum())
            self.evaluations = max(self.evaluations, block.evaluations)

    def warn(self, clock: Clock) -> None:
        """Warn that rows missed the tolerance, if any did."""
        if not self.rows:
            return
        more = "a longer deadline=" if clock.cut else "a larger budget="
        warn(
            f"{part_of(self.rows, clock.done, clock.noun)} did not reach tol={self.tol:g} within "
            f"{self.evaluations:,} evaluations; pass {more}"
        )


class ResultBuffer:
    """Host arrays for the results of all rows, allocated once if all are returned together.

    A block's arrays are then parts of it, one after the other, and nothing is copied to join them:

        rows       0-15      16-1015     1016-2000
        blocks     first     second      third
        values     [         one array            ]

    A block is copied from a GPU while the next one is computed. So its numbers are there only after
    `wait`. Without a number of rows, each block has its own arrays.
    """

    def __init__(self, rows: int | None = None) -> None:
        self.rows = rows
        self._fields: dict[str, NDArray[Any]] = {}  #: by name, (r, ...) each
        self._copies = HostCopies()

    def array(self, name: str, part: Tensor, first_row: int) -> NDArray[Any]:
        """Return a block's part (n, ...) of a field as an array, in its place among all rows.

        The part must not change any more. If all rows are kept together, its numbers are in the
        array after `wait`.
        """
        if self.rows is None:
            return to_numpy(part)
        if name not in self._fields:
            self._fields[name] = empty_array((self.rows, *part.shape[1:]), part.dtype)
        place = self._fields[name][first_row : first_row + len(part)]
        self._copies.start(part, torch.from_numpy(place))
        return place

    def wait(self) -> None:
        """Wait until the numbers of all blocks are in their arrays."""
        self._copies.wait()


# Progress: tqdm over rows, by default in a terminal and in a notebook, after two seconds


def progress_bar(progress: bool | None, **options: Any) -> Any:
    """Return a bar of tqdm, with options of tqdm.

    `progress` says when it is shown. True: at once; False: never; None: in a terminal or in a
    notebook, after two seconds.
    """
    delay = 0 if progress else DELAY
    if progress is not False and in_kernel():
        return _notebook_bar()(delay=delay, **options)
    disabled = None if progress is None else not progress
    return tqdm(disable=disabled, delay=delay, **options)


def in_kernel() -> bool:
    """Return whether this is a notebook's kernel, and no terminal."""
    # if IPython is not imported yet, it does not run this code
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _notebook_bar() -> Any:
    """Return tqdm's bar of widgets if ipywidgets is installed, else its line of text."""
    if find_spec("ipywidgets") is None:
        return partial(tqdm, file=sys.stdout)  # on stderr it would look like an error
    from tqdm.notebook import tqdm as widget

    return widget


class RowProgress:
    """Moves a bar over rows; rows that are begun count in part, by their evaluations.

    Before `over`, and without a bar, it only counts.
    """

    def __init__(self, progress: bool | None = False) -> None:
        self.progress = progress
        self._bar: Any = None
        self._row_evaluations = 1  #: of a row, at most
        self._evaluations = 0
        self._begun = 0.0  #: rows, beyond those finished
        self._finished = 0  #: rows

    @contextmanager
    def over(self, rows: int, noun: str = "row") -> Iterator[None]:
        """Show a bar over rows."""
        # by time alone: how far it is between two batches may change at any time
        bar = progress_bar(
            self.progress,
            total=rows,
            unit=f" {noun}s",
            bar_format=BAR_FORMAT,
            miniters=0,
            mininterval=0.2,
        )
        with bar:
            self._bar = bar
            yield

    def expect(self, evaluations: int) -> None:
        """Take rows to need this many evaluations each, at most."""
        self._row_evaluations = max(1, evaluations)

    def evaluated(self, evaluations: int) -> None:
        """Count evaluations."""
        self._evaluations += evaluations
        self._begun += evaluations / self._row_evaluations
        self._move()

    def finished(self, rows: int) -> None:
        """Count rows of which nothing is left to do."""
        self._finished += rows
        self._begun = 0.0
        self._move()

    def _move(self) -> None:
        """Move the bar, which never goes back, and not beyond its end."""
        if self._bar is None:
            return
        self._bar.set_postfix_str(f"{self._evaluations:,} evaluations", refresh=False)
        step = min(self._finished + self._begun, self._bar.total) - self._bar.n
        if step > 0:
            self._bar.update(step)


class GameProgress(RowProgress):
    """Moves a bar over the evaluations of one game."""

    @contextmanager
    def over(self, _rows: int = 1, _noun: str = "game") -> Iterator[None]:
        """Show a bar over the evaluations that are expected."""
        total = self._row_evaluations
        with progress_bar(self.progress, total=total, unit=" evaluations") as bar:
            self._bar = bar
            yield

    def _move(self) -> None:
        """Move the bar, to its end if the game is finished."""
        if self._bar is not None:
            done = self._bar.total if self._finished else min(self._evaluations, self._bar.total)
            self._bar.update(done - self._bar.n)
