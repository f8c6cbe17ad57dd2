"""Every figure of the paper's records by name, and what is read back from one."""

from collections.abc import Callable, Iterator
from xml.etree import ElementTree as ET

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D

from paper_records import FAIR
from shearshap.result.explanation import Floats
from shearshap_lab.experiments import figures
from shearshap_lab.experiments.figures import Drawing
from shearshap_lab.experiments.records import Records, where
from shearshap_lab.experiments.spec import PROTOCOLS, Protocol
from shearshap_lab.experiments.summaries import Networks, every_network
from shearshap_lab.svg import inline


def curves(metric: str, protocol: Protocol) -> Callable[[Records], Drawing]:
    methods = list(PROTOCOLS[protocol])
    return lambda own: figures.metric_curves(own["estimates"], metric, methods)


DRAWINGS: dict[str, Callable[[Records], Drawing]] = {
    "absolute_error paper": curves("absolute_error", "paper"),
    "ranking_accuracy authors": curves("ranking_accuracy", "authors"),
    "faithfulness fair": curves("faithfulness", "fair"),
    "monotonicity fair": curves("monotonicity", "fair"),
    "trade-off": lambda own: figures.trade_off(
        own["estimates"], where(own["timings"], way="batch"), FAIR
    ),
    "ablated error": lambda own: figures.ablation_grid(networks(own), "absolute_error"),
    "ablated accuracy": lambda own: figures.ablation_grid(networks(own), "ranking_accuracy"),
    "contribution cloud": lambda own: figures.contribution_cloud(networks(own)),
    "contribution by feature": lambda own: figures.contribution_by_feature(networks(own)),
    "contribution across rows": lambda own: figures.contribution_across_rows(
        networks(own), ["age", "sex"]
    ),
    "cooperators": lambda own: figures.cooperator_curves(own["cooperators"]),
    "chain": lambda own: figures.chain_cloud(own["chain"]),
    "tightness": lambda own: figures.tightness(own["bounds"]),
    "bound cloud": lambda own: figures.bound_cloud(own["bounds"]),
    "selection bounds": lambda own: figures.selection_bounds(own["selection_bound"]),
    "cost": lambda own: figures.cost_model(where(own["timings"], way="batch")),
    "training": lambda own: figures.training(own["sensitivity"], 16),
    "explanation": lambda own: figures.explanation(where(own["illustration"], seed=0)),
}


def networks(own: Records) -> Networks:
    return Networks("census", "ours", own)


def ours(records: Records) -> Records:
    """Return the records of our networks on census alone."""
    (found,) = every_network(records, recipes=("ours",))
    return found.records


def only_axes(drawing: Drawing) -> Axes:
    (axes,) = drawing.figure.axes
    return axes


def xs(line: Line2D | None) -> Floats:
    assert line is not None
    return np.asarray(line.get_xdata(), dtype=float)


def ys(line: Line2D | None) -> Floats:
    assert line is not None
    return np.asarray(line.get_ydata(), dtype=float)


def markup(drawing: Drawing) -> ET.Element:
    return ET.fromstring(inline(drawing.figure, alt=drawing.alt, titles=drawing.titles, salt="a"))


def error_bars(axes: Axes) -> Iterator[ErrorbarContainer]:
    return (bars for bars in axes.containers if isinstance(bars, ErrorbarContainer))


def heights(container: ErrorbarContainer) -> list[float]:
    """Return half the length of each bar."""
    (bars,) = container.lines[2]
    assert isinstance(bars, LineCollection)
    return [float(np.ptp(np.asarray(segment)[:, 1])) / 2 for segment in bars.get_segments()]


def tooltips(drawing: Drawing, gid: str) -> list[list[str | None]]:
    """Return the tooltips of a series' markers, of each group of them."""
    groups = [group for group in markup(drawing).iter("g") if gid in group.get("class", "").split()]
    every = [[use.findtext("title") for use in group.iter("use")] for group in groups]
    return [texts for texts in every if texts]
