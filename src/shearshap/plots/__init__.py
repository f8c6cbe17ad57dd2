"""Plots of explanations: each is a function of an `Explanation` of one output.

It draws on `ax`, or on a new figure. None of them shows a window or changes matplotlib's settings.
Each returns the Axes, for titles and files:

    plots.waterfall(explanation).figure.savefig("row.png")
"""

try:
    import matplotlib  # noqa: F401, ICN001
except ImportError as error:
    raise ImportError("shearshap.plots needs matplotlib: pip install 'shearshap[plots]'") from error

from shearshap.plots.bars import bar, waterfall
from shearshap.plots.budgets import convergence
from shearshap.plots.coloured_text import text
from shearshap.plots.grids import heatmap, interactions
from shearshap.plots.network import cooperators
from shearshap.plots.patches import image
from shearshap.plots.paths import decision
from shearshap.plots.scatter import dependence, scatter
from shearshap.plots.strip import force
from shearshap.plots.swarms import beeswarm

__all__ = [
    "bar",
    "beeswarm",
    "convergence",
    "cooperators",
    "decision",
    "dependence",
    "force",
    "heatmap",
    "image",
    "interactions",
    "scatter",
    "text",
    "waterfall",
]
