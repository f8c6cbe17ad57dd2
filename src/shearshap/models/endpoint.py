"""Served language models: log-probabilities of answers from any OpenAI-compatible server.

The endpoint `/completions` returns a prompt's own tokens with their log-probabilities if it is
asked to echo it, as vLLM and others are:

    request   {"prompt": ["Rome is in Italy", ...], "echo": true, "logprobs": 1, "max_tokens": 0}
    answer    {"choices": [{"index": 0, "logprobs": {"tokens": ["Rome", " is", " in", " Italy"],
                                                     "token_logprobs": [null, -3.1, -1.2, -0.4]}}]}

The tokens of the answer are those that spell it, after the prompt.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.texts import Parts
from shearshap.errors import InputError, ModelError
from shearshap.models.generation import Answer, chat_text
from shearshap.models.http import Client, Secret, check_address, checked_key
from shearshap.numbers import positive_int

BUSY = (None, 429, 500, 502, 503, 504)
"""Status codes after which a request is sent again; None: there was no reply."""

WAITS = (1, 2, 4)  #: seconds before each further try
MAX_SECONDS = 1_000_000  #: of a `timeout`: what every system can wait
MAX_REASON = 300  #: characters that an error repeats of what a server replied


@dataclass(frozen=True)
class CompletionEndpoint:
    """A language model behind an OpenAI-compatible server, such as vLLM, to explain its answers.

    `Explainer(CompletionEndpoint("http://localhost:8000/v1", "my-model"))(prompts, answer=...)`.
    Absent parts are cut out of the prompt's text, which the server tokenises again. An empty prompt
    is sent as a line break, since the answer's first token needs a token before it.

    Parameters
    ----------
    url
        The server's address, up to "/v1".
    model
        The model's name on the server.
    api_key
        Sent as a bearer token; None sends nothing. It is shown nowhere, and pickles leave it out.
    tokenizer
        The model's tokenizer, for its chat template; only needed for chats.
    prompts_at_once
        Prompts per request.
    requests_at_once
        Requests at the same time.
    timeout
        Seconds to wait for an answer.
    api_key_variable
        The environment variable that has the key, instead of `api_key`. Each call reads it, in the
        process that it runs in, so that pickled copies work as well.
    """

    url: str
    model: str
    api_key: str | Secret | None = None
    tokenizer: Any = None
    prompts_at_once: int = 32
    requests_at_once: int = 8
    timeout: float = 120.0
    api_key_variable: str | None = None

    def __post_init__(self) -> None:
        """Raise if the address is not one of the web, or nothing may be sent."""
        if find_spec("httpx") is None:
            raise InputError("CompletionEndpoint needs httpx: pip install 'shearshap[endpoint]'")
        check_address(self.url)
        if self.api_key is not None:
            object.__setattr__(self, "api_key", checked_key("api_key", self.api_key))
            if self.api_key_variable is not None:
                raise InputError("api_key: expected either this or api_key_variable, got both")
        if not isinstance(self.model, str):
            raise InputError(f"model: expected its name on the server, got {self.model!r}")
        if not isinstance(self.api_key_variable, str | None):
            raise InputError("api_key_variable: expected the name of an environment variable")
        for name in ("prompts_at_once", "requests_at_once"):
            object.__setattr__(self, name, positive_int(name, getattr(self, name)))
        is_number = isinstance(self.timeout, int | float | np.number)
        if not is_number or isinstance(self.timeout, bool) or not 0 < self.timeout <= MAX_SECONDS:
            raise InputError(
                f"timeout: expected a positive number of seconds, at most {MAX_SECONDS:,}, got "
                f"{self.timeout!r}"
            )

    def __repr__(self) -> str:
        """Return the address and the model, and not the key."""
        return f"CompletionEndpoint({self.url!r}, {self.model!r})"

    def chat_text(self, messages: Any) -> str:
        """Return the text that the chat template makes of messages, ready for an answer."""
        return chat_text(self.tokenizer, messages)

    def completed(self, prompts: Sequence[str], most: int) -> list[str]:
        """Return the greedy continuation, up to a number of tokens."""
        choices = self._choices(prompts, {"max_tokens": most})
        if not all(isinstance(choice.get("text"), str) for choice in choices):
            raise ModelError("the server returned a choice without a text")
        return [choice["text"] for choice in choices]

    def scored(
        self, prompts: Sequence[str], answers: Sequence[str]
    ) -> list[list[tuple[str, float]]]:
        """Return the tokens of each answer after its prompt, with their log-probabilities."""
        both = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
        choices = self._choices(both, {"max_tokens": 0, "echo": True, "logprobs": 1})
        return [
            _answer_tokens(choice, prompt, answer)
            for choice, prompt, answer in zip(choices, prompts, answers, strict=True)
        ]

    def _choices(self, prompts: Sequence[str], options: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the server's choice for each prompt."""
        size = self.prompts_at_once
        batches = [prompts[start : start + size] for start in range(0, len(prompts), size)]
        key = self._key()

        def choices(batch: Sequence[str]) -> list[dict[str, Any]]:
            body = {"model": self.model, "prompt": list(batch), "temperature": 0, **options}
            return _ordered_choices(self._posted(client, body, key), len(batch))

        with Client(key, self.timeout, self.requests_at_once) as client:
            return [choice for made in client.map(choices, batches) for choice in made]

    def _key(self) -> Secret | None:
        """Return the key to send; that of an environment variable is read now."""
        if self.api_key_variable is not None:
            # the name is not shown: it may be a key, passed by mistake
            if self.api_key_variable not in os.environ:
                raise InputError("api_key_variable: the environment has no variable of this name")
            return checked_key("api_key_variable", os.environ[self.api_key_variable])
        if self.api_key is None:
            return None
        key = checked_key("api_key", self.api_key)
        if key.text is None:
            raise InputError(
                "api_key: this endpoint was pickled, which leaves the key out; give the name of "
                "an environment variable as api_key_variable instead"
            )
        return key

    def _posted(self, client: Client, body: dict[str, Any], key: Secret | None) -> dict[str, Any]:
        """Return the server's answer to a request, which is sent again if the server is busy."""
        address = f"{self.url.rstrip('/')}/completions"
        content = json.dumps(body).encode()
        for wait in (*WAITS, None):
            reply = client.post(address, content)
            if wait is None or reply.status not in BUSY or client.ended.wait(wait):
                break
        answer = reply.parsed(key)
        if isinstance(answer, str):
            raise ModelError(f"{address} {answer[:MAX_REASON]}")
        return answer


