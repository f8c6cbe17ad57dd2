"""Our explanations in every plot of shap, and as tables."""

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from shearshap import Explainer, Explanation, InputError, ShearWarning
from small_explanation import NAMES, explanation, texts

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    shap = pytest.importorskip("shap", reason="the peers extra is not installed")

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

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


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (explanation(), explanation().to_shap()),
        (explanation(words=True, errors=False), explanation(words=True, errors=False).to_shap()),
        (explanation(outputs=(3,)).output(-1), explanation(outputs=(3,)).to_shap()[:, :, 2]),
    ],
    ids=["plain", "words, no errors", "one of several outputs"],
)
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


#: They take our explanations, and draw every name; what else they draw is theirs.
PLOTS: dict[str, Callable[[Any], Any]] = {
    **{
        name: partial(getattr(shap.plots, name), show=False)
        for name in ("bar", "beeswarm", "scatter", "heatmap", "violin")
    },
    "waterfall": lambda theirs: shap.plots.waterfall(theirs[3], show=False),
    "bar of a row": lambda theirs: shap.plots.bar(theirs[3], show=False),
    "bar of cohorts": lambda theirs: shap.plots.bar(theirs.cohorts(2).abs.mean(0), show=False),
    "force": lambda theirs: shap.plots.force(
        theirs[3], matplotlib=True, show=False, contribution_threshold=0
    ),
    "decision": lambda theirs: shap.plots.decision(
        0.25, theirs.values, theirs.data, feature_names=list(theirs.feature_names), show=False
    ),
    "group difference": lambda theirs: shap.plots.group_difference(
        theirs.values, np.arange(ROWS) < 5, list(theirs.feature_names), show=False
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("plot", PLOTS)
def test_plots_draw_every_player(plot: str) -> None:
    PLOTS[plot](explanation(words=True, errors=False).to_shap())
    assert all(name in texts(plt.gcf()) for name in NAMES)


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


def test_plots_leave_our_numbers_alone() -> None:
    ours, untouched = explanation(), explanation()
    theirs = ours.to_shap()
    shap.plots.bar(theirs, max_display=2, show=False)
    shap.plots.beeswarm(theirs, max_display=2, show=False)
    shap.plots.heatmap(theirs, max_display=2, show=False)
    shap.plots.waterfall(theirs[0], max_display=2, show=False)
    np.testing.assert_array_equal(ours.values, untouched.values)
    np.testing.assert_array_equal(ours.data, untouched.data)


def pairwise(rows: Any) -> Any:
    """A model whose interactions are all of pairs."""
    return rows[:, 0] * rows[:, 1] - 2 * rows[:, 1] * rows[:, 2] + rows[:, 3] + rows[:, 0] ** 2


def test_interactions_are_halved_on_each_side_as_in_shap() -> None:
    ours = explanation(interactions=True)
    assert ours.interactions is not None
    theirs = ours.to_shap(interactions=True)
    both = theirs.values + theirs.values.swapaxes(1, 2)
    np.testing.assert_allclose(both, ours.interactions * (1 + np.eye(4)))
    np.testing.assert_array_equal(theirs.values, theirs.values.swapaxes(1, 2))
    np.testing.assert_array_equal(theirs.data, ours.data)

    rows = np.random.default_rng(0).normal(size=(9, 4))
    exact = Explainer(pairwise, rows[:5])(rows[5:], budget=16 * 5, interactions=True)
    there = exact.to_shap(interactions=True)
    np.testing.assert_allclose(there.values.sum(axis=2), exact.values, atol=1e-9)
    np.testing.assert_array_equal(there.base_values, exact.base_values)
    assert there.compute_time == exact.seconds


def test_without_interactions_the_error_says_how_to_get_them() -> None:
    with pytest.raises(InputError, match=r"to_shap: .* no interactions; explain with interactions"):
        explanation().to_shap(interactions=True)


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
        (lambda: shap.maskers.Impute(table(5)), "Impute cannot be used here; pass background rows"),
        (lambda: shap.maskers.Fixed(), "Fixed cannot be used here"),
        (lambda: shap.maskers.Composite(shap.maskers.Fixed()), "Composite .* a tuple of them"),
        (
            lambda: shap.maskers.OutputComposite(shap.maskers.Fixed(), product),
            "OutputComposite cannot be used here",
        ),
    ],
)
def test_other_maskers_are_refused_by_name(masker: Callable[[], Any], says: str) -> None:
    with pytest.raises(InputError, match=f"background: shap's {says}"):
        Explainer(product, masker())(table(3))


def test_a_masker_may_be_in_a_statistic_and_a_function_may_not_be_a_masker() -> None:
    rows = table(5)
    ours = Explainer(product, ("mean", shap.maskers.Independent(rows)))(rows)
    plain = Explainer(product, ("mean", rows))(rows)
    np.testing.assert_array_equal(ours.values, plain.values)
    masker: Any = np.multiply
    with pytest.raises(
        InputError, match="background: expected rows, got a function; shap takes one"
    ):
        Explainer(product, masker)(rows)


def test_without_shap_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(InputError, match="to_shap needs shap: pip install shap"):
        explanation().to_shap()
