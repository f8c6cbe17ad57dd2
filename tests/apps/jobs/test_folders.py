"""Folders of parts: what comes out, what is gone on with, and what is refused."""

import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from sklearn.linear_model import LinearRegression
from tqdm import tqdm

import golden
import golden_ways
from damaged_files import DAMAGES, Damage, Reader, crash, read_shards, read_table, unshrunk
from folder_jobs import (
    GROUP,
    PARTS,
    ROWS,
    SCORE,
    check_whole,
    done,
    explained,
    job,
    parts,
    refusal,
    save_onnx,
    shear,
    table,
    values,
    write_rows,
)
from shearshap import Auto, Explainer
from shearshap.apps.jobs import InProcess, LocalProcesses, shards
from shearshap.apps.jobs.executors import executor_for
from shearshap.apps.jobs.manifest import MANIFEST, NUMBERS, Manifest, Preparation
from shearshap.apps.jobs.options import AUTO, Options, device_of
from shearshap.apps.jobs.plan import CONVERTED
from shearshap.apps.jobs.shards import InputFile, Shard, batches, cut, sample, shard_sizes
from shearshap.errors import InputError
from shearshap.methods.kriging import Calibration

pytestmark = pytest.mark.usefixtures("folder")


# What comes out


def test_the_parts_are_what_an_explainer_returns_with_the_same_calibration(folder: Path) -> None:
    summary = explained(method="auto")
    found = values()
    frame = table()
    calibration = Manifest.load(Path("values") / MANIFEST).preparation.calibration
    assert calibration is not None
    sys.path.insert(0, str(folder))
    import score

    sys.path.remove(str(folder))
    rows = frame.drop(columns="id")
    method = Auto(Calibration.from_dict(calibration))
    one = Explainer(score.predict, ("mean", rows), method=method)(rows, budget=22)
    for player, name in enumerate("abcks"):
        np.testing.assert_allclose(found[f"value.{name}"], one.values[:, player], atol=1e-6)
    assert found["data.k"].tolist() == frame["k"].tolist()
    assert found.columns[:2].tolist() == ["id", "base_value"]
    assert "data.a" not in found
    assert (summary.rows, summary.rows_before, summary.retries) == (ROWS, 0, 0)
    assert summary.evaluations == found["evaluations"].sum()
    assert list(parts()) == [f"part-{number:06}.parquet" for number in range(PARTS)]
    with pytest.raises(InputError, match="the values are in the files in"):
        _ = summary.explanation


@pytest.mark.slow
def test_a_csv_file_has_the_values_of_the_same_rows_in_parquet(undisturbed: pd.DataFrame) -> None:
    table().to_csv("rows.csv", index=False)
    words = ("--data", "rows.csv", "--shard-rows", GROUP)
    done(*words)
    check_whole(values(), undisturbed)  # ids with their zeros
    assert not list(Path("values").glob(CONVERTED.format("*")))

    before = parts()
    Path("values/part-000002.parquet").unlink()
    shutil.copy("rows/first.parquet", Path("values", CONVERTED.format("0" * 16)))
    done(*words)
    assert parts() == before
    Path("rows.csv").write_text(Path("rows.csv").read_text()[:-2] + "1\n")  # of the same size
    assert "other data (rows " in refusal(*words)


@pytest.mark.slow
def test_reports_and_interactions_of_a_folder() -> None:
    options: dict[str, Any] = {"interactions": True, "method": "permutation-antithetic"}
    outcome = explained(report=True, **options)
    assert outcome.report == Path("values/_report.html").absolute()
    assert "<!DOCTYPE html>" in outcome.report.read_text()
    files = sorted(Path("values/_interactions").glob("*.parquet"))
    pairs = pd.read_parquet(files)
    assert pairs["row"].unique().tolist() == table()["id"].tolist()
    assert np.isfinite(pairs["value"]).all()

    files[3].write_bytes(b"damaged")
    assert explained(**options).rows == GROUP
    pd.testing.assert_frame_equal(pd.read_parquet(files), pairs)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--groups", "groups.json"), "error: interactions: not defined for a hierarchy"),
        (("--method", "permutation"), "error: interactions need coalitions and their complements"),
    ],
)
def test_what_cannot_be_combined_with_interactions_is_refused_before_any_shard(
    words: tuple[str, ...], message: str
) -> None:
    Path("groups.json").write_text(json.dumps({"all": {"x": ["a", "b"], "c": None}}))
    assert refusal("--interactions", *words).startswith(message)
    assert not Path("values").exists()


