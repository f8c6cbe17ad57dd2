"""Large jobs: folders in, parts out, the same values whoever explains them and whatever happens meanwhile."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from typer.testing import CliRunner

from shearshap import Auto, Explainer, store
from shearshap.cli import app
from shearshap.errors import InputError, JobError
from shearshap.jobs import InProcess, Job, LocalProcesses, ShardResult, shards, tables
from shearshap.jobs.executors import executor_for
from shearshap.jobs.manifest import MANIFEST, Manifest, Preparation, locked
from shearshap.jobs.options import AUTO, device_of
from shearshap.jobs.parts import LOG
from shearshap.jobs.plan import CONVERTED
from shearshap.jobs.shards import InputFile, Shard, batches, cut, input_schema, sample
from shearshap.methods.kriging import Calibration, CalibrationByPlayers

ROWS = 480
GROUP = 40
PARTS = ROWS // GROUP
SCORE = """
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def predict(frame):
    if multiprocessing.parent_process() is not None:
        maybe_die()
    if (HERE / "slow").exists():
        time.sleep(0.05)
    if (HERE / "bad").exists() and (frame["a"] == float((HERE / "bad").read_text())).any():
        raise RuntimeError("cannot score this")
    a, b, c, d, e, k = (frame[name].to_numpy(dtype=float) for name in "abcdek")
    return a * b * c + np.sin(d * e) * k + np.where(frame["s"] == "x", a * d, b * e)


def maybe_die():
    lives = HERE / "lives"
    if lives.exists():
        left = int(lives.read_text())
        if left:
            lives.write_text(str(left - 1))
            os.kill(os.getpid(), signal.SIGKILL)
