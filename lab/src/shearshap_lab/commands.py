"""The commands `shear paper ...`: the paper's data sets, networks, ground truth, experiments.

Each imports what it needs when it is called, so that `shear explain` need not wait for it, nor have
it installed.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

from shearshap.errors import InputError

if TYPE_CHECKING:
    from shearshap_lab.data import Dataset

Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Random seed: the same seed gives the same result."),
]
CriteoFile = Annotated[
    Path | None,
    typer.Option("--path", metavar="FILE", help="Your copy of the Criteo file; only for criteo."),
]

app = typer.Typer(
    name="paper",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Reproduce the paper: data, networks, exact values, experiments.",
)


P = ParamSpec("P")


def resumable(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command that, when it is interrupted, says that it can go on."""

    @wraps(command)
    def resumed(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as error:
            kept = "finished work is kept; run the same command again to resume"
            raise KeyboardInterrupt(kept) from error

    return resumed


# shear paper data


@app.command()
def data(
    name: Annotated[
        str | None, typer.Argument(help="A data set.", show_default="list all data sets")
    ] = None,
    seed: Seed = 0,
    path: CriteoFile = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV file to write the rows to.")
    ] = None,
) -> None:
    """List the data sets, or describe one.

    \b
    Examples:
        shear paper data
        shear paper data census
        shear paper data german --out german.csv
        shear paper data criteo --path train.txt.gz
    """  # noqa: D301
    from shearshap_lab.data import load

    if name is None:
        if out is not None:
            raise typer.BadParameter("name a data set to write", param_hint="--out")
        typer.echo(_catalogue())
        return
    dataset = load(name, seed=seed, path=path)
    if out is not None and out.exists():
        raise InputError(f"out: {out} already exists; choose another name")
    typer.echo(_facts(dataset))
    if out is not None:
        typer.echo(f"written to {dataset.write(out)}")


def _catalogue() -> str:
    """Return a table of the data sets."""
    from shearshap_lab.data import criteo, uci

    line = "{:<18}{:>8}{:>10}  {}".format
    own_file = f"{criteo.TITLE} of your own file: needs --path FILE"
    lines = [
        line("name", "rows", "features", "what it is"),
        *(line(name, each.rows, each.features, each.title) for name, each in uci.SOURCES.items()),
        line("criteo", f"<={criteo.ROWS}", criteo.FEATURES, own_file),
    ]
    return "\n".join(lines)


def _facts(dataset: "Dataset") -> str:
    """Return what is in a data set, a line for each fact and each feature."""
    shares = [float((dataset.labels == label).mean()) for label in range(len(dataset.classes))]
    classes = [f"{name} ({part:.1%})" for name, part in zip(dataset.classes, shares, strict=True)]
    parts = ("train", "validation", "test")
    splits = ", ".join(f"{len(getattr(dataset, part))} {part}" for part in parts)
    rows, inputs = dataset.inputs.shape
    lines = [
        f"{dataset.name}: {dataset.title}",
        f"rows      {rows}: {splits}",
        f"classes   {', '.join(classes)}",
        f"features  {len(dataset.groups)} in {inputs} inputs; from the training rows:",
        *(f"  {name:<16}{_feature(dataset, name)}" for name in dataset.feature_names),
        f"source    {dataset.source}",
    ]
    return "\n".join(lines)


def _feature(dataset: "Dataset", name: str) -> str:
    encoder = dataset.encoder
    if name in encoder.categories:
        return f"{len(encoder.categories[name])} categories"
    mean, deviation = encoder.numeric[name]
    scale = " on a log scale" if encoder.logarithmic else ""
    return f"number, mean {mean:.4g}, standard deviation {deviation:.4g}{scale}"


# shear paper train


@app.command()
def train(
    name: Annotated[str, typer.Argument(help="A data set; shear paper data lists them.")],
    activation: Annotated[
        str, typer.Option(metavar="NAME", help="softplus, relu, gelu or tanh.")
    ] = "softplus",
    recipe: Annotated[
        str, typer.Option(metavar="NAME", help="How to train: ours, or authors, as in their code.")
    ] = "ours",
    seed: Seed = 0,
    steps: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Maximum number of batches, rounded up to whole epochs.",
            show_default="30,000",
        ),
    ] = 30_000,
    path: CriteoFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to save the network in.",
            show_default="out/NAME-ACTIVATION-seedSEED; with --recipe authors, "
            "out/NAME-authors-ACTIVATION-seedSEED",
        ),
    ] = None,
) -> None:
    """Train the paper's network for a data set, and save it.

    Training stops when the accuracy on the validation rows no longer rises. The seed also
    determines how the rows are split. The authors' recipe has 20 epochs, and one split for all
    seeds.

    \b
    Examples:
        shear paper train census
        shear paper train census --recipe authors --seed 3
        shear paper train bank --activation relu --seed 1 --out bank-relu
    """  # noqa: D301
    from shearshap_lab import networks
    from shearshap_lab.networks.training import is_saved

    chosen = replace(networks.recipe_of(recipe), activation=activation)
    words = (name, activation) if recipe == "ours" else (name, recipe, activation)
    folder = out or Path("out") / "-".join((*words, f"seed{seed}"))
    if is_saved(folder):
        try:
            networks.load(folder)
        except InputError as error:  # files of somebody else are not replaced
            raise InputError(f"out: {error}; choose another folder") from error
    dataset = chosen.load(name, seed=seed, path=path)
    trained = chosen.train(dataset, seed=seed, steps=steps)
    networks.save(trained, folder)
    typer.echo(
        f"{dataset.name}: {dataset.title}\n"
        f"network   {trained.config.kind}, {activation}, {trained.epochs} epochs, seed {seed}\n"
        f"accuracy  {trained.test_accuracy:.2%} of {len(dataset.test)} test rows\n"
        f"majority  {trained.majority:.2%} are of the larger class\n"
        f"saved in  {folder}"
    )


