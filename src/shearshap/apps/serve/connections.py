"""Connections: how many may be open, and how long a client may take to send and to receive.

A request passes the guard once its headers are there. Until then it is only a connection, which
anybody who reaches the port can open:

    open ── headers ── body ── answer ── idle ── headers ── ...
    └─ head_seconds ─┘                   └ 60 s ┘

If there are too many connections, the one that has been without a request for longest is closed
for the new one. So slow clients do not shut others out.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shearshap.apps.serve.schemas import Problem

if TYPE_CHECKING:
    from shearshap.apps.serve.server import Limits

MAX_HEAD = 1 << 16
"""Bytes that may come without completing the headers of a request, or a piece of its body."""

MAX_WAITING = 16  #: requests that a client may send before the first of them is answered
IDLE_SECONDS = 60  #: between two requests of a connection
READING_SECONDS = 60.0  #: that a client may take to receive an answer
MAX_BACKLOG = 1024  #: connections that wait to be accepted
SPARE_FILES = 64  #: that the process may open besides connections


def backlog() -> int:
    """Return how many connections may wait to be accepted, which is then done at once."""
    return min(MAX_BACKLOG, max_files() // 8)


def max_connections(limits: "Limits") -> int:
    """Return how many connections may be open: fewer than limited if too few files may be."""
    # some were just accepted or closed, and count already, or still
    return max(1, min(limits.connections, max_files() - 2 * backlog() - SPARE_FILES))


def max_files() -> int:
    """Return how many files the process may have open."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows has no such limit
        return 1 << 20
    files, _ = getrlimit(RLIMIT_NOFILE)
    return 1 << 20 if files == RLIM_INFINITY else files


def connection_class(limits: "Limits") -> type["Connection"]:
    """Return the class of connections with these limits."""

    class Limited(Connection):
        pass

    Limited.head_seconds = limits.head_seconds
    Limited.most = max_connections(limits)
    return Limited


class Connection(HttpToolsProtocol):
    """A connection that is closed if its client is too slow, or if there are too many."""

    head_seconds: float
    most: int  #: connections

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.is_complete = True  #: whether the last request has come to its end
        self.pending = 0  #: bytes since the last piece of a request that was complete
        self.since = self.loop.time()  #: it has had no request
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; if there are too many connections, close another one, or else this one."""
        super().connection_made(transport)
        self._start("sending", self.head_seconds)
        if len(self.connections) <= self.most:
            return
        other = longest_idle(self.connections - {self})
        if other is None:
            error = f"expected at most {self.most} connections, got one more; try again in 1 s"
            self._refuse("503 Service Unavailable\r\nRetry-After: 1", error)
        else:
            other.transport.abort()
            self.connections.discard(other)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop("sending")
        self._stop("receiving")
        super().connection_lost(exc)

    # What the client sends

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; it may only be so long."""
        self.pending += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.pending > MAX_HEAD:
            error = f"expected at most {MAX_HEAD} bytes of headers, got more"
            self._refuse("431 Request Header Fields Too Large", error)
        elif not self.is_busy and "sending" not in self._timers:
            self._start("sending", self.head_seconds)

    def on_message_begin(self) -> None:
        """A request begins."""
        self.is_complete = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers are complete."""
        self.pending = 0
        self._stop("sending")
        if len(self.pipeline) >= MAX_WAITING:
            raise ValueError(f"more than {MAX_WAITING} requests wait")  # the parser ends with it
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of its body has come."""
        self.pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self.pending = 0
        self.is_complete = True
        self._stop("sending")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered; a body that nobody waited for may not go on for ever."""
        self.since = self.loop.time()
        super().on_response_complete()
        if self.is_busy:  # with a request that came meanwhile
            return
        self.cycle.body = bytearray()
        if not self.is_complete:
            self._start("sending", self.head_seconds)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, also if the client did not receive what it was sent."""
        self.transport.abort()

    # What the client receives

    def pause_writing(self) -> None:
        """The client receives more slowly than it is sent to."""
        super().pause_writing()
        self._start("receiving", READING_SECONDS)

    def resume_writing(self) -> None:
        """It has received most."""
        super().resume_writing()
        self._stop("receiving")

    # Too slow, too much

    def _start(self, what: str, seconds: float) -> None:
        """Give the client some seconds for something."""
        self._stop(what)
        self._timers[what] = self.loop.call_later(seconds, self._late, what)

    def _stop(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()

    def _late(self, what: str) -> None:
        del self._timers[what]
        # while a request is answered, its client need not send more
        if what == "receiving" or not self.is_busy:
            self.transport.abort()

    def _refuse(self, status: str, error: str) -> None:
        """Send a status, and headers if it has any, unless an answer is being sent, and close."""
        if self.is_busy:
            self.transport.abort()
            return
        content = Problem(error=error, where="").model_dump_json()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write((head + content).encode("ascii"))
        self.transport.close()


def longest_idle(connections: Iterable[object]) -> Connection | None:
    """Return the connection that has been without a request for longest; None: all have one."""
    idle = (each for each in connections if isinstance(each, Connection) and not each.is_busy)
    return min(idle, key=lambda each: each.since, default=None)
