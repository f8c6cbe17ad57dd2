"""Requests that come together are explained as one block, by one thread.

    request   ──┐
    request   ──┼── wait a few milliseconds ── one block ── answers, cut again
    request   ──┘

While a block is explained, the next requests gather. So the busier the service, the larger its
blocks, and the less each row costs.
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
from shearshap.serve.prepared import Answers

Rows = Sequence[Sequence[Cell]]
Explain = Callable[[Rows, int], Answers]

GATHERING = 0.003
"""Seconds that the first request of a block waits for others."""

MOST_ROWS = 256
"""Rows of a block, unless one request has more."""

LOG = logging.getLogger("shearshap.serve")


@dataclass(eq=False)
class Ticket:
    """A request that waits for its answers."""

    rows: Rows
    budget: int
    future: "Future[Answers]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Batcher:
    """Explains the rows of requests, those that have the same budget together."""

    def __init__(self, explain: Explain, monitor: Monitor) -> None:
        self.explain = explain
        self.monitor = monitor
        self._waiting: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="shear-explains", daemon=True)

    def start(self) -> None:
        """Begin to explain."""
        self._thread.start()

    def close(self) -> None:
        """Explain what waits, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def submit(self, rows: Rows, budget: int) -> "Future[Answers]":
        """Return the answers to come; a future that is cancelled is passed over."""
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
                    if not ticket.future.done():
                        ticket.future.set_exception(error)

    def _next_block(self) -> list[Ticket] | None:
        """Wait for requests, and return those of the next block; None: it is closed."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if not self._waiting:
                return None
            self._gather()
            tickets = self._taken()
        return [ticket for ticket in tickets if ticket.future.set_running_or_notify_cancel()]

    def _gather(self) -> None:
        """Wait until the oldest request has waited long enough, or a block is full."""
        until = self._waiting[0].since + GATHERING
        while not self._closed and sum(len(each.rows) for each in self._waiting) < MOST_ROWS:
            left = until - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _taken(self) -> list[Ticket]:
        """Take the oldest request from the queue, and those that fit into its block."""
        budget = self._waiting[0].budget
        taken: list[Ticket] = []
        left: deque[Ticket] = deque()
        rows = 0
        for ticket in self._waiting:
            fits = not taken or rows + len(ticket.rows) <= MOST_ROWS
            if ticket.budget == budget and fits:
                taken.append(ticket)
                rows += len(ticket.rows)
            else:
                left.append(ticket)
        self._waiting = left
        return taken

    def _answer(self, tickets: list[Ticket]) -> None:
        if not tickets:
            return
        rows = [row for ticket in tickets for row in ticket.rows]
        try:
            answers = self.explain(rows, tickets[0].budget)
        except ShearError as error:
            if len(tickets) == 1:
                tickets[0].future.set_exception(error)
                return
            # one of them is at fault, and the others must not suffer
            for ticket in tickets:
                self._answer([ticket])
            return

        self.monitor.explained(len(rows), int(answers.evaluations.sum()))
        start = 0
        for ticket in tickets:
            end = start + len(ticket.rows)
            ticket.future.set_result(answers.take(slice(start, end)))
            start = end
