"""One self-contained HTML file from plain data: text, figures and tables that need no network to be read.

`Page` says what is on it, `render` and `write` make the file, `inline` turns a matplotlib figure into a panel's SVG.
"""

from shearshap.report.page import Figure, Page, Panel, Section, Series, Table, render, write
from shearshap.report.svg import inline

__all__ = ["Figure", "Page", "Panel", "Section", "Series", "Table", "inline", "render", "write"]
