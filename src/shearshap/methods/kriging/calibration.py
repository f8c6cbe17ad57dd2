"""The priors of rows, and how a few pilot rows calibrate the rule that they follow.

The relevances of a row follow from its own values by a rule, `Calibration`. Restricted likelihood
fits its numbers, shrunk to the defaults. Players that add nothing wherever they are seen to join
are *quiet*. Two coalitions that differ in one player show it. At least, they are

    {i} and none,   all but i and all.

Most of them never matter: a tree does not ask for them, or they are not part of what a game is
about. Others only tip a balance, as in a vote. The pilot rows show which it is: the calibration may
have a Gaussian prior on the linear coefficients of quiet players, and shift their relevances. Other
players have a flat prior.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.kernel import (
    NUGGET_FLOOR,
    Part,
    chunk_entries,
    kernel_and_slopes,
    nugget_and_size,
    odd_kernel,
    size_factor,
)
from shearshap.methods.kriging.pairs import OddEven, evenly_spaced, thinned_pairs
from shearshap.methods.kriging.posterior import Factors, Posterior, Process
from shearshap.methods.standard_errors import TIED
from shearshap.result.calibration import MAX_RELEVANCE, Calibration

RIDGE = 0.03  #: of the even part's pairwise regression, relative to its kernel's diagonal
MAX_OUTPUTS = 32  #: of a row, whose mean features make its relevances
MAX_STRENGTH_PAIRS = 1000  #: pairs that this regression sees
MAX_QUIET_PAIRS = 800  #: pairs among which players are seen to join
MAX_LOGIT = 9.0  #: of a relevance, up or down

# What the fit sees. More rows, pairs or steps changed errors by less than 1 %.
FIT_ROWS = 32
MIN_FIT_PAIRS = 64
MAX_FIT_PAIRS = 96
FIT_PAIRS = 0.6  #: part of all pairs, between these
FREEDOM = 48  #: pairs beyond those that the linear part takes
FIT_STEPS = 5
MIN_DECREASE = 1e-4  #: of the loss in a step, as a part of what its slope promises
MAX_HALVINGS = 10  #: of a step that decreases it too little
MIN_STEP = 1e-4  #: length of a step after which the minimum is reached
FIT_WORK = 2 * 10**7  #: rows times cubed pairs that computing the likelihood once may cost

# The even part says less about the odd one than the odd part itself. So it counts for a tenth, and
# every fourth row is enough.
EVEN_WEIGHT = 0.1
EVEN_EVERY = 4

#: standard deviations of level, linear, pairwise, ratio and log nugget around the defaults
PRIOR_DEVIATIONS = (1.5, 0.2, 0.3, 0.3, 4.0)
PLAYER_DEVIATION = 0.3  #: that of the players' terms
MAX_NUGGET = 1e3  #: beyond, all that is not linear is white anyway

# What the likelihood of more pairs chooses.
SIZE_VARIANCES = (0.1, 1.0, 10.0, 100.0, 1e3)  #: of the component of the coalition's size
NO_SIZE = 1e-20  #: a variance as good as none, whose inverse is finite
SIZE_GAIN = 2.0  #: log likelihood per game that this component must gain
QUIET_SHIFTS = (0.0, -3.0)  #: of the logits of quiet players' relevances
QUIET_VARIANCES = (1e-6, 1e-3, 0.1, 10.0)  #: of their linear coefficients
MAX_CHOICE_PAIRS = 800
MAX_CHOICE_GAMES = 16
CHOICE_WORK = 3e8  #: games times cubed pairs that one likelihood may cost, but for the least

# The inflation of standard errors.
MAX_INFLATION = 3.0
MOVE_QUANTILE = 0.95
NORMAL_QUANTILE = 1.96  #: the same of the absolute value of a standard normal
MOVE_SHRINKAGE = 10  #: number of moves at which the log of the factor counts for half


class Prior(NamedTuple):
    """What distinguishes the rows' priors."""

    relevance: Tensor  #: (r, p)
    precision: Tensor  #: (r, p) of the linear coefficients; 0: flat

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, features: Tensor, quiet: Tensor | None
    ) -> "Prior":
        """Return the priors of rows by their features (r, p, 4) and quiet players (r, p)."""
        logit = rule_logits(calibration, features)
        if calibration.quiet_variance is None or quiet is None:
            return cls(relevances(logit), torch.zeros_like(logit))
        players = quiet.to(logit.dtype)
        # bounded before the shift too, so that it is felt wherever a logit is
        shifted = logits(relevances(logit)) + calibration.quiet_shift * players
        return cls(relevances(shifted), players / calibration.quiet_variance)

    def take(self, rows: Tensor) -> "Prior":
        """Return the priors of some rows."""
        return Prior(self.relevance[rows], self.precision[rows])


