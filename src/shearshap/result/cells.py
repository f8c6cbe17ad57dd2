"""What rows hold: labels, cells and words, and which of them are missing.

When several texts are explained together, a place is not the same word in all of them, and a
shorter text lacks some features; these are its padding:

    word 0   word 1    word 2   word 3
    so       lovely                        two words, and two features of padding
    the      acting    was      lovely

By word, `lovely` is one feature. A word that a text lacks is padding of that text.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.result import axes

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIRROR = 1e-4  #: of the spread of values: how far two outputs may be from mirroring each other
ROUNDING = 1e-6  #: of the largest prediction, in single precision
MAX_OUTPUTS = 4  #: outputs that a table shows below each other, if they are no classes
PLACE = re.compile(
    r"(token|word|sentence|line|paragraph|part) \d+"
)  #: the name of a feature that is a place in a text


# Labels


def label_array(labels: Iterable[Any]) -> NDArray[Any]:
    """Return labels (r,) of pandas, polars, pyarrow, numpy or a list as an array.

    Numbers, texts and times have an array of their own type. Anything else is an array of objects:
    tuples, of which numpy would make a second axis; labels of several kinds; and columns with
    missing labels, in which whole numbers would become floating ones and lose digits.
    """
    if isinstance(labels, np.ndarray):
        return labels
    # an Index or a Series of pandas; an index of several levels has tuples
    if hasattr(labels, "isna") and getattr(labels, "nlevels", 1) == 1 and not labels.isna().any():
        return np.asarray(labels.to_numpy())  # type: ignore[attr-defined]

    convert = getattr(labels, "to_pylist", None) or getattr(labels, "tolist", None)
    every = list(labels) if convert is None else convert()
    if not every and hasattr(labels, "to_numpy"):
        return np.asarray(labels.to_numpy())
    types = {type(label) for label in every}
    if len(types) == 1 and types <= {bool, int, float, str}:
        return np.asarray(every)
    objects = np.empty(len(every), dtype=object)
    objects[:] = every
    return objects


def is_missing(content: object) -> bool:
    """Return whether a label or a cell is empty: None, NaN, or pandas' NaT and NA."""
    if isinstance(content, str):
        return False
    return content is None or str(content) in ("nan", "NaN", "NaT", "<NA>")


def label_text(label: object) -> str:
    """Return a label or a cell as text."""
    return "missing" if is_missing(label) else str(label)


def cells_of(explanation: "Explanation", player: int) -> NDArray[Any] | None:
    """Return a feature's cells (r,) as people read them, or their numbers; None without data."""
    table: NDArray[Any] | None = explanation.display_data
    if table is None:
        table = explanation.data
    return None if table is None else table[:, player]


# Which of several outputs to show


def mirrors(first: Floats, second: Floats, rounding: float = 0.0) -> bool:
    """Return whether two arrays are each other's negatives, up to 1e-4 of their spread."""
    spread = max(array.max(initial=0.0) - array.min(initial=0.0) for array in (first, second))
    return bool(np.abs(first + second).max(initial=0.0) <= MIRROR * spread + rounding)


def without_mirror(explanation: "Explanation") -> "Explanation":
    """Return the second of two outputs that mirror each other, as two classes do; else all."""
    if explanation.values.ndim == 2 or explanation.values.shape[2] != 2:
        return explanation
    first, second = np.moveaxis(explanation.values, 2, 0)
    rounding = ROUNDING * float(np.abs(explanation.predictions).max(initial=0.0))
    return explanation.output(1) if mirrors(first, second, rounding) else explanation


def main_output(explanation: "Explanation") -> "Explanation":
    """Return the output that a plot of one draws: a whole answer, or the second of two classes.

    If there is none such, return all outputs.
    """
    if explanation.answers is not None and len(explanation.output_names) > 1:
        return explanation.output(0)  # the others are its tokens or sentences
    return without_mirror(explanation)


def are_classes(predictions: Floats) -> bool:
    """Return whether outputs (r, k) are probabilities of classes of which one is true."""
    lowest = predictions.min(initial=0.0)
    return bool(lowest >= -1e-6 and np.allclose(predictions.sum(axis=1), 1, atol=1e-3))


def has_classes(explanation: "Explanation") -> bool:
    """Return whether there are three or more outputs, which are classes."""
    if explanation.predictions.ndim == 1 or explanation.predictions.shape[1] < 3:
        return False
    return explanation.scale in ("log-odds", "margin") or are_classes(explanation.predictions)


