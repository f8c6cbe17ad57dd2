"""Figures made of the paper's records: what is drawn, against slow oracles."""

import re
import statistics

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from paper_drawings import DRAWINGS, error_bars, heights, markup, only_axes, tooltips, xs, ys
from paper_oracles import slow_curve, slow_mean, slow_seconds, slow_selected
from paper_records import (
    AUTHORS,
    CENSUS,
    EVALUATIONS,
    FAIR,
    ROWS,
    SEEDS,
    TARGETS,
    bounds,
    revised,
    scored,
    times,
)
from shearshap.paper.experiments import figures
from shearshap.paper.experiments.figure_axes import POINTS, SIZE, log_ticks
from shearshap.paper.experiments.records import Records, where
from shearshap.paper.experiments.spec import ABLATIONS
from shearshap.paper.experiments.style import series_of
from shearshap.paper.experiments.summaries import METRICS, cost

SCALES = {
    "absolute_error paper": ("log", "log"), "ranking_accuracy authors": ("log", "function"),
    "faithfulness fair": ("log", "linear"), "monotonicity fair": ("log", "linear"), "trade-off": ("log", "function"),
    "ablated error": ("linear", "log"), "ablated accuracy": ("linear", "linear"), "contribution cloud": ("log", "log"),
    "contribution by feature": ("linear", "linear"), "cooperators": ("log", "log"), "tightness": ("linear", "linear"),
    "bound cloud": ("log", "log"), "cost": ("log", "log"), "explanation": ("linear", "linear"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_figure_names_its_axes_and_stands_in_a_page(name: str) -> None:
    drawing = DRAWINGS[name](CENSUS)
    axes = only_axes(drawing)
    assert isinstance(drawing.figure, Figure)
    assert (axes.get_xscale(), axes.get_yscale()) == SCALES[name]
    for axis in (axes.xaxis, axes.yaxis):
        named = [label.get_text() for label in axis.get_ticklabels()]
        words = [text for text in named if re.search("[A-Za-z]", text)]
        assert axis.get_label_text() or (
            name.startswith(("ablated", "explanation")) and words == named
        )
    root = markup(drawing)
    assert root.get("aria-label") == drawing.alt != ""
    shown = {text.text for text in root.iter("text")}
    assert {label for label in (axes.get_xlabel(), axes.get_ylabel()) if label} <= shown


@pytest.mark.parametrize("metric", METRICS)
def test_every_method_is_a_line_with_its_deviations(metric: str) -> None:
    drawing = figures.metric_curves(CENSUS["estimates"], metric, FAIR)
    drawn = list(error_bars(only_axes(drawing)))
    assert len(drawn) == len(FAIR)
    for container, method in zip(drawn, FAIR, strict=True):
        line, series = container.lines[0], series_of(method)
        slow = slow_curve(where(CENSUS["estimates"], method=method), metric)
        assert line is not None
        assert (line.get_gid(), line.get_color(), line.get_marker()) == (
            f"series-{method}",
            series.color,
            series.marker,
        )
        np.testing.assert_allclose(xs(line), list(slow))
        np.testing.assert_allclose(ys(line), [mean for mean, _ in slow.values()])
        np.testing.assert_allclose(
            heights(container), [deviation for _, deviation in slow.values()], rtol=1e-6
        )
        assert {part.get_gid() for part in (*container.lines[1], *container.lines[2])} == {
            f"series-{method}"
        }
    assert only_axes(drawing).get_xticks().tolist() == list(EVALUATIONS)


def test_markers_tell_their_numbers() -> None:
    drawing = figures.metric_curves(CENSUS["estimates"], "absolute_error", AUTHORS)
    assert set(drawing.titles) == {f"series-{series_of(method).name}" for method in AUTHORS}
    slow = slow_curve(where(CENSUS["estimates"], method="shear-authors"), "absolute_error")
    wanted = [
        f"SHEAR block maximum, N = {n}: {mean:.4g} ± {deviation:.2g}"
        for n, (mean, deviation) in slow.items()
    ]
    assert drawing.titles["series-shear-block"] == wanted
    assert (
        tooltips(drawing, "series-shear-block") == [wanted] * 3
    )  # the line's markers, and the caps at either end


def test_the_trade_off_is_accuracy_against_speed() -> None:
    drawing = figures.trade_off(CENSUS["estimates"], CENSUS["timings"], FAIR)
    drawn = list(error_bars(only_axes(drawing)))
    assert len(drawn) == len(FAIR)
    for container, method in zip(drawn, FAIR, strict=True):
        slow = slow_curve(where(CENSUS["estimates"], method=method), "ranking_accuracy")
        line = container.lines[0]
        assert line is not None
        np.testing.assert_allclose(xs(line), [ROWS / slow_seconds(method, n) for n in EVALUATIONS])
        np.testing.assert_allclose(ys(line), [mean for mean, _ in slow.values()])
        np.testing.assert_allclose(
            heights(container), [deviation for _, deviation in slow.values()], rtol=1e-6
        )
    speed, mean = (
        ROWS / slow_seconds("shear", 8),
        slow_curve(where(CENSUS["estimates"], method="shear"), "ranking_accuracy")[8][0],
    )
    assert (
        tooltips(drawing, "series-shear")[0][0]
        == f"SHEAR, N = 8: {speed:,.0f} rows a second, accuracy {mean:.4f}"
    )


@pytest.mark.parametrize("name", ["ranking_accuracy authors", "trade-off"])
def test_accuracies_are_stretched_near_1_and_all_in_sight(name: str) -> None:
    axes = only_axes(DRAWINGS[name](CENSUS))
    low, high = axes.get_ylim()
    drawn = np.concatenate([ys(line) for line in axes.lines])
    assert low <= drawn.min() <= drawn.max() <= high
    screen = axes.transData.transform([(16, y) for y in (0.8, 0.9, 0.98, 0.99)])[:, 1]
    assert np.all(np.diff(screen) > 0)
    assert (screen[3] - screen[2]) / 0.01 > 2 * (screen[1] - screen[0]) / 0.1


@pytest.mark.parametrize("metric", METRICS)
def test_ablations_are_bars_but_points_where_the_axis_is_logarithmic(metric: str) -> None:
    axes = only_axes(figures.ablation(CENSUS["estimates"], metric))
    methods = ["shear", *ABLATIONS]
    bars = [drawn for drawn in axes.containers if isinstance(drawn, BarContainer)]
    drawn = list(error_bars(axes))
    assert len(bars) == (0 if metric == "absolute_error" else len(methods))
    assert len(drawn) == len(methods) == len(axes.get_xticklabels()) == len(axes.texts)
    for place, (container, note, method) in enumerate(zip(drawn, axes.texts, methods, strict=True)):
        mean, deviation = slow_curve(where(CENSUS["estimates"], method=method, n=16), metric)[16]
        assert heights(container) == [pytest.approx(deviation, rel=1e-6)]
        if metric == "absolute_error":
            assert [xs(container.lines[0])[0], ys(container.lines[0])[0]] == pytest.approx(
                [place, mean]
            )
        else:
            assert bars[place].patches[0].get_height() == pytest.approx(mean)
        assert note.get_text() == f"{mean:.3g}"
        assert axes.get_ylim()[0] < mean + deviation < axes.get_ylim()[1]
    assert axes.get_xlim()[0] < 0 < len(methods) - 1 < axes.get_xlim()[1]


def test_a_negative_score_of_an_ablation_is_in_sight() -> None:
    records = scored(CENSUS, ("faithfulness",), times(-1), method="shear-without-ccs")
    bottom, top = only_axes(figures.ablation(records["estimates"], "faithfulness")).get_ylim()
    assert (
        bottom
        < slow_mean(records["estimates"], "faithfulness", method="shear-without-ccs")
        < 0
        < 0.9
        < top
    )


def test_clouds_have_a_point_for_each_target_and_at_most_so_many() -> None:
    cloud = only_axes(figures.contribution_cloud(CENSUS["cooperators"]))
    assert len(xs(cloud.lines[0])) == len(SEEDS) * TARGETS
    assert "rank correlation -1.00" in cloud.texts[0].get_text()
    losses = only_axes(figures.bound_cloud(CENSUS["bounds"]))
    assert len(xs(losses.lines[0])) == len(CENSUS["bounds"])
    assert np.all(ys(losses.lines[0]) < xs(losses.lines[0]))
    for pairs in (600, 601, 1100, 5000):
        many = only_axes(figures.bound_cloud(where(bounds("census", pairs), seed=0)))
        assert POINTS / 3 < len(xs(many.lines[0])) <= POINTS


def test_errors_of_one_feature_by_its_cross_contribution() -> None:
    """The tenths of all draws by eta over its target's mean, and the quartiles of errors over their target's mean."""
    axes = only_axes(figures.contribution_by_feature(CENSUS["cooperators"]))
    pairs = []
    for target in slow_selected(CENSUS["cooperators"]).values():
        eta, error = (statistics.mean(part) for part in zip(*target, strict=True))
        pairs += [(drawn_eta / eta, drawn_error / error) for drawn_eta, drawn_error in target]
    pairs.sort()
    tenth = len(pairs) // 10
    (container,) = error_bars(axes)
    line, (bars,) = container.lines[0], container.lines[2]
    assert isinstance(bars, LineCollection)
    ends = [np.asarray(segment)[:, 1].tolist() for segment in bars.get_segments()]
    for place, (x, y, (low, high)) in enumerate(zip(xs(line), ys(line), ends, strict=True)):
        inside = pairs[place * tenth : (place + 1) * tenth]
        quartiles = statistics.quantiles([error for _, error in inside], n=4, method="inclusive")
        assert x == pytest.approx(statistics.mean(eta for eta, _ in inside))
        assert [low, y, high] == pytest.approx(quartiles)
    assert len(ends) == 10
    assert "rank correlation -1.00" in axes.texts[0].get_text()


def test_cooperators_are_two_lines_that_stop_before_nothing_is_lost() -> None:
    axes = only_axes(figures.cooperator_curves(CENSUS["cooperators"]))
    assert len(axes.lines) == len(axes.collections) == 2
    for line, band, selection in zip(
        axes.lines, axes.collections, ("random", "shear"), strict=True
    ):
        own = where(CENSUS["cooperators"], selection=selection, draw=0)
        errors = {n: where(own, n=n)["error"].to_pylist() for n in (4, 8, 16, 32)}
        np.testing.assert_allclose(xs(line), list(errors))
        np.testing.assert_allclose(ys(line), [statistics.mean(every) for every in errors.values()])
        edge = np.asarray(band.get_paths()[0].vertices)
        for n, every in errors.items():
            tenths = statistics.quantiles(every, n=10, method="inclusive")
            drawn = edge[edge[:, 0] == n, 1]
            assert (drawn.min(), drawn.max()) == pytest.approx((tenths[0], tenths[-1]))
    # where not all features can be cooperators something is lost to the end, and shown
    lossy = revised(CENSUS, "cooperators", "error", lambda error: error + 0.01)
    shown = only_axes(figures.cooperator_curves(lossy["cooperators"])).lines[0]
    assert xs(shown).tolist() == [4, 8, 16, 32, 64]


def test_hardly_any_error_of_a_tenth_of_features_leaves_the_others_in_sight() -> None:
    """The band goes down to where it does; the axis ends well before, though below every mean."""
    tiny: Records = CENSUS
    for row in (0, 1, 2, 100):
        tiny = revised(tiny, "cooperators", "error", times(1e-12), selection="random", row=row)
    axes = only_axes(figures.cooperator_curves(tiny["cooperators"]))
    means = np.concatenate([ys(line) for line in axes.lines])
    assert axes.get_ylim()[0] == pytest.approx(means.min() / 30)
    assert np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1].min() < 1e-10


def test_tightness_is_a_histogram_in_percent() -> None:
    broken = revised(CENSUS, "bounds", "loss", lambda loss: 10 * loss, seed=1)
    broken = revised(broken, "bounds", "printed", times(0), seed=1)
    drawing = figures.tightness(broken["bounds"])
    for patch in only_axes(drawing).patches:
        y = np.asarray(patch.get_path().vertices)[
            :, 1
        ]  # a line of steps: 0, then each height twice
        assert y[1:-1:2].sum() == pytest.approx(100)
    legend = only_axes(drawing).get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 2


def test_the_cost_model_is_beside_the_measured_time() -> None:
    predicted, measured, backward = only_axes(figures.cost_model(CENSUS["timings"])).lines
    seconds = cost(CENSUS["timings"])
    np.testing.assert_allclose(ys(predicted), 1e3 * seconds.predicted)
    np.testing.assert_allclose(ys(measured), 1e3 * seconds.measured)
    np.testing.assert_allclose(ys(backward), 1e3 * seconds.backward)


def test_an_explanation_has_a_bar_for_each_feature_the_largest_on_top() -> None:
    drawing = figures.explanation(where(CENSUS["illustration"], seed=0))
    axes = only_axes(drawing)
    assert drawing.figure.get_figwidth() < 1.25 * SIZE[0]
    features = [label.get_text().split(" = ")[0] for label in axes.get_yticklabels()]
    assert features == ["sex", "race", "age", "relationship", "gain"]
    assert [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)] == pytest.approx(
        [0.145, -0.25, 0.51, -1.26, 1.98]
    )
    assert xs(axes.lines[0]).tolist() == [0.125, -0.25, 0.5, -1.25, 2.0]
    assert "relationship = Not-in-family, o…" in [
        label.get_text() for label in axes.get_yticklabels()
    ]


@pytest.mark.parametrize(
    ("metric", "score"), [("faithfulness", 0.9), ("monotonicity", 0.6), ("ranking_accuracy", None)]
)
def test_the_truths_own_score_is_a_line_across(metric: str, score: float | None) -> None:
    axes = only_axes(figures.metric_curves(CENSUS["estimates"], metric, ["shear", "kernel"]))
    across = [ys(line).tolist() for line in axes.lines if line.get_gid() == "series-truth"]
    assert across == ([] if score is None else [[pytest.approx(score)] * 2])


@pytest.mark.parametrize(
    "ends", [(4100, 4600), (0.9, 1.1), (3e-4, 0.02), (1e-6, 0.3), (0.011, 0.37)]
)
def test_marks_of_a_logarithmic_axis_are_few_and_in_sight(ends: tuple[float, float]) -> None:
    axes = Figure().add_subplot()
    axes.set_yscale("log")
    axes.set_ylim(*ends)
    log_ticks(axes.yaxis)
    marks = [mark for mark in axes.yaxis.get_ticklocs() if ends[0] <= mark <= ends[1]]
    assert 2 <= len(marks) <= 8
