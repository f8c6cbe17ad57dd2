"""Tables in Markdown."""

from collections.abc import Sequence

from shearshap.apps.report import Table


def markdown(table: Table, *, level: int = 3) -> str:
    """Return a table of a report, its caption as a heading, its best cells in bold, its notes."""
    rows = [
        [
            f"**{cell}**" if (row, place) in table.emphasis else cell
            for place, cell in enumerate(cells)
        ]
        for row, cells in enumerate(table.rows)
    ]
    lines = plain_table(table.columns, rows, left=table.left)
    return "\n\n".join((f"{'#' * level} {table.caption}", lines, *table.notes)) + "\n"


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 0) -> str:
    """Return the lines of a table; columns from `left` on are aligned to the right if it is given.

    A bar in a cell would begin a new column, and is escaped.
    """
    alignment = ["---:" if 0 < left <= place else "---" for place in range(len(header))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(map(table_row, (header, alignment, *escaped)))


def table_row(cells: Sequence[str]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(cells)} |"
