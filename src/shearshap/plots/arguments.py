"""Checks of the arguments that plots have in common."""

import numpy as np

from shearshap.errors import InputError
from shearshap.plots.canvas import shorten
from shearshap.result.explanation import Explanation

NAMED = 4  #: outputs that an error message lists


def single_output(explanation: Explanation, plot: str) -> Explanation:
    """Return the explanation without an axis of outputs; raise if it has several, or no rows."""
    check_explanation(explanation, plot)
    names = explanation.output_names
    if explanation.values.ndim == 3 and len(names) > 1:
        listed = [shorten(name) for name in names[:NAMED]]
        if len(names) > NAMED:
            listed.append("...")
        raise InputError(
            f"{plot} draws one output, this explanation has {len(names)} "
            f"({', '.join(listed)}); take explanation.output({names[0]!r})"
        )

    return explanation.output(0)


def check_explanation(explanation: object, plot: str) -> None:
    """Raise if something is not an explanation, or has no rows."""
    if not isinstance(explanation, Explanation):
        kind = type(explanation).__name__
        raise InputError(f"{plot}: wanted a shearshap.Explanation, got {kind}")
    if not len(explanation):
        raise InputError(f"{plot}: there is nothing to draw in an explanation of 0 rows")


def row_number(explanation: Explanation, row: int) -> int:
    """Return the number of a row, from 0."""
    rows = len(explanation)
    if not _is_integer(row) or not -rows <= row < rows:
        raise InputError(f"row: wanted a number from 0 to {rows - 1}, got {row!r}")
    return int(row) % rows


def positive_count(option: str, count: int) -> int:
    """Return how many things to show at most."""
    if not _is_integer(count) or count < 1:
        raise InputError(f"{option}: wanted a positive integer, got {count!r}")
    return int(count)


def player_number(explanation: Explanation, player: int | str, option: str) -> int:
    """Return the number of a player, from its name or number."""
    names = explanation.feature_names
    if isinstance(player, str) and player in names:
        return names.index(player)

    if not isinstance(player, str) and _is_integer(player) and -len(names) <= player < len(names):
        return int(player) % len(names)

    listed = ", ".join(names)
    last = len(names) - 1
    raise InputError(f"{option}: there is no player {player!r}; there are {listed} (0 to {last})")


def _is_integer(number: object) -> bool:
    """Return whether a number is an integer; Python counts True and False as integers, too."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)
