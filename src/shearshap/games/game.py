"""Games: rows x coalitions -> values, the one place that mixes inputs, runs the model and counts.

The coalition {0, 2} of three players, the first of which owns two inputs:

    owner          0    0    1    2
    present        yes  yes  no   yes
    row            x0   x1   x2   x3
    background     b0   b1   b2   b3
    model input    x0   x1   b2   x3

Letters everywhere: r rows, c coalitions, p players, d model inputs, b background rows, k outputs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import ModelError, ShearError
from shearshap.games.agreement import disagreement
from shearshap.games.batches import (
    Batch,
    Box,
    FailedBatch,
    first_failure,
    in_batches,
    out_of_memory,
)
from shearshap.games.coalitions import end_coalitions
from shearshap.games.mixing import mixed
from shearshap.models import Predictor
from shearshap.models.outputs import real_numbers

_ALL = slice(None)

COMPARED = 1 << 24
"""Inputs that are compared with the background's at once, to find null players."""


@dataclass
class Usage:
    """What was spent on each row: evaluations and, counted apart, passes for derivatives."""

    evaluations: int = 0
    derivative_passes: int = 0
    checks: int = 0  #: evaluations of all rows together that compared the game with its model


@dataclass(frozen=True)
class Ends:
    """The values of the empty and the full coalition: base value and prediction of every row."""

    values: Tensor  #: (r, 2, k)
    single: bool  #: whether the model returns one number for a row, and no axis of outputs


class GameInfo(Protocol):
    """What a method knows of a game when it makes a design."""

    @property
    def players(self) -> int:
        """The number of players p."""

    @property
    def device(self) -> torch.device:
        """Where coalitions and values live."""

    @property
    def differentiable(self) -> bool:
        """Whether the game's surface can be differentiated."""

    @property
    def structure(self) -> None:
        """How players are grouped: None, all of them alike. A tree of groups would be another."""