def predicted_outputs(explanation: "Explanation") -> Ints | None:
    """Return the output to show of each row, (r,): its predicted class; None: show all outputs.

    Of more than MAX_OUTPUTS outputs that may not be classes, it is the highest.
    """
    if explanation.answers is not None and explanation.answers.ndim == 2:
        return np.zeros(len(explanation), dtype=np.int64)  # the whole answer
    if not has_classes(explanation) and len(explanation.output_names) <= MAX_OUTPUTS:
        return None
    return np.asarray(explanation.predictions.argmax(axis=1))


# Texts, by their words


def has_places(explanation: "Explanation") -> bool:
    """Return whether players are places in texts, and not the words there."""
    if explanation.display_data is None or explanation.data is not None:
        return False
    return all(PLACE.fullmatch(name) for name in explanation.feature_names)


def padding(explanation: "Explanation") -> NDArray[np.bool_]:
    """Return which players a row does not have, (r, p): those of texts that are longer."""
    if explanation.display_data is None or explanation.data is not None:
        return np.zeros(explanation.values.shape[:2], dtype=bool)
    return np.asarray(explanation.display_data == "", dtype=bool)


def same_players(explanation: "Explanation") -> "Explanation":
    """Return an explanation whose players are the same thing in all rows: texts, by word."""
    return by_word(explanation) if has_places(explanation) else explanation


def text_of_row(explanation: "Explanation", row: int) -> "Explanation":
    """Return the explanation of one text, without padding; its players are named by their words."""
    one = explanation[row]
    assert one.display_data is not None, "places in texts have words"

    present = np.flatnonzero(~padding(one)[0])
    words = [str(word) for word in one.display_data[0, present]]
    fields: dict[str, Any] = {}
    for name, (letters, array) in axes.arrays(one).items():
        for axis in np.flatnonzero([letter == "p" for letter in letters]):
            array = np.take(array, present, axis=axis)
        fields[name] = array
    fields["display_data"] = None
    return replace(one, **fields, feature_names=words)


def by_word(explanation: "Explanation", most: int | None = None) -> "Explanation":
    """Return the explanation of texts whose players are words, wherever they are in a text.

    The value of a word that is in a text several times is the sum of its values, and 0 in a text
    that lacks it. Standard errors are added up as well: that holds even if the values err together.

    Parameters
    ----------
    explanation
        Of texts, whose players are places.
    most
        How many words to keep, those of the largest mean |value|, with interactions and
        cross-contribution. None: all words; their pairs would be too many, and are left out.
    """
    words, owners = _owners(explanation)
    if most is not None and len(words) > most:
        sizes = np.abs(_sums(explanation.values, owners, len(words))).mean(axis=0)
        kept = np.sort(np.argsort(-sizes, kind="stable")[:most])
        place = np.full(len(words) + 1, -1)  # the last stands for padding
        place[kept] = np.arange(len(kept))
        owners = place[owners]
        words = [words[word] for word in kept]

    fields: dict[str, Any] = {}
    for name, (letters, array) in axes.arrays(explanation).items():
        if letters.startswith("rpp"):
            fields[name] = None if most is None else _pair_sums(array, owners, len(words))
        elif name in ("starts", "ends"):  # a word may be in several places
            fields[name] = None
        elif letters.startswith("rp") and np.issubdtype(array.dtype, np.number):
            fields[name] = _sums(array, owners, len(words))
        elif letters.startswith("rp"):
            kind: Any = type(explanation)
            fill = axes.declared(kind)[name].fill
            fields[name] = np.full((len(array), len(words), *array.shape[2:]), fill, array.dtype)

    rows, places = np.nonzero(owners >= 0)
    own = owners[rows, places]
    fields["display_data"][rows, own] = np.array(words, dtype=object)[own]
    return replace(explanation, **fields, feature_names=words)


# Hierarchies, by their groups


