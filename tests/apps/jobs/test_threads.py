"""Jobs in several threads of a process: none closes, moves or silences what another one uses."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from folder_jobs import wait_for
from shearshap import InputError, ShearWarning, explain
from shearshap.apps.jobs import Job

WAITS = """
import os
import time
from pathlib import Path

HERE = Path(__file__).parent


def predict(frame):
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    {late}
    return factor() * frame["a"] * frame["b"]
"""
"""A model that waits for a file beside it, and then does something."""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """Threads for jobs, and a current folder with rows."""
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 2)), columns=["a", "b"])
    rows.to_parquet("rows.parquet")
    pd.DataFrame({"a": [0.0], "b": [0.0]}).to_parquet("zero.parquet")
    with ThreadPoolExecutor() as threads:
        yield threads
        for folder in tmp_path.iterdir():  # whatever waits must not hold up the end
            if folder.is_dir():
                (folder / "go").touch()


def waiting(folder: str, late: str, factor: int = 2) -> Path:
    """Write a model that waits in a folder, and return the folder."""
    place = Path(folder).absolute()
    place.mkdir()
    (place / "score.py").write_text(WAITS.format(late=late))
    (place / "helper.py").write_text(f"def factor():\n    return {factor}\n")
    return place


def job(folder: Path, out: str) -> Callable[[], Any]:
    return Job(
        model=f"{folder / 'score.py'}:predict",
        data=folder.parent / "rows.parquet",
        out=out,
        background=f"mean:{folder.parent / 'zero.parquet'}",
    ).run


def factors(out: str) -> np.ndarray[Any, Any]:
    """Return by what a model has multiplied the product of a and b in each row."""
    found = pd.read_parquet(out)
    rows = pd.read_parquet("rows.parquet")
    return np.asarray(found["prediction"] / (rows["a"] * rows["b"]))


def begun(pool: ThreadPoolExecutor, folder: Path, out: str) -> "Future[Any]":
    """Start a job, and return once its model has been called."""
    future = pool.submit(job(folder, out))
    wait_for(lambda: (folder / "begun").exists() or future.done())
    return future


@pytest.mark.parametrize("out", ["{}.parquet", "{}/"])
def test_a_job_does_not_close_the_model_of_another(pool: ThreadPoolExecutor, out: str) -> None:
    late = waiting("first", "from helper import factor")
    now = waiting("second", "factor = lambda: 3")
    (now / "go").touch()
    first = begun(pool, late, out.format("a"))
    assert pool.submit(job(now, out.format("b"))).result(60).rows == 8
    (late / "go").touch()
    assert first.result(60).rows == 8
    np.testing.assert_allclose(factors(out.format("a")), 2)
    np.testing.assert_allclose(factors(out.format("b")), 3)
    assert "helper" not in sys.modules
    assert str(late) not in sys.path


def test_jobs_of_a_folder_share_its_modules(pool: ThreadPoolExecutor) -> None:
    folder = waiting("both", "from helper import factor")
    first, second = (begun(pool, folder, f"{name}.parquet") for name in "ab")
    (folder / "go").touch()
    first.result(60)
    second.result(60)
    for name in "ab":
        np.testing.assert_allclose(factors(f"{name}.parquet"), 2)
    assert "helper" not in sys.modules
    assert str(folder) not in sys.path


def test_a_module_of_another_job_is_not_taken_for_the_own(pool: ThreadPoolExecutor) -> None:
    first = waiting("first", "pass")
    second = waiting("second", "pass", factor=5)
    for folder in (first, second):
        code = folder / "score.py"
        code.write_text(f"from helper import factor\n{code.read_text()}")
    (second / "go").touch()
    running = begun(pool, first, "a.parquet")
    message = "another job in this process has imported helper from .*first, and .*second has a"
    with pytest.raises(InputError, match=message):
        job(second, "b.parquet")()
    (first / "go").touch()
    running.result(60)
    job(second, "b.parquet")()
    np.testing.assert_allclose(factors("a.parquet"), 2)
    np.testing.assert_allclose(factors("b.parquet"), 5)


def test_models_that_leave_the_folder_leave_it_for_no_other_job(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    leaves = "os.chdir(HERE); factor = lambda: 2"
    first, second = (waiting(name, leaves) for name in ("first", "second"))
    code = first / "score.py"
    code.write_text(code.read_text().replace("    (HERE", "    os.chdir(HERE)\n    (HERE", 1))
    running = begun(pool, first, str(tmp_path / "a.parquet"))
    later = begun(pool, second, str(tmp_path / "b.parquet"))
    (first / "go").touch()
    running.result(60)
    (second / "go").touch()
    later.result(60)
    assert Path.cwd() == tmp_path


def test_jobs_in_threads_do_not_silence_warnings(pool: ThreadPoolExecutor) -> None:
    first, second = (waiting(name, "factor = lambda: 2") for name in ("first", "second"))
    running = begun(pool, first, "a.parquet")
    later = begun(pool, second, "b.parquet")
    (first / "go").touch()
    running.result(60)
    (second / "go").touch()
    later.result(60)
    with pytest.raises(ShearWarning, match="too few"):  # as tests treat warnings
        explain(lambda x: np.prod(x, axis=1), np.ones((3, 24)), background=np.zeros(24), budget=7)
