"""Starting the service: it reads files, prepares the model, and listens on a port."""

import gc
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import ip_address
from math import ceil
from typing import TYPE_CHECKING

from shearshap.apps.jobs import Job
from shearshap.apps.jobs.models import exits_as_errors, importing, restore_cwd
from shearshap.errors import InputError
from shearshap.result.text import counted

if TYPE_CHECKING:
    from uvicorn import Server

    from shearshap.apps.serve.prepared import Prepared

MIN_TOKEN = 16  #: characters

MAX_GRACE = 10.0  #: seconds

MAX_HEAD_SECONDS = 10.0

NEEDED = ("fastapi", "prometheus_client", "uvicorn", "pandas", "pyarrow")

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a service.

    Parameters
    ----------
    body
        Bytes per request.
    rows
        Rows per request.
    budget
        Model evaluations per row; None: ten times the default budget.
    evaluations
        Model evaluations per request, rows x budget. One row at the default budget is always
        accepted.
    requests
        Requests at the same time, including those that wait; further requests get 503.
    seconds
        Seconds that a request may take, including waiting. After that it is stopped.
    bodies
        Bytes of all requests at the same time; further requests get 503. A request takes up to 60
        times its bytes of memory until it is answered.
    connections
        Open connections, also those without a request. For a further one, the one that has been
        without a request for longest is closed; if all have one, it gets 503.
    """

    body: int = 1 << 20
    rows: int = 1_000
    budget: int | None = None
    evaluations: int = 1_000_000
    requests: int = 1_000
    seconds: float = 30.0
    bodies: int = 16 << 20
    connections: int = 1_100

    @property
    def head_seconds(self) -> float:
        """Seconds that a connection has to send the headers of a request."""
        return min(MAX_HEAD_SECONDS, self.seconds)

    @property
    def grace(self) -> float:
        """Seconds that open requests have when the service stops, and then the block at work."""
        return min(MAX_GRACE, self.seconds / 2)


@dataclass(frozen=True, kw_only=True)
class Service:
    """A web page and an API that explain rows on request.

    Parameters
    ----------
    job
        The model, the rows to load, the background and all options but `interactions` and `loss`.
        No file is written.
    host, port
        Where to listen. Any host other than loopback needs a token.
    token
        What requests must contain, in the header "Authorization: Bearer TOKEN".
    limits
        The limits of a request.
    sample
        How many of the loaded rows are explained at the start.
    """

    job: Job
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    limits: Limits = field(default_factory=Limits)
    sample: int = 200

    def run(self, say: Callable[[str], None] = print) -> None:
        """Serve until interrupted; `say` is called with the address once it is ready."""
        with self._opened() as (prepared, port):
            # what is loaded by now stays: to look through it again and again delays requests
            gc.collect()
            gc.freeze()
            say(self._summary(prepared, self._address(port)))
            with suppress(KeyboardInterrupt):  # which is how it ends
                self._server(prepared).run(sockets=[port])

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve from a thread within a `with` block, and yield the address."""
        with self._opened() as (prepared, port):
            server = self._server(prepared)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [port]})
            thread.start()
            while thread.is_alive() and not server.started:
                time.sleep(0.01)
            try:
                yield self._address(port)
            finally:
                server.should_exit = True
                thread.join()

    def check(self) -> None:
        """Raise, before any work is done, if the service could not be started."""
        for library in NEEDED:
            if find_spec(library) is None:
                raise InputError(f"shear serve needs {library}: pip install 'shearshap[serve]'")
        if self.job.interactions:
            raise InputError(
                "interactions: a service does not answer with interactions; leave the option out, "
                "or write them with shear explain"
            )
        if self.job.loss is not None:
            raise InputError(
                "loss: the rows of requests have no labels; explain rows that have some with shear "
                "explain --loss"
            )
        if self.token is not None and len(self.token) < MIN_TOKEN:
            raise InputError(
                f"token: expected at least {MIN_TOKEN} characters, got {len(self.token)}; try "
                f"{secrets.token_urlsafe(24)}"
            )
        if self.token is not None and not self.token.isascii():
            raise InputError("token: expected ASCII characters, which every client sends alike")
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"host: others can reach {self.host}, so a token is needed; add --token "
                f"{secrets.token_urlsafe(24)}, or listen on 127.0.0.1"
            )

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """The names under which requests may come; None: any, since they need a token."""
        return None if self.token is not None else tuple(dict.fromkeys((*LOOPBACK, self.host)))

    @contextmanager
    def _opened(self) -> Iterator[tuple["Prepared", socket.socket]]:
        """Listen on the port, and prepare the model."""
        self.check()
        job = self.job
        # the port first: to prepare the model may take long
        with self._bound() as port, importing(job.model):
            with exits_as_errors(job.model_name), restore_cwd():
                from shearshap.apps.serve.prepared import prepare

                prepared = prepare(job, sample=self.sample)
            yield prepared, port

    def _bound(self) -> socket.socket:
        """Return a socket at the host and port, or raise."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=1024)
        except OSError as error:
            raise InputError(
                f"port: cannot bind to {self.host}:{self.port}: {error.strerror or error}; "
                "try another --port, or 0 for any that is free"
            ) from error

    def _address(self, port: socket.socket) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{port.getsockname()[1]}"

    def _server(self, prepared: "Prepared") -> "Server":
        import uvicorn

        from shearshap.apps.serve.app import make_app
        from shearshap.apps.serve.connections import IDLE_SECONDS, backlog, connection_class

        config = uvicorn.Config(
            make_app(prepared, self.limits, token=self.token, hosts=self.hosts),
            http=connection_class(self.limits),
            ws="none",
            backlog=backlog(),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=ceil(self.limits.grace),
        )
        return uvicorn.Server(config)

    def _summary(self, prepared: "Prepared", address: str) -> str:
        features = counted(len(prepared.features), "feature")
        budget = prepared.explainer.budget
        facts = {
            "model": prepared.model,
            "rows loaded": f"{len(prepared.rows):,} of {self.job.data}, {features}",
            "background": prepared.background,
            "method": f"{prepared.overview.method}, {budget} evaluations per row",
            **{f"note {n}": note for n, note in enumerate(prepared.notes, 1)},
            "page": f"{address}/",
            "API": f"{address}/openapi.json",
        }
        return "\n".join(f"{name:<11} {fact}" for name, fact in facts.items())


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
