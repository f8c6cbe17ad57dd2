"""Absent features drawn given the present ones: distributions of rows, fitted to training rows.

The marginal value function leaves an absent feature as a background row has it. Here the background
row is *moved* to where the present features put it. Let z be a draw of a Gaussian of covariance C,
A the absent and P the present columns. Then, by Matheron's rule,

    z_A + C_AP C_PP^-1 (x_P - z_P)

is a draw of x_A given x_P. The gain C_AP C_PP^-1 depends on the coalition alone, so that all rows
and all draws share it, and every draw b is a game of its own, as with a background row:

    v_b(S) = f(x_P, the draw b of x_A given x_P),    v(S) = mean over b of v_b(S).

If columns are independent, the gain is 0, and this is the marginal value function. Each kind of
distribution has its own draws (b, m), the same for all rows and coalitions:

    gaussian     z of the fitted Gaussian, in opposite pairs: linear models have no error from draws
    copula       the same of normal scores, by which columns of any kind look Gaussian
    empirical    a place between 0 and 1 in the weights of the nearest training rows
    learned      a place between 0 and 1 for each column, drawn one after the other (learned.py)

Columns are numbers here. Where a column has equal numbers, as categories have, each of them owns an
interval of the normal scale as wide as its share of the training rows, and a draw has its own place
in that interval. What is drawn is a *place* (0 to n - 1) among a column's numbers in order, so that
the model only gets cells that training rows have; only a Gaussian draws other numbers.

Letters: r rows, c coalitions, b draws, n training rows, d columns, m numbers of a draw.
"""

from abc import ABC, abstractmethod
from copy import copy, deepcopy
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

MAX_ENTRIES = 1 << 22
"""Entries of the largest intermediate tensor: coalitions are filled in some at a time."""

MIN_ROWS_A_COLUMN = 10
"""Training rows a column below which their covariance is shrunk."""

RIDGE = 1e-6
"""Added to variances, as a part of them: columns may depend on each other exactly."""

MAX_COMPARED_ROWS = 4_096
"""Training rows among which the nearest ones are sought: of more, a sample."""

NOT_COUNTED = (
    "Standard errors cover the draws of absent features and coalitions, but not how well "
    "{rows:,} training rows show which features move together."
)

KINDS = ("copula", "gaussian", "empirical", "learned")
"""Distributions, by name."""


