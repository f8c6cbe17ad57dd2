"""Served language models, by a server of our own that speaks the protocol."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from clock import join
from games import all_coalitions, exact_shares
from shearshap import CompletionEndpoint, Explainer, InputError, ModelError

PROMPT = "Rome is in Italy. Oslo is in Norway. Where?"


def tokens(text: str) -> list[str]:
    return re.findall(r"\s?\w+|\s?[^\w\s]|\s", text)


def score(before: list[str], token: str) -> float:
    """A log-probability that depends on the words before."""
    return -3.0 + 2.0 * before.count(token) - 0.5 * before.count(" Norway") - 0.01 * len(before)


class Stub(BaseHTTPRequestHandler):
    """Echoes prompts with log-probabilities, and completes with the first word."""

    requests: list[dict[str, Any]] = []  # noqa: RUF012
    busy = 0
    echoes = True
    written: Any = staticmethod(lambda words: words)  #: how it writes its tokens
    ends: list[str] = []  # noqa: RUF012  (tokens that it adds)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append(
            {**body, "path": self.path, "key": self.headers["Authorization"]}
        )
        if type(self).busy:
            type(self).busy -= 1
            self.send_error(503)
            return
        if body["model"] != "tiny":
            self.send_error(404, "there is no such model")
            return
        choices = []
        for number, prompt in enumerate(body["prompt"]):
            words = tokens(prompt)
            choice: dict[str, Any] = {"index": number, "text": " Italy, yes"}
            if body.get("echo") and type(self).echoes:
                scores = [score(words[:place], word) for place, word in enumerate(words)]
                shown = [*type(self).written(words), *type(self).ends]
                found = [None, *scores[1:], *(-50.0 for _ in type(self).ends)]
                choice["logprobs"] = {"tokens": shown, "token_logprobs": found}
            choices.append(choice)
        answer = json.dumps({"choices": choices[::-1]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(name="url")
def _url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(Stub, "requests", [])
    monkeypatch.setattr("shearshap.models.endpoint.WAITS", (0, 0, 0))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    join(thread)


def test_an_answer_against_all_coalitions(url: str) -> None:
    served = CompletionEndpoint(url, "tiny", api_key="secret", prompts_at_once=3)
    explainer = Explainer(served, groups="sentences", output="tokens")
    answer = explainer(PROMPT, answer=" Italy, Norway")
    parts = ["Rome is in Italy.", "Oslo is in Norway.", "Where?"]
    assert answer.feature_names == parts
    table = []
    for z in all_coalitions(3):
        left = " ".join(part for part, kept in zip(parts, z, strict=True) if kept)
        words = tokens(left or "\n")
        own = []
        for token in (" Italy", ",", " Norway"):
            own.append(score(words, token))
            words.append(token)
        table.append([sum(own), *own])
    for output, column in enumerate(np.array(table).T):
        np.testing.assert_allclose(answer.values[0, :, output], exact_shares(column), atol=1e-9)
    assert answer.output_names == ["answer", " Italy", ",", " Norway"]
    assert {request["key"] for request in Stub.requests} == {"Bearer secret"}
    assert {request["path"] for request in Stub.requests} == {"/v1/completions"}
    assert max(len(request["prompt"]) for request in Stub.requests) == 3
    assert "secret" not in repr(explainer)


def test_the_server_generates_and_is_asked_again_when_it_is_busy(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stub, "busy", 2)
    answer = Explainer(CompletionEndpoint(url, "tiny"), "...", groups="sentences")(PROMPT)
    assert answer.answers is not None
    assert answer.answers.tolist() == [" Italy, yes"]
    assert Stub.requests[0]["max_tokens"] == 64
    assert any(request["prompt"][0].startswith("... ... ...") for request in Stub.requests)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)


def test_what_a_server_may_lack(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="url: expected http"):
        CompletionEndpoint("localhost:8000", "tiny")
    with pytest.raises(ModelError, match="/v1/completions answered 404"):
        Explainer(CompletionEndpoint(url, "huge"))(PROMPT)
    with pytest.raises(InputError, match="a chat needs a tokenizer with a chat template"):
        Explainer(CompletionEndpoint(url, "tiny"))([[{"role": "user", "content": "Where?"}]])
    monkeypatch.setattr(Stub, "echoes", False)
    with pytest.raises(ModelError, match="expected an endpoint that takes echo=true"):
        Explainer(CompletionEndpoint(url, "tiny"))(PROMPT, answer=" Italy")
    with pytest.raises(ModelError, match="does not answer"):
        Explainer(CompletionEndpoint("http://127.0.0.1:9/v1", "tiny"))(PROMPT)


def test_a_token_that_the_server_adds_is_not_of_the_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = CompletionEndpoint(url, "tiny")
    usual = Explainer(served, groups="sentences")(PROMPT, answer=" In Norway")
    monkeypatch.setattr(Stub, "ends", [" and"])
    longer = Explainer(served, groups="sentences")(PROMPT, answer=" In Norway")
    np.testing.assert_allclose(longer.values, usual.values)


@pytest.mark.parametrize(
    "written",
    [
        lambda words: [f"token_id:{place}" for place, _ in enumerate(words)],
        lambda words: [word.replace(" ", "\u0120") for word in words],
    ],
)
def test_tokens_must_spell_the_answer(
    url: str, monkeypatch: pytest.MonkeyPatch, written: Any
) -> None:
    monkeypatch.setattr(Stub, "written", staticmethod(written))
    with pytest.raises(ModelError, match=r"do not spell the answer ' In Norway'"):
        Explainer(CompletionEndpoint(url, "tiny"))(PROMPT, answer=" In Norway")


def test_bad_endpoints(url: str) -> None:
    with pytest.raises(InputError, match="url: expected http"):
        CompletionEndpoint(None, "tiny")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="prompts_at_once: expected a positive integer, got 0"):
        CompletionEndpoint(url, "tiny", prompts_at_once=0)
    with pytest.raises(InputError, match="background='mask': this model has no tokenizer"):
        Explainer(CompletionEndpoint(url, "tiny"), "mask")(PROMPT, answer=" In")
