"""Losses of single rows: minus the loss of the mean prediction, compared with plain definitions."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from games import Floats, network, shapley_by_permutations
from shearshap import Explainer, InputError, ModelError, explain, model_game
from shearshap.games.loss import LabelledLoss

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(8, 4))
BACKGROUND = RNG.normal(size=(5, 4))
NUMBERS = RNG.normal(size=8)
CLASSES = np.array([0, 1, 2, 2, 1, 0, 1, 2])


def predict(rows: Floats) -> Floats:
    return np.asarray(rows[:, 0] * rows[:, 1] + np.abs(rows[:, 2]))  # the last is null


def probabilities(rows: Floats) -> Floats:
    scores = np.exp(rows[:, :3] + 0.5 * rows[:, [1, 2, 0]] * rows[:, 2:3])
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def squared(label: Any, prediction: Floats) -> Floats:
    return np.asarray((prediction - label) ** 2)


def absolute(label: Any, prediction: Floats) -> Floats:
    return np.asarray(np.abs(prediction - label))


def cross_entropy(label: Any, prediction: Floats) -> Floats:
    return np.asarray(-np.log(prediction[:, label]))


def by_definition(model: Any, loss: Any, labels: Any) -> Floats:
    """The values (r, p) from all joining orders, with the mean over the background inside."""

    def values(row: Floats, label: Any) -> Floats:
        def worth(coalitions: Any) -> Floats:
            means = [model(np.where(each, row, BACKGROUND)).mean(axis=0) for each in coalitions]
            return -np.asarray(loss(label, np.array(means)))

        return shapley_by_permutations(worth, len(row))

    return np.array([values(row, label) for row, label in zip(ROWS, labels, strict=True)])


@pytest.mark.parametrize(
    ("model", "loss", "labels", "definition"),
    [
        (predict, "mse", NUMBERS, squared),
        (predict, "mae", NUMBERS, absolute),
        (predict, lambda y, found: (y - found) ** 4, NUMBERS, lambda y, f: (y - f) ** 4),
        (probabilities, "log loss", CLASSES, cross_entropy),
        (probabilities, lambda y, f: f[:, 0] * y, NUMBERS, lambda y, f: f[:, 0] * y),
    ],
)
def test_values_are_those_of_the_definition(
    model: Any, loss: Any, labels: Any, definition: Any
) -> None:
    answer = Explainer(model, ("all", BACKGROUND), loss=loss, method="exact")(ROWS, y=labels)
    np.testing.assert_allclose(answer.values, by_definition(model, definition, labels), atol=1e-12)
    predictions = model(ROWS)
    own = [float(definition(y, f[None])[0]) for y, f in zip(labels, predictions, strict=True)]
    np.testing.assert_allclose(answer.predictions, -np.array(own))
    np.testing.assert_allclose(answer.gap, 0, atol=1e-12)
    assert answer.evaluations == 16 * len(BACKGROUND)
    assert answer.scale is None


def test_a_null_feature_has_the_value_zero_and_the_output_a_name() -> None:
    answer = explain(predict, ROWS, background=BACKGROUND, loss="mse", y=NUMBERS)
    np.testing.assert_allclose(answer.values[:, 3], 0, atol=1e-12)
    assert answer.output_names == ["-mse"]
    assert "-mse" in str(answer)


@pytest.mark.parametrize("method", ["kriging", "permutation", "leverage", "shear"])
def test_every_method_samples_a_loss_within_its_budget(method: str) -> None:
    rows = RNG.normal(size=(6, 8))
    labels = np.array([0, 1, 1, 0, 1, 0])
    net = network(8, outputs=2)
    explainer = Explainer(net, rows[:3], loss="log loss", method=method)
    answer = explainer(rows, y=labels, budget=3 * 64)
    exact = Explainer(net, rows[:3], loss="log loss", method="exact")(rows, y=labels, budget=3 << 8)
    assert answer.evaluations <= 3 * 64
    scale = np.abs(exact.values).max()
    np.testing.assert_allclose(answer.values, exact.values, atol=0.35 * scale)


def test_labels_may_be_in_the_constructor_and_rows_in_blocks() -> None:
    explainer = Explainer(predict, BACKGROUND, loss="mse", y=NUMBERS)
    whole = explainer(ROWS)
    np.testing.assert_array_equal(
        whole.values, Explainer(predict, BACKGROUND, loss="mse")(ROWS, y=NUMBERS).values
    )
    rows = np.tile(ROWS, (30, 1))
    many = Explainer(predict, BACKGROUND, loss="mse")
    streamed = list(many.stream(rows, y=np.tile(NUMBERS, 30)))
    assert len(streamed) > 1  # each row has its own label in every block
    found = np.concatenate([block.values for block in streamed])
    np.testing.assert_allclose(found, np.tile(whole.values, (30, 1)), atol=1e-12)
    with pytest.raises(InputError, match="mean the same; pass only one"):
        explainer(ROWS, y=NUMBERS)


def test_the_game_of_a_loss_and_its_interactions() -> None:
    with model_game(predict, ROWS, background=BACKGROUND, loss="mse", y=NUMBERS) as game:
        ends = game.ends()
    assert ends.single
    np.testing.assert_allclose(ends.values[:, 1, 0], -((predict(ROWS) - NUMBERS) ** 2))
    pairs = explain(predict, ROWS, background=BACKGROUND, loss="mse", y=NUMBERS, interactions=True)
    assert pairs.interactions is not None
    np.testing.assert_allclose(pairs.interactions[:, 3], 0, atol=1e-12)


@pytest.mark.parametrize("names", [["no", "yes"], [0, 1], [False, True], [3, 7]])
def test_labels_are_the_models_classes(names: list[Any]) -> None:
    labels = np.array(names)[(ROWS[:, 0] > 0).astype(int)]
    model = LogisticRegression().fit(ROWS, labels)
    answer = Explainer(model, BACKGROUND, loss="log loss")(ROWS, y=pd.Series(labels))
    own = model.predict_proba(ROWS)[np.arange(8), (ROWS[:, 0] > 0).astype(int)]
    np.testing.assert_allclose(answer.predictions, np.log(own), rtol=1e-6)
    assert "exact (" not in answer.method


def test_models_that_know_their_answer_are_sampled() -> None:
    for model in (RandomForestRegressor(5), LinearRegression()):
        model.fit(ROWS, NUMBERS)
        answer = Explainer(model, loss="mse")(ROWS, y=NUMBERS)  # not by the covers of trees
        assert answer.method == "exact"
        np.testing.assert_allclose(answer.predictions, -((model.predict(ROWS) - NUMBERS) ** 2))


def test_margins_become_probabilities_for_the_log_loss() -> None:
    net = network(4, outputs=3)
    answer = Explainer(net, BACKGROUND, loss="log loss")(ROWS, y=CLASSES)
    with torch.no_grad():
        own = net(torch.as_tensor(ROWS, dtype=next(net.parameters()).dtype)).log_softmax(1)
    np.testing.assert_allclose(answer.predictions, own[range(8), CLASSES], atol=1e-5)


def test_a_probability_of_zero_has_a_finite_loss() -> None:
    forest = RandomForestClassifier(3, random_state=0).fit(ROWS, CLASSES)
    answer = Explainer(forest, BACKGROUND, loss="log loss")(ROWS, y=(CLASSES + 1) % 3)
    assert answer.predictions.min() == pytest.approx(np.log(1e-7))


@given(st.integers(2, 9), st.integers(0, 10**6))
@settings(max_examples=20)
def test_the_jackknife_has_no_error_for_squares(count: int, seed: int) -> None:
    """The mean over all pairs of different background rows, of products of their errors."""
    outputs = torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 1, count, 1)))
    squares = LabelledLoss("mse", lambda _, found: (found[:, 0] - 0.5).square(), correction=1.0)
    found = squares.worth(outputs.mean(dim=2), outputs, torch.zeros(1, dtype=torch.int64))
    errors = outputs[0, 0, :, 0] - 0.5
    products = (errors.sum().square() - errors.square().sum()) / (count * (count - 1))
    assert float(found) == pytest.approx(-float(products), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"loss": "mse"}, None, "loss: expected y=, the labels of the 8 rows, got none"),
        ({}, NUMBERS, "y: labels are only used with a loss"),
        ({"loss": "mse"}, NUMBERS[:5], "y: expected 8 labels, one per row, got 5"),
        (
            {"loss": "rmse"},
            NUMBERS,
            "loss: expected one of 'log loss', 'mse', 'mae', or a function",
        ),
        ({"loss": "mse"}, ["a"] * 8, "y: expected numbers, got 'a'"),
        ({"loss": "mse"}, [np.nan] * 8, "y: expected finite numbers"),
        ({"loss": "log loss"}, ["a"] * 8, "y: expected classes 0, 1, ...; got 'a'"),
        (
            {"loss": "log loss"},
            np.eye(8),
            "log loss: expected one class per row, got several labels",
        ),
        ({"loss": "log loss", "output": 0}, CLASSES, "output: the log loss takes"),
        ({"loss": "mse"}, CLASSES, "mse: the model has 3 outputs, and y has 1"),
        ({"loss": "log loss"}, CLASSES + 9, "y: expected classes 0 to 2, got 11"),
        ({"loss": lambda *_: 0.0}, CLASSES, "loss: expected one per row, shape"),
    ],
)
def test_labels_that_do_not_fit(options: dict[str, Any], labels: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Explainer(probabilities, BACKGROUND, **options)(ROWS, y=labels)
    assert message in str(caught.value)


def test_classes_that_the_model_does_not_know_and_what_are_no_probabilities() -> None:
    model = LogisticRegression().fit(ROWS, np.array(["a", "b"])[CLASSES % 2])
    with pytest.raises(InputError, match="y: expected one of a, b; got 'c'"):
        Explainer(model, BACKGROUND, loss="log loss")(ROWS, y=["c"] * 8)
    with pytest.raises(InputError, match="scale: the log loss takes probabilities"):
        Explainer(model, BACKGROUND, loss="log loss", scale="margin")(ROWS, y=["a"] * 8)
    with pytest.raises(ModelError, match="log loss: expected probabilities, but the model ret"):
        Explainer(predict, BACKGROUND, loss="log loss")(ROWS, y=[0, 1] * 4)


def test_a_prepared_explainer_has_no_labels_for_other_rows() -> None:
    with pytest.raises(InputError, match="loss: labels belong to rows"):
        Explainer(predict, BACKGROUND, loss="mse", y=NUMBERS).prepare(ROWS)
