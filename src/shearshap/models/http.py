"""Requests to one server: JSON there and back, within limits, with a key that nothing shows.

Limits hold for a request as a whole, whatever the server sends meanwhile, and Ctrl-C ends them all.

A redirect to another origin (scheme, host and port) is refused: the request, and with it the
prompts and the key, would go to whoever the server names, whose reply would count as the server's.
"""

import html
import json
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread, get_ident, local
from typing import TYPE_CHECKING, Any, Self

from shearshap.errors import InputError, ModelError

if TYPE_CHECKING:
    import httpx

MAX_REDIRECTS = 5
MAX_REPLY = 1 << 28  #: bytes
MAX_FAULT = 1 << 20  #: bytes that are read of another answer: more than is shown, or a key has
PIECE = 1 << 14  #: bytes that are sent before the time is looked at again
AWAKE_EVERY = 0.5  #: seconds, while the answers of threads are awaited
REFUSED = 0  #: instead of a status code: what was replied must not be followed


class Secret:
    """A text that is sent, and shown nowhere: its `repr` is masked, and pickles leave it out.

    So it is masked in a dataclass that holds it, and in a traceback with local variables.
    """

    __slots__ = ("text",)

    text: str | None  #: None: it was left out of a pickle

    def __init__(self, text: str | None) -> None:
        self.text = text

    def masked(self, text: str) -> str:
        """Return a text without the secret, which a server may have repeated, or escaped, in it."""
        if not self.text:
            return text
        return re.sub("".join(map(_written, self.text)), "***", text, flags=re.IGNORECASE)

    def __repr__(self) -> str:
        return "'***'"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[None]]:
        return type(self), (None,)


def _written(sign: str) -> str:
    """Return a pattern of a character as JSON, Python, addresses and HTML write it."""
    code = ord(sign)
    forms = [sign, f"u{code:04x}", f"x{code:02x}", f"%{code:02x}", html.escape(sign)]
    forms += [f"&#{code};", f"&#x{code:x};"]
    return rf"\\{{0,3}}(?:{'|'.join(map(re.escape, forms))})"


def checked_key(name: str, key: Any) -> Secret:
    """Return a key that can be sent in a header, or raise an error that does not show it."""
    if isinstance(key, Secret):
        return key
    if not isinstance(key, str) or not re.fullmatch("[!-~]+", key):
        raise InputError(f"{name}: expected ASCII characters without spaces and line breaks")
    return Secret(key)


def check_address(url: Any) -> None:
    """Raise if an address is not one of the web, or has parts that may hold a key."""
    text = str(url)
    if any(sign in text for sign in "@?#"):
        raise InputError(
            "url: expected an address without a user, a password and a query, since errors show "
            "it; give a key as api_key"
        )
    if not isinstance(url, str) or not _is_complete(url):
        raise InputError(f"url: expected http://... or https://..., got {url!r}")


def _is_complete(url: str) -> bool:
    """Return whether an address is one of the web, with a host that can be looked up."""
    import httpx

    try:
        parsed = httpx.URL(url)
        parsed.raw_host.decode("ascii").encode("idna")  # as the look-up does
        return parsed.scheme in ("http", "https") and bool(parsed.host)
    except (httpx.InvalidURL, UnicodeError):
        return False


@dataclass(frozen=True)
class Reply:
    """What a server replied."""

    status: int | None  #: None: it did not, or `REFUSED`, and `content` says why
    content: bytes = field(repr=False)

    def parsed(self, key: Secret | None) -> dict[str, Any] | str:
        """Return the JSON object that was replied, or what came instead, to follow an address."""
        if self.status is None:
            fault = f"does not answer: {self.content.decode()}"
        elif self.status == REFUSED:
            fault = self.content.decode()
        elif not 200 <= self.status < 300:
            fault = f"answered {self.status}: {self.content[:MAX_FAULT].decode(errors='replace')}"
        else:
            content = _json_object(self.content)
            if isinstance(content, dict):
                return content
            fault = (
                f"did not answer with a JSON object: {content}; is it the address of an "
                "OpenAI-compatible server?"
            )
        # a server may repeat the key
        return fault if key is None else key.masked(fault)


def _json_object(content: bytes) -> dict[str, Any] | str:
    """Return the JSON object that a content is, or why it is none."""
    try:
        found = json.loads(content)
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error)
    return found if isinstance(found, dict) else f"it is a {type(found).__name__}"


