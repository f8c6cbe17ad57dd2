"""Texts: every text has its own parts, which are its players.

What differs is how a coalition is evaluated:

    function         absent parts are cut out of the text
    classifier       tokens of absent parts become the mask
    language model   they are left out; the log-probability of an answer: answers.py

Texts whose parts have the same names, as words have that are called by their places, are solved
together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shearshap.data.display import row_labels
from shearshap.data.texts import Parts, Passage, Prompt, is_chat, passage, text_parts
from shearshap.engine.loop import Clock, ResultBuffer, RowProgress
from shearshap.engine.open import (
    NamedGame,
    explained_outputs,
    labelled_blocks,
    open_game,
    point_out,
)
from shearshap.engine.plan import Plans
from shearshap.engine.results import with_notes, without_claims
from shearshap.engine.run import Options, Run, Task
from shearshap.engine.sampling import Sampling
from shearshap.errors import STOPS, InputError, ModelError, keep_finished
from shearshap.games.batches import FIRST_BATCH, Batch, OutOfTime, Pace
from shearshap.games.structure import structure_of
from shearshap.games.texts import Scorer, TextGame
from shearshap.models import (
    Outputs,
    Predictor,
    adapted_model,
    check_statements,
    checked_output,
    checked_scale,
    library_versions,
    model_name,
)
from shearshap.models.huggingface import (
    FramedClassifier,
    LogitsOfTokens,
    Text,
    TextClassifier,
    are_texts,
)
from shearshap.numbers import positive_int
from shearshap.result import axes
from shearshap.result.explanation import Explanation, join

TEXTS_AT_ONCE = 256
"""Texts of a block at most: the more, the more of them are alike, and are solved together."""


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
    alike_at_once = TEXTS_AT_ONCE  #: that are solved together at most

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

    def explain(self, rows: slice, _buffer: ResultBuffer, clock: Clock) -> Explanation:
        """Return the explanation of texts, in their order; alike ones are solved together.

        If time runs out, the texts that are explained by then are not always the first ones. So
        they have arrays of their own, and no place in the buffer.
        """
        alike: dict[Any, list[int]] = {}
        for number in range(rows.start, rows.stop):
            own = self.parts[number]
            alike.setdefault((own.names, own.paths), []).append(number)
        done: list[Explanation] = []
        try:
            for numbers in alike.values():
                for start in range(0, len(numbers), self.alike_at_once):
                    some = np.array(numbers[start : start + self.alike_at_once])
                    done.append(self.explain_alike(some, clock))
        except OutOfTime:
            if not done:
                raise
            clock.stopped = True
        except STOPS as error:
            finished = vars(error).get("finished")
            if finished is not None:
                done.append(finished)
            keep_finished(error, self._labelled(done) if done else None)
            raise
        return self._labelled(done)

    def explain_alike(self, numbers: NDArray[np.int64], clock: Clock) -> Explanation:
        """Return the explanation of some texts with the same parts; its index is their numbers."""
        raise NotImplementedError

    def _labelled(self, blocks: Sequence[Explanation]) -> Explanation:
        """Return one explanation of blocks whose index is texts' numbers, in order, with labels."""
        whole = join(blocks)
        ordered = whole[np.argsort(whole.index)]
        return replace(ordered, index=self.index[ordered.index], index_name=self.index_name)

    @cached_property
    def names(self) -> list[str]:
        """The names of all texts' parts; those of a single text are their words."""
        if len(self.parts) == 1 and self.parts[0].has_places:
            return self.parts[0].pieces
        longest = max(self.parts, key=lambda parts: len(parts.names))
        every = (name for parts in (longest, *self.parts) for name in parts.names)
        return list(dict.fromkeys(every))

    def described(self, block: Explanation, numbers: NDArray[np.int64]) -> Explanation:
        """Return the explanation of some texts with their numbers, names, texts and spans."""
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
            index=numbers,
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


# Functions of texts


