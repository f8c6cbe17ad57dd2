"""Cross-contribution: how strongly two players act together (the paper's Definition 1), in player
space.

With g(z) = f(xbar + z (x - xbar)) and z (p,) in [0, 1], the row is z = 1 and its reference z = 0.
The second derivatives of g already carry (x_i - xbar_i) and (x_j - xbar_j), whole one-hot blocks
included, so

    eta_ij = |x_i - xbar_i| |d2_ij f + d2_ji f| |x_j - xbar_j|   becomes   |d2_ij g + d2_ji g| at z
    = 1.

Three ways to it, and the authors' own reading of blocks for the reproduction:

    hessian              forward, backward, and one more backward for each player: p + 2 passes
    gradient-differences |d_i g(1) - d_i g(1 - e_j)|, p + 1 gradients, 2 (p + 1) passes: sees the
    kinks of
                         ReLU networks, whose Hessian is zero almost everywhere
    second-differences   |v(U) - v(U-i) - v(U-j) + v(U-ij)|, 1 + p + p (p-1)/2 evaluations: any game
    block-maximum        max over the inputs of i and j of |d2_ab f| |x_a - xbar_a| |x_b - xbar_b|,
    d + 2 passes

The backward passes are counted for each output, and all passes for each background row.
"""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from shearshap.errors import MethodError, ModelError, ShearError, ShearWarning, level_of_caller
from shearshap.batches import out_of_memory
from shearshap.game import Game, ModelGame

_INSTEAD = "Shear(interaction='second-differences')"

Interaction = Literal[
    "auto", "hessian", "gradient-differences", "second-differences", "block-maximum"
]


def cross_contribution(game: Game, kind: Interaction = "auto") -> Tensor:
    """Return eta (r, p, p), summed over outputs, with a zero diagonal; counts what it spends on the
    game.

    "auto" takes second differences of a game that cannot be differentiated, else the Hessian, and
    where a row's Hessian cannot rank cooperators (all zero, or of rank one, which gives every
    player the same ranking) that row's gradient differences.
    """
    if takes_evaluations(game, kind):
        return second_differences(game)
    if not isinstance(game, ModelGame) or not game.differentiable:
        raise MethodError(
            f"interaction={kind!r} needs a model that can be differentiated; try "
            "'second-differences'"
        )
    return {
        "auto": hessian_or_differences,
        "hessian": hessian,
        "gradient-differences": gradient_differences,
        "block-maximum": block_maximum,
    }[kind](game)


def takes_evaluations(game: Game, kind: Interaction) -> bool:
    """Return whether this way takes model evaluations out of the budget, as second differences do."""
    return kind == "second-differences" or (kind == "auto" and not game.differentiable)


def second_difference_evaluations(players: int) -> int:
    """Return the coalitions that second differences ask for."""
    return 1 + players + players * (players - 1) // 2


def hessian_or_differences(game: ModelGame) -> Tensor:
    """Return the Hessian's cross-contribution, and gradient differences for the rows it cannot
    rank.
    """
    eta, flat = by_derivatives(game)
    _warn_if_flat(game, flat)
    return eta


def by_derivatives(game: ModelGame) -> tuple[Tensor, Tensor]:
    """Return the same, (r, p, p), and the rows of which it tells nothing, (r,): all slopes are zero
    there.
    """
    curvature = _curvature(game)
    eta, flat = _contribution(curvature), degenerate(curvature).all(dim=1)
    if flat.any():
        few = replace(game, inputs=game.inputs[flat.to(game.inputs.device)], usage=game.usage)
        eta[flat], still = _gradient_differences(few)
        flat[flat.clone()] = still
    return eta, flat


def degenerate(curvature: Tensor) -> Tensor:
    """Return which matrices (..., p, p) rank no cooperators: zero, or c a a' up to rounding.

    A symmetric matrix of rank one equals h h' / h_j for its column h at the largest diagonal entry
    j.
    """
    size = curvature.abs().amax(dim=(-2, -1))
    diagonal = curvature.diagonal(dim1=-2, dim2=-1)
    largest = diagonal.abs().argmax(dim=-1, keepdim=True)
    peak = diagonal.gather(-1, largest)
    column = curvature.gather(-1, largest[..., None, :].expand(*curvature.shape[:-1], 1))[..., 0]
    rank_one = (
        column[..., :, None] * column[..., None, :] / torch.where(peak == 0, 1.0, peak)[..., None]
    )
    return (curvature - rank_one).abs().amax(dim=(-2, -1)) <= 1e-4 * size


