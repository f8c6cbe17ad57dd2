"""The study of sensitivity: how errors depend on choices that the paper does not state."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shearshap_lab.experiments.records import table
from shearshap_lab.experiments.studies.row_estimates import explained
from shearshap_lab.experiments.studies.setting_facts import draws, mean_size
from shearshap_lab.experiments.subject import Subject
from shearshap_lab.metrics import absolute_error


def sensitivity(subject: Subject, cells: Sequence[tuple[str, int]], rounds: int) -> pa.Table:
    """Return the mean absolute error of some methods, each at its n, for one network."""
    preparation = subject.dataset.preparation
    return table(
        "sensitivity",
        {
            "dataset": subject.dataset.name,
            "encoding": preparation.encoding,
            "stopping": subject.setting.recipe.stopping,
            "background": preparation.background,
            "activation": subject.trained.config.activation,
            "seed": subject.setting.seed,
            "method": [method for method, _ in cells],
            "n": [n for _, n in cells],
            "error": [_mean_error(subject, method, n, rounds) for method, n in cells],
            "size": mean_size(subject),
            "accuracy": subject.trained.test_accuracy,
            "epochs": subject.trained.epochs,
        },
    )


def _mean_error(subject: Subject, method: str, n: int, rounds: int) -> float:
    """Return the mean over rows and rounds."""
    seeds = [draws(subject.setting.seed, number) for number in range(rounds)]
    answers = [explained(subject, method, n, seed=seed) for seed in seeds]
    errors = [absolute_error(answer.values, subject.truth.values) for answer in answers]
    return float(np.mean(errors))