@dataclass(frozen=True)
class TextScorer:
    """Scores texts with absent parts removed."""

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

    compared = False  #: whether the first text is asked for alone, too
    has_tokens = False  #: whether a token, "mask" or "pad", can stand in for absent ones
    outputs = Outputs()  #: what of the model's outputs is explained

    def __init__(
        self,
        task: Task,
        run: Run,
        progress: RowProgress,
        device: torch.device,
        network: Any = None,
    ) -> None:
        super().__init__(task, run, progress, network)
        self.substitute = self._substitute()
        self.scorer = self._scorer(device)
        self.batch = self._batch()
        self.plans: dict[Any, Plans] = {}  #: of the last texts, by their parts and groups

    def _substitute(self) -> str | None:
        """Return the text that stands in for an absent part; None: it is removed."""
        background = self.task.options.background
        if background is not None and not isinstance(background, str):
            raise InputError(
                "background: for texts, expected 'remove' or a text such as '...', got "
                f"{type(background).__name__}"
            )
        if background in ("mask", "pad") and not self.has_tokens:
            raise InputError(
                f"background={background!r}: this model has no tokenizer with such a token; "
                "expected 'remove' or a text such as '...'"
            )
        return None if background in (None, "remove") else str(background)

    @property
    def background(self) -> str:
        """What absent parts are replaced with, in words."""
        return "the text without these parts" if self.substitute is None else repr(self.substitute)

    def _scorer(self, device: torch.device) -> Scorer:
        """Return what evaluates coalitions."""
        predict = self._predictor(self.task.options, device)
        return TextScorer(predict, self.parts, self.substitute)

    def _predictor(self, options: Options, device: torch.device) -> Predictor:
        """Return the model of some options with its outputs, which are kept to name them."""
        output = checked_output(options.output)
        scale = checked_scale(options.scale, output)
        check_statements(options.returns, options.multilabel)
        adapted = adapted_model(
            options.model, device, scale, returns=options.returns, multilabel=options.multilabel
        )
        self.outputs = explained_outputs(options, adapted, scale)
        return Predictor(adapted, self.outputs)

    def _batch(self) -> Batch:
        """Return the size of batches, which is bounded by their time."""
        size = self.task.options.batch_size
        if size != "auto":
            return Batch(positive_int("batch_size", size))
        return Batch(1 << 20, Pace(FIRST_BATCH))

    def explain_alike(self, numbers: NDArray[np.int64], clock: Clock) -> Explanation:
        """Return the explanation of some texts with the same parts; its index is their numbers."""
        first = self.parts[numbers[0]]
        key = (first.names, first.paths)
        game = TextGame(
            self.scorer,
            numbers,
            len(first.names),
            self.batch,
            self.progress.evaluated,
            structure_of(first.paths),
            self.compared,
        )
        solver = Sampling(game, self.run, plans=self.plans.get(key), progress=self.progress)
        self.plans = {key: solver.plans}
        try:
            block = solver.explain(slice(0, len(numbers)), ResultBuffer(), clock)
        except STOPS as error:
            if isinstance(error, ModelError) and error.row is not None:
                point_out(error, self.index[error.row], self.parts[error.row].pieces)
            finished = vars(error).get("finished")
            if finished is not None:
                keep_finished(error, self._named_outputs(finished, numbers))
            raise
        return self._named_outputs(block, numbers)

    def _named_outputs(self, block: Explanation, numbers: NDArray[np.int64]) -> Explanation:
        """Return the explanation of some of these texts with all that is known of them."""
        described = self.described(block, numbers[block.index])
        fields = self.output_fields(described, described.index)
        block = replace(described, background=self.background, **fields)
        return without_claims(block, self.outputs)

    def output_fields(self, block: Explanation, _numbers: NDArray[np.int64]) -> dict[str, Any]:
        """Return the fields of an explanation that say what its outputs are."""
        count = block.values.shape[2] if block.values.ndim == 3 else 1
        return {"output_names": self.outputs.chosen_names(count), "scale": self.outputs.units}


# Classifiers


