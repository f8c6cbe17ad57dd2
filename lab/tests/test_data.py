"""The data sets: their splits, their encoding, what people read of them, and files that cannot be used."""

import gzip
import lzma
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
from shearshap_lab.data import NAMES, Dataset, Encoder, criteo, load, uci
from shearshap_lab.data.dataset import split
from shearshap_lab.data.encoder import from_log_scale, log_scale
from shearshap_lab.data.preparation import AUTHORS

Frame = dict[str, NDArray[Any]]
SIZES = {"census": (20838, 5210, 6513), "bank": (28934, 7234, 9043), "german": (640, 160, 200)}


@pytest.fixture(scope="module")
def shipped() -> dict[str, Dataset]:
    return {name: load(name) for name in SIZES}


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
def test_splits_have_the_papers_sizes(shipped: dict[str, Dataset], name: str) -> None:
    dataset = shipped[name]
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == SIZES[name]


@pytest.mark.parametrize("name", SIZES)
def test_splits_are_disjoint_complete_and_stratified(
    shipped: dict[str, Dataset], name: str
) -> None:
    dataset = shipped[name]
    parts = (dataset.train, dataset.validation, dataset.test)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(dataset.labels)))
    for part in (dataset.test, np.concatenate((dataset.test, dataset.validation))):
        assert abs(dataset.labels[part].sum() - dataset.labels.mean() * len(part)) <= 1


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5])
def test_any_number_of_labels_is_stratified_to_within_a_row(share: float) -> None:
    labels = (np.random.default_rng(0).random(1013) < share).astype(np.int64)
    for seed in range(5):
        _, validation, test = split(labels, 101, 99, seed)
        assert abs(labels[test].sum() - labels.mean() * 99) <= 1
        assert abs(labels[validation].sum() - labels.mean() * 101) <= 2


def test_the_seed_decides_the_split(shipped: dict[str, Dataset]) -> None:
    again, other = load("german"), load("german", seed=1)
    np.testing.assert_array_equal(again.test, shipped["german"].test)
    np.testing.assert_array_equal(again.inputs, shipped["german"].inputs)
    assert not np.array_equal(other.test, again.test)
    assert len(other.test) == len(again.test)


@pytest.mark.parametrize("name", SIZES)
def test_the_authors_split_is_scikit_learns(name: str) -> None:
    """20 % for the test and 20 % of the rest for validation, both with random state 0."""
    dataset = load(name, seed=3, preparation=AUTHORS)
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


def test_a_feature_whose_categories_are_all_rare_is_all_zero() -> None:
    assert encoder(style="index", at_least=5).encode(frame())[:, 1].tolist() == [0, 0, 0, 0]
    assert encoder(at_least=5).encode(frame())[:, 1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("unseen", ["violet-and-long", "", "a", "zz"])
def test_an_unseen_category_is_an_all_zero_block_or_index_zero(unseen: str) -> None:
    strange = frame_with("colour", [unseen, "blue", "red", "green"])
    assert encoder().encode(strange)[:, 1:4].sum(axis=1).tolist() == [0, 1, 1, 1]
    assert encoder(style="index").encode(strange)[:, 1].tolist() == [0, 1, 3, 2]


def test_columns_are_found_by_name() -> None:
    backwards = dict(reversed(frame().items()))
    np.testing.assert_array_equal(encoder().encode(backwards), encoder().encode(frame()))


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


def test_a_column_without_any_number_is_all_zero_where_filled() -> None:
    gap = frame_with("size", [np.nan] * 4)
    assert Encoder.fit(gap, ("size", "weight"), fill=True).encode(gap)[:, 0].tolist() == [
        0,
        0,
        0,
        0,
    ]


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


def test_text_in_a_column_of_numbers_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"column 'size' must hold numbers: could not convert string to float: .*big",
    ):
        encoder().encode(frame_with("size", ["1", "2", "big", "4"]))


