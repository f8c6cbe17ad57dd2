"""The data sets: their splits, their encoding, what people read of them, and files that cannot be used."""

import gzip
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from made_criteo import criteo_file
from shearshap import InputError
from shearshap_lab.data import Dataset, Encoder, criteo, load, uci
from shearshap_lab.data.dataset import AUTHORS, from_log_scale, log_scale

Frame = dict[str, NDArray[Any]]
SIZES = {"census": (20838, 5210, 6513), "bank": (28934, 7234, 9043), "german": (640, 160, 200)}


@pytest.fixture(scope="module")
def shipped() -> dict[str, Dataset]:
    return {name: load(name) for name in SIZES}


@pytest.fixture(scope="module")
def authors() -> Dataset:
    return load("census", preparation=AUTHORS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load("criteo", path=criteo_file(tmp_path_factory.mktemp("criteo") / "train.txt"))


def frame() -> Frame:
    return {
        "size": np.array([1.0, 2.0, 3.0, 6.0]),
        "colour": np.array(["red", "blue", "red", "green"]),
        "weight": np.array(["10", "10", "10", "10"]),
    }


def frame_with(name: str, values: list[Any]) -> Frame:
    return {**frame(), name: np.array(values)}


def encoder(**options: Any) -> Encoder:
    return Encoder.fit(frame(), ("size", "weight"), **options)


# Splits


@pytest.mark.parametrize("name", SIZES)
def test_splits_are_disjoint_complete_and_stratified(
    shipped: dict[str, Dataset], name: str
) -> None:
    dataset = shipped[name]
    parts = (dataset.train, dataset.validation, dataset.test)
    assert tuple(map(len, parts)) == SIZES[name]  # those of the paper
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(dataset.labels)))
    for part in (dataset.test, np.concatenate((dataset.test, dataset.validation))):
        assert abs(dataset.labels[part].sum() - dataset.labels.mean() * len(part)) <= 1


def test_the_seed_decides_the_split(shipped: dict[str, Dataset]) -> None:
    again, other = load("german"), load("german", seed=1)
    np.testing.assert_array_equal(again.test, shipped["german"].test)
    np.testing.assert_array_equal(again.inputs, shipped["german"].inputs)
    assert not np.array_equal(other.test, again.test)
    assert len(other.test) == len(again.test)


def test_the_authors_split_is_scikit_learns() -> None:
    """20 % for the test and 20 % of the rest for validation, both with random state 0."""
    dataset = load("german", seed=3, preparation=AUTHORS)
    rest, test = train_test_split(np.arange(len(dataset.labels)), test_size=0.2, random_state=0)
    train, validation = train_test_split(rest, test_size=0.2, random_state=0)
    np.testing.assert_array_equal(dataset.test, test)
    np.testing.assert_array_equal(dataset.validation, validation)
    np.testing.assert_array_equal(dataset.train, train)


def test_preprocessing_never_sees_held_out_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    before = load("german")
    read = uci.Source.read

    def tampered(source: uci.Source) -> Frame:
        columns = read(source)
        columns["amount"] = columns["amount"].astype(object)
        columns["purpose"] = columns["purpose"].astype(object)
        for row in (before.test[0], before.validation[0]):
            columns["amount"][row], columns["purpose"][row] = "99999999", "a yacht"
        return columns

    monkeypatch.setattr(uci.Source, "read", tampered)
    after = load("german")
    assert after.encoder == before.encoder
    np.testing.assert_array_equal(after.background, before.background)
    np.testing.assert_array_equal(after.inputs[after.train], before.inputs[before.train])
    assert not after.inputs[after.test[0], after.groups["purpose"]].any()


# Encoder


def test_one_hot_blocks_and_standard_scores() -> None:
    fitted = encoder()
    assert fitted.groups == {"size": [0], "colour": [1, 2, 3], "weight": [4]}
    deviation = np.sqrt(((np.array([1, 2, 3, 6]) - 3) ** 2).mean())
    wanted = [
        [-2 / deviation, 0, 0, 1, 0],
        [-1 / deviation, 1, 0, 0, 0],
        [0, 0, 0, 1, 0],
        [3 / deviation, 0, 1, 0, 0],
    ]
    np.testing.assert_allclose(fitted.encode(frame()), wanted, rtol=1e-6)


def test_index_style_counts_from_one_and_rare_ones_share_zero() -> None:
    assert encoder(style="index").groups == {"size": [0], "colour": [1], "weight": [2]}
    assert encoder(style="index").encode(frame())[:, 1].tolist() == [3, 1, 3, 2]
    assert encoder(style="index", at_least=2).encode(frame())[:, 1].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("unseen", ["violet-and-long", "", "a", "zz"])
def test_an_unseen_category_is_an_all_zero_block_or_index_zero(unseen: str) -> None:
    strange = frame_with("colour", [unseen, "blue", "red", "green"])
    assert encoder().encode(strange)[:, 1:4].sum(axis=1).tolist() == [0, 1, 1, 1]
    assert encoder(style="index").encode(strange)[:, 1].tolist() == [0, 1, 3, 2]


def test_a_missing_number_is_filled_with_the_mean_or_refused() -> None:
    gap = frame_with("size", [1.0, np.nan, 3.0, 6.0])
    assert encoder(fill=True).encode(gap)[1, 0] == 0
    with pytest.raises(
        InputError, match="column 'size' is missing in row 1; fill it in or drop the row"
    ):
        encoder().encode(gap)
    with pytest.raises(
        InputError, match="column 'size' is missing in row 1; fill it in or drop the row"
    ):
        Encoder.fit(gap, ("size", "weight"))
    assert Encoder.fit(gap, ("size", "weight"), fill=True).numeric["size"][0] == pytest.approx(
        10 / 3
    )


