"""Every method as a captum attribution: captum's arguments in, attributions out.

    from shearshap.interop.captum import Shapley
    attributions = Shapley(model).attribute(inputs, baselines=0, target=1, n_samples=512)

Letters as everywhere: r rows, p players, k outputs, and d inputs of a row, which are the numbers of
its tensors, flat, one after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.futures import Future

from shearshap.data.multi_input import Layout
from shearshap.engine.progress import progress_bar
from shearshap.engine.run import whole
from shearshap.errors import BudgetError, InputError, ModelError
from shearshap.explainer import explain, explain_game
from shearshap.interop.captum_arguments import (
    Arguments,
    Baselines,
    Index,
    Rows,
    Target,
    Tensors,
    as_tuple,
)
from shearshap.interop.few_evaluations import Explain, explained_within
from shearshap.methods.base import Method
from shearshap.result.explanation import Explanation

try:
    from captum.attr import PerturbationAttribution
    from captum.log import log_usage
except ImportError as error:
    raise ImportError("shearshap.interop.captum needs captum: pip install captum") from error


class Shapley(PerturbationAttribution):  # type: ignore[misc]
    """Shapley values by any of this package's methods, for captum.

    Parameters
    ----------
    forward_func
        A module or a function of tensors, with an output for every row: (n,), (n, k), or more axes
        for `target` to choose from; or with one number for all rows together. As always in captum,
        a module is evaluated in its current mode: call `model.eval()` first.
    method
        A name in `shearshap.METHODS`, an instance such as `shearshap.Kriging()`, or "auto".
    seed
        Same seed, same attributions.
    """

    def __init__(
        self, forward_func: Callable[..., Any], method: str | Method = "auto", *, seed: int = 0
    ) -> None:
        super().__init__(forward_func)
        self.method = method
        self.seed = seed

    @log_usage()  # type: ignore[untyped-decorator]
    def attribute(
        self,
        inputs: Tensors,
        baselines: Baselines = None,
        target: Target = None,
        additional_forward_args: Any = None,
        feature_mask: Tensors | None = None,
        n_samples: int | None = None,
        perturbations_per_eval: int | None = None,
        show_progress: bool = False,
        return_convergence_delta: bool = False,
        return_input_shape: bool = True,
    ) -> Any:
        """Attribute the output to the inputs: a tensor for a tensor, a tuple for a tuple.

        Attributions have the shapes of their inputs. All inputs of a player get the player's value,
        as in captum's KernelShap. Without `target`, k > 1 outputs make attributions (r, k, *shape).
        Where the forward function returns one number for all rows together, attributions are
        (1, *shape), and a player is present in all rows or in none. Rows are explained all at once,
        apart from those that differ in baseline, mask or tensors among `additional_forward_args`.

        Parameters
        ----------
        inputs
            A tensor (r, *shape) or a tuple of them; some may be empty. Integers stay exact.
        baselines
            What absent inputs are replaced with: None (zeros), a number, a tensor of one row or of
            r rows; for a tuple of inputs, a tuple of these.
        target
            Which output to explain: None, an index, a tuple of indices or slices into an output of
            several axes, or a tensor or list with one for every row.
        additional_forward_args
            Further arguments of the forward function, after the inputs. A tensor with an entry for
            every row is repeated with the rows; anything else is passed as it is.
        feature_mask
            The players: whole numbers in the inputs' shape, for one row or for r rows. Inputs with
            the same number, also in different tensors, are one player; numbers may be left out.
            None: every input is a player.
        n_samples
            Model evaluations for one row; each of the first four rows takes one more, which checks
            the model. If the method needs more, it is replaced with another one, with a warning.
            None: 2 p + 2048, or the 2^p of all coalitions if those are fewer, or what the method
            needs if that is more.
        perturbations_per_eval
            Perturbations of every row in one forward, which then takes r times as many rows; None:
            as memory allows. Always one where the forward function returns one number.
        show_progress
            Whether to show a progress bar.
        return_convergence_delta
            Whether to return (attributions, delta), delta as of `compute_convergence_delta`.
        return_input_shape
            False: return the values of the players, (r, p) or (r, k, p), in the order of their
            numbers in `feature_mask`, from the smallest; a number left out has the value 0.
        """
        rows = Rows.of(inputs, baselines, target, additional_forward_args, feature_mask)
        batch_size = None
        if perturbations_per_eval is not None:
            batch_size = whole("perturbations_per_eval", perturbations_per_eval) * rows.count

        try:
            phi = self._values(rows, n_samples, batch_size, show_progress)
        except ModelError:
            if not self._has_one_number(rows):
                raise
            phi = self._values_of_all_rows(rows, n_samples, show_progress)

        attributions: Any = _in_shape(phi, rows)
        if not isinstance(inputs, tuple):
            (attributions,) = attributions
        answer = attributions if return_input_shape else _of_players(phi, rows)
        if not return_convergence_delta:
            return answer
        delta = self.compute_convergence_delta(
            attributions, baselines, inputs, target, additional_forward_args, feature_mask
        )
        return answer, delta

    def attribute_future(self, *arguments: Any, **options: Any) -> Future[Any]:
        """Return the attributions of `attribute` in a Future, which is done.

        The forward function may return Futures; each is waited for.
        """
        answer: Future[Any] = Future()
        answer.set_result(self.attribute(*arguments, **options))
        return answer

    def _values(
        self, rows: Rows, n_samples: int | None, batch_size: int | None, progress: bool
    ) -> Tensor:
        """Return the value of every input's player, (r, d) or (r, k, d), block by block."""
        blocks = rows.alike()
        phi = [
            self._values_of_block(rows.take(block), n_samples, batch_size, progress)
            for block in blocks
        ]
        return torch.cat(phi)[torch.cat(blocks).argsort()]

    def _values_of_block(
        self, rows: Rows, n_samples: int | None, batch_size: int | None, progress: bool
    ) -> Tensor:
        """Return the same of rows that have the same baseline, mask and arguments."""
        players, owner = np.unique(rows.mask[0].numpy(), return_inverse=True)
        model = _Forward(self.forward_func, rows)

        def explained(method: str | Method, budget: int) -> Explanation:
            return explain(
                model,
                _flat(rows.inputs),
                reference=_flat(tuple(part[:1] for part in rows.baselines)),
                groups=owner,
                budget=budget,
                method=method,
                batch_size="auto" if batch_size is None else batch_size,
                seed=self.seed,
                progress=progress,
            )

        explanation = self._explained(explained, len(players), n_samples)
        phi = torch.from_numpy(explanation.values[:, owner]).movedim(1, -1)
        if phi.ndim == 3:
            phi = phi.unflatten(1, model.output_shape)
        return rows.own_outputs(phi)

    def _values_of_all_rows(self, rows: Rows, n_samples: int | None, progress: bool) -> Tensor:
        """Return the value of every input's player for one number of all rows, (1, d)."""
        if not bool((rows.mask == rows.mask[:1]).all()):
            raise InputError(
                "feature_mask: the forward function returns one number for all rows, so they need "
                "the same players; got a mask that differs from row to row"
            )
        players, owner = np.unique(rows.mask[0].numpy(), return_inverse=True)
        with progress_bar(progress, unit=" evaluations") as bar:
            value = _ValueOfAllRows(self._output_of_all_rows, rows, owner, bar.update)

            def explained(method: str | Method, budget: int) -> Explanation:
                bar.total = budget
                return explain_game(
                    value, players=len(players), budget=budget, method=method, seed=self.seed
                )

            explanation = self._explained(explained, len(players), n_samples)
        return torch.from_numpy(explanation.values[:, owner])

    def _explained(self, explained: Explain, players: int, n_samples: int | None) -> Explanation:
        """Return the explanation within `n_samples`, or within a budget that suits the method."""
        if n_samples is not None:
            return explained_within(n_samples, self.method, explained)
        try:
            return explained(self.method, min(2 * players + 2048, 1 << players))
        except BudgetError as error:
            if error.nearest is None:
                raise
            return explained(self.method, error.nearest)

    def has_convergence_delta(self) -> bool:
        """Return True: `compute_convergence_delta` works."""
        return True

    @log_usage()  # type: ignore[untyped-decorator]
    def compute_convergence_delta(
        self,
        attributions: Tensors,
        start_point: Baselines,
        end_point: Tensors,
        target: Target = None,
        additional_forward_args: Any = None,
        feature_mask: Tensors | None = None,
    ) -> Tensor:
        """Return by how much the values exceed F(end_point) - F(start_point).

        That is (r,), or (r, k) without `target`. `start_point` are the baselines, `end_point` the
        inputs. A player's value counts once, however many inputs it has, so pass the `feature_mask`
        of the attributions. The result is 0 up to rounding where the method promises efficiency.
        """
        rows = Rows.of(end_point, start_point, target, additional_forward_args, feature_mask)
        change = self._outputs(rows.inputs, rows) - self._outputs(rows.baselines, rows)

        phi = rows.layout.join(as_tuple(attributions, "attributions")).detach().double()
        weights = _once(rows.mask[: len(phi)]).to(phi.device)
        total = torch.einsum("r...d,rd->r...", phi, weights)
        return total - change.reshape(total.shape)

    def _outputs(self, points: tuple[Tensor, ...], rows: Rows) -> Tensor:
        """Return the forward function's output at points, of every row's own target."""
        with torch.no_grad():
            answer = self.forward_func(*points, *rows.arguments.every)
        outputs = _chosen(answer, rows.targets)
        if len(outputs) == rows.count:
            outputs = rows.own_outputs(outputs)
        return outputs.double()

    def _has_one_number(self, rows: Rows) -> bool:
        """Return whether the forward function returns one number for all rows together."""
        try:
            outputs = self._outputs(rows.inputs, rows)
        except Exception:  # noqa: BLE001  (whatever it raises, there is no number)
            return False
        return outputs.numel() == 1

    def _output_of_all_rows(self, points: tuple[Tensor, ...], rows: Rows) -> float:
        outputs = self._outputs(points, rows)
        if outputs.numel() != 1:
            raise ModelError(
                "forward_func: it returned one number for all rows, and now a tensor of shape "
                f"{tuple(outputs.shape)}"
            )
        return outputs.item()


