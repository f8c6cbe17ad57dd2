"""What plots draw, read back from the axes: lengths, places, intervals, order, labels and colours."""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from scipy.stats import t as student

from drawn import (
    _no_figure_stays,  # noqa: F401
    bars,
    check_texts,
    column,
    dots,
    explanation,
    labels,
    whiskers,
)
from shearshap import Explanation, InputError, plots
from shearshap.plots.canvas import LOW_TO_HIGH
from shearshap.plots.words import text_width
from shearshap.result.colours import GREY, LOWERS, RAISES
from shearshap.result.explanation import Floats
from shearshap.result.text import format_estimate
from small_explanation import explanation as small

# waterfall


def test_a_waterfall_leads_from_base_value_to_prediction() -> None:
    sample = explanation(players=8)
    ax = plots.waterfall(sample, row=2, max_features=3)
    order = np.argsort(-np.abs(sample.values[2]))
    sizes = [*sample.values[2, order[:3]], sample.values[2, order[3:]].sum()]
    assert [bar.get_width() for bar in bars(ax)] == pytest.approx(sizes)
    assert [bar.get_x() for bar in bars(ax)] == pytest.approx(2.0 + np.cumsum([0, *sizes[:-1]]))
    assert bars(ax)[-1].get_x() + bars(ax)[-1].get_width() == pytest.approx(sample.predictions[2])
    assert [bar.get_y() + bar.get_height() / 2 for bar in bars(ax)] == pytest.approx([1, 2, 3, 4])
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars(ax)] == [
        LOWERS if s < 0 else RAISES for s in sizes
    ]
    named = [
        f"{sample.feature_names[n]} = {sample.data[2, n]:.4g}".replace("-", "−")  # type: ignore[index]
        for n in order[:3]
    ]
    assert labels(ax) == ["base value", *named, "5 others", "prediction"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first line is on top
    (ends,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert np.asarray(ends.get_xdata()).tolist() == [2.0, sample.predictions[2]]


def test_a_waterfalls_whiskers_are_the_intervals_of_single_players() -> None:
    sample = explanation(players=8)
    assert sample.standard_errors is not None
    ax = plots.waterfall(sample, max_features=3)
    order = np.argsort(-np.abs(sample.values[0]))[:3]
    half = student.ppf(0.975, 9.0) * sample.standard_errors[0, order]
    ends = 2.0 + np.cumsum(sample.values[0, order])
    drawn = whiskers(ax)
    assert drawn[:, 0, 0] == pytest.approx(ends - half)
    assert drawn[:, 1, 0] == pytest.approx(ends + half)
    assert column(ax)[1] == format_estimate(sample.values[0, order[0]], half[0], 2)
    assert "±" not in column(ax)[4]
    assert ax.get_xlabel() == "from base value to prediction (95 % intervals)"


# bar


def test_bars_of_a_single_row_have_signs() -> None:
    sample = explanation()[3]
    ax = plots.bar(sample)
    order = np.argsort(-np.abs(sample.values[0]))
    assert [bar.get_width() for bar in bars(ax)] == pytest.approx(sample.values[0, order])
    lower, upper = sample.interval()
    assert whiskers(ax)[:, :, 0] == pytest.approx(
        np.column_stack((lower[0, order], upper[0, order]))
    )
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars(ax)] == np.where(
        sample.values[0, order] < 0, LOWERS, RAISES
    ).tolist()
    assert ax.get_xlabel() == "Shapley value (95 % intervals)"


# beeswarm


def test_a_beeswarm_has_every_row_beside_its_players_line() -> None:
    sample = explanation(rows=80)
    ax = plots.beeswarm(sample, max_features=3)
    (cloud,) = [c for c in dots(ax) if len(np.asarray(c.get_offsets()))]
    x, y = np.asarray(cloud.get_offsets()).T.reshape(2, 80, 3)
    order = np.argsort(-np.abs(sample.values).mean(axis=0))[:3]
    assert x == pytest.approx(sample.values[:, order])
    assert np.abs(y - np.arange(3)).max() <= 0.42
    assert sample.data is not None
    ranks = sample.data[:, order].argsort(axis=0).argsort(axis=0) / 79
    assert np.asarray(cloud.get_array()).reshape(80, 3) == pytest.approx(ranks)
    assert cloud.get_cmap() is LOW_TO_HIGH
    assert labels(ax) == [sample.feature_names[n] for n in order]
    assert ax.get_xlabel() == "Shapley value\n2 less important features not shown"


def test_a_beeswarm_is_grey_where_there_are_no_numbers() -> None:
    sample = explanation(rows=20)
    data = np.array(sample.data)
    data[:, 1] = np.nan
    data[:, 2] = 7.0
    ax = plots.beeswarm(replace(sample, data=data))
    grey, cloud = dots(ax)
    assert np.asarray(grey.get_offsets())[:, 0] == pytest.approx(sample.values[:, 1])
    assert to_hex(np.asarray(grey.get_facecolor())[0]).upper() == GREY
    assert len(np.asarray(cloud.get_array())) == 80
    assert np.isin(np.asarray(cloud.get_array()), 0.5).sum() >= 20  # all alike: the middle
    assert len(ax.child_axes) == 1
    without = plots.beeswarm(replace(sample, data=None))
    assert not without.child_axes  # no colours, no colour bar


# dependence


def test_dependence_is_coloured_by_the_strongest_cooperator() -> None:
    sample = explanation(rows=30)
    assert sample.cross_contribution is not None
    assert sample.data is not None
    ax = plots.dependence(sample, "hours")
    cloud = dots(ax)[-1]
    assert np.asarray(cloud.get_offsets()) == pytest.approx(
        np.column_stack((sample.data[:, 3], sample.values[:, 3]))
    )
    strongest = int(sample.cross_contribution.mean(axis=0)[3].argmax())
    assert np.asarray(cloud.get_array()) == pytest.approx(sample.data[:, strongest])
    assert cloud.get_clim() == pytest.approx(np.percentile(sample.data[:, strongest], [5, 95]))
    assert ax.child_axes[-1].get_ylabel() == sample.feature_names[strongest]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("hours", "Shapley value of hours")
    assert not any(isinstance(c, LineCollection) for c in ax.collections)


def test_dependence_takes_interactions_where_there_is_no_cross_contribution() -> None:
    sample = explanation(rows=30)
    pairs = np.zeros((30, 5, 5))
    pairs[:, 0, 0], pairs[:, 0, 1], pairs[:, 0, 4] = 9.0, 1.0, -2.0
    sample = replace(sample, cross_contribution=None, interactions=pairs)
    assert plots.dependence(sample, 0).child_axes[-1].get_ylabel() == "gain"
    assert plots.dependence(sample, 0, cooperator="sex").child_axes[-1].get_ylabel() == "sex"


def test_dependence_draws_intervals_when_asked() -> None:
    sample = explanation()
    (lines,) = [
        c
        for c in plots.dependence(sample, 1, errors=True).collections
        if isinstance(c, LineCollection)
    ]
    lower, upper = sample.interval()
    assert np.array(lines.get_segments())[:, :, 1] == pytest.approx(
        np.column_stack((lower[:, 1], upper[:, 1]))
    )


def test_categories_stand_on_the_axis_in_the_order_of_their_data() -> None:
    sample = explanation(rows=9)
    shown = np.array(
        [["low", "1", "m", "?", "?"], ["mid", "2", "f", "?", "?"], ["top", "3", "f", "?", "?"]] * 3,
        object,
    )
    data = np.tile([[3.0], [2.0], [1.0]], (3, 5))
    ax = plots.dependence(replace(sample, display_data=shown, data=data), "age", cooperator="sex")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["top", "mid", "low"]
    place = np.asarray(dots(ax)[-1].get_offsets())[:, 0]
    assert place.round().tolist() == [2, 1, 0] * 3
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["f", "m"]
    colours = [to_hex(colour).upper() for colour in np.asarray(dots(ax)[-1].get_facecolor())]
    assert colours == [RAISES, LOWERS, LOWERS] * 3
    numbers = plots.dependence(replace(sample, display_data=shown, data=data), 1, cooperator="sex")
    assert np.asarray(dots(numbers)[-1].get_offsets())[:, 0].tolist() == [1.0, 2.0, 3.0] * 3


# cooperators


def edges_of(ax: Axes) -> LineCollection:
    (edges,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    return edges


def test_cooperators_have_nodes_by_size_and_edges_by_cross_contribution() -> None:
    sample = explanation()
    assert sample.cross_contribution is not None
    ax = plots.cooperators(sample)
    (nodes,) = dots(ax)
    sizes = np.abs(sample.values).mean(axis=0)
    assert np.asarray(nodes.get_sizes()) == pytest.approx(1200 * sizes / sizes.max())
    colours = [to_hex(colour).upper() for colour in np.asarray(nodes.get_facecolor())]
    assert colours == np.where(sample.values.mean(axis=0) < 0, LOWERS, RAISES).tolist()
    i, j = np.triu_indices(5, 1)
    eta = sample.cross_contribution.mean(axis=0)[i, j]
    strongest = np.argsort(eta)
    strongest = strongest[eta[strongest] > 0.1 * eta.max()]
    assert np.asarray(edges_of(ax).get_linewidth()) == pytest.approx(9 * eta[strongest] / eta.max())
    ends = np.asarray(nodes.get_offsets())
    assert np.hypot(*ends.T) == pytest.approx(np.ones(5))
    assert np.array(edges_of(ax).get_segments()) == pytest.approx(
        np.stack((ends[i[strongest]], ends[j[strongest]]), 1)
    )
    assert [text.get_text() for text in ax.texts][:1] == ["age"]
    assert len(ax.texts) == 5


def test_cooperators_of_one_row_coloured_by_the_sign_of_interactions() -> None:
    pairs = np.random.default_rng(1).normal(size=(6, 5, 5))
    sample = replace(explanation(), interactions=pairs + pairs.transpose(0, 2, 1))
    ax = plots.cooperators(sample, row=2, edges="interactions")
    (nodes,) = dots(ax)
    sizes = np.abs(sample.values[2])
    assert np.asarray(nodes.get_sizes()) == pytest.approx(np.maximum(1200 * sizes / sizes.max(), 6))
    i, j = np.triu_indices(5, 1)
    assert sample.interactions is not None
    strengths = sample.interactions[2, i, j]
    order = np.argsort(np.abs(strengths))
    order = order[np.abs(strengths[order]) > 0.1 * np.abs(strengths).max()]
    assert np.asarray(edges_of(ax).get_linewidth()) == pytest.approx(
        9 * np.abs(strengths[order]) / np.abs(strengths).max()
    )
    colours = [to_hex(colour).upper() for colour in np.asarray(edges_of(ax).get_colors())]
    assert colours == np.where(strengths[order] < 0, LOWERS, RAISES).tolist()


@pytest.mark.parametrize("players", [1, 5, 14, 30])
def test_names_around_the_circle_stay_inside_and_apart(players: int) -> None:
    ax = plots.cooperators(explanation(players=players), max_features=30)
    check_texts(ax)
    assert len(dots(ax)[0].get_sizes()) == min(players, 14)


# convergence


def at_budgets() -> list[Explanation]:
    sample = explanation(players=8)
    assert sample.standard_errors is not None
    budgets = (512, 64, 128, 256)
    return [
        replace(
            sample,
            values=sample.values + 1 / n,
            standard_errors=sample.standard_errors / n,
            evaluations=n,
        )
        for n in budgets
    ]


def test_convergence_draws_values_and_intervals_against_evaluations() -> None:
    parts = at_budgets()
    ax = plots.convergence(parts, row=1, max_features=3)
    lines = {
        line.get_label(): line for line in ax.lines if line.get_marker() not in ("None", None, "")
    }
    order = np.argsort(-np.abs(parts[0].values[1]))[:3]
    assert list(lines) == [
        parts[0].feature_names[n] for n in order[np.argsort(-parts[0].values[1, order])]
    ]
    player = int(order[0])
    line = lines[parts[0].feature_names[player]]
    assert isinstance(line, Line2D)
    assert np.asarray(line.get_xdata()).tolist() == [64, 128, 256, 512]
    expected = [parts[n].values[1, player] for n in (1, 2, 3, 0)]
    assert np.asarray(line.get_ydata()) == pytest.approx(expected)
    bands = [c for c in ax.collections if isinstance(c, PolyCollection)]
    assert len(bands) == 3
    lower, upper = parts[1].interval()
    at_64 = [
        path[path[:, 0] == 64][:, 1]
        for path in (np.asarray(band.get_paths()[0].vertices) for band in bands)
    ]
    assert any(
        [ys.min(), ys.max()] == pytest.approx([lower[1, player], upper[1, player]], rel=1e-9)
        for ys in at_64
    )
    assert ax.get_xscale() == "log"
    assert ax.xaxis.get_transform().base == 2  # type: ignore[attr-defined]
    check_texts(ax)


def test_convergence_takes_budgets_and_each_rows_own_evaluations() -> None:
    parts = at_budgets()
    ax = plots.convergence({100: parts[1], 50: parts[0]})
    assert np.asarray(ax.lines[-1].get_xdata()).tolist() == [50, 100]
    assert ax.get_xlabel() == "budget"
    early = [replace(part, row_evaluations=np.arange(6) + part.evaluations) for part in parts]
    ax = plots.convergence(early, row=3)
    assert np.asarray(ax.lines[-1].get_xdata()).tolist() == [67, 131, 259, 515]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([explanation()], r"got \[Explanation"),
        (explanation(), "got Explanation"),
        ([explanation(), explanation(rows=2)], r"got values of shapes \(6, 5\), \(2, 5\)"),
        ([explanation(), explanation(seed=1)], "got different base values or predictions"),
    ],
)
def test_convergence_wants_the_same_rows(given: Any, message: str) -> None:
    with pytest.raises(
        InputError, match=rf"expected two or more explanations of the same rows.*{message}"
    ):
        plots.convergence(given)


