"""The service: its answers are the explainer's, its refusals are plain, and its page moves."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pandas as pd
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, settings
from typer.testing import CliRunner

import browser
from shearshap import Auto, Explainer
from shearshap.cli import app as command
from shearshap.errors import InputError, ModelError
from shearshap.jobs import Job
from shearshap.serve import Limits, Service, encoding
from shearshap.serve.app import make_app
from shearshap.serve.batching import Batcher
from shearshap.serve.encoding import ColumnEncoding, FrameEncoding
from shearshap.serve.features import cells_of, checked_rows, features_of, frame_of, plain_rows
from shearshap.serve.guard import LOOPBACK
from shearshap.serve.limits import Refusal
from shearshap.serve.live_page import document
from shearshap.serve.monitoring import Monitor
from shearshap.serve.prepared import Answers, Prepared, prepare
from shearshap.serve.server import is_loopback
from shearshap_lab import data as paper_data
from shearshap_lab import networks

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ORIGIN = "http://127.0.0.1"
TOKEN = "correct-horse-battery-staple"

SCORE = """
def predict(rows):
    pay = rows["pay"].fillna(30.0)
    if (rows["city"] == "Atlantis").any():
        raise ValueError("there is no such city")
    score = rows["age"] / 10 * (rows["city"] == "Rome") + pay * rows["debt"] / 100
    return score + rows["late"] * rows["loans"] - rows["years"] * rows["homes"] / 4
