"""Our explanations in every plot of shap, and as tables."""

import copy
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from shearshap import Explainer, Explanation, InputError, ShearWarning, explain, explain_game

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    shap = pytest.importorskip("shap", reason="the peers extra is not installed")

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

NAMES = ["age", "job", "pay", "sex"]
ROWS = 12

pytestmark = [
    pytest.mark.usefixtures("_seeded_and_closed"),
    pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded:FutureWarning"),
    pytest.mark.filterwarnings(
        "ignore:The set_(bad|over|under) function:PendingDeprecationWarning"
    ),
]


@pytest.fixture
def _seeded_and_closed() -> Iterator[None]:
    """shap draws jitter from the global generators."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    yield
    np.random.set_state(state)  # noqa: NPY002
    plt.close("all")


def explanation(
    *, outputs: tuple[int, ...] = (), errors: bool = True, words: bool = False, rows: int = ROWS
) -> Explanation:
    """Values that are largest for "pay", then "sex", "age" and "job"."""
    rng = np.random.default_rng(0)
    size = np.array([0.5, 0.1, 3.0, 1.0]).reshape(4, *[1] * len(outputs))
    values = rng.normal(size=(rows, 4, *outputs)) * size
    base = rng.normal(size=(rows, *outputs))
    shown = np.array([["41", "cook", "9.5", None]] * rows, dtype=object)
    return Explanation(
        values=values,
        base_values=base,
        predictions=base + values.sum(axis=1),
        standard_errors=np.full(values.shape, 0.125) if errors else None,
        evaluations=64,
        derivative_passes=0,
        method="kriging",
        seed=0,
        feature_names=NAMES,
        output_names=["yes", "no", "maybe"][: outputs[0]] if outputs else ["output"],
        data=rng.normal(size=(rows, 4)),
        display_data=shown if words else None,
    )


KINDS: dict[str, Explanation] = {
    "plain": explanation(),
    "words, no errors": explanation(words=True, errors=False),
    "one of several outputs": explanation(outputs=(3,)),
}


@pytest.fixture(params=KINDS)
def ours(request: pytest.FixtureRequest) -> Explanation:
    """An explanation of one output, with what shap is to see of it."""
    return KINDS[request.param].output(-1)


@pytest.fixture
def theirs(ours: Explanation, request: pytest.FixtureRequest) -> Any:  # noqa: ARG001 - it makes the parameter
    """What shap gets of it: of several outputs, the last."""
    whole = KINDS[request.node.callspec.params["ours"]].to_shap()
    return whole[:, :, 2] if len(whole.shape) == 3 else whole


def labels(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels() if label.get_text()]


def by_size(values: Any) -> list[str]:
    return [NAMES[player] for player in np.argsort(-np.abs(values))]


def texts(figure: Any = None) -> str:
    return "\n".join(text.get_text() for text in (figure or plt.gcf()).findobj(mpl.text.Text))


def test_numbers_are_ours(ours: Explanation, theirs: Any) -> None:
    np.testing.assert_array_equal(theirs.values, ours.values)
    np.testing.assert_array_equal(theirs.base_values, ours.base_values)
    np.testing.assert_array_equal(theirs.data, ours.data)
    assert list(theirs.feature_names) == NAMES
    if ours.display_data is not None:
        assert theirs.display_data.tolist() == [["41", "cook", "9.5", "missing"]] * ROWS
    if ours.standard_errors is None:
        assert theirs.lower_bounds is None
    else:
        np.testing.assert_allclose((theirs.lower_bounds, theirs.upper_bounds), ours.interval())


def test_several_outputs_go_by_number_and_name() -> None:
    ours = explanation(outputs=(3,))
    theirs = ours.to_shap()
    assert theirs.shape == (ROWS, 4, 3)
    assert list(theirs.output_names) == ["yes", "no", "maybe"]
    np.testing.assert_array_equal(theirs[:, :, "no"].values, ours.output("no").values)
    np.testing.assert_array_equal(theirs[4, :, 1].base_values, ours.base_values[4, 1])
    np.testing.assert_array_equal(theirs[4, :, 1].upper_bounds, ours.output("no").interval()[1][4])


def test_bar_of_all_rows(ours: Explanation, theirs: Any) -> None:
    axes = shap.plots.bar(theirs, show=False)
    assert list(dict.fromkeys(labels(axes))) == by_size(np.abs(ours.values).mean(axis=0))
    widths = sorted(patch.get_width() for patch in axes.patches)
    np.testing.assert_allclose(widths, sorted(np.abs(ours.values).mean(axis=0)))


def test_bar_of_one_row(ours: Explanation, theirs: Any) -> None:
    axes = shap.plots.bar(theirs[3], show=False)
    np.testing.assert_allclose(
        sorted(patch.get_width() for patch in axes.patches), sorted(ours.values[3])
    )
    shown = [label for label in labels(axes) if "=" in label]
    assert list(dict.fromkeys(label.split(" = ")[1] for label in shown)) == by_size(ours.values[3])
    if ours.display_data is not None:
        assert "cook = job" in shown


def test_bar_of_cohorts(ours: Explanation, theirs: Any) -> None:
    assert ours.data is not None
    old = ours.data[:, 0] > 0
    axes = shap.plots.bar(
        theirs.cohorts(["old" if is_old else "young" for is_old in old]).abs.mean(0), show=False
    )
    widths = sorted(patch.get_width() for patch in axes.patches)
    means = [np.abs(ours.values[group]).mean(axis=0) for group in (old, ~old)]
    np.testing.assert_allclose(widths, np.sort(np.concatenate(means)))
    assert "old" in texts()


def test_beeswarm(ours: Explanation, theirs: Any) -> None:
    axes = shap.plots.beeswarm(theirs, show=False)
    assert labels(axes)[::-1] == by_size(np.abs(ours.values).mean(axis=0))
    drawn = [
        points.get_offsets()[:, 0]
        for points in axes.collections
        if len(points.get_offsets()) == ROWS
    ]
    for points, name in zip(drawn, labels(axes), strict=True):
        np.testing.assert_allclose(np.sort(points), np.sort(ours.values[:, NAMES.index(name)]))


def test_waterfall(ours: Explanation, theirs: Any) -> None:
    axes = shap.plots.waterfall(theirs[3], show=False)
    names = [label for label in labels(axes) if any(name in label for name in NAMES)]
    order = by_size(ours.values[3])[::-1]
    assert [name for label in names[:4] for name in NAMES if name in label] == order
    assert f"{ours.predictions[3]:.3f}".replace("-", "−") in texts()
    assert f"{ours.base_values[3]:.3f}".replace("-", "−") in texts()
    containers = plt.gcf().axes[0].containers
    bars = [line for line in containers if isinstance(line, mpl.container.ErrorbarContainer)]
    lines = [piece for bar in bars for group in bar.lines[2] for piece in group.get_segments()]
    if ours.standard_errors is None:
        assert not lines
    else:
        lower, upper = ours.interval()
        np.testing.assert_allclose([np.ptp(line[:, 0]) for line in lines], (upper - lower)[3])


def test_scatter(ours: Explanation, theirs: Any) -> None:
    axes = shap.plots.scatter(theirs[:, "age"], x_jitter=0, show=False, hist=False)
    assert ours.data is not None
    points = np.concatenate([np.asarray(drawn.get_offsets()) for drawn in axes.collections])
    expected = np.column_stack((ours.data[:, 0], ours.values[:, 0]))
    np.testing.assert_allclose(points[points[:, 0].argsort()], expected[expected[:, 0].argsort()])
    assert axes.get_xlabel() == "age"


@pytest.mark.parametrize("words", [False, True])
def test_scatter_coloured_by_another_player(words: bool) -> None:
    theirs = explanation(rows=160, words=words).to_shap()
    shap.plots.scatter(theirs[:, "age"], color=theirs[:, "pay"], show=False)
    assert "pay" in texts()
    shap.plots.scatter(theirs[:, "age"], color=theirs, show=False)
    assert any(name in texts() for name in NAMES[1:])


def test_scatter_of_all_players(theirs: Any) -> None:
    shap.plots.scatter(theirs, show=False)
    assert all(name in texts() for name in NAMES)


def test_heatmap(ours: Explanation, theirs: Any) -> None:
    axes = shap.plots.heatmap(theirs, instance_order=np.arange(ROWS), show=False)
    order = by_size(np.abs(ours.values).mean(axis=0))
    assert [label for label in labels(axes) if label in NAMES] == order
    (image,) = axes.images
    np.testing.assert_allclose(
        image.get_array(), ours.values[:, [NAMES.index(name) for name in order]].T
    )
    shap.plots.heatmap(theirs, show=False)


@pytest.mark.parametrize("kind", ["violin", "layered_violin"])
def test_violin(kind: str) -> None:
    ours = explanation(rows=160)
    shap.plots.violin(ours.to_shap(), plot_type=kind, show=False)
    assert labels(plt.gcf().axes[0])[::-1] == by_size(np.abs(ours.values).mean(axis=0))


def test_force_of_one_row_by_matplotlib(ours: Explanation, theirs: Any) -> None:
    figure = shap.plots.force(theirs[3], matplotlib=True, show=False, contribution_threshold=0)
    assert f"{ours.predictions[3]:.2f}" in texts(figure)
    assert all(name in texts(figure) for name in NAMES)
    if ours.display_data is not None:
        assert "job = cook" in texts(figure)


def test_force_as_html(ours: Explanation, theirs: Any) -> None:
    one = shap.plots.force(theirs[3])
    assert one.data["baseValue"] == ours.base_values[3]
    assert [feature["effect"] for feature in one.data["features"].values()] == ours.values[
        3
    ].tolist()
    assert list(one.data["featureNames"]) == NAMES
    assert '"featureNames": ["age"' in one.html()


def test_force_of_many_rows_as_html() -> None:
    """shap draws them from one base value, which is what a reference row makes."""
    ours = replace(explanation(), base_values=np.full(ROWS, 0.25))
    many = shap.plots.force(ours.to_shap())
    assert many.data["baseValue"] == 0.25
    assert len(many.data["explanations"]) == ROWS
    effects = [
        [part["effect"] for part in row["features"].values()] for row in many.data["explanations"]
    ]
    np.testing.assert_allclose(np.sort(effects, axis=1), np.sort(ours.values, axis=1))


def test_decision_takes_arrays(ours: Explanation, theirs: Any) -> None:
    shap.plots.decision(
        float(theirs.base_values[0]),
        theirs.values,
        theirs.data,
        feature_names=list(theirs.feature_names),
        show=False,
    )
    axes = plt.gcf().axes[0]
    assert labels(axes)[::-1] == by_size(np.abs(ours.values).sum(axis=0))
    lines = [np.asarray(line.get_xdata()) for line in axes.lines]
    ends = np.sort([line[-1] for line in lines if len(line) == 5])
    np.testing.assert_allclose(ends, np.sort(ours.base_values[0] + ours.values.sum(axis=1)))


def test_group_difference_takes_arrays(ours: Explanation, theirs: Any) -> None:
    group = np.arange(ROWS) < 5
    _, axes = plt.subplots()
    shap.plots.group_difference(
        theirs.values, group, list(theirs.feature_names), show=False, ax=axes
    )
    difference = ours.values[group].mean(axis=0) - ours.values[~group].mean(axis=0)
    assert labels(axes) == by_size(difference)


def test_embedding_takes_arrays(theirs: Any) -> None:
    shap.plots.embedding("age", theirs.values, list(theirs.feature_names), show=False)
    assert "age" in texts()


def test_monitoring_takes_arrays() -> None:
    theirs = explanation(rows=160).to_shap()
    shap.plots.monitoring(2, theirs.values, theirs.data, theirs.feature_names, show=False)
    assert "pay" in texts()


def test_partial_dependence_takes_arrays(ours: Explanation, theirs: Any) -> None:
    """It fails on any Explanation with a base value for every row, those of shap's own explainers included."""
    assert ours.data is not None
    model = {
        "ind": 0,
        "model": lambda rows: rows.sum(axis=1),
        "ice": False,
        "npoints": 5,
        "show": False,
    }
    shap.plots.partial_dependence(
        **model, data=theirs.data, feature_names=list(theirs.feature_names)
    )
    (line,) = (line for line in plt.gcf().axes[0].lines if len(np.asarray(line.get_xdata())) == 5)
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    np.testing.assert_allclose(y, x + ours.data[:, 1:].sum(axis=1).mean())


