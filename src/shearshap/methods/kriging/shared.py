"""Kernels that rows share: the equations of a million rows by a handful of factorisations.

A calibration holds relevances at which there are shared kernels, its centres. Either there is one,
the mean of the pilot rows, and its posterior is that of all rows. Or they are a few of the pilot
rows. Then every row takes the nearest, and refines its answer, unless it is far from all.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shearshap.methods.kriging.effort import Effort, effort
from shearshap.methods.kriging.left_out import LeaveOneOut
from shearshap.methods.kriging.odd_even import OddEven
from shearshap.methods.kriging.posterior import (
    Factors,
    condition,
    efficient,
    factorised,
    rows_at_once,
    scale_of_squares,
)
from shearshap.methods.kriging.products import Products
from shearshap.methods.kriging.quiet import Prior, row_priors
from shearshap.methods.kriging.refinement import Refined, Refinement
from shearshap.methods.kriging.relevances import logits, mean_relevances, relevance_features
from shearshap.methods.kriging.row_answers import Kriged, exactly_kriged, joined, kriged
from shearshap.methods.kriging.variances import VarianceRule
from shearshap.result.calibration import Calibration

FAR = 5.0
"""Distance between logits beyond which conjugate gradients do not get to a row from its centre."""


def central_rows(relevance: Tensor, count: int) -> Tensor:
    """Return at most `count` of the rows (r, p) that stand for all.

    One after the other, the row that lowers the sum of the squared distances to the nearest most.
    """
    points = logits(relevance).cpu()
    squares = torch.cdist(points, points).square()
    chosen = [int(squares.sum(0).argmin())]
    nearest = squares[chosen[0]]
    while len(chosen) < min(count, len(points)):
        lowered = torch.minimum(nearest[:, None], squares).sum(0)
        chosen.append(int(lowered.argmin()))
        nearest = torch.minimum(nearest, squares[chosen[-1]])
    return torch.tensor(sorted(set(chosen)))


@dataclass(frozen=True)
class SharedKernels:
    """The kernels at a calibration's centres for given pairs, and all that follows from them."""

    signs: Tensor  #: (m, p)
    calibration: Calibration
    effort: Effort
    centres: Tensor  #: (k, p), relevances
    nugget: float
    factors: Factors  #: of the centres

    @classmethod
    def of(cls, signs: Tensor, calibration: Calibration) -> "SharedKernels":
        """Return the kernels of a calibration with centres."""
        work = effort(*signs.shape)
        nugget = calibration.nugget
        if work.steps:
            nugget = max(nugget, smallest_nugget(len(signs)))

        centres = signs.new_tensor(calibration.centres)
        if not work.steps:
            centres = mean_relevances(centres)[None]
        chunks = centres.split(rows_at_once(signs))
        factors = [factorised(signs, chunk, nugget) for chunk in chunks]
        joined = Factors(*(torch.cat(parts) for parts in zip(*factors, strict=True)))
        return cls(signs, calibration, work, centres, nugget, joined)

    def kriged(self, parts: OddEven) -> Kriged:
        """Return the answers of r rows, (r, k, ...) for k outputs."""
        if not self.effort.steps:
            same = kriged(self.factors, self._omission, parts.odd[None])
            shape = (parts.rows, parts.outputs, -1)
            return Kriged(
                mean=same.mean.reshape(shape),
                variance=same.variance,
                scale=same.scale.reshape(shape),
                surprise=same.surprise.reshape(shape),
                rough_variance=same.rough_variance.reshape(shape),
                unit_variance=same.unit_variance,
            )
        prior = row_priors(parts, relevance_features(parts), self.calibration)
        return self._refined(parts.odd_by_row, prior)

    def _refined(self, odd: Tensor, prior: Prior) -> Kriged:
        """Return the answers given odd parts (r, k, m) of rows under these priors.

        Each row takes its nearest centre. Rows that are far from all, or whose trend is not flat,
        are solved exactly.
        """
        distance, nearest = torch.cdist(logits(prior.relevance), logits(self.centres)).min(1)
        nearest[(distance > FAR) | prior.precision.any(1)] = -1

        groups = []
        answers = []
        for centre in range(-1, len(self.centres)):
            near = torch.nonzero(nearest == centre)[:, 0]
            if len(near):
                groups.append(near)
                answers.append(self._of_centre(centre, odd[near], prior.take(near)))
        place = torch.cat(groups).argsort()
        return Kriged(*(field[place] for field in joined(answers)))

    def _of_centre(self, centre: int, odd: Tensor, prior: Prior) -> Kriged:
        """Return the answers of rows that are near one centre or, if it is -1, near none."""
        if centre < 0:
            return exactly_kriged(self.signs, odd, prior, self.calibration.nugget)
        relevance = prior.relevance
        outputs = odd.shape[1]
        variances = self._products.variances(relevance).repeat_interleave(outputs, 0)
        refinement = self._refinements[centre]
        refined = refinement.solve(odd.flatten(0, 1), variances, self.effort.steps)
        by_row = Refined(*(field.unflatten(0, (-1, outputs)) for field in refined))
        variance = self._variance_rule.variances(relevance)[:, None]
        own = self._variance_rule.variances(self.centres[centre : centre + 1])
        # residuals have the centre's diagonal of P, whose inverse grows as the variances do
        ratio = variance.mean(2, keepdim=True) / own.mean()
        return Kriged(
            mean=efficient(by_row.phi, odd),
            variance=variance,
            scale=scale_of_squares(by_row.squares, *self.signs.shape),
            surprise=ratio * by_row.surprise,
            rough_variance=ratio.square() * by_row.rough_variance,
            unit_variance=by_row.unit_variance[:, :1],
        )

    @cached_property
    def _omission(self) -> LeaveOneOut:
        return LeaveOneOut.of(self.signs, self.factors)

    @cached_property
    def _products(self) -> Products:
        return Products.of(self.signs, self.centres, self.effort.products)

    @cached_property
    def _refinements(self) -> list[Refinement]:
        return [
            Refinement.of(self.signs, factors, self._products, r, self.nugget)
            for factors, r in zip(self.factors.each(), self.centres, strict=True)
        ]

    @cached_property
    def _variance_rule(self) -> VarianceRule:
        nothing = self.signs.new_zeros(len(self.centres), 1, len(self.signs))
        exact = condition(self.factors, nothing).variance[:, 0]
        return VarianceRule.fitted(self.centres, exact)


def smallest_nugget(pairs: int) -> float:
    """Return the nugget below which a few steps of conjugate gradients are not enough."""
    if pairs < 150:
        return 1e-4
    return 1e-5 if pairs < 300 else 1e-6
