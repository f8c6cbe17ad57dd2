"""Tree ensembles without a background: the path-dependent values that shap's TreeExplainer gives.

`test_values.py` compares them with the definition; here the covers of each library are those that
shap uses, for models of hyper-parameters drawn at random.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

from games import Floats
from peer_library import peer
from shearshap import Explainer, Explanation, InputError
from shearshap.apps.jobs import Job
from shearshap.errors import ModelError
from shearshap.trees import readers
from shearshap.trees.solver import METHOD

shap = peer("shap")

Rng = np.random.Generator
RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(300, 6))
GAPS = np.where(RNG.random(ROWS.shape) < 0.1, np.nan, ROWS)
REAL = ROWS[:, 0] * ROWS[:, 1] + ROWS[:, 2] * np.abs(ROWS[:, 3]) + ROWS[:, 4] / 3
TWO = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-0.5, 0.5])
WEIGHTS = RNG.exponential(size=len(ROWS))
CITY = pd.Categorical(RNG.choice(["Bern", "Oslo", "Rome", "Ulm", "Vaduz"], len(ROWS)))
FRAME = pd.DataFrame({"city": CITY, "age": GAPS[:, 0], "pay": ROWS[:, 1], "loans": ROWS[:, 2] > 0})
WORTH = CITY.codes % 2 * ROWS[:, 0] + ROWS[:, 1] * (ROWS[:, 2] > 0)


def xgb(rng: Rng) -> dict[str, Any]:
    return {
        "n_estimators": int(rng.integers(3, 20)),
        "max_depth": int(rng.integers(1, 12)),
        "learning_rate": float(rng.uniform(0.05, 0.5)),
        "subsample": float(rng.uniform(0.5, 1)),
        "colsample_bynode": float(rng.uniform(0.5, 1)),
        "min_child_weight": float(rng.exponential()),
        "gamma": float(rng.choice([0.0, 0.1])),
        "grow_policy": str(rng.choice(["depthwise", "lossguide"])),
        "max_leaves": int(rng.choice([0, 12])),
        "n_jobs": 1,
    }


def lgb(rng: Rng) -> dict[str, Any]:
    return {
        "n_estimators": int(rng.integers(3, 20)),
        "num_leaves": int(rng.integers(2, 60)),
        "max_depth": int(rng.choice([-1, 3, 9])),
        "min_child_samples": int(rng.integers(1, 20)),
        "subsample": float(rng.uniform(0.5, 1)),
        "subsample_freq": 1,
        "colsample_bytree": float(rng.uniform(0.5, 1)),
        "min_data_per_group": 5,
        "n_jobs": 1,
        "verbose": -1,
    }


def cat(rng: Rng) -> dict[str, Any]:
    return {
        "iterations": int(rng.integers(3, 20)),
        "depth": int(rng.integers(1, 8)),
        "learning_rate": float(rng.uniform(0.05, 0.5)),
        "random_strength": float(rng.exponential()),
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
    }


def sk(rng: Rng) -> dict[str, Any]:
    return {
        "max_depth": int(rng.integers(1, 12)),
        "min_samples_leaf": int(rng.integers(1, 10)),
        "random_state": int(rng.integers(1000)),
    }


def many(rng: Rng) -> dict[str, Any]:
    return {**sk(rng), "n_estimators": int(rng.integers(3, 12))}


def monotone(rng: Rng) -> tuple[int, ...]:
    return tuple(rng.choice([-1, 0, 1], ROWS.shape[1]).tolist())


def shap_values(model: Any, rows: Any) -> tuple[Floats, Floats]:
    """Return shap's values (r, p) or (r, p, k), and its base values."""
    explainer = shap.TreeExplainer(model)
    values = np.asarray(explainer.shap_values(rows, check_additivity=False))
    return values, np.asarray(explainer.expected_value)


