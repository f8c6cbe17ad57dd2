"""Heatmap, decision, force, scatter, image, interactions, cohorts and classes; legends and axes."""

from dataclasses import replace
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_hex

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
from shearshap.plots.canvas import BY_SIGN, tick_labels
from shearshap.result import views
from shearshap.result.colours import COHORTS, GREY, LOW_TO_HIGH, LOWERS, RAISES
from shearshap.result.explanation import Floats
from shearshap.result.text import format_end


def legend_texts(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def pairwise_sample(rows: int = 6, players: int = 5) -> Explanation:
    pairs = np.random.default_rng(1).normal(size=(rows, players, players))
    return replace(explanation(rows, players), interactions=pairs + pairs.transpose(0, 2, 1))


def three_classes(outputs: int = 3) -> Explanation:
    sample = explanation(rows=20)
    values = np.stack([sample.values * (at + 1) for at in range(outputs)], axis=2)
    return replace(
        sample,
        values=values,
        base_values=np.zeros((20, outputs)),
        predictions=values.sum(axis=1),
        standard_errors=None,
        output_names=[f"class {at}" for at in range(outputs)],
    )


# base value and prediction by their own size


@pytest.mark.parametrize(
    ("number", "values", "text"),
    [
        (0.427, [120.0, -31.0], "0.427"),
        (312.4, [120.0, -31.0], "312"),
        (-0.0031, [5.0], "−0.00310"),
        (1000.021, [0.012, 0.009], "1,000.0210"),
        (0.0, [0.5], "0.000"),
        (0.0, [0.0], "0"),
        (12_345_678.9, [5e5], "12,345,679"),
        (123_456.7, [1.23e-4], "123,456.700"),
        (0.4, [1e-9], "0.400"),
        (1e-9, [0.5], "1e−09"),
        (5e12, [0.5], "5e+12"),
    ],
)
def test_base_values_and_predictions_have_digits_of_their_own(
    number: float, values: list[float], text: str
) -> None:
    assert format_end(number, values) == text


# colours mean something, and a legend says what


def with_texts(data: list[float]) -> Explanation:
    shown = np.full((6, 5), 1.0, dtype=object)
    shown[:, 0] = ["b", "a", "c", "a", "b", "c"]
    numbers = np.ones((6, 5))
    numbers[:, 0] = data
    return replace(explanation(), display_data=shown, data=numbers)


def test_strings_without_an_order_are_grey() -> None:
    alphabet = with_texts([1, 0, 2, 0, 1, 2])
    ax = plots.beeswarm(alphabet)
    grey, _ = dots(ax)
    assert len(np.asarray(grey.get_offsets())) == 6
    assert to_hex(np.asarray(grey.get_facecolor())[0]).upper() == GREY
    assert legend_texts(ax) == ["categories (lines: means)"]
    marks = zip(ax.texts, ax.lines[1::2], ax.lines[2::2], strict=True)
    at = {text.get_text(): float(np.asarray(line.get_xdata())[0]) for text, line, _ in marks}
    rows = {"a": [1, 3], "b": [0, 4], "c": [2, 5]}
    assert len(at) == 3
    for name, mean in at.items():
        assert mean == pytest.approx(alphabet.values[rows[name], 0].mean())
    (swarm,) = views.swarms(alphabet, [0], bins=9, across=4.0)  # the report's, too
    assert np.isnan(swarm.ranks).all()


def test_strings_with_an_order_of_their_own_and_texts_of_numbers_keep_their_colours() -> None:
    ordered = with_texts([0, 2, 1, 2, 0, 1])  # b, c, a
    assert views.ordered_numbers(ordered, 0).tolist() == [0, 2, 1, 2, 0, 1]
    assert legend_texts(plots.beeswarm(ordered)) == []
    sample = with_texts([0, 1, 2, 0, 1, 2])
    shown = np.array(sample.display_data)
    shown[:, 0] = ["1", "10", "2", "1", "10", None]
    numbers = views.ordered_numbers(replace(sample, display_data=shown), 0)
    assert numbers == pytest.approx([1, 10, 2, 1, 10, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    "draw", [plots.waterfall, lambda sample: plots.bar(sample[0]), plots.force, plots.text]
)
def test_a_legend_says_which_colour_raises_and_which_lowers(draw: Any) -> None:
    legend = draw(explanation()).get_legend()
    assert legend is not None
    hues = {
        text.get_text().split()[0]: to_hex(mark.get_color()).upper()
        for text, mark in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }
    assert hues["raises"] == RAISES
    assert hues["lowers"] == LOWERS


def test_a_legend_has_only_what_is_shown() -> None:
    raising = replace(explanation(), values=np.abs(explanation().values))
    for draw in (plots.waterfall, lambda it: plots.bar(it[0]), plots.force, plots.text):
        assert "lowers the output" not in legend_texts(draw(raising))
    assert not any(text.startswith("lowers") for text in legend_texts(plots.cooperators(raising)))


def test_colours_from_low_to_high_can_be_told_apart_without_colour_vision() -> None:
    stops = np.array([[int(hue[at : at + 2], 16) for at in (1, 3, 5)] for hue in LOW_TO_HIGH]) / 255
    ramp = np.column_stack([np.interp(np.linspace(0, 2, 9), range(3), part) for part in stops.T])
    linear = np.where(ramp <= 0.04045, ramp / 12.92, ((ramp + 0.055) / 1.055) ** 2.4)
    # Machado, Oliveira and Fernandes 2009: no green cones
    deuteranopia = np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    )
    for seen in (linear, linear @ deuteranopia.T):
        luminance = seen @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(luminance) > -0.005).all()
        assert luminance[-1] > 3 * luminance[0]


