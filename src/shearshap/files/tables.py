"""Tables in files: CSV and Parquet in, the rows as a model takes them, and explanations out."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.explanation import Explanation, Floats
from shearshap.storage import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

READ, WRITTEN = (".csv", ".parquet", ".pq"), (".parquet", ".pq", ".csv")
METADATA = b"shearshap"  #: the key of the facts, as JSON, in a Parquet file's metadata
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What stands in a CSV file for a missing value: the same words as in pandas, by which most models' data were read."""


def need_arrow() -> None:
    """Raise where pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise InputError("shear explain needs pyarrow to read and write tables: pip install 'shearshap[explain]'")


def read(path: Path, what: str, *, text: Collection[str] = ()) -> "pa.Table":
    """Read a table from a CSV or Parquet file; `text` are the columns that hold text, whatever it looks like."""
    if path.suffix.lower() not in READ:
        raise InputError(f"{what}: wanted a file that ends in {', '.join(READ)}, got {path}")
    if not path.is_file():
        raise InputError(f"{what}: there is no file {path}")
    import pyarrow as pa

    try:
        table = _read_csv(path, text) if path.suffix.lower() == ".csv" else _read_parquet(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{what}: {path} cannot be read: {error}") from error
    return _checked(table, path, what)


def _read_parquet(path: Path) -> "pa.Table":
    """Read a Parquet file, without the nameless index that pandas may have left in it."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).replace_schema_metadata(None)
    return table.drop_columns([name for name in table.column_names if name.startswith("__index_level_")])


def _read_csv(path: Path, text: Collection[str]) -> "pa.Table":
    """Read a CSV file: whole and other numbers, True and False, and text; a date is text, as it stands there."""
    import pyarrow as pa
    from pyarrow import csv

    def table(words: Collection[str]) -> "pa.Table":
        convert = csv.ConvertOptions(
            null_values=list(MISSING), strings_can_be_null=True, column_types=dict.fromkeys(words, pa.string())
        )
        return csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=convert)

    found = table(text)
    dates = [field.name for field in found.schema if pa.types.is_temporal(field.type)]
    return table({*text, *dates}) if dates else found


def _checked(table: "pa.Table", path: Path, what: str) -> "pa.Table":
    names = table.column_names
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"{what}: column {doubled!r} stands twice in {path}")
    if not names or not len(table):
        raise InputError(f"{what}: there are no rows in {path}")
    return table


def chosen(table: "pa.Table", columns: Sequence[str], path: Path) -> "pa.Table":
    """Return the columns named, in that order, or raise with the first that is missing."""
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        more = f" ({len(missing)} of {len(columns)} are: {', '.join(missing[:8])})" if len(missing) > 1 else ""
        raise InputError(
            f"column {missing[0]!r} is missing from {path}{more}; the model takes {', '.join(columns[:12])}"
            f"{', ...' if len(columns) > 12 else ''}"
        )
    return table.select(list(columns))


