"""Who plays: each player owns one or more of the model's inputs.

A player may be a column, a one-hot block or a patch of an image. For d = 5 inputs:

    groups    {"age": [0], "city": [1, 2, 3], "sex": [4]}
    owner     0  1  1  1  2
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError

Columns = Sequence[int] | Sequence[str] | int | str | slice
Mask = NDArray[np.integer[Any]]
Groups = Mapping[Any, Columns] | Sequence[Columns] | Mask | tuple[Mask, ...] | None


def players(
    groups: Groups, shape: tuple[int, ...], columns: Sequence[str]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the player that owns each input, (d,), and the players' names, empty where unknown.

    `columns` are the inputs' names, or empty. Lists may hold names. Each input that a mapping
    leaves out is a player of its own.
    """
    if isinstance(groups, Mapping):
        inputs = int(np.prod(shape))
        numbered = {name: _numbered(group, columns, inputs) for name, group in groups.items()}
        complete = _completed(numbered, inputs, columns)
        return owners(complete, shape), [str(name) for name in complete]

    owner = owners(_numbered_lists(groups, shape, columns), shape)
    return owner, _names(owner, columns)


def owners(groups: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the player that owns each input, (d,), in the flattened order of the input's `shape`.

    `groups` is None (every input is a player), lists of flat input columns per player (or a mapping
    of such lists), or an integer mask of the input's shape with the number of each input's player.
    """
    inputs = int(np.prod(shape))
    if groups is None:
        return np.arange(inputs)

    if not isinstance(groups, Iterable):
        raise InputError(
            f"groups: wanted lists of columns or an integer mask of shape {shape}, got {groups!r}"
        )
    if isinstance(groups, Mapping):
        groups = groups.values()
    if not hasattr(groups, "shape"):
        groups = list(groups)

    if _is_mask(groups, shape):
        return _from_mask(np.asarray(groups), shape)
    return _from_lists([_columns(player, group) for player, group in enumerate(groups)], inputs)


# Names


def _numbered_lists(groups: Any, shape: tuple[int, ...], columns: Sequence[str]) -> Any:
    """Return lists of columns as numbers, where they hold names; anything else as it is."""
    if not isinstance(groups, Sequence):
        return groups
    if not any(isinstance(column, str) for group in groups for column in _listed(group)):
        return groups
    inputs = int(np.prod(shape))
    return [_numbered(group, columns, inputs) for group in groups]


def _listed(group: Any) -> Any:
    if isinstance(group, str):
        return [group]
    return group if isinstance(group, Iterable) else ()


def _numbered(group: Any, columns: Sequence[str], inputs: int) -> list[Any]:
    """Return a player's columns as numbers, where they are names or a slice."""
    if isinstance(group, slice):
        return list(range(*group.indices(inputs)))

    members = [group] if isinstance(group, str | int | np.integer) else group
    if not isinstance(members, Iterable):
        raise InputError(
            f"groups: a player's columns are a list of numbers or names, got {group!r}"
        )
    return [
        _column_number(member, columns) if isinstance(member, str) else member for member in members
    ]


def _column_number(name: str, columns: Sequence[str]) -> int:
    if name in columns:
        return columns.index(name)
    if columns:
        known = f"the rows have {', '.join(columns)}"
    else:
        known = "the rows' columns have no names; use numbers"
    raise InputError(f"groups: there is no column {name!r}; {known}")


def _completed(groups: dict[Any, Any], inputs: int, columns: Sequence[str]) -> dict[Any, Any]:
    """Return a mapping with a player for every input that it leaves out, in the inputs' order."""
    owned = {int(column) for group in groups.values() for column in np.ravel(group)}
    complete = dict(groups)
    for column in range(inputs):
        if column in owned:
            continue
        name = columns[column] if columns else f"x{column}"
        if name in groups:
            raise InputError(
                f"groups: player {name!r} leaves out the column of its own name; add it, or rename "
                "the player"
            )
        complete[name] = [column]
    return complete


def _names(owner: NDArray[np.int64], columns: Sequence[str]) -> list[str]:
    """Return a name for each player, made of its columns' names; none where those are unknown."""
    if not columns:
        return []
    names = []
    for player in range(int(owner.max()) + 1):
        own = [columns[int(column)] for column in np.flatnonzero(owner == player)]
        names.append(" + ".join(own) if len(own) <= 2 else f"{own[0]} + {len(own) - 1} more")
    return names


# Masks


def _is_mask(groups: Any, shape: tuple[int, ...]) -> bool:
    """Return whether groups are a mask.

    That is an array, a flat list of numbers, or nested lists of the input's shape.
    """
    if hasattr(groups, "shape"):
        return True
    if all(np.ndim(group) == 0 for group in groups):
        return True
    try:
        return len(shape) > 1 and np.shape(groups) == shape
    except ValueError:  # lists of several lengths
        return False


def _from_mask(mask: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
    if mask.shape == (1, *shape):  # as captum's masks are
        mask = mask[0]
    if mask.shape != shape or not np.issubdtype(mask.dtype, np.integer):
        raise InputError(
            f"groups: wanted lists of columns or an integer mask of shape {shape}, "
            f"got an array of {mask.dtype} of shape {mask.shape}"
        )

    owner = mask.reshape(-1).astype(np.int64)
    missing = np.setdiff1d(np.arange(owner.max() + 1), owner).tolist()
    if owner.min() < 0 or missing:
        raise InputError(
            "groups: a mask numbers its players 0, 1, 2, ... without gaps; "
            f"got {owner.min()} to {owner.max()} with {_shortened(missing)} missing"
        )
    return owner


# Lists


def _columns(player: int, group: Sequence[int]) -> NDArray[np.int64]:
    columns = np.asarray(group)
    if columns.ndim != 1 or columns.size == 0 or not np.issubdtype(columns.dtype, np.integer):
        raise InputError(
            f"groups: player {player} needs a list of input columns (integers), got {group!r}"
        )
    return columns.astype(np.int64)


def _from_lists(lists: list[NDArray[np.int64]], inputs: int) -> NDArray[np.int64]:
    columns = np.concatenate(lists)
    outside = columns[(columns < 0) | (columns >= inputs)]
    if outside.size:
        raise InputError(
            f"groups: there is no input column {outside[0]}; the rows have columns 0 to "
            f"{inputs - 1}"
        )

    claims = np.bincount(columns, minlength=inputs)
    if (claims > 1).any():
        raise _overlap(lists, int(claims.argmax()))
    if (claims == 0).any():
        missing = np.flatnonzero(claims == 0).tolist()
        raise InputError(
            f"groups are incomplete: input columns {_shortened(missing)} belong to no player; "
            "every column needs one (a player of its own will do)"
        )

    owner = np.empty(inputs, np.int64)
    for player, own in enumerate(lists):
        owner[own] = player
    return owner


def _overlap(lists: list[NDArray[np.int64]], column: int) -> InputError:
    """Return the error for a column that is listed twice."""
    players = [player for player, own in enumerate(lists) if column in own]
    if len(players) > 1:
        where = f"in the groups of players {players}"
    else:
        where = f"twice in the group of player {players[0]}"
    return InputError(f"groups overlap: input column {column} is {where}")


def _shortened(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) <= 8 else f"{numbers[:8]} and {len(numbers) - 8} more"
