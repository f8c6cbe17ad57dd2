"""Options as text: what they stand for, and which file an error is about."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shearshap import Conditional, Explainer, InputError
from shearshap.apps.jobs.options import (
    Background,
    BackgroundOption,
    chosen_output,
    device_of,
    errors_with_files,
    parse_names,
)
from shearshap.data.background import CHOICES, STATISTICS
from shearshap.games.conditional import KINDS

DATA = Path("rows.csv")
TRAIN = Path("train.csv")
COUNTED = ("sample", "kmeans", *KINDS)


@pytest.mark.parametrize(
    ("said", "of_file", "of_model"),
    [
        ("rows: too few", "data: rows.csv: too few", "data: rows.csv: too few"),
        ("background: too few", "background: train.csv: too few", "background: too few"),
        (
            "kriging: 9 background rows are too many",
            "background: train.csv: kriging: 9 background rows are too many",
            "kriging: 9 background rows are too many",
        ),
        ("groups: no rows: 1", "groups: no rows: 1", "groups: no rows: 1"),
    ],
)
def test_errors_about_rows_and_background_name_their_file(
    said: str, of_file: str, of_model: str
) -> None:
    """Of a background that is not in a file there is nothing to name; other errors stay."""
    for source, expected in ((TRAIN, of_file), (None, of_model)):
        background = Background(None, "", source)
        with pytest.raises(InputError) as caught, errors_with_files(DATA, background):
            raise InputError(said)
        assert str(caught.value) == expected


@given(
    name=st.sampled_from([*STATISTICS, *CHOICES, *KINDS]),
    count=st.none() | st.integers(1, 10**6),
)
def test_a_background_is_what_its_text_says(name: str, count: int | None) -> None:
    text = f"{name}:train.csv" + ("" if count is None else f":{count}")
    option = BackgroundOption.parse(text)
    assert option.choice == name
    if count is not None and name not in COUNTED:  # the file's name may end in a number
        assert str(option.file) == f"train.csv:{count}"
        return
    assert option.file == TRAIN
    assert option.count == count


@pytest.mark.filterwarnings("ignore:There are no error bars")
@given(rows=st.integers(1, 300), count=st.none() | st.integers(2, 200))
def test_words_say_how_many_background_rows_there_are(rows: int, count: int | None) -> None:
    """As many as the explainer then uses: all, if there are no more than it takes."""
    values = torch.arange(2.0 * rows).reshape(rows, 2).numpy()
    text = "sample:train.csv" + ("" if count is None else f":{count}")
    option = BackgroundOption.parse(text)
    chosen: Any = option.of_rows(values)
    used = Explainer(lambda x: x.sum(axis=1), chosen)(values[:1], budget=4).background
    drawn = min(rows, count or 100)
    whole = f"the {rows:,} rows of train.csv" if rows > 1 else "the row of train.csv"
    assert option.words(rows) == (
        whole if drawn == rows else f"{drawn} of {whole}, drawn at random"
    )
    assert drawn == rows or str(used).startswith(f"{drawn} of {rows} background rows")


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_distribution_say_how_many_samples_it_has(kind: str) -> None:
    values = torch.arange(400.0).reshape(200, 2).numpy()
    for text, samples in ((f"{kind}:train.csv", 100), (f"{kind}:train.csv:30", 30)):
        option = BackgroundOption.parse(text)
        made = option.of_rows(values)
        assert isinstance(made, Conditional)
        assert (made.kind, made.samples) == (kind, samples)
        assert option.words(200).startswith(f"{samples} samples of features that move together")


def test_names_and_outputs() -> None:
    assert parse_names([" a, b ,c"]) == parse_names(["a", " b", "c "]) == ("a", "b", "c")
    assert parse_names(["a,b", "c"]) == ("a,b", "c")
    assert parse_names([]) == ()
    with pytest.raises(InputError, match="duplicate name 'b'"):
        parse_names(["a,b,b"])
    assert chosen_output([], []) is None
    assert chosen_output(["1"], []) == 1
    assert chosen_output(["-1"], []) == -1
    assert chosen_output(["1"], ["0", "1"]) == "1"  # the name comes before the number
    assert chosen_output(["no", "1"], ["no", "yes"]) == ["no", 1]


def test_workers_take_devices_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_of((), 3) is None
    assert [device_of(("cuda:0", "cpu"), worker) for worker in range(4)] == ["cuda:0", "cpu"] * 2
    for gpus, expected in ((0, None), (1, "cuda:0"), (2, "cuda:1")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        assert device_of(("auto",), 3) == expected
