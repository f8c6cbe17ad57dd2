"""Files that are written whole or not at all, and stores of finished work."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shearshap.errors import InputError
from shearshap.store import Store, written_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_takes_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with written_whole(path) as partial:
        partial.write_text("whole")
        assert partial.parent == path.parent
        assert partial.suffix == ".partial"
        assert not path.exists()
    assert path.read_text() == "whole"
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("folder", [False, True])
def test_an_error_changes_nothing(tmp_path: Path, error: type[BaseException], folder: bool) -> None:
    path = tmp_path / "a"
    path.write_text("before")

    def write() -> None:
        with written_whole(path) as partial:
            file = partial / "b" if folder else partial
            file.parent.mkdir(exist_ok=True)
            file.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert names(tmp_path) == ["a"]
    assert path.read_text() == "before"


def test_a_folder_replaces_what_was_there(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with written_whole(tmp_path / "a") as partial:
            partial.mkdir()
            (partial / content).write_text(content)
        assert names(tmp_path) == ["a"]
        assert names(tmp_path / "a") == [content]
    (tmp_path / "file").write_text("old")
    with written_whole(tmp_path / "file") as partial:
        partial.mkdir()
    assert (tmp_path / "file").is_dir()


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with written_whole(path) as first:
        first.write_text("first, ")
        with written_whole(path) as second:
            second.write_text("second, whole")
        assert path.read_text() == "second, whole"
        with first.open("a") as file:
            file.write("whole")
    assert path.read_text() == "first, whole"
    assert names(tmp_path) == ["a.txt"]


# Stores


def read(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError("no number") from error


def write(number: int, path: Path) -> None:
    path.write_text(str(number))


def counting(calls: list[int]) -> Callable[[], int]:
    def compute() -> int:
        calls.append(1)
        return 42

    return compute


def test_a_piece_is_computed_once_unless_it_is_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path, "key")
    calls: list[int] = []
    for _ in range(2):
        assert store.piece("a", counting(calls), read=read, write=write) == 42
    assert len(calls) == 1
    store.path("a").write_text("4two")
    assert store.piece("a", counting(calls), read=read, write=write) == 42
    other = Store(tmp_path, "other key")
    assert other.piece("a", counting(calls), read=read, write=write) == 42
    assert len(calls) == 3
    assert (tmp_path / "key" / "a").read_text() == "42"
