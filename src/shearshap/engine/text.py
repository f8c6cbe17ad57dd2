"""Texts: every text has its own parts, which are its players.

What differs is how a coalition is evaluated:

    classifier       tokens of absent parts become the mask                  ModelGame, a text each
    function         absent parts are cut out of the text                    TextGame
    language model   they are left out; the log-probability of an answer     TextGame, answers.py

Consecutive texts whose parts have the same names, as words have that are called by their places,
are a block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.display import row_labels
from shearshap.data.texts import Parts, Passage, Prompt, is_chat, passage, text_parts
from shearshap.engine.loop import Clock, ResultBuffer, RowProgress
from shearshap.engine.named_game import NamedGame, explained_outputs, labelled_blocks, open_game
from shearshap.engine.plan import Plans
from shearshap.engine.results import with_notes
from shearshap.engine.run import Run, Task, positive_int
from shearshap.engine.sampling import Sampling
from shearshap.errors import InputError, ModelError
from shearshap.games.batches import FIRST_BATCH, Batch, Pace
from shearshap.games.structure import structure_of
from shearshap.games.texts import Scorer, TextGame
from shearshap.models import (
    Predictor,
    adapted_model,
    check_statements,
    checked_output,
    checked_scale,
    library_versions,
    model_name,
)
from shearshap.models.huggingface import FramedClassifier, Text, TextClassifier, are_texts
from shearshap.result import axes
from shearshap.result.explanation import Explanation

TEXTS_AT_ONCE = 64
"""Texts of a block at most."""


def _listed(rows: Any) -> list[Any]:
    """Return the texts of a call as a list, or raise; a text or a chat alone is one."""
    if isinstance(rows, str | Prompt) or is_chat(rows):
        return [rows]
    if not are_texts(rows):
        raise InputError(
            f"rows: expected a list of texts, got a {type(rows).__name__}; pass [text], or a "
            "frame's column of texts"
        )
    texts = list(rows)
    if not texts:
        raise InputError("rows: expected a list of texts, got none")
    return texts


class Texts:
    """The solver for texts: their parts, and what an explanation says of them."""

    rows_at_once = TEXTS_AT_ONCE

    def __init__(self, task: Task, run: Run, progress: RowProgress, network: Any = None) -> None:
        options = task.options
        if options.feature_names is not None:
            raise InputError(
                "feature_names: the features of a text are its words; leave feature_names out"
            )
        if options.text is not None and options.groups is not None:
            raise InputError("text and groups: both say what the parts of texts are; pass one")
        self.task = task
        self.run = run
        self.progress = progress
        self.model = options.model if network is None else network
        self.notes: tuple[str, ...] = ()
        rows = _listed(task.rows)
        chat_text = getattr(self.reader, "chat_text", None)
        self.passages = [passage(row, number, chat_text) for number, row in enumerate(rows)]
        self.parts = [self._parts(number, own) for number, own in enumerate(self.passages)]
        own_index = getattr(task.rows, "index", None)
        labels = own_index if task.index is None and not callable(own_index) else task.index
        self.index, self.index_name = row_labels(None, labels, len(rows))

    @property
    def reader(self) -> Any:
        """What reads texts for the model: None, or a model with its tokenizer."""
        return None

    @property
    def rows(self) -> int:
        """The number of texts."""
        return len(self.parts)

    def _parts(self, number: int, own: Passage) -> Parts:
        """Return the parts of a text, or raise if it has none."""
        options = self.task.options
        groups = options.groups if options.text is None else options.text
        groups = None if groups is True else groups
        tokens = getattr(self.reader, "token_spans", None)
        parts = text_parts(own, groups, tokens)
        if not parts.spans:
            raise InputError(f"rows: text {number} has no parts to explain: {own.text[:80]!r}")
        return parts

    def explain(self, rows: slice, buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of the first texts that have the same parts."""
        raise NotImplementedError

    @cached_property
    def names(self) -> list[str]:
        """The names of all texts' parts; those of a single text are their words."""
        if len(self.parts) == 1 and self.parts[0].has_places:
            return self.parts[0].pieces
        longest = max(self.parts, key=lambda parts: len(parts.names))
        every = (name for parts in (longest, *self.parts) for name in parts.names)
        return list(dict.fromkeys(every))

    def described(self, block: Explanation, numbers: Sequence[int]) -> Explanation:
        """Return the explanation of some texts with their names, texts and spans."""
        parts = [self.parts[number] for number in numbers]
        spans = np.array([own.spans for own in parts], dtype=np.int64)
        pieces = np.empty(spans.shape[:2], dtype=object)
        texts = np.empty(len(parts), dtype=object)
        for row, own in enumerate(parts):
            pieces[row] = own.pieces
            texts[row] = own.text
        described = replace(
            block,
            data=None,
            display_data=pieces,
            texts=texts,
            starts=spans[..., 0],
            ends=spans[..., 1],
            feature_names=list(parts[0].names),
            index=self.index[list(numbers)],
            index_name=self.index_name,
            groups=None,
            hierarchy=parts[0].paths,
            model=model_name(self.model),
            versions=library_versions(self.model),
        )
        described = with_notes(described, self.notes)
        if len(self.parts) == 1:
            return replace(described, feature_names=self.names)
        if len(self.names) > len(parts[0].names):
            described = replace(described, hierarchy=None)  # it is of other parts
        return axes.spread(described, self.names)


