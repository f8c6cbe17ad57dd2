"""What to measure: a frozen specification, and the methods of each reading of the paper."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from shearshap.errors import InputError
from shearshap.methods import METHODS, Shear
from shearshap.methods.base import Method
from shearshap_lab.baselines import BASELINES
from shearshap_lab.data import criteo, uci
from shearshap_lab.networks import RECIPES, recipe_of

Reading = Literal["authors", "paper", "paper-coin", "fair"]

READINGS: dict[Reading, tuple[str, ...]] = {
    "authors": (
        "shear",
        "shear-authors",
        "kernel-authors",
        "kernel-welford",
        "kernel-paired-authors",
        "permutation-authors",
        "permutation-antithetic-authors",
    ),
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
"""The methods of each reading of the paper's comparison.

- authors: the baselines as the authors' released numbers were made
- paper: the baselines as the paper's appendix describes them; the random coalitions of PS and APS
  are prefixes of random permutations
- paper-coin: the same, but a player is in a random coalition of PS and APS by a fair coin
- fair: the same number of evaluations for every method, each at its best
"""

NOT_IN_THE_PAPER = ("shear-unbiased", "leverage", "kriging")

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

ABLATION_N = 16  #: evaluations a feature at which the paper ablates, selects and illustrates

CANDIDATES: dict[str, Method] = {
    **METHODS,
    **BASELINES,
    **ABLATIONS,
    "shear-authors": Shear(interaction="block-maximum"),
}
"""Every method that is measured, by name."""

DATASETS = ("census", "bank", "criteo")

_ROWS = {"census": 100, "bank": 40, "criteo": 12}
_QUICK_ROWS = {"census": 40, "bank": 20, "criteo": 6}
_BOUNDED_ROWS = {"census": 8, "bank": 1, "criteo": 1}


def baselines(reading: Reading) -> tuple[str, ...]:
    """Return the paper's five baselines as a reading runs them."""
    others = ("shear", "shear-authors", *NOT_IN_THE_PAPER)
    return tuple(name for name in READINGS[reading] if name not in others)


@dataclass(frozen=True)
class Spec:
    """What is measured on one data set."""

    dataset: str  #: as `shearshap_lab.data.load` knows it
    model_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  #: one network each
    recipes: tuple[str, ...] = ("authors", "ours")  #: names of `RECIPES`
    evaluations: tuple[int, ...] = (8, 16, 32, 64, 128)  #: N, model evaluations for each feature
    rounds: int = 5  #: draws of every estimate
    rows: int = 100  #: test rows that are explained
    timings: int = 10  #: how often each method is timed, on the first network
    timed_rows: int = 50  #: of one timing, at most
    rows_one_by_one: int = 3  #: likewise, when rows are explained one after the other
    bounded_rows: int = 1  #: for the studies of Theorems 1 and 2 and Remark 2
    path: str | None = None  #: the user's copy of Criteo's file

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("rounds", "rows", "timings", "timed_rows", "rows_one_by_one", "bounded_rows"):
            count = getattr(self, name)
            if count < 1:
                raise InputError(f"{name}: expected a positive number, got {count}")
        most = _test_rows(self.dataset)
        if self.rows > most:
            raise InputError(f"rows: {self.dataset} has {most} test rows, got {self.rows}")
        if not self.model_seeds or min(self.evaluations, default=0) < 4:
            raise InputError(
                "expected at least one model seed, and at least 4 evaluations for each feature; "
                f"got {self.model_seeds} and {self.evaluations}"
            )
        if ABLATION_N not in self.evaluations:
            raise InputError(
                f"evaluations: ablations are compared with SHEAR at {ABLATION_N}, got "
                f"{self.evaluations}"
            )
        for recipe in self.recipes:
            recipe_of(recipe)

    @property
    def players(self) -> int:
        """The number of features."""
        source = uci.SOURCES.get(self.dataset)
        return criteo.FEATURES if source is None else source.features

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of all readings, each once."""
        names = dict.fromkeys(name for reading in READINGS.values() for name in reading)
        if self.dataset == "criteo":
            # derivatives by single columns of an index mean nothing: those of an embedding are for
            # the whole feature
            names.pop("shear-authors")
        return tuple(names)

    def rounds_of(self, method: str) -> int:
        """Return how many draws of a method's estimates there are: kriging, which is slow, fewer"""
        return max(1, self.rounds // 2) if method == "kriging" else self.rounds


def _test_rows(dataset: str) -> int:
    if dataset in uci.SOURCES:
        return uci.SOURCES[dataset].test
    return criteo.ROWS // 10


def specifications(
    what: str,
    *,
    rows: int | None = None,
    rounds: int | None = None,
    quick: bool = False,
    path: Path | str | None = None,
) -> list[Spec]:
    """Return what `shear paper reproduce` measures on a data set of the paper, or on all.

    `quick`: one network, fewer rows and rounds. "all" has criteo only with a file at `path`.
    """
    if what not in (*DATASETS, "all"):
        raise InputError(
            f"there is nothing to reproduce on {what!r}; there are: {', '.join(DATASETS)}, all"
        )
    if path is not None and what not in ("criteo", "all"):
        raise InputError(f"path: only criteo reads a file of yours, got {str(path)!r} for {what}")
    if what == "criteo" or path is not None:
        criteo.check_file(path)
    names = [name for name in DATASETS if name != "criteo" or path is not None]
    specs = [_spec(name, quick=quick) for name in (names if what == "all" else [what])]
    changes = {"rows": rows, "rounds": rounds}
    given = {name: value for name, value in changes.items() if value is not None}
    specs = [replace(spec, **given) for spec in specs]  # type: ignore[arg-type]
    return [
        replace(spec, path=str(path), recipes=("ours",)) if spec.dataset == "criteo" else spec
        for spec in specs
    ]


def _spec(name: str, *, quick: bool) -> Spec:
    spec = Spec(name, rows=_ROWS[name], bounded_rows=_BOUNDED_ROWS[name])
    if not quick:
        return spec
    return replace(
        spec,
        model_seeds=(0,),
        rounds=2,
        rows=_QUICK_ROWS[name],
        timings=3,
        timed_rows=20,
        rows_one_by_one=1,
        bounded_rows=1,
    )


__all__ = ["ABLATIONS", "ABLATION_N", "CANDIDATES", "READINGS", "RECIPES", "Spec", "specifications"]
