"""HTML pages in a single file, made of plain data; they need no network to be read.

`Page` is what a page shows; `render` and `write` make the file.
`chart` makes lines with bars, dots and intervals, which the page's script draws.
"""

from shearshap.apps.report.page import (
    GENERATOR,
    Figure,
    Line,
    Page,
    Panel,
    Section,
    Series,
    Table,
    chart,
    render,
    write,
)

__all__ = [
    "GENERATOR",
    "Figure",
    "Line",
    "Page",
    "Panel",
    "Section",
    "Series",
    "Table",
    "chart",
    "render",
    "write",
]