# all of them


def picture_of(sample: Explanation, ax: Axes | None = None) -> Axes:
    players = np.asarray(getattr(sample, "values", sample)).shape[1]
    stripes = np.arange(players)[None].repeat(3, axis=0)
    return plots.image(sample, stripes, mask=stripes, ax=ax)


DRAW: dict[str, Any] = {
    "waterfall": plots.waterfall,
    "force": plots.force,
    "decision": plots.decision,
    "heatmap": plots.heatmap,
    "interactions": plots.interactions,
    "scatter": lambda sample, ax=None: plots.scatter(sample, 0, colour=-1, ax=ax),
    "image": picture_of,
    "text": plots.text,
    "bar": plots.bar,
    "beeswarm": plots.beeswarm,
    "dependence": lambda sample, ax=None: plots.dependence(sample, 0, ax=ax),
    "cooperators": plots.cooperators,
    "convergence": lambda sample, ax=None: plots.convergence(
        [sample, replace(sample, evaluations=128)], ax=ax
    ),
}


@pytest.mark.parametrize("plot", DRAW)
def test_axes_given_are_drawn_on_and_nothing_else_changes(plot: str) -> None:
    _, (current, ax) = plt.subplots(1, 2)
    plt.sca(current)
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    assert DRAW[plot](explanation(), ax=ax) is ax
    assert plt.get_fignums() == figures
    assert plt.gca() is current
    assert not current.has_data()
    assert ax.has_data() or ax.texts or ax.child_axes
    assert dict(mpl.rcParams) == settings


