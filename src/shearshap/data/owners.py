"""Who owns which input: groups, as lists of columns or as a mask, for every input its player.

For d = 5 inputs, all of these are the same:

    lists     [[0], [1, 2, 3], [4]]
    mask      0  1  1  1  2
    owner     0  1  1  1  2
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError


def owners(groups: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the player that owns each input, (d,), in the flattened order of the input's `shape`.

    `groups` is None (every input is a player), lists of flat input columns per player (or a mapping
    of such lists), or an integer mask of the input's shape with the number of each input's player.
    Players are in the order of those numbers, which may start anywhere from 0 and have gaps.
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
        return _from_mask(as_mask(groups, shape))
    return _from_lists([_columns(player, group) for player, group in enumerate(groups)], inputs)


# Masks


def _is_mask(groups: Any, shape: tuple[int, ...]) -> bool:
    """Return whether groups are a mask.

    That is an array, a flat list of numbers, or nested lists of the input's shape; those of an
    image, also without its axis of channels.
    """
    if hasattr(groups, "shape"):
        return True
    if all(np.ndim(group) == 0 for group in groups):
        return True
    try:
        given = np.shape(groups)
    except ValueError:  # lists of several lengths
        return False
    if len(shape) > 1 and given == shape:
        return True
    # with a single channel, lists of columns may have this shape too
    has_channels = len(shape) == 3 and np.prod(given) < np.prod(shape)
    return has_channels and given in (shape[1:], shape[:-1])


def as_mask(mask: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return a mask in the input's shape, or raise with what is wrong.

    A mask of an image without its axis of channels, or with one of length 1, is that of every
    channel.
    """
    given = mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    numeric = given.dtype.kind in "biuf"
    whole = given.astype(np.int64) if numeric and np.isfinite(given).all() else None
    fitting = None if whole is None else _over_channels(whole, shape)
    if whole is None or fitting is None or not np.array_equal(whole, given):
        raise InputError(
            f"groups: wanted lists of columns or an integer mask of shape {shape}, "
            f"got an array of {given.dtype} of shape {given.shape}"
        )
    return fitting


def _over_channels(mask: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64] | None:
    """Return a mask in an input's shape; None where it is of another.

    For an image (c, h, w), a mask may be

        (c, h, w)    (1, h, w)    (h, w)      and for an image (h, w, c)
        (h, w, c)    (h, w, 1)    (h, w)

    and each of them may have an axis of length 1 before it, as captum's masks do.
    """
    if mask.ndim == len(shape) + 1 and len(mask) == 1:
        mask = mask[0]
    if mask.shape == shape:
        return mask
    if len(shape) != 3:
        return None

    is_first = mask.shape in (shape[1:], (1, *shape[1:]))
    is_last = mask.shape in (shape[:-1], (*shape[:-1], 1))
    if is_first and is_last:
        raise InputError(
            f"groups: a mask of shape {mask.shape} does not tell which axis of {shape} is that of "
            f"the channels; pass one of shape {shape}"
        )
    if is_first:
        return np.broadcast_to(mask, shape)
    if is_last:
        return np.broadcast_to(mask.reshape(*shape[:-1], 1), shape)
    return None


def _from_mask(mask: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the player that owns each input, (d,): the numbers 1, 1, 7, 3 are players 0 0 2 1."""
    lowest = int(mask.min())
    if lowest < 0:
        raise InputError(
            f"groups: a mask numbers its players from 0, or from 1, got {lowest} to "
            f"{int(mask.max())}"
        )
    _, owner = np.unique(mask.reshape(-1), return_inverse=True)
    return np.asarray(owner, dtype=np.int64).reshape(-1)


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
