"""Plots of explanations, each a function of an `Explanation` of one output, on `ax` or on a figure
of its own.

None of them shows a window or changes matplotlib's settings; each returns the Axes, for titles and
files: `plots.waterfall(explanation).figure.savefig("row.png")`.
"""

try:
    import matplotlib  # noqa: F401, ICN001
except ImportError as error:
    raise ImportError("shearshap.plots needs matplotlib: pip install 'shearshap[plots]'") from error

from shearshap.plots.bars import bar, waterfall
from shearshap.plots.budgets import convergence
from shearshap.plots.network import cooperators
from shearshap.plots.points import beeswarm, dependence

__all__ = ["bar", "beeswarm", "convergence", "cooperators", "dependence", "waterfall"]