def xgb_contributions(model: Any, rows: Any) -> tuple[Floats, Floats]:
    """What shap asks of XGBoost, which it cannot for a frame with categories."""
    matrix = xgboost.DMatrix(rows, enable_categorical=True)
    found = model.get_booster().predict(matrix, pred_contribs=True)
    return found[..., :-1], found[0, ..., -1]


def lgb_contributions(model: Any, rows: Any) -> tuple[Floats, Floats]:
    found = np.asarray(model.predict(rows, pred_contrib=True))
    return found[:, :-1], found[0, -1]


MARGIN = {"scale": "margin"}

#: A fitted model, its rows, options, and who gives the reference.
Case = tuple[Any, Any, dict[str, Any], Callable[[Any, Any], tuple[Floats, Floats]]]
FAMILIES: dict[str, Callable[[Rng], Case]] = {
    "xgboost": lambda rng: (
        xgboost.XGBRegressor(**xgb(rng), monotone_constraints=monotone(rng)).fit(
            GAPS, REAL, sample_weight=WEIGHTS
        ), GAPS, {}, shap_values,
    ),
    "xgboost two classes": lambda rng: (
        xgboost.XGBClassifier(**xgb(rng)).fit(GAPS, TWO), GAPS, MARGIN, shap_values,
    ),
    "xgboost classes": lambda rng: (
        xgboost.XGBClassifier(**xgb(rng)).fit(GAPS, THREE), GAPS, MARGIN, shap_values,
    ),
    "xgboost categories": lambda rng: (
        xgboost.XGBRegressor(**xgb(rng), enable_categorical=True).fit(FRAME, WORTH),
        FRAME, {}, xgb_contributions,
    ),
    "lightgbm": lambda rng: (
        lightgbm.LGBMRegressor(**lgb(rng), monotone_constraints=monotone(rng)).fit(
            GAPS, REAL, sample_weight=WEIGHTS
        ), GAPS, {}, shap_values,
    ),
    "lightgbm classes": lambda rng: (
        lightgbm.LGBMClassifier(**lgb(rng)).fit(GAPS, THREE), GAPS, MARGIN, shap_values,
    ),
    "lightgbm categories": lambda rng: (
        lightgbm.LGBMRegressor(**lgb(rng)).fit(FRAME, WORTH), FRAME, {}, lgb_contributions,
    ),
    # of CatBoost's uneven trees, its own values do not add up to the prediction
    "catboost": lambda rng: (
        catboost.CatBoostRegressor(**cat(rng)).fit(GAPS, REAL, sample_weight=WEIGHTS),
        GAPS, {}, shap_values,
    ),
    "catboost classes": lambda rng: (
        catboost.CatBoostClassifier(**cat(rng)).fit(GAPS, THREE), GAPS, MARGIN, shap_values,
    ),
    "tree": lambda rng: (
        DecisionTreeRegressor(**sk(rng)).fit(ROWS, REAL, sample_weight=WEIGHTS),
        ROWS, {}, shap_values,
    ),
    "forest": lambda rng: (
        RandomForestRegressor(**many(rng)).fit(ROWS, REAL, sample_weight=WEIGHTS),
        ROWS, {}, shap_values,
    ),
    "forest of classes": lambda rng: (
        RandomForestClassifier(**many(rng)).fit(ROWS, THREE), ROWS, {}, shap_values,
    ),
    "extra trees": lambda rng: (
        ExtraTreesRegressor(**many(rng)).fit(ROWS, REAL), ROWS, {}, shap_values,
    ),
    "boosting": lambda rng: (
        GradientBoostingRegressor(**many(rng), subsample=float(rng.uniform(0.5, 1))).fit(
            ROWS, REAL
        ), ROWS, {}, shap_values,
    ),
    "boosting two classes": lambda rng: (
        GradientBoostingClassifier(**many(rng)).fit(ROWS, TWO), ROWS, MARGIN, shap_values,
    ),
    "hist": lambda rng: (
        HistGradientBoostingRegressor(
            **sk(rng), max_iter=int(rng.integers(3, 15)), monotonic_cst=list(monotone(rng))
        ).fit(GAPS, REAL), GAPS, {}, shap_values,
    ),
}  # fmt: skip