def row_priors(parts: OddEven, calibration: Calibration) -> Prior:
    """Return the priors of rows whose parts are at unit size."""
    quiet = None if calibration.quiet_variance is None else quiet_rows(parts)
    return Prior.from_calibration(calibration, relevance_features(parts), quiet)


def rule_logits(calibration: Calibration, features: Tensor) -> Tensor:
    """Return the logits (r, p) that the rule makes of features (r, p, 4)."""
    c = calibration
    coefficients = features.new_tensor([c.level, c.linear, c.pairwise, c.ratio])
    return features @ coefficients + features.new_tensor(c.players)


def relevances(logit: Tensor) -> Tensor:
    """Return relevances of logits, strictly between 0 and MAX_RELEVANCE."""
    return MAX_RELEVANCE * torch.sigmoid(logit.clamp(-MAX_LOGIT, MAX_LOGIT))


def logits(relevance: Tensor) -> Tensor:
    """Return the logits of relevances."""
    return torch.logit(relevance / MAX_RELEVANCE)


# Features of a row


def relevance_features(parts: OddEven) -> Tensor:
    """Return the features 1, log c^2, log q and log(mean q / mean c^2), (r, p, 4).

    They are means over a row's outputs, or some of them if there are many. Outputs differ little
    in their relevances: one kernel for all of them had the same errors as one for each.
    """
    parts = parts.take_outputs(evenly_spaced(parts.outputs, MAX_OUTPUTS))
    u = parts.signs
    linear = (parts.odd @ torch.linalg.solve(u.mT @ u, u.mT).mT).square()
    pairwise = pairwise_strengths(parts.take(pairs=slice(MAX_STRENGTH_PAIRS)))

    tiny = torch.finfo(linear.dtype).tiny
    log_ratio = torch.log((pairwise.mean(1) + tiny) / (linear.mean(1) + tiny))
    # Bounded, because additive games have no pairwise part at all, and roughly centred at 0.
    ratio = log_ratio.clamp(-12, 4) + 3

    features = [
        torch.ones_like(linear),
        _centred_log(linear),
        _centred_log(pairwise),
        ratio[:, None].expand_as(linear),
    ]
    of_games = torch.stack(features, 2)
    if parts.outputs == 1:
        return of_games
    return of_games.reshape(parts.rows, parts.outputs, -1, 4).mean(1)


def _centred_log(x: Tensor) -> Tensor:
    """Return log x minus its mean over players, (r, p).

    A small part of the mean is added to x, so that a null player's zero stays finite.
    """
    floor = 1e-3 * x.mean(1, keepdim=True)
    log = torch.log(x + floor + torch.finfo(x.dtype).tiny)
    return log - log.mean(1, keepdim=True)


