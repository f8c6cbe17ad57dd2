"""Served language models: log-probabilities of answers from any OpenAI-compatible server.

The endpoint `/completions` returns a prompt's own tokens with their log-probabilities if it is
asked to echo it, as vLLM and others are:

    request   {"prompt": ["Rome is in Italy", ...], "echo": true, "logprobs": 1, "max_tokens": 0}
    answer    {"choices": [{"index": 0, "logprobs": {"tokens": ["Rome", " is", " in", " Italy"],
                                                     "token_logprobs": [null, -3.1, -1.2, -0.4]}}]}

The tokens of the answer are those that spell it, after the prompt.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.texts import Parts
from shearshap.errors import InputError, ModelError
from shearshap.models.generation import Answer, chat_text

BUSY = (429, 500, 502, 503, 504)  #: status codes after which a request is sent again
TRIES = 4


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
        Sent as a bearer token; None sends nothing.
    tokenizer
        The model's tokenizer, for its chat template; only needed for chats.
    prompts_at_once
        Prompts per request.
    requests_at_once
        Requests at the same time.
    timeout
        Seconds to wait for an answer.
    """

    url: str
    model: str
    api_key: str | None = None
    tokenizer: Any = None
    prompts_at_once: int = 32
    requests_at_once: int = 8
    timeout: float = 120.0

    def __post_init__(self) -> None:
        """Raise if the address is not one of the web, or nothing may be sent."""
        if not str(self.url).startswith(("http://", "https://")):
            raise InputError(f"url: expected http://... or https://..., got {self.url!r}")
        for name in ("prompts_at_once", "requests_at_once"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected 1 or more, got {getattr(self, name)}")

    def __repr__(self) -> str:
        """Return the address and the model, and not the key."""
        return f"CompletionEndpoint({self.url!r}, {self.model!r})"

    def chat_text(self, messages: Any) -> str:
        """Return the text that the chat template makes of messages, ready for an answer."""
        return chat_text(self.tokenizer, messages)

    def completed(self, prompts: Sequence[str], most: int) -> list[str]:
        """Return what the model goes on with, greedily, in at most so many tokens."""
        choices = self._choices(prompts, {"max_tokens": most})
        return [str(choice["text"]) for choice in choices]

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

        def choices(batch: Sequence[str]) -> list[dict[str, Any]]:
            body = {"model": self.model, "prompt": list(batch), "temperature": 0, **options}
            made = self._posted(body).get("choices", [])
            if len(made) != len(batch):
                raise ModelError(
                    f"the server returned {len(made)} choices for {len(batch)} prompts; try "
                    "prompts_at_once=1"
                )
            return sorted(made, key=lambda choice: int(choice.get("index", 0)))

        with ThreadPoolExecutor(self.requests_at_once) as pool:
            return [choice for made in pool.map(choices, batches) for choice in made]

    def _posted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the server's answer to a request, which is sent again if the server is busy."""
        headers = {"Content-Type": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        address = f"{self.url.rstrip('/')}/completions"
        request = Request(address, json.dumps(body).encode(), headers)
        for wait in (*(2**number for number in range(TRIES - 1)), None):
            try:
                with urlopen(request, timeout=self.timeout) as answer:
                    return dict(json.load(answer))
            except (ValueError, TypeError) as error:
                raise ModelError(
                    f"{address} did not answer with a JSON object: {error}; is it the address of "
                    "an OpenAI-compatible server?"
                ) from error
            except HTTPError as error:
                if wait is None or error.code not in BUSY:
                    reason = error.read()[:300].decode(errors="replace")
                    raise ModelError(f"{address} answered {error.code}: {reason}") from error
            except (URLError, HTTPException, ConnectionError, TimeoutError) as error:
                if wait is None:
                    raise ModelError(f"{address} does not answer: {error}") from error
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")


def _answer_tokens(choice: dict[str, Any], prompt: str, answer: str) -> list[tuple[str, float]]:
    """Return the tokens of an answer in an echoed prompt, with their log-probabilities, or raise.

    The server's tokens may begin with one of its own, and end with one that it has generated. A
    letter of several tokens is not in their texts, so that only an answer without any is found.
    """
    scores = choice.get("logprobs") or {}
    tokens = list(scores.get("tokens") or [])
    found = list(scores.get("token_logprobs") or [])
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
    if any(found[token] is None for token in own):
        raise ModelError("the server returned no log-probability of an answer's first token")
    return [(str(tokens[token]), float(found[token])) for token in own]


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
