"""Answers of language models: how much more likely each part of the prompt makes them.

A model is one of transformers, or behind a server. Which solver explains texts is decided here.
"""

from collections.abc import Generator, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.data.texts import unique_names
from shearshap.engine.loop import Clock, RowProgress, blocks_of
from shearshap.engine.run import Run, Task
from shearshap.engine.text import ClassifiedTexts, DifferentiatedTexts, ScoredTexts, Texts
from shearshap.errors import InputError
from shearshap.games.batches import DEFAULT_BATCH, Batch, Pace
from shearshap.games.texts import Scorer
from shearshap.models import eval_mode
from shearshap.models.endpoint import CompletionEndpoint, EndpointScorer
from shearshap.models.generation import (
    DEFAULT_ANSWER,
    Answer,
    AnswerScorer,
    LanguageModel,
    language_model,
)
from shearshap.models.huggingface import text_classifier
from shearshap.numbers import positive_int
from shearshap.result.explanation import Explanation
from shearshap.result.text import counted

MAX_AT_ONCE = 1 << 12
"""Evaluations of a language model between two looks at the clock, at most."""


def text_blocks(task: Task, run: Run, progress: RowProgress) -> Generator[Explanation]:
    """Yield the explanations of texts, block by block."""
    model = task.options.model
    if run.order > 2:
        raise InputError(
            f"interactions: for texts, whose words differ, expected 2; got {run.order}"
        )
    language = language_model(model)
    classifier = None if language is not None else text_classifier(model)
    is_served = isinstance(model, CompletionEndpoint)
    if task.answer is not None and language is None and not is_served:
        raise InputError("answer: expected a language model that generates texts")
    network = language or classifier
    used = eval_mode(model if network is None else network.model, task.options.device)
    clock = Clock(run.deadline, "text")
    with used as device:
        solver: Texts
        if language is not None:
            solver = _Prompts(language, task, run, progress, device)
        elif classifier is not None:
            kind = DifferentiatedTexts if run.method.differentiates else ClassifiedTexts
            solver = kind(classifier, task, run, progress, device)
        elif is_served:
            solver = _Served(model, task, run, progress)
        else:
            solver = ScoredTexts(task, run, progress, device)
        with progress.over(solver.rows, "text"):
            yield from blocks_of(solver, clock, tol=run.tol, at_once=run.at_once, progress=progress)


class _Answers(ScoredTexts):
    """Explains why a language model gives an answer."""

    answers: list[Answer]
    pieces: NDArray[np.object_]  #: (r, k) what of the answer each output is; "": a text lacks it

    def __init__(
        self, task: Task, run: Run, progress: RowProgress, device: torch.device, network: Any
    ) -> None:
        options = task.options
        if options.output not in (None, "tokens", "sentences"):
            raise InputError(
                "output: for an answer, expected None, 'tokens' or 'sentences', got "
                f"{options.output!r}"
            )
        if not all(each is None for each in (options.scale, options.returns, options.multilabel)):
            raise InputError(
                "scale: the log-probability of an answer is explained; leave scale, returns and "
                "multilabel out"
            )
        super().__init__(task, run, progress, device, network)

    def _generated(self, most: int) -> list[Answer]:
        """Generate answers, up to a number of tokens."""
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
            note = f"The answer was generated greedily, with at most {counted(most, 'token')}."
            self.notes = (*self.notes, note)
        else:
            texts = list(given) if isinstance(given, Iterable) else []
            if isinstance(given, str):
                texts = [given] * self.rows
            if len(texts) != self.rows or not all(isinstance(text, str) for text in texts):
                raise InputError(
                    f"answer: expected a text, or a list with one text per prompt ({self.rows}), "
                    f"got {given!r}"
                )
            self.answers = self._given(texts)
        for number, answer in enumerate(self.answers):
            if not answer.text:
                came = "the model generated" if given is None or isinstance(given, int) else "got"
                raise InputError(
                    f"answer: expected a text, {came} an empty one for prompt {number}; pass "
                    "answer="
                )
        segments = [answer.segments(self.task.options.output) for answer in self.answers]
        count = max(map(len, segments))
        sums = []
        self.pieces = np.full((self.rows, count), "", dtype=object)
        for row, (answer, own) in enumerate(zip(self.answers, segments, strict=True)):
            matrix = np.zeros((len(answer.pieces), count))
            for output, tokens in enumerate(own):
                matrix[tokens, output] = 1.0
                self.pieces[row, output] = answer.joined(tokens)
            sums.append(matrix)
        return sums

    def output_fields(self, block: Explanation, numbers: NDArray[np.int64]) -> dict[str, Any]:
        """Return the names of outputs, and the pieces of the answers that they are."""
        pieces = self.pieces[numbers]
        names = ["answer"]
        if block.values.ndim == 2:
            pieces = pieces[:, 0]
        elif self.rows == 1:
            names += unique_names(map(str, pieces[0, 1:]))
        else:
            noun = str(self.task.options.output).removesuffix("s")
            names += [f"{noun} {number}" for number in range(pieces.shape[1] - 1)]
        return {"output_names": names, "answers": pieces, "scale": "log-probability"}


class _Prompts(_Answers):
    """Answers of a model of transformers."""

    has_tokens = True

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
            self.language.check_length(prompt, len(answer.ids), number)
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
        for number, prompt in enumerate(self.prompts):
            self.language.check_length(prompt, 1, number)
        return self.language.generated(full, most, self.device)

    def _given(self, texts: list[str]) -> list[Answer]:
        answers = []
        for parts, own, text in zip(self.parts, self.passages, texts, strict=True):
            answer, is_joint = self.language.answer(text, parts, is_chat=own.is_chat)
            answers.append(answer)
            if not is_joint:
                self.notes = (
                    *self.notes,
                    f"The answer {text!r} was tokenised separately, since it has other tokens "
                    "right after its prompt. It may lack a leading space, or the prompt may have "
                    "a trailing one.",
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