@pytest.mark.parametrize("plot", DRAW)
def test_one_output_at_a_time(plot: str) -> None:
    sample = explanation()
    names = ("values", "base_values", "predictions", "standard_errors")
    arrays: dict[str, Any] = {name: getattr(sample, name)[..., None] for name in names}
    twice = {name: array.repeat(2, axis=-1) for name, array in arrays.items()}
    two = replace(sample, **twice, output_names=["no", "yes"])
    if plot not in ("bar", "image"):  # which draw several classes
        with pytest.raises(
            InputError,
            match=rf"{plot} draws one output, this .* has 2 \(no, yes\); take explanation.output\('no'\)",
        ):
            DRAW[plot](two)
    DRAW[plot](two.output("yes"))
    DRAW[plot](replace(sample, **arrays))
    with pytest.raises(InputError, match=rf"{plot}: expected a shearshap.Explanation, got ndarray"):
        DRAW[plot](sample.values) if plot != "convergence" else plots.convergence(
            [sample.values, sample.values]  # type: ignore[list-item]
        )


@pytest.mark.parametrize("plot", DRAW)
def test_all_options_are_documented_once(plot: str) -> None:
    function = getattr(plots, plot)
    options = list(inspect.signature(function).parameters)
    assert options[-3:] == ["ax", "title", "show"]
    for option in options:
        assert function.__doc__.count(f"\n{option}\n    ") == 1