# numbers on axes


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([0, 0.25, 0.5], ["0.00", "0.25", "0.50"]),
        ([0, 2.5, 5], ["0.0", "2.5", "5.0"]),
        ([-0.02, 0, 0.02], ["−0.02", "0.00", "0.02"]),
        ([1_000_000, 1_200_000], ["1,000,000", "1,200,000"]),
        ([5000, 5000.005], ["5,000.000", "5,000.005"]),
        ([0, 1e-9], ["0", "1e−09"]),
        ([0, 2e12], ["0", "2e+12"]),
        ([5], ["5"]),
        ([0], ["0"]),
    ],
)
def test_ticks_are_written_in_full(ticks: list[float], texts: list[str]) -> None:
    assert tick_labels(ticks) == texts


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [plots.waterfall, plots.bar, plots.beeswarm, plots.decision, plots.heatmap,
     plots.interactions, plots.cooperators, lambda sample, ax: plots.dependence(sample, 0, ax=ax)],
)  # fmt: skip
def test_plots_can_be_read_at_the_width_of_a_phone(draw: Any) -> None:
    names = ["age", "sex", "hours", "gain", "country"]
    sample = replace(explanation(rows=12), feature_names=names)
    figure = plt.figure(figsize=(3.9, 3.4), layout="constrained")  # 390 pixels at 100 to the inch
    check_texts(draw(sample, ax=figure.add_subplot()))


# dependence without interactions, and scatter


def test_dependence_guesses_its_cooperator_without_interactions() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 5))
    values = 0.1 * rng.normal(size=(200, 5))
    values[:, 0] = data[:, 0] * data[:, 3]  # which no correlation over all rows shows
    sample = replace(explanation(rows=200), data=data, values=values, cross_contribution=None)
    assert views.likely_cooperator(sample, 0) == 3
    ax = plots.dependence(sample, 0)
    assert ax.child_axes[-1].get_ylabel() == "hours"
    assert np.asarray(dots(ax)[-1].get_array()) == pytest.approx(data[:, 3])


