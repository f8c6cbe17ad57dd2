"""The page of the service: one document with its style and script inside, which needs no others."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files

from shearshap.result.colours import DARK_LOWERS, DARK_PAGE, DARK_RAISES, LOWERS, PAGE, RAISES
from shearshap.result.text import digits_script


@dataclass(frozen=True)
class Document:
    """A page, and what a browser may do with it."""

    content: bytes
    policy: str  #: its Content-Security-Policy


def document() -> Document:
    """Return the page.

    Its policy allows this very style and script, by their hashes, and requests to the service.
    """
    folder = files("shearshap.serve")
    style = _colours() + (folder / "live.css").read_text(encoding="utf-8")
    script = digits_script() + (folder / "live.js").read_text(encoding="utf-8")
    frame = (folder / "live.html").read_text(encoding="utf-8")
    content = frame.replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return Document(content.encode(), policy)


def _colours() -> str:
    light = {**PAGE, "raises": RAISES, "lowers": LOWERS}
    dark = {**DARK_PAGE, "raises": DARK_RAISES, "lowers": DARK_LOWERS}
    prefers_dark = "@media (prefers-color-scheme: dark)"
    return f"{_root(light)}\n{prefers_dark} {{ {_root(dark)} }}\n"


def _root(colours: dict[str, str]) -> str:
    properties = " ".join(f"--{name}: {colour};" for name, colour in colours.items())
    return f":root {{ {properties} }}"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
