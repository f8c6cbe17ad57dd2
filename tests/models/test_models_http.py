"""What requests to a served language model give away, and what replies they accept."""

import copy
import html
import json
import logging
import os
import pickle
import signal
import sys
import threading
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf, nan
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest

from clock import PATIENCE, join
from shearshap import CompletionEndpoint, Explainer, Explanation, InputError, ModelError

KEY = "sk-Never/Shown+1"

Replies = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def reply(handler: BaseHTTPRequestHandler, status: int, content: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, header in headers.items():
        handler.send_header(name.replace("_", "-"), header)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def echo(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
    """Answer as a language model does that finds longer prompts more likely."""
    choices = [
        {
            "index": number,
            "text": " Yes",
            "logprobs": {"tokens": [prompt], "token_logprobs": [-1 / len(prompt)]},
        }
        for number, prompt in enumerate(body["prompt"])
    ]
    reply(handler, 200, json.dumps({"choices": choices}).encode())


class Served:
    """A server, and the paths and keys of the requests that it had."""

    def __init__(self, replies: Replies = echo) -> None:
        self.replies = replies
        self.requests: list[tuple[str, str | None]] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                served.requests.append((self.path, self.headers["Authorization"]))
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                served.replies(self, body)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = f"{self.origin}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        join(self.thread)


@pytest.fixture(name="serve")
def _serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("shearshap.models.endpoint.WAITS", (0, 0, 0))
    servers: list[Served] = []

    def serve(replies: Replies = echo) -> Served:
        servers.append(Served(replies))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


Serve = Callable[..., Served]


def explained(endpoint: CompletionEndpoint) -> Explanation:
    return Explainer(endpoint, groups="sentences")("Rome. Oslo.", answer=" Yes")


def failure(endpoint: CompletionEndpoint) -> str:
    """The text of the error that a call ends with; no traceback of it shows the key."""
    with pytest.raises((ModelError, InputError)) as raised:
        explained(endpoint)
    error: BaseException | None = raised.value
    while error is not None:
        assert KEY not in repr(vars(error))
        frames = traceback.TracebackException.from_exception(error, capture_locals=True)
        # this file's own variables aside
        ours = [frame for frame in frames.stack if frame.filename != __file__]
        assert not [frame for frame in ours if KEY in repr(frame.locals)]
        assert KEY not in "".join(frames.format_exception_only())
        error = error.__cause__ or error.__context__
    return str(raised.value)


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nothing_is_sent_to_another_server(serve: Serve, status: int) -> None:
    other = serve()
    asked = serve(lambda to, _: reply(to, status, b"", Location=f"{other.url}/completions"))
    text = failure(CompletionEndpoint(asked.url, "m", KEY))
    assert "redirects to another server" in text
    assert other.origin in text
    assert other.requests == []
    assert asked.requests == [("/v1/completions", f"Bearer {KEY}")]


@pytest.mark.parametrize(
    "location", ["https://127.0.0.1:{}/v1", "http://localhost:{}/v1", "//b.test/v1"]
)
def test_scheme_and_host_are_of_the_origin_too(serve: Serve, location: str) -> None:
    def elsewhere(handler: BaseHTTPRequestHandler, _: Any) -> None:
        port = handler.headers["Host"].rpartition(":")[2]
        reply(handler, 307, b"", Location=location.format(port))

    asked = serve(elsewhere)
    assert "redirects to another server" in failure(CompletionEndpoint(asked.url, "m", KEY))
    assert len(asked.requests) == 1


def test_redirects_of_the_same_server_are_followed(serve: Serve) -> None:
    def moved(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if handler.path.startswith("/new"):
            echo(handler, body)
        else:
            reply(handler, 307, b"", Location="/new/completions")

    asked = serve(moved)
    direct = explained(CompletionEndpoint(serve().url, "m"))
    found = explained(CompletionEndpoint(asked.url, "m", KEY))
    assert found.values.tolist() == direct.values.tolist()
    assert ("/new/completions", f"Bearer {KEY}") in asked.requests

    around = serve(lambda to, _: reply(to, 308, b"", Location="/v1/completions"))
    assert "redirects more than 5 times" in failure(CompletionEndpoint(around.url, "m", KEY))
    assert len(around.requests) == 6


# The key


def test_the_key_is_shown_nowhere(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint = CompletionEndpoint(serve().url, "m", KEY)
    found = explained(endpoint)
    found.save(tmp_path / "found.npz")
    with zipfile.ZipFile(tmp_path / "found.npz") as archive:
        saved = b"".join(archive.read(name) for name in archive.namelist())
    shown = [repr(endpoint), str(endpoint), str(asdict(endpoint)), str(vars(endpoint)), repr(found)]
    shown += [caplog.text, *found.notes, saved.decode("latin-1"), repr(Explainer(endpoint))]
    assert not [text for text in shown if KEY in text]
    assert KEY.encode() not in pickle.dumps(endpoint)
    assert (
        replace(endpoint, model="n").api_key == copy.deepcopy(endpoint).api_key == endpoint.api_key
    )


@pytest.mark.parametrize("status", [200, 401, 503])
def test_no_error_repeats_the_key_that_a_server_repeats(serve: Serve, status: int) -> None:
    asked = serve(lambda to, _: reply(to, status, f"no such key: {KEY}".encode()))
    text = failure(CompletionEndpoint(asked.url, "m", KEY))
    if status == 200:
        assert "did not answer with a JSON object" in text
    else:
        assert f"/v1/completions answered {status}: no such key: ***" in text


@pytest.mark.parametrize("form", [json.dumps, "{!r}".format, quote_plus, html.escape, str.upper])
def test_no_error_repeats_the_key_in_other_forms(serve: Serve, form: Callable[[str], str]) -> None:
    key = "sk-A/B\\C'D\"E&F"
    escaped = form(key).strip("'\"").replace("/", "\\/")
    asked = serve(lambda to, _: reply(to, 401, f"a {escaped} key".encode()))
    assert failure(CompletionEndpoint(asked.url, "m", key)).endswith("answered 401: a *** key")


def test_an_answer_of_keys_is_not_cut_in_one_of_them(serve: Serve) -> None:
    key = "0123456789" * 30
    asked = serve(lambda to, _: reply(to, 401, 100 * key.encode()))
    assert "012" not in failure(CompletionEndpoint(asked.url, "m", key)).partition("401")[2]


def test_a_long_answer_is_searched_at_once(serve: Serve) -> None:
    asked = serve(lambda to, _: reply(to, 401, b"\\" * (1 << 20)))
    assert "answered 401" in failure(CompletionEndpoint(asked.url, "m", KEY))


def test_no_redirect_shows_the_key(serve: Serve) -> None:
    key = "sk-Host123"
    asked = serve(lambda to, _: reply(to, 307, b"", Location=f"http://{key}.test/"))
    text = failure(CompletionEndpoint(asked.url, "m", key))
    assert "redirects to another server, http://***.test, which" in text


def test_the_key_of_a_server_that_is_not_there(serve: Serve) -> None:
    asked = serve()
    asked.server.server_close()
    assert "does not answer" in failure(CompletionEndpoint(asked.url, "m", KEY))


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY} b", f"{KEY}\xe9", "", 7])
def test_keys_that_no_header_can_hold(key: Any) -> None:
    with pytest.raises(InputError, match="api_key: expected ASCII characters") as raised:
        CompletionEndpoint("http://localhost", "m", key)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("url", [f"http://me:{KEY}@localhost/v1", f"http://localhost/v1?key={KEY}"])
def test_addresses_hold_no_key(url: str) -> None:
    with pytest.raises(InputError, match="url: expected an address without a user") as raised:
        CompletionEndpoint(url, "m")
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        *("http://", "http://[::1", "ftp://localhost", "localhost"),
        *("http://a..b", "http://xn--/", f"http://{'a' * 300}", httpx.URL("http://localhost")),
    ],
)
def test_addresses_that_are_none(url: Any) -> None:
    with pytest.raises(InputError, match="url: expected http"):
        CompletionEndpoint(url, "m")


def test_the_scheme_may_be_in_capitals(serve: Serve) -> None:
    asked = serve()
    explained(CompletionEndpoint(asked.url.replace("http", "HTTP"), "m"))
    assert asked.requests


@pytest.mark.parametrize(
    ("name", "given"),
    [("timeout", each) for each in (None, "5", 0, -1, nan, inf, 1e300, True)]
    + [("prompts_at_once", each) for each in ("3", None, 1.5, nan, True)]
    + [("requests_at_once", each) for each in ("3", None, 1.5, nan, 0)]
    + [("model", object()), ("api_key_variable", 5)],
)
def test_options_that_are_none(name: str, given: Any) -> None:
    with pytest.raises(InputError, match=f"^{name}: expected "):
        CompletionEndpoint(**{"url": "http://localhost", "model": "m", name: given})


def test_the_key_of_an_environment_variable(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve()
    endpoint = CompletionEndpoint(asked.url, "m", api_key_variable="OUR_KEY")
    assert "the environment has no variable of this name" in failure(endpoint)
    for key in (KEY, "another"):
        monkeypatch.setenv("OUR_KEY", key)
        explained(pickle.loads(pickle.dumps(endpoint)))
        assert {each for _, each in asked.requests} == {f"Bearer {key}"}
        asked.requests.clear()
    monkeypatch.setenv("OUR_KEY", f"{KEY}\n")
    with pytest.raises(InputError, match="api_key_variable: expected ASCII") as raised:
        explained(endpoint)
    assert KEY not in str(raised.value)
    with pytest.raises(InputError, match="either this or api_key_variable"):
        CompletionEndpoint(asked.url, "m", KEY, api_key_variable="OUR_KEY")


def test_a_pickled_endpoint_says_that_its_key_is_left_out(serve: Serve) -> None:
    asked = serve()
    endpoint = pickle.loads(pickle.dumps(CompletionEndpoint(asked.url, "m", KEY)))
    assert "was pickled, which leaves the key out" in failure(endpoint)
    assert asked.requests == []


# Replies


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<html>", "not answer with a JSON object: Expecting value"),
        (b"[1]", "JSON object: it is a list"),
        (b'"\xff"', "JSON object: 'utf-8' codec"),
        (b'{"choices":' + b"[" * 200_000, "JSON object: it is nested too deeply"),
        (b"{}", "returned no list of choices"),
        (b'{"choices": {"a": 1, "b": 2}}', "returned no list of choices"),
        (b'{"choices": [7]}', "returned no list of choices"),
        (b'{"choices": []}', "returned 0 choices for"),
        (b'{"choices": [{"index": "x"}]}', "whose indices are not 0 to 0"),
        (b'{"choices": [{"index": 1}]}', "whose indices are not 0 to 0"),
        (b'{"choices": [{"index": []}]}', "whose indices are not 0 to 0"),
        (b'{"choices": [{"logprobs": [1]}]}', "no log-probabilities"),
        (b'{"choices": [{"logprobs": {"tokens": [1], "token_logprobs": [-1]}}]}', "no log-prob"),
        (b'{"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": ["b"]}}]}', "no log-prob"),
    ],
)  # fmt: skip
def test_replies_that_are_no_answers(serve: Serve, content: bytes, expected: str) -> None:
    asked = serve(lambda to, _: reply(to, 200, content))
    assert expected in failure(CompletionEndpoint(asked.url, "m", KEY, prompts_at_once=1))


