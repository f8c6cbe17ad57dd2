"""Kernels that rows share: the equations of a million rows by a handful of factorisations.

A calibration holds relevances at which there are shared kernels, its centres. Each row takes the
nearest, and refines its answer to that of its own kernel by a few steps of conjugate gradients,
unless it is far from all. With many players or pairs there are no steps, and one centre, the mean
of the pilot rows: its answer is that of all rows.

A centre's kernel K = L L' is factorised once, for all rows near it. In coordinates a with
alpha = B' a, where B K B' = I and B u = 0, the equations of a row with another kernel are

    (B K_row B') a = B o,

whose matrix is close to I. The row's kernel differs from the centre's in the variances v_T of some
products of players u_T = prod_{j in T} u_j, and in the size of all the rest. With N the covariance
that all rows have, the nugget and the component of the size,

    K_row - N = sum_T (v_T(row) - g v_T) u_T u_T' + g (K - N),
    g         = rest(row) / rest(centre).

So every product is one with a matrix that all rows share. The centre's weights W are exact for what
its own kernel explains. What K_row changes adds up to

    phi = W o + sum_T (phi_T - W u_T) (v_T(row) - g v_T) u_T' alpha
              + (1 - g) (phi_N - W N) alpha,

where phi_N is the nugget's alone. The error of phi is of second order in that of a, so that single
precision is enough for a. As P = B' B for the centre's kernel, the residuals of pairs that are left
out follow from alpha too, by the diagonal of the centre's P.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.games.coalitions import members_of_all_sets
from shearshap.games.indices import Index
from shearshap.methods.kriging.calibration import (
    Prior,
    fit,
    inflation,
    informative_games,
    logits,
    relevances,
    row_priors,
)
from shearshap.methods.kriging.kernel import (
    VARIANCE_NODES,
    chunk_entries,
    index_covariance,
    nugget_and_size,
    odd_covariance,
    odd_kernel,
    shapley_of_white,
)
from shearshap.methods.kriging.pairs import OddEven, evenly_spaced, inner_pairs
from shearshap.methods.kriging.posterior import (
    Answer,
    Process,
    efficient,
    joined,
    left_out,
    scale_of_squares,
)
from shearshap.result.calibration import Calibration

MAX_PILOTS = 256  #: rows that a calibration is fitted to

# SharingPlan
MAX_CENTRES = 8  #: kernels that all rows share
MIN_CENTRES = 4
CENTRE_WORK = 6e9  #: multiplications that the matrices of all centres may cost
MAX_REFINED = 1024  #: pairs up to which rows refine the answer of their centre
PRODUCT_WORK = 1.25e6  #: pairs times products that are always affordable
MIN_TRIPLES = 0.1  #: part of all triples of players that the products must be able to include
MIN_STEPS = 9  #: of conjugate gradients
MAX_STEPS = 24
MIN_SHARING_ROWS = 32  #: pilot rows below which no rows share kernels
EXACT_WORK = 1e9  #: pilot rows times cubed pairs that exact solutions may cost

# Rows whose moves give the inflation
MAX_MOVED = 32
MIN_MOVED = 8
MOVE_WORK = 1e9  #: rows times cubed pairs that they may cost, but for the least

# Refinement
MAX_DISTANCE = 5.0  #: between logits, up to which conjugate gradients get to a row from its centre
PRODUCT_ORDERS = (3, 5, 7)  #: numbers of players in a product
MAX_CANDIDATES = 20_000  #: products of one order; if there are more, only triples are candidates
SINGLE = torch.float32
MIN_REST = 1e-8  #: of a centre's kernel, below which it is nothing but rounding
CONVERGED = 1e-9  #: squared residual, relative to that of the beginning

# The rule for variances
RIDGE = 0.1  #: of the slopes, whose features have unit variance
PLAYER_RIDGE = 1.0  #: of the players' terms
MAX_BEYOND = 1.0  #: how far a log variance may lie beyond those that the rule was fitted to


@dataclass(frozen=True)
class SharingPlan:
    """How many kernels rows share, and how far a row goes beyond them."""

    centres: int  #: relevances at which there are shared kernels
    products: int  #: products of players that describe how a row differs
    steps: int  #: of conjugate gradients with them

    @classmethod
    def from_sizes(cls, pairs: int, players: int) -> "SharingPlan":
        """Return the plan for m pairs of p players.

        A row's own kernel pays if a few products of players make most of it. With many players it
        lowers errors by a tenth or two, but takes many times as long.
        """
        triples = math.comb(players, 3)
        affordable = min(triples, int(PRODUCT_WORK / pairs))
        products = max(4 * pairs + 128, affordable)
        if pairs > MAX_REFINED or products < MIN_TRIPLES * triples:
            return ONE_KERNEL

        centres = int(CENTRE_WORK / (pairs**2 * (pairs + products)))
        centres = max(MIN_CENTRES, min(centres, MAX_CENTRES))
        steps = max(MIN_STEPS, min(pairs // 10, MAX_STEPS))
        return cls(centres, products, steps)


ONE_KERNEL = SharingPlan(centres=1, products=0, steps=0)


# From pilot rows to a calibration


def calibrate(
    parts: OddEven, *, refined: bool = True
) -> tuple[Calibration, "SharedKernels | None"]:
    """Return the calibration fitted to these rows, and the kernels that rows then share, if any.

    If they are not `refined`, all rows share one.
    """
    most = max(MIN_SHARING_ROWS, MAX_PILOTS // parts.outputs)
    pilots = parts.take_rows(evenly_spaced(parts.rows, most))
    unit, _ = pilots.normalised()
    plan = SharingPlan.from_sizes(*unit.signs.shape) if refined else ONE_KERNEL
    # A few pilot rows do not represent the rest, and solving them exactly is cheap. A single row
    # has nothing to share.
    work = parts.rows * len(unit.signs) ** 3
    enough = parts.rows >= MIN_SHARING_ROWS or (parts.rows > 1 and work > EXACT_WORK)
    shares = enough or not refined
    one_kernel = shares and not plan.steps
    calibration = fit(unit, quiet=not one_kernel)
    prior = row_priors(unit, calibration)

    # One exact solution serves all outputs of a row. A refinement would be needed for each.
    if not shares or (plan.steps and parts.outputs > 1):
        return replace(calibration, inflation=_own_inflation(unit, prior, calibration)), None

    centres = prior.relevance[_central_rows(prior.relevance, plan.centres)]
    if one_kernel:
        centres = relevances(logits(prior.relevance).mean(0))[None]
    calibration = replace(calibration, centres=tuple(map(tuple, centres.tolist())))
    shared = SharedKernels.from_calibration(unit.signs, calibration)
    if one_kernel:
        moved = unit.odd[informative_games(unit, MAX_MOVED)]
        factor = inflation(shared.processes[0], moved[None])
    else:
        factor = _own_inflation(unit, prior, replace(calibration, nugget=shared.nugget))
    return replace(calibration, inflation=factor), shared


def _own_inflation(parts: OddEven, prior: Prior, calibration: Calibration) -> float:
    """Return the inflation of rows that have their own kernels."""
    affordable = int(MOVE_WORK / len(parts.signs) ** 3)
    games = informative_games(parts, max(MIN_MOVED, min(affordable, MAX_MOVED)))
    own = prior.take(games // parts.outputs)
    process = _process(parts.signs, own.relevance, calibration, own.precision)
    return inflation(process, parts.odd[games][:, None])


def _process(
    u: Tensor,
    relevance: Tensor,
    calibration: Calibration,
    precision: Tensor | None = None,
    index: Index | None = None,
) -> Process:
    """Return the process at pairs u (m, p), of relevances and precisions (k, p)."""
    numbers = (calibration.nugget, calibration.size_variance)
    if index is None:
        covariance = odd_covariance(u, relevance, *numbers)
    else:
        covariance = index_covariance("odd", u, relevance, index, *numbers)
    return Process.from_covariance(u, covariance, precision)


def _central_rows(relevance: Tensor, count: int) -> Tensor:
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
    return torch.tensor(sorted(set(chosen)), device="cpu")


# From rows to answers


def own_answers(
    u: Tensor, odd: Tensor, prior: Prior, calibration: Calibration, index: Index | None = None
) -> Answer:
    """Return the answers given odd parts (r, k, m), each row's by its own kernel.

    They are Shapley values, or those of an index.

    That quiet players add little elsewhere too is the likeliest guess, and makes values better. But
    it is a guess: their errors are those of a flat prior, as other players have it.
    """
    m, p = u.shape
    nodes = min(p // 2 + 1, VARIANCE_NODES)
    sets = 0 if index is None else index.sets
    rows = max(1, chunk_entries(u) // max(m**2, 2 * nodes**2 * p, m * sets))
    fields = (odd, prior.relevance, prior.precision)
    chunks = zip(*(field.split(rows) for field in fields), strict=True)
    answers = []
    for some_odd, relevance, precision in chunks:
        process = _process(u, relevance, calibration, precision, index)
        answer = process.answer(some_odd)
        if precision.any():
            doubted = process.with_flat_trend().answer(some_odd)
            doubtful = precision > 0
            if index is not None and index.order > 1:
                doubtful = doubtful.any(1, keepdim=True)  # in some of its sets
            answer = answer.with_errors_of(doubted, doubtful)
        answers.append(answer)
    return joined(answers)


@dataclass(frozen=True)
class SharedKernels:
    """The kernels at a calibration's centres for given pairs, and all that follows from them."""

    signs: Tensor  #: (m, p)
    calibration: Calibration
    plan: SharingPlan
    centres: Tensor  #: (k, p), relevances
    nugget: float

    @classmethod
    def from_calibration(cls, signs: Tensor, calibration: Calibration) -> "SharedKernels":
        """Return the kernels of a calibration with centres, for pairs of signs (m, p)."""
        one_kernel = len(calibration.centres) == 1
        plan = ONE_KERNEL if one_kernel else SharingPlan.from_sizes(*signs.shape)
        centres = signs.new_tensor(calibration.centres)
        nugget = calibration.nugget
        if plan.steps:
            nugget = max(nugget, _smallest_nugget(len(signs)))
        else:
            centres = relevances(logits(centres).mean(0))[None]
        return cls(signs, calibration, plan, centres, nugget)

    @cached_property
    def processes(self) -> list[Process]:
        """One for each centre, made when the first row comes that is near one."""
        of_centres = replace(self.calibration, nugget=self.nugget)
        return [_process(self.signs, centre[None], of_centres) for centre in self.centres]

    def answer(self, parts: OddEven) -> Answer:
        """Return the answers of r rows, (r, k, ...) for k outputs, at unit size.

        Each row refines that of its nearest centre. Rows that are far from all, or whose trend is
        not flat, are solved exactly.
        """
        if not self.plan.steps:
            same = self.processes[0].answer(parts.odd[None])
            by_row = (parts.rows, parts.outputs, -1)
            return Answer(*(x.reshape(by_row) if x.shape[1] > 1 else x for x in same))

        prior = row_priors(parts, self.calibration)
        distance, nearest = torch.cdist(logits(prior.relevance), logits(self.centres)).min(1)
        nearest[(distance > MAX_DISTANCE) | prior.precision.any(1)] = -1
        groups = []
        answers = []
        for centre in range(-1, len(self.centres)):
            near = torch.nonzero(nearest == centre)[:, 0]
            if len(near):
                groups.append(near)
                answers.append(self._near(centre, parts.odd_by_row[near], prior.take(near)))
        place = torch.cat(groups).argsort()
        return Answer(*(field[place] for field in joined(answers)))

    def _near(self, centre: int, odd: Tensor, prior: Prior) -> Answer:
        """Return the answers of rows that are near one centre or, if it is -1, near none."""
        if centre < 0:
            return own_answers(self.signs, odd, prior, self.calibration)
        outputs = odd.shape[1]
        variances = self._products.variances(prior.relevance).repeat_interleave(outputs, 0)
        refinement = self._refinements[centre]
        refined = refinement.solve(odd.flatten(0, 1), variances, self.plan.steps)
        phi, squares, max_residual, rough, unit = (x.unflatten(0, (-1, outputs)) for x in refined)

        variance = self._variance_rule.variances(prior.relevance)[:, None]
        own = self._variance_rule.variances(self.centres[centre : centre + 1])
        # residuals have the centre's diagonal of P, whose inverse grows as the variances do
        ratio = variance.mean(2, keepdim=True) / own.mean()
        return Answer(
            mean=efficient(phi, odd),
            variance=variance,
            scale=scale_of_squares(squares, *self.signs.shape),
            max_residual=ratio * max_residual,
            rough_variance=ratio.square() * rough,
            unit_variance=unit[:, :1],
        )

    @cached_property
    def _products(self) -> "Products":
        return Products.from_relevances(self.signs, self.centres, self.plan.products)

    @cached_property
    def _refinements(self) -> "list[Refinement]":
        common = nugget_and_size(self.signs, self.nugget, self.calibration.size_variance)
        return [
            Refinement.from_centre(process, self._products, r, common, self.nugget)
            for process, r in zip(self.processes, self.centres, strict=True)
        ]

    @cached_property
    def _variance_rule(self) -> "VarianceRule":
        nothing = self.signs.new_zeros(1, 1, len(self.signs))
        exact = [process.condition(nothing).variance[:, 0] for process in self.processes]
        return VarianceRule.fitted(self.centres, torch.cat(exact))


