"""Conditional values of Gaussian columns: how many of them 95 % intervals hold.

Part of intervals.py. Columns have the correlations 0.7^|i - j|; the distribution is fitted to some
training rows. Each game is a model with random numbers, of 5 or 8 columns, and eight rows:

- *fitted*: against the exact conditional values of the fitted Gaussian, which is what the standard
  errors promise
- *true*: against those of the true Gaussian; then the fit, which standard errors do not count, has
  an error of its own
- *true, with refits*: the same, with the spread of values over REFITS bootstrap samples of the
  training rows added to the variances
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from question_conditional import MODELS, conditional_values, model, parameters
from setting import Tables, machine
from shearshap import Conditional, Explainer, Explanation
from shearshap.games.conditional import covariance
from shearshap_lab.games.study import Subject, record
from shearshap_lab.games.tables import Floats
from shearshap_lab.runner import in_processes

WIDTHS = (5, 8)
TRAIN = (500, 5_000)  #: training rows
ROWS = 8  #: explained
BUDGETS = (None, 1_000, 3_000, 10_000)  #: None: the default
REFITS = 8


@dataclass(frozen=True)
class Case:
    """A model and its columns; a process makes its rows for itself."""

    name: str
    width: int
    train: int
    number: int


def show_conditional(games: int, jobs: int, csv: Path | None) -> None:
    """Print the table of coverage and ratios; `games` models of each kind."""
    cases = [
        Case(name, width, train, number)
        for name in MODELS
        for width in WIDTHS
        for train in TRAIN
        for number in range(games)
    ]
    found = in_processes(records_of, cases, jobs)
    records = pd.DataFrame([each for of_case in found for each in of_case])
    setting = f"{games} models of each kind, {ROWS} rows each; {machine()}"
    tables = Tables(setting, csv)
    keys = ["kind", "columns", "training rows", "budget"]
    header = [*keys, "method", "evaluations"]
    for against in ("fitted", "true", "true, with refits"):
        header += [f"{against} %", f"{against}: ratio"]
    lines = []
    for key, group in records.groupby(keys, sort=False):
        line = [*map(str, key), group["method"].iloc[0], f"{group['evaluations'].mean():.0f}"]
        for against in ("fitted", "true", "true, with refits"):
            sums = group[group["against"] == against].sum(numeric_only=True)
            if not sums["known"]:
                line += ["", ""]
                continue
            ratio = sums["standard errors"] / sums["errors"] if sums["errors"] else np.nan
            line += [f"{sums['held'] / sums['known']:.1%}", f"{ratio:.2f}"]
        lines.append(line)
    tables.show("intervals-conditional", header, lines)


def records_of(case: Case) -> list[dict[str, Any]]:
    """Return a record for each budget, and each thing to hold."""
    torch.set_num_threads(1)
    numbers = parameters(case.width, case.number)
    rng = np.random.default_rng(case.number)
    zeros = np.zeros(case.width)
    points = rng.multivariate_normal(zeros, numbers["covariance"], size=case.train + ROWS)
    train, rows = points[: case.train], points[case.train :]
    train = train - train.mean(axis=0)  # the truths are those of means of zero
    fit = covariance(torch.from_numpy(train))[0].numpy()
    exact = {
        "fitted": conditional_values(case.name, numbers | {"covariance": fit}, False, rows),
        "true": conditional_values(case.name, numbers, False, rows),
    }

    def explained(train: Floats, budget: int | None) -> Explanation:
        def predict(inputs: Floats) -> Floats:
            return model(case.name, numbers, False, inputs)

        explainer = Explainer(predict, Conditional(train, "gaussian"), seed=case.number)
        return explainer(rows, budget=budget)

    return [
        {
            "kind": case.name,
            "columns": case.width,
            "training rows": case.train,
            "budget": "default" if budget is None else str(budget),
            "against": against,
            "method": answer.method,
            "evaluations": answer.evaluations,
            **record(answer, _subject(case.name, exact[against.split(",")[0]], answer), None),
        }
        for budget in BUDGETS
        for against, answer in _answers(explained, train, rng, budget)
    ]


def _answers(
    explained: Any, train: Floats, rng: np.random.Generator, budget: int | None
) -> Iterator[tuple[str, Explanation]]:
    """Yield what to compare an answer with, and the answer."""
    answer = explained(train, budget)
    yield "fitted", answer
    yield "true", answer
    # the same seed, so that draws and designs are alike: what differs is the fit
    refits = [
        explained(train[rng.integers(len(train), size=len(train))], budget).values
        for _ in range(REFITS)
    ]
    spread = np.var(refits, axis=0, ddof=1)
    errors = np.sqrt(answer.standard_errors**2 + spread)
    freedom = min(answer.degrees_of_freedom, REFITS - 1)
    yield "true, with refits", replace(answer, standard_errors=errors, degrees_of_freedom=freedom)


def _subject(name: str, exact: Floats, answer: Explanation) -> Subject:
    return Subject(name, exact, np.abs(exact).sum(axis=1), lambda: answer)
