"""Texts by their words, against sums by hand; and what plots make of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drawn import (
    _no_figure_stays,  # noqa: F401
    check_texts,
    column,
    dots,
    labels,
)
from shearshap import Explanation, plots
from shearshap.result.cells import by_word, padding, predicted_outputs, without_mirror
from shearshap.result.text import first_rows, output_text

TEXTS = [["so", "lovely", "", ""], ["the", "so", "the", "bad"], ["lovely", "lovely", "", ""]]


def texts() -> Explanation:
    """Return values of three texts, with pairs whose main effects and halves add up to values."""
    rng = np.random.default_rng(0)
    words = np.array(TEXTS, dtype=object)
    present = words != ""
    pairs = rng.normal(size=(3, 4, 4))
    pairs = (pairs + pairs.transpose(0, 2, 1)) * present[:, :, None] * present[:, None, :]
    alone = np.einsum("rpp->rp", pairs)
    values = alone + (pairs.sum(axis=2) - alone) / 2
    return Explanation(
        values=values,
        base_values=np.zeros(3),
        predictions=values.sum(axis=1),
        standard_errors=np.where(present, 0.01, 0.0),
        evaluations=16,
        derivative_passes=0,
        method="kriging",
        seed=0,
        feature_names=[f"word {place}" for place in range(4)],
        display_data=words,
        interactions=pairs,
        cross_contribution=np.abs(pairs) * (1 - np.eye(4)),
    )


def test_values_go_by_word() -> None:
    sample = texts()
    worded = by_word(sample)
    assert worded.feature_names == ["so", "lovely", "the", "bad"]
    for row, text in enumerate(TEXTS):
        for place, word in enumerate(worded.feature_names):
            own = [at for at, other in enumerate(text) if other == word]
            assert worded.values[row, place] == pytest.approx(sample.values[row, own].sum())
            assert worded.standard_errors is not None
            assert worded.standard_errors[row, place] == pytest.approx(0.01 * len(own))
            assert padding(worded)[row, place] == (not own)
    assert worded.gap == pytest.approx(sample.gap, abs=1e-12)
    assert worded.interactions is None


def test_pairs_go_by_word_and_still_add_up() -> None:
    worded = by_word(texts(), 4)
    assert worded.interactions is not None
    assert worded.cross_contribution is not None
    alone = np.einsum("rpp->rp", worded.interactions)
    together = worded.interactions.sum(axis=2) - alone
    assert alone + together / 2 == pytest.approx(worded.values)
    sample = texts().interactions
    assert sample is not None
    # row 1: "the" at 0 and 2, "bad" at 3
    assert worded.interactions[1, 2, 3] == pytest.approx(sample[1, 0, 3] + sample[1, 2, 3])
    assert worded.interactions[1, 2, 2] == pytest.approx(
        sample[1, 0, 0] + sample[1, 2, 2] + sample[1, 0, 2]
    )


# plots


def test_padding_is_not_drawn() -> None:
    sample = texts()
    assert sorted(labels(plots.waterfall(sample, row=0))[1:-1]) == ["lovely", "so"]
    assert sorted(labels(plots.bar(sample[0]))) == ["lovely", "so"]
    ax = plots.beeswarm(sample)
    drawn = sum(len(np.asarray(cloud.get_offsets())) for cloud in dots(ax))
    assert drawn == 2 + 3 + 1  # texts have 2, 3 and 1 different words
    assert column(plots.text(sample, row=0))[1::2] == ["so", "lovely"]
    cells = plots.heatmap(sample, order="given").images[0].get_array()
    assert cells is not None
    assert int(np.ma.getmaskarray(cells).sum()) == 3 * 4 - 6


def test_words_are_not_named_twice() -> None:
    """A single text's players are named by their words, which are their cells as well."""
    single = replace(texts()[[1]], feature_names=["the", "so", "the", "bad"])
    assert sorted(labels(plots.waterfall(single))[1:-1]) == ["bad", "so", "the", "the"]