@pytest.mark.parametrize("score", ["-1" + "0" * 400, "NaN", "-Infinity"])
def test_scores_that_are_no_finite_numbers(serve: Serve, score: str) -> None:
    def odd(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        tokens = json.dumps(body["prompt"])
        choice = f'{{"logprobs": {{"tokens": {tokens}, "token_logprobs": [{score}]}}}}'
        reply(handler, 200, f'{{"choices": [{choice}]}}'.encode())

    asked = serve(odd)
    text = failure(CompletionEndpoint(asked.url, "m", KEY, prompts_at_once=1))
    assert "log-probability that is no finite number" in text


@pytest.mark.parametrize("places", [(1, 1), (7, -3), (0, None), (0, True)])
def test_choices_of_no_order(serve: Serve, places: tuple[Any, Any]) -> None:
    choices = [{"index": place, "text": " Yes"} for place in places]
    asked = serve(lambda to, _: reply(to, 200, json.dumps({"choices": choices}).encode()))
    with pytest.raises(ModelError, match="whose indices are not 0 to 1, each once"):
        Explainer(CompletionEndpoint(asked.url, "m"))(["Rome.", "Oslo."])


def test_a_choice_without_a_text(serve: Serve) -> None:
    asked = serve(lambda to, _: reply(to, 200, b'{"choices": [{"index": 0}]}'))
    with pytest.raises(ModelError, match="a choice without a text"):
        Explainer(CompletionEndpoint(asked.url, "m"))("Rome.")


def test_large_and_compressed_replies(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shearshap.models.http.MAX_REPLY", 3 << 20)
    large = serve(lambda to, _: reply(to, 200, b" " * (4 << 20)))
    assert "answer has more than 3 MiB" in failure(CompletionEndpoint(large.url, "m", KEY))
    packed = serve(lambda to, _: reply(to, 200, b"x", Content_Encoding="gzip"))
    assert "answer is compressed" in failure(CompletionEndpoint(packed.url, "m", KEY))


@pytest.mark.parametrize("starts", [False, True])
def test_replies_that_do_not_end(serve: Serve, starts: bool) -> None:
    is_over = threading.Event()

    def slow(handler: BaseHTTPRequestHandler, _: Any) -> None:
        if starts:
            handler.send_response(200)
            handler.end_headers()
        while starts and not is_over.wait(0.01):
            try:
                handler.wfile.write(b" ")  # often enough for a limit on the time between two pieces
            except OSError:
                return
        is_over.wait(PATIENCE)

    asked = serve(slow)
    text = failure(CompletionEndpoint(asked.url, "m", KEY, timeout=0.1))
    is_over.set()
    assert "does not answer: " in text
    assert len(asked.requests) == 4


@pytest.mark.parametrize("piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_reply_that_does_not_begin(serve: Serve, piece: bytes) -> None:
    is_over = threading.Event()

    def slow(handler: BaseHTTPRequestHandler, _: Any) -> None:
        with suppress(OSError):
            while not is_over.wait(0.01):
                handler.wfile.write(piece)

    asked = serve(slow)
    text = failure(CompletionEndpoint(asked.url, "m", KEY, timeout=0.1))
    is_over.set()
    assert "does not answer: " in text


@pytest.mark.skipif(os.name == "nt", reason="Windows interrupts in another way")
def test_control_c_ends_a_call_to_a_silent_server(serve: Serve) -> None:
    is_over = threading.Event()

    def silent(*_: Any) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        is_over.wait(PATIENCE)

    asked = serve(silent)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        explained(CompletionEndpoint(asked.url, "m", KEY, timeout=10 * PATIENCE))
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("ThreadPoolExecutor"):
            join(thread)
    is_over.set()
    assert len(asked.requests) == 1


# Around it


def test_proxies_of_the_environment(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve()
    monkeypatch.delenv("NO_PROXY")
    for name in ("no_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy.origin)
    explained(CompletionEndpoint("http://models.test/v1", "m", KEY))
    assert {path for path, _ in proxy.requests} == {"http://models.test/v1/completions"}
    monkeypatch.setenv("http_proxy", f"gopher://me:{KEY}@127.0.0.1")
    text = failure(CompletionEndpoint("http://models.test/v1", "m"))
    assert text.startswith("a proxy of the environment cannot be used")


def test_without_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(InputError, match=r"needs httpx: pip install 'shearshap\[endpoint\]'"):
        CompletionEndpoint("http://localhost", "m")
