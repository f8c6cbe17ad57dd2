"""What to measure: a frozen specification, and the methods of each protocol."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from shearshap.errors import InputError
from shearshap.methods import METHODS, Shear
from shearshap.methods.base import Method
from shearshap_lab.baselines import BASELINES
from shearshap_lab.data import criteo, uci
from shearshap_lab.networks import RECIPES, Recipe, recipe_of

Protocol = Literal["paper", "paper-coin", "authors", "fair"]
Choice = Literal["paper", "fair", "both"]

PROTOCOLS: dict[Protocol, tuple[str, ...]] = {
    "paper": (
        "shear",
        "kernel-paper",
        "kernel-welford",
        "kernel-paired-paper",
        "permutation-paper",
        "permutation-antithetic-paper",
    ),
    "paper-coin": (
        "shear",
        "kernel-paper",
        "kernel-welford",
        "kernel-paired-paper",
        "permutation-coin-paper",
        "permutation-antithetic-coin-paper",
    ),
    "authors": (
        "shear",
        "shear-authors",
        "kernel-authors",
        "kernel-welford",
        "kernel-paired-authors",
        "permutation-authors",
        "permutation-antithetic-authors",
    ),
    "fair": (
        "shear",
        "shear-unbiased",
        "kernel",
        "kernel-welford",
        "kernel-paired",
        "permutation",
        "permutation-antithetic",
        "leverage",
        "kriging",
    ),
}
"""The methods of each protocol.

- paper: the baselines as the paper's appendix describes them; the random coalitions of PS and APS
  are prefixes of random permutations
- paper-coin: the same, but a player is in a random coalition of PS and APS by a fair coin
- authors: the baselines as the authors' released numbers were made
- fair: the same number of evaluations for every method, each at its best; `exact` is what they are
  measured against
"""

NEWER = ("shear-unbiased", "leverage", "kriging")  #: methods that the paper does not compare with


def baselines(protocol: Protocol) -> tuple[str, ...]:
    """Return the paper's five baselines as a protocol runs them."""
    ours = ("shear", "shear-authors", *NEWER)
    return tuple(name for name in PROTOCOLS[protocol] if name not in ours)


ABLATIONS: dict[str, Method] = {
    "shear-without-ccs": Shear(selection="random"),
    "shear-unpaired": Shear(outsiders="independent"),
    "shear-unpaired-without-ccs": Shear(outsiders="independent", selection="random"),
    "shear-empty": Shear(outsiders="empty"),
    "shear-empty-without-ccs": Shear(outsiders="empty", selection="random"),
}
"""SHEAR without contributive cooperator selection (CCS), and without antithetical sampling (AS) in
two readings: V_n random but unpaired, and V_n empty.
"""

ABLATED = 16  #: evaluations a feature at which the paper ablates, selects and illustrates

CANDIDATES: dict[str, Method] = {
    **METHODS,
    **BASELINES,
    **ABLATIONS,
    "shear-authors": Shear(interaction="block-maximum"),
}
"""Every method that is measured, by name."""

DATASETS = ("census", "bank", "german", "criteo")

_RECIPES = {"census": tuple(RECIPES), "bank": tuple(RECIPES)}  #: of others "ours" alone
_ROWS = {"census": 100, "bank": 40, "german": 16, "criteo": 12}
_QUICK_ROWS = {"census": 40, "bank": 20, "german": 6, "criteo": 6}
_SEEDS = {"criteo": (0, 1, 2)}  #: made-up data, and two minutes of training: fewer than of others
_BOUNDED_ROWS = {"census": 8, "bank": 1}

SLOW = ("kriging",)
"""Methods that take long however few rows there are: they have fewer rounds than others."""
REBASED = ("shear", "shear-authors")  #: what is measured against another background
COMPARED = ("shear", "permutation-antithetic", "kernel-paired", "kriging")
"""The methods whose sensitivity to the training is measured."""