@dataclass(frozen=True)
class MaskedScorer:
    """What a classifier says of texts in which a token stands in for those of absent parts."""

    predict: Predictor
    texts: Sequence[Text]
    absent: int

    @property
    def device(self) -> torch.device:
        """Where outputs live."""
        return self.predict.device

    def __call__(self, texts: NDArray[np.int64], coalitions: NDArray[np.bool_]) -> Tensor:
        """Map numbers of texts (n,) and coalitions of their parts (n, p) to (n,) or (n, k).

        Texts of the same length go through the model together, so that none is padded.
        """
        alike: dict[int, list[tuple[NDArray[np.int64], Tensor]]] = {}
        for text in np.unique(texts).tolist():
            rows = np.flatnonzero(texts == text)
            tokens = self.masked(text, coalitions[rows])
            alike.setdefault(tokens.shape[1], []).append((rows, tokens))
        order = np.concatenate([rows for own in alike.values() for rows, _ in own])
        found = [
            self.predict(torch.cat([tokens for _, tokens in own]).to(self.device))
            for own in alike.values()
        ]
        return torch.cat(found)[torch.from_numpy(order.argsort()).to(self.device)]

    def inputs(self, text: int, coalition: NDArray[np.bool_]) -> Tensor:
        """Return the tokens of a text with some of its parts, (1, t)."""
        return self.masked(text, coalition[None])

    def masked(self, text: int, coalitions: NDArray[np.bool_]) -> Tensor:
        """Return the tokens of a text with the parts of each coalition (n, p), (n, t)."""
        own = self.texts[text]
        tokens = own.tokens.repeat(len(coalitions), 1)
        present = torch.from_numpy(coalitions[:, own.owners])
        tokens[:, own.content] = own.row.where(present, torch.tensor(self.absent))
        return tokens


class ClassifiedTexts(ScoredTexts):
    """Explains a text classifier: tokens of absent parts are masked."""

    compared = True

    def __init__(
        self,
        classifier: TextClassifier,
        task: Task,
        run: Run,
        progress: RowProgress,
        device: torch.device,
    ) -> None:
        classifier.check()
        self.classifier = classifier
        self.absent = classifier.absent_token(task.options.background)
        self.tokens: list[Text] = []
        super().__init__(task, run, progress, device, classifier.model)

    @property
    def reader(self) -> TextClassifier:
        """The classifier."""
        return self.classifier

    def _parts(self, number: int, own: Passage) -> Parts:
        tokens, parts = self.classifier.text(super()._parts(number, own))
        if not parts.spans:
            raise InputError(
                f"groups: none of the parts of text {number} is among the {len(tokens.tokens):,} "
                "tokens that the model takes; shorten the text"
            )
        self.tokens.append(tokens)
        return parts

    def _substitute(self) -> None:
        """No text stands in for an absent part, but a token for each of its tokens."""

    @property
    def background(self) -> str:
        """What absent parts are replaced with, in words."""
        return f"the token {self.classifier.tokenizer.convert_ids_to_tokens(self.absent)}"

    def _scorer(self, device: torch.device) -> Scorer:
        options = self._options(LogitsOfTokens(self.classifier.model))
        return MaskedScorer(self._predictor(options, device), self.tokens, self.absent)

    def _options(self, model: nn.Module) -> Options:
        """Return the options of a task, for another form of the model and with names of outputs."""
        options = self.task.options
        names = options.output_names
        if not names and not callable(options.output):
            names = self.classifier.output_names or None
        scale = options.scale
        if scale is None and self.classifier.has_classes and not callable(options.output):
            scale = "probability"  # as a pipeline returns
        return replace(options, model=model, output_names=names, scale=scale)


class DifferentiatedTexts(ClassifiedTexts):
    """Explains a text classifier by a method that differentiates it, at the tokens' embeddings.

    Each text is a game of a network, with its own tokens.
    """

    alike_at_once = 1

    def explain_alike(self, numbers: NDArray[np.int64], clock: Clock) -> Explanation:
        """Return the explanation of one text; its index is its number."""
        number = int(numbers[0])
        text = self.tokens[number]
        options = replace(
            self._options(FramedClassifier(self.classifier.model, text)),
            background=torch.full((1, len(text.content)), self.absent),
            groups=np.array(text.owners),
            device=None,
            text=None,
        )
        task = Task(options, text.row[None])
        with open_game(task, self.progress.evaluated) as game:
            named = self._named(game, number)
            solver = Sampling(named.game, self.run, progress=self.progress)
            blocks = (solver.explain(row, ResultBuffer(), clock) for row in [slice(0, 1)])
            (explanation,) = labelled_blocks(named, blocks)
        return replace(self.described(explanation, numbers), background=self.background)

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
