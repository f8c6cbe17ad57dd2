"""Importance: means over rows with honest intervals, cohorts, and how they are shown."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, sqrt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.stats import t as student

from shearshap import Explanation, InputError

Floats = NDArray[np.float64]


def made(values: Floats, errors: Floats | None = None, **options: Any) -> Explanation:
    """An explanation of values that add up."""
    base = np.zeros((len(values), *values.shape[2:]))
    return Explanation(
        values, base, base + values.sum(axis=1), errors, 10, 0, "kriging", 0, **options
    )


def drawn(rows: int = 50, players: int = 3, outputs: int | None = None) -> Explanation:
    rng = np.random.default_rng(1)
    k = () if outputs is None else (outputs,)
    values = rng.normal(size=(rows, players, *k)) * np.arange(1, players + 1).reshape(
        -1, *(1 for _ in k)
    )
    return made(values, np.full(values.shape, 0.1), data=rng.normal(size=(rows, players)))


# Means and intervals


def test_means_are_those_of_the_values() -> None:
    answer = drawn()
    np.testing.assert_allclose(answer.mean().values, answer.values.mean(axis=0))
    sizes = answer.abs().mean()
    np.testing.assert_allclose(sizes.values, np.abs(answer.values).mean(axis=0))
    assert sizes.shape == (3,)
    assert sizes.kind == "mean |value|"
    assert answer.mean().kind == "mean value"
    np.testing.assert_array_equal(answer.abs.mean(0).values, sizes.values)  # as shap has it
    np.testing.assert_array_equal(answer.abs.values, np.abs(answer.values))
    assert drawn(outputs=2).mean().shape == (3, 2)


def test_an_interval_is_made_of_rows_and_of_standard_errors() -> None:
    values = np.array([[1.0], [3.0], [5.0], [7.0]])
    errors = np.array([[0.1], [0.2], [0.3], [0.4]])
    table = replace(made(values, errors), degrees_of_freedom=6.0).mean()
    over_rows = values.var(ddof=1) / 4
    of_values = 0.25**2
    error = sqrt(over_rows + of_values)
    freedom = (over_rows + of_values) ** 2 / (over_rows**2 / 3 + of_values**2 / 6)
    margin = student.ppf(0.975, freedom) * error
    assert table.standard_errors[0] == pytest.approx(error)
    assert table.lower[0] == pytest.approx(4 - margin)
    assert table.upper[0] == pytest.approx(4 + margin)
    assert table.covers == "rows and estimates"

    exact = made(values).mean(level=0.8)
    assert exact.covers == "rows"
    assert exact.upper[0] == pytest.approx(4 + student.ppf(0.9, 3) * sqrt(over_rows))


def test_a_size_is_never_below_zero() -> None:
    table = made(np.array([[0.0], [0.1], [2.0]])).abs().mean()
    assert table.lower[0] == 0
    assert table.upper[0] > table.values[0]


def test_one_row_says_nothing_of_others() -> None:
    table = drawn()[0].mean()
    assert np.isinf(table.standard_errors).all()
    assert (table.lower == -inf).all()
    assert (table.upper == inf).all()
    assert (drawn()[0].abs().mean().lower == 0).all()
    assert "unknown" in str(table)
    assert "unknown" in table._repr_html_()


def test_standard_errors_that_are_not_known_make_no_interval() -> None:
    answer = drawn()
    errors = np.full(answer.values.shape, 0.1)
    errors[3, 1] = inf
    table = replace(answer, standard_errors=errors).mean()
    assert np.isinf(table.upper).tolist() == [False, True, False]


@pytest.mark.parametrize("together", [False, True], ids=["each row errs", "rows err together"])
@pytest.mark.parametrize("sizes", [False, True], ids=["mean", "mean size"])
def test_intervals_contain_the_mean_of_all_rows(together: bool, sizes: bool) -> None:
    """Rows of a known population, whose values are estimates: 95 % intervals hold in 95 % or more."""
    rng = np.random.default_rng(0)
    truth = np.array([0.0, 0.3, -1.0])
    spread = np.array([0.05, 0.5, 1.0])
    errors = np.array([0.2, 0.1, 0.4])
    population = truth + spread * rng.standard_normal((20_000, 3))
    wanted = (np.abs(population) if sizes else population).mean(axis=0)
    hits = np.zeros(3)
    times = 250
    for _ in range(times):
        values = population[rng.integers(len(population), size=30)]
        noise = rng.standard_normal((1 if together else 30, 3)) * errors
        answer = made(values + noise, np.broadcast_to(errors, (30, 3)).copy())
        table = answer.abs().mean() if sizes else answer.mean()
        hits += (table.lower <= wanted) & (wanted <= table.upper)
    assert (hits / times >= 0.93).all(), hits / times


def test_a_mean_is_over_rows_at_a_level_between_0_and_1() -> None:
    answer = drawn()
    for level in (0, 1, 95):
        with pytest.raises(InputError, match="level: expected a number between 0 and 1"):
            answer.mean(level=level)
    means: list[Callable[[int], Any]] = [answer.mean, answer.abs.mean, answer.by("x0").mean]
    for mean in means:
        with pytest.raises(
            InputError, match="mean: expected axis 0, the mean over the rows, got 1"
        ):
            mean(1)
    with pytest.raises(InputError, match="mean: expected at least one row"):
        answer[:0].mean()


# Cohorts


def test_cohorts_are_explanations_by_name() -> None:
    answer = drawn(6)
    cohorts = answer.by(["b", "a", "b", "a", "b", None])
    assert list(cohorts) == ["a", "b", "missing"]
    assert len(cohorts) == 3
    assert "a" in cohorts
    np.testing.assert_array_equal(cohorts["a"].values, answer.values[[1, 3]])
    assert repr(cohorts) == "Cohorts(a: 2 rows, b: 3 rows, missing: 1 row)"
    with pytest.raises(InputError, match="there is no cohort 'c'; there are a, b, missing"):
        cohorts["c"]
    table = cohorts.mean()
    assert table.cohorts == ["a", "b", "missing"]
    assert table.rows == [2, 3, 1]
    assert table.shape == (3, 3)
    np.testing.assert_allclose(table.values[1], answer.values[[0, 2, 4]].mean(axis=0))
    for sizes in (
        cohorts.abs().mean(),
        cohorts.abs.mean(0),
        answer.abs().by(list("bababc")).mean(),
    ):
        np.testing.assert_allclose(sizes.values[0], np.abs(answer.values[[1, 3]]).mean(axis=0))


def test_labels_keep_their_order() -> None:
    assert list(drawn(4).by(np.array([10, 9, 2, 10]))) == ["2", "9", "10"]
    assert list(drawn(3).by(pd.Series([True, False, True]))) == ["False", "True"]
    assert list(drawn(3).by(pl.Series(["z", "a", "z"]))) == ["a", "z"]
    assert list(drawn(3).by([1, "a", 1])) == ["1", "a"]


def test_a_player_makes_cohorts() -> None:
    answer = drawn(40)
    quarters = answer.by("x1")
    assert [len(part) for part in quarters.values()] == [10, 10, 10, 10]
    assert next(iter(quarters)).startswith("x1 ≤ ")
    assert list(quarters)[-1].startswith("x1 > ")
    assert len(answer.by("x1", bins=2)) == 2
    assert answer.data is not None
    lowest = quarters[next(iter(quarters))]
    assert lowest.data is not None
    assert lowest.data[:, 1].max() <= np.quantile(answer.data[:, 1], 0.25)

    few = replace(answer, data=np.tile([[1.0, 2.0, np.nan], [10.0, 2.0, 0.5]], (20, 1)))
    assert list(few.by("x0")) == ["x0 = 1", "x0 = 10"]
    assert list(few.by("x2")) == ["x2 = 0.5", "missing"]
    words = np.tile(np.array([["a", "b", None], ["c", "b", "d"]], dtype=object), (20, 1))
    assert list(replace(answer, display_data=words).by("x0")) == ["x0 = a", "x0 = c"]
    assert list(replace(answer, display_data=words).by("x2")) == ["x2 = d", "missing"]


def test_cohorts_may_overlap() -> None:
    answer = drawn(5)
    cohorts = answer.by({"first": np.arange(5) < 3, "all": np.ones(5, dtype=bool)})
    assert [len(part) for part in cohorts.values()] == [3, 5]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a", "b"], "groups: expected 5 labels, one per row, got 2"),
        ("age", "groups: there is no feature 'age'; there are x0, x1, x2"),
        (7, "groups: expected one label per row, or the name of a feature, got 7"),
        (
            {"a": [0, 1]},
            r"a boolean array of shape \(5,\) for each cohort, got int64 of shape \(2,\)",
        ),
        ({"a": np.zeros(5, dtype=bool)}, "cohorts of at least one row; there are none in a"),
    ],
)
def test_wrong_cohorts_are_told(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        drawn(5).by(groups)


def test_a_player_without_data_makes_no_cohorts() -> None:
    with pytest.raises(InputError, match="the explanation has no data for 'x0'; pass labels"):
        replace(drawn(5), data=None).by("x0")


# Texts


def test_texts_are_counted_by_word() -> None:
    words = np.array([["so", "good", ""], ["good", "so", "good"], ["bad", "", ""]], dtype=object)
    values = np.array([[0.1, 1.0, 0.0], [2.0, 0.3, 3.0], [-1.0, 0.0, 0.0]])
    texts = made(
        values,
        np.full((3, 3), 0.1),
        feature_names=["word 0", "word 1", "word 2"],
        display_data=words,
    )
    table = texts.mean()
    assert table.feature_names == ["so", "good", "bad"]
    np.testing.assert_allclose(table.values, [0.4 / 3, 6.0 / 3, -1.0 / 3])
    assert np.isfinite(table.upper).all()
    both = texts.by(["x", "x", "y"]).mean()
    assert both.feature_names == ["so", "good", "bad"]
    np.testing.assert_allclose(both.values, [[0.2, 3.0, 0.0], [0.0, 0.0, -1.0]])
    assert np.isinf(both.upper).tolist() == [[False, False, True], [True, True, True]]


# Tables


def test_the_most_important_comes_first() -> None:
    table = drawn(200, 5).abs().mean()
    assert table.order.tolist() == [4, 3, 2, 1, 0]
    top = table.top(2)
    assert top.feature_names == ["x4", "x3"]
    np.testing.assert_array_equal(top.upper, table.upper[[4, 3]])
    assert len(top) == 2
    cohorts = drawn(200, 5).abs().by(["a", "b"] * 100).mean()
    np.testing.assert_array_equal(cohorts.top(1).values, cohorts.values[:, [4]])


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_table_becomes_a_frame(backend: Any) -> None:
    table = drawn(20, 3, outputs=2).by(["a", "b"] * 10).abs().mean()
    frame = table.to_frame(backend)
    columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert columns == [
        "cohort", "output", "feature", "value", "lower", "upper", "standard_error", "rows",
    ]  # fmt: skip
    assert len(frame) == 12
    assert list(drawn().mean().to_frame().columns)[:2] == ["output", "feature"]
    first = table.to_frame().query("cohort == 'b' and output == 'output 1' and feature == 'x2'")
    assert first["value"].item() == pytest.approx(table.values[1, 2, 1])


def test_a_table_is_printed_with_its_intervals() -> None:
    answer = made(np.array([[1.0, -2.0], [3.0, -4.0]]), feature_names=["age", "hours"])
    table = answer.mean()
    assert repr(table) == "Importance(mean value of 2 features, 2 rows)"
    assert str(table).splitlines() == [
        repr(table),
        "",
        "feature  mean value    95 % interval",
        "hours         −3.00   −15.71 to 9.71",
        "age           +2.00  −10.71 to 14.71",
        "Intervals cover the choice of rows; the method has no standard errors.",
    ]
    many = drawn(20, 30, outputs=2).by(["a", "b"] * 10).mean()
    assert repr(many) == "Importance(mean value of 30 features, 2 outputs, 2 cohorts, 20 rows)"
    assert "... and 20 more features" in str(many)


def test_a_notebook_shows_bars_for_each_cohort_and_output() -> None:
    table = drawn(20, 12, outputs=2).by(["<a>", "b"] * 10).abs().mean()
    page = table._repr_html_()
    assert page.count('class="shear-lane"') == 10 * 4
    assert "&lt;a&gt; (10 rows), output 0" in page
    assert "<a>" not in page
    assert "2 more features" in page
    signed = drawn().mean()._repr_html_()
    assert "var(--raises)" in signed
    assert signed.count('class="shear-lane"') == 3
