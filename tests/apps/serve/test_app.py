"""The service: its answers are the explainer's, its refusals are plain, and its page moves."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, settings
from prometheus_client.parser import text_string_to_metric_families

import browser
from clock import PATIENCE, join
from folder_jobs import wait_for
from shearshap import Auto, Explainer, Explanation, InputError, ModelError
from shearshap.apps.jobs import Job, tables
from shearshap.apps.serve import Limits
from shearshap.apps.serve.app import make_app, page
from shearshap.apps.serve.prepared import Prepared, prepare
from shearshap.apps.serve.schemas import plain_rows
from shearshap.apps.serve.server import LOOPBACK
from shearshap_lab import data as paper_data
from shearshap_lab import networks

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

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
    if "background" in options:
        options["background"] += f":{folder / 'rows.csv'}"
    return Job(**given | {"data": folder / "rows.csv"} | options)


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
        wait_for(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{port.getsockname()[1]}"
        finally:
            server.should_exit = True
            join(thread)


@pytest.fixture(scope="module")
def address(prepared: Prepared) -> Iterator[str]:
    with listening(make_app(prepared, Limits(rows=50, body=200_000), hosts=LOOPBACK)) as place:
        yield place


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=PATIENCE) as client:
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
    assert list(content) == ["error", "where"]
    assert content["error"].startswith(content["where"])
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
    alone = [explained(client, row, budget=64)["explanations"][0] for row in rows[:12]]
    before = _blocks(client)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda row: explained(client, row, budget=64), rows[:12]))
    after = _blocks(client)
    assert after["shear_block_rows_sum"] - before["shear_block_rows_sum"] == 12
    assert after["shear_block_rows_count"] - before["shear_block_rows_count"] < 12
    for expected, answer in zip(alone, answers, strict=True):
        (own,) = answer["explanations"]
        np.testing.assert_allclose(own["values"], expected["values"], atol=1e-10)
        np.testing.assert_allclose(own["standard_errors"], expected["standard_errors"], atol=1e-9)
        assert own["evaluations"] == expected["evaluations"]


def _blocks(client: httpx.Client) -> dict[str, float]:
    (family,) = (
        each
        for each in text_string_to_metric_families(client.get("/metrics").text)
        if each.name == "shear_block_rows"
    )
    return {each.name: each.value for each in family.samples if "bucket" not in each.name}


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
        httpx.Client(base_url=place, timeout=PATIENCE) as client,
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
        assert "output: Input should be " in problem(refused)


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
    features = {feature["name"]: feature for feature in about["features"]}
    assert list(features) == list(table().columns)
    kinds = [features[name]["kind"] for name in ("age", "pay", "city", "late")]
    assert kinds == ["integer", "number", "text", "boolean"]
    assert features["city"]["categories"] == ["Bern", "Oslo", "Rome"]
    assert features["pay"]["missing"]
    assert not features["age"]["missing"]
    assert features["age"]["minimum"] == table().age.min()
    assert about["rows"] == 60
    assert about["background"].startswith("median of the 60 rows of ")
    assert about["budget"] == {"default": 130, "minimum": 4, "maximum": 1300}


def test_about_has_no_folders_and_no_cells_of_files(tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def predict(rows):\n    return rows.a + len(rows.c)\n")
    (tmp_path / "rows.csv").write_text("a,c\n1,5\n2,6\n3,7\n4,=x")
    (tmp_path / "train.csv").write_text("a,c\n1,3\n4,6\n7,secret")
    for choice in ("", "kmeans:", "mean:"):
        background = f"{choice}{tmp_path / 'train.csv'}"
        served = prepare(Job(
            model=f"{tmp_path / 'score.py'}:predict",
            data=tmp_path / "rows.csv",
            background=background,
        ))  # fmt: skip
        assert any("secret" in note for note in served.notes)  # the terminal shows them
        with listening(make_app(served)) as place:
            answer = httpx.get(f"{place}/about", timeout=PATIENCE)
        assert answer.json()["model"] == "score.py:predict"
        assert "3 rows of train.csv" in answer.json()["background"]
        assert str(tmp_path) not in answer.text
        assert "secret" not in answer.text


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
    rows = plain_rows(served.rows)
    together = served.explain(rows[:20], 12)
    assert together.method == "kriging"
    for number in (0, 7, 19):
        alone = served.explain(rows[number : number + 1], 12)
        np.testing.assert_allclose(alone.values[0], together.values[number], atol=1e-10)


@pytest.mark.lab
@pytest.mark.slow
def test_a_network_of_the_paper_is_explained_by_its_encoded_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    german = paper_data.load("german")
    networks.save(networks.train(german, steps=60, seed=0), tmp_path / "network")
    german.write(tmp_path / "german.csv")
    network = networks.open_folder(tmp_path / "network")
    assert network is not None
    place = str(tmp_path / "network")
    given = job(tmp_path, model=place, data=tmp_path / "german.csv", budget=64)
    served = prepare(given, sample=40)
    frame = served.rows[:6]
    method = Auto(calibration=served.overview.calibration)
    expected = Explainer(network, network.background_, method=method)(frame, budget=64)
    assert served.outputs == expected.output_names

    # once with encodings that are kept, and once with those that are forgotten
    rows = plain_rows(frame)
    for kept, asked in ((20_000, slice(0, 6)), (20_000, slice(3, 6)), (0, slice(2, 6))):
        monkeypatch.setattr("shearshap.apps.serve.prepared.MAX_CELLS", kept)
        own = served.explain(rows[asked])
        np.testing.assert_allclose(own.values, expected.values[asked], atol=1e-6)
        predictions = network.predict_proba(frame)[asked]
        np.testing.assert_allclose(own.predictions, predictions, atol=1e-6)


# Refusals


def hostile(row: dict[str, Any]) -> dict[str, Any]:
    def with_cell(name: str, cell: str) -> bytes:
        text = json.dumps(row | {name: "@"})
        return f'{{"rows": [{text}]}}'.replace('"@"', cell).encode()

    return {
        "NaN": (with_cell("pay", "NaN"), 422, "rows[0].pay: Input should be a finite number, got nan"),
        "too large": (with_cell("pay", "1e308"), 422, "less than or equal to 34028234663852886"),
        "large integer": (with_cell("age", str(2**60)), 422, "less than or equal to 9007199254740991"),
        "too many digits": (with_cell("age", "9" * 5000), 400, "error parsing the body"),
        "null": (with_cell("age", "null"), 422, "got null"),
        "many keys": (json.dumps({"rows": [dict.fromkeys(map(str, range(9_000)))]}).encode(), 422, "rows[0]: Input should have at most 18 keys, got an object of 9000"),
        "many keys at the top": (json.dumps(dict.fromkeys(map(str, range(9_000)))).encode(), 422, "Input should have at most 13 keys, got an object of 9000"),
        "many empty rows": (b'{"rows": [' + b"{}," * 49 + b"{}]}", 422, "rows[0].age: Field required, got an object of 0 (and 7 more)"),
        "half a character": (with_cell("city", r'"\ud800"'), 422, r"got '\ud800'"),
        "what the model refuses": (with_cell("city", '"Atlantis"'), 422, "rows: the model fails on them; the log of the service says why, at error "),
        "deep": (b'{"rows": ' + b"[" * 9_000 + b"]" * 9_000 + b"}", (400, 422), ""),
        "no JSON": (b"rows=1", 422, "the body is not valid JSON: Expecting value"),
        "empty": (b"", 422, "Field required"),
        "other bytes": (b"\xff\xfe\x00", 400, "error parsing the body"),
        "no rows": (b'{"rows": []}', 422, "rows: List should have at least 1 item"),
        "feature missing": (b'{"rows": [{"age": 1}]}', 422, "rows[0].pay: Field required, got an object of 1 (and 6 more)"),
        "feature unknown": (with_cell("age", "1")[:-3] + b', "Age": 1}]}', 422, "rows[0].Age: Extra inputs are not permitted, got 1"),
        "markup": (with_cell("age", '"<script>alert(1)</script>"'), 422, "got '<script>"),
        "budget 0": (with_cell("age", '1')[:-1] + b', "budget": 0}', 422, "budget: Input should be greater than or equal to 4, got 0"),
    }  # fmt: skip


BODIES = tuple(hostile(dict.fromkeys(table().columns, 1)))


@pytest.mark.parametrize("name", BODIES)
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


def quoting(error: Exception) -> InputError:
    """An error of ours that repeats the text of another one."""
    quoted = InputError(f"background: it cannot be read: {error}")
    quoted.__cause__ = error
    return quoted


SECRET = "/srv/models/password.txt"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelError(f"the model failed: FileNotFoundError: {SECRET}"), 422),
        (quoting(OSError(SECRET)), 422),
        (OSError(f"{SECRET}\nERROR forged"), 500),
    ],
)
def test_what_goes_wrong_inside_is_in_the_log_alone(
    prepared: Prepared,
    rows: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
) -> None:
    def fail(*_: Any) -> Explanation:
        raise error

    monkeypatch.setattr(prepared, "explain", fail)
    with listening(make_app(prepared)) as place:
        answers = [httpx.post(f"{place}/explain", json={"rows": rows[:1]}) for _ in range(2)]
    numbers = []
    for answer in answers:
        assert answer.status_code == status
        assert SECRET not in answer.text
        numbers += re.findall(
            r"the log of the service says why, at error ([0-9a-f]{8})$", problem(answer)
        )
    assert len(set(numbers)) == 2
    for number in numbers:
        (line,) = (each for each in caplog.messages if number in each)
        assert SECRET in line
        assert "\n" not in line


FAULTS = """
from shearshap import InputError

