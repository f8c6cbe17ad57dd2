"""Rows x coalitions -> values: the one place that masks inputs, batches, runs the model and counts.

Letters everywhere: r rows, c coalitions, p players, d model inputs, b background rows, k outputs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from shearshap.adapters import Predictor
from shearshap.errors import ModelError, ShearError

_BATCH_BYTES = {"cpu": 4 << 20, "other": 2 << 30}
"""Bytes of model input in one batch: what fits a CPU's cache; what keeps an accelerator busy."""


class Game(Protocol):
    """A cooperative game for each of r rows, all with the same p players."""

    @property
    def rows(self) -> int:
        """The number of rows r: games played side by side."""

    @property
    def players(self) -> int:
        """The number of players p."""

    @property
    def cost(self) -> int:
        """Model evaluations that one coalition of one row costs (the number of background rows)."""

    @property
    def device(self) -> torch.device:
        """Where coalitions and values live."""

    @property
    def differentiable(self) -> bool:
        """Whether `surface` can be differentiated."""

    @property
    def usage(self) -> "Usage":
        """What has been spent on each row so far."""

    def take(self, rows: slice | Tensor) -> "Game":
        """Return the game of some of the rows, with nothing spent yet."""

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (r or 1, c, p) of bool to values (r, c, k)."""

    def surface(self, z: Tensor) -> Tensor:
        """Map player-space points z (r, q, p) to g(z) = f(xbar + z (x - xbar)), (r, q, k),
        differentiably.
        """


@dataclass
class Usage:
    """What was spent on each row: model evaluations and, apart, passes through the model for
    derivatives.
    """

    evaluations: int = 0
    derivative_passes: int = 0

    def most(self, other: "Usage") -> "Usage":
        """Return the larger of each."""
        return Usage(
            max(self.evaluations, other.evaluations),
            max(self.derivative_passes, other.derivative_passes),
        )


@dataclass
class Batch:
    """How many model evaluations go into one batch; halved for good whenever memory runs out."""

    size: int

    def halve(self, tried: int) -> None:
        """Go on with batches of half the size that was tried."""
        self.size = max(1, min(self.size, tried) // 2)


def automatic_batch(predict: Predictor, inputs: int) -> int:
    """Return a batch size that bounds the inputs' memory on the model's device."""
    budget = _BATCH_BYTES["cpu" if predict.device.type == "cpu" else "other"]
    if predict.device.type == "cuda":
        budget = min(budget, torch.cuda.mem_get_info(predict.device)[0] // 16)
    return max(1, budget // (4 * inputs))


@dataclass
class ModelGame:
    """The game of a model: absent players' inputs come from a reference row or background rows.

    v(S) = mean over b of f(x_S, xbar_b outside S): the paper's eq. 2 for b = 1, its eq. 1
    otherwise.
    """

    predict: Predictor
    inputs: Tensor  #: (r, d) the rows to explain, flattened
    background: Tensor  #: (b, d)
    owner: Tensor  #: (d,) the player that owns each input
    shape: tuple[int, ...]  #: of one row as the model takes it
    players: int
    batch: Batch
    advance: Callable[[int], object] = lambda _evaluations: None
    finite: bool = True  #: whether all inputs are: a missing one can be chosen, but not mixed
    places: Tensor | None = None  #: (r,) the rows' numbers in the whole; None: 0, 1, 2, ...
    single: list[bool] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    @property
    def rows(self) -> int:
        """The number of rows r."""
        return len(self.inputs)

    @property
    def cost(self) -> int:
        """Model evaluations for one coalition: one for each background row."""
        return len(self.background)

    @property
    def device(self) -> torch.device:
        """Where coalitions and values live: the model's device, unless it knows no double
        precision.
        """
        return torch.device("cpu") if self.predict.device.type == "mps" else self.predict.device

    @property
    def differentiable(self) -> bool:
        """Whether the model is, at floating inputs or at its embeddings."""
        floating = self.inputs.is_floating_point() and self.finite
        return self.predict.differentiable and (floating or self.predict.embedding is not None)

    def take(self, rows: slice | Tensor) -> "ModelGame":
        """Return the game of some of the rows, with nothing spent yet."""
        places = torch.arange(self.rows, device="cpu") if self.places is None else self.places
        own = rows if isinstance(rows, slice) else rows.cpu()
        place = rows if isinstance(rows, slice) else rows.to(self.inputs.device)
        return replace(self, inputs=self.inputs[place], places=places[own], usage=Usage())

    def place(self, row: int) -> int:
        """Return a row's number in the whole."""
        return row if self.places is None else int(self.places[row])

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (r or 1, c, p) of bool to values (r, c, k)."""
        with torch.no_grad():
            outputs = self._outputs(self.inputs, coalitions, self.background)
            values = outputs.mean(dim=2) if self.cost > 1 else outputs[:, :, 0]
        self.usage.evaluations += coalitions.shape[1] * self.cost
        check_values(values, coalitions, self.place)
        return values

    def surface(self, z: Tensor) -> Tensor:
        """Map player-space points z (r, q, p) to g(z), (r, q, k), differentiably; the caller counts
        passes.
        """
        # a product with 0s and 1s, not an index: its derivatives are products too, and much faster
        owned = torch.nn.functional.one_hot(self.owner, self.players).to(z.dtype)
        weight = (z @ owned.mT).unsqueeze(2)
        if self.predict.embedding is None:
            mixed = self.background + weight * (self.inputs[:, None, None] - self.background)
            return self._ask(self.predict, mixed, self.shape).mean(dim=2)
        embed, after = self.predict.embedding
        rows, references = embed(self.inputs)[:, None, None], embed(self.background)
        mixed = references + weight[..., None] * (rows - references)
        return self._ask(after, mixed, tuple(references.shape[1:])).mean(dim=2)

    def _outputs(
        self, inputs: Tensor, coalitions: Tensor, background: Tensor, row: int = 0
    ) -> Tensor:
        """Return all outputs (r, c, b, k), in batches: too large a piece, or one out of memory, is
        halved.

        `row` is the place of the first of them, for an error to name.
        """
        sizes = [len(inputs), coalitions.shape[1], len(background)]
        count = int(np.prod(sizes))
        if count <= self.batch.size or count == 1:
            try:
                return self._forward(inputs, coalitions, background)
            except Exception as error:
                if not out_of_memory(error):
                    raise self._named(error, inputs, coalitions, background, row) from error
                if count == 1:
                    raise ModelError(
                        "out of memory on a single model evaluation; try a smaller model"
                    ) from error
            self.batch.halve(count)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
        dim = next(axis for axis, size in enumerate(sizes) if size > 1)
        half = sizes[dim] // 2
        pieces = []
        for part in (slice(half), slice(half, None)):
            rows, columns, references = (part if axis == dim else slice(None) for axis in range(3))
            own = rows if len(coalitions) > 1 else slice(None)
            place = row + (rows.start or 0)
            pieces.append(
                self._outputs(inputs[rows], coalitions[own, columns], background[references], place)
            )
        return torch.cat(pieces, dim=dim)

    def _named(
        self, error: Exception, inputs: Tensor, coalitions: Tensor, background: Tensor, row: int
    ) -> Exception:
        """Return an error of the model with the first row and coalition that it fails on, found by
        halving.
        """
        if isinstance(error, ShearError):
            return error
        count = len(inputs) * coalitions.shape[1] * len(background)
        said = f"{type(error).__name__}: {error}{_hint(error)}"
        told = f"the model failed on inputs of shape {(count, *self.shape)}: {said}"
        while len(inputs) * coalitions.shape[1] > 1:
            axis = 0 if len(inputs) > 1 else 1
            half = (len(inputs) if axis == 0 else coalitions.shape[1]) // 2
            for start, stop in ((0, half), (half, None)):
                part, own = (
                    (slice(start, stop), slice(None))
                    if axis == 0
                    else (slice(None), slice(start, stop))
                )
                asked = coalitions[part if len(coalitions) > 1 else slice(None), own]
                if self._fails(inputs[part], asked, background):
                    inputs, coalitions, row = inputs[part], asked, row + (start if axis == 0 else 0)
                    break
            else:
                return ModelError(told)
        size = int(coalitions.sum())
        where = f"row {self.place(row)} with {size} of {self.players} players present"
        return ModelError(f"{told} (first on {where})")

    def _fails(self, inputs: Tensor, coalitions: Tensor, background: Tensor) -> bool:
        try:
            self._forward(inputs, coalitions, background)
        except Exception:  # noqa: BLE001  (whatever the model raises)
            return True
        return False

    def _forward(self, inputs: Tensor, coalitions: Tensor, background: Tensor) -> Tensor:
        """Return the outputs (r, c, b, k) of one batch."""
        owner = self.owner.expand(*coalitions.shape[:2], -1)
        present = torch.gather(coalitions.to(owner.device), 2, owner).unsqueeze(2)
        rows = inputs[:, None, None]
        if inputs.is_floating_point() and self.finite:
            # exact at the weights 0 and 1, and much faster than torch.where
            masked = torch.lerp(background, rows, present.to(inputs.dtype))
        else:
            masked = torch.where(present, rows, background)
        # a copy, since the model may use its memory again
        answer = (
            self._ask(self.predict, masked, self.shape).to(self.device).to(torch.float64, copy=True)
        )
        self.advance(answer.shape[:3].numel())
        return answer

    def _ask(
        self, model: Callable[[Tensor], Tensor], points: Tensor, shape: tuple[int, ...]
    ) -> Tensor:
        """Run the model at points (r, c, b, ...), each of a shape, and return (r, c, b, k)."""
        answer = model(points.reshape(-1, *shape))
        self.single[:] = [answer.ndim == 1]
        return answer.reshape(*points.shape[:3], -1)


@dataclass
class FunctionGame:
    """A cooperative game given as a function of coalitions: one row, no model."""

    value: Callable[[Any], Any]
    players: int
    single: list[bool] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    device = torch.device("cpu")
    rows = 1
    cost = 1
    differentiable = False

    def take(self, _rows: slice | Tensor) -> "FunctionGame":
        """Return the game with nothing spent yet."""
        return replace(self, usage=Usage())

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (1, c, p) of bool to values (1, c, k)."""
        asked = coalitions[0].numpy().copy()
        try:
            answer = np.array(self.value(asked), dtype=np.float64)
        except Exception as error:
            raise ModelError(
                f"the game failed on {len(asked)} coalitions of {self.players} players: {error}"
            ) from error
        if answer.ndim not in (1, 2) or len(answer) != len(asked) or answer.size == 0:
            raise ModelError(
                f"the game returned shape {answer.shape} for {len(asked)} coalitions; "
                f"wanted ({len(asked)},) or ({len(asked)}, k)"
            )
        self.single[:] = [answer.ndim == 1]
        values = torch.from_numpy(answer.reshape(1, len(asked), -1))
        self.usage.evaluations += len(asked)
        check_values(values, coalitions)
        return values

    def surface(self, _z: Tensor) -> Tensor:
        """Raise: a function of coalitions has no values in between."""
        raise ModelError(
            "a game given as a function of coalitions has no derivatives; use second differences"
        )


def check_values(
    values: Tensor, coalitions: Tensor, place: Callable[[int], int] = lambda row: row
) -> None:
    """Raise where a value (r, c, k) is NaN or infinite, naming the row and the coalition's size."""
    if bool(torch.isfinite(values).all()):
        return
    row, column, output = (int(index) for index in (~torch.isfinite(values)).nonzero()[0])
    size = int(coalitions[row if len(coalitions) > 1 else 0, column].sum())
    raise ModelError(
        f"the model returned {float(values[row, column, output])} for row {place(row)} with "
        f"{size} of {coalitions.shape[-1]} players present (output {output}); "
        "it must be finite at every mix of row and reference"
    )


def _hint(error: Exception) -> str:
    """Return what to try, of errors that are known to come of how rows are given."""
    embedded = "'indices'" in str(error) and "Long" in str(error)
    return "; pass rows of indices as an integer tensor, torch.as_tensor(rows)" if embedded else ""


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, on any device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return "out of memory" in text or "can't allocate memory" in text or "not enough memory" in text
