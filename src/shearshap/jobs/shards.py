"""Shards: the pieces into which the rows of a large job are cut.

a.parquet   row group 0   rows 0 to 99,999    shard 0: rows 0 to 49,999        part-000000.parquet
                                              shard 1: rows 50,000 to 99,999   part-000001.parquet
            row group 1   rows 0 to 19,999    shard 2: rows 0 to 19,999        part-000002.parquet
b.parquet   row group 0   ...                 shard 3: ...                     part-000003.parquet

Each becomes a part, a file of its own. The parts' names are in the order of the rows.
"""

from dataclasses import dataclass
from pathlib import Path

SHARD_ROWS = 1 << 16
"""Rows of a shard at most: what is done again where a worker dies."""


@dataclass(frozen=True)
class Shard:
    """Some rows of a row group of a Parquet file."""

    number: int  #: its place among all shards, in the order of the rows
    path: Path
    group: int  #: the row group in the file
    start: int  #: its first row in the row group
    rows: int
    first_row: int  #: the number of its first row among all rows of the job

    @property
    def name(self) -> str:
        """The name of its part, which sorts as the rows do."""
        return f"part-{self.number:06}.parquet"

    @property
    def place(self) -> str:
        """Where its rows are, in words."""
        last = self.start + self.rows - 1
        return f"rows {self.start:,} to {last:,} of row group {self.group} of {self.path}"
