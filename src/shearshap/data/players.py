"""The players and their names, from the user's groups, columns and names.

A player may be a column, a one-hot block or a patch of an image. For d = 5 inputs whose columns are
called age, rome, oslo, bern and sex:

    groups                                       players' names             owner
    None                                         age rome oslo bern sex     0  1  2  3  4
    {"city": ["rome", "oslo", "bern"]}           city age sex               1  0  0  0  2
    [[0, 4], [1, 2, 3]]                          age + sex, rome + 2 more   0  1  1  1  0
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError

Columns = Sequence[int] | Sequence[str] | int | str | slice
Mask = NDArray[np.integer[Any]]
Paths = tuple[tuple[str, ...], ...]
Linkage = NDArray[np.floating[Any]]
Groups = Mapping[Any, Any] | Linkage | Sequence[Columns] | Mask | tuple[Mask, ...] | None


@dataclass(frozen=True)
class Players:
    """The owner of every input, and the names of players and inputs."""

    owner: NDArray[np.int64]  #: (d,) the player that owns each input
    names: list[str]  #: of the players; empty if they are not known
    columns: Sequence[str]  #: the names of the inputs; empty if they are not known
    #: the groups that each player is in, from the largest to the smallest; None without any
    paths: Paths | None = None


@dataclass(frozen=True)
class Grouping:
    """The user's options on players: which inputs are theirs, and what all are called."""

    groups: Groups
    feature_names: Sequence[str] | None = None  #: one for each player, or one for each input
    columns: Sequence[str] = ()  #: the inputs' own names, as a frame has them

    def players(self, shape: tuple[int, ...]) -> Players:
        """Return the players of rows of a shape, under the names that the user gave."""
        if is_nested(self.groups):
            flat, paths = flattened(self.groups)
            players = replace(self, groups=flat).players(shape)
            # columns that the groups leave out come last, and are in none
            alone = int(players.owner.max()) + 1 - len(paths)
            every = (*paths, *((),) * alone)
            return replace(players, paths=every if any(every) else None)
        if is_linkage(self.groups):
            players = replace(self, groups=None).players(shape)
            names = players.names or [f"x{column}" for column in range(len(players.owner))]
            return replace(players, paths=_clusters(self.groups, names))
        if self.feature_names is None:
            owner, names = _owners_and_names(self.groups, shape, self.columns, self.columns)
            return Players(owner, names, self.columns)

        if isinstance(self.feature_names, str):
            raise InputError(f"feature_names: expected a list of names, got {self.feature_names!r}")
        inputs = int(np.prod(shape))
        given = [str(name) for name in self.feature_names]
        of_inputs = given if len(given) == inputs else []
        known = self.columns or of_inputs
        owner, names = _owners_and_names(self.groups, shape, known, of_inputs or known)
        count = int(owner.max()) + 1

        # one for each player and for each input: of the inputs only if the groups use them
        uses_them = not self.columns and _holds_names(self.groups)
        if len(given) == count and not uses_them:
            return Players(owner, given, self.columns)
        if of_inputs:
            return Players(owner, names, of_inputs)

        wanted = f"{count}, one for each feature"
        if count != inputs:
            wanted += f", or {inputs}, one for each input column"
        raise InputError(f"feature_names: expected {wanted}, got {len(given)}")