def hessian(game: ModelGame) -> Tensor:
    """Return |d2_ij g + d2_ji g| at z = 1, (r, p, p)."""
    return _contribution(_curvature(game))


def gradient_differences(game: ModelGame) -> Tensor:
    """Return |d_i g(1) - d_i g(1 - e_j)|, (r, p, p)."""
    eta, flat = _gradient_differences(game)
    _warn_if_flat(game, flat)
    return eta


def _gradient_differences(game: ModelGame) -> tuple[Tensor, Tensor]:
    """Return the same, and the rows whose slopes are all zero, (r,)."""
    players = game.players
    steps = torch.ones((players + 1, players), device=game.inputs.device, dtype=_floating(game))
    steps[1:] -= torch.eye(players, device=steps.device, dtype=steps.dtype)
    slopes = _in_pieces(game, _gradients, steps)
    game.usage.derivative_passes += (1 + slopes.shape[1]) * (players + 1) * game.cost
    change = slopes[:, :, :1] - slopes[:, :, 1:]  # (r, k, j, i)
    return _off_diagonal(change.abs().sum(dim=1).mT), ~slopes.flatten(1).any(dim=1)


def _warn_if_flat(game: ModelGame, flat: Tensor) -> None:
    """Warn where slopes are zero in every row but those equal to their reference."""
    moved = (game.inputs[:, None] != game.background).flatten(1).any(dim=1).to(flat.device)
    if moved.any() and flat[moved].all():
        warnings.warn(
            "the model's gradient is zero: cooperators cannot be ranked by derivatives; try "
            f"{_INSTEAD}",
            ShearWarning,
            stacklevel=level_of_caller(),
        )


def second_differences(game: Game) -> Tensor:
    """Return |v(U) - v(U-i) - v(U-j) + v(U-ij)|, (r, p, p)."""
    players = game.players
    i, j = torch.triu_indices(players, players, offset=1, device=game.device)
    own = torch.eye(players, dtype=torch.bool, device=game.device)
    absent = torch.cat((torch.zeros_like(own[:1]), own, own[i] | own[j]))
    full, single, double = game(~absent[None]).split((1, players, len(i)), dim=1)
    upper = (full - single[:, i] - single[:, j] + double).abs().sum(dim=2)
    eta = torch.zeros((game.rows, players, players), dtype=upper.dtype, device=game.device)
    eta[:, i, j] = eta[:, j, i] = upper
    return eta


def block_maximum(game: ModelGame) -> Tensor:
    """Return the authors' reading of one-hot blocks, (r, p, p): the largest cross-contribution of
    two inputs.
    """
    inputs = game.inputs.shape[1]
    every_input = torch.arange(inputs, device=game.inputs.device)
    fine = replace(game, owner=every_input, players=inputs, usage=game.usage)
    eta = _contribution(_curvature(fine))
    blocks = [game.owner.to(eta.device) == player for player in range(game.players)]
    rows = torch.stack([eta[:, block].amax(dim=1) for block in blocks], dim=1)
    return _off_diagonal(torch.stack([rows[:, :, block].amax(dim=2) for block in blocks], dim=2))


def _curvature(game: ModelGame) -> Tensor:
    """Return the player-space Hessians of every output at z = 1, (r, k, p, p)."""
    row = torch.ones((1, game.players), device=game.inputs.device, dtype=_floating(game))
    curvature = _in_pieces(game, _hessians, row)
    game.usage.derivative_passes += (1 + curvature.shape[1] * (1 + game.players)) * game.cost
    return curvature


