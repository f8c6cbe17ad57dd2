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
ARGUMENTS = "Arguments"  #: the section of arguments of no other
OTHERS = "Options"  #: the section of options of no other
COMMANDS = "Explain models"  #: the section of our own commands

GOES_ON = "finished work is kept; run the same command again to resume"


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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name: [OPTIONS] VALUES."""
        return [piece.strip("{}").upper() for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        names = (ARGUMENTS, *SECTIONS, OTHERS)
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
        for parameter in self.get_params(ctx):
            line = parameter.get_help_record(ctx)
            if line is not None:
                name, words = line
                words = re.sub(r"; [^;]*\bx[<>][^;]*\]$", "]", words)  # without a number's range
                words = re.sub(r"\[default: \((.*)\)\]$", r"[default: \1]", words)
                others = OTHERS
                if parameter.param_type_name == "argument":
                    name, others = name.split()[0].upper(), ARGUMENTS
                section = getattr(parameter, "rich_help_panel", None) or others
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
    """Explain the predictions of any model with Shapley values.

    \b
    Explain the rows of a file:
        shear explain --model model.onnx --data rows.csv --background train.csv \\
            --out values.parquet --report

    \b
    See which features the model needs:
        shear importance --model model.onnx --data test.csv --label late --loss "log loss"

    \b
    Serve a page on which people change a row and see its values move:
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
            metavar="FILE",
            help="A file: .onnx, .json or .ubj (XGBoost), .txt (LightGBM), .cbm (CatBoost), "
            ".joblib or .pkl (with --trust). Or a function: path/to/file.py:function, "
            "module:function.",
        ),
    ]
    data: Annotated[
        str,
        INPUT(
            metavar="FILE",
            help="The rows: a CSV or Parquet file; for shear explain, also a folder of Parquet "
            "files. Files and folders may be URLs, such as s3://bucket/rows.csv.",
        ),
    ]
    background: Annotated[
        str | None,
        INPUT(
            metavar="ROWS",
            help="What to compare the rows with. Rows of a file: train.csv or sample:train.csv "
            "(100 rows, drawn at random), sample:train.csv:200, kmeans:train.csv:20, "
            "all:train.csv. One row: mean:train.csv, median:train.csv, mode:train.csv. If features "
            "move together: copula:train.csv, gaussian:train.csv, empirical:train.csv, "
            "learned:train.csv.",
            show_default="the model's own background; for trees, their training data; otherwise a "
            "sample of the rows",
        ),
    ] = None
    output: Annotated[
        Texts,
        QUESTION(
            metavar="NAME",
            help="Class or output to explain, by name or number (repeatable).",
            show_default="all",
        ),
    ] = None
    scale: Annotated[
        str | None,
        QUESTION(
            metavar="NAME",
            help="Scale of the output: probability, log-odds, margin or logit.",
            show_default="the margin of boosted classifiers, probabilities of others",
        ),
    ] = None
    returns: Annotated[
        str | None,
        INPUT(
            metavar="NAME",
            help="What the model returns, probability or margin, if it cannot be inferred.",
            show_default=False,
        ),
    ] = None
    multilabel: Annotated[
        bool,
        INPUT(
            "--multilabel",
            help="Treat each output as a label of its own: several may be true at once.",
        ),
    ] = False
    output_names: Annotated[
        Texts,
        INPUT(
            metavar="NAMES",
            help="Names of all outputs of the model, such as no,maybe,yes.",
            show_default=False,
        ),
    ] = None
    groups: Annotated[
        Texts,
        QUESTION(
            metavar="GROUP",
            help="Columns to treat as one feature: NAME=COLUMN,COLUMN (repeatable). Or a .json "
            "file of groups, which may contain groups.",
            show_default="each column is a feature",
        ),
    ] = None
    drop: Annotated[
        Texts, INPUT(metavar="COLUMN", help="Column to ignore (repeatable).", show_default=False)
    ] = None
    seed: Annotated[
        int,
        PRECISION(min=0, metavar="N", help="Random seed: the same seed gives the same result."),
    ] = 0
    trust: Annotated[
        bool,
        INPUT(
            "--trust",
            help="Open pickles. Opening one runs the code in it, so use only files that you trust.",
        ),
    ] = False
    batch_size: Annotated[
        int | None,
        COMPUTING(min=1, metavar="N", help="Rows per model call.", show_default="as memory allows"),
    ] = None
    device: Annotated[
        str | None,
        COMPUTING(
            metavar="NAME",
            help="Where to compute: cpu, cuda or auto; for large jobs also a list, such as "
            "cuda:0,cuda:1, for the workers in turn.",
            show_default="the model's device",
        ),
    ] = None

    def job_options(self) -> dict[str, Any]:
        """Return the options as a `Job` takes them."""
        from shearshap.apps.jobs.options import parse_groups, parse_names, parse_semivalue

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
        PRECISION(
            min=1,
            metavar="N",
            help="Model evaluations per row.",
            show_default="16 per feature; more with several background rows",
        ),
    ] = None
    tol: Annotated[
        float | None,
        PRECISION(
            metavar="X",
            help="Stop a row once its standard errors are safely below this.",
            show_default="use the whole budget",
        ),
    ] = None
    id_column: Annotated[
        str | None,
        INPUT(
            "--id",
            metavar="COLUMN",
            help="Column that labels the rows; the model does not see it.",
            show_default="row numbers",
        ),
    ] = None
    title: Annotated[
        str | None,
        OUTPUT(
            metavar="TEXT",
            help="Title of the report or page.",
            show_default="made from the name of the data or model",
        ),
    ] = None
    method: Annotated[
        str,
        PRECISION(
            metavar="NAME",
            help="auto, exact, kriging, leverage, permutation, permutation-antithetic, kernel, "
            "kernel-paired, kernel-welford, shear, shear-unbiased or coarse-to-fine.",
        ),
    ] = "auto"
    semivalue: Annotated[
        str,
        QUESTION(
            metavar="NAME",
            help="Kind of values: shapley, banzhaf, or a weight for each number of other features "
            "present, such as 0.5,0.3,0.2 for three features.",
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
            metavar="FILE",
            help="The file to write, .parquet or .csv, with one line per row. For a large job, a "
            "folder: end its name in /.",
        ),
    ],
    interactions: Annotated[
        int | None,
        QUESTION(
            min=2,
            metavar="[N]",
            help="Also write interactions of up to N features, to a file beside --out; for a large "
            "job, to the folder _interactions in it.",
            show_default="none; without N, pairs",
        ),
    ] = None,
    interaction_index: Annotated[
        str, QUESTION(metavar="NAME", help="Kind of interactions: k-SII, SII, STII or FSII.")
    ] = "k-SII",
    loss: Annotated[
        str | None,
        QUESTION(
            metavar="NAME",
            help="Explain the loss of each row instead of its prediction: 'log loss', mse or mae.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        QUESTION(
            metavar="COLUMN",
            help="With --loss: column of the labels; the model does not see it.",
            show_default=False,
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        PRECISION(
            min=0,
            metavar="SECONDS",
            help="Stop after this many seconds, and write the rows that are finished.",
            show_default="none",
        ),
    ] = None,
    keep: Annotated[
        Texts,
        OUTPUT(
            metavar="COLUMN",
            help="Column of the data to write beside the values (repeatable).",
            show_default="all",
        ),
    ] = None,
    report: Annotated[
        bool,
        OUTPUT(
            "--report",
            help="Also write an HTML report, beside --out; for a large job, about a sample of the "
            "rows and in the folder.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        OUTPUT("--overwrite", help="Replace files that shear explain did not write."),
    ] = False,
    workers: Annotated[
        int | None, LARGE(min=1, metavar="N", help="Worker processes.", show_default="1")
    ] = None,
    engine: Annotated[
        str, LARGE(metavar="NAME", help="local (this machine) or ray (several machines).")
    ] = "local",
    address: Annotated[
        str | None,
        LARGE(
            metavar="HOST:PORT",
            help="Address of the Ray cluster, or auto for a cluster on this machine.",
            show_default="RAY_ADDRESS; if it is not set, Ray is started on this machine",
        ),
    ] = None,
    gpus: Annotated[
        float | None, LARGE(metavar="X", help="GPUs per Ray worker.", show_default="0")
    ] = None,
    shard_rows: Annotated[
        int | None,
        LARGE(min=1, metavar="N", help="Maximum number of rows per part.", show_default="65,536"),
    ] = None,
    log: Annotated[
        str | None,
        LARGE(
            metavar="FILE",
            help="File for one line of JSON per part, or - for stderr, instead of progress.",
            show_default="_log.jsonl in --out",
        ),
    ] = None,
) -> None:
    """Explain a model's predictions for the rows of a file or folder.

    The base value is the mean prediction for the background. A feature's Shapley value is its
    contribution to the difference between the base value and the row's prediction. The file has
    one line per row: values, standard errors, base value, prediction.

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
    from shearshap.apps.jobs import Job
    from shearshap.apps.jobs.executors import executor_for
    from shearshap.apps.jobs.shards import SHARD_ROWS

    job = Job(
        **options.job_options(),
        out=out,  # as text, with the / at its end
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
        str,
        Argument(
            metavar="VALUES",
            rich_help_panel="Input",
            help="A .parquet file that shear explain wrote.",
        ),
    ],
    out: Annotated[
        str | None,
        OUTPUT(
            metavar="FILE",
            help="The .html file to write.",
            show_default="beside VALUES, with the same name",
        ),
    ] = None,
    title: Annotated[
        str | None,
        OUTPUT(metavar="TEXT", help="Title of the report.", show_default="the title of the job"),
    ] = None,
    overwrite: Annotated[
        bool, OUTPUT("--overwrite", help="Replace a file that shear did not write.")
    ] = False,
) -> None:
    """Write a report from values that were computed earlier.

    It is the page that shear explain --report writes. The model is not needed.

    \b
    Examples:
        shear report values.parquet
        shear report values.parquet --title "Late payments" --out late.html
    """  # noqa: D301
    from shearshap.apps.jobs.values import write_report

    written = write_report(values, out=out, title=title, overwrite=overwrite)
    typer.echo(f"written to  {written}")


@app.command(cls=Sections)
@with_options(SharedOptions)
def importance(
    options: SharedOptions,
    loss: Annotated[str, QUESTION(metavar="NAME", help="'log loss', mse or mae.")],
    label: Annotated[
        str,
        QUESTION(metavar="COLUMN", help="Column of the labels; the model does not see it."),
    ],
    budget: Annotated[
        int | None,
        PRECISION(
            min=1,
            metavar="N",
            help="Model evaluations in total.",
            show_default="until --tol is reached",
        ),
    ] = None,
    tol: Annotated[
        float | None,
        PRECISION(
            metavar="X",
            help="Stop once the standard errors are safely below this.",
            show_default="2.5 % of the range of the values",
        ),
    ] = None,
    level: Annotated[
        float, PRECISION(metavar="X", help="Confidence level of the intervals.")
    ] = 0.95,
    deadline: Annotated[
        float | None,
        PRECISION(metavar="SECONDS", help="Stop after this many seconds.", show_default="none"),
    ] = None,
    out: Annotated[
        str | None,
        OUTPUT(metavar="FILE", help="File for the table: .csv or .parquet.", show_default="none"),
    ] = None,
    plot: Annotated[
        str | None,
        OUTPUT(metavar="FILE", help="File for the plot: .png or .svg.", show_default="none"),
    ] = None,
    overwrite: Annotated[
        bool, OUTPUT("--overwrite", help="Replace files that shear importance did not write.")
    ] = False,
) -> None:
    """Measure how much each feature reduces a model's loss.

    This shows which features the model needs, with an interval for each. The values, known as SAGE
    values, add up to the loss without any feature minus the loss of the model.

    \b
    Examples:
        shear importance --model model.json --data test.csv --label late --loss "log loss" \\
            --background train.csv
        shear importance --model model.onnx --data test.csv --label price --loss mse \\
            --background copula:train.csv --out needed.csv --plot needed.png
    """  # noqa: D301
    from shearshap.apps.jobs import Job
    from shearshap.apps.jobs.importance import feature_importance

    job = Job(
        **options.job_options(),
        budget=budget,
        tol=tol,
        loss=loss,
        label=label,
        overwrite=overwrite,
        command=shlex.join(["shear", *sys.argv[1:]]),
    )
    try:
        needed = feature_importance(job, level=level, deadline=deadline, table=out, plot=plot)
    except KeyboardInterrupt as error:
        so_far = vars(error).get("finished")
        if so_far is None:
            raise
        typer.echo(str(so_far))
        raise KeyboardInterrupt("the table is by the rows so far, and no file was left") from error
    typer.echo(str(needed))


@app.command(cls=Sections)
@with_options(RowOptions)
def serve(
    options: RowOptions,
    sample: Annotated[
        int,
        SERVICE(
            min=1, metavar="N", help="Rows to explain at the start, for the overview of all rows."
        ),
    ] = 200,
    host: Annotated[
        str,
        SERVICE(
            metavar="ADDRESS",
            help="Address to listen on. An address that other machines can reach needs --token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        SERVICE(min=0, max=65535, metavar="N", help="Port to listen on; 0 for any free port."),
    ] = 8000,
    token: Annotated[
        str | None,
        SERVICE(
            envvar="SHEAR_TOKEN",
            metavar="TEXT",
            help="Bearer token that requests must contain. Other users of the machine can see it "
            "here, but not in the environment variable SHEAR_TOKEN.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[
        int, LIMITS(min=1, metavar="N", help="Rows per request.", show_default="1,000")
    ] = 1_000,
    max_budget: Annotated[
        int | None,
        LIMITS(
            min=1,
            metavar="N",
            help="Model evaluations per row that a request may ask for.",
            show_default="ten times the budget",
        ),
    ] = None,
    max_evaluations: Annotated[
        int,
        LIMITS(
            min=1,
            metavar="N",
            help="Model evaluations per request: rows x budget.",
            show_default="1,000,000",
        ),
    ] = 1_000_000,
    max_body: Annotated[
        int, LIMITS(min=1, metavar="N", help="Bytes per request.", show_default="1,048,576")
    ] = 1 << 20,
    max_requests: Annotated[
        int,
        LIMITS(
            min=1,
            metavar="N",
            help="Requests at the same time; further ones get 503.",
            show_default="1,000",
        ),
    ] = 1_000,
    max_bodies: Annotated[
        int,
        LIMITS(
            min=1,
            metavar="N",
            help="Bytes of all requests at the same time; further ones get 503.",
            show_default="16,777,216",
        ),
    ] = 16 << 20,
    max_connections: Annotated[
        int,
        LIMITS(
            min=1,
            metavar="N",
            help="Open connections, with and without requests.",
            show_default="1,100",
        ),
    ] = 1_100,
    timeout: Annotated[
        float,
        LIMITS(
            min=0.001,
            metavar="SECONDS",
            help="Seconds per request, including waiting.",
            show_default="30",
        ),
    ] = 30.0,
) -> None:
    """Explain predictions on request, on a web page and through an API.

    On the page, pick a row, change its cells, and see the prediction and the Shapley values move,
    with error bars. Programs send rows to POST /explain; GET /openapi.json describes the API.

    \b
    Examples:
        shear serve --model model.onnx --data rows.csv --background train.csv
        shear serve --model model.json --data rows.csv --background sample:train.csv:200 --port 9000
        SHEAR_TOKEN=... shear serve --model model.onnx --data rows.csv --host 0.0.0.0
    """  # noqa: D301
    from shearshap.apps.jobs import Job
    from shearshap.apps.serve import Limits, Service

    job = Job(**options.job_options())
    limits = Limits(
        body=max_body,
        rows=max_rows,
        budget=max_budget,
        evaluations=max_evaluations,
        requests=max_requests,
        seconds=timeout,
        bodies=max_bodies,
        connections=max_connections,
    )
    service = Service(job=job, host=host, port=port, token=token, limits=limits, sample=sample)
    service.run(typer.echo)


for entry in entry_points(group="shearshap.commands"):
    command = entry.load()
    section = f"Research ({entry.dist.name})" if entry.dist else "Research"
    if isinstance(command, typer.Typer):
        for info in command.registered_commands:
            info.cls = Sections
        app.add_typer(command, name=entry.name, rich_help_panel=section)
    else:
        app.command(name=entry.name, cls=Sections, rich_help_panel=section)(command)


if __name__ == "__main__":
    from shearshap.__main__ import main as program

    program()