"""


def table(count: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, count),
            "pay": rng.normal(40, 10, count).round(2),
            "debt": rng.gamma(2, 5, count).round(2),
            "city": rng.choice(["Bern", "Oslo", "Rome"], count),
            "late": rng.random(count) < 0.5,
            "loans": rng.integers(0, 5, count),
            "years": rng.integers(0, 30, count),
            "homes": rng.integers(0, 3, count),
        }
    )
    frame.loc[7, "pay"] = np.nan
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served")
    (place / "score.py").write_text(SCORE)
    table().to_csv(place / "rows.csv", index=False)
    return place


def job(folder: Path, **options: Any) -> Job:
    given: dict[str, Any] = {"model": f"{folder / 'score.py'}:predict"}
    given |= {"data": folder / "rows.csv"} | options
    return Job(out=folder / "values.parquet", **given)


@pytest.fixture(scope="module")
def prepared(folder: Path) -> Prepared:
    return prepare(job(folder, background="median"))


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Serve an application from a thread, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [port]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def address(prepared: Prepared) -> Iterator[str]:
    with listening(make_app(prepared, Limits(rows=50, body=20_000), hosts=LOOPBACK)) as place:
        yield place


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def rows(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/rows", params={"limit": 50}).json()["rows"]
    return found


def explained(client: httpx.Client, *rows: Any, **options: Any) -> dict[str, Any]:
    answer = client.post("/explain", json={"rows": rows, **options})
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def problem(answer: httpx.Response) -> str:
    """Return the sentence of a refusal, whose form is always the same."""
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert list(content) == ["error", "where", "wanted", "got", "try"]
    assert content["wanted"] in content["error"]
    assert content["got"] in content["error"]
    return str(content["error"])


# Answers


def test_a_row_has_the_values_of_the_explainer(
    folder: Path, prepared: Prepared, client: httpx.Client, rows: list[dict[str, Any]]
) -> None:
    namespace: dict[str, Any] = {}
    exec((folder / "score.py").read_text(), namespace)
    frame = pd.read_csv(folder / "rows.csv")
    method = Auto(calibration=prepared.overview.calibration)
    explainer = Explainer(namespace["predict"], ("median", frame), method=method)
    expected = explainer(frame, budget=64)

    answer = explained(client, *rows[:5], budget=64)
    assert answer["features"] == list(frame.columns)
    assert answer["outputs"] == prepared.outputs
    assert answer["method"] == "kriging"
    assert answer["budget"] == 64
    for number, own in enumerate(answer["explanations"]):
        np.testing.assert_allclose(own["values"], [expected.values[number]], atol=1e-9)
        assert expected.standard_errors is not None
        np.testing.assert_allclose(
            own["standard_errors"], [expected.standard_errors[number]], atol=1e-9
        )
        np.testing.assert_allclose(own["prediction"], [expected.predictions[number]])
        np.testing.assert_allclose(own["base_value"], [expected.base_values[number]])
        total = own["base_value"][0] + sum(own["values"][0])
        assert total == pytest.approx(own["prediction"][0])
        assert own["evaluations"] <= 64


def test_rows_that_come_together_have_the_answers_of_rows_alone(
    client: httpx.Client, rows: list[dict[str, Any]]
) -> None:
    alone = [explained(client, row, budget=64)["explanations"][0] for row in rows[:24]]
    before = _blocks(client)
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda row: explained(client, row, budget=64), rows[:24]))
    after = _blocks(client)
    assert after["rows"] - before["rows"] == 24
    assert after["blocks"] - before["blocks"] < 24
    for expected, answer in zip(alone, answers, strict=True):
        (own,) = answer["explanations"]
        np.testing.assert_allclose(own["values"], expected["values"], atol=1e-10)
        np.testing.assert_allclose(own["standard_errors"], expected["standard_errors"], atol=1e-9)
        assert own["evaluations"] == expected["evaluations"]


def _blocks(client: httpx.Client) -> dict[str, float]:
    text = client.get("/metrics").text
    names = {"rows": "shear_block_rows_sum", "blocks": "shear_block_rows_count"}
    return {
        word: float(re.search(rf"^{name} (.+)$", text, re.MULTILINE)[1])  # type: ignore[index]
        for word, name in names.items()
    }


def test_a_missing_cell_is_null(client: httpx.Client, rows: list[dict[str, Any]]) -> None:
    assert rows[7]["pay"] is None
    (own,) = explained(client, rows[7])["explanations"]
    (same,) = explained(client, rows[7] | {"pay": 30.0})["explanations"]
    assert own["prediction"] == pytest.approx(same["prediction"])


def test_one_of_several_outputs_is_chosen_by_name_or_number(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(
        "import numpy as np\n"
        "def predict(rows):\n    x = rows.to_numpy()\n    return np.stack([x @ [1, 2], x @ [3, -4]], 1)\n"
    )
    pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [0.5, 0.0, 1.0]}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    served = prepare(job(tmp_path, model=f"{tmp_path / 'two.py'}:predict", background="mean"))
    with (
        listening(make_app(served)) as place,
        httpx.Client(base_url=place) as client,
    ):
        row = {"a": 5.0, "b": 1.0}
        every = explained(client, row)
        assert every["outputs"] == served.outputs
        assert len(every["explanations"][0]["values"]) == 2
        by_number = explained(client, row, output=1)
        by_name = explained(client, row, output=served.outputs[1])
        assert by_number == by_name
        assert by_number["outputs"] == served.outputs[1:]
        assert by_number["explanations"][0]["values"] == every["explanations"][0]["values"][1:]
        assert by_number["explanations"][0]["prediction"] == pytest.approx([11.0])
        refused = client.post("/explain", json={"rows": [row], "output": 2})
        assert refused.status_code == 422
        assert "or a number from 0 to 1, got 2" in problem(refused)


def test_the_global_view_is_the_mean_size_of_values(
    prepared: Prepared, client: httpx.Client
) -> None:
    content = client.get("/global").json()
    assert content["rows"] == 60
    expected = np.abs(prepared.overview.values).mean(axis=0)
    np.testing.assert_allclose(content["mean_absolute_values"], [expected])
    ranges = prepared.overview.predictions.min(), prepared.overview.predictions.max()
    np.testing.assert_allclose(content["prediction_ranges"], [ranges])


def test_about_says_what_the_features_are(client: httpx.Client) -> None:
    about = client.get("/about").json()
    kinds = {feature["name"]: feature["kind"] for feature in about["features"]}
    assert kinds == {
        "age": "integer", "pay": "number", "debt": "number", "city": "text",
        "late": "boolean", "loans": "integer", "years": "integer", "homes": "integer",
    }  # fmt: skip
    features = {feature["name"]: feature for feature in about["features"]}
    assert features["city"]["categories"] == ["Bern", "Oslo", "Rome"]
    assert features["pay"]["missing"]
    assert not features["age"]["missing"]
    assert features["age"]["minimum"] == table().age.min()
    assert about["rows"] == 60
    assert about["background"] == "median of the rows explained"
    assert about["budget"] == {"default": 130, "minimum": 4, "maximum": 1300}


def test_a_few_players_have_the_same_answer_below_the_exact_budget_too(tmp_path: Path) -> None:
    (tmp_path / "four.py").write_text(
        "def predict(rows):\n    return rows.a * rows.b + rows.c * rows.d\n"
    )
    rng = np.random.default_rng(1)
    pd.DataFrame(rng.normal(size=(40, 4)), columns=list("abcd")).to_csv(
        tmp_path / "rows.csv", index=False
    )
    served = prepare(job(tmp_path, model=f"{tmp_path / 'four.py'}:predict", background="mean"))
    assert served.overview.method == "exact"
    cells = cells_of(served.rows)
    together = served.explain(cells[:20], 12)
    assert together.method == "kriging"
    for number in (0, 7, 19):
        alone = served.explain(cells[number : number + 1], 12)
        np.testing.assert_allclose(alone.values[0], together.values[number], atol=1e-10)


def test_a_network_of_the_paper_is_explained_by_its_encoded_rows(tmp_path: Path) -> None:
    german = paper_data.load("german")
    networks.save(networks.train(german, steps=60, seed=0), tmp_path / "network")
    german.write(tmp_path / "german.csv")
    network = networks.open_folder(tmp_path / "network")
    assert network is not None
    served = prepare(
        job(
            tmp_path,
            model=str(tmp_path / "network"),
            data=tmp_path / "german.csv",
            budget=64,
        ),
        sample=40,
    )
    cells = cells_of(served.rows)[:6]
    answers = served.explain(cells)
    again = served.explain(cells[3:])  # whose cells are encoded already
    frame = served.rows[:6]
    method = Auto(calibration=served.overview.calibration)
    expected = Explainer(network, network.background_, method=method)(frame, budget=64)
    assert served.outputs == expected.output_names
    np.testing.assert_allclose(answers.values, np.swapaxes(expected.values, 1, 2), atol=1e-6)
    np.testing.assert_allclose(answers.predictions, network.predict_proba(frame), atol=1e-6)
    np.testing.assert_allclose(again.values, answers.values[3:], atol=1e-9)


# Requests that come together


def answers_of(rows: Any) -> Answers:
    numbers = np.array([[float(row[0])] for row in rows])
    return Answers(numbers[:, :, None], None, numbers, numbers, np.full(len(rows), 2), "stub", ())


@contextmanager
def batcher(explain: Callable[[Any, int, Any], Answers]) -> Iterator[Batcher]:
    made = Batcher(explain, Monitor())
    made.start()
    yield made
    made.close()


def test_a_row_that_the_model_cannot_take_does_not_harm_its_neighbours() -> None:
    def explain(rows: Any, _budget: int, _advance: Any) -> Answers:
        if any(row[0] < 0 for row in rows):
            raise ModelError("negative")
        return answers_of(rows)

    with batcher(explain) as made:
        futures = [made.submit([[number]], 8) for number in (1, -2, 3)]
        assert futures[0].result(5).predictions.tolist() == [[1.0]]
        with pytest.raises(ModelError, match="negative"):
            futures[1].result(5)
        assert futures[2].result(5).predictions.tolist() == [[3.0]]


def test_a_bug_fails_its_requests_and_not_the_next(caplog: pytest.LogCaptureFixture) -> None:
    def explain(rows: Any, _budget: int, _advance: Any) -> Answers:
        if rows[0][0] < 0:
            raise RuntimeError("a bug")
        return answers_of(rows)

    with batcher(explain) as made:
        with pytest.raises(RuntimeError, match="a bug"):
            made.submit([[-1]], 8).result(5)
        assert made.submit([[4]], 8).result(5).predictions.tolist() == [[4.0]]
    assert "a block could not be explained" in caplog.text


def test_requests_of_other_budgets_are_other_blocks() -> None:
    blocks: list[tuple[int, int]] = []
    gate = threading.Event()

    def explain(rows: Any, budget: int, _advance: Any) -> Answers:
        gate.wait(5)
        blocks.append((budget, len(rows)))
        return answers_of(rows)

    with batcher(explain) as made:
        gate.set()
        for budget in (8, 9):  # of which it is then known that rows take little time
            made.submit([[0]] * 20, budget).result(5)
        blocks.clear()
        gate.clear()
        futures = [made.submit([[0]], 1)]
        time.sleep(0.05)  # the first is on its way
        futures += [made.submit([[number]] * number, 8 + number % 2) for number in (1, 2, 3, 4)]
        cancelled = made.submit([[9]], 8)
        assert cancelled.cancel()
        gate.set()
        assert [len(future.result(5).values) for future in futures] == [1, 1, 2, 3, 4]
    assert blocks == [(1, 1), (9, 4), (8, 6)]


# Refusals


def hostile(row: dict[str, Any]) -> dict[str, Any]:
    def with_cell(name: str, cell: str) -> bytes:
        text = json.dumps(row | {name: "@"})
        return f'{{"rows": [{text}]}}'.replace('"@"', cell).encode()

    return {
        "NaN": (with_cell("pay", "NaN"), 400, "wanted finite numbers, got NaN; try null"),
        "infinity": (with_cell("pay", "-Infinity"), 400, "got -Infinity"),
        "too large": (with_cell("pay", "1e308"), 422, "rows[0].pay: wanted a finite number from -3"),
        "beyond doubles": (with_cell("pay", "1e999"), 422, "got inf"),
        "large integer": (with_cell("age", "1e308"), 422, "wanted a whole number from -90071"),
        "too many digits": (with_cell("age", "9" * 5000), 400, "numbers of a few digits"),
        "a fraction": (with_cell("age", "39.5"), 422, "rows[0].age: wanted a whole number"),
        "null": (with_cell("age", "null"), 422, "got null; try"),
        "a number as text": (with_cell("age", '"39"'), 422, "got '39'"),
        "truth as number": (with_cell("age", "true"), 422, "got true"),
        "number as truth": (with_cell("late", "1"), 422, "wanted true or false, got 1"),
        "number as text": (with_cell("city", "7"), 422, "wanted a text, got 7"),
        "a list": (with_cell("city", "[[[]]]"), 422, "got a list of 1"),
        "half a character": (with_cell("city", r'"\ud800"'), 422, r"got '\ud800'"),
        "a long text": (with_cell("city", '"' + "x" * 12_000 + '"'), 422, "xxx ..."),
        "what the model refuses": (with_cell("city", '"Atlantis"'), 422, "there is no such city"),
        "deep": (b'{"rows": ' + b"[" * 9_000 + b"]" * 9_000 + b"}", (400, 422), "wanted"),
        "no end": (b"[" * 9_000, 400, "wanted JSON"),
        "no JSON": (b"rows=1", 400, "line 1, column 1: wanted JSON"),
        "empty": (b"", 400, "wanted JSON"),
        "other bytes": (b"\xff\xfe\x00", 400, "wanted JSON in UTF-8, got other bytes"),
        "no object": (b"[]", 422, "wanted an object with rows, got a list of 0"),
        "no rows": (b'{"rows": []}', 422, "rows: wanted a list of 1 to 50 rows, got a list of 0"),
        "rows null": (b"{}", 422, "got null"),
        "too many rows": (b'{"rows": [' + b",".join([b"{}"] * 51) + b"]}", 422, "got 51 rows; try several requests"),
        "a million rows": (b'{"rows": [' + b",".join([b"{}"] * 1_000_000) + b"]}", 413, "wanted a body of at most 20000 bytes, got 3000011 bytes"),
        "row no object": (b'{"rows": [3]}', 422, "rows[0]: wanted an object with a cell for each feature, got 3"),
        "feature missing": (b'{"rows": [{"age": 1}]}', 422, "got a row without 'pay', 'debt'"),
        "feature unknown": (with_cell("age", "1").replace(b'"age"', b'"Age"'), 422, "got a row with 'Age'; try 'age'"),
        "markup": (with_cell("age", '"<script>alert(1)</script>"'), 422, "got '<script>"),
        "other field": (b'{"rows": [{}], "model": "x.pkl"}', 422, "wanted only rows, budget, output, got 'model'"),
        "budget 0": (b'{"rows": [{}], "budget": 0}', 422, "budget: wanted a whole number from 4 to 1300, got 0; try 130"),
        "budget large": (b'{"rows": [{}], "budget": 1e9}', 422, "got 1000000000.0"),
        "budget null": (b'{"rows": [{}], "budget": null}', 422, "got null"),
        "output": (b'{"rows": [{}], "output": "x"}', 422, "output: wanted one of"),
    }  # fmt: skip


NAMES = tuple(hostile(dict.fromkeys(table().columns, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_body_is_refused_in_plain_words(
    name: str, client: httpx.Client, rows: list[dict[str, Any]]
) -> None:
    body, status, words = hostile(rows[0])[name]
    answer = client.post("/explain", content=body, headers={"Content-Type": "application/json"})
    statuses = (status,) if isinstance(status, int) else status
    assert answer.status_code in statuses, answer.text
    assert words in problem(answer)
    assert len(answer.content) < 3_000
    explained(client, rows[0])  # and the service lives


def test_a_body_of_unknown_length_is_cut_off_at_the_limit(client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 1_000

    headers = {"Content-Type": "application/json"}
    answer = client.post("/explain", content=chunks(), headers=headers)
    assert answer.status_code == 413
    assert "got more than 20000 bytes" in problem(answer)


def test_a_body_that_is_not_declared_as_json_is_refused(client: httpx.Client) -> None:
    # a page elsewhere can send text without asking, but not JSON
    answer = client.post("/explain", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert "wanted the header 'Content-Type: application/json', got 'text/plain'" in problem(answer)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/explain", 405, "wanted POST, got 'GET'"),
        ("DELETE", "/rows", 405, "wanted GET, got 'DELETE'"),
        ("GET", "/nothing", 404, "got '/nothing'"),
        ("GET", "/..%2f..%2fetc/passwd", 404, "wanted an address"),
        ("GET", "/static/../../etc/passwd", 404, "wanted an address"),
        ("GET", "/%3Cscript%3Ealert(1)%3C/script%3E", 404, "got '/<script>"),
        ("GET", "/docs", 404, "wanted an address"),
        ("GET", "/rows?limit=1000", 422, "query.limit: wanted less than or equal to 100, got '1000'"),
        ("GET", "/rows?offset=x", 422, "query.offset: wanted integer"),
        ("GET", "/rows?offset=-1", 422, "greater than or equal to 0"),
    ],
)  # fmt: skip
def test_other_addresses_are_refused_in_the_same_form(
    client: httpx.Client, method: str, path: str, status: int, words: str
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert words in problem(answer)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_rows_after_the_last_are_none(client: httpx.Client) -> None:
    assert client.get("/rows?offset=59&limit=5").json()["total"] == 60
    assert len(client.get("/rows?offset=59&limit=5").json()["rows"]) == 1
    assert client.get("/rows?offset=1000000").json()["rows"] == []


class Slow:
    """A prepared model that answers when it is let."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.gate = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.prepared, name)

    def explain(self, rows: Any, budget: int, advance: Any) -> Answers:
        self.gate.wait(20)
        return self.prepared.explain(rows, budget, advance)


