"""What plots draw, read back from the axes: lengths, places, intervals, order, labels and colours."""

import subprocess
import sys
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
    NAMES,
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
from shearshap.plots.canvas import LOW_TO_HIGH, shorten
from shearshap.result.colours import GREY, LOWERS, RAISES
from shearshap.result.text import format_estimate

# waterfall


def test_a_waterfall_leads_from_base_value_to_prediction() -> None:
    sample = explanation(players=8)
    ax = plots.waterfall(sample, row=2, max_players=3)
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
        f"{shorten(sample.feature_names[n])} = {sample.data[2, n]:.4g}".replace("-", "−")  # type: ignore[index]
        for n in order[:3]
    ]
    assert labels(ax) == ["base value", *named, "5 others", "prediction"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first line is on top
    (ends,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert np.asarray(ends.get_xdata()).tolist() == [2.0, sample.predictions[2]]


def test_a_waterfalls_whiskers_are_the_intervals_of_single_players() -> None:
    sample = explanation(players=8)
    assert sample.standard_errors is not None
    ax = plots.waterfall(sample, max_players=3)
    order = np.argsort(-np.abs(sample.values[0]))[:3]
    half = student.ppf(0.975, 9.0) * sample.standard_errors[0, order]
    ends = 2.0 + np.cumsum(sample.values[0, order])
    drawn = whiskers(ax)
    assert drawn[:, 0, 0] == pytest.approx(ends - half)
    assert drawn[:, 1, 0] == pytest.approx(ends + half)
    assert column(ax)[1] == format_estimate(sample.values[0, order[0]], half[0], 2)
    assert "±" not in column(ax)[4]
    assert ax.get_xlabel() == "from base value to prediction, with 95 % intervals"


def test_without_standard_errors_there_are_no_whiskers() -> None:
    ax = plots.waterfall(explanation(errors=False))
    assert whiskers(ax) is None
    assert not any("±" in text for text in column(ax))
    assert ax.get_xlabel() == "from base value to prediction"
    for nothing in (np.nan, np.inf, 0.0):
        sample = replace(explanation(), standard_errors=np.full((6, 5), nothing))
        assert whiskers(plots.waterfall(sample)) is None
        if nothing:  # exact values have intervals, too: other rows would have other means
            assert whiskers(plots.bar(sample)) is None
            assert plots.bar(sample).get_xlabel() == "mean |Shapley value| of 6 rows"


def test_one_player_too_many_is_shown_as_itself() -> None:
    assert len(bars(plots.waterfall(explanation(), max_players=4))) == 5
    assert labels(plots.waterfall(explanation(), max_players=3))[-2] == "2 others"


def test_a_gap_has_a_bar_of_its_own_unless_it_is_rounding() -> None:
    sample = explanation(errors=False)
    ax = plots.waterfall(replace(sample, predictions=sample.predictions + 0.5))
    assert labels(ax)[-2:] == ["unexplained", "prediction"]
    assert bars(ax)[-1].get_width() == pytest.approx(0.5)
    assert to_hex(bars(ax)[-1].get_facecolor()).upper() == GREY
    assert "unexplained" not in labels(
        plots.waterfall(replace(sample, predictions=sample.predictions + 1e-6))
    )


def test_display_data_stand_in_labels() -> None:
    shown = np.array([["x" * 40, None, 3, 0.123456789, "$5$"]] * 6, dtype=object)
    shown_labels = labels(plots.waterfall(replace(explanation(), display_data=shown)))
    assert f"age = {'x' * 13}…{'x' * 6}" in shown_labels
    assert {"sex = 3", "hours = 0.1235", r"gain = \$5\$", f"{shorten(NAMES[1])} = missing"} < set(
        shown_labels
    )


def test_a_value_that_is_not_known_is_not_shown() -> None:
    data = np.full((6, 5), np.nan)
    data[0, 0] = -0.5
    shown_labels = labels(plots.waterfall(replace(explanation(), data=data)))
    assert {"age = −0.5", "sex", "hours"} < set(shown_labels)
    assert "age" in labels(plots.waterfall(replace(explanation(), data=None)))


# bar


def test_bars_are_mean_sizes_with_the_intervals_of_the_importance_table() -> None:
    sample = explanation(players=8)
    table = sample.abs().mean()
    ax = plots.bar(sample, max_players=5)
    means = np.abs(sample.values).mean(axis=0)
    order = np.argsort(-means)[:5]
    assert [bar.get_width() for bar in bars(ax)] == pytest.approx(means[order])
    assert whiskers(ax)[:, 1, 0] == pytest.approx(table.upper[order])
    assert whiskers(ax)[:, 0, 0] == pytest.approx(table.lower[order])
    assert labels(ax) == [shorten(sample.feature_names[n]) for n in order]
    assert column(ax) == [f"{means[n]:.2f}" for n in order]
    assert (
        ax.get_xlabel()
        == "mean |Shapley value| of 6 rows, with 95 % intervals\n(3 smaller features not shown)"
    )


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
    assert ax.get_xlabel() == "Shapley value, with 95 % intervals"


# beeswarm


def test_a_beeswarm_has_every_row_beside_its_players_line() -> None:
    sample = explanation(rows=80)
    ax = plots.beeswarm(sample, max_players=3)
    (cloud,) = [c for c in dots(ax) if len(np.asarray(c.get_offsets()))]
    x, y = np.asarray(cloud.get_offsets()).T.reshape(2, 80, 3)
    order = np.argsort(-np.abs(sample.values).mean(axis=0))[:3]
    assert x == pytest.approx(sample.values[:, order])
    assert np.abs(y - np.arange(3)).max() <= 0.42
    assert sample.data is not None
    ranks = sample.data[:, order].argsort(axis=0).argsort(axis=0) / 79
    assert np.asarray(cloud.get_array()).reshape(80, 3) == pytest.approx(ranks)
    assert cloud.get_cmap() is LOW_TO_HIGH
    assert labels(ax) == [shorten(sample.feature_names[n]) for n in order]
    assert ax.get_xlabel() == "Shapley value\n(2 smaller features not shown)"


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
    assert len(ax.figure.axes) == 2
    without = plots.beeswarm(replace(sample, data=None))
    assert len(without.figure.axes) == 1  # no colours, no colour bar


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
    assert ax.figure.axes[1].get_ylabel() == shorten(sample.feature_names[strongest])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("hours", "Shapley value")
    assert not any(isinstance(c, LineCollection) for c in ax.collections)


def test_dependence_takes_interactions_where_there_is_no_cross_contribution() -> None:
    sample = explanation(rows=30)
    pairs = np.zeros((30, 5, 5))
    pairs[:, 0, 0], pairs[:, 0, 1], pairs[:, 0, 4] = 9.0, 1.0, -2.0
    sample = replace(sample, cross_contribution=None, interactions=pairs)
    assert plots.dependence(sample, 0).figure.axes[1].get_ylabel() == "gain"
    assert plots.dependence(sample, 0, cooperator="sex").figure.axes[1].get_ylabel() == "sex"


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
    with pytest.raises(InputError, match="kriging has no standard errors; try"):
        plots.dependence(explanation(errors=False), 1, errors=True)


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


def test_rare_categories_are_others_and_missing_ones_are_named() -> None:
    sample = explanation(rows=60)
    kinds = [f"kind {n}" for n in range(20)]
    shown = np.full((60, 5), "a", dtype=object)
    shown[:, 0] = [kinds[min(n, 19)] for n in range(60)]
    shown[0, 1] = None
    ax = plots.dependence(replace(sample, display_data=shown), 0, cooperator=1)
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    assert len(ticks) == 12
    assert ticks[-1] == f"{len(set(shown[:, 0].tolist())) - 11} others"
    legend = ax.get_legend()
    assert legend is not None
    assert sorted(text.get_text() for text in legend.get_texts()) == ["a", "missing"]
    check_texts(ax)


@pytest.mark.parametrize(
    ("numbers", "limits"), [([0.0] * 39 + [5.0], (0, 5)), ([3.0] * 40, (2, 4))]
)
def test_colours_of_numbers_nearly_all_the_same(
    numbers: list[float], limits: tuple[float, float]
) -> None:
    sample = explanation(rows=40)
    sample = replace(sample, data=np.tile(np.array(numbers)[:, None], 5))
    assert dots(plots.dependence(sample, 0, cooperator=1))[-1].get_clim() == limits


def test_rows_without_a_number_are_counted() -> None:
    sample = explanation()
    data = np.array(sample.data)
    data[:2, 0] = np.nan
    assert (
        plots.dependence(replace(sample, data=data), 0, cooperator=1).get_xlabel()
        == "age (2 rows without a number)"
    )


# cooperators


def edges_of(ax: Axes) -> LineCollection:
    (edges,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    return edges


def test_cooperators_have_nodes_by_size_and_edges_by_cross_contribution() -> None:
    sample = explanation()
    assert sample.cross_contribution is not None
    ax = plots.cooperators(sample, max_edges=4)
    (nodes,) = dots(ax)
    sizes = np.abs(sample.values).mean(axis=0)
    assert np.asarray(nodes.get_sizes()) == pytest.approx(900 * sizes / sizes.max())
    colours = [to_hex(colour).upper() for colour in np.asarray(nodes.get_facecolor())]
    assert colours == np.where(sample.values.mean(axis=0) < 0, LOWERS, RAISES).tolist()
    i, j = np.triu_indices(5, 1)
    eta = sample.cross_contribution.mean(axis=0)[i, j]
    strongest = np.argsort(eta)[-4:]
    assert np.asarray(edges_of(ax).get_linewidth()) == pytest.approx(7 * eta[strongest] / eta.max())
    ends = np.asarray(nodes.get_offsets())
    assert np.hypot(*ends.T) == pytest.approx(np.ones(5))
    assert np.array(edges_of(ax).get_segments()) == pytest.approx(
        np.stack((ends[i[strongest]], ends[j[strongest]]), 1)
    )
    assert [text.get_text() for text in ax.texts] == [
        shorten(name, 18) for name in sample.feature_names
    ]


def test_cooperators_of_one_row_coloured_by_the_sign_of_interactions() -> None:
    pairs = np.random.default_rng(1).normal(size=(6, 5, 5))
    sample = replace(explanation(), interactions=pairs + pairs.transpose(0, 2, 1))
    ax = plots.cooperators(sample, row=2, edges="interactions")
    (nodes,) = dots(ax)
    sizes = np.abs(sample.values[2])
    assert np.asarray(nodes.get_sizes()) == pytest.approx(np.maximum(900 * sizes / sizes.max(), 6))
    i, j = np.triu_indices(5, 1)
    assert sample.interactions is not None
    strengths = sample.interactions[2, i, j]
    order = np.argsort(np.abs(strengths))
    assert np.asarray(edges_of(ax).get_linewidth()) == pytest.approx(
        7 * np.abs(strengths[order]) / np.abs(strengths).max()
    )
    colours = [to_hex(colour).upper() for colour in np.asarray(edges_of(ax).get_colors())]
    assert colours == np.where(strengths[order] < 0, LOWERS, RAISES).tolist()


def test_cooperators_need_to_know_who_acts_together() -> None:
    sample = replace(explanation(), cross_contribution=None)
    with pytest.raises(
        InputError, match="this explanation has no interactions; explain with interactions=True"
    ):
        plots.cooperators(sample)
    with pytest.raises(InputError, match="has no interactions; explain with"):
        plots.cooperators(explanation(), edges="interactions")
    with pytest.raises(
        InputError, match="edges: wanted 'interactions', 'cross-contribution' or None, got 'all'"
    ):
        plots.cooperators(sample, edges="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("players", [1, 5, 14, 30])
def test_names_around_the_circle_stay_inside_and_apart(players: int) -> None:
    ax = plots.cooperators(explanation(players=players), max_players=30)
    check_texts(ax)
    assert len(dots(ax)[0].get_sizes()) == players


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
    ax = plots.convergence(parts, row=1, max_players=3)
    lines = {
        line.get_label(): line for line in ax.lines if line.get_marker() not in ("None", None, "")
    }
    order = np.argsort(-np.abs(parts[0].values[1]))[:3]
    assert list(lines) == [
        shorten(parts[0].feature_names[n]) for n in order[np.argsort(-parts[0].values[1, order])]
    ]
    player = int(order[0])
    line = lines[shorten(parts[0].feature_names[player])]
    assert isinstance(line, Line2D)
    assert np.asarray(line.get_xdata()).tolist() == [64, 128, 256, 512]
    wanted = [parts[n].values[1, player] for n in (1, 2, 3, 0)]
    assert np.asarray(line.get_ydata()) == pytest.approx(wanted)
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
        ([], "got 0"),
        ([explanation()], "got 1"),
        (explanation(), "got Explanation"),
        ([explanation(), explanation(rows=2)], r"got values of shapes \(2, 5\), \(6, 5\)"),
        ([explanation(), explanation(seed=1)], "got other base values or predictions"),
    ],
)
def test_convergence_wants_the_same_rows(given: Any, message: str) -> None:
    with pytest.raises(
        InputError, match=rf"wanted two or more explanations of the same rows.*{message}"
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
    assert ax.has_data() or ax.texts
    assert dict(mpl.rcParams) == settings


@pytest.mark.parametrize("plot", DRAW)
def test_one_output_at_a_time(plot: str) -> None:
    sample = explanation()
    two = replace(
        sample,
        values=np.stack((sample.values, -sample.values), axis=2),
        base_values=np.stack((sample.base_values,) * 2, axis=1),
        predictions=np.stack((sample.predictions,) * 2, axis=1),
        standard_errors=np.stack((sample.standard_errors,) * 2, axis=2),  # type: ignore[arg-type]
        output_names=["no", "yes"],
    )
    if plot != "bar":  # which draws bars by class
        with pytest.raises(
            InputError,
            match=rf"{plot} draws one output, this .* has 2 \(no, yes\); take explanation.output\('no'\)",
        ):
            DRAW[plot](two)
    DRAW[plot](two.output("yes"))
    single = replace(
        sample,
        **{
            n: getattr(two, n)[..., :1]
            for n in ("values", "base_values", "predictions", "standard_errors")
        },
    )
    DRAW[plot](single)
    with pytest.raises(InputError, match=rf"{plot}: wanted a shearshap.Explanation, got ndarray"):
        DRAW[plot](sample.values) if plot != "convergence" else plots.convergence(
            [sample.values, sample.values]  # type: ignore[list-item]
        )


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.waterfall(explanation(), row=6), "row: wanted a number from 0 to 5, got 6"),
        (
            lambda: plots.cooperators(explanation(), row=-7),
            "row: wanted a number from 0 to 5, got -7",
        ),
        (
            lambda: plots.waterfall(explanation(), max_players=0),
            "max_players: wanted a positive integer, got 0",
        ),
        (
            lambda: plots.bar(explanation(), max_players=0),
            "max_players: wanted a positive integer, got 0",
        ),
        (
            lambda: plots.beeswarm(explanation(), max_players=-1),
            "max_players: wanted a positive integer, got -1",
        ),
        (
            lambda: plots.cooperators(explanation(), max_edges=0),
            "max_edges: wanted a positive integer, got 0",
        ),
        (
            lambda: plots.dependence(explanation(), "height"),
            "player: there is no feature 'height'; there are age, a very",
        ),
        (
            lambda: plots.bar(explanation()[[]]),
            "bar: there is nothing to draw in an explanation of 0 rows",
        ),
        (
            lambda: plots.dependence(explanation(), 5),
            r"player: there is no feature 5; there are .* \(0 to 4\)",
        ),
        (
            lambda: plots.dependence(explanation(), 0, cooperator="x"),
            "cooperator: there is no feature 'x'",
        ),
        (
            lambda: plots.dependence(replace(explanation(), data=None), 0),
            "neither data nor display_data",
        ),
    ],
)
def test_what_is_wrong_is_said(draw: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw()
    assert not plt.get_fignums()


# words and numbers


def test_names_are_shortened_in_their_middle_and_hold_no_mathematics() -> None:
    assert shorten("short") == "short"
    assert shorten("one\n  two") == "one two"
    assert shorten("od280/od315_of_diluted_wines") == "od280/od315_of_di…ed_wines"
    assert len(shorten("x" * 99, 10)) == 10
    assert shorten("price in $ or $") == r"price in \$ or \$"


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