def folded(explanation: "Explanation", depth: int) -> "Explanation":
    """Return the explanation whose players are the groups at a depth of a hierarchy.

    A player that is in fewer groups stays a player. A group holds the cells of its members.
    """
    paths = explanation.hierarchy
    if paths is None:
        alone = " (texts with different parts: one by one)" if explanation.texts is not None else ""
        raise InputError(
            f"fold: the explanation has no hierarchy; explain with nested groups={alone}"
        )
    if not isinstance(depth, int) or depth < 1:
        raise InputError(f"fold: expected a depth of 1, 2, ..., got {depth!r}")
    names = explanation.feature_names
    # a feature beside groups must not be taken for a group of its name
    keys = [
        (path[:depth], name if len(path) < depth else None)
        for path, name in zip(paths, names, strict=True)
    ]
    groups = list(dict.fromkeys(keys))
    owner = np.array([groups.index(key) for key in keys])
    owners = np.tile(owner, (len(explanation), 1))
    members = [np.flatnonzero(owner == group) for group in range(len(groups))]

    fields: dict[str, Any] = {}
    for name, (letters, array) in axes.arrays(explanation).items():
        if letters.startswith(("rpp", "rs")):
            fields[name] = None
        elif name in ("values", "standard_errors"):
            fields[name] = _sums(array, owners, len(groups))
    fields |= _group_spans(explanation, members)
    if explanation.data is not None:
        single = np.array([len(own) == 1 for own in members])
        first = [own[0] for own in members]
        fields["data"] = np.where(single, explanation.data[:, first], np.nan)
    if explanation.display_data is not None:
        cells = explanation.display_data
        between = " " if explanation.data is None else ", "  # of words, or of columns
        joined = np.empty((len(cells), len(groups)), dtype=object)
        for group, own in enumerate(members):
            for row, line in enumerate(cells[:, own]):
                joined[row, group] = (
                    line[0] if len(own) == 1 else between.join(map(_short_text, line))
                )
        fields["display_data"] = joined

    titles = [name or path[-1] for path, name in groups]
    inside = {titles[group]: [names[at] for at in own] for group, own in enumerate(members)}
    above = tuple(path[: depth - 1] if name is None else path for path, name in groups)
    return replace(
        explanation,
        **fields,
        feature_names=titles,
        groups={title: own for title, own in inside.items() if len(own) > 1},
        hierarchy=above if any(above) else None,
    )


def _short_text(cell: object) -> str:
    """Return a cell as text, numbers to four digits."""
    is_number = isinstance(cell, float | np.floating) and not is_missing(cell)
    return f"{cell:.4g}" if is_number else label_text(cell)


def _group_spans(explanation: "Explanation", members: list[Ints]) -> dict[str, Any]:
    """Return where in their texts groups of parts begin and end, by the names of the fields."""
    if explanation.starts is None or explanation.ends is None:
        return {}
    starts = [explanation.starts[:, own].min(axis=1) for own in members]
    ends = [explanation.ends[:, own].max(axis=1) for own in members]
    return {"starts": np.stack(starts, axis=1), "ends": np.stack(ends, axis=1)}


def _owners(explanation: "Explanation") -> tuple[list[str], Ints]:
    """Return the words, and for each place the number of its word, (r, p); -1 for padding.

    Words are in the order in which texts have them.
    """
    texts = explanation.display_data
    assert texts is not None, "places in texts have words"
    words = list(dict.fromkeys(str(word) for word in texts.flat if word != ""))
    number = {word: place for place, word in enumerate(words)} | {"": -1}
    owners = np.array([number[str(word)] for word in texts.flat], dtype=np.int64)
    return words, owners.reshape(texts.shape)


def _sums(numbers: Floats, owners: Ints, words: int) -> Floats:
    """Return the sums of numbers (r, p) or (r, p, k) by word, (r, w) or (r, w, k)."""
    sums = np.zeros((len(numbers), words, *numbers.shape[2:]))
    rows, places = np.nonzero(owners >= 0)
    np.add.at(sums, (rows, owners[rows, places]), numbers[rows, places])
    return sums


def _pair_sums(pairs: Floats, owners: Ints, words: int) -> Floats:
    """Return the sums over pairs of places (r, p, p) by pair of words, (r, w, w).

    Two places with the same word belong to that word alone, as its main effect does. They are in
    the matrix twice, and count once.
    """
    sums = np.zeros((len(pairs), words, words, *pairs.shape[3:]))
    both = (owners[:, :, None] >= 0) & (owners[:, None, :] >= 0)
    rows, first, second = np.nonzero(both)
    np.add.at(sums, (rows, owners[rows, first], owners[rows, second]), pairs[rows, first, second])

    own = np.arange(words)
    alone = _sums(np.einsum("rpp...->rp...", pairs), owners, words)
    sums[:, own, own] = (sums[:, own, own] + alone) / 2
    return sums
