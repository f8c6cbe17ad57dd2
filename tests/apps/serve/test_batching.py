"""Requests that come together share blocks; slow ones end at their time limit."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from clock import PATIENCE, Watch
from folder_jobs import wait_for
from shearshap import Explanation
from shearshap.apps.jobs import Job
from shearshap.apps.serve import Limits, Service, batching
from shearshap.apps.serve.batching import Batcher
from shearshap.apps.serve.guard import Metrics
from shearshap.errors import ModelError

# A model that answers at once


def explained(rows: Any) -> Explanation:
    """Return an explanation in which a row's prediction is the row."""
    zeros = np.zeros(len(rows))
    return Explanation(zeros[:, None], zeros, np.array(rows), None, 2, 0, "stub", 0)


def predictions(future: "Future[list[Explanation]]") -> list[float]:
    return [float(row) for part in future.result(PATIENCE) for row in part.predictions]


@contextmanager
def batcher(explain: Callable[[Any, int, Any], Explanation]) -> Iterator[Any]:
    made = Batcher(explain, Metrics())
    made.start()
    yield made
    made.close()


def test_a_row_that_the_model_cannot_take_does_not_harm_its_neighbours() -> None:
    def explain(rows: Any, _budget: int, _advance: Any) -> Explanation:
        if any(row < 0 for row in rows):
            raise ModelError("negative")
        return explained(rows)

    with batcher(explain) as made:
        futures = [made.submit([number], 8) for number in (1, -2, 3)]
        assert predictions(futures[0]) == [1.0]
        with pytest.raises(ModelError, match="negative"):
            futures[1].result(PATIENCE)
        assert predictions(futures[2]) == [3.0]


def test_a_bug_fails_its_requests_and_not_the_next(caplog: pytest.LogCaptureFixture) -> None:
    def explain(rows: Any, _budget: int, _advance: Any) -> Explanation:
        if rows[0] < 0:
            raise RuntimeError("a bug")
        return explained(rows)

    with batcher(explain) as made:
        with pytest.raises(RuntimeError, match="a bug"):
            made.submit([-1], 8).result(PATIENCE)
        assert predictions(made.submit([4], 8)) == [4.0]
    assert "a block could not be explained" in caplog.text


def test_requests_of_other_budgets_are_other_blocks() -> None:
    blocks: list[tuple[int, int]] = []
    gate = threading.Event()
    begun = threading.Event()

    def explain(rows: Any, budget: int, _advance: Any) -> Explanation:
        begun.set()
        assert gate.wait(PATIENCE)
        blocks.append((budget, len(rows)))
        return explained(rows)

    with batcher(explain) as made:
        gate.set()
        for budget in (8, 9):  # of which it is then known that rows take little time
            made.submit([0] * 20, budget).result(PATIENCE)
        blocks.clear()
        gate.clear()
        begun.clear()
        futures = [made.submit([0], 1)]
        assert begun.wait(PATIENCE)
        futures += [made.submit([number] * number, 8 + number % 2) for number in (1, 2, 3, 4)]
        cancelled = made.submit([9], 8)
        assert cancelled.cancel()
        gate.set()
        assert [predictions(each) for each in futures[2:]] == [[2] * 2, [3] * 3, [4] * 4]
    assert blocks == [(1, 1), (9, 4), (8, 6)]


# Blocks take time by a clock that only they move


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    # requests gather by the real clock, whose time does not matter here
    clocks = SimpleNamespace(monotonic=time.monotonic, perf_counter=watch.perf_counter)
    monkeypatch.setattr(batching, "time", clocks)
    return watch


@pytest.mark.parametrize("budget", [8, 9])
def test_a_small_request_waits_for_one_turn_of_a_large_one(pace: Watch, budget: int) -> None:
    blocks: list[int] = []
    waits: list[int] = []  #: rows that are explained while a small request is open

    def explain(rows: Any, _budget: int, _advance: Any) -> Explanation:
        pace.now += 0.1 * len(rows)
        if len(blocks) in (5, 15, 25):
            before = sum(blocks)
            small = made.submit([0], budget)
            small.add_done_callback(lambda _: waits.append(sum(blocks) - before))
        blocks.append(len(rows))
        return explained(rows)

    with batcher(explain) as made:
        assert len(predictions(made.submit(range(100), 8))) == 100
    assert len(waits) == 3
    assert max(waits) <= 6  # of 100


def test_requests_share_blocks_if_it_is_the_block_that_takes_long(pace: Watch) -> None:
    blocks: list[int] = []
    waiting: list[Future[list[Explanation]]] = []

    def explain(rows: Any, _budget: int, _advance: Any) -> Explanation:
        pace.now += 0.05
        if not blocks:
            waiting.extend(made.submit([number], 8) for number in range(60))
        blocks.append(len(rows))
        return explained(rows)

    with batcher(explain) as made:
        made.submit([0], 8).result(PATIENCE)
        assert [predictions(each) for each in waiting] == [[number] for number in range(60)]
    assert len(blocks) <= 6