def test_text_takes_tokens_as_data() -> None:
    """Words have no number: without `data`, shap gets `display_data` for it."""
    words = np.array(
        [["a ", "very ", "good ", "film"], ["such ", "a ", "bad ", "one"]], dtype=object
    )
    ours = replace(explanation(rows=2), data=None, display_data=words)
    page = shap.plots.text(ours.to_shap(), display=False)
    assert all(word.strip() in page for word in words.ravel())
    assert f"{ours.values[0, 0]:.3f}".rstrip("0") in page
    several = replace(explanation(rows=2, outputs=(3,)), data=None, display_data=words).to_shap()
    assert "maybe" in shap.plots.text(several[0], display=False)


def test_image_takes_values_in_the_shape_of_the_image() -> None:
    def model(rows: Any) -> Any:
        return np.stack((rows[:, 0, 0, 0] * rows[:, 1, 1, 0], rows.sum(axis=(1, 2, 3))), axis=1)

    pixels = np.random.default_rng(0).random((3, 2, 2, 1))
    theirs = explain(model, pixels, reference=np.zeros((2, 2, 1)), budget=16).to_shap()
    shaped = shap.Explanation(
        theirs.values.reshape(3, 2, 2, 1, 2),
        theirs.base_values,
        pixels,
        output_names=["product", "sum"],
    )
    shap.plots.image(shaped, show=False)
    drawn = np.asarray(plt.gcf().axes[2].images[-1].get_array())
    np.testing.assert_allclose(drawn, pixels[0, :, :, 0])
    assert "product" in texts()


