"""One self-contained HTML file from plain data: text, figures and tables that need no network to be
read.

`Page` says what is on it, `render` and `write` make the file, `inline` turns a matplotlib figure
into a panel's SVG, `chart` makes one of lines, bars and dots that needs no matplotlib.
"""

from shearshap.report.chart import Dot, Line, chart, swarm
from shearshap.report.page import Figure, Page, Panel, Section, Series, Table, render, write
from shearshap.report.svg import inline

__all__ = [
    "Dot", "Figure", "Line", "Page", "Panel", "Section", "Series", "Table",
    "chart", "inline", "render", "swarm", "write",
]  # fmt: skip
