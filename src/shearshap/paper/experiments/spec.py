"""What to measure: a frozen specification, and the methods of each protocol."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from shearshap.errors import InputError
from shearshap.methods import METHODS, Shear
from shearshap.methods.base import Method
from shearshap.paper.baselines import BASELINES
from shearshap.paper.data import criteo, uci

Protocol = Literal["paper", "authors", "fair"]
Choice = Literal["paper", "fair", "both"]

PROTOCOLS: dict[Protocol, tuple[str, ...]] = {
    "paper": (
        "shear", "kernel-paper", "kernel-welford", "kernel-paired-paper", "permutation-paper",
        "permutation-antithetic-paper",
    ),
    "authors": (
        "shear", "shear-authors", "kernel-authors", "kernel-welford", "kernel-paired-authors", "permutation-authors",
        "permutation-antithetic-authors",
    ),
    "fair": (
        "shear", "shear-unbiased", "kernel", "kernel-welford", "kernel-paired", "permutation",
        "permutation-antithetic", "leverage", "kriging",
    ),
}  # fmt: skip
"""The methods of each protocol.

- paper: the baselines as the paper's appendix describes them
- authors: the baselines as the authors' released numbers say that they were run
- fair: the same evaluations in all for every method, each at its best; `exact` is what they are
  measured against
"""

NEWER = ("shear-unbiased", "leverage", "kriging")  #: that the paper does not compare with


def baselines(protocol: Protocol) -> tuple[str, ...]:
    """Return the paper's five baselines as a protocol runs them."""
    return tuple(
        name for name in PROTOCOLS[protocol] if not name.startswith("shear") and name not in NEWER
    )


ABLATIONS: dict[str, Method] = {
    "shear-without-as": Shear(antithetical=False),
    "shear-without-ccs": Shear(selection="random"),
    "shear-without-either": Shear(antithetical=False, selection="random"),
}
"""SHEAR without antithetical sampling (AS), without contributive cooperator selection (CCS),
without either.
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
    model_seeds: tuple[int, ...] = (
        0,
        1,
        2,
    )  #: of the split, the training and the rows: one network each
    protocol: Choice = "both"
    evaluations: tuple[int, ...] = (8, 16, 32, 64, 128)  #: N, model evaluations for each feature
    rounds: int = 5  #: draws of every estimate
    rows: int = 100  #: test rows that are explained
    timings: int = 3  #: how often each method is timed, on the first network
    bounded_rows: int = 8  #: for the study of Theorem 2
    path: str | None = None  #: the user's copy of Criteo's file

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("rounds", "rows", "timings", "bounded_rows"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: wanted a positive number, got {getattr(self, name)}")
        if self.rows > _test_rows(self.dataset):
            raise InputError(
                f"rows: {self.dataset} has {_test_rows(self.dataset)} test rows, got {self.rows}"
            )
        if not self.model_seeds or not self.evaluations:
            raise InputError(
                "a specification needs at least one model seed and one number of evaluations a "
                "feature"
            )
        if self.protocol not in get_args(Choice):
            raise InputError(f"protocol: wanted paper, fair or both, got {self.protocol!r}")
        if min(self.evaluations) < 4:
            raise InputError(
                f"evaluations: SHEAR needs at least 4 for each feature, got {min(self.evaluations)}"
            )
        if ABLATED not in self.evaluations:
            raise InputError(
                f"evaluations: ablations are held against SHEAR at {ABLATED}, got "
                f"{self.evaluations}"
            )

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """The protocols that are run; the paper's in both readings, the appendix's and the authors'
        own runs.
        """
        runs: dict[Choice, tuple[Protocol, ...]] = {
            "paper": ("paper", "authors"),
            "fair": ("fair",),
        }
        return runs.get(self.protocol, tuple(PROTOCOLS))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of these protocols, each once."""
        every = dict.fromkeys(
            method for protocol in self.protocols for method in PROTOCOLS[protocol]
        )
        # derivatives by single columns of an index mean nothing: those of an embedding are for the
        # whole feature
        return tuple(
            name
            for name in every
            if not (name == "shear-authors" and self.dataset.startswith("criteo"))
        )


def _test_rows(dataset: str) -> int:
    return uci.SOURCES[dataset].test if dataset in uci.SOURCES else criteo.ROWS // 10


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
    if what not in (*DATASETS, "all"):
        raise InputError(
            f"there is nothing to reproduce on {what!r}; there are: {', '.join(DATASETS)}, all"
        )
    if path is not None and what not in ("criteo", "all"):
        raise InputError(
            f"path: only criteo reads a file of yours, {what} needs none; got {str(path)!r}"
        )
    if path is not None and not Path(path).is_file():
        raise InputError(f"path: there is no file {str(path)!r}")
    usual = _QUICK_ROWS if quick else _ROWS
    return [
        Spec(
            dataset="criteo-synthetic" if name == "criteo" and path is None else name,
            model_seeds=(0,) if quick else (0, 1, 2),
            protocol=cast("Choice", protocol),
            rounds=(2 if quick else 5) if rounds is None else rounds,
            rows=usual[name] if rows is None else rows,
            bounded_rows=2 if quick else _BOUNDED_ROWS.get(name, 1),
            path=str(path) if path is not None and name == "criteo" else None,
        )
        for name in (DATASETS if what == "all" else (what,))
    ]
