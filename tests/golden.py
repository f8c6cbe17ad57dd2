"""Golden numbers: what methods answer on fixed games and models, kept in golden.npz.

    python tests/golden.py write    compute all numbers and replace the file
    python tests/golden.py check    compute them again and print where they differ by more than 1e-12

A refactoring must leave them alone. The models here answer a row with the same bits in any batch (no
matrix products), so that only a change of the numbers shows, not a change of the batches.
`test_golden.py` compares them in CI, with room for other machines' rounding.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from games import smooth_table, table_game
from shearshap import METHODS, BudgetError, Explainer, Explanation, MethodError, explain_game

FILE = Path(__file__).with_name("golden.npz")
TOLERANCE = 1e-12
FIELDS = (
    "values",
    "base_values",
    "predictions",
    "standard_errors",
    "interactions",
    "cross_contribution",
)

Numbers = dict[str, NDArray[np.float64]]
Methods = Mapping[str, Any]
Questions = Mapping[str, Callable[[], Explanation]]


def questions(methods: Methods) -> Questions:
    """Return what some methods are asked, by names that begin with theirs."""
    found = {}
    for name, method in methods.items():
        of_models = _model_questions(method, stops=name != "auto")
        for case, question in (*_game_questions(method), *of_models):
            found[f"{name}/{case}"] = question
    return found


def numbers(asked: Questions, fields: Iterable[str] = FIELDS) -> Numbers:
    """Return every golden number, by question and field.

    What a method cannot do (a budget too small, no intervals) is left out.
    """
    found: Numbers = {}
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case, question in asked.items():
            try:
                explanation = question()
            except (BudgetError, MethodError):
                continue
            for name in fields:
                field = getattr(explanation, name)
                if field is not None:
                    found[f"{case}/{name}"] = np.asarray(field, dtype=np.float64)
    return found


def _game_questions(method: Any) -> Iterator[tuple[str, Any]]:
    one = table_game(smooth_table(6, 1))
    three = table_game(np.stack([smooth_table(7, seed) for seed in (2, 3, 4)], axis=1))
    weights = np.random.default_rng(5).lognormal(size=14)

    def vote(z: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.asarray(((z * weights).sum(axis=1) >= 0.55 * weights.sum()) * 1.0)

    for budget in (16, 50, 120, 500):
        yield (
            f"one output, budget {budget}",
            lambda b=budget: explain_game(one, players=6, budget=b, method=method),
        )
    yield (
        "three outputs, interactions",
        lambda: explain_game(three, players=7, budget=90, method=method, interactions=True, seed=1),
    )
    yield "vote", lambda: explain_game(vote, players=14, budget=400, method=method, seed=2)


def _model_questions(method: Any, *, stops: bool) -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(0)
    rows, train = rng.normal(size=(7, 9)), rng.normal(size=(40, 9))
    groups = {"block": [0, 1, 2], "pair": [3, 4]}
    step = Explainer(steps, ("mean", train), method=method, seed=3)
    averaged = replace(step, background=train[:3])
    smooth = Explainer(Smooth(), ("median", train), method=method, groups=groups, seed=4)
    yield "steps", lambda: step(rows, budget=150)
    yield "steps, interactions", lambda: step(rows, budget=250, interactions=True)
    yield "background rows", lambda: averaged(rows, budget=500)
    yield "smooth network, interactions", lambda: smooth(rows, budget=100, interactions=True)
    if stops:
        yield "steps, tol", lambda: step(rows, budget=400, tol=0.05)
        yield "steps, tol, all", lambda: step(rows, budget=600, tol=0.025, interactions=True)
        yield "smooth network, tol", lambda: smooth(rows, budget=60, tol=0.01)


def steps(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """A model that jumps, with two outputs: sums of products of steps, one column at a time."""
    step = [(rows[:, column] > 0.2 * column - 0.8) * 1.0 for column in range(rows.shape[1])]
    total = sum(((column % 3) - 0.7) * step[column] for column in range(len(step)))
    first = total + step[0] * step[1] * step[2] - 0.5 * step[3] * step[4] * step[5]
    second = step[6] * rows[:, 7] + np.abs(rows[:, 8]) * step[1] + total * step[2]
    return np.stack((first, second), axis=1)


class Smooth(nn.Module):
    """A smooth network of sums taken one input at a time, so that no batch changes its bits."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.weights = nn.Parameter(torch.randn((9, 5), generator=generator, dtype=torch.float64))
        self.out = nn.Parameter(torch.randn(5, generator=generator, dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (n, 9) to logits (n, 2)."""
        hidden = [self._unit(rows, unit) for unit in range(5)]
        total = hidden[0] * self.out[0]
        for unit in range(1, 5):
            total = total + hidden[unit] * self.out[unit]
        return torch.stack((total, hidden[0] * hidden[1]), dim=1)

    def _unit(self, rows: Tensor, unit: int) -> Tensor:
        total = rows[:, 0] * self.weights[0, unit]
        for column in range(1, 9):
            total = total + rows[:, column] * self.weights[column, unit]
        return total / (1 + total * total).sqrt()


def differences(asked: Questions, file: Path, tolerance: float) -> list[str]:
    """Return where answers differ from a file, a line each."""
    with np.load(file) as kept:
        before = {name: kept[name] for name in kept if name.rpartition("/")[0] in asked}
    now = numbers(asked, {name.rpartition("/")[2] for name in before})
    lines = [f"{name}: missing" for name in before.keys() - now.keys()]
    for name, then in before.items():
        if name not in now:
            continue
        same = then.shape == now[name].shape
        # standard errors may be much smaller than values; exact ones are rounding alone
        size = np.abs(then, where=np.isfinite(then), out=np.zeros_like(then)).max(initial=0.0)
        room = tolerance * np.clip(size, 1e-6, 1.0)
        close = same and np.allclose(now[name], then, rtol=tolerance, atol=room, equal_nan=True)
        if not close:
            lines.append(f"{name}: {_difference(now[name], then)}")
    return sorted(lines)


def _difference(now: NDArray[np.float64], then: NDArray[np.float64]) -> str:
    if now.shape != then.shape:
        return f"shape {now.shape} of {then.shape}"
    differ = now != then
    return f"{np.abs(now[differ] - then[differ]).max()}"


def main(asked: Questions, file: Path, words: list[str], fields: Iterable[str] = FIELDS) -> None:
    """Write a file of golden numbers, or compare with it."""
    if words == ["write"]:
        np.savez_compressed(file, **numbers(asked, fields))  # type: ignore[arg-type]
        print(f"{len(np.load(file).files)} arrays in {file}")
    elif words == ["check"]:
        found = differences(asked, file, TOLERANCE)
        print("\n".join(found) or "all equal")
        sys.exit(bool(found))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(questions(METHODS), FILE, sys.argv[1:])
