"""Cross-contribution: how strongly two players act together (the paper's Definition 1).

It is computed in player space. With g(z) = f(xbar + z (x - xbar)) and z (p,) in [0, 1], the row is
z = 1 and its background z = 0. The second derivatives of g contain the factors (x_i - xbar_i) and
(x_j - xbar_j) already, for whole one-hot blocks too, so

    eta_ij = |x_i - xbar_i| |d2_ij f + d2_ji f| |x_j - xbar_j|

becomes |d2_ij g + d2_ji g| at z = 1. There are three ways to compute it, and the authors' own way
with one-hot blocks, for the reproduction:

    hessian               d2 g itself: a forward pass, a backward pass, and one more backward pass
                          for each player, p + 2 passes
    gradient-differences  |d_i g(1) - d_i g(1 - e_j)|: p + 1 gradients, 2 (p + 1) passes; sees the
                          kinks of ReLU networks, whose Hessian is zero almost everywhere
    second-differences    |v(U) - v(U-i) - v(U-j) + v(U-ij)|: 1 + p + p (p-1)/2 evaluations, for
                          any game
    block-maximum         the largest |d2_ab f| |x_a - xbar_a| |x_b - xbar_b| over the inputs a of
                          player i and b of player j: d + 2 passes

Backward passes count for each output, and all passes for each background row.
"""

from collections.abc import Callable
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from shearshap.errors import MethodError, ModelError, warn
from shearshap.forks import ForkSafeLock
from shearshap.games.active import ActiveGame
from shearshap.games.batches import out_of_memory
from shearshap.games.game import Game, GameInfo
from shearshap.games.marginal import ModelGame, model_errors

CrossKind = Literal[
    "auto", "hessian", "gradient-differences", "second-differences", "block-maximum"
]
"""The way in which cross-contribution is computed."""

WITHOUT_DERIVATIVES = "Shear(interaction='second-differences')"
"""What to try if derivatives fail, for messages."""

Derivative = Callable[[ModelGame, Tensor], Tensor]
"""A function of a game and of points z (r, q, p) that need gradients, to (r, k, ...)."""

RANK_ONE_TOLERANCE = 1e-4  #: relative to a matrix' largest entry


def cross_contribution(game: Game, kind: CrossKind = "auto") -> Tensor:
    """Return eta (r, p, p), summed over outputs, with a zero diagonal.

    What it costs is counted in the game's usage. "auto" takes second differences of a game that
    cannot be differentiated, else the Hessian. A row whose Hessian cannot rank cooperators (it is
    zero, or of rank one, which gives every player the same ranking) gets gradient differences.
    """
    if takes_evaluations(game, kind):
        coalitions = second_difference_coalitions(game.players, game.device)
        return second_differences(game(coalitions), game.players)
    return derivative_contribution(game, kind)


def takes_evaluations(game: GameInfo, kind: CrossKind) -> bool:
    """Return whether this kind takes evaluations from the budget, as second differences do."""
    return kind == "second-differences" or (kind == "auto" and not game.differentiable)


# Second differences


def second_difference_coalitions(players: int, device: torch.device) -> Tensor:
    """Return the coalitions of second differences, (1, 1 + p + p (p-1)/2, p).

    The full coalition, then each player left out, then each pair i < j left out. For p = 3:

        111 | 011 101 110 | 001 010 100
    """
    i, j = torch.triu_indices(players, players, offset=1, device=device)
    own = torch.eye(players, dtype=torch.bool, device=device)
    nobody = torch.zeros_like(own[:1])
    absent = torch.cat((nobody, own, own[i] | own[j]))
    return ~absent[None]


def second_differences(values: Tensor, players: int) -> Tensor:
    """Return |v(U) - v(U-i) - v(U-j) + v(U-ij)| summed over outputs, (r, p, p).

    `values` (r, c, k) are those of `second_difference_coalitions`.
    """
    i, j = torch.triu_indices(players, players, offset=1, device=values.device)
    full, without_one, without_both = values.split((1, players, len(i)), dim=1)

    differences = full - without_one[:, i] - without_one[:, j] + without_both
    upper = differences.abs().sum(dim=2)
    eta: Tensor = upper.new_zeros((len(values), players, players))
    eta[:, i, j] = upper
    eta[:, j, i] = upper
    return eta