"""


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 5)), columns=list("abcde"))
    frame["k"] = rng.integers(0, 5, ROWS)
    frame["s"] = rng.choice(["x", "y", "z"], ROWS)
    frame["id"] = [f"{number:05}" for number in range(ROWS)]
    return frame


def write_rows(folder: Path, frame: pd.DataFrame, group: int = GROUP) -> None:
    """Write a frame to a folder of two files of several row groups."""
    folder.mkdir(exist_ok=True)
    half = len(frame) // 2
    for name, part in {"first": frame[:half], "second": frame[half:]}.items():
        pq.write_table(
            pa.Table.from_pandas(part, preserve_index=False),
            folder / f"{name}.parquet",
            row_group_size=group,
        )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows and a model, of which the test of a fault disturbs one or the other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "score", raising=False)
    Path("score.py").write_text(SCORE)
    write_rows(Path("rows"), table())
    return tmp_path


def job(**options: Any) -> Job:
    wanted: dict[str, Any] = {
        "model": "score.py:predict", "data": "rows", "out": "values", "budget": 30, "id_column": "id",
        "keep": ("k",),
    }  # fmt: skip
    return Job(**({"large": True} | wanted | options))


def explained(**options: Any) -> Any:
    return job(**options).run(progress=False)


def values(folder: str = "values") -> pd.DataFrame:
    return pd.read_parquet(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The values of a run that nothing happens to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "score.py").write_text(SCORE)
    write_rows(folder / "rows", table())
    job(model=f"{folder}/score.py:predict", data=folder / "rows", out=folder / "values").run(
        progress=False,
    )
    return values(str(folder / "values"))


def check_whole(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """Every id exactly once, in the order of the rows, and the values of an undisturbed run."""
    assert found["id"].tolist() == table()["id"].tolist()
    pd.testing.assert_frame_equal(found, wanted)
    assert not list(Path("values").glob(".*.partial"))


# What comes out


def test_the_parts_are_what_an_explainer_returns_with_the_same_calibration(here: Path) -> None:
    summary = explained()
    found = values()
    frame = table()
    calibration = Manifest.load(Path("values") / MANIFEST).preparation.calibration
    assert isinstance(calibration, Calibration | CalibrationByPlayers)
    sys.path.insert(0, str(here))
    import score  # type: ignore[import-not-found]

    sys.path.remove(str(here))
    rows = frame.drop(columns="id")
    one = Explainer(score.predict, ("mean", rows), method=Auto(calibration))(rows, budget=30)
    for player, name in enumerate("abcdeks"):
        np.testing.assert_allclose(found[f"value.{name}"], one.values[:, player], atol=1e-6)
    assert found["data.k"].tolist() == frame["k"].tolist()
    assert found.columns[:2].tolist() == ["id", "base_value"]
    assert "data.a" not in found
    assert (summary.rows, summary.rows_before, summary.parts, summary.retries) == (
        ROWS,
        0,
        PARTS,
        0,
    )
    assert summary.evaluations == 30 * ROWS
    names = [path.name for path in sorted(Path("values").glob("part-*"))]
    assert names == [f"part-{number:06}.parquet" for number in range(PARTS)]


@pytest.mark.usefixtures("here")
def test_a_csv_file_has_the_values_of_the_same_rows_in_parquet(undisturbed: pd.DataFrame) -> None:
    table().to_csv("rows.csv", index=False)
    explained(data="rows.csv", out="from_csv", shard_rows=GROUP)
    found = values("from_csv")
    assert found["id"].tolist() == table()["id"].tolist()  # with their zeros
    np.testing.assert_allclose(
        found.filter(like="value"), undisturbed.filter(like="value"), rtol=1e-6, atol=1e-9
    )
    assert not Path("from_csv", CONVERTED).exists()


def test_the_types_of_a_csv_file_follow_from_all_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are read whole have the same, though the last row here is far from the first."""
    monkeypatch.setattr(tables, "CHUNK_CELLS", 1)  # chunks of 256 rows
    frame = pd.DataFrame({"whole": range(600), "late": range(600), "truth": [True, False] * 300})
    frame = frame.astype({"late": object})
    frame["number"] = frame["late"]
    frame["zeros"] = [f"{number:03}" for number in range(600)]
    frame["hex"] = ["0x1f"] * 600
    frame["empty"] = None
    frame.loc[599, ["late", "number", "whole"]] = ['text, and "quotes"', 2.5, None]
    frame.to_csv(tmp_path / "rows.csv", index=False)

    found = tables.csv_schema(tmp_path / "rows.csv", text=(), ids=["zeros"])
    tables.convert_csv(tmp_path / "rows.csv", found, tmp_path / "rows.parquet", group_rows=180)
    assert pq.read_metadata(tmp_path / "rows.parquet").num_row_groups == 4
    converted = pq.read_table(tmp_path / "rows.parquet")
    whole = tables.read(tmp_path / "rows.csv", "data")
    assert converted["zeros"].to_pylist() == frame["zeros"].tolist()
    assert {each.name: str(each.type) for each in found} == {
        "whole": "double", "late": "string", "truth": "bool", "number": "double", "zeros": "string", "hex": "string",
        "empty": "double",
    }  # fmt: skip
    for name in ("late", "truth", "number", "hex"):
        assert converted[name].to_pylist() == whole[name].to_pylist()

    (tmp_path / "none.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="there are no rows in"):
        tables.csv_schema(tmp_path / "none.csv", text=(), ids=())


@pytest.mark.usefixtures("here")
def test_reports_and_interactions_of_a_folder(undisturbed: pd.DataFrame) -> None:
    outcome = explained(interactions=True, report=True)
    check_whole(values(), undisturbed)
    assert outcome.report == Path("values/_report.html").absolute()
    assert "<!DOCTYPE html>" in outcome.report.read_text()
    pairs = pd.read_parquet(sorted(Path("values/_interactions").glob("*.parquet")))
    assert pairs["row"].unique().tolist() == table()["id"].tolist()
    assert np.isfinite(pairs["value"]).all()

    Path("values/_interactions/part-000003.parquet").write_bytes(b"damaged")
    again = explained(interactions=True)
    assert again.rows == GROUP
    pd.testing.assert_frame_equal(
        pd.read_parquet(sorted(Path("values/_interactions").glob("*.parquet"))), pairs
    )


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "rows", "--out", "values/", "--overwrite"), "overwrite is for a file"),
        (("--data", "rows/first.parquet", "--out", "v.csv", "--workers", "2"), "--workers is an"),
        (
            ("--data", "rows", "--out", "values/", "--engine", "mpi"),
            "engine: expected local or ray",
        ),
    ],
)
def test_options_of_the_other_kind_of_job(words: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["explain", "--model", "score.py:predict", *words])
    assert result.exit_code == 2
    assert message in result.stderr


