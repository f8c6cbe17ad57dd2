"""What to say of a name that is not known: which was meant, if one is near, and which there are."""

from collections.abc import Sequence
from difflib import get_close_matches

NEAR = 0.6  #: of difflib's ratio of equal letters: "sheer" is near "shear", "foo" near nothing
LISTED = 40  #: names that a message lists


def no_such(what: str, name: str, known: Sequence[str], *, where: object = None) -> str:
    """Return a message about a name that is not known, where it was looked for.

    no_such("method", "sheer", METHODS) is "there is no method 'sheer'; did you mean 'shear'? There
    are: auto, exact, ...".
    """
    names = ", ".join(known[:LISTED])
    if len(known) > LISTED:
        names += f" and {len(known) - LISTED} more"
    missing = f"there is no {what} {name!r}"
    if where is not None:
        missing += f" in {where}"
    near = nearest(name, known)
    if near is None:
        return f"{missing}; there are: {names}"
    return f"{missing}; did you mean {near!r}? There are: {names}"


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that a user may have meant, or None where none is near."""
    by_letters = {each.lower(): each for each in known}
    near = get_close_matches(name.lower()[:100], by_letters, n=1, cutoff=NEAR)
    return by_letters[near[0]] if near else None
