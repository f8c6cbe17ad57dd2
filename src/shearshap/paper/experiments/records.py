"""Tidy records on disk: Parquet, one file for each finished task, joined into one table for each
study.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shearshap.engine.store import written_whole

COMMAND = "command.txt"  #: the file beside the records that says what they were made by
Records = Mapping[str, pa.Table]  #: a table for each study, by its name

STUDIES: dict[str, pa.Schema] = {
    "models": pa.schema(
        {
            "dataset": pa.string(), "title": pa.string(), "seed": pa.int64(), "network": pa.string(),
            "activation": pa.string(), "hidden": pa.int64(), "learning_rate": pa.float64(), "batch_size": pa.int64(),
            "reference": pa.string(), "continuous": pa.int64(), "categorical": pa.int64(), "inputs": pa.int64(),
            "train": pa.int64(), "validation": pa.int64(), "test": pa.int64(), "epochs": pa.int64(),
            "accuracy": pa.float64(), "majority": pa.float64(), "rows": pa.int64(), "truth": pa.string(),
            "truth_evaluations": pa.int64(), "size": pa.float64(), "key": pa.string(), "versions": pa.string(),
        }
    ),
    "estimates": pa.schema(
        {
            "dataset": pa.string(), "seed": pa.int64(), "method": pa.string(), "n": pa.int64(), "round": pa.int64(),
            "row": pa.int64(), "absolute_error": pa.float64(), "ranking_accuracy": pa.float64(),
            "faithfulness": pa.float64(), "monotonicity": pa.float64(), "evaluations": pa.int64(),
            "derivative_passes": pa.int64(),
        }
    ),
    "timings": pa.schema(
        {
            "dataset": pa.string(), "seed": pa.int64(), "method": pa.string(), "n": pa.int64(), "round": pa.int64(),
            "rows": pa.int64(), "seconds": pa.float64(), "machine": pa.string(),
        }
    ),
    "cooperators": pa.schema(
        {
            "dataset": pa.string(), "seed": pa.int64(), "row": pa.int64(), "player": pa.int64(), "n": pa.int64(),
            "selection": pa.string(), "draw": pa.int64(), "cross_contribution": pa.float64(), "error": pa.float64(),
            "share": pa.float64(),
        }
    ),
    "bounds": pa.schema(
        {
            "dataset": pa.string(), "seed": pa.int64(), "row": pa.int64(), "player": pa.int64(), "other": pa.int64(),
            "loss": pa.float64(), "printed": pa.float64(), "sure": pa.float64(),
        }
    ),
    "illustration": pa.schema(
        {
            "dataset": pa.string(), "seed": pa.int64(), "row": pa.int64(), "feature": pa.string(),
            "value": pa.string(), "exact": pa.float64(), "shear": pa.float64(), "base_value": pa.float64(),
            "prediction": pa.float64(), "evaluations": pa.int64(),
        }
    ),
}  # fmt: skip
"""The columns of each study's records; `n` is model evaluations a feature, `row` the row's place in
the data set.
"""


def table(study: str, columns: Mapping[str, Any]) -> pa.Table:
    """Return records of a study from columns, each an array or one value for all."""
    lengths = [len(column) for column in columns.values() if isinstance(column, np.ndarray | list)]
    count = lengths[0] if lengths else 1
    full = {
        name: column if isinstance(column, np.ndarray | list) else [column] * count
        for name, column in columns.items()
    }
    return pa.table({name: full[name] for name in STUDIES[study].names}, schema=STUDIES[study])


def kept(path: Path, study: str, compute: Callable[[], pa.Table]) -> pa.Table:
    """Return the records at a path; those that are not there, or are damaged, are computed and
    kept.
    """
    try:
        found = pq.read_table(path)
    except (OSError, pa.ArrowException):
        found = None
    if found is None or found.schema != STUDIES[study]:
        found = compute()
        write(found, path)
    return found


def write(records: pa.Table, path: Path) -> None:
    """Write records whole or not at all."""
    with written_whole(path) as partial:
        pq.write_table(records, partial)


def read(folder: Path | str) -> dict[str, pa.Table]:
    """Return the records of every study in a folder that `run` has finished."""
    return {study: pq.read_table(Path(folder) / f"{study}.parquet") for study in STUDIES}


def joined(study: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return the records of all parts of a study; none make an empty table."""
    return pa.concat_tables([STUDIES[study].empty_table(), *parts]).combine_chunks()


def column(records: pa.Table, name: str) -> NDArray[Any]:
    """Return a column as an array."""
    return np.asarray(records[name].to_numpy())


def where(records: pa.Table, **equal: Any) -> pa.Table:
    """Return the records whose columns equal these values."""
    for name, wanted in equal.items():
        records = records.filter(pc.equal(records[name], wanted))
    return records
