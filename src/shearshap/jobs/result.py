"""The result of a job: the explanation of a file's rows, its facts for JSON and its summary."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shearshap import __version__
from shearshap.explanation import Explanation

if TYPE_CHECKING:
    import pyarrow as pa

    from shearshap.jobs.job import Job

OUTPUTS = 4  #: shown in summary and report; the file has all
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

    @property
    def aside(self) -> list[str]:
        """The columns of the file that the model was not given."""
        given = set(self.columns)
        return [name for name in self.data.column_names if name not in given]


def facts(job: "Job", result: Result) -> dict[str, Any]:
    """Return all that is to be known of an explanation beside its numbers, for JSON."""
    explanation = result.explanation
    degrees = explanation.degrees_of_freedom
    return {
        "version": __version__,
        "command": job.command,
        "model": job.model,
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
    }


def summary(job: "Job", result: Result) -> str:
    """Return what came out, a line for each fact."""
    explanation = result.explanation
    features = counted(len(explanation.feature_names), "feature")
    outputs = ", ".join(explanation.output_names) if job.outputs else ""
    cost = f"{_spent(explanation)} evaluations a row, seed {explanation.seed}"
    gap = np.abs(explanation.gap).max()
    lines = [
        ("rows", f"{len(explanation):,} of {job.data}, {features} each"),
        ("model", result.model),
        ("background", result.background),
        ("outputs", outputs),
        ("not used", ", ".join(result.aside)),
        *(("note", note) for note in result.notes),
        ("method", f"{explanation.method}, {cost}"),
        ("gap", f"at most {gap:.3g} of a row's prediction is not shared out"),
        *(("|value|", line) for line in _largest_values(explanation)),
        ("written to", str(job.out)),
        ("report", f"{job.page}, for a browser" if job.report else ""),
    ]
    return "\n".join(f"{name:<12}{text}" for name, text in lines if text)


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
    sizes = np.abs(explanation.values).mean(axis=0)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    nothing = 1e-9 * sizes.max()  # rounding errors of players that the model does not use
    parts = [
        f"{explanation.feature_names[player]} {sizes[player]:.3g}"
        for player in largest
        if sizes[player] > nothing
    ]
    return ", ".join(parts) or "all 0"


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {what}{plural}"
