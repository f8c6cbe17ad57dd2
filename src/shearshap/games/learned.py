"""A learned distribution of rows: a small network predicts each column from any others.

It is a masked autoencoder of columns in bins: a column with few values has a bin for each, and any
other has bins with equally many training rows, in order. In training some columns are hidden at
random, and the network predicts their bins:

    bins        3   0   7   1
    given       3   -   7   -             "-" is a bin of its own
    predicted   .   p   .   p             probabilities of the bins of the hidden columns

To fill a row in, absent columns are drawn one after the other, each given those before. A draw has
a place u between 0 and 1 for each column: the bin is the one at u in the sum of probabilities, and
what is left of u is the place in the bin. So draws move little if probabilities do.

A tenth of the training rows is held out. The network that predicts these best is kept, and they
also show whether a Gaussian copula would have been better.

Letters: r rows, c coalitions, b draws, n training rows, d columns, q bins of a column, h hidden
units.
"""

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from shearshap.errors import InputError
from shearshap.games.conditional import Columns, Copula, Distribution, gains, latin_square, moved

BINS = 24
HIDDEN = 64
DEGREE = 6
STEPS = 1_000
BATCH = 256
LEARNING_RATE = 3e-3
STEPS_A_CHECK = 100
MIN_HELD_OUT = 10
MAX_HELD_OUT = 500
MASKS = 4
"""Times that each held-out row is predicted, with other columns hidden."""

TIES = 8
"""Places in ties over which a copula's predictions of held-out rows are averaged."""

MIN_TRAINING_ROWS = 100


