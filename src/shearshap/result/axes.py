"""Declared axes: what each axis of a result's arrays stands for, and all that follows from it.

A result is a frozen dataclass. Each of its array fields declares its axes once, by their letters:

    values: Floats = field(metadata=axes("rpk"))

The letters are r rows, p players, s sets of players and k outputs. A result of one output has no k
axis. For 3 rows and 4 players the shapes are:

    letters   one output    2 outputs
    "rpk"     (3, 4)        (3, 4, 2)
    "rk"      (3,)          (3, 2)
    "rpp"     (3, 4, 4)     (3, 4, 4)

The first array field has all three letters; its shape sets the sizes. The other fields declare how
those of several parts become one, with `joined`, or that all parts have the `same`. Taking rows,
choosing an output, joining parts and checking shapes need nothing but these declarations.
"""

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from shearshap.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")

_AXES = "axes"  #: the key of an array field's `Axes` in its metadata
_JOIN = "join"  #: the key of the function that joins any other field
_SAME = "same"  #: the key of what a field is, in words, that all parts must share


@dataclass(frozen=True)
class Axes:
    """The axes of an array field, and how it is joined with those of other parts."""

    letters: str
    fill: Any  #: what stands for a player that a part does not have
    #: makes the array of a part that has none, to join it with parts that have one;
    #: None: if one part has no array, neither has the whole
    absent: Callable[[Any], NDArray[Any]] | None


def axes(
    letters: str, *, fill: Any = 0.0, absent: Callable[[Any], NDArray[Any]] | None = None
) -> dict[str, Axes]:
    """Return the metadata of an array field with these axes."""
    if not letters.startswith("r") or "k" in letters[:-1]:
        raise ValueError(f"axes: expected r first and k last, got {letters!r}")
    return {_AXES: Axes(letters, fill, absent)}