class Columns:
    """Training rows as numbers (n, d), and each column's numbers in order."""

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers
        #: (d, n) the numbers of each column in order, and the rows that have them
        self.ordered, self.rows = numbers.T.contiguous().sort(dim=1, stable=True)

    @property
    def count(self) -> int:
        """The number of training rows n."""
        return len(self.numbers)

    def intervals(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first place of each number (r, d) among its column's, and the one after."""
        wanted = numbers.T.contiguous()
        start = torch.searchsorted(self.ordered, wanted)
        end = torch.searchsorted(self.ordered, wanted, right=True)
        return start.T, end.T

    def scores(self, numbers: Tensor, within: Tensor) -> Tensor:
        """Return normal scores (r, b, d) of numbers (r, d), at places (r or 1, b, d) in ties."""
        start, end = (part[:, None] for part in self.intervals(numbers))
        width = end - start
        inside = torch.where(width > 1, within, 0.5)
        quantile = (start + inside * width) / self.count
        margin = 0.25 / self.count
        scores: Tensor = torch.special.ndtri(quantile.clamp(margin, 1 - margin))
        return scores

    def nearest(self, numbers: Tensor) -> Tensor:
        """Return the places of the nearest training numbers, of numbers (..., d)."""
        wanted = numbers.flatten(0, -2).T.contiguous()
        after = torch.searchsorted(self.ordered, wanted).clamp(1, max(1, self.count - 1))
        after = after.clamp_max(self.count - 1)
        before = (after - 1).clamp_min(0)
        gap = self.ordered.gather(1, after) - wanted
        is_before = wanted - self.ordered.gather(1, before) < gap
        return torch.where(is_before, before, after).T.reshape(numbers.shape)


class Distribution(ABC):
    """A distribution of rows, fitted to training rows; `notes` are for the user."""

    notes: tuple[str, ...] = ()
    compares_rows: ClassVar[bool] = False  #: whether all training rows are held for a coalition

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def to(self, device: torch.device) -> "Distribution":
        """Return the same distribution on a device."""
        if device.type == "cpu":
            return self
        there = copy(self)
        there.columns = copy(self.columns)
        for part in (there, there.columns):
            for name, value in vars(part).items():
                if isinstance(value, Tensor | torch.nn.Module):
                    setattr(part, name, deepcopy(value).to(device))
        return there

    @abstractmethod
    def draws(self, count: int, rng: np.random.Generator) -> Tensor:
        """Return b draws (b, m), which all rows and coalitions share."""

    @abstractmethod
    def fill(self, numbers: Tensor, present: Tensor, draws: Tensor) -> Tensor:
        """Return rows (r, c, b, d) given the present numbers of rows (r, d): places, or numbers.

        `present` (r or 1, c, d) says which are, and `draws` are (r or 1, b, m). What is returned
        for the present ones does not count.
        """


class Gaussian(Distribution):
    """A Gaussian with the training rows' mean and covariance."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self.mean = columns.numbers.mean(dim=0)
        self.covariance, self.notes = covariance(columns.numbers)

    def draws(self, count: int, rng: np.random.Generator) -> Tensor:
        """Return draws (b, d), each with its opposite."""
        return self.mean + _normal(count, self.covariance, rng)

    def fill(self, numbers: Tensor, present: Tensor, draws: Tensor) -> Tensor:
        """Return numbers (r, c, b, d)."""
        return moved(draws, numbers[:, None] - draws, gains(self.covariance, present))


class Copula(Distribution):
    """A Gaussian of normal scores: any columns, with the dependence of a Gaussian."""

    def __init__(self, columns: Columns, rng: np.random.Generator) -> None:
        super().__init__(columns)
        within = torch.from_numpy(rng.uniform(size=columns.numbers.shape))
        scores = columns.scores(columns.numbers, within[:, None])[:, 0]
        self.covariance, self.notes = covariance(scores)

    def draws(self, count: int, rng: np.random.Generator) -> Tensor:
        """Return normal scores, and places in ties, each with its opposite, (b, 2 d)."""
        half = latin_square(-(-count // 2), len(self.covariance), rng)
        within = torch.stack((half, 1 - half), dim=1).flatten(0, 1)[:count]
        return torch.cat((_normal(count, self.covariance, rng), within), dim=1)

    def fill(self, numbers: Tensor, present: Tensor, draws: Tensor) -> Tensor:
        """Return places (r, c, b, d)."""
        scores, within = draws.chunk(2, dim=2)
        shift = self.columns.scores(numbers, within) - scores
        there = moved(scores, shift, gains(self.covariance, present))
        quantile: Tensor = torch.special.ndtr(there)
        return (quantile * self.columns.count).long().clamp_max(self.columns.count - 1)


class Empirical(Distribution):
    """The training rows nearest to the present features, weighted by a Gaussian kernel.

    Rows are compared by the Mahalanobis distance of the present columns' normal scores (Aas, Jullum
    and Loland 2021). The k = sqrt(n) nearest have weights exp(-2 (distance / that of the k-th)^2).
    Along the first principal component of all columns, a draw is a place in the sum of weights.
    """

    compares_rows = True

    def __init__(self, columns: Columns, rng: np.random.Generator) -> None:
        super().__init__(columns)
        scores = columns.scores(columns.numbers, torch.tensor(0.5))[:, 0]
        self.covariance, self.notes = covariance(scores)
        order = (scores @ torch.linalg.eigh(self.covariance).eigenvectors[:, -1]).argsort()
        if columns.count > MAX_COMPARED_ROWS:
            order = order[np.sort(rng.choice(columns.count, MAX_COMPARED_ROWS, replace=False))]
            self.notes += (
                f"The nearest training rows are searched among {MAX_COMPARED_ROWS:,} of "
                f"{columns.count:,}.",
            )
        self.scores = scores[order]  #: (n, d) of the rows that are compared
        #: (n, d) the place of each of their numbers among its column's
        self.places = columns.rows.argsort(dim=1).T[order]

    def draws(self, count: int, rng: np.random.Generator) -> Tensor:
        """Return places between 0 and 1, (b, 1)."""
        return latin_square(count, 1, rng)

    def fill(self, numbers: Tensor, present: Tensor, draws: Tensor) -> Tensor:
        """Return places (r, c, b, d), which are those of one training row for each draw."""
        shared = len(present) == 1
        if shared:  # equal rows have equal neighbours: every draw of a row is a row of its own
            numbers, same = numbers.unique(dim=0, return_inverse=True)
        else:
            same = torch.arange(len(numbers), device=numbers.device)
        summed = self._weights(numbers, present).cumsum(dim=2)  # (r, c, n)
        n = len(self.scores)
        # one search in all sums, the i-th of which lies between i and i + 1
        number = torch.arange(summed[..., 0].numel(), device=summed.device).reshape(
            summed.shape[:2]
        )
        flat = (summed / summed[..., -1:] + number[..., None]).flatten()
        own = number[same][..., None]
        wanted = own + draws[:, None, :, 0].expand(len(same), -1, -1)
        found = torch.searchsorted(flat, wanted.contiguous(), right=True) - own * n
        return self.places[found.clamp(0, n - 1)]

    def _weights(self, numbers: Tensor, present: Tensor) -> Tensor:
        """Return the weights (r, c, n) of the training rows for rows (r, d)."""
        scores = self.columns.scores(numbers, torch.tensor(0.5, device=numbers.device))  # (r, 1, d)
        factor = torch.linalg.cholesky(_blocks(self.covariance, present))
        mask = present[..., None].to(scores.dtype)  # (r or 1, c, d, 1)
        shared = len(present) == 1
        rows = scores[:, 0].T if shared else scores.mT[:, None]
        own = torch.linalg.solve_triangular(factor, mask * rows, upper=False).mT
        others = torch.linalg.solve_triangular(factor, mask * self.scores.T, upper=False).mT
        distance = torch.cdist(own, others)  # (1, c, r, n) or (r, c, 1, n)
        distance = distance[0].transpose(0, 1) if shared else distance[:, :, 0]
        near = round(sqrt(len(self.scores)))
        limit = distance.kthvalue(near, dim=2, keepdim=True).values
        weights = (-2 * (distance / limit.clamp_min(1e-9)).square()).exp()
        return torch.where(distance <= limit, weights, 0.0)


# Gaussians


def covariance(points: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """Return the covariance (d, d) of points (n, d), and a note if it is shrunk.

    Of few points, correlations are shrunk towards 0 (Ledoit and Wolf 2004, eq. 14).
    """
    n, d = points.shape
    centred = points - points.mean(dim=0)
    deviation = centred.square().mean(dim=0).sqrt()
    deviation = torch.where(deviation > 0, deviation, 1.0)
    unit = centred / deviation
    correlation = unit.T @ unit / n
    notes: tuple[str, ...] = ()
    if n < MIN_ROWS_A_COLUMN * d:
        target = torch.eye(d, dtype=points.dtype) * correlation.diagonal().mean()
        distance = (correlation - target).square().sum()
        # the sum over rows of |u u' - correlation|^2
        spread = unit.square().sum(dim=1).square().sum() - n * correlation.square().sum()
        part = float((spread / n**2 / distance.clamp_min(1e-300)).clamp(0, 1))
        correlation = (1 - part) * correlation + part * target
        notes = (
            f"{n:,} training rows are few for the covariance of {d} columns: correlations are "
            f"shrunk by {part:.0%}.",
        )
    correlation = correlation + RIDGE * torch.eye(d, dtype=points.dtype)
    constant = correlation.diagonal() < 2 * RIDGE
    correlation = correlation + torch.diag(constant.to(points.dtype))
    return deviation[:, None] * correlation * deviation, notes


def gains(covariance: Tensor, present: Tensor) -> Tensor:
    """Return C_.P C_PP^-1 (r or 1, c, d, d), with 0 in the columns of absent ones."""
    blocks = _blocks(covariance, present)
    cross = covariance * present[..., None].to(covariance.dtype)  # the rows of present ones
    return torch.cholesky_solve(cross, torch.linalg.cholesky(blocks)).mT


def _blocks(covariance: Tensor, present: Tensor) -> Tensor:
    """Return C_PP for each coalition, (r or 1, c, d, d), with 1 at the places of absent ones."""
    both = present[..., None] & present[..., None, :]
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    return torch.where(both, covariance, identity)


def moved(draws: Tensor, shift: Tensor, gain: Tensor) -> Tensor:
    """Return draws (r or 1, b, d) moved by gain x shift (r, b, d): (r, c, b, d)."""
    if len(gain) > 1:
        return draws[:, None] + torch.einsum("rcij,rbj->rcbi", gain, shift)
    rows, count, width = shift.shape
    product = shift.flatten(0, 1) @ gain[0].flatten(0, 1).T
    return draws[:, None] + product.reshape(rows, count, -1, width).transpose(1, 2)


def _normal(count: int, covariance: Tensor, rng: np.random.Generator) -> Tensor:
    """Return draws (b, d) of a Gaussian with mean 0, each with its opposite."""
    half = torch.special.ndtri(latin_square(-(-count // 2), len(covariance), rng))
    pairs = torch.stack((half, -half), dim=1).flatten(0, 1)[:count]
    drawn: Tensor = pairs @ torch.linalg.cholesky(covariance).T
    return drawn


def latin_square(count: int, width: int, rng: np.random.Generator) -> Tensor:
    """Return numbers (b, m) between 0 and 1, those of each column spread evenly."""
    steps = rng.permuted(np.tile(np.arange(count), (width, 1)), axis=1).T
    return torch.from_numpy((steps + rng.uniform(size=(count, width))) / count)


def fitted(kind: str, numbers: Tensor, seed: int) -> Distribution:
    """Return a distribution of some kind, fitted to training rows as numbers (n, d)."""
    columns = Columns(numbers)
    rng = np.random.default_rng(seed)
    law: Distribution
    if kind == "gaussian":
        law = Gaussian(columns)
    elif kind == "empirical":
        law = Empirical(columns, rng)
    elif kind == "copula":
        law = Copula(columns, rng)
    else:
        from shearshap.games.learned import Learned  # which derives from what is here

        law = Learned(columns, rng)
    law.notes += (NOT_COUNTED.format(rows=columns.count),)
    return law


# From distributions to the model's inputs


@dataclass(frozen=True, eq=False)
class Sampler:
    """A distribution of a game's inputs: fills in absent inputs given the present ones."""

    distribution: Distribution
    cells: Tensor  #: (d, n) the inputs that a column's numbers in order stand for
    #: (pool, d) the numbers of all cells, if inputs are rows of a pool; None: they are numbers
    pool: Tensor | None = None

    @classmethod
    def of(cls, law: Distribution, train: Tensor, pool: Tensor | None = None) -> "Sampler":
        """Return the sampler of inputs whose training rows are (n, d), on their device."""
        there = law.to(train.device)
        return cls(there, train.T.gather(1, there.columns.rows), pool)

    def fill(self, inputs: Tensor, present: Tensor, draws: Tensor) -> Tensor:
        """Return inputs (r, c, b, d) given the present ones of (r, d), `present` (r or 1, c, d)."""
        numbers = inputs.double() if self.pool is None else self.pool.gather(0, inputs)
        width = inputs.shape[1]
        law = self.distribution
        beside = min(law.columns.count, MAX_COMPARED_ROWS) if law.compares_rows else width
        largest = max(len(present) * width * beside, len(numbers) * draws.shape[1] * width)
        step = max(1, MAX_ENTRIES // largest)
        parts = [
            self._cells(law.fill(numbers, some, draws), inputs)
            for some in present.split(step, dim=1)
        ]
        return torch.cat(parts, dim=1)

    def _cells(self, found: Tensor, inputs: Tensor) -> Tensor:
        """Return what was drawn, places or numbers (r, c, b, d), as inputs of the model."""
        if found.is_floating_point():
            if inputs.is_floating_point():
                return found.to(inputs.dtype)
            found = self.distribution.columns.nearest(found)
        width, count = self.cells.shape
        return self.cells.flatten()[found + count * torch.arange(width, device=found.device)]
