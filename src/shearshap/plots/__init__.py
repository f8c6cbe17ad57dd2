"""Plots of explanations: each is a function of an `Explanation` of one output.

It draws on `ax`, or on a new figure. None of them changes matplotlib's settings, or shows a window
unless `show=True`. Each returns the Axes, for files:

    plots.waterfall(explanation, title="Row 0").figure.savefig("row.png")

`with plots.context("talk"):` makes their type larger, for slides.

shap's `max_display` and `color` are `max_features` and `colour` here; both names work.
"""

try:
    import matplotlib  # noqa: F401, ICN001
except ImportError as error:
    raise ImportError("shearshap.plots needs matplotlib: pip install 'shearshap[plots]'") from error

from shearshap.plots.bar import bar
from shearshap.plots.convergence import convergence
from shearshap.plots.heatmap import heatmap
from shearshap.plots.image import image
from shearshap.plots.interactions import cooperators, interactions
from shearshap.plots.scatter import beeswarm, dependence, scatter
from shearshap.plots.text import text
from shearshap.plots.waterfall import decision, force, waterfall
from shearshap.plots.words import context

__all__ = [
    "bar",
    "beeswarm",
    "context",
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
