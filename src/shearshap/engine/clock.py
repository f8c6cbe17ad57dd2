"""Deadlines: how many rows there is still time to begin."""

import time
import warnings
from collections.abc import Generator
from dataclasses import replace

from shearshap.errors import ShearWarning, level_of_caller
from shearshap.result.explanation import Explanation


class Clock:
    """A run's deadline, in seconds from when the clock is made; None: there is none."""

    def __init__(self, deadline: float | None) -> None:
        self.deadline = deadline
        self.started = time.monotonic()

    def allowed(self, size: int, done: int) -> int:
        """Return how many rows to begin next, at most `size`, when `done` rows are done."""
        if self.deadline is None:
            return size

        spent = max(time.monotonic() - self.started, 1e-9)
        left = max(self.deadline - spent, 0)
        rows_a_second = done / spent
        affordable = int(min(left * rows_a_second, 4 * size + 4))  # more are never begun at once

        # a quarter at a time, since later rows may take longer than the first
        quarter = max(affordable // 4, min(affordable, 1))
        return min(size, quarter)

    def warning(self, done: int, count: int, what: str) -> str:
        """Warn that the deadline came, and return the sentence that says so."""
        sentence = (
            f"the deadline of {self.deadline:g} s came after {done:,} of {count:,} {what}; "
            f"the other {count - done:,} are not explained"
        )
        warnings.warn(sentence, ShearWarning, stacklevel=level_of_caller())
        return sentence


def within_time(
    explanation: Explanation, clock: Clock, most: int, done: int, count: int
) -> Generator[Explanation, None, int]:
    """Yield a block's explanation, and return how many of all `count` rows to begin next.

    That is at most `most`, and 0 once the deadline has come. Where rows are left then, a warning
    says how many, and so does a note if it is known before the block is taken.
    """
    late = done < count and not clock.allowed(most, done)
    if late:
        note = clock.warning(done, count, "rows")
        explanation = replace(explanation, notes=(*explanation.notes, note))
    yield explanation
    if late:
        return 0

    # asked again, since the caller may have taken its time
    size = clock.allowed(most, done)
    if not size and done < count:
        clock.warning(done, count, "rows")
    return size
