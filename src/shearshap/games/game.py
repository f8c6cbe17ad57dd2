"""Games: rows x coalitions -> values.

A game is a *value function*, rows, and what was spent on them. A value function says what a
coalition is worth. Each is a class with the members of `Game`:

    ModelGame      marginal: background rows stand in for absent players              marginal.py
                   conditional, with a sampler: they move with the present ones    conditional.py
    ActiveGame     the same among the players of each row that are not null           active.py
    ...with a loss how far the mean prediction is from a label, instead of the mean      loss.py
    FunctionGame   any function of coalitions, without a model                        below

Another value function of a model, such as the log-probability of an answer, derives from
`BatchedGame`: it says which evaluations make a coalition's value, and batches, counts and errors
that lead to a row are there.

Letters everywhere: r rows, c coalitions, p players, d model inputs, b background rows, k outputs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import STOPS, ModelError
from shearshap.games.batches import Batch, Box, FailedBatch, OutOfTime, first_failure, in_batches
from shearshap.games.coalitions import end_coalitions
from shearshap.games.structure import Structure
from shearshap.models.base import all_finite, real_numbers


@dataclass
class Usage:
    """The cost of each row: evaluations and, counted apart, passes for derivatives."""

    evaluations: int = 0
    derivative_passes: int = 0
    checks: int = 0  #: evaluations of all rows together that compared the game with its model


@dataclass(frozen=True)
class CoalitionValues:
    """Values of coalitions; those of the empty and the full one are base value and prediction."""

    values: Tensor  #: (r, c, k)
    single: bool  #: whether the model returns one number for a row, and no axis of outputs


class GameInfo(Protocol):
    """The facts about a game that a method makes a design from."""

    @property
    def players(self) -> int:
        """The number of players p."""

    @property
    def device(self) -> torch.device:
        """Where coalitions and values live."""

    @property
    def differentiable(self) -> bool:
        """Whether the model can be differentiated."""

    @property
    def structure(self) -> Structure | None:
        """The groups of players that join together; None: players join in any order."""


class Game(GameInfo, Protocol):
    """A cooperative game for each of r rows, all with the same p players."""

    @property
    def rows(self) -> int:
        """The number of rows r: games played side by side."""

    @property
    def cost(self) -> int:
        """Model evaluations that one coalition of one row costs: the number of background rows."""

    @property
    def is_mean(self) -> bool:
        """Whether a value is the mean over background rows, each of which is a game of its own."""

    def active_players(self) -> Tensor | None:
        """Return which players are not known to be null, (r, p) of bool; None: all of them."""

    def distances(self) -> Tensor:
        """Return how far each player's inputs are from the background's, (r, p); 0: equal."""

    @property
    def usage(self) -> Usage:
        """The cost of each row so far."""

    def take(self, rows: slice | Tensor) -> "Game":
        """Return the game of some of the rows, with nothing spent yet."""

    def ends(self) -> CoalitionValues:
        """Evaluate the empty and the full coalition."""

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (r or 1, c, p) of bool to values (r, c, k)."""

    def consistency_warning(self, ends: CoalitionValues, *, first: bool) -> str | None:
        """Return a sentence that says why predictions are not the model's own; None if they are.

        `first` says that no rows of this game were compared before.
        """


