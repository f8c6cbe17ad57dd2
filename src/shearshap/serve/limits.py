"""How much a request may ask for, and how a request is refused.

A refusal says what was wanted, what came, and what to try:

    rows[0].age: wanted a whole number, got 'old'; try 39
"""

import json
from dataclasses import dataclass, field
from typing import Any

MAX_GRACE = 10.0  #: seconds
LONGEST = 80  #: characters of a request that a refusal repeats


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a service.

    Parameters
    ----------
    body
        Bytes of a request's body.
    rows
        Rows of one request.
    budget
        Model evaluations for one row; None: ten times the default budget.
    evaluations
        Model evaluations of one request, rows x budget. One row at the default budget is always
        accepted.
    requests
        Requests that are answered or wait at the same time; others are told to try again later.
    seconds
        How long a request may take, waiting included. After that its work ends.
    """

    body: int = 1 << 20
    rows: int = 1_000
    budget: int | None = None
    evaluations: int = 1_000_000
    requests: int = 1_000
    seconds: float = 30.0

    @property
    def grace(self) -> float:
        """Seconds that open requests have when the service stops, and then the block at work."""
        return min(MAX_GRACE, self.seconds / 2)


@dataclass
class Refusal(Exception):  # noqa: N818  (no error of ours)
    """A request that is refused."""

    status: int
    wanted: str
    got: str
    hint: str = ""  #: what to try
    where: str = ""  #: the place in the request
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The refusal in a sentence."""
        place = f"{self.where}: " if self.where else ""
        advice = f"; try {self.hint}" if self.hint else ""
        return f"{place}wanted {self.wanted}, got {self.got}{advice}"

    def __str__(self) -> str:
        return self.message

    def body(self) -> bytes:
        """Return the refusal as JSON."""
        content = {
            "error": self.message,
            "where": self.where,
            "wanted": self.wanted,
            "got": self.got,
            "try": self.hint,
        }
        return json.dumps(content).encode()


def shown(value: Any) -> str:
    """Return what came as a short text, to be repeated in a refusal."""
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = ascii(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
