"""Importance: what players add over many rows, in all of them or by cohort, with intervals.

    explanation.mean()                   each player's mean value
    explanation.abs().mean()             each player's mean |value|
    explanation.by(groups).mean()        the same for each cohort of rows
    explanation.by(groups).abs().mean()

A mean over rows is uncertain twice: other rows would have had another mean, and each value is an
estimate. With r rows, whose values have the sample variance s^2 and standard errors e,

    error^2 = s^2 / r + (mean of e)^2.

The second part is what it is even if all rows err together, as rows that share coalitions may. It
also covers that a mean |value| is too large if values are noise: ||a| - |b|| <= |a - b|.

Texts have a value for every word: the sum over the places where it stands in the text, and 0 in a
text that lacks it. So means are over all texts. How strong a word is where it stands is another
question, and a word that stands in one text alone would often win it.

Letters: g cohorts, r rows, p players, k outputs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.result.cells import cells_of, is_missing, label_array, label_text, same_players
from shearshap.result.text import counted

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

Floats = NDArray[np.float64]
Covers = Literal["rows and estimates", "rows", "estimates"]

MAX_KINDS = 8
"""Different numbers of a player up to which each is a cohort of its own."""

MIN_DIGITS = 4
"""Digits of the limits of bins, if these are enough."""


@dataclass(frozen=True, eq=False)
class Importance:
    """A table of importance: each feature's mean value, or mean |value|, with an interval.

    The interval covers the choice of rows, which should be an independent random sample, and the
    standard errors of the values. If `covers` is "rows", the method has no standard errors, and
    the interval covers only the choice of rows. It does not cover the training of the model. The
    interval of a single row is infinite.

    For texts there is a line for each word, with the mean over all texts: a text without the word
    counts as 0.

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
    covers: Covers  #: what the intervals cover

    @property
    def kind(self) -> str:
        """What the numbers are, in words."""
        return "mean |value|" if self.sizes else "mean value"

    @property
    def coloured(self) -> bool:
        """Whether colours show if a feature raises or lowers the output."""
        return not self.sizes

    @property
    def axis(self) -> str:
        """The label of an axis of these numbers."""
        return self.kind.replace("value", "Shapley value")

    @property
    def interval_words(self) -> str:
        """What the intervals cover, in a sentence."""
        if self.covers == "rows":
            return "Intervals cover the choice of rows; the method has no standard errors."
        if self.covers == "estimates":
            return "Intervals cover the standard errors of the values."
        return "Intervals cover the choice of rows and the standard errors of the values."

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
        """The features' numbers, (p,), the most important first, over all cohorts and outputs."""
        sizes = np.abs(self.full(self.values)).mean(axis=(0, 2))
        return np.argsort(-sizes, kind="stable")

    def top(self, most: int) -> Self:
        """Return the table of the most important features, in their order."""
        players = self.order[:most]
        axis = 0 if self.cohorts is None else 1
        arrays: dict[str, Any] = {
            name: np.take(getattr(self, name), players, axis=axis)
            for name in ("values", "standard_errors", "lower", "upper")
        }
        names = [self.feature_names[player] for player in players]
        return replace(self, **arrays, feature_names=names)

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a line for each cohort, output and feature, the most important feature first.

        Columns: cohort (if there are cohorts), output, feature, value, lower, upper,
        standard_error and rows.
        """
        from shearshap.result.frames import table

        ordered = self.top(len(self))
        shape = (len(self.rows), len(self), len(self.output_names))
        cohort, player, output = np.indices(shape).reshape(3, -1)
        columns = {
            "output": np.array(self.output_names, dtype=object)[output],
            "feature": np.array(ordered.feature_names, dtype=object)[player],
            "value": ordered.values.reshape(-1),
            "lower": ordered.lower.reshape(-1),
            "upper": ordered.upper.reshape(-1),
            "standard_error": ordered.standard_errors.reshape(-1),
            "rows": np.array(self.rows)[cohort],
        }
        if self.cohorts is not None:
            columns = {"cohort": np.array(self.cohorts, dtype=object)[cohort]} | columns
        return table(columns, backend)

    def __repr__(self) -> str:
        """Return what the table holds in one line; `print` shows the table."""
        cohorts = "" if self.cohorts is None else f", {len(self.cohorts)} cohorts"
        outputs = "" if len(self.output_names) == 1 else f", {len(self.output_names)} outputs"
        return (
            f"Importance({self.kind} of {len(self)} features{outputs}{cohorts}, "
            f"{counted(sum(self.rows), 'row')})"
        )

    def __str__(self) -> str:
        """Return the table of the most important players."""
        from shearshap.result.text import importance_text

        return importance_text(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Show the table in IPython's terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Show the table in a notebook, with bars."""
        from shearshap.result.html import importance_html

        return importance_html(self)


