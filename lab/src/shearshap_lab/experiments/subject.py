"""What is explained: one data set's network, its test rows and their ground truth."""

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
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
from shearshap_lab.data import Dataset, load
from shearshap_lab.experiments.provenance import VERSIONS, code_of_studies, code_of_training
from shearshap_lab.experiments.spec import Setting, Spec
from shearshap_lab.metrics import removal_effects
from shearshap_lab.networks import Recipe, Trained
from shearshap_lab.truth import Truth, ground_truth

LOGIT = 1  #: the output that the paper explains: the logit of class 1
EVERY = slice(None)  #: all the rows there are
TOLERANCE = 1e-4
"""Standard error of an estimated ground truth over the mean |phi|: well below the errors that are
measured against it.
"""


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained network, rows to explain, and their true Shapley values."""

    dataset: Dataset
    trained: Trained
    truth: Truth
    setting: Setting  #: how the network was trained

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


def prepare(spec: Spec, setting: Setting, folder: Path) -> Subject:
    """Return the subject of a setting.

    What was trained or computed before is read from the folder, if the same code made it.
    """
    dataset = _dataset(spec.dataset, _split_seed(setting), spec.path, setting.recipe.preparation)
    trained = _network(spec, setting, dataset, folder)
    truth = ground_truth(
        trained,
        dataset,
        rows=setting.rows,
        output=LOGIT,
        folder=folder / "truth" / code_of_studies(),
        tolerance=TOLERANCE,
        progress=False,
    )
    return Subject(dataset, trained, truth, setting)


# made-up data of Criteo's schema take ten seconds
_dataset = lru_cache(maxsize=2)(
    lambda name, seed, path, preparation: load(name, seed=seed, path=path, preparation=preparation)
)


def _split_seed(setting: Setting) -> int:
    """Return the seed of the split, which is the same for all where the seed does not matter."""
    return 0 if setting.recipe.preparation.split == "scikit-learn" else setting.seed


def network_folder(spec: Spec, recipe: Recipe, seed: int, folder: Path) -> Path:
    """Return where the network of a recipe and a seed is kept.

    The name covers the recipe, the code that trains and the data: a change of them has it trained
    anew.
    """
    facts = repr((code_of_training(), VERSIONS, spec.dataset, spec.path, recipe.network, seed))
    key = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return folder / "models" / f"{spec.dataset}-seed{seed}-{key}"


def _network(spec: Spec, setting: Setting, dataset: Dataset, folder: Path) -> Trained:
    """Return the saved network of a setting; train it where there is none."""
    place = network_folder(spec, setting.recipe, setting.seed, folder)
    try:
        return networks.load(place)
    except InputError:
        _train_and_save(spec, setting, dataset, folder)
        return networks.load(place)


def _train_and_save(spec: Spec, setting: Setting, dataset: Dataset, folder: Path) -> None:
    """Train the network of a setting, and with it those that are a part of the same training."""
    recipe = setting.recipe
    recipes = spec.trained_with(setting)
    trained = networks.train_until(
        dataset,
        [recipe.epochs for recipe in recipes],
        activation=recipe.activation,
        seed=setting.seed,
        drop_last=recipe.drop_last,
        progress=False,
    )
    for each, network in zip(recipes, trained, strict=True):
        networks.save(network, network_folder(spec, each, setting.seed, folder))
