"""Fifteen tasks as somebody types them who comes from shap, each with the first lines that come to mind.

Each checks that the numbers are right, and not only that nothing fails: against shap where it can do
the same, else by what values must add up to.
"""

from pathlib import Path
from typing import Any

import httpx
import joblib
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_digits, make_moons
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from typer.testing import CliRunner

mpl.use("Agg")
import matplotlib.pyplot as plt

import shearshap
import shearshap.plots
from peer_library import peer
from shearshap import Explanation, InputError, ModelError, explain_game
from shearshap.apps.cli import app
from shearshap.apps.serve import Service

Explainer: Any = shearshap.Explainer  # a newcomer has no type checker
plots: Any = shearshap.plots


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


def churn(rows: int = 300) -> tuple[pd.DataFrame, Any]:
    """Customers of a telephone company, and which of them leave, in words."""
    rng = np.random.default_rng(0)
    customers = pd.DataFrame(
        {
            "contract": rng.choice(["monthly", "yearly", "two years"], rows, p=[0.55, 0.25, 0.2]),
            "plan": rng.choice(["basic", "plus"], rows),
            "months": rng.integers(1, 70, rows),
            "charges": rng.normal(70, 20, rows).round(2),
            "calls": rng.poisson(1.2, rows),
            "paperless": rng.random(rows) < 0.5,
        }
    )
    score = 1.5 * (customers.contract == "monthly") + 0.7 * customers.calls
    score += (customers.charges - 70) / 25 - customers.months / 25 - 0.5
    leaves = rng.random(rows) < 1 / (1 + np.exp(-score))
    return customers, np.where(leaves, "leaves", "stays")


def add_up(explanation: Explanation) -> bool:
    """Whether base value and values sum to the prediction."""
    sums = explanation.base_values + explanation.values.sum(axis=1)
    return np.allclose(sums, explanation.predictions, atol=1e-5)


# 1. The first line of all; the tutorial itself runs in tests/docs


@pytest.mark.parametrize("kind", ["trees", "function"])
@pytest.mark.filterwarnings("ignore::shearshap.ShearWarning")
def test_the_first_line(kind: str) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = ExtraTreesRegressor(20, max_depth=4, random_state=0).fit(X, y)
    explained = {"trees": model, "function": lambda rows: model.predict(rows)}
    explanation = Explainer(explained[kind])(X[:50])
    assert explanation.shape == (50, 10)
    np.testing.assert_allclose(explanation.predictions, model.predict(X[:50]))
    assert add_up(explanation)
    if kind == "trees":
        shap = peer("shap")
        theirs = shap.TreeExplainer(model).shap_values(X[:50])
        np.testing.assert_allclose(explanation.values, theirs, atol=1e-5)


def test_the_second_line() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = ExtraTreesRegressor(20, max_depth=4, random_state=0).fit(X, y)
    explainer = Explainer(model, X[:100])
    explanation = explainer(X[100:150])
    assert explanation.method == "exact (trees)"
    assert add_up(explanation)
    assert list(explanation.feature_names) == list(X.columns)
    assert "Explanation(50 rows, 10 features" in str(explanation)


# 2. XGBoost with categories, missing values and nullable integers


def boosted() -> tuple[Any, pd.DataFrame]:
    customers, leaves = churn()
    raw = customers.assign(
        contract=customers.contract.astype("category"),
        plan=customers.plan.astype("category"),
        months=customers.months.astype("Int64").mask(customers.months == 7),
        charges=customers.charges.mask(customers.charges > 110),
    )
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=3, enable_categorical=True)
    return model.fit(raw, leaves == "leaves"), raw


def test_xgboost_on_a_raw_frame() -> None:
    model, raw = boosted()
    margins = Explainer(model, raw[:100])(raw[100:])
    assert (margins.method, margins.scale) == ("exact (trees)", "log-odds")
    assert len(margins.notes) == 1
    np.testing.assert_allclose(
        margins.predictions, model.predict(raw[100:], output_margin=True), atol=1e-5
    )
    assert add_up(margins)
    probabilities = Explainer(model, raw[:100], scale="probability", output=1)(raw[100:105])
    assert probabilities.predictions == pytest.approx(model.predict_proba(raw[100:105])[:, 1])


def test_one_row_of_a_frame_as_pandas_gives_it() -> None:
    model, raw = boosted()
    explainer = Explainer(model, raw[:100], scale="margin")
    row = explainer(raw.iloc[120])
    np.testing.assert_allclose(row.values, explainer(raw.iloc[[120]]).values)
    assert repr(row).startswith("Explanation(1 row, 6 features")


