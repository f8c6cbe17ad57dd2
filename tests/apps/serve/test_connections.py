"""What clients can do to a service without a single complete request, and with too many."""

import json
import resource
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

from folder_jobs import wait_for
from shearshap.apps.jobs import Job
from shearshap.apps.serve import Limits, Service
from shearshap.apps.serve.connections import backlog, max_connections

HALF = b"GET /healthz HTTP/1.1\r\nHost: local"
POST = b"POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("served")
    (folder / "score.py").write_text("def predict(rows):\n    return rows.a * rows.b\n")
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 7.0]}).to_csv(
        folder / "rows.csv", index=False
    )
    data = folder / "rows.csv"
    return Job(model=f"{folder / 'score.py'}:predict", data=data, background=f"mean:{data}")


@contextmanager
def served(job: Job, **limits: Any) -> Iterator[httpx.Client]:
    service = Service(job=job, port=0, limits=Limits(**limits))
    with service.running() as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def connected(client: httpx.Client, start: bytes = b"") -> socket.socket:
    """A connection that has sent the start of a request."""
    url = client.base_url
    connection = socket.create_connection((url.host, url.port or 80), timeout=60)
    connection.sendall(start)
    return connection


def rest(connection: socket.socket) -> bytes:
    """All that is received until the other side closes the connection."""
    received = b""
    with connection, suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            received += piece
    return received


def body(count: int) -> bytes:
    return json.dumps({"rows": [{"a": 1.0, "b": 2.0}] * count}).encode()


def explain(client: httpx.Client, count: int = 1) -> httpx.Response:
    headers = {"Content-Type": "application/json"}
    return client.post("/explain", content=body(count), headers=headers)


# Too slow


@pytest.mark.parametrize("start", [b"", b"\r\n", b"GET /", HALF, WHOLE + HALF])
def test_headers_that_do_not_arrive_are_given_up(job: Job, start: bytes) -> None:
    with served(job, seconds=0.2) as client:
        answer = rest(connected(client, start))
        assert answer.startswith(b"HTTP/1.1 200") == start.startswith(WHOLE)


def test_headers_that_arrive_byte_by_byte_are_given_up(job: Job) -> None:
    with served(job, seconds=0.2) as client, connected(client, HALF) as slow:
        is_over = threading.Event()

        def drip() -> None:
            with suppress(ConnectionError):
                while not is_over.wait(0.01):
                    slow.sendall(b"x")

        with ThreadPoolExecutor() as pool:
            pool.submit(drip)
            assert rest(slow) == b""
            is_over.set()


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (POST + b"Content-Length: 50\r\n\r\n{", 408),
        (POST.replace(b"json", b"text") + b"Content-Length: 50\r\n\r\n{", 415),
        (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{", 405),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 200),
    ],
)
def test_a_body_that_does_not_arrive_ends_the_connection(
    job: Job, start: bytes, status: int
) -> None:
    with served(job, seconds=0.2) as client:
        assert rest(connected(client, start)).startswith(b"HTTP/1.1 %d" % status)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_client_that_does_not_read_is_given_up(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shearshap.apps.serve.connections.READING_SECONDS", 0.2)
    bound = Service._bound

    def with_small_buffers(service: Service) -> socket.socket:
        port = bound(service)
        port.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return port

    monkeypatch.setattr(Service, "_bound", with_small_buffers)
    with served(job) as client:
        page = len(client.get("/").content)
        before = open_files()
        deaf = connected(client, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 9)
        assert deaf.recv(1)
        wait_for(lambda: open_files() == before + 1)  # without that of the service
        assert len(rest(deaf)) < 9 * page


def test_connections_that_do_their_part_are_kept(job: Job) -> None:
    with served(job, seconds=5) as client, connected(client, WHOLE * 3 + HALF) as one:
        one.sendall(WHOLE[len(HALF) :])
        received = b""
        while received.count(b'{"status":"ok"}') < 4:
            received += one.recv(1 << 16)
        assert client.get("/healthz").status_code == 200


# Too much


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        HALF,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: ",
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nx: ",
        POST + b"Transfer-Encoding: chunked\r\n\r\n1;x=",
    ],
)
def test_headers_without_an_end_are_cut_off(job: Job, start: bytes) -> None:
    with served(job) as client, connected(client, start) as endless:
        with suppress(ConnectionError):
            while True:
                endless.sendall(b"x" * 4096)
        answer = rest(endless)
        assert b"expected at most 65536 bytes of headers" in answer or not answer
        assert explain(client).status_code == 200


def test_requests_do_not_queue_without_end(job: Job) -> None:
    with served(job) as client, connected(client) as greedy:
        with suppress(ConnectionError):
            while True:
                greedy.sendall(WHOLE * 500)
        answers = rest(greedy)
        assert answers.count(b"HTTP/1.1 200") < 500
        assert client.get("/healthz").status_code == 200


def test_a_new_connection_closes_the_one_that_is_idle_for_longest(job: Job) -> None:
    with served(job, connections=5) as client, ExitStack() as stack:
        halves = [stack.enter_context(connected(client, HALF)) for _ in range(20)]
        for _ in range(3):
            assert httpx.get(client.base_url.join("/healthz")).status_code == 200
        assert [rest(each) for each in halves[:16]] == [b""] * 16


def begun(client: httpx.Client) -> socket.socket:
    """A connection whose request is being answered: its body is asked for."""
    length = b"Content-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    connection = connected(client, POST + length % len(body(20)))
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 Continue")
    return connection


def test_a_connection_too_many_is_refused_at_once(job: Job) -> None:
    with served(job, connections=2) as client:
        busy = [begun(client) for _ in range(2)]
        refused = rest(connected(client))
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 1" in refused
        for each in busy:
            each.sendall(body(20))
            assert rest(each).startswith(b"HTTP/1.1 200")
        assert client.get("/healthz").status_code == 200


def test_connections_are_no_more_than_the_files_that_may_be_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for files, most in {256: 128, 1024: 704, 1 << 20: 1_100, resource.RLIM_INFINITY: 1_100}.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert max_connections(Limits()) == most
        assert 32 <= backlog() <= 1024


def test_the_bytes_of_all_requests_are_limited(job: Job) -> None:
    size = len(body(20))
    with served(job, bodies=3 * size, body=size) as client:
        held = [begun(client) for _ in range(3)]
        for each in held:
            each.sendall(body(20)[:-1])
        count = f"shear_open_bytes {3 * size - 3:.1f}"
        wait_for(lambda: count in client.get("/metrics").text)

        refused = explain(client, 20)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert f"at most {3 * size} bytes of all requests" in refused.json()["error"]
        assert client.get("/rows").status_code == 200

        for each in held:
            each.sendall(body(20)[-1:])
            assert rest(each).startswith(b"HTTP/1.1 200")
        assert [explain(client, 20).status_code for _ in range(6)] == [200] * 6
        assert explain(client, 21).status_code == 413
        assert "shear_open_bytes 0.0" in client.get("/metrics").text