def test_every_plot_of_shap_is_covered() -> None:
    """Not applicable: shap's own benchmarks, its script for notebooks, and models that write text about images."""
    tests = [name for name in globals() if name.startswith("test_")]
    missing = {
        plot
        for plot in shap.plots.__all__
        if not any(name.startswith(f"test_{plot}") for name in tests)
    }
    assert missing == {"benchmark", "initjs", "image_to_text"}


def test_plots_leave_our_numbers_alone() -> None:
    ours, untouched = explanation(), explanation()
    theirs = ours.to_shap()
    shap.plots.bar(theirs, max_display=2, show=False)
    shap.plots.beeswarm(theirs, max_display=2, show=False)
    shap.plots.heatmap(theirs, max_display=2, show=False)
    shap.plots.waterfall(theirs[0], max_display=2, show=False)
    np.testing.assert_array_equal(ours.values, untouched.values)
    np.testing.assert_array_equal(ours.data, untouched.data)


# Times and interactions


def test_the_compute_time_is_that_of_the_run() -> None:
    def slow(rows: Any) -> Any:
        time.sleep(0.01)
        return rows.sum(axis=1)

    ours = Explainer(slow, np.zeros(3))(np.ones((2, 3)))
    assert ours.seconds is not None
    assert 0.02 <= ours.seconds < 5
    assert ours.to_shap().compute_time == ours.seconds
    game = explain_game(lambda z: z.sum(axis=1), players=3, budget=8)
    assert isinstance(game.to_shap().compute_time, float)


