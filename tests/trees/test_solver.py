"""Tree ensembles through the front door: exact if the model is a sum of leaves, else sampled.

The oracle is all 2^p coalitions through the real model.
"""

import re
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from clock import Watch
from explain_command import done
from games import Floats, all_coalitions, exact_shares
from peer_library import peer
from shearshap import BudgetError, Exact, Explainer, Explanation, ShearWarning, model_game
from shearshap.apps.jobs import InProcess, Job
from shearshap.games.marginal import ModelGame
from shearshap.interactions.indices import estimated_second_differences, interactions
from shearshap.trees import proof, solver
from shearshap.trees.solver import METHOD, ExactSum

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(120, 6))
GAPS = np.where(RNG.random(ROWS.shape) < 0.1, np.nan, ROWS)
REAL = ROWS[:, 0] * ROWS[:, 1] + ROWS[:, 2] * np.abs(ROWS[:, 3]) + ROWS[:, 4] / 3
TWO = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-0.5, 0.5])
BOTH = np.stack((REAL, ROWS[:, 0] - REAL), axis=1)
FEW = {"n_estimators": 8, "random_state": 0}
XGB = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
LIGHT = {"n_estimators": 8, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
CAT = {
    "iterations": 8,
    "depth": 3,
    "thread_count": 1,
    "verbose": False,
    "allow_writing_files": False,
}
HIST = {"max_iter": 8, "max_leaf_nodes": 8, "min_samples_leaf": 5, "random_state": 0}

GAP = RNG.random(120) < 0.1
CITY = RNG.choice(["Bern", "Oslo", "Rome"], 120)
TABLE = pd.DataFrame(
    {
        "city": [None if gap else city for gap, city in zip(GAP, CITY, strict=True)],
        "age": GAPS[:, 0],
        "sex": RNG.choice(["f", "m"], 120),
        "pay": ROWS[:, 1],
        "loans": RNG.integers(0, 5, 120),
    }
)
WORTH = (TABLE.city == "Rome") * 2.0 + ROWS[:, 0] * (TABLE.sex == "f") + TABLE.pay * TABLE.loans
HIGH = (WORTH.median() < WORTH).astype(int)
CATEGORIES = TABLE.assign(city=TABLE.city.astype("category"), sex=TABLE.sex.astype("category"))

#: A model, its rows, and the options that make it linear in its leaves.
FAMILIES: dict[str, Callable[[], tuple[Any, Any, dict[str, Any]]]] = {
    "xgboost": lambda: (xgboost.XGBRegressor(**XGB).fit(GAPS, REAL), GAPS, {}),
    "xgboost margin": lambda: (
        xgboost.XGBClassifier(**XGB).fit(GAPS, TWO), GAPS, {"scale": "margin"},
    ),
    "xgboost log-odds": lambda: (
        xgboost.XGBClassifier(**XGB).fit(GAPS, TWO), GAPS, {"scale": "log-odds"},
    ),
    "xgboost booster": lambda: (
        xgboost.XGBRegressor(**XGB).fit(GAPS, BOTH).get_booster(), GAPS, {},
    ),
    "xgboost categories": lambda: (
        xgboost.XGBRegressor(**XGB, enable_categorical=True).fit(CATEGORIES, WORTH), CATEGORIES, {},
    ),
    "lightgbm classes": lambda: (
        lightgbm.LGBMClassifier(**LIGHT).fit(GAPS, THREE),
        GAPS,
        {"scale": "margin", "output": ["2", "0"]},
    ),
    "lightgbm categories": lambda: (
        lightgbm.LGBMRegressor(**LIGHT, min_data_per_group=5).fit(CATEGORIES, WORTH), CATEGORIES, {},
    ),
    "catboost": lambda: (catboost.CatBoostRegressor(**CAT).fit(GAPS, REAL), GAPS, {}),
    "catboost classes": lambda: (
        catboost.CatBoostClassifier(**CAT).fit(GAPS, THREE), GAPS, {"scale": "margin"},
    ),
    "forest": lambda: (RandomForestRegressor(**FEW).fit(ROWS, REAL), ROWS, {}),
    "forest of classes": lambda: (RandomForestClassifier(**FEW).fit(ROWS, THREE), ROWS, {}),
    "forest of labels": lambda: (
        RandomForestClassifier(**FEW).fit(ROWS, np.stack((TWO, THREE), axis=1)), ROWS, {},
    ),
    "boosting margin": lambda: (
        GradientBoostingClassifier(**FEW).fit(ROWS, THREE), ROWS, {"scale": "margin"},
    ),
    "hist margin": lambda: (
        HistGradientBoostingClassifier(**HIST).fit(GAPS, TWO), GAPS, {"scale": "margin"},
    ),
    "hist log-odds": lambda: (
        HistGradientBoostingClassifier(**HIST).fit(GAPS, TWO), GAPS, {"scale": "log-odds"},
    ),
    "hist categories": lambda: (
        HistGradientBoostingRegressor(**HIST, categorical_features="from_dtype").fit(
            CATEGORIES, WORTH
        ),
        CATEGORIES,
        {},
    ),
}  # fmt: skip

made = cache(lambda name: FAMILIES[name]())


def tolerance(name: str) -> float:
    """XGBoost adds up in single precision."""
    return 1e-5 if name.startswith("xgboost") else 1e-9


def enumerated(
    model: Any, rows: Any, background: Any, groups: Any = None, **options: Any
) -> tuple[Floats, torch.Tensor]:
    """All coalition values (r, 2^p, k) through the real model, and their Shapley values."""
    with model_game(model, rows, background=background, groups=groups, **options) as game:
        sets = torch.from_numpy(all_coalitions(game.players))
        values = game(sets[None])
    phi = np.stack([exact_shares(table) for table in values.numpy()])
    return phi, values


def agrees(answer: Explanation, expected: Floats, atol: float = 1e-9) -> None:
    assert answer.method == METHOD
    np.testing.assert_allclose(answer.values.reshape(expected.shape), expected, atol=atol)
    np.testing.assert_array_equal(answer.standard_errors, np.zeros_like(answer.values))
    np.testing.assert_allclose(answer.gap, 0, atol=atol)


# Every family


@pytest.mark.parametrize("name", FAMILIES)
def test_values_are_those_of_all_coalitions(name: str) -> None:
    model, rows, options = made(name)
    expected, values = enumerated(model, rows[10:16], rows[:4], **options)
    answer = Explainer(model, rows[:4], **options)(rows[10:16])
    agrees(answer, expected, tolerance(name))
    np.testing.assert_allclose(answer.base_values.reshape(6, -1), values[:, 0], atol=1e-12)
    np.testing.assert_allclose(answer.predictions.reshape(6, -1), values[:, -1], atol=1e-12)
    assert answer.notes == ()


@pytest.mark.parametrize(
    "name",
    ["xgboost categories", "lightgbm classes", "catboost", "forest of labels", "hist margin"],
)
def test_interactions_and_groups_are_those_of_all_coalitions(name: str) -> None:
    model, rows, options = made(name)
    columns = list(range(rows.shape[1]))
    groups = [columns[1:3], columns[:1], columns[3:4], columns[4:]]
    expected, values = enumerated(model, rows[10:16], rows[:4], groups, **options)
    answer = Explainer(model, rows[:4], groups=groups, **options)(rows[10:16], interactions=True)
    agrees(answer, expected, tolerance(name))

    sets = torch.from_numpy(all_coalitions(4))[None]
    pairs = interactions(sets, values, torch.from_numpy(expected))
    assert answer.interactions is not None
    assert answer.cross_contribution is not None
    np.testing.assert_allclose(
        answer.interactions.reshape(pairs.shape), pairs, atol=tolerance(name)
    )
    np.testing.assert_allclose(
        answer.cross_contribution, estimated_second_differences(sets, values), atol=tolerance(name)
    )


def test_backgrounds_of_every_kind() -> None:
    model, rows, _ = made("catboost")
    for background in (0, ("median", rows), ("mean", rows), rows[:1], rows[3]):
        expected, _ = enumerated(model, rows[10:13], background)
        agrees(Explainer(model, background)(rows[10:13]), expected)


def test_weights_of_a_background_count() -> None:
    shap = peer("shap")
    model, rows, _ = made("forest")
    centres = shap.kmeans(rows, 4)
    expected, _ = enumerated(model, rows[10:13], centres)
    agrees(Explainer(model, centres)(rows[10:13]), expected)


# Frames


@pytest.mark.parametrize("name", ["xgboost categories", "lightgbm categories", "hist categories"])
@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas in another order"])
def test_frames_of_every_library(name: str, library: str) -> None:
    model, rows, _ = made(name)
    columns = list(rows.columns)
    convert: dict[str, Callable[[Any], Any]] = {
        "polars": pl.from_pandas,
        "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        "pandas in another order": lambda frame: frame[columns[::-1]],
    }
    frame = convert[library](rows)
    groups = {"who": ["age", "sex"]}
    expected, _ = enumerated(model, frame[10:16], frame[:4], groups)
    agrees(Explainer(model, frame[:4], groups=groups)(frame[10:16]), expected, tolerance(name))


# Pipelines


def encoded(**options: Any) -> Any:
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", **options), ["city", "sex"]),
        (SimpleImputer(), ["age"]),
        remainder="passthrough",
    )