def test_text_for_categories_is_an_error_that_says_so() -> None:
    model, raw = boosted()
    as_text = raw[:3].astype({"plan": str})
    with pytest.raises(ModelError, match="plan") as failed:
        Explainer(model, raw[:100], scale="margin")(as_text)
    assert "The background has categories in plan" in str(failed.value.__notes__)


# 3. A Pipeline with one-hot columns, on raw columns


@pytest.fixture(scope="module", name="pipe")
def _pipe() -> Any:
    customers, leaves = churn()
    encode = make_column_transformer(
        (OneHotEncoder(), ["contract", "plan"]), remainder=StandardScaler()
    )
    return make_pipeline(encode, LogisticRegression()).fit(customers, leaves)


def test_a_pipeline_on_raw_columns(pipe: Any) -> None:
    customers, _ = churn()
    explanation = Explainer(pipe, customers[:50])(customers[50:60])
    assert explanation.feature_names == list(customers.columns)
    assert explanation.output_names == ["leaves", "stays"]
    leaving = explanation.output("leaves")
    np.testing.assert_allclose(leaving.predictions, pipe.predict_proba(customers[50:60])[:, 0])
    assert add_up(leaving)
    asked = Explainer(pipe.predict_proba, customers[:50])(customers[50:60])
    assert asked.output_names == ["leaves", "stays"]


def test_words_of_predict_are_one_error_that_helps(
    pipe: Any, recwarn: pytest.WarningsRecorder
) -> None:
    customers, _ = churn()
    with pytest.raises(ModelError, match=r"returned .* such as .*, or pass the classifier itself"):
        Explainer(pipe.predict, customers[:50])(customers[50:60])
    assert not recwarn.list


def test_the_riskiest_customer_knows_why(pipe: Any) -> None:
    """Against a sample of rows, a category that most customers have is a reason all the same."""
    customers, _ = churn()
    riskiest = customers.iloc[[pipe.predict_proba(customers)[:, 0].argmax()]]
    assert riskiest.contract.item() == "monthly"
    explanation = Explainer(pipe, customers.sample(100, random_state=0), output="leaves")(riskiest)
    place = explanation.feature_names.index("contract")
    assert explanation.values[0, place] > 0.05


# 4. A network of torch, and its plots


def test_a_network_and_every_plot() -> None:
    X, _ = make_moons(200, noise=0.2, random_state=0)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    frame = pd.DataFrame(X, columns=["left", "right"]).astype("float32")
    explanation = Explainer(net, X[:50].astype("float32"))(frame[50:80])
    assert explanation.feature_names == ["left", "right"]
    explanation = explanation.output(0)
    assert add_up(explanation)
    for draw in (plots.waterfall, plots.beeswarm, plots.bar, plots.heatmap, plots.decision):
        ax = draw(explanation, max_display=1, title="Moons")
        assert ax.get_title() == "Moons"
    assert plots.scatter(explanation, "left", color="right").get_xlabel() == "left"
    assert "mean |Shapley value|" in plots.bar(explanation.abs().mean()).get_xlabel()
    assert "mean |Shapley value|" in plots.bar(explanation.abs.mean(0)).get_xlabel()


# 5. Pictures


def test_pictures_of_digits() -> None:
    images = load_digits().images[:20].astype("float32")[:, None] / 16
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)
    )
    row, column = np.divmod(np.arange(64).reshape(8, 8), 8)
    patches = row // 2 * 4 + column // 2
    explanation = Explainer(net, 0, groups=patches)(images[:3])
    assert explanation.shape == (3, 16, 10)
    assert add_up(explanation)
    plots.image(explanation.output(7), images[0, 0], mask=patches, title="A zero")


# 6. Texts; functions of strings are not supported yet


@pytest.mark.slow
def test_a_text_classifier() -> None:
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = ["[PAD]", "[UNK]", "[MASK]", "the", "film", "was", "not", "good"]
    words = {word: place for place, word in enumerate(known)}
    rules = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=rules, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(known),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
        id2label={0: "negative", 1: "positive"},
    )
    model = transformers.BertForSequenceClassification(config)
    classify = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    explanation = Explainer(classify)(["the film was not good"]).output("positive")
    assert explanation.feature_names == ["the", "film", "was", "not", "good"]
    assert add_up(explanation)
    plots.text(explanation, title="A review")


# 7. A notebook


def test_what_a_notebook_shows(pipe: Any) -> None:
    customers, _ = churn()
    explanation = Explainer(pipe, customers[:20], output="leaves")(customers[50:60])
    assert "contract" in explanation._repr_html_()
    assert "contract" in explanation.abs().mean()._repr_html_()