def _in_pieces(
    game: ModelGame, derive: Callable[[ModelGame, Tensor], Tensor], points: Tensor
) -> Tensor:
    """Return `derive(game, z)` at z = points (q, p) for every row; too large a piece, or out of
    memory, is halved.

    Rows go first, then background rows, over which derivatives are a mean as values are.
    """
    count = game.rows * max(len(points), game.players) * game.cost
    if count <= game.batch.size or game.rows == game.cost == 1:
        z = points.expand(game.rows, -1, -1).clone().requires_grad_()
        try:
            with _differentiating():
                return derive(game, z).detach().to(game.device).double()
        except Exception as error:
            if isinstance(error, ShearError):
                raise
            if not out_of_memory(error):
                everyone = torch.ones((1, 1, game.players), dtype=torch.bool, device=game.device)
                game.take(slice(0, 1))(everyone)  # raises if the model fails at all
                raise ModelError(
                    f"the model cannot be differentiated: {error}; try {_INSTEAD}"
                ) from error
            if game.rows == game.cost == 1:
                raise ModelError(
                    f"out of memory on the derivatives of a single row; try {_INSTEAD}"
                ) from error
        game.batch.halve(count)
    if game.rows > 1:
        half = game.rows // 2
        parts = (game.take(slice(0, half)), game.take(slice(half, None)))
        return torch.cat([_in_pieces(part, derive, points) for part in parts])
    share = game.cost // 2 / game.cost
    first, second = game.background.split((game.cost // 2, game.cost - game.cost // 2))
    left, right = (
        _in_pieces(replace(game, background=part), derive, points) for part in (first, second)
    )
    return share * left + (1 - share) * right


def _hessians(game: ModelGame, z: Tensor) -> Tensor:
    """Return the Hessian of every output at z (r, 1, p), all players in one batched backward: (r,
    k, p, p).
    """
    basis = torch.eye(game.players, device=z.device, dtype=z.dtype)[:, None, None].expand(
        -1, *z.shape
    )
    columns = []
    for value in game.surface(z).unbind(dim=2):
        slope = _gradient(value, z, create_graph=True)
        columns.append(_gradient(slope, z, along=basis)[:, :, 0])  # (p, r, p)
    return torch.stack(columns).permute(2, 0, 1, 3)


def _gradients(game: ModelGame, z: Tensor) -> Tensor:
    """Return the gradient of every output at z (r, q, p): (r, k, q, p)."""
    return torch.stack([_gradient(value, z) for value in game.surface(z).unbind(dim=2)], dim=1)


def _gradient(
    value: Tensor, z: Tensor, *, along: Tensor | None = None, create_graph: bool = False
) -> Tensor:
    """Return the gradient of the sum of `value` by z, or one for each of the vectors `along`; 0
    without a graph.
    """
    nothing = torch.zeros_like(z if along is None else along)
    if not value.requires_grad:
        return nothing
    (slope,) = torch.autograd.grad(
        value,
        z,
        torch.ones_like(value) if along is None else along,
        is_grads_batched=along is not None,
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
    )
    return nothing if slope is None else slope


@contextmanager
def _differentiating() -> Iterator[None]:
    """Record gradients, with kernels that can be differentiated twice (fused attention and cuDNN
    cannot).
    """
    with torch.enable_grad(), _twice:
        yield


class _Twice:
    """Kernels that can be differentiated twice, for all threads: from the first that enters until
    the last leaves.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.chosen = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.chosen.enter_context(sdpa_kernel(SDPBackend.MATH))
                self.chosen.enter_context(torch.backends.cudnn.flags(enabled=False))
            self.inside += 1

    def __exit__(self, *_error: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.chosen.close()


_twice = _Twice()


def _floating(game: ModelGame) -> torch.dtype:
    """Return the type in which to differentiate: the inputs', or the embeddings' of indices."""
    return (
        game.inputs.dtype
        if game.inputs.is_floating_point()
        else game.predict.dtype or torch.float32
    )


def _contribution(curvature: Tensor) -> Tensor:
    """Return eta (r, p, p) of Hessians (r, k, p, p)."""
    return _off_diagonal((curvature + curvature.mT).abs().sum(dim=1))


def _off_diagonal(eta: Tensor) -> Tensor:
    return eta - torch.diag_embed(eta.diagonal(dim1=1, dim2=2))
