"""The types in which a frame and its background are mixed: in every column one, for both.

The rows keep the types that the user gave them, and the background takes those types on. Only
where that is not possible do the rows change, and never so that the model would notice:

    rows           background          mixed as
    float32        float64             float32, whose precision is enough
    int8           int64, 7            int8
    int8           int64, 300          int64
    categories     text                categories: categories.py
    int64          float64, 0.5        float64, or int64: integers.py has the rule
    text           int64               refused
"""

from dataclasses import dataclass
from itertools import compress
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.data.categories import categories_of, with_categories
from shearshap.data.columns import (
    OBJECTS,
    Column,
    ColumnPair,
    Frame,
    converted,
    native_type,
    native_types,
    number_table,
)
from shearshap.data.float_trial import MAX_TRIED_ROWS, FloatTrial, try_floats
from shearshap.data.frame_background import FrameBackground
from shearshap.data.frame_statistics import holds_ids
from shearshap.data.integers import (
    MODEL_TELLS,
    Rounding,
    ids_error,
    not_whole_error,
    warn_of_rounding,
)
from shearshap.data.native_frames import FrameLayout, as_frame, with_columns
from shearshap.errors import InputError
from shearshap.models import AdaptedModel


@dataclass(frozen=True, eq=False)
class CommonFrames:
    """Rows and background in columns of the same types."""

    rows: Frame  #: (r, d)
    background: Frame  #: (b, d)
    evaluations: int = 0  #: of the model, that it took to find the types
    notes: tuple[str, ...] = ()  #: on cells of the background that are not as the user gave them


@dataclass(frozen=True, eq=False)
class FramePair:
    """A frame and its background, which are to be mixed."""

    rows: Frame  #: (r, d)
    background: FrameBackground
    model: AdaptedModel
    layout: FrameLayout

    def in_common_types(self) -> CommonFrames:
        """Return rows and background in columns of the same types: the rows', where possible."""
        pairs = {}
        undecided = []
        unlike = self._unlike()
        between = self._between_integers(unlike)
        for name in unlike:
            pair = None if name in between else self._in_one_type(name)
            if pair is None:
                undecided.append(name)
            else:
                pairs[name] = pair

        ids = [name for name in undecided if holds_ids(self.rows[name])]
        pairs |= self._beside_ids(ids)
        others = [name for name in undecided if name not in ids]
        evaluations = 0
        if others:
            trial = self._trial(others)
            evaluations = trial.evaluations
            pairs |= self._floats(others) if trial.harmless else self._rounded(others)

        rows = with_columns(self.rows, [first for first, _ in pairs.values()])
        background = with_columns(self.background.rows, [second for _, second in pairs.values()])
        return CommonFrames(rows, background, evaluations, self._notes(pairs))

    def _notes(self, pairs: dict[str, ColumnPair]) -> tuple[str, ...]:
        """Return a note on every column of the background whose None becomes something else."""
        argument = self.background.given.argument
        if as_frame(self.background.given.rows, argument) is None:
            return ()  # single cells have no types, and None stands for a missing one
        given = self.background.rows
        return tuple(
            f"{argument}: column {name!r} holds None, which becomes another missing value in the "
            f"type of the rows' column, {native_type(mixed)}; give both the same type"
            for name, (mixed, _) in pairs.items()
            if native_type(given[name]) == OBJECTS
            and native_type(mixed) != OBJECTS
            and any(cell is None for cell in given[name].to_native())
        )

    def _unlike(self) -> list[str]:
        """Return the columns whose types may not be one; often few among thousands."""
        theirs = native_types(self.background.rows)
        types = native_types(self.rows).items()
        return [name for name, dtype in types if not _are_one(dtype, theirs[name])]

    def _between_integers(self, names: list[str]) -> set[str]:
        """Return columns of integers whose background lies between integers, as means often do."""
        ours = self.rows.schema
        theirs = self.background.rows.schema
        beside = [n for n in names if ours[n].is_integer() and theirs[n].is_float()]
        if not beside:
            return set()
        numbers = number_table(self.background.rows.select(*beside))
        is_between = (np.isfinite(numbers) & (numbers != np.floor(numbers))).any(axis=0)
        return set(compress(beside, is_between))

    def _in_one_type(self, name: str) -> ColumnPair | None:
        """Return a column of the rows and of the background in one type.

        None where the rows hold integers and the background other numbers: a rule for all such
        columns together says which type is theirs.
        """
        rows = self.rows[name]
        background = self.background.rows[name]
        if isinstance(rows.dtype, nw.Categorical | nw.Enum):
            pair = with_categories(rows, background, self.background.given.argument)
            if pair is not None:
                return pair

        fitted = _in_type_of_rows(background, rows)
        if fitted is not None:
            return rows, fitted
        if _are_integers_beside_others(rows, background):
            return None
        widened = converted(rows, background)
        if widened is not None:
            return widened, background
        raise self._mismatch(name)

    def _mismatch(self, name: str) -> InputError:
        """Return the error for columns that have no type in common."""
        argument = self.background.given.argument
        sides = [("rows", self.rows[name]), (argument, self.background.source[name])]
        if as_frame(self.background.given.rows, argument) is None:
            sides.reverse()  # the background has no types of its own, so the cells are at fault
        (first, column), (second, other) = sides
        return InputError(
            f"{first}: column {name!r} is {column.dtype}, and {other.dtype} in the {second}; give "
            "both the same type"
        )

    # Integers beside other numbers

    def _trial(self, names: list[str]) -> FloatTrial:
        """Call the model with a few rows as they are, and with columns of integers as floats."""
        source = self.background.source
        alike = all(native_type(source[name]) == native_type(self.rows[name]) for name in names)
        # of the background where possible: a row's answer must not depend on its neighbours
        first = (source if alike else self.rows)[:MAX_TRIED_ROWS]
        floats = with_columns(first, [first[name].cast(nw.Float64()) for name in names])
        as_they_are = self.layout.native(first)
        as_floats = self.layout.native(floats)
        return try_floats(self.model, as_they_are, as_floats, len(first))

    def _floats(self, names: list[str]) -> dict[str, ColumnPair]:
        """Return columns of rows and background as floats."""
        number = nw.Float64()
        background = self.background.rows
        return {n: (self.rows[n].cast(number), background[n].cast(number)) for n in names}

    def _rounded(self, names: list[str]) -> dict[str, ColumnPair]:
        """Return columns as integers, a statistic rounded to them; raise for any other background.

        Warn of the columns whose statistic was rounded.
        """
        given = self.background.given
        if given.statistic is None:
            raise not_whole_error(given, names)
        numbers = {name: float(self.background.rows[name][0]) for name in names}
        roundings = [Rounding(name, number, round(number)) for name, number in numbers.items()]
        warn_of_rounding(given, roundings, MODEL_TELLS)
        return self._as_integers(names)

    def _beside_ids(self, names: list[str]) -> dict[str, ColumnPair]:
        """Return columns of ids as integers, since floats would change them.

        Nobody is told that their mean is rounded: it means nothing.
        """
        if names and self.background.given.statistic is None:
            raise ids_error(self.background.given.argument)
        return self._as_integers(names)

    def _as_integers(self, names: list[str]) -> dict[str, ColumnPair]:
        """Return columns as they are, and a statistic rounded to their types."""
        return {name: (self.rows[name], self._rounded_cell(name)) for name in names}

    def _rounded_cell(self, name: str) -> Column:
        """Return a statistic, rounded, as a column of one cell in the type of the rows' column."""
        integer = round(float(self.background.rows[name][0]))
        cell = nw.new_series(name, [integer], backend=self.rows.implementation)
        column = converted(cell, self.rows[name])
        if column is None:
            raise self._mismatch(name)
        return column


