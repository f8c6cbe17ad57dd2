"""Figures made of the paper's records: what is drawn, against slow oracles."""

import re
import statistics

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from paper_drawings import (
    DRAWINGS,
    error_bars,
    heights,
    markup,
    networks,
    only_axes,
    ours,
    tooltips,
    xs,
    ys,
)
from paper_oracles import slow_curve, slow_mean, slow_seconds
from paper_records import (
    AUTHORS,
    CENSUS,
    EVALUATIONS,
    FAIR,
    ROWS,
    SENSITIVE,
    SETTINGS,
    bounds,
    revised,
    scored,
    times,
)
from shearshap_lab.experiments import figures
from shearshap_lab.experiments.figure_axes import POINTS, SIZE, log_ticks
from shearshap_lab.experiments.records import Records, where
from shearshap_lab.experiments.style import series_of
from shearshap_lab.experiments.summaries import METRICS, cost, published_curve

OURS = ours(CENSUS)

SCALES = {
    "absolute_error paper": ("log", "log"), "ranking_accuracy authors": ("log", "function"),
    "faithfulness fair": ("log", "linear"), "monotonicity fair": ("log", "linear"), "trade-off": ("function", "log"),
    "ablated error": ("linear", "log"), "ablated accuracy": ("linear", "linear"), "contribution cloud": ("log", "log"),
    "contribution by feature": ("linear", "linear"), "contribution across rows": ("linear", "linear"),
    "chain": ("log", "log"), "selection bounds": ("log", "log"), "training": ("log", "linear"), "cooperators": ("log", "log"), "tightness": ("linear", "linear"),
    "bound cloud": ("log", "log"), "cost": ("log", "log"), "explanation": ("linear", "linear"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_figure_names_its_axes_and_stands_in_a_page(name: str) -> None:
    drawing = DRAWINGS[name](OURS)
    axes = only_axes(drawing)
    assert isinstance(drawing.figure, Figure)
    assert (axes.get_xscale(), axes.get_yscale()) == SCALES[name]
    for axis in (axes.xaxis, axes.yaxis):
        named = [label.get_text() for label in axis.get_ticklabels()]
        words = [text for text in named if re.search("[A-Za-z]", text)]
        assert axis.get_label_text() or (
            name.startswith(("contribution across", "training", "explanation")) and words == named
        )
    root = markup(drawing)
    assert root.get("aria-label") == drawing.alt != ""
    shown = {text.text for text in root.iter("text")}
    assert {label for label in (axes.get_xlabel(), axes.get_ylabel()) if label} <= shown


@pytest.mark.parametrize("metric", METRICS)
def test_every_method_is_a_line_with_its_deviations(metric: str) -> None:
    drawing = figures.metric_curves(OURS["estimates"], metric, FAIR)
    drawn = list(error_bars(only_axes(drawing)))
    assert len(drawn) == len(FAIR)
    for container, method in zip(drawn, FAIR, strict=True):
        line, series = container.lines[0], series_of(method)
        slow = slow_curve(where(OURS["estimates"], method=method), metric)
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
    drawing = figures.metric_curves(OURS["estimates"], "absolute_error", AUTHORS)
    assert set(drawing.titles) == {f"series-{series_of(method).name}" for method in AUTHORS}
    slow = slow_curve(where(OURS["estimates"], method="shear-authors"), "absolute_error")
    wanted = [
        f"SHEAR block maximum, N = {n}: {mean:.4g} ± {deviation:.2g}"
        for n, (mean, deviation) in slow.items()
    ]
    assert drawing.titles["series-shear-block"] == wanted
    assert tooltips(drawing, "series-shear-block") == [wanted]


def test_the_trade_off_has_the_papers_axes() -> None:
    """Throughput against accuracy; bars are the first and the last tenth of the timings."""
    for way in ("batch", "one by one"):
        timings = where(OURS["timings"], way=way)
        drawing = figures.trade_off(OURS["estimates"], timings, FAIR)
        drawn = list(error_bars(only_axes(drawing)))
        assert len(drawn) == len(FAIR)
        for container, method in zip(drawn, FAIR, strict=True):
            slow = slow_curve(where(OURS["estimates"], method=method), "ranking_accuracy")
            line = container.lines[0]
            assert line is not None
            np.testing.assert_allclose(xs(line), [mean for mean, _ in slow.values()])
            seconds = [slow_seconds(method, n, way) for n in EVALUATIONS]
            np.testing.assert_allclose(ys(line), [ROWS / each for each in seconds], rtol=1e-3)
        speed = ROWS / slow_seconds("shear", 8, way)
        mean = slow_curve(where(OURS["estimates"], method="shear"), "ranking_accuracy")[8][0]
        tooltip = tooltips(drawing, "series-shear")[0][0]
        assert tooltip == f"SHEAR, N = 8: {speed:,.0f} rows a second, accuracy {mean:.4f}"


@pytest.mark.parametrize("metric", ["absolute_error", "ranking_accuracy"])
def test_published_numbers_are_dashed_beside_ours(metric: str) -> None:
    drawing = figures.metric_curves(OURS["estimates"], metric, AUTHORS, published=True)
    dashed = [line for line in only_axes(drawing).lines if line.get_linestyle() == "--"]
    name = {"absolute_error": "ae_mean", "ranking_accuracy": "acc"}[metric]
    shown = {str(line.get_gid()): (xs(line).tolist(), ys(line).tolist()) for line in dashed}
    wanted = {}
    for method in AUTHORS[1:]:
        released = published_curve("census", method, name)
        points = {n: released[n] for n in EVALUATIONS if n in released}
        if points:
            wanted[f"series-{series_of(method).name}"] = (list(points), list(points.values()))
    assert shown == wanted
    assert "series-shear-block" in shown
    without = figures.metric_curves(OURS["estimates"], metric, AUTHORS)
    assert not [line for line in only_axes(without).lines if line.get_linestyle() == "--"]


@pytest.mark.parametrize("name", ["ranking_accuracy authors", "trade-off"])
def test_accuracies_are_stretched_near_1_and_all_in_sight(name: str) -> None:
    axes = only_axes(DRAWINGS[name](OURS))
    across = name == "trade-off"
    low, high = axes.get_xlim() if across else axes.get_ylim()
    drawn = np.concatenate([xs(line) if across else ys(line) for line in axes.lines])
    assert low <= drawn.min() <= drawn.max() <= high
    accuracies = (0.8, 0.9, 0.98, 0.99)
    points = [(each, 16) if across else (16, each) for each in accuracies]
    screen = axes.transData.transform(points)[:, 0 if across else 1]
    assert np.all(np.diff(screen) > 0)
    assert (screen[3] - screen[2]) / 0.01 > 2 * (screen[1] - screen[0]) / 0.1


@pytest.mark.parametrize("metric", METRICS)
def test_ablations_are_a_grid_of_means_with_intervals(metric: str) -> None:
    axes = only_axes(figures.ablation_grid(networks(OURS), metric))
    methods = ["shear", "shear-unpaired", "shear-empty"]
    methods += ["shear-without-ccs", "shear-unpaired-without-ccs", "shear-empty-without-ccs"]
    drawn = list(error_bars(axes))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["paired", "unpaired", "empty"]
    assert len(drawn) == len(methods)
    for place, (container, method) in enumerate(zip(drawn, methods, strict=True)):
        mean = slow_mean(OURS["estimates"], metric, method=method, n=16)
        line = container.lines[0]
        assert ys(line).tolist() == pytest.approx([mean])
        assert round(float(xs(line)[0])) == place % 3
        assert str(line.get_gid() if line else "") == (
            "series-with-ccs" if place < 3 else "series-without-ccs"
        )
        assert axes.get_ylim()[0] < mean < axes.get_ylim()[1]


def test_a_negative_score_of_an_ablation_is_in_sight() -> None:
    records = scored(OURS, ("faithfulness",), times(-1), method="shear-without-ccs")
    axes = only_axes(figures.ablation_grid(networks(records), "faithfulness"))
    bottom, top = axes.get_ylim()
    mean = slow_mean(records["estimates"], "faithfulness", method="shear-without-ccs")
    assert bottom < mean < 0 < 0.85 < top


def test_each_feature_has_its_correlation_across_rows() -> None:
    axes = only_axes(figures.contribution_across_rows(networks(OURS), ["age", "sex"]))
    names = {label.get_text() for label in axes.get_yticklabels()}
    assert names == {"age", "sex", "feature 2"}
    (container,) = error_bars(axes)
    assert xs(container.lines[0]).tolist() == pytest.approx([-1, -1, -1])


def test_selections_have_their_bounds_and_errors() -> None:
    axes = only_axes(figures.selection_bounds(OURS["selection_bound"]))
    wanted = [(name, part) for name in ("random", "shear", "bound") for part in ("bound", "error")]
    assert len(axes.lines) == len(wanted)
    for line, (selection, name) in zip(axes.lines, wanted, strict=True):
        means = [
            slow_mean(OURS["selection_bound"], name, selection=selection, n=n) for n in EVALUATIONS
        ]
        assert ys(line).tolist() == pytest.approx(means)


def test_trainings_are_lines_of_the_figure_and_methods_its_marks() -> None:
    axes = only_axes(figures.training(OURS["sensitivity"], 16))
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "relu",
        "0/1 columns, 80 epochs, true mean",
        "0/1 columns, true mean",
        "80 epochs, true mean",
        "true mean",
        "as the authors did",
    ]
    assert len(axes.lines) == 2 * len(SETTINGS) * len(SENSITIVE)
    shear = [line for line in axes.lines if line.get_gid() == "series-shear"]
    base = [line for line in shear if ys(line)[0] == 5]
    errors = [0.0185 / 2**0.5 * (1 + 0.05 * seed) for seed in range(3)]
    assert xs(base[0]).tolist() == pytest.approx([min(errors), max(errors)])
    assert xs(base[1]).tolist() == pytest.approx([statistics.geometric_mean(errors)])


def test_clouds_have_a_point_for_each_target_and_at_most_so_many() -> None:
    cloud = only_axes(figures.contribution_cloud(networks(OURS)))
    assert POINTS / 3 < len(xs(cloud.lines[0])) <= POINTS
    assert "rank correlation -1.00" in cloud.texts[0].get_text()
    losses = only_axes(figures.bound_cloud(OURS["bounds"]))
    assert len(xs(losses.lines[0])) == len(OURS["bounds"])
    assert np.all(ys(losses.lines[0]) < xs(losses.lines[0]))
    for pairs in (400, 401, 700, 5000):
        many = only_axes(figures.bound_cloud(where(bounds("census", pairs), seed=0)))
        assert POINTS / 3 < len(xs(many.lines[0])) <= POINTS


def test_errors_of_one_feature_by_its_cross_contribution() -> None:
    """The tenths of all draws by eta over its target's mean, and the quartiles of errors over their target's mean."""
    axes = only_axes(figures.contribution_by_feature(networks(OURS)))
    targets: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for row in OURS["cooperators"].to_pylist():
        if row["draw"]:
            pair = (row["cross_contribution"], row["error"])
            targets.setdefault((row["seed"], row["row"], row["player"]), []).append(pair)
    pairs = []
    for target in targets.values():
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
    axes = only_axes(figures.cooperator_curves(OURS["cooperators"]))
    assert len(axes.lines) == len(axes.collections) == 2
    for line, band, selection in zip(
        axes.lines, axes.collections, ("random", "shear"), strict=True
    ):
        own = where(OURS["cooperators"], selection=selection, draw=0)
        errors = {n: where(own, n=n)["error"].to_pylist() for n in (4, 8, 16, 32)}
        np.testing.assert_allclose(xs(line), list(errors))
        np.testing.assert_allclose(ys(line), [statistics.mean(every) for every in errors.values()])
        edge = np.asarray(band.get_paths()[0].vertices)
        for n, every in errors.items():
            tenths = statistics.quantiles(every, n=10, method="inclusive")
            drawn = edge[edge[:, 0] == n, 1]
            assert (drawn.min(), drawn.max()) == pytest.approx((tenths[0], tenths[-1]))
    # where not all features can be cooperators something is lost to the end, and shown
    lossy = revised(OURS, "cooperators", "error", lambda error: error + 0.01)
    shown = only_axes(figures.cooperator_curves(lossy["cooperators"])).lines[0]
    assert xs(shown).tolist() == [4, 8, 16, 32, 64]


def test_hardly_any_error_of_a_tenth_of_features_leaves_the_others_in_sight() -> None:
    """The band goes down to where it does; the axis ends well before, though below every mean."""
    tiny: Records = OURS
    for row in (0, 1, 2, 100, 101, 200):
        tiny = revised(tiny, "cooperators", "error", times(1e-12), selection="random", row=row)
    axes = only_axes(figures.cooperator_curves(tiny["cooperators"]))
    means = np.concatenate([ys(line) for line in axes.lines])
    assert axes.get_ylim()[0] == pytest.approx(means.min() / 30)
    assert np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1].min() < 1e-10


def test_tightness_is_a_histogram_in_percent() -> None:
    broken = revised(OURS, "bounds", "loss", lambda loss: 10 * loss, seed=1)
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
    predicted, measured, backward = only_axes(
        figures.cost_model(where(OURS["timings"], way="batch"))
    ).lines
    seconds = cost(where(OURS["timings"], way="batch"))
    np.testing.assert_allclose(ys(predicted), 1e3 * seconds.predicted)
    np.testing.assert_allclose(ys(measured), 1e3 * seconds.measured)
    np.testing.assert_allclose(ys(backward), 1e3 * seconds.backward)


def test_an_explanation_has_a_bar_for_each_feature_the_largest_on_top() -> None:
    drawing = figures.explanation(where(OURS["illustration"], seed=0))
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
    axes = only_axes(figures.metric_curves(OURS["estimates"], metric, ["shear", "kernel"]))
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