def test_a_request_that_takes_too_long_is_told_so(
    prepared: Prepared, rows: list[dict[str, Any]]
) -> None:
    slow = Slow(prepared)
    with (
        listening(make_app(slow, Limits(seconds=1.0))) as place,  # type: ignore[arg-type]
        httpx.Client(base_url=place) as client,
    ):
        answer = client.post("/explain", json={"rows": rows[:1]})
        assert answer.status_code == 504
        assert problem(answer) == (
            "wanted an answer within 1 s, got none yet; try fewer rows or a smaller budget"
        )
        slow.gate.set()
        assert len(explained(client, rows[1])["explanations"]) == 1


def test_requests_beyond_the_limit_are_told_to_come_back(
    prepared: Prepared, rows: list[dict[str, Any]]
) -> None:
    slow = Slow(prepared)

    async def talk(place: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=place, timeout=20) as client:
            asked = [
                asyncio.create_task(client.post("/explain", json={"rows": rows[:1]}))
                for _ in range(3)
            ]
            await asyncio.sleep(0.5)
            assert (await client.get("/healthz")).status_code == 200
            asked.append(asyncio.create_task(client.post("/explain", json={"rows": rows[:1]})))
            await asyncio.sleep(0.2)
            slow.gate.set()
            return list(await asyncio.gather(*asked))

    app = make_app(slow, Limits(requests=3))  # type: ignore[arg-type]
    with listening(app) as place:
        answers = asyncio.run(talk(place))
    assert [answer.status_code for answer in answers] == [200, 200, 200, 503]
    assert answers[3].headers["retry-after"] == "1"
    assert problem(answers[3]) == (
        "wanted at most 3 requests at the same time, got one more; try again in 1 s"
    )


