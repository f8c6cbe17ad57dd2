"""What the bytes of a CSV file show, against a slow reader of its cells."""

import csv
import itertools
from pathlib import Path

import pytest

from shearshap.jobs import csv_bytes
from shearshap.jobs.csv_bytes import Content, has_end, has_leading_zeros

SHORT = [
    "".join(marks) for size in range(1, 7) for marks in itertools.product('a,"\n', repeat=size)
]


def _is_read(text: str) -> bool:
    """Return whether a strict reader takes a text as CSV."""
    try:
        list(csv.reader(text.splitlines(keepends=True), strict=True))
    except csv.Error:
        return False
    return True


def test_tidy_quotes_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_bytes, "CHUNK", 2)  # so that quotes stand at every place of a chunk
    file = tmp_path / "rows.csv"
    tidy = []
    for text in SHORT:
        file.write_text(text)
        content = Content.of(file)
        assert content.quotes == text.count('"')
        assert content.size == len(text)
        if content.has_tidy_quotes:
            tidy.append(text)

    assert all(_is_read(text) for text in tidy)
    assert {'a,""\n', '"a,"', '"",""', '""""', '"\n"\n'} <= set(tidy)
    assert not {'"', 'a"a"', '"a"a', '""a', '"a\n'} & set(tidy)


@pytest.mark.parametrize("size", [3, 4, 5, 2**20])
def test_marks_are_found_at_every_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(csv_bytes, "CHUNK", size)
    file = tmp_path / "rows.csv"

    file.write_bytes(b'\xef\xbb\xbf"a",b\n10,0.5\n1e-05,100\n')
    content = Content.of(file)
    assert content.has_tidy_quotes
    assert content.nul is None
    assert not has_leading_zeros(file)
    assert has_end(file)

    file.write_bytes(b"a,b\n1,007\0")
    assert Content.of(file).nul == 9
    assert has_leading_zeros(file)
    assert not has_end(file)


@pytest.mark.parametrize("size", [2, 2**20])
def test_hexadecimals_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(csv_bytes, "CHUNK", size)
    file = tmp_path / "rows.csv"
    file.write_bytes(b"a\n0x1f\n0X2\n10\n")
    assert Content.of(file).has_hexadecimals
    file.write_bytes(b"axe\n10\n")
    assert not Content.of(file).has_hexadecimals
