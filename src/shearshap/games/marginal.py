"""The marginal value function: background rows stand in for absent players.

It is also compared with the model itself: the full coalition must be the model's own prediction.

The coalition {0, 2} of three players, the first of which owns two inputs:

    owner          0    0    1    2
    present        yes  yes  no   yes
    row            x0   x1   x2   x3
    background     b0   b1   b2   b3
    model input    x0   x1   b2   x3

Letters: r rows, c coalitions, p players, d model inputs, b background rows, k outputs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from shearshap.errors import ModelError, ShearError
from shearshap.games.batches import Batch, Box, FailedBatch, in_batches, out_of_memory
from shearshap.games.coalitions import EMPTY, FULL, end_coalitions
from shearshap.games.conditional import Sampler
from shearshap.games.game import BatchedGame, CoalitionValues, Usage, with_outputs
from shearshap.games.loss import LabelledLoss
from shearshap.games.structure import Structure
from shearshap.models import Predictor

_ALL = slice(None)

MAX_COMPARED = 1 << 24
"""Inputs that are compared with the background's at once, to find null players."""

CHECKED_ROWS = 4
"""Rows that are compared with the model if their types are kept: the first ones of a call."""

MIN_PART_OF_EFFECT = 1e-3
"""A difference below this part of what is explained, prediction - base value, does not count."""

ROUNDING_ERRORS = 1_000
"""A difference below this many rounding errors of an output's largest value does not count either.

What a model sums up may be much larger than its outputs. In half precision it is `MAX_ROUNDING` of
the output instead, and on accelerators, which may compute in fewer digits than they store (TF32),
at least `MIN_ROUNDING_ON_ACCELERATORS`.
"""

MAX_ROUNDING = 0.05
MIN_ROUNDING_ON_ACCELERATORS = 0.01

MAX_TERM = 1.0
"""The size of a network's terms, even if all its outputs are 0: about that of usual weights."""


def no_progress(_evaluations: int) -> None:
    """Show no progress."""