def test_a_slow_body_is_given_up(prepared: Prepared) -> None:
    with listening(make_app(prepared, Limits(seconds=0.2))) as place:
        host, _, port = place.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            head = "POST /explain HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            client.sendall(f'{head}Content-Length: 100\r\n\r\n{{"rows"'.encode())
            answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408")


# Tokens and hosts


@pytest.fixture(scope="module")
def guarded(prepared: Prepared) -> Iterator[httpx.Client]:
    with (
        listening(make_app(prepared, token=TOKEN)) as place,
        httpx.Client(base_url=place) as client,
    ):
        yield client


@pytest.mark.parametrize("path", ["/about", "/global", "/rows", "/metrics", "/openapi.json", "/x"])
@pytest.mark.parametrize(
    "header", [None, "", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer ä"]
)
def test_nothing_of_the_model_is_told_without_the_token(
    guarded: httpx.Client, path: str, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header.encode()}
    answer = guarded.get(path, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "wanted the header 'Authorization: Bearer TOKEN'" in problem(answer)


def test_the_token_opens(guarded: httpx.Client, rows: list[dict[str, Any]]) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.get("/about", headers=headers).status_code == 200
    answer = guarded.post("/explain", json={"rows": rows[:1]}, headers=headers)
    assert answer.status_code == 200
    assert guarded.post("/explain", json={"rows": rows[:1]}).status_code == 401
    assert guarded.get("/healthz").json() == {"status": "ok"}
    assert guarded.get("/").status_code == 200
    document = guarded.get("/openapi.json", headers=headers).json()
    assert document["paths"]["/explain"]["post"]["security"] == [{"token": []}]
    assert "security" not in document["paths"]["/healthz"]["get"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_without_a_token_only_loopbacks_names_are_answered(client: httpx.Client, host: str) -> None:
    answer = client.get("/about", headers={"Host": host})
    assert answer.status_code == 403
    assert "wanted a request to localhost or 127.0.0.1 or ::1" in problem(answer)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:80"]
)
def test_loopback_has_several_names(client: httpx.Client, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_loopback_is_told_from_other_hosts() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")] == [
        True
    ] * 4
    assert not any(
        is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.1", "example.org", "")
    )


def test_others_can_be_let_in_only_with_a_token(folder: Path) -> None:
    with pytest.raises(InputError, match=r"others can reach 0\.0\.0\.0, so a token is needed"):
        Service(job=job(folder), host="0.0.0.0").check()
    with pytest.raises(InputError, match="wanted at least 16 characters, got 5; try "):
        Service(job=job(folder), host="0.0.0.0", token="short").check()
    with pytest.raises(InputError, match="wanted ASCII characters"):
        Service(job=job(folder), token="ä" * 20).check()
    service = Service(job=job(folder), host="0.0.0.0", token=TOKEN)
    service.check()
    assert service.hosts is None
    assert Service(job=job(folder)).hosts == ("localhost", "127.0.0.1", "::1")


# Features


def test_cells_of_every_kind() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.Series([1, 2, 3], dtype="int8"),
            "part": pd.Series([0.5, np.nan, 2.5]),
            "kind": pd.Categorical(["a", "b", "a"], categories=["a", "b", "c"]),
            "code": pd.Categorical([1, 2, 1]),
            "when": pd.to_datetime(["2026-01-31", "2026-02-01", "2026-02-02"]),
            "yes": [True, False, True],
            "word": ["x", "y", "z"],
        }
    )
    features = features_of(frame)
    (row,) = plain_rows(frame[:1])
    assert row == {
        "whole": 1, "part": 0.5, "kind": "a", "code": 1, "when": "2026-01-31T00:00:00", "yes": True, "word": "x",
    }  # fmt: skip
    cells = checked_rows(features, plain_rows(frame))
    assert cells[1][1] is None
    again = frame_of(features, cells, dict(frame.dtypes))
    pd.testing.assert_frame_equal(again, frame)

    refused = {
        "whole": (128, "wanted a whole number from -128 to 127, got 128; try 2"),
        "part": ("x", "or null, got 'x'; try 1.5"),
        "kind": ("d", "wanted one of 'a', 'b', 'c', got 'd'; try 'a'"),
        "code": (True, "wanted one of 1, 2, got true; try 1"),
        "when": ("yesterday", "wanted a time such as '2026-01-31T12:00:00', got 'yesterday'"),
        "yes": ("yes", "wanted true or false, got 'yes'; try true"),
        "word": (None, "wanted a text, got null; try 'x'"),
    }
    for name, (cell, words) in refused.items():
        with pytest.raises(Refusal, match=re.escape(f"rows[0].{name}: ")) as caught:
            checked_rows(features, [row | {name: cell}])
        assert words in str(caught.value)