class Game(GameInfo, Protocol):
    """A cooperative game for each of r rows, all with the same p players.

    A game is a value function, rows and what was spent on them. `ModelGame` has the marginal one,
    in which background rows stand in for absent players. Another one, such as a conditional mean or
    the log-probability of an answer, is another class with these members.
    """

    @property
    def rows(self) -> int:
        """The number of rows r: games played side by side."""

    @property
    def cost(self) -> int:
        """Model evaluations that one coalition of one row costs: the number of background rows."""

    def active_players(self) -> Tensor | None:
        """Return which players are not known to be null, (r, p) of bool; None: all of them."""

    def distances(self) -> Tensor:
        """Return how far each player's inputs are from the background's, (r, p); 0: equal."""

    @property
    def usage(self) -> Usage:
        """What has been spent on each row so far."""

    def take(self, rows: slice | Tensor) -> "Game":
        """Return the game of some of the rows, with nothing spent yet."""

    def place(self, row: int) -> int:
        """Return a row's number in the whole, of which the game may be a part."""

    def ends(self) -> Ends:
        """Ask for the empty and the full coalition, which also tells the number of outputs."""

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (r or 1, c, p) of bool to values (r, c, k)."""

    def doubt(self, ends: Ends, *, first: bool) -> str | None:
        """Say why predictions are not the model's own, in a sentence; None if they are.

        `first` says that no rows of this game were compared before.
        """

    def each(self, rows: Tensor, coalitions: Tensor) -> Tensor:
        """Map one coalition for each of the rows named: (n,) and (n, p) to values (n, k)."""

    def surface(self, z: Tensor) -> Tensor:
        """Map points z (r, q, p) to g(z) = f(xbar + z (x - xbar)), (r, q, k), differentiably."""


@dataclass
class ModelGame:
    """The game of a model: absent players' inputs come from one or several background rows.

    v(S) = mean over b of f(x_S, xbar_b outside S): eq. 2 of the paper for b = 1, else its eq. 1.
    """

    predict: Predictor
    inputs: Tensor  #: (r, d) the rows to explain, flattened
    background: Tensor  #: (b, d)
    owner: Tensor  #: (d,) the player that owns each input
    shape: tuple[int, ...]  #: of one row as the model takes it
    players: int
    batch: Batch
    advance: Callable[[int], object] = lambda _evaluations: None
    finite: bool = True  #: whether all inputs are finite
    negative_zeros: bool = False  #: whether an input is -0.0, which arithmetic may make 0.0
    places: Tensor | None = None  #: (r,) the rows' numbers in the whole; None: 0, 1, 2, ...
    untouched: Callable[[slice], Any] | None = None  #: rows of the whole as the user passed them
    type_changes: tuple[str, ...] = ()  #: of the rows on their way to the model, in words
    weights: Tensor | None = None  #: (b,) of the background rows, sum 1; None: they count equally
    one_each: bool = False  #: whether every input is known to be a player of its own, in order
    usage: Usage = field(default_factory=Usage)
    structure: None = None  #: of the players

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
        """Where coalitions and values live: the model's device if it knows double precision."""
        own = self.predict.device
        return torch.device("cpu") if own.type == "mps" else own

    @property
    def differentiable(self) -> bool:
        """Whether the model can be differentiated, at floating inputs or at its embeddings."""
        floating = self.inputs.is_floating_point() and self.finite
        embedded = self.predict.embedding is not None
        return self.predict.differentiable and (floating or embedded)

    def take(self, rows: slice | Tensor = _ALL, background: slice = _ALL) -> "ModelGame":
        """Return the game of some rows and background rows, with nothing spent yet.

        The weights of the background rows that are left sum to 1 again.
        """
        if isinstance(rows, slice):
            inputs = self.inputs[rows]
            numbers = torch.arange(*rows.indices(self.rows), device="cpu")
        else:
            inputs = self.inputs[rows.to(self.inputs.device)]
            numbers = rows.cpu()
        return replace(
            self,
            inputs=inputs,
            background=self.background[background],
            weights=self._weights_of(background),
            places=numbers if self.places is None else self.places[numbers],
            usage=Usage(),
        )

    def share(self, background: slice) -> float:
        """Return the weight of some background rows, as a part of that of all."""
        if self.weights is None:
            return len(self.background[background]) / self.cost
        return float(self.weights[background].sum() / self.weights.sum())

    def _weights_of(self, background: slice) -> Tensor | None:
        """Return the weights of some background rows, with the sum 1."""
        if self.weights is None:
            return None
        own = self.weights[background]
        # rows without any weight do not count in a mean, however they are weighted in themselves
        return own / own.sum() if own.sum() > 0 else None

    def place(self, row: int) -> int:
        """Return a row's number in the whole."""
        return row if self.places is None else int(self.places[row])

    def active_players(self) -> Tensor | None:
        """Return which players are not known to be null, (r, p) of bool; None: all of them.

        A player is null whose inputs are the same in the row and in every background row.
        """
        first = self.background[0]
        constant = _same(self.background, first).all(dim=0)
        if not constant.any():
            return None
        # some rows at a time: of images, the inputs of all may be too many to compare at once
        size = max(1, COMPARED // len(first))
        pieces = [self._active(piece, first, constant) for piece in self.inputs.split(size)]
        active = torch.cat(pieces)
        return None if active.all() else active.to(self.device)

    def _active(self, inputs: Tensor, background: Tensor, constant: Tensor) -> Tensor:
        """Return which players of some rows (r, d) are active, (r, p) of bool."""
        differs = ~(_same(inputs, background) & constant)
        if self.one_each or differs.all():
            return differs if self.one_each else differs.new_ones(len(inputs), self.players)
        count = differs.new_zeros((len(inputs), self.players), dtype=torch.int32)
        owner = self.owner.to(inputs.device)
        return count.index_add_(1, owner, differs.int()) > 0

    def distances(self) -> Tensor:
        """Return how far each player's inputs are from the background's, (r, p).

        0: they are the same as in every background row, so that the player is null. Where inputs
        are no numbers to measure by, a player is at distance 0 or 1.
        """
        inputs = self.inputs.to(self.device)
        squares = torch.zeros_like(inputs, dtype=torch.float64)
        # one background row after the other: all at once may be too many to hold
        for background in self.background.to(self.device):
            squares += _squared_distances(inputs, background)
        by_player = squares.new_zeros(len(squares), self.players)
        owner = self.owner.to(self.device)
        distances = by_player.index_add_(1, owner, squares / len(self.background)).sqrt()
        return distances if inputs.is_floating_point() else (distances > 0).double()

    def position(self, place: int) -> int:
        """Return which of the game's rows has a number in the whole."""
        return place if self.places is None else self.places.tolist().index(place)

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (r or 1, c, p) of bool to values (r, c, k)."""
        return self._values(coalitions).values

    def ends(self) -> Ends:
        """Ask for the empty and the full coalition, which also tells the number of outputs."""
        return self._values(end_coalitions(self.players, self.device))

    def doubt(self, ends: Ends, *, first: bool) -> str | None:
        """Say why predictions are not the model's own; None if they are, or are not compared.

        The first rows are always compared, and all rows if their types changed.
        """
        if self.untouched is None or not (first or self.type_changes):
            return None
        return disagreement(self, ends.values)

    def untouched_answer(self, count: int) -> Tensor:
        """Return the model's answer for the first rows as the user passed them, (n, k)."""
        self.usage.checks += count
        start = self.place(0)

        def forward(box: Box) -> Tensor:
            assert self.untouched is not None
            rows = slice(start + box.rows.start, start + box.rows.stop)
            return self.predict.answer(self.untouched(rows), box.size)[:, None, None]

        try:
            with torch.no_grad():
                answer = in_batches(Box.whole(count, 1, 1), forward, self.batch, self.device)
        except FailedBatch as failed:
            cause = failed.__cause__
            raise ModelError(f"{type(cause).__name__}: {cause}") from cause
        return answer.reshape(count, -1)

    def each(self, rows: Tensor, coalitions: Tensor) -> Tensor:
        """Map one coalition for each of the rows named: (n,) and (n, p) to values (n, k)."""
        # in pieces, since a row is copied for each of its coalitions
        size = max(1, self.batch.size // self.cost)
        values = []
        for piece, own in zip(rows.split(size), coalitions.split(size), strict=True):
            copies = self.take(piece)
            values.append(copies(own[:, None])[:, 0])
        return torch.cat(values)

    def surface(self, z: Tensor) -> Tensor:
        """Map points z (r, q, p) to g(z), (r, q, k), differentiably; the caller counts passes."""
        # z of each input's player, (r, q, 1, d), by a product with 0s and 1s and not by an index:
        # its derivatives are products too, and much faster
        owned = torch.nn.functional.one_hot(self.owner, self.players).to(z.dtype)
        weight = (z @ owned.mT).unsqueeze(2)
        if self.predict.embedding is None:
            mixed = self.background + weight * (self.inputs[:, None, None] - self.background)
            return self._mean_answer(self.predict, mixed, self.shape)
        embed, after = self.predict.embedding
        with model_errors():
            rows = embed(self.inputs)[:, None, None]
            background = embed(self.background)
        mixed = background + weight[..., None] * (rows - background)
        return self._mean_answer(after, mixed, tuple(background.shape[1:]))

    def _mean_answer(
        self, model: Callable[[Tensor], Tensor], points: Tensor, shape: tuple[int, ...]
    ) -> Tensor:
        """Return the model's answer at points (r, q, b, ...), averaged over b: (r, q, k)."""
        with model_errors():
            answer = self._answer(model, points, shape)
        return self._mean(_with_outputs(answer))

    def _mean(self, outputs: Tensor) -> Tensor:
        """Return outputs (r, c, b, k) averaged over the background rows, (r, c, k)."""
        if self.weights is None:
            return outputs.mean(dim=2)
        return torch.einsum("rcbk,b->rck", outputs, self.weights.to(outputs))

    def _values(self, coalitions: Tensor) -> Ends:
        """Return the values (r, c, k) of coalitions (r or 1, c, p), and whether k is an axis."""
        whole = Box.whole(self.rows, coalitions.shape[1], self.cost)

        def forward(box: Box) -> Tensor:
            return self._forward(coalitions, box)

        with torch.no_grad():
            try:
                outputs = in_batches(whole, forward, self.batch, self.device)
            except FailedBatch as failed:
                raise self._model_error(failed, coalitions) from failed.__cause__
        self.usage.evaluations += coalitions.shape[1] * self.cost

        values = self._averaged(outputs)
        wrong = first_not_finite(values)
        if wrong is not None:
            raise self._not_finite(values, wrong, coalitions)
        return Ends(values, single=outputs.ndim == 3)

    def _averaged(self, outputs: Tensor) -> Tensor:
        """Return values (r, c, k), the mean of outputs (r, c, b) or (r, c, b, k) over b."""
        table = _with_outputs(outputs)
        return self._mean(table) if self.cost > 1 else table[:, :, 0]

    def _forward(self, coalitions: Tensor, box: Box) -> Tensor:
        """Return the model's outputs in a box, (r, c, b) or (r, c, b, k)."""
        answer = self._answer(self.predict, self._mixed(coalitions, box), self.shape)
        self.advance(box.size)
        return answer

    def _mixed(self, coalitions: Tensor, box: Box) -> Tensor:
        """Return the mixes of row and background in a box, (r, c, b, d)."""
        own_rows = box.rows if len(coalitions) > 1 else slice(None)
        sets = coalitions[own_rows, box.coalitions]

        # whether each input's player is present, (r or 1, c, d)
        present = sets.to(self.owner.device)
        if not self.one_each:
            present = torch.gather(present, 2, self.owner.expand(*sets.shape[:2], -1))

        rows = self.inputs[box.rows]
        background = self.background[box.background]
        by_numbers = self.finite and not self.negative_zeros
        return mixed(rows, background, present, by_numbers=by_numbers)

    @staticmethod
    def _answer(
        model: Callable[[Tensor], Tensor], points: Tensor, shape: tuple[int, ...]
    ) -> Tensor:
        """Return the model's answer at points (r, c, b, ...), each of a shape: (r, c, b[, k])."""
        answer = model(points.reshape(-1, *shape))
        return answer.reshape(*points.shape[:3], *answer.shape[1:])

    # Errors that lead to the row and the coalition

    def _model_error(self, failed: FailedBatch, coalitions: Tensor) -> ModelError:
        """Return what to raise: the model's error, and the first row and coalition it fails on."""
        cause = failed.__cause__
        shape = (failed.box.size, *self.shape)
        message = f"the model failed on inputs of shape {shape}: {type(cause).__name__}: {cause}"
        message += _hint(cause)
        if self.type_changes:
            message += f" (on the way to the model, {'; '.join(self.type_changes)})"

        failing = first_failure(failed.box, lambda box: self._forward(coalitions, box))
        if failing is None:
            error = ModelError(message)
        else:
            question = self._question(coalitions, failing.rows.start, failing.coalitions.start)
            error = question.error(f"{message} (first on {question})")
        if failed.outputs is not None:
            error.known = self._averaged(failed.outputs)
        return error

    def _not_finite(self, values: Tensor, place: list[int], coalitions: Tensor) -> ModelError:
        """Return what to raise where a value (r, c, k) is NaN or infinite."""
        row, column, output = place
        question = self._question(coalitions, row, column)
        error = question.error(
            f"the model returned {float(values[row, column, output])} for {question} (output "
            f"{output}); it must be finite at every mix of row and background"
        )
        error.known = values[:row]
        return error

    def _question(self, coalitions: Tensor, row: int, column: int) -> "_Question":
        """Return one of the questions that the model was asked."""
        box = Box(slice(row, row + 1), slice(column, column + 1), slice(0, self.cost))
        mixed = self._mixed(coalitions, box).reshape(-1, *self.shape)
        own = coalitions[row] if len(coalitions) > 1 else coalitions[0]
        return _Question(self.place(row), own[column].cpu().numpy(), self.predict.decode(mixed))


@dataclass(frozen=True)
class _Question:
    """A row and a coalition that a model was asked for, for errors that lead there."""

    row: int  #: its number in the whole
    coalition: NDArray[np.bool_]  #: (p,)
    inputs: Any  #: one for each background row, as the model takes them

    def __str__(self) -> str:
        """Return where it is in words."""
        present = int(self.coalition.sum())
        return f"row {self.row} with {present} of {len(self.coalition)} players present"

    def error(self, message: str) -> ModelError:
        """Return an error that leads here."""
        error = ModelError(message)
        error.row = self.row
        error.coalition = self.coalition
        error.inputs = self.inputs
        return error


@dataclass
class FunctionGame:
    """A cooperative game that is a function of coalitions: one row, no model."""

    value: Callable[[Any], Any]
    players: int
    usage: Usage = field(default_factory=Usage)
    device = torch.device("cpu")
    rows = 1
    cost = 1
    differentiable = False
    structure = None

    def take(self, _rows: slice | Tensor) -> "FunctionGame":
        """Return the game with nothing spent yet."""
        return replace(self, usage=Usage())

    def place(self, row: int) -> int:
        """Return the row itself: there is one."""
        return row

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (1, c, p) of bool to values (1, c, k)."""
        return self._values(coalitions).values

    def ends(self) -> Ends:
        """Ask for the empty and the full coalition, which also tells the number of outputs."""
        return self._values(end_coalitions(self.players, self.device))

    def doubt(self, _ends: Ends, *, first: bool) -> str | None:  # noqa: ARG002
        """Return None: there is no model beside the game."""
        return None

    def each(self, _rows: Tensor, coalitions: Tensor) -> Tensor:
        """Map coalitions (n, p) of the single row to values (n, k)."""
        return self(coalitions[None])[0]

    def active_players(self) -> Tensor | None:
        """Return None: nothing is known of the players."""
        return None

    def distances(self) -> Tensor:
        """Return ones (1, p): nothing is known of the players."""
        return torch.ones(1, self.players, dtype=torch.float64)

    def surface(self, _z: Tensor) -> Tensor:
        """Raise: a function of coalitions has no values in between."""
        raise ModelError(
            "a game that is a function of coalitions has no derivatives; use second differences"
        )

    def _values(self, coalitions: Tensor) -> Ends:
        """Return the values (1, c, k) of coalitions (1, c, p), and whether k is an axis."""
        sets = coalitions[0].numpy().copy()  # the function may write into them
        count = len(sets)
        try:
            # a copy, since the function may use its memory again
            answer = real_numbers(self.value(sets), "the game").detach().cpu().double().clone()
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"the game failed on {count} coalitions of {self.players} players: {error}"
            ) from error
        if answer.ndim not in (1, 2) or len(answer) != count or answer.numel() == 0:
            raise ModelError(
                f"the game returned shape {tuple(answer.shape)} for {count} coalitions; "
                f"wanted ({count},) or ({count}, k)"
            )

        self.usage.evaluations += count
        values = answer.reshape(1, count, -1)
        wrong = first_not_finite(values)
        if wrong is not None:
            coalition = coalitions[0, wrong[1]].numpy()
            not_finite = ModelError(
                f"the game returned {float(values[tuple(wrong)])} for a coalition of "
                f"{coalition.sum()} of {self.players} players; it must be finite"
            )
            not_finite.coalition = coalition
            raise not_finite
        return Ends(values, answer.ndim == 1)


@contextmanager
def model_errors() -> Iterator[None]:
    """Raise whatever a model raises as a ModelError, but for errors that memory ran out."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ShearError) or out_of_memory(error):
            raise
        raise ModelError(f"{type(error).__name__}: {error}") from error


def _same(inputs: Tensor, background: Tensor) -> Tensor:
    """Return which inputs (r, d) are those of a background row (d,).

    Missing ones are the same, 0.0 and -0.0 are not.
    """
    if not inputs.is_floating_point():
        return inputs == background
    return (_bits(inputs) == _bits(background)) | (inputs.isnan() & background.isnan())


def has_negative_zeros(numbers: Tensor) -> bool:
    """Return whether a number is -0.0."""
    if not numbers.is_floating_point():
        return False
    bits = _bits(numbers)
    return bool((bits == torch.iinfo(bits.dtype).min).any())


def _bits(numbers: Tensor) -> Tensor:
    """Return floating-point numbers as the integers of the same bits."""
    return numbers.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[numbers.itemsize])


def _squared_distances(inputs: Tensor, background: Tensor) -> Tensor:
    """Return how far inputs (r, d) are from a background row's (d,), squared; 0: the same."""
    same = _same(inputs, background)
    if not inputs.is_floating_point():
        return (~same).double()
    squares = (inputs.double() - background.double()).square().nan_to_num(nan=1.0, posinf=1.0)
    # the square of a small difference may vanish
    squares = squares.clamp_min(torch.finfo(squares.dtype).tiny)
    return torch.where(same, 0.0, squares)


def _with_outputs(answer: Tensor) -> Tensor:
    """Return answers (r, c, b) or (r, c, b, k) with the axis of outputs."""
    return answer.unsqueeze(3) if answer.ndim == 3 else answer


def all_finite(values: Tensor) -> bool:
    """Return whether no value is NaN or infinite.

    The sum of numbers that are not all finite is not finite either, and takes one pass. Where it is
    not, it may only have overflowed.
    """
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def first_not_finite(values: Tensor) -> list[int] | None:
    """Return row, column and output of the first value (r, c, k) that is NaN or infinite."""
    if all_finite(values):
        return None
    wrong: list[int] = (~torch.isfinite(values)).nonzero()[0].tolist()
    return wrong


def _hint(error: BaseException | None) -> str:
    """Return what to try, for errors that are known to come from the type of the rows."""
    embedded = "'indices'" in str(error) and "Long" in str(error)
    if embedded:
        return "; pass rows of indices as an integer tensor, torch.as_tensor(rows)"
    return ""