def predict(rows):
    if (rows.kind == "quotes").any():
        raise InputError("cannot read /srv/models/password.txt")
    if (rows.kind == "stops").any():
        raise KeyboardInterrupt("/srv/models/password.txt")
    if (rows.kind == "exits").any():
        raise SystemExit("/srv/models/password.txt")
    if (rows.kind == "shouts").any():
        raise RuntimeError("/srv/models/password.txt" + "x" * 100_000)
    return rows.a
"""


def test_no_word_of_the_models_code_reaches_a_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "faults.py").write_text(FAULTS)
    (tmp_path / "rows.csv").write_text("a,kind\n1,x\n2,y\n")
    served = prepare(job(tmp_path, model=f"{tmp_path / 'faults.py'}:predict", background="sample"))
    with (
        listening(make_app(served)) as place,
        httpx.Client(base_url=place, timeout=PATIENCE) as client,
    ):
        for kind in ("quotes", "stops", "exits", "shouts"):
            caplog.clear()
            answer = client.post("/explain", json={"rows": [{"a": 1, "kind": kind}]})
            assert answer.status_code == 422
            assert "the model fails on them; the log of the service says why" in problem(answer)
            assert SECRET not in answer.text
            (line,) = caplog.messages
            assert SECRET in line
            assert len(line) < 3_000
            assert "Traceback" not in caplog.text
        explained(client, {"a": 1, "kind": "x"})


def test_what_is_wrong_with_rows_is_said(
    prepared: Prepared, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Explanation:
        raise InputError("rows: column 'pay' has no finite numbers")

    monkeypatch.setattr(prepared, "explain", fail)
    with listening(make_app(prepared)) as place, httpx.Client(base_url=place) as client:
        answer = client.post("/explain", json={"rows": rows[:1]})
    assert answer.status_code == 422
    assert (
        problem(answer) == "rows: the model rejects them: rows: column 'pay' has no finite numbers"
    )


def test_a_body_of_unknown_length_is_cut_off_at_the_limit(client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(300):
            yield b" " * 1_000

    headers = {"Content-Type": "application/json"}
    answer = client.post("/explain", content=chunks(), headers=headers)
    assert answer.status_code == 413
    assert "at most 200000 bytes, got more" in problem(answer)


def test_a_body_that_is_not_declared_as_json_is_refused(client: httpx.Client) -> None:
    answer = client.post("/explain", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert "expected the header 'Content-Type: application/json'" in problem(answer)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/explain", 405, "Method Not Allowed: GET '/explain'"),
        ("GET", "/..%2f..%2fetc/passwd", 404, "Not Found: GET"),
        ("GET", "/%3Cscript%3Ealert(1)%3C/script%3E", 404, "'/<script>"),
        ("GET", "/docs", 404, "Not Found"),
        ("GET", "/rows?limit=1000", 422, "limit: Input should be less than or equal to 100, got '1000'"),
        ("GET", "/rows?offset=x", 422, "offset: Input should be a valid integer"),
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


# Rows by their ids


@pytest.fixture(scope="module")
def labelled(folder: Path) -> Iterator[httpx.Client]:
    """A service whose rows have ids, and a title."""
    frame = table()
    frame.insert(0, "customer", [f"C-{number:03}" for number in range(len(frame))])
    frame.to_csv(folder / "customers.csv", index=False)
    given = job(folder, data=folder / "customers.csv", background="median")
    served = prepare(replace(given, id_column="customer", title="Who leaves?"))
    with (
        listening(make_app(served)) as place,
        httpx.Client(base_url=place, timeout=PATIENCE) as client,
    ):
        yield client


def test_the_id_column_labels_the_rows_and_is_not_a_feature(labelled: httpx.Client) -> None:
    about = labelled.get("/about").json()
    assert about["id_column"] == "customer"
    assert [feature["name"] for feature in about["features"]] == list(table().columns)
    loaded = labelled.get("/rows?offset=7&limit=2").json()
    assert loaded["ids"] == ["C-007", "C-008"]
    assert "customer" not in loaded["rows"][0]


def test_rows_are_found_by_part_of_their_ids(labelled: httpx.Client, client: httpx.Client) -> None:
    found = labelled.get("/ids", params={"search": " c-01", "limit": 3}).json()
    assert found["total"] == 10
    assert found["rows"][0] == {"number": 10, "id": "C-010"}
    assert labelled.get("/ids?search=x").json() == {"total": 0, "rows": []}
    by_number = client.get("/ids?search=5&limit=4").json()["rows"]
    assert [row["id"] for row in by_number] == ["5", "50", "51", "52"]
    assert client.get("/about").json()["id_column"] is None


def test_requests_beyond_the_limit_are_told_to_come_back(
    prepared: Prepared, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    explain = prepared.explain

    def when_let(*given: Any) -> Explanation:
        assert gate.wait(PATIENCE)
        return explain(*given)

    monkeypatch.setattr(prepared, "explain", when_let)
    with (
        listening(make_app(prepared, Limits(requests=3))) as place,
        httpx.Client(base_url=place, timeout=PATIENCE) as client,
        ThreadPoolExecutor() as pool,
    ):
        open_now = [pool.submit(explained, client, rows[0]) for _ in range(3)]
        wait_for(lambda: client.get("/rows").status_code == 503)
        assert client.get("/healthz").status_code == 200
        refused = client.post("/explain", json={"rows": rows[:1]})
        gate.set()
        assert [len(each.result(PATIENCE)["explanations"]) for each in open_now] == [1, 1, 1]
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert "expected at most 3 requests at the same time" in problem(refused)


def test_a_slow_body_is_given_up(prepared: Prepared) -> None:
    with listening(make_app(prepared, Limits(seconds=0.2))) as place:
        host, _, port = place.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
            head = "POST /explain HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            client.sendall(f'{head}Content-Length: 100\r\n\r\n{{"rows"'.encode())
            answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408")


# Tokens and hosts


@pytest.fixture(scope="module")
def guarded(prepared: Prepared) -> Iterator[httpx.Client]:
    with (
        listening(make_app(prepared, token=TOKEN)) as place,
        httpx.Client(base_url=place, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.mark.parametrize("path", ["/about", "/global", "/rows", "/metrics", "/openapi.json", "/x"])
def test_nothing_of_the_model_is_told_without_the_token(guarded: httpx.Client, path: str) -> None:
    for header in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer ä"):
        answer = guarded.get(path, headers={b"Authorization": header.encode()})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "expected the header 'Authorization: Bearer TOKEN'" in problem(answer)


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


def test_without_a_token_only_loopbacks_names_are_answered(client: httpx.Client) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        answer = client.get("/about", headers={"Host": host})
        assert answer.status_code == 403
        assert "expected a request to localhost or 127.0.0.1 or ::1" in problem(answer)
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:80"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


# What is there for machines


def test_metrics_are_text_that_prometheus_reads(
    client: httpx.Client, rows: list[dict[str, Any]]
) -> None:
    explained(client, *rows[:3])
    client.get("/no/such/<address>")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert 'shear_requests_total{method="GET",path="other",status="404"}' in answer.text
    assert 'shear_requests_total{method="POST",path="/explain",status="200"}' in answer.text
    assert "<address>" not in answer.text
    families = {each.name: each for each in text_string_to_metric_families(answer.text)}
    (evaluations,) = (
        each for each in families["shear_evaluations"].samples if "total" in each.name
    )
    assert evaluations.value > 100
    assert {"shear_open_requests", "shear_explain_seconds", "shear_block_rows"} < set(families)


def test_the_document_has_examples_that_work(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    (rows,) = document["components"]["schemas"]["ExplainRequest"]["properties"]["rows"]["examples"]
    explained(client, *rows)
    assert "HTTPValidationError" not in json.dumps(document)
    for path, operations in document["paths"].items():
        for own in operations.values():
            assert own["summary"], path
            assert {"200", "4XX", "5XX"} <= set(own["responses"])
            assert all(answer["description"] for answer in own["responses"].values())


@pytest.fixture(scope="module")
def api(address: str) -> Any:
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


schema = schemathesis.pytest.from_fixture("api")


@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=8,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_service_keeps_to_its_document(case: Any) -> None:
    case.call_and_validate()


# The page


def test_the_page_may_do_nothing_but_ask_the_service(client: httpx.Client) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy == page()[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"""(src|href)=["'](?!data:|openapi)""", answer.text)
    assert "innerHTML" not in answer.text
    assert answer.headers["cache-control"] == "no-store"


