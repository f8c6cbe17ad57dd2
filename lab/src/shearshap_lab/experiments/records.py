"""The columns of each study's records.

In all of them `recipe` is how the network was trained and what it is explained against (`RECIPES`),
`seed` the network's, `n` model evaluations a feature, and `row` the row's place in the data set.

models
    One record a network. `encoding`, `split`, `stopping` and `background` are words; `epochs` were
    run. `size` is mean |phi|_1 over the rows. `truth_error` is the expected |.|_1 of a row's errors
    of the truth itself; 0 if it is exact.
estimates
    One record for each row, round, method and n; the truth itself is the method "truth", n = 0.
timings
    `seconds` for all `rows` of one call (way "batch"), or for `rows` calls of one row each, N
    evaluations at a time (way "one by one"). All methods are timed once in each round.
cooperators
    |phi_i(U) - phi_i(S + i)| = `error` of a player i of `value` phi_i(U), with sum_S eta_ij =
    `cross_contribution`. Draw 0 has one random player of each row and every size of S, with S
    random or by "shear" (largest eta_ij); draws 1, 2, ... have every player whose value is not
    zero, random S, and n = 16 only.
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
from pathlib import Path

import pyarrow as pa

from shearshap_lab.runner import read_records

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
        text="selection", whole="row player n draw", number="cross_contribution error value"
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


def joined(study: str, parts: list[pa.Table]) -> pa.Table:
    """Return the records of all parts of a study; no parts make an empty table."""
    return pa.concat_tables([STUDIES[study].empty_table(), *parts]).combine_chunks()


def read(folder: Path | str) -> dict[str, pa.Table]:
    """Return the records of every study in a folder that `run` has finished, by study."""
    tables, _ = read_records(Path(folder))
    return tables