def joined(join: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """Return the metadata of any other field; `join` makes one of a list of the parts' fields."""
    return {_JOIN: join}


def same(what: str) -> dict[str, Any]:
    """Return the metadata of any other field that all parts must share, if they know it.

    `what` it is, in words.
    """
    return {_JOIN: _first_known, _SAME: what}


def _first_known(contents: list[Any]) -> Any:
    return next((content for content in contents if content is not None), None)


def check_same(parts: Sequence["DataclassInstance"]) -> None:
    """Raise if parts differ in a field that all must share."""
    for each in fields(parts[0]):
        if _SAME not in each.metadata:
            continue
        contents = [getattr(part, each.name) for part in parts]
        known = [content for content in contents if content is not None]
        other = next((content for content in known if content != known[0]), None)
        if other is not None:
            raise InputError(
                f"concat: expected parts with the same {each.metadata[_SAME]}; part "
                f"{contents.index(known[0])} has {known[0]!r}, part {contents.index(other)} "
                f"{other!r}"
            )


@cache
def declared(kind: "type[DataclassInstance]") -> dict[str, Axes]:
    """Return the axes of every array field of a kind of results, by its name."""
    return {each.name: each.metadata[_AXES] for each in fields(kind) if _AXES in each.metadata}


def arrays(result: "DataclassInstance") -> dict[str, tuple[str, NDArray[Any]]]:
    """Return the letters and the array of every array field that is not None, by its name."""
    contents = {
        name: (own.letters, getattr(result, name)) for name, own in declared(type(result)).items()
    }
    return {name: content for name, content in contents.items() if content[1] is not None}


def checked_sizes(result: "DataclassInstance") -> dict[str, int]:
    """Return the length of every axis, by its letter; there is no k with one output.

    Raise if an array's shape is not the one declared.
    """
    contents = arrays(result)
    for name, (_, array) in contents.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{name}: expected a numpy array, got {type(array).__name__}")

    name, (letters, first) = next(iter(contents.items()))
    if first.ndim not in (len(letters) - 1, len(letters)):
        raise InputError(f"{name}: expected an array (r, p) or (r, p, k), got shape {first.shape}")

    size = dict(zip(letters, first.shape, strict=False))
    for name, (letters, array) in contents.items():
        if letters[1:2] == "s":
            size.setdefault("s", array.shape[1])
        present = [letter for letter in letters if letter in size]
        wanted = tuple([size[letter] for letter in present])
        if array.shape != wanted:
            raise InputError(
                f"{name}: expected an array of shape {wanted}, that is ({', '.join(present)}), got "
                f"{array.shape}"
            )
    return size


def taken(result: "DataclassInstance", rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return the arrays of some of the rows, by name."""
    return {name: array[rows] for name, (_, array) in arrays(result).items()}


def of_output(result: "DataclassInstance", number: int | NDArray[np.int64]) -> dict[str, Any]:
    """Return one output's part of the arrays that have a k axis, by name.

    `number` may be one for each row, (r,).
    """
    rows = slice(None) if isinstance(number, int) else np.arange(len(number))
    return {
        name: array[rows, ..., number]
        for name, (letters, array) in arrays(result).items()
        if letters.endswith("k")
    }


# Several parts


def concat(parts: Sequence[Result]) -> Result:
    """Return the result of all parts' rows, one part after the other.

    Parts with fewer players than others have the fields' `fill` for those they lack.
    """
    firsts = [next(iter(arrays(part).values()))[1] for part in parts]
    players = [first.shape[1] for first in firsts]
    whole = {each.name: _whole(each, parts, players) for each in fields(parts[0])}
    return replace(parts[0], **whole)


def _whole(each: "Field[Any]", parts: Sequence["DataclassInstance"], players: Sequence[int]) -> Any:
    """Return a field of the whole; a field that declares nothing is that of the first part."""
    if _AXES in each.metadata:
        return _whole_array(each.name, each.metadata[_AXES], parts, players)
    contents = [getattr(part, each.name) for part in parts]
    join = each.metadata.get(_JOIN)
    return contents[0] if join is None else join(contents)


def _whole_array(
    name: str, own: Axes, parts: Sequence["DataclassInstance"], players: Sequence[int]
) -> NDArray[Any] | None:
    """Join parts, by their numbers of players, into an array of the whole."""
    contents = [getattr(part, name) for part in parts]
    lacking = [content is None for content in contents]
    if all(lacking) or (any(lacking) and own.absent is None):
        return None
    if own.absent is not None:
        contents = [
            own.absent(part) if content is None else content
            for part, content in zip(parts, contents, strict=True)
        ]

    if "s" in own.letters and min(players) < max(players):
        return None  # the sets of fewer players are others
    return _concatenated([_padded(content, own, max(players)) for content in contents])


def _padded(array: NDArray[Any], own: Axes, players: int) -> NDArray[Any]:
    """Return an array extended to a number of players.

    One row of 2 players, extended to 3; a dot is the fill:

        "rp"    a b  ->  a b .        "rpp"   a b  ->  a b .
                                              c d      c d .
                                                       . . .
    """
    lengths = zip(own.letters, array.shape, strict=False)
    shape = tuple(players if letter == "p" else length for letter, length in lengths)
    if shape == array.shape:
        return array
    whole = np.full(shape, own.fill, dtype=array.dtype)
    whole[tuple(slice(length) for length in array.shape)] = array
    return whole


def spread(result: Result, names: Sequence[str]) -> Result:
    """Return a result with all players of some names, in their order; those it lacks are filled."""
    own: list[str] = result.feature_names  # type: ignore[attr-defined]
    if own == list(names):
        return result
    place = [names.index(name) for name in own]
    fields: dict[str, Any] = {}
    for name, (letters, array) in arrays(result).items():
        for axis in range(min(len(letters), array.ndim)):
            if letters[axis] == "p":
                shape = (*array.shape[:axis], len(names), *array.shape[axis + 1 :])
                whole = np.full(shape, declared(type(result))[name].fill, dtype=array.dtype)
                whole[(slice(None),) * axis + (place,)] = array
                array = whole
        fields[name] = None if "s" in letters else array
    return replace(result, **fields, feature_names=list(names))


def _concatenated(contents: list[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays as one; labels of different kinds, such as 7 and "a", stay what they are."""
    kinds = {content.dtype.kind for content in contents}
    if len(kinds) > 1:
        # as objects: whole numbers beside floating ones would lose digits
        contents = [content.astype(object) for content in contents]
    if not _are_one_array(contents):
        return np.concatenate(contents)
    count = sum(len(content) for content in contents)
    return as_strided(contents[0], (count, *contents[0].shape[1:]), contents[0].strides)


def _are_one_array(contents: list[NDArray[Any]]) -> bool:
    """Return whether arrays of numbers are parts of one, each right after the one before."""
    first = contents[0]
    if first.base is None or first.dtype.kind not in "fib":
        return False
    alike = all(
        content.base is first.base
        and content.dtype == first.dtype
        and content.shape[1:] == first.shape[1:]
        and content.flags.c_contiguous
        for content in contents
    )
    starts = [content.ctypes.data for content in contents]
    ends = [content.ctypes.data + content.nbytes for content in contents]
    return alike and starts[1:] == ends[:-1]