def test_engines_have_names() -> None:
    assert executor_for("local") == executor_for("local", workers=1) == InProcess()
    assert executor_for("local", workers=3) == LocalProcesses(3)
    with pytest.raises(InputError, match="address and gpus are for --engine ray"):
        executor_for("local", address="auto")


@pytest.mark.usefixtures("here")
def test_a_large_row_group_is_cut_into_shards() -> None:
    shards = cut(
        [InputFile(Path("a"), Path("a"), (5, 2)), InputFile(Path("b"), Path("b"), (3,))], 2
    )
    assert [(s.path.name, s.group, s.start, s.rows, s.first_row, s.file_row) for s in shards] == [
        ("a", 0, 0, 2, 0, 0), ("a", 0, 2, 2, 2, 2), ("a", 0, 4, 1, 4, 4), ("a", 1, 0, 2, 5, 5),
        ("b", 0, 0, 2, 7, 0), ("b", 0, 2, 1, 9, 2),
    ]  # fmt: skip
    assert shards[3].place == "rows 5 to 6 of a (row group 1)"
    assert [shard.name for shard in shards[:2]] == ["part-000000.parquet", "part-000001.parquet"]

    files = [InputFile.of(path, path) for path in sorted(Path("rows").iterdir())]
    taken = sample(cut(files, 7), ["id"], 100)["id"].to_pylist()
    assert 90 < len(taken) <= 100
    assert taken == sorted(set(taken))
    assert taken[-1] > "00420"
    assert len(sample(cut(files, 7), ["id"], 10_000)) == ROWS


