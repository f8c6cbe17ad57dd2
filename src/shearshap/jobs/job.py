"""`shear explain`: a model's file and a table's file to an explanation's file."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shearshap import __version__
from shearshap.adapters import Scale, checked_scale
from shearshap.errors import InputError, ShearWarning
from shearshap.explainer import Explainer
from shearshap.explanation import Explanation
from shearshap.inputs.background import STATISTICS
from shearshap.inputs.display import numbers_and_words
from shearshap.inputs.frames import as_frame
from shearshap.jobs import tables
from shearshap.jobs.models import Opened, importing, open_model

if TYPE_CHECKING:
    import pyarrow as pa

AVERAGED = 1_000
"""Background rows beyond which a budget must be given: every coalition costs an evaluation for each
of them.
"""
OUTPUTS = 4  #: shown in summary and report; the file has all


@dataclass(frozen=True)
class Job:
    """What to explain, as the command line says it."""

    model: str
    data: Path
    out: Path
    background: str | None = None  #: a file, "mean", "median", "mode", or "mean:file"
    budget: int | None = None
    method: str = "auto"
    outputs: tuple[str, ...] = ()  #: names or numbers; none: all
    scale: str | None = None
    drop: tuple[str, ...] = ()
    seed: int = 0
    tol: float | None = None
    trust: bool = False
    path: Path | None = None  #: the user's copy of Criteo's file
    report: bool = False

    @property
    def page(self) -> Path:
        """The file of the report."""
        return self.out.with_suffix(".html")

    @property
    def inputs(self) -> dict[str, Path]:
        """The files that are read, each by what it is in words."""
        model = Path(self.model)
        if not model.exists():
            model = Path(self.model.rpartition(":")[0])  # of path/to/file.py:function
        files = {
            "the data explained": self.data,
            "the background": background_parts(self.background)[1],
        }
        files |= {"the model": model, "Criteo's file": self.path}
        return {told: file for told, file in files.items() if file is not None}


def background_parts(given: str | None) -> tuple[str | None, Path | None]:
    """Return the statistic and the file that a background names, None for what it does not."""
    name, colon, after = (given or "").partition(":")
    statistic = name if name in STATISTICS else None
    file = after if statistic else given
    if given is not None and not file and (colon or not statistic):
        raise InputError(
            f"background: wanted mean, median or mode, a file, or mean:FILE; got {given!r}"
        )
    return statistic, Path(file) if file else None


@dataclass(frozen=True, eq=False)
class Result:
    """An explanation of a file's rows, and what else is worth telling."""

    explanation: Explanation
    data: "pa.Table"  #: all columns of the file, also those that the model was not given
    model: str  #: in words
    background: str  #: in words
    columns: tuple[str, ...]  #: that the model was given
    notes: tuple[str, ...] = ()

    @property
    def aside(self) -> list[str]:
        """The columns of the file that the model was not given."""
        return [name for name in self.data.column_names if name not in self.columns]


@dataclass(frozen=True, eq=False)
class _Background:
    """What stands for absent players: a statistic, of a file's rows or of those explained, or rows
    themselves.
    """

    told: str  #: in words
    statistic: str | None = None
    rows: "pa.Table | None" = None  #: of a file
    encoded: Any = None  #: one row, ready for the model

    def reference(self, rows: Any) -> Any:
        """Return what an `Explainer` takes, given the file's rows as the model takes them."""
        if rows is None:
            return self.statistic if self.encoded is None else self.encoded
        return rows if self.statistic is None else (self.statistic, rows)


def explain_file(job: Job) -> Result:
    """Explain the rows of a file; nothing is written yet."""
    scale = _checked(job)
    with importing(job.model):
        return _explained(job, scale)


def _checked(job: Job) -> Scale | None:
    """Return the scale asked for; raise where something shows before any work that it cannot be
    done.
    """
    for library in ("pyarrow", "pandas", *(("jinja2",) if job.report else ())):
        if find_spec(library) is None:
            what = "--report" if library == "jinja2" else "shear explain"
            raise InputError(f"{what} needs {library}: pip install 'shearshap[explain]'")
    tables.check_out(job.out, job.inputs)
    if job.report:
        tables.check_place(job.page, "report", job.inputs)
    tables.check_in(job.data, "data")
    background = background_parts(job.background)[1]
    if background is not None:
        tables.check_in(background, "background")
    return checked_scale(job.scale, None)


