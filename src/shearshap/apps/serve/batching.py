"""Rows of requests are explained in blocks, by one thread; requests take turns.

    request of 1 row       ──┐
    request of 1 row       ──┼── wait a few milliseconds ── one block ── answers, cut again
    request of 500 rows    ──┘        └── its other rows wait for the next turns

While a block is explained, the next requests gather. So the busier the service, the larger its
blocks, and the less each row costs. But others wait for a block. So its rows take no longer than
about a second, and those of one request a tenth of that.
"""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from shearshap.apps.serve.guard import Metrics
from shearshap.apps.serve.schemas import Row
from shearshap.errors import ShearError
from shearshap.result.explanation import Explanation, spent_evaluations

Rows = Sequence[Row]
Explain = Callable[[Rows, int, Callable[[int], object]], Explanation]
Parts = list[Explanation]  #: of a request's rows, in their order

GATHERING_SECONDS = 0.003
"""How long the first request of a block waits for others."""

MAX_ROWS = 256
"""Rows of a block."""

BLOCK_SECONDS = 1.0
"""How long the rows of a block should take; one row may take longer."""

TURN_SECONDS = 0.1
"""How long the rows of one request in a block should take; one row may take longer."""

DECAY = 0.8
"""Weight of a block's time when the next one comes."""

MIN_SPREAD = 0.03
"""Least variance of blocks' sizes, over their mean squared, to estimate the time of a row."""

LOG = logging.getLogger("shearshap.apps.serve")


class _Abandoned(ShearError):  # noqa: N818  (no error of ours)
    """All clients that waited for the block have gone."""


class Pace:
    """How many rows of a block take how long, learnt from the blocks so far.

    A block of n rows takes a + b n seconds: a line through the times of the last blocks. When they
    were all of about one size, the line is not known, and the next block may be larger.
    """

    def __init__(self) -> None:
        self._most = 1  #: rows of the next block
        self._sums: tuple[float, ...] = (0.0,) * 5  #: of 1, n, t, n^2 and n t, the last blocks most

    def learn(self, rows: int, seconds: float) -> None:
        """Learn from the time of a block."""
        new = (1, rows, seconds, rows * rows, rows * seconds)
        self._sums = tuple(DECAY * old + now for old, now in zip(self._sums, new, strict=True))
        growth = 4 if seconds <= TURN_SECONDS else 2
        self._most = min(MAX_ROWS, max(self._most, growth * rows))
        self._most = self.rows(BLOCK_SECONDS)

    def rows(self, seconds: float) -> int:
        """Return how many rows take some seconds, b n, or no longer than what comes on top, a.

        Smaller blocks would mostly do what is done for each block anew.
        """
        weight, sizes, times, squares, products = self._sums
        spread = weight * squares - sizes * sizes
        if spread <= MIN_SPREAD * sizes * sizes:
            return self._most
        slope = max((weight * products - sizes * times) / spread, 1e-9)
        on_top = (times - slope * sizes) / weight
        return max(1, min(self._most, int(max(seconds, on_top) / slope)))


@dataclass(eq=False)
class Ticket:
    """A request that waits for its answer; who no longer wants it cancels the future."""

    rows: Rows
    budget: int
    future: "Future[Parts]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    parts: Parts = field(default_factory=list)  #: of the rows that are done
    done: int = 0  #: rows
    block: Rows = ()  #: its rows in the block at work

    def take(self, part: Explanation) -> None:
        """Add the explanation of its rows in a block; when all are there, it is answered."""
        self.parts.append(part)
        self.done += len(part)
        # once it is set running, the future cannot be cancelled
        if self.done == len(self.rows) and self.future.set_running_or_notify_cancel():
            self.future.set_result(self.parts)

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Batcher:
    """Explains the rows of requests, those that have the same budget together."""

    def __init__(self, explain: Explain, metrics: Metrics) -> None:
        self.explain = explain
        self.metrics = metrics
        self._waiting: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._paces: defaultdict[int, Pace] = defaultdict(Pace)  #: by budget
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

    def submit(self, rows: Rows, budget: int) -> "Future[Parts]":
        """Return the explanations to come; when the future is cancelled, the work for it ends."""
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
        until = self._waiting[0].since + GATHERING_SECONDS
        while not self._closed and sum(len(each.rows) for each in self._waiting) < MAX_ROWS:
            left = until - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _taken(self) -> list[Ticket]:
        """Take rows of the oldest request from the queue, and of those that fit into its block."""
        budget = self._waiting[0].budget
        pace = self._paces[budget]
        room = pace.rows(BLOCK_SECONDS)
        share = pace.rows(TURN_SECONDS)
        taken: list[Ticket] = []
        left: deque[Ticket] = deque()
        for ticket in self._waiting:
            if ticket.budget == budget and room:
                ticket.block = ticket.rows[ticket.done : ticket.done + min(share, room)]
                room -= len(ticket.block)
                taken.append(ticket)
            else:
                left.append(ticket)
        self._waiting = left
        return taken

    def _answer(self, tickets: list[Ticket]) -> None:
        """Explain the rows that requests have in a block."""

        def check_wanted(_evaluations: int) -> None:
            if self._closed or all(each.future.cancelled() for each in tickets):
                raise _Abandoned

        rows = [row for ticket in tickets for row in ticket.block]
        started = time.perf_counter()
        try:
            explanation = self.explain(rows, tickets[0].budget, check_wanted)
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

        self._paces[tickets[0].budget].learn(len(rows), time.perf_counter() - started)
        self.metrics.block_rows.observe(len(rows))
        self.metrics.evaluations.inc(int(spent_evaluations(explanation).sum()))
        if len(tickets) == 1:
            tickets[0].take(explanation)
            return
        start = 0
        for ticket in tickets:
            end = start + len(ticket.block)
            ticket.take(explanation[start:end])
            start = end