def _in_type_of_rows(background: Column, rows: Column) -> Column | None:
    """Return a background's column in the type of the rows; None where it does not fit."""
    are_floats = rows.dtype.is_float() and background.dtype.is_float()
    # the rows' precision is enough for the background
    return converted(background, rows, exactly=not are_floats)


def _are_integers_beside_others(rows: Column, background: Column) -> bool:
    """Return whether rows hold integers, or truth values, and the background other numbers."""
    if rows.dtype == nw.Boolean():
        return background.dtype.is_numeric()
    is_other_number = background.dtype.is_numeric() and not background.dtype.is_integer()
    return rows.dtype.is_integer() and is_other_number


def type_changes(rows: Frame, mixed: Frame) -> tuple[str, ...]:
    """Return which columns change their type on the way to the model, in words."""
    theirs = native_types(mixed)
    changed = [name for name, own in native_types(rows).items() if not _are_one(own, theirs[name])]
    return tuple(
        f"column {name!r}: {_type_in_words(rows[name])} becomes {_type_in_words(mixed[name])}"
        for name in changed
    )


def _type_in_words(column: Column) -> str:
    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        categories = categories_of(column) or ()
        return f"{type(column.dtype).__name__} of {len(categories)} categories"
    return str(column.dtype)


def _are_one(dtype: Any, other: Any) -> bool:
    """Return whether two types of a library are one, to a model too."""
    if hasattr(dtype, "index_type"):  # pyarrow's type says nothing of the categories
        return False
    if dtype != other:
        return False
    if not hasattr(dtype, "ordered"):
        return True
    # pandas does not mind the order of categories, on which codes depend
    ours = dtype.categories
    return ours.dtype == other.categories.dtype and bool(ours.equals(other.categories))