def test_a_scatter_takes_colours_for_rows_or_another_feature() -> None:
    sample = explanation(rows=6)
    assert sample.data is not None
    ax = plots.scatter(sample, "age", colour="hours")
    assert np.asarray(dots(ax)[-1].get_array()) == pytest.approx(sample.data[:, 3])
    assert (ax.get_xlabel(), ax.child_axes[-1].get_ylabel()) == ("age", "hours")
    ax = plots.scatter(sample, 0, colour=["x", "y", "x", "y", "x", "x"])
    assert legend_texts(ax) == ["x", "y"]
    ax = plots.scatter(sample, 0, colour=sample.predictions)
    assert np.asarray(dots(ax)[-1].get_array()) == pytest.approx(sample.predictions)
    assert not plots.scatter(sample, 0).child_axes
    assert plots.scatter(sample, player="age").get_xlabel() == "age"  # type: ignore[call-arg]


def test_a_histogram_shows_how_often_data_occur() -> None:
    sample = explanation(rows=60)
    assert sample.data is not None
    ax = plots.scatter(sample, "age")
    counts, edges = np.histogram(sample.data[:, 0], len(bars(ax)))
    assert [bar.get_x() for bar in bars(ax)] == pytest.approx(edges[:-1])
    assert [bar.get_height() for bar in bars(ax)] == pytest.approx(0.14 * counts / counts.max())


# heatmap


@pytest.mark.parametrize("order", ["prediction", "given", "similar"])
def test_a_heatmap_has_a_cell_for_every_value(order: Any) -> None:
    sample = explanation(rows=30)
    ax = plots.heatmap(sample, order=order, max_features=3)
    cells = np.asarray(ax.images[0].get_array())
    players = np.argsort(-np.abs(sample.values).mean(axis=0))[:3]
    (line,) = ax.child_axes[0].lines
    rows = [int(np.argmin(np.abs(sample.predictions - y))) for y in np.asarray(line.get_ydata())]
    assert sorted(rows) == list(range(30))
    assert cells == pytest.approx(sample.values[rows][:, players].T)
    if order == "given":
        assert rows == list(range(30))
    if order == "prediction":
        assert (np.diff(sample.predictions[rows]) >= 0).all()
    far = np.percentile(np.abs(cells), 99)
    assert ax.images[0].get_clim() == pytest.approx((-far, far))
    assert labels(ax) == [sample.feature_names[player] for player in players]
    assert "2 less important features not shown" in ax.get_xlabel()


def test_similar_rows_stand_together() -> None:
    sample = explanation(rows=20)
    values = np.where(np.arange(20)[:, None] % 2, 1.0, -1.0) * np.ones(5)
    ax = plots.heatmap(replace(sample, values=values), order="similar")
    first = np.asarray(ax.images[0].get_array())[0]
    assert (np.diff(first) != 0).sum() == 1
    halves = np.split(np.asarray(ax.child_axes[0].lines[0].get_ydata()), 2)
    assert halves[0].mean() < halves[1].mean()  # lower predictions first


# decision


def test_decision_leads_from_base_value_to_prediction() -> None:
    sample = explanation(rows=30, players=8)
    ax = plots.decision(sample, max_features=4)
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    paths = np.array(lines.get_segments())
    order = np.argsort(-np.abs(sample.values).mean(axis=0))
    assert paths.shape == (30, 6, 2)
    assert paths[:, 0, 0] == pytest.approx(sample.base_values)
    assert paths[:, 1, 0] == pytest.approx(2.0 + sample.values[:, order[4:]].sum(axis=1))
    assert paths[:, -1, 0] == pytest.approx(sample.predictions)
    assert paths[:, -1, 0] - paths[:, -2, 0] == pytest.approx(sample.values[:, order[0]])
    names = [sample.feature_names[player] for player in order[:4]]
    assert labels(ax) == ["4 others", *names[::-1]]
    assert ax.child_axes[-1].get_ylabel() == "prediction"


