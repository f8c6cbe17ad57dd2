"""The command `shear`: it explains models from a terminal.

Other distributions add commands by the entry point group `shearshap.commands`, and kinds of model
folders by `shearshap.models`. shearshap-lab adds `shear paper` and `shear benchmark`.
"""

import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from importlib.metadata import entry_points
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup

from shearshap import __version__
from shearshap.errors import InputError, ShearError

stop_reported = False  #: whether a command that was interrupted has said what it keeps

# An option of each section of the help; the sections come in this order
INPUT = partial(Option, rich_help_panel="Input")
QUESTION = partial(Option, rich_help_panel="What to explain")
PRECISION = partial(Option, rich_help_panel="Precision")
OUTPUT = partial(Option, rich_help_panel="Output")
SERVICE = partial(Option, rich_help_panel="Service")
LIMITS = partial(Option, rich_help_panel="Limits of requests")
LARGE = partial(Option, rich_help_panel="Large jobs")
COMPUTING = partial(Option, rich_help_panel="Computing")
SECTIONS = [
    option.keywords["rich_help_panel"]
    for option in (INPUT, QUESTION, PRECISION, OUTPUT, SERVICE, LIMITS, LARGE, COMPUTING)
]
OTHERS = "Options"  #: the section of options of no other
COMMANDS = "Explain models"  #: the section of our own commands

GOES_ON = "finished parts are kept; run the same command again to continue"


class Commands(TyperGroup):
    """Commands in sections, whose expected errors are one line each, without a traceback."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections, each command with the whole first sentence of its help."""
        sections: dict[str, list[tuple[str, str]]] = {COMMANDS: []}
        for name in self.list_commands(ctx):
            command = self.commands[name]
            words = command.get_short_help_str(limit=formatter.width)
            section = getattr(command, "rich_help_panel", None) or COMMANDS
            sections.setdefault(section, []).append((name, words))
        for name, lines in sections.items():
            with formatter.section(name):
                formatter.write_dl(lines)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run the command.

        Exit with 2 if shearshap, or the disk, refuses, and with 130 if it is interrupted.
        """
        try:
            return super().invoke(ctx)
        except (ShearError, OSError) as error:
            message = " ".join(str(error).split())
            typer.echo(f"error: {message}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            # a command that keeps more says so itself
            kept = str(error) or "no partial file was left"
            typer.echo(f"stopped; {kept}", err=True)
            global stop_reported
            stop_reported = True
            raise typer.Exit(130) from error


class Sections(TyperCommand):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in (*SECTIONS, OTHERS)}
        for parameter in self.get_params(ctx):
            line = parameter.get_help_record(ctx)
            if line is not None:
                name, words = line
                words = re.sub(r"; x[<>].*\]$", "]", words)  # the range of a number
                words = re.sub(r"\[default: \((.*)\)\]$", r"[default: \1]", words)
                section = getattr(parameter, "rich_help_panel", None) or OTHERS
                sections[section].append((name, words))
        for name, lines in sections.items():
            if lines:
                with formatter.section(name):
                    formatter.write_dl(lines)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shear {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Shapley values of any model.

    \b
    Explain a model of yours:
        shear explain --model model.onnx --data rows.csv --background train.csv \\
            --out values.parquet --report

    \b
    See which features it needs, by its loss:
        shear importance --model model.onnx --data test.csv --label late --loss "log loss"

    \b
    Let people change a row in a browser, and see its values move:
        shear serve --model model.onnx --data rows.csv --background train.csv
    """  # noqa: D301


# Options of several commands