class Learned(Distribution):
    """The distribution that a network has learnt; `notes` say if a copula predicts better."""

    def __init__(self, columns: Columns, rng: np.random.Generator) -> None:
        super().__init__(columns)
        n, d = columns.numbers.shape
        if n < MIN_TRAINING_ROWS:
            raise InputError(
                f"background: the kind 'learned' needs {MIN_TRAINING_ROWS} or more training rows, "
                f"got {n}; try kind='copula'"
            )
        start, _ = (part.T for part in columns.intervals(columns.ordered.T))  # (d, n)
        level = torch.cat((torch.zeros(d, 1), start.diff(dim=1) > 0), dim=1).cumsum(dim=1).long()
        few = level[:, -1:] < BINS
        bins = torch.where(few, level, start * BINS // n)  # (d, n) of a column's places in order
        #: (d, q) the number of training rows in each bin, and the first of their places
        self.sizes = torch.zeros(d, BINS).scatter_add_(1, bins, torch.ones(d, n))
        self.starts = self.sizes.cumsum(dim=1) - self.sizes
        self.bins = bins
        held = max(MIN_HELD_OUT, min(n // 10, MAX_HELD_OUT))
        order = torch.from_numpy(rng.permutation(n))
        self.network = self._trained(columns.numbers, order[held:], order[:held], rng)

    def _trained(
        self, numbers: Tensor, used: Tensor, held: Tensor, rng: np.random.Generator
    ) -> "_Network":
        bins = self._bins_of(numbers)
        tokens = bins[held].repeat(MASKS, 1)
        hidden = _hidden(tokens.shape, rng)
        best: tuple[float, dict[str, Tensor]] = (float("inf"), {})
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(int(rng.integers(1 << 31)))
            network = _Network(self.sizes)
            optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=1e-2)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
            for step in range(1, STEPS + 1):
                some = bins[used[torch.from_numpy(rng.integers(len(used), size=BATCH))]]
                loss = -network.log_likelihood(some, _hidden(some.shape, rng)).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                if step % STEPS_A_CHECK == 0:
                    with torch.no_grad():
                        score = -float(network.log_likelihood(tokens, hidden).mean())
                    best = min(
                        best, (score, deepcopy(network.state_dict())), key=lambda each: each[0]
                    )
        network.load_state_dict(best[1])
        network.requires_grad_(requires_grad=False)
        self.score = best[0]  #: minus the mean log-probability of a hidden column, of held-out rows
        self.copula_score = self._score_of_copula(numbers, used, held.repeat(MASKS), hidden, rng)
        if self.score > self.copula_score:
            self.notes = (
                "The learned distribution predicts held-out rows worse than a Gaussian copula: "
                f"{self.score:.3f} against {self.copula_score:.3f} nats per feature. Try "
                "Conditional(train, kind='copula').",
            )
        return network

    def _score_of_copula(
        self, numbers: Tensor, used: Tensor, held: Tensor, hidden: Tensor, rng: np.random.Generator
    ) -> float:
        """Return minus the mean log-probability of hidden columns by a copula of the same rows."""
        copula = Copula(Columns(numbers[used]), rng)
        rows = numbers[held]
        within = torch.from_numpy(rng.uniform(size=(len(rows), TIES, rows.shape[1])))
        gain = gains(copula.covariance, ~hidden[:, None])  # (r, 1, d, d)
        scores = copula.columns.scores(rows, within)
        means = moved(torch.zeros_like(scores), scores, gain)[:, 0]  # (r, ties, d)
        cross = copula.covariance * (~hidden)[:, :, None]
        left = copula.covariance.diagonal() - torch.einsum("rij,rji->ri", gain[:, 0], cross)
        deviations = left.clamp_min(1e-9).sqrt()[:, None]
        bins = self._bins_of(rows)
        every = torch.arange(rows.shape[1])
        start = self.starts[every, bins].double()
        ends = torch.stack((start, start + self.sizes[every, bins])) / self.columns.count
        low, high = torch.special.ndtr((torch.special.ndtri(ends)[:, :, None] - means) / deviations)
        likelihood = (high - low).mean(dim=1).clamp_min(1e-6).log()
        return -float((likelihood * hidden).sum() / hidden.sum())

    def _bins_of(self, numbers: Tensor) -> Tensor:
        """Return the bins (r, d) of numbers (r, d)."""
        start, _ = self.columns.intervals(numbers)
        places = start.clamp_max(self.columns.count - 1)
        return self.bins.gather(1, places.T).T

    def draws(self, count: int, rng: np.random.Generator) -> Tensor:
        """Return places between 0 and 1, (b, d)."""
        return latin_square(count, len(self.bins), rng)

    def fill(self, numbers: Tensor, present: Tensor, draws: Tensor) -> Tensor:
        """Return places (r, c, b, d)."""
        shape = (len(numbers), present.shape[1], draws.shape[1], numbers.shape[1])
        given = present[:, :, None].expand(shape).flatten(0, 2)
        wanted = draws[:, None].expand(shape).flatten(0, 2).float()
        own = self._bins_of(numbers)[:, None, None].expand(shape).flatten(0, 2)
        network = self.network
        weights = network.weights(0)
        state = network.embedded(torch.where(given, own, BINS))
        places = torch.empty(given.shape, dtype=torch.int64, device=given.device)
        for column in range(shape[3]):
            summed = network.probabilities(state, column).cumsum(dim=1)
            u = wanted[:, column, None]
            bins = torch.searchsorted(summed, u * summed[:, -1:], right=True).clamp_max(BINS - 1)
            size = self.sizes[column][bins]
            high = summed.gather(1, bins)
            low = torch.where(bins > 0, summed.gather(1, (bins - 1).clamp_min(0)), 0.0)
            inside = (u * summed[:, -1:] - low) / (high - low).clamp_min(1e-9)
            place = self.starts[column][bins] + (inside.clamp(0, 1) * size).floor()
            last = self.starts[column][bins] + size - 1
            places[:, column] = torch.minimum(place, last)[:, 0].long()
            drawn = weights[column][bins[:, 0]] - weights[column, BINS]
            state = state + torch.where(given[:, column, None], 0.0, drawn)
        return places.reshape(shape)


class _Network(nn.Module):
    """From the bins of given columns to the probabilities of the others'.

    Weights of a column's bins are a polynomial in their order and a free part: neighbours start
    alike.
    """

    basis: Tensor  #: (d, q, degree) polynomials of the bins' places
    empty: Tensor  #: (d, q) which bins no training row is in

    def __init__(self, sizes: Tensor) -> None:
        super().__init__()
        d = len(sizes)
        middles = (sizes.cumsum(dim=1) - sizes / 2) / sizes.sum(dim=1, keepdim=True)  # (d, q)
        powers = np.polynomial.legendre.legvander(2 * middles.numpy() - 1, DEGREE)[..., 1:]
        self.register_buffer("basis", torch.from_numpy(powers).float())
        self.register_buffer("empty", sizes == 0)
        self.smooth = nn.Parameter(torch.randn(2, d, DEGREE, HIDDEN) * (d * DEGREE) ** -0.5)
        self.free = nn.Parameter(torch.zeros(2, d, BINS + 1, HIDDEN))
        self.middle = nn.Sequential(
            nn.Linear(HIDDEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU()
        )
        self.bias = nn.Parameter((sizes + 0.5).log())

    def weights(self, way: int) -> Tensor:
        """Return the weights (d, q + 1, h) of bins, the last of hidden ones: 0 in, 1 out."""
        smooth = nn.functional.pad(self.basis @ self.smooth[way], (0, 0, 0, 1))
        return smooth + self.free[way]

    def embedded(self, bins: Tensor) -> Tensor:
        """Return the sum (r, h) over the columns of bins (r, d)."""
        places = bins + torch.arange(bins.shape[1], device=bins.device) * (BINS + 1)
        weights = self.weights(0).flatten(0, 1)
        return nn.functional.embedding_bag(places, weights, mode="sum")

    def logits(self, state: Tensor, column: int | slice = slice(None)) -> Tensor:
        """Return the logits (r, d, q), or of one column (r, q), from the sum (r, h)."""
        hidden = state + self.middle(state)
        bias = self.bias[column].masked_fill(self.empty[column], -torch.inf)
        weights = self.weights(1)[column][..., :-1, :]
        product = hidden @ weights.flatten(0, -2).T
        logits: Tensor = product.unflatten(1, weights.shape[:-1]) + bias
        return logits

    def probabilities(self, state: Tensor, column: int) -> Tensor:
        """Return the probabilities (r, q) of a column's bins."""
        return self.logits(state, column).softmax(dim=1)

    def log_likelihood(self, bins: Tensor, hidden: Tensor) -> Tensor:
        """Return the log-probabilities (m,) of all hidden bins (r, d), given the others."""
        logits = self.logits(self.embedded(torch.where(hidden, BINS, bins)))
        return logits.log_softmax(dim=2).gather(2, bins[..., None])[..., 0][hidden]


def _hidden(shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    """Return which columns of rows (r, d) to hide: any number of them, at least one."""
    rows, columns = shape
    count = rng.integers(1, columns + 1, size=(rows, 1))
    ranks = rng.uniform(size=(rows, columns)).argsort(axis=1).argsort(axis=1)
    return torch.from_numpy(ranks < count)