# shear paper truth


@app.command()
@resumable
def truth(
    model_dir: Annotated[Path, typer.Argument(help="A folder that shear paper train wrote.")],
    rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the first test rows to explain.")
    ] = 500,
    output: Annotated[
        int, typer.Option(metavar="N", help="Number of the class whose logit to explain.")
    ] = 1,
    path: CriteoFile = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for the values.", show_default="MODEL_DIR"),
    ] = None,
) -> None:
    """Compute precise Shapley values of a trained network, as a reference for estimators.

    With up to 20 features, the values are exact; with more, they are estimated with many
    permutations. You can stop the command at any time: run it again to resume.

    \b
    Examples:
        shear paper truth out/census-softplus-seed0
        shear paper truth out/criteo-softplus-seed0 --rows 100 --path train.txt.gz
    """  # noqa: D301
    from shearshap_lab import networks
    from shearshap_lab.data import load
    from shearshap_lab.truth import ground_truth

    started = time.perf_counter()
    trained = networks.load(model_dir)
    dataset = load(trained.dataset, seed=trained.seed, path=path, preparation=trained.preparation)
    folder = out or model_dir
    known = ground_truth(trained, dataset, rows=rows, output=output, folder=folder)
    kind = (
        "exact" if known.exact else f"estimated, expected error {known.error:.3%} of mean |value|"
    )
    typer.echo(
        f"{dataset.name}: {dataset.title}\n"
        f"rows      {len(known.rows)} of {len(dataset.test)} test rows, {len(dataset.groups)} "
        "features each\n"
        f"values    {kind}\n"
        f"cost      {known.evaluations} evaluations per row\n"
        f"|value|   {abs(known.values).mean():.4g} on average\n"
        f"time      {time.perf_counter() - started:.1f} s\n"
        f"kept in   {folder / f'truth-{known.key}'}"
    )


# shear paper reproduce


@app.command()
@resumable
def reproduce(
    what: Annotated[str, typer.Argument(help="census, bank, criteo or all.")],
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Test rows to explain.",
            show_default="depends on the data set",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Repetitions of every estimate.", show_default="5"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use one network, fewer rows and fewer rounds.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Networks to measure in parallel.")
    ] = 1,
    path: CriteoFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the results.", show_default="out/reproduce-WHAT"
        ),
    ] = None,
) -> None:
    """Run every experiment of the paper, and write pages with the results.

    Networks and their exact values are computed if they do not exist yet, or if they were made by
    other code. You can stop the command at any time: run it again to resume. The Criteo data may
    not be redistributed: criteo needs --path, and all includes it only with --path.

    \b
    Examples:
        shear paper reproduce census --quick
        shear paper reproduce all
        shear paper reproduce bank --rows 300 --rounds 10
        shear paper reproduce all --processes 15
    """  # noqa: D301
    from shearshap.store import check_folder
    from shearshap_lab.experiments.page import printed, write_pages
    from shearshap_lab.experiments.runner import run
    from shearshap_lab.experiments.spec import specifications

    specs = specifications(what, rows=rows, rounds=rounds, quick=quick, path=path)
    folder = out or Path("out") / f"reproduce-{what}"
    check_folder(folder)
    command = ["shear", *sys.argv[1:]]
    records = run(specs, folder, command=command, processes=processes)
    path = write_pages(folder / "records", folder)
    typer.echo(printed(records))
    typer.echo(f"\nrecords   {folder / 'records'}\nreport    {path}, for a browser")


# shear paper page


@app.command()
def page(
    records: Annotated[Path, typer.Argument(help="The folder with the records of a run.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the pages.")] = Path(
        "out/pages"
    ),
) -> None:
    """Write the pages again, from the records of a run.

    \b
    Examples:
        shear paper page out/reproduce-census/records
        shear paper page docs/reproduction/records --out docs
    """  # noqa: D301
    from shearshap_lab.experiments.page import write_pages

    path = write_pages(records, out)
    typer.echo(f"summary   {out / 'reproduction.md'}\nreport    {path}, for a browser")
