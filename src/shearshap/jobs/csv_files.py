"""CSV files: reading them, errors for files that are none or were cut, notes on doubtful cells.

A file is read as pandas reads it, by whose habits most models' data were made. What pandas too
takes without a word, though a reader of the values should know it, is a note.
"""

import csv
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shearshap.errors import InputError
from shearshap.jobs.csv_bytes import Content, has_end, has_leading_zeros

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What stands in a CSV file for a missing value.

They are the words of pandas, by which most models' data were read.
"""
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What files that are called CSV have between their columns instead of commas."""

KINDS = {
    b"\xff\xfe\0\0": "is UTF-32 text; save the file as UTF-8",
    b"\0\0\xfe\xff": "is UTF-32 text; save the file as UTF-8",
    b"\xff\xfe": "is UTF-16 text; save the file as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save the file as UTF-8",
    b"\x1f\x8b": "is compressed by gzip; unpack it first",
    b"BZh": "is compressed by bzip2; unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd; unpack it first",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; save its table as CSV",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet of Excel; save its table as CSV",
    b"PAR1": "is a Parquet file; let its name end in .parquet",
}
"""What a file is that begins with these bytes, and what to do with it."""

WIDEST = 40  #: characters of a cell that a note shows
FEW = 3  #: notes of one kind
STRICTLY = 2**26  #: bytes of the largest file whose untidy quotes are checked one by one

ZEROS = r"^\s*[+-]?0[0-9]+$"  #: as an id or a postal code has
HEXADECIMAL = r"^\s*[+-]?0[xX]"
NUMBER = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
MARKED_NUMBER = (
    r"^\s*[+\-\x{2212}]?[$€£]?\s?"  # 2212: the minus of typesetters
    r"(?:[0-9]{1,3}(?:[,.' _\x{a0}\x{2019}][0-9]{3})+(?:[.,][0-9]+)?"
    r"|[0-9]+,[0-9]+"
    r"|[0-9]+(?:\.[0-9]+)?)"
    r"\s?[%$€£]?\s*$"
)
"""A number with marks that make text of it: 1,234 or 1,5 or 5% or $5."""
AROUND = r"^[ \t]|[ \t]$"  #: blanks at an end of a text
LONG = r"^\s*[+-]?[0-9]{19,}\s*$"
LARGEST_WHOLE = 2.0**63  #: beyond which a whole number is read as a floating one


# Reading


def read_csv(path: Path, what: str, text: Collection[str]) -> "pa.Table":
    """Read a CSV file of numbers, truth values and text; a date is text, as it stands there.

    `what` is the first word of every error. `text` are the columns that hold text, whatever it
    looks like.
    """
    from pyarrow import types

    content = check_csv(path, what)
    table = _first_parsed(path, what, content)
    for field in table.schema:
        if types.is_binary(field.type):
            raise InputError(
                f"{what}: column {field.name!r} of {path} is not UTF-8 text; save the file as UTF-8"
            )

    dates = {field.name for field in table.schema if types.is_temporal(field.type)}
    all_text = {*text, *dates}
    names = table.column_names
    if content.has_hexadecimals and len(set(names)) == len(names):
        # pyarrow takes 0x1f for a number, and pandas for text
        numbers = _numbers(table, names)
        all_text |= set(_examples(_as_it_stands(path, numbers), numbers, HEXADECIMAL))
    # read again, since a date's text cannot be made from its value
    return _parsed(path, text=all_text) if all_text else table


def _first_parsed(path: Path, what: str, content: Content) -> "pa.Table":
    import pyarrow as pa

    try:
        return _parsed(path, text=())
    except pa.ArrowInvalid as error:
        if not content.size or has_end(path):
            raise
        raise InputError(
            f"{what}: {path} cannot be read: {error}; its last line does not end like the others, "
            "so the file may have been cut"
        ) from error


def _parsed(path: Path, *, text: Collection[str]) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        path,
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            null_values=list(MISSING),
            strings_can_be_null=True,
            true_values=["True", "TRUE", "true"],  # pyarrow would take a 1 among them
            false_values=["False", "FALSE", "false"],
            column_types=dict.fromkeys(text, pa.string()),
        ),
    )


