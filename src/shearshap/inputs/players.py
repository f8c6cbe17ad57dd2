"""Who plays: each player owns one or more of the model's inputs (a column, a one-hot block, a
patch).
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
    """Return the player that owns each input, and the players' names, as far as they are known
    (else none).

    `columns` are the inputs' names, or none. Lists may hold names; what a mapping leaves out is a
    player of its own.
    """
    inputs = int(np.prod(shape))
    if isinstance(groups, Mapping):
        groups = _completed(
            {key: _numbered(own, columns, inputs) for key, own in groups.items()}, shape, columns
        )
        return owners(groups, shape), [str(key) for key in groups]
    if isinstance(groups, Sequence) and any(
        isinstance(one, str) for own in groups for one in _listed(own)
    ):
        groups = [_numbered(own, columns, inputs) for own in groups]
    owner = owners(groups, shape)
    if not columns:
        return owner, []
    owned = [
        [columns[int(at)] for at in np.flatnonzero(owner == player)]
        for player in range(int(owner.max()) + 1)
    ]
    return owner, [_named(names) for names in owned]


def _listed(own: Any) -> Any:
    return [own] if isinstance(own, str) else own if isinstance(own, Iterable) else ()


def _numbered(own: Any, columns: Sequence[str], inputs: int) -> Any:
    """Return a player's columns as numbers, where they are given as names."""
    if isinstance(own, slice):
        return list(range(*own.indices(inputs)))
    wanted = [own] if isinstance(own, str | int | np.integer) else own
    if not isinstance(wanted, Iterable):
        raise InputError(f"groups: a player's columns are a list of numbers or names, got {own!r}")
    unknown = [one for one in _listed(wanted) if isinstance(one, str) and one not in columns]
    if unknown:
        among = (
            f"the rows have {', '.join(columns)}"
            if columns
            else "the rows' columns have no names; use numbers"
        )
        raise InputError(f"groups: there is no column {unknown[0]!r}; {among}")
    return [columns.index(one) if isinstance(one, str) else one for one in wanted]


def _completed(
    groups: dict[Any, Any], shape: tuple[int, ...], columns: Sequence[str]
) -> dict[Any, Any]:
    """Return a mapping with a player for every input that it leaves out, in the inputs' order."""
    claimed = {int(one) for own in groups.values() for one in np.ravel(own)}
    left = [at for at in range(int(np.prod(shape))) if at not in claimed]
    alone = {columns[at] if columns else f"x{at}": [at] for at in left}
    doubled = next((name for name in alone if name in groups), None)
    if doubled is not None:
        raise InputError(
            f"groups: player {doubled!r} leaves out the column of its own name; add it, or rename "
            "the player"
        )
    return {**groups, **alone}


def _named(names: list[str]) -> str:
    return " + ".join(names) if len(names) <= 2 else f"{names[0]} + {len(names) - 1} more"


def owners(groups: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the player that owns each input, (d,) in the flattened order of the input's `shape`.

    `groups` is None (every input is a player), lists of flat input columns per player (a mapping's
    values are its lists), or an integer mask of the input's shape that holds the player's number at
    each input.
    """
    inputs = int(np.prod(shape))
    if groups is None:
        return np.arange(inputs)
    if not isinstance(groups, Iterable):
        raise InputError(
            f"groups: wanted lists of columns or an integer mask of shape {shape}, got {groups!r}"
        )
    if not hasattr(groups, "shape"):
        groups = list(groups.values() if isinstance(groups, Mapping) else groups)
    if (
        hasattr(groups, "shape")
        or all(np.ndim(group) == 0 for group in groups)
        or _is_mask(groups, shape)
    ):
        return _from_mask(np.asarray(groups), shape)
    return _from_lists([_columns(player, group) for player, group in enumerate(groups)], inputs)


def _is_mask(groups: Any, shape: tuple[int, ...]) -> bool:
    """Return whether nested lists have the shape of an input of several dimensions."""
    try:
        return len(shape) > 1 and np.shape(groups) == shape
    except ValueError:
        return False


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
        column = int(claims.argmax())
        rivals = [player for player, owned in enumerate(lists) if column in owned]
        where = (
            f"in the groups of players {rivals}"
            if len(rivals) > 1
            else f"twice in the group of player {rivals[0]}"
        )
        raise InputError(f"groups overlap: input column {column} is {where}")
    if (claims == 0).any():
        missing = np.flatnonzero(claims == 0).tolist()
        raise InputError(
            f"groups are incomplete: input columns {_shorten(missing)} belong to no player; "
            "every column needs one (a player of its own will do)"
        )
    owner = np.empty(inputs, np.int64)
    owner[columns] = np.repeat(np.arange(len(lists)), [len(owned) for owned in lists])
    return owner


def _from_mask(mask: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
    if mask.shape == (1, *shape):  # as captum's masks are
        mask = mask[0]
    if mask.shape != shape or not np.issubdtype(mask.dtype, np.integer):
        raise InputError(
            f"groups: wanted lists of columns or an integer mask of shape {shape}, "
            f"got an array of {mask.dtype} of shape {mask.shape}"
        )
    owner = mask.reshape(-1).astype(np.int64)
    players = int(owner.max()) + 1
    absent = np.setdiff1d(np.arange(players), owner).tolist()
    if owner.min() < 0 or absent:
        raise InputError(
            "groups: a mask numbers its players 0, 1, 2, ... without gaps; "
            f"got {owner.min()} to {owner.max()} with {_shorten(absent)} missing"
        )
    return owner


def _shorten(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) <= 8 else f"{numbers[:8]} and {len(numbers) - 8} more"