Texts = list[str] | None


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """The options of all commands."""

    model: Annotated[
        str,
        INPUT(
            help="A file: .onnx; .json or .ubj (XGBoost), .txt (LightGBM), .cbm (CatBoost); "
            ".joblib or .pkl with --trust. Or module:function, path/to/file.py:function."
        ),
    ]
    data: Annotated[
        Path,
        INPUT(help="The rows: a CSV or Parquet file; for shear explain also a folder of Parquet."),
    ]
    background: Annotated[
        str | None,
        INPUT(
            help="What the rows are compared with. Rows of a file: "
            "'sample:train.csv' (100 of them, or 'sample:train.csv:200'), 'kmeans:train.csv:20', "
            "'all:train.csv'; or one row: 'mean:train.csv', 'median:...', 'mode:...'; if features "
            "move together: 'copula:train.csv', 'gaussian:...', 'empirical:...', 'learned:...'.",
            show_default="the model's background if it has one, otherwise a sample of the rows",
        ),
    ] = None
    output: Annotated[
        Texts, QUESTION(help="Name or number of a class (repeatable).", show_default="all")
    ] = None
    scale: Annotated[
        str | None,
        QUESTION(
            help="probability, log-odds, margin or logit.",
            show_default="raw output; probabilities for classifiers",
        ),
    ] = None
    returns: Annotated[
        str | None,
        INPUT(
            help="Type of the model's output (probability or margin), if it cannot be inferred.",
            show_default=False,
        ),
    ] = None
    multilabel: Annotated[
        bool,
        INPUT(
            "--multilabel",
            help="Several labels may be true at once: each output is the probability of one.",
        ),
    ] = False
    output_names: Annotated[
        Texts, INPUT(help="Names of all outputs of the model: no,maybe,yes.", show_default=False)
    ] = None
    groups: Annotated[
        Texts,
        QUESTION(
            help="Columns that count as one feature: NAME=COLUMN,COLUMN (repeatable), or a .json "
            "file of names and lists of columns, which may be nested: groups of features.",
            show_default="each column is a feature",
        ),
    ] = None
    drop: Annotated[Texts, INPUT(help="Column to ignore (repeatable).", show_default=False)] = None
    seed: Annotated[
        int, PRECISION(min=0, help="Random seed: the same seed gives the same result.")
    ] = 0
    trust: Annotated[
        bool, INPUT("--trust", help="Open a pickle. This runs the code in it, so know who made it.")
    ] = False
    batch_size: Annotated[
        int | None, COMPUTING(min=1, help="Rows per model call.", show_default="as memory allows")
    ] = None
    device: Annotated[
        str | None,
        COMPUTING(
            help="Where to compute: cpu, cuda, auto; or cuda:0,cuda:1, one for each worker.",
            show_default="the model's device",
        ),
    ] = None

    def job_options(self) -> dict[str, Any]:
        """Return the options as a `Job` takes them."""
        from shearshap.jobs.options import parse_groups, parse_names, parse_semivalue

        options = dict(vars(self))
        outputs = options.pop("output")
        if "semivalue" in options:
            options["semivalue"] = parse_semivalue(options["semivalue"])
        return options | {
            "outputs": tuple(outputs or ()),
            "multilabel": self.multilabel or None,
            "output_names": parse_names(self.output_names or ()),
            "groups": parse_groups(self.groups or ()),
            "drop": tuple(self.drop or ()),
        }


@dataclass(frozen=True, kw_only=True)
class RowOptions(SharedOptions):
    """The options of commands that explain single rows."""

    budget: Annotated[
        int | None,
        PRECISION(min=1, help="Model evaluations per row.", show_default="16 x features + 2"),
    ] = None
    tol: Annotated[
        float | None,
        PRECISION(
            help="Stop at a row once its standard errors are below this.",
            show_default="use the whole budget",
        ),
    ] = None
    id_column: Annotated[
        str | None,
        INPUT(
            "--id",
            help="The column that labels the rows, which the model does not see.",
            show_default="row numbers",
        ),
    ] = None
    title: Annotated[
        str | None,
        OUTPUT(help="Title of the report or page.", show_default="the name of the data or model"),
    ] = None
    method: Annotated[
        str,
        PRECISION(
            help="auto, exact, kriging, leverage, permutation, permutation-antithetic, kernel, "
            "kernel-paired, kernel-welford, shear, shear-unbiased or coarse-to-fine."
        ),
    ] = "auto"
    semivalue: Annotated[
        str,
        QUESTION(
            help="shapley, banzhaf, or weights: one for each number of other features that are "
            "present, such as 0.5,0.3,0.2 for three features."
        ),
    ] = "shapley"