def _explained(job: Job, scale: Scale | None) -> Result:
    opened = open_model(job.model, trust=job.trust, scale=scale, path=job.path)
    read = _read(job.data, "data", opened)
    data = tables.without_index(read)
    columns = _columns(opened, data, job)
    rows = _chosen(data, columns, job.data, opened)
    background = _background(job, columns, opened, len(rows))
    given, absent = _prepared(rows, background.rows, opened)
    index = (
        f"the first column of {job.data} has no name, as pandas' index has none, and is left out"
    )
    notes = [*([] if data is read else [index]), *_unseen(rows, opened)]
    with _noted(notes):
        found = _explainer(job, opened, scale, background.reference(absent))(
            given, budget=job.budget, tol=job.tol
        )
    shown = _readable(found, rows, opened)
    return Result(shown, data, opened.name, background.told, tuple(columns), tuple(notes))


def facts(job: Job, result: Result, command: str) -> dict[str, Any]:
    """Return all that is to be known of an explanation beside its numbers, for JSON."""
    found = result.explanation
    return {
        "version": __version__,
        "command": command,
        "model": job.model,
        "data": str(job.data),
        "background": result.background,
        "method": found.method,
        "budget": job.budget,
        "tol": job.tol,
        "seed": found.seed,
        "scale": job.scale,
        "evaluations": found.evaluations,
        "derivative_passes": found.derivative_passes,
        "degrees_of_freedom": found.degrees_of_freedom
        if np.isfinite(found.degrees_of_freedom)
        else None,
        "rows": len(found),
        "players": found.feature_names,
        "outputs": found.output_names,
    }


def _read(path: Path, what: str, opened: Opened) -> "pa.Table":
    return tables.read(path, what, text=opened.network.text if opened.network else ())


def _columns(opened: Opened, data: "pa.Table", job: Job) -> list[str]:
    """Return the columns to give to the model: those that it was trained with, else all that are
    not dropped.
    """
    there = data.column_names
    unknown = [name for name in job.drop if name not in there]
    if unknown:
        raise InputError(
            f"drop: there is no column {unknown[0]!r} in {job.data}; it has {', '.join(there)}"
        )
    kept = [name for name in there if name not in job.drop]
    needed = [name for name in job.drop if name in opened.columns]
    if needed:
        raise InputError(f"drop: the model takes column {needed[0]!r}, which cannot be dropped")
    if opened.width not in (None, len(kept)) and not opened.columns:
        raise InputError(
            f"the model takes {opened.width} columns, and {job.data} has {len(kept)}: "
            f"{', '.join(kept)}; leave out "
            "what is no input with --drop COLUMN"
        )
    return list(opened.columns) or kept


def _chosen(table: "pa.Table", columns: Sequence[str], path: Path, opened: Opened) -> "pa.Table":
    """Return the columns that the model takes, full where it takes no missing values."""
    found = tables.chosen(table, columns, path)
    if not opened.takes_missing:
        tables.check_full(found, path)
    return found


def _background(job: Job, columns: Sequence[str], opened: Opened, rows: int) -> _Background:
    """Return what absent players are replaced with.

    Where nothing is said: a network's own reference, from its training rows; else the mean of the
    rows explained.
    """
    if job.background is None and opened.network is not None:
        dataset = opened.network.dataset
        return _Background(f"the mean training row of {dataset.name}", encoded=dataset.reference)
    statistic, file = background_parts(job.background)
    if file is not None:
        return _background_file(job, statistic, file, columns, opened)
    statistic = statistic or "mean"
    if rows < 2:
        raise InputError(
            f"background: {job.data} has one row, which cannot be its own background; "
            f"give --background {statistic}:FILE"
        )
    return _Background(f"{statistic} of the rows explained", statistic)


def _background_file(
    job: Job, statistic: str | None, file: Path, columns: Sequence[str], opened: Opened
) -> _Background:
    """Return the rows of a file, or a statistic of them."""
    found = _chosen(_read(file, "background", opened), columns, file, opened)
    if statistic is None and job.budget is None and len(found) > AVERAGED:
        raise InputError(
            f"background: each of the {len(found):,} rows of {file} would be asked for every "
            "coalition; give fewer, or "
            f"--background mean:{file}, or a --budget that allows for them"
        )
    rows = f"the {len(found):,} rows of {file}" if len(found) > 1 else f"the row of {file}"
    return _Background(f"{statistic} of {rows}" if statistic else rows, statistic, found)