def explained(model: Any, rows: Any, **options: Any) -> Explanation:
    """Explain without a background, and without a note on it."""
    answer = Explainer(model, **options)(rows)
    assert answer.method == METHOD
    assert answer.notes == ()
    return answer


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_those_of_shap(family: str, seed: int) -> None:
    model, rows, options, reference = FAMILIES[family](np.random.default_rng(seed))
    some = rows[:40]
    answer = explained(model, some, **options)
    values, base = reference(model, some)
    if family == "xgboost classes" and values.ndim == 3 and values.shape[1] == 3:
        values = values.transpose(0, 2, 1)
    single = 1e-6 if family.startswith("xgboost") else 1e-9
    size = np.abs(values).max() + np.abs(base).max()
    np.testing.assert_allclose(
        answer.values.reshape(values.shape), values, atol=single * size, rtol=0
    )
    np.testing.assert_allclose(
        answer.base_values[0].reshape(-1), base.reshape(-1), atol=single * size, rtol=0
    )
    np.testing.assert_allclose(answer.gap, 0, atol=10 * single * size)
    assert answer.evaluations == 1


def test_interactions_are_those_of_shap() -> None:
    model = RandomForestRegressor(10, max_depth=9, random_state=0).fit(ROWS, REAL)
    answer = Explainer(model)(ROWS[:20], interactions=True)
    found = shap.TreeExplainer(model).shap_interaction_values(ROWS[:20])
    index = np.triu_indices(6, 1)
    assert answer.interactions is not None
    # shap gives half of a pair to each of its two cells
    expected = 2 * found[:, index[0], index[1]]
    np.testing.assert_allclose(answer.interactions[:, index[0], index[1]], expected, atol=1e-9)


# Players


def test_a_pipeline_is_explained_on_its_own_columns() -> None:
    encode = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    frame = FRAME.assign(age=ROWS[:, 0])
    model = make_pipeline(encode, RandomForestRegressor(8, random_state=0)).fit(frame, WORTH)
    answer = explained(model, frame[:20])
    assert answer.feature_names == ["city", "age", "pay", "loans"]

    # a city's columns are one player: not the sum of the values of its columns
    inner = explained(model[-1], np.asarray(encode.transform(frame[:20]), dtype=float))
    grouped = explained(
        model[-1],
        np.asarray(encode.transform(frame[:20]), dtype=float),
        groups=[list(range(5)), [5], [6], [7]],
    )
    np.testing.assert_allclose(answer.values, grouped.values, atol=1e-12)
    assert np.abs(answer.values[:, 0] - inner.values[:, :5].sum(axis=1)).max() > 1e-6


# Ways to call


MODEL = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1, n_jobs=1).fit(GAPS, REAL)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    whole = explained(MODEL, GAPS)
    prepared = Explainer(MODEL).prepare(GAPS[:50])
    for answer, expected in (
        (explained(MODEL, GAPS[3:4]), whole[3:4]),
        (Explanation.concat(list(Explainer(MODEL).stream(GAPS))), whole),
        (prepared.explain(GAPS[100:101]), whole[100:101]),
        (Explainer(MODEL, prepared.options.background)(GAPS[100:110]), whole[100:110]),
    ):
        np.testing.assert_allclose(answer.values, expected.values, atol=1e-14)


