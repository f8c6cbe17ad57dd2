"""Names of places: paths of this machine, and URLs of object stores and of HDFS.

    data = place("s3://bucket/rows")
    part = data / "part-000000.parquet"

`shearshap.apps.jobs.places` looks at them, reads and writes. The text of a `Url` is without its
keys and passwords, in whatever message it comes; `Url.address` is with them.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from shearshap.errors import InputError

OBJECT_STORES = ("s3", "gs", "gcs", "abfs", "abfss")
SCHEMES = (*OBJECT_STORES, "hdfs", "viewfs", "file")
SECRET = "***"  #: what stands for a key or a password

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
COLLAPSED_URL = re.compile(rf"({'|'.join(SCHEMES)}):/[^/]")  #: a URL that went through `Path`
URL_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"]+")
USER = re.compile(r"(?<=://).*:.*@")  #: with a password, in which a / may be by mistake
OPTION = re.compile(r"([?&])([^=&?]+)=([^&]*)")
PLAIN_OPTIONS = (
    "allow_bucket_creation", "allow_bucket_deletion", "enable_tls", "endpoint_override",
    "project_id", "region", "replication", "retry_limit_seconds", "scheme",
)  # fmt: skip
"""Options in a URL that are no secret; any other might be."""


@dataclass(frozen=True, repr=False)
class Url:
    """A file or folder in an object store or in HDFS, with the part of a path's interface we use.

    Its text is without keys and passwords, so that they are in no message; `address` has them.
    """

    scheme: str
    authority: str  #: the bucket, container or host, with the user or keys if they are given
    key: str = ""  #: the name below that, decoded; "" for the whole bucket
    query: str = ""  #: options for pyarrow

    def __str__(self) -> str:
        user, at, host = self.authority.rpartition("@")
        user = SECRET if ":" in user else user
        shown = replace(self, authority=f"{user}{at}{host}", query="").address
        return f"{shown}{_plain_options(f'?{self.query}')}" if self.query else shown

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def __truediv__(self, name: str) -> "Url":
        return replace(self, key=str(PurePosixPath(self.key) / name))

    @property
    def address(self) -> str:
        """The URL, with any keys and passwords, as `place` reads it again."""
        key = self.key.replace("%", "%25").replace("?", "%3F")
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.authority}{'/' if key else ''}{key}{query}"

    @property
    def name(self) -> str:
        """The last part, as of a path."""
        return PurePosixPath(self.key).name

    @property
    def suffix(self) -> str:
        """The ending of the name, as of a path."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> "Url":
        """The folder; that of a bucket is the bucket."""
        parent = PurePosixPath(self.key).parent.as_posix()
        return replace(self, key="" if parent == "." else parent)

    def with_name(self, name: str) -> "Url":
        """Return the place beside this one that has another name."""
        return replace(self, key=str(PurePosixPath(self.key).with_name(name)))

    def with_suffix(self, suffix: str) -> "Url":
        """Return the place whose name has another ending."""
        return replace(self, key=str(PurePosixPath(self.key).with_suffix(suffix)))

    def is_relative_to(self, folder: "Url") -> bool:
        """Return whether this is a folder, or is in it."""
        is_same_store = replace(self, key="") == replace(folder, key="")
        return is_same_store and PurePosixPath(self.key).is_relative_to(folder.key)

    def relative_to(self, folder: "Url") -> PurePosixPath:
        """Return the name of this below a folder."""
        if not self.is_relative_to(folder):
            raise ValueError(f"{self} is not in {folder}")
        return PurePosixPath(self.key).relative_to(folder.key)


Place = Path | Url


def place(text: "str | os.PathLike[str] | Url", what: str = "path") -> Place:
    """Return the place that a text names: a URL, or a path, which any other text is.

    `what` is the first word of every error.
    """
    if isinstance(text, Url):
        return text
    text = os.fspath(text)
    if not is_utf8(text):
        raise InputError(f"{what}: the name {text!r} is not UTF-8; rename it")
    url = URL.fullmatch(text)
    if url is not None:
        return _url(url[1].lower(), url[2], text, what)
    if COLLAPSED_URL.match(text) and not Path(text.partition("/")[0]).exists():
        raise InputError(
            f"{what}: expected a URL as text, got the path {text}; a Path cannot hold a URL"
        )
    return Path(text)


def _url(scheme: str, rest: str, text: str, what: str) -> Place:
    shown = without_secrets(text)
    if scheme not in SCHEMES:
        names = ", ".join(f"{name}://" for name in SCHEMES)
        raise InputError(f"{what}: expected a path or a URL that begins with {names}; got {shown}")
    address, _, query = rest.partition("?")
    authority, _, key = address.partition("/")
    try:
        key = unquote(key, errors="strict").rstrip("/")
    except UnicodeDecodeError as error:
        raise InputError(f"{what}: the name in {shown} is not UTF-8; rename it") from error
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise InputError(f"{what}: expected file:///folder/name, got {shown}")
        return Path(f"/{key}")
    host, has_port, port = authority.rpartition("@")[2].partition(":")
    if scheme in OBJECT_STORES and not host:
        raise InputError(f"{what}: there is no name of a bucket in {shown}")
    if (
        scheme in OBJECT_STORES
        and has_port
        and not (scheme.startswith("abfs") and port.isdecimal())
    ):
        # without the URL: what follows the colon may be a key
        raise InputError(
            f"{what}: cannot tell keys from the bucket in a URL of {scheme}://; write "
            f"{scheme}://KEY:SECRET@bucket/name, with %2F for a / in a key, or pass the keys by "
            "the environment"
        )
    if key and any(part in ("", ".", "..") for part in key.split("/")):
        raise InputError(f"{what}: expected names without //, /. and /.. in {shown}")
    return Url(scheme, authority, key, query)


def names_folder(text: object) -> bool:
    """Return whether a text ends in /, which says that it names a folder."""
    url = URL.fullmatch(str(text))
    name = str(text) if url is None else url[2].partition("?")[0]
    return name.endswith(("/", os.sep))


def is_utf8(name: str) -> bool:
    """Return whether a name of a file has a meaning as text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def without_secrets(text: object) -> str:
    """Return a text, such as a command, without the keys and passwords in its URLs."""

    def url(match: re.Match[str]) -> str:
        return _plain_options(USER.sub(f"{SECRET}@", match[0]))

    return URL_IN_TEXT.sub(url, str(text))


def _plain_options(query: str) -> str:
    """Return options without their values, but for those that are no secret."""

    def option(match: re.Match[str]) -> str:
        before, name, value = match.groups()
        return f"{before}{name}={value if name in PLAIN_OPTIONS else SECRET}"

    return OPTION.sub(option, query)
