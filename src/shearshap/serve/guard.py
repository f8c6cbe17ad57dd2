"""What every request passes before it is answered: counts, hosts, tokens and sizes of bodies.

A service on this machine's loopback needs no token. But any page that a browser has open could send
it requests, under a name that is made to lead here. So such a service answers only to loopback's
own names.
"""

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass
from typing import Any

from shearshap.serve.limits import Limits, Refusal, shown
from shearshap.serve.monitoring import Monitor

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")

WITHOUT_TOKEN = ("/", "/healthz")
"""Addresses that tell nothing of the model or the rows: the bare page, and whether it lives."""

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

RETRY_SECONDS = 1

LOG = logging.getLogger("shearshap.serve")


@dataclass(eq=False)
class Guard:
    """An ASGI application that lets requests through to another."""

    app: App
    limits: Limits
    monitor: Monitor
    token: str | None
    hosts: Collection[str] | None  #: that requests may name; None: any
    paths: Collection[str]  #: that there are, to count by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        started = time.perf_counter()
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            await self._answer(scope, receive, sent, self.monitor.began())
        except Refusal as refusal:
            await _refuse(refusal, sent)
        except Exception:
            LOG.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise
            failure = Refusal(500, "an answer", "an error of the service itself", "its log")
            await _refuse(failure, sent)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
            self.monitor.ended(method, path, status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, open_now: int) -> None:
        headers = dict(scope["headers"])
        self._check_host(headers.get(b"host", b"").decode("latin-1"))
        if scope["path"] not in WITHOUT_TOKEN:
            self._check_token(headers.get(b"authorization", b""))
        if scope["path"] != "/healthz" and open_now > self.limits.requests:
            raise Refusal(
                503,
                f"at most {self.limits.requests} requests at the same time",
                "one more",
                f"again in {RETRY_SECONDS} s",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        await self.app(scope, receive, send)

    def _check_host(self, host: str) -> None:
        if self.hosts is None:
            return
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name.strip("[]").lower() not in self.hosts:
            wanted = f"a request to {' or '.join(self.hosts)}"
            raise Refusal(403, wanted, f"one to {shown(host)}", "the address shown at the start")

    def _check_token(self, header: bytes) -> None:
        if self.token is None:
            return
        kind, _, given = header.partition(b" ")
        is_bearer = kind.lower() == b"bearer"
        # compared in a time that does not depend on how much is right
        is_right = hmac.compare_digest(given.strip(), self.token.encode())
        if is_bearer and is_right:
            return
        raise Refusal(
            401,
            "the header 'Authorization: Bearer TOKEN'",
            "another token" if header else "no such header",
            "the token that the service was started with",
            headers={"WWW-Authenticate": "Bearer"},
        )


async def _refuse(refusal: Refusal, send: Send) -> None:
    """Send a refusal as the answer."""
    body = refusal.body()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(key.lower().encode(), value.encode()) for key, value in refusal.headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