def test_a_sample_skips_what_is_read_at_once(tmp_path: Path) -> None:
    # one shard that is read in three goes, and two rows of it, which are both in the first two
    rows = 2 * shards.MAX_ROWS + 100
    pq.write_table(pa.table({"id": np.arange(rows)}), tmp_path / "rows.parquet")
    files = [InputFile.of(tmp_path / "rows.parquet", tmp_path / "rows.parquet")]
    taken = sample(cut(files, rows), ["id"], 2)["id"].to_pylist()
    assert taken == [0, rows // 2]


@pytest.mark.usefixtures("here")
def test_a_column_has_one_type_in_all_shards() -> None:
    """Whole numbers stay so, unless one is missing in any shard; then they are floats in all."""
    frame = table()[["a", "k"]].astype({"k": "Int64"})
    frame.loc[ROWS - 1, "k"] = pd.NA
    frame["t"] = frame["a"] > 0
    frame["n"] = range(ROWS)
    write_rows(Path("mixed"), frame)
    Path("types.py").write_text(
        "def predict(frame):\n"
        "    kinds = [str(kind) for kind in frame.dtypes]\n"
        "    assert kinds == ['float64', 'float64', 'bool', 'int64'], kinds\n"
        "    return frame['a'] * frame['n'] + frame['t']\n"
    )
    absent = pd.DataFrame({"a": [0.0], "k": [1], "t": [False], "n": [7]})
    absent.to_parquet("absent.parquet")
    explained(model="types.py:predict", data="mixed", id_column=None, keep=None, budget=16,
              background="absent.parquet")  # fmt: skip
    found = values()
    assert found["row"].tolist() == list(range(ROWS))
    assert found["data.k"].isna().sum() == 1
    np.testing.assert_allclose(found["base_value"], 0.0)


@pytest.mark.usefixtures("here")
def test_text_has_the_same_categories_in_all_shards() -> None:
    """A booster that knows categories by their number must not be given others in each shard."""
    import xgboost

    frame = table().sort_values("s", ignore_index=True)
    inputs = frame[["a", "s"]].astype({"s": "category"})
    target = frame["a"] * (frame["s"] == "z")
    data = xgboost.DMatrix(inputs, target, enable_categorical=True)
    booster = xgboost.train({"nthread": 1}, data, num_boost_round=5)
    booster.save_model("model.json")
    write_rows(Path("sorted"), frame)
    frame[:4].to_parquet("few.parquet")
    explained(model="model.json", data="sorted", background="few.parquet", id_column=None)
    np.testing.assert_allclose(values()["prediction"], booster.predict(data), atol=1e-5)


@pytest.mark.usefixtures("here")
def test_a_model_and_a_background_that_are_objects() -> None:
    frame = table()
    model = LinearRegression().fit(frame[list("abc")], frame["a"] - 2 * frame["b"])
    explained(model=model, background=frame[list("abc")][:1], budget=None)
    found = values()
    np.testing.assert_allclose(found["value.b"], -2 * (frame["b"] - frame["b"][0]), atol=1e-9)
    with pytest.raises(InputError, match="another background"):
        explained(model=model, background=frame[list("abc")][1:2], budget=None)


# Going on, and what is refused


@pytest.mark.usefixtures("here")
def test_only_what_is_missing_is_explained_again(undisturbed: pd.DataFrame) -> None:
    explained()
    Path("values/part-000003.parquet").unlink()
    Path("values/part-000005.parquet").write_bytes(b"PAR1 cut off")
    Path("values/.part-000005.parquet.0123.partial").write_text("left by a worker that was killed")
    again = explained()
    assert (again.rows, again.rows_before) == (2 * GROUP, ROWS - 2 * GROUP)
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("here")
def test_another_job_is_refused() -> None:
    explained()
    others: dict[str, dict[str, Any]] = {
        "budget 30, and not 32": {"budget": 32},
        "seed 0, and not 1": {"seed": 1},
        'method "auto", and not "kernel"': {"method": "kernel"},
        "tol unset, and not 0.1": {"tol": 0.1},
        'id_column "id", and not unset': {"id_column": None},
        "another background": {"background": "median"},
    }
    for words, options in others.items():
        with pytest.raises(InputError) as raised:
            explained(**options)
        assert f"holds a job with {words}" in str(raised.value)
        assert "choose another folder" in str(raised.value)

    Path("score.py").write_text(SCORE + "\n# changed\n")
    with pytest.raises(InputError, match="holds a job with another model; choose"):
        explained()
    Path("score.py").write_text(SCORE)
    write_rows(Path("rows"), table(), group=GROUP + 1)
    with pytest.raises(InputError, match="holds a job with other files of data; choose"):
        explained()


@pytest.mark.usefixtures("here")
def test_mistakes_leave_no_trace() -> None:
    Path("file").write_text("")
    Path("full").mkdir()
    Path("full/other.txt").write_text("")
    Path("empty").mkdir()
    mistakes: dict[str, dict[str, Any]] = {
        "model: there is no file score9.py": {"model": "score9.py:predict"},
        "data: there is no file or folder": {"data": "nothing"},
        "data: there are no rows in the Parquet files of": {"data": "empty"},
        "id: there is no column 'nr'": {"id_column": "nr"},
        "keep: there is no column 'nr'": {"keep": ("nr",)},
        "is in the folder of the data": {"out": "rows/values"},
        "is a file; a large job writes a folder": {"out": "file"},
        "not empty: it holds other.txt": {"out": "full"},
        "is the name of a file; the rows of a folder": {"out": "values.parquet"},
        "out: there is no folder": {"out": "no/values"},
        "device: expected auto, or names": {"device": "gpu"},
        "there is no method 'magic'": {"method": "magic"},
        "shard_rows: expected at least 1": {"shard_rows": 0},
    }
    for words, options in mistakes.items():
        with pytest.raises(Exception, match=words) as raised:
            explained(**options)
        assert raised.type.__module__ == "shearshap.errors", raised
    assert not Path("values").exists()


@pytest.mark.usefixtures("here")
def test_files_of_other_columns_are_refused() -> None:
    table().drop(columns="k").to_parquet("rows/third.parquet")
    with pytest.raises(InputError, match=r"have different columns \(k\)"):
        explained()


# Faults


@pytest.mark.usefixtures("here")
def test_a_worker_that_is_killed_twice(undisturbed: pd.DataFrame) -> None:
    """Of two workers, whose values are those of one."""
    Path("lives").write_text("2")
    summary = job().run(executor=LocalProcesses(2), progress=False)
    assert summary.retries == 2
    assert Path("lives").read_text() == "0"
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("here")
def test_a_shard_that_kills_every_worker_is_named() -> None:
    Path("lives").write_text("2")
    table()[:20].to_parquet("few.parquet")
    with pytest.raises(JobError) as raised:
        job(data="few.parquet").run(executor=LocalProcesses(2, attempts=2), progress=False)
    text = str(raised.value)
    assert "1 of 1 shard failed: part-000000.parquet (rows 0 to 19 of" in text
    assert "after 2 attempts: the worker died: signal SIGKILL; " in text
    assert raised.value.summary.retries == 1


@pytest.mark.usefixtures("here")
def test_the_driver_is_killed_and_started_again(undisturbed: pd.DataFrame) -> None:
    Path("slow").touch()
    words = [
        "explain", "--model", "score.py:predict", "--data", "rows", "--out", "values/", "--budget", "30", "--id", "id",
        "--keep", "k", "--workers", "2",
    ]  # fmt: skip
    driver = subprocess.Popen([sys.executable, "-m", "shearshap.cli", *words])
    try:
        wait_for(lambda: len(log()) >= 2)
        with pytest.raises(
            InputError, match=rf"another run is at work in .*process {driver.pid} on"
        ):
            explained()
    finally:
        driver.kill()
        driver.wait()
    workers = {int(entry["worker"].split(":")[1]) for entry in log()}
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))

    Path("slow").unlink()
    again = explained()
    assert again.rows_before >= 2 * GROUP
    assert again.rows + again.rows_before == ROWS
    check_whole(values(), undisturbed)