# Classifiers


class ClassifiedTexts(Texts):
    """Explains a text classifier: each text is a game of a network, with its own tokens."""

    rows_at_once = 1

    def __init__(
        self, classifier: TextClassifier, task: Task, run: Run, progress: RowProgress
    ) -> None:
        classifier.check()
        self.classifier = classifier
        self.absent = classifier.absent_token(task.options.background)
        self.tokens: dict[int, Text] = {}
        super().__init__(task, run, progress, classifier.model)

    @property
    def reader(self) -> TextClassifier:
        """The classifier."""
        return self.classifier

    def _parts(self, number: int, own: Passage) -> Parts:
        parts = super()._parts(number, own)
        self.tokens[number], parts = self.classifier.text(parts)
        return parts

    def explain(self, rows: slice, buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of one text."""
        number = rows.start
        task = self._text_task(self.tokens[number])
        with open_game(task, self.progress.evaluated) as game:
            named = self._named(game, number)
            solver = Sampling(named.game, self.run, progress=self.progress)
            blocks = (solver.explain(row, buffer, clock) for row in [slice(0, 1)])
            (explanation,) = labelled_blocks(named, blocks)
        token = self.classifier.tokenizer.convert_ids_to_tokens(self.absent)
        return replace(self.described(explanation, [number]), background=f"the token {token}")

    def _text_task(self, text: Text) -> Task:
        """Return the task of one text: its tokens are the inputs, its parts own them."""
        options = self.task.options
        names = options.output_names
        if not names and not callable(options.output):
            names = self.classifier.output_names or None
        own = replace(
            options,
            model=FramedClassifier(self.classifier.model, text),
            background=torch.full((1, len(text.content)), self.absent),
            groups=np.array(text.owners),
            output_names=names,
            device=None,
            text=None,
        )
        return Task(own, text.row[None])

    def _named(self, named: NamedGame, number: int) -> NamedGame:
        """Return the game of a text with its number, its label, its parts and their groups."""
        parts = self.parts[number]
        game = replace(
            named.game, places=torch.tensor([number]), structure=structure_of(parts.paths)
        )
        if number > 0:  # the first text shows whether the model answers as it should
            game = replace(game, original_rows=None)
        inputs = replace(
            named.inputs, index=self.index[[number]], names=parts.pieces, paths=parts.paths
        )
        return replace(named, game=game, inputs=inputs)


# Functions of texts


@dataclass(frozen=True)
class TextScorer:
    """What a function says of texts from which absent parts are cut out."""

    predict: Predictor
    parts: Sequence[Parts]
    substitute: str | None  #: of an absent part; None: it is removed

    @property
    def device(self) -> torch.device:
        """Where outputs live."""
        return self.predict.device

    def __call__(self, texts: NDArray[np.int64], coalitions: NDArray[np.bool_]) -> Tensor:
        """Map numbers of texts (n,) and coalitions of their parts (n, p) to (n,) or (n, k)."""
        inputs = [
            self.inputs(text, own) for text, own in zip(texts.tolist(), coalitions, strict=True)
        ]
        return self.predict.answer(inputs, len(inputs))

    def inputs(self, text: int, coalition: NDArray[np.bool_]) -> str:
        """Return a text with some of its parts."""
        return self.parts[text].text_with(coalition, self.substitute)


class ScoredTexts(Texts):
    """Explains whatever maps texts to numbers."""

    def __init__(
        self,
        task: Task,
        run: Run,
        progress: RowProgress,
        device: torch.device,
        network: Any = None,
    ) -> None:
        super().__init__(task, run, progress, network)
        options = task.options
        background = options.background
        if background is not None and not isinstance(background, str):
            raise InputError(
                "background: for texts, expected 'remove' or a text such as '...', got "
                f"{type(background).__name__}"
            )
        self.substitute = None if background in (None, "remove") else str(background)
        self.scorer = self._scorer(device)
        self.batch = self._batch()
        self.plans: dict[Any, Plans] = {}  #: of the last block, by its parts and groups

    def _scorer(self, device: torch.device) -> Scorer:
        """Return what evaluates coalitions."""
        options = self.task.options
        output = checked_output(options.output)
        scale = checked_scale(options.scale, output)
        check_statements(options.returns, options.multilabel)
        adapted = adapted_model(
            options.model, device, scale, returns=options.returns, multilabel=options.multilabel
        )
        self.outputs = explained_outputs(options, adapted, scale)
        return TextScorer(Predictor(adapted, self.outputs), self.parts, self.substitute)

    def _batch(self) -> Batch:
        """Return the size of batches, which is bounded by their time."""
        size = self.task.options.batch_size
        if size != "auto":
            return Batch(positive_int("batch_size", size))
        return Batch(1 << 20, Pace(FIRST_BATCH))

    def explain(self, rows: slice, buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of the first texts that have the same parts."""
        first = self.parts[rows.start]
        alike = rows.start + 1
        while alike < rows.stop and _are_alike(first, self.parts[alike]):
            alike += 1
        numbers = np.arange(rows.start, alike)
        game = TextGame(
            self.scorer,
            numbers,
            len(first.names),
            self.batch,
            self.progress.evaluated,
            structure_of(first.paths),
        )
        key = (len(first.names), first.paths)
        solver = Sampling(game, self.run, plans=self.plans.get(key), progress=self.progress)
        self.plans = {key: solver.plans}
        try:
            block = solver.explain(slice(0, len(numbers)), buffer, clock)
        except ModelError as error:
            if error.finished is not None:
                done = error.finished.index
                error.finished = self._named_outputs(error.finished, numbers[done])
            raise
        return self._named_outputs(block, numbers[block.index])

    def _named_outputs(self, block: Explanation, numbers: NDArray[np.int64]) -> Explanation:
        """Return the explanation of some texts with all that is known of them."""
        absent = "the text without them" if self.substitute is None else repr(self.substitute)
        described = self.described(block, numbers.tolist())
        return replace(described, background=absent, **self.output_fields(described, numbers))

    def output_fields(self, block: Explanation, _numbers: NDArray[np.int64]) -> dict[str, Any]:
        """Return the fields of an explanation that say what its outputs are."""
        count = block.values.shape[2] if block.values.ndim == 3 else 1
        return {"output_names": self.outputs.chosen_names(count), "scale": self.outputs.units}


def _are_alike(one: Parts, other: Parts) -> bool:
    return one.names == other.names and one.paths == other.paths
