"""The verdict on each claim of the paper follows the records."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paper_claims import held
from paper_records import (
    AUTHORS,
    CENSUS,
    FAIR,
    GERMAN,
    PAPER,
    SEEDS,
    Change,
    accurate,
    better,
    constant,
    flat,
    inaccurate,
    lucky,
    only,
    revised,
    scored,
    synthetic,
    times,
    unsteady,
    without,
    worse,
)
from shearshap.paper.experiments.findings import error as findings_of_error
from shearshap.paper.experiments.findings import findings
from shearshap.paper.experiments.findings.finding import PROTOCOL_WORDS
from shearshap.paper.experiments.records import Records, where
from shearshap.paper.experiments.spec import ABLATED, PROTOCOLS, Protocol
from shearshap.paper.experiments.summaries import METRICS, published, published_curve


def confounded(records: Records) -> Records:
    """Make targets differ in scale: those of large cross-contribution have large errors too."""
    targets = where(records["cooperators"], seed=0, selection="random", draw=0, n=ABLATED)[
        "row"
    ].to_pylist()
    for place, row in enumerate(sorted(targets)):
        for seed in SEEDS:
            for name in ("cross_contribution", "error"):
                records = revised(
                    records, "cooperators", name, times(30.0**place), row=row + 100 * seed
                )
    return records


def rising(records: Records) -> Records:
    """Make errors rise with cross-contribution, for every target."""
    return revised(records, "cooperators", "error", lambda error: 1 / np.maximum(error, 1e-3))


def timed(records: Records, method: str, change: Change, **equal: Any) -> Records:
    return revised(records, "timings", "seconds", change, method=method, **equal)


def unlike(records: Records) -> Records:
    """Make monotonicity rank the methods against the error, and the other metrics not at all."""
    records = scored(records, ("ranking_accuracy", "faithfulness"), constant(0.5))
    return scored(records, ("monotonicity",), times(-1))


def beyond(records: Records) -> Records:
    """Make N = 32 into N = 128, where the released errors are no longer in order."""
    return revised(records, "estimates", "n", constant(128), n=32)


def same(records: Records) -> Records:
    return records


CASES: list[tuple[str, Callable[[Records], Records], str]] = [
    ("released_error", same, "agrees"),
    ("released_error", lambda r: worse(r, "shear"), "agrees"),  # the authors' own is held against their numbers
    ("released_error", lambda r: worse(r, "shear-authors", n=8), "partly"),
    ("released_error", lambda r: worse(r, "shear-authors"), "does not"),
    ("released_error", lambda r: better(r, "shear-authors"), "does not"),
    ("released_error", lambda r: worse(only(r, *FAIR), "shear"), "does not"),
    ("released_error", lambda r: revised(r, "models", "size", times(100)), "does not"),
    ("released_error", lambda r: worse(revised(r, "models", "size", times(100)), "shear-authors"), "agrees"),
    ("released_order", same, "agrees"),
    ("released_order", lambda r: worse(r, "permutation-antithetic-authors", n=16), "partly"),
    ("released_order", lambda r: worse(r, "permutation-antithetic-authors"), "does not"),
    ("released_order", lambda r: worse(r, "shear"), "does not"),
    ("released_order", lambda r: worse(beyond(r), "shear", n=128), "agrees"),
    ("least_error", same, "agrees, agrees, agrees"),
    ("least_error", lambda r: accurate(r, "kriging"), "agrees, agrees, agrees"),  # newer than the paper
    ("least_error", lambda r: better(r, "kernel-paper", n=8), "partly, agrees, agrees"),
    ("least_error", lambda r: better(r, "kernel-welford"), "partly, partly, partly"),
    ("least_error", lambda r: accurate(r, "permutation-antithetic-authors"), "agrees, does not, agrees"),
    ("least_error", lambda r: accurate(r, "permutation-antithetic"), "agrees, agrees, does not"),
    ("state_of_the_art", same, "agrees"),
    ("state_of_the_art", lambda r: better(r, "kriging", n=8), "partly"),
    ("state_of_the_art", lambda r: better(r, "kriging"), "does not"),
    ("state_of_the_art", lambda r: better(r, "kernel-paired"), "does not"),
    ("perturbation", same, "agrees"),
    ("perturbation", lambda r: accurate(r, "kriging"), "agrees"),
    ("perturbation", lambda r: scored(r, ("faithfulness",), constant(0), method="shear", n=8), "partly"),
    ("perturbation", lambda r: scored(r, ("monotonicity",), constant(1), method="kernel"), "partly"),
    ("perturbation", lambda r: inaccurate(r, "shear"), "does not"),
    ("consistent", same, "agrees"),
    ("consistent", lambda r: scored(r, ("faithfulness",), constant(0), method="shear"), "partly"),
    ("consistent", unlike, "does not"),
    ("least_deviation", same, "agrees"),
    ("least_deviation", lambda r: unsteady(r, n=8), "partly"),
    ("least_deviation", lambda r: scored(r, tuple(METRICS), constant(0.5), method="permutation-authors"), "partly"),
    ("least_deviation", unsteady, "does not"),
    ("selection_dominates", same, "agrees"),
    ("selection_dominates", lambda r: worse(r, "shear-without-as"), "partly"),
    ("selection_dominates", lambda r: inaccurate(r, "shear-without-as"), "does not"),
    ("selection_dominates", lambda r: accurate(r, "shear-without-ccs"), "does not"),
    ("cross_contribution", same, "agrees"),
    ("cross_contribution", confounded, "partly"),
    ("cross_contribution", rising, "does not"),
    ("lower_bound", same, "agrees"),
    ("lower_bound", lambda r: lucky(r, draw=0, row=1), "partly"),
    ("lower_bound", lucky, "does not"),
    ("fastest", same, "agrees"),
    ("fastest", lambda r: timed(r, "kernel", times(0.01)), "agrees"),
    ("fastest", lambda r: timed(accurate(r, "kriging"), "kriging", times(0.01)), "agrees"),
    ("fastest", lambda r: accurate(r, "kernel"), "partly"),  # at N = 8 it is faster than SHEAR at 32
    ("fastest", lambda r: timed(accurate(r, "kernel-welford"), "kernel-welford", constant(0.056 / 1.05)), "partly"),
    ("fastest", lambda r: timed(accurate(r, "kernel-welford"), "kernel-welford", constant(0.056 / 1.2)), "does not"),
    ("cost_model", same, "agrees"),
    ("cost_model", lambda r: timed(r, "shear", times(2), n=8), "partly"),
    ("cost_model", lambda r: timed(r, "shear", times(2)), "does not"),
    ("cost_model", lambda r: timed(r, "shear", times(0.5)), "does not"),
    ("efficiency", same, "agrees"),
    ("efficiency", lambda r: revised(r, "illustration", "shear", lambda values: values + 0.01, feature="age"), "partly"),
    ("theorem_2", same, "agrees"),
    ("theorem_2", flat, "agrees"),
    ("theorem_2", lambda r: revised(r, "bounds", "loss", times(2.5), seed=1), "partly"),
    ("theorem_2", lambda r: revised(r, "bounds", "printed", times(0), seed=1), "partly"),
]  # fmt: skip
"""A statement, what becomes of the records, and the verdict; of `least_error`, those on paper, authors and fair."""


@pytest.mark.parametrize(("name", "change", "verdicts"), CASES)
def test_a_verdict_follows_the_records(
    name: str, change: Callable[[Records], Records], verdicts: str
) -> None:
    assert ", ".join(finding.verdict for finding in held(name, change(CENSUS))) == verdicts


def test_every_statement_can_be_agreed_with_and_not() -> None:
    verdicts: dict[str, set[str]] = {}
    for name, _, expected in CASES:
        verdicts.setdefault(name, set()).update(expected.split(", "))
    assert all("agrees" in each and len(each) > 1 for each in verdicts.values())
    claims = [finding.claim for name in (*verdicts, "released_best") for finding in held(name)]
    assert sorted(claims) == sorted({finding.claim for finding in findings(CENSUS)})


@pytest.mark.parametrize("dataset", ["census", "bank"])
def test_the_best_of_the_released_numbers_is_in_them_alone(dataset: str) -> None:
    best = []
    for n in (8, 16, 32, 64, 128):
        rows = where(published(), dataset=dataset, evaluations_per_feature=n).to_pylist()
        best.append(
            (
                n,
                min((row["ae_mean"], row["method"]) for row in rows if row["ae_mean"] is not None)[
                    1
                ],
            )
        )
    assert best == [(8, "SHEAR"), (16, "SHEAR"), (32, "SHEAR"), (64, "SHEAR"), (128, "KS-Pair")]
    (finding,) = held(
        "released_best",
        revised(inaccurate(CENSUS, "shear"), "models", "dataset", lambda _: dataset),
    )
    assert finding.verdict == "partly"
    assert finding.evidence == ", ".join(f"N = {n}: {name}" for n, name in best)


@pytest.mark.parametrize(("factor", "verdict"), [(0.01, "agrees"), (100.0, "does not")])
def test_released_numbers_could_say_otherwise(
    factor: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(dataset: str, method: str, name: str) -> dict[int, float]:
        scale = factor if method.startswith("shear") else 1
        return {n: scale * value for n, value in published_curve(dataset, method, name).items()}

    monkeypatch.setattr(findings_of_error, "published_curve", other)
    assert held("released_best")[0].verdict == verdict


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("released_error", lambda: GERMAN),
        ("released_best", lambda: GERMAN),
        ("released_order", lambda: only(CENSUS, *PAPER, *FAIR)),
        ("state_of_the_art", lambda: only(CENSUS, *PAPER, *AUTHORS)),
        ("least_deviation", lambda: synthetic(rounds=1)),
        ("theorem_2", lambda: without(CENSUS, "bounds")),
        ("efficiency", lambda: without(CENSUS, "illustration")),
    ],
)
def test_nothing_is_said_of_what_was_not_measured(
    name: str, records: Callable[[], Records]
) -> None:
    assert held(name, records()) == []


@pytest.mark.parametrize("name", ["least_error", "perturbation", "least_deviation", "fastest"])
@pytest.mark.parametrize("run", [("fair",), ("paper", "authors")])
def test_a_protocol_that_was_not_run_is_not_spoken_of(run: tuple[Protocol, ...], name: str) -> None:
    records = only(CENSUS, *(method for protocol in run for method in PROTOCOLS[protocol]))
    text = " ".join(finding.claim + finding.evidence for finding in held(name, records))
    named = [protocol for protocol, words in PROTOCOL_WORDS.items() if words in text]
    assert named == list(run)
