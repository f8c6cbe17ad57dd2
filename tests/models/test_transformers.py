"""Groups made of a fitted transformer: the columns that it makes of each column that it takes."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from games import network
from shearshap import Explainer, InputError
from shearshap.models.sklearn import made_columns


def people(count: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, count),
            "city": rng.choice(np.array(["Rome", "Oslo", "Bern", None]), count),
            "kind": pd.Categorical(rng.choice(list("abc"), count), categories=list("cab")),
            "height": np.where(rng.random(count) < 0.2, np.nan, rng.normal(170, 10, count)),
            "member": rng.random(count) < 0.5,
        }
    )


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_columns_made_by_one_hot_encoders(drop: Any) -> None:
    frame = people(200).dropna()
    transformer = make_column_transformer(
        ("passthrough", ["age"]),
        (OneHotEncoder(drop=drop), ["city", "member"]),
        (OneHotEncoder(), [2]),
    ).fit(frame)
    made = made_columns(transformer)
    names = list(transformer.get_feature_names_out())
    for column, own in made.items():
        assert own == [
            at for at, name in enumerate(names) if name.partition("__")[2].split("_")[0] == column
        ]
    assert sorted(at for own in made.values() for at in own) == list(range(len(names)))


def test_a_transformer_that_mixes_columns_is_refused() -> None:
    from sklearn.preprocessing import PolynomialFeatures

    mixing = PolynomialFeatures().fit(people()[["age", "height"]].fillna(0))
    with pytest.raises(
        InputError,
        match="groups: cannot match the output columns of PolynomialFeatures to its input columns",
    ):
        Explainer(network(6), np.zeros(6), groups=mixing)(np.ones((2, 6)))


@pytest.mark.parametrize("wrap", ["grid", "vote", "calibrated"])
def test_none_is_known_inside_wrappers_too(wrap: str) -> None:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import VotingClassifier
    from sklearn.model_selection import GridSearchCV

    frame = pl.from_pandas(people(200)[["city"]])
    inner = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    made: Any = {
        "grid": GridSearchCV(inner, {}, cv=2),
        "vote": VotingClassifier([("one", inner)], voting="soft"),
        "calibrated": CalibratedClassifierCV(inner, cv=2),
    }[wrap]
    model = made.fit(frame, np.where(frame["city"].is_null().to_numpy(), "yes", "no"))
    answer = Explainer(model, ("mode", frame))(frame[:20])
    np.testing.assert_allclose(answer.predictions, model.predict_proba(frame[:20]), atol=1e-12)


@pytest.mark.parametrize(
    "chosen",
    [
        ["age", "member"],
        [0, 4],
        slice(0, 1),
        slice("age", "city"),
        np.array([True, False, False, False, True]),
    ],
)
def test_a_transformers_columns_given_in_every_way(chosen: Any) -> None:
    frame = people().dropna()
    picked = make_column_transformer((OneHotEncoder(), chosen)).fit(frame)
    made = made_columns(picked)
    wanted = {str(name) for name in picked.feature_names_in_} & set(made)
    assert set(made) == wanted
    assert sum(len(own) for own in made.values()) == len(picked.get_feature_names_out())


def test_transformers_after_one_another_and_those_that_do_not_tell() -> None:
    from sklearn.feature_selection import SelectKBest
    from sklearn.preprocessing import FunctionTransformer

    frame = people(200).dropna()
    encode = make_column_transformer((OneHotEncoder(), ["city"]), ("passthrough", ["age"]))
    scaled = make_pipeline(encode, StandardScaler(with_mean=False)).set_output(transform="pandas")
    encode.set_params(sparse_threshold=0)
    encode.transformers[0][1].set_params(sparse_output=False)
    assert made_columns(scaled.fit(frame)) == {"city": [0, 1, 2], "age": [3]}
    array = OneHotEncoder().fit(frame[["city", "member"]].to_numpy())
    assert made_columns(array) == {"x0": [0, 1, 2], "x1": [3, 4]}
    best = SelectKBest(k=1).fit(frame[["age", "height"]], frame["height"] > 170)
    assert made_columns(best) == {"height": [0]}
    for odd, message in (
        (FunctionTransformer(np.log).fit(frame[["age"]]), "cannot find out which columns this"),
        (OneHotEncoder(), "cannot find out which columns this"),
        (
            make_pipeline(OneHotEncoder(), LogisticRegression()).fit(frame, frame["member"]),
            "this Pipeline ends in a model; pass its transformers alone, pipeline",
        ),
    ):
        with pytest.raises(InputError, match=message):
            Explainer(network(4), np.zeros(4), groups=odd)(np.ones((2, 4)))
