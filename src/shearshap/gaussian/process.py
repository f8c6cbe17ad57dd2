"""A Gaussian process over coalitions, and the Shapley values it expects.

With u = 2z - 1 a game is v = sum_T c_T prod_{j in T} u_j, and phi_i = 2 * sum over odd T containing
i of c_T / |T|: only the odd part o(S) = (v(S) - v(S^c)) / 2 counts. Its linear coefficients get a
flat prior, so games of order <= 2 are exact; the others c_T ~ N(0, scale * (prod_{j in T} r_j /
k(u, u) + nugget / 2^(p-1))). The relevances r_j of a row are read off its own values by a rule of a
few numbers, the calibration, fitted by restricted likelihood.

Letters: r rows, m pairs of complements (led by the pair of the full and the empty coalition), p
players.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

ENTRIES = 2**21  #: of the (r, m, m) kernels held at once
RIDGE = 0.03  #: of the even part's pairwise regression, relative to its kernel's diagonal
NUGGET_FLOOR = 1e-8  #: keeps the kernels of smooth games positive definite in float64
NUGGET_CEILING = 1e3  #: beyond, all that is not linear is white anyway
LARGEST, LOGIT = 0.95, 9.0  #: the bound of a relevance, and of the size of its logit
FIT_ROWS, FIT_PAIRS, FIT_STEPS = (
    32,
    96,
    15,
)  #: what the likelihood sees; more changed errors by less than 1 %
FEW = 7  #: degrees of freedom below which Student's t makes the intervals
INFLATION_WORK = 10**10  #: rows times cubed pairs that finding the inflation may cost
NODES = (
    24  #: most quadrature nodes for the prior variance, which needs less precision than the mean
)


@dataclass(frozen=True)
class Calibration:
    """The rule for a row's relevances, the nugget and the inflation of standard errors.

    logit(r_j / LARGEST) = level + linear log c_j^2 + pairwise log q_j + ratio log(mean q / mean
    c^2) + players_j, with c_j the odd part's linear coefficients and q_j the sum of squared
    pairwise coefficients of the even part, both logs centred over the row's players.
    """

    level: float = -3.5
    linear: float = 0.2
    pairwise: float = 0.9
    ratio: float = 0.1
    nugget: float = 1e-4  #: white variance, relative to the kernel's diagonal
    inflation: float = 1.0  #: of the standard errors
    players: tuple[float, ...] = ()  #: (p,)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain ones, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers: dict[str, Any]) -> "Calibration":
        """Return the calibration of `to_dict`'s numbers."""
        return cls(**{**numbers, "players": tuple(numbers["players"])})


@dataclass(frozen=True)
class Parts:
    """The pairs as signs, and each row's odd and even parts; the full coalition first."""

    signs: Tensor  #: (m, p), -1 or 1
    odd: Tensor  #: (r, m)
    even: Tensor  #: (r, m)

    @classmethod
    def of(cls, pairs: Tensor, inside: Tensor, outside: Tensor) -> "Parts":
        """Make the parts of values v(S) and v(S^c), (r, m), of pairs (m, p) of bool."""
        return cls(2 * pairs.double() - 1, (inside - outside) / 2, (inside + outside) / 2)

    def normalised(self) -> tuple["Parts", Tensor]:
        """Return the parts over each row's largest value, so that squares stay finite, and those
        values (r, 1).
        """
        largest = torch.maximum(self.odd.abs(), self.even.abs()).amax(1, keepdim=True)
        size = largest.clamp_min(torch.finfo(self.odd.dtype).tiny)
        return Parts(self.signs, self.odd / size, self.even / size), size

    def take(self, rows: Tensor | slice, pairs: Tensor | slice = slice(None)) -> "Parts":
        """Return the parts of some rows and pairs."""
        return Parts(self.signs[pairs], self.odd[rows][:, pairs], self.even[rows][:, pairs])


# The prior


def clues(parts: Parts) -> Tensor:
    """Return what relevances are read from: 1, log c^2, log q, log(mean q / mean c^2): (r, p, 4)."""
    linear = (parts.odd @ torch.linalg.pinv(parts.signs).mT).square()
    pairwise = pairwise_strengths(parts)
    tiny = torch.finfo(linear.dtype).tiny
    ratio = torch.log((pairwise.mean(1) + tiny) / (linear.mean(1) + tiny)).clamp(-12, 4) + 3
    one, level = torch.ones_like(linear), ratio[:, None].expand_as(linear)
    return torch.stack([one, _centred_log(linear), _centred_log(pairwise), level], 2)


