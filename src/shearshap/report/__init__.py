"""HTML pages in a single file, made of plain data; they need no network to be read.

`Page` is what a page shows; `render` and `write` make the file. `inline` turns a matplotlib figure
into a panel's SVG, `chart` draws lines with bars, dots and intervals without matplotlib.
"""

from shearshap.report.html_charts import Dot, Line, chart
from shearshap.report.page import (
    GENERATOR,
    Figure,
    Page,
    Panel,
    Section,
    Series,
    Table,
    render,
    write,
)
from shearshap.report.svg import inline

__all__ = [
    "GENERATOR",
    "Dot",
    "Figure",
    "Line",
    "Page",
    "Panel",
    "Section",
    "Series",
    "Table",
    "chart",
    "inline",
    "render",
    "write",
]