def _as_it_stands(path: Path, columns: Sequence[str]) -> "pa.Table":
    """Read columns as the text that stands in the file, missing values and all."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if not columns:
        return pa.table({})
    return arrow_csv.read_csv(
        path,
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(columns, pa.string()),
        ),
    )


def ids_as_written(
    path: Path, table: "pa.Table", columns: Sequence[str]
) -> dict[str, "pa.ChunkedArray"]:
    """Return, as text, those columns of numbers that lose digits when they are read as numbers."""
    from pyarrow import compute as pc

    numbers = _numbers(table, columns) if has_leading_zeros(path) else []
    large = _large_numbers(table, columns)
    columns = list(dict.fromkeys([*numbers, *large]))
    cells = _as_it_stands(path, columns)
    lossy = {**_examples(cells, numbers, ZEROS), **_examples(cells, large, LONG)}
    return {name: pc.if_else(pc.is_valid(table[name]), cells[name], None) for name in lossy}


# Files that are no CSV, or were cut


def check_csv(path: Path, what: str) -> Content:
    """Raise where a file is no CSV, or its quotes do not match; return what its bytes show."""
    _check_kind(path, what)
    _check_header(path, what)
    content = Content.of(path)
    _check_content(path, what, content)
    return content


def _check_kind(path: Path, what: str) -> None:
    """Raise where the first bytes are those of another kind of file."""
    with path.open("rb") as file:
        start = file.read(8)
    for mark, kind in KINDS.items():
        if start.startswith(mark):
            raise InputError(f"{what}: {path} {kind}")


def _check_header(path: Path, what: str) -> None:
    """Raise where the first line shows another encoding, or other marks than commas."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        header = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what}: the header of {path} is not UTF-8 text; save the file as UTF-8"
        ) from error

    if header.lower().startswith("sep="):
        raise InputError(
            f"{what}: the first line of {path} is {header.strip()!r}, which is for Excel alone; "
            "delete it"
        )
    marks = [name for mark, name in SEPARATORS.items() if mark in header]
    if marks and "," not in header:
        raise InputError(
            f"{what}: the header of {path} is one column with {marks[0]} in its name; save the "
            "file with commas between the columns, or as Parquet"
        )


def _check_content(path: Path, what: str, content: Content) -> None:
    """Raise where a file is no text, or its quotes do not match."""
    if content.nul is not None:
        raise InputError(
            f"{what}: there is a NUL byte in {path}, at byte {content.nul:,}: it is broken, or no "
            "UTF-8 text; save the file as UTF-8"
        )
    is_odd = content.quotes % 2 == 1
    if is_odd or (not content.has_tidy_quotes and content.size <= STRICTLY):
        _check_quotes(path, what, is_odd=is_odd)


def _check_quotes(path: Path, what: str, *, is_odd: bool) -> None:
    """Raise where a quoted cell does not end as it should; else it swallows the rows after it."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = csv.reader(file, strict=True)
        begins = 1
        try:
            for _cells in lines:
                begins = lines.line_num + 1
        except csv.Error as error:
            is_long = "field limit" in str(error)
            if is_long and not is_odd:
                return  # a text of more than 128 kB, which is no mistake
            raise InputError(
                f"{what}: the quotes in {path} do not match, from line {begins} on: a quote is "
                "missing, or the file was cut"
            ) from error


# Notes


def notes_on_csv(path: Path, table: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return notes on what may be wrong in a file, in those of its columns that are given."""
    notes = []
    if not has_end(path):
        notes.append(
            f"the last line of {path} does not end like the others; if the file was cut, so was "
            "its last cell"
        )
    if _looks_like_a_row(table.column_names):
        notes.append(
            f"there are numbers among the names in the header of {path}; if its first line is a "
            "row, put a line of names above it"
        )
    numbers = _numbers(table, columns) if has_leading_zeros(path) else []
    large = _large_numbers(table, columns)
    with_gaps = _text_with_gaps(table, columns)
    # all at once, since each look reads the whole file
    cells = _as_it_stands(path, list(dict.fromkeys([*numbers, *large, *with_gaps])))
    kinds = [
        _notes_on_zeros(path, cells, numbers),
        _notes_on_large_numbers(path, cells, large),
        _notes_on_text(path, table, columns),
        _notes_on_missing_words(path, cells, with_gaps),
    ]
    for kind in kinds:
        notes += _first_few(kind, path)
    return notes


def _looks_like_a_row(names: Sequence[str]) -> bool:
    """Return whether names look like cells.

    Numbers that count columns (0, 1, 2, ...) or years do not.
    """
    numbers = [name for name in names if re.fullmatch(NUMBER, name)]
    if not numbers:
        return False
    if not all(name.isdecimal() for name in numbers):
        return True
    counted = sorted(int(name) for name in numbers)
    first = counted[0]
    is_run = counted == list(range(first, first + len(counted)))
    return not is_run or (len(counted) == 1 and first > 1)