def test_seconds_add_up_and_are_not_part_of_a_file(tmp_path: Path) -> None:
    parts = [replace(explanation(rows=2), seconds=seconds) for seconds in (1.5, 2.0)]
    whole = Explanation.concat(parts)
    assert whole.seconds == 3.5
    whole.save(tmp_path / "whole.npz")
    assert Explanation.load(tmp_path / "whole.npz").seconds is None
    assert Explanation.concat([parts[0], explanation(rows=2)]).seconds is None
    assert whole[:2].seconds is None


def pairwise(rows: Any) -> Any:
    """A model whose interactions are all of pairs."""
    return rows[:, 0] * rows[:, 1] - 2 * rows[:, 1] * rows[:, 2] + rows[:, 3] + rows[:, 0] ** 2


def test_interactions_are_halved_on_each_side_as_in_shap() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 4))
    theirs = shap.explainers.ExactExplainer(pairwise, shap.maskers.Independent(rows[:5]))(
        rows[5:], interactions=True, silent=True
    )
    ours = Explainer(pairwise, rows[:5])(rows[5:], budget=16 * 5, interactions=True)
    there = ours.to_shap(interactions=True)
    assert there.values.shape == (4, 4, 4)
    np.testing.assert_allclose(there.values, theirs.values, atol=1e-9)
    np.testing.assert_allclose(there.values.sum(axis=2), ours.values, atol=1e-9)
    np.testing.assert_allclose(there.base_values, theirs.base_values)
    np.testing.assert_array_equal(there.data, rows[5:])
    assert there.compute_time == ours.seconds


