"""Jobs that write a folder of parts, as their tests make and run them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from clock import PATIENCE
from shearshap.apps.cli import app
from shearshap.apps.jobs import Job, Outcome

ROWS = 96
GROUP = 16
PARTS = ROWS // GROUP
METHOD = "permutation"  #: which needs no calibration, and so little time
SCORE = """
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def predict(frame):
    node = os.environ.get("RAY_RAYLET_PID")
    if node is not None or multiprocessing.parent_process() is not None:
        maybe_die(node)
    if (HERE / "slow").exists():
        time.sleep(0.05)
    if has_row(frame, "endless"):
        time.sleep(600)
    if has_row(frame, "bad"):
        raise RuntimeError("cannot score this")
    a, b, c, k = (frame[name].to_numpy(dtype=float) for name in "abck")
    return a * b * c + np.sin(b) * k + np.where(frame["s"] == "x", a * c, b)


def has_row(frame, name):
    return (HERE / name).exists() and (frame["a"] == float((HERE / name).read_text())).any()


def maybe_die(node):
    doomed = HERE / "doomed"
    if doomed.exists() and doomed.read_text() == node:
        (HERE / "begun").touch()
        time.sleep(600)
    while doomed.exists() and not (HERE / "begun").exists():
        time.sleep(0.02)  # another node would do all the work before the doomed one begins
    for life in HERE.glob("life-*"):
        try:
            life.unlink()  # by one worker only
        except FileNotFoundError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""A model that waits, fails or kills its worker, or hangs at a row or on a node, if files beside it say so."""

WORDS = (
    "--model", "score.py:predict", "--data", "rows", "--id", "id", "--keep", "k",
    "--method", METHOD, "--budget", "22", "--background", "mean:train.parquet",
)  # fmt: skip


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=list("abc"))
    frame["k"] = rng.integers(0, 5, ROWS)
    frame["s"] = rng.choice(["x", "y", "z"], ROWS)
    frame["id"] = [f"{number:05}" for number in range(ROWS)]
    return frame


def write_rows(folder: Path, frame: pd.DataFrame, group: int = GROUP) -> None:
    """Write a frame to a folder of two files of several row groups."""
    folder.mkdir(exist_ok=True)
    half = len(frame) // 2
    for name, part in {"first": frame[:half], "second": frame[half:]}.items():
        rows = pa.Table.from_pandas(part, preserve_index=False)
        pq.write_table(rows, folder / f"{name}.parquet", row_group_size=group)


def write_train(folder: Path) -> None:
    """Write the rows whose mean is the background of most jobs: one row takes little time."""
    table().to_parquet(folder / "train.parquet")


def job(**options: Any) -> Job:
    wanted: dict[str, Any] = {
        "model": "score.py:predict", "data": "rows", "out": "values", "id_column": "id", "keep": ("k",),
        "method": METHOD, "budget": 22, "large": True, "background": "mean:train.parquet",
    }  # fmt: skip
    return Job(**(wanted | options))


def explained(**options: Any) -> Outcome:
    return job(**options).run(progress=False)


def values(folder: str = "values") -> pd.DataFrame:
    return pd.read_parquet(folder)


def parts(folder: str = "values") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("part-*"))}


def check_whole(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """Every id exactly once, in the order of the rows, and the values of an undisturbed run."""
    assert found["id"].tolist() == table()["id"].tolist()
    pd.testing.assert_frame_equal(found, wanted)
    assert not list(Path("values").glob(".*.partial"))


def shear(*words: object, out: str = "values/") -> Result:
    given = [str(word) for word in ("explain", *WORDS, "--out", out, *words)]
    return CliRunner().invoke(app, given)


def done(*words: object, out: str = "values/") -> str:
    """Run a command that must work, and return its summary."""
    result = shear(*words, out=out)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refusal(*words: object, out: str = "values/") -> str:
    """Run a command that must fail, and return its one line."""
    result = shear(*words, out=out)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def wait_for(happens: Callable[[], object]) -> None:
    """Wait until something happens; a busy machine may take long."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


def save_onnx(path: Path, weights: list[float], data: str | None = None) -> None:
    """Write a linear model, whose weights may be in a file of their own."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    column = numpy_helper.from_array(np.array(weights, np.float32)[:, None], "w")
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])]
        for name, size in (("x", len(weights)), ("y", 1))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", inputs, outputs, [column])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    elsewhere = {"location": data, "size_threshold": 0, "save_as_external_data": True}
    onnx.save(model, path, **(elsewhere if data is not None else {}))
