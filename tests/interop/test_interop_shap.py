"""Our explanations in every plot of shap, and as tables."""

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from peer_library import peer
from shearshap import Explainer, Explanation, InputError
from shearshap.interop.shap import OPTIONS, RENAMED
from small_explanation import NAMES, explanation, texts

shap = peer("shap")
mpl.use("Agg")
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


def test_a_clustering_of_columns_is_a_hierarchy_with_the_values_of_shap() -> None:
    rows = table(20)
    masker = shap.maskers.Partition(rows[:7])
    ours = Explainer(product, masker, method="exact")(rows[:3])
    linked = Explainer(product, rows[:7], groups=masker.clustering, method="exact")(rows[:3])
    theirs = shap.explainers.Partition(product, masker)(rows[:3], max_evals=1000)
    np.testing.assert_array_equal(ours.values, linked.values)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-9)
    prepared = Explainer(product, masker, method="exact").prepare(rows[:3])
    np.testing.assert_allclose(prepared.explain(rows[:3]).values, theirs.values, atol=1e-9)


def test_groups_of_the_user_come_before_a_maskers_clustering() -> None:
    rows = table(20)
    width = rows.shape[1]
    groups = [[0, width - 1], list(range(1, width - 1))]
    masker = shap.maskers.Partition(rows[:7])
    ours = Explainer(product, masker, groups=groups)(rows[:3])
    plain = Explainer(product, rows[:7], groups=groups)(rows[:3])
    np.testing.assert_array_equal(ours.values, plain.values)


@pytest.mark.parametrize(
    ("masker", "says"),
    [
        (lambda: shap.maskers.Impute(table(5)), "Impute is not supported; pass background rows"),
        (lambda: shap.maskers.Fixed(), "Fixed is not supported"),
        (lambda: shap.maskers.Composite(shap.maskers.Fixed()), "Composite .* a tuple of them"),
        (
            lambda: shap.maskers.OutputComposite(shap.maskers.Fixed(), product),
            "OutputComposite is not supported",
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


# Options and attributes of shap's explainers


def explainer(**options: Any) -> Explainer:
    return Explainer(product, **options)


@pytest.mark.parametrize("name", ["masker", "data"])
def test_a_background_by_shaps_names(name: str) -> None:
    rows = table(9)
    ours = explainer(background=rows[3:])(rows[:3])
    np.testing.assert_array_equal(explainer(**{name: rows[3:]})(rows[:3]).values, ours.values)
    with pytest.raises(InputError, match=f"background and {name} mean the same; pass only one"):
        Explainer(product, rows, **{name: rows})
    with pytest.raises(InputError, match="background and data mean the same"):
        explainer(masker=rows, data=rows)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"algorithm": "permutation"}, {"method": "permutation-antithetic"}),
        ({"algorithm": "auto", "link": shap.links.identity}, {}),
        ({"link": "identity", "feature_perturbation": "interventional"}, {}),
        ({"model_output": "probability"}, {"scale": "probability"}),
    ],
)
def test_options_that_mean_the_same(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    assert vars(explainer(**theirs)) == vars(explainer(**ours))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "logit"}, "link='logit' is a shap option; here, pass scale='log-odds'"),
        ({"link": shap.links.logit}, "link= is a shap option; here, pass scale='log-odds'"),
        (
            {"algorithm": "tree"},
            "algorithm='tree' is a shap option; here, leave it out, since trees",
        ),
        ({"model_output": "raw"}, "model_output='raw' is a shap option; here, pass scale='margin'"),
        ({"feature_perturbation": "tree_path_dependent"}, "here, leave it and the background out"),
    ],
)
def test_other_options_of_explainers_name_ours(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        explainer(background=0, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nsamples": 500}, "nsamples=500 is a shap option; here, pass budget=, which counts every model"),
        ({"npermutations": 10}, "npermutations=10 is a shap option; here, pass budget="),
        ({"check_additivity": True}, "check_additivity=True is a shap option; here, look at explanation.gap"),
        ({"l1_reg": "aic"}, "l1_reg='aic' is a shap option; here, leave it out, since all features count"),
        ({"batch_size": 100}, "batch_size=100 is a shap option; here, pass Explainer(..., batch_size=)"),
        ({"outputs": [0, 2]}, "outputs= is a shap option; here, pass Explainer(..., output=)"),
        ({"main_effects": True}, "main_effects=True is a shap option; here, pass interactions=True"),
        ({"interactions": "all"}, "interactions: expected False, True (pairs of features), or the largest size"),
    ],
)  # fmt: skip
def test_other_options_of_calls_name_ours(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        explainer(background=0)(table(2), **options)


def test_options_of_calls_that_ask_for_what_is_done_anyway() -> None:
    same: dict[str, Any] = {
        "nsamples": "auto",
        "l1_reg": 0,
        "check_additivity": False,
        "error_bounds": True,
    }
    ours = explainer(background=0)(table(2))
    theirs = explainer(background=0)(table(2), **same)
    np.testing.assert_array_equal(ours.values, theirs.values)


def test_a_name_that_neither_library_has_is_a_type_error_as_ever() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'bugdet'"):
        explainer(background=0)(table(2), bugdet=8)  # type: ignore[call-arg]


def test_every_option_of_the_table_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "coming-from.md").read_text()
    for name in {**RENAMED, **OPTIONS}.keys() - {"max_players", "player"}:
        assert re.search(rf"\b{name}\b", page), name