def _ordinal() -> Any:
    return make_column_transformer((OrdinalEncoder(), ["city", "sex"]), remainder="passthrough")


PIPELINES: dict[str, Callable[[], Pipeline]] = {
    "one-hot": lambda: make_pipeline(encoded(), RandomForestRegressor(**FEW)),
    "scaled": lambda: make_pipeline(
        encoded(sparse_output=False), StandardScaler(), GradientBoostingRegressor(**FEW)
    ),
    "ordinal": lambda: make_pipeline(_ordinal(), HistGradientBoostingRegressor(**HIST)),
    "xgboost sparse": lambda: make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["city", "sex"]), sparse_threshold=1.0
        ),
        xgboost.XGBRegressor(**XGB),
    ),
    "nested": lambda: make_pipeline(
        make_pipeline(encoded(sparse_output=False), "passthrough"), lightgbm.LGBMRegressor(**LIGHT)
    ),
    "nothing before": lambda: make_pipeline(HistGradientBoostingRegressor(**HIST)),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(
    "convert",
    [lambda frame: frame, pytest.param(pl.from_pandas, marks=pytest.mark.slow)],
    ids=["pandas", "polars"],
)
def test_pipelines(name: str, convert: Callable[[Any], Any]) -> None:
    columns = {"xgboost sparse": ["city", "sex"], "nothing before": ["age", "pay", "loans"]}
    table = TABLE[columns.get(name, list(TABLE.columns))]
    rows = convert(table)
    model = PIPELINES[name]().fit(rows, WORTH)
    for groups in (None, {"two": list(table.columns)[:2]}):
        expected, _ = enumerated(model, rows[10:16], rows[:4], groups)
        answer = Explainer(model, rows[:4], groups=groups)(rows[10:16])
        agrees(answer, expected, tolerance(name))


