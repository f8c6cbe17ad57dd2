"""Files that are broken, or of another kind, or that would run code: loaders raise `InputError`, and nothing else.

Broken files are opened in a process of their own. Where one of them took it down, the test would say which. Those of
boosters are not here: some of them take down the library that reads them.
"""

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shearshap.errors import InputError
from shearshap.jobs import tables
from shearshap.jobs.models import open_model
from shearshap.jobs.options import BackgroundOption

MUTANTS = 12  #: broken files of each kind

CHILD = """
import json, sys, warnings
from pathlib import Path

from shearshap.errors import InputError
from shearshap.jobs import tables
from shearshap.jobs.models import open_model

warnings.simplefilter("ignore")
for line in sys.stdin:
    path = line.strip()
    print("opening", path, flush=True)
    try:
        if path.endswith((".csv", ".parquet")):
            tables.read(Path(path), "data")
        else:
            open_model(path)
        outcome = ""
    except InputError as error:
        outcome = str(error)
    except BaseException as error:
        outcome = f"!{type(error).__name__}: {error}"
    print(json.dumps([path, outcome]), flush=True)
"""


def mutants(content: bytes, seed: int) -> Iterator[bytes]:
    """Yield broken copies of a file: bytes changed, cut, doubled, put in."""
    rng = random.Random(seed)
    for number in range(MUTANTS):
        broken = bytearray(content)
        at = rng.randrange(len(broken))
        if number % 4 == 0:
            del broken[at:]
        elif number % 4 == 1:
            for _ in range(1 + number):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        elif number % 4 == 2:
            del broken[at : at + rng.randrange(1, 64)]
        else:
            broken[at:at] = rng.randbytes(rng.randrange(1, 64))
        yield bytes(broken)


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    return frame.assign(word=rng.choice(["x", "y"], 40))


def _onnx(path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    weight = numpy_helper.from_array(np.ones((3, 1), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
        [weight],
    )
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


KINDS: dict[str, Callable[[Path], object]] = {
    ".onnx": _onnx,
    ".csv": lambda path: _table().to_csv(path, index=False),
    ".parquet": lambda path: _table().to_parquet(path),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The message of each file, "" where it could be read; "!" where another error was raised."""
    folder = tmp_path_factory.mktemp("broken")
    files = [file for suffix in KINDS for file in _written(folder, suffix)]
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input="\n".join(map(str, files)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-500:] + child.stderr[-500:]
    lines = [line for line in child.stdout.splitlines() if line.startswith('["')]
    messages: dict[str, str] = dict(json.loads(line) for line in lines)
    assert list(messages) == [str(file) for file in files]
    return messages


def _written(folder: Path, suffix: str) -> list[Path]:
    """Write a whole file of a kind, and broken ones."""
    whole = folder / f"whole{suffix}"
    KINDS[suffix](whole)
    files = [whole]
    for number, content in enumerate(mutants(whole.read_bytes(), seed=len(suffix))):
        file = folder / f"broken-{number}{suffix}"
        file.write_bytes(content)
        files.append(file)
    return files


@pytest.mark.parametrize("suffix", KINDS)
def test_a_broken_file_is_read_or_refused_in_a_line(suffix: str, outcomes: dict[str, str]) -> None:
    own = {Path(path).name: said for path, said in outcomes.items() if path.endswith(suffix)}
    assert own.pop(f"whole{suffix}") == ""
    assert len(own) == MUTANTS
    assert any(own.values())
    for name, said in own.items():
        assert not said.startswith("!"), (name, said)
        assert "\n" not in said
        assert not said or said.startswith(("model: ", "data: "))


class Payload:
    """An object whose pickle writes a file when it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".json", ".ubj", ".txt", *KINDS])
def test_no_code_of_a_file_is_run(suffix: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    file = tmp_path / f"model{suffix}"
    file.write_bytes(pickle.dumps(Payload(mark)))
    is_table = suffix in (".csv", ".parquet")
    with pytest.raises(InputError):
        tables.read(file, "data") if is_table else open_model(str(file))
    assert not mark.exists()
    pickle.loads(file.read_bytes())  # though it would
    assert mark.exists()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(content=st.binary(max_size=200) | st.text(alphabet='ab1,."\n\r\t\x00é', max_size=200))
def test_any_bytes_are_a_table_or_refused(
    content: bytes | str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with suppress(InputError):
        table = tables.read(file, "data")
        assert len(table)
        assert table.column_names


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=st.text(min_size=1, max_size=30).filter(lambda name: "\x00" not in name))
def test_any_name_is_a_model_or_refused(name: str) -> None:
    with pytest.raises(InputError, match="model: "):
        open_model(f"no-such-place/{name}")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=st.text(max_size=30))
def test_any_background_is_understood_or_refused(text: str) -> None:
    with suppress(InputError):
        option = BackgroundOption.parse(text)
        assert option.statistic or option.file
