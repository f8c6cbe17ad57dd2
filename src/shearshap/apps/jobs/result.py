"""The result of a job: what was done, in words and as facts for JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from shearshap import __version__
from shearshap.apps.jobs.options import Options
from shearshap.apps.jobs.places import reason, size
from shearshap.apps.jobs.plan import Plan, described
from shearshap.apps.jobs.shards import ShardResult
from shearshap.apps.jobs.urls import Place
from shearshap.apps.jobs.values import write_html
from shearshap.apps.jobs.work import Block
from shearshap.apps.report.explained import page
from shearshap.apps.report.result import ROUNDING, Result, file_size
from shearshap.errors import InputError
from shearshap.result.cells import label_array, without_mirror
from shearshap.result.explanation import Explanation
from shearshap.result.importance import mean_sizes
from shearshap.result.text import counted

MAX_OUTPUTS = 4  #: shown in the summary; the file has all
MAX_FEATURES = 5  #: named in the summary


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a run of a job."""

    out: Place  #: the file of values, or the folder of parts
    rows: int  #: explained in this run
    summary: str  #: for people, a line for each fact
    report: Place | None = None  #: the page, if the job has one
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
            raise InputError(f"explanation: the values are in the files in {self.out}; read those")
        return self.result.explanation


def facts(job: Options, result: Result) -> dict[str, Any]:
    """Return all that is to be known of an explanation beside its numbers, for JSON."""
    explanation = result.explanation
    degrees = explanation.degrees_of_freedom
    return {
        "version": __version__,
        "command": job.command,
        "model": job.model_name,
        "data": str(job.data),
        "title": job.title,
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
        "features": explanation.feature_names,
        "outputs": explanation.output_names,
        "id": job.id_column,
        "groups": dict(job.groups) or None,
        "interactions": job.interactions,
        "interaction_index": job.interaction_index if job.interactions else None,
        "semivalue": explanation.semivalue,
        "loss": job.loss_name,
        "label": job.label,
    }


def file_summary(job: Options, result: Result, page: Place | None) -> str:
    """Return what came out of a file, a line for each fact."""
    explanation = result.explanation
    features = counted(len(explanation.feature_names), "feature")
    cost = f"{_spent(explanation)} evaluations per row, seed {explanation.seed}"
    sizes = "mean |SHAP|" if job.semivalue == "shapley" else "mean size"
    lines = [
        ("rows", f"{len(explanation):,} of {job.data}, {features} each"),
        ("model", result.model),
        ("background", result.background),
        ("row id", job.id_column or ""),
        ("outputs", ", ".join(explanation.output_names) if job.outputs else ""),
        ("not used", ", ".join(result.extra_columns)),
        *(("note", note) for note in result.notes),
        ("method", f"{explanation.method}, {cost}"),
        ("gap", _gap(explanation)),
        *((sizes, line) for line in _largest_values(explanation)),
        ("written to", str(job.out)),
        ("", f"{job.interactions_file}, the interactions" if job.interactions else ""),
        ("report", _page(page)),
    ]
    return _aligned(lines)


def folder_summary(outcome: Outcome, facts: Sequence[tuple[str, str]]) -> str:
    """Return what came out of a folder, a line for each fact."""
    speed = outcome.rows / max(outcome.seconds, 1e-9)
    memory = f"at most {outcome.peak_bytes / 1e6:,.0f} MB in a worker"
    lines = [
        ("rows", f"{outcome.rows:,} explained, {outcome.rows_before:,} done before"),
        ("failed", f"{outcome.rows_failed:,} rows" if outcome.rows_failed else ""),
        *facts,
        *(("note", note) for note in outcome.notes),
        ("time", f"{tqdm.format_interval(outcome.seconds)}, {speed:,.0f} rows/s"),
        ("evaluations", f"{outcome.evaluations:,}"),
        ("retries", str(outcome.retries)),
        ("memory", memory if outcome.peak_bytes else ""),
        ("written to", f"{outcome.out}, {counted(outcome.parts, 'part')}"),
        ("report", _page(outcome.report)),
    ]
    return _aligned(lines)


def _aligned(lines: Sequence[tuple[str, str]]) -> str:
    """Return a line for each fact that is known, under one another."""
    return "\n".join(f"{name:<12}{text}" for name, text in lines if text)


def _gap(explanation: Explanation) -> str:
    """Return how much of the predictions the values miss, "" if that is rounding."""
    gap = np.abs(explanation.gap).max()
    if gap <= ROUNDING * np.abs(explanation.values).max(initial=0.0):
        return ""
    return f"unexplained remainder of at most {gap:.3g} per row"


def _spent(explanation: Explanation) -> str:
    """Return the evaluations of a row in words."""
    most = f"{explanation.evaluations:,}"
    if explanation.row_evaluations is None:
        return most
    mean = f"{explanation.row_evaluations.mean():,.0f}"
    return most if mean == most else f"{mean} (at most {most})"


def _largest_values(explanation: Explanation) -> list[str]:
    """Return the features with the largest mean |value|, a line for each of the first outputs."""
    explanation = without_mirror(explanation)
    names = explanation.output_names
    lines = []
    for number, name in enumerate(names[:MAX_OUTPUTS]):
        sizes = mean_sizes(explanation.output(number))
        nothing = 1e-9 * sizes.max()  # rounding errors of features that the model does not use
        largest = [
            f"{explanation.feature_names[player]} {sizes[player]:.3g}"
            for player in np.argsort(-sizes, kind="stable")[:MAX_FEATURES]
            if sizes[player] > nothing
        ]
        features = ", ".join(largest) or "all 0"
        lines.append(features if name == "output" else f"{name}: {features}")
    if len(names) > MAX_OUTPUTS:
        lines.append(f"{counted(len(names) - MAX_OUTPUTS, 'output')} more in the file")
    return lines


def _page(page: Place | None) -> str:
    """Return the report's place and size, "" if there is none."""
    return "" if page is None else f"{page}, {file_size(size(page))}, for a browser"


def result_of(plan: Plan, block: Block, data: Any) -> Result:
    """Return the result for a block's rows, of which `data` has all columns, under their ids."""
    name = plan.job.id_column
    labels = (
        block.numbers
        if name is None
        else label_array(block.data[name].to_pandas(integer_object_nulls=True))
    )
    background = described(plan.background, block.explanation).description
    return Result(
        explanation=replace(
            block.explanation,
            index=labels,
            index_name=name,
            background=background,
        ),
        data=data,
        model=plan.model.name,
        background=background,
        columns=tuple(plan.columns.schema.names),
        notes=tuple(dict.fromkeys((*plan.notes, *block.explanation.notes))),
        id_column=name,
    )


def report_of(job: Options, result: Result) -> Place:
    """Write the report of a job, and return its file."""
    try:
        return write_html(page(result, facts(job, result)), job.page)
    except OSError as error:
        raise InputError(
            f"report: {job.page} cannot be written: {reason(error)}; the values are in {job.out}"
        ) from error