def _owners_and_names(
    groups: Any, shape: tuple[int, ...], columns: Sequence[str], shown: Sequence[str]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the player that owns each input, (d,), and the players' names, empty if unknown.

    `groups` is None (every input is a player), lists of input columns per player, a mapping of such
    lists by name, or an integer mask of the inputs' shape with the number of each input's player.
    `columns` are the inputs' names, or empty, by which lists may name them; `shown` are those that
    the players' names are made of.
    """
    inputs = int(np.prod(shape))
    if groups is None:
        return np.arange(inputs), list(shown)
    if isinstance(groups, Mapping):
        numbered = {name: _numbered(group, columns, inputs) for name, group in groups.items()}
        complete = _completed(numbered, inputs, shown)
        return _from_lists(list(complete.values()), inputs), [str(name) for name in complete]

    if not isinstance(groups, Iterable):
        raise InputError(
            f"groups: expected lists of columns or an integer mask of shape {shape}, got {groups!r}"
        )
    is_array = hasattr(groups, "shape")
    given = groups if is_array else list(groups)
    if is_array or all(isinstance(group, int | float | np.number) for group in given):
        owner = _from_mask(as_mask(given, shape))
    else:
        owner = _from_lists([_numbered(group, columns, inputs) for group in given], inputs)
    return owner, _names(owner, shown)


# Names


def _holds_names(groups: Any) -> bool:
    """Return whether groups, a mapping or lists, name any of the inputs."""
    lists = groups.values() if isinstance(groups, Mapping) else groups
    if not isinstance(groups, Mapping | Sequence):
        return False
    members = [[group] if isinstance(group, str | int | slice) else group for group in lists]
    return any(isinstance(column, str) for group in members for column in group)


def _numbered(group: Any, columns: Sequence[str], inputs: int) -> list[Any]:
    """Return a player's columns, which may be names or a slice, as numbers."""
    if isinstance(group, slice):
        return list(range(*group.indices(inputs)))

    members = [group] if isinstance(group, str | int | np.integer) else group
    if not isinstance(members, Iterable):
        raise InputError(f"groups: expected a list of column numbers or names, got {group!r}")
    return [_number(each, columns) if isinstance(each, str) else each for each in members]


def _number(name: str, columns: Sequence[str]) -> int:
    if name in columns:
        return columns.index(name)
    known = "the rows' columns have no names; use numbers"
    if columns:
        known = f"the rows have {', '.join(columns)}"
    raise InputError(f"groups: there is no column {name!r}; {known}")


def _completed(groups: dict[Any, Any], inputs: int, columns: Sequence[str]) -> dict[Any, Any]:
    """Return a mapping with a player for every input that it leaves out, in the inputs' order."""
    owned = {column for group in groups.values() for column in np.ravel(group).tolist()}
    complete = dict(groups)
    for column in range(inputs):
        if column in owned:
            continue
        name = columns[column] if columns else f"x{column}"
        if name in groups:
            raise InputError(
                f"groups: group {name!r} is named like a column outside it; add the column, or "
                "rename the group"
            )
        complete[name] = [column]
    return complete


def _names(owner: NDArray[np.int64], columns: Sequence[str]) -> list[str]:
    """Return a name for each player, made of its columns' names; none if those are unknown."""
    if not columns:
        return []
    names = []
    for player in range(int(owner.max()) + 1):
        own = [columns[int(column)] for column in np.flatnonzero(owner == player)]
        names.append(_joined_name(own))
    return names


def _joined_name(own: Sequence[str]) -> str:
    return " + ".join(own) if len(own) <= 2 else f"{own[0]} + {len(own) - 1} more"


# Hierarchies: groups within groups


def is_nested(groups: Any) -> bool:
    """Return whether groups are a mapping that has mappings, or columns by their names alone."""
    if not isinstance(groups, Mapping):
        return False
    return any(isinstance(each, Mapping) or each is None for each in groups.values())


def is_linkage(groups: Any) -> bool:
    """Return whether groups are a linkage matrix of SciPy, (d - 1, 4) of floats."""
    shape: Any = getattr(groups, "shape", ())
    return len(shape) == 2 and shape[1] == 4 and np.asarray(groups).dtype.kind == "f"


def flattened(groups: Any) -> tuple[dict[str, Any], Paths]:
    """Return the columns of each player by its name, and the groups that each is in.

    A mapping is a group. None stands for the column of that name:

        {"home": {"street": None, "rooms": [1, 2]}, "age": [3]}
        street ["street"], rooms [1, 2], age [3]    in    (home,), (home,), ()
    """
    flat: dict[str, Any] = {}
    paths: list[tuple[str, ...]] = []

    def add(group: Mapping[Any, Any], path: tuple[str, ...]) -> None:
        for key, inside in group.items():
            name = str(key)
            if isinstance(inside, Mapping):
                if not inside:
                    raise InputError(
                        f"groups: group {name!r} is empty; add columns or groups to it"
                    )
                add(inside, (*path, name))
                continue
            if name in flat:
                raise InputError(f"groups: two features are called {name!r}; rename one of them")
            flat[name] = [key] if inside is None else inside
            paths.append(path)

    add(groups, ())
    return flat, tuple(paths)


def _clusters(linkage: Any, names: Sequence[str]) -> Paths:
    """Return the clusters of a linkage matrix that each of its d columns is in.

    Row n joins two of the columns 0 ... d - 1 and clusters d, d + 1, ... to the cluster d + n.
    """
    count = len(names)
    joined = np.asarray(linkage)[:, :2]
    latest = count + np.arange(len(joined))[:, None]
    is_tree = (
        len(joined) == count - 1
        and np.isfinite(joined).all()
        and (joined < latest).all()
        and np.array_equal(np.sort(joined, axis=None), np.arange(2 * count - 2))
    )
    if not is_tree:
        raise InputError(
            f"groups: expected a linkage matrix of {count} columns, of shape ({count - 1}, 4), "
            f"that joins every column and cluster once; got one of shape ({joined.shape[0]}, 4) "
            "that does not; try scipy.cluster.hierarchy.linkage"
        )
    members = [[column] for column in range(count)]
    paths: list[list[str]] = [[] for _ in names]
    for pair in joined[:-1].astype(np.int64).tolist():
        cluster = sorted(column for part in pair for column in members[part])
        members.append(cluster)
        for column in cluster:
            paths[column].insert(0, _joined_name([names[each] for each in cluster]))
    return tuple(map(tuple, paths))


# Masks: the number of a player for every input


def patches(height: int, width: int, *, size: int | tuple[int, int]) -> NDArray[np.int64]:
    """Return a mask of an image's patches, for `groups` and `plots.image`.

    Patches are numbered line by line. `patches(4, 5, size=2)` has smaller patches at the edge:

        0 0 1 1 2
        0 0 1 1 2
        3 3 4 4 5
        3 3 4 4 5

    Parameters
    ----------
    height
        The height of the image, in pixels.
    width
        The width of the image, in pixels.
    size
        The side of a patch, in pixels, or its height and width.

    Returns
    -------
    array
        The number of each pixel's patch, (height, width).
    """
    sides = (size, size) if np.ndim(size) == 0 else tuple(np.ravel(size).tolist())
    lengths = (height, width, *sides)
    if len(lengths) != 4 or any(not isinstance(n, int | np.integer) or n < 1 for n in lengths):
        raise InputError(
            "patches: expected positive integers, such as patches(224, 224, size=16), got "
            f"patches({height!r}, {width!r}, size={size!r})"
        )
    down, across = (np.arange(n) // side for n, side in zip(lengths[:2], sides, strict=True))
    return np.asarray(down[:, None] * (across[-1] + 1) + across, dtype=np.int64)


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
            f"groups: expected lists of columns or an integer mask of shape {shape}, "
            f"got an array of {given.dtype} of shape {given.shape}"
        )
    return fitting


def _over_channels(mask: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64] | None:
    """Return a mask in an input's shape; None if it is of another.

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
            f"groups: a mask of shape {mask.shape} does not show which axis of {shape} holds the "
            f"channels; pass one of shape {shape}"
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
            f"groups: expected a mask with features numbered from 0 or 1, got {lowest} to "
            f"{int(mask.max())}"
        )
    _, owner = np.unique(mask.reshape(-1), return_inverse=True)
    return np.asarray(owner, dtype=np.int64).reshape(-1)


# Lists of columns, one for each player


def _from_lists(lists: list[list[Any]], inputs: int) -> NDArray[np.int64]:
    """Return the player that owns each input, (d,)."""
    arrays = [np.asarray(own) for own in lists]
    for player, own in enumerate(arrays):
        if not own.size or own.ndim != 1 or own.dtype.kind not in "iu":
            raise InputError(
                f"groups: group {player} needs a list of input columns (integers), got "
                f"{lists[player]!r}"
            )
    columns = np.concatenate(arrays).astype(np.int64)
    outside = columns[(columns < 0) | (columns >= inputs)]
    if outside.size:
        raise InputError(
            f"groups: there is no input column {outside[0]}; the rows have columns 0 to "
            f"{inputs - 1}"
        )

    claims = np.bincount(columns, minlength=inputs)
    if (claims > 1).any():
        column = int(claims.argmax())
        players = [player for player, own in enumerate(lists) if column in own]
        raise InputError(
            f"groups overlap: input column {column} is in groups {players}; list each column "
            "once, or pass a mask as an array"
        )
    if (claims == 0).any():
        missing = np.flatnonzero(claims == 0)
        raise InputError(
            f"groups are incomplete: input columns {missing[:8].tolist()} are not in any group "
            f"({missing.size} in all); put each into a group; a group may have one column"
        )

    owner = np.empty(inputs, np.int64)
    owner[columns] = np.repeat(np.arange(len(arrays)), [len(own) for own in arrays])
    return owner