class Client:
    """Requests to a server from several threads; an error or Ctrl-C in its `with` ends all of them.

    httpx limits the time of each read by itself, so a server that sends a little again and again
    would never be late. Here all reads and writes of a request share its seconds.
    """

    def __init__(self, key: Secret | None, seconds: float, at_once: int) -> None:
        self.ended = Event()
        self._seconds = seconds
        self._httpx = _httpx_client(key, seconds, at_once)
        self._threads = ThreadPoolExecutor(at_once)
        self._own = local()  #: of a thread: `until`, the end of its request's time
        self._streams: dict[int, Any] = {}  #: of httpcore: the last that each thread used

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._close()
            return
        self.ended.set()
        for stream in list(self._streams.values()):
            with suppress(OSError):  # it is closed
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._threads.shutdown(wait=False, cancel_futures=True)
        # a thread may still wait for a connection
        Thread(target=self._close, daemon=True).start()

    def _close(self) -> None:
        self._threads.shutdown()
        self._httpx.close()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield what a function returns for each item, called by the client's threads."""
        futures = [self._threads.submit(function, item) for item in items]
        for future in futures:
            # a Ctrl-C that comes just before this sleeps would not wake it
            while not wait([future], timeout=AWAKE_EVERY).done:
                pass
            yield future.result()

    def post(self, address: str, body: bytes) -> Reply:
        """Return the reply to a body of JSON.

        The errors of httpx hold the request, and so the key: none of them is raised further.
        """
        import httpx

        self._own.until = time.monotonic() + self._seconds
        request = self._httpx.build_request(
            "POST",
            address,
            content=body,
            headers={"Content-Type": "application/json"},
            extensions={"trace": self._bound},
        )
        try:
            return _followed(self._httpx, request)
        except (httpx.TransportError, TimeoutError, UnicodeError) as error:
            return Reply(None, (str(error) or type(error).__name__).encode(errors="replace"))

    def _bound(self, event: str, happened: dict[str, Any]) -> None:
        """Bound the reads and writes of a connection, if one was opened."""
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        stream = happened["return_value"]
        read, write = stream.read, stream.write

        def bounded_read(max_bytes: int, timeout: float | None = None) -> Any:  # noqa: ARG001
            return read(max_bytes, self._seconds_left(stream))

        def bounded_write(buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG001
            for start in range(0, len(buffer), PIECE):
                write(buffer[start : start + PIECE], self._seconds_left(stream))

        stream.read = bounded_read
        stream.write = bounded_write

    def _seconds_left(self, stream: Any) -> float:
        """Return the seconds left to a thread that uses a stream, or raise."""
        self._streams[get_ident()] = stream
        left: float = self._own.until - time.monotonic()
        if left <= 0 or self.ended.is_set():
            raise TimeoutError("its answer was not complete in time")
        return left


def _httpx_client(key: Secret | None, seconds: float, at_once: int) -> "httpx.Client":
    """Return a client that sends a key, if there is one, by the proxies of the environment."""
    import httpx

    try:
        return httpx.Client(
            auth=None if key is None else _bearer(key),
            # a compressed reply can be much larger than what was received
            headers={"Accept-Encoding": "identity"},
            timeout=seconds,
            limits=httpx.Limits(max_connections=at_once),
        )
    except (ImportError, ValueError, httpx.InvalidURL):
        reason = "a proxy of the environment cannot be used"
    raise InputError(f"{reason}; check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY")


def _bearer(key: Secret) -> "Callable[[httpx.Request], httpx.Request]":
    def signed(request: "httpx.Request") -> "httpx.Request":
        request.headers["Authorization"] = f"Bearer {key.text}"
        return request

    return signed


def _followed(client: "httpx.Client", request: "httpx.Request") -> Reply:
    """Return the reply to a request, or to the one that redirects of the same origin lead to."""
    origin = _origin(request.url)
    for _ in range(1 + MAX_REDIRECTS):
        response = client.send(request, stream=True, follow_redirects=False)
        try:
            if response.next_request is None:
                return Reply(response.status_code, _content(response))
            request = response.next_request
        finally:
            response.close()
        other = _origin(request.url)
        if other != origin:
            return _refused(
                f"redirects to another server, {other}, which is sent nothing; if that is the "
                "right one, give its address as the url"
            )
    return _refused(f"redirects more than {MAX_REDIRECTS} times")


def _refused(reason: str) -> Reply:
    return Reply(REFUSED, reason.encode())


def _origin(url: "httpx.URL") -> str:
    """Return the scheme, host and port of an address; the scheme's usual port is left out."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _content(response: "httpx.Response") -> bytes:
    """Return the body of a response, or raise if it is too large or compressed."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ModelError("the server's answer is compressed, which was not asked for")
    content = bytearray()
    for piece in response.iter_raw():
        content += piece
        if len(content) > MAX_REPLY:
            raise ModelError(
                f"the server's answer has more than {MAX_REPLY >> 20} MiB; try a smaller "
                "prompts_at_once"
            )
    return bytes(content)
