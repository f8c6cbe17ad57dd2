"""What every request passes before it is answered: hosts, tokens, limits and counts.

A service on this machine's loopback needs no token. But any page that a browser has open could send
it requests, under a name that is made to lead here. So such a service answers only to loopback's
own names.
"""

import asyncio
import hmac
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shearshap.apps.serve.schemas import Problem
from shearshap.apps.serve.server import Limits

WITHOUT_TOKEN = ("/", "/healthz")
"""Addresses that show nothing about the model or the rows: the bare page, and the health check."""

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

RETRY_SECONDS = 1

MAX_SHOWN = 80  #: characters of a request that a refusal repeats


class RequestError(HTTPException):
    """A request that is refused; `where` is the place in the request."""

    def __init__(
        self, status: int, error: str, where: str = "", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, error, headers)
        self.where = where

    def response(self) -> Response:
        """Return the refusal as an answer."""
        error = f"{self.where}: {self.detail}" if self.where else self.detail
        content = Problem(error=error, where=self.where).model_dump_json()
        return Response(content, self.status_code, self.headers, "application/json")


def shown(value: Any) -> str:
    """Return what came as a short text, to be repeated in a refusal."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = "null" if value is None else ascii(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 4]} ..."


class Metrics:
    """Counts of requests and rows for Prometheus."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        ProcessCollector(registry=registry)
        labels = ("method", "path", "status")
        self.requests = Counter("shear_requests", "Requests answered.", labels, registry=registry)
        self.open_requests = Gauge(
            "shear_open_requests", "Requests in progress.", registry=registry
        )
        self.open_bytes = Gauge(
            "shear_open_bytes", "Bytes of requests in progress.", registry=registry
        )
        self.seconds = Histogram(
            "shear_explain_seconds",
            "Seconds to answer POST /explain, waiting included.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )
        self.block_rows = Histogram(
            "shear_block_rows",
            "Rows explained together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 1024),
            registry=registry,
        )
        self.evaluations = Counter(
            "shear_evaluations", "Model evaluations for requests.", registry=registry
        )


@dataclass(eq=False)
class Guard:
    """An ASGI application that lets requests through to another."""

    app: ASGIApp
    limits: Limits
    metrics: Metrics
    token: str | None
    hosts: Collection[str] | None  #: that requests may name; None: any
    paths: Collection[str]  #: that there are, to count by
    open_requests: int = 0
    open_bytes: int = 0  #: of the bodies of open requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        started = time.perf_counter()
        status = 500
        scope["bytes"] = 0  #: of its body

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        self.open_requests += 1
        self.metrics.open_requests.set(self.open_requests)
        try:
            self._check(scope)
            if (scope["method"], scope["path"]) == ("POST", "/explain"):
                receive = self._limited(scope, receive)
            await self.app(scope, receive, sent)
        except RequestError as error:
            await error.response()(scope, receive, sent)
        finally:
            self.open_requests -= 1
            self._count(-scope["bytes"])
            self.metrics.open_requests.set(self.open_requests)
            path = scope["path"] if scope["path"] in self.paths else "other"
            method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
            self.metrics.requests.labels(method, path, status).inc()
            if path == "/explain":
                self.metrics.seconds.observe(time.perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        """Raise if a request may not be answered, whatever its body is."""
        headers = dict(scope["headers"])
        self._check_host(headers.get(b"host", b"").decode("latin-1"))
        if scope["path"] not in WITHOUT_TOKEN:
            self._check_token(headers.get(b"authorization", b""))
        if scope["path"] != "/healthz" and self.open_requests > self.limits.requests:
            raise _busy(f"{self.limits.requests} requests at the same time, got one more")

    def _check_host(self, host: str) -> None:
        if self.hosts is None:
            return
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name.strip("[]").lower() not in self.hosts:
            expected = f"a request to {' or '.join(self.hosts)}"
            raise RequestError(
                403,
                f"expected {expected}, got one to {shown(host)}; try the address shown at the "
                "start",
            )

    def _check_token(self, header: bytes) -> None:
        if self.token is None:
            return
        kind, _, given = header.partition(b" ")
        is_bearer = kind.lower() == b"bearer"
        # compared in a time that does not depend on how much is right
        is_right = hmac.compare_digest(given.strip(), self.token.encode())
        if not is_bearer or not is_right:
            got = "another token" if header else "no such header"
            raise RequestError(
                401,
                f"expected the header 'Authorization: Bearer TOKEN', got {got}; try the token that "
                "the service was started with",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Return a function that receives a body, or refuses one that is too large or too slow.

        From now on the request has the seconds of the limits: `until` is when they are over, by
        the event loop's clock.
        """
        # a page elsewhere can send text without asking the browser's user, but not JSON
        kind = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
        if kind.partition(";")[0].strip().lower() != "application/json":
            expected = "the header 'Content-Type: application/json'"
            raise RequestError(415, f"expected {expected}, got {shown(kind)}")

        limits = self.limits
        scope["until"] = asyncio.get_running_loop().time() + limits.seconds
        more = True

        async def limited() -> Message:
            nonlocal more
            if not more:  # what follows is the end of the connection, whenever that is
                return await receive()
            try:
                async with asyncio.timeout_at(scope["until"]):
                    message = await receive()
            except TimeoutError as error:
                raise RequestError(
                    408, f"expected a complete body within {limits.seconds:g} s, got a part of it"
                ) from error
            self._hold(scope, len(message.get("body", b"")))
            more = message.get("more_body", False)
            return message

        return limited

    def _hold(self, scope: Scope, size: int) -> None:
        """Count some bytes of a request's body until it is answered; raise if they are too many."""
        limits = self.limits
        scope["bytes"] += size
        self._count(size)
        if scope["bytes"] > limits.body:
            raise RequestError(
                413,
                f"expected a body of at most {limits.body} bytes, got more; try fewer rows in "
                "a request, or shear explain for a whole file",
            )
        if self.open_bytes > max(limits.bodies, limits.body):
            raise _busy(f"{limits.bodies} bytes of all requests at the same time, got more")

    def _count(self, size: int) -> None:
        self.open_bytes += size
        self.metrics.open_bytes.set(self.open_bytes)


def _busy(most: str) -> RequestError:
    """Return the refusal of a request that would be answered at another time."""
    return RequestError(
        503,
        f"expected at most {most}; try again in {RETRY_SECONDS} s",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )
