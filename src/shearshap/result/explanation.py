"""The result of explaining: Shapley values, what they add up to, how sure they are, their cost."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb, inf, nan
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.games.indices import SHAPLEY, sets_up_to
from shearshap.result import axes as declared
from shearshap.result.axes import axes, check_same, joined, same
from shearshap.result.cells import label_array
from shearshap.result.importance import (
    Cohorts,
    Importance,
    Magnitudes,
    cohorts,
    importance,
    student_quantile,
)
from shearshap.result.text import counted

ROUNDING = 1e-4
"""By which base values of one background may differ, relative to the largest prediction."""

Joined = TypeVar("Joined", bound="Explanation")

NO_ERRORS = "There are no error bars"
"""How a note begins that says why there are no standard errors."""

Floats = NDArray[np.float64]


# How the fields of several explanations become one


def _distinct(contents: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(contents))


def _methods(contents: list[str]) -> str:
    # a part may be joined itself, and then has several methods
    return ", ".join(_distinct(name for names in contents for name in names.split(", ")))


def _last(contents: list[Any]) -> Any:
    return next((content for content in reversed(contents) if content is not None), None)


def _common(contents: list[Any]) -> Any:
    alike = all(content == contents[0] for content in contents)
    return contents[0] if alike else None


def _common_items(contents: list[dict[str, str]]) -> dict[str, str]:
    first, *others = contents
    return {
        key: item for key, item in first.items() if all(each.get(key) == item for each in others)
    }


def _longest(contents: list[list[str]]) -> list[str]:
    return max(contents, key=len)


def _notes(contents: list[tuple[str, ...]]) -> tuple[str, ...]:
    return _distinct(note for notes in contents for note in notes)


def _total(contents: list[float | None]) -> float | None:
    known = [content for content in contents if content is not None]
    return sum(known) if len(known) == len(contents) else None


def _unknown_errors(part: "Explanation") -> Floats:
    return np.full(part.values.shape, inf)


def spent_evaluations(explanation: "Explanation") -> NDArray[np.int64]:
    """Return the model evaluations that were spent on each row, (r,)."""
    if explanation.row_evaluations is not None:
        return explanation.row_evaluations
    return np.full(len(explanation), explanation.evaluations, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of r rows and p features, for one output (no k axis) or k outputs.

    For every row and output, `base_values + values.sum(axis=1)` is the prediction, up to `gap`.
    `standard_errors` say how far each value may be off, and `interval` turns them into confidence
    intervals. `evaluations` is what a row cost.

    An explanation is indexed by rows: `explanation[3]`, `explanation[10:20]` and
    `explanation[explanation.predictions > 0.5]` are explanations, too, and `Explanation.concat`
    joins them again. `row` finds rows by their labels in `index`. `output` chooses one of several
    outputs, as `explanation[:, :, 1]` does. `mean`, `abs` and `by` make tables of importance.
    `save` writes an explanation to a file, and `Explanation.load` reads it. `to_frame`, `to_shap`
    and `to_shapiq` convert it for other libraries.

    A notebook shows the first rows as a table with bars; `print` shows them as text.

    A subclass may add fields. An array field that declares its axes in its metadata, as those below
    do, is indexed, joined, saved and loaded like the others.
    """

    #: (r, p) or (r, p, k): the Shapley value of every feature
    values: Floats = field(metadata=axes("rpk"))
    #: (r,) or (r, k): the prediction with all features absent
    base_values: Floats = field(metadata=axes("rk"))
    #: (r,) or (r, k): the prediction with all features present
    predictions: Floats = field(metadata=axes("rk"))
    #: like `values`, infinite if they are not known; None if the method has none
    standard_errors: Floats | None = field(metadata=axes("rpk", absent=_unknown_errors))
    #: model evaluations per row, including base value and prediction; the largest number of any row
    evaluations: int = field(metadata=joined(max))
    #: passes through the model per row for derivatives, not included in `evaluations`
    derivative_passes: int = field(metadata=joined(max))
    #: evaluations that checked the model, for all rows of the call so far; see `notes`. They are
    #: not included in `evaluations`
    check_evaluations: int = field(default=0, kw_only=True, metadata=joined(max))
    #: the name in METHODS, or the instance as it prints; with "auto", the method that was chosen
    method: str = field(metadata=joined(_methods))
    #: the random seed
    seed: int
    #: what a calibrated method has fitted; pass it as an option to reuse it
    calibration: Any = field(default=None, metadata=joined(_last))
    #: degrees of freedom of the standard errors: the independent draws behind them, less one
    degrees_of_freedom: float = field(default=inf, metadata=joined(min))
    #: (r,) the evaluations of every row, if they differ, or if `tol` or `deadline` may stop rows
    row_evaluations: NDArray[np.int64] | None = field(
        default=None, metadata=axes("r", absent=spent_evaluations)
    )
    #: (r,) whether a row's standard errors reached `tol`, so that it is unlikely (below 5 %) that
    #: any of its values is off by more than twice as much; None without `tol`
    converged: NDArray[np.bool_] | None = field(default=None, metadata=axes("r"))
    #: (r, p, p) or (r, p, p, k): `interaction_index` of pairs; on the diagonal that of single
    #: features, for k-SII their main effects
    interactions: Floats | None = field(default=None, metadata=axes("rppk"))
    #: like `interactions`, their standard errors; infinite if they are not known
    interaction_errors: Floats | None = field(default=None, metadata=axes("rppk"))
    #: (r, s) or (r, s, k): the index of all sets of up to `interaction_order` features, in the
    #: order of `interaction_sets`; only if `interaction_order` is more than 2
    set_values: Floats | None = field(default=None, kw_only=True, metadata=axes("rsk"))
    #: like `set_values`, their standard errors
    set_errors: Floats | None = field(default=None, kw_only=True, metadata=axes("rsk"))
    #: "k-SII", "SII", "STII" or "FSII"; None without interactions
    interaction_index: str | None = field(
        default=None, kw_only=True, metadata=same("interaction index")
    )
    #: the largest size of the sets of features
    interaction_order: int = field(default=2, kw_only=True)
    #: what `values` are: "Shapley value", "Banzhaf value", or "semivalue" of other weights
    semivalue: str = field(default="Shapley value", kw_only=True, metadata=same("kind of values"))
    #: (r, p, p): how strongly two features act together, summed over outputs
    cross_contribution: Floats | None = field(default=None, metadata=axes("rpp"))
    #: names of the p features
    feature_names: list[str] = field(default_factory=list, metadata=joined(_longest))
    #: names of the outputs
    output_names: list[str] = field(default_factory=list)
    #: (r, p) each feature's content as a number, to colour and sort by
    data: Floats | None = field(default=None, metadata=axes("rp", fill=nan))
    #: (r, p) each feature's content as people read it, if that is not `data`
    display_data: NDArray[np.object_] | None = field(default=None, metadata=axes("rp", fill=""))
    #: (r,) the texts, if rows are texts
    texts: NDArray[np.object_] | None = field(default=None, kw_only=True, metadata=axes("r"))
    #: (r, p) where in its text each part begins, if rows are texts
    starts: NDArray[np.int64] | None = field(default=None, kw_only=True, metadata=axes("rp"))
    #: (r, p) where each part ends
    ends: NDArray[np.int64] | None = field(default=None, kw_only=True, metadata=axes("rp"))
    #: (r,) or (r, k) the answer of a language model, and its tokens or sentences
    answers: NDArray[np.object_] | None = field(default=None, kw_only=True, metadata=axes("rk"))
    #: (r,) the labels of the rows: a frame's index, an id column, or 0, 1, ... by default
    index: NDArray[Any] = field(default=None, metadata=axes("r"))  # type: ignore[arg-type]
    #: the name of the labels; a tuple of names if labels have several levels
    index_name: str | tuple[str | None, ...] | None = field(default=None, metadata=joined(_common))
    #: what absent features are replaced with, in words; None if that is not known
    background: str | None = field(default=None, kw_only=True, metadata=same("background"))
    #: the number of background rows; None if it is not known
    background_rows: int | None = field(default=None, kw_only=True, metadata=joined(_common))
    #: the scale of predictions and values: "probability", "log-odds" or "margin"; None for the
    #: model's own output
    scale: str | None = field(default=None, kw_only=True, metadata=same("scale"))
    #: the columns of each feature that has several; None if every feature has one
    groups: dict[str, list[str]] | None = field(
        default=None, kw_only=True, metadata=joined(_common)
    )
    #: the groups that each feature is in, from the largest to the smallest; None without groups
    hierarchy: tuple[tuple[str, ...], ...] | None = field(
        default=None, kw_only=True, metadata=joined(_common)
    )
    #: the type of the model, such as "XGBClassifier" or "Pipeline(LogisticRegression)"
    model: str | None = field(default=None, kw_only=True, metadata=joined(_common))
    #: what the players of a game are, such as "member"; None for features of rows
    game: str | None = field(default=None, kw_only=True, metadata=same("players"))
    #: versions of shearshap, the model's libraries, torch and numpy that computed the values
    versions: dict[str, str] = field(
        default_factory=dict, kw_only=True, metadata=joined(_common_items)
    )
    #: every warning of the call, and other remarks on the result
    notes: tuple[str, ...] = field(default=(), metadata=joined(_notes))
    #: the time that it took; None if it is not known, as for a part of the rows
    seconds: float | None = field(default=None, metadata=joined(_total))

    def __post_init__(self) -> None:
        """Fill in default names and labels, and check every shape."""
        if self.index is not None:
            if not isinstance(self.index, Iterable) or isinstance(self.index, str):
                raise InputError(f"index: expected one label per row, got {self.index!r}")
            self._fill("index", label_array(self.index))
        size = declared.checked_sizes(self)
        if self.index is None:
            self._fill("index", np.arange(size["r"]))
        # there are no larger sets than that of all features
        self._fill("interaction_order", min(self.interaction_order, max(2, size["p"])))
        self._fill_names("feature_names", size["p"], "x{}")
        self._fill_names("output_names", size.get("k", 1), "output {}" if "k" in size else "output")

    def _fill_names(self, name: str, count: int, default: str) -> None:
        """Set a field of names, each by its number if there are none, or raise."""
        names = list(getattr(self, name)) or [default.format(number) for number in range(count)]
        if len(names) != count:
            raise InputError(f"{name}: expected {count} names, got {len(names)}")
        self._fill(name, names)

    def _fill(self, name: str, content: Any) -> None:
        """Set a field of this frozen instance, while it is being made."""
        object.__setattr__(self, name, content)

    @property
    def gap(self) -> Floats:
        """Prediction minus base value minus the sum of the values, (r,) or (r, k)."""
        return np.asarray(self.predictions - self.base_values - self.values.sum(axis=1))

    def corrected(self) -> Self:
        """Return the explanation with each row's gap spread equally over its features.

        The values then add up to the prediction, with the smallest change in the least-squares
        sense. Methods that promise efficiency need no correction.
        """
        players = np.arange(self.values.shape[1])
        correction = self.gap[:, None] / len(players)
        interactions = None if self.interactions is None else self.interactions.copy()
        if interactions is not None:
            # only main effects, on the diagonal, take part of the gap
            interactions[:, players, players] += correction
        return replace(self, values=self.values + correction, interactions=interactions)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the confidence interval of every value, lower and upper bound, each like `values`.

        value -+ t standard_error, where Student's t has the standard errors' degrees of freedom.
        """
        if self.standard_errors is None:
            raise InputError(self.missing_errors)
        margin = student_quantile(level, self.degrees_of_freedom) * self.standard_errors
        return self.values - margin, self.values + margin

    @property
    def missing_errors(self) -> str:
        """Why there are no standard errors, and what to pass to have them; "" if there are."""
        if self.standard_errors is not None:
            return ""
        known = (note for note in self.notes if note.startswith(NO_ERRORS))
        reason = f"{self.method} has no standard errors; try method='kriging'"
        return next(known, f"{NO_ERRORS}: {reason}.")

    @property
    def interaction_sets(self) -> list[tuple[int, ...]]:
        """The sets of features of `set_values`: single ones, pairs, and so on."""
        return sets_up_to(self.values.shape[1], self.interaction_order)

    def interaction_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the confidence interval of every interaction, each bound like `interactions`.

        With `set_values`, the bounds have their shape. A pair whose interval does not contain 0
        acts together.
        """
        values, errors = self.set_values, self.set_errors
        if values is None:
            values, errors = self.interactions, self.interaction_errors
        if values is None or errors is None:
            raise InputError(
                "interaction_interval: expected an explanation with interactions and their "
                "standard errors; explain with interactions=True"
            )
        margin = student_quantile(level, self.degrees_of_freedom) * errors
        return values - margin, values + margin

    # Rows and outputs

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `values`, (r, p) or (r, p, k)."""
        return self.values.shape

    def __getitem__(self, rows: Any) -> Self:
        """Return the explanation of some of the rows, by their positions.

        A single row keeps the axis of rows. `explanation[rows, :, output]` and
        `explanation[..., output]` also choose an output, by its number or name. Features stay
        together, since their values add up to the prediction.
        """
        match rows:
            case (some, slice(start=None, stop=None, step=None), output):
                return self[some].output(output)
            case (dots, output) if dots is Ellipsis:
                return self.output(output)
            case tuple():
                raise InputError(
                    "an explanation is indexed by rows and keeps all features: use "
                    "explanation[rows], explanation[rows, :, output] or explanation.values[:, "
                    "feature]"
                )
        places = np.arange(len(self))[rows].reshape(-1)
        evaluations = self.evaluations
        if self.row_evaluations is not None and len(places):
            evaluations = int(self.row_evaluations[places].max())
        return replace(self, **declared.taken(self, places), evaluations=evaluations, seconds=None)

    def row(self, label: Any) -> Self:
        """Return the explanation of the rows with a label, such as an id; see `index`.

        A list of labels gives all their rows, in the order of the list. `explanation[3]` takes rows
        by their positions instead.
        """
        labels = label if isinstance(label, list) else [label]
        known: dict[Any, list[int]] = {}
        if len(labels) > 1:
            for place, each in enumerate(self.index.tolist()):
                known.setdefault(each, []).append(place)
        places = [place for each in labels for place in self._places_of(each, known)]
        return self[np.array(places, dtype=np.int64)]

    def _places_of(self, label: Any, known: Mapping[Any, list[int]]) -> list[int]:
        """Return the places of the rows with a label, some of which are known, or raise."""
        places = known.get(label) if isinstance(label, Hashable) else None
        # labels may be equal without the same hash, such as times of different libraries
        places = places or [place for place, each in enumerate(self.index) if each == label]
        if not places:
            some = ", ".join(map(repr, self.index[:3].tolist()))
            raise InputError(
                f"there is no row {label!r}; there are {some}, ...; explanation[3] takes rows by "
                "position"
            )
        return places

    def output(self, which: int | np.integer[Any] | str) -> Self:
        """Return the explanation of one of several outputs, by its name or number."""
        names = self.output_names
        if isinstance(which, str) and which in names:
            number = names.index(which)
        elif isinstance(which, int | np.integer) and -len(names) <= which < len(names):
            number = int(which)
        else:
            raise InputError(
                f"there is no output {which!r}; there are {', '.join(names)} (0 to "
                f"{len(names) - 1})"
            )
        if self.values.ndim == 2:
            return self
        return replace(self, **declared.of_output(self, number), output_names=[names[number]])

    def fold(self, depth: int = 1) -> "Explanation":
        """Return the explanation of groups: a hierarchy down to a depth, 1 for the largest groups.

        A group's value is the sum of its features' values. Its standard error is the sum of theirs,
        which is enough even if their errors are correlated.
        """
        from shearshap.result.cells import folded

        return folded(self, depth)

    # Importance

    def mean(self, axis: int = 0, *, level: float = 0.95) -> Importance:
        """Return each feature's mean value over the rows, a table with intervals.

        `explanation.abs().mean()` is the mean |value|, the usual measure of importance. For texts
        there is a mean for each word over all texts: a text without the word counts as 0.

        Parameters
        ----------
        axis
            0, the axis of rows, as in shap.
        level
            The level of the intervals. They cover the choice of rows, if these are a random sample,
            and the standard errors of the values. They do not cover the choice of the model.
        """
        return importance(self, sizes=False, level=level, axis=axis)

    @property
    def abs(self) -> Magnitudes:
        """The sizes of the values: `explanation.abs().mean()` is each feature's mean |value|.

        `explanation.abs.mean(0)`, as in shap, is the same.
        """
        return Magnitudes(self)

    def by(self, groups: Any, *, bins: int = 4) -> Cohorts:
        """Return the rows in cohorts, a mapping from names to explanations.

        `explanation.by(groups).abs().mean()` is a table of importance for each cohort.

        Parameters
        ----------
        groups
            One label per row (a list, an array, a column); the name of a feature, whose contents
            are then the labels; or a mapping from names to boolean arrays, which may overlap. Rows
            with equal labels form a cohort; so do rows with a missing label.
        bins
            If a feature has many different numbers, they are cut into at most this many cohorts of
            about the same size.
        """
        return cohorts(self, groups, bins)

    # Other libraries' names, to read

    @property
    def shap_values(self) -> Floats:
        """What shap calls `values`."""
        return self.values

    @property
    def expected_value(self) -> Any:
        """The base value that all rows have, as shap calls it: a number, or one per output (k,).

        It raises an error if rows have different base values, as texts do.
        """
        if not len(self):
            raise InputError("expected_value: there are no rows; use base_values")
        first = self.base_values[0]
        if not np.allclose(self.base_values, first, rtol=1e-6, atol=1e-9):
            raise InputError(
                "expected_value: it differs between rows; use base_values, one per row"
            )
        return float(first) if self.values.ndim == 2 else first

    @property
    def compute_time(self) -> float | None:
        """What shap calls `seconds`."""
        return self.seconds

    @property
    def lower_bounds(self) -> Floats | None:
        """The lower ends of the 95 % intervals; None if there are no standard errors."""
        return None if self.standard_errors is None else self.interval()[0]

    @property
    def upper_bounds(self) -> Floats | None:
        """The upper ends of the 95 % intervals; None if there are no standard errors."""
        return None if self.standard_errors is None else self.interval()[1]

    @classmethod
    def concat(cls, parts: Iterable[Self]) -> Self:
        """Join explanations of different rows to one.

        The rows keep their labels. A part may lack the last features of other parts, as a short
        text lacks words; their values are then 0. `evaluations` is the largest of any part and
        `degrees_of_freedom` the smallest. If only some parts have standard errors, those of the
        other parts are infinite. Other optional fields are None unless all parts have them. Parts
        without rows change nothing.
        """
        every = list(parts)
        whole = join(every)
        _check_bases(every)
        return whole

    # Files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the explanation to a file that `Explanation.load` reads.

        The file is an .npz without pickles, and is never left half written. It holds everything:
        names, data, labels, notes and the calibration. Numbers, texts, times and missing values are
        restored exactly; any other object in `display_data` or `index`, such as a pandas Period,
        becomes its text. Only `seconds` is left out, so that the same result makes the same file.
        """
        from shearshap.result.archive import save

        save(replace(self, seconds=None), Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str], *, max_bytes: int | None = None) -> Self:
        """Return the explanation that `save` wrote to a file.

        Fields that a later version of shearshap added are left out, and a note says so. Anything
        else that `save` does not write is an InputError; nothing in a file is run.

        Parameters
        ----------
        path
            The file.
        max_bytes
            The most bytes that the file may have once it is unpacked. Default: eight times its
            size, or 4 MiB if that is more. `save` does not compress, so a larger file was packed by
            somebody else, perhaps to fill your memory.
        """
        from shearshap.result.archive import load

        return load(cls, Path(path), _check_contents, max_bytes)

    def to_html(self, path: str | PathLike[str], *, title: str | None = None) -> Path:
        """Write a page to send to somebody, and return its path; this needs jinja2.

        It is one HTML file that loads nothing else, and follows the reader's light or dark theme.
        For rows it is the report of `shear explain`: a summary in words, charts of all features,
        and every row. Texts are shown with their parts coloured, by the output or token that the
        reader picks, and the parts ranked below.

        Parameters
        ----------
        path
            The file, such as "why.html". An existing file is replaced.
        title
            The heading of the page.
        """
        from shearshap.apps.report import write
        from shearshap.apps.report.explanation import explanation_page

        return write(explanation_page(self, title), Path(path))

    # Other libraries

    def to_frame(
        self,
        backend: Literal["pandas", "polars", "pyarrow"] = "pandas",
        *,
        wide: bool = False,
        interactions: bool = False,
    ) -> Any:
        """Return a table, by default with one line for each row, feature and output.

        Parameters
        ----------
        backend
            The library of the table.
        wide
            Whether to return one line per row, ready to join to the data. Columns: base_value,
            prediction, gap, evaluations, converged (with `tol`), value.<feature> and
            standard_error.<feature>. With several outputs there are base_value.<output>,
            value.<feature>.<output> and so on. A pandas table has the labels of the rows as its
            index, so that `frame.join(wide)` works; other tables have them in the first column,
            called `index_name` or "row".
        interactions
            Whether to return one line for each row, output and pair of features. Columns: row,
            output, feature, other, value and standard_error. If feature and other are the same, the
            value is the feature's main effect. With interactions of three and more features there
            is a line for each set of features, and the columns are row, output, size, features,
            value and standard_error.

        The columns of the default table are row (its label), output, feature, value, standard_error
        (missing if there is none), data, base_value and prediction. For texts there are also start
        and end, the position of a part in its text, and answer, the part of the answer that is
        explained.
        """
        from shearshap.result import frames as tabular

        if wide and interactions:
            raise InputError(
                "to_frame: wide=True and interactions=True are two tables; ask for one"
            )
        if wide:
            return tabular.wide(self, backend)
        if interactions:
            return (tabular.pairs if self.set_values is None else tabular.sets)(self, backend)
        return tabular.tidy(self, backend)

    def to_shap(self, *, interactions: bool = False) -> Any:
        """Return a `shap.Explanation` that every shap plot takes.

        With several outputs, shap's plots take one at a time: `to_shap()[:, :, k]`.

        Parameters
        ----------
        interactions
            Whether to return shap's interaction values, (r, p, p) or (r, p, p, k): main effects on
            the diagonal, and half of each pair's interaction on either side of it. A feature's row
            adds up to its value.
        """
        from shearshap.interop.shap import shap_explanation

        return shap_explanation(self, interactions=interactions)

    def to_shapiq(self, row: int = 0, output: int | str = 0) -> Any:
        """Return the `shapiq.InteractionValues` of one row and output.

        They hold the interactions if the explanation has any, otherwise Shapley values.
        """
        from shearshap.interop.shapiq import interaction_values

        return interaction_values(self, row, output)

    def __repr__(self) -> str:
        """Return the shape, the method and the cost in one line."""
        rows, players, *outputs = self.values.shape
        size = f"{counted(rows, 'row')}, {counted(players, 'feature')}"
        per_row = " per row"
        if self.game is not None:
            size = f"game of {counted(players, self.game)}"
            per_row = ""
        several = f", {outputs[0]} outputs" if outputs else ""
        passes = f" + {self.derivative_passes} derivative passes" if self.derivative_passes else ""
        noun = "evaluation" if self.evaluations == 1 else "evaluations"
        kind = "" if self.semivalue == SHAPLEY.name else f"{self.semivalue}s, "
        return (
            f"Explanation({size}{several}, {kind}"
            f"method={self.method!r}, {self.evaluations} {noun}{passes}{per_row})"
        )

    def __str__(self) -> str:
        """Return the line of `repr`, and the first rows as a table."""
        from shearshap.result.text import explanation_text

        return explanation_text(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Show the table in IPython's terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook, as a table with bars."""
        from shearshap.result.html import explanation_html

        return explanation_html(self)


# Parts


def join(parts: Sequence[Joined]) -> Joined:
    """Return parts of one call as one explanation."""
    if not parts:
        raise InputError("concat: expected at least one explanation, got none")
    if len(parts) == 1:
        return parts[0]
    _check_alike(parts)
    filled = [part for part in parts if len(part)]
    return declared.concat(filled) if filled else parts[0]


# What a file may hold

_NEEDS = {
    "starts": "ends",
    "ends": "starts",
    "set_values": "set_errors",
    "set_errors": "set_values",
}
_NOT_NEGATIVE = {
    "evaluations", "derivative_passes", "check_evaluations", "row_evaluations", "background_rows",
    "degrees_of_freedom", "standard_errors", "interaction_errors", "set_errors", "seconds",
}  # fmt: skip
_MAX_COUNT = 2**63 - 1  #: that arrays hold


def _check_contents(contents: Mapping[str, Any]) -> None:
    """Raise if the contents of some fields cannot be those of one explanation."""
    present = {name: content for name, content in contents.items() if content is not None}
    for name, needed in _NEEDS.items():
        if name in present and needed not in present:
            raise ValueError(f"it has {name}, but no {needed}")
    for name in present.keys() & _NOT_NEGATIVE:
        if np.any(np.less(present[name], 0)):
            raise ValueError(f"its field {name!r} holds a negative number")
    for name, content in present.items():
        if isinstance(content, int) and content > _MAX_COUNT and name != "seed":
            raise ValueError(f"its field {name!r} holds a number that is too large")
    _check_sets(present)
    _check_levels(present.get("index_name"), present.get("index", ()))


def _check_sets(present: Mapping[str, Any]) -> None:
    """Raise if the values of sets of features are not those of all sets up to the order."""
    players = present["values"].shape[1]
    order = present.get("interaction_order", 2)
    if not 2 <= order <= max(2, players):
        raise ValueError(f"its interaction_order is {order}, of {players} features")
    sets = sum(comb(players, size) for size in range(1, order + 1))
    if "set_values" in present and present["set_values"].shape[1] != sets:
        raise ValueError(f"its set_values are not those of {sets} sets")


def _check_levels(name: Any, labels: Iterable[Any]) -> None:
    """Raise if labels of several levels do not have as many as they have names."""
    levels = {len(label) for label in labels if isinstance(label, tuple)}
    if isinstance(name, list) or (isinstance(name, tuple) and levels - {len(name)}):
        raise ValueError(f"its index_name {name} does not fit its labels")


def _check_alike(parts: Sequence[Any]) -> None:
    """Raise if parts cannot be joined: they have different outputs, or different players."""
    first = parts[0]
    players = _longest([part.feature_names for part in parts])
    for number, part in enumerate(parts):
        same_axes = part.values.ndim == first.values.ndim
        if not same_axes or part.output_names != first.output_names:
            raise InputError(
                f"concat: expected parts with the same outputs; part 0 has {first.output_names} "
                f"and values {first.shape}, part {number} {part.output_names} and {part.shape}"
            )
        for name, wanted in zip(part.feature_names, players, strict=False):
            if name != wanted:
                raise InputError(
                    "concat: expected parts with the same features, or with the first of them; "
                    f"part {number} has {name!r} instead of {wanted!r}"
                )
    check_same(parts)
    paired = [part for part in parts if part.interactions is not None]
    highest = max((part.interaction_order for part in paired), default=2)
    for part in paired:
        # a part of few players has no larger sets
        if part.interaction_order < min(highest, part.values.shape[1]):
            raise InputError(
                "concat: expected parts with interactions of the same order; got orders "
                f"{part.interaction_order} and {highest}"
            )


def _check_bases(parts: Sequence[Any]) -> None:
    """Raise if parts were compared with different background rows, as their base values show.

    Those of texts, and of losses, belong to single rows.
    """
    filled = [part for part in parts if len(part)]
    own = [part.texts is not None or part.output_names[0].startswith("-") for part in filled]
    is_known = all(part.background is not None for part in filled)
    varies = any(np.ptp(part.base_values, axis=0).any() for part in filled)
    if any(own) or varies or not is_known:
        return
    bases = [part.base_values[0] for part in filled]
    sizes = [np.abs(part.predictions).max() for part in filled]
    if filled and np.ptp(bases, axis=0).max() > ROUNDING * max(sizes):
        shown = ", ".join(dict.fromkeys(f"{np.ravel(base)[0]:.6g}" for base in bases))
        raise InputError(
            "concat: expected parts with the same background; their base values differ: "
            f"{shown[:200]}"
        )