def test_decision_shows_the_gap_and_highlights_rows_by_their_labels() -> None:
    sample = replace(explanation(), index=np.array(list("uvwxyz")))
    off = replace(sample, predictions=sample.predictions + 3.0)
    ax = plots.decision(off, highlight=2)
    assert labels(ax)[0] == views.GAP
    assert column(ax) == [f"row w: {off.predictions[2]:.2f}".replace("-", "−")]
    assert len(column(plots.decision(sample, highlight=[0, 1]))) == 2


# force


def test_the_strip_of_a_force_plot_is_as_long_as_the_values() -> None:
    sample = explanation(players=8)
    ax = plots.force(sample, row=3, max_features=8)
    values = sample.values[3]
    raising = [bar for bar in bars(ax) if to_hex(bar.get_facecolor()).upper() == RAISES]
    lowering = [bar for bar in bars(ax) if to_hex(bar.get_facecolor()).upper() == LOWERS]
    assert sorted(bar.get_width() for bar in raising) == pytest.approx(sorted(values[values > 0]))
    assert sorted(bar.get_width() for bar in lowering) == pytest.approx(sorted(-values[values < 0]))
    prediction = sample.predictions[3]
    assert max(bar.get_x() + bar.get_width() for bar in raising) == pytest.approx(prediction)
    assert min(bar.get_x() for bar in lowering) == pytest.approx(prediction)
    start = sample.base_values[3] + values[values < 0].sum()
    assert min(bar.get_x() for bar in raising) == pytest.approx(start)
    assert len(column(ax)) == 8
    check_texts(ax)


@pytest.mark.parametrize("row", [1, 3])
def test_no_thin_line_of_a_force_plot_crosses_a_name(row: int) -> None:
    ax = plots.force(explanation(players=14), row=row)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    thin = [line for line in ax.lines if len(np.asarray(line.get_xdata())) == 2]
    assert len(thin) == len(boxes)
    for line in thin:
        (x, low), (_, high) = sorted(ax.transData.transform(line.get_xydata()).tolist())
        for box in boxes:
            inside = box.x0 + 1 < x < box.x1 - 1
            assert not (inside and low < box.y1 - 2 and high > box.y0 + 2)


# image


PATCHES = np.arange(6).reshape(2, 3).repeat(4, axis=0).repeat(4, axis=1)


@pytest.mark.parametrize("shape", [(8, 12), (3, 8, 12), (8, 12, 3), (1, 8, 12), (8, 12, 4)])
def test_patches_have_the_colours_of_their_values(shape: tuple[int, ...]) -> None:
    sample = explanation(rows=2, players=6)
    picture = np.random.default_rng(0).random(shape)
    ax = plots.image(sample, picture, mask=PATCHES + 1, row=1)
    original, patched, _ = ax.child_axes
    assert np.asarray(original.images[0].get_array()).shape[:2] == (8, 12)
    check_overlay(patched.images[0], sample.values[1][PATCHES], np.abs(sample.values[1]).max())
    assert ax.figure.axes[0] is ax
    check_texts(ax)


def check_overlay(image: Any, values: Floats, far: float) -> None:
    """Check that pixels have the colours of values, darker where the picture is."""
    hues = BY_SIGN(Normalize(-far, far)(values))[..., :3]
    shades = np.asarray(image.get_array()) / np.maximum(hues, 1e-9)
    shades = np.where(hues > 0, shades, np.nan)
    assert np.nanmin(shades) >= 0.8 - 1e-9
    assert np.nanmax(shades) <= 1 + 1e-9
    assert np.nanmax(np.nanmax(shades, axis=-1) - np.nanmin(shades, axis=-1)) < 1e-9


