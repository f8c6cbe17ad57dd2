"""The result of a job: the explanation of a file's rows, its facts for JSON and its summary."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shearshap import __version__
from shearshap.errors import InputError
from shearshap.jobs.executors import ShardResult
from shearshap.jobs.options import Options
from shearshap.result.explanation import Explanation
from shearshap.result.importance import mean_sizes

if TYPE_CHECKING:
    import pyarrow as pa

OUTPUTS = 4  #: shown in the summary; the file has all
ROUNDING = 1e-6  #: relative to the largest value: a smaller gap is none
LARGEST = 5  #: features named in the summary


@dataclass(frozen=True, eq=False)
class Result:
    """An explanation of a file's rows, and what a reader of it needs to know."""

    explanation: Explanation
    data: "pa.Table"  #: all columns of the file, also those that the model was not given
    model: str  #: in words
    background: str  #: in words
    columns: tuple[str, ...]  #: that the model was given
    notes: tuple[str, ...] = ()
    id_column: str | None = None  #: that labels the rows
    keep: tuple[str, ...] | None = None  #: columns to write beside the values; None: all

    @property
    def aside(self) -> list[str]:
        """The columns of the file that the model was not given, and that do not label the rows."""
        known = {*self.columns, self.id_column}
        return [name for name in self.data.column_names if name not in known]

    @property
    def beside_values(self) -> "pa.Table":
        """The columns to write beside the values: those to keep, but for ids."""
        names = self.data.column_names if self.keep is None else list(dict.fromkeys(self.keep))
        is_input = self.id_column in self.columns
        return self.data.select([name for name in names if name != self.id_column or is_input])


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run of a job has done."""

    out: Path  #: the file of values, or the folder of parts
    rows: int  #: explained in this run
    summary: str  #: for people, a line for each fact
    report: Path | None = None  #: the page, if the job has one
    result: Result | None = None  #: of a file; the values of a folder are in its parts
    notes: tuple[str, ...] = ()
    rows_before: int = 0  #: explained in earlier runs
    rows_failed: int = 0
    parts: int = 1  #: files of values
    seconds: float = 0.0
    evaluations: int = 0  #: of the model in this run, without those of a folder's sample
    retries: int = 0
    peak_bytes: int = 0  #: the most memory that a worker has held
    failures: tuple[ShardResult, ...] = ()  #: the shards that could not be explained

    @property
    def explanation(self) -> Explanation:
        """The explanation of the rows of a file."""
        if self.result is None:
            raise InputError(f"explanation: the values are in the parts in {self.out}; read those")
        return self.result.explanation

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary


def facts(job: Options, result: Result) -> dict[str, Any]:
    """Return all that is to be known of an explanation beside its numbers, for JSON."""
    explanation = result.explanation
    degrees = explanation.degrees_of_freedom
    return {
        "version": __version__,
        "command": job.command,
        "model": job.model_name,
        "data": str(job.data),
        "background": result.background,
        "method": explanation.method,
        "budget": job.budget,
        "tol": job.tol,
        "seed": explanation.seed,
        "scale": job.scale,
        "returns": job.returns,
        "multilabel": job.multilabel,
        "evaluations": explanation.evaluations,
        "derivative_passes": explanation.derivative_passes,
        "degrees_of_freedom": degrees if np.isfinite(degrees) else None,  # JSON has no infinity
        "rows": len(explanation),
        "players": explanation.feature_names,
        "outputs": explanation.output_names,
        "id": job.id_column,
        "groups": {name: list(columns) for name, columns in job.groups.items()} or None,
        "interactions": job.interactions,
    }


def summary(job: Options, result: Result) -> str:
    """Return what came out, a line for each fact."""
    explanation = result.explanation
    features = counted(len(explanation.feature_names), "feature")
    outputs = ", ".join(explanation.output_names) if job.outputs else ""
    cost = f"{_spent(explanation)} evaluations a row, seed {explanation.seed}"
    lines = [
        ("rows", f"{len(explanation):,} of {job.data}, {features} each"),
        ("model", result.model),
        ("background", result.background),
        ("row id", job.id_column or ""),
        ("outputs", outputs),
        ("not used", ", ".join(result.aside)),
        *(("note", note) for note in result.notes),
        ("method", f"{explanation.method}, {cost}"),
        ("gap", _gap(explanation)),
        *(("mean |SHAP|", line) for line in _largest_values(explanation)),
        ("written to", str(job.out)),
        ("", f"{job.interactions_file}, pair by pair" if job.interactions else ""),
        ("report", _page(job)),
    ]
    return aligned(lines)


def aligned(lines: Sequence[tuple[str, str]]) -> str:
    """Return a line for each fact that is known, under one another."""
    return "\n".join(f"{name:<12}{text}" for name, text in lines if text)


def _gap(explanation: Explanation) -> str:
    """Return how much of the predictions the values miss, "" if that is rounding."""
    gap = np.abs(explanation.gap).max()
    if gap <= ROUNDING * np.abs(explanation.values).max(initial=0.0):
        return ""
    return f"unexplained remainder of at most {gap:.3g} in a row"


def _spent(explanation: Explanation) -> str:
    """Return the evaluations of a row in words."""
    most = f"{explanation.evaluations:,}"
    if explanation.row_evaluations is None:
        return most
    return f"{explanation.row_evaluations.mean():,.0f} (at most {most})"


def _largest_values(explanation: Explanation) -> list[str]:
    """Return the players with the largest values, a line for each of the first outputs."""
    names = explanation.output_names
    several = explanation.values.ndim == 3
    lines = []
    for number, name in enumerate(names[:OUTPUTS]):
        players = _largest_players(explanation.output(number))
        lines.append(f"{name}: {players}" if several else players)

    left_out = len(names) - len(lines)
    if left_out:
        lines.append(f"{counted(left_out, 'output')} more in the file")
    return lines


def _largest_players(explanation: Explanation) -> str:
    """Return the players of the largest mean |value|, for one output, as text."""
    sizes = mean_sizes(explanation)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    nothing = 1e-9 * sizes.max()  # rounding errors of players that the model does not use
    parts = [
        f"{explanation.feature_names[player]} {sizes[player]:.3g}"
        for player in largest
        if sizes[player] > nothing
    ]
    return ", ".join(parts) or "all 0"


def _page(job: Options) -> str:
    """Return the report's place and size, "" if there is none."""
    if not job.report:
        return ""
    return f"{job.page}, {file_size(job.page.stat().st_size)}, for a browser"


def file_size(count: int) -> str:
    """Return a number of bytes as people read it."""
    if count < 1_000_000:
        return f"{max(1, round(count / 1000))} kB"
    return f"{count / 1_000_000:.1f} MB"


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {what}{plural}"