def with_options(kind: type[SharedOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options too, which its function takes as one object."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        shared = signature(kind).parameters
        _options, *own = signature(command).parameters.values()

        @wraps(command)
        def with_all(**given: Any) -> None:
            options = kind(**{name: given.pop(name) for name in shared})
            command(options, **given)

        every = [*shared.values(), *(each.replace(kind=each.KEYWORD_ONLY) for each in own)]
        with_all.__signature__ = Signature(every)  # type: ignore[attr-defined]  # read by typer
        return with_all

    return decorated


class PairsByDefault(Sections):
    """A command in which --interactions without a number are those of pairs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        following = [*args[1:], ""]
        args = [
            "--interactions=2" if arg == "--interactions" and not after.isdecimal() else arg
            for arg, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, args)


@app.command(cls=PairsByDefault)
@with_options(RowOptions)
def explain(
    options: RowOptions,
    out: Annotated[
        str,
        OUTPUT(
            help="The file to write, .parquet or .csv, with one line per row; for a large job a "
            "folder, with / at its end."
        ),
    ],
    interactions: Annotated[
        int | None,
        QUESTION(
            min=2,
            help="Also write the interactions of up to N features: to a file beside --out, or to "
            "the folder _interactions in it.",
            show_default="none; pairs if N is left out",
        ),
    ] = None,
    interaction_index: Annotated[
        str, QUESTION(help="Kind of interactions: k-SII, SII, STII or FSII.")
    ] = "k-SII",
    loss: Annotated[
        str | None,
        QUESTION(
            help="Explain the loss of each row instead of its prediction: 'log loss', mse or mae.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        QUESTION(
            help="With --loss: the column of the labels, which the model does not see.",
            show_default=False,
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        PRECISION(
            min=0,
            help="Seconds after which to stop; the file has the rows that are done.",
            show_default="none",
        ),
    ] = None,
    keep: Annotated[
        Texts,
        OUTPUT(
            help="Column of the data to write beside the values (repeatable).", show_default="all"
        ),
    ] = None,
    report: Annotated[
        bool,
        OUTPUT(
            "--report",
            help="Also write a report for a browser: beside --out; for a large job into its "
            "folder, on a sample of the rows.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        OUTPUT("--overwrite", help="Replace files that shear explain did not write."),
    ] = False,
    workers: Annotated[int | None, LARGE(min=1, help="Worker processes.", show_default="1")] = None,
    engine: Annotated[str, LARGE(help="local, or ray for many machines.")] = "local",
    address: Annotated[
        str | None,
        LARGE(
            help="The Ray cluster: host:port, or 'auto' for the local cluster.",
            show_default="RAY_ADDRESS; if that is not set, Ray is started here",
        ),
    ] = None,
    gpus: Annotated[float | None, LARGE(help="GPUs per Ray worker.", show_default=False)] = None,
    shard_rows: Annotated[
        int | None, LARGE(min=1, help="Rows per part at most.", show_default="65,536")
    ] = None,
    log: Annotated[
        str | None,
        LARGE(
            help="The file for a line of JSON per part, new or an earlier log; - for stderr.",
            show_default="_log.jsonl in --out",
        ),
    ] = None,
) -> None:
    """Explain a model's predictions for the rows of a file or folder.

    The base value is the prediction without any feature. A feature's Shapley value is its
    contribution to the difference between that and the row's prediction. The file has a line for
    each row: values, standard errors, base value, prediction.

    \b
    Examples:
        shear explain --model model.onnx --data rows.csv --background train.csv \\
            --out values.parquet
        shear explain --model model.json --data rows.csv --background sample:train.csv:200 \\
            --out values.parquet --report
        shear explain --model model.joblib --trust --data rows.parquet --id customer \\
            --output yes --out values.csv
        shear explain --model model.onnx --data rows.csv --groups address=street,city,zip \\
            --output-names no,maybe,yes --interactions --out values.parquet --report
        shear explain --model model.onnx --data rows.csv --groups groups.json \\
            --loss "log loss" --label late --out losses.parquet
        shear explain --model score.py:predict --data rows.csv --budget 500 --out values.parquet
        shear explain --model model.onnx --data rows/ --id id --workers 4 --out values/
    """  # noqa: D301
    from shearshap.jobs import Job
    from shearshap.jobs.executors import executor_for
    from shearshap.jobs.shards import SHARD_ROWS

    job = Job(
        **options.job_options(),
        out=out,  # type: ignore[arg-type]  # as text, with the / at its end
        interactions=interactions or False,
        interaction_index=interaction_index,  # type: ignore[arg-type]  # checked by the explainer
        loss=loss,
        label=label,
        deadline=deadline,
        keep=None if keep is None else tuple(keep),
        report=report or options.title is not None,
        overwrite=overwrite,
        shard_rows=shard_rows or SHARD_ROWS,
        command=shlex.join(["shear", *sys.argv[1:]]),
    )
    executor = None
    if job.large:
        executor = executor_for(engine, workers=workers, address=address, gpus=gpus)
    else:
        of_large_jobs = {
            "--workers": workers, "--engine": engine != "local", "--address": address,
            "--gpus": gpus, "--shard-rows": shard_rows, "--log": log,
        }  # fmt: skip
        for name, value in of_large_jobs.items():
            if value is not None and value is not False:
                raise InputError(f"{name} is only for large jobs, whose --out ends in /")
    try:
        outcome = job.run(executor=executor, log=log)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(GOES_ON if job.large else str(error)) from error
    typer.echo(outcome.summary)


@app.command(cls=Sections)
def report(
    values: Annotated[
        Path, Argument(rich_help_panel="Input", help="A .parquet file that shear explain wrote.")
    ],
    out: Annotated[
        Path | None,
        OUTPUT(help="The file to write, .html.", show_default="beside the values, .html"),
    ] = None,
    title: Annotated[
        str | None, OUTPUT(help="Title of the report.", show_default="that of the job")
    ] = None,
    overwrite: Annotated[
        bool, OUTPUT("--overwrite", help="Replace a file that shear did not write.")
    ] = False,
) -> None:
    """Write the report of values that were explained earlier.

    It is the report that shear explain --report writes. The model is not needed.

    \b
    Examples:
        shear report values.parquet
        shear report values.parquet --title "Late payments" --out late.html
    """  # noqa: D301
    from shearshap.jobs.values import write_report

    written = write_report(values, out=out, title=title, overwrite=overwrite)
    typer.echo(f"written to  {written}")


@app.command(cls=Sections)
@with_options(SharedOptions)
def importance(
    options: SharedOptions,
    loss: Annotated[str, QUESTION(help="'log loss', mse or mae.")],
    label: Annotated[str, QUESTION(help="The column of the labels, which the model does not see.")],
    budget: Annotated[
        int | None,
        PRECISION(min=1, help="Model evaluations in all.", show_default="as many as --tol takes"),
    ] = None,
    tol: Annotated[
        float | None,
        PRECISION(
            help="Stop once all standard errors are below this.",
            show_default="2.5 % of the range of the values",
        ),
    ] = None,
    level: Annotated[float, PRECISION(help="Level of the intervals.")] = 0.95,
    deadline: Annotated[
        float | None, PRECISION(help="Seconds after which to stop.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, OUTPUT(help="The file for the table: .csv or .parquet.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, OUTPUT(help="The file for the plot: .png or .svg.", show_default=False)
    ] = None,
    overwrite: Annotated[
        bool, OUTPUT("--overwrite", help="Replace files that shear importance did not write.")
    ] = False,
) -> None:
    """Say by how much each feature reduces a model's loss.

    So you see which features the model needs, with an interval for each. The values add up to the
    loss without any feature minus the model's own (SAGE values).

    \b
    Examples:
        shear importance --model model.json --data test.csv --label late --loss "log loss" \\
            --background train.csv
        shear importance --model model.onnx --data test.csv --label price --loss mse \\
            --background copula:train.csv --out needed.csv --plot needed.png
    """  # noqa: D301
    from shearshap.jobs import Job
    from shearshap.jobs.importance import needed_features

    job = Job(
        **options.job_options(),
        budget=budget,
        tol=tol,
        loss=loss,
        label=label,
        overwrite=overwrite,
        command=shlex.join(["shear", *sys.argv[1:]]),
    )
    needed = needed_features(job, level=level, deadline=deadline, table=out, plot=plot)
    typer.echo(str(needed))


@app.command(cls=Sections)
@with_options(RowOptions)
def serve(
    options: RowOptions,
    sample: Annotated[
        int, SERVICE(min=1, help="Rows to explain at the start, for the view of all rows.")
    ] = 200,
    host: Annotated[
        str, SERVICE(help="Address to listen on; other than this machine's own needs --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, SERVICE(min=0, max=65535, help="Port to listen on; 0 for any that is free.")
    ] = 8000,
    token: Annotated[
        str | None,
        SERVICE(
            envvar="SHEAR_TOKEN",
            help="Bearer token required from clients. On a machine with other users set "
            "SHEAR_TOKEN instead, which they cannot see.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[int, LIMITS(min=1, help="Rows per request.")] = 1_000,
    max_budget: Annotated[
        int | None,
        LIMITS(
            min=1,
            help="Model evaluations per row that a request may ask for.",
            show_default="ten times the budget",
        ),
    ] = None,
    max_evaluations: Annotated[
        int, LIMITS(min=1, help="Model evaluations per request: rows x budget.")
    ] = 1_000_000,
    max_body: Annotated[int, LIMITS(min=1, help="Bytes per request.")] = 1 << 20,
    max_requests: Annotated[
        int, LIMITS(min=1, help="Requests at the same time; further requests get 503.")
    ] = 1_000,
    timeout: Annotated[
        float,
        LIMITS(min=0.001, help="Seconds that a request may take, waiting included."),
    ] = 30.0,
) -> None:
    """Explain predictions on request: a web page and an API.

    On the page, pick a row, change its values, and see prediction and Shapley values move, with
    error bars. POST /explain explains rows; requests that come together are explained as one
    block. GET /openapi.json describes all of it.

    \b
    Examples:
        shear serve --model model.onnx --data rows.csv --background train.csv
        shear serve --model model.json --data rows.csv --background sample:train.csv:200 --port 9000
        SHEAR_TOKEN=... shear serve --model model.onnx --data rows.csv --host 0.0.0.0
    """  # noqa: D301
    from shearshap.jobs import Job
    from shearshap.serve import Limits, Service

    job = Job(**options.job_options())
    limits = Limits(
        body=max_body,
        rows=max_rows,
        budget=max_budget,
        evaluations=max_evaluations,
        requests=max_requests,
        seconds=timeout,
    )
    service = Service(job=job, host=host, port=port, token=token, limits=limits, sample=sample)
    service.run(typer.echo)


for entry in entry_points(group="shearshap.commands"):
    command = entry.load()
    section = f"Research ({entry.dist.name})" if entry.dist else "Research"
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=entry.name, rich_help_panel=section)
    else:
        app.command(name=entry.name, rich_help_panel=section)(command)


if __name__ == "__main__":
    from shearshap.__main__ import main as program

    program()