# The forward function


class _Forward(nn.Module):
    """A forward function as a module of flat tensors, one for each input: what `explain` takes."""

    def __init__(self, forward: Callable[..., Any], rows: Rows) -> None:
        super().__init__()
        self.call = _Call(forward, rows.layout, rows.arguments, rows.targets)
        self.output_shape: tuple[int, ...] = ()  #: of one row, as it was last returned
        # it says where to compute; an integer, so that every input keeps its own floating type
        place = torch.empty(0, dtype=torch.int64, device=rows.inputs[0].device)
        self.register_buffer("place", place)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Map inputs (n, size) each, without the empty ones, to outputs (n,) or (n, k)."""
        outputs = self.call(inputs)
        self.output_shape = tuple(outputs.shape[1:])
        return outputs.flatten(1) if outputs.ndim > 2 else outputs


@dataclass(frozen=True)
class _Call:
    """How to call a forward function.

    The module above holds it through this class, and not as a submodule of its own, since captum
    leaves a model's mode and device to its owner.
    """

    forward: Callable[..., Any]
    layout: Layout
    arguments: Arguments  #: the same for all rows
    targets: list[Index]

    def __call__(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Map inputs (n, size) each, without the empty ones, to the targets' outputs (n, ...)."""
        count = len(inputs[0])
        parts = iter(inputs)
        shaped = [
            (next(parts) if size else inputs[0].new_empty(count, 0)).reshape(count, *shape)
            for size, shape in zip(self.layout.sizes, self.layout.shapes, strict=True)
        ]
        answer = self.forward(*shaped, *self.arguments.of_first(count))
        outputs = _chosen(answer, self.targets)
        if len(outputs) == count:
            return outputs

        raise ModelError(
            f"forward_func: wanted a tensor with an output for each of {count} rows, or one number "
            f"for all of them, got shape {tuple(outputs.shape)}"
        )


