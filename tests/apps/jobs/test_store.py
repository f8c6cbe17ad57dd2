"""Files that are written whole or not at all."""

from pathlib import Path

import pytest

from shearshap.store import written_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


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