def test_a_pipeline_has_the_margins_of_its_booster() -> None:
    model = make_pipeline(encoded(), xgboost.XGBClassifier(**XGB)).fit(TABLE, HIGH)
    expected, _ = enumerated(model, TABLE[10:16], TABLE[:4], scale="margin")
    answer = Explainer(model, TABLE[:4], scale="margin")(TABLE[10:16])
    agrees(answer, expected, 1e-5)
    own = model[-1].predict(model[:-1].transform(TABLE[10:16]), output_margin=True)
    np.testing.assert_allclose(answer.predictions, own, atol=1e-6)


# If the model is not a sum of leaves


def sampled(model: Any, rows: Any, **options: Any) -> Explanation:
    """Explain by fewer coalitions than there are."""
    players = rows.shape[1]
    answer = Explainer(model, rows[:2], **options)(rows[10:16], budget=2 * (1 << players) - 4)
    assert "kriging" in answer.method
    assert len([note for note in answer.notes if "log-odds" not in note]) == 1
    assert answer.notes[0].startswith("These values are estimates, because ")
    return answer


@pytest.mark.parametrize("name", ["xgboost margin", "lightgbm classes", "hist margin"])
def test_probabilities_of_boosters_are_sampled(name: str) -> None:
    model, rows, _ = made(name)
    assert sampled(model, rows, scale="probability").notes == (
        "These values are estimates, because a probability is not a sum over trees; scale='margin' "
        "gives exact values, faster.",
    )