def test_a_time_has_a_zone_only_where_rows_loaded_have_one() -> None:
    frame = pd.DataFrame({"when": pd.to_datetime(["2026-01-31", "2026-02-01"])})
    for cell in ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+05:00"):
        with pytest.raises(Refusal, match="wanted a time such as '2026-01-31T12:00:00', got"):
            checked_rows(features_of(frame), [{"when": cell}])

    zoned = frame.assign(when=frame["when"].dt.tz_localize("UTC"))
    features = features_of(zoned)
    cells = checked_rows(features, [{"when": "2026-01-31T05:00:00+05:00"}])
    pd.testing.assert_frame_equal(frame_of(features, cells, dict(zoned.dtypes)), zoned[:1])


def test_encodings_that_are_forgotten_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    frames = FrameEncoding(features_of(frame), dict(frame.dtypes))
    encode = ColumnEncoding(frames, lambda rows: rows.to_numpy(dtype=np.float32), {"a": [0]})
    monkeypatch.setattr(encoding, "MOST_CELLS", 2)
    encode([(0.0,), (1.0,), (2.0,)])
    # 2 is known, 3 is not, and there are too many to keep
    assert encode([(2.0,), (3.0,)]).tolist() == [[2.0], [3.0]]


def test_columns_that_no_request_could_hold_are_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="column 'a' has no values"):
        features_of(pd.DataFrame({"a": [np.nan, np.nan]}))
    with pytest.raises(InputError, match="column 'a' holds date such as"):
        features_of(pd.DataFrame({"a": [date(2026, 1, 31), "y"]}))