# By derivatives


@dataclass(frozen=True)
class CrossContribution:
    """Cross-contribution by derivatives, and the rows about which derivatives say nothing."""

    eta: Tensor  #: (r, p, p)
    flat: Tensor  #: (r,) of bool: whether all of a row's derivatives are zero

    def take(self, rows: Tensor) -> "CrossContribution":
        """Return that of some of the rows."""
        return CrossContribution(self.eta[rows], self.flat[rows])


def derivative_cross(game: Game) -> CrossContribution | None:
    """Return cross-contribution by derivatives, and count their passes; None: there are none."""
    if isinstance(game, ActiveGame):
        every = derivative_cross(game.game)
        return None if every is None else replace(every, eta=game.pairs_of(every.eta))
    if not isinstance(game, ModelGame) or not game.differentiable:
        return None
    try:
        return by_derivatives(game)
    except ModelError:
        # a model that fails on plain values too raises when those are asked for
        return None


def derivative_contribution(game: Game, kind: CrossKind = "auto") -> Tensor:
    """Return eta (r, p, p) by derivatives; "auto" is the Hessian, or gradient differences."""
    ways: dict[str, Callable[[ModelGame], Tensor]] = {
        "auto": lambda game: _unless_flat(game, by_derivatives(game)),
        "hessian": hessian,
        "gradient-differences": gradient_differences,
        "block-maximum": block_maximum,
    }
    if kind not in ways:
        raise MethodError(f"interaction: expected one of {', '.join(ways)}, got {kind!r}")
    if isinstance(game, ActiveGame):
        return game.pairs_of(derivative_contribution(game.game, kind))
    if not isinstance(game, ModelGame) or not game.differentiable:
        raise MethodError(
            f"interaction={kind!r} needs a model that can be differentiated; try "
            "'second-differences'"
        )
    return ways[kind](game)


def by_derivatives(game: ModelGame) -> CrossContribution:
    """Return the Hessian's, and gradient differences for rows whose Hessian cannot rank."""
    curvature = hessians(game)
    eta = _contribution(curvature)
    flat = degenerate(curvature).all(dim=1)
    if flat.any():
        # the usage is that of the whole game, so that these passes count too
        smaller_game = replace(game.take(flat.nonzero()[:, 0]), usage=game.usage)
        differences = _gradient_differences(smaller_game)
        eta[flat] = differences.eta
        flat[flat.clone()] = differences.flat
    return CrossContribution(eta, flat)


def degenerate(curvature: Tensor) -> Tensor:
    """Return which matrices (..., p, p) rank no cooperators: zero, or c a a' up to rounding.

    A symmetric matrix of rank one equals h h' / h_j for its column h at the largest diagonal entry
    j.
    """
    size = curvature.abs().amax(dim=(-2, -1))
    diagonal = curvature.diagonal(dim1=-2, dim2=-1)
    largest = diagonal.abs().argmax(dim=-1, keepdim=True)

    peak = diagonal.gather(-1, largest)
    divisor = torch.where(peak == 0, 1.0, peak)[..., None]
    index = largest[..., None, :].expand(*curvature.shape[:-1], 1)
    column = curvature.gather(-1, index)[..., 0]

    rank_one = column[..., :, None] * column[..., None, :] / divisor
    distance = (curvature - rank_one).abs().amax(dim=(-2, -1))
    return distance <= RANK_ONE_TOLERANCE * size


def hessian(game: ModelGame) -> Tensor:
    """Return |d2_ij g + d2_ji g| at z = 1, summed over outputs, (r, p, p)."""
    return _contribution(hessians(game))


def gradient_differences(game: ModelGame) -> Tensor:
    """Return |d_i g(1) - d_i g(1 - e_j)|, summed over outputs, (r, p, p)."""
    return _unless_flat(game, _gradient_differences(game))