def open_page(driver: "Chrome", address: str, width: int) -> None:
    browser.resize(driver, width=width)
    driver.get("about:blank")
    browser.console(driver)
    browser.requests(driver)
    driver.get(address)
    wait_for(lambda: prediction(driver) not in ("–", ""))


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


@pytest.mark.browser
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
    wait_for(lambda: prediction(driver) != before)
    (changed,) = explained(client, rows[0] | {"city": other})["explanations"]
    assert number(prediction(driver)) == pytest.approx(changed["prediction"][0], abs=0.06)
    assert "by your changes" in driver.find_element("id", "moved").text
    assert "back to " in line(driver, "city").text

    amount = line(driver, "debt").find_element("css selector", ".amount")
    was = amount.text
    slider = line(driver, "debt").find_element("css selector", "input[type=range]")
    driver.execute_script(CHANGE, slider, str(rows[0]["debt"] + 9))
    wait_for(lambda: amount.text != was)

    driver.find_element("id", "reset").click()
    wait_for(lambda: prediction(driver) == before)
    assert browser.console(driver) == []
    outside = [url for url in browser.requests(driver) if not url.startswith((address, "data:"))]
    assert outside == []


MORE_PICKERS = """
const pickers = document.querySelector(".pickers");
for (let i = 0; i < 2; i++) pickers.append(pickers.querySelector(".field").cloneNode(true));
"""