def test_notebooks_do_not_echo_axes() -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    ax = plots.bar(explanation())
    assert formatters.DisplayFormatter().format(ax) == ({}, {})
    assert pickle.loads(pickle.dumps(ax.figure)).axes


def test_type_is_larger_in_a_talk() -> None:
    def size(ax: Axes) -> float:
        return float(ax.get_yticklabels()[0].get_fontsize())

    assert size(plots.bar(explanation())) == 11
    with plots.context("talk"):
        large = plots.bar(explanation())
    assert size(large) == pytest.approx(1.4 * 11)
    with plots.context(2.0):
        check_texts(plots.waterfall(explanation(), row=1))
    assert size(plots.bar(explanation())) == 11
    wrong: Any = "slide"
    with pytest.raises(InputError, match="context: expected 'paper'"), plots.context(wrong):
        pass


def test_rows_by_their_labels() -> None:
    sample = two_classes()
    ours, same = plots.waterfall(sample, row="C00002"), plots.waterfall(sample, row=2)
    assert ours.get_title() == same.get_title()
    assert column(ours) == column(same)
    assert column(plots.decision(sample, highlight="C00003"))[0].startswith("row C00003: ")
    with pytest.raises(InputError, match="or a label as text such as 'C00000', got 'C9'"):
        plots.force(sample, row="C9")