def test_interactions_of_several_outputs() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 4))
    ours = Explainer(lambda x: np.stack((pairwise(x), x[:, 0]), axis=1), np.zeros(4))(
        rows, budget=16, interactions=True
    )
    theirs = ours.to_shap(interactions=True)
    assert theirs.values.shape == (3, 4, 4, 2)
    np.testing.assert_allclose(theirs.values.sum(axis=2), ours.values, atol=1e-12)
    one = ours.output(0).to_shap(interactions=True)
    np.testing.assert_array_equal(theirs[..., 0].values, one.values)


def test_without_interactions_the_error_says_how_to_get_them() -> None:
    with pytest.raises(InputError, match=r"to_shap: .* no interactions; explain with interactions"):
        explanation().to_shap(interactions=True)


def test_slices_of_what_shap_gets() -> None:
    ours = explanation(outputs=(3,))
    theirs = ours.to_shap()
    np.testing.assert_array_equal(theirs[2:5, :, "no"].values, ours.values[2:5, :, 1])
    np.testing.assert_array_equal(theirs[:, "pay", 0].values, ours.values[:, 2, 0])
    np.testing.assert_array_equal(theirs[3, ["pay", "age"], 2].values, ours.values[3, [2, 0], 2])
    np.testing.assert_array_equal(theirs[..., -1].base_values, ours.base_values[:, -1])
    kept = ours.base_values[:, 0] > 0
    np.testing.assert_array_equal(theirs[kept].values, ours.values[kept])
    by_size = theirs[:, :, 0].abs.mean(0)
    np.testing.assert_allclose(by_size.values, np.abs(ours.values[:, :, 0]).mean(axis=0))


# Backgrounds and arguments of shap


COLUMNS = ["age", "job", "pay"]


def table(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 3)).round(2)


def product(rows: Any) -> Any:
    return rows[:, 0] * rows[:, 1] + np.exp(rows[:, 2])


def test_the_weights_of_kmeans_count() -> None:
    rows = np.concatenate((table(30), table(5, seed=1) + 4))
    summary = shap.kmeans(rows, 3)
    assert np.ptp(summary.weights) > 0.1
    theirs = shap.KernelExplainer(product, summary)
    ours = Explainer(product, summary)(rows[:4], budget=8 * 3)
    np.testing.assert_allclose(ours.base_values, theirs.expected_value)
    np.testing.assert_allclose(
        ours.values, theirs.shap_values(rows[:4], l1_reg=0, silent=True), atol=1e-9
    )


