"""The background of a job: what `--background` names, read and put into words."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shearshap.data.background import STATISTICS
from shearshap.errors import InputError


@dataclass(frozen=True)
class BackgroundOption:
    """What the user named as the background: a statistic, a file, or a statistic of a file."""

    statistic: str | None = None
    file: Path | None = None

    @classmethod
    def parse(cls, text: str | None) -> "BackgroundOption":
        """Return what a text names: "mean", "train.csv", "mean:train.csv", or None for nothing."""
        if text is None:
            return cls()
        name, colon, file = text.partition(":")
        if name not in STATISTICS and text:
            _check_statistic(name, file)
            return cls(file=Path(text))  # a colon in it is the file's own
        if name in STATISTICS and not colon:
            return cls(statistic=name)
        if name in STATISTICS and file:
            return cls(statistic=name, file=Path(file))
        raise InputError(
            f"background: wanted mean, median or mode, a file, or mean:FILE; got {text!r}"
        )


def _check_statistic(name: str, file: str) -> None:
    """Raise where "avg:train.csv" names a file that is there, and a statistic that is not."""
    is_address = file.startswith("//") or len(name) == 1  # s3://train.csv, C:\train.csv
    if not file or is_address or Path(f"{name}:{file}").exists():
        return
    if Path(file).exists() or name.isalpha():
        raise InputError(
            f"background: there is no statistic {name!r}; there are mean, median and mode: try "
            f"mean:{file}"
        )


@dataclass(frozen=True, eq=False)
class Background:
    """What replaces absent features."""

    value: Any  #: as an `Explainer` takes it
    description: str  #: in words
    source: Path | None = None  #: the file that it comes from; None: the model's own


def background_from_file(option: BackgroundOption, rows: Any) -> Background:
    """Return the rows of a file, or a statistic of them."""
    assert option.file is not None
    count = len(rows)
    words = f"the {count:,} rows of {option.file}" if count > 1 else f"the row of {option.file}"
    if option.statistic is None:
        return Background(rows, words, option.file)
    return Background((option.statistic, rows), f"{option.statistic} of {words}", option.file)


def background_without_file(
    option: BackgroundOption, own_row: Mapping[str, Any] | None, data: Path
) -> Background:
    """Return the statistic of the rows explained that was named.

    Where none was named: the model's own background row, and for a model that has none the mean.
    """
    if option.statistic is None and own_row is not None:
        return Background(own_row, "the model's own, from its training rows")
    statistic = option.statistic or "mean"
    return Background(statistic, f"{statistic} of the rows explained", data)
