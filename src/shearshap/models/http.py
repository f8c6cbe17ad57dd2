"""Requests to one server: JSON there and back, within limits, with a key that nothing shows.

A redirect to another origin (scheme, host and port) is refused: the request, and with it the
prompts and the key, would go to whoever the server names, whose reply would count as the server's.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from shearshap.errors import InputError, ModelError

if TYPE_CHECKING:
    import httpx

MAX_REDIRECTS = 5
MAX_REPLY = 1 << 28  #: bytes


class Secret:
    """A text that is sent, and shown nowhere: its `repr` is masked, and pickles leave it out.

    So it is masked in a dataclass that holds it, and in a traceback with local variables.
    """

    __slots__ = ("text",)

    text: str | None  #: None: it was left out of a pickle

    def __init__(self, text: str | None) -> None:
        self.text = text

    def masked(self, text: str) -> str:
        """Return a text without the secret, which a server may have repeated in it."""
        return text.replace(self.text, "***") if self.text else text

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


def checked_key(name: str, key: Any) -> Secret:
    """Return a key that can be sent in a header, or raise an error that does not show it."""
    if isinstance(key, Secret):
        return key
    if not isinstance(key, str) or not re.fullmatch("[!-~]+", key):
        raise InputError(f"{name}: expected ASCII characters without spaces and line breaks")
    return Secret(key)


def check_address(url: Any) -> None:
    """Raise if an address is not one of the web, or has parts that may hold a key."""
    import httpx

    text = str(url)
    if any(sign in text for sign in "@?#"):
        raise InputError(
            "url: expected an address without a user, a password and a query, since errors show "
            "it; give a key as api_key"
        )
    try:
        is_complete = text.startswith(("http://", "https://")) and bool(httpx.URL(text).host)
    except httpx.InvalidURL:
        is_complete = False
    if not is_complete:
        raise InputError(f"url: expected http://... or https://..., got {url!r}")


@dataclass(frozen=True)
class Reply:
    """What a server replied."""

    status: int | None  #: None: it did not, and `content` says why
    content: bytes = field(repr=False)

    def parsed(self, key: Secret | None) -> dict[str, Any] | str:
        """Return the JSON object that was replied, or what came instead, to follow an address."""
        if self.status is None:
            fault = f"does not answer: {self.content.decode()}"
        elif not 200 <= self.status < 300:
            fault = f"answered {self.status}: {self.content[:4096].decode(errors='replace')}"
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


def make_client(key: Secret | None, seconds: float, at_once: int) -> "httpx.Client":
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


def post(client: "httpx.Client", address: str, body: bytes, seconds: float) -> Reply:
    """Return the reply to a body of JSON.

    The errors of httpx hold the request, and so the key: none of them is raised further.
    """
    import httpx

    headers = {"Content-Type": "application/json"}
    request = client.build_request("POST", address, content=body, headers=headers)
    until = time.monotonic() + seconds
    try:
        return _followed(client, request, until)
    except (httpx.TransportError, TimeoutError) as error:
        return Reply(None, (str(error) or type(error).__name__).encode())


def _followed(client: "httpx.Client", request: "httpx.Request", until: float) -> Reply:
    """Return the reply to a request, or to the one that redirects of the same origin lead to."""
    first = request.url
    for _ in range(1 + MAX_REDIRECTS):
        response = client.send(request, stream=True, follow_redirects=False)
        try:
            if response.next_request is None:
                return Reply(response.status_code, _content(response, until))
            request = response.next_request
        finally:
            response.close()
        if _origin(request.url) != _origin(first):
            raise ModelError(
                f"{first} redirects to another server, {_origin(request.url)}, which is sent "
                "nothing; if that is the right one, give its address as the url"
            )
    raise ModelError(f"{first} redirects more than {MAX_REDIRECTS} times")


def _origin(url: "httpx.URL") -> str:
    """Return the scheme, host and port of an address; the scheme's usual port is left out."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _content(response: "httpx.Response", until: float) -> bytes:
    """Return the body of a response, or raise if it is too large, too late or compressed."""
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
        if time.monotonic() > until:
            raise TimeoutError("its answer was not complete in time")
    return bytes(content)