def test_wrong_columns_are_named() -> None:
    wrong = {"size": frame()["size"], "color": frame()["colour"], "weight": frame()["weight"]}
    message = (
        "the frame's columns are not the encoder's: missing ['colour'], unknown ['color']; "
        "wanted ['size', 'colour', 'weight']"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        encoder().encode(wrong)
    with pytest.raises(InputError, match=re.escape("missing ['size', 'weight'], unknown []")):
        encoder().encode({"colour": frame()["colour"]})
    with pytest.raises(InputError, match=re.escape("missing [], unknown ['label']")):
        encoder().encode({**frame(), "label": np.zeros(4)})


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


def test_the_background_is_the_mean_of_the_training_rows(shipped: dict[str, Dataset]) -> None:
    census = shipped["census"]
    np.testing.assert_allclose(
        census.background, census.inputs[census.train].mean(axis=0), atol=1e-4
    )
    for name in census.encoder.categories:
        assert census.background[census.groups[name]].sum() == pytest.approx(1, abs=1e-5)


def test_the_authors_inputs_are_all_standardised() -> None:
    census = load("census", preparation=AUTHORS)
    np.testing.assert_allclose(census.inputs.mean(axis=0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(census.inputs.std(axis=0, dtype=np.float64), 1, atol=1e-5)
    # a column has two values, whose distance is one over its deviation
    sex = census.inputs[:, census.groups["sex"]]
    female = float((census.display[:, census.feature_names.index("sex")] == "Female").mean())
    assert np.unique(sex[:, 0]) == pytest.approx(
        [-female / (female * (1 - female)) ** 0.5, (1 - female) / (female * (1 - female)) ** 0.5]
    )


def test_the_authors_background_has_unscaled_means_of_categories() -> None:
    quirk = load("census", preparation=AUTHORS)
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


def test_a_standardised_block_of_an_unseen_category() -> None:
    fitted = encoder(standardised=True)
    seen = fitted.encode(frame())
    blocks = fitted.groups["colour"]
    np.testing.assert_allclose(seen[:, blocks].mean(axis=0), 0, atol=1e-6)
    unseen = fitted.encode(frame_with("colour", ["pink"] * 4))
    # blue and green are one of four each, red two
    third = -0.25 / (0.25 * 0.75) ** 0.5
    np.testing.assert_allclose(unseen[0, blocks], [third, third, -1], atol=1e-6)


def test_other_preparations_are_of_the_shipped_data_alone() -> None:
    message = "preparation: only census, bank, german can be prepared in other ways than ours, got"
    with pytest.raises(InputError, match=message):
        load("criteo", preparation=AUTHORS)
    with pytest.raises(InputError, match="split: wanted one of stratified, scikit-learn, got 'a'"):
        replace(AUTHORS, split="a")  # type: ignore[arg-type]


def test_german_codes_are_read_as_words(shipped: dict[str, Dataset]) -> None:
    german = shipped["german"]
    assert list(german.display[0, :4]) == [
        "below 0 DM",
        "6",
        "critical account, or credits elsewhere",
        "radio or television",
    ]
    assert not any(re.fullmatch(r"A\d+", str(cell)) for cell in german.display.flat)


def test_repr_says_the_size_and_the_splits(shipped: dict[str, Dataset]) -> None:
    assert repr(shipped["german"]) == (
        "Dataset('german', 1000 rows, 7 continuous + 13 categorical features in 61 inputs, "
        "640/160/200 train/validation/test)"
    )


@pytest.mark.parametrize("damage", ["another", "truncated"])
def test_a_damaged_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str
) -> None:
    packed = lzma.compress(b"1 2 3\n" * 100)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "german.data.xz").write_bytes(
        packed if damage == "another" else packed[:-20]
    )
    monkeypatch.setattr(uci, "files", lambda _package: tmp_path)
    with pytest.raises(
        InputError,
        match=r"german\.data\.xz is damaged: its hash is not the one it was shipped with; reinstall",
    ):
        load("german")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    message = f"there is no data set 'censu'; did you mean 'census'? There are: {', '.join(NAMES)}"
    with pytest.raises(InputError, match=re.escape(message)):
        load("censu")


def test_a_path_where_none_is_read_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"path: only criteo reads a file of yours, german needs none; got 'x.txt'"
    ):
        load("german", path="x.txt")


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


