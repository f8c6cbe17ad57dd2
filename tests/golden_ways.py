"""Golden numbers of the ways in which rows are explained, beside those of methods in golden.py.

    python tests/golden_ways.py write    compute all numbers and replace golden_ways.npz
    python tests/golden_ways.py check    compute them again and print where they differ

Laws hold whatever a rule of thumb says: which rows share a kernel, which background rows are drawn,
how much a fit is shrunk. These numbers show that such a rule has changed.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import golden
from games import smooth_table, table_game
from shearshap import Conditional, Explainer, Explanation, explain_game

FILE = Path(__file__).with_name("golden_ways.npz")
MORE = ("interaction_errors", "set_values", "set_errors", "row_evaluations")
Floats = NDArray[np.float64]
Way = tuple[str, Callable[[], Explanation]]

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 9))
TRAIN = RNG.normal(size=(40, 9))
WIDE = RNG.normal(size=(34, 70))
LEVELS = np.round(TRAIN[:, :5] + 0.8 * TRAIN[:, [1, 2, 3, 4, 0]])  #: they move together


def smooth(rows: Floats) -> Floats:
    """Sums and products, one column at a time, so that no batch changes a bit."""
    x = rows.T
    total = x[0] * x[1] + x[2] * np.abs(x[3]) - x[4] * x[0] * x[2]
    for column in x[1:]:
        total = total + 0.5 * column / (1 + column * column)
    return np.asarray(total / (1 + np.abs(total)))


def outputs(rows: Floats) -> Floats:
    """Three outputs, one of them much larger than the others."""
    x = rows.T
    return np.stack((smooth(rows), 100 * x[0] * x[1], np.where(x[2] > x[3], x[4], x[0])), axis=1)


def chances(rows: Floats) -> Floats:
    """Probabilities of two classes."""
    first = 1 / (1 + np.exp(-2 * smooth(rows) - rows[:, 0]))
    return np.stack((1 - first, first), axis=1)


def vote(rows: Floats) -> Floats:
    """A model with players who seldom matter."""
    weights = 1.5 ** -np.arange(rows.shape[1])
    total = sum(weights[n] * (rows[:, n] > 0) for n in range(rows.shape[1]))
    return np.asarray(total > 0.5 * weights.sum(), dtype=np.float64)


def by_size(rows: Floats) -> Floats:
    """Almost a function of how many of the first nine are present."""
    x = rows.T
    return np.asarray(np.exp(sum(x[:9]) / 2) + 0.01 * x[0] * x[1] * x[2])


def from_a_number_on(rows: Floats) -> Floats:
    """The same, but for a jump."""
    x = rows.T
    return np.asarray((sum(x[:9]) > 4) + 0.1 * x[0] * x[1] * x[2])


def _by_kriging() -> Iterator[Way]:
    plain = Explainer(smooth, ("mean", TRAIN), method="kriging")
    wide = replace(plain, background=0.0)
    steps = replace(plain, model=golden.steps)
    votes = Explainer(vote, -np.ones(9), method="kriging")
    partly = ROWS.copy()
    partly[::2, 5:] = TRAIN.mean(axis=0)[5:]
    yield "shared kernels", partial(plain, ROWS, budget=100)
    yield "shared kernels, tol", partial(plain, ROWS, budget=300, tol=0.02)
    yield "shared kernels, steps", partial(steps, ROWS, budget=100)
    yield "own kernels", partial(plain, ROWS[:3], budget=60, interactions=3)
    yield "own kernels, outputs", partial(replace(plain, model=outputs), ROWS, budget=60)
    yield "many players", partial(wide, WIDE[:, :30], budget=150)
    yield "many rows, interactions", partial(wide, WIDE[:, :12], budget=200, interactions=True)
    yield "one kernel", partial(wide, WIDE, budget=600)
    yield "fewer pairs than players", partial(wide, WIDE[:5], budget=100)
    yield "null players", partial(plain, partly, budget=60)
    yield "votes", partial(votes, np.abs(ROWS[:6]) - 0.2, budget=120)
    for name, model in (("by size", by_size), ("from a number on", from_a_number_on)):
        of_sizes = Explainer(model, 0.0, method="kriging", drop_null=False)
        yield name, partial(of_sizes, 1 + 0.1 * ROWS[:6], budget=100)
        quiet = np.concatenate((1 + 0.1 * ROWS[:6], ROWS[:6, :3]), axis=1)
        yield f"{name}, quiet players", partial(of_sizes, quiet, budget=100)
    yield "Banzhaf", partial(replace(plain, semivalue="banzhaf"), ROWS[:3], budget=80)


def _against_background_rows() -> Iterator[Way]:
    for method in ("kriging", "permutation", "leverage", "shear-unbiased"):
        plain = Explainer(smooth, TRAIN[:30], method=method, seed=1)
        weighted = replace(plain, background=("kmeans", TRAIN, 6))
        yield f"all background rows, {method}", partial(plain, ROWS[:4], budget=1500)
        yield f"some background rows, {method}", partial(plain, ROWS[:4], budget=500)
        yield f"weighted background rows, {method}", partial(weighted, ROWS[:4], budget=600)
    plain = Explainer(smooth, TRAIN[:30], method="kriging", seed=1)
    several = replace(plain, model=outputs)
    yield "background rows, tol", partial(plain, ROWS[:6], budget=2500, tol=0.01)
    yield "background rows, outputs", partial(several, ROWS[:3], budget=700)
    yield "background rows, interactions", partial(plain, ROWS[:3], budget=1500, interactions=True)


def _given_the_present() -> Iterator[Way]:
    rows = LEVELS[:4]
    for kind in ("copula", "gaussian", "empirical"):
        background = Conditional(LEVELS, kind=kind, samples=20)
        plain = Explainer(smooth, background, seed=2)
        some = replace(plain, method="kriging")
        yield f"given the present, {kind}", partial(plain, rows)
        yield f"given the present, {kind}, some draws", partial(some, rows, budget=250)
        yield f"given the present, {kind}, interactions", partial(plain, rows, interactions=True)


def _of_other_kinds() -> Iterator[Way]:
    plain = Explainer(smooth, ("median", TRAIN), seed=3)
    nested = {"a": {"b": {"x0": None, "x1": None, "x2": None}, "c": [3, 4]}, "d": [5, 6]}
    named = replace(plain, groups=nested, feature_names=[f"x{n}" for n in range(9)])
    loss = Explainer(chances, TRAIN[:5], loss="log loss", y=[0, 1, 1, 0, 1], seed=4)
    table = table_game(smooth_table(6, 1))
    asked = {"players": 6, "budget": 40, "tol": 0.01, "interactions": True}
    yield "a hierarchy", partial(named, ROWS[:4])
    yield "a hierarchy, outputs", partial(replace(named, model=outputs), ROWS[:4], budget=50)
    yield "a loss", partial(loss, ROWS[:5], budget=400)
    yield "a game", partial(explain_game, table, **asked)  # type: ignore[arg-type]
    for index in ("SII", "STII", "FSII"):
        order = partial(plain, ROWS[:3], budget=200, interactions=3)
        yield index, partial(order, interaction_index=index)


WAYS = dict(
    (
        *_by_kriging(),
        *_against_background_rows(),
        *_given_the_present(),
        *_of_other_kinds(),
    )
)

if __name__ == "__main__":
    golden.main(WAYS, FILE, sys.argv[1:], (*golden.FIELDS, *MORE))