class BatchedGame(ABC):
    """A game whose coalition values are means of a model's outputs.

    One coalition of one row takes `cost` evaluations, b: with each background row, for example.
    """

    source: ClassVar[Literal["the model", "the game"]] = "the model"  #: for messages
    players: int
    batch: Batch
    advance: Callable[[int], object]  #: called with the number of evaluations of each batch
    usage: Usage
    shape: tuple[int, ...]  #: of one row as the model takes it
    type_changes: tuple[str, ...]  #: of the rows on their way to the model, in words
    structure: Structure | None = None  #: of the players

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows r."""

    @property
    @abstractmethod
    def cost(self) -> int:
        """Model evaluations for one coalition."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where coalitions and values live."""

    @abstractmethod
    def outputs(self, coalitions: Tensor, box: Box) -> Tensor:
        """Return the model's outputs in a box of evaluations, (r, c, b) or (r, c, b, k)."""

    @abstractmethod
    def mean(self, outputs: Tensor) -> Tensor:
        """Return outputs (r, c, b, k) averaged over the evaluations of a coalition, (r, c, k)."""

    @abstractmethod
    def evaluated(self, coalitions: Tensor, box: Box) -> Any:
        """Return the inputs of the evaluations in a box, as the model takes them."""

    @property
    def is_mean(self) -> bool:
        """Whether a value is the mean over background rows, each of which is a game of its own."""
        return True

    def worth(self, outputs: Tensor) -> Tensor:
        """Return values (r, c, k), from the outputs (r, c, b, k) of the first rows or of all."""
        return self.mean(outputs)

    def global_row(self, row: int) -> int:
        """Return a row's number among all rows."""
        return row

    def active_players(self) -> Tensor | None:
        """Return None: all players may be active."""
        return None

    def consistency_warning(self, _ends: CoalitionValues, *, first: bool) -> str | None:  # noqa: ARG002
        """Return None: predictions are the model's own."""
        return None

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Map coalitions (r or 1, c, p) of bool to values (r, c, k)."""
        return self.evaluate(coalitions).values

    def ends(self) -> CoalitionValues:
        """Evaluate the empty and the full coalition."""
        return self.evaluate(end_coalitions(self.players, self.device))

    def evaluate(self, coalitions: Tensor) -> CoalitionValues:
        """Return the values (r, c, k) of coalitions (r or 1, c, p), and whether k is an axis."""
        whole = Box.full(self.rows, coalitions.shape[1], self.cost)

        def forward(box: Box) -> Tensor:
            outputs = self.outputs(coalitions, box)
            self.advance(box.size)
            return outputs

        with torch.no_grad():
            try:
                outputs = in_batches(whole, forward, self.batch, self.device)
            except FailedBatch as failed:
                raise self._model_error(failed, coalitions) from failed.__cause__
            except OutOfTime as late:
                raise OutOfTime(self.worth(with_outputs(late.known))) from None
            except STOPS as stop:
                known = vars(stop).get("known")  # none if it came before the first batch
                if known is not None and len(known):
                    vars(stop)["known"] = self.worth(with_outputs(known))
                raise
        self.usage.evaluations += coalitions.shape[1] * self.cost

        values = self.worth(with_outputs(outputs))
        if not all_finite(values):
            raise self._not_finite(values, coalitions)
        return CoalitionValues(values, single=outputs.ndim == 3 or not self.is_mean)

    # Errors that lead to the row and the coalition

    def _model_error(self, failed: FailedBatch, coalitions: Tensor) -> ModelError:
        """Return what to raise: the model's error, and the first row and coalition it fails on."""
        cause = failed.__cause__
        shape = (failed.box.size, *self.shape)
        reason = f"{type(cause).__name__}: {cause}"
        message = f"{self.source} failed on inputs of shape {shape}: {reason}"
        if "'indices'" in str(cause) and "Long" in str(cause):
            message += "; pass rows of indices as an integer tensor, torch.as_tensor(rows)"
        if self.type_changes:
            message += f" (on the way to the model, {'; '.join(self.type_changes)})"

        failing = first_failure(failed.box, lambda box: self.outputs(coalitions, box))
        if failing is None:
            error = ModelError(message)
        else:
            place = (failing.rows.start, failing.coalitions.start)
            error = self._error_at(coalitions, place, f"{message} (first on", ")")
        if failed.outputs is not None and len(failed.outputs):
            error.known = self.worth(with_outputs(failed.outputs))
        return error

    def _not_finite(self, values: Tensor, coalitions: Tensor) -> ModelError:
        """Return what to raise if a value (r, c, k) is NaN or infinite."""
        row, column, output = (~torch.isfinite(values)).nonzero()[0].tolist()
        error = self._error_at(
            coalitions,
            (row, column),
            f"{self.source} returned {float(values[row, column, output])} for",
            f" (output {output}); it must be finite for every coalition",
        )
        error.known = values[:row]
        return error

    def _error_at(
        self, coalitions: Tensor, place: tuple[int, int], before: str, after: str
    ) -> ModelError:
        """Return an error that leads to a row and a coalition, and names them in its message."""
        row, column = place
        box = Box(slice(row, row + 1), slice(column, column + 1), slice(0, self.cost))
        coalition = coalitions[row if len(coalitions) > 1 else 0, column].cpu().numpy()
        number = self.global_row(row)
        is_model = self.source == "the model"
        noun = "features" if is_model else "players"
        present = f"{coalition.sum()} of {len(coalition)} {noun} present"
        place_words = f"row {number}" if is_model else "a coalition"
        error = ModelError(f"{before} {place_words} with {present}{after}")
        error.row = number
        error.coalition = coalition
        error.inputs = self.evaluated(coalitions, box)
        return error


@dataclass
class FunctionGame(BatchedGame):
    """A cooperative game that is a function of coalitions: one row, no model."""

    value: Callable[[Any], Any]
    players: int
    usage: Usage = field(default_factory=Usage)
    batch: Batch = field(default_factory=lambda: Batch(1 << 62))
    advance: Callable[[int], object] = lambda _: None  #: the base class says when it is called
    structure: Structure | None = None
    source = "the game"
    device = torch.device("cpu")
    rows = 1
    cost = 1
    differentiable = False
    type_changes = ()

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape of one coalition."""
        return (self.players,)

    def take(self, _rows: slice | Tensor) -> "FunctionGame":
        """Return the game with nothing spent yet."""
        return replace(self, usage=Usage())

    def distances(self) -> Tensor:
        """Return ones (1, p): nothing is known of the players."""
        return torch.ones(1, self.players, dtype=torch.float64)

    def outputs(self, coalitions: Tensor, box: Box) -> Tensor:
        """Return the values of the coalitions in a box, (1, c, 1) or (1, c, 1, k)."""
        sets = self.evaluated(coalitions, box)
        count = len(sets)
        answer = real_numbers(self.value(sets), self.source).detach()
        if answer.ndim not in (1, 2) or len(answer) != count or answer.numel() == 0:
            raise ModelError(
                f"the game returned shape {tuple(answer.shape)} for {count} coalitions; "
                f"expected ({count},) or ({count}, k)"
            )
        return answer.reshape(1, count, 1, *answer.shape[1:])

    def mean(self, outputs: Tensor) -> Tensor:
        """Return values (1, c, k), which are the outputs (1, c, 1, k) themselves."""
        return outputs[:, :, 0]

    def evaluated(self, coalitions: Tensor, box: Box) -> NDArray[np.bool_]:
        """Return the coalitions in a box, (c, p): a copy, since the function may write into it."""
        return coalitions[0, box.coalitions].numpy().copy()


def with_outputs(answer: Tensor) -> Tensor:
    """Return answers (r, c, b) or (r, c, b, k) with the axis of outputs."""
    return answer.unsqueeze(3) if answer.ndim == 3 else answer


def coalition_count(game: GameInfo) -> int:
    """Return the number of coalitions with non-zero weight, the empty and the full one included."""
    return 1 << game.players if game.structure is None else game.structure.coalitions