def _gradient_differences(game: ModelGame) -> CrossContribution:
    """Return gradient differences, and the rows whose gradients are all zero."""
    players = game.players
    device = game.inputs.device
    dtype = floating_type(game)

    # the row itself, then the row with each player left out
    points = torch.ones((players + 1, players), device=device, dtype=dtype)
    points[1:] -= torch.eye(players, device=device, dtype=dtype)

    slopes = _in_pieces(game, _gradients, points)  # (r, k, p + 1, p)
    outputs = slopes.shape[1]
    game.usage.derivative_passes += (1 + outputs) * len(points) * game.cost
    change = slopes[:, :, :1] - slopes[:, :, 1:]  # (r, k, j, i)
    eta = _off_diagonal(change.abs().sum(dim=1).mT)
    return CrossContribution(eta, ~slopes.flatten(1).any(dim=1))


def block_maximum(game: ModelGame) -> Tensor:
    """Return the authors' eta of one-hot blocks, (r, p, p): the largest of any two inputs'."""
    inputs = game.inputs.shape[1]
    every_input = torch.arange(inputs, device=game.inputs.device)
    # the same game with every input a player of its own
    by_input = replace(game, owner=every_input, players=inputs, usage=game.usage)
    eta = hessian(by_input)

    blocks = [game.owner.to(eta.device) == player for player in range(game.players)]
    rows = torch.stack([eta[:, block].amax(dim=1) for block in blocks], dim=1)
    maxima = torch.stack([rows[:, :, block].amax(dim=2) for block in blocks], dim=2)
    return _off_diagonal(maxima)


def _unless_flat(game: ModelGame, cross: CrossContribution) -> Tensor:
    """Return eta (r, p, p); warn if derivatives are zero in all rows that have a background."""
    flat = cross.flat
    differs = (game.inputs[:, None] != game.background).flatten(1).any(dim=1).to(flat.device)
    if differs.any() and flat[differs].all():
        warn(
            "the model's gradient is zero: cooperators cannot be ranked by derivatives; try "
            f"{WITHOUT_DERIVATIVES}"
        )
    return cross.eta


def _contribution(curvature: Tensor) -> Tensor:
    """Return eta (r, p, p) of Hessians (r, k, p, p)."""
    return _off_diagonal((curvature + curvature.mT).abs().sum(dim=1))


def _off_diagonal(eta: Tensor) -> Tensor:
    return eta - torch.diag_embed(eta.diagonal(dim1=1, dim2=2))


# Gradients and Hessians in player space. Rows are differentiated together, as many as fit a batch.
# A piece that is too large, or that runs out of memory, is halved: first its rows, then its
# background rows. Over background rows, a derivative is a mean, just as a value is.


def hessians(game: ModelGame) -> Tensor:
    """Return the Hessians of every output at z = 1, (r, k, p, p), and count their passes."""
    full = torch.ones((1, game.players), device=game.inputs.device, dtype=floating_type(game))
    curvature = _in_pieces(game, _hessians, full)
    outputs = curvature.shape[1]
    game.usage.derivative_passes += (1 + outputs * (1 + game.players)) * game.cost
    return curvature


def floating_type(game: ModelGame) -> torch.dtype:
    """Return the type in which to differentiate: the inputs', or the embeddings' of indices."""
    if game.inputs.is_floating_point():
        return game.inputs.dtype
    return game.predict.dtype or torch.float32


