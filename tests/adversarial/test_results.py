"""Results say one thing: tables, plots, reports and files have the same numbers under the same names."""

import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from drawn import _no_figure_stays, bars, whiskers  # noqa: F401
from shearshap import Explainer, Explanation, InputError, plots
from shearshap.result.axes import axes
from shearshap.result.text import decimals, digits_script, format_end, format_number

Floats = NDArray[np.float64]


def made(values: Floats, errors: Floats | None = None, **options: Any) -> Explanation:
    """An explanation of values that add up."""
    base = np.zeros((len(values), *values.shape[2:]))
    return Explanation(
        values, base, base + values.sum(axis=1), errors, 10, 0, "kriging", 0, **options
    )


def of_column(cells: Any, *, shown: bool = False) -> Explanation:
    """An explanation with one player, x, whose values are 0, 1, 2, ... in the order of the rows."""
    values = np.arange(float(len(cells)))[:, None]
    if shown:
        table = np.empty((len(cells), 1), dtype=object)
        table[:, 0] = cells
        return made(values, feature_names=["x"], display_data=table)
    return made(values, feature_names=["x"], data=np.array(cells, dtype=float)[:, None])


def members(cohorts: Any) -> dict[str, list[int]]:
    """The rows of each cohort."""
    return {name: part.values[:, 0].astype(int).tolist() for name, part in cohorts.items()}


# Cohorts


@pytest.mark.parametrize(
    "numbers",
    [
        [1234561, 1234562, 1234563],
        [0.1 + 0.2, 0.3, 0.1],
        [1e300, 1.0000001e300, 2e300],
        [2.0**52, 2.0**52 + 1, 2.0**52 + 2],
        [1.0, np.inf, -np.inf],
    ],
)
def test_different_numbers_are_different_cohorts(numbers: list[float]) -> None:
    cohorts = of_column(numbers * 2).by("x")
    assert sorted(members(cohorts).values()) == [[0, 3], [1, 4], [2, 5]]
    assert "missing" not in cohorts


def test_whole_numbers_beyond_floating_ones_stay_apart() -> None:
    few = of_column([2**60 + at for at in (2, 1, 2)], shown=True).by("x")
    assert members(few) == {f"x = {2**60 + 1}": [1], f"x = {2**60 + 2}": [0, 2]}
    many = of_column([2**60 + at for at in range(20)], shown=True).by("x", bins=4)
    assert [len(part) for part in many.values()] == [5, 5, 5, 5]