@pytest.mark.browser
def test_the_prediction_keeps_its_width_beside_many_pickers(driver: "Chrome", address: str) -> None:
    open_page(driver, address, 970)
    driver.execute_script(MORE_PICKERS)
    assert driver.find_element("css selector", ".prediction").size["width"] >= 300


@pytest.mark.browser
def test_another_row_is_picked(driver: "Chrome", address: str, client: httpx.Client, rows: list[dict[str, Any]]) -> None:  # fmt: skip
    open_page(driver, address, 1280)
    before = prediction(driver)
    driver.find_element("id", "after").click()
    wait_for(lambda: prediction(driver) != before)
    age = line(driver, "age").find_element("css selector", "input[type=number]")
    assert int(age.get_attribute("value")) == rows[1]["age"]
    names = [each.get_attribute("data-feature") for each in driver.find_elements("css selector", ".lines .line")]  # fmt: skip
    means = client.get("/global").json()["mean_absolute_values"][0]
    columns = list(table().columns)
    assert names == sorted(columns, key=lambda name: -means[columns.index(name)])


def write(driver: "Chrome", field: str, text: str) -> None:
    """Write into a field as people do, with the key Enter."""
    element = driver.find_element("id", field)
    driver.execute_script("arguments[0].select()", element)
    element.send_keys(text, "\n")