def wait_for(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


def log() -> list[dict[str, Any]]:
    path = Path("values", LOG)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def small_disk(here: Path) -> Iterator[Callable[[str], None]]:
    """A disk at values/ that is mounted with one size, and can be given another."""
    place = here / "values"
    place.mkdir()

    def mount(options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            pytest.skip("only root can mount a disk")

    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root can mount a disk")
    mount("size=120k")
    yield lambda size: mount(f"remount,size={size}")
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full(small_disk: Callable[[str], None], undisturbed: pd.DataFrame) -> None:
    with pytest.raises(JobError) as raised:
        explained()
    text = str(raised.value)
    assert "No space left on device" in text
    assert "; stopped: " in text
    done = raised.value.summary.rows
    assert 0 < done < ROWS
    assert len(values()) == done  # nothing half-written

    small_disk("10m")
    assert explained().rows == ROWS - done
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("here")
def test_a_disk_that_takes_no_more_files(
    undisturbed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = store._publish

    def failing(partial: Path, path: Path) -> None:
        if path.name == "part-000004.parquet":
            raise OSError(28, "No space left on device")
        publish(partial, path)

    with monkeypatch.context() as patched:
        patched.setattr(store, "_publish", failing)
        with pytest.raises(
            JobError, match=r"1 of 12 shards .*part-000004.*No space left on device"
        ):
            explained()
    assert len(values()) == 4 * GROUP
    explained()
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("here")
def test_a_row_group_that_is_corrupt() -> None:
    file = Path("rows/first.parquet")
    sound = file.read_bytes()
    column = pq.read_metadata(file).row_group(2).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    broken = bytearray(sound)
    broken[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)

    table().drop(columns="id")[:3].to_parquet("absent.parquet")
    options: dict[str, Any] = {
        "method": "permutation",
        "background": "absent.parquet",
        "budget": 90,
    }
    explained(out="sound", **options)
    file.write_bytes(broken)
    with pytest.raises(JobError) as raised:
        explained(**options)
    text = str(raised.value)
    assert "1 of 12 shards failed: part-000002.parquet (rows 80 to 119 of" in text
    assert "cannot be read" in text
    assert raised.value.summary.rows == ROWS - GROUP

    file.write_bytes(sound)
    explained(**options)
    check_whole(values(), values("sound"))


@pytest.mark.usefixtures("here")
def test_a_background_is_the_same_after_a_row_group_is_mended() -> None:
    """It is the mean of a sample, without the rows that could not be read when the job began."""
    file = Path("rows/first.parquet")
    sound = file.read_bytes()
    start = pq.read_metadata(file).row_group(2).column(0).data_page_offset
    file.write_bytes(sound[:start] + bytes(50) + sound[start + 50 :])
    with pytest.raises(JobError, match="1 of 12 shards"):
        explained()
    file.write_bytes(sound)
    explained()
    assert len(values()["base_value"].unique()) == 1
    assert len(values()) == ROWS


@pytest.mark.usefixtures("here")
def test_a_model_that_raises_on_one_row(undisturbed: pd.DataFrame) -> None:
    wrong = 202  # it is not in the sample that the calibration is fitted to
    Path("bad").write_text(repr(float(table()["a"][wrong])))
    words = [
        "explain", "--model", "score.py:predict", "--data", "rows", "--out", "values/", "--budget", "30", "--id", "id",
        "--keep", "k",
    ]  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "1 of 12 shards failed: part-000005.parquet" in result.stderr
    assert "after 3 attempts: the model failed" in result.stderr
    assert "RuntimeError: cannot score this" in result.stderr
    assert f"among all rows it is row {wrong}" in result.stderr
    assert len(values()) == ROWS - GROUP
    assert not list(Path("values").glob(".*.partial"))
    assert [entry["shard"] for entry in log() if entry["error"]] == ["part-000005.parquet"]

    Path("bad").unlink()
    assert explained().rows == GROUP
    check_whole(values(), undisturbed)


@pytest.mark.usefixtures("here")
def test_a_sample_does_without_the_rows_that_the_model_fails_on() -> None:
    Path("bad").write_text(repr(float(table()["a"][0])))
    with pytest.raises(JobError, match="1 of 12 shards"):
        explained()
    assert len(values()) == ROWS - GROUP


@pytest.mark.usefixtures("here")
def test_memory_that_runs_out_halves_the_rows_at_once(
    undisturbed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    stream = Explainer.stream

    def small(self: Explainer, rows: Any, **options: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > GROUP // 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stream(self, rows, **options)

    monkeypatch.setattr(Explainer, "stream", small)
    explained()
    assert set(sizes) == {GROUP, GROUP // 2}
    found = values()
    assert found["id"].tolist() == table()["id"].tolist()
    np.testing.assert_allclose(
        found.filter(like="value"), undisturbed.filter(like="value"), atol=1e-6
    )


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.usefixtures("here")
def test_workers_compute_on_a_gpu() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    drop = ("k", "s")
    explained(model=network, drop=drop, out="on_cpu")
    job(model=network, drop=drop, device="auto").run(executor=LocalProcesses(2), progress=False)
    np.testing.assert_allclose(
        values().filter(like="value"), values("on_cpu").filter(like="value"), atol=1e-4
    )


def test_devices_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [device_of(("cuda:0", "cuda:1"), worker) for worker in range(3)] == [
        "cuda:0",
        "cuda:1",
        "cuda:0",
    ]
    assert device_of((), 3) is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of((AUTO,), 3) == "cuda:1"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert device_of((AUTO,), 3) is None


# The lock


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(InputError, match=f"another run is at work .*process {os.getpid()} on"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):  # it was given back
        pass


# Progress


@pytest.mark.usefixtures("here")
def test_the_log_has_a_line_for_each_shard() -> None:
    words = [
        "explain", "--model", "score.py:predict", "--data", "rows", "--out", "values/", "--budget", "30", "--log", "-",
        "--drop", "id",
    ]  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("{")]
    entries = [json.loads(line) for line in lines]
    assert [entry["first_row"] for entry in entries] == list(range(0, ROWS, GROUP))
    assert all(entry["rows"] == GROUP and entry["attempt"] == 1 for entry in entries)
    assert all(entry["evaluations"] == 30 * GROUP for entry in entries)
    assert all(entry["peak_bytes"] > 1 << 20 and not entry["error"] for entry in entries)
    assert f"{ROWS} of {ROWS} rows, " in result.stderr
    assert result.stdout.startswith(f"rows        {ROWS} explained, 0 done before\n")
    assert f"evaluations {30 * ROWS:,}\nretries     0\n" in result.stdout
    assert values()["data.id"].tolist() == table()["id"].tolist()


# Files that were damaged


@given(
    changes=st.lists(st.tuples(st.integers(0, 9_999), st.integers(0, 255)), min_size=1, max_size=5),
    from_end=st.booleans(),
    cut_at=st.none() | st.integers(0, 3_000),
)
def test_no_damage_to_a_parquet_file_crashes_its_reader(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, int]],
    from_end: bool,
    cut_at: int | None,
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(table()[:60]), path, row_group_size=20)
    content = bytearray(path.read_bytes())
    for place, byte in changes:
        content[(-1 - place if from_end else place) % len(content)] = byte
    path.write_bytes(content[:cut_at])
    try:
        file = InputFile.of(path, path)
        names = input_schema(path).names
        for shard in cut([file], 1_000)[:9]:
            for _ in batches(shard, names, 16):
                pass
    except InputError as error:
        assert "cannot be read" in str(error) or "duplicate column" in str(error)  # noqa: PT017


# The manifest


CALIBRATION = Calibration(players=(0.5, 0.25), centres=((0.1, 0.2),)).to_dict()
SOUND = {
    "format": 2,
    "identity": {"budget": 30, "model": "0" * 64},
    "preparation": {
        "columns": [["base_value", "double"], ["evaluations", "int64"]],
        "gaps": ["k"],
        "categories": {"s": ["x", "y"]},
        "calibration": json.loads(json.dumps(CALIBRATION)),
        "background": "0" * 64,
        "predictions": {"0": [0.5, 1.5]},
    },
}
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    preparation = Preparation.from_dict(SOUND["preparation"])
    saved = Manifest({"budget": 30, "tol": None}, preparation)
    saved.save(tmp_path / MANIFEST)
    assert Manifest.load(tmp_path / MANIFEST) == saved
    text = (tmp_path / MANIFEST).read_text()
    for changed in (text.replace("30", "31"), text[:-9], text.replace("0.25", "0.26"), "", "[1]"):
        (tmp_path / MANIFEST).write_text(changed)
        with pytest.raises(InputError, match="is damaged, or the manifest of another version"):
            Manifest.load(tmp_path / MANIFEST)


@given(content=st.binary(max_size=200) | ANYTHING.map(lambda data: json.dumps(data).encode()))
def test_no_content_crashes_the_loader_of_manifests(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    check_refused(tmp_path_factory, content)


def check_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / MANIFEST
    path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        Manifest.load(path)


def test_deep_and_missing_manifests_are_refused(tmp_path: Path) -> None:
    path = tmp_path / MANIFEST
    path.write_text("[" * 200_000)
    with pytest.raises(InputError, match="is damaged"):
        Manifest.load(path)
    path.write_text('{"format": ' + "9" * 5_000 + "}")
    with pytest.raises(InputError, match="is damaged"):
        Manifest.load(path)
    path.unlink()
    with pytest.raises(InputError, match="cannot be read: No such file"):
        Manifest.load(path)


def test_in_process_stops_where_no_shard_can_be_written() -> None:
    shards = [Shard(number, Path("a"), 0, 0, 1, 0, 0, Path("a")) for number in range(3)]

    def full(shard: Shard, *, attempt: int = 1, worker: int = 0) -> ShardResult:
        return ShardResult(shard, attempt=attempt, worker=str(worker), error="full", halts=True)

    reports = list(InProcess().run(full, shards))
    assert [report.shard.number for report in reports] == [0]


# Odd files


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of rows, for files that a test makes."""
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    return tmp_path


def add_columns(frame: pd.DataFrame) -> Any:
    """Predict the sum of all columns of numbers."""
    return frame.select_dtypes("number").sum(axis=1).to_numpy(dtype=float)


def odd_job(**options: Any) -> Any:
    wanted: dict[str, Any] = {
        "model": add_columns, "data": "rows", "out": "values", "budget": 30,
    }  # fmt: skip
    return Job(**({"large": True} | wanted | options)).run(progress=False)


@pytest.mark.usefixtures("odd")
def test_linked_folders_are_read_once() -> None:
    Path("elsewhere").mkdir()
    table().loc[:9, ["a", "b"]].to_parquet("rows/first.parquet")
    table().loc[10:19, ["a", "b"]].to_parquet("elsewhere/second.parquet")
    Path("rows/linked").symlink_to("../elsewhere")
    Path("rows/twice").symlink_to("../elsewhere")
    Path("elsewhere/back").symlink_to("../rows")
    assert odd_job().rows == 20
    assert values()["data.a"].tolist() == table().loc[:19, "a"].tolist()


def add_codes(frame: pd.DataFrame) -> Any:
    """Predict by the codes of categories, as a model does that was trained on codes."""
    return (frame["a"] * frame["size"].cat.codes + (frame["size"] > "low")).to_numpy(dtype=float)


def sizes(rows: int = 30) -> pd.DataFrame:
    sizes = ["low", "mid", "high", "giant"]
    frame = table().loc[: rows - 1, ["a"]]
    return frame.assign(
        size=pd.Categorical([sizes[row % 3] for row in range(rows)], sizes, ordered=True)
    )


@pytest.mark.usefixtures("odd")
def test_categories_keep_their_order() -> None:
    frame = sizes()
    frame[:20].to_parquet("rows/1.parquet", row_group_size=7)
    frame[20:].to_parquet("rows/2.parquet")
    odd_job(model=add_codes, background="mode")
    np.testing.assert_allclose(values()["prediction"], add_codes(frame))


def add_texts(frame: pd.DataFrame) -> Any:
    return (frame["a"] * (frame["size"].astype(object) == "low")).to_numpy(dtype=float)


@pytest.mark.usefixtures("odd")
def test_a_column_of_categories_in_one_file_and_of_text_in_another() -> None:
    frame = sizes()
    frame[:20].to_parquet("rows/1.parquet")
    frame[20:].astype({"size": str}).to_parquet("rows/2.parquet")
    odd_job(model=add_texts, background="mode")
    np.testing.assert_allclose(values()["prediction"], add_texts(frame))
    assert values()["data.size"].tolist() == frame["size"].tolist()


@pytest.mark.usefixtures("odd")
def test_names_of_a_part_are_different() -> None:
    table().loc[:9, ["a", "b", "id"]].rename(columns={"id": "data.a"}).to_parquet("rows/1.parquet")
    odd_job(id_column="data.a", keep=("a", "a"))
    found = values()
    assert found["row"].tolist() == table().loc[:9, "id"].tolist()
    assert found["data.a"].tolist() == table().loc[:9, "a"].tolist()


@pytest.mark.usefixtures("here")
def test_a_model_that_exits_is_no_success() -> None:
    Path("score.py").write_text("def predict(frame):\n    raise SystemExit(0)\n")
    result = CliRunner().invoke(
        app,
        [
            "explain",
            "--model",
            "score.py:predict",
            "--data",
            "rows",
            "--out",
            "values",
            "--id",
            "id",
        ],
    )
    assert result.exit_code == 2
    assert "the code of the model score.py:predict called exit (with 0)" in result.stderr
    assert not Path("values").exists()


@pytest.mark.usefixtures("odd")
def test_a_job_that_cannot_be_done_is_refused_in_plain_words() -> None:
    table().loc[:9, ["a", "b"]].to_parquet("rows/1.parquet")
    with pytest.raises(InputError, match=r"data: no column of .*rows is left for the model"):
        odd_job(drop=("a", "b"))
    with pytest.raises(InputError, match="workers: expected at least 1, got 0"):
        LocalProcesses(0)
    wanted = Job(large=True, model=add_columns, data=Path("rows"), out=Path("values"))
    with pytest.raises(InputError, match="log: there is no folder nowhere"):
        wanted.run(progress=False, log="nowhere/log")