def test_pictures_beside_their_highest_classes_on_one_scale() -> None:
    sample = replace(three_classes(5), index=np.array([f"no. {at}" for at in range(20)]))
    pictures = np.random.default_rng(0).random((20, 1, 5))
    ax = plots.image(sample, pictures[:, None], row=[2, "no. 7"], outputs=2)
    *cells, _ = cast("list[Any]", ax.child_axes)  # the last is the colour bar
    assert len(cells) == 2 * 3
    assert [cell.get_title() for cell in cells[::3]] == ["row no. 2", "row no. 7"]
    tops = np.argsort(-sample.predictions, axis=1, kind="stable")[[2, 7], :2]
    far = max(
        np.abs(sample.values[row][:, top]).max() for row, top in zip((2, 7), tops, strict=True)
    )
    for row, top, (_, *values) in zip((2, 7), tops, (cells[:3], cells[3:]), strict=True):
        for output, cell in zip(top, values, strict=True):
            assert cell.get_title().startswith(f"class {output} ")
            check_overlay(cell.images[0], sample.values[row, None, :, output], far)
    check_texts(ax)
    chosen: Any = plots.image(sample, list(pictures), row=0, outputs=["class 4", 0]).child_axes
    assert [cell.get_title().split(" ")[1] for cell in chosen[1:-1]] == ["4", "0"]
    assert len(plots.image(sample, pictures).child_axes) == 10 * 4 + 1


