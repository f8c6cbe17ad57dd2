"""The study of the models, and what all studies' records have in common."""

from typing import Any

import numpy as np
import pyarrow as pa

from shearshap_lab.experiments.provenance import VERSIONS
from shearshap_lab.experiments.records import table
from shearshap_lab.experiments.subject import Subject
from shearshap_lab.networks.training import BATCH, RATES

SPLITS = {
    "stratified": "stratified, by seed",
    "scikit-learn": "scikit-learn, random state 0",
}
"""How rows are split, in words."""


def names_of(subject: Subject) -> dict[str, Any]:
    """Return the columns that say which network the records are of."""
    return {
        "dataset": subject.dataset.name,
        "recipe": subject.setting.name,
        "seed": subject.setting.seed,
    }


def draws(*numbers: int) -> int:
    """Return a seed that is a function of these numbers, and of nothing else."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def mean_size(subject: Subject) -> float:
    """Return mean |phi|_1 over the rows."""
    return float(np.abs(subject.truth.values).sum(axis=1).mean())


def describe(subject: Subject) -> pa.Table:
    """Return the record of the data set, the network and its ground truth."""
    dataset = subject.dataset
    trained = subject.trained
    truth = subject.truth
    config = trained.config
    preparation = dataset.preparation
    embedded = config.kind == "deepfm"
    return table(
        "models",
        {
            **names_of(subject),
            "title": dataset.title,
            "network": "DeepFM" if embedded else "3-layer MLP",
            "activation": config.activation,
            "hidden": config.hidden,
            "learning_rate": RATES[config.kind],
            "batch_size": BATCH,
            "encoding": "index" if embedded else preparation.encoding,
            "split": SPLITS[preparation.split],
            "stopping": subject.setting.recipe.stopping,
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
            "truth": _kind_of_truth(subject),
            "truth_evaluations": truth.evaluations,
            "truth_error": truth.error,
            "truth_absolute_error": truth.absolute_error,
            "size": mean_size(subject),
            "key": truth.key,
            "versions": VERSIONS,
        },
    )


def _kind_of_truth(subject: Subject) -> str:
    truth = subject.truth
    if truth.exact:
        return "exact"
    return f"estimated, expected error {truth.error:.3%} of mean absolute value"
