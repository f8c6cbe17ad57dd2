"""Tidy records on disk: Parquet, one file for each finished task, joined into one table for each
study.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.store import Store, written_whole

PROVENANCE = "provenance.json"  #: the file beside the records that says where they come from
Records = Mapping[str, pa.Table]  #: a table for each study, by its name

_TEXT = pa.string()
_WHOLE = pa.int64()
_NUMBER = pa.float64()

_NETWORK = {"dataset": _TEXT, "recipe": _TEXT, "seed": _WHOLE}  #: what the records are of

STUDIES: dict[str, pa.Schema] = {
    "models": pa.schema(
        {
            "dataset": _TEXT,
            "recipe": _TEXT,
            "title": _TEXT,
            "seed": _WHOLE,
            "network": _TEXT,
            "activation": _TEXT,
            "hidden": _WHOLE,
            "learning_rate": _NUMBER,
            "batch_size": _WHOLE,
            "encoding": _TEXT,
            "split": _TEXT,
            "stopping": _TEXT,
            "background": _TEXT,
            "continuous": _WHOLE,
            "categorical": _WHOLE,
            "inputs": _WHOLE,
            "train": _WHOLE,
            "validation": _WHOLE,
            "test": _WHOLE,
            "epochs": _WHOLE,
            "accuracy": _NUMBER,
            "majority": _NUMBER,
            "rows": _WHOLE,
            "truth": _TEXT,
            "truth_evaluations": _WHOLE,
            "truth_error": _NUMBER,
            "truth_absolute_error": _NUMBER,
            "size": _NUMBER,
            "key": _TEXT,
            "versions": _TEXT,
        }
    ),
    "estimates": pa.schema(
        {
            **_NETWORK,
            "method": _TEXT,
            "n": _WHOLE,
            "round": _WHOLE,
            "row": _WHOLE,
            "absolute_error": _NUMBER,
            "ranking_accuracy": _NUMBER,
            "faithfulness": _NUMBER,
            "monotonicity": _NUMBER,
            "evaluations": _WHOLE,
            "derivative_passes": _WHOLE,
        }
    ),
    "timings": pa.schema(
        {
            **_NETWORK,
            "way": _TEXT,
            "method": _TEXT,
            "n": _WHOLE,
            "round": _WHOLE,
            "rows": _WHOLE,
            "seconds": _NUMBER,
            "machine": _TEXT,
        }
    ),
    "cooperators": pa.schema(
        {
            **_NETWORK,
            "row": _WHOLE,
            "player": _WHOLE,
            "n": _WHOLE,
            "selection": _TEXT,
            "draw": _WHOLE,
            "cross_contribution": _NUMBER,
            "error": _NUMBER,
            "value": _NUMBER,
        }
    ),
    "bounds": pa.schema(
        {
            **_NETWORK,
            "row": _WHOLE,
            "player": _WHOLE,
            "other": _WHOLE,
            "loss": _NUMBER,
            "printed": _NUMBER,
            "sure": _NUMBER,
        }
    ),
    "chain": pa.schema(
        {
            **_NETWORK,
            "row": _WHOLE,
            "player": _WHOLE,
            "other": _WHOLE,
            "loss": _NUMBER,
            "chain": _NUMBER,
            "remainder": _NUMBER,
        }
    ),
    "selection_bound": pa.schema(
        {
            **_NETWORK,
            "row": _WHOLE,
            "player": _WHOLE,
            "n": _WHOLE,
            "selection": _TEXT,
            "draw": _WHOLE,
            "bound": _NUMBER,
            "sure": _NUMBER,
            "error": _NUMBER,
        }
    ),
    "sensitivity": pa.schema(
        {
            "dataset": _TEXT,
            "encoding": _TEXT,
            "stopping": _TEXT,
            "background": _TEXT,
            "activation": _TEXT,
            "seed": _WHOLE,
            "method": _TEXT,
            "n": _WHOLE,
            "error": _NUMBER,
            "size": _NUMBER,
            "accuracy": _NUMBER,
            "epochs": _WHOLE,
        }
    ),
    "illustration": pa.schema(
        {
            **_NETWORK,
            "row": _WHOLE,
            "feature": _TEXT,
            "value": _TEXT,
            "exact": _NUMBER,
            "shear": _NUMBER,
            "base_value": _NUMBER,
            "prediction": _NUMBER,
            "evaluations": _WHOLE,
        }
    ),
}
"""The columns of each study's records.