@dataclass(frozen=True, eq=False)
class LossImportance(Importance):
    """How much each feature reduces a model's mean loss, with intervals: SAGE values.

    The values add up to `base_loss - loss`. Made by `shearshap.importance`.
    """

    loss_name: str
    base_loss: float  #: the mean loss with all players absent
    loss: float  #: the mean loss with all players present: the model's own
    evaluations: int  #: of the model, in all
    background: str  #: what absent features are replaced with, in words
    notes: tuple[str, ...] = ()  #: on the distribution of absent features, if one was fitted
    converged: bool | None = None  #: whether standard errors came below `tol`; None without `tol`
    seconds: float | None = None  #: that it took

    @property
    def kind(self) -> str:
        """What the numbers are, in words."""
        return f"reduction of {self.loss_name}"

    @property
    def coloured(self) -> bool:
        """Whether colours show if a feature raises or lowers the output: it does neither."""
        return False

    @property
    def interval_words(self) -> str:
        """What the intervals cover, in a sentence."""
        covered = "Intervals cover the choice of rows, background rows and coalitions."
        return "\n".join((covered, *self.notes))

    def __repr__(self) -> str:
        """Return the losses and the cost in one line; `print` shows the table."""
        return (
            f"Importance({self.loss_name} {self.base_loss:.4g} without and {self.loss:.4g} "
            f"with {counted(len(self), 'feature')}, {counted(self.rows[0], 'row')}, "
            f"{self.evaluations:,} evaluations)"
        )


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """The sizes of an explanation's values, without their signs: what `abs` gives."""

    explanation: "Explanation"

    @property
    def values(self) -> Floats:
        """The |values|, (r, p) or (r, p, k)."""
        return np.abs(self.explanation.values)

    def __call__(self) -> Self:
        """Return the same: `explanation.abs()` and shap's `explanation.abs` are one."""
        return self

    def mean(self, axis: int = 0, *, level: float = 0.95) -> Importance:
        """Return each feature's mean |value| over the rows; see `Explanation.mean`."""
        return importance(self.explanation, sizes=True, level=level, axis=axis)

    def by(self, groups: Any, *, bins: int = 4) -> "Cohorts":
        """Return the rows in cohorts; see `Explanation.by`."""
        return cohorts(self.explanation, groups, bins).abs


class Cohorts(dict[str, "Explanation"]):
    """Rows in cohorts: a mapping from each cohort's name to the explanation of its rows."""

    def __init__(self, parts: Mapping[str, "Explanation"], sizes: bool = False) -> None:
        super().__init__(parts)
        self.sizes = sizes  #: whether `mean` is of |values|

    def __missing__(self, name: str) -> "Explanation":
        """Raise, and say which cohorts there are."""
        raise InputError(f"there is no cohort {name!r}; there are {', '.join(self)}")

    def __call__(self) -> "Cohorts":
        """Return the same, so that `abs()` and shap's `abs` are one."""
        return self

    @property
    def abs(self) -> "Cohorts":
        """The same cohorts, for the mean of |values|."""
        return Cohorts(self, sizes=True)

    def mean(self, axis: int = 0, *, level: float = 0.95) -> Importance:
        """Return the importance of each feature in each cohort; see `Explanation.mean`."""
        return side_by_side(
            {name: importance(part, self.sizes, level, axis) for name, part in self.items()}
        )

    def __repr__(self) -> str:
        """Return the cohorts and how many rows each has."""
        counts = [f"{name}: {counted(len(part), 'row')}" for name, part in self.items()]
        return f"Cohorts({', '.join(counts)})"


# Means


def importance(explanation: "Explanation", sizes: bool, level: float, axis: int = 0) -> Importance:
    """Return the importance of an explanation's players over all its rows; of texts, by word."""
    if axis != 0:
        raise InputError(
            f"mean: expected axis 0, the mean over the rows, got {axis!r}; for other means take "
            "explanation.values"
        )
    if not len(explanation):
        raise InputError("mean: expected at least one row, got none")
    explanation = same_players(explanation)
    means = mean_sizes(explanation) if sizes else explanation.values.mean(axis=0)
    errors, margins = _margins(explanation, sizes, level)
    lower = means - margins
    covers: Covers = "rows" if explanation.standard_errors is None else "rows and estimates"
    if explanation.game is not None:
        covers = "estimates"
    return Importance(
        means,
        errors,
        np.maximum(lower, 0.0) if sizes else lower,
        means + margins,
        rows=[len(explanation)],
        cohorts=None,
        feature_names=list(explanation.feature_names),
        output_names=list(explanation.output_names),
        sizes=sizes,
        level=level,
        covers=covers,
    )


