"""Folders to work in, with rows and models, and a reader of damaged files."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from buckets import Bucket, new_bucket, s3_server
from damaged_files import Reader
from folder_jobs import SCORE, job, table, values, write_rows, write_train

FUNCTIONS = """
import sys

import numpy as np


def predict(frame):
    return 2 * frame["a"] + np.where(frame["s"] == "x", 1.0, 0.0) * frame["b"]


def pairs(frame):
    return 2 * frame["a"] + np.where(frame["s"] == "x", 1.0, 0.0) * (frame["b"] - 1)


def both(frame):
    return np.stack((frame["a"], -frame["b"]), axis=1)


def product(frame):
    return frame["a"] * frame["b"]


def total(frame):
    return frame.select_dtypes("number").sum(axis=1)


def hollow(frame):
    return np.where((frame["a"] == 2) & (frame["s"] == "y"), np.nan, frame["a"])


def stopped(frame):
    raise KeyboardInterrupt


def exits(frame):
    sys.exit(0)


def late(error):
    def function(frame):
        if (frame["a"] == 300).any():
            raise error
        return frame["a"] * frame["b"]

    return function


fails_late = late(RuntimeError("no 300"))
exits_late = late(SystemExit("done"))
stopped_late = late(KeyboardInterrupt())
word = "no model"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with functions to explain, rows, a background row, and 400 rows."""
    lines = [f"{number},{number % 7}\n" for number in range(400)]
    files = {
        "score.py": FUNCTIONS,
        "rows.csv": "a,b,s\n1,4,x\n2,5,y\n3,6,x\n",
        "absent.csv": "s,b,a\nz,1,0\n",
        "many.csv": "a,b\n" + "".join(lines),
        "few.csv": "a,b\n" + "".join(lines[:3]),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "score", raising=False)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a folder of rows and a model, of which a test may disturb one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "score", raising=False)
    Path("score.py").write_text(SCORE)
    write_rows(Path("rows"), table())
    write_train(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The values of a run that nothing happens to."""
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "score.py").write_text(SCORE)
    write_rows(place / "rows", table())
    model = f"{place}/score.py:predict"
    write_train(place)
    background = f"mean:{place}/train.parquet"
    undisturbed = job(model=model, data=place / "rows", out=place / "values", background=background)
    undisturbed.run(progress=False)
    return values(str(place / "values"))


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A process for files that may crash it."""
    with Reader(tmp_path_factory.mktemp("damaged")) as reader:
        yield reader


@pytest.fixture(scope="session")
def s3() -> Iterator[tuple[Any, str]]:
    """One S3 server for all tests of a process."""
    pytest.importorskip("moto.server")
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: tuple[Any, str]) -> Bucket:
    """A bucket of its own in an S3 server on this machine."""
    return new_bucket(s3)
