"""The command `shear`: models explained, and the paper's data sets, networks and experiments, from
a terminal.
"""

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer.core import TyperGroup

from shearshap import __version__
from shearshap.errors import InputError, ShearError
from shearshap.paper import networks
from shearshap.paper.data import Dataset, criteo, uci
from shearshap.paper.data import load as load_data
from shearshap.paper.networks import Trained
from shearshap.paper.truth import Truth, ground_truth


class Commands(TyperGroup):
    """Commands whose expected errors are one line each, without a traceback."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run the command; exit with 2 where shearshap, or the disk, refuses, and with 130 where it
        is interrupted.
        """
        try:
            return super().invoke(ctx)
        except (ShearError, OSError) as error:
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            typer.echo(
                "stopped; what is finished is kept, and the same command goes on from there",
                err=True,
            )
            raise typer.Exit(130) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Seed = Annotated[
    int, typer.Option(min=0, help="Decides every random choice: the same seed, the same result.")
]
File = Annotated[
    Path | None, typer.Option("--path", help="Your copy of Criteo's file; for criteo only.")
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shear {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Shapley values of any model, and of the paper's networks: data, training, ground truth,
    experiments.

    \b Examples: explain a model of yours; from nothing to exact Shapley values; every experiment of
    the paper:
        shear explain --model model.onnx --data rows.csv --out values.parquet --report
        shear data
        shear train census
        shear truth out/census-softplus-seed0 --rows 100
        shear reproduce census --quick
    """  # noqa: D301


@app.command()
def data(
    name: Annotated[
        str | None,
        typer.Argument(help="A data set; without one, all are listed.", show_default=False),
    ] = None,
    seed: Seed = 0,
    path: File = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the rows here too, as CSV for people to read.", show_default=False
        ),
    ] = None,
) -> None:
    """List the data sets, or show what is in one.

    \b
    Examples:
        shear data
        shear data census
        shear data german --out german.csv
        shear data criteo --path train.txt.gz
    """  # noqa: D301
    if name is None:
        if out is not None:
            raise typer.BadParameter("name a data set to write", param_hint="--out")
        typer.echo(_catalogue())
        return
    dataset = load_data(name, seed=seed, path=path)
    typer.echo(_facts(dataset))
    if out is not None:
        typer.echo(f"written to {dataset.write(out)}")


@app.command()
def train(
    name: Annotated[str, typer.Argument(help="A data set, as 'shear data' lists them.")],
    activation: Annotated[
        str, typer.Option(help=f"One of {', '.join(networks.architectures.ACTIVATIONS)}.")
    ] = "softplus",
    seed: Seed = 0,
    steps: Annotated[
        int, typer.Option(min=1, help="Batches at most, rounded up to whole passes.")
    ] = 30_000,
    path: File = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to save the network in.", show_default="out/NAME-ACTIVATION-seedSEED"
        ),
    ] = None,
) -> None:
    """Train the paper's network for a data set, and save it.

    Training stops when the validation rows no longer gain. The seed decides the split of the rows,
    too.

    \b
    Examples:
        shear train census
        shear train bank --activation relu --seed 1 --out bank-relu
    """  # noqa: D301
    dataset = load_data(name, seed=seed, path=path)
    trained = networks.train(dataset, activation=activation, seed=seed, steps=steps)
    folder = networks.save(trained, out or Path("out") / f"{name}-{activation}-seed{seed}")
    typer.echo(_report(trained, dataset, folder))


@app.command()
def truth(
    model_dir: Annotated[Path, typer.Argument(help="A folder made by 'shear train'.")],
    rows: Annotated[
        int, typer.Option(min=1, help="Test rows to explain, from the first on.")
    ] = 500,
    output: Annotated[int, typer.Option(help="The class whose logit is explained.")] = 1,
    tolerance: Annotated[
        float, typer.Option(help="Expected error over mean |share|, where exact is too dear.")
    ] = 0.01,
    seed: Annotated[
        int, typer.Option(min=0, help="Decides the draws of an estimate; exact values need none.")
    ] = 0,
    path: File = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to keep the values in.", show_default="MODEL_DIR"),
    ] = None,
) -> None:
    """Compute the Shapley values of a trained network.

    They are what estimators are measured against.

    Up to 20 features the values are exact; beyond, they are estimated until they have converged.
    Stop it whenever you like: the same command goes on where it was.

    \b
    Examples:
        shear truth out/census-softplus-seed0
        shear truth out/criteo-softplus-seed0 --rows 100 --path train.txt.gz
    """  # noqa: D301
    started = time.perf_counter()
    trained = networks.load(model_dir)
    dataset = load_data(trained.dataset, seed=trained.seed, path=path)
    folder = out or model_dir
    found = ground_truth(
        trained, dataset, rows=rows, output=output, folder=folder, tolerance=tolerance, seed=seed
    )
    typer.echo(
        _summary(found, dataset, time.perf_counter() - started, folder / f"truth-{found.key}")
    )


@app.command()
def explain(
    model: Annotated[
        str,
        typer.Option(
            help="A folder made by 'shear train', a file (.onnx; .json or .ubj of XGBoost; .txt of LightGBM; .cbm of "
            "CatBoost; .joblib or .pkl with --trust), or module:function, path/to/file.py:function."
        ),
    ],
    data: Annotated[Path, typer.Option(help="The rows to explain: CSV or Parquet.")],
    out: Annotated[
        Path, typer.Option(help="Where to write: .parquet, one line for each row; or .csv.")
    ],
    background: Annotated[
        str | None,
        typer.Option(
            help="What stands for an absent feature: a file of rows to average over, 'mean', 'median' or 'mode' of the "
            "rows explained, or of a file: 'mean:train.csv'.",
            show_default="mean; of a network of ours, that of its training rows",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="Model evaluations for one row.", show_default="16 a feature, and two"
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="A method's name, or auto.")] = "auto",
    output: Annotated[
        list[str] | None,
        typer.Option(help="A class's name or number; may be repeated.", show_default="all"),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="probability, log-odds, margin or logit.", show_default="what the model returns"
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="A column that is no input of the model, such as an id; may be repeated. A model that knows its "
            "columns needs none.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    tol: Annotated[
        float | None,
        typer.Option(
            help="Stop at a row once its standard errors are below this.", show_default=False
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Write a report beside --out, for a browser.")
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Open a pickle, which runs the code that is in it.")
    ] = False,
    path: File = None,
) -> None:
    """Explain a model's predictions for the rows of a file.

    Each feature's Shapley value is its share of what a row's prediction differs from the base
    value, the prediction without any feature. The file has a line for each row: values, standard
    errors, base value, prediction.

    \b
    Examples:
        shear explain --model model.onnx --data rows.csv --out values.parquet shear explain --model
        model.json --data rows.csv --background mean:train.csv --out values.parquet --report shear
        explain --model model.joblib --trust --data rows.parquet --drop id --output yes --out
        values.csv shear explain --model score.py:predict --data rows.csv --budget 500 --out
        values.parquet shear explain --model out/census-softplus-seed0 --data census.csv --out
        values.parquet --report
    """  # noqa: D301
    from shearshap import jobs

    job = jobs.Job(
        model, data, out, background, budget, method, tuple(output or ()), scale, tuple(drop or ()), seed, tol,
        trust=trust, path=path, report=report,
    )  # fmt: skip
    try:
        result = jobs.explain_file(job)
    except KeyboardInterrupt as error:
        typer.echo("stopped; nothing is written", err=True)
        raise typer.Exit(130) from error
    facts = jobs.facts(job, result, shlex.join(["shear", *sys.argv[1:]]))
    jobs.write(result.explanation, result.data, facts, out)
    typer.echo(jobs.summary(job, result))
    if report:
        typer.echo(f"report      {jobs.report(job, result, facts)}, for a browser")


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help="census, bank, german, criteo, or all of them.")],
    protocol: Annotated[str, typer.Option(help="paper, fair, or both.")] = "both",
    rows: Annotated[
        int | None, typer.Option(min=1, help="Test rows to explain.", show_default="by data set")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Draws of every estimate.", show_default="5")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One network, fewer rows and rounds: minutes.")
    ] = False,
    path: File = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for records and report.", show_default="out/reproduce-WHAT"),
    ] = None,
) -> None:
    """Run every experiment of the paper, and write a report.

    Networks are trained and their ground truth is computed where they are not there yet. Stop it
    whenever you like: the same command goes on where it was. Without --path, criteo stands for
    made-up data of its schema.

    \b
    Examples:
        shear reproduce census --quick
        shear reproduce all
        shear reproduce bank --protocol fair --rows 300 --rounds 10
    """  # noqa: D301
    try:
        import jinja2  # noqa: F401  (wanted at the very end, and better missed now)

        from shearshap.paper import experiments
    except ImportError as error:
        missing = (error.name or str(error)).partition(".")[0]
        raise InputError(
            f"shear reproduce needs {missing}: pip install 'shearshap[reproduce]'"
        ) from error
    specs = experiments.specifications(
        what, protocol=protocol, rows=rows, rounds=rounds, quick=quick, path=path
    )
    folder = out or Path("out") / f"reproduce-{what}"
    records = experiments.run(specs, folder, command=["shear", *sys.argv[1:]])
    report = experiments.report(folder)
    typer.echo(experiments.printed(records))
    typer.echo(f"\nrecords   {folder / 'records'}\nreport    {report}, for a browser")


def _catalogue() -> str:
    """Return a table of the data sets."""
    table = [("name", "rows", "features", "what it is")]
    table += [
        (name, str(source.rows), str(source.features), source.title)
        for name, source in uci.SOURCES.items()
    ]
    table += [
        (
            "criteo",
            f"<={criteo.ROWS}",
            str(criteo.FEATURES),
            f"{criteo.TITLE} of your own file: needs --path FILE",
        ),
        ("criteo-synthetic", str(criteo.ROWS), str(criteo.FEATURES), criteo.SYNTHETIC_TITLE),
    ]
    return "\n".join(
        f"{name:<18}{rows:>8}{features:>10}  {what}" for name, rows, features, what in table
    )


def _facts(dataset: Dataset) -> str:
    """Return what is in a data set, a line for each fact and each feature."""
    counts = np.bincount(dataset.labels) / len(dataset.labels)
    classes = ", ".join(
        f"{name} ({share:.1%})" for name, share in zip(dataset.classes, counts, strict=True)
    )
    sizes = f"{len(dataset.train)} train, {len(dataset.validation)} validation, {len(dataset.test)} test"
    return "\n".join(
        (
            f"{dataset.name}: {dataset.title}",
            f"rows      {len(dataset.inputs)}: {sizes}",
            f"classes   {classes}",
            f"features  {len(dataset.groups)} in {dataset.inputs.shape[1]} inputs; from the "
            "training rows:",
            *(f"  {name:<16}{_feature(dataset, name)}" for name in dataset.feature_names),
            f"source    {dataset.source}",
        )
    )


def _feature(dataset: Dataset, name: str) -> str:
    if name in dataset.encoder.categories:
        return f"{len(dataset.encoder.categories[name])} categories"
    mean, deviation = dataset.encoder.numeric[name]
    scale = " on a log scale" if dataset.name.startswith("criteo") else ""
    return f"number, mean {mean:.4g}, standard deviation {deviation:.4g}{scale}"


def _report(trained: Trained, dataset: Dataset, folder: Path) -> str:
    """Return how good a trained network is, and where it is."""
    config = trained.config
    return "\n".join(
        (
            f"{dataset.name}: {dataset.title}",
            f"network   {config.kind}, {config.activation}, {trained.epochs} epochs, seed "
            f"{trained.seed}",
            f"accuracy  {trained.test_accuracy:.2%} of {len(dataset.test)} test rows",
            f"majority  {trained.majority:.2%} are of the larger class",
            f"saved in  {folder}",
        )
    )


def _summary(found: Truth, dataset: Dataset, seconds: float, folder: Path) -> str:
    """Return what ground truth came to, how far to trust it, and where it is."""
    kind = (
        "exact" if found.exact else f"estimated, expected error {found.error:.3%} of mean |share|"
    )
    return "\n".join(
        (
            f"{dataset.name}: {dataset.title}",
            f"rows      {len(found.rows)} of {len(dataset.test)} test rows, {len(dataset.groups)} "
            "features each",
            f"values    {kind}",
            f"cost      {found.evaluations} evaluations a row",
            f"|share|   {np.abs(found.values).mean():.4g} on average",
            f"time      {seconds:.1f} s",
            f"kept in   {folder}",
        )
    )


if __name__ == "__main__":
    app(prog_name="shear")