def test_names_are_cut_only_if_there_is_no_room() -> None:
    name = "od280/od315_of_diluted_wines, as measured"
    sample = replace(explanation(), feature_names=[name, *"abcd"])
    assert name in labels(plots.beeswarm(sample))
    narrow = plt.figure(figsize=(3.9, 3.4), layout="constrained").add_subplot()
    (cut,) = [label for label in labels(plots.beeswarm(sample, ax=narrow)) if len(label) > 1]
    assert "…" in cut
    assert text_width(cut) <= 0.6 * 0.78 * 3.9 * 72
    long = [f"measurement of sensor number {n} in the hall after calibration" for n in range(5)]
    wider = plt.figure(figsize=(7, 3.4), layout="constrained").add_subplot()
    names = labels(plots.waterfall(replace(sample, feature_names=long), ax=wider))
    assert len({name.partition(" = ")[0] for name in names}) == 7  # no two look the same


# at the limits: no text overlaps another, none is cut off


def with_values(sample: Explanation, values: Floats, base: float = 2.0) -> Explanation:
    rows = len(values)
    return replace(
        sample,
        values=values,
        base_values=np.full(rows, base),
        predictions=base + values.sum(axis=1),
    )


def long_names() -> Explanation:
    sample = explanation(rows=20, players=12)
    names = [f"a name of many words, number {n}, that goes on and on" for n in range(12)]
    shown = np.full((20, 12), "a cell with a long content as well", dtype=object)
    sample = replace(sample, output_names=["earns more than 50,000 dollars a year, before tax"])
    sample = replace(sample, scale="probability")
    return replace(sample, feature_names=names, display_data=shown)


def all_zero() -> Explanation:
    sample = explanation()
    zeros = np.zeros((6, 5))
    sample = replace(sample, standard_errors=zeros, cross_contribution=np.zeros((6, 5, 5)))
    return with_values(sample, zeros)


def wide_numbers() -> Explanation:
    sample = explanation(rows=20)
    assert sample.standard_errors is not None
    assert sample.data is not None
    sample = replace(
        sample, standard_errors=1e6 * sample.standard_errors, data=1e7 + 1e3 * sample.data
    )
    return with_values(sample, 1e6 * sample.values, base=123_456_789.0)


EXTREMES: dict[str, Any] = {
    "long names": long_names,
    "one player": lambda: explanation(rows=12, players=1),
    "one row": lambda: explanation(rows=1),
    "all zero": all_zero,
    "wide numbers": wide_numbers,
}