def variants(*, quick: bool = False) -> tuple[Recipe, ...]:
    """Return the recipes whose errors are compared: the authors', and others that differ from it.

    One choice differs, or two of encoding, epochs and background. Raw 0/1 blocks have the mean as
    their background: the quirk is one of standardised blocks. `quick`: short trainings alone.
    """
    authors = RECIPES["authors"]
    mean = RECIPES["authors-mean"]
    raw = replace(mean, preparation=replace(mean.preparation, encoding="0/1"))
    short = (authors, mean, raw, replace(authors, activation="relu"))
    if quick:
        return short
    return (
        *short,
        replace(authors, activation="tanh"),
        replace(authors, epochs=80),
        replace(mean, epochs=80),
        replace(raw, epochs=80),
        replace(authors, epochs=None),
        replace(raw, epochs=None),
    )


@dataclass(frozen=True)
class Setting:
    """One network that is measured: how it is trained and what rows of it are explained."""

    recipe: Recipe
    seed: int  #: of the split, where the recipe leaves it open, of the training and of the draws
    rows: int  #: test rows
    name: str = ""  #: of the recipe, or none where it is one of the `variants`


@dataclass(frozen=True)
class Spec:
    """What is measured on one data set."""

    dataset: str  #: as `shearshap_lab.data.load` knows it
    model_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  #: one network each
    recipes: tuple[str, ...] = ("ours",)  #: names of `RECIPES`
    protocol: Choice = "both"
    evaluations: tuple[int, ...] = (8, 16, 32, 64, 128)  #: N, model evaluations for each feature
    rounds: int = 5  #: draws of every estimate
    rows: int = 100  #: test rows that are explained
    timings: int = 10  #: how often each method is timed, on the first network
    timed_rows: int = 50  #: of one timing, at most
    rows_one_by_one: int = 3  #: likewise, where rows are explained one after the other
    bounded_rows: int = 1  #: for the studies of Theorems 1 and 2 and Remark 2
    variants: tuple[Recipe, ...] = ()  #: recipes to compare, for the study of sensitivity
    variant_seeds: tuple[int, ...] = (0, 1, 2)
    variant_rows: int = 30
    path: str | None = None  #: the user's copy of Criteo's file

    def __post_init__(self) -> None:
        """Check the numbers."""
        self._check_counts()
        self._check_evaluations()
        for name in self.recipes:
            recipe_of(name)
        if self.protocol not in get_args(Choice):
            raise InputError(f"protocol: wanted paper, fair or both, got {self.protocol!r}")

    def _check_counts(self) -> None:
        counts = (
            "rounds",
            "rows",
            "timings",
            "timed_rows",
            "rows_one_by_one",
            "bounded_rows",
            "variant_rows",
        )
        for name in counts:
            count = getattr(self, name)
            if count < 1:
                raise InputError(f"{name}: wanted a positive number, got {count}")
        most = _test_rows(self.dataset)
        if self.rows > most:
            raise InputError(f"rows: {self.dataset} has {most} test rows, got {self.rows}")

    def _check_evaluations(self) -> None:
        if not self.model_seeds or not self.evaluations:
            raise InputError(
                "a specification needs at least one model seed and one number of evaluations a "
                "feature"
            )
        fewest = min(self.evaluations)
        if fewest < 4:
            raise InputError(f"evaluations: SHEAR needs at least 4 for each feature, got {fewest}")
        if ABLATED not in self.evaluations:
            raise InputError(
                f"evaluations: ablations are compared with SHEAR at {ABLATED}, got "
                f"{self.evaluations}"
            )

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """The protocols that are run.

        The paper's is run in all readings, the appendix's two and the authors' own.
        """
        runs: dict[Choice, tuple[Protocol, ...]] = {
            "paper": ("paper", "paper-coin", "authors"),
            "fair": ("fair",),
        }
        return runs.get(self.protocol, tuple(PROTOCOLS))

    def settings(self) -> Iterator[Setting]:
        """Yield every network that is measured, in order."""
        for name in self.recipes:
            for seed in self.model_seeds:
                yield Setting(RECIPES[name], seed, self.rows, name)
        for seed in self.variant_seeds:
            for recipe in self.variants:
                yield Setting(recipe, seed, self.variant_rows)

    def trained_with(self, setting: Setting) -> list[Recipe]:
        """Return the recipes whose training begins as a setting's does, its own among them.

        One training serves them all.
        """
        start = replace(setting.recipe.network, epochs=None)
        others = [
            other.recipe.network
            for other in self.settings()
            if other.seed == setting.seed and replace(other.recipe.network, epochs=None) == start
        ]
        return list(dict.fromkeys(others))

    def rounds_of(self, method: str) -> int:
        """Return how many draws of a method's estimates there are."""
        return max(1, self.rounds // 2) if method in SLOW else self.rounds

    def timings_of(self, method: str) -> int:
        """Return how often a method is timed."""
        return max(1, self.timings // 3) if method in SLOW else self.timings

    def methods_on(self, recipe: str) -> tuple[str, ...]:
        """Return the methods that are measured on the networks of a recipe."""
        if recipe == "authors-mean":
            return tuple(name for name in REBASED if name in self.methods)
        return self.methods

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of these protocols, each once."""
        names: dict[str, None] = {}
        for protocol in self.protocols:
            names |= dict.fromkeys(PROTOCOLS[protocol])
        if self.dataset.startswith("criteo"):
            # derivatives by single columns of an index mean nothing: those of an embedding are for
            # the whole feature
            names.pop("shear-authors", None)
        return tuple(names)


def _test_rows(dataset: str) -> int:
    if dataset in uci.SOURCES:
        return uci.SOURCES[dataset].test
    return criteo.ROWS // 10


def specifications(
    what: str,
    *,
    protocol: str = "both",
    rows: int | None = None,
    rounds: int | None = None,
    quick: bool = False,
    path: Path | str | None = None,
) -> list[Spec]:
    """Return what `shear paper reproduce` measures on a data set of the paper, or on all.

    `quick`: one network, fewer rows and rounds. Without a file at `path`, criteo stands for
    criteo-synthetic.
    """
    _check_dataset(what)
    _check_path(what, path)
    names = DATASETS if what == "all" else (what,)
    specs = [_quick_spec(name) if quick else _full_spec(name) for name in names]

    changes: dict[str, Any] = {"protocol": protocol}
    if rounds is not None:
        changes["rounds"] = rounds
    changed = [replace(spec, **changes) for spec in specs]
    if rows is not None:
        changed = [
            replace(spec, rows=rows, variant_rows=min(rows, spec.variant_rows)) for spec in changed
        ]
    return [_with_file(spec, path) for spec in changed]


def _full_spec(name: str) -> Spec:
    spec = Spec(
        name,
        model_seeds=_SEEDS.get(name, Spec.model_seeds),
        recipes=_RECIPES.get(name, ("ours",)),
        rows=_ROWS[name],
        bounded_rows=_BOUNDED_ROWS.get(name, 1),
    )
    return replace(spec, variants=variants()) if name in _RECIPES else spec


def _quick_spec(name: str) -> Spec:
    spec = replace(
        _full_spec(name),
        model_seeds=(0,),
        rounds=2,
        rows=_QUICK_ROWS[name],
        timings=3,
        timed_rows=20,
        rows_one_by_one=1,
        bounded_rows=1,
        variant_seeds=(0,),
        variant_rows=10,
    )
    return replace(spec, variants=variants(quick=True)) if spec.variants else spec


def _with_file(spec: Spec, path: Path | str | None) -> Spec:
    """Return the specification of criteo with the user's file, or of criteo-synthetic without."""
    if spec.dataset != "criteo":
        return spec
    if path is None:
        return replace(spec, dataset="criteo-synthetic")
    return replace(spec, path=str(path))


def _check_dataset(what: str) -> None:
    if what not in (*DATASETS, "all"):
        raise InputError(
            f"there is nothing to reproduce on {what!r}; there are: {', '.join(DATASETS)}, all"
        )


def _check_path(what: str, path: Path | str | None) -> None:
    if path is None:
        return
    if what not in ("criteo", "all"):
        raise InputError(
            f"path: only criteo reads a file of yours, {what} needs none; got {str(path)!r}"
        )
    if not Path(path).is_file():
        raise InputError(f"path: there is no file {str(path)!r}")
