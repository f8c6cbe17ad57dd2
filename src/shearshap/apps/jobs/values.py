"""The file of values: what it keeps for a report, and the report that is made of it later."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.parquet import ParquetFile

from shearshap import __version__
from shearshap.apps.jobs.columns import InputColumns
from shearshap.apps.jobs.manifest import MANIFEST
from shearshap.apps.jobs.places import is_file, opened, reason, written_whole
from shearshap.apps.jobs.tables import METADATA, check_in, check_place, interactions_beside
from shearshap.apps.jobs.urls import Place, place
from shearshap.apps.report import Page, render
from shearshap.apps.report.explained import page
from shearshap.apps.report.result import Result
from shearshap.data.display import CellDisplay
from shearshap.data.frames import as_frame
from shearshap.errors import InputError
from shearshap.result.archive import (
    DAMAGES,
    check_format,
    check_types,
    decoded,
    encoded,
    fits,
    notes_on_unknown,
)
from shearshap.result.cells import label_array
from shearshap.result.explanation import Explanation
from shearshap.result.frames import pair_matrices, wide_arrays

KEPT = "explanation"  #: the entry of a file's facts that only a report needs
FORMAT = 1  #: of that entry
DATA = "data."  #: before the names of the rows' own columns


def kept(result: Result, columns: pa.Schema) -> dict[str, Any]:
    """Return what a report needs that is not in the columns of the file, for JSON.

    `columns` are those that the model was given.
    """
    explanation = result.explanation
    contents = {each.name: getattr(explanation, each.name) for each in fields(explanation)}
    arrays = [name for name, content in contents.items() if isinstance(content, np.ndarray)]
    others = contents.keys() - {*arrays, "calibration"}
    entry = {
        "format": FORMAT,
        "model": result.model,
        "notes": result.notes,
        "columns": b64encode(columns.serialize()).decode(),
        "arrays": arrays,
        "fields": {name: encoded(contents[name]) for name in sorted(others)},
    }
    return {KEPT: entry}


def write_report(
    values: str | Place,
    *,
    out: str | Place | None = None,
    title: str | None = None,
    overwrite: bool = False,
) -> Place:
    """Write the report of a file of values, and return its file; by default it is beside it."""
    values = place(values, "values")
    out = values.with_suffix(".html") if out is None else place(out, "out")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"out: expected a file that ends in .html, got {out}")
    result, facts = _read(values)
    check_place(out, "report", [("the file of values", values)], overwrite=overwrite)
    return write_html(page(result, facts | ({"title": title} if title else {})), out)


def write_html(page: Page, out: Place) -> Place:
    """Write a page as an HTML file, whole or not at all, and return its place."""
    html = render(page)
    with written_whole(out) as partial:
        partial.write_text(html, encoding="utf-8")
    return out


def _read(path: Place) -> tuple[Result, dict[str, Any]]:
    """Return what a file of values holds, and its facts."""
    if is_file(path / MANIFEST):
        raise InputError(
            f"values: {path} is the folder of a large job; run its command again with --report, "
            "which explains only a sample of the rows"
        )
    check_in(path, "values")
    if path.suffix.lower() == ".csv":
        raise InputError(
            f"values: a report needs metadata that only Parquet files have, got {path}; run "
            "shear explain with --out values.parquet, or with --report"
        )
    expected = "expected a file that it wrote"
    try:
        with opened(path) as source, ParquetFile(source) as file:
            table = file.read()
        facts = json.loads((table.schema.metadata or {})[METADATA])
        writer = facts.get("version")
        if writer not in (None, __version__):
            expected = f"make the report with version {writer}, which wrote it"
        check_format(f"values: {path}", facts[KEPT].get("format", FORMAT), FORMAT, writer)
        _check_facts(facts)
        return _result(path, table, facts, facts[KEPT]), facts
    except InputError:
        raise
    except (PermissionError, ConnectionError) as error:
        raise InputError(f"values: {path} cannot be read: {reason(error)}") from error
    except (pa.ArrowException, *DAMAGES) as error:
        raise InputError(
            f"values: {path} was not written by shear explain {__version__}; {expected}"
        ) from error


def _result(
    path: Place, table: pa.Table, facts: Mapping[str, Any], entry: dict[str, Any]
) -> Result:
    names = {each.name for each in fields(Explanation)}
    known = {name: decoded(each) for name, each in entry["fields"].items() if name in names}
    features, outputs = known["feature_names"], known["output_names"]
    arrays = wide_arrays(table, features, outputs)
    given = pa.ipc.read_schema(pa.py_buffer(b64decode(entry["columns"])))
    own = [name for name in table.column_names if name.startswith(DATA)]
    data = table.select(own).rename_columns([name.removeprefix(DATA) for name in own])
    # with --keep, a file may lack what the features hold
    if {*given.names} <= {*data.column_names}:
        groups = known["groups"] or {}
        arrays |= _cells(data, given, [groups.get(name, [name]) for name in features])
    if "interactions" in entry["arrays"]:
        beside = interactions_beside(path)
        check_in(beside, "interactions")
        with opened(beside) as source, ParquetFile(source) as file:
            arrays["interactions"] = pair_matrices(file.read(), arrays["values"].shape)

    errors = {"standard_errors": None}  # if the method has none
    present = {name: array for name, array in arrays.items() if name in entry["arrays"]}
    labels = label_array(table.column(0).to_pandas())
    stored = (*entry["arrays"], *entry["fields"])
    notes = [*entry["notes"], *notes_on_unknown(Explanation, stored, facts.get("version"))]
    if "unfinished" in facts:
        notes.append(f"Not all rows were explained: {facts['unfinished']}")
    contents = errors | present | known | {"index": labels}
    check_types(Explanation, contents)
    result = Result(
        explanation=Explanation(**contents),
        data=data,
        model=entry["model"],
        background=facts["background"],
        columns=tuple(given.names),
        notes=tuple(notes),
        id_column=facts["id"],
    )
    check_types(Result, vars(result))
    return result


def _check_facts(facts: Mapping[str, Any]) -> None:
    """Raise if facts that a report shows are not of the types that they are written in."""
    if not all(fits(facts.get(name), str | None) for name in ("data", "command", "title", "scale")):
        raise ValueError("a fact is no text")
    if facts.get("groups") is not None and not _are_groups(facts["groups"]):
        raise ValueError("the groups are none")
    if not all(fits(facts[KEPT][name], list[str]) for name in ("notes", "arrays")):
        raise ValueError("notes or names of arrays are no texts")


def _are_groups(groups: Any) -> bool:
    """Return whether these are groups by their names, of columns or of groups within them."""
    return isinstance(groups, dict) and all(
        fits(inside, list[str] | None) or _are_groups(inside) for inside in groups.values()
    )


def _cells(data: pa.Table, given: pa.Schema, owned: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return what each feature holds in each row; `owned` are the columns of each feature."""
    player = {name: number for number, names in enumerate(owned) for name in names}
    frame = as_frame(InputColumns(given).frame(data), "values")
    assert frame is not None
    display = CellDisplay(frame, np.array([player[name] for name in frame.columns]))
    return {"data": display.data, "display_data": display.words}