def pairwise_strengths(parts: OddEven) -> Tensor:
    """Return q_j, (r, p), of a ridge regression of the even part on all products u_i u_j.

    q_j is the sum of the squared coefficients of the pairs {i, j} over i. As

        sum_{i<j} u_i u_j u'_i u'_j = ((u . u')^2 - p) / 2,

    the regression needs none of the products themselves.
    """
    u = parts.signs
    m, p = u.shape
    products = p * (p - 1) / 2
    eye = torch.eye(m, dtype=u.dtype, device=u.device)

    # The regression's constant is removed from both sides.
    centre = eye - 1 / m
    gram = centre @ ((u @ u.mT).square() - p) @ centre / (2 * products)
    even = parts.even - parts.even.mean(1, keepdim=True)
    lower = torch.linalg.cholesky(gram + RIDGE * eye)
    dual = torch.cholesky_solve(even.mT, lower).mT / products

    strengths = []
    for chunk in dual.split(max(1, chunk_entries(u) // (max(m, p) * p))):
        coefficients = (chunk[:, None] * u.mT) @ u  # (r, p, p), symmetric
        squares = coefficients.tril(-1).square()
        strengths.append(squares.sum(1) + squares.sum(2))
    return torch.cat(strengths)


# Quiet players


def quiet_rows(parts: OddEven) -> Tensor:
    """Return which players are quiet in all outputs of a row, (r, p) of bool."""
    some = parts.take(pairs=slice(MAX_QUIET_PAIRS))
    signs = torch.cat([some.signs, -some.signs])
    values = torch.cat([some.even + some.odd, some.even - some.odd], 1)
    return quiet_players(signs, values).reshape(parts.rows, parts.outputs, -1).all(1)


def quiet_players(signs: Tensor, values: Tensor) -> Tensor:
    """Return which players never add on joining, (g, p), from values (g, c) at signs (c, p)."""
    players = signs.shape[1]
    size = signs.sum(1)
    differ_in_one = (signs @ signs.mT).round() == players - 2
    after, before = torch.nonzero(differ_in_one & (size[:, None] > size), as_tuple=True)
    player = (signs[after] - signs[before]).argmax(1)

    gains = (values[:, after] - values[:, before]).abs()
    adds = gains > TIED * values.abs().amax(1, keepdim=True)
    who = torch.nn.functional.one_hot(player, players).to(values.dtype)
    times_added = adds.to(values.dtype) @ who
    return (times_added == 0) & (who.sum(0) > 0)


# The fit


def fit(parts: OddEven, *, quiet: bool = True) -> Calibration:
    """Return the calibration of the largest penalised likelihood of parts at unit size.

    The likelihood is that of the odd and even parts of a few rows at a few pairs; each row has
    its own scales. The penalty is a Gaussian prior around the default calibration. Then the
    likelihood of many more pairs chooses the component of the size and the prior of quiet players,
    if they may have one of their own.
    """
    features = relevance_features(parts)
    players = parts.signs.shape[1]
    centre = _to_vector(Calibration.default(players))
    deviations = torch.tensor(
        PRIOR_DEVIATIONS + (PLAYER_DEVIATION,) * players, dtype=torch.float64, device="cpu"
    )
    sample = FitSample.from_parts(parts, features)

    def loss(x: Tensor) -> tuple[float, Tensor]:
        value, slope = sample.minus_log_likelihood(_from_vector(centre + deviations * x))
        return value + 0.5 * float(x @ x), deviations * slope + x

    best = minimise(loss, torch.zeros_like(centre), FIT_STEPS)
    calibration = _from_vector(centre + deviations * best)
    who = quiet_rows(parts) if quiet else torch.zeros_like(features[..., 0], dtype=torch.bool)
    return PilotGames.from_parts(parts, features, who).choose(calibration)


def minimise(
    function: Callable[[Tensor], tuple[float, Tensor]], start: Tensor, steps: int
) -> Tensor:
    """Return the point (n,) that BFGS reaches from `start` in a limited number of steps.

    The function returns its value at a point, and its slope (n,).

    It is our own because torch.optim imports torch's compiler at the first call, which takes a
    second, and SciPy wakes the threads of its linear algebra: on 16 cores a row took 27 ms, not 17.
    """
    point = start
    value, slope = function(point)
    eye = torch.eye(len(start), dtype=start.dtype, device=start.device)
    inverse = eye  # of the Hessian
    for number in range(steps):
        step = -inverse @ slope
        if number == 0:
            # nothing is known of the curvature yet
            step = step / max(1.0, float(slope.abs().sum()))
        for _ in range(MAX_HALVINGS):
            new_value, new_slope = function(point + step)
            if new_value <= value + MIN_DECREASE * float(step @ slope):
                break
            step = step / 2
        else:
            return point

        change = new_slope - slope
        curvature = float(step @ change)
        if curvature > 1e-10 * float(change @ change):
            if number == 0:
                inverse = curvature / float(change @ change) * eye
            left = eye - torch.outer(step, change) / curvature
            inverse = left @ inverse @ left.mT + torch.outer(step, step) / curvature
        point = point + step
        value = new_value
        slope = new_slope
        if float(step.abs().max()) < MIN_STEP:
            break
    return point


def _to_vector(calibration: Calibration) -> Tensor:
    """Return level, linear, pairwise, ratio, log nugget and the players' terms, (5 + p,)."""
    c = calibration
    scalars = (c.level, c.linear, c.pairwise, c.ratio, math.log(c.nugget))
    return torch.tensor(scalars + c.players, dtype=torch.float64, device="cpu")


def _from_vector(vector: Tensor) -> Calibration:
    """Return the calibration of which `_to_vector` made a vector."""
    level, linear, pairwise, ratio, log_nugget, *players = vector.tolist()
    nugget = math.exp(min(log_nugget, math.log(MAX_NUGGET)))
    return Calibration(level, linear, pairwise, ratio, nugget, players=tuple(players))


class Detrended(NamedTuple):
    """What a trend leaves of the values of each row, at unit size."""

    trend: Tensor  #: (m, h)
    residuals: Tensor  #: (r, m)
    informative: Tensor  #: (r,) of bool: whether a row's residuals are more than rounding

    @classmethod
    def from_values(cls, trend: Tensor, values: Tensor) -> "Detrended":
        """Return the residuals of values (r, m) from their regression on the trend (m, h)."""
        basis = torch.linalg.qr(trend)[0]
        residuals = values - values @ basis @ basis.mT
        size = residuals.square().mean(1).sqrt()
        informative = size > 1e-12 * values.square().mean(1).sqrt()
        unit = residuals / torch.where(informative, size, 1.0)[:, None]
        return cls(trend, unit, informative)


def informative_games(parts: OddEven, count: int) -> Tensor:
    """Return the numbers of at most `count` games, less those whose odd part is linear."""
    games = parts.spread_games(count)
    return games[Detrended.from_values(parts.signs, parts.odd[games]).informative.cpu()]


@dataclass(frozen=True)
class FitSample:
    """The rows and pairs that the fit sees."""

    signs: Tensor  #: (m, p)
    features: Tensor  #: (r, p, 4) of the relevances, computed from all pairs
    odd: Detrended  #: without its linear trend
    even: Detrended  #: of every few rows, without its mean

    @classmethod
    def from_parts(cls, parts: OddEven, features: Tensor) -> "FitSample":
        """Return a sample of rows and pairs, evenly spaced."""
        players = parts.signs.shape[1]
        part = int(FIT_PAIRS * len(parts.signs))
        few = min(max(part, MIN_FIT_PAIRS), MAX_FIT_PAIRS)
        pairs = thinned_pairs(parts.signs, max(few, players + 1 + FREEDOM))
        affordable = max(2, min(FIT_ROWS, FIT_WORK // len(pairs) ** 3))
        games = parts.spread_games(affordable)

        seen = parts.take(games, pairs)
        constant = torch.ones_like(seen.signs[:, :1])
        return cls(
            signs=seen.signs,
            features=features[games // parts.outputs],
            odd=Detrended.from_values(seen.signs, seen.odd),
            even=Detrended.from_values(constant, seen.even[::EVEN_EVERY]),
        )

    def minus_log_likelihood(self, calibration: Calibration) -> tuple[float, Tensor]:
        """Return minus the log likelihood of both parts, weighted, and its slope (5 + p,)."""
        relevance = relevances(rule_logits(calibration, self.features))
        nugget = calibration.nugget + NUGGET_FLOOR
        odd = minus_log_likelihood("odd", self.signs, relevance, nugget, self.odd)
        some = slice(None, None, EVEN_EVERY)
        even = minus_log_likelihood("even", self.signs, relevance[some], nugget, self.even)

        weight = EVEN_WEIGHT * EVEN_EVERY
        in_relevances = odd.in_relevances
        in_relevances[some] += weight * even.in_relevances
        inside = logits(relevance).abs() < MAX_LOGIT - 1e-9
        slopes = relevance * (1 - relevance / MAX_RELEVANCE) * inside
        in_logits = in_relevances * slopes

        in_coefficients = torch.einsum("rp,rpf->f", in_logits, self.features)
        in_log_nugget = nugget * (odd.in_nugget + weight * even.in_nugget)
        slope = torch.cat([in_coefficients, in_log_nugget[None], in_logits.sum(0)])
        return float(odd.value + weight * even.value), slope.cpu()


class MinusLogLikelihood(NamedTuple):
    """Minus the log restricted likelihood of all rows, and its derivatives."""

    value: Tensor  #: ()
    in_relevances: Tensor  #: (r, p)
    in_nugget: Tensor  #: ()


def minus_log_likelihood(
    part: Part, u: Tensor, relevance: Tensor, nugget: float, seen: Detrended
) -> MinusLogLikelihood:
    """Return that of the odd or even part at pairs u (m, p), of the rows that are informative.

    For values y its derivative in the kernel K is [P - (m - h) P y y' P / (y' P y)] / 2. It goes on
    to the relevances by the kernel's own derivatives. Written out, both take a third of the time of
    differentiating through a Cholesky factor and a kernel.
    """
    kernel, slopes = kernel_and_slopes(part, u, relevance)
    noise = nugget * torch.eye(len(u), dtype=u.dtype, device=u.device)
    factors = Factors.from_kernel(kernel + noise, seen.trend)
    y = seen.residuals[:, None]
    dual = y @ factors.projection
    squares = (dual * y).sum(2).clamp_min(torch.finfo(u.dtype).tiny)
    values = torch.where(seen.informative, -factors.log_likelihood(squares)[:, 0], 0.0)

    m, h = seen.trend.shape
    scaled = dual * ((m - h) / squares)[..., None]
    in_kernel = torch.baddbmm(factors.projection, dual.mT, scaled, beta=0.5, alpha=-0.5)
    in_kernel *= seen.informative[:, None, None]
    return MinusLogLikelihood(
        value=values.sum(),
        in_relevances=slopes(in_kernel),
        in_nugget=in_kernel.diagonal(dim1=1, dim2=2).sum(),
    )


@dataclass(frozen=True)
class PilotGames:
    """A few games of pilot rows at many pairs, whose likelihood chooses between calibrations."""

    signs: Tensor  #: (m, p)
    odd: Tensor  #: (g, m)
    features: Tensor  #: (g, p, 4), of the relevances
    quiet: Tensor  #: (g, p) of bool, the quiet players

    @classmethod
    def from_parts(cls, parts: OddEven, features: Tensor, quiet: Tensor) -> "PilotGames":
        """Return as many games and pairs of parts at unit size as are affordable."""
        pairs = slice(MAX_CHOICE_PAIRS)
        signs = parts.signs[pairs]
        affordable = int(CHOICE_WORK / len(signs) ** 3)
        games = informative_games(parts, max(1, min(affordable, MAX_CHOICE_GAMES)))
        rows = games // parts.outputs
        return cls(signs, parts.odd[games][:, pairs], features[rows], quiet[rows])

    def choose(self, calibration: Calibration) -> Calibration:
        """Return the calibration with the likeliest component of the size and quiet players.

        Either may stand for what the other explains better, so they are chosen together.
        """
        if not len(self.odd):
            return calibration
        sizes = [replace(calibration, size_variance=size) for size in (0.0, *SIZE_VARIANCES)]
        by_kernel = [sizes]
        if self.quiet.any():
            by_kernel = [
                [
                    replace(sized, quiet_shift=shift, quiet_variance=variance)
                    for sized, variance in product(sizes, QUIET_VARIANCES)
                ]
                for shift in QUIET_SHIFTS
            ]
        worth = torch.cat([self.log_likelihoods(choices) for choices in by_kernel])
        choices = list(chain.from_iterable(by_kernel))
        has_size = worth.new_tensor([choice.size_variance > 0 for choice in choices])
        return choices[int((worth - SIZE_GAIN * len(self.odd) * has_size).argmax())]

    def log_likelihoods(self, choices: list[Calibration]) -> Tensor:
        """Return those of all games together, (c,), under calibrations with the same relevances.

        The component of the size is a trend whose coefficients have its variance. So one
        factorisation of the kernel serves all choices.
        """
        priors = [Prior.from_calibration(each, self.features, self.quiet) for each in choices]
        kernel, _ = odd_kernel(self.signs, priors[0].relevance)
        kernel += nugget_and_size(self.signs, choices[0].nugget, 0.0)

        by_size = size_factor(self.signs)
        variance = kernel.new_tensor([each.size_variance for each in choices])
        size_precision = 1 / variance.clamp_min(NO_SIZE)[:, None, None]
        precision = torch.stack([prior.precision for prior in priors])
        every = size_precision.expand(*precision.shape[:2], by_size.shape[1])
        trend = torch.cat([self.signs, by_size], 1)
        factors = Factors.from_kernel(kernel, trend, torch.cat([precision, every], 2))
        likelihoods = factors.log_likelihood(factors.regress(self.odd[:, None]).squares)
        return likelihoods.sum((1, 2))


# Inflation


def inflation(process: Process, odd: Tensor) -> float:
    """Return the factor by which to multiply the standard errors, from 1 to MAX_INFLATION.

    Under the model the posterior mean moves, from a part of the pairs to all of them, by a Gaussian
    of variance variance_part - variance_all. Moves are measured in its standard deviations and
    pooled over rows and players. Their 95 % quantile, divided by the 1.96 of a Gaussian, is the
    factor. The fewer moves there are, the more it is shrunk to 1.

    That is done for the last half, quarter and eighth of the pairs, and the largest factor counts:
    how rough a game is shows only when much is known about it.

    The odd parts are (k, n, m), n rows at each of k kernels. Rows whose odd part is linear say
    nothing, and must not be among them.
    """
    if not odd.numel():
        return 1.0
    m, p = process.signs.shape
    whole = process.condition(odd)
    # they count from p, below which the linear trend is not known
    sizes = [(m + p) // 2, (3 * m + p) // 4, (7 * m + p) // 8]
    factors = [
        _move_factor(process.first(size).condition(odd[..., :size]), whole)
        for size in sizes
        if p + 2 < size < m
    ]
    return min(max([1.0, *factors]), MAX_INFLATION)


def _move_factor(part: Posterior, whole: Posterior) -> float:
    """Return how many times further than expected the means moved between two posteriors."""
    expected_variance = (part.variance - whole.variance).clamp_min(0)
    moves = (whole.mean - part.mean) / (part.scale * expected_variance).sqrt()
    moves = moves[torch.isfinite(moves)].abs()
    if not len(moves):
        return 1.0

    factor = float(torch.quantile(moves, MOVE_QUANTILE)) / NORMAL_QUANTILE
    weight = len(moves) / (len(moves) + MOVE_SHRINKAGE)
    return math.exp(weight * math.log(max(factor, 1e-9)))