In all of them `recipe` is how the network was trained and what it is explained against (`RECIPES`),
`seed` the network's, `n` model evaluations a feature, and `row` the row's place in the data set.

models
    One record a network. `encoding`, `split`, `stopping` and `background` are words; `epochs` were
    run. `size` is mean |phi|_1 over the rows. `truth_error` is the expected error of the truth over
    mean |phi_i|, and `truth_absolute_error` its |.|_1 over a row's features; 0 where it is exact.
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
bounds
    Theorem 2, for each pair: `loss` = |phi_i(U) - phi_i(U - j)|, its bound by second derivatives as
    `printed`, and the `sure` one by second differences.
chain
    Theorem 1, for each pair: `loss` = phi_i(U) - phi_i(U - j), with its sign; `chain` = Delta_ij by
    second derivatives at the corners, as printed; `remainder` = loss - chain, the paper's o_ij.
selection_bound
    Remark 2, for each player: `error` = |phi_i(U) - phi_i(S + i)| and its bound, the sum of Theorem
    2's over all j outside S, as printed (`bound`) and `sure`. S is by `selection`: "shear"
    (largest eta_ij), "bound" (largest epsilon_ij: it minimises `bound`), or "random" (some draws).
sensitivity
    One record for each network, method and n: `error` is the mean absolute error over the rows and
    rounds, `size` mean |phi|_1. The networks differ from the recipe "authors" in what the first
    columns say; raw 0/1 blocks have no quirk, so their background is the mean.
illustration
    One row, feature by feature.
"""


def table(study: str, columns: Mapping[str, Any]) -> pa.Table:
    """Return records of a study from columns, each an array or one value for all."""
    arrays = [column for column in columns.values() if _is_array(column)]
    count = len(arrays[0]) if arrays else 1
    full = {
        name: column if _is_array(column) else [column] * count for name, column in columns.items()
    }
    return pa.table({name: full[name] for name in STUDIES[study].names}, schema=STUDIES[study])


def _is_array(column: Any) -> bool:
    return isinstance(column, np.ndarray | list)


def part(store: Store, study: str, name: str, compute: Callable[[], pa.Table]) -> pa.Table:
    """Return a finished task's records of a study, from the store where they are there."""
    return store.piece(name, compute, read=partial(_read_part, study), write=pq.write_table)


def _read_part(study: str, path: Path) -> pa.Table:
    try:
        records = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if records.schema != STUDIES[study]:
        raise InputError(f"{path} has other columns than records of {study}")
    return records


def write(records: pa.Table, path: Path) -> None:
    """Write records whole or not at all."""
    with written_whole(path) as partial_path:
        pq.write_table(records, partial_path)


def read(folder: Path | str) -> dict[str, pa.Table]:
    """Return the records of every study in a folder that `run` has finished."""
    return {study: pq.read_table(Path(folder) / f"{study}.parquet") for study in STUDIES}


def provenance(folder: Path | str) -> dict[str, Any]:
    """Return where the records in a folder come from.

    commit
        Of the code, "-dirty" where it was changed since, or "unknown".
    code
        A hash of all the code that the records depend on.
    versions, machine, threads
        With what and on what they were made.
    seconds
        The wall time of the run, with what it took before it was stopped, if it was.
    command
        The command that made them.
    """
    path = Path(folder) / PROVENANCE
    try:
        facts: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}; run the command again") from error
    return facts


def joined(study: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return the records of all parts of a study; no parts make an empty table."""
    return pa.concat_tables([STUDIES[study].empty_table(), *parts]).combine_chunks()


def column(records: pa.Table, name: str) -> NDArray[Any]:
    """Return a column as an array."""
    return np.asarray(records[name].to_numpy())


def where(records: pa.Table, **equal: Any) -> pa.Table:
    """Return the records whose columns equal these values."""
    for name, value in equal.items():
        records = records.filter(pc.equal(records[name], value))
    return records