def _prepared(rows: "pa.Table", absent: "pa.Table | None", opened: Opened) -> tuple[Any, Any]:
    """Return rows and background as the model takes them: encoded for a network of ours, else
    frames.
    """
    parts = [rows] if absent is None else [rows, absent]
    if opened.network is not None:
        made: list[Any] = [opened.network.encode(tables.cells(part)) for part in parts]
    else:
        made = tables.frames(parts, categories=opened.categories)
    return made[0], made[1] if len(made) > 1 else None


def _explainer(job: Job, opened: Opened, scale: Scale | None, reference: Any) -> Explainer:
    return Explainer(
        opened.model,
        reference,
        method=job.method,
        groups=opened.network.dataset.groups if opened.network else None,
        output=_output(job.outputs, opened.outputs),
        scale=scale,
        output_names=opened.outputs or None,
        seed=job.seed,
    )


def _output(wanted: tuple[str, ...], names: Sequence[str]) -> Any:
    """Return the outputs asked for: names where there are such names, else numbers."""
    found = [
        int(one) if one not in names and one.removeprefix("-").isdecimal() else one
        for one in wanted
    ]
    return None if not found else found[0] if len(found) == 1 else found


def _readable(found: Explanation, rows: "pa.Table", opened: Opened) -> Explanation:
    """Return an explanation with the raw cells beside its values, where the model was given encoded
    ones.
    """
    frame = as_frame(rows, "data") if opened.network else None
    if frame is None:
        return found
    numbers, words = numbers_and_words(frame)
    return replace(found, data=numbers, display_data=words)


def _unseen(rows: "pa.Table", opened: Opened) -> Iterator[str]:
    """Yield a note for each column with categories that a network's training did not have."""
    unseen = opened.network.unseen(tables.cells(rows)) if opened.network else {}
    for name, (count, example) in unseen.items():
        yield f"{name}: {count} of {len(rows):,} cells hold a category that training did not have, such as {example!r}"


@contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Add our own warnings to the notes; those of others are theirs to give."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShearWarning)
        yield
    for one in caught:
        told = " ".join(str(one.message).split())
        if issubclass(one.category, ShearWarning):
            notes += [] if told in notes else [told]
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def summary(job: Job, result: Result) -> str:
    """Return what came out, a line for each fact."""
    found = result.explanation
    cost = f"{_spent(found)} evaluations a row, seed {found.seed}"
    lines = [
        (
            "rows",
            f"{len(found):,} of {job.data}, {counted(len(found.feature_names), 'feature')} each",
        ),
        ("model", result.model),
        ("background", result.background),
        ("outputs", ", ".join(found.output_names) if job.outputs else ""),
        ("not used", ", ".join(result.aside)),
        *(("note", note) for note in result.notes),
        ("method", f"{found.method}, {cost}"),
        ("gap", f"at most {np.abs(found.gap).max():.3g} of a row's prediction is not shared out"),
        *(("|value|", line) for line in _largest(found)),
        ("written to", str(job.out)),
    ]
    return "\n".join(f"{name:<12}{told}" for name, told in lines if told)


def _spent(found: Explanation) -> str:
    if found.row_evaluations is None:
        return f"{found.evaluations:,}"
    return f"{found.row_evaluations.mean():,.0f} (at most {found.evaluations:,})"


def _largest(found: Explanation, count: int = 5) -> list[str]:
    """Return the mean size of the largest players' values, a line for each of the first outputs."""
    several, names = found.values.ndim == 3, found.output_names
    lines = []
    for number in range(min(OUTPUTS, len(names))):
        sizes = np.abs(found.output(number).values).mean(axis=0)
        top = [
            player
            for player in np.argsort(-sizes, kind="stable")[:count]
            if sizes[player] > 1e-9 * sizes.max()
        ]
        told = (
            ", ".join(f"{found.feature_names[player]} {sizes[player]:.3g}" for player in top)
            or "all 0"
        )
        lines.append(f"{names[number]}: {told}" if several else told)
    left_out = len(names) - len(lines)
    return [*lines, f"{counted(left_out, 'output')} more in the file"] if left_out else lines


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