@pytest.mark.filterwarnings("ignore:scale='log-odds'")
@pytest.mark.parametrize(
    ("model", "rows", "options", "reason"),
    [
        (lambda: made("forest of classes")[0], ROWS, {"output": lambda p: p**2}, "not linear"),
        (lambda: made("forest of classes")[0], ROWS, {"scale": "log-odds"}, "not linear"),
        (
            lambda: xgboost.XGBRegressor(**XGB, objective="count:poisson").fit(GAPS, THREE),
            GAPS, {}, "not linear in its leaves (off by",
        ),
        (
            lambda: make_pipeline(PCA(3), RandomForestRegressor(**FEW)).fit(ROWS, REAL),
            ROWS, {}, "cannot match the output columns of PCA",
        ),
    ],
    ids=["function", "log-odds", "link", "pca"],
)  # fmt: skip
def test_refused_with_the_reason(
    model: Callable[[], Any], rows: Floats, options: dict[str, Any], reason: str
) -> None:
    answer = sampled(model(), rows, **options)
    assert reason in answer.notes[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Floats]:
    """All rows that forests are asked for; if a column is large, they answer otherwise."""
    own = RandomForestRegressor.predict
    calls = []

    @wraps(own)  # so that it passes for the library's own
    def predict(self: Any, rows: Any) -> Any:
        calls.append(rows)
        return own(self, rows) + (rows[:, 5] > 100) * (rows[:, 4] < 100)

    monkeypatch.setattr(RandomForestRegressor, "predict", predict)
    return calls


@pytest.mark.parametrize("is_seen_in_mixes_only", [False, True])
def test_rows_where_the_model_is_not_its_leaves_are_sampled(
    asked: list[Floats], monkeypatch: pytest.MonkeyPatch, *, is_seen_in_mixes_only: bool
) -> None:
    model = RandomForestRegressor(**FEW).fit(ROWS, REAL)
    rows = ROWS[:60].copy()
    rows[50:, 5] = 1_000
    if is_seen_in_mixes_only:
        rows[50:, 4] = 1_000
    # the comparison at the start does not see row 50, and the block of row 50 begins at 48
    monkeypatch.setattr(proof, "_some", lambda count, _rng: torch.arange(min(count, 4)))
    monkeypatch.setattr(solver, "BLOCK_BYTES", 8 * 24 * (6 * 2 + 6))
    blocks = list(Explainer(model, ROWS[60:62]).stream(rows, budget=120))
    assert [block.method for block in blocks][:2] == [METHOD, METHOD]
    assert "exact (trees)" not in [block.method for block in blocks[2:]]
    reason = r"at a mix of row 5\d its leaves add up to a different prediction \(by 1"
    if not is_seen_in_mixes_only:
        reason = reason.replace("a mix of row", "(a mix of )?row")
    assert re.search(reason, blocks[2].notes[0])
    answer = Explanation.concat(blocks)
    np.testing.assert_array_equal(answer.index, np.arange(60))
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    # those that were exact, and those that are sampled; the base value of trees is asked for once
    exact = 48 + 2
    sampled = 12 * blocks[2].evaluations
    assert sum(map(len, asked)) == exact + sampled + answer.check_evaluations


def test_a_model_that_fails_is_reported_as_always() -> None:

    class Failing(RandomForestRegressor):  # type: ignore[misc]
        def predict(self, _rows: Any) -> Any:
            raise RuntimeError("no")

    failing = Failing(**FEW).fit(ROWS, REAL)
    with pytest.raises(Exception, match="the model failed on inputs of shape"):
        Explainer(failing, ROWS[:2])(ROWS[10:16])


# Budgets, streams and deadlines


def test_trees_stop_at_the_deadline(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    explained = ExactSum.explained

    def slow(self: ExactSum, game: ModelGame, *args: Any) -> Explanation:
        watch.now += game.rows
        return explained(self, game, *args)

    monkeypatch.setattr(ExactSum, "explained", slow)
    model = RandomForestRegressor(**FEW).fit(ROWS, REAL)
    with pytest.warns(ShearWarning, match="the deadline of 10 s was reached after 10 of 30 rows"):
        part = Explainer(model, ROWS[:7])(ROWS[10:40], deadline=10)
    assert part.method == METHOD
    assert watch.now <= 111


def test_every_call_of_the_model_is_counted(asked: list[Floats]) -> None:
    model = RandomForestRegressor(**FEW).fit(ROWS, REAL)
    answer = Explainer(model, ROWS[:7])(ROWS[10:40])
    assert answer.method == METHOD
    assert answer.evaluations == 8
    # a prediction for each row, and the base value once for all
    assert sum(map(len, asked)) == 30 + 7 + answer.check_evaluations


@pytest.mark.parametrize("output", [None, np.sqrt])
def test_every_call_is_counted_if_the_model_is_not_its_leaves(
    asked: list[Floats], output: Any
) -> None:
    model = RandomForestRegressor(**FEW).fit(ROWS, REAL + 100)
    rows = ROWS[10:40].copy()
    if output is None:
        rows[:, 5] = 1_000
    answer = Explainer(model, ROWS[:1], output=output)(rows, budget=60)
    assert "trees" not in answer.method
    assert sum(map(len, asked)) == 30 * answer.evaluations + answer.check_evaluations


def test_the_budget_holds_base_value_and_prediction() -> None:
    model, rows, _ = made("forest")
    explainer = Explainer(model, rows[:7], method="exact")
    assert explainer(rows[10:16], budget=8).method == METHOD
    message = (
        r"exact \(trees\) needs at least 8 evaluations per row, one for its prediction and 7 for the "
        r"base value, got 7"
    )
    with pytest.raises(BudgetError, match=message) as caught:
        explainer(rows[10:16], budget=7)
    assert caught.value.nearest == 8


def test_exact_needs_no_coalitions() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 40))
    model = RandomForestRegressor(**FEW).fit(rows, rows[:, 0] * rows[:, 1])
    answer = Explainer(model, rows[:5], method=Exact())(rows[10:16])
    assert answer.method == METHOD
    np.testing.assert_allclose(answer.gap, 0, atol=1e-12)

    boosted = GradientBoostingClassifier(**FEW).fit(rows, rows[:, 0] > 0)
    with pytest.raises(BudgetError) as caught:
        Explainer(boosted, rows[:5], method="exact", scale="probability")(rows[10:16])
    assert caught.value.__notes__[0].startswith("These values are estimates, because ")


