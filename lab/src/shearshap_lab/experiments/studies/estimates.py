"""What is explained, and the studies of networks and of explanations: four metrics of every row,
and one row in full.
"""

import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError, ShearWarning
from shearshap.explainer import explain, model_game
from shearshap.games.marginal import ModelGame
from shearshap.methods import METHODS
from shearshap.methods.base import Method
from shearshap.result.explanation import Explanation, Floats
from shearshap_lab import networks
from shearshap_lab.data import Dataset
from shearshap_lab.experiments.spec import ABLATION_N, CANDIDATES, STUDIES, Spec, joined
from shearshap_lab.metrics import (
    absolute_error,
    faithfulness,
    monotonicity,
    ranking_accuracy,
    removal_effects,
)
from shearshap_lab.networks import RECIPES, Trained
from shearshap_lab.networks.training import BATCH, RATES
from shearshap_lab.provenance import code_hash, short_hash, versions
from shearshap_lab.runner import table
from shearshap_lab.truth import Truth, ground_truth

TRUTH = "truth"  #: the method of the ground truth's own records, whose `n` is 0
ILLUSTRATED = 1.73  #: f1 - f0 of the row that the paper illustrates
SPLITS = {
    "stratified": "stratified, by seed",
    "scikit-learn": "scikit-learn, random state 0",
}  #: how rows are split, in words
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
    def options(self) -> dict[str, Any]:
        """What the rows are explained against, and by which players."""
        return {"reference": self.dataset.background, "groups": self.dataset.groups}

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
            **self.options,
            output=output,
            budget=budget,
            method=method,
            seed=seed,
            drop_null=False,  # methods are compared as the paper has them
            progress=False,
        )

    def game(self, rows: Any = EVERY) -> AbstractContextManager[ModelGame]:
        """Open the game of the rows, or of some of them."""
        return model_game(self.trained.network, self.inputs[rows], **self.options, output=LOGIT)


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


# Metrics


def draws(*numbers: int) -> int:
    """Return a seed that is a function of these numbers, and of nothing else."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def estimates(subject: Subject, cells: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Return every row's metrics of methods, each at its n and round, and those of the truth."""
    tables = [score_truth(subject)]
    for method, n, number in cells:
        answer = explained(subject, method, n, seed=draws(subject.seed, number))
        facts = {
            "method": method,
            "n": n,
            "round": number,
            "evaluations": answer.evaluations,
            "derivative_passes": answer.derivative_passes,
        }
        tables.append(_scored(subject, answer.values, facts))
    return joined("estimates", tables)


def score_truth(subject: Subject) -> pa.Table:
    """Return every row's metrics of the ground truth itself.

    They show how faithful and monotone exact values are.
    """
    facts = {
        "method": TRUTH,
        "n": 0,
        "round": 0,
        "evaluations": subject.truth.evaluations,
        "derivative_passes": 0,
    }
    return _scored(subject, subject.truth.values, facts)


def _scored(subject: Subject, phi: Floats, facts: dict[str, Any]) -> pa.Table:
    """Return the records of values (r, p), with the facts that all rows have in common."""
    truth = subject.truth
    with subject.game() as game:
        monotone = monotonicity(phi, game)
    return table(
        STUDIES["estimates"],
        {
            **subject.names,
            "row": truth.rows,
            "absolute_error": absolute_error(phi, truth.values),
            "ranking_accuracy": ranking_accuracy(phi, truth.values),
            "faithfulness": faithfulness(phi, subject.effects),
            "monotonicity": monotone,
            **facts,
        },
    )


def explained(
    subject: Subject, method: str, n: int, *, seed: int = 0, rows: Any = EVERY
) -> Explanation:
    """Return the explanation of rows by a method at n evaluations a feature."""
    with warnings.catch_warnings():
        # too few coalitions for a regression are part of the paper's protocol
        warnings.simplefilter("ignore", ShearWarning)
        return subject.explain(CANDIDATES[method], subject.budget(n), seed=seed, rows=rows)


# The networks, and one row


def describe(subject: Subject) -> pa.Table:
    """Return the record of the data set, the network and its ground truth."""
    dataset = subject.dataset
    trained = subject.trained
    truth = subject.truth
    config = trained.config
    preparation = dataset.preparation
    embedded = config.kind == "deepfm"
    return table(
        STUDIES["models"],
        {
            **subject.names,
            "title": dataset.title,
            "network": "DeepFM" if embedded else "3-layer MLP",
            "activation": config.activation,
            "hidden": config.hidden,
            "learning_rate": RATES[config.kind],
            "batch_size": BATCH,
            "encoding": "index" if embedded else preparation.encoding,
            "split": SPLITS[preparation.split],
            "stopping": RECIPES[subject.recipe].stopping,
            "background": "mean, mode of categories" if embedded else preparation.background,
            "continuous": dataset.continuous,
            "categorical": dataset.categorical,
            "inputs": dataset.inputs.shape[1],
            "train": len(dataset.train),
            "validation": len(dataset.validation),
            "test": len(dataset.test),
            "epochs": trained.epochs,
            "accuracy": trained.test_accuracy,
            "majority": trained.majority,
            "rows": len(truth.rows),
            "truth": "exact" if truth.exact else f"estimated to {truth.error:.2%} of mean |value|",
            "truth_evaluations": truth.evaluations,
            "truth_error": truth.absolute_error,
            "size": float(np.abs(truth.values).sum(axis=1).mean()),
        },
    )


def illustration(subject: Subject) -> pa.Table:
    """Return SHEAR beside the exact values for one row.

    It is the row whose f1 - f0 is nearest to that of the paper's row.
    """
    with torch.no_grad():
        margins = _difference(subject.trained.network(torch.from_numpy(subject.inputs)))
    place = int(np.abs(margins.double().numpy() - ILLUSTRATED).argmin())
    exact = subject.explain(
        METHODS["exact"], 1 << subject.players, output=_difference, rows=[place]
    )
    shear = subject.explain(
        METHODS["shear"], subject.budget(ABLATION_N), output=_difference, rows=[place]
    )
    row = int(subject.truth.rows[place])
    return table(
        STUDIES["illustration"],
        {
            **subject.names,
            "row": row,
            "feature": subject.dataset.feature_names,
            "value": [str(text) for text in subject.dataset.display[row]],
            "exact": exact.values[0],
            "shear": shear.values[0],
            "base_value": float(shear.base_values[0]),
            "prediction": float(shear.predictions[0]),
            "evaluations": shear.evaluations,
        },
    )


def _difference(logits: Tensor) -> Tensor:
    return logits[:, 1] - logits[:, 0]