@pytest.mark.parametrize(
    "cells",
    [
        1.7e9 + 60 * np.arange(400),
        1000 + np.arange(12) / 10,
        -1e-9 * np.arange(40),
        np.random.default_rng(0).normal(size=400),
        np.exp(10 * np.random.default_rng(1).normal(size=400)),
        np.r_[-np.inf, np.arange(38.0), np.inf],
    ],
    ids=["unix times", "around 1000", "tiny", "normal", "many sizes", "infinite"],
)
@pytest.mark.parametrize("bins", [2, 4])
def test_bins_are_even_and_hold_what_their_names_say(cells: Floats, bins: int) -> None:
    cohorts = of_column(cells).by("x", bins=bins)
    assert [len(part) for part in cohorts.values()] == [len(cells) // bins] * bins
    for name, rows in members(cohorts).items():
        inside = cells[rows]
        if "<" in name:
            low, rest = name.split(" < x ≤ ")
            assert (inside > float(low)).all()
            assert (inside <= float(rest)).all()
        elif "≤" in name:
            assert (inside <= float(name.removeprefix("x ≤ "))).all()
        else:
            assert (inside > float(name.removeprefix("x > "))).all()


def test_limits_have_no_more_digits_than_they_need() -> None:
    cohorts = of_column(1.7e9 + 60 * np.arange(400.0)).by("x", bins=2)
    assert all(len(name) <= len("x ≤ 1700011999") for name in cohorts)
    ages = of_column(np.repeat(np.arange(20.0, 60.0), 3)).by("x")
    assert list(ages) == ["x ≤ 29", "29 < x ≤ 39", "39 < x ≤ 49", "x > 49"]


@pytest.mark.parametrize("bins", [0, -1, 2.5, True, "4"])
def test_bins_are_a_positive_integer(bins: Any) -> None:
    with pytest.raises(InputError, match="bins: expected a positive integer, got"):
        of_column(range(12)).by("x", bins=bins)


def test_numbers_with_holes_are_binned() -> None:
    for hole in (None, pd.NA, float("nan")):
        cohorts = of_column([*range(40), hole], shown=True).by("x")
        assert [len(part) for part in cohorts.values()] == [10, 10, 10, 10, 1]


@pytest.mark.parametrize(
    "groups",
    [
        [1, "1"],
        [None, "missing"],
        [1.5, "1.5"],
        {1: np.array([True, False]), "1": np.array([False, True])},
    ],
    ids=str,
)
def test_different_labels_of_equal_text_are_refused(groups: Any) -> None:
    with pytest.raises(InputError, match="groups: expected labels with different texts, got"):
        of_column([0.0] * 2).by(groups)


def test_labels_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(InputError, match="groups: expected labels such as numbers or texts"):
        of_column([0.0] * 2).by([[1], [2]])


def test_a_plot_has_the_cohorts_of_by() -> None:
    rng = np.random.default_rng(0)
    answer = made(rng.normal(size=(12, 2)), data=rng.normal(size=(12, 2)))
    labels = [1, "a", None, 2.5] * 3
    for groups in (labels, "x1", {"all": np.ones(12, dtype=bool), "some": np.arange(12) < 5}):
        ax = plots.bar(answer, groups=groups)
        legend = ax.get_legend()
        assert legend is not None
        table = answer.by(groups).abs().mean().top(2)
        assert len(legend.get_texts()) == len(table.rows)
        assert [bar.get_width() for bar in bars(ax)] == pytest.approx(table.values.ravel())


def test_long_names_of_cohorts_and_classes_stay_apart() -> None:
    names = [
        f"a long name that differs in {word} middle of all its words" for word in ("this", "the")
    ]
    cohorts = plots.bar(made(np.ones((4, 1))), groups=names * 2)
    classes = plots.bar(made(np.ones((4, 1, 2)), output_names=names))
    for ax in (cohorts, classes):
        legend = ax.get_legend()
        assert legend is not None
        assert len({text.get_text() for text in legend.get_texts()}) == 2


# One mean |value|, one interval


TEXTS = np.array(
    [["a", "lovely", "film"], ["film", "film", ""], ["bad", "film", ""], ["film", "", ""]],
    dtype=object,
)


def texts(outputs: int | None = None) -> Explanation:
    """Four texts: "film" stands in all of them, "lovely" in one, with a large value."""
    rng = np.random.default_rng(0)
    values = np.where(TEXTS == "", 0.0, rng.normal(size=TEXTS.shape))
    values[0, 1] = 3.0
    if outputs is not None:
        values = values[..., None] * np.arange(1, outputs + 1)
    return made(
        values,
        np.full(values.shape, 0.01),
        feature_names=["word 0", "word 1", "word 2"],
        display_data=TEXTS,
    )


def test_a_plot_of_words_has_the_numbers_and_the_order_of_the_table() -> None:
    table = texts().abs().mean().top(10)
    ax = plots.bar(texts())
    assert [label.get_text() for label in ax.get_yticklabels()] == table.feature_names
    assert [bar.get_width() for bar in bars(ax)] == pytest.approx(table.values)
    swarms = plots.beeswarm(texts())
    assert [label.get_text() for label in swarms.get_yticklabels()] == table.feature_names
    heat = plots.heatmap(texts())
    assert [label.get_text() for label in heat.get_yticklabels()] == table.feature_names


@pytest.mark.parametrize("errors", [None, 0.0, 0.3], ids=["no errors", "exact", "estimates"])
def test_a_plot_has_the_intervals_of_the_table(errors: float | None) -> None:
    values = np.random.default_rng(0).normal(size=(50, 3))
    sample = made(values, None if errors is None else np.full(values.shape, errors))
    table = sample.abs().mean().top(3)
    ax = plots.bar(sample)
    low, high = whiskers(ax)[:, :, 0].T
    assert low == pytest.approx(table.lower)
    assert high == pytest.approx(table.upper)
    assert "95 % intervals" in ax.get_xlabel()


def test_the_report_has_the_intervals_of_the_table(tmp_path: Path) -> None:
    from sklearn.linear_model import LinearRegression

    from shearshap.apps.jobs import Job

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["age", "pay", "debt"])
    model = LinearRegression().fit(frame, frame @ [3.0, 1.0, 0.1])
    import joblib

    joblib.dump(model, tmp_path / "model.joblib")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    job = Job(
        model=str(tmp_path / "model.joblib"),
        data=tmp_path / "rows.csv",
        out=tmp_path / "values.parquet",
        report=True,
        trust=True,
    )
    job.run()
    page = (tmp_path / "values.html").read_text(encoding="utf-8")
    table = Explainer(model, ("mean", frame))(frame).abs().mean()
    age = float(table.upper[0] - table.values[0])
    assert f">{age:.1g}<" in page.replace("\n", "")
    assert table.interval_words in page
    assert "not for others" not in page