@pytest.mark.browser
def test_a_row_is_searched_for_by_its_id(driver: "Chrome", labelled: httpx.Client) -> None:
    open_page(driver, str(labelled.base_url).rstrip("/"), 1280)
    assert driver.title == driver.find_element("id", "title").text == "Who leaves?"
    assert driver.find_element("id", "row-label").text == "customer"
    row = driver.find_element("id", "row")
    assert row.get_attribute("value") == "C-000"
    row.click()
    row.send_keys("02")
    options = "return [...document.querySelectorAll('#found option')].map(each => each.value)"
    wait_for(lambda: driver.execute_script(options)[:2] == ["C-002", "C-020"])
    write(driver, "row", "c-042")
    wait_for(lambda: row.get_attribute("value") == "C-042")
    assert cell(driver, "age").get_attribute("value") == str(table().age[42])
    write(driver, "row", "nobody")
    wait_for(lambda: driver.find_element("id", "problem").text == "No row matches “nobody”.")


@pytest.mark.browser
def test_an_emptied_cell_is_missing_if_it_may_be_and_is_asked_for_if_not(
    driver: "Chrome", address: str, client: httpx.Client, rows: list[dict[str, Any]]
) -> None:
    open_page(driver, address, 1280)
    before = prediction(driver)
    driver.execute_script(CHANGE, cell(driver, "pay"), "")
    moved = driver.find_element("id", "moved")
    wait_for(lambda: "by your changes" in moved.text)
    (missing,) = explained(client, rows[0] | {"pay": None})["explanations"]
    assert number(prediction(driver)) == pytest.approx(missing["prediction"][0], abs=0.06)

    driver.find_element("id", "reset").click()
    wait_for(lambda: moved.text == "")
    for name, words in (("debt", "enter a number"), ("age", "enter a whole number")):
        driver.execute_script(CHANGE, cell(driver, name), "")
        assert hint(driver, name) == words
        assert is_stale(driver)
    driver.execute_script(CHANGE, cell(driver, "debt"), "50")
    assert is_stale(driver)
    driver.execute_script(CHANGE, cell(driver, "age"), "50")
    assert not is_stale(driver)
    assert hint(driver, "age") == ""
    wait_for(lambda: prediction(driver) != before)