# A model that takes its time

BUDGET = 40
BATCH = 20  #: evaluations of a model call, which cannot be stopped
EVALUATION = 0.0025  #: seconds, once the model is slow
ROW = BUDGET * EVALUATION

# it is slow once there is a file SLOW, and it writes down how many rows it is asked about
MODEL = f"""
import time
from pathlib import Path

HERE = Path(__file__).parent

def predict(rows):
    if (HERE / "SLOW").exists():
        time.sleep({EVALUATION} * len(rows))
        with (HERE / "asked").open("a") as file:
            file.write("x" * len(rows))
    return rows.a * rows.b + rows.c * rows.d + rows.e * rows.f + rows.g * rows.h
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(30, 8)), columns=list("abcdefgh")).to_csv(
        tmp_path / "rows.csv", index=False
    )
    return tmp_path


def evaluations(folder: Path) -> int:
    """Return how often the model has been evaluated since it is slow."""
    file = folder / "asked"
    return file.stat().st_size if file.exists() else 0


@contextmanager
def serving(
    folder: Path, *, batch_size: int | None = BATCH, **limits: Any
) -> Iterator[httpx.Client]:
    """Serve a model that is slow from the first request on."""
    job = Job(
        model=f"{folder / 'model.py'}:predict",
        data=folder / "rows.csv",
        background=f"mean:{folder / 'rows.csv'}",
        budget=BUDGET,
        batch_size=batch_size,
    )
    service = Service(job=job, port=0, limits=Limits(**limits))
    with service.running() as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        (folder / "SLOW").touch()
        yield client


def rows(count: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(1)
    return [dict(zip("abcdefgh", map(float, row), strict=True)) for row in rng.normal(size=(count, 8))]  # fmt: skip


def asked_meanwhile(client: httpx.Client, body: dict[str, Any], folder: Path) -> int:
    """Return how often the model is evaluated, for all, while a request waits that must succeed."""
    before = evaluations(folder)
    answer = client.post("/explain", json=body)
    assert answer.status_code == 200, answer.text
    return evaluations(folder) - before


@contextmanager
def at_work(client: httpx.Client, many: list[dict[str, float]], folder: Path) -> Iterator[None]:
    """Send a request, and hang up in the end; in between, the model is at work on it."""
    request = client.build_request("POST", "/explain", json={"rows": many})
    host, port = request.url.host, request.url.port
    head = f"POST /explain HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(request.content)}\r\n\r\n"
    before = evaluations(folder)
    with socket.create_connection((host, port or 80), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + request.content)
        wait_for(lambda: evaluations(folder) > before)
        yield


def assert_rests(folder: Path, allowed: int) -> None:
    """Check that the model is evaluated a few times more at most, and then no more."""
    now = evaluations(folder)
    before = -1
    while before != evaluations(folder):
        before = evaluations(folder)
        assert before - now <= allowed
        time.sleep(3 * ROW)


@pytest.mark.slow
def test_small_requests_are_answered_while_a_large_one_is_at_work_and_it_ends_with_its_client(
    folder: Path,
) -> None:
    small = {"rows": rows(1)}
    with serving(folder) as client:
        alone = asked_meanwhile(client, small, folder)
        with at_work(client, rows(1000), folder):  # 100 s, which is longer than requests may take
            for budget in (BUDGET, BUDGET - 2):
                asked_meanwhile(client, small | {"budget": budget}, folder)
        assert_rests(folder, allowed=900 * BUDGET)  # it is seen when the model is asked next
        assert asked_meanwhile(client, small, folder) <= alone


@pytest.mark.slow
def test_a_large_request_that_shares_its_time_has_the_answer_of_its_rows_alone(
    folder: Path,
) -> None:
    many = rows(12)
    with serving(folder) as client, ThreadPoolExecutor() as pool:
        large = pool.submit(client.post, "/explain", json={"rows": many})
        wait_for(lambda: evaluations(folder) > 0)
        alone = [client.post("/explain", json={"rows": [row]}).json() for row in many[::5]]
        whole = large.result(PATIENCE).json()
    assert len(whole["explanations"]) == len(many)
    for single, expected in zip(alone, whole["explanations"][::5], strict=True):
        (own,) = single["explanations"]
        np.testing.assert_allclose(own["values"], expected["values"], atol=1e-9)
        np.testing.assert_allclose(own["standard_errors"], expected["standard_errors"], atol=1e-9)


@pytest.mark.slow
def test_even_a_single_row_ends_at_the_time_limit(folder: Path) -> None:
    with serving(folder, seconds=0.5) as client:
        answer = client.post("/explain", json={"rows": rows(1), "budget": 6 * BUDGET})
        assert answer.status_code == 504
        assert "expected an answer within 0.5 s, got none yet" in answer.json()["error"]
        assert_rests(folder, allowed=BATCH)


HANGS = """
import time
from pathlib import Path