def pairwise_strengths(parts: Parts) -> Tensor:
    """Return q_j, (r, p): squared coefficients of {i, j}, summed over i, in a ridge regression of
    the even part.

    As sum_{i<j} u_i u_j u'_i u'_j = ((u . u')^2 - p) / 2, the regression on all products needs none
    of them.
    """
    u, (m, p) = parts.signs, parts.signs.shape
    products = p * (p - 1) / 2
    centre = torch.eye(m, dtype=u.dtype, device=u.device) - 1 / m
    gram = centre @ ((u @ u.mT).square() - p) @ centre / (2 * products)
    ridged = gram + RIDGE * torch.eye(m, dtype=u.dtype, device=u.device)
    dual = (parts.even - parts.even.mean(1, keepdim=True)) @ torch.linalg.inv(ridged) / products
    rows = max(1, ENTRIES // (max(m, p) * p))
    return torch.cat([_shared_squares((part[:, None] * u.mT) @ u) for part in dual.split(rows)])


def _shared_squares(coefficients: Tensor) -> Tensor:
    """Return the sum of squares of each player's pairs, (r, p), of coefficients (r, p, p) on both
    sides alike.
    """
    squares = coefficients.tril(-1).square()
    return squares.sum(1) + squares.sum(2)


def _centred_log(x: Tensor) -> Tensor:
    """Return log x less its mean over players, (r, p), with a floor so that a null player's zero
    stays finite.
    """
    log = torch.log(x + 1e-3 * x.mean(1, keepdim=True) + torch.finfo(x.dtype).tiny)
    return log - log.mean(1, keepdim=True)


def relevances(known: Tensor, slopes: Tensor, players: Tensor) -> Tensor:
    """Return r (r, p), strictly between 0 and LARGEST, of clues (r, p, 4)."""
    return LARGEST * torch.sigmoid((known @ slopes + players).clamp(-LOGIT, LOGIT))


def relevances_of(parts: Parts, calibration: Calibration) -> Tensor:
    """Return each row's relevances, (r, p)."""
    c, like = calibration, parts.signs
    return relevances(
        clues(parts),
        like.new_tensor([c.level, c.linear, c.pairwise, c.ratio]),
        like.new_tensor(c.players),
    )


def kernels(u: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the odd (orders 3, 5, ...) and even (2, 4, ...) kernels (r, m, m), 1 at u = u', and
    the odd one's scale.

    prod_j (1 + r_j u_j u'_j) = A exp(s) with s = sum_j atanh(r_j) u_j u'_j and A = prod_j sqrt(1 -
    r_j^2); hence k_odd = A sinh(s) - sum_j r_j u_j u'_j and k_even = A cosh(s) - 1.
    """
    # through sinh(s / 2), which loses no digits where the relevances are tiny and sinh(s) is almost
    # linear
    half = torch.sinh(0.5 * (u * torch.atanh(r)[:, None]) @ u.mT)
    log_a = 0.5 * torch.log1p(-r.square()).sum(1)[:, None, None]
    odd = 2 * log_a.exp() * half * torch.sqrt(1 + half.square()) - (u * r[:, None]) @ u.mT
    even = 2 * log_a.exp() * half.square() + torch.expm1(log_a)
    odd_scale, even_scale = odd[:, :1, :1], even[:, :1, :1]
    return odd / odd_scale, even / even_scale, odd_scale


def shapley_of_kernel(u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Return cov(phi_i, o(u')) (r, p, m) and var(phi_i) (r, p) under the odd kernel, not scaled.

    phi_i[k(., u')] = sum over both signs of int_0^1 r_i u'_i prod_{j != i} (1 +- t r_j u'_j) dt - 2
    r_i u'_i, of degree p - 1 in t; as u'^2 = 1, r_i u'_i / (1 + t r_i u'_i) = (r_i u'_i - t r_i^2)
    / (1 - t^2 r_i^2).
    """
    t, weight = _nodes(u.shape[1] // 2 + 1, u)
    t, weight = torch.cat([t, -t]), torch.cat([weight, weight])
    tr = t[:, None] * r[:, None]
    log_product = 0.5 * torch.log1p(-tr.square()).sum(2, keepdim=True) + torch.atanh(tr) @ u.mT
    product = log_product.exp() * weight[:, None]
    inverse = 1 / (1 - tr.square())
    ru = r[..., None] * u.mT
    cross = ru * (inverse.mT @ product) - (r[:, None] * tr * inverse).mT @ product - 2 * ru
    return cross, _prior_variance(r)


def _prior_variance(r: Tensor) -> Tensor:
    """Return 4 * sum over odd T containing i, |T| >= 3, of r_T / |T|^2, (r, p).

    It is 2 r_i * sum over both signs of int int prod_{j != i} (1 +- s t r_j) ds dt - 4 r_i.
    """
    t, weight = _nodes(min(r.shape[1] // 2 + 1, NODES), r)
    st, weight = torch.outer(t, t).flatten(), torch.outer(weight, weight).flatten()
    factors = 1 + torch.cat([st, -st])[:, None] * r[:, None]
    others = factors.log().sum(2, keepdim=True).exp() / factors
    return 2 * r * (torch.cat([weight, weight])[:, None] * others).sum(1) - 4 * r


def _nodes(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return Gauss-Legendre nodes and weights on [0, 1], exact up to degree 2 * count - 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return like.new_tensor((nodes + 1) / 2), like.new_tensor(weights / 2)


def shapley_of_white(u: Tensor) -> tuple[Tensor, float]:
    """Return the same (p, m), and one variance for all players, for the nugget: o independent from
    pair to pair.

    phi_i = sum over pairs of 2 o(S) / (|S| C(p, |S|)) where i is in S, of -2 o(S) / ((p - |S|) C(p,
    |S|)) elsewhere. A nugget that is part of the game, not noise, keeps efficiency and makes the
    answer exact once every pair is known.
    """
    p, size = u.shape[1], (u.shape[1] + u.sum(1)).div(2).round()
    inverse = u.new_tensor([2 / math.comb(p, int(s)) for s in size.tolist()])
    cross = torch.where(u.mT > 0, inverse / size, -inverse / (p - size).clamp_min(1))
    return cross, sum(4 / (s * p * math.comb(p, s)) for s in range(1, p + 1))


# The posterior


def krige(parts: Parts, calibration: Calibration) -> tuple[Tensor, Tensor]:
    """Return the Shapley values and their standard errors, (r, p), of so many `degrees_of_freedom`."""
    unit, size = parts.normalised()
    m, p = parts.signs.shape
    shares, variance, scale = posterior(unit, relevances_of(unit, calibration), calibration.nugget)
    if math.isfinite(degrees_of_freedom(m, p)):
        variance = variance * max(m - p - 2, 1) / (m - p)  # Student's t brings its own m - p - 2
    return size * shares, size * calibration.inflation * (scale * variance).sqrt()


def posterior(parts: Parts, relevance: Tensor, nugget: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the shares' posterior mean (r, p), variance at unit scale (r, p) and scale (r, 1), in
    chunks of rows.
    """
    m, p = parts.signs.shape
    rows = max(1, ENTRIES // max(m**2, 2 * min(p // 2 + 1, NODES) ** 2 * p))
    chunks = zip(parts.odd.split(rows), relevance.split(rows), strict=True)
    found = [_posterior(parts.signs, odd, r, nugget) for odd, r in chunks]
    return (
        torch.cat([f[0] for f in found]),
        torch.cat([f[1] for f in found]),
        torch.cat([f[2] for f in found]),
    )


def _posterior(u: Tensor, odd: Tensor, r: Tensor, nugget: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return universal kriging's answer with the trend u beta: phi = 2 beta + b K^-1 (o - u beta)."""
    m, p = u.shape
    kernel, _, scale = kernels(u, r)
    lower, used = factor(kernel, nugget)
    (cross, variance), (white, white_variance) = shapley_of_kernel(u, r), shapley_of_white(u)
    cross, variance = (
        cross / scale + used * white,
        variance / scale[:, 0] + used[:, 0] * white_variance,
    )
    right = torch.cat([u.expand(len(odd), m, p), odd[..., None], cross.mT], 2)
    trend, values, cross = torch.linalg.solve_triangular(lower, right, upper=False).split(
        [p, 1, p], 2
    )
    gram = torch.linalg.cholesky_ex(trend.mT @ trend)[0]
    beta = torch.cholesky_solve(trend.mT @ values, gram)
    residual = values - trend @ beta
    shares = (2 * beta + cross.mT @ residual)[..., 0]
    # what rounding leaves of efficiency: sum_i phi_i = 2 o(all)
    shares = shares + (2 * odd[:, :1] - shares.sum(1, keepdim=True)) / p
    unknown = 2 * torch.eye(p, dtype=u.dtype, device=u.device) - trend.mT @ cross
    from_trend = torch.linalg.solve_triangular(gram, unknown, upper=False).square().sum(1)
    variance = variance - cross.square().sum(1) + from_trend
    # with its scale unknown, phi has a Student posterior of m - p degrees of freedom: m - p - 2 in
    # its variance
    return shares, variance.clamp_min(0), residual.square().sum(1) / max(m - p - 2, 1)


def degrees_of_freedom(pairs: int, players: int) -> float:
    """Return how many the standard errors have: m - p where that is small, else they count as
    known.
    """
    return pairs - players if pairs - players < FEW else math.inf


def factor(kernel: Tensor, nugget: float) -> tuple[Tensor, Tensor]:
    """Return the Cholesky factor of kernel + nugget and the nuggets (r, 1, 1), ten times larger
    where it fails.
    """
    eye = torch.eye(kernel.shape[-1], dtype=kernel.dtype, device=kernel.device)
    nuggets = torch.full_like(kernel[:, :1, :1], max(nugget, NUGGET_FLOOR))
    lower, failed = torch.linalg.cholesky_ex(kernel + nuggets * eye)
    while failed.any() and nuggets.max() < 1:
        nuggets = torch.where(failed[:, None, None] > 0, 10 * nuggets, nuggets)
        lower, failed = torch.linalg.cholesky_ex(kernel + nuggets * eye)
    return lower, nuggets


# The calibration


def calibrate(parts: Parts) -> Calibration:
    """Return the rule for relevances and the nugget by restricted likelihood, shrunk to defaults;
    then inflation.
    """
    parts, _ = parts.normalised()
    fitted = fit(parts)
    return replace(fitted, inflation=inflation(parts, fitted))


def fit(parts: Parts) -> Calibration:
    """Return what maximises the likelihood of odd and even parts of a few rows and pairs, each
    row's scales its own.
    """
    players = parts.signs.shape[1]
    default = Calibration(players=(0.0,) * players)
    pairs = thinned(parts.signs, max(FIT_PAIRS, 2 * players))
    rows = spread(len(parts.odd), max(2, min(FIT_ROWS, 10**8 // len(pairs) ** 3)))
    known, seen = clues(parts.take(rows)), parts.take(rows, pairs)
    u, one = seen.signs, torch.ones_like(seen.signs[:, :1])
    odd, even = standardised(u, seen.odd), standardised(one, seen.even)
    start = [
        default.level,
        default.linear,
        default.pairwise,
        default.ratio,
        math.log(default.nugget),
    ]
    centre = u.new_tensor(start + [0.0] * players)
    spreads = u.new_tensor([1.5, 0.2, 0.3, 0.3, 4.0] + [0.3] * players)
    x = torch.zeros_like(centre, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [x], max_iter=FIT_STEPS, tolerance_change=1e-4, line_search_fn="strong_wolfe"
    )
    least, best = math.inf, x.detach().clone()  # a line search that went astray may end elsewhere

    def loss() -> float:
        nonlocal least, best
        optimiser.zero_grad()
        numbers = centre + spreads * x
        odd_kernel, even_kernel, _ = kernels(u, relevances(known, numbers[:4], numbers[5:]))
        white = (numbers[4].clamp_max(math.log(NUGGET_CEILING)).exp() + NUGGET_FLOOR) * torch.eye(
            len(u), dtype=u.dtype, device=u.device
        )
        total: Tensor = 0.5 * x.square().sum()
        total = (
            total
            + minus_log_likelihood(odd_kernel + white, u, *odd)
            + minus_log_likelihood(even_kernel + white, one, *even)
        )
        total.backward()
        found = float(total.detach())
        if found < least:
            least, best = found, x.detach().clone()
        return found

    with torch.enable_grad():
        optimiser.step(loss)
    return _calibration((centre + spreads * best).tolist())


def _calibration(numbers: Sequence[float]) -> Calibration:
    level, linear, pairwise, ratio, log_nugget, *players = numbers
    nugget = math.exp(min(log_nugget, math.log(NUGGET_CEILING)))
    return Calibration(level, linear, pairwise, ratio, nugget, players=tuple(players))


def thinned(u: Tensor, count: int) -> Tensor:
    """Return the indices of the full coalition, all singletons and evenly spaced others, `count`
    where that is more.
    """
    size = u.sum(1).abs()
    kept, others = (
        torch.nonzero(size >= u.shape[1] - 2)[:, 0],
        torch.nonzero(size < u.shape[1] - 2)[:, 0],
    )
    return torch.cat([kept, others[spread(len(others), count - len(kept)).to(others.device)]])


def spread(length: int, count: int) -> Tensor:
    """Return at most `count` indices, evenly spaced."""
    count = max(0, min(length, count))
    return torch.arange(count, device="cpu") * length // max(count, 1)


def standardised(trend: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the trend leaves of y, of unit size (r, m), and whether it is more than rounding
    (r,).
    """
    left = y - y @ torch.linalg.pinv(trend).mT @ trend.mT
    size = left.square().mean(1).sqrt()
    counts = size > 1e-12 * y.square().mean(1).sqrt()
    return left / torch.where(counts, size, 1.0)[:, None], counts


def minus_log_likelihood(kernel: Tensor, trend: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """Return the value of `Restricted`, differentiable in the kernel."""
    value: Tensor = Restricted.apply(kernel, trend, y, counts)  # type: ignore[no-untyped-call]
    return value


class Restricted(torch.autograd.Function):
    """Minus the log restricted likelihood, scale profiled out, summed over rows.

    [log|K| + log|H' K^-1 H| + (m - h) log(y' P y)] / 2 with P = K^-1 - K^-1 H (H' K^-1 H)^-1 H'
    K^-1, and in K the derivative [P - (m - h) P y y' P / (y' P y)] / 2: one inverse gives both, in
    a third of the time that differentiating through the Cholesky factor takes.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, trend: Tensor, y: Tensor, counts: Tensor) -> Tensor:
        """Return the value, for kernels K (r, m, m), trend H (m, h), y (r, m) and which rows count
        (r,).
        """
        lower, _ = factor(kernel, 0.0)
        precision = torch.cholesky_inverse(lower)
        weighed = precision @ trend
        gram = torch.linalg.cholesky_ex(trend.mT @ weighed)[0]
        precision = precision - weighed @ torch.cholesky_solve(weighed.mT, gram)
        solved = precision @ y[..., None]
        freedom, left = (
            trend.shape[0] - trend.shape[1],
            (y[..., None] * solved).sum((1, 2)).clamp_min(1e-300),
        )
        slope = (precision - freedom * solved @ solved.mT / left[:, None, None]) / 2
        ctx.save_for_backward(counts[:, None, None] * slope)
        logs = [2 * triangle.diagonal(dim1=1, dim2=2).log().sum(1) for triangle in (lower, gram)]
        return torch.where(counts, logs[0] + logs[1] + freedom * left.log(), 0.0).sum() / 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the derivative in K alone."""
        return grads[0] * ctx.saved_tensors[0], None, None, None


def inflation(parts: Parts, calibration: Calibration) -> float:
    """Return how much too small standard errors are, seen in how far the last pairs move the
    shares.

    Under the model the posterior mean moves, from few to all pairs, by a Gaussian of variance_few -
    variance_all. The 95 % quantile of the moves over 1.96 of that, pooled over some rows and
    players, is the factor; shrunk to 1 where they are few, and between 0.75 and 3. Of what the last
    half, quarter and eighth of the pairs tell, the most: how rough a game is shows only when much
    is known of it.
    """
    m, p = parts.signs.shape
    some = parts.take(spread(len(parts.odd), max(2, min(FIT_ROWS, INFLATION_WORK // m**3))))
    some = some.take(standardised(some.signs, some.odd)[1])
    counts = [few for few in ((m + p) // 2, (3 * m + p) // 4, (7 * m + p) // 8) if p + 2 < few < m]
    if not counts or not len(some.odd):
        return 1.0
    relevance = relevances_of(some, calibration)
    last = posterior(some, relevance, calibration.nugget)
    factors = []
    for few in counts:
        first = posterior(some.take(slice(None), slice(few)), relevance, calibration.nugget)
        factors.append(_moved(first, last))
    return float(min(max(*factors, 0.75), 3.0))


def _moved(first: tuple[Tensor, Tensor, Tensor], last: tuple[Tensor, Tensor, Tensor]) -> float:
    """Return how much further than expected the mean moved from one posterior (mean, variance,
    scale) to another.
    """
    (few, few_variance, scale), (every, every_variance, _) = first, last
    moves = (every - few) / (scale * (few_variance - every_variance).clamp_min(0)).sqrt()
    moves = moves[torch.isfinite(moves)].abs()
    if not len(moves):
        return 1.0
    seen, weight = float(torch.quantile(moves, 0.95)) / 1.96, len(moves) / (len(moves) + 10)
    return math.exp(weight * math.log(max(seen, 1e-9)))
