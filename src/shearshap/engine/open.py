"""Games of models, opened: the model is adapted, the rows are encoded, and both have names."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.data import Inputs, encode
from shearshap.data.background import parse_background
from shearshap.data.display import every_input_plays
from shearshap.data.tensors import can_be_subtracted
from shearshap.engine.results import with_notes, without_claims
from shearshap.engine.run import Options, Task
from shearshap.errors import InputError, ModelError, warn
from shearshap.games.batches import DEFAULT_BATCH, FIRST_BATCH, Batch, Pace, automatic_batch
from shearshap.games.loss import labelled_loss
from shearshap.games.marginal import ModelGame, no_progress
from shearshap.games.structure import structure_of
from shearshap.models import (
    AdaptedModel,
    Outputs,
    Predictor,
    Scale,
    adapted_model,
    check_statements,
    checked_output,
    checked_scale,
    eval_mode,
    library_versions,
    model_name,
)
from shearshap.numbers import positive_int
from shearshap.result.explanation import Explanation

MAX_NAMES = 16  #: of players in an error

MARGIN_NOTE = (
    "Boosted trees are explained on their margin, exactly and as shap does; scale='probability' "
    "explains probabilities."
)


@contextmanager
def open_game(
    task: Task,
    advance: Callable[[int], object] = no_progress,
    adapted: AdaptedModel | None = None,
    *,
    needs_background: bool = True,
) -> "Iterator[NamedGame]":
    """Check a task, and open its game; afterwards the model is as it was before.

    `advance` is called with the number of evaluations of each batch. `adapted` is the model as an
    earlier game of the same options has it. A game that needs no background may have a single row.
    """
    options = task.options
    background = options.background
    if background is None and not needs_background:
        background = replace(parse_background(None, options.seed), allow_single_row=True)
    output = checked_output(options.output)
    scale = checked_scale(options.scale, output)
    check_statements(options.returns, options.multilabel)
    with eval_mode(options.model, options.device) as device:
        adapted = adapted or adapted_model(
            options.model,
            device,
            scale,
            returns=options.returns,
            multilabel=options.multilabel,
            is_open=options.loss is None and not callable(output),
        )
        scale = scale or adapted.usual_scale
        if options.loss == "log loss" and scale is None and adapted.form == "margin":
            scale = "probability"
        outputs = explained_outputs(options, adapted, scale)
        inputs = encode(
            task.rows,
            background,
            options.groups,
            adapted,
            index=task.index,
            feature_names=options.feature_names,
            seed=options.seed,
        )
        smooth = replace(adapted, differentiable=adapted.differentiable and inputs.smooth)
        predict = Predictor(smooth, outputs, inputs.decode)
        weights = inputs.weights
        loss = None
        if not (options.loss is None and options.y is None):
            loss = labelled_loss(
                options.loss, options.y, len(inputs.rows), outputs, adapted.output_names
            )
        game = ModelGame(
            predict,
            inputs.rows,
            inputs.background,
            torch.as_tensor(inputs.owner, device=predict.device),
            inputs.shape,
            inputs.players,
            _batch(options, predict, inputs),
            advance,
            # without missing values it was checked when the rows were read
            finite=not adapted.takes_missing
            or (can_be_subtracted(inputs.rows) and can_be_subtracted(inputs.background))
            or inputs.sampler is not None,
            original_rows=inputs.original_rows,
            type_changes=inputs.type_changes,
            weights=None if weights is None else torch.from_numpy(weights),
            ungrouped=every_input_plays(inputs.owner),
            loss=loss,
            sampler=inputs.sampler,
            structure=None if inputs.paths is None else structure_of(inputs.paths),
        )
        yield NamedGame(game, inputs, outputs, options)


def explained_outputs(options: Options, adapted: AdaptedModel, scale: Scale | None) -> Outputs:
    """Select the outputs to explain, or raise if the model lacks them."""
    if isinstance(options.output_names, str):
        raise InputError(f"output_names: expected a list of names, got {options.output_names!r}")
    outputs = Outputs(
        checked_output(options.output),
        scale,
        adapted.form,
        tuple(options.output_names or adapted.output_names),
        bool(adapted.independent),
        adapted.is_log_odds,
        checked=options.output_names is not None,
        certainty=adapted.certainty,
    )
    outputs.check()
    return outputs


@dataclass(frozen=True)
class NamedGame:
    """The game of a model's predictions, with names and data of rows, players and outputs."""

    game: ModelGame
    inputs: Inputs
    outputs: Outputs
    options: Options

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the inputs, and of the scale if it was chosen here."""
        is_usual = self.game.predict.adapted.usual_scale is not None
        return (*self.inputs.notes, MARGIN_NOTE) if is_usual else tuple(self.inputs.notes)

    def labelled(self, block: Explanation, *, data: bool = True) -> Explanation:
        """Return an explanation, whose index is the rows' numbers, with names, data and question.

        The question is what was explained, on which scale, and against which background. `data`
        may be left out, since to make words and numbers of cells takes time.
        """
        rows = _as_slice(block.index)
        count = block.values.shape[2] if block.values.ndim == 3 else 1
        display = self.inputs.display
        words = display.words if data else None
        loss = self.game.loss
        return replace(
            without_claims(block, self.outputs),
            feature_names=list(self.inputs.names),
            output_names=self.outputs.chosen_names(count) if loss is None else [f"-{loss.name}"],
            index=self.inputs.index[rows],
            index_name=self.inputs.index_name,
            data=display.data[rows] if data else None,
            display_data=None if words is None else words[rows],
            background=self.inputs.background_description,
            background_rows=len(self.inputs.background),
            scale=self.outputs.units if loss is None else None,
            groups=_groups(self.inputs, block.values.shape[1]),
            hierarchy=self.inputs.paths,
            model=model_name(self.options.model),
            versions=library_versions(self.options.model),
        )

    def point_out(self, error: ModelError) -> None:
        """Add to a model's error, for its traceback, the row's label and the players present."""
        if self.inputs.type_hint:
            error.add_note(self.inputs.type_hint)
        if error.row is None:
            return
        label = self.inputs.index[self.game.position(error.row)]
        names = self.inputs.names or [f"x{player}" for player in range(self.game.players)]
        point_out(error, label, names)


def point_out(error: ModelError, label: Any, names: Sequence[str]) -> None:
    """Add to an error, for its traceback, the label of its row and the features present."""
    shown = repr(str(label)) if isinstance(label, str) else str(label)
    every = np.array(names)
    present = _listed(every[error.coalition])
    absent = _listed(every[~error.coalition])
    error.add_note(
        f"Row {error.row} has the label {shown}.\n"
        f"Features present: {present}; absent: {absent}.\n"
        "error.inputs is what the model was called with, error.coalition which features are "
        "present."
    )


def labelled_blocks(
    named: NamedGame, blocks: Iterator[Explanation], *, notes: bool = True, data: bool = True
) -> Generator[Explanation]:
    """Yield blocks with names and data, the first with notes; errors name the row and players."""
    try:
        for block in blocks:
            labelled = named.labelled(block, data=data)
            if notes:
                # what is known of the inputs is a note; outputs may not be what they pass for
                labelled = with_notes(labelled, named.notes)
                warning = named.outputs.consistency_warning()
                if warning is not None:
                    warn(warning)
            yield labelled
            notes = False
    except ModelError as error:
        named.point_out(error)
        raise


def _groups(inputs: Inputs, players: int) -> dict[str, list[str]] | None:
    """Return the columns of each feature that has several, by its name; None if there is none."""
    columns = inputs.display.columns
    if len(columns) == players or not columns or not inputs.names:
        return None
    own = [np.flatnonzero(inputs.owner == player).tolist() for player in range(players)]
    return {
        name: [columns[place] for place in places]
        for name, places in zip(inputs.names, own, strict=True)
        if len(places) > 1
    }


def _batch(options: Options, predict: Predictor, inputs: Inputs) -> Batch:
    """Return the size of batches; what the user has set is not bounded by time."""
    if options.batch_size != "auto":
        return Batch(positive_int("batch_size", options.batch_size))
    size = max(automatic_batch(predict.device, inputs.owner.size), inputs.least_batch)
    # an accelerator answers later than it is asked: there the time of a call says nothing
    if predict.device.type != "cpu":
        return Batch(size)
    model = options.model
    of_library = isinstance(model, torch.nn.Module | tuple) or hasattr(model, "predict")
    # a function of the user's own may take any time
    return Batch(size, Pace(DEFAULT_BATCH if of_library else FIRST_BATCH))


def _as_slice(rows: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return numbers of rows, in order, as a slice if none is left out: it copies nothing."""
    first = int(rows[0])
    after = int(rows[-1]) + 1
    return slice(first, after) if after - first == len(rows) else rows


def _listed(names: NDArray[np.str_]) -> str:
    """Return some names as text: the first of them, and how many there are more."""
    if not len(names):
        return "none"
    shown = ", ".join(names[:MAX_NAMES])
    left_out = len(names) - MAX_NAMES
    return f"{shown} and {left_out} more" if left_out > 0 else shown
