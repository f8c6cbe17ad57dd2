"""What to measure: a frozen specification, and the methods of each protocol."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from shearshap.errors import InputError
from shearshap.methods import METHODS, Shear
from shearshap.methods.base import Method
from shearshap.paper.baselines import BASELINES
from shearshap.paper.data import criteo, uci

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

_ROWS = {"census": 400, "bank": 150, "german": 50, "criteo": 30}
_QUICK_ROWS = {"census": 100, "bank": 50, "german": 10, "criteo": 10}
_BOUNDED_ROWS = {"census": 20, "bank": 4}


@dataclass(frozen=True)
class Spec:
    """What is measured on one data set."""

    dataset: str  #: as `shearshap.paper.data.load` knows it
    #: of the split, the training and the rows: one network each
    model_seeds: tuple[int, ...] = (0, 1, 2)
    protocol: Choice = "both"
    evaluations: tuple[int, ...] = (8, 16, 32, 64, 128)  #: N, model evaluations for each feature
    rounds: int = 5  #: draws of every estimate
    rows: int = 100  #: test rows that are explained
    timings: int = 3  #: how often each method is timed, on the first network
    bounded_rows: int = 8  #: for the study of Theorem 2
    path: str | None = None  #: the user's copy of Criteo's file

    def __post_init__(self) -> None:
        """Check the numbers."""
        self._check_counts()
        self._check_evaluations()
        if self.protocol not in get_args(Choice):
            raise InputError(f"protocol: wanted paper, fair or both, got {self.protocol!r}")

    def _check_counts(self) -> None:
        for name in ("rounds", "rows", "timings", "bounded_rows"):
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
    """Return what `shear reproduce` measures on one of census, bank, german and criteo, or on all.

    `quick`: one network, fewer rows and rounds. Without a file at `path`, criteo stands for
    criteo-synthetic.
    """
    _check_dataset(what)
    _check_path(what, path)
    names = DATASETS if what == "all" else (what,)
    specs = [_quick_spec(name) if quick else _full_spec(name) for name in names]

    changes: dict[str, Any] = {"protocol": protocol}
    if rows is not None:
        changes["rows"] = rows
    if rounds is not None:
        changes["rounds"] = rounds
    return [_with_file(replace(spec, **changes), path) for spec in specs]


def _full_spec(name: str) -> Spec:
    return Spec(name, rows=_ROWS[name], bounded_rows=_BOUNDED_ROWS.get(name, 1))


def _quick_spec(name: str) -> Spec:
    return Spec(name, model_seeds=(0,), rounds=2, rows=_QUICK_ROWS[name], bounded_rows=2)


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
