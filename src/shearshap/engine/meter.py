"""How far an explanation is: rows, of which a part is asked and a part is solved.

A row is done in two steps. The model is asked for its coalitions, and its equations are solved:

    row     0     1     2     3     4     5
    asked   ###   ###   ###   ###   ##            4.7 rows
    solved  ###   ###   ##                        2.7 rows

Which of the two takes longer depends on the model and the method, and is measured. If to ask for a
row takes 40 % of its time, 0.4 * 4.7 + 0.6 * 2.7 = 3.5 of 6 rows are done.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shearshap.engine.progress import hearing

BAR_FORMAT = (
    "{percentage:3.0f}%|{bar}| {n:,.0f}/{total:,.0f}{unit} [{elapsed}<{remaining}{postfix}]"
)
"""The line of a bar in a terminal; tqdm would write all digits of 3.5 rows."""

FIRST_GUESS = 0.005
"""Seconds that it takes to solve a row, before any is solved."""


@dataclass
class _Step:
    """One of the two steps: what it has taken so far."""

    seconds: float = 0.0
    rows: float = 0.0

    def seconds_a_row(self, guess: float) -> float:
        """Return what a row takes, or a guess before there was any."""
        return self.seconds / self.rows if self.rows else guess


class Meter:
    """Moves a bar over the rows, as they are asked, solved and finished.

    A meter without a bar only counts.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._most = 1  #: evaluations of a row, at most
        self._evaluations = 0
        self._finished = 0  #: rows
        self._asked = 0.0  #: rows that are asked beyond those finished
        self._solved = 0.0  #: rows that are solved beyond those finished
        self._ask = _Step()
        self._solve = _Step()
        self._ask_part = 0.5  #: of a row's time, that it takes to ask for it
        self._watched = 0.0  #: when the time of asking was last looked at

    def show(self, bar: Any) -> None:
        """Move a bar from now on."""
        self._bar = bar

    def expect(self, evaluations: int) -> None:
        """Take rows to need this many evaluations each, at most."""
        self._most = max(1, evaluations)

    def asked(self, evaluations: int) -> None:
        """Count evaluations."""
        rows = evaluations / self._most
        self._evaluations += evaluations
        self._asked += rows
        self._ask.rows += rows
        self._look_at_watch()
        # not while rows are solved: the bar would stand still, as it does not go back
        to_ask = self._ask.seconds_a_row(FIRST_GUESS)
        to_solve = self._solve.seconds_a_row(FIRST_GUESS)
        self._ask_part = to_ask / (to_ask + to_solve)
        self._move()

    def solved(self, rows: float) -> None:
        """Count rows whose equations are solved."""
        self._solved += rows
        self._solve.rows += rows
        self._move()

    def finished(self, rows: int) -> None:
        """Count rows of which nothing is left to do."""
        self._finished += rows
        self._asked = 0.0
        self._solved = 0.0
        self._move()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Measure how long it takes to ask the model."""
        self._watched = time.perf_counter()
        yield
        self._look_at_watch()

    def _look_at_watch(self) -> None:
        """Add the time since it was last looked at to that of asking."""
        now = time.perf_counter()
        self._ask.seconds += now - self._watched if self._watched else 0.0
        self._watched = now

    @contextmanager
    def solving(self, rows: int, outputs: int) -> Iterator[None]:
        """Count the rows that are solved within, and measure how long that takes."""
        started = time.perf_counter()
        before = self._solved
        with hearing(lambda games: self.solved(games / outputs)):
            yield
        # most methods solve all rows at once, and say nothing on the way
        self.solved(before + rows - self._solved)
        self._solve.seconds += time.perf_counter() - started

    @property
    def rows(self) -> float:
        """How many rows are done; those that are begun count in part."""
        begun = self._ask_part * self._asked + (1 - self._ask_part) * self._solved
        return self._finished + begun

    def _move(self) -> None:
        """Move the bar, which never goes back, and not beyond its end."""
        if self._bar is None:
            return
        self._bar.set_postfix_str(f"{self._evaluations:,} evaluations", refresh=False)
        most = self.rows if self._bar.total is None else min(self.rows, self._bar.total)
        step = most - self._bar.n
        if step > 0:
            self._bar.update(step)