@pytest.mark.slow
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("plot", DRAW)
def test_texts_keep_apart_and_inside(plot: str, extreme: str) -> None:
    check_texts(DRAW[plot](EXTREMES[extreme]()))


@pytest.mark.slow
@pytest.mark.parametrize("plot", DRAW)
def test_texts_keep_apart_and_inside_in_a_talk(plot: str) -> None:
    with plots.context("talk"):
        check_texts(DRAW[plot](two_classes(20)))


# arguments


NONE_OF_THEM: Any = "none of them"


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda it: plots.waterfall(it, row=6),
            "row: expected a number from 0 to 5, or a label .* '0', got 6",
        ),
        (lambda it: plots.cooperators(it, row=-7), "expected a number from 0 to 5, .*, got -7"),
        (
            lambda it: plots.waterfall(it, max_features=0),
            "max_features: expected a positive integer",
        ),
        (lambda it: plots.bar(it, max_features=-1), "max_features: expected a positive integer"),
        (lambda it: plots.bar(it[[]]), "bar: the explanation has no rows to draw"),
        (lambda it: plots.dependence(it, "height"), "feature: there is no feature 'height'; there"),
        (lambda it: plots.dependence(it, 5), r"feature: there is no feature 5; .* \(0 to 4\)"),
        (lambda it: plots.dependence(it, 0, cooperator="x"), "cooperator: there is no feature 'x'"),
        (lambda it: plots.scatter(replace(it, data=None), 0), "neither data nor display_data"),
        (lambda it: plots.scatter(it, 0, colour=[1, 2]), "a feature, or .* each of 6 rows, got 2"),
        (
            lambda it: plots.decision(it, highlight=6),
            "row: expected a number from 0 to 5, or a label .* '0', got 6",
        ),
        (
            lambda it: plots.heatmap(it, order=NONE_OF_THEM),
            "order: expected 'prediction', 'similar' or",
        ),
        (
            lambda it: plots.cooperators(it, edges=NONE_OF_THEM),
            "edges: expected 'interactions', 'cross",
        ),
        (lambda it: plots.cooperators(it, edges="interactions"), "has no interactions; explain"),
        (
            lambda it: plots.cooperators(replace(it, cross_contribution=None)),
            "has no cross-contribution or interactions; explain with interactions=True",
        ),
        (
            lambda it: plots.dependence(replace(it, standard_errors=None), 1, errors=True),
            "kriging has no standard errors; try",
        ),
    ],
)
def test_what_is_wrong_is_said(draw: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw(explanation())
    assert not plt.get_fignums()


# the extra


def test_shearshap_does_not_import_matplotlib_and_plots_say_how_to_install_it() -> None:
    script = """
import sys, shearshap
assert not any(name.split(".")[0] == "matplotlib" for name in sys.modules)
sys.modules["matplotlib"] = None
try:
    import shearshap.plots
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "shearshap.plots needs matplotlib: pip install 'shearshap[plots]'\n"


# What was explained


def two_classes(rows: int = 6) -> Explanation:
    one = explanation(rows)
    pairs = np.random.default_rng(1).normal(size=(rows, 5, 5))
    pairs += pairs.transpose(0, 2, 1)
    assert one.standard_errors is not None
    return replace(
        one,
        values=np.stack((-one.values, one.values), axis=2),
        base_values=np.stack((-one.base_values, one.base_values), axis=1),
        predictions=np.stack((-one.predictions, one.predictions), axis=1),
        standard_errors=np.stack((one.standard_errors,) * 2, axis=2),
        interactions=np.stack((-pairs, pairs), axis=3),
        output_names=["stays", "churn"],
        index=np.array([f"C{number:05d}" for number in range(rows)]),
        scale="probability",
        background="100 of 1,500 background rows, drawn at random",
    )


DRAWN: dict[str, Callable[[Explanation], Any]] = {
    "waterfall": lambda it: plots.waterfall(it, row=2),
    "force": lambda it: plots.force(it, row=2),
    "single bar": lambda it: plots.bar(it[2]),
    "image": lambda it: plots.image(it, np.zeros((1, 5)), row=2),
    "one matrix": lambda it: plots.interactions(it, row=2),
    "convergence": lambda it: plots.convergence({8: it, 16: it}, row=2),
    "decision": plots.decision,
    "bar": plots.bar,
    "beeswarm": plots.beeswarm,
    "scatter": lambda it: plots.scatter(it, "age"),
    "heatmap": plots.heatmap,
    "matrix": plots.interactions,
    "cooperators": plots.cooperators,
}


@pytest.mark.parametrize("name", DRAWN)
def test_plots_say_what_was_explained(name: str) -> None:
    ax = DRAWN[name](two_classes())
    single = name in list(DRAWN)[:6]
    rows = "row C00002" if single else "6 rows"
    words = ax.get_title().replace("\n", " ")
    assert words == f"P(churn), {rows}, against 100 of 1,500 background rows"
    check_texts(ax)


def test_cohorts_of_two_classes_and_a_title_of_the_users() -> None:
    ax = plots.bar(two_classes(), groups=["a", "b"] * 3)
    assert ax.get_title().startswith("P(churn), 2 cohorts,")
    assert ax.get_xlabel() == "mean |Shapley value| (95 % intervals)"
    check_texts(ax)
    ax = plots.bar(two_classes(), title="Mine")
    assert ax.get_xlabel() == "mean |Shapley value| for P(churn) (95 % intervals)"
    own = plt.figure().add_subplot(title="Mine")
    assert plots.waterfall(two_classes(), ax=own).get_title() == "Mine"
    assert plots.waterfall(two_classes(), title="Ours").get_title() == "Ours"
    ax = plots.cooperators(two_classes(), title="Ours")
    assert ax.get_title() == "Ours"
    check_texts(ax)


# shap's habits


def test_titles_and_names_of_shap_and_of_earlier_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = explanation(players=5)
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(True))
    for name in ("bar", "beeswarm", "decision", "force", "heatmap", "waterfall"):
        plot: Any = getattr(plots, name)
        ax = plot(sample, max_features=3, title="Of six rows", show=True)
        assert ax.get_title() == "Of six rows"
        for other in ("max_display", "max_players"):
            assert labels(plot(sample, **{other: 3})) == labels(ax)
    assert len(shown) == 6
    with pytest.raises(InputError, match="max_features and max_display mean the same"):
        plots.bar(sample, max_features=3, max_display=3)  # type: ignore[call-arg]


def test_colours_by_the_american_name_and_by_an_explanation() -> None:
    sample = explanation(players=5)
    scatter: Any = plots.scatter
    for drawn, same in (
        (scatter(sample, 0, color=2), plots.scatter(sample, 0, colour=2)),
        (scatter(sample, 0, color=sample), plots.dependence(sample, 0)),
    ):
        for found, wanted in zip(dots(drawn), dots(same), strict=True):
            np.testing.assert_array_equal(found.get_facecolor(), wanted.get_facecolor())
    beeswarm: Any = plots.beeswarm
    with pytest.raises(InputError, match="color= is a shap option; it does not exist here"):
        beeswarm(sample, color="red")


def test_bar_draws_tables_of_importance_as_it_draws_explanations() -> None:
    sample = explanation(players=5)
    halves = sample.by([0, 1, 0, 1, 0, 1])
    several = small(outputs=(3,))
    for drawn, same in (
        (sample.abs().mean(), sample),
        (halves.abs().mean(), halves),
        (several.abs().mean(), several),
    ):
        ax = plots.bar(drawn)
        widths = [bar.get_width() for bar in bars(ax)]
        assert widths == [bar.get_width() for bar in bars(plots.bar(same))]
        assert labels(ax) == labels(plots.bar(same))
        assert ax.get_xlabel() == plots.bar(same).get_xlabel()


def test_bar_of_means_that_have_signs_and_another_level() -> None:
    sample = explanation(players=5)
    table = sample.mean(level=0.9)
    ax = plots.bar(table)
    assert ax.get_xlabel() == "mean Shapley value (90 % intervals)"
    assert ax.get_title() == "6 rows"
    hues = {to_hex(bar.get_facecolor()).upper() for bar in ax.patches}
    assert hues == {(LOWERS if mean < 0 else RAISES).upper() for mean in table.values}
    with pytest.raises(InputError, match=r"the means of one output, .* explanation.output\(name\)"):
        plots.bar(small(outputs=(3,)).mean())