def _smallest_nugget(pairs: int) -> float:
    """Return the nugget below which a few steps of conjugate gradients are not enough."""
    if pairs < 150:
        return 1e-4
    return 1e-5 if pairs < 300 else 1e-6


# Refinement


@dataclass(frozen=True)
class Products:
    """Products of players that make most of a row's kernel K = sum_T r_T u_T u_T'.

    T has three players or more, an odd number, and r_T = prod_{j in T} r_j. The largest r_T differ
    from row to row, but the vectors u_T do not.
    """

    members: Tensor  #: (f, p), 1 for a player in the product, else 0
    columns: Tensor  #: (m, f), the product at each pair
    shapley: Tensor  #: (p, f), the Shapley values of a product: 2 / |T| for each of its players

    @classmethod
    def from_relevances(cls, u: Tensor, r: Tensor, count: int) -> "Products":
        """Return the products of the largest mean variance at relevances r (k, p)."""
        members = _candidates(u.shape[1], u)
        importance = _variances(members, r).mean(0)
        largest = torch.topk(importance, min(count, len(members))).indices
        members = members[largest.sort().values]

        # A product is minus one to the number of its players with the sign -1.
        negative = (1 - u) / 2 @ members.mT
        columns = 1 - 2 * (negative % 2)
        return cls(members, columns, 2 * (members / members.sum(1, keepdim=True)).mT)

    def variances(self, r: Tensor) -> Tensor:
        """Return the variances r_T at relevances (r, p), as parts of k(u, u), (r, f)."""
        return _variances(self.members, r)