def mean_sizes(explanation: "Explanation") -> Floats:
    """Return every player's mean |value| over the rows, (p,) or (p, k).

    The players must be the same thing in all rows: texts, by word.
    """
    return np.asarray(np.abs(explanation.values).mean(axis=0))


def _margins(explanation: "Explanation", sizes: bool, level: float) -> tuple[Floats, Floats]:
    """Return the standard errors of the means over rows, and half the lengths of their intervals.

    Both are infinite for a single row. A game is no sample of rows: its values alone are estimates.
    """
    if explanation.game is not None and explanation.standard_errors is not None:
        own = explanation.standard_errors[0]
        return own, student_quantile(level, explanation.degrees_of_freedom) * own
    values = np.abs(explanation.values) if sizes else explanation.values
    rows = len(values)
    if rows == 1:
        unknown = np.full(values.shape[1:], inf)
        return unknown, unknown

    over_rows = values.var(axis=0, ddof=1) / rows
    of_values = np.zeros_like(over_rows)
    if explanation.standard_errors is not None:
        of_values = explanation.standard_errors.mean(axis=0) ** 2
    freedom = _freedom(over_rows, rows - 1, of_values, explanation.degrees_of_freedom)
    error = np.sqrt(over_rows + of_values)
    return error, student_quantile(level, freedom) * error


def student_quantile(level: float, freedom: float | Floats) -> Any:
    """Return how many standard errors an interval reaches to either side, by Student's t."""
    # not at the top: it takes a second to import, which every worker of a job would spend
    from scipy.stats import t as student

    if not 0 < level < 1:
        raise InputError(f"level: expected a number between 0 and 1, such as 0.95, got {level!r}")
    return student.ppf((1 + level) / 2, freedom)


def _freedom(first: Floats, first_freedom: float, second: Floats, second_freedom: float) -> Floats:
    """Return the degrees of freedom of a sum of two variances, by Welch and Satterthwaite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = first**2 / first_freedom + second**2 / second_freedom
        freedom = (first + second) ** 2 / parts
    # without any variance, or with one that is not known, it makes no difference
    return np.where(np.isfinite(freedom) & (freedom > 0), freedom, first_freedom)


def side_by_side(tables: Mapping[str, Importance]) -> Importance:
    """Return the tables of cohorts as one; words that a cohort lacks have the mean 0 there.

    Nothing is known of how far off that is for other texts: its interval is infinite.
    """
    every = tables.values()
    players = list(dict.fromkeys(name for table in every for name in table.feature_names))

    def stacked(field: str, absent: float) -> Floats:
        return np.stack([_placed(table, field, players, absent) for table in every])

    first = next(iter(every))
    return replace(
        first,
        values=stacked("values", 0.0),
        standard_errors=stacked("standard_errors", inf),
        lower=stacked("lower", 0.0 if first.sizes else -inf),
        upper=stacked("upper", inf),
        rows=[table.rows[0] for table in every],
        cohorts=list(tables),
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


# Cohorts


def cohorts(explanation: "Explanation", groups: Any, bins: int = 4) -> Cohorts:
    """Return the rows of an explanation in cohorts; see `Explanation.by`.

    Rows are in the same cohort if their labels are equal. The texts of labels only make its name.
    """
    if not isinstance(bins, int | np.integer) or isinstance(bins, bool) or bins < 1:
        raise InputError(f"bins: expected a positive integer, got {bins!r}")
    if isinstance(groups, Mapping):
        names = [str(name) for name in groups]
        masks = [_mask(chosen, explanation) for chosen in groups.values()]
    else:
        if isinstance(groups, str):
            numbers, names = _by_cell(explanation, groups, int(bins))
        else:
            numbers, labels = _numbered(_checked_labels(groups, len(explanation)))
            names = [label_text(label) for label in labels]
        masks = [numbers == number for number in range(len(names))]

    if len(set(names)) < len(names):
        raise InputError(f"groups: expected labels with different texts, got {', '.join(names)}")
    parts = {name: explanation[mask] for name, mask in zip(names, masks, strict=True)}
    empty = [name for name, part in parts.items() if not len(part)]
    if empty or not parts:
        which = f"; there are none in {', '.join(empty)}" if empty else ""
        raise InputError(f"groups: expected cohorts of at least one row{which}")
    return Cohorts(parts)


def _mask(chosen: Any, explanation: "Explanation") -> NDArray[np.bool_]:
    """Return which rows are chosen, (r,) of bool."""
    mask = np.asarray(chosen)
    if mask.dtype != bool or mask.shape != (len(explanation),):
        raise InputError(
            f"groups: expected a boolean array of shape {(len(explanation),)} for each cohort, "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    return mask


def _checked_labels(groups: Any, rows: int) -> list[Any]:
    if not isinstance(groups, Iterable):
        raise InputError(
            f"groups: expected one label per row, or the name of a feature, got {groups!r}"
        )
    labels = list(label_array(groups))
    if len(labels) != rows:
        raise InputError(f"groups: expected {rows:,} labels, one per row, got {len(labels):,}")
    return labels


def _numbered(labels: list[Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the number of each row's label, (r,), and the different labels in their order.

    All that is missing is one label, None, the last.
    """
    labels = [None if is_missing(label) else label for label in labels]
    try:
        distinct = list(dict.fromkeys(label for label in labels if label is not None))
    except TypeError as error:
        raise InputError(
            f"groups: expected labels such as numbers or texts, got {error}; try their texts"
        ) from error
    with suppress(TypeError):  # labels of several types have no order
        distinct = sorted(distinct)
    if any(label is None for label in labels):
        distinct.append(None)
    number = {label: place for place, label in enumerate(distinct)}
    return np.array([number[label] for label in labels], dtype=np.int64), distinct


