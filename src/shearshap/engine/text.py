"""Texts: classifiers, language models, and any function of texts.

Every text has its own parts, which are its players. What differs is how a coalition is evaluated:

    classifier       tokens of absent parts become the mask                  ModelGame, a text each
    language model   they are left out; the log-probability of an answer     TextGame
    function         absent parts are cut out of the text                    TextGame

Consecutive texts whose parts have the same names, as words have that are called by their places,
are a block.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.display import row_labels
from shearshap.data.texts import Parts, Passage, Prompt, is_chat, passage, text_parts
from shearshap.engine.loop import Clock, ResultBuffer, RowProgress, blocks_of
from shearshap.engine.named_game import NamedGame, labelled_blocks, open_game
from shearshap.engine.plan import Plans
from shearshap.engine.results import with_notes
from shearshap.engine.run import Options, Run, Task, positive_int
from shearshap.engine.sampling import Sampling
from shearshap.errors import InputError, ModelError
from shearshap.games.batches import DEFAULT_BATCH, FIRST_BATCH, Batch, Pace
from shearshap.games.structure import structure_of
from shearshap.games.texts import Scorer, TextGame
from shearshap.models import (
    Outputs,
    Predictor,
    adapted_model,
    check_statements,
    checked_output,
    checked_scale,
    eval_mode,
    library_versions,
    model_name,
)
from shearshap.models.endpoint import CompletionEndpoint, EndpointScorer
from shearshap.models.generation import (
    DEFAULT_ANSWER,
    Answer,
    AnswerScorer,
    LanguageModel,
    language_model,
)
from shearshap.models.huggingface import (
    FramedClassifier,
    Text,
    TextClassifier,
    are_texts,
    text_classifier,
)
from shearshap.models.sklearn import reads_texts
from shearshap.result import axes
from shearshap.result.explanation import Explanation
from shearshap.result.text import counted

TEXTS_AT_ONCE = 64
"""Texts of a block at most."""

MAX_AT_ONCE = 1 << 12
"""Evaluations of a language model between two looks at the clock, at most."""


def takes_texts(options: Options) -> bool:
    """Return whether the rows are texts: by the model, or by the option `text`."""
    model = options.model
    if options.text is not None or reads_texts(model) or isinstance(model, CompletionEndpoint):
        return True
    library = type(model).__module__.partition(".")[0]
    if not isinstance(model, tuple) and library != "transformers":
        return False
    return language_model(model) is not None or text_classifier(model) is not None


def text_blocks(task: Task, run: Run, progress: RowProgress) -> Generator[Explanation]:
    """Yield the explanations of texts, block by block."""
    model = task.options.model
    if run.order > 2:
        raise InputError(
            f"interactions={run.order}: expected 2 for texts, whose words differ; got {run.order}"
        )
    language = language_model(model)
    classifier = None if language is not None else text_classifier(model)
    is_served = isinstance(model, CompletionEndpoint)
    if task.answer is not None and language is None and not is_served:
        raise InputError("answer: expected a language model that generates texts, to explain one")
    network = language or classifier
    used = eval_mode(model if network is None else network.model, task.options.device)
    with used as device:
        solver: _Texts
        if language is not None:
            solver = _Prompts(language, task, run, progress, device)
        elif classifier is not None:
            solver = _Classified(classifier, task, run, progress)
        elif is_served:
            solver = _Served(model, task, run, progress)
        else:
            solver = _Scored(task, run, progress, device)
        clock = Clock(run.deadline, "text")
        with progress.over(solver.rows, "text"):
            yield from blocks_of(solver, clock, tol=run.tol, progress=progress)


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


class _Texts:
    """The solver for texts: their parts, and what an explanation says of them."""

    rows_at_once = TEXTS_AT_ONCE

    def __init__(self, task: Task, run: Run, progress: RowProgress, network: Any = None) -> None:
        options = task.options
        if options.feature_names is not None:
            raise InputError(
                "feature_names: the features of a text are its own words; leave feature_names out"
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

    @property
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
        paths = parts[0].paths
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
            hierarchy=paths,
            model=model_name(self.model),
            versions=library_versions(self.model),
        )
        described = with_notes(described, self.notes)
        names = self.names
        if len(self.parts) == 1:
            return replace(described, feature_names=names)
        return axes.spread(described, names)


# Classifiers


class _Classified(_Texts):
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


class _Scored(_Texts):
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
        self.outputs = Outputs(
            output,
            scale,
            adapted.form,
            tuple(options.output_names or adapted.output_names),
            bool(adapted.independent),
            checked=options.output_names is not None,
            certainty=adapted.certainty,
        )
        self.outputs.check()
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


# Answers of language models


class _Answers(_Scored):
    """Explains why a language model gives an answer."""

    answers: list[Answer]
    pieces: NDArray[np.object_]  #: (r, k) what of the answer each output is; "": a text lacks it

    def __init__(
        self, task: Task, run: Run, progress: RowProgress, device: torch.device, network: Any
    ) -> None:
        options = task.options
        if options.output not in (None, "tokens", "sentences"):
            raise InputError(
                "output: of an answer, expected None, 'tokens' or 'sentences', got "
                f"{options.output!r}"
            )
        if not all(each is None for each in (options.scale, options.returns, options.multilabel)):
            raise InputError(
                "scale: the log-probability of an answer is explained; leave scale, returns and "
                "multilabel out"
            )
        super().__init__(task, run, progress, device, network)

    def _generated(self, most: int) -> list[Answer]:
        """Return the answers that the model gives, of at most so many tokens."""
        raise NotImplementedError

    def _given(self, texts: list[str]) -> list[Answer]:
        """Return the answers that the user gives."""
        raise NotImplementedError

    def _read_answers(self) -> list[NDArray[np.float64]]:
        """Set the answers and their pieces; return which tokens add up to an output, (a, k)."""
        given = self.task.answer
        if given is None or (isinstance(given, int) and not isinstance(given, bool)):
            most = DEFAULT_ANSWER if given is None else positive_int("answer", given)
            self.answers = self._generated(most)
            note = f"The answer was generated, greedily, with at most {counted(most, 'token')}."
            self.notes = (*self.notes, note)
        else:
            texts = [given] * self.rows if isinstance(given, str) else list(given)
            if len(texts) != self.rows or not all(isinstance(text, str) for text in texts):
                raise InputError(
                    f"answer: expected a text, or {self.rows} texts, one for each prompt, got "
                    f"{given!r}"
                )
            self.answers = self._given(texts)
        for number, answer in enumerate(self.answers):
            if not answer.text:
                raise InputError(
                    f"answer: expected a text, got an empty one for prompt {number}; pass answer="
                )
        segments = [answer.segments(self.task.options.output) for answer in self.answers]
        count = max(map(len, segments))
        sums = []
        self.pieces = np.full((self.rows, count), "", dtype=object)
        for row, (answer, own) in enumerate(zip(self.answers, segments, strict=True)):
            matrix = np.zeros((len(answer.pieces), count))
            for output, tokens in enumerate(own):
                matrix[tokens, output] = 1.0
                self.pieces[row, output] = "".join(answer.pieces[token] for token in tokens)
            sums.append(matrix)
        return sums

    def output_fields(self, block: Explanation, numbers: NDArray[np.int64]) -> dict[str, Any]:
        """Return the names of outputs, and the pieces of the answers that they are."""
        pieces = self.pieces[numbers]
        names = ["answer"]
        if block.values.ndim == 2:
            pieces = pieces[:, 0]
        elif self.rows == 1:
            names += _unique([str(piece) for piece in pieces[0, 1:]])
        else:
            noun = str(self.task.options.output).removesuffix("s")
            names += [f"{noun} {number}" for number in range(pieces.shape[1] - 1)]
        return {"output_names": names, "answers": pieces, "scale": "log-probability"}


class _Prompts(_Answers):
    """Answers of a model of transformers."""

    def __init__(
        self,
        language: LanguageModel,
        task: Task,
        run: Run,
        progress: RowProgress,
        device: torch.device,
    ) -> None:
        language.check()
        self.language = language
        super().__init__(task, run, progress, device, language.model)

    @property
    def reader(self) -> LanguageModel:
        """The language model."""
        return self.language

    def _scorer(self, device: torch.device) -> Scorer:
        options = self.task.options
        self.device = device
        self.prompts = [
            self.language.prompt_tokens(parts, options.background, is_chat=own.is_chat)
            for parts, own in zip(self.parts, self.passages, strict=True)
        ]
        sums = self._read_answers()
        for number, (prompt, answer) in enumerate(zip(self.prompts, self.answers, strict=True)):
            self.language.check_length(prompt, answer, number)
        size = options.batch_size
        return AnswerScorer(
            self.language,
            self.prompts,
            self.answers,
            sums,
            device,
            single=options.output is None,
            batch_size=None if size == "auto" else positive_int("batch_size", size),
        )

    def _batch(self) -> Batch:
        return Batch(MAX_AT_ONCE, Pace(DEFAULT_BATCH))

    def _generated(self, most: int) -> list[Answer]:
        full = [
            prompt.kept(np.ones(len(parts.names), dtype=bool))
            for prompt, parts in zip(self.prompts, self.parts, strict=True)
        ]
        return self.language.generated(full, most, self.device)

    def _given(self, texts: list[str]) -> list[Answer]:
        answers = []
        for parts, own, text in zip(self.parts, self.passages, texts, strict=True):
            answer, is_joint = self.language.answer(text, parts, is_chat=own.is_chat)
            answers.append(answer)
            if not is_joint:
                self.notes = (
                    *self.notes,
                    f"The answer {text!r} has other tokens right after its prompt: it was "
                    "tokenised alone. It may lack a space at its beginning, or the prompt may have "
                    "one too many at its end.",
                )
        return answers


class _Served(_Answers):
    """Answers of a model behind a server."""

    def __init__(
        self, endpoint: CompletionEndpoint, task: Task, run: Run, progress: RowProgress
    ) -> None:
        self.endpoint = endpoint
        super().__init__(task, run, progress, torch.device("cpu"), endpoint)

    @property
    def reader(self) -> CompletionEndpoint:
        """The endpoint."""
        return self.endpoint

    def _scorer(self, _device: torch.device) -> Scorer:
        sums = self._read_answers()
        return EndpointScorer(
            self.endpoint,
            self.parts,
            self.answers,
            sums,
            self.substitute,
            single=self.task.options.output is None,
        )

    def _batch(self) -> Batch:
        at_once = self.endpoint.prompts_at_once * self.endpoint.requests_at_once
        return Batch(1 << 20, Pace(at_once))

    def _generated(self, most: int) -> list[Answer]:
        return self._given(self.endpoint.completed([parts.text for parts in self.parts], most))

    def _given(self, texts: list[str]) -> list[Answer]:
        if self.task.options.output is None or not all(texts):
            return [Answer.from_pieces([text]) for text in texts]
        # the server knows the tokens of an answer
        scored = self.endpoint.scored([parts.text for parts in self.parts], texts)
        answers = []
        for tokens, text in zip(scored, texts, strict=True):
            pieces = [token for token, _ in tokens]
            before = sum(map(len, pieces)) - len(text)
            answers.append(Answer.from_pieces([pieces[0][before:], *pieces[1:]]))
        return answers


def _unique(names: list[str]) -> list[str]:
    """Return names that differ: the same one again gets a number."""
    return [
        f"{name} ({names[:place].count(name)})" if name in names[:place] else name
        for place, name in enumerate(names)
    ]