# 8. The command


@pytest.fixture(name="files")
def _files(tmp_path: Path, pipe: Any) -> Path:
    customers, _ = churn()
    joblib.dump(pipe, tmp_path / "pipe.joblib")
    customers[50:60].to_csv(tmp_path / "rows.csv", index=False)
    customers[:40].to_csv(tmp_path / "train.csv", index=False)
    return tmp_path


def options(files: Path) -> list[str]:
    return [
        *("--model", str(files / "pipe.joblib"), "--trust"),
        *("--data", str(files / "rows.csv")),
        *("--background", str(files / "train.csv")),
    ]


@pytest.mark.slow
def test_shear_explain_writes_values_and_a_report(files: Path) -> None:
    words = ["explain", *options(files), "--out", str(files / "values.parquet"), "--report"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "data.contract" in pd.read_parquet(files / "values.parquet").columns
    assert "contract" in (files / "values.html").read_text()


# 9. The service


def test_shear_serve_answers(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/apps/serve/test_batching.py ends the program by signals."""
    answers = []

    def run(service: Service, _say: Any) -> None:
        with service.running() as address:
            answers.append(httpx.get(f"{address}/about", timeout=60).raise_for_status().text)

    monkeypatch.setattr(Service, "run", run)
    result = CliRunner().invoke(app, ["serve", *options(files), "--port", "0"])
    assert result.exit_code == 0, result.output
    assert "contract" in answers[0]


# 10. How precise, how long, what together


def test_budgets_tolerances_and_pairs() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y > 140)
    explainer = Explainer(model, X[:20], output=1)
    assert explainer(X[:3], budget=1e3).evaluations <= 1000
    converged = explainer(X[:3], tol=0.01).converged
    assert converged is not None
    assert converged.all()
    pairs = explainer(X[:3], interactions=True).interactions
    assert pairs is not None
    assert pairs.shape == (3, 10, 10)
    with pytest.raises(InputError, match="interactions: expected"):
        explainer(X[:3], interactions="all")
    with pytest.raises(InputError, match="got 'raw'; did you mean 'margin'"):
        Explainer(model, X[:20], scale="raw")(X[:3])


# 11. Help


def test_help_says_what_there_is() -> None:
    helped = CliRunner().invoke(app, ["--help"])
    assert helped.exit_code == 0
    for command in ("explain", "serve"):
        assert command in helped.output
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


# 12. Scripts for shap, with the import changed


def test_three_scripts_for_shap() -> None:
    shap = peer("shap")
    X, y = load_diabetes(return_X_y=True)
    model = ExtraTreesRegressor(10, max_depth=4, random_state=0).fit(X, y)

    explainer = Explainer(model.predict, X[:100])
    shap_values = explainer(X[:5])
    assert shap_values.method == "exact (trees)"
    theirs = shap.TreeExplainer(model, shap.maskers.Independent(X[:100], 100))
    np.testing.assert_allclose(shap_values.values, theirs.shap_values(X[:5]), atol=1e-4)

    explainer = Explainer(model, data=X[:100], feature_perturbation="interventional")
    np.testing.assert_allclose(
        explainer.shap_values(X[:5], check_additivity=False), shap_values.values
    )
    assert explainer.expected_value == pytest.approx(model.predict(X[:100]).mean())
    assert explainer.shap_interaction_values(X[:5]).shape == (5, 10, 10)

    summary = shap.kmeans(X, 10)
    sampled = Explainer(model.predict, summary, link="identity")
    theirs = shap.KernelExplainer(model.predict, summary).shap_values(X[:5], l1_reg=0, silent=True)
    np.testing.assert_allclose(sampled.shap_values(X[:5], nsamples="auto"), theirs, atol=0.1)


# 13. Which features lower the loss (SAGE), by hand


def test_a_game_of_the_loss() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = ExtraTreesRegressor(10, max_depth=4, random_state=0).fit(X, y)

    def gain(coalitions: Any) -> Any:
        mixes = np.where(coalitions[:, None, :], X[:100], X.mean(axis=0))
        predictions = model.predict(mixes.reshape(-1, 10)).reshape(len(coalitions), 100)
        return -((predictions - y[:100]) ** 2).mean(axis=1)

    explanation = explain_game(gain, players=10, budget=200)
    assert add_up(explanation)
    assert explanation.values.argmax() in (2, 8)  # body mass and a blood value
    assert repr(explanation).startswith("Explanation(game of 10 players")


# 14, 15. Answers of language models, Owen values and conditional values are not supported yet.