def hint(driver: "Chrome", name: str) -> str:
    text: str = line(driver, name).find_element("css selector", ".hint").text
    return text


def is_stale(driver: "Chrome") -> bool:
    """Return whether the page says that its values are not those of the cells."""
    track = driver.find_element("css selector", ".lines .track")
    return float(track.value_of_css_property("opacity")) < 1


@pytest.mark.browser
def test_a_number_outside_the_data_is_marked(driver: "Chrome", address: str) -> None:
    open_page(driver, address, 390)
    driver.execute_script(CHANGE, cell(driver, "loans"), "400")
    assert hint(driver, "loans") == "▲ outside the data: 0 to 4"
    driver.execute_script(CHANGE, cell(driver, "loans"), "4")
    assert hint(driver, "loans") == ""


def cell(driver: "Chrome", name: str) -> Any:
    return line(driver, name).find_element("css selector", "input[type=number], select")


@pytest.mark.browser
def test_what_the_model_refuses_is_said_on_the_page(driver: "Chrome", address: str) -> None:
    open_page(driver, address, 1280)
    city = line(driver, "city").find_element("css selector", "select")
    option = "arguments[0].append(new Option('Atlantis', '\"Atlantis\"'))"
    driver.execute_script(option, city)
    driver.execute_script(CHANGE, city, '"Atlantis"')
    shown = driver.find_element("id", "problem")
    wait_for(shown.is_displayed)
    assert shown.text.startswith("The model has no prediction for this row. Change a value back")
    assert "the log of the service" not in shown.text
    assert is_stale(driver)
    shown.find_element("css selector", "summary").click()
    assert "the log of the service says why, at error" in shown.text
    driver.find_element("id", "reset").click()
    wait_for(lambda: not shown.is_displayed())
    assert not is_stale(driver)


