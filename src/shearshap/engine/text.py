"""Text classifiers: every text is a game, since its words are its players."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.data.display import row_labels
from shearshap.engine.loop import Clock, ResultBuffer, RowProgress, blocks_of
from shearshap.engine.named_game import NamedGame, labelled_blocks, open_game
from shearshap.engine.run import Run, Task
from shearshap.engine.sampling import Sampling
from shearshap.errors import InputError
from shearshap.games.structure import structure_of
from shearshap.models import eval_mode, library_versions, model_name
from shearshap.models.huggingface import (
    FramedClassifier,
    Text,
    TextClassifier,
    player_kind,
    text_classifier,
)
from shearshap.result.explanation import Explanation

SENTENCE_ENDS = (".", "!", "?")


def text_blocks(task: Task, run: Run, progress: RowProgress) -> Generator[Explanation]:
    """Yield the explanation of each text, which has one row."""
    classifier = text_classifier(task.options.model)
    assert classifier is not None, "takes_texts says so"
    if run.order > 2:
        raise InputError(
            f"interactions={run.order}: expected 2 for texts, whose words differ; got {run.order}"
        )
    solver = _Texts(classifier, task, run, progress)
    clock = Clock(run.deadline, "text")
    used = eval_mode(classifier.model, task.options.device)
    with progress.over(solver.rows, "text"), used:
        yield from blocks_of(solver, clock, tol=run.tol, progress=progress)


class _Texts:
    """The solver for texts: each is a block, with its own game and players."""

    rows_at_once = 1

    def __init__(
        self, classifier: TextClassifier, task: Task, run: Run, progress: RowProgress
    ) -> None:
        options = task.options
        classifier.check(feature_names=options.feature_names)
        self.classifier = classifier
        self.task = task
        self.run = run
        self.progress = progress
        self.in_sentences = isinstance(options.groups, str) and options.groups == "sentences"
        self.kind = player_kind("words" if self.in_sentences else options.groups)
        self.absent = classifier.absent_token(options.background)
        self.texts = classifier.texts(task.rows, self.kind)
        self.index, self.index_name = row_labels(None, _text_labels(task), len(self.texts))

    @property
    def rows(self) -> int:
        """The number of texts."""
        return len(self.texts)

    def explain(self, rows: slice, buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of one text, with its label."""
        number = rows.start
        text = self.texts[number]
        task = _text_task(self.task, self.classifier, text, self.absent)
        with open_game(task, self.progress.evaluated) as game:
            named = _named_text(game, text, number, self.index[[number]])
            if self.in_sentences:
                named = _in_sentences(named)
            solver = Sampling(named.game, self.run, progress=self.progress)
            blocks = (solver.explain(row, buffer, clock) for row in [slice(0, 1)])
            (explanation,) = labelled_blocks(named, blocks)
        names = list(text.names)
        if len(self.texts) > 1:  # their words differ, and so players are named by their place
            names = [f"{self.kind.removesuffix('s')} {place}" for place in range(len(names))]
        return replace(
            explanation,
            feature_names=names,
            data=None,
            display_data=np.array([text.names], dtype=object),
            index_name=self.index_name,
            background=f"the token {self.classifier.tokenizer.convert_ids_to_tokens(self.absent)}",
            groups=None,
            model=model_name(self.classifier.model),
            versions=library_versions(self.classifier.model),
        )


def _text_labels(task: Task) -> Any:
    """Return the labels that the user passed or, for a Series of texts, its index."""
    own = getattr(task.rows, "index", None)
    if task.index is not None or callable(own):  # a list's `index` is a method
        return task.index
    return own


def _text_task(task: Task, classifier: TextClassifier, text: Text, absent: int) -> Task:
    """Return the task of one text: its tokens are the inputs, its players own them."""
    names = task.options.output_names
    if not names and not callable(task.options.output):
        names = classifier.output_names or None
    options = replace(
        task.options,
        model=FramedClassifier(classifier.model, text),
        background=torch.full((1, len(text.content)), absent),
        groups=np.array(text.owners),
        output_names=names,
        device=None,
    )
    return Task(options, text.row[None])


def _named_text(named: NamedGame, text: Text, number: int, label: NDArray[Any]) -> NamedGame:
    """Return the game of one text with its number among the texts, its label and its words."""
    game = replace(named.game, places=torch.tensor([number]))
    if number > 0:  # the first text shows whether the model answers as it should
        game = replace(game, original_rows=None)
    inputs = replace(named.inputs, index=label, names=list(text.names))
    return replace(named, game=game, inputs=inputs)


def _in_sentences(named: NamedGame) -> NamedGame:
    """Return the game of a text whose words are in groups: its sentences, under their own words."""
    words = named.inputs.names
    sentences: list[list[str]] = [[]]
    for word in words:
        if sentences[-1] and sentences[-1][-1].endswith(SENTENCE_ENDS):
            sentences.append([])
        sentences[-1].append(word)
    paths: list[tuple[str, ...]] = []
    for own in sentences:
        name = " ".join(own)
        if (name,) in paths:
            name = f"{name} ({len(paths)})"  # the same sentence again is another group
        paths.extend([(name,)] * len(own))
    game = replace(named.game, structure=structure_of(tuple(paths)))
    return replace(named, game=game, inputs=replace(named.inputs, paths=tuple(paths)))
