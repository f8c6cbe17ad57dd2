"""Importance: what players add over many rows, in all of them or by cohort, with intervals.

    explanation.mean()                   each player's mean value
    explanation.abs().mean()             each player's mean |value|
    explanation.by(groups).mean()        the same for each cohort of rows
    explanation.by(groups).abs().mean()

A mean over rows is uncertain twice: other rows would have had another mean, and each value is an
estimate. With r rows, whose values have the sample variance s^2 and standard errors e,

    error^2 = s^2 / r + (mean of e)^2.

The second part is what it is even if all rows err together, as rows that share coalitions may. It
also covers that a mean |value| is too large where values are noise: ||a| - |b|| <= |a - b|.

Letters: g cohorts, r rows, p players, k outputs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.result.labels import label_array

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

Floats = NDArray[np.float64]

MOST_KINDS = 8
"""Different numbers of a player up to which each is a cohort of its own."""

PLACE = re.compile(r"(word|token) \d+")  #: the name of a player that is a place in texts


class _Means(NamedTuple):
    """Means over rows, and what their intervals are made of, each (p, k) or (g, p, k)."""

    values: Floats
    errors: Floats
    margins: Floats


@dataclass(frozen=True, eq=False)
class Importance:
    """A table of importance: each player's mean value, or mean |value|, with an interval.

    The interval covers two things: that other rows of the same kind would have had another mean,
    and that values are estimates. It takes the rows for a random sample, drawn independently, of
    those that you want to know about. Where `covers` is "rows", the method has no standard errors,
    and the interval covers the first alone. It does not cover that the model might have been
    trained otherwise. The mean over a single row says nothing of other rows: its interval is
    infinite.

    Arrays have no axis g without cohorts, and no axis k with one output.
    """

    values: Floats  #: (g, p, k) the mean values or mean |values|
    standard_errors: Floats  #: (g, p, k) of the means
    lower: Floats  #: (g, p, k) bounds of the intervals
    upper: Floats  #: (g, p, k)
    rows: list[int]  #: (g,) of each cohort, or of all
    cohorts: list[str] | None  #: names of the cohorts; None: there are none
    feature_names: list[str]
    output_names: list[str]
    sizes: bool  #: whether these are means of |values|
    level: float  #: of the intervals
    covers: Literal["rows and estimates", "rows"]  #: what the intervals cover

    @property
    def kind(self) -> str:
        """What the numbers are, in words."""
        return "mean |value|" if self.sizes else "mean value"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `values`."""
        return self.values.shape

    def __len__(self) -> int:
        """Return the number of players."""
        return len(self.feature_names)

    def full(self, array: Floats) -> Floats:
        """Return one of the arrays with all three axes, (g, p, k)."""
        return array.reshape(len(self.rows), len(self), len(self.output_names))

    @property
    def order(self) -> NDArray[np.int64]:
        """The players' numbers, (p,), the most important first, in all cohorts and outputs."""
        sizes = np.abs(self.full(self.values)).mean(axis=(0, 2))
        return np.argsort(-sizes, kind="stable")

    def top(self, most: int) -> Self:
        """Return the table of the most important players, the first of them first."""
        return self.of_players(self.order[:most])

    def of_players(self, players: NDArray[np.int64]) -> Self:
        """Return the table of some players, by their numbers."""
        axis = 0 if self.cohorts is None else 1
        arrays: dict[str, Any] = {
            name: np.take(getattr(self, name), players, axis=axis)
            for name in ("values", "standard_errors", "lower", "upper")
        }
        names = [self.feature_names[player] for player in players]
        return replace(self, **arrays, feature_names=names)

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a line for each cohort, output and player, the most important player first.

        Columns: cohort (where there are cohorts), output, player, value, lower, upper,
        standard_error and rows.
        """
        from shearshap.result.frames import table

        ordered = self.top(len(self))
        shape = (len(self.rows), len(self), len(self.output_names))
        cohort, player, output = np.indices(shape).reshape(3, -1)
        columns: dict[str, Any] = {}
        if self.cohorts is not None:
            columns["cohort"] = np.array(self.cohorts, dtype=object)[cohort]
        columns["output"] = np.array(self.output_names, dtype=object)[output]
        columns["player"] = np.array(ordered.feature_names, dtype=object)[player]
        columns["value"] = ordered.values.reshape(-1)
        columns["lower"] = ordered.lower.reshape(-1)
        columns["upper"] = ordered.upper.reshape(-1)
        columns["standard_error"] = ordered.standard_errors.reshape(-1)
        columns["rows"] = np.array(self.rows)[cohort]
        return table(columns, backend)

    def __repr__(self) -> str:
        """Return what the table holds in one line; `print` shows the table."""
        cohorts = "" if self.cohorts is None else f", {len(self.cohorts)} cohorts"
        outputs = "" if len(self.output_names) == 1 else f", {len(self.output_names)} outputs"
        return (
            f"Importance({self.kind} of {len(self)} players{outputs}{cohorts}, "
            f"{sum(self.rows):,} rows)"
        )

    def __str__(self) -> str:
        """Return the table of the most important players."""
        from shearshap.result.text_tables import importance_text

        return importance_text(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Show the table in IPython's terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Show the table in a notebook, with bars."""
        from shearshap.result.html_tables import importance_html

        return importance_html(self)


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """The sizes of an explanation's values, without their signs: what `abs` gives."""

    explanation: "Explanation"

    @property
    def values(self) -> Floats:
        """The |values|, (r, p) or (r, p, k)."""
        return np.abs(self.explanation.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `values`."""
        return self.explanation.values.shape

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.explanation)

    def __call__(self) -> Self:
        """Return the same: `explanation.abs()` and shap's `explanation.abs` are one."""
        return self

    def mean(self, axis: int = 0, *, level: float = 0.95) -> Importance:
        """Return each player's mean |value| over the rows; see `Explanation.mean`."""
        _check_axis(axis)
        return importance(self.explanation, sizes=True, level=level)

    def by(self, groups: Any, *, bins: int = 4) -> "Cohorts":
        """Return the rows in cohorts; see `Explanation.by`."""
        return replace(cohorts(self.explanation, groups, bins), sizes=True)


@dataclass(frozen=True, eq=False)
class Cohorts(Mapping[str, "Explanation"]):
    """Rows in cohorts: a mapping from each cohort's name to the explanation of its rows."""

    parts: dict[str, "Explanation"]
    sizes: bool = False  #: whether `mean` is of |values|

    def __getitem__(self, name: str) -> "Explanation":
        """Return the explanation of a cohort's rows."""
        if name not in self.parts:
            raise InputError(f"there is no cohort {name!r}; there are {', '.join(self.parts)}")
        return self.parts[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a cohort of this name."""
        return name in self.parts

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the cohorts."""
        return iter(self.parts)

    def __len__(self) -> int:
        """Return the number of cohorts."""
        return len(self.parts)

    def __call__(self) -> Self:
        """Return the same, so that `abs()` and shap's `abs` are one."""
        return self

    @property
    def abs(self) -> Self:
        """The same cohorts, of whose |values| `mean` is then taken."""
        return replace(self, sizes=True)

    def mean(self, axis: int = 0, *, level: float = 0.95) -> Importance:
        """Return the importance of each player in each cohort; see `Explanation.mean`."""
        _check_axis(axis)
        tables = [importance(part, self.sizes, level) for part in self.parts.values()]
        return _side_by_side(tables, list(self.parts))

    def __repr__(self) -> str:
        """Return the cohorts and how many rows each has."""
        counts = [f"{name}: {len(part):,} rows" for name, part in self.parts.items()]
        return f"Cohorts({', '.join(counts)})"


# Means


def importance(explanation: "Explanation", sizes: bool, level: float) -> Importance:
    """Return the importance of an explanation's players over all its rows."""
    if not 0 < level < 1:
        raise InputError(f"level: wanted a number between 0 and 1, such as 0.95, got {level!r}")
    if not len(explanation):
        raise InputError("mean: wanted at least one row, got none")
    errors = explanation.standard_errors
    if _has_places(explanation):
        names, means = _means_by_word(explanation, sizes, level)
    else:
        names = list(explanation.feature_names)
        means = _means(explanation, explanation.values, errors, sizes, level)

    lower = means.values - means.margins
    return Importance(
        means.values,
        means.errors,
        np.maximum(lower, 0.0) if sizes else lower,
        means.values + means.margins,
        rows=[len(explanation)],
        cohorts=None,
        feature_names=names,
        output_names=list(explanation.output_names),
        sizes=sizes,
        level=level,
        covers="rows" if errors is None else "rows and estimates",
    )


def _means(
    explanation: "Explanation", values: Floats, errors: Floats | None, sizes: bool, level: float
) -> _Means:
    """Return the means over the first axis of values, with their margins."""
    # not at the top: it takes a second to import
    from scipy.stats import t as student

    counted = np.abs(values) if sizes else values
    mean = counted.mean(axis=0)
    rows = len(values)
    if rows == 1:
        unknown = np.full_like(mean, inf)
        return _Means(mean, unknown, unknown)

    over_rows = counted.var(axis=0, ddof=1) / rows
    of_values = np.zeros_like(mean) if errors is None else errors.mean(axis=0) ** 2
    freedom = _freedom(over_rows, rows - 1, of_values, explanation.degrees_of_freedom)
    error = np.sqrt(over_rows + of_values)
    return _Means(mean, error, student.ppf((1 + level) / 2, freedom) * error)


def _freedom(first: Floats, first_freedom: float, second: Floats, second_freedom: float) -> Floats:
    """Return the degrees of freedom of a sum of two variances, by Welch and Satterthwaite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = first**2 / first_freedom + second**2 / second_freedom
        freedom = (first + second) ** 2 / parts
    # without any variance, or with one that is not known, it makes no difference
    return np.where(np.isfinite(freedom) & (freedom > 0), freedom, first_freedom)


def _has_places(explanation: "Explanation") -> bool:
    """Return whether players are places in several texts, where other words stand in each."""
    if explanation.display_data is None or explanation.data is not None:
        return False
    return all(PLACE.fullmatch(name) for name in explanation.feature_names)


def _means_by_word(
    explanation: "Explanation", sizes: bool, level: float
) -> tuple[list[str], _Means]:
    """Return the words of texts, and their means over the texts in which they stand.

    A word's value in a text is the sum over the places where it stands.
    """
    words = explanation.display_data
    assert words is not None, "texts have words"
    names = [str(word) for word in dict.fromkeys(words.flat) if word != ""]
    errors = explanation.standard_errors
    columns = []
    for name in names:
        at = words == name
        texts = at.any(axis=1)
        values = _summed(explanation.values, at)[texts]
        of_values = None if errors is None else _summed(errors, at)[texts]
        columns.append(_means(explanation, values, of_values, sizes, level))
    return names, _Means(*(np.stack(field) for field in zip(*columns, strict=True)))


def _summed(array: Floats, at: NDArray[np.bool_]) -> Floats:
    """Return the sums (r,) or (r, k) of an array (r, p) or (r, p, k) over some places (r, p)."""
    chosen = at if array.ndim == 2 else at[:, :, None]
    return np.asarray(np.where(chosen, array, 0.0).sum(axis=1))


def _side_by_side(tables: list[Importance], names: list[str]) -> Importance:
    """Return the tables of cohorts as one; words that a cohort lacks have the mean 0 there."""
    players = list(dict.fromkeys(name for table in tables for name in table.feature_names))

    def stacked(field: str, absent: float) -> Floats:
        return np.stack([_placed(table, field, players, absent) for table in tables])

    first = tables[0]
    return replace(
        first,
        values=stacked("values", 0.0),
        standard_errors=stacked("standard_errors", inf),
        lower=stacked("lower", 0.0 if first.sizes else -inf),
        upper=stacked("upper", inf),
        rows=[table.rows[0] for table in tables],
        cohorts=names,
        feature_names=players,
    )


def _placed(table: Importance, field: str, players: list[str], absent: float) -> Floats:
    """Return a field of a table with all players, in their order."""
    array: Floats = getattr(table, field)
    if table.feature_names == players:
        return array
    place = {name: number for number, name in enumerate(players)}
    whole = np.full((len(players), *array.shape[1:]), absent)
    whole[[place[name] for name in table.feature_names]] = array
    return whole


def _check_axis(axis: int) -> None:
    if axis != 0:
        raise InputError(
            f"mean: wanted axis 0, the mean over the rows, got {axis!r}; for other means take "
            "explanation.values"
        )


# Cohorts


def cohorts(explanation: "Explanation", groups: Any, bins: int) -> Cohorts:
    """Return the rows of an explanation in cohorts; see `Explanation.by`."""
    if isinstance(groups, Mapping):
        parts = {str(name): explanation[_mask(groups[name], explanation)] for name in groups}
        return _checked_cohorts(parts)
    if isinstance(groups, str):
        labels = _cells(explanation, groups, bins)
    else:
        labels = _checked_labels(groups, len(explanation))

    texts = np.array([_text(label) for label in labels], dtype=object)
    parts = {name: explanation[texts == name] for name in _in_order(labels)}
    return _checked_cohorts(parts)


def _checked_cohorts(parts: dict[str, "Explanation"]) -> Cohorts:
    empty = [name for name, part in parts.items() if not len(part)]
    if empty or not parts:
        which = f"; there are none in {', '.join(empty)}" if empty else ""
        raise InputError(f"by: wanted cohorts of at least one row{which}")
    return Cohorts(parts)


def _mask(chosen: Any, explanation: "Explanation") -> NDArray[np.bool_]:
    """Return which rows are chosen, (r,) of bool."""
    mask = np.asarray(chosen)
    if mask.dtype != bool or mask.shape != (len(explanation),):
        raise InputError(
            "by: wanted for each cohort which rows are in it, an array of bool of shape "
            f"{(len(explanation),)}, got {mask.dtype} of shape {mask.shape}"
        )
    return mask


def _checked_labels(groups: Any, rows: int) -> list[Any]:
    if not isinstance(groups, Iterable):
        raise InputError(
            f"by: wanted a label for each row, or the name of a player, got {groups!r}"
        )
    labels = list(label_array(groups))
    if len(labels) != rows:
        raise InputError(f"by: wanted a label for each of {rows:,} rows, got {len(labels):,}")
    return labels


def _cells(explanation: "Explanation", name: str, bins: int) -> list[Any]:
    """Return what a player holds in each row; many different numbers are cut into bins."""
    if name not in explanation.feature_names:
        raise InputError(
            f"by: there is no player {name!r}; there are {', '.join(explanation.feature_names)}. "
            "Labels of your own go in as a list, one for each row"
        )
    player = explanation.feature_names.index(name)
    words = explanation.display_data
    numbers = explanation.data
    if words is None and numbers is None:
        raise InputError(f"by: the explanation does not know what {name!r} holds; pass labels")
    cells = list((words if words is not None else numbers)[:, player])  # type: ignore[index]
    if all(isinstance(cell, float | int | np.number) for cell in cells):
        return _binned(np.array(cells, dtype=float), name, bins)
    return [cell if _is_missing(cell) else f"{name} = {cell}" for cell in cells]


def _binned(numbers: Floats, name: str, bins: int) -> list[Any]:
    """Return the name of each number's cohort: the number itself, or one of equally large bins."""
    known = numbers[np.isfinite(numbers)]
    kinds = np.unique(known)
    if len(kinds) <= MOST_KINDS:
        return [_Ranked(number, f"{name} = {number:.6g}") for number in numbers]

    edges = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1)[1:-1]))
    limits = [f"{edge:.4g}" for edge in edges]
    names = [
        f"{name} ≤ {limits[0]}",
        *(f"{low} < {name} ≤ {high}" for low, high in pairwise(limits)),
        f"{name} > {limits[-1]}",
    ]
    places = np.searchsorted(edges, numbers)
    return [
        _Ranked(place, names[place]) if np.isfinite(number) else None
        for place, number in zip(places.tolist(), numbers, strict=True)
    ]


@dataclass(frozen=True, order=True)
class _Ranked:
    """The name of a cohort, with a number to order by."""

    rank: float
    name: str

    def __str__(self) -> str:
        """Return the name."""
        return self.name


def _text(label: Any) -> str:
    return "missing" if _is_missing(label) else str(label)


def _is_missing(label: Any) -> bool:
    if isinstance(label, str):
        return False
    if isinstance(label, _Ranked):
        return label.rank != label.rank
    return label is None or str(label) in ("nan", "NaT", "<NA>")


def _in_order(labels: list[Any]) -> list[str]:
    """Return the names of cohorts in the order of their labels, "missing" last."""
    distinct = {_text(label): label for label in labels if not _is_missing(label)}
    try:
        names = sorted(distinct, key=lambda name: distinct[name])
    except TypeError:  # labels of several types have no order
        names = list(distinct)
    missing = any(_is_missing(label) for label in labels)
    return [*names, "missing"] if missing else names