def _in_pieces(game: ModelGame, derivative: Derivative, points: Tensor) -> Tensor:
    """Return a derivative at points (q, p) for every row, in pieces that fit the memory."""
    count = game.rows * max(len(points), game.players) * game.cost
    smallest = game.rows == game.cost == 1
    if count <= game.batch.size or smallest:
        try:
            return _differentiate(game, derivative, points)
        except ModelError as error:
            raise _failure(game, error) from error
        except Exception as error:
            if not out_of_memory(error):
                raise  # the model's own errors are ModelErrors
            if smallest:
                raise ModelError(
                    f"out of memory on the derivatives of a single row; try {WITHOUT_DERIVATIVES}"
                ) from error
        # after the except clause the error is gone, whose traceback held the memory
        game.batch.halve(count)

    if game.rows > 1:
        half = game.rows // 2
        first = _in_pieces(game.take(slice(0, half)), derivative, points)
        second = _in_pieces(game.take(slice(half, None)), derivative, points)
        return torch.cat([first, second])

    half = game.cost // 2
    weight = game.share(slice(0, half))
    first = _in_pieces(game.take(background=slice(0, half)), derivative, points)
    second = _in_pieces(game.take(background=slice(half, None)), derivative, points)
    return weight * first + (1 - weight) * second


def _failure(game: ModelGame, error: ModelError) -> ModelError:
    """Return what to raise if the model fails: if it fails on plain values too, that error."""
    everyone = torch.ones((1, 1, game.players), dtype=torch.bool, device=game.device)
    game.take(slice(0, 1))(everyone)
    return ModelError(f"the model cannot be differentiated: {error}; try {WITHOUT_DERIVATIVES}")


def _differentiate(game: ModelGame, derivative: Derivative, points: Tensor) -> Tensor:
    """Return a derivative at points (q, p) for every row, in one piece and in double precision."""
    z = points.expand(game.rows, -1, -1).clone().requires_grad_()
    with torch.enable_grad(), _twice_differentiable:
        return derivative(game, z).detach().to(game.device).double()


def _hessians(game: ModelGame, z: Tensor) -> Tensor:
    """Return the Hessian of every output at z (r, 1, p), (r, k, p, p).

    One batched backward pass takes all players.
    """
    eye = torch.eye(game.players, device=z.device, dtype=z.dtype)
    directions = eye[:, None, None].expand(-1, *z.shape)
    by_output = []
    # output by output, since one backward pass differentiates one sum
    for value in game.surface(z).unbind(dim=2):
        slope = _gradient(value, z, create_graph=True)
        by_output.append(_gradient(slope, z, directions=directions)[:, :, 0])  # (p, r, p)
    return torch.stack(by_output).permute(2, 0, 1, 3)


def _gradients(game: ModelGame, z: Tensor) -> Tensor:
    """Return the gradient of every output at z (r, q, p), (r, k, q, p)."""
    by_output = [_gradient(value, z) for value in game.surface(z).unbind(dim=2)]
    return torch.stack(by_output, dim=1)


def _gradient(
    value: Tensor, z: Tensor, *, directions: Tensor | None = None, create_graph: bool = False
) -> Tensor:
    """Return the gradient of the sum of `value` by z, or one for each of the vectors `directions`.

    If `value` does not depend on z it is zero.
    """
    batched = directions is not None
    zeros = torch.zeros_like(z if directions is None else directions)
    if not value.requires_grad:
        return zeros
    with model_errors():
        (slope,) = torch.autograd.grad(
            value,
            z,
            torch.ones_like(value) if directions is None else directions,
            is_grads_batched=batched,
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    return zeros if slope is None else slope


class TwiceDifferentiableKernels:
    """A context in which torch uses kernels that can be differentiated twice.

    Fused attention and cuDNN cannot. Torch's switches hold for all threads, so they are set when
    the first thread enters, and set back when the last one leaves: in one context of variables,
    since torch 2.15 takes its switch back only in the context in which it was set.
    """

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.threads = 0  #: now inside
        self.switches = ExitStack()
        self.context = copy_context()

    def __enter__(self) -> None:
        with self.lock:
            if not self.threads:
                for switch in (
                    sdpa_kernel(SDPBackend.MATH),
                    torch.backends.cudnn.flags(enabled=False),
                ):
                    self.context.run(self.switches.enter_context, switch)
            self.threads += 1

    def __exit__(self, *_error: object) -> None:
        with self.lock:
            self.threads -= 1
            if not self.threads:
                self.context.run(self.switches.close)


#: One for the whole process, as torch's switches are.
_twice_differentiable = TwiceDifferentiableKernels()
