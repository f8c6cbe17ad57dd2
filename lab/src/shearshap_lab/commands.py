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
    int, typer.Option(min=0, help="Decides every random choice: the same seed, the same result.")
]
CriteoFile = Annotated[
    Path | None, typer.Option("--path", help="Your copy of Criteo's file; for criteo only.")
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
            kept = "finished parts are kept; run the same command again to continue"
            raise KeyboardInterrupt(kept) from error

    return resumed


# shear paper data


@app.command()
def data(
    name: Annotated[str | None, typer.Argument(help="A data set; default: list all.")] = None,
    seed: Seed = 0,
    path: CriteoFile = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file to write the rows to.")] = None,
) -> None:
    """List the data sets, or show what is in one.

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
            raise typer.BadParameter("expected the name of a data set to write", param_hint="--out")
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
    own_file = f"{criteo.TITLE} from your own file: needs --path FILE"
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
    name: Annotated[str, typer.Argument(help="A data set, as 'shear paper data' lists them.")],
    activation: Annotated[str, typer.Option(help="softplus, relu, gelu or tanh.")] = "softplus",
    recipe: Annotated[str, typer.Option(help="ours, or authors: as they trained.")] = "ours",
    seed: Seed = 0,
    steps: Annotated[int, typer.Option(min=1, help="Batches at most, in whole passes.")] = 30_000,
    path: CriteoFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to save the network in.",
            show_default="out/NAME-ACTIVATION-seedSEED, with the recipe in it if it is not ours",
        ),
    ] = None,
) -> None:
    """Train the paper's network for a data set, and save it.

    Training stops when the validation rows no longer gain, and the seed decides the split of the
    rows, too. The authors' recipe has 20 epochs and one split for all seeds.

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
        f"{dataset.name}: {dataset.title}\nnetwork   {trained.config.kind}, {activation}, "
        f"{trained.epochs} epochs, seed {seed}\naccuracy  {trained.test_accuracy:.2%} of "
        f"{len(dataset.test)} test rows\nmajority  {trained.majority:.2%} are in the larger "
        f"class\nsaved in  {folder}"
    )


# shear paper truth


@app.command()
@resumable
def truth(
    model_dir: Annotated[Path, typer.Argument(help="A folder made by 'shear paper train'.")],
    rows: Annotated[int, typer.Option(min=1, help="Test rows, from the first on.")] = 500,
    output: Annotated[int, typer.Option(help="The class whose logit is explained.")] = 1,
    path: CriteoFile = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the values.", show_default="MODEL_DIR")
    ] = None,
) -> None:
    """Compute the Shapley values of a trained network, to measure estimators against.

    Up to 20 features the values are exact; beyond, they are those of many permutations.
    Stop it whenever you like: the same command goes on where it was.

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
    what: Annotated[str, typer.Argument(help="census, bank, criteo, or all of them.")],
    rows: Annotated[
        int | None, typer.Option(min=1, help="Test rows to explain.", show_default="by data set")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Draws of every estimate.", show_default="5")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One network, fewer rows, rounds.")
    ] = False,
    processes: Annotated[int, typer.Option(min=1, help="Networks measured at once.")] = 1,
    path: CriteoFile = None,
    out: Annotated[
        Path | None, typer.Option(help="For the results.", show_default="out/reproduce-WHAT")
    ] = None,
) -> None:
    """Run every experiment of the paper, and write its pages.

    Networks are trained and their ground truth is computed if they are not there yet, or were made
    by other code. Stop it whenever you like: the same command goes on where it was. Criteo's data
    cannot be shipped: criteo needs --path, and all has it with --path alone.

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
    records: Annotated[Path, typer.Argument(help="The folder of a run's records.")],
    out: Annotated[Path, typer.Option(help="The folder for the pages.")] = Path("out/pages"),
) -> None:
    """Write the pages of the reproduction anew from the records of a run.

    \b
    Examples:
        shear paper page out/reproduce-census/records
        shear paper page docs/reproduction/records --out docs
    """  # noqa: D301
    from shearshap_lab.experiments.page import write_pages

    path = write_pages(records, out)
    typer.echo(f"summary   {out / 'reproduction.md'}\nreport    {path}, for a browser")