def test_what_is_missing_is_written_as_an_empty_cell(tmp_path: Path) -> None:
    dataset = load("criteo", path=write(tmp_path / "a.txt", [line(n) for n in range(20)]))
    assert dataset.display[1, 1] == "missing"
    _, *rows = dataset.write(tmp_path / "a.csv").read_text().splitlines()
    assert rows[1].startswith("1,,,1,")
    assert rows[2].startswith("2,7,,2,")
    assert not any("missing" in row for row in rows)


def test_criteo_sample_is_all_rows_when_there_are_no_more(tmp_path: Path) -> None:
    lines = [line(n) for n in range(12)]
    path = write(tmp_path / "a.txt", lines)
    assert criteo.sample(path, 12, 0) != []
    assert sorted(criteo.sample(path, 12, 0)) == sorted(lines)
    assert criteo.sample(path, 13, 0) == lines


def test_criteo_sample_is_uniform_without_repeats_and_reproducible(tmp_path: Path) -> None:
    lines = [line(n) for n in range(40)]
    path = write(tmp_path / "a.txt", lines)
    drawn = [criteo.sample(path, 10, seed) for seed in range(600)]
    assert criteo.sample(path, 10, 3) == drawn[3] != drawn[4]
    assert all(len(set(kept)) == 10 for kept in drawn)
    counts = np.array([sum(one in kept for kept in drawn) for one in lines])
    assert np.abs(counts - 150).max() < 4.5 * np.sqrt(600 * 0.25 * 0.75)


def test_criteo_data_set_is_reproducible(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", [line(n) for n in range(200)])
    first, again, other = (criteo.load(path, seed, rows=50) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.inputs, again.inputs)
    np.testing.assert_array_equal(first.test, again.test)
    assert first.display[:, 0].tolist() != other.display[:, 0].tolist()


FORMAT = (
    "wanted 40, tab separated: a label 0 or 1, 13 integers, 26 categories. Is the file truncated?"
)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*(line(n) for n in range(30)), line(30)[:40]], "line 31 of {path} has 16 fields beginning with '0'; " + FORMAT),
        (["1,2,3\n"] * 20, "line 1 of {path} has 1 fields beginning with '1,2,3'; " + FORMAT),
        ([line(0), line(1, label=2)] * 10, "line 2 of {path} has 40 fields beginning with '2'; " + FORMAT),
        ([line(0).replace("\t7\t", "\tseven\t")] * 20, "column I2 must hold integers or blanks: could not convert string"),
        ([line(n) for n in range(9)], "{path} has 9 rows; wanted at least 10, to split them"),
        ([], "{path} is empty"),
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


def test_criteo_refuses_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="is truncated or damaged"):
        load("criteo", path=tmp_path / "a.bin")


def test_criteo_says_where_to_get_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(f"criteo: no file was given. {criteo.WHERE}")):
        load("criteo")
    nowhere = tmp_path / "train.txt"
    with pytest.raises(
        InputError, match=re.escape(f"criteo: there is no file '{nowhere}'. {criteo.WHERE}")
    ):
        load("criteo", path=nowhere)


def test_indexed_categories_have_their_mode_as_background(made: Dataset) -> None:
    rows = made.inputs[made.train]
    for column in (made.groups[name][0] for name in made.encoder.categories):
        kinds, counts = np.unique(rows[:, column], return_counts=True)
        assert made.background[column] == kinds[counts.argmax()]
    np.testing.assert_allclose(made.background[:13], rows[:, :13].mean(axis=0), atol=1e-5)