def test_the_weights_of_kmeans_count_where_a_network_is_differentiated() -> None:
    torch = pytest.importorskip("torch")
    rows = np.concatenate((table(30), table(5, seed=1) + 4)).astype(np.float32)
    summary = shap.kmeans(rows, 3)

    class Pairs(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x[:, 0] * x[:, 1] + x[:, 2]

    ours = Explainer(Pairs(), summary, method="shear")(rows[:2], budget=3 * 26, interactions=True)
    there = explain_game(
        lambda z: np.stack([
            Pairs()(torch.tensor(np.where(one, rows[1], summary.data))).numpy() @ summary.weights
            for one in z
        ]),
        players=3,
        budget=8,
    )  # fmt: skip
    np.testing.assert_allclose(ours.values[1], there.values[0], atol=1e-5)
    assert ours.cross_contribution is not None
    np.testing.assert_allclose(ours.cross_contribution[:, 0, 2], 0, atol=1e-6)


def test_kmeans_of_a_frame_and_of_equal_weights() -> None:
    pd = pytest.importorskip("pandas")
    linear = pytest.importorskip("sklearn.linear_model")
    frame = pd.DataFrame(table(30), columns=COLUMNS)
    model = linear.LinearRegression().fit(frame, product(table(30)))
    summary = shap.kmeans(frame, 3)
    mean = summary.weights @ summary.data
    ours = Explainer(model, summary)(frame[:4])
    np.testing.assert_allclose(ours.values, model.coef_ * (frame[:4].to_numpy() - mean), atol=1e-9)

    equal = copy.copy(summary)
    equal.weights = np.ones(3)
    plain = Explainer(model, pd.DataFrame(summary.data, columns=COLUMNS))(frame[:4])
    np.testing.assert_array_equal(Explainer(model, equal)(frame[:4]).values, plain.values)


def test_independent_maskers_and_samples_are_backgrounds() -> None:
    rows = table(20)
    plain = Explainer(product, rows[:7])(rows[:3])
    masked = Explainer(product, shap.maskers.Independent(rows[:7]))(rows[:3], max_evals="auto")
    np.testing.assert_array_equal(masked.values, plain.values)
    sampled = Explainer(product, shap.sample(rows, 7))(rows[:3])
    np.testing.assert_allclose(sampled.base_values, product(shap.sample(rows, 7)).mean())
    fewer = Explainer(product, shap.maskers.Independent(rows, max_samples=7))(rows[:3])
    np.testing.assert_allclose(fewer.base_values, product(shap.sample(rows, 7)).mean())


def test_a_masker_of_a_frame_goes_by_names() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table(20), columns=COLUMNS).assign(job=["cook", "judge"] * 10)

    def model(rows: Any) -> Any:
        assert list(rows.columns) == COLUMNS
        return rows["age"] * (rows["job"] == "cook") + rows["pay"]

    class Named:
        feature_names_in_ = np.array(COLUMNS, dtype=object)
        predict = staticmethod(model)

    masker = shap.maskers.Independent(frame[:6][["pay", "age", "job"]])
    ours = Explainer(Named(), masker)(frame[10:13])
    plain = Explainer(Named(), frame[:6])(frame[10:13])
    np.testing.assert_allclose(ours.values, plain.values)


def test_a_clustering_of_columns_is_not_used_and_told() -> None:
    rows = table(20)
    with pytest.warns(ShearWarning, match="shap's Partition has a clustering .* not Owen") as told:
        ours = Explainer(product, shap.maskers.Partition(rows[:7]))(rows[:3])
    assert told[0].filename == __file__
    np.testing.assert_array_equal(ours.values, Explainer(product, rows[:7])(rows[:3]).values)


@pytest.mark.parametrize(
    ("masker", "says"),
    [
        (lambda: shap.maskers.Impute(table(5)), "Impute cannot be used here; pass the rows"),
        (lambda: shap.maskers.Fixed(), "Fixed cannot be used here; it masks nothing"),
        (lambda: shap.maskers.Image(np.zeros((2, 2, 3)), (2, 2, 3)), "Image .*; pass an image"),
        (lambda: shap.maskers.Composite(shap.maskers.Fixed()), "Composite .* as a tuple"),
        (
            lambda: shap.maskers.OutputComposite(shap.maskers.Fixed(), product),
            "OutputComposite cannot be used here; pass what it wraps",
        ),
    ],
)
def test_other_maskers_are_refused_by_name(masker: Callable[[], Any], says: str) -> None:
    with pytest.raises(InputError, match=f"background: shap's {says}"):
        Explainer(product, masker())(table(3))


def test_weights_of_several_inputs_and_groups_of_columns_are_refused() -> None:
    summary = shap.kmeans(np.concatenate((table(30), table(5) + 4)), 3)
    with pytest.raises(InputError, match=r"background: the rows of shap\.kmeans have weights"):
        Explainer(lambda a, b: a.sum(axis=1) + b.sum(axis=1), (summary, np.zeros(3)))(
            (table(2), table(2))
        )
    with pytest.raises(InputError, match=r"weights, which no statistic .*; pass \('mean', rows\)"):
        Explainer(product, ("mean", summary))(table(2))
    summary.groups = [np.array([0, 1]), np.array([2])]
    with pytest.raises(InputError, match="background: shap's DenseData has groups of columns"):
        Explainer(product, summary)(table(2))