@dataclass(frozen=True)
class _ValueOfAllRows:
    """The game of one number for all rows: a player is present in all of them, or in none."""

    output: Callable[[tuple[Tensor, ...], Rows], float]
    rows: Rows
    owner: NDArray[np.int64]  #: (d,) the player of each input
    advance: Callable[[], object]

    def __call__(self, coalitions: NDArray[np.bool_]) -> list[float]:
        """Map coalitions (c, p) to values (c,), in a forward each."""
        return [self._value(coalition) for coalition in coalitions]

    def _value(self, coalition: NDArray[np.bool_]) -> float:
        present = self.rows.layout.split(torch.from_numpy(coalition[self.owner]))
        points = [
            torch.where(own.to(inputs.device), inputs, baseline)
            for own, inputs, baseline in zip(
                present, self.rows.inputs, self.rows.baselines, strict=True
            )
        ]
        self.advance()
        return self.output(tuple(points), self.rows)


def _flat(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return tensors (r, *shape) as (r, size), without the empty ones."""
    return tuple(part.reshape(len(part), -1) for part in tensors if part.numel())


def _chosen(answer: Any, targets: list[Index]) -> Tensor:
    """Return the targets' outputs, (n, ...), of what a forward function returned.

    For several targets they are (n, k, ...), and for a single number (1,).
    """
    if isinstance(answer, Future):
        answer = answer.wait()
    if isinstance(answer, int | float):
        answer = torch.tensor(answer, dtype=torch.float64)
    if not isinstance(answer, Tensor):
        raise ModelError(f"forward_func: wanted a tensor or a number, got {type(answer).__name__}")
    outputs = answer.reshape(1) if answer.ndim == 0 else answer
    try:
        chosen = [outputs[(slice(None), *index)] for index in targets]
    except IndexError as error:
        raise InputError(
            f"target: {error}; the model's output has shape {tuple(answer.shape)}"
        ) from error
    return chosen[0] if len(chosen) == 1 else torch.stack(chosen, dim=1)


# Attributions


def _in_shape(phi: Tensor, rows: Rows) -> tuple[Tensor, ...]:
    """Return values (r, d) or (r, k, d) in the inputs' shapes."""
    device = rows.inputs[0].device
    return tuple(
        part.to(device, _real(own))
        for part, own in zip(rows.layout.split(phi), rows.inputs, strict=True)
    )


def _real(inputs: Tensor) -> torch.dtype:
    """Return the type of an input's attributions: real, and of at least single precision."""
    return torch.promote_types(inputs.dtype, torch.float32).to_real()


def _of_players(phi: Tensor, rows: Rows) -> Tensor:
    """Return the values of players, (r, p) or (r, k, p), of values of inputs, (r, d) or (r, k, d).

    With the mask 3 3 5 and the values a a b, that is a 0 b.
    """
    numbers = rows.mask - rows.mask.min()
    axes_of_outputs = [1] * (phi.ndim - 2)
    place = numbers[: len(phi)].reshape(len(phi), *axes_of_outputs, -1).expand(phi.shape)
    of_players = phi.new_zeros(*phi.shape[:-1], int(numbers.max()) + 1)

    widest = max((_real(part) for part in rows.inputs), key=lambda dtype: dtype.itemsize)
    return of_players.scatter(-1, place, phi).to(rows.inputs[0].device, widest)


def _once(mask: Tensor) -> Tensor:
    """Return weights (r, d) that count every player once: one over the number of its inputs."""
    weights = []
    for row in mask.numpy():
        _, owner, sizes = np.unique(row, return_inverse=True, return_counts=True)
        weights.append(1 / sizes[owner])
    return torch.from_numpy(np.stack(weights))