def test_log_odds_are_shaps_logit_against_one_row() -> None:
    """Against several, shap takes the log-odds of the mean; here it is the mean of log-odds."""

    def chance(rows: Any) -> Any:
        return 1 / (1 + np.exp(-pairwise_of_three(rows)))

    rows = table(4)
    ours = Explainer(chance, rows[3:], scale="log-odds", returns="probability")(rows[:3])
    theirs = shap.KernelExplainer(chance, rows[3:], link="logit")
    np.testing.assert_allclose(
        ours.values, theirs.shap_values(rows[:3], l1_reg=0, silent=True), atol=1e-6
    )


def test_attributes_of_shaps_explainers() -> None:
    rows = table(9)
    ours = Explainer(pairwise_of_three, rows[:6])
    theirs = shap.KernelExplainer(pairwise_of_three, rows[:6])
    np.testing.assert_allclose(
        ours.shap_values(rows[6:], silent=True),
        theirs.shap_values(rows[6:], l1_reg=0, silent=True),
        atol=1e-9,
    )
    assert ours.expected_value == pytest.approx(theirs.expected_value)
    pairs = ours.shap_interaction_values(rows[6:])
    np.testing.assert_allclose(pairs.sum(axis=2), ours.shap_values(rows[6:]), atol=1e-9)


@pytest.mark.parametrize("background", [table(5), table(5)[0], ("mean", table(5))])
def test_the_expected_value_is_that_of_every_explanation(background: Any) -> None:
    several = Explainer(lambda rows: rows[:, :2], background)
    np.testing.assert_allclose(several.expected_value, several(table(2)).expected_value)
    frame = pd.DataFrame(table(5), columns=COLUMNS)
    one = Explainer(lambda rows: rows["age"] * rows["pay"], frame)
    assert one.expected_value == pytest.approx(one(frame[:2]).expected_value)


FRAME = pd.DataFrame(table(5), columns=COLUMNS)


@pytest.mark.parametrize(
    "background",
    [
        table(5).tolist(), table(1)[0].tolist(), 0, 1.5, FRAME.iloc[0], dict(FRAME.iloc[0]),
        ("median", FRAME), FRAME.to_numpy(),
    ],
    ids=["rows", "row", "number", "float", "Series", "dict", "statistic", "array"],
)  # fmt: skip
def test_backgrounds_that_calls_take_have_an_expected_value(background: Any) -> None:
    model = LinearRegression().fit(FRAME, FRAME["age"] ** 2)
    explainer = Explainer(model, background)
    assert explainer.expected_value == pytest.approx(explainer(FRAME[:2]).expected_value)


def test_several_inputs_have_an_expected_value() -> None:
    explainer = Explainer(lambda a, b: a[:, 0] * b[:, 1], (table(5), table(5)))
    found = explainer((table(2), table(2))).expected_value
    assert explainer.expected_value == pytest.approx(found)


def test_without_background_rows_the_expected_value_is_that_of_an_explanation() -> None:
    with pytest.raises(InputError, match=r"got none; try explainer\(rows\)"):
        explainer(background=0).expected_value  # noqa: B018


@pytest.mark.parametrize("named", [False, True])
def test_without_a_background_the_expected_value_of_trees_is_that_of_their_covers(
    named: bool,
) -> None:
    rows: Any = pd.DataFrame(table(60), columns=COLUMNS) if named else table(60)
    target = table(60).sum(axis=1)
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(rows, target)
    ours = Explainer(forest, groups=[[0, 1], [2]])
    assert ours.expected_value == pytest.approx(shap.TreeExplainer(forest).expected_value)
    assert ours.expected_value == pytest.approx(ours(rows[:2]).expected_value)
    classes = RandomForestClassifier(5, max_depth=3, random_state=0).fit(rows, target > 0)
    several = Explainer(classes.predict_proba)
    np.testing.assert_allclose(several.expected_value, several(rows[:2]).expected_value)


def test_trees_whose_rows_are_no_zeros_ask_for_an_explanation() -> None:
    words = pd.DataFrame({"plan": ["basic", "plus"] * 20, "age": np.arange(40.0)})
    encode = make_column_transformer((OneHotEncoder(), ["plan"]), remainder="passthrough")
    pipe = make_pipeline(encode, RandomForestRegressor(3, random_state=0)).fit(words, words.age)
    with pytest.raises(InputError, match=r"got none; try explainer\(rows\)"):
        Explainer(pipe).expected_value  # noqa: B018
    assert Explainer(pipe)(words[:3]).expected_value == pytest.approx(19.5, abs=3)


def pairwise_of_three(rows: Any) -> Any:
    return rows[:, 0] * rows[:, 1] - 2 * rows[:, 1] * rows[:, 2]