@pytest.mark.slow
def test_the_log_has_a_line_for_each_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shearshap.apps.jobs.folder.SECONDS_PER_LINE", 0)
    result = shear("--log", "-")
    assert result.exit_code == 0, result.stderr
    entries = [json.loads(line) for line in result.stderr.splitlines()]
    assert [entry["first_row"] for entry in entries] == list(range(0, ROWS, GROUP))
    assert all(entry["rows"] == GROUP and entry["attempt"] == 1 for entry in entries)
    spent = sum(entry["evaluations"] for entry in entries)
    assert spent == values()["evaluations"].sum()
    assert all(entry["peak_bytes"] > 1 << 20 and not entry["error"] for entry in entries)
    assert result.stdout.startswith(f"rows        {ROWS} explained, 0 done before\n")
    assert f"evaluations {spent:,}\nretries     0\n" in result.stdout

    for number in (1, 2):
        result = shear("--log", "shear.log", out=f"out{number}/")
        assert f"{ROWS} of {ROWS} rows, " in result.stderr
        assert len(Path("shear.log").read_text().splitlines()) == number * PARTS
    done("--log", "/dev/null", out="out3/")


@pytest.mark.slow
def test_a_name_says_whether_it_is_a_file_or_a_folder() -> None:
    one = ("--data", "rows/first.parquet")
    for name in ("values", "values.txt"):
        assert "or in / for the folder of a large job" in refusal(*one, out=name)
        assert not Path(name).exists()
    done(*one, out="values.parquet")
    done(*one, out="run.1/")
    assert len(parts("run.1")) == PARTS // 2
    done(*one, out="run.1")  # it is a folder by now
    done(out="run.2")  # the data are a folder
    assert len(parts("run.2")) == PARTS


def test_a_progress_bar_changes_no_other() -> None:
    lock = tqdm.get_lock()
    job().run()
    assert tqdm.get_lock() is lock


def test_executors_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert executor_for("local") == executor_for("local", workers=1) == InProcess()
    assert executor_for("local", workers=3) == LocalProcesses(3)
    with pytest.raises(InputError, match="engine: expected local or ray, got 'mpi'"):
        executor_for("mpi")
    with pytest.raises(InputError, match="address and gpus are for --engine ray"):
        executor_for("local", address="auto")

    in_turn = [device_of(("cuda:0", "cuda:1"), worker) for worker in range(3)]
    assert in_turn == ["cuda:0", "cuda:1", "cuda:0"]
    for gpus, device in ((2, "cuda:1"), (0, None)):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        assert device_of((AUTO,), 3) == device


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_workers_compute_on_a_gpu() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    drop = ("k", "s")
    explained(model=network, drop=drop, out="on_cpu")
    job(model=network, drop=drop, device="auto").run(executor=LocalProcesses(2), progress=False)
    np.testing.assert_allclose(
        values().filter(like="value"), values("on_cpu").filter(like="value"), atol=1e-4
    )


# Shards, and the types of their columns


def shards_of(files: list[InputFile], rows: int) -> list[Shard]:
    return cut(files, shard_sizes(files, rows))