@dataclass
class ModelGame(BatchedGame):
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
    advance: Callable[[int], object] = no_progress
    finite: bool = True  #: whether all inputs are finite
    places: Tensor | None = None  #: (r,) the rows' numbers in the whole; None: 0, 1, 2, ...
    #: returns some of all rows as the user passed them
    original_rows: Callable[[slice], Any] | None = None
    type_changes: tuple[str, ...] = ()  #: of the rows on their way to the model, in words
    weights: Tensor | None = None  #: (b,) of the background rows, sum 1; None: they count equally
    structure: Structure | None = None  #: of the players
    ungrouped: bool = False  #: whether every input is known to be a player of its own, in order
    loss: LabelledLoss | None = None  #: of the mean prediction; None: values are predictions
    #: moves absent inputs to where the present ones put them; the background (b, m) is its draws
    sampler: Sampler | None = None
    #: into how many parts the draws are divided, each with means of its own: outputs are (k parts,)
    parts: int = 1
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
        """Where coalitions and values live: the model's device if it knows double precision."""
        own = self.predict.device
        return torch.device("cpu") if own.type == "mps" else own

    @property
    def differentiable(self) -> bool:
        """Whether the model can be differentiated, at floating inputs or at its embeddings."""
        floating = self.inputs.is_floating_point() and self.finite
        embedded = self.predict.embedding is not None
        is_marginal = self.sampler is None
        return self.predict.differentiable and (floating or embedded) and is_marginal

    def take(self, rows: slice | Tensor = _ALL, background: slice | Tensor = _ALL) -> "ModelGame":
        """Return the game of some rows and background rows, with nothing spent yet.

        The weights of the background rows that are left sum to 1 again.
        """
        if isinstance(rows, slice):
            inputs = self.inputs[rows]
            numbers = torch.arange(*rows.indices(self.rows), device="cpu")
        else:
            inputs = self.inputs[rows.to(self.inputs.device)]
            numbers = rows.cpu()
        weights = None if self.weights is None else self.weights[background]
        if weights is not None:
            # rows without any weight do not count in a mean, however they are weighted
            weights = weights / weights.sum() if weights.sum() > 0 else None
        return replace(
            self,
            inputs=inputs,
            background=self.background[background],
            weights=weights,
            parts=self.parts if background is _ALL else 1,
            places=numbers if self.places is None else self.places[numbers],
            usage=Usage(),
        )

    def share(self, background: slice) -> float:
        """Return the weight of some background rows, as a part of that of all."""
        if self.weights is None:
            return len(self.background[background]) / self.cost
        return float(self.weights[background].sum() / self.weights.sum())

    def global_row(self, row: int) -> int:
        """Return a row's number in the whole."""
        return row if self.places is None else int(self.places[row])

    def active_players(self) -> Tensor | None:
        """Return which players are not known to be null, (r, p) of bool; None: all of them.

        A player is null whose inputs are the same in the row and in every background row. If absent
        inputs depend on the present ones, no player is known to be null.
        """
        if self.sampler is not None:
            return None
        first = self.background[0]
        constant = _same(self.background, first).all(dim=0)
        if not constant.any():
            return None
        return self._active_players(first.expand_as(self.inputs), constant)

    def _active_players(self, background: Tensor, constant: Tensor) -> Tensor | None:
        """Return which players differ from a background row for each row, (r, d).

        Only inputs that are `constant` (d,) among all background rows can be the same.
        """
        # some rows at a time: of images, the inputs of all may be too many to compare at once
        size = max(1, MAX_COMPARED // self.inputs.shape[1])
        owner = self.owner.to(self.inputs.device)
        pieces = []
        for inputs, others in zip(self.inputs.split(size), background.split(size), strict=True):
            differs = ~(_same(inputs, others) & constant)
            if not self.ungrouped:
                count = differs.new_zeros((len(inputs), self.players), dtype=torch.int32)
                differs = count.index_add_(1, owner, differs.int()) > 0
            pieces.append(differs)
        active = torch.cat(pieces)
        return None if active.all() else active.to(self.device)

    def distances(self) -> Tensor:
        """Return how far each player's inputs are from the background's, (r, p).

        0: they are the same as in every background row, so that the player is null. If inputs
        are no numbers to measure by, a player is at distance 0 or 1.
        """
        if self.sampler is not None:
            return torch.ones(self.rows, self.players, dtype=torch.float64, device=self.device)
        inputs = self.inputs.to(self.device)
        squares = torch.zeros_like(inputs, dtype=torch.float64)
        # one background row after the other: all at once may be too many to hold
        for background in self._backgrounds():
            same = _same(inputs, background)
            gaps = (inputs.double() - background.double()).square().nan_to_num(nan=1.0, posinf=1.0)
            # the square of a small difference may vanish
            squares += torch.where(same, 0.0, gaps.clamp_min(torch.finfo(gaps.dtype).tiny))
        by_player = squares.new_zeros(len(squares), self.players)
        owner = self.owner.to(self.device)
        distances = by_player.index_add_(1, owner, squares / self.cost).sqrt()
        return distances if inputs.is_floating_point() else (distances > 0).double()

    def _backgrounds(self) -> Iterator[Tensor]:
        """Yield backgrounds of all rows: one background row (d,) after the other."""
        yield from self.background.to(self.device)

    def position(self, place: int) -> int:
        """Return which of the game's rows has a number in the whole."""
        return place if self.places is None else self.places.tolist().index(place)

    def consistency_warning(self, ends: CoalitionValues, *, first: bool) -> str | None:
        """Say why predictions are not the model's own; None if they are, or are not compared.

        The first rows are always compared, and all rows if their types changed.
        """
        if self.original_rows is None or not (first or self.type_changes):
            return None
        return _disagreement(self, ends.values[..., :: self.parts])

    def predict_original(self, count: int) -> Tensor:
        """Return the model's answer for the first rows as the user passed them, (n, k)."""
        self.usage.checks += count
        start = self.global_row(0)

        def forward(box: Box) -> Tensor:
            assert self.original_rows is not None
            rows = slice(start + box.rows.start, start + box.rows.stop)
            return self.predict.answer(self.original_rows(rows), box.size)[:, None, None]

        try:
            with torch.no_grad():
                answer = in_batches(Box.full(count, 1, 1), forward, self.batch, self.device)
        except FailedBatch as failed:
            cause = failed.__cause__
            raise ModelError(f"{type(cause).__name__}: {cause}") from cause
        answer = answer.reshape(count, -1)
        return self._worth(answer[:, None], answer[:, None, None])[:, 0]

    def surface(self, z: Tensor) -> Tensor:
        """Map points z (r, q, p) to g(z) = f(xbar + z (x - xbar)), (r, q, k), differentiably.

        The caller counts passes.
        """
        # z of each input's player, (r, q, 1, d), by a product with 0s and 1s and not by an index:
        # its derivatives are products too, and much faster
        owned = torch.nn.functional.one_hot(self.owner, self.players).to(z.dtype)
        weight = (z @ owned.mT).unsqueeze(2)
        background = self.background_in(Box.full(self.rows, 1, self.cost))
        if self.predict.embedding is None:
            mixed = background + weight * (self.inputs[:, None, None] - background)
            with model_errors():
                answer = self._answer(self.predict, mixed, self.shape)
        else:
            embed, after = self.predict.embedding
            with model_errors():
                rows = embed(self.inputs)[:, None, None]
                embedded = embed(background.flatten(0, -2))
                shape = tuple(embedded.shape[1:])
                embedded = embedded.reshape(*background.shape[:-1], *shape)
                mixed = embedded + weight[..., None] * (rows - embedded)
                answer = self._answer(after, mixed, shape)
        return self.worth(with_outputs(answer))

    # The value function

    def outputs(self, coalitions: Tensor, box: Box) -> Tensor:
        """Return the model's outputs in a box, (r, c, b) or (r, c, b, k)."""
        return self._answer(self.predict, self._mixed(coalitions, box), self.shape)

    def background_in(self, box: Box) -> Tensor:
        """Return the background rows in a box, (b, d), or (r, 1, 1, d) if each row has its own."""
        return self.background[box.background]

    def mean(self, outputs: Tensor) -> Tensor:
        """Return outputs (r, c, b, k) averaged over the background rows, (r, c, k)."""
        if self.cost == 1:
            return outputs[:, :, 0]
        if self.parts > 1:
            ends = [2 * (self.cost // 2 * part // self.parts) for part in range(1, self.parts)]
            split = outputs.tensor_split(ends, dim=2)  # opposite draws are together
            return torch.stack([part.mean(dim=2) for part in split], dim=3).flatten(2)
        if self.weights is None:
            return outputs.mean(dim=2)
        return torch.einsum("rcbk,b->rck", outputs, self.weights.to(outputs))

    @property
    def is_mean(self) -> bool:
        """Whether a value is the mean over background rows: not if it is a loss of that mean."""
        return self.loss is None

    def worth(self, outputs: Tensor) -> Tensor:
        """Return values (r, c, k): means of outputs (r, c, b, k), or minus the loss of these."""
        return self._worth(self.mean(outputs), outputs)

    def _worth(self, means: Tensor, outputs: Tensor) -> Tensor:
        if self.loss is None:
            return means
        rows = torch.arange(self.rows) if self.places is None else self.places
        return self.loss.worth(means, outputs, rows[: len(outputs)])

    def evaluated(self, coalitions: Tensor, box: Box) -> Any:
        """Return the inputs of the evaluations in a box, as the model takes them."""
        return self.predict.decode(self._mixed(coalitions, box).reshape(-1, *self.shape))

    def _mixed(self, coalitions: Tensor, box: Box) -> Tensor:
        """Return the mixes of row and background in a box, (r, c, b, d)."""
        own_rows = box.rows if len(coalitions) > 1 else slice(None)
        sets = coalitions[own_rows, box.coalitions]

        # whether each input's player is present, (r or 1, c, 1, d)
        present = sets.to(self.owner.device)
        if not self.ungrouped:
            present = torch.gather(present, 2, self.owner.expand(*sets.shape[:2], -1))
        present = present.unsqueeze(2)

        rows = self.inputs[box.rows, None, None]
        background = self.background_in(box)
        if self.sampler is not None:
            draws = background[None] if background.ndim == 2 else background[:, 0]
            background = self.sampler.fill(self.inputs[box.rows], present[:, :, 0], draws)
        if rows.is_floating_point() and self.finite:
            # exact at the weights 0 and 1, and much faster than torch.where
            return torch.lerp(background, rows, present.to(rows.dtype))
        return torch.where(present, rows, background)

    @staticmethod
    def _answer(
        model: Callable[[Tensor], Tensor], points: Tensor, shape: tuple[int, ...]
    ) -> Tensor:
        """Return the model's answer at points (r, c, b, ...), each of a shape: (r, c, b[, k])."""
        answer = model(points.reshape(-1, *shape))
        return answer.reshape(*points.shape[:3], *answer.shape[1:])


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
    """Return which inputs (r, d) are those of a background row (d,); missing ones are the same."""
    same = inputs == background
    if not inputs.is_floating_point():
        return same
    return same | (inputs.isnan() & background.isnan())


# Whether a game's predictions are the model's own: those on the rows as the user passed them. The
# prediction of a game is the value of its full coalition. So the model is asked once more for the
# first few rows, without any mixing, and for all rows if their types changed on the way:
#
#     mixed        the game's predictions, asked for together with other mixes of row and background
#     untouched    the model on the rows themselves, and nothing else
#
# If the two differ, two further calls show why:
#
#     untouched, asked again, differs             the model is random
#     mixed, asked alone, agrees with untouched   the model depends on its batch
#                                                 (one background row: as many rows as untouched)
#     otherwise                                   the rows reach the model changed


def _disagreement(game: ModelGame, ends: Tensor) -> str | None:
    """Return how and why a game's predictions differ from the model's own; None if they do not.

    `ends` (r, 2, k) are base value and prediction of every row.
    """
    count = game.rows if game.type_changes else min(CHECKED_ROWS, game.rows, game.batch.size)
    mixed = ends[:count, FULL]
    outputs = game.predict.outputs
    # log-odds magnify the rounding of probabilities, which are compared as these
    of_probabilities = outputs.scale == "log-odds" and outputs.form == "probability"
    in_log_odds = of_probabilities and game.loss is None
    allowed = _allowed_difference(game.predict, ends.sigmoid() if in_log_odds else ends)

    def excess(first: Tensor, second: Tensor) -> Tensor:
        """Return the differences of answers (n, k), as parts of what is allowed."""
        gaps = first.sigmoid() - second.sigmoid() if in_log_odds else first - second
        return gaps.abs() / allowed

    def different_rows(first: Tensor, second: Tensor) -> int:
        return int((~(excess(first, second) <= 1)).any(dim=1).sum())

    def largest(first: Tensor, second: Tensor) -> str:
        row, output = divmod(int(excess(first, second).argmax()), len(allowed))
        both = f"{first[row, output]:.6g} and {second[row, output]:.6g}"
        return f"{both} for row {game.global_row(row)}"

    try:
        untouched = game.predict_original(count)
        if not different_rows(mixed, untouched):
            crowded = _crowded(game, count)
            if crowded is None or not different_rows(crowded, untouched):
                return None
            return _depends_on_batch(largest(untouched, crowded))

        again = game.predict_original(count)
        if different_rows(untouched, again):
            return (
                f"the model answers two identical calls differently ({largest(untouched, again)}): "
                "is it random, or in training mode? The values are as uncertain as its answers, "
                "whatever their standard errors"
            )

        # of one background row, so that as many rows are in a batch as of the untouched ones
        full = end_coalitions(game.players, game.device)[:, [FULL]]
        alone = game.take(slice(0, count), background=slice(0, 1))(full)
        game.usage.checks += count
    except ModelError as error:
        return (
            f"the model fails on the rows themselves, but not on mixes with the background: {error}"
        )

    difference = largest(untouched, mixed)
    if not different_rows(alone[:, 0], untouched):
        return _depends_on_batch(difference)
    wrong = different_rows(untouched, mixed)
    reason = "the rows reach it in another form"
    if game.type_changes:
        reason = f"{'; '.join(game.type_changes)}; give rows and background the same types"
    return (
        "the model's predictions for your rows change when the rows are prepared for explaining "
        f"({difference}; {wrong} of the {count} rows from row {game.global_row(0)} on differ): "
        f"{reason}"
    )


def _crowded(game: ModelGame, count: int) -> Tensor | None:
    """Return the answers (n, k) for few rows in a batch with a background row; None for more rows.

    A batch of more rows holds other rows anyway.
    """
    if game.rows > CHECKED_ROWS or game.batch.size == 1:
        return None
    few = game.take(slice(0, count), background=slice(0, 1))
    together = replace(few, batch=Batch(min(game.batch.size, 2 * count)))
    game.usage.checks += 2 * count
    return together(end_coalitions(game.players, game.device))[:, FULL]


def _depends_on_batch(difference: str) -> str:
    return (
        f"the model's output for a row depends on the other rows in its batch ({difference}, "
        "alone and in a larger batch); pass batch_size=1, or make the model treat each row "
        "by itself"
    )


def _allowed_difference(predict: Predictor, ends: Tensor) -> Tensor:
    """Return by how much two answers for the same row may differ, (k,)."""
    effect = (ends[:, FULL] - ends[:, EMPTY]).abs().amax(dim=0)
    # per output: outputs may differ in scale
    size = ends.abs().amax(dim=(0, 1))

    # a model that takes any type may compute in single precision within
    rounding = min(ROUNDING_ERRORS * torch.finfo(predict.dtype or torch.float32).eps, MAX_ROUNDING)
    if predict.device.type != "cpu":
        rounding = max(rounding, MIN_ROUNDING_ON_ACCELERATORS)
    # an output that is 0 may be the sum of larger terms
    of_terms = torch.finfo(predict.dtype or torch.float64).eps * MAX_TERM
    return MIN_PART_OF_EFFECT * effect + rounding * size + of_terms
