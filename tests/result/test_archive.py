"""Saved files that nobody saved: too large, of other types, or made to harm."""

import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shearshap import Explanation, InputError
from shearshap.result.calibration import Calibration

pytest.importorskip("pandas")  # before memory is measured

STORED = Path(__file__).parents[1] / "stored"
MIB = 1 << 20


def npy(array: Any) -> bytes:
    content = BytesIO()
    np.lib.format.write_array(content, np.asarray(array))
    return content.getvalue()


def entries_of(name: str = "kriging.npz") -> dict[str, bytes]:
    with zipfile.ZipFile(STORED / name) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def header_of(entries: dict[str, bytes]) -> dict[str, Any]:
    content = np.lib.format.read_array(BytesIO(entries["shearshap.npy"]))
    return dict(json.loads(content.tobytes()))


def written(path: Path, entries: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def with_json(path: Path, text: str, name: str = "kriging.npz") -> Path:
    """A saved explanation with other JSON."""
    return written(
        path, entries_of(name) | {"shearshap.npy": npy(np.frombuffer(text.encode(), np.uint8))}
    )


def with_field(path: Path, name: str, content: Any) -> Path:
    """A saved explanation with another content of a field, as JSON."""
    return with_fields(path, "kriging.npz", {name: content})


def with_fields(path: Path, stored: str, change: dict[str, Any]) -> Path:
    """A saved explanation with other fields: an array, JSON, or ... for none."""
    entries = entries_of(stored)
    header = header_of(entries)
    for name, content in change.items():
        entries.pop(f"{name}.npy", None)
        header["fields"].pop(name, None)
        if isinstance(content, np.ndarray):
            entries[f"{name}.npy"] = npy(content)
        elif content is not ...:
            header["fields"][name] = content
    entries["shearshap.npy"] = npy(np.frombuffer(json.dumps(header).encode(), np.uint8))
    return written(path, entries)


def refusal(path: Path, **options: Any) -> str:
    """The sentence in which a file is refused, which takes little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as raised:
            Explanation.load(path, **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * MIB
    sentence = str(raised.value)
    assert sentence.startswith(str(path))
    assert "\n" not in sentence
    assert len(sentence) < 500
    return sentence


# Sizes


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["values.npy", "more.npy", "shearshap.npy"])
def test_a_small_file_does_not_become_a_large_one(tmp_path: Path, how: int, name: str) -> None:
    entries = entries_of() | {name: npy(np.zeros(16 * MIB, np.uint8))}
    path = written(tmp_path / "bomb.npz", entries, how)
    assert path.stat().st_size < MIB
    sentence = refusal(path)
    assert "bytes once it is unpacked, and at most 4,194,304 are allowed" in sentence
    assert "if it comes from someone you trust, pass max_bytes=16" in sentence


def test_many_entries_count_together(tmp_path: Path) -> None:
    more = {f"{number}.npy": npy(np.zeros(MIB, np.uint8)) for number in range(16)}
    path = written(tmp_path / "bomb.npz", entries_of() | more, zipfile.ZIP_DEFLATED)
    assert "once it is unpacked" in refusal(path)


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_size_that_is_not_true(tmp_path: Path, how: int) -> None:
    content = npy(np.zeros(16 * MIB, np.uint8))
    path = written(tmp_path / "bomb.npz", entries_of() | {"more.npy": content}, how)
    size = struct.pack("<I", len(content))
    packed = path.read_bytes()
    assert packed.count(size) >= 2
    path.write_bytes(packed.replace(size, struct.pack("<I", 1000)))
    refusal(path)


def test_a_packed_file_of_ones_own(tmp_path: Path) -> None:
    large = Explanation(
        np.zeros((500, 2000)), np.zeros(500), np.zeros(500), None, 9, 0, method="exact", seed=0
    )
    large.save(tmp_path / "large.npz")
    assert Explanation.load(tmp_path / "large.npz").shape == large.shape
    with zipfile.ZipFile(tmp_path / "large.npz") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    packed = written(tmp_path / "packed.npz", entries, zipfile.ZIP_DEFLATED)
    size = sum(map(len, entries.values()))
    assert f"pass max_bytes={size}" in refusal(packed)
    assert "at most 1,000 are allowed" in refusal(packed, max_bytes=1000)
    assert Explanation.load(packed, max_bytes=size).shape == large.shape


@pytest.mark.parametrize(
    "shape", [(1 << 50,), (10**9, 0), (0, 10**9), (0, 1, 10**9), (10**9, 10**9, 0)]
)
@pytest.mark.parametrize("kind", ["<f8", "<U0"])
def test_arrays_that_claim_more_than_they_hold(
    tmp_path: Path, shape: tuple[int, ...], kind: str
) -> None:
    head = BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    entries = entries_of() | {"values.npy": head.getvalue()}
    entries.pop("index.npy")
    refusal(written(tmp_path / "bomb.npz", entries))
    cells = {"array": [list(shape), []]}
    refusal(with_field(tmp_path / "bomb.npz", "values", cells))


# Types


WRONG: dict[str, list[Any]] = {
    "an array": [5, "x", None, [1.0], {"array": [[2], [1, "a"]]}],
    "a number": ["x", None, True, [5], {"dict": []}],
    "a text": [5, True, ["x"], {"tuple": ["x"]}, {"float": "nan"}],
    "texts": [5, True, [5], [["x"]], {"dict": [["x", "y"]]}, {"tuple": [None]}],
    "a dict": [5, "x", ["x"], {"dict": [["a", 5]]}, {"dict": [[5, ["a"]]]}],
}
KINDS = {
    "an array": ("values", "base_values", "predictions"),
    "a number": ("evaluations", "seed", "degrees_of_freedom", "interaction_order"),
    "a text": ("method", "semivalue", "background", "scale", "model", "game", "interaction_index"),
    "texts": ("notes", "feature_names", "output_names"),
    "a dict": ("versions", "groups"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content"),
    [(name, wrong) for kind, names in KINDS.items() for name in names for wrong in WRONG[kind]],
)
def test_every_field_has_its_type(tmp_path: Path, name: str, content: Any) -> None:
    sentence = refusal(with_field(tmp_path / "wrong.npz", name, content))
    assert f"wrong.npz cannot be read: its field '{name}' holds " in sentence
    assert "expected a file written by Explanation.save" in sentence


@pytest.mark.parametrize(
    ("name", "kind"), [("values", "U3"), ("converged", "f8"), ("starts", "f8"), ("data", "M8[s]")]
)
def test_arrays_have_their_types(tmp_path: Path, name: str, kind: str) -> None:
    entries = entries_of()
    header = header_of(entries)
    header["fields"].pop(name, None)
    entries["shearshap.npy"] = npy(np.frombuffer(json.dumps(header).encode(), np.uint8))
    entries[f"{name}.npy"] = npy(np.zeros((2, 5)).astype(kind))
    assert f"its field '{name}' holds array(" in refusal(written(tmp_path / "a.npz", entries))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"format": "shearshap explanation", "version": 1, "fields": {"notes": ' + '{"tuple": [' * 900 + "]}" * 900 + "}}",
        "5",
        "[]",
        "{}",
        '{"fields": {}}',
        '{"fields": {}, "format": ["a"]}',
        '{"fields": 7, "format": "shearshap explanation", "version": 1}',
        '{"fields": {}, "format": "shearshap explanation"}',
        '{"fields": {}, "format": "shearshap explanation", "version": "1"}',
        '{"fields": {}, "format": "shearshap explanation", "version": true}',
        '{"fields": {}, "format": "shearshap explanation", "version": 1, "written_by": {"a": "b\\nc"}}',
        '{"fields": {"seed": 1' + "0" * 5_000 + '}, "format": "shearshap explanation", "version": 1}',
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ],
)  # fmt: skip
def test_json_of_other_kinds(tmp_path: Path, text: str) -> None:
    assert "wrong.npz cannot be read: " in refusal(with_json(tmp_path / "wrong.npz", text))


@pytest.mark.parametrize(
    "content",
    [
        {"datetime": ["2024-07-01T00:00:00", "Europe"]},  # a folder of time zones
        {"datetime": ["2024-07-01T00:00:00", "../../etc/passwd"]},
        {"datetime": ["2024-07-01T00:00:00", "x" * 5_000]},
        {"datetime": ["2024-07-01T00:00:00", 5]},
        {"datetime": 5},
        {"Timestamp": ["no time\nat all" * 90, None]},
        {"Timestamp": [10**30, None]},
        {"Decimal": "one"},
        {"Decimal": {"a": 1}},
        {"timedelta": [10**300, 0, 0]},
        {"timedelta64": [1, "no unit", 1]},
        {"datetime64": ["2024", "no unit"]},
        {"float": [1]},
        {"array": [[2, -1], [1, 2, 3]]},
        {"array": [[10**30, 0], []]},
        {"array": 5},
        {"dict": [[["no", "key"], 1]]},
        {"dict": 5},
        {"tuple": 5},
        {"Mood": "good"},
        {"tuple": [], "dict": []},
        {},
    ],
)
def test_values_that_json_lacks(tmp_path: Path, content: Any) -> None:
    cells = {"array": [[1], [content]]}
    for name in ("display_data", "notes"):
        refusal(
            with_field(tmp_path / "wrong.npz", name, cells if name == "display_data" else content)
        )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3)
    | st.dictionaries(st.sampled_from(["tuple", "dict", "array", "float", "date", "calibration"]), inside, max_size=2),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([each.name for each in fields(Explanation)]), JSON)
def test_any_json_is_refused_or_read(tmp_path: Path, name: str, content: Any) -> None:
    path = with_field(tmp_path / "any.npz", name, content)
    with suppress(InputError):
        found = Explanation.load(path)
        assert len(found.to_frame())
        assert str(found)


# Fields together


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("sets.npz", {"interaction_order": 10**7}, "interaction_order"),
        ("sets.npz", {"interaction_order": 10**30}, "interaction_order"),
        ("sets.npz", {"interaction_order": 0}, "interaction_order"),
        ("sets.npz", {"interaction_order": -3}, "interaction_order"),
        ("sets.npz", {"interaction_order": ...}, "its set_values are not those of 6 sets"),
        ("sets.npz", {"set_errors": ...}, "it has set_values, but no set_errors"),
        ("texts.npz", {"starts": ...}, "it has ends, but no starts"),
        ("kriging.npz", {"evaluations": 10**30}, "its field 'evaluations' holds a number that is"),
        ("kriging.npz", {"degrees_of_freedom": 10**30}, "holds a number that is too large"),
        ("kriging.npz", {"evaluations": -1}, "its field 'evaluations' holds a negative number"),
        ("kriging.npz", {"standard_errors": np.full((3, 5), -1.0)}, "a negative number"),
        ("kriging.npz", {"row_evaluations": np.array([8, -24, 24])}, "a negative number"),
        ("kriging.npz", {"feature_names": [*"abcd", "\ud800"]}, "its field 'feature_names' holds"),
        ("kriging.npz", {"index_name": []}, "its index_name [] does not fit its labels"),
    ],
)
def test_fields_that_cannot_be_of_one_explanation(
    tmp_path: Path, name: str, change: dict[str, Any], words: str
) -> None:
    assert words in refusal(with_fields(tmp_path / "wrong.npz", name, change))


def test_interactions_are_not_those_of_folded_features() -> None:
    sets = Explanation.load(STORED / "sets.npz")
    folded = replace(sets, hierarchy=(("left",), ("left",), ())).fold()
    assert folded.set_values is None
    with pytest.raises(InputError, match="no interactions"):
        folded.to_frame(interactions=True)


def test_labels_of_several_levels_have_as_many_names(tmp_path: Path) -> None:
    labels = {"array": [[3], [{"tuple": ["a", number]} for number in range(3)]]}
    fine = {"index": labels, "index_name": {"tuple": ["letter", "number"]}}
    path = with_fields(tmp_path / "labels.npz", "kriging.npz", fine)
    assert Explanation.load(path).to_frame(wide=True).index.nlevels == 2
    wrong = fine | {"index_name": {"tuple": ["letter"]}}
    assert "does not fit" in refusal(with_fields(path, "kriging.npz", wrong))


# Calibrations


@pytest.mark.parametrize(
    "change",
    [
        {"level": "x"}, {"level": None}, {"pairs": 1.5}, {"pairs": True}, {"players": 5},
        {"players": ["x"]}, {"centres": [[0.5], 5]}, {"centres": [["x"]]}, {"others": 5},
        {"others": [5]}, {"others": [{"level": 1.0}]}, {"others": [{"players": "x"}]},
    ],
)  # fmt: skip
def test_calibrations_have_their_types(tmp_path: Path, change: dict[str, Any]) -> None:
    kept = json.loads((STORED / "calibration.json").read_text())
    with pytest.raises(InputError, match=r"^calibration: expected what to_dict returns; "):
        Calibration.from_dict(kept | change)
    entries = entries_of()
    stored = dict(header_of(entries)["fields"]["calibration"]["calibration"]["dict"])
    changed = {"calibration": {"dict": [[*each] for each in (stored | change).items()]}}
    refusal(with_field(tmp_path / "wrong.npz", "calibration", changed))


NAN = float("nan")


@pytest.mark.parametrize(
    "change",
    [
        {"level": NAN}, {"level": 1e308}, {"level": 10**400}, {"linear": float("inf")},
        {"nugget": -1.0}, {"nugget": 0.0}, {"nugget": NAN}, {"inflation": 0}, {"inflation": -1.0},
        {"inflation": 10**30}, {"size_variance": -1.0}, {"size_variance": NAN},
        {"quiet_variance": 0.0}, {"quiet_shift": -1e308}, {"players": [NAN] * 5}, {"pairs": -7},
        {"pairs": 10**30}, {"centres": [[]]}, {"centres": [[0.1]]}, {"centres": [[-1.0] * 5]},
        {"centres": [[NAN] * 5]}, {"centres": [[0.95] * 5]}, {"players": []},
    ],
)  # fmt: skip
def test_calibrations_have_numbers_that_make_kernels(change: dict[str, Any]) -> None:
    kept = json.loads((STORED / "calibration.json").read_text())
    for changed in (kept | change, kept | {"others": [kept | change]}):
        with pytest.raises(InputError, match=r"^calibration: expected what to_dict returns; its "):
            Calibration.from_dict(changed)


@pytest.mark.parametrize("data", [5, None, [], {}, "x", {"players": []}])
def test_a_calibration_of_other_kinds(data: Any) -> None:
    with pytest.raises(InputError, match="calibration: expected what to_dict returns; "):
        Calibration.from_dict(data)


def test_a_calibration_within_itself() -> None:
    data: dict[str, Any] = {"players": [0.0], "centres": []}
    data["others"] = [data]
    with pytest.raises(InputError, match="calibration: expected what to_dict returns; "):
        Calibration.from_dict(data)


# Types that are fine


def test_lists_are_as_good_as_tuples_and_whole_numbers_as_floats(tmp_path: Path) -> None:
    ways: dict[str, tuple[Any, Callable[[Explanation], Any], Any]] = {
        "notes": (["Few rows."], lambda found: list(found.notes), ["Few rows."]),
        "degrees_of_freedom": (7, lambda found: found.degrees_of_freedom, 7),
        "seconds": (None, lambda found: found.seconds, None),
        "index_name": ({"tuple": ["a", None]}, lambda found: found.index_name, ("a", None)),
    }
    for name, (content, read, expected) in ways.items():
        assert read(Explanation.load(with_field(tmp_path / "fine.npz", name, content))) == expected