def test_a_large_row_group_is_cut_into_shards(tmp_path: Path) -> None:
    found = shards_of(
        [InputFile(Path("a"), Path("a"), (5, 2)), InputFile(Path("b"), Path("b"), (3,))], 2
    )
    pieces = [(shard.first_row, piece) for shard in found for piece in shard.pieces]
    assert [(p.path.name, p.group, p.start, p.rows, row, p.file_row) for row, p in pieces] == [
        ("a", 0, 0, 2, 0, 0), ("a", 0, 2, 2, 2, 2), ("a", 0, 4, 1, 4, 4), ("a", 1, 0, 2, 5, 5),
        ("b", 0, 0, 2, 7, 0), ("b", 0, 2, 1, 9, 2),
    ]  # fmt: skip
    assert found[3].place == "rows 5 to 6 of a (row group 1)"

    files = [InputFile.from_parquet(path, path) for path in sorted(Path("rows").iterdir())]
    ids = pa.schema([("id", pa.string())])
    rows, numbers = sample(shards_of(files, 7), ids, 40)
    taken = rows["id"].to_pylist()
    assert 30 < len(taken) <= 40
    assert taken == sorted(set(taken)) == [f"{number:05}" for number in numbers]
    assert taken[-1] > "00070"
    assert len(sample(shards_of(files, 7), ids, 10_000)[0]) == ROWS

    # one shard that is read in three goes, and two rows of it, which are both in the first two
    count = 2 * shards.MAX_ROWS + 100
    place = tmp_path / "many.parquet"
    pq.write_table(pa.table({"id": np.arange(count)}), place)
    ids = pa.schema([("id", pa.int64())])
    rows, _ = sample(shards_of([InputFile.from_parquet(place, place)], count), ids, 2)
    assert rows["id"].to_pylist() == [0, count // 2]


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
    pd.DataFrame({"a": [0.0], "k": [1], "t": [False], "n": [7]}).to_parquet("absent.parquet")
    explained(
        model="types.py:predict", data="mixed", background="absent.parquet", id_column=None, keep=None
    )  # fmt: skip
    found = values()
    assert found["row"].tolist() == list(range(ROWS))
    assert found["data.k"].isna().sum() == 1
    np.testing.assert_allclose(found["base_value"], 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["id", "k"])
def test_ids_and_written_columns_are_never_rounded(column: str) -> None:
    """A file in which one is missing has floating-point numbers, as pandas writes it."""
    first = table()[:20].assign(**{column: np.arange(20) + 10**17})
    second = table()[20:40].assign(**{column: [None, *range(19)]})
    Path("mixed").mkdir()
    first.to_parquet("mixed/0.parquet")
    second.to_parquet("mixed/1.parquet")
    words = (
        f"column '{column}' is int64 in one file and double in others, and would be written with"
    )
    with pytest.raises(InputError, match=words):
        explained(model=add_columns, data="mixed")
    assert not Path("values").exists()

    first.assign(**{column: np.arange(20) + 1000}).to_parquet("mixed/0.parquet")
    explained(model=add_columns, data="mixed")
    name = column if column == "id" else f"data.{column}"
    found = values()[name]
    assert found[:20].tolist() == list(range(1000, 1020))
    assert found[21:].tolist() == list(range(19))
    assert found.isna().sum() == 1


@pytest.mark.parametrize("cells", [lambda number: number, lambda number: [number]])
def test_decimals_are_never_rounded(cells: Callable[[Any], Any]) -> None:
    precise = [cells(Decimal(10**18 + number) / 1000) for number in range(20)]
    Path("mixed").mkdir()
    for name, ids in {"0": precise, "1": [cells(float(number)) for number in range(20)]}.items():
        rows = pa.Table.from_pandas(table()[:20][["a", "b", "c"]])
        pq.write_table(rows.append_column("id", pa.array(ids)), f"mixed/{name}.parquet")
    with pytest.raises(InputError, match=r"decimal numbers would be rounded.*one type in all"):
        explained(model=add_columns, data="mixed", keep=())
    options: dict[str, Any] = {"id_column": None, "keep": (), "drop": ("id",)}
    assert explained(model=add_columns, data="mixed", **options).rows == 40


def test_a_feature_of_large_numbers_is_rounded_as_pandas_does() -> None:
    Path("mixed").mkdir()
    for name, numbers in {"0": np.arange(20) + 2**53, "1": np.arange(20) / 2}.items():
        table()[:20].assign(k=numbers).to_parquet(f"mixed/{name}.parquet")
    explained(model=add_columns, data="mixed", id_column=None, keep=())
    assert values()["prediction"].notna().all()


def test_text_has_the_same_categories_in_all_shards() -> None:
    """A booster that knows categories by their number must not be given others in each shard."""
    import xgboost

    frame = table().sort_values("s", ignore_index=True)
    inputs = frame[["a", "s"]].astype({"s": "category"})
    data = xgboost.DMatrix(inputs, frame["a"] * (frame["s"] == "z"), enable_categorical=True)
    booster = xgboost.train({"nthread": 1}, data, num_boost_round=5)
    booster.save_model("model.json")
    write_rows(Path("sorted"), frame)
    frame[:4].to_parquet("few.parquet")
    explained(model="model.json", data="sorted", background="few.parquet", id_column=None)
    np.testing.assert_allclose(values()["prediction"], booster.predict(data), atol=1e-5)


def add_codes(frame: pd.DataFrame) -> Any:
    """Predict by the codes of categories, as a model does that was trained on codes."""
    return (frame["a"] * frame["size"].cat.codes + (frame["size"] > "low")).to_numpy(dtype=float)


def add_texts(frame: pd.DataFrame) -> Any:
    return (frame["a"] * (frame["size"].astype(object) == "low")).to_numpy(dtype=float)


@pytest.mark.parametrize("model", [add_codes, add_texts])
def test_categories_keep_their_order(model: Callable[[Any], Any], tmp_path: Path) -> None:
    """Those of a column that is text in another file are text."""
    sizes = ["low", "mid", "high", "giant"]
    frame = table().loc[:29, ["a"]]
    frame["size"] = pd.Categorical([sizes[row % 3] for row in range(30)], sizes, ordered=True)
    (tmp_path / "sizes").mkdir()
    frame[:20].to_parquet("sizes/1.parquet", row_group_size=7)
    rest = frame[20:] if model is add_codes else frame[20:].astype({"size": str})
    rest.to_parquet("sizes/2.parquet")
    explained(
        model=model, data="sizes", background="mode:sizes/1.parquet", id_column=None, keep=None
    )
    np.testing.assert_allclose(values()["prediction"], model(frame))
    assert values()["data.size"].tolist() == frame["size"].tolist()


def add_columns(frame: pd.DataFrame) -> Any:
    """Predict the sum of all columns of numbers."""
    return frame.select_dtypes("number").sum(axis=1).to_numpy(dtype=float)


def test_linked_files_and_folders_are_read_once() -> None:
    for name in ("linked", "elsewhere"):
        Path(name).mkdir()
    table().loc[:9, ["a", "b"]].to_parquet("linked/first.parquet")
    table().loc[10:19, ["a", "b"]].to_parquet("elsewhere/second.parquet")
    Path("linked/one").symlink_to("../elsewhere")
    Path("linked/twice").symlink_to("../elsewhere")
    Path("elsewhere/back").symlink_to("../linked")
    Path("linked/third.parquet").symlink_to("first.parquet")
    os.link("elsewhere/second.parquet", "linked/fourth.parquet")
    assert explained(model=add_columns, data="linked", id_column=None, keep=None).rows == 20
    assert values()["data.a"].tolist() == table().loc[:19, "a"].tolist()


def test_names_of_a_part_are_different() -> None:
    table().loc[:9, ["a", "b", "id"]].rename(columns={"id": "data.a"}).to_parquet("odd.parquet")
    explained(model=add_columns, data="odd.parquet", id_column="data.a", keep=("a", "a"))
    found = values()
    assert found["row"].tolist() == table().loc[:9, "id"].tolist()
    assert found["data.a"].tolist() == table().loc[:9, "a"].tolist()


# What was kept


def zeros_in_a_page() -> None:
    part = Path("values/part-000001.parquet")
    column = pq.read_metadata(part).row_group(0).column(2)
    content = bytearray(part.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 20] = bytes(20)
    part.write_bytes(content)


def missing_and_cut() -> None:
    Path("values/part-000003.parquet").unlink()
    part = Path("values/part-000000.parquet")
    part.write_bytes(part.read_bytes()[:-1])
    Path("values/.0123456789ab.partial").write_text("left by a worker that was killed")


def parts_that_changed_places() -> None:
    first, second = Path("values/part-000001.parquet"), Path("values/part-000002.parquet")
    first.rename("values/other")
    second.rename(first)
    Path("values/other").rename(second)


def no_parquet() -> None:
    Path("values/part-000004.parquet").write_bytes(os.urandom(999))
    Path("values/part-000005.parquet").write_bytes(b"")


def no_part_of_ours() -> None:
    table().to_parquet("values/part-000002.parquet")


def a_page_without_rows() -> None:
    """Flip a bit of a page's header so that pyarrow reads no rows, and sees no damage."""
    part = Path("values/part-000004.parquet")
    sound = part.read_bytes()
    for at in range(40, 400):
        part.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        try:
            with pq.ParquetFile(part, page_checksum_verification=True) as file:
                if not list(file.iter_batches()):
                    return
        except (pa.ArrowException, OSError):
            pass
    raise AssertionError("no bit has this effect")


DAMAGE = [
    a_page_without_rows, zeros_in_a_page, missing_and_cut, parts_that_changed_places, no_parquet, no_part_of_ours,
]  # fmt: skip


@pytest.mark.slow
def test_what_was_damaged_is_made_again() -> None:
    explained()
    before = parts()
    for damage in DAMAGE:
        damage()
        assert explained().rows > 0
        assert parts() == before, damage
    assert explained().rows_before == ROWS
    assert not list(Path("values").glob(".*"))


@pytest.mark.slow
def test_a_part_of_other_rows_is_made_again_without_ids() -> None:
    """Several shards may have the same rows; their numbers are those of the places."""
    write_rows(Path("rows"), pd.concat([table()[:GROUP]] * PARTS))
    explained(id_column=None)
    before = parts()
    shutil.copy("values/part-000001.parquet", "values/part-000002.parquet")
    assert explained(id_column=None).rows == GROUP
    assert parts() == before


@pytest.mark.slow
def test_trees_of_a_folder_without_a_background_follow_their_covers() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    frame = table()[["a", "b", "s"]].assign(s=lambda frame: frame["s"].astype("category"))
    model = lightgbm.LGBMRegressor(n_estimators=5, min_child_samples=5, n_jobs=1, verbose=-1)
    joblib.dump(model.fit(frame, frame["a"] * frame["s"].cat.codes), "trees.joblib")
    outcome = explained(
        model="trees.joblib", trust=True, background=None, budget=None, method="auto", keep=(),
        drop=("c", "k"),
    )  # fmt: skip
    assert outcome.notes == ()
    expected = model.predict(frame, pred_contrib=True)[:, :-1]
    np.testing.assert_allclose(values()[["value.a", "value.b", "value.s"]], expected, atol=1e-12)


def test_a_background_that_was_damaged_or_replaced_is_refused() -> None:
    options: dict[str, Any] = {"background": None, "budget": 250, "method": "leverage"}
    explained(**options)
    file = Path("values/_background.parquet")
    sound = file.read_bytes()
    file.write_bytes(sound[:100] + bytes(100) + sound[200:])
    with pytest.raises(InputError, match=r"cannot be read|another model or background"):
        explained(**options)
    table()[["a", "b", "c", "k", "s"]][:5].to_parquet(file)
    with pytest.raises(InputError, match="holds a job with another model or background"):
        explained(**options)
    file.write_bytes(sound)
    explained(**options)


# What the job is


def test_another_job_is_refused() -> None:
    explained()
    others: dict[str, dict[str, Any]] = {
        "budget 22 instead of 32": {"budget": 32},
        "seed 0 instead of 1": {"seed": 1},
        'method "permutation" instead of "kernel"': {"method": "kernel"},
        "tol unset instead of 0.1": {"tol": 0.1},
        'id_column "id" instead of unset': {"id_column": None},
        "another background": {"background": "median:train.parquet"},
    }
    for words, options in others.items():
        with pytest.raises(InputError, match=f"holds a job with {words}.*choose another folder"):
            explained(**options)

    Path("score.py").write_text(SCORE + "\n# changed\n")
    with pytest.raises(InputError, match="holds a job with another model; choose"):
        explained()
    Path("score.py").write_text(SCORE)
    write_rows(Path("rows"), table(), group=GROUP + 1)
    assert explained().rows_before == ROWS  # the same rows, in other row groups
    other = table()
    other.loc[20, "a"] = 0.5
    write_rows(Path("rows"), other)
    with pytest.raises(InputError, match=r"other data \(rows 16 to 31 of .*\); choose"):
        explained()
    write_rows(Path("rows"), table()[:-1])
    with pytest.raises(InputError, match="holds a job on 96 rows, and the data has 95 now; choose"):
        explained()


def test_groups_in_another_order_are_named() -> None:
    """The order is that of the columns of the values."""
    groups = {"first": ["a", "b"], "second": ["c"]}
    explained(groups=groups)
    turned = dict(reversed(groups.items()))
    with pytest.raises(InputError, match=r"holds a job with groups .* instead of "):
        explained(groups=turned)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_helpers_of_a_module_elsewhere_are_the_model(
    monkeypatch: pytest.MonkeyPatch, *, is_loaded: bool
) -> None:
    Path("lib/tools").mkdir(parents=True)
    Path("lib/tools/__init__.py").write_text("")
    Path("lib/tools/score.py").write_text(f"from tools.helper import add\n{SCORE}")
    Path("lib/tools/helper.py").write_text("def add(x):\n    return x\n")
    monkeypatch.syspath_prepend(Path("lib").absolute())
    if is_loaded:
        importlib.import_module("tools.helper")
    assert explained(model="tools.score:predict").rows == ROWS
    Path("lib/tools/helper.py").write_text("def add(x):\n    return x + 1\n")
    with pytest.raises(InputError, match="holds a job with another model; choose"):
        explained(model="tools.score:predict")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tools"]:
        del sys.modules[name]


def test_weights_beside_an_onnx_file_are_the_model(folder: Path) -> None:
    save_onnx(folder / "m.onnx", [2.0] * 4, data="weights.csv")
    words = ("--model", "m.onnx", "--drop", "s")
    done(*words)
    assert "0 explained" in done(*words)
    message = refusal(*words, "--data", "rows/first.parquet", "--overwrite", out="weights.csv")
    assert "weights.csv is the model, and would be overwritten" in message
    weights = np.full(4, 2.0, np.float32)
    assert Path("weights.csv").read_bytes() == weights.tobytes()
    weights[0] += 5e-7  # which no prediction of a few rows shows
    Path("weights.csv").write_bytes(weights.tobytes())
    assert "holds a job with another model" in refusal(*words)


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


def test_a_model_in_memory_that_was_changed_is_another() -> None:
    explained(model=Wrapped(add))
    assert explained(model=Wrapped(add)).rows_before == ROWS
    for other in (add_thousandfold, add_otherwise):
        with pytest.raises(InputError, match="holds a job with another model"):
            explained(model=Wrapped(other))


def test_a_large_prediction_hides_no_change_of_others() -> None:
    def spike(frame: pd.DataFrame) -> Any:
        return add(frame) + 1e12 * (frame["a"] == table()["a"][0]).to_numpy()

    explained(model=Wrapped(spike))
    with pytest.raises(InputError, match="holds a job with another model"):
        explained(model=Wrapped(lambda frame: spike(frame) + frame["b"].to_numpy()))


def test_a_function_of_another_source_is_another_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it differs at one row only, which is in no sample."""
    monkeypatch.syspath_prepend(folder)
    source = "def predict(frame):\n    return frame['a'] * frame['b'] + (frame['a'] == {})\n"
    Path("versions.py").write_text(source.format(7))
    import versions  # type: ignore[import-not-found]

    explained(model=versions.predict)
    assert explained(model=versions.predict).rows_before == ROWS
    Path("versions.py").write_text(source.format(100))
    importlib.reload(versions)
    with pytest.raises(InputError, match="holds a job with another model"):
        explained(model=versions.predict)
    del sys.modules["versions"]


MODELS = """
import torch
from folder_jobs import explained

class Chosen:
    def __init__(self):
        self.names = {"a", "b", "c", "k"}
    def __call__(self, frame):
        return frame[sorted(self.names)].to_numpy(dtype=float).prod(axis=1)

def models():
    torch.manual_seed(0)
    torch_model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    return {"torch": torch_model, "set": Chosen()}

def explain(name, model):
    background = torch.zeros(1, 4, dtype=torch.float64) if name == "torch" else "mean:train.parquet"
    return explained(model=model, out=name, background=background, drop=("s",))

if __name__ == "__main__":
    import models_of_mine
    for name, model in models_of_mine.models().items():
        models_of_mine.explain(name, model)
"""


@pytest.mark.slow
def test_a_model_in_memory_is_the_same_in_another_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a pickle of a torch module or of a set differs."""
    Path("models_of_mine.py").write_text(MODELS)
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    subprocess.run([sys.executable, "models_of_mine.py"], check=True, cwd=folder)
    monkeypatch.syspath_prepend(folder)
    import models_of_mine  # type: ignore[import-not-found]

    models = models_of_mine.models()
    for name, model in models.items():
        Path(name, "part-000003.parquet").unlink()
        summary = models_of_mine.explain(name, model)
        assert (summary.rows, summary.rows_before) == (GROUP, ROWS - GROUP)
    models["torch"][0].weight.data[0, 0] += 0.001
    models["set"].names.remove("k")
    for name, model in models.items():
        with pytest.raises(InputError, match="holds a job with another model"):
            models_of_mine.explain(name, model)
    del sys.modules["models_of_mine"]


def test_a_model_and_a_background_that_are_objects() -> None:
    frame = table()
    model = LinearRegression().fit(frame[list("abc")], frame["a"] - 2 * frame["b"])
    options = {"model": model, "budget": None, "method": "auto"}
    explained(background=frame[list("abc")][:1], **options)
    found = values()
    np.testing.assert_allclose(found["value.b"], -2 * (frame["b"] - frame["b"][0]), atol=1e-9)
    for other in (frame[list("abc")][1:2], frame[list("abc")][:1].to_numpy(), np.zeros((1, 3))):
        with pytest.raises(InputError, match="another background"):
            explained(background=other, **options)
    frame.to_parquet("one.parquet")
    explained(
        background=frame[list("abc")][:1], data="one.parquet", out="one.csv", large=False, **options
    )  # fmt: skip
    np.testing.assert_allclose(pd.read_csv("one.csv")["value.b"], found["value.b"])


# What is refused


def test_mistakes_leave_no_trace() -> None:
    Path("file").write_text("")
    Path("full").mkdir()
    Path("full/other.txt").write_text("")
    Path("empty").mkdir()
    write_rows(Path("other"), table())
    table().drop(columns="k").to_parquet("other/third.parquet")
    mistakes: dict[str, dict[str, Any]] = {
        "model: there is no file score9.py": {"model": "score9.py:predict"},
        "data: there is no file or folder": {"data": "nothing"},
        "data: the Parquet files in": {"data": "empty"},
        r"have different columns \(k\)": {"data": "other"},
        "id: there is no column 'nr'": {"id_column": "nr"},
        "keep: there is no column 'nr'": {"keep": ("nr",)},
        "data: no column of .*rows is left for the model": {"drop": (*"abcks",)},
        "is in the folder of the data": {"out": "rows/values"},
        "file is the name of a file; a large job writes a folder": {"out": "file"},
        "not empty: it holds other.txt": {"out": "full"},
        "values.parquet is the name of a file; a large job": {"out": "values.parquet"},
        "out: .*no/values cannot be created: No such file": {"out": "no/values"},
        "device: expected auto, or names": {"device": "gpu"},
        "there is no method 'magic'": {"method": "magic"},
        "shard_rows: expected at least 1": {"shard_rows": 0},
        "overwrite is for a file": {"overwrite": True},
        "executor and log are for large jobs": {"data": "rows/first.parquet", "large": False},
    }
    for words, options in mistakes.items():
        with pytest.raises(Exception, match=words) as raised:
            job(**options).run(progress=False, executor=InProcess())
        assert raised.type.__module__ == "shearshap.errors", raised
    assert not Path("values").exists()
    assert "--workers is only for large jobs" in refusal(
        "--data", "rows/first.parquet", "--workers", "2", out="v.csv"
    )


def test_a_model_that_exits_is_no_success() -> None:
    Path("score.py").write_text("def predict(frame):\n    raise SystemExit(0)\n")
    assert "the code of the model score.py:predict called exit (with 0)" in refusal()
    assert not Path("values").exists()


LOGS = [
    "rows/new.jsonl", "score.py", "absent.parquet", "values/part-000000.parquet", "values/new.jsonl", "values",
    "notes.json", "link", "hard", "nowhere/log",
]  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks, by its path."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "_lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_log_replaces_nothing_that_is_no_log(folder: Path) -> None:
    table()[["a", "b", "c", "k", "s"]][:9].to_parquet("absent.parquet")
    Path("notes.json").write_text('{"mine": 1}\n')
    Path("link").symlink_to("rows/first.parquet")
    os.link("rows/second.parquet", "hard")
    background = ("--background", "mode:absent.parquet")
    done(*background)
    Path("values/part-000001.parquet").unlink()
    before = contents(folder)
    for log in LOGS:
        assert "log: " in refusal(*background, "--log", log), log
        assert contents(folder) == before, log


def test_no_folder_of_parts_is_one_that_is_read(folder: Path) -> None:
    Path("net").mkdir()
    shutil.move("score.py", "net/score.py")
    shutil.copy("rows/first.parquet", "net/absent.parquet")
    before = contents(folder)
    words = ("--model", "net/score.py:predict")
    assert "net holds the model, net/score.py" in refusal(*words, out="net/")
    words = ("--background", "net/absent.parquet")
    assert "net holds the background, net/absent.parquet" in refusal(*words, out="net")
    assert "is the data explained" in refusal(out="rows")
    assert contents(folder) == before


@pytest.mark.slow
def test_files_in_the_folder_that_are_not_of_the_job() -> None:
    assert "note" not in done()
    table().to_parquet("values/part-000099.parquet")
    assert "also holds part-000099.parquet, which this job did not write" in done()
    Path("values/_interactions").mkdir()
    table().to_parquet("values/_interactions/part-000098.parquet")
    assert "part-000099.parquet, _interactions/part-000098.parquet, which" in done()


@pytest.mark.parametrize(
    "name", [".draft.partial", "_input-2024.parquet", "_report.html", "_background.parquet"]
)
def test_files_of_others_keep_a_job_from_a_folder(name: str) -> None:
    Path("values").mkdir()
    Path("values", name).write_text("of somebody else")
    with pytest.raises(InputError, match=f"not empty: it holds {name}; choose"):
        explained()
    assert Path("values", name).read_text() == "of somebody else"


@pytest.mark.parametrize(
    "content",
    [
        "null",
        "[1]",
        '"a"',
        '{"process": 5}',
        '{"process": [[], 3]}',
        '{"process": [1]}',
        "[" * 99_999,
    ],
)
def test_a_damaged_file_of_the_run_stops_nobody(content: str) -> None:
    Path("values").mkdir()
    named = content.replace("{", f'{{"host": "{socket.gethostname()}", ')
    Path("values/_run.json").write_text(named)
    assert explained(data="rows/first.parquet").rows == ROWS // 2


def test_a_pipe_or_a_folder_in_place_of_a_file_is_named() -> None:
    explained(data="rows/first.parquet")
    os.mkfifo("values/_run.json")
    with pytest.raises(InputError, match=r"out: .*values cannot be read: not a file"):
        explained(data="rows/first.parquet")
    Path("values/_run.json").unlink()
    Path("values/_log.jsonl").unlink()
    Path("values/_log.jsonl").mkdir()
    with pytest.raises(InputError, match=r"log: .*_log.jsonl cannot be written to: Is a directory"):
        explained(data="rows/first.parquet")


# Files that were damaged


REFUSED = r"data: .* cannot be read: |data: duplicate column |$"


@pytest.fixture(scope="module")
def rows_to_damage(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(table()[:60]), path, row_group_size=20)
    return path.read_bytes()


@settings(unshrunk, max_examples=100)
@given(damage=DAMAGES)
def test_no_damage_to_a_parquet_file_crashes_its_reader(
    reader: Reader, rows_to_damage: bytes, damage: Damage
) -> None:
    error = reader.error(read_shards, damage.of(rows_to_damage), ".parquet")
    assert re.match(REFUSED, error)


def test_no_byte_of_a_footer_crashes_its_reader(reader: Reader, tmp_path: Path) -> None:
    """Though pyarrow aborts if it is asked for the facts about a column."""
    path = tmp_path / "small.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0]}), path)
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = len(content) - 8 - size
    for place in range(footer, footer + 50):  # the rest is mostly text
        for byte in (0, 6):
            damaged = content[:place] + bytes([byte]) + content[place + 1 :]
            assert re.match(REFUSED, reader.error(read_shards, damaged, ".parquet"))


def test_a_footer_that_promises_too_many_rows() -> None:
    path = Path("rows/first.parquet")
    file = InputFile.from_parquet(path, path)
    shard = shards_of([replace(file, groups=(GROUP + 4,))], 100)[0]
    message = rf"rows 0 to {GROUP + 3} of .*first.parquet \(row group 0\) cannot be read: "
    message += f"the row group has {GROUP} rows; the file is damaged, or was changed"
    with pytest.raises(InputError, match=message):
        list(batches(shard, ["a"], 5))


def test_a_crash_of_a_reader_fails_one_test(reader: Reader) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"crash of .*\.txt: .* ended with SIGABRT"
    ) as info:
        reader.error(crash, b"its file", ".txt")
    file = Path(str(info.value).partition(" of ")[2].partition(": ")[0])
    assert file.read_bytes() == b"its file"
    assert "in crash" in str(info.value)  # the stack
    assert reader.error(read_table, b"a,b", ".csv").startswith("data: there are no rows in ")