ANSWER = """
const [status] = arguments;
window.realFetch = window.realFetch || window.fetch;
window.fetch = async (...request) => {
  if (status === 0) throw new TypeError("Failed to fetch");
  return status ? new Response("<html>", {status}) : window.realFetch(...request);
};
"""


@pytest.mark.browser
def test_what_goes_wrong_is_said_in_plain_words_and_can_be_tried_again(
    driver: "Chrome", address: str
) -> None:
    open_page(driver, address, 390)
    said = driver.find_element("id", "problem-text")
    for status, words in {
        0: "The service does not answer. Check your connection, then try again.",
        503: "The service is busy. Try again in a moment.",
        504: "This took too long. Choose fewer evaluations, or try again later.",
        502: "Something went wrong in the service.",
    }.items():
        driver.execute_script(ANSWER, status)
        driver.execute_script(CHANGE, cell(driver, "loans"), str(status % 5))
        wait_for(lambda words=words: said.text.startswith(words))  # type: ignore[misc]
        assert is_stale(driver)
    driver.execute_script(ANSWER, None)
    driver.find_element("id", "again").click()
    wait_for(lambda: not said.is_displayed())
    assert not is_stale(driver)


@pytest.mark.browser
def test_a_link_leads_back_to_the_row_and_its_changes(
    driver: "Chrome", labelled: httpx.Client
) -> None:
    address = str(labelled.base_url).rstrip("/")
    open_page(driver, address, 1280)
    write(driver, "row", "C-042")
    wait_for(lambda: "C-042" in driver.current_url)
    driver.execute_script(CHANGE, cell(driver, "loans"), "40")
    driver.execute_script(CHANGE, cell(driver, "pay"), "")
    wait_for(lambda: all(name in driver.current_url for name in ("loans", "pay")))
    row = labelled.get("/rows?offset=42&limit=1").json()["rows"][0]
    (changed,) = explained(labelled, row | {"loans": 40, "pay": None})["explanations"]
    wanted = pytest.approx(changed["prediction"][0], abs=0.06)
    wait_for(lambda: number(prediction(driver)) == wanted)
    shown = prediction(driver)
    link = driver.current_url

    open_page(driver, address, 1280)
    assert driver.find_element("id", "row").get_attribute("value") == "C-000"
    open_page(driver, link, 1280)
    wait_for(lambda: prediction(driver) == shown)
    assert driver.find_element("id", "row").get_attribute("value") == "C-042"
    assert cell(driver, "loans").get_attribute("value") == "40"
    assert cell(driver, "pay").get_attribute("value") == ""

    open_page(driver, link.replace("C-042", "C-999"), 1280)
    said = driver.find_element("id", "problem-text")
    wait_for(lambda: said.text == "The link is incomplete, or its row is not in this service.")


@pytest.mark.browser
def test_two_rows_are_shown_side_by_side(
    driver: "Chrome", address: str, client: httpx.Client, rows: list[dict[str, Any]]
) -> None:
    open_page(driver, address, 390)
    ghost = line(driver, "city").find_element("css selector", ".other")
    assert not ghost.is_displayed()
    write(driver, "other", "3")
    wait_for(ghost.is_displayed)
    (other,) = explained(client, rows[3])["explanations"]
    name, _, amount = driver.find_element("id", "other-prediction").text.partition(": ")
    assert name == "3"
    assert number(amount) == pytest.approx(other["prediction"][0], abs=0.06)
    assert f"3: {rows[3]['city']}" in line(driver, "city").text
    value = line(driver, "age").find_element("css selector", ".amount .beside").text
    assert number(value) == pytest.approx(other["values"][0][0], abs=0.06)
    assert "compare=3" in driver.current_url
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
    write(driver, "other", "\b")
    wait_for(lambda: not ghost.is_displayed())


