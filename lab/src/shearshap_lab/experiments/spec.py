"""What to measure: a frozen specification, the methods of each reading of the paper, and the
columns of the records.

In all of them `recipe` is how the network was trained and what it is explained against (`RECIPES`),
`seed` the network's, `n` model evaluations a feature, and `row` the row's place in the data set.

models
    One record a network. `encoding`, `split`, `stopping` and `background` are words; `epochs` were
    run. `size` is mean |phi|_1 over the rows. `truth_error` is the expected |.|_1 of a row's errors
    of the truth itself; 0 if it is exact.
estimates
    One record for each row, method and n, of means over rounds; the truth itself is the method
    "truth", n = 0.
rounds
    One record for each round, method and n, of means over rows.
timings
    `seconds` for all `rows` of one call (way "batch"), or for `rows` calls of one row each, N
    evaluations at a time (way "one by one"). All methods are timed once in each round.
cooperators
    |phi_i(U) - phi_i(S + i)| = `error` of a player i, with sum_S eta_ij = `cross_contribution`.
    Draw 0 has one random player of each row and every size of S, with S random or by "shear"
    (largest eta_ij); draws 1, 2, ... have every player whose value is not zero, random S, and
    n = 16 only.
pairs
    Theorems 1 and 2, for each pair: `loss` = phi_i(U) - phi_i(U - j), with its sign; `chain` =
    Delta_ij by second derivatives at the corners, as printed; the bound on |loss| by second
    derivatives as `printed`, and the `sure` one by second differences.
selection_bound
    Remark 2, for each player: `error` = |phi_i(U) - phi_i(S + i)| and its bound, the sum of Theorem
    2's over all j outside S, as printed (`bound`) and `sure`. S is by `selection`: "shear"
    (largest eta_ij), "bound" (largest epsilon_ij: it minimises `bound`), or "random" (some draws).
illustration
    One row, feature by feature.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.methods import METHODS, Shear
from shearshap.methods.base import Method
from shearshap_lab.baselines import BASELINES
from shearshap_lab.data import criteo, uci
from shearshap_lab.runner import column, read_records

Reading = Literal["authors", "paper", "paper-coin", "fair"]

_BASELINES = "kernel{0} kernel-welford kernel-paired{0} permutation{1} permutation-antithetic{1}"

READINGS: dict[Reading, tuple[str, ...]] = {
    "authors": ("shear", "shear-authors", *_BASELINES.format("-authors", "-authors").split()),
    "paper": ("shear", *_BASELINES.format("-paper", "-paper").split()),
    "paper-coin": ("shear", *_BASELINES.format("-paper", "-coin-paper").split()),
    "fair": ("shear", "shear-unbiased", *_BASELINES.format("", "").split(), "leverage", "kriging"),
}
"""The methods of each reading of the paper's comparison.

- authors: the baselines as the authors' released numbers were made
- paper: the baselines as the paper's appendix describes them; the random coalitions of PS and APS
  are prefixes of random permutations
- paper-coin: the same, but a player is in a random coalition of PS and APS by a fair coin
- fair: the same number of evaluations for every method, each at its best
"""

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

SCORES = ("ranking_accuracy", "faithfulness", "monotonicity")  #: metrics of which 1 is the best

ABLATION_N = 16  #: evaluations a feature at which the paper ablates, selects and illustrates

CANDIDATES: dict[str, Method] = {
    **METHODS,
    **BASELINES,
    **ABLATIONS,
    "shear-authors": Shear(interaction="block-maximum"),
}
"""Every method that is measured, by name."""

#: test rows, those of a quick run, and those of which the theorems are studied
_ROWS = {"census": (100, 40, 8), "bank": (40, 20, 4), "criteo": (12, 6, 1)}


def baselines(reading: Reading) -> tuple[str, ...]:
    """Return the paper's five baselines as a reading runs them."""
    others = ("shear", "leverage", "kriging")
    return tuple(name for name in READINGS[reading] if not name.startswith(others))