# What is there for machines


def test_metrics_are_text_that_prometheus_reads(
    client: httpx.Client, rows: list[dict[str, Any]]
) -> None:
    explained(client, *rows[:3])
    client.get("/no/such/<address>")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+)$')
    assert all(line.match(each) for each in answer.text.splitlines())
    assert 'shear_requests_total{method="GET",path="other",status="404"}' in answer.text
    assert 'shear_requests_total{method="POST",path="/explain",status="200"}' in answer.text
    assert "<address>" not in answer.text
    assert re.search(r"^shear_evaluations_total \d{3,}$", answer.text, re.MULTILINE)


def test_histograms_count_all_below_a_bound() -> None:
    monitor = Monitor()
    for rows in (1, 2, 3, 300, 5000):
        monitor.explained(rows, 10)
    text = monitor.text()
    assert 'shear_block_rows_bucket{le="2"} 2\n' in text
    assert 'shear_block_rows_bucket{le="1024"} 4\n' in text
    assert 'shear_block_rows_bucket{le="+Inf"} 5\n' in text
    assert "shear_block_rows_sum 5306\n" in text


def test_the_document_has_examples_that_work(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    operation = document["paths"]["/explain"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert client.post("/explain", json=body["examples"][0]).status_code == 200
    assert set(operation["responses"]) >= {"200", "400", "413", "415", "422", "503", "504"}
    assert "HTTPValidationError" not in json.dumps(document)
    for path, operations in document["paths"].items():
        for own in operations.values():
            assert own["summary"], path
            assert all(answer["description"] for answer in own["responses"].values())


@pytest.fixture(scope="module")
def api(address: str) -> Any:
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_service_keeps_to_its_document(case: Any) -> None:
    case.call_and_validate()


# The page


def test_the_page_may_do_nothing_but_ask_the_service(client: httpx.Client) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy == document().policy
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"""(src|href)=["'](?!data:|openapi)""", answer.text)
    assert "innerHTML" not in answer.text
    assert answer.headers["cache-control"] == "no-store"


@pytest.fixture(scope="module")
def driver() -> Iterator["Chrome"]:
    with browser.chromium() as driver:
        yield driver


def open_page(driver: "Chrome", address: str, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.command(driver, "Emulation.setDeviceMetricsOverride", **size)
    driver.get("about:blank")
    browser.console(driver)
    browser.requests(driver)
    driver.get(address + "/")
    wait(lambda: prediction(driver) not in ("–", ""))


def wait(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.02)


def prediction(driver: "Chrome") -> str:
    text: str = driver.find_element("id", "prediction").text
    return text


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def line(driver: "Chrome", name: str) -> Any:
    return driver.find_element("css selector", f"[data-feature='{name}']")


CHANGE = """
const [field, cell] = arguments;
field.value = cell;
field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_a_change_moves_the_prediction_and_its_values(
    driver: "Chrome", address: str, client: httpx.Client, rows: list[dict[str, Any]], width: int
) -> None:
    open_page(driver, address, width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    before = prediction(driver)
    (own,) = explained(client, rows[0])["explanations"]
    assert number(before) == pytest.approx(own["prediction"][0], abs=0.06)
    assert not driver.find_element("id", "reset").is_enabled()

    city = line(driver, "city").find_element("css selector", "select")
    other = "Oslo" if rows[0]["city"] == "Rome" else "Rome"
    driver.execute_script(CHANGE, city, json.dumps(other))
    wait(lambda: prediction(driver) != before)
    (changed,) = explained(client, rows[0] | {"city": other})["explanations"]
    assert number(prediction(driver)) == pytest.approx(changed["prediction"][0], abs=0.06)
    assert "by your changes" in driver.find_element("id", "moved").text
    assert "back to " in line(driver, "city").text

    amount = line(driver, "debt").find_element("css selector", ".amount")
    was = amount.text
    slider = line(driver, "debt").find_element("css selector", "input[type=range]")
    driver.execute_script(CHANGE, slider, str(rows[0]["debt"] + 9))
    wait(lambda: amount.text != was)

    driver.find_element("id", "reset").click()
    wait(lambda: prediction(driver) == before)
    assert browser.console(driver) == []
    outside = [url for url in browser.requests(driver) if not url.startswith((address, "data:"))]
    assert outside == []


def test_another_row_is_picked(driver: "Chrome", address: str, client: httpx.Client, rows: list[dict[str, Any]]) -> None:  # fmt: skip
    open_page(driver, address, 1280)
    before = prediction(driver)
    driver.find_element("id", "after").click()
    wait(lambda: prediction(driver) != before)
    age = line(driver, "age").find_element("css selector", "input[type=number]")
    assert int(age.get_attribute("value")) == rows[1]["age"]
    names = [each.get_attribute("data-feature") for each in driver.find_elements("css selector", ".lines .line")]  # fmt: skip
    means = client.get("/global").json()["mean_absolute_values"][0]
    columns = list(table().columns)
    assert names == sorted(columns, key=lambda name: -means[columns.index(name)])


def test_what_the_model_refuses_is_said_on_the_page(driver: "Chrome", address: str) -> None:
    open_page(driver, address, 1280)
    city = line(driver, "city").find_element("css selector", "select")
    option = "arguments[0].append(new Option('Atlantis', '\"Atlantis\"'))"
    driver.execute_script(option, city)
    driver.execute_script(CHANGE, city, '"Atlantis"')
    shown = driver.find_element("id", "problem")
    wait(shown.is_displayed)
    assert "there is no such city" in shown.text
    driver.find_element("id", "reset").click()
    wait(lambda: not shown.is_displayed())


def test_the_page_asks_for_the_token(driver: "Chrome", guarded: httpx.Client) -> None:
    place = str(guarded.base_url).rstrip("/")
    driver.get(place + "/")
    field = driver.find_element("id", "token")
    wait(field.is_displayed)
    assert not driver.find_element("id", "main").is_displayed()
    field.send_keys("a wrong one")
    driver.find_element("css selector", "#login button").click()
    wait(driver.find_element("id", "problem").is_displayed)
    assert driver.find_element("id", "problem").text == "That is not the token of this service."
    field.clear()
    field.send_keys(TOKEN)
    driver.find_element("css selector", "#login button").click()
    wait(lambda: prediction(driver) not in ("–", ""))
    assert not driver.find_element("id", "login").is_displayed()


# The command


def refusal(*words: object) -> str:
    result = CliRunner().invoke(command, ["serve", *map(str, words)])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr.removeprefix("error: ").strip()


def test_a_pickle_is_opened_only_when_it_is_trusted(folder: Path) -> None:
    (folder / "model.pkl").write_bytes(b"")
    said = refusal("--model", folder / "model.pkl", "--data", folder / "rows.csv", "--port", 0)
    assert "is a pickle, and opening one runs whatever code is in it" in said


def test_what_cannot_be_started_is_refused_in_a_line(folder: Path) -> None:
    given = ("--model", f"{folder / 'score.py'}:predict", "--data", folder / "rows.csv")
    said = refusal(*given, "--host", "0.0.0.0")
    assert said.startswith("host: others can reach 0.0.0.0, so a token is needed; add --token ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(*given, "--port", port)
    assert said.startswith(f"port: 127.0.0.1:{port} cannot be listened on: Address already in use")


def test_the_command_serves_until_it_is_interrupted(folder: Path) -> None:
    given = ["--model", f"{folder / 'score.py'}:predict", "--data", str(folder / "rows.csv")]
    shear = [sys.executable, "-m", "shearshap.cli", "serve", *given, "--port", "0"]
    with subprocess.Popen(shear, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        lines = []
        for text in service.stdout:
            lines.append(text)
            if text.startswith("API"):
                break
        place = lines[-1].split()[1].removesuffix("/openapi.json")
        about = httpx.get(f"{place}/about").json()
        service.send_signal(signal.SIGINT)
        assert service.wait(20) == 0
    assert lines[1] == f"rows loaded 60 of {folder / 'rows.csv'}, 8 features\n"
    assert about["model"].endswith("score.py:predict")


# The container


def test_the_container_is_made_of_files_that_there_are() -> None:
    root = Path(__file__).parents[2]
    steps = (root / "deploy" / "Containerfile").read_text()
    sent = (root / ".dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", steps, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (root / name).exists()
        assert f"!{name}" in sent
    assert steps.rindex("USER shear") > steps.rindex("RUN ")
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", steps, re.MULTILINE)
    program, *words = json.loads(entry)
    assert program == "shear"
    said = CliRunner().invoke(command, [*words, "--model", "m", "--data", "d", "--port", "0"])
    assert "so a token is needed" in said.stderr