def test_numbers_on_a_log_scale() -> None:
    counts = np.array([-9.0, 0.0, 99.0, 9999.0])
    logs = np.array([-np.log(10), 0, np.log(100), np.log(10_000)])
    table = frame_with("size", counts.tolist())
    fitted = Encoder.fit(table, ("size", "weight"), logarithmic=True)
    assert fitted.numeric["size"] == pytest.approx((logs.mean(), logs.std()))
    encoded = fitted.encode(table)[:, 0]
    np.testing.assert_allclose(encoded, (logs - logs.mean()) / logs.std(), atol=1e-6)
    np.testing.assert_allclose(log_scale(counts), logs)
    assert [from_log_scale(number) for number in logs] == pytest.approx(counts.tolist())


# What ships


def test_the_players_own_every_input_once(shipped: dict[str, Dataset]) -> None:
    for name, (continuous, categorical, inputs) in {
        "census": (5, 8, 106), "bank": (7, 9, 51), "german": (7, 13, 61)
    }.items():  # fmt: skip
        dataset = shipped[name]
        assert (dataset.continuous, dataset.categorical, dataset.inputs.shape[1]) == (
            continuous,
            categorical,
            inputs,
        )
        assert sorted(column for owned in dataset.groups.values() for column in owned) == list(
            range(inputs)
        )
        assert dataset.display.shape == (len(dataset.inputs), len(dataset.feature_names))


@pytest.mark.slow
def test_the_authors_background_has_unscaled_means_of_categories(authors: Dataset) -> None:
    quirk = authors
    mean = load("census", preparation=replace(AUTHORS, background="mean"))
    np.testing.assert_array_equal(quirk.inputs, mean.inputs)
    for name, columns in quirk.groups.items():
        if name in quirk.encoder.numeric:
            assert quirk.background[columns].tolist() == [0]
            continue
        place = quirk.feature_names.index(name)
        kinds = quirk.encoder.categories[name]
        frequencies = [(quirk.display[:, place] == kind).mean() for kind in kinds]
        np.testing.assert_allclose(quirk.background[columns], frequencies, atol=1e-6)
    np.testing.assert_allclose(
        mean.background, mean.inputs[mean.train].mean(axis=0, dtype=np.float64), atol=1e-6
    )
    assert np.abs(mean.background).max() < 0.05
    assert np.abs(quirk.background).max() > 0.8


# Criteo


def line(number: int, label: object = None) -> str:
    """A line of the file: I1 is its number, I2 is blank in odd lines, I3 always, and C26 is a category of its own."""
    counts = [str(number), "" if number % 2 else "7", "", *(str(number % n) for n in range(3, 13))]
    kinds = [f"{number % (n + 2):08x}" for n in range(24)]
    return (
        "\t".join(
            (str(number % 2 if label is None else label), *counts, *kinds, "", f"{number:08x}")
        )
        + "\n"
    )


def write(path: Path, lines: list[str]) -> Path:
    text = "".join(lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
def test_criteo_reads_plain_and_gzipped_files(tmp_path: Path, name: str) -> None:
    dataset = load("criteo", path=write(tmp_path / name, [line(n) for n in range(100)]))
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (80, 10, 10)
    assert dataset.labels.tolist() == [n % 2 for n in range(100)]
    assert dataset.display[5, 0] == "5"
    assert dataset.display[5, 1] == dataset.display[5, 2] == "missing"
    mean, deviation = dataset.encoder.numeric["I1"]
    np.testing.assert_allclose(
        dataset.inputs[:, 0] * deviation + mean, np.log1p(np.arange(100)), atol=1e-5
    )
    assert dataset.inputs[5, 1] == 0
    assert not dataset.inputs[:, dataset.groups["C26"]].any()


FORMAT = (
    "expected 40, tab separated: a label 0 or 1, 13 integers, 26 categories. Is the file truncated?"
)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*(line(n) for n in range(30)), line(30)[:40]], "line 31 of {path} has 16 fields beginning with '0'; " + FORMAT),
        (["1,2,3\n"] * 20, "line 1 of {path} has 1 fields beginning with '1,2,3'; " + FORMAT),
        ([line(0), line(1, label=2)] * 10, "line 2 of {path} has 40 fields beginning with '2'; " + FORMAT),
        ([line(0).replace("\t7\t", "\tseven\t")] * 20, "column I2 must hold integers or blanks: could not convert string"),
        ([line(n) for n in range(9)], "expected at least 10 rows, got 9 in {path}"),
        ([], "expected at least 10 rows, got 0 in {path}"),
    ],
)  # fmt: skip
def test_criteo_refuses_other_formats(tmp_path: Path, lines: list[str], message: str) -> None:
    path = write(tmp_path / "a.txt", lines)
    with pytest.raises(InputError, match="^" + re.escape("criteo: " + message.format(path=path))):
        load("criteo", path=path)


def test_criteo_refuses_a_truncated_last_line_even_where_it_is_not_sampled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", [*(line(n) for n in range(500)), line(0)[:30]])
    for seed in range(5):
        with pytest.raises(InputError, match=r"line 501 of .* has 1[0-9] fields"):
            criteo.sample(path, 10, seed)


@pytest.mark.parametrize("damage", ["truncated", "spoiled"])
def test_criteo_refuses_a_damaged_gzip_file(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "a.txt.gz", [line(n) for n in range(300)])
    packed = bytearray(path.read_bytes())
    middle = len(packed) // 2
    packed[middle : middle + 30] = b"" if damage == "truncated" else b"\xff" * 30
    path.write_bytes(packed[:-100] if damage == "truncated" else packed)
    with pytest.raises(InputError, match=r"is truncated or damaged .*; download it again"):
        load("criteo", path=path)