@dataclass(frozen=True)
class Spec:
    """What is measured on one data set."""

    dataset: str  #: as `shearshap_lab.data.load` knows it
    model_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  #: one network each
    recipes: tuple[str, ...] = ("authors", "ours")  #: names of `networks.RECIPES`
    evaluations: tuple[int, ...] = (8, 16, 32, 64, 128)  #: N, model evaluations for each feature
    rounds: int = 5  #: draws of every estimate
    rows: int = 100  #: test rows that are explained
    timings: int = 8  #: how often each method is timed, on the first network
    timed_rows: int = 50  #: of one timing, at most
    rows_one_by_one: int = 3  #: likewise, when rows are explained one after the other
    bounded_rows: int = 1  #: for the studies of Theorems 1 and 2 and Remark 2
    path: str | None = None  #: the user's copy of Criteo's file

    def __post_init__(self) -> None:
        """Check the numbers."""
        source = uci.SOURCES.get(self.dataset)
        most = criteo.ROWS // 10 if source is None else source.test
        if not 1 <= self.rows <= most:
            raise InputError(
                f"rows: expected 1 to {most}, the test rows of {self.dataset}, got {self.rows}"
            )
        if ABLATION_N not in self.evaluations or min(self.evaluations) < 4:
            raise InputError(
                f"evaluations: expected {ABLATION_N} among them, at which SHEAR's parts are "
                f"compared, and none below 4; got {self.evaluations}"
            )

    @property
    def players(self) -> int:
        """The number of features."""
        source = uci.SOURCES.get(self.dataset)
        return criteo.FEATURES if source is None else source.features

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of all readings, each once."""
        return self._methods_of(*READINGS)

    @property
    def timed_methods(self) -> tuple[str, ...]:
        """The methods that are timed: those that people run, not those of the appendix alone."""
        return self._methods_of("authors", "fair")

    def _methods_of(self, *readings: Reading) -> tuple[str, ...]:
        names = dict.fromkeys(name for reading in readings for name in READINGS[reading])
        if self.dataset == "criteo":
            # derivatives by single columns of an index mean nothing: those of an embedding are for
            # the whole feature
            names.pop("shear-authors")
        return tuple(names)

    def rounds_of(self, method: str) -> int:
        """Return how many draws of a method's estimates there are: kriging, which is slow, fewer"""
        return max(1, self.rounds // 2) if method == "kriging" else self.rounds


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
    if what not in (*_ROWS, "all"):
        raise InputError(
            f"there are no experiments on {what!r}; there are: {', '.join(_ROWS)}, all"
        )
    if path is not None and what not in ("criteo", "all"):
        raise InputError(f"path: only criteo reads your own file, got {str(path)!r} for {what}")
    if what == "criteo" or path is not None:
        criteo.check_file(path)
    specs = []
    for name in [name for name in _ROWS if path or name != "criteo"] if what == "all" else [what]:
        many, few, bounded = _ROWS[name]
        spec = Spec(name, rows=rows or many, rounds=rounds or 5, bounded_rows=bounded)
        if quick:
            spec = replace(
                spec,
                model_seeds=(0,),
                rounds=rounds or 2,
                rows=rows or few,
                timings=3,
                timed_rows=20,
                rows_one_by_one=1,
                bounded_rows=1,
            )
        if name == "criteo":
            spec = replace(spec, path=str(path), recipes=("ours",))
        specs.append(spec)
    return specs


# Records

Records = Mapping[str, pa.Table]  #: a table for each study, by its name


def _schema(*, text: str = "", whole: str = "", number: str = "") -> pa.Schema:
    """Return the columns of a study by their types; all have the network's."""
    types = {pa.string(): f"dataset recipe {text}", pa.int64(): f"seed {whole}"}
    types[pa.float64()] = number
    return pa.schema([(name, kind) for kind, names in types.items() for name in names.split()])


STUDIES: dict[str, pa.Schema] = {
    "models": _schema(
        text="title network activation encoding split stopping background truth",
        whole="hidden batch_size continuous categorical inputs train validation test epochs rows "
        "truth_evaluations",
        number="learning_rate accuracy majority truth_error size",
    ),
    "estimates": _schema(
        text="method",
        whole="n round row evaluations derivative_passes",
        number="absolute_error ranking_accuracy faithfulness monotonicity",
    ),
    "timings": _schema(text="way method machine", whole="n round rows", number="seconds"),
    "cooperators": _schema(
        text="selection", whole="row player n draw", number="cross_contribution error"
    ),
    "pairs": _schema(whole="row player other", number="loss chain printed sure"),
    "selection_bound": _schema(
        text="selection", whole="row player n draw", number="bound sure error"
    ),
    "illustration": _schema(
        text="feature value",
        whole="row evaluations",
        number="exact shear base_value prediction",
    ),
}
"""The columns of the records, by study."""

METRICS = ("absolute_error", *SCORES)

DIGITS = {
    "estimates": 4,
    "rounds": 4,
    "cooperators": 3,
    "pairs": 4,
    "selection_bound": 3,
    "timings": 4,
}
"""The significant digits of numbers that are kept, for studies of many records. Means of hundreds
of them are known far better, and a whole run fits into 2 MB."""


def joined(study: str, parts: list[pa.Table]) -> pa.Table:
    """Return the records of all parts of a study; no parts make an empty table."""
    return pa.concat_tables([STUDIES[study].empty_table(), *parts]).combine_chunks()


def tidy(measured: Mapping[str, pa.Table]) -> Records:
    """Return the records of all studies as they are kept.

    Of estimates, means over rounds and means over rows: that is all that pages need. A row's
    estimate of every round is left in the parts of a run.
    """
    estimates = measured["estimates"]
    means = {"estimates": _means(estimates, over="round"), "rounds": _means(estimates, over="row")}
    return {study: _kept(study, table) for study, table in {**measured, **means}.items()}


def _means(estimates: pa.Table, *, over: str) -> pa.Table:
    """Return the means of estimates over rounds or rows."""
    frame = estimates.to_pandas().drop(columns=over)
    names = [name for name in frame.columns if name not in METRICS]
    means = frame.groupby(names, sort=False, as_index=False).mean()
    return pa.Table.from_pandas(means, preserve_index=False)


def _kept(study: str, records: pa.Table) -> pa.Table:
    """Return records with numbers to the digits that are kept; scores as if they were near 1."""
    digits = DIGITS.get(study)
    if digits is None:
        return records
    columns = [
        _rounded(column(records, field.name), digits, score=field.name in SCORES)
        if pa.types.is_floating(field.type)
        else records[field.name]
        for field in records.schema
    ]
    return pa.table(columns, schema=records.schema)


def _rounded(numbers: NDArray[np.float64], digits: int, *, score: bool) -> NDArray[np.float64]:
    if score:
        return np.round(numbers, digits)
    exponents = np.floor(np.log10(np.maximum(np.abs(numbers), np.finfo(float).tiny)))
    unit = 10.0 ** (exponents - digits + 1)
    return np.asarray(np.round(numbers / unit) * unit)


def read(folder: Path | str) -> dict[str, pa.Table]:
    """Return the records of every study in a folder that `run` has finished, by study."""
    tables, _ = read_records(Path(folder))
    return tables
