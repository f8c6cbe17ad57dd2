"""Rows, targets and checks that the zoos of boosters and of estimators share."""

from typing import Any

import numpy as np
from scipy.special import logit

from games import Floats
from shearshap import Explainer, Explanation

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
REAL = ROWS @ [1.0, -2.0, 0.5] + RNG.normal(size=60) / 4
POSITIVE = np.exp(REAL / 4)
COUNTS = POSITIVE.round()
TWO = (REAL > 0).astype(int)
THREE = np.digitize(REAL, [-1, 1])
LABELS = np.stack((TWO, ROWS[:, 1] > 0, ROWS[:, 2] > 0.3), axis=1).astype(int)
PAIR = np.stack((REAL, POSITIVE), axis=1)

SCALES = (None, "probability", "log-odds", "margin")


def explained(model: Any, rows: Any, scale: Any = None) -> Explanation:
    """Explain three rows against one other; with so few players, exactly."""
    answer = Explainer(model, rows[:1], scale=scale)(rows[10:13], budget=16)
    assert answer.method in ("exact", "exact (linear)", "exact (trees)", "all coalitions")
    assert np.abs(answer.gap).max() < 1e-4 * (1 + np.abs(answer.predictions).max())
    return answer


def log_odds(chances: Any) -> Floats:
    return np.asarray(logit(np.clip(np.asarray(chances, dtype=float), 1e-7, 1 - 1e-7)))


def agree(ours: Any, theirs: Any, tolerance: float = 1e-6) -> None:
    theirs = np.asarray(theirs, dtype=float)
    shape = len(theirs) if theirs.size == len(theirs) else theirs.shape
    np.testing.assert_allclose(
        np.reshape(ours, shape), theirs.reshape(shape), rtol=tolerance, atol=tolerance
    )