def test_a_tolerance_is_met_at_once() -> None:
    model, rows, _ = made("forest")
    answer = Explainer(model, rows[:7])(rows[10:16], tol=1e-12)
    assert answer.converged is not None
    assert answer.row_evaluations is not None
    assert answer.converged.all()
    assert answer.row_evaluations.tolist() == [8] * 6


@pytest.mark.parametrize("interactions", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_streams_are_the_whole(monkeypatch: pytest.MonkeyPatch, *, interactions: bool) -> None:
    model, rows, options = made("lightgbm classes")
    explainer = Explainer(model, rows[:4], **options)
    whole = explainer(rows, interactions=interactions)
    monkeypatch.setattr(solver, "BLOCK_BYTES", 1 << 13)
    blocks = list(explainer.stream(rows, interactions=interactions))
    together = explainer(rows, interactions=interactions)
    assert len(blocks) > 2
    # a mix of each row is compared
    counts = [block.check_evaluations for block in blocks]
    assert np.diff(counts).tolist() == [len(block) for block in blocks[1:]]
    for answer in (Explanation.concat(blocks), together):
        assert answer.check_evaluations == whole.check_evaluations
        np.testing.assert_array_equal(answer.index, whole.index)
        np.testing.assert_array_equal(answer.predictions, whole.predictions)
        names = ["interactions", "cross_contribution"] if interactions else []
        for name in ("values", *names):
            np.testing.assert_allclose(getattr(answer, name), getattr(whole, name), atol=1e-12)


# Files and large jobs


def test_the_command_explains_files_of_trees_exactly(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=list("abcdef"))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    light = lightgbm.LGBMRegressor(**LIGHT).fit(frame, REAL).booster_
    light.save_model(tmp_path / "model.txt")
    out = tmp_path / "values.parquet"
    background = ("--background", f"median:{tmp_path / 'rows.csv'}")
    said = done(tmp_path / "model.txt", tmp_path / "rows.csv", *background, out=str(out))
    assert "exact (trees), 2 evaluations per row" in said
    table = pq.read_table(out)
    values = np.stack([table[f"value.{column}"] for column in "abcdef"], axis=1)
    expected, _ = enumerated(light, frame[:4], ("median", frame))
    np.testing.assert_allclose(values[:4], expected[:, :, 0], atol=1e-5)


def test_shards_of_a_large_job_are_exact(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=list("abcdef"))
    light = lightgbm.LGBMRegressor(**LIGHT).fit(frame, REAL)
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    job = Job(
        large=True,
        model=light,
        data=tmp_path / "rows.parquet",
        out=tmp_path / "parts",
        background=frame[:5],
        shard_rows=50,
    )
    job.run(executor=InProcess())
    parts = pq.read_table([str(path) for path in sorted((tmp_path / "parts").glob("*.parquet"))])
    answer = Explainer(light, frame[:5])(frame)
    assert answer.method == METHOD
    for place, column in enumerate("abcdef"):
        np.testing.assert_allclose(parts[f"value.{column}"], answer.values[:, place], atol=1e-12)
