"""All that a row's interval is made of: its posterior, and what pairs show when left out."""

from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.left_out import LeaveOneOut, LeftOut
from shearshap.methods.kriging.posterior import Factors, condition, factorised, rows_at_once
from shearshap.methods.kriging.quiet import Prior


class Kriged(NamedTuple):
    """The answers of n games at each of k kernels, at unit size."""

    mean: Tensor  #: (k, n, p)
    variance: Tensor  #: (k, 1, p) at unit scale
    scale: Tensor  #: (k, n, 1)
    surprise: Tensor  #: (k, n, 1), this and the rest are those of `LeftOut`
    rough_variance: Tensor  #: (k, n, p)
    unit_variance: Tensor  #: (k, 1, p)

    @property
    def without(self) -> LeftOut:
        """What pairs show when left out."""
        return LeftOut(self.surprise, self.rough_variance, self.unit_variance)

    def with_errors_of(self, other: "Kriged", players: Tensor) -> "Kriged":
        """Return the answers with the errors that others have for some players, (k, p) of bool."""
        those = players[:, None]
        return self._replace(
            variance=torch.where(those, other.variance, self.variance),
            rough_variance=torch.where(those, other.rough_variance, self.rough_variance),
            unit_variance=torch.where(those, other.unit_variance, self.unit_variance),
        )


def kriged(factors: Factors, omission: LeaveOneOut, odd: Tensor) -> Kriged:
    """Return the answers given odd parts (k, n, m)."""
    mean, variance, scale, residual = condition(factors, odd)
    return Kriged(mean, variance, scale, *omission.given(residual))


def exactly_kriged(u: Tensor, odd: Tensor, prior: Prior, nugget: float) -> Kriged:
    """Return the answers given odd parts (r, n, m), each row's under its own prior.

    That quiet players add little elsewhere too is the likeliest guess, and makes values better. But
    it is a guess: their errors are those of a flat prior, as other players have it.
    """
    rows = rows_at_once(u)
    fields = (odd, prior.relevance, prior.precision)
    chunks = zip(*(field.split(rows) for field in fields), strict=True)
    answers = []
    for some_odd, relevance, precision in chunks:
        factors = factorised(u, relevance, nugget, precision)
        answer = kriged(factors, LeaveOneOut.of(u, factors), some_odd)
        if precision.any():
            flat = factors._replace(precision=torch.zeros_like(precision))
            doubted = kriged(flat, LeaveOneOut.of(u, flat), some_odd)
            answer = answer.with_errors_of(doubted, precision > 0)
        answers.append(answer)
    return joined(answers)


def joined(parts: list[Kriged]) -> Kriged:
    """Return the answers of several groups of kernels as one."""
    return Kriged(*(torch.cat(fields) for fields in zip(*parts, strict=True)))
