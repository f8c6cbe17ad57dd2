"""Whether a game's predictions are the model's own: those on the rows as the user passed them.

The prediction of a game is the value of its full coalition. It should be what the model says of the
row itself. So the model is asked once more for the first few rows, without any mixing, and for all
rows if their types changed on the way to the model:

    mixed        the game's predictions, asked for together with other mixes of row and background
    untouched    the model on the rows themselves, and nothing else

Where the two differ, two further questions tell why:

    untouched, asked again, differs             the model is random
    mixed, asked alone, agrees with untouched   the model depends on its batch
                                                (one background row: as many rows as untouched)
    otherwise                                   the rows reach the model changed, as in their types
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from shearshap.errors import ModelError
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions

if TYPE_CHECKING:
    from shearshap.games.game import ModelGame
    from shearshap.models import Predictor

ROWS = 4
"""Rows that are compared if nothing changes on the way: the first ones of a call."""

PART_OF_EFFECT = 1e-3
"""A difference below this part of what is explained, prediction - base value, does not count."""

ROUNDING_ERRORS = 1_000
"""A difference below this many rounding errors of an output's largest value does not count either.

What a model sums up may be much larger than its outputs. In half precision it is `MOST_ROUNDING` of
the output instead, and on accelerators, which may compute in fewer digits than they store (TF32),
at least `LEAST_ROUNDING_ON_ACCELERATORS`.
"""

MOST_ROUNDING = 0.05
LEAST_ROUNDING_ON_ACCELERATORS = 0.01

LARGEST_TERM = 1.0
"""The size of what a network sums up even where all its outputs are 0, as weights usually are."""


def disagreement(game: "ModelGame", ends: Tensor) -> str | None:
    """Compare a game's predictions with the model's own; say how and why they differ, if they do.

    `ends` (r, 2, k) are base value and prediction of every row.
    """
    count = game.rows if game.type_changes else min(ROWS, game.rows, game.batch.size)
    mixed = ends[:count, FULL]
    tolerance = _Tolerance.of(game, ends)
    try:
        untouched = game.untouched_answer(count)
        if tolerance.allows(mixed, untouched):
            return None

        again = game.untouched_answer(count)
        if not tolerance.allows(untouched, again):
            return _random(tolerance.largest(untouched, again, game))

        # of one background row, so that as many rows are in a batch as of the untouched ones
        full = end_coalitions(game.players, game.device)[:, [FULL]]
        alone = game.take(slice(0, count), background=slice(0, 1))(full)
        game.usage.checks += count
    except ModelError as error:
        return f"the model fails on the rows themselves, but not on mixes with them: {error}"

    difference = tolerance.largest(untouched, mixed, game)
    if tolerance.allows(alone[:, 0], untouched):
        return _depends_on_batch(difference)
    wrong = tolerance.different_rows(untouched, mixed)
    extent = f"{wrong} of the {count} rows from row {game.place(0)} on differ"
    return _changed(difference, extent, game.type_changes)


@dataclass(frozen=True)
class _Tolerance:
    """By how much two answers for the same row may differ."""

    allowed: Tensor  #: (k,)
    log_odds: bool  #: of probabilities, which are compared as these: log-odds magnify rounding

    @classmethod
    def of(cls, game: "ModelGame", ends: Tensor) -> "_Tolerance":
        outputs = game.predict.outputs
        log_odds = outputs.scale == "log-odds" and outputs.form == "probability"
        values = ends.sigmoid() if log_odds else ends

        effect = (values[:, FULL] - values[:, EMPTY]).abs().amax(dim=0)
        # of each output by itself: one in millions must not hide what is wrong with a probability
        size = values.abs().amax(dim=(0, 1))
        rounding = _rounding(game.predict) * size + _rounding_of_sums(game.predict)
        return cls(PART_OF_EFFECT * effect + rounding, log_odds)

    def allows(self, first: Tensor, second: Tensor) -> bool:
        """Return whether answers (n, k) are the same."""
        return not self.different_rows(first, second)

    def different_rows(self, first: Tensor, second: Tensor) -> int:
        """Return for how many rows answers (n, k) differ."""
        same = self._gaps(first, second) <= self.allowed
        return int((~same).any(dim=1).sum())

    def largest(self, first: Tensor, second: Tensor, game: "ModelGame") -> str:
        """Return the largest difference of answers (n, k), for what is allowed, in words."""
        smallest = torch.finfo(self.allowed.dtype).tiny
        excess = self._gaps(first, second) / self.allowed.clamp_min(smallest)
        row, output = divmod(int(excess.argmax()), excess.shape[1])
        return f"{first[row, output]:.6g} and {second[row, output]:.6g} for row {game.place(row)}"

    def _gaps(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the differences of answers (n, k) that are compared with what is allowed."""
        if self.log_odds:
            first = first.sigmoid()
            second = second.sigmoid()
        return (first - second).abs()


def _rounding(predict: "Predictor") -> float:
    """Return by which part of its largest value rounding may change an output."""
    # a model that takes any type may compute in single precision within
    precision = predict.dtype or torch.float32
    rounding = min(ROUNDING_ERRORS * torch.finfo(precision).eps, MOST_ROUNDING)
    if predict.device.type == "cpu":
        return rounding
    return max(rounding, LEAST_ROUNDING_ON_ACCELERATORS)


def _rounding_of_sums(predict: "Predictor") -> float:
    """Return by how much rounding may change an output that is 0, as the sum of larger terms."""
    precision = predict.dtype or torch.float64
    return float(torch.finfo(precision).eps) * LARGEST_TERM


def _random(difference: str) -> str:
    return (
        f"the model answers two identical calls differently ({difference}): is it random, or in "
        "training mode? The values are as uncertain as its answers, whatever their standard errors"
    )


def _depends_on_batch(difference: str) -> str:
    return (
        "the model's answer for a row depends on the rows beside it in its batch "
        f"({difference}, alone and in a larger batch); pass batch_size=1 to ask row by row, or "
        "make it treat each row by itself"
    )


def _changed(difference: str, extent: str, changes: tuple[str, ...]) -> str:
    reason = "the rows reach it in another form"
    if changes:
        reason = f"{'; '.join(changes)}; give rows and background the same types"
    return (
        f"the model says {difference}, as you passed it and as it is explained ({extent}): {reason}"
    )
