"""`--groups` and `--output-names`: what the command line says of players and outputs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from shearshap.errors import InputError
from shearshap.result.text import no_such

WANTED = "NAME=COLUMN,COLUMN, or a .json file such as {'address': ['street', 'city']}"

Groups = Mapping[str, Sequence[str]]


def parse_groups(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each group, by its name.

    A text is "address=street,city", or names a JSON file of groups.
    """
    groups: dict[str, list[str]] = {}
    for text in texts:
        for name, columns in _groups_of(text).items():
            if name in groups:
                raise InputError(f"groups: the group {name!r} is given twice; give it one name")
            groups[name] = columns
    return groups


def _groups_of(text: str) -> dict[str, list[str]]:
    if text.lower().endswith(".json") and "=" not in text:
        return _groups_in_file(Path(text))
    name, equals, listed = text.partition("=")
    columns = [column.strip() for column in listed.split(",")]
    if not name.strip() or not equals or not all(columns):
        raise InputError(f"groups: wanted {WANTED}; got {text!r}")
    return {name.strip(): columns}


def _groups_in_file(path: Path) -> dict[str, list[str]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"groups: there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"groups: {path} cannot be read: {error}") from error

    is_mapping = isinstance(content, dict) and all(map(_is_list_of_names, content.values()))
    if not is_mapping or not content:
        raise InputError(f"groups: wanted {WANTED}; {path} holds something else")
    return {str(name): list(columns) for name, columns in content.items()}


def _is_list_of_names(columns: object) -> bool:
    is_list = isinstance(columns, list) and bool(columns)
    return is_list and all(isinstance(column, str) for column in columns)  # type: ignore[attr-defined]


def check_groups(groups: Groups, columns: Sequence[str]) -> None:
    """Raise where groups name a column that the model is not given, or one twice."""
    owners: dict[str, str] = {}
    for name, members in groups.items():
        for column in members:
            if column not in columns:
                raise InputError(f"groups: {no_such('column', column, columns)}")
            if column in owners:
                raise InputError(
                    f"groups: column {column!r} is in {owners[column]!r} and in {name!r}; a column "
                    "belongs to one group"
                )
            owners[column] = name


def parse_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of outputs: one text with commas, or a text for each name."""
    names = texts[0].split(",") if len(texts) == 1 else texts
    names = [name.strip() for name in names]
    if texts and not all(names):
        raise InputError(f"output-names: wanted names with commas between them; got {texts[0]!r}")
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"output-names: {doubled!r} stands twice; give each output its own name")
    return tuple(names)