def _variances(members: Tensor, r: Tensor) -> Tensor:
    _, scale = odd_kernel(r.new_ones(1, r.shape[1]), r)
    log_variance = r.log() @ members.mT - scale[:, 0].log()
    return log_variance.exp_()


def _candidates(players: int, like: Tensor) -> Tensor:
    """Return the products to choose from, (f, p)."""
    by_order = []
    for order in PRODUCT_ORDERS:
        if order == PRODUCT_ORDERS[0] or math.comb(players, order) <= MAX_CANDIDATES:
            index = torch.from_numpy(members_of_all_sets(players, order)).to(like.device)
            by_order.append(like.new_zeros(len(index), players).scatter_(1, index, 1.0))
    return torch.cat(by_order)


class Refined(NamedTuple):
    """The answers of rows."""

    phi: Tensor  #: (r, p)
    squares: Tensor  #: (r, 1), o' P o
    max_residual: Tensor  #: (r, 1), this and the rest are those of `left_out`
    rough_variance: Tensor  #: (r, p)
    unit_variance: Tensor  #: (r, p)


@dataclass(frozen=True)
class Refinement:
    """The matrices of one centre."""

    weights: Tensor  #: (m, p), W'
    basis: Tensor  #: (m, m - p), B'
    single_basis: Tensor  #: (m, m - p), the same in single precision
    diagonal: Tensor  #: (m,) of P
    inner: Tensor  #: (m,) of bool, the pairs whose residuals count in `max_residual`
    columns: Tensor  #: (m - p, f), B u_T
    common: Tensor  #: (m - p, m - p), B N B'
    products_shapley: Tensor  #: (f, p), what is added for each product
    common_shapley: Tensor  #: (m - p, p), and for N
    variances: Tensor  #: (f,), v_T
    rest: float  #: what the products leave of the centre's kernel

    @classmethod
    def from_centre(
        cls, process: Process, products: Products, r: Tensor, common: Tensor, nugget: float
    ) -> "Refinement":
        """Return the matrices of a centre at relevances r (p,), with N (m, m) in common."""
        u = process.signs
        p = u.shape[1]

        # An orthonormal basis of what the trend leaves, and the weights, both before L^-T.
        factors = process.factors
        complement = torch.linalg.qr(factors.trend[0], mode="complete")[0][:, p:]
        both = torch.cat([complement, process.white_weights[0]], 1)
        solved = torch.linalg.solve_triangular(factors.lower[0].mT, both, upper=True)
        basis, weights = solved.split([complement.shape[1], p], 1)

        variances = products.variances(r[None])[0]
        white_cross, _ = shapley_of_white(u)
        unexplained = nugget * white_cross.mT - common @ weights
        return cls(
            weights=weights,
            basis=basis,
            single_basis=basis.to(SINGLE),
            diagonal=basis.square().sum(1),
            inner=inner_pairs(u),
            columns=(basis.mT @ products.columns).to(SINGLE),
            common=(basis.mT @ common @ basis).to(SINGLE),
            products_shapley=(products.shapley.mT - products.columns.mT @ weights).to(SINGLE),
            common_shapley=(basis.mT @ unexplained).to(SINGLE),
            variances=variances,
            rest=1 - float(variances.sum()),
        )

    def solve(self, odd: Tensor, variances: Tensor, steps: int) -> Refined:
        """Return the answers of odd parts (r, m), at variances v_T (r, f)."""
        entries = len(self.variances) + (4 + steps) * odd.shape[1]
        chunk_rows = max(1, 4 * chunk_entries(odd) // entries)
        chunks = zip(odd.split(chunk_rows), variances.split(chunk_rows), strict=True)
        solved = [self._solve(*chunk, steps) for chunk in chunks]
        return Refined(*(torch.cat(fields) for fields in zip(*solved, strict=True)))

    def _solve(self, odd: Tensor, variances: Tensor, steps: int) -> Refined:
        operator = RowOperator.from_variances(self, variances)
        whitened = odd @ self.basis
        size = whitened.abs().amax(1, keepdim=True).clamp_min(torch.finfo(odd.dtype).tiny)
        y = (whitened / size).to(SINGLE)
        a, left = conjugate_gradients(operator, y, steps)

        change = operator.product_coefficients(a) @ self.products_shapley
        change += (1 - operator.ratio) * (a @ self.common_shapley)
        phi = odd @ self.weights + size * change
        # The last residual counts as the centre would have it.
        square = (y * a).sum(1, keepdim=True) + left

        alpha = size * (a @ self.single_basis.mT)
        max_residual, rough, unit = left_out(alpha, self.diagonal, self.weights, self.inner)
        return Refined(phi, size.square() * square, max_residual, rough, unit.expand_as(rough))


@dataclass(frozen=True)
class RowOperator:
    """The rows' matrices B K_row B', which are never made."""

    shared: Refinement
    variances: Tensor  #: (r, f), v_T(row) - g v_T
    ratio: Tensor  #: (r, 1), g
    coefficients: Tensor  #: (r, f), room for `product_coefficients`

    @classmethod
    def from_variances(cls, shared: Refinement, variances: Tensor) -> "RowOperator":
        """Return the matrices of rows with variances v_T (r, f)."""
        ratio = torch.zeros_like(variances[:, :1])
        if shared.rest > MIN_REST:
            ratio = (1 - variances.sum(1, keepdim=True)).clamp_min(0) / shared.rest
        own = (variances - ratio * shared.variances).to(SINGLE)
        return cls(shared, own, ratio.to(SINGLE), coefficients=torch.empty_like(own))

    def product_coefficients(self, a: Tensor) -> Tensor:
        """Return the coefficients (r, f) of the products in the game that a (r, m - p) makes."""
        return torch.mm(a, self.shared.columns, out=self.coefficients).mul_(self.variances)

    def apply(self, a: Tensor, image: Tensor) -> Tensor:
        """Return each row's matrix times its vector, (r, m - p), in place of `image`."""
        torch.mm(a, self.shared.common, out=image)
        image.mul_(1 - self.ratio).addcmul_(a, self.ratio)
        return image.addmm_(self.product_coefficients(a), self.shared.columns.mT)


def conjugate_gradients(matrix: RowOperator, y: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return a with matrix a = y, (r, n), and the squared residuals left, (r, 1).

    Rows are solved side by side. One that has converged stays as it is, whatever the others do.

    In exact arithmetic all residuals are orthogonal. Rounding errors soon spoil that, and are then
    made so much larger, in double precision too, that a row's answer would depend on the rows
    beside it. So every residual is made orthogonal to those before.
    """
    a = torch.zeros_like(y)
    image = torch.empty_like(y)
    residual = y.clone()
    direction = y.clone()
    square = _dot(residual, residual)
    small = CONVERGED * square
    units: list[Tensor] = []  # the residuals so far, at unit length
    for _ in range(steps):
        going = square > small
        if not going.any():
            break
        units.append(residual * torch.where(going, square.rsqrt(), 0.0))
        matrix.apply(direction, image)
        curvature = _dot(direction, image)
        step = torch.where(going & (curvature > 0), square / curvature, 0.0)
        a.addcmul_(direction, step)
        residual.addcmul_(image, step, value=-1)
        for unit in units:
            residual.addcmul_(unit, _dot(residual, unit), value=-1)

        before = square
        square = _dot(residual, residual)
        direction.mul_(torch.where(going, square / before, 0.0)).add_(residual)
    return a, square


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the rows' inner products of a and b (r, n), (r, 1)."""
    product: Tensor = torch.linalg.vecdot(a, b)
    return product[:, None]


# Variances


@dataclass(frozen=True)
class VarianceRule:
    """log variance_i = a linear function of features of a row's relevances + player_i.

    It is fitted to the exact variances at the centres. Beside a row's level, and how unequal its
    relevances are, a player's own relevance matters little. On trained networks its error was 0.1
    to 0.25, so 5 to 12 % of a standard error.
    """

    mean: Tensor  #: (q,) of the features at the centres
    deviation: Tensor  #: (q,)
    slopes: Tensor  #: (q,)
    players: Tensor  #: (p,)
    lowest: float  #: bound of the log variance
    highest: float

    @classmethod
    def fitted(cls, relevance: Tensor, variance: Tensor) -> "VarianceRule":
        """Return the rule that fits variances (k, p) at relevances (k, p) best, by ridge."""
        log_variance = variance.clamp_min(1e-12 * variance.max()).log()
        features = _variance_features(relevance)
        mean = features.mean((0, 1))
        deviation = features.std((0, 1), correction=0).clamp_min(1e-9)

        k, p, q = features.shape
        eye = torch.eye(p, dtype=relevance.dtype, device=relevance.device)
        by_player = eye.expand(k, p, p)
        design = torch.cat([(features - mean) / deviation, by_player], 2).flatten(0, 1)
        penalty = torch.cat([mean.new_full((q,), RIDGE), mean.new_full((p,), PLAYER_RIDGE)])

        centre = log_variance.mean()
        gram = design.mT @ design + torch.diag(penalty)
        solution = torch.linalg.solve(gram, design.mT @ (log_variance - centre).flatten())
        return cls(
            mean=mean,
            deviation=deviation,
            slopes=solution[:q],
            players=solution[q:] + centre,
            lowest=float(log_variance.min()) - MAX_BEYOND,
            highest=float(log_variance.max()) + MAX_BEYOND,
        )

    def variances(self, relevance: Tensor) -> Tensor:
        """Return the variances of rows of relevances (r, p), (r, p)."""
        features = (_variance_features(relevance) - self.mean) / self.deviation
        log_variance = features @ self.slopes + self.players
        return log_variance.clamp(self.lowest, self.highest).exp()


def _variance_features(relevance: Tensor) -> Tensor:
    """Return the features of each player of each row, (r, p, 4)."""
    x = logits(relevance)
    total = torch.logsumexp(x, 1, keepdim=True)
    own = x - total
    mean = x.mean(1, keepdim=True)
    return torch.stack([own, own.square(), total.expand_as(x), mean.expand_as(x)], 2)
