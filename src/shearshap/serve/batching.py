"""Rows of requests are explained in blocks, by one thread; requests take turns.

    request of 1 row       ──┐
    request of 1 row       ──┼── wait a few milliseconds ── one block ── answers, cut again
    request of 500 rows    ──┘        └── its other rows wait for the next turns

While a block is explained, the next requests gather. So the busier the service, the larger its
blocks, and the less each row costs. But a block is not larger than what takes about a TURN, since
all other requests wait for it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from shearshap.errors import ShearError
from shearshap.serve.features import Cell
from shearshap.serve.monitoring import Monitor
from shearshap.serve.prepared import Advance, Answers

Rows = Sequence[Sequence[Cell]]
Explain = Callable[[Rows, int, Advance], Answers]

GATHERING = 0.003
"""Seconds that the first request of a block waits for others."""

MOST_ROWS = 256
"""Rows of a block."""

TURN = 0.1
"""Seconds that a block should take, as far as a row takes no longer."""

MAX_PACES = 1_000
"""Budgets whose seconds a row are kept."""

LOG = logging.getLogger("shearshap.serve")


class _Abandoned(ShearError):  # noqa: N818  (no error of ours)
    """Nobody waits any more for the answers of the block at work."""


@dataclass(eq=False)
class Ticket:
    """A request that waits for its answers; who no longer wants them cancels the future."""

    rows: Rows
    budget: int
    future: "Future[Answers]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    parts: list[Answers] = field(default_factory=list)  #: of the rows that are done
    done: int = 0  #: rows
    block: Rows = ()  #: its rows in the block at work

    def take(self, answers: Answers) -> None:
        """Add the answers of its rows in a block; when they are all there, it is answered."""
        self.parts.append(answers)
        self.done += len(self.block)
        if self.done < len(self.rows):
            return
        whole = Answers.concat(self.parts)
        # from this call on the future cannot be cancelled
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(whole)

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Batcher:
    """Explains the rows of requests, those that have the same budget together."""

    def __init__(self, explain: Explain, monitor: Monitor) -> None:
        self.explain = explain
        self.monitor = monitor
        self._waiting: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._seconds_a_row: dict[int, float] = {}  #: of the last block, by budget
        self._thread = threading.Thread(target=self._work, name="shear-explains", daemon=True)

    def start(self) -> None:
        """Begin to explain."""
        self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """End, and leave what waits unanswered; the block at work has some seconds to end, too."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        for ticket in self._waiting:
            ticket.future.cancel()

    def submit(self, rows: Rows, budget: int) -> "Future[Answers]":
        """Return the answers to come; when the future is cancelled, the work for it ends."""
        ticket = Ticket(rows, budget)
        with self._changed:
            self._waiting.append(ticket)
            self._changed.notify()
        return ticket.future

    def _work(self) -> None:
        while True:
            tickets = self._next_block()
            if tickets is None:
                return
            try:
                self._answer(tickets)
            except BaseException as error:  # the thread must outlive any
                LOG.exception("a block could not be explained")
                for ticket in tickets:
                    ticket.fail(error)
            with self._changed:
                self._waiting.extend(each for each in tickets if not each.future.done())

    def _next_block(self) -> list[Ticket] | None:
        """Wait for requests, and return those of the next block; None: it is closed."""
        with self._changed:
            while not self._closed:
                self._waiting = deque(each for each in self._waiting if not each.future.cancelled())
                if self._waiting:
                    self._gather()
                    return self._taken()
                self._changed.wait()
        return None

    def _gather(self) -> None:
        """Wait until the oldest request has waited long enough, or a block is full."""
        until = self._waiting[0].since + GATHERING
        while not self._closed and sum(len(each.rows) for each in self._waiting) < MOST_ROWS:
            left = until - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _taken(self) -> list[Ticket]:
        """Take rows of the oldest request from the queue, and of those that fit into its block."""
        budget = self._waiting[0].budget
        room = self._rows_a_turn(budget)
        taken: list[Ticket] = []
        left: deque[Ticket] = deque()
        for ticket in self._waiting:
            if ticket.budget == budget and room:
                ticket.block = ticket.rows[ticket.done : ticket.done + room]
                room -= len(ticket.block)
                taken.append(ticket)
            else:
                left.append(ticket)
        self._waiting = left
        return taken

    def _rows_a_turn(self, budget: int) -> int:
        """Return how many rows to explain at once: one, where it is not known what that takes."""
        seconds = self._seconds_a_row.get(budget, TURN)
        return max(1, min(MOST_ROWS, int(TURN / seconds)))

    def _answer(self, tickets: list[Ticket]) -> None:
        """Explain the rows that requests have in a block."""

        def check_wanted(_evaluations: int) -> None:
            if self._closed or all(each.future.cancelled() for each in tickets):
                raise _Abandoned

        rows = [row for ticket in tickets for row in ticket.block]
        started = time.perf_counter()
        try:
            answers = self.explain(rows, tickets[0].budget, check_wanted)
        except _Abandoned:
            return
        except ShearError as error:
            if len(tickets) == 1:
                tickets[0].fail(error)
                return
            # one of them is at fault, and the others must not suffer
            for ticket in tickets:
                self._answer([ticket])
            return

        self._learn(tickets[0].budget, (time.perf_counter() - started) / len(rows))
        self.monitor.explained(len(rows), int(answers.evaluations.sum()))
        start = 0
        for ticket in tickets:
            end = start + len(ticket.block)
            ticket.take(answers.take(slice(start, end)))
            start = end

    def _learn(self, budget: int, seconds: float) -> None:
        """Keep what a row of a budget takes."""
        if len(self._seconds_a_row) >= MAX_PACES:
            self._seconds_a_row.clear()
        self._seconds_a_row[budget] = max(seconds, 1e-9)
