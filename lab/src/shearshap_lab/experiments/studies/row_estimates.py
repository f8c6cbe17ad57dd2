"""The study of estimates: four metrics of every row, round, method and number of evaluations."""

import warnings
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from shearshap.errors import ShearWarning
from shearshap.result.explanation import Explanation, Floats
from shearshap_lab.experiments.records import joined, table
from shearshap_lab.experiments.spec import CANDIDATES
from shearshap_lab.experiments.studies.setting_facts import draws, names_of
from shearshap_lab.experiments.subject import EVERY, Subject
from shearshap_lab.metrics import absolute_error, faithfulness, monotonicity, ranking_accuracy

TRUTH = "truth"  #: the method of the ground truth's own records, whose `n` is 0


def estimates(subject: Subject, method: str, evaluations: Sequence[int], number: int) -> pa.Table:
    """Return every row's metrics of one round of a method at n evaluations a feature, for all n."""
    seed = draws(subject.setting.seed, number)
    tables = []
    for n in evaluations:
        answer = explained(subject, method, n, seed=seed)
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
        "estimates",
        {
            **names_of(subject),
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