@pytest.mark.browser
def test_the_values_of_a_row_are_exported(
    driver: "Chrome", labelled: httpx.Client, tmp_path: Path
) -> None:
    open_page(driver, str(labelled.base_url).rstrip("/"), 1280)
    browser.command(
        driver, "Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path)
    )
    driver.find_element("id", "export").click()
    file = tmp_path / "row C-000.csv"
    wait_for(file.exists)
    table = pd.read_csv(file, index_col="feature")
    values = table["value"]
    assert values["prediction"] == pytest.approx(values.drop("prediction").sum())
    (row,) = labelled.get("/rows?limit=1").json()["rows"]
    assert table.loc["city", "in this row"] == row["city"]
    (own,) = explained(labelled, row)["explanations"]
    assert values["age"] == pytest.approx(own["values"][0][0])


@pytest.mark.browser
def test_an_exported_file_runs_nothing_in_a_spreadsheet(driver: "Chrome", tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text(
        "def predict(rows):\n    return rows['=1+1'] * rows['size'] + rows['sum'].str.len()\n"
    )
    texts = ["=HYPERLINK(1)", "+1", "-2+3", "@SUM(1)", "\t=1", "-1.5", "1-1", "x", '=a"b', "-1e5"]
    frame = pd.DataFrame({"=1+1": range(-1, 9), "size": [-1.5, *range(9)], "sum": texts})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    tables.write(pa.table({"sum": texts}), {}, tmp_path / "ours.csv")
    written = pd.read_csv(tmp_path / "ours.csv", dtype=str)["sum"].tolist()

    served = prepare(job(tmp_path, background="median"))
    with listening(make_app(served)) as address:
        open_page(driver, address, 1280)
        browser.command(
            driver, "Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path)
        )
        for number, text in enumerate(written):
            write(driver, "row", str(number))
            wait_for(lambda number=number: f"row={number}" in driver.current_url)  # type: ignore[misc]
            wait_for(lambda: not driver.execute_script('return document.body.matches(".busy")'))
            driver.find_element("id", "export").click()
            file = tmp_path / f"row {number}.csv"
            wait_for(file.exists)
            exported = pd.read_csv(file, dtype=str, index_col="feature")["in this row"]
            assert exported["sum"] == text
            assert exported["'=1+1"] == str(number - 1)
            assert exported["size"] == ("-1.5" if number == 0 else str(number - 1))


@pytest.mark.browser
def test_notes_for_whoever_runs_the_service_are_not_on_the_page(
    driver: "Chrome", prepared: Prepared
) -> None:
    noted = replace(prepared, notes=("a model's leaf had no rows",))
    with listening(make_app(noted)) as address:
        open_page(driver, address, 1280)
        assert "leaf" not in driver.find_element("tag name", "body").text


@pytest.mark.browser
def test_a_group_is_one_line_with_a_cell_for_each_column(driver: "Chrome", folder: Path) -> None:
    grouped = prepare(job(folder, groups={"money": ["pay", "debt"]}, background="median"))
    with listening(make_app(grouped)) as address:
        open_page(driver, address, 390)
        lines = driver.find_elements("css selector", ".lines .line")
        names = {each.get_attribute("data-feature") for each in lines}
        assert names == {"money", *table().columns} - {"pay", "debt"}
        group = line(driver, "money")
        debt = group.find_element("css selector", "input[type=number][aria-label='debt']")
        before = prediction(driver)
        driver.execute_script(CHANGE, debt, "99")
        wait_for(lambda: prediction(driver) != before)
        assert "back to" in group.text
        group.find_element("css selector", ".name button").click()
        wait_for(lambda: prediction(driver) == before)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        assert browser.console(driver) == []


@pytest.mark.browser
def test_the_page_asks_for_the_token(driver: "Chrome", guarded: httpx.Client) -> None:
    place = str(guarded.base_url).rstrip("/")
    driver.get(place + "/")
    field = driver.find_element("id", "token")
    wait_for(field.is_displayed)
    assert not driver.find_element("id", "main").is_displayed()
    field.send_keys("a wrong one")
    driver.find_element("css selector", "#login button").click()
    wait_for(driver.find_element("id", "problem").is_displayed)
    assert driver.find_element("id", "problem").text == "This token is not valid for this service."
    field.clear()
    field.send_keys(TOKEN)
    driver.find_element("css selector", "#login button").click()
    wait_for(lambda: prediction(driver) not in ("–", ""))
    assert not driver.find_element("id", "login").is_displayed()
