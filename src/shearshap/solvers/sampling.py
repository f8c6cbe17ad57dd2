"""The general solver: any model is a game of coalitions, whose values the engine asks for."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from shearshap.adapters import Outputs, Predictor, adapt, checked_output, checked_scale
from shearshap.batches import Batch, automatic_batch
from shearshap.engine.clock import Clock
from shearshap.engine.loop import explained_blocks
from shearshap.engine.progress import progress_bar
from shearshap.engine.run import Run, whole
from shearshap.errors import InputError
from shearshap.explanation import Explanation
from shearshap.game import ModelGame
from shearshap.inputs import Inputs, encode
from shearshap.solvers.task import Task


def solve(task: Task, run: Run, progress: bool | None) -> Iterator[Explanation]:
    """Yield the explanations of a task's rows, block by block."""
    clock = Clock(run.deadline)
    with (
        progress_bar(progress, unit=" evaluations", unit_scale=True) as bar,
        open_game(task, bar.update) as named,
    ):
        settled = run.on(named.game)
        assert settled.budget is not None
        bar.total = named.game.rows * settled.budget
        done = 0
        for block in explained_blocks(named.game, settled, clock):
            yield named.labelled(block, done)
            done += len(block)


@dataclass(frozen=True)
class NamedGame:
    """The game of a model's predictions, with names and data of rows, players and outputs."""

    game: ModelGame
    inputs: Inputs
    outputs: Outputs
    feature_names: Sequence[str]

    def labelled(self, block: Explanation, start: int) -> Explanation:
        """Return the explanation of the rows from `start` on with its names and data."""
        rows = slice(start, start + len(block))
        count = block.values.shape[2] if block.values.ndim == 3 else 1
        words = self.inputs.display_data
        return replace(
            block,
            feature_names=list(self.feature_names),
            output_names=self.outputs.chosen_names(count),
            index=self.inputs.index[rows],
            index_name=self.inputs.index_name,
            data=self.inputs.data[rows],
            display_data=None if words is None else words[rows],
        )


@contextmanager
def open_game(task: Task, advance: Callable[[int], object]) -> Iterator[NamedGame]:
    """Check a task, and open its game; afterwards the model is as it was before.

    `advance` is called with the number of evaluations of each batch.
    """
    output = checked_output(task.output)
    scale = checked_scale(task.scale, output)
    if task.background is None:
        raise InputError(
            "background: say what an absent player is replaced with, for example ('mean', train)"
        )
    with adapt(task.model, scale, task.device) as adapted:
        names = tuple(task.output_names or adapted.output_names)
        outputs = Outputs(
            output,
            scale,
            adapted.form,
            names,
            adapted.independent,
            checked=task.output_names is not None,
        )
        outputs.check()
        inputs = encode(
            task.rows,
            task.background,
            task.groups,
            adapted,
            index=task.index,
            argument=task.background_word,
        )
        _check_names(task.feature_names, inputs.players)
        smooth = replace(adapted, differentiable=adapted.differentiable and inputs.smooth)
        predict = Predictor(smooth, outputs, inputs.decode)
        game = _game(task, predict, inputs, advance)
        yield NamedGame(game, inputs, outputs, task.feature_names or inputs.names)


def _game(
    task: Task, predict: Predictor, inputs: Inputs, advance: Callable[[int], object]
) -> ModelGame:
    if task.batch_size == "auto":
        size = automatic_batch(predict.device, inputs.owner.size)
    else:
        size = whole("batch_size", task.batch_size)
    return ModelGame(
        predict,
        inputs.rows,
        inputs.background,
        torch.as_tensor(inputs.owner, device=predict.device),
        inputs.shape,
        inputs.players,
        Batch(size),
        advance,
        finite=_finite(predict, inputs),
        weights=_weights(inputs),
    )


def _weights(inputs: Inputs) -> torch.Tensor | None:
    return None if inputs.weights is None else torch.from_numpy(inputs.weights)


def _finite(predict: Predictor, inputs: Inputs) -> bool:
    """Return whether all inputs are numbers that can be mixed."""
    if not predict.adapted.takes_missing:
        return True  # checked when the rows were read
    parts = (inputs.rows, inputs.background)
    return all(bool(torch.isfinite(part).all()) for part in parts)


def _check_names(names: Sequence[str] | None, players: int) -> None:
    if names is not None and len(names) != players:
        raise InputError(f"feature_names: wanted {players}, one for each player, got {len(names)}")
