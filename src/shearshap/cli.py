"""The command `shear`: it explains models from a terminal.

Other distributions add commands by the entry point group `shearshap.commands`, and kinds of model
folders by `shearshap.models`. shearshap-lab adds `shear paper` and `shear benchmark`.
"""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import entry_points
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from shearshap import __version__
from shearshap.errors import InputError, ShearError

stop_reported = False  #: whether a command that was interrupted has said what it keeps

GOES_ON = "what is finished is kept, and the same command goes on from there"


class Commands(TyperGroup):
    """Commands whose expected errors are one line each, without a traceback."""

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
            kept = str(error) or "no file is left half written"
            typer.echo(f"stopped; {kept}", err=True)
            global stop_reported
            stop_reported = True
            raise typer.Exit(130) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
        Option(
            help="A file (.onnx; .json or .ubj of XGBoost; .txt of LightGBM; .cbm of CatBoost; "
            ".joblib or .pkl with --trust), or module:function, path/to/file.py:function."
        ),
    ]
    data: Annotated[
        Path, Option(help="The rows: CSV or Parquet; for shear explain also a folder of Parquet.")
    ]
    background: Annotated[
        str | None,
        Option(
            help="Background: what features are compared with. Rows of a file: "
            "'sample:train.csv' (100 of them, or 'sample:train.csv:200'), 'kmeans:train.csv:20', "
            "'all:train.csv'; or one row: 'mean:train.csv', 'median:...', 'mode:...'; if features "
            "move together: 'copula:train.csv', 'gaussian:...', 'empirical:...', 'learned:...'.",
            show_default="the model's background if it has one, otherwise a sample of the rows",
        ),
    ] = None
    output: Annotated[
        Texts, Option(help="Name or number of a class (repeatable).", show_default="all")
    ] = None
    scale: Annotated[
        str | None,
        Option(
            help="probability, log-odds, margin or logit.",
            show_default="raw output; probabilities for classifiers",
        ),
    ] = None
    returns: Annotated[
        str | None,
        Option(
            help="Type of the model's output (probability or margin), if it cannot be inferred.",
            show_default=False,
        ),
    ] = None
    multilabel: Annotated[
        bool, Option("--multilabel", help="Each output is the probability of a label of its own.")
    ] = False
    output_names: Annotated[
        Texts, Option(help="Names of all outputs of the model: no,maybe,yes.", show_default=False)
    ] = None
    groups: Annotated[
        Texts,
        Option(
            help="Columns that count as one feature: NAME=COLUMN,COLUMN (repeatable), or a .json "
            "file of names and lists of columns, which may be nested: groups of features.",
            show_default="each column is a feature",
        ),
    ] = None
    drop: Annotated[Texts, Option(help="Column to ignore (repeatable).", show_default=False)] = None
    seed: Annotated[
        int, Option(min=0, help="Decides every random choice: the same seed, the same result.")
    ] = 0
    trust: Annotated[
        bool, Option("--trust", help="Open a pickle, which runs the code that is in it.")
    ] = False
    batch_size: Annotated[
        int | None, Option(min=1, help="Rows per model call.", show_default="as memory allows")
    ] = None
    device: Annotated[
        str | None,
        Option(
            help="Where to compute, such as cuda, or auto; cuda:0,cuda:1 for workers in turn.",
            show_default="where the model is",
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
        Option(min=1, help="Model evaluations per row.", show_default="16 x features + 2"),
    ] = None
    tol: Annotated[
        float | None,
        Option(help="Stop at a row once its standard errors are below this.", show_default=False),
    ] = None
    method: Annotated[str, Option(help="A method's name, or auto.")] = "auto"
    semivalue: Annotated[
        str,
        Option(
            help="shapley, banzhaf, or a weight for each number of other features that are "
            "present: 0.5,0.3,0.2."
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


class PairsByDefault(TyperCommand):
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
        Option(
            help="Where to write: .parquet or .csv, one line for each row; or for a large job a "
            "folder, with / at its end."
        ),
    ],
    interactions: Annotated[
        int | None,
        Option(
            min=2,
            help="Also write the interactions of pairs of features, or of up to so many: to a file "
            "beside --out, or to _interactions in its folder.",
            show_default="none; 2 without a number",
        ),
    ] = None,
    interaction_index: Annotated[
        str, Option(help="Of the interactions: k-SII, SII, STII or FSII.")
    ] = "k-SII",
    loss: Annotated[
        str | None,
        Option(
            help="Explain the loss of each row instead of its prediction: 'log loss', mse or mae.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        Option(
            help="With --loss: the column of the labels, which the model does not see.",
            show_default=False,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        Option(
            "--id",
            help="The column that labels the rows, which the model does not see.",
            show_default="their numbers",
        ),
    ] = None,
    keep: Annotated[
        Texts,
        Option(
            help="Column of the data to write beside the values (repeatable).", show_default="all"
        ),
    ] = None,
    report: Annotated[
        bool,
        Option(
            "--report",
            help="Write a report for a browser: beside --out, or on a sample of the rows into its "
            "folder.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        Option("--overwrite", help="Replace files at --out that shear explain has not written."),
    ] = False,
    workers: Annotated[
        int | None, Option(min=1, help="Worker processes (large jobs).", show_default="1")
    ] = None,
    engine: Annotated[str, Option(help="local, or ray for many machines (large jobs).")] = "local",
    address: Annotated[
        str | None,
        Option(
            help="The Ray cluster: host:port, or 'auto' for the local cluster.",
            show_default="RAY_ADDRESS, or else Ray is started here",
        ),
    ] = None,
    gpus: Annotated[float | None, Option(help="GPUs per Ray worker.", show_default=False)] = None,
    shard_rows: Annotated[
        int | None, Option(min=1, help="Rows per part at most (large jobs).", show_default="65,536")
    ] = None,
    log: Annotated[
        str | None,
        Option(
            help="A new file, or an earlier log, for a line of JSON per part; or - for stderr "
            "(large jobs).",
            show_default="_log.jsonl in --out",
        ),
    ] = None,
) -> None:
    """Explain a model's predictions for the rows of a file, or of a folder of files.

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
        id_column=id_column,
        keep=None if keep is None else tuple(keep),
        report=report,
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
                raise InputError(f"{name} is an option of large jobs, whose --out ends in /")
    try:
        outcome = job.run(executor=executor, log=log)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(GOES_ON if job.large else str(error)) from error
    typer.echo(outcome.summary)


@app.command()
@with_options(SharedOptions)
def importance(
    options: SharedOptions,
    loss: Annotated[str, Option(help="'log loss', mse or mae.")],
    label: Annotated[str, Option(help="The column of the labels, which the model does not see.")],
    budget: Annotated[
        int | None,
        Option(min=1, help="Model evaluations in all.", show_default="as many as --tol takes"),
    ] = None,
    tol: Annotated[
        float | None,
        Option(
            help="Stop once all standard errors are below this.",
            show_default="2.5 % of the range of the values",
        ),
    ] = None,
    level: Annotated[float, Option(help="Of the intervals.")] = 0.95,
    deadline: Annotated[
        float | None, Option(help="Seconds after which to stop.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, Option(help="Where to write the table: .csv or .parquet.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, Option(help="Where to draw it: .png or .svg.", show_default=False)
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace files that shear importance has not written.")
    ] = False,
) -> None:
    """Say which features a model needs: by how much each reduces its loss, with intervals.

    The values add up to the loss without any feature minus the model's own (SAGE values).

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


@app.command()
@with_options(RowOptions)
def serve(
    options: RowOptions,
    sample: Annotated[
        int, Option(min=1, help="Rows that are explained at the start, for the global view.")
    ] = 200,
    host: Annotated[
        str, Option(help="Where to listen; any but this machine's loopback needs --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, Option(min=0, max=65535, help="Where to listen; 0: any that is free.")
    ] = 8000,
    token: Annotated[
        str | None,
        Option(
            envvar="SHEAR_TOKEN",
            help="Bearer token required from clients. On a machine with other users set "
            "SHEAR_TOKEN instead, which they cannot see.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[int, Option(min=1, help="Rows of one request.")] = 1_000,
    max_budget: Annotated[
        int | None,
        Option(
            min=1,
            help="Model evaluations for one row that a request may ask for.",
            show_default="ten times the budget",
        ),
    ] = None,
    max_evaluations: Annotated[
        int, Option(min=1, help="Model evaluations of one request: its rows x its budget.")
    ] = 1_000_000,
    max_body: Annotated[int, Option(min=1, help="Bytes of a request's body.")] = 1 << 20,
    max_requests: Annotated[
        int, Option(min=1, help="Requests at the same time; further requests get 503.")
    ] = 1_000,
    timeout: Annotated[
        float,
        Option(
            min=0.001, help="Seconds that a request may take, waiting included; then its work ends."
        ),
    ] = 30.0,
) -> None:
    """Explain a model's predictions on request: a page for a browser, and an API.

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
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=entry.name)
    else:
        app.command(name=entry.name)(command)


if __name__ == "__main__":
    from shearshap.__main__ import main as program

    program()
