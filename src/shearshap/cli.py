"""The command `shear`: it explains models from a terminal.

Other distributions add commands by the entry point group `shearshap.commands`, and kinds of model
folders by `shearshap.models`. shearshap-lab adds `shear paper` and `shear benchmark`.
"""

import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shearshap import __version__
from shearshap.errors import InputError, ModelError, ShearError

RESUMED = ("truth", "reproduce", "benchmark")
"""Commands that keep what is finished; `explain` says what it has kept itself."""

GOES_ON = "what is finished is kept, and the same command goes on from there"


class Commands(TyperGroup):
    """Commands whose expected errors are one line each, without a traceback."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run the command.

        Exit with 2 where shearshap, or the disk, refuses, and with 130 where it is interrupted.
        """
        try:
            return super().invoke(ctx)
        except (ShearError, OSError) as error:
            # not at the top: it takes torch, and `shear --help` has no errors
            from shearshap.jobs.wording import in_terminal_words

            message = in_terminal_words(" ".join(str(error).split()))
            typer.echo(f"error: {message}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            kept = GOES_ON if ctx.invoked_subcommand in RESUMED else "no file is left half written"
            typer.echo(f"stopped; {str(error) or kept}", err=True)
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
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Shapley values of any model.

    \b
    Explain a model of yours:
        shear explain --model model.onnx --data rows.csv --out values.parquet --report

    \b
    Let people change a row in a browser, and see its values move:
        shear serve --model model.onnx --data rows.csv
    """  # noqa: D301


# Options of `shear explain` and `shear serve`

Seed = Annotated[
    int, typer.Option(min=0, help="Decides every random choice: the same seed, the same result.")
]
MethodName = Annotated[str, typer.Option(help="A method's name, or auto.")]
ChosenOutputs = Annotated[
    list[str] | None,
    typer.Option(help="A class's name or number; may be repeated.", show_default="all"),
]
ScaleName = Annotated[
    str | None,
    typer.Option(
        help="probability, log-odds, margin or logit.",
        show_default="what the model returns; of a classifier probabilities",
    ),
]
ReturnsName = Annotated[
    str | None,
    typer.Option(
        help="With --scale: what the model's own numbers are, probability or margin, where "
        "that is not known.",
        show_default=False,
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(help="Stop at a row once its standard errors are below this.", show_default=False),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Open a pickle, which runs the code that is in it.")
]
Multilabel = Annotated[
    bool,
    typer.Option(
        "--multilabel",
        help="With --scale: each output is a label of its own, so that a row may have several.",
    ),
]
OutputNames = Annotated[
    list[str] | None,
    typer.Option(
        "--output-names",
        help="Names for all outputs of the model, with commas: no,maybe,yes.",
        show_default="the model's own",
    ),
]
GroupsOfColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns that count as one feature: NAME=COLUMN,COLUMN; may be repeated. Or a "
        ".json file of names and lists of columns.",
        show_default="each column is a feature",
    ),
]
DroppedColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="A column that the model does not use, such as an id; may be repeated. A model that "
        "knows its columns needs none.",
        show_default=False,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size", min=1, help="Rows per model call.", show_default="as memory allows"
    ),
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        help="Where to compute, such as cuda. Large jobs: also cuda:0,cuda:1 for workers in turn, "
        "or auto.",
        show_default="where the model is",
    ),
]


@app.command()
def explain(
    model: Annotated[
        str,
        typer.Option(
            help="A file (.onnx; .json or .ubj of XGBoost; .txt of LightGBM; .cbm of CatBoost; "
            ".joblib or .pkl with --trust), or module:function, path/to/file.py:function."
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(help="The rows to explain: CSV or Parquet, or a folder of Parquet files."),
    ],
    out: Annotated[
        str,
        typer.Option(
            help="Where to write: .parquet, one line for each row; or .csv; or for a large job a "
            "folder, with / at its end."
        ),
    ],
    background: Annotated[
        str | None,
        typer.Option(
            help="What stands for an absent feature: a file of rows to average over, 'mean', "
            "'median' or 'mode' of the rows explained, or of a file: 'mean:train.csv'.",
            show_default="the model's own, where it brings one; else mean",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="Model evaluations for one row.", show_default="16 a feature, and two"
        ),
    ] = None,
    method: MethodName = "auto",
    output: ChosenOutputs = None,
    scale: ScaleName = None,
    returns: ReturnsName = None,
    multilabel: Multilabel = False,
    output_names: OutputNames = None,
    groups: GroupsOfColumns = None,
    interactions: Annotated[
        bool,
        typer.Option(
            "--interactions",
            help="Also write what pairs of features add only together, to a file beside --out.",
        ),
    ] = False,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="The column that labels the rows, which the model does not see.",
            show_default="their numbers",
        ),
    ] = None,
    drop: DroppedColumns = None,
    seed: Seed = 0,
    tol: Tolerance = None,
    report: Annotated[
        bool, typer.Option("--report", help="Write a report beside --out, for a browser.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace files at --out that shear explain has not written."
        ),
    ] = False,
    trust: Trust = False,
    batch_size: BatchSize = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Large jobs: a column of the data to write beside the values; may be repeated.",
            show_default="all",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Large jobs: processes that explain.", show_default="1"),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Large jobs: local, or ray for many machines.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="The Ray cluster: host:port, or auto for the one that this machine is part of.",
            show_default="RAY_ADDRESS, else Ray is started here",
        ),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(help="GPUs that Ray sets aside for a worker.", show_default=False),
    ] = None,
    device: DeviceName = None,
    shard_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Large jobs: rows of one part at most.", show_default="65,536"),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            help="Large jobs: a new file, or an earlier log, for a line of JSON a part; or - for "
            "stderr.",
            show_default="_log.jsonl in --out",
        ),
    ] = None,
) -> None:
    """Explain a model's predictions for the rows of a file, or of a folder of files.

    The base value is the prediction without any feature. A feature's Shapley value is its part in
    the way from there to the row's prediction. The file has a line for each row: values, standard
    errors, base value, prediction.

    \b
    Examples:
        shear explain --model model.onnx --data rows.csv --out values.parquet
        shear explain --model model.json --data rows.csv --background mean:train.csv \\
            --out values.parquet --report
        shear explain --model model.joblib --trust --data rows.parquet --id customer \\
            --output yes --out values.csv
        shear explain --model model.onnx --data rows.csv --groups address=street,city,zip \\
            --output-names no,maybe,yes --interactions --out values.parquet --report
        shear explain --model score.py:predict --data rows.csv --budget 500 --out values.parquet
        shear explain --model model.onnx --data rows/ --id id --workers 4 --out values/
    """  # noqa: D301
    from shearshap.jobs import Job, LargeJob, is_large, run
    from shearshap.jobs.engines import executor_for
    from shearshap.jobs.player_options import parse_groups, parse_names
    from shearshap.jobs.shards import SHARD_ROWS

    large = is_large(data, out)
    of_one_file = {"--report": report, "--overwrite": overwrite, "--interactions": interactions}
    of_large_jobs = {
        "--keep": keep, "--workers": workers, "--engine": engine != "local",
        "--address": address, "--gpus": gpus, "--shard-rows": shard_rows, "--log": log,
    }  # fmt: skip
    if large:
        _refuse_options("of one file", of_one_file)
    else:
        _refuse_options("of large jobs, whose --out ends in /", of_large_jobs)

    shared: dict[str, Any] = {
        "model": model,
        "data": data,
        "out": Path(out),
        "background": background,
        "budget": budget,
        "method": method,
        "outputs": tuple(output or ()),
        "scale": scale,
        "returns": returns,
        "multilabel": multilabel or None,
        "output_names": parse_names(output_names or ()),
        "groups": parse_groups(groups or ()),
        "id_column": id_column,
        "drop": tuple(drop or ()),
        "seed": seed,
        "tol": tol,
        "batch_size": batch_size,
        "device": device,
        "trust": trust,
        "folder_openers": _folder_openers(),
    }
    if large:
        job_of_parts = LargeJob(
            **shared,
            keep=None if keep is None else tuple(keep),
            shard_rows=shard_rows or SHARD_ROWS,
        )
        executor = executor_for(engine, workers=workers, address=address, gpus=gpus)
        try:
            typer.echo(run(job_of_parts, executor=executor, log=log))
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(GOES_ON) from error
        return

    job = Job(
        **shared,
        interactions=interactions,
        report=report,
        overwrite=overwrite,
        command=shlex.join(["shear", *sys.argv[1:]]),
    )
    try:
        outcome = job.run()
    except typer.Exit as error:  # of the model's code, which is no success of ours
        raise ModelError(f"the code of the model {model} called exit") from error
    typer.echo(outcome.summary)


def _refuse_options(whose: str, options: Mapping[str, object]) -> None:
    """Raise for the first option that was given although it is one of another kind of job."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(f"{name} is an option {whose}; leave it out")


def _folder_openers() -> list[Any]:
    """Return the functions of other distributions that open a folder with a model."""
    return [entry.load() for entry in entry_points(group="shearshap.models")]


@app.command()
def serve(
    model: Annotated[
        str, typer.Option(help="A folder, a file or a function, as of shear explain.")
    ],
    data: Annotated[Path, typer.Option(help="The rows to load: CSV or Parquet.")],
    background: Annotated[
        str | None,
        typer.Option(
            help="What stands for an absent feature: a file of rows to average over, 'mean', "
            "'median' or 'mode' of the rows loaded, or of a file: 'mean:train.csv'.",
            show_default="the model's own, where it brings one; else mean",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Model evaluations for one row, where a request names no other.",
            show_default="16 a feature, and two",
        ),
    ] = None,
    method: MethodName = "auto",
    output: ChosenOutputs = None,
    scale: ScaleName = None,
    returns: ReturnsName = None,
    multilabel: Multilabel = False,
    output_names: OutputNames = None,
    groups: GroupsOfColumns = None,
    drop: DroppedColumns = None,
    seed: Seed = 0,
    tol: Tolerance = None,
    trust: Trust = False,
    batch_size: BatchSize = None,
    device: DeviceName = None,
    sample: Annotated[
        int, typer.Option(min=1, help="Rows that are explained at the start, for the global view.")
    ] = 200,
    host: Annotated[
        str, typer.Option(help="Where to listen; any but this machine's loopback needs --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0: any that is free.")
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SHEAR_TOKEN",
            help="What requests must bring in the header 'Authorization: Bearer TOKEN'. On a "
            "machine with other users set SHEAR_TOKEN instead, which they cannot see.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of one request.")] = 1_000,
    max_budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Model evaluations for one row that a request may ask for.",
            show_default="ten times the budget",
        ),
    ] = None,
    max_evaluations: Annotated[
        int, typer.Option(min=1, help="Model evaluations of one request: its rows x its budget.")
    ] = 1_000_000,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request's body.")] = 1 << 20,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Requests at the same time; others are told to come back.")
    ] = 1_000,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="Seconds that a request may take, waiting included; then its work ends.",
        ),
    ] = 30.0,
) -> None:
    """Explain a model's predictions on request: a page for a browser, and an API.

    On the page, pick a row, change its values, and see prediction and Shapley values move, with
    error bars. POST /explain explains rows; requests that come together are explained as one
    block. GET /openapi.json describes all of it.

    \b
    Examples:
        shear serve --model model.onnx --data rows.csv
        shear serve --model model.json --data rows.csv --background mean:train.csv --port 9000
        SHEAR_TOKEN=... shear serve --model model.onnx --data rows.csv --host 0.0.0.0
    """  # noqa: D301
    from shearshap.jobs import Job
    from shearshap.jobs.player_options import parse_groups, parse_names
    from shearshap.serve import Limits, Service

    job = Job(
        model=model,
        data=data,
        out=Path("values.parquet"),  # never written
        background=background,
        budget=budget,
        method=method,
        outputs=tuple(output or ()),
        scale=scale,
        returns=returns,
        multilabel=multilabel or None,
        output_names=parse_names(output_names or ()),
        groups=parse_groups(groups or ()),
        drop=tuple(drop or ()),
        seed=seed,
        tol=tol,
        batch_size=batch_size,
        device=device,
        trust=trust,
        folder_openers=_folder_openers(),
    )
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