def _by_cell(
    explanation: "Explanation", name: str, bins: int
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each row's cohort by what a player holds, and the cohorts' names."""
    if name not in explanation.feature_names:
        raise InputError(
            f"groups: there is no feature {name!r}; there are "
            f"{', '.join(explanation.feature_names)}; or pass a list of labels, one per row"
        )
    column = cells_of(explanation, explanation.feature_names.index(name))
    if column is None:
        raise InputError(f"groups: the explanation has no data for {name!r}; pass labels")

    cells = column.tolist()
    numbers, labels = _numbered(cells)
    known = [label for label in labels if label is not None]
    if len(known) > MAX_KINDS and all(isinstance(label, float | int) for label in known):
        return _binned(cells, name, bins)
    texts = [_number_text(each) for each in known]
    if len(set(texts)) < len(texts):  # numbers that differ beyond the digits shown
        texts = [str(each) for each in known]
    missing = ["missing"] if len(known) < len(labels) else []
    return numbers, [f"{name} = {each}" for each in texts] + missing


def _binned(cells: list[Any], name: str, bins: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each cell's bin, and the names of bins of about equally many cells.

    A bin's limit is the largest number in it.
    """
    known = sorted(cell for cell in cells if not is_missing(cell))
    ends = [known[-(-len(known) * part // bins) - 1] for part in range(1, bins + 1)]
    limits = list(dict.fromkeys(ends))
    texts = [_limit_text(limit, known) for limit in limits[:-1]] or [_number_text(limits[0])]
    names = [f"{name} ≤ {texts[0]}"]
    names += [f"{low} < {name} ≤ {high}" for low, high in pairwise(texts)]
    if len(limits) > 1:
        names.append(f"{name} > {texts[-1]}")

    places = [len(limits) if is_missing(cell) else bisect_left(limits, cell) for cell in cells]
    missing = ["missing"] if len(limits) in places else []
    return np.array(places, dtype=np.int64), names + missing


def _limit_text(limit: Any, known: list[Any]) -> str:
    """Return a number between a limit and the next of the sorted numbers, with few digits."""
    beyond = known[bisect_right(known, limit)]
    for digits in range(MIN_DIGITS, 18):
        for number in (limit, limit + (beyond - limit) / 2):
            rounded = float(f"{number:.{digits}g}")
            if limit <= rounded < beyond:
                return _number_text(rounded, digits)
    return str(limit)


def _number_text(content: Any, digits: int = 6) -> str:
    """Return a whole number in full, another to a few digits, and anything else as its text."""
    if not isinstance(content, float):
        return str(content)
    is_whole = abs(content) < 1e15 and content == round(content)
    return f"{content:.0f}" if is_whole else f"{content:.{digits}g}"
