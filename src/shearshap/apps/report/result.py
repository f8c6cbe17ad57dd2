"""What a report is about: an explanation, the rows' data, and what its reader needs to know."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shearshap.result.explanation import Explanation

if TYPE_CHECKING:
    import pyarrow as pa

ROUNDING = 1e-6  #: relative to the largest value: a smaller gap is none


@dataclass(frozen=True, eq=False)
class Result:
    """An explanation of rows, and what a reader of it needs to know."""

    explanation: Explanation
    #: all columns of a file's rows, also those that the model was not given
    data: "pa.Table | None"
    model: str  #: in words
    background: str  #: in words
    columns: tuple[str, ...]  #: that the model was given
    notes: tuple[str, ...] = ()
    id_column: str | None = None  #: that labels the rows

    @property
    def extra_columns(self) -> list[str]:
        """The columns of the file that the model was not given, and that do not label the rows."""
        if self.data is None:
            return []
        known = {*self.columns, self.id_column}
        return [name for name in self.data.column_names if name not in known]


def file_size(count: int) -> str:
    """Return a number of bytes as people read it."""
    if count < 1_000_000:
        return f"{max(1, round(count / 1000))} kB"
    return f"{count / 1_000_000:.1f} MB"
