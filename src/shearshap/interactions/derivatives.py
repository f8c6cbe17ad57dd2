"""Gradients and Hessians of a model's game in player space, within the memory there is.

Rows are differentiated together, as many as fit a batch. A piece that is too large, or that runs
out of memory, is halved: first its rows, then its background rows. Over background rows, a
derivative is a mean, just as a value is.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from shearshap.errors import ModelError
from shearshap.games.batches import out_of_memory
from shearshap.games.game import ModelGame, model_errors

WITHOUT_DERIVATIVES = "Shear(interaction='second-differences')"
"""What to try where derivatives fail, for messages."""

Derivative = Callable[[ModelGame, Tensor], Tensor]
"""A function of a game and of points z (r, q, p) that need gradients, to (r, k, ...)."""


def hessians(game: ModelGame) -> Tensor:
    """Return the Hessians of every output at z = 1, (r, k, p, p), and count their passes."""
    full = torch.ones((1, game.players), device=game.inputs.device, dtype=floating_type(game))
    curvature = _in_pieces(game, _hessians, full)
    outputs = curvature.shape[1]
    game.usage.derivative_passes += (1 + outputs * (1 + game.players)) * game.cost
    return curvature


def gradients(game: ModelGame, points: Tensor) -> Tensor:
    """Return the gradients of every output at points (q, p), (r, k, q, p); count their passes."""
    slopes = _in_pieces(game, _gradients, points)
    outputs = slopes.shape[1]
    game.usage.derivative_passes += (1 + outputs) * len(points) * game.cost
    return slopes


def floating_type(game: ModelGame) -> torch.dtype:
    """Return the type in which to differentiate: the inputs', or the embeddings' of indices."""
    if game.inputs.is_floating_point():
        return game.inputs.dtype
    return game.predict.dtype or torch.float32


# Pieces


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
        # Here, after the except clause, the error is gone, whose traceback held the memory.
        game.batch.halve(count)

    if game.rows > 1:
        return _by_halves_of_rows(game, derivative, points)
    return _by_halves_of_background(game, derivative, points)


def _by_halves_of_rows(game: ModelGame, derivative: Derivative, points: Tensor) -> Tensor:
    """Return the derivatives of the first half of the rows, then of the second."""
    half = game.rows // 2
    first = _in_pieces(game.take(slice(0, half)), derivative, points)
    second = _in_pieces(game.take(slice(half, None)), derivative, points)
    return torch.cat([first, second])


def _by_halves_of_background(game: ModelGame, derivative: Derivative, points: Tensor) -> Tensor:
    """Return the mean, by their weights, of the derivatives with each half of the background."""
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


# One piece


def _differentiate(game: ModelGame, derivative: Derivative, points: Tensor) -> Tensor:
    """Return a derivative at points (q, p) for every row, in one piece and in double precision."""
    z = points.expand(game.rows, -1, -1).clone().requires_grad_()
    with _differentiating():
        return derivative(game, z).detach().to(game.device).double()


def _hessians(game: ModelGame, z: Tensor) -> Tensor:
    """Return the Hessian of every output at z (r, 1, p), (r, k, p, p).

    One batched backward pass takes all players.
    """
    eye = torch.eye(game.players, device=z.device, dtype=z.dtype)
    directions = eye[:, None, None].expand(-1, *z.shape)
    by_output = []
    # Output by output, since one backward pass differentiates one sum.
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

    Where `value` does not depend on z it is zero.
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


@contextmanager
def _differentiating() -> Iterator[None]:
    """Record gradients, with kernels that can be differentiated twice."""
    with torch.enable_grad(), _twice_differentiable:
        yield


class TwiceDifferentiableKernels:
    """A context in which torch uses kernels that can be differentiated twice.

    Fused attention and cuDNN cannot. Torch's switches hold for all threads, so they are set when
    the first thread enters, and set back when the last one leaves.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.threads = 0  #: now inside
        self.switches = ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if not self.threads:
                self.switches.enter_context(sdpa_kernel(SDPBackend.MATH))
                self.switches.enter_context(torch.backends.cudnn.flags(enabled=False))
            self.threads += 1

    def __exit__(self, *_error: object) -> None:
        with self.lock:
            self.threads -= 1
            if not self.threads:
                self.switches.close()


#: One for the whole process, as torch's switches are.
_twice_differentiable = TwiceDifferentiableKernels()