def check_full(table: "pa.Table", path: Path) -> None:
    """Raise where a value is missing, and say where."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(
                f"column {name!r} of {path} is missing in row {row} ({column.null_count} of {len(table)} rows), and "
                "this model takes no missing values; fill them in or drop the rows"
            )


def frames(tables: Sequence["pa.Table"], *, categories: bool) -> list[Any]:
    """Return tables as frames for a model: of pandas where it is installed, else of pyarrow.

    With `categories` text becomes categories, the same ones in all the tables.
    """
    if find_spec("pandas") is None:
        return list(tables)
    made = [table.to_pandas() for table in tables]
    if not categories:
        return made
    import pandas as pd

    for name in made[0].columns:
        if any(pd.api.types.is_string_dtype(frame[name]) for frame in made):
            kinds = sorted({value for frame in made for value in frame[name].dropna()})
            for frame in made:
                frame[name] = pd.Categorical(frame[name], categories=kinds)
    return made


def cells(table: "pa.Table") -> dict[str, NDArray[np.str_]]:
    """Return the columns as text without blanks around it, "" for what is missing."""
    import pyarrow as pa

    told = {name: table[name].cast(pa.string()).to_pylist() for name in table.column_names}
    return {name: np.array([(cell or "").strip() for cell in column], dtype=np.str_) for name, column in told.items()}


# Explanations


def check_out(path: Path, data: Path) -> None:
    """Raise where an explanation cannot be written to a path, before any work is done."""
    if path.suffix.lower() not in WRITTEN:
        raise InputError(f"out: wanted a file that ends in {', '.join(WRITTEN)}, got {path}")
    if not path.parent.is_dir():
        raise InputError(f"out: there is no folder {path.parent}")
    if path.is_dir():
        raise InputError(f"out: {path} is a folder; wanted the name of a file")
    if path.exists() and path.samefile(data):
        raise InputError(f"out: {path} is the data explained, and would be overwritten; choose another name")


def write(explanation: Explanation, data: "pa.Table", facts: Mapping[str, Any], path: Path) -> None:
    """Write an explanation, one line for each row, whole or not at all.

    Columns: row, base_value, prediction, gap, evaluations, converged (with `tol`), value.<player> and
    standard_error.<player> (missing where the method has none), and data.<column> of all columns explained. Of several
    outputs each has its own base_value.<output>, value.<player>.<output> and so on. The facts are in the metadata of a
    Parquet file; CSV has no place for them.
    """
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    columns = _columns(explanation) | {f"data.{name}": data[name] for name in data.column_names}
    table = pa.table(columns).replace_schema_metadata({METADATA: json.dumps(facts).encode()})
    store: Callable[..., Any] = csv.write_csv if path.suffix.lower() == ".csv" else pq.write_table
    try:
        with written_whole(path) as partial:
            store(table, partial)
    except pa.ArrowException as error:
        raise InputError(f"out: {path} cannot hold all columns: {error}; try .parquet") from error


def _columns(explanation: Explanation) -> dict[str, Any]:
    rows = np.arange(len(explanation))
    spent = explanation.row_evaluations
    totals = {"base_value": explanation.base_values, "prediction": explanation.predictions, "gap": explanation.gap}
    columns: dict[str, Any] = {"row": rows}
    for what, part in totals.items():
        by_output = part.reshape(len(rows), -1)
        columns |= {what + ending: by_output[:, at] for at, ending in enumerate(_endings(explanation))}
    columns["evaluations"] = np.full(len(rows), explanation.evaluations) if spent is None else spent
    if explanation.converged is not None:
        columns["converged"] = explanation.converged
    return columns | _by_player("value", explanation.values, explanation) | _errors(explanation)


def _errors(explanation: Explanation) -> dict[str, Any]:
    import pyarrow as pa

    known = explanation.standard_errors
    filled = np.full(explanation.values.shape, np.nan) if known is None else known
    by_player = _by_player("standard_error", filled, explanation)
    return {name: pa.array(column, from_pandas=True) for name, column in by_player.items()}  # NaN is missing


def _by_player(what: str, part: Floats, explanation: Explanation) -> dict[str, Floats]:
    """Return a column for each output and player of values (r, p) or (r, p, k)."""
    by_output = part.reshape(*part.shape[:2], -1)
    return {
        f"{what}.{name}{ending}": by_output[:, player, at]
        for at, ending in enumerate(_endings(explanation))
        for player, name in enumerate(explanation.feature_names)
    }


def _endings(explanation: Explanation) -> list[str]:
    """Return what the columns of each output end in; one output needs no ending.

    Outputs go by number where their names would make two columns the same.
    """
    if explanation.values.ndim == 2:
        return [""]
    names, players = explanation.output_names, explanation.feature_names
    clear = len({f"{player}.{name}" for player in players for name in names}) == len(players) * len(names)
    return [f".{name if clear else number}" for number, name in enumerate(names)]