@pytest.mark.parametrize(
    ("picture", "options", "message"),
    [
        (np.zeros((4, 1, 1, 5)), {}, r"expected one picture, or one per row \(20\), got 4 pictures"),
        (np.zeros((1, 5)), {"row": [0, 1]}, "picture: expected 20 pictures, one per row, got one"),
        (np.zeros((1, 5)), {"outputs": 0}, "outputs: expected a positive integer, got 0"),
        (np.zeros((1, 5)), {"outputs": ["class 9"]}, "there is no output 'class 9'"),
    ],
)  # fmt: skip
def test_rows_and_outputs_without_a_picture(picture: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plots.image(three_classes(), picture, **options)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("picture", "mask", "message"),
    [
        (np.zeros(5), None, r"picture: expected \(height, width\), with channels .* got \(5,\)"),
        (np.zeros((5, 6, 7)), None, r"picture: expected 1, 3 or 4 channels, .* \(5, 6, 7\)"),
        (
            np.zeros((3, 4)),
            None,
            "6 features are not 3 x 4 pixels; pass mask=, the feature of each pixel",
        ),
        (np.zeros((3, 4)), PATCHES, r"mask: expected the picture's 3 x 4, got \(8, 12\)"),
        (np.zeros((8, 12)), np.zeros((8, 12)), "mask: expected 6 features, as .* has, got 1"),
    ],
)
def test_pictures_that_do_not_fit(picture: Any, mask: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plots.image(explanation(players=6), picture, mask=mask)
    assert not plt.get_fignums()


# text


def test_words_have_the_colours_of_their_values_and_numbers_below() -> None:
    sample = replace(explanation(), feature_names=list("abcde"))
    ax = plots.text(sample, row=2)
    values = sample.values[2]
    texts = ax.texts[1:]
    assert [text.get_text() for text in texts[::2]] == list("abcde")
    assert [text.get_text() for text in texts[1::2]] == [
        f"{value:+.2f}".replace("-", "−") for value in values
    ]
    strongest = int(np.abs(values).argmax())
    box = texts[2 * strongest].get_bbox_patch()
    assert box is not None
    assert to_hex(box.get_facecolor()).upper() == (LOWERS if values[strongest] < 0 else RAISES)
    check_texts(ax)


def test_long_texts_are_wrapped_without_numbers() -> None:
    sample = explanation(rows=1, players=70)
    ax = plots.text(sample)
    assert len(ax.texts) == 71
    check_texts(ax)


# interactions


@pytest.mark.parametrize("row", [None, 3])
def test_the_matrix_has_main_effects_and_pairs(row: int | None) -> None:
    sample = pairwise_sample()
    ax = plots.interactions(sample, row=row)
    assert sample.interactions is not None
    part = sample if row is None else sample[row]
    order = np.argsort(-np.abs(part.values).mean(axis=0), kind="stable")
    assert part.interactions is not None
    wanted = part.interactions.mean(axis=0)[order][:, order]
    assert np.asarray(ax.images[0].get_array()) == pytest.approx(wanted)
    assert column(ax)[0] == f"{wanted[0, 0]:.2f}".replace("-", "−")
    assert ax.get_xlabel() == ("means over the rows" if row is None else "")
    assert ax.get_title() == ("6 rows" if row is None else "row 3")
    check_texts(ax)


def test_the_matrix_of_cross_contribution_has_no_diagonal() -> None:
    ax = plots.interactions(explanation())
    cells = ax.images[0].get_array()
    assert cells is not None
    assert np.ma.getmaskarray(cells).nonzero()[0].tolist() == [0, 1, 2, 3, 4]
    assert np.nanmin(np.asarray(cells)) >= 0


# cohorts and classes


def test_bars_by_cohort() -> None:
    sample = explanation(rows=40)
    groups = ["old" if at % 4 else "young" for at in range(40)]
    ax = plots.bar(sample, groups=groups)
    parts = [sample[[group == name for group in groups]] for name in ("old", "young")]
    sizes = np.array([np.abs(part.values).mean(axis=0) for part in parts])
    order = np.argsort(-sizes.mean(axis=0))
    assert [bar.get_width() for bar in bars(ax)] == pytest.approx(sizes[:, order].reshape(-1))
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars(ax)] == [
        *[COHORTS[0]] * 5,
        *[COHORTS[1]] * 5,
    ]
    assert legend_texts(ax) == ["old (30 rows)", "young (10 rows)"]
    assert whiskers(ax)[:, 1, 0] == pytest.approx(parts[0].abs().mean().upper[order])
    named = plots.bar({"old": parts[0], "young": parts[1]})
    assert [bar.get_width() for bar in bars(named)] == pytest.approx(sizes[:, order].reshape(-1))
    check_texts(named)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda sample: plots.bar(sample, groups=["a"]), "groups: expected 6 labels, one per row, got 1"),
        (lambda sample: plots.bar(sample, groups="shoes"), "groups: there is no feature 'shoes'"),
        (lambda _: plots.bar({}), "bar: expected 1 to 8 cohorts, got 0"),
        (lambda sample: plots.bar({str(at): sample for at in range(9)}), "1 to 8 cohorts, got 9"),
        (lambda sample: plots.bar({"a": sample, "b": explanation(players=4)}), "cohorts with the same features"),
        (lambda sample: plots.bar({"a": sample.values}), "bar: expected a shearshap.Explanation, got ndarray"),
        (lambda _: plots.bar({"a": three_classes()}), "bar draws one output"),
    ],
)  # fmt: skip
def test_cohorts_that_cannot_be_compared(draw: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw(explanation())
    assert not plt.get_fignums()


@pytest.mark.parametrize("outputs", [3, 12])
def test_bars_by_class_follow_each_other(outputs: int) -> None:
    sample = three_classes(outputs)
    ax = plots.bar(sample, max_features=4)
    sizes = np.abs(sample.values).mean(axis=0)  # (p, k)
    order = np.argsort(-sizes.sum(axis=1))[:4]
    shown = min(outputs, 8)
    assert len(bars(ax)) == 4 * shown
    ends = [bar.get_x() + bar.get_width() for bar in bars(ax)[-4:]]
    assert ends == pytest.approx(sizes[order].sum(axis=1))
    names = legend_texts(ax)
    assert len(names) == shown
    assert names[-1] == ("5 others" if outputs == 12 else f"class {outputs - 1}")
    check_texts(ax)