def test_a_manifest_comes_back_as_it_was_or_is_refused(tmp_path: Path) -> None:
    preparation = Preparation(
        columns=[["base_value", "double"], ["evaluations", "int64"]],
        gaps=["k"],
        categories={"s": ["x", "y"]},
        calibration=Calibration(players=(0.5, 0.25), centres=((0.1, 0.2),)).to_dict(),
        predictions={"0": [0.5, 1.5]},
        background="5 rows",
    )
    path = tmp_path / MANIFEST
    identity = {"budget": 30, "tol": None, "numbers": NUMBERS}
    saved = Manifest(identity, preparation, [(20, "ab"), (10, None)])
    saved.save(path)
    assert Manifest.load(path).key == saved.key
    text = path.read_text()
    damaged = [
        text.replace("30", "31"), text[:-9], text.replace("0.25", "0.26"), "", "[1]", "null", '"a"',
        '{"format": 5, "identity": []}', '{"format": 5, "identity": null}',
        "[" * 200_000, '{"format": ' + "9" * 5_000 + "}", '{"identity": {}, "preparation": 1}',
    ]  # fmt: skip
    for content in damaged:
        path.write_text(content)
        with pytest.raises(InputError, match="is damaged; choose another folder"):
            Manifest.load(path)
    path.write_bytes(os.urandom(200))
    with pytest.raises(InputError, match="is damaged"):
        Manifest.load(path)


DIGEST = (3, "21b4a787419dd999f1b707b761f1bb9dfb1e0d01763dae0d76a1a6227f7ffcfa")
"""`NUMBERS`, which keeps a large job from mixing old and new values, and the hash of the golden files.

They change together. If golden numbers that were there before have changed, count `NUMBERS` up, and write
both here. If there are only new ones, `NUMBERS` stays.
"""


def test_an_option_that_says_nothing_of_itself_identifies_a_job() -> None:
    """So that a new one cannot be forgotten. These change nothing of what is written, or are compared by content."""
    aside = {
        "out",
        "large",
        "batch_size",
        "device",
        "trust",
        "deadline",
        "report",
        "title",
        "overwrite",
        "command",
    }
    by_content = {"model", "data", "background"}
    every = {each.name for each in fields(Options)}
    assert every - set(Options.identifying()) == aside | by_content


def test_the_number_of_the_values_changes_with_the_golden_files() -> None:
    content = golden.FILE.read_bytes() + golden_ways.FILE.read_bytes()
    assert (NUMBERS, sha256(content).hexdigest()) == DIGEST