HERE = Path(__file__).parent

def predict(rows):
    while (HERE / "SLOW").exists() and not (HERE / "go").exists():
        (HERE / "begun").touch()
        time.sleep(0.01)
    (HERE / "ended").touch()
    return rows.a
"""
"""A model that hangs from the first request on, until there is a file."""


@pytest.fixture
def hanging(folder: Path) -> Iterator[Path]:
    (folder / "model.py").write_text(HANGS)
    yield folder
    (folder / "go").touch()


def test_reading_and_explaining_share_one_time_limit(
    hanging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 0.0  #: seconds by which the clock of the service's event loop is put forward
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: time.monotonic() + ahead)
    body = httpx.Request("POST", "http://x", json={"rows": rows(1)}).content

    def slowly() -> Iterator[bytes]:
        nonlocal ahead
        yield body[:10]
        wait_for(lambda: "shear_open_requests 2.0" in client.get("/metrics").text)
        ahead += 400
        yield body[10:]

    with serving(hanging, seconds=600) as client, ThreadPoolExecutor() as pool:
        (hanging / "ended").unlink(missing_ok=True)
        headers = {"Content-Type": "application/json"}
        late = pool.submit(client.post, "/explain", content=slowly(), headers=headers)
        wait_for((hanging / "begun").exists)
        assert not late.done()
        ahead += 400
        client.get("/healthz")  # the service looks at its clock
        answer = late.result(PATIENCE)
        assert not (hanging / "ended").exists()
        (hanging / "go").touch()
    assert answer.status_code == 504
    assert "expected an answer within 600 s, got none yet" in answer.json()["error"]


def test_a_request_has_a_limit_of_evaluations_but_a_usual_row_is_taken(folder: Path) -> None:
    with serving(folder, evaluations=10) as client:
        assert client.get("/about").json()["budget"]["maximum"] == BUDGET
        assert client.post("/explain", json={"rows": rows(1)}).status_code == 200
    (folder / "SLOW").unlink()
    (folder / "asked").unlink()
    with serving(folder, evaluations=10 * BUDGET) as client:
        about = client.get("/about").json()
        assert about["most_evaluations"] == 10 * BUDGET
        refused = client.post("/explain", json={"rows": rows(11)})
        assert refused.status_code == 422
        assert refused.json()["where"] == "rows"
        assert "expected at most 400 evaluations" in refused.json()["error"]
        assert "try at most 10 rows" in refused.json()["error"]
        assert evaluations(folder) == 0
        assert client.post("/explain", json={"rows": rows(1), "budget": 20}).status_code == 200


SERVE = """
import sys
from shearshap.__main__ import main
from shearshap.apps.serve import server

server.MAX_GRACE = 1.0  # seconds
sys.argv[1:1] = ["serve", "--background", "mean:rows.csv", "--port", "0"]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_service_although_a_large_request_is_at_work(
    folder: Path, number: signal.Signals
) -> None:
    given = ["--model", "model.py:predict", "--data", "rows.csv", "--budget", str(BUDGET)]
    with (
        subprocess.Popen(
            [sys.executable, "-c", SERVE, *given],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as service,
        ThreadPoolExecutor() as pool,
    ):  # fmt: skip
        assert service.stdout is not None
        lines = [""]
        while not lines[-1].startswith("API"):
            lines.append(next(service.stdout))
        assert "rows loaded 30 of rows.csv, 8 features\n" in lines
        address = lines[-1].split()[1].removesuffix("/openapi.json")
        (folder / "SLOW").touch()
        large: Future[httpx.Response] = pool.submit(
            httpx.post, f"{address}/explain", json={"rows": rows(1000)}, timeout=120
        )
        wait_for(lambda: evaluations(folder) > 0)
        service.send_signal(number)
        code = service.wait(PATIENCE)  # of 100 s that the whole request would take
        refused = large.result(PATIENCE)
    assert code in (0, -number)
    assert refused.status_code == 503
    assert "got a service that is being stopped" in refused.json()["error"]


def test_a_model_that_hangs_does_not_hold_up_the_end(hanging: Path) -> None:
    with serving(hanging, seconds=0.5) as client:
        (hanging / "ended").unlink(missing_ok=True)
        assert client.post("/explain", json={"rows": rows(1)}).status_code == 504
    assert not (hanging / "ended").exists()
