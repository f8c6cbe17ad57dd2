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
from shearshap.games.game import ModelGame
from shearshap.methods.base import Method
from shearshap.result.explanation import Explanation, Floats
from shearshap_lab import networks
from shearshap_lab.data import Dataset
from shearshap_lab.experiments.spec import Spec
from shearshap_lab.metrics import removal_effects
from shearshap_lab.networks import RECIPES, Trained
from shearshap_lab.provenance import code_hash, short_hash, versions
from shearshap_lab.truth import Truth, ground_truth

LOGIT = 1  #: the output that the paper explains: the logit of class 1
EVERY = slice(None)  #: all the rows there are


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained network, rows to explain, and their true Shapley values."""

    dataset: Dataset
    trained: Trained
    truth: Truth
    recipe: str  #: how the network was trained, a name of `RECIPES`
    seed: int  #: of the training, and of the split if the recipe leaves it open

    @property
    def players(self) -> int:
        """The number of features."""
        return len(self.dataset.groups)

    @property
    def inputs(self) -> NDArray[np.float32]:
        """The rows to explain, (r, d)."""
        return self.dataset.inputs[self.truth.rows]

    @property
    def names(self) -> dict[str, Any]:
        """The columns that say which network records are of."""
        return {"dataset": self.dataset.name, "recipe": self.recipe, "seed": self.seed}

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


def prepare(spec: Spec, recipe: str, seed: int, folder: Path) -> Subject:
    """Return the subject of a recipe and a seed.

    What was trained or computed before is read from the folder, if the same code made it.
    """
    chosen = RECIPES[recipe]
    # the authors' split does not depend on the seed
    split_seed = 0 if chosen.preparation.split == "scikit-learn" else seed
    dataset = chosen.load(spec.dataset, seed=split_seed, path=spec.path)
    facts = short_hash(code_hash(), versions(), spec.dataset, spec.path, chosen, seed)
    place = folder / "models" / f"{spec.dataset}-{recipe}-seed{seed}-{facts}"
    try:
        trained = networks.load(place)
    except InputError:
        networks.save(chosen.train(dataset, seed=seed, progress=False), place)
        trained = networks.load(place)
    truth = ground_truth(
        trained, dataset, rows=spec.rows, output=LOGIT, folder=place, progress=False
    )
    return Subject(dataset, trained, truth, recipe, seed)
