"""The models of images and tables, trained on data that scikit-learn has or makes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from torch import nn

from expensive.models import Logistic, Trees

Singles = NDArray[np.float32]

EPOCHS = 60
BATCH = 64


@dataclass(frozen=True)
class Data:
    """Inputs (n, d) and labels (n,): every fifth row is not trained on."""

    inputs: Singles
    labels: NDArray[Any]

    @property
    def test(self) -> NDArray[np.bool_]:
        """Which rows are not trained on, (n,)."""
        return np.asarray(np.arange(len(self.inputs)) % 5 == 0)

    @property
    def train(self) -> "Data":
        """The rows to train on."""
        return Data(self.inputs[~self.test], self.labels[~self.test])

    @property
    def mean(self) -> Singles:
        """The mean row that is trained on, (d,)."""
        return np.asarray(self.train.inputs.mean(axis=0))


def digits() -> Data:
    """Return images of digits, 8 x 8 pixels from 0 to 1."""
    inputs, labels = load_digits(return_X_y=True)
    return Data((inputs / 16).astype(np.float32), labels)


def breast_cancer() -> Data:
    """Return 30 measurements of tumours, each with mean 0 and variance 1."""
    inputs, labels = load_breast_cancer(return_X_y=True)
    scaled = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    return Data(scaled.astype(np.float32), labels)


def friedman() -> Data:
    """Return 50 uniform columns, 5 of which make up the label."""
    inputs, labels = make_friedman1(2_000, 50, noise=1.0, random_state=0)
    return Data(inputs.astype(np.float32), labels)


def trained_network(network: nn.Module, data: Data) -> nn.Module:
    """Return a network trained by Adam to classify."""
    inputs = torch.from_numpy(data.train.inputs)
    labels = torch.from_numpy(data.train.labels)
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(inputs), generator=generator).split(BATCH):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(network(inputs[chosen]), labels[chosen])
            loss.backward()
            optimiser.step()
    return network.eval()


def trained_logistic(data: Data) -> Logistic:
    """Return a logistic regression."""
    fitted = LogisticRegression(max_iter=1_000).fit(data.train.inputs, data.train.labels)
    model = Logistic(data.inputs.shape[1])
    with torch.no_grad():
        model.linear.weight.copy_(torch.from_numpy(fitted.coef_))
        model.linear.bias.copy_(torch.from_numpy(fitted.intercept_))
    return model.eval()


def boosted_trees(data: Data, *, depth: int) -> Trees:
    """Return a hundred boosted trees: log-odds of a class, or a regression."""
    is_class = np.issubdtype(data.labels.dtype, np.integer)
    maker = GradientBoostingClassifier if is_class else GradientBoostingRegressor
    fitted = maker(max_depth=depth, random_state=0).fit(data.train.inputs, data.train.labels)
    grown = [tree.tree_ for tree in fitted.estimators_[:, 0]]

    trees = Trees(len(grown), max(tree.node_count for tree in grown), depth)
    for number, tree in enumerate(grown):
        inner = np.flatnonzero(tree.children_left >= 0)
        trees.column[number, inner] = torch.from_numpy(tree.feature[inner])
        trees.threshold[number, inner] = torch.from_numpy(tree.threshold[inner])
        trees.left[number, inner] = torch.from_numpy(tree.children_left[inner])
        trees.right[number, inner] = torch.from_numpy(tree.children_right[inner])
        weights = fitted.learning_rate * tree.value[:, 0, 0]
        trees.value[number, : tree.node_count] = torch.from_numpy(weights)
    whole = fitted.decision_function if is_class else fitted.predict
    row = data.inputs[:1]
    trees.base += float(whole(row)[0]) - float(trees(torch.from_numpy(row))[0])
    return trees.eval()
