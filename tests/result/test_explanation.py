"""`Explanation`: its axes, rows, joins, files and tables."""

import json
import zipfile
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, time, timedelta, timezone
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shearshap import Explainer, Explanation, InputError, explain
from shearshap.games.indices import sets_up_to
from shearshap.methods.kriging import Calibration
from shearshap.result.axes import axes, declared
from shearshap.result.explanation import Floats

BACKENDS = ["pandas", "polars", "pyarrow"]


def explanation(rows: int = 3, players: int = 4, outputs: int | None = None) -> Explanation:
    """An explanation without optional fields."""
    rng = np.random.default_rng(0)
    k = () if outputs is None else (outputs,)
    return Explanation(
        values=rng.normal(size=(rows, players, *k)),
        base_values=rng.normal(size=(rows, *k)),
        predictions=rng.normal(size=(rows, *k)),
        standard_errors=None,
        evaluations=20,
        derivative_passes=0,
        method="leverage",
        seed=0,
    )


def full(rows: int = 3, players: int = 4, outputs: int | None = None) -> Explanation:
    """An explanation with every field."""
    plain = explanation(rows, players, outputs)
    rng = np.random.default_rng(1)
    k = () if outputs is None else (outputs,)
    spent = rng.integers(5, 90, size=rows)
    return replace(
        plain,
        standard_errors=rng.random(plain.values.shape),
        evaluations=int(spent.max(initial=0)),
        derivative_passes=3,
        calibration=Calibration(level=-1.25, players=(0.5, 0.1)),
        degrees_of_freedom=7.0,
        row_evaluations=spent,
        converged=rng.random(rows) < 0.5,
        interactions=rng.normal(size=(rows, players, players, *k)),
        interaction_errors=rng.random((rows, players, players, *k)),
        set_values=rng.normal(size=(rows, len(sets_up_to(players, 3)), *k)),
        set_errors=rng.random((rows, len(sets_up_to(players, 3)), *k)),
        interaction_index="FSII",
        interaction_order=3,
        semivalue="Banzhaf value",
        cross_contribution=rng.random((rows, players, players)),
        feature_names=[f"player {player}" for player in range(players)],
        data=rng.normal(size=(rows, players)),
        display_data=rng.choice(np.array(["a", "b", None], dtype=object), size=(rows, players)),
        texts=np.array([f"the text {row}" for row in range(rows)], dtype=object),
        starts=rng.integers(0, 4, size=(rows, players)),
        ends=rng.integers(4, 8, size=(rows, players)),
        answers=rng.choice(np.array(["yes", "no"], dtype=object), size=(rows, *k)),
        index=np.array([f"id-{row}" for row in range(rows)]),
        index_name="id",
        notes=("Few coalitions.",),
        background="100 of 1,500 background rows",
        background_rows=100,
        scale="probability",
        groups={"player 0": ["a", "b"]},
        model="Pipeline(LogisticRegression)",
        versions={"shearshap": "0.1.0", "torch": "2"},
    )


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one kind; a missing value is equal to itself."""
    if isinstance(one, np.ndarray):
        alike = isinstance(other, np.ndarray) and (one.dtype, one.shape) == (
            other.dtype,
            other.shape,
        )
        return alike and all(map(same, one.flat, other.flat))
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    missing = one is pd.NA or one is pd.NaT
    return one is other if missing else bool(one == other or (one != one and other != other))


def check_same(one: Explanation, other: Explanation) -> None:
    assert type(one) is type(other)
    for each in fields(one):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        assert same(mine, theirs), f"{each.name}: {mine!r} is not {theirs!r}"


# Shapes and defaults


def test_what_is_not_given_is_filled_in() -> None:
    single, several = explanation(), explanation(outputs=2)
    assert single.feature_names == ["x0", "x1", "x2", "x3"]
    assert (single.output_names, several.output_names) == (["output"], ["output 0", "output 1"])
    assert single.index.tolist() == [0, 1, 2]
    assert (single.index_name, single.notes) == (None, ())


@pytest.mark.parametrize("outputs", [None, 1, 2])
def test_every_shape_is_held_against_the_declared_axes(outputs: int | None) -> None:
    whole = full(outputs=outputs)
    names = [name for name in declared(Explanation) if name != "values"]
    assert len(names) == 17
    for name in names:
        array = getattr(whole, name)
        message = rf"{name}: expected an array of shape .*, that is \(r.*\), got \(2,"
        with pytest.raises(InputError, match=message):
            replace(whole, **{name: array[:2]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interactions": np.zeros((3, 4))}, r"^interactions: expected an array of shape \(3, 4, 4\), that is \(r, p, p\), got \(3, 4\)$"),
        ({"values": np.zeros(3)}, r"values: expected an array \(r, p\) or \(r, p, k\), got shape \(3,\)"),
        ({"feature_names": ["a", "b"]}, "feature_names: expected 4 names, got 2"),
        ({"output_names": ["a", "b"]}, "output_names: expected 1 names, got 2"),
    ],
)  # fmt: skip
def test_an_error_says_which_shape_was_wanted(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(explanation(), **change)


def test_labels_may_be_any_list() -> None:
    pairs = [("a", 1), ("a", 2), ("b", 1)]
    assert replace(explanation(), index=pairs).index.tolist() == pairs  # type: ignore[arg-type]
    levels = pd.MultiIndex.from_tuples(pairs)
    assert replace(explanation(), index=levels).index.tolist() == pairs
    assert replace(explanation(), index=["x", "y", "z"]).index.tolist() == ["x", "y", "z"]  # type: ignore[arg-type]


# Rows and outputs


@pytest.mark.parametrize(
    "rows", [1, -1, slice(1, None), [2, 0], np.array([True, False, True]), np.array([], dtype=int)]
)
@pytest.mark.parametrize("outputs", [None, 2])
def test_rows_are_taken_of_every_array(rows: Any, outputs: int | None) -> None:
    whole = full(outputs=outputs)
    places = np.arange(3)[rows].reshape(-1)
    some = whole[rows]
    for name in declared(Explanation):
        assert same(getattr(some, name), getattr(whole, name)[places])
    assert len(some) == len(places)
    assert whole.row_evaluations is not None
    spent = whole.row_evaluations[places]
    assert some.evaluations == (spent.max() if len(spent) else whole.evaluations)
    assert some.notes == whole.notes


def test_players_stay_together() -> None:
    for key in ((0, 1), (slice(None), "x0"), (slice(None), [0, 1], 0), (0, slice(None), 0, 0)):
        with pytest.raises(InputError, match="an explanation is indexed by rows and keeps all"):
            full()[key]


def test_rows_and_outputs_are_taken_as_shap_takes_them() -> None:
    whole = replace(full(outputs=3), output_names=["a", "b", "c"])
    assert whole.shape == whole.values.shape == (3, 4, 3)
    check_same(whole[:, :, 1], whole.output(1))
    check_same(whole[..., "c"], whole.output("c"))
    check_same(whole[1:, :, -1], whole[1:].output(2))
    check_same(full()[:, :, 0], full())
    for key in (3, [0, 1], slice(None)):
        with pytest.raises(InputError, match=r"there is no output .*; there are a, b, c \(0 to 2"):
            whole[:, :, key]


def test_rows_are_found_by_their_labels() -> None:
    whole = full()
    check_same(whole.row("id-1"), whole[1])
    check_same(whole.row(["id-1"] * 3), whole[[1, 1, 1]])
    check_same(whole.row(["id-2", "id-0"]), whole[[2, 0]])
    with pytest.raises(InputError, match="there is no row 'id-3'; there are 'id-0', 'id-1'"):
        whole.row("id-3")
    numbered = replace(whole, index=np.array([512, 457, 512]))
    check_same(numbered.row(512), numbered[[0, 2]])
    check_same(numbered.row(np.int64(457)), numbered[1])
    with pytest.raises(InputError, match="there is no row '512'; there are 512, 457"):
        numbered.row("512")
    pairs: Any = [("a", 1), ("a", 2), ("b", 1)]
    check_same(replace(whole, index=pairs).row(("a", 2)), replace(whole, index=pairs)[1])
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], dtype="datetime64[ns]")
    check_same(
        replace(whole, index=days).row(np.datetime64("2024-01-02")), replace(whole, index=days)[1]
    )


def test_the_names_of_shap_can_be_read() -> None:
    whole = replace(full(), seconds=2.5)
    assert whole.shap_values is whole.values
    assert whole.compute_time == 2.5
    assert same((whole.lower_bounds, whole.upper_bounds), whole.interval())
    assert replace(whole, standard_errors=None).upper_bounds is None
    with pytest.raises(InputError, match="it differs between rows; use base_values"):
        _ = whole.expected_value
    assert replace(whole, base_values=np.full(3, 0.25)).expected_value == 0.25
    several = replace(full(outputs=2), base_values=np.tile([0.25, 0.75], (3, 1)))
    assert several.expected_value.tolist() == [0.25, 0.75]


# Joins


@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
    st.lists(st.integers(0, 6), max_size=4),
)
def test_slices_join_to_the_whole(
    rows: int, players: int, outputs: int | None, every: bool, cuts: list[int]
) -> None:
    whole = (full if every else explanation)(rows, players, outputs)
    ends = sorted(min(cut, rows) for cut in cuts)
    parts = [whole[start:end] for start, end in zip([0, *ends], [*ends, rows], strict=True)]
    check_same(Explanation.concat(parts), whole)


def test_one_part_is_itself_and_none_is_refused() -> None:
    part = full()
    assert Explanation.concat(iter([part])) is part
    with pytest.raises(InputError, match="concat: expected at least one explanation, got none"):
        Explanation.concat([])


@pytest.mark.parametrize("outputs", [None, 2])
def test_parts_with_fewer_players_are_padded(outputs: int | None) -> None:
    few, many = full(2, 2, outputs), full(1, 4, outputs)
    whole = Explanation.concat([few, many])
    assert whole.feature_names == many.feature_names
    assert whole.values.shape[:2] == (3, 4)
    assert same(whole.values[:2, :2], few.values)
    assert same(whole.values[2:], many.values)
    fills = {
        "values": 0,
        "standard_errors": 0,
        "interactions": 0,
        "data": np.nan,
        "display_data": "",
    }
    for name, fill in fills.items():
        beyond = getattr(whole, name)[:2, 2:]
        assert all(same(cell, fill) for cell in beyond.flat)
    assert whole.interactions is not None
    assert (whole.interactions[:2, :, 2:] == 0).all()
    assert same(whole.interactions[:2, :2, :2], few.interactions)
    np.testing.assert_allclose(whole.gap, np.concatenate([few.gap, many.gap]))


def test_parts_of_other_players_or_outputs_are_refused() -> None:
    part = explanation()
    other = replace(part, feature_names=["x0", "b", "x2", "x3"])
    with pytest.raises(InputError, match="part 1 has 'b' instead of 'x1'"):
        Explanation.concat([part, other])
    for several in (
        explanation(outputs=2),
        replace(explanation(outputs=1), output_names=["output"]),
    ):
        with pytest.raises(InputError, match="expected parts with the same outputs; part 0 has"):
            Explanation.concat([part, several])


def test_numbers_of_the_whole_are_the_worst_of_the_parts() -> None:
    first = replace(full(), method="kriging", evaluations=50, degrees_of_freedom=5.0, seed=1)
    second = replace(
        full(), method="exact", evaluations=90, degrees_of_freedom=inf, derivative_passes=9,
        calibration=None, notes=("Another.", "Few coalitions."), index_name="name",
    )  # fmt: skip
    whole = Explanation.concat([first, second, first])
    assert (whole.evaluations, whole.derivative_passes) == (90, 9)
    assert whole.degrees_of_freedom == 5.0
    assert whole.method == "kriging, exact"
    assert whole.calibration == first.calibration
    assert whole.notes == ("Few coalitions.", "Another.")
    assert whole.seed == 1
    assert whole.index_name is None


def test_what_some_parts_lack() -> None:
    lacking = replace(full(1), standard_errors=None, row_evaluations=None, evaluations=40)
    whole = Explanation.concat(
        [full(2), replace(lacking, converged=None, interactions=None, data=None)]
    )
    assert whole.standard_errors is not None
    assert np.isfinite(whole.standard_errors[:2]).all()
    assert np.isinf(whole.standard_errors[2]).all()
    assert whole.row_evaluations is not None
    assert whole.row_evaluations[2] == 40
    assert (whole.converged, whole.interactions, whole.data) == (None, None, None)
    assert whole.cross_contribution is not None


# Files


def saved(explained: Explanation) -> Explanation:
    with TemporaryDirectory() as folder:
        explained.save(Path(folder) / "explanation.npz")
        return type(explained).load(Path(folder) / "explanation.npz")


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.text(alphabet=st.characters()),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(minutes=90))])),
    st.sampled_from([pd.NA, pd.NaT, pd.Timestamp("2024-02-29 12:00:00.123456789")]),
    st.just(pd.Timestamp("2024-07-01", tz="Europe/Berlin")),
    st.sampled_from([np.datetime64("2024-02"), np.datetime64("2024-02-29T12", "ns")]),
    st.tuples(st.text(), st.integers()),
    st.lists(st.integers(), max_size=2),
)
LABELS = st.one_of(
    st.just("int64"), st.just("<U3"), st.just("datetime64[ns]"), st.just("float32"), st.just("?")
)


@st.composite
def explanations(draw: st.DrawFn) -> Explanation:
    """Explanations of any size, with any of the optional fields, and any cells and labels."""
    rows, players = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    whole = full(rows, players, draw(st.sampled_from([None, 1, 2])))
    optional = (
        "standard_errors", "row_evaluations", "converged", "interactions", "cross_contribution",
        "data", "calibration",
    )  # fmt: skip
    left_out: dict[str, Any] = dict.fromkeys(draw(st.sets(st.sampled_from(optional))))
    cells = np.empty((rows, players), dtype=object)
    for place in np.ndindex(cells.shape):
        cells[place] = draw(CELLS)
    labels = np.empty(rows, dtype=object)
    for row in range(rows):
        labels[row] = draw(CELLS)
    plain = np.arange(rows).astype(draw(LABELS))
    return replace(
        whole,
        **left_out,
        display_data=draw(st.sampled_from([cells, None])),
        index=draw(st.sampled_from([plain, labels])),
        index_name=draw(st.one_of(st.none(), st.text())),
        degrees_of_freedom=draw(st.sampled_from([inf, 3.0])),
        feature_names=draw(st.lists(st.text(), min_size=players, max_size=players)) if rows else [],
        notes=draw(st.lists(st.text(), max_size=2).map(tuple)),
        method=draw(st.text()),
        seed=draw(st.integers()),
    )


@settings(max_examples=40)
@given(explanations())
def test_what_is_saved_comes_back_equal(whole: Explanation) -> None:
    check_same(saved(whole), whole)


def test_other_objects_come_back_as_their_text() -> None:
    cells = np.array(
        [[1 + 2j, {"a": date(2024, 1, 1)}, pd.Period("2024-01"), time(1, 2)]], dtype=object
    )
    back = saved(replace(explanation(1), display_data=cells)).display_data
    assert back is not None
    assert back.tolist() == [["(1+2j)", {"a": date(2024, 1, 1)}, "2024-01", time(1, 2)]]


def test_an_explanation_of_a_model_is_saved(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4, 6))
    found = explain(
        lambda x: x[:, :3].prod(axis=1) + x.sum(axis=1), rows, reference=np.zeros(6), budget=40,
        method="kriging", interactions=True,
    )  # fmt: skip
    found.save(tmp_path / "new" / "kriging.npz")
    back = Explanation.load(str(tmp_path / "new" / "kriging.npz"))
    check_same(back, replace(found, seconds=None))
    assert isinstance(back.calibration, Calibration)
    assert same(back.interval()[0], found.interval()[0])
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["kriging.npz"]


def test_no_pickle_is_written_and_none_is_read(tmp_path: Path) -> None:
    path = tmp_path / "explanation.npz"
    full().save(path)
    with np.load(path, allow_pickle=False) as entries:
        assert all(entries[name].dtype.kind != "O" for name in entries)
    with path.open("wb") as file:
        np.savez(file, shearshap=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="Object arrays cannot be loaded"):
        Explanation.load(path)


def rewritten(path: Path, change: Any) -> None:
    """Change the JSON in a file."""
    with np.load(path) as entries:
        contents = dict(entries)
    header = json.loads(contents["shearshap"].tobytes())
    change(header)
    contents["shearshap"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, **contents)


def test_a_file_of_another_kind_is_told(tmp_path: Path) -> None:
    path = tmp_path / "explanation.npz"

    def check(message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            Explanation.load(path)
        assert str(path) in str(caught.value)
        assert "Explanation.save" in str(caught.value)

    check("there is no file")
    path.write_text("row,value\n0,1\n")
    check("not a zip file")
    np.savez(path, values=np.zeros((2, 2)))
    check("it has no entry 'shearshap'")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "hello")
    check("cannot be read")

    changes = {
        "its format is 'other', not 'shearshap explanation'": {"format": "other"},
        "missing 4 required .* 'evaluations', 'derivative_passes'": {"fields": {}},
    }
    for message, change in changes.items():
        full().save(path)
        rewritten(path, lambda header, change=change: header.update(change))
        check(message)

    full().save(path)
    rewritten(path, lambda header: header["fields"].update(feature_names=["a"]))
    check("feature_names: expected 4 names, got 1")


@pytest.mark.parametrize("part", [0.0, 0.6, 0.99])
def test_a_truncated_file_is_told(tmp_path: Path, part: float) -> None:
    path = tmp_path / "explanation.npz"
    full().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(InputError, match="cannot be read"):
        Explanation.load(path)


@settings(max_examples=40)
@given(st.integers(0, 1 << 20), st.integers(1, 255))
def test_a_damaged_file_is_told_or_harmless(place: int, flips: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "explanation.npz"
        whole = full()
        whole.save(path)
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= flips
        path.write_bytes(content)
        try:
            back = Explanation.load(path)
        except InputError as error:
            back = whole
            message = str(error)
        else:
            message = str(path)
    assert str(path) in message
    check_same(back, whole)


# A new field


@dataclass(frozen=True, eq=False)
class Weighted(Explanation):
    """An explanation with two fields more."""

    weights: Floats | None = field(default=None, metadata=axes("rpk", fill=-1.0))
    place: str = "here"


@pytest.mark.parametrize("outputs", [None, 2])
def test_a_new_field_is_one_line(outputs: int | None, tmp_path: Path) -> None:
    plain = full(4, 3, outputs)
    whole = Weighted(**vars(plain), weights=plain.values + 1, place="there")
    assert whole.weights is not None
    assert same(whole[1:3].weights, whole.weights[1:3])
    assert same(whole.output(0).weights, whole.weights[..., 0] if outputs else whole.weights)
    check_same(Weighted.concat([whole[:1], whole[1:]]), whole)
    wider = full(1, 5, outputs)
    padded = Weighted.concat([whole, Weighted(**vars(wider), weights=wider.values)])
    assert padded.weights is not None
    assert (padded.weights[:4, 3:] == -1).all()
    whole.save(tmp_path / "weighted.npz")
    check_same(Weighted.load(tmp_path / "weighted.npz"), whole)
    with pytest.raises(InputError, match="weights: expected an array of shape"):
        replace(whole, weights=np.zeros(2))
    plain.save(tmp_path / "plain.npz")  # without the field: its default
    assert Weighted.load(tmp_path / "plain.npz").weights is None


# Tables


def lines(table: Any) -> list[dict[str, Any]]:
    """Every line of a table as a dict, with None for what is missing."""
    import narwhals as nw

    return [
        {name: None if cell is None or cell != cell else cell for name, cell in line.items()}
        for line in nw.from_native(table).rows(named=True)
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "labels", [["a", "b", "c"], [7, 5, 5], [date(2024, 1, day) for day in (1, 2, 3)]]
)
def test_tidy_rows_go_by_their_labels(backend: Any, labels: list[Any]) -> None:
    pytest.importorskip(backend)
    table = replace(explanation(), index=np.array(labels)).to_frame(backend)
    assert [line["row"] for line in lines(table)[::4]] == labels


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("outputs", [None, 2])
def test_a_wide_table_has_a_line_for_each_row(backend: Any, outputs: int | None) -> None:
    pytest.importorskip(backend)
    whole = full(outputs=outputs)
    found = lines(whole.to_frame(backend, wide=True))
    assert len(found) == 3
    endings = [""] if outputs is None else [".output 0", ".output 1"]
    parts = [whole.output(number) for number in range(len(endings))]
    assert whole.row_evaluations is not None
    assert whole.converged is not None
    for row, line in enumerate(found):
        wanted: dict[str, Any] = {} if backend == "pandas" else {"id": f"id-{row}"}
        for name in ("base_values", "predictions", "gap"):
            column = name.removesuffix("s")
            wanted |= {
                column + ending: getattr(part, name)[row]
                for ending, part in zip(endings, parts, strict=True)
            }
        wanted |= {"evaluations": whole.row_evaluations[row], "converged": whole.converged[row]}
        for name in ("values", "standard_errors"):
            for ending, part in zip(endings, parts, strict=True):
                for number, player in enumerate(whole.feature_names):
                    wanted[f"{name.removesuffix('s')}.{player}{ending}"] = getattr(part, name)[
                        row, number
                    ]
        assert list(line) == list(wanted)
        assert line == wanted


def test_a_wide_table_joins_the_data() -> None:
    frame = pd.DataFrame({"age": [30, 41, 25]}, index=pd.Index(["id-2", "id-0", "id-1"], name="id"))
    wide = full().to_frame(wide=True)
    assert wide.index.name == "id"
    joined = frame.join(wide)
    np.testing.assert_array_equal(joined["value.player 1"], full().values[[2, 0, 1], 1])
    assert joined["age"].tolist() == [30, 41, 25]
    levels = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["letter", "number"])
    labelled = replace(full(), index=levels, index_name=tuple(levels.names))
    check_same(saved(labelled), labelled)
    several = pd.DataFrame({"age": [3, 1, 2]}, index=levels[[2, 0, 1]]).join(
        labelled.to_frame(wide=True)
    )
    np.testing.assert_array_equal(several["gap"], full().gap[[2, 0, 1]])
    assert "row" in labelled.to_frame("pyarrow", wide=True).column_names


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("outputs", [None, 2])
def test_interactions_have_a_line_for_each_pair(backend: Any, outputs: int | None) -> None:
    pytest.importorskip(backend)
    whole = replace(full(2, 3, outputs), set_values=None, set_errors=None)
    found = iter(lines(whole.to_frame(backend, interactions=True)))
    for row in range(2):
        for first in range(3):
            for second in range(first, 3):
                for number, name in enumerate(whole.output_names):
                    pairs = whole.output(number).interactions
                    errors = whole.output(number).interaction_errors
                    assert pairs is not None
                    assert errors is not None
                    assert next(found) == {
                        "row": f"id-{row}", "output": name, "feature": f"player {first}",
                        "other": f"player {second}", "value": pairs[row, first, second],
                        "standard_error": errors[row, first, second],
                    }  # fmt: skip
    assert next(found, None) is None


def test_pairs_and_main_effects_add_up() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 4))
    found = explain(
        lambda x: x[:, 0] * x[:, 1] + x.sum(axis=1), rows, reference=np.zeros(4), budget=16, interactions=True
    )  # fmt: skip
    table = found.to_frame(interactions=True)
    sums = table.groupby("row")["value"].sum()
    np.testing.assert_allclose(sums, found.predictions - found.base_values, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interactions": True}, "has no interactions; explain with interactions=True"),
        ({"wide": True, "interactions": True}, "wide=True and interactions=True are two tables"),
        ({"backend": "excel"}, "backend: expected pandas, polars or pyarrow, got 'excel'"),
    ],
)
def test_tables_that_cannot_be_made_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        explanation().to_frame(**options)


def test_two_columns_of_one_name_are_refused() -> None:
    both = replace(explanation(players=2, outputs=2), feature_names=["a", "a.b"])
    with pytest.raises(InputError, match="two columns would have the same name"):
        replace(both, output_names=["b.c", "c"]).to_frame(wide=True)


# What else


@pytest.mark.parametrize("outputs", [None, 2])
def test_corrected_values_add_up(outputs: int | None) -> None:
    whole = full(outputs=outputs).corrected()
    np.testing.assert_allclose(whole.gap, 0, atol=1e-12)
    assert whole.interactions is not None
    before = full(outputs=outputs)
    assert before.interactions is not None
    change = (whole.interactions - before.interactions).sum(axis=(1, 2))
    np.testing.assert_allclose(change, before.gap, atol=1e-12)
    off_diagonal = ~np.eye(4, dtype=bool)
    assert same(whole.interactions[:, off_diagonal], before.interactions[:, off_diagonal])


def test_players_of_one_name_keep_their_columns() -> None:
    explainer = Explainer(
        lambda x: x @ np.array([1.0, 2, 3]), np.zeros(3), feature_names=["the", "film", "the"]
    )
    table = explainer(np.ones((2, 3)), budget=8).to_frame(wide=True)
    values = [name for name in table.columns if name.startswith("value.")]
    assert values == ["value.the (0)", "value.film", "value.the (2)"]
    np.testing.assert_allclose(table[values].sum(axis=1), table["prediction"])


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_labels_with_a_gap_lose_no_digits(backend: str) -> None:
    large = 2**53 + 1
    kinds = {
        "pandas": lambda: pd.DataFrame(
            {"a": [1.0, 2, 4], "id": pd.array([large, None, 3], "Int64")}
        ),
        "polars": lambda: pl.DataFrame({"a": [1.0, 2, 4], "id": [large, None, 3]}),
        "pyarrow": lambda: pa.table({"a": [1.0, 2, 4], "id": [large, None, 3]}),
    }
    frame = kinds[backend]()
    explanation = Explainer(lambda x: np.asarray(x["a"]) * 2.0, ("mean", frame))(
        frame, budget=2, index="id"
    )
    assert explanation.index[0] == large
    assert explanation.index[2] == 3


# Tables that people read


def test_print_shows_the_first_rows_and_repr_stays_one_line() -> None:
    values = np.array([[0.5, -0.25, 0.125], [0.0, 1.0, -0.5]])
    base = np.array([10.0, 10.0])
    answer = Explanation(
        values, base, base + values.sum(axis=1), np.full((2, 3), 0.004), 8, 0, "exact", 0,
        feature_names=["age", "hours", "capital"], index=np.array(["ann", "bob"]),
    )  # fmt: skip
    assert repr(answer) == "Explanation(2 rows, 3 features, method='exact', 8 evaluations per row)"
    assert str(answer).splitlines() == [
        repr(answer),
        "",
        "row  base value  hours  capital    age  prediction",
        "ann        10.0  −0.25    +0.12  +0.50        10.4",
        "bob        10.0  +1.00    −0.50  +0.00        10.5",
        "largest standard error shown: 0.004",
    ]


def test_a_table_fits_the_line_and_says_what_it_leaves_out() -> None:
    many = replace(
        explanation(40, 30), feature_names=[f"a rather long name of player {n}" for n in range(30)]
    )
    lines = str(many).splitlines()
    assert max(map(len, lines[2:])) <= 80
    assert "others" in lines[3]
    assert "gap" in lines[3]  # its values do not add up
    assert "... and 35 more rows" in lines
    several = str(explanation(9, 4, outputs=6)).splitlines()
    assert several[1] == "highest of 6 outputs"
    assert several[3].split()[:4] == ["row", "output", "base", "value"]
    assert "... and 4 more rows" in several
    few = str(explanation(9, 4, outputs=3)).splitlines()
    assert few[1] == "3 outputs"
    assert "... and 7 more rows" in few
    assert str(explanation(0)).splitlines()[2].startswith("row")
    assert "1 more row" in str(explanation(6))
    assert str(explanation(1, 1))


def test_a_notebook_shows_a_table_with_bars() -> None:
    table = {"texts": None, "starts": None, "ends": None, "answers": None}
    whole = replace(
        full(7, 9, outputs=2),
        feature_names=["<b>", *(f"long_name/{n}" for n in range(8))],
        **table,  # type: ignore[arg-type]
    )
    page = whole._repr_html_()
    assert page.count("<tr>") == 1 + 8
    assert "<b></div>" not in page
    assert "long_<wbr>name/<wbr>" in page
    assert "var(--raises)" in page
    assert "var(--lowers)" in page
    assert "7 rows · 9 features · 2 outputs" in page
    assert "… and 3 more rows" in page
    assert "Note: Few coalitions." in page
    assert "standard error" in page
    for dark in ("prefers-color-scheme: dark", 'data-jp-theme-light="false"', ".vscode-dark"):
        assert dark in page
    assert len(replace(full(500, 40), **table)._repr_html_()) < 20_000  # type: ignore[arg-type]
    assert "0 rows" in full(0)._repr_html_()
