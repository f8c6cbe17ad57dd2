"""What is explained: one data set's network, its test rows and their ground truth."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.explainer import explain, model_game
from shearshap.explanation import Explanation, Floats
from shearshap.game import ModelGame
from shearshap.methods.base import Method
from shearshap.paper import networks
from shearshap.paper.data import Dataset, load
from shearshap.paper.experiments.spec import Spec
from shearshap.paper.metrics import removal_effects
from shearshap.paper.networks import Trained
from shearshap.paper.truth import Truth, ground_truth

LOGIT = 1  #: the output that the paper explains: the logit of class 1
EVERY = slice(None)  #: all the rows there are
TOLERANCE = 1e-4
"""Standard error of an estimated ground truth over the mean |phi|: well below the errors that are
measured against it.
"""


@dataclass(frozen=True)
class Subject:
    """A trained network, rows to explain, and their true Shapley values."""

    dataset: Dataset
    trained: Trained
    truth: Truth

    @property
    def players(self) -> int:
        """The number of features."""
        return len(self.dataset.groups)

    @property
    def inputs(self) -> NDArray[np.float32]:
        """The rows to explain, (r, d)."""
        return self.dataset.inputs[self.truth.rows]

    @cached_property
    def effects(self) -> Floats:
        """What the model loses without each feature alone, (r, p), for faithfulness."""
        with self.game() as game:
            return removal_effects(game)

    def budget(self, n: int) -> int:
        """Return the budget of n evaluations a feature: n p, the base value and the prediction."""
        return n * self.players + 2

    def explain(
        self, method: Method, budget: int, *, seed: int = 0, output: Any = LOGIT, rows: Any = EVERY
    ) -> Explanation:
        """Explain the rows, or some of them."""
        return explain(
            self.trained.network,
            self.inputs[rows],
            reference=self.dataset.background,
            groups=self.dataset.groups,
            output=output,
            budget=budget,
            method=method,
            seed=seed,
            drop_null=False,  # methods are compared as the paper has them
            progress=False,
        )

    def game(self, rows: Any = EVERY) -> AbstractContextManager[ModelGame]:
        """Open the game of the rows, or of some of them."""
        return model_game(
            self.trained.network,
            self.inputs[rows],
            reference=self.dataset.background,
            groups=self.dataset.groups,
            output=LOGIT,
        )


def prepare(spec: Spec, seed: int, folder: Path) -> Subject:
    """Return the subject of a model seed.

    What was trained or computed before is read from the folder.
    """
    dataset = load(spec.dataset, seed=seed, path=spec.path)
    trained = _network(dataset, seed, folder / "models" / f"{spec.dataset}-seed{seed}")
    truth = ground_truth(
        trained,
        dataset,
        rows=spec.rows,
        output=LOGIT,
        folder=folder / "truth",
        tolerance=TOLERANCE,
        progress=False,
    )
    return Subject(dataset, trained, truth)


def _network(dataset: Dataset, seed: int, folder: Path) -> Trained:
    """Return the network saved in a folder; train and save it where there is none."""
    try:
        return networks.load(folder)
    except InputError:
        trained = networks.train(dataset, seed=seed, progress=False)
        networks.save(trained, folder)
        return trained
