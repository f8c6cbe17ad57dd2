"""The studies of networks and of explanations: four metrics of every row, and one row in full."""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from shearshap.errors import ShearWarning
from shearshap.methods import METHODS
from shearshap.result.explanation import Explanation, Floats
from shearshap_lab.experiments.records import STUDIES, joined
from shearshap_lab.experiments.spec import ABLATION_N, CANDIDATES
from shearshap_lab.experiments.subject import EVERY, Subject
from shearshap_lab.metrics import absolute_error, faithfulness, monotonicity, ranking_accuracy
from shearshap_lab.networks import RECIPES
from shearshap_lab.networks.training import BATCH, RATES
from shearshap_lab.runner import table

TRUTH = "truth"  #: the method of the ground truth's own records, whose `n` is 0
ILLUSTRATED = 1.73  #: f1 - f0 of the row that the paper illustrates
SPLITS = {
    "stratified": "stratified, by seed",
    "scikit-learn": "scikit-learn, random state 0",
}  #: how rows are split, in words


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
