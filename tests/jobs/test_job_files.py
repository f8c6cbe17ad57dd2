"""Large jobs never overwrite what they read, and never trust or mix what has changed meanwhile."""

import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from shearshap.cli import app
from shearshap.errors import InputError
from shearshap.jobs import Job

ROWS = 240
GROUP = 40
MODEL = """
import time
from pathlib import Path

def predict(frame):
    if Path("slow").exists():
        time.sleep(0.03)
    return frame["a"] * frame["b"] + frame["k"] * (frame["c"] > 0)
"""


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=list("abc"))
    return frame.assign(k=rng.integers(0, 5, ROWS), id=range(ROWS))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of rows, and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "score", raising=False)
    Path("score.py").write_text(MODEL)
    Path("rows").mkdir()
    for number, part in enumerate((table()[: ROWS // 2], table()[ROWS // 2 :])):
        part.to_parquet(f"rows/f{number}.parquet", row_group_size=GROUP, index=False)
    return tmp_path


WORDS = ("--model", "score.py:predict", "--data", "rows", "--id", "id", "--budget", "12")


def shear(*words: object, out: str = "out/") -> Result:
    given = [str(word) for word in ("explain", *WORDS, "--out", out, *words)]
    return CliRunner().invoke(app, given)


def done(*words: object, out: str = "out/") -> str:
    result = shear(*words, out=out)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refusal(*words: object, out: str = "out/") -> str:
    result = shear(*words, out=out)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks, by its path."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "_lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# What is written


LOGS = [
    "rows/f0.parquet", "rows/new.parquet", "rows/new.jsonl", "score.py", "absent.parquet", "out/_manifest.json",
    "out/part-000000.parquet", "out/_parts.jsonl", "out/_lock", "out/new.jsonl", "out", "notes.txt", "notes.json",
    "link", "hard", "nowhere/log",
]  # fmt: skip


def test_a_log_replaces_nothing_that_is_no_log(here: Path) -> None:
    table()[["a", "b", "c", "k"]][:9].to_parquet("absent.parquet")
    Path("notes.txt").write_text("mine\n")
    Path("notes.json").write_text('{"mine": 1}\n')
    Path("link").symlink_to("rows/f0.parquet")
    os.link("rows/f1.parquet", "hard")
    background = ("--background", "mean:absent.parquet")
    done(*background)
    Path("out/part-000001.parquet").unlink()
    before = contents(here)
    for log in LOGS:
        assert "log: " in refusal(*background, "--log", log), log
        with pytest.raises(InputError, match="log: "):
            job("score.py:predict", background="mean:absent.parquet").run(progress=False, log=log)
        assert contents(here) == before, log
    assert "log: " in refusal("--log", "score.py", out="other/")
    assert not Path("other").exists()


@pytest.mark.usefixtures("here")
def test_a_log_is_added_to() -> None:
    for number in (1, 2):
        done("--log", "shear.log", out=f"out{number}/")
        assert len(Path("shear.log").read_text().splitlines()) == number * ROWS // GROUP
    done("--log", "/dev/null", out="out3/")


def test_no_folder_of_parts_is_one_that_is_read(here: Path) -> None:
    Path("net").mkdir()
    shutil.move("score.py", "net/score.py")
    shutil.copy("rows/f0.parquet", "net/absent.parquet")
    words = ("--model", "net/score.py:predict")
    before = contents(here)
    assert "net holds the model, net/score.py" in refusal(*words, out="net/")
    words = ("--background", "net/absent.parquet")
    assert "net holds the background, net/absent.parquet" in refusal(*words, out="net")
    assert "is in the folder of the data" in refusal(out="rows/out/")
    assert "is the data explained" in refusal(out="rows")
    assert contents(here) == before


def test_no_file_of_a_model_is_replaced(here: Path) -> None:
    save_onnx(here / "m.onnx", data="weights.csv")
    before = contents(here)
    words = ("--model", "m.onnx", "--data", "rows/f0.parquet", "--drop", "id", "--overwrite")
    result = CliRunner().invoke(app, ["explain", *words, "--out", "weights.csv"])
    assert (result.exit_code, result.stderr) == (
        2,
        "error: out: weights.csv is the model, and would be overwritten; choose another name\n",
    )
    assert contents(here) == before


def save_onnx(path: Path, data: str) -> None:
    """Write a linear model of four inputs whose weights are in a file of their own."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.full((4, 1), 2.0, np.float32), "w")
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])]
        for name, size in (("x", 4), ("y", 1))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", inputs, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(
        model, path, save_as_external_data=True, location=data, size_threshold=0,
        all_tensors_to_one_file=True,
    )  # fmt: skip


def test_a_folder_where_a_file_belongs_is_one_message(here: Path) -> None:
    done()
    for name in ("part-000001.parquet", "_lock", "_manifest.json", "_parts.jsonl"):
        Path("out", name).unlink()
        Path("out", name).mkdir()
        message = refusal()
        assert f"{here / 'out' / name} is a folder, and a file of the job belongs there" in message
        Path("out", name).rmdir()


@pytest.mark.parametrize("name", ["readme.txt", "extra.parquet", "part-000099.parquet"])
@pytest.mark.usefixtures("here")
def test_a_file_of_somebody_else_is_told(name: str) -> None:
    assert "note" not in done()
    table().to_parquet(f"out/{name}")
    assert f"also holds {name}, not of this job" in done()


# What was kept


def values(folder: str = "out") -> pd.DataFrame:
    return pd.read_parquet(folder)


def parts(folder: str = "out") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("part-*"))}


def zeros_in_a_page() -> None:
    part = Path("out/part-000001.parquet")
    column = pq.read_metadata(part).row_group(0).column(2)
    content = bytearray(part.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 20] = bytes(20)
    part.write_bytes(content)


def copy_of_the_neighbour() -> None:
    shutil.copy("out/part-000002.parquet", "out/part-000001.parquet")


def another_table_of_the_same_job() -> None:
    part = Path("out/part-000003.parquet")
    old = pq.read_table(part)
    place = old.schema.get_field_index("value.a")
    pq.write_table(old.set_column(place, "value.a", pa.array(np.zeros(len(old)))), part)


def cut_by_a_byte() -> None:
    part = Path("out/part-000000.parquet")
    part.write_bytes(part.read_bytes()[:-1])


def hashes_that_are_cut() -> None:
    hashes = Path("out/_parts.jsonl")
    hashes.write_bytes(hashes.read_bytes()[:-30])
    Path("out/part-000004.parquet").unlink()


def hashes_that_are_no_text() -> None:
    Path("out/_parts.jsonl").write_bytes(os.urandom(999) + b"\n[1]\nnull\n{}\n" + b"[" * 99_999)


def no_hashes() -> None:
    Path("out/_parts.jsonl").unlink()


def background_with_zeros() -> None:
    file = Path("out/_background.parquet")
    content = bytearray(file.read_bytes())
    content[100:200] = bytes(100)
    file.write_bytes(content)
    Path("out/part-000001.parquet").unlink()


def another_background() -> None:
    table()[["a", "b", "c", "k"]][:5].to_parquet("out/_background.parquet")
    Path("out/part-000001.parquet").unlink()


def no_background() -> None:
    Path("out/_background.parquet").unlink()


DAMAGE = [
    zeros_in_a_page, copy_of_the_neighbour, another_table_of_the_same_job, cut_by_a_byte, hashes_that_are_cut,
    hashes_that_are_no_text, no_hashes, background_with_zeros, another_background, no_background,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.usefixtures("here")
def test_what_was_damaged_is_made_again(damage: Callable[[], None]) -> None:
    done()
    before = parts()
    damage()
    done()
    assert parts() == before
    assert "0 explained, 240 done before" in done()


@pytest.mark.usefixtures("here")
def test_a_background_that_cannot_be_made_again_is_refused() -> None:
    """The rows that could be read when the job began are not those that can be read now."""
    done("--keep", "k")
    another_background()
    file = Path("rows/f0.parquet")
    content = bytearray(file.read_bytes())
    column = pq.read_metadata(file).row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + 60] = bytes(60)
    file.write_bytes(content)
    assert "_background.parquet is damaged or was replaced" in refusal("--keep", "k")


@pytest.mark.usefixtures("here")
def test_the_rows_of_a_csv_file_are_copied_again() -> None:
    table().to_csv("rows.csv", index=False)
    words = ("--data", "rows.csv", "--shard-rows", GROUP)
    done(*words)
    before = parts()
    Path("out/part-000002.parquet").unlink()
    shutil.copy("rows/f0.parquet", "out/_input.parquet")
    done(*words)
    assert parts() == before
    text = Path("rows.csv").read_text()
    Path("rows.csv").write_text(text[:-2] + "1\n")  # of the same size
    assert "other files of data" in refusal(*words)


# What the model is


def test_weights_beside_an_onnx_file_are_the_model(here: Path) -> None:
    save_onnx(here / "m.onnx", data="m.onnx.data")
    words = ("--model", "m.onnx")
    done(*words)
    assert "0 explained" in done(*words)
    weights = np.full(4, 2.0, np.float32)
    assert Path("m.onnx.data").read_bytes() == weights.tobytes()
    weights[0] += 5e-7  # which no prediction of a few rows shows
    Path("m.onnx.data").write_bytes(weights.tobytes())
    assert "holds a job with another model" in refusal(*words)


def job(model: Any, **options: Any) -> Job:
    wanted: dict[str, Any] = {"data": "rows", "out": "out", "id_column": "id", "budget": 12}
    return Job(large=True, model=model, **(wanted | options))


def add(frame: pd.DataFrame) -> Any:
    return (frame["a"] * frame["b"] + frame["k"]).to_numpy()


def add_thousandfold(frame: pd.DataFrame) -> Any:
    return 1000 * add(frame)


def add_otherwise(frame: pd.DataFrame) -> Any:
    """Differs for rows that are part row, part background, and for no row of the data."""
    return add(frame) + ((frame["k"] % 1 > 0) * frame["c"]).to_numpy()


class Wrapped:
    """A model in memory that looks the same whatever it holds."""

    def __init__(self, function: Callable[[pd.DataFrame], Any]) -> None:
        self.function = function

    def __call__(self, frame: pd.DataFrame) -> Any:
        return self.function(frame)


@pytest.mark.usefixtures("here")
def test_a_model_in_memory_that_was_changed_is_another() -> None:
    job(Wrapped(add)).run(progress=False)
    assert job(Wrapped(add)).run(progress=False).rows_before == ROWS
    for other in (add_thousandfold, add_otherwise):
        with pytest.raises(InputError, match="holds a job with another model"):
            job(Wrapped(other)).run(progress=False)


def test_a_function_of_another_source_is_another_model(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it differs at one row only, which is in no sample."""
    monkeypatch.syspath_prepend(here)
    source = "def predict(frame):\n    return frame['a'] * frame['b'] + (frame['a'] == {})\n"
    Path("versions.py").write_text(source.format(7))
    import versions  # type: ignore[import-not-found]

    job(versions.predict).run(progress=False)
    assert job(versions.predict).run(progress=False).rows_before == ROWS
    Path("versions.py").write_text(source.format(100))
    importlib.reload(versions)
    with pytest.raises(InputError, match="holds a job with another model"):
        job(versions.predict).run(progress=False)
    del sys.modules["versions"]


MODELS = """
import numpy as np, pandas as pd, torch
from catboost import CatBoostRegressor
from shearshap.jobs import Job

class Chosen:
    def __init__(self):
        self.names = {"a", "b", "c", "k"}
    def __call__(self, frame):
        return frame[sorted(self.names)].to_numpy(dtype=float).prod(axis=1)

def models():
    rows = pd.concat([pd.read_parquet(f"rows/f{number}.parquet") for number in (0, 1)])
    inputs = rows[["a", "b", "c", "k"]]
    torch.manual_seed(0)
    cat = CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False, thread_count=1)
    return {
        "torch": torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)),
        "catboost": cat.fit(inputs, rows.a * rows.b),
        "set": Chosen(),
    }

def explain(name, model):
    background = torch.zeros(1, 4, dtype=torch.float64) if name == "torch" else None
    job = Job(large=True, model=model, data="rows", out=name, id_column="id", budget=12, background=background)
    return job.run(progress=False)

if __name__ == "__main__":
    import models_of_mine
    for name, model in models_of_mine.models().items():
        models_of_mine.explain(name, model)
"""


def test_a_model_in_memory_is_the_same_in_another_process(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("models_of_mine.py").write_text(MODELS)
    subprocess.run([sys.executable, "models_of_mine.py"], check=True, cwd=here)
    monkeypatch.syspath_prepend(here)
    import models_of_mine  # type: ignore[import-not-found]

    models = models_of_mine.models()
    for name, model in models.items():
        Path(name, "part-000003.parquet").unlink()
        summary = models_of_mine.explain(name, model)
        assert (summary.rows, summary.rows_before) == (GROUP, ROWS - GROUP)
        assert values(name)["id"].tolist() == list(range(ROWS))
    models["torch"][0].weight.data[0, 0] += 0.001
    models["set"].names.remove("k")
    cat = models["catboost"]
    cat.set_scale_and_bias(1.0, cat.get_scale_and_bias()[1] + 0.01)
    for name, model in models.items():
        with pytest.raises(InputError, match="holds a job with another model"):
            models_of_mine.explain(name, model)
    del sys.modules["models_of_mine"]


# A file or a folder


@pytest.mark.usefixtures("here")
def test_a_name_says_whether_it_is_a_file_or_a_folder() -> None:
    one = ("--data", "rows/f0.parquet")
    for name in ("values", "run.1", "values.txt"):
        message = refusal(*one, out=name)
        assert ".parquet, .pq, .csv, or for a large job a folder, with / at its end; got" in message
        assert ".parquet, .pq, .csv, or" in refusal(*one, "--workers", 2, out=name)
        assert not Path(name).exists()
    done(*one, out="values.parquet")
    done(*one, out="run.1/")
    assert len(parts("run.1")) == 3
    done(*one, out="run.1")  # it is a folder by now
    done(out="run.2")  # the data are a folder
    assert len(parts("run.2")) == 6


# What is read before the first shard


@pytest.mark.usefixtures("here")
def test_missing_values_are_counted_by_the_footers(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table().astype({"k": "Int64"})
    frame.loc[ROWS - 1, "k"] = pd.NA
    read: list[tuple[str, ...]] = []
    iterate = pq.ParquetFile.iter_batches

    def spy(self: Any, *sizes: Any, columns: Any = None, **options: Any) -> Any:
        read.append(tuple(columns))
        return iterate(self, *sizes, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    Path("types.py").write_text(
        "def predict(frame):\n"
        "    assert frame['k'].dtype == float\n"
        "    return frame['a'] * frame['k'].fillna(9)\n"
    )
    for statistics in (True, False):
        read.clear()
        pq.write_table(
            pa.Table.from_pandas(frame, preserve_index=False), "k.parquet", row_group_size=GROUP,
            write_statistics=statistics,
        )  # fmt: skip
        words = ("--model", "types.py:predict", "--data", "k.parquet", "--keep", "k")
        done(*words, out=f"out-{statistics}/")
        assert (("k",) in read) != statistics
    np.testing.assert_array_equal(values("out-True")["value.k"], values("out-False")["value.k"])


# Ends


needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows interrupts in another way")


def started(*words: str, module: str = "shearshap") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, "explain", *WORDS, "--out", "out/", *words]
    # a group of its own, whose processes all get the signal, as from a terminal
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def wait_for(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


@needs_signals
@pytest.mark.parametrize("moment", ["an import", "workers that start", "a shard"])
@pytest.mark.usefixtures("here")
def test_control_c_has_no_traceback(moment: str) -> None:
    Path("slow").touch()
    driver = started("--workers", "2")
    if moment == "an import":
        time.sleep(0.3)
    elif moment == "workers that start":
        wait_for(Path("out/_manifest.json").exists)
        time.sleep(0.2)
    else:
        wait_for(Path("out/part-000000.parquet").exists)
    os.killpg(driver.pid, signal.SIGINT)
    _, message = driver.communicate(timeout=60)
    assert driver.returncode == 130, message
    last = message.splitlines()[-1].strip()  # behind what a progress bar leaves
    assert last.startswith("stopped; ")
    assert "Traceback" not in message
    assert "ignored" not in message
    if moment != "an import":
        assert last == "stopped; what is finished is kept, and the same command goes on from there"


@needs_signals
@pytest.mark.usefixtures("here")
def test_a_run_that_is_killed_and_damaged_comes_out_as_another() -> None:
    """The driver and a worker are killed at random moments, and what they leave is damaged."""
    done(out="undisturbed/")
    rng = random.Random(0)
    Path("slow").touch()
    for who in ("worker", "driver"):
        before = len(parts())
        driver = started(*(("--workers", "2") if who == "worker" else ()))
        wait_for(lambda before=before: len(parts()) > before)  # type: ignore[misc]
        time.sleep(rng.uniform(0, 0.3))
        if who == "driver":
            driver.kill()
        else:
            children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
            os.kill(int(rng.choice(children)), signal.SIGKILL)
            time.sleep(0.3)
            driver.kill()
        driver.communicate(timeout=60)
        part = Path("out", rng.choice(sorted(parts())))
        content = bytearray(part.read_bytes())
        place = rng.randrange(len(content))
        content[place] ^= 255
        part.write_bytes(content[: place if rng.random() < 0.5 else None])
    Path("slow").unlink()
    done()
    assert parts() == parts("undisturbed")
    assert not list(Path("out").glob(".*"))

    manifest = Path("out/_manifest.json")
    sound = json.loads(manifest.read_bytes())
    sound["preparation"]["predictions"] = {}
    manifest.write_text(json.dumps(sound))
    assert "_manifest.json is damaged" in refusal()