@pytest.mark.parametrize("row", [None, 1])
def test_pairs_of_words_are_drawn(row: int | None) -> None:
    sample = texts()
    matrix = plots.interactions(sample, row=row)
    words = {text.get_text() for text in matrix.get_yticklabels()}
    assert words == ({"so", "the", "bad"} if row else {"so", "lovely", "the", "bad"})
    network = plots.cooperators(sample, row=row)
    assert {text.get_text() for text in network.texts} == words
    check_texts(network)


# Which of several outputs to show


def outputs(values: Any, predictions: Any, **fields: Any) -> Explanation:
    values = np.asarray(values, dtype=np.float64)
    predictions = np.asarray(predictions, dtype=np.float64)
    base = predictions - values.sum(axis=1)
    return Explanation(values, base, predictions, None, 8, 0, "exact", 0, **fields)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_two_classes_the_second_is_shown(size: float, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    second = size * rng.normal(size=(6, 3))
    first = -second * (1 + 4 * np.finfo(dtype).eps * rng.normal(size=second.shape))
    both = outputs(
        np.stack((first, second), axis=2), [[0.3, 0.7]] * 6,
        output_names=["stays", "churn"], scale="probability", background="5 background rows",
    )  # fmt: skip
    shown = without_mirror(both)
    assert shown.output_names == ["churn"]
    np.testing.assert_array_equal(shown.values, second)
    assert both.values.shape == (6, 3, 2)
    header, question, _, names, *_ = str(both).splitlines()
    assert "2 outputs" in header
    assert question == "P(churn), against 5 background rows"
    assert "output" not in names
    assert "P(churn), against 5 background rows" in both._repr_html_()
    assert "stays" not in both._repr_html_() + str(both) + str(both.mean()) + str(both.abs().mean())
    assert without_mirror(both[2]).output_names == ["churn"]


def test_two_other_outputs_are_both_shown() -> None:
    values = np.random.default_rng(0).normal(size=(4, 3, 2))
    both = outputs(values, [[0.3, 0.7]] * 4)
    assert without_mirror(both) is both
    almost = outputs(np.stack((-values[..., 0], values[..., 0] * 1.001), axis=2), [[0.3, 0.7]] * 4)
    assert without_mirror(almost) is almost
    assert "output 0" in str(both)
    assert "output 0" in str(both.abs().mean())


CLASSES = np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1], [0.2, 0.5, 0.3]])


@pytest.mark.parametrize(
    ("predictions", "scale", "shown"),
    [
        (CLASSES, "probability", [2, 0, 1]),
        (CLASSES, None, [2, 0, 1]),
        (np.log(CLASSES), "log-odds", [2, 0, 1]),
        (9 * CLASSES, "margin", [2, 0, 1]),
        (CLASSES + 0.1, "probability", None),  # labels, each by itself
        (9 * CLASSES, None, None),  # three numbers
        (np.hstack((CLASSES, CLASSES)), None, [2, 0, 1]),  # more than fit: the highest
        (CLASSES[:, :2], "probability", None),
        (CLASSES[:, 0], "probability", None),
    ],
)
def test_the_predicted_class_of_each_row(predictions: Any, scale: Any, shown: Any) -> None:
    shape = (3, 4, *predictions.shape[1:])
    values = np.random.default_rng(0).normal(size=shape)
    explanation = outputs(values, predictions, scale=scale)
    found = predicted_outputs(explanation)
    assert (None if found is None else found.tolist()) == shown
    if shown is not None:
        lines = first_rows(explanation).lines
        assert [line.output for line in lines] == [f"output {number}" for number in shown]
        names = first_rows(explanation).names
        for row, (line, number) in enumerate(zip(lines, shown, strict=True)):
            own = values[row, :, number]
            drawn = dict(zip(names, [cell.number for cell in line.cells], strict=True))
            np.testing.assert_allclose([drawn[f"x{player}"] for player in range(4)], own)


@pytest.mark.parametrize(
    ("name", "scale", "words"),
    [
        ("churn", "probability", "P(churn)"), ("churn", "log-odds", "log-odds of churn"),
        ("churn", "margin", "margin of churn"), ("churn", None, "churn"), ("output", None, ""),
        ("output", "margin", "margin"), ("1", "probability", "P(class 1)"), ("1", None, "1"),
    ],
)  # fmt: skip
def test_an_output_in_words(name: str, scale: Any, words: str) -> None:
    assert output_text(name, scale) == words