def test_a_job_without_a_background_follows_the_covers(tmp_path: Path) -> None:
    import joblib

    names = [f"x{number}" for number in range(6)]
    frame = pd.DataFrame(ROWS, columns=names)
    model = RandomForestRegressor(8, random_state=0).fit(frame, REAL)
    joblib.dump(model, tmp_path / "model.joblib")
    expected = explained(model, frame).values
    for rows in (300, 1):
        data = tmp_path / f"rows{rows}.csv"
        frame[:rows].to_csv(data, index=False)
        out = tmp_path / f"values{rows}.parquet"
        outcome = Job(model=str(tmp_path / "model.joblib"), data=data, out=out, trust=True).run()
        assert outcome.result is not None
        np.testing.assert_allclose(outcome.result.explanation.values, expected[:rows], atol=1e-12)
        assert outcome.notes == ()
        assert "training data" in outcome.result.background


# What cannot follow the covers


def test_probabilities_of_boosters_are_sampled_and_a_note_names_the_margin() -> None:
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(ROWS, TWO)
    answer = Explainer(model, scale="probability")(ROWS[:10], budget=200)
    assert answer.method != METHOD
    assert any("scale='margin' gives exact values" in note for note in answer.notes)
    assert any("No background was given" in note for note in answer.notes)
    with pytest.raises(InputError, match=r"Background data is missing.*scale='margin'"):
        Explainer(model, scale="probability")(ROWS[:1])


def test_boosters_are_explained_on_their_margin_as_a_note_says() -> None:
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(ROWS, TWO)
    expected = shap.TreeExplainer(model).shap_values(ROWS)
    explainer = Explainer(model)
    for answer in (explainer(ROWS), explainer.prepare(ROWS[:9]).explain(ROWS)):
        assert (answer.method, answer.scale) == (METHOD, "log-odds")
        np.testing.assert_allclose(answer.values, expected, atol=1e-5)
    for notes in (explainer(ROWS[:1]).notes, explainer.prepare(ROWS).overview.notes):
        assert any("scale='probability'" in note for note in notes)
    # what the user says, counts
    chances = Explainer(model.predict_proba)(ROWS[:5], budget=99)
    np.testing.assert_allclose(chances.predictions, model.predict_proba(ROWS[:5]), atol=1e-6)


def test_a_booster_of_other_columns_is_refused_by_its_own_error() -> None:
    booster = xgboost.XGBClassifier(n_estimators=2).fit(ROWS, TWO).get_booster()
    with pytest.raises(ModelError, match="does not match number of features"):
        Explainer(booster)(np.hstack((ROWS, ROWS)))


def test_columns_made_of_several_are_not_followed() -> None:
    model = make_pipeline(PCA(3), RandomForestRegressor(3, random_state=0)).fit(ROWS, REAL)
    answer = Explainer(model)(ROWS[:5], budget=100)
    assert any("These values are estimates, because" in note for note in answer.notes)

    own = FunctionTransformer(np.abs, feature_names_out="one-to-one")
    own.func = lambda rows: np.abs(rows) + 0
    model = make_pipeline(own, RandomForestRegressor(3, random_state=0)).fit(ROWS, REAL)
    assert Explainer(model)(ROWS[:5]).method == METHOD
    with pytest.raises(InputError, match="one row does not show"):
        Explainer(model)(ROWS[:1])


def test_trees_without_covers_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    from shearshap.trees import model as tree_models

    def without_covers(model: Any) -> Any:
        trees = readers.read(model)
        forest = replace(trees.forest, cover=np.full_like(trees.forest.cover, np.nan))
        return replace(trees, forest=forest)

    monkeypatch.setattr(tree_models, "read", without_covers)
    answer = Explainer(MODEL)(GAPS[:5], budget=100)
    assert any("how much training data reached" in note for note in answer.notes)


def test_a_model_that_stops_being_its_trees_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = Explainer(MODEL).prepare(GAPS[:50])
    predict = type(MODEL).predict
    monkeypatch.setattr(
        type(MODEL), "predict", lambda self, rows, **other: predict(self, rows, **other) + 1
    )
    with pytest.raises(ModelError, match="not the sum of its trees"):
        prepared.explain(GAPS[60:70])