# Texts whose explanation has another field


@dataclass(frozen=True, eq=False)
class Weighted(Explanation):
    """An explanation with a number and a mark for every player of every row."""

    weights: Floats | None = field(default=None, metadata=axes("rp"))
    marks: NDArray[np.object_] | None = field(default=None, metadata=axes("rp", fill="-"))


@pytest.mark.parametrize("plot", ["bar", "beeswarm", "heatmap", "waterfall", "force", "decision"])
def test_plots_of_texts_take_new_fields(plot: str) -> None:
    plain = texts()
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    sample = Weighted(**fields, weights=np.ones((4, 3)), marks=np.full((4, 3), "m", dtype=object))
    getattr(plots, plot)(sample)
    assert len(sample.abs().mean()) == 4


# Files


@pytest.mark.slow
def test_looking_at_a_saved_result_does_not_import_torch(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    answer = Explainer(lambda x: np.tanh(x @ np.arange(12)) * x[:, 0], np.zeros(12))(
        rng.normal(size=(20, 12)), budget=100
    )
    assert answer.calibration is not None
    answer.save(tmp_path / "answer.npz")
    script = f"""
import sys
import matplotlib
matplotlib.use("agg")
from shearshap import Explanation, plots
answer = Explanation.load({str(tmp_path / "answer.npz")!r})
assert answer.calibration is not None
repr(answer), str(answer), answer._repr_html_()
table = answer.abs().mean()
str(table), table._repr_html_(), answer.by("x0").mean()
answer.interval()
Explanation.concat([answer[:3], answer[3:]])
plots.bar(answer), plots.beeswarm(answer), plots.waterfall(answer), plots.scatter(answer, "x0")
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "label",
    [
        pd.Timedelta(1, "ns"),
        pd.Timedelta("-3 days 02:00:01.000000007"),
        timedelta(days=-1, microseconds=3),
        np.timedelta64(90, "m"),
        pd.Timestamp("2024-07-01 12:00", tz="Europe/Berlin"),
        pd.Timestamp("2024-10-27 00:30", tz="UTC").tz_convert("Europe/Berlin"),
        pd.Timestamp("2024-07-01", tz="UTC"),
        datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("America/New_York")),
    ],
    ids=str,
)
def test_times_come_back_as_they_are(label: Any, tmp_path: Path) -> None:
    labels = np.empty(2, dtype=object)
    labels[:] = [label, None]
    answer = made(np.ones((2, 1)), index=labels)
    answer.save(tmp_path / "answer.npz")
    (back, missing) = Explanation.load(tmp_path / "answer.npz").index
    assert missing is None
    assert back == label
    assert type(back) is type(label)
    assert str(back) == str(label)
    assert str(getattr(back, "tzinfo", None)) == str(getattr(label, "tzinfo", None))


def test_a_large_cell_is_written_as_one_thing() -> None:
    sample = replace(made(np.ones((1, 1))), data=np.array([[1234567.0]]))
    assert "1,234,567" in sample._repr_html_()
    label = plots.waterfall(sample).get_yticklabels()[1].get_text()
    assert label.endswith("= 1,234,567")


# Pages


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_scripts_of_pages_round_as_python_does(driver: Any) -> None:
    rng = np.random.default_rng(0)
    numbers = [0.0, 0.125, -0.125, 2.5, 3.5, 1.005, 1234.5, 12250000.0, 1.225e-5, 1e-300, 1e300]
    numbers += (rng.normal(size=200) * 10.0 ** rng.integers(-8, 10, 200)).tolist()
    numbers += (rng.integers(-4000, 4000, 200) / 8).tolist()
    cases = [(number, abs(number)) for number in numbers]
    cases += [(number, size) for number in numbers for size in (30.0, 5e-6) if abs(number) < 1e20]
    wanted = [
        [
            format_number(number, decimals(size)),
            format_number(number, decimals(size), sign=True),
            format_end(number, size),
        ]
        for number, size in cases
    ]
    asked = """
return arguments[0].map(([number, size]) => {
  const places = digits.decimals(size);
  return [
    digits.format(number, places), digits.format(number, places, true), digits.end(number, size)
  ];
});
"""
    assert driver.execute_script(digits_script() + asked, cases) == wanted