def _numbers(table: "pa.Table", columns: Sequence[str]) -> list[str]:
    from pyarrow import types

    return [
        name
        for name in columns
        if types.is_integer(table[name].type) or types.is_floating(table[name].type)
    ]


def _examples(cells: "pa.Table", columns: Sequence[str], pattern: str) -> dict[str, str]:
    """Return the first cell that matches a pattern, as code, of each column that has one."""
    from pyarrow import compute as pc

    found = {}
    for name in columns:
        matching = cells[name].filter(pc.match_substring_regex(cells[name], pattern))
        if len(matching):
            found[name] = _shown(matching[0])
    return found


def _shown(cell: "pa.Scalar") -> str:
    """Return a cell as a note shows it."""
    return repr(cell.as_py()[:WIDEST])


def _first_few(notes: list[str], path: Path) -> list[str]:
    """Return notes of one kind, of which there may be one for each column, without the last."""
    more = len(notes) - FEW
    if more <= 1:
        return notes
    return [*notes[:FEW], f"the same holds for {more} more columns of {path}"]


def _notes_on_zeros(path: Path, cells: "pa.Table", columns: Sequence[str]) -> list[str]:
    return [
        f"column {name!r} of {path} is read as numbers, and {cell} so loses its zeros; if the "
        "model takes text there, save the file as Parquet"
        for name, cell in _examples(cells, columns, ZEROS).items()
    ]


def _large_numbers(table: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return the columns of floating numbers that may have been too large whole ones."""
    from pyarrow import compute as pc
    from pyarrow import types

    large = []
    for name in columns:
        if types.is_floating(table[name].type):
            largest = pc.max(pc.abs(table[name])).as_py()
            if largest is not None and largest >= LARGEST_WHOLE:
                large.append(name)
    return large


def _notes_on_large_numbers(path: Path, cells: "pa.Table", columns: Sequence[str]) -> list[str]:
    return [
        f"column {name!r} of {path} holds whole numbers of more than 64 bits, such as {cell}, "
        "which are rounded to floating ones"
        for name, cell in _examples(cells, columns, LONG).items()
    ]


def _notes_on_text(path: Path, table: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return notes on columns of text that may have been meant in another way."""
    from pyarrow import types

    notes = []
    for name in columns:
        if types.is_string(table[name].type):
            notes += _note_on_text(path, name, table[name].drop_null())
    return notes


def _note_on_text(path: Path, name: str, cells: "pa.ChunkedArray") -> list[str]:
    from pyarrow import compute as pc

    different = cells.value_counts()  # often few, and each is looked at once
    texts = different.field("values")
    are_numbers = pc.match_substring_regex(texts, NUMBER)
    numbers = pc.sum(different.field("counts").filter(are_numbers)).as_py() or 0
    others = texts.filter(pc.invert(are_numbers))
    if not len(others):
        return []
    blank = others.filter(pc.match_substring_regex(others, AROUND))
    if len(blank):
        return [
            f"column {name!r} of {path} has blanks around a text, such as {_shown(blank[0])}, "
            "which stay there"
        ]
    column = f"column {name!r} of {path} is read as text"
    marked = pc.sum(pc.match_substring_regex(others, MARKED_NUMBER)).as_py()
    if marked == len(others):
        return [
            f"{column}, for {_shown(others[0])} is no plain number; if it was meant as one, "
            "write it with digits and a point alone"
        ]
    if 2 * numbers >= len(cells):
        return [
            f"{column}, though {numbers:,} of its {len(cells):,} cells are numbers; "
            f"{_shown(others[0])} is none"
        ]
    return []


def _text_with_gaps(table: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return the columns of text in which something is missing."""
    from pyarrow import types

    return [
        name
        for name in columns
        if table[name].null_count
        and (types.is_string(table[name].type) or types.is_null(table[name].type))
    ]


def _notes_on_missing_words(path: Path, cells: "pa.Table", columns: Sequence[str]) -> list[str]:
    """Return notes on words in columns of text that are read as missing."""
    words = "|".join(re.escape(word) for word in MISSING if word)
    return [
        f"column {name!r} of {path}: {cell} is read as a missing value, as pandas does; if it is "
        "a category, save the file as Parquet"
        for name, cell in _examples(cells, columns, f"^(?:{words})$").items()
    ]