def test_a_masker_may_be_in_a_statistic_and_a_function_may_not_be_a_masker() -> None:
    rows = table(5)
    ours = Explainer(product, ("mean", shap.maskers.Independent(rows)))(rows)
    plain = Explainer(product, ("mean", rows))(rows)
    np.testing.assert_array_equal(ours.values, plain.values)
    masker: Any = np.multiply
    with pytest.raises(InputError, match="background: wanted rows, got a function; shap takes one"):
        Explainer(product, masker)(rows)


def test_max_evals_may_be_auto() -> None:
    rows = table(3)
    plain = Explainer(product, np.zeros(3))(rows)
    ours = Explainer(product, np.zeros(3))(rows, max_evals="auto", silent=True)
    np.testing.assert_array_equal(ours.values, plain.values)
    assert ours.evaluations == plain.evaluations


def test_an_explanation_without_data_is_drawn_by_those_that_need_none() -> None:
    theirs = replace(explanation(), data=None).to_shap()
    assert labels(shap.plots.bar(theirs, show=False))
    plt.close("all")
    assert labels(shap.plots.beeswarm(theirs, show=False))
    plt.close("all")
    assert "pay" in "".join(labels(shap.plots.waterfall(theirs[0], show=False)))


def test_without_shap_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(InputError, match="to_shap needs shap: pip install shap"):
        explanation().to_shap()


BACKENDS: list[Literal["pandas", "polars", "pyarrow"]] = ["pandas", "polars", "pyarrow"]


def records(frame: Any) -> list[dict[str, Any]]:
    """Every line of a table as a dict, with None for what is missing."""
    import narwhals as nw

    lines = nw.from_native(frame).rows(named=True)
    return [
        {name: None if value is None or value != value else value for name, value in line.items()}
        for line in lines
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("outputs", [(), (3,)])
def test_tables_hold_a_line_for_each_row_player_and_output(
    backend: Any, outputs: tuple[int, ...]
) -> None:
    pytest.importorskip(backend)
    ours = explanation(outputs=outputs, rows=2)
    lines = iter(records(ours.to_frame(backend)))
    assert ours.data is not None
    for row in range(2):
        for player, name in enumerate(NAMES):
            for number, output in enumerate(ours.output_names):
                one = ours.output(number)
                assert one.standard_errors is not None
                assert next(lines) == {
                    "row": row,
                    "output": output,
                    "player": name,
                    "value": one.values[row, player],
                    "standard_error": one.standard_errors[row, player],
                    "data": ours.data[row, player],
                    "base_value": one.base_values[row],
                    "prediction": one.predictions[row],
                }
    assert next(lines, None) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_missing_is_null_in_a_table(backend: Any) -> None:
    import narwhals as nw

    pytest.importorskip(backend)
    ours = explanation(errors=False, words=True, rows=2)
    assert ours.display_data is not None
    ours.display_data[1, 2] = float("nan")
    frame = nw.from_native(ours.to_frame(backend))
    assert frame["data"].to_list()[:3] == ["41", "cook", "9.5"]
    assert frame["data"].is_null().to_list() == [
        False,
        False,
        False,
        True,
        False,
        False,
        True,
        True,
    ]
    assert frame.schema["data"] == nw.String
    assert frame["standard_error"].is_null().all()
    assert frame.schema["standard_error"] == nw.Float64
    numbers = explanation(rows=1)
    assert numbers.data is not None
    numbers.data[0, 1] = np.nan
    frame = nw.from_native(numbers.to_frame(backend))
    assert frame["data"].is_null().to_list() == [False, True, False, False]
    assert "data" not in nw.from_native(replace(numbers, data=None).to_frame(backend)).columns


def test_a_backend_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError("No module named 'polars'")

    monkeypatch.setattr("narwhals.from_dict", absent)
    with pytest.raises(InputError, match="backend='polars' is not installed: pip install polars"):
        explanation().to_frame("polars")