def _ordered_choices(answer: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the choices in a server's answer, in the order of the prompts, or raise."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(each, dict) for each in choices):
        raise ModelError("the server returned no list of choices")
    if len(choices) != count:
        raise ModelError(
            f"the server returned {len(choices)} choices for {count} prompts; try prompts_at_once=1"
        )
    places = [choice.get("index", place) for place, choice in enumerate(choices)]
    if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
        raise ModelError(
            f"the server returned choices whose indices are not 0 to {count - 1}, each once"
        )
    return [choices[places.index(place)] for place in range(count)]


def _answer_tokens(choice: dict[str, Any], prompt: str, answer: str) -> list[tuple[str, float]]:
    """Return the tokens of an answer in an echoed prompt, with their log-probabilities, or raise.

    The server's tokens may begin with one of its own, and end with one that it has generated. A
    letter of several tokens is not in their texts, so that only an answer without any is found.
    """
    tokens, found = _echoed(choice.get("logprobs"))
    if not tokens or len(tokens) != len(found):
        raise ModelError(
            "the server returned no log-probabilities of the prompt's own tokens; expected an "
            "endpoint that takes echo=true and logprobs=1, such as vLLM's"
        )
    text = "".join(tokens)
    whole = text.find(prompt + answer)
    end = whole + len(prompt + answer) if whole >= 0 else len(text)
    if not text[:end].endswith(answer):
        raise ModelError(
            f"the server's last tokens, {tokens[-5:]}, do not spell the answer {answer!r}; "
            "expected tokens as text, in the order of the prompt"
        )
    ends = np.cumsum(list(map(len, tokens)))
    starts = ends - list(map(len, tokens))
    own = np.flatnonzero((ends > end - len(answer)) & (starts < end)).tolist()
    scores = [found[token] for token in own]
    if None in scores:
        raise ModelError("the server returned no log-probability of an answer's first token")
    if not all(abs(score) <= sys.float_info.max for score in scores):
        raise ModelError("the server returned a log-probability that is no finite number")
    return [(tokens[token], float(score)) for token, score in zip(own, scores, strict=True)]


def _echoed(scores: Any) -> tuple[list[str], list[Any]]:
    """Return the tokens of an echoed prompt and their log-probabilities; two empty lists if none.

    The first log-probability is None, since nothing stands before that token.
    """
    scores = scores if isinstance(scores, dict) else {}
    tokens = scores.get("tokens")
    found = scores.get("token_logprobs")
    has_tokens = isinstance(tokens, list) and all(isinstance(each, str) for each in tokens)
    has_numbers = isinstance(found, list) and all(
        each is None or type(each) in (int, float) for each in found
    )
    return (tokens, found) if has_tokens and has_numbers else ([], [])


@dataclass(frozen=True)
class EndpointScorer:
    """The log-probability of each text's answer, asked of a server."""

    endpoint: CompletionEndpoint
    parts: Sequence[Parts]
    answers: Sequence[Answer]
    sums: Sequence[NDArray[np.float64]]  #: (a, k) for each text: which pieces add up to an output
    substitute: str | None  #: of an absent part; None: it is removed
    single: bool = True  #: whether there is one output, and no axis of outputs
    device = torch.device("cpu")

    def __call__(self, texts: NDArray[np.int64], coalitions: NDArray[np.bool_]) -> Tensor:
        """Map numbers of texts (n,) and coalitions of their parts (n, p) to (n,) or (n, k)."""
        numbers = texts.tolist()
        prompts = [self.inputs(text, own) for text, own in zip(numbers, coalitions, strict=True)]
        answers = [self.answers[text] for text in numbers]
        scored = self.endpoint.scored(prompts, [answer.text for answer in answers])
        outputs = np.stack(
            [
                _by_piece(tokens, answer) @ self.sums[text]
                for tokens, answer, text in zip(scored, answers, numbers, strict=True)
            ]
        )
        found = torch.from_numpy(outputs)
        return found[:, 0] if self.single else found

    def inputs(self, text: int, coalition: NDArray[np.bool_]) -> str:
        """Return a prompt with some of its parts."""
        return self.parts[text].text_with(coalition, self.substitute) or "\n"


def _by_piece(tokens: list[tuple[str, float]], answer: Answer) -> NDArray[np.float64]:
    """Return log-probabilities added up by the pieces of an answer, (a,).

    Without a part of the prompt, the answer may have other tokens: each counts for the piece that
    it begins in. The first may begin before the answer.
    """
    lengths = [len(token) for token, _ in tokens]
    starts = len(answer.text) - np.cumsum(lengths[::-1])[::-1]
    ends = np.cumsum([len(piece) for piece in answer.pieces])
    pieces = np.searchsorted(ends, starts, side="right")
    return np.bincount(
        pieces, weights=[score for _, score in tokens], minlength=len(answer.pieces)
    ).astype(np.float64)
