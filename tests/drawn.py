"""Explanations to draw, and what plots have drawn, read back from the axes."""

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from shearshap import Explanation

NAMES = ["age", "a very long name of a player that nobody will read", "sex", "hours", "gain"]


@pytest.fixture(autouse=True)
def _no_figure_stays() -> Iterator[None]:
    yield
    plt.close("all")


def explanation(
    rows: int = 6, players: int = 5, *, errors: bool = True, seed: int = 0
) -> Explanation:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, players)) * np.arange(players, 0, -1)
    eta = rng.random((rows, players, players))
    return Explanation(
        values=values,
        base_values=np.full(rows, 2.0),
        predictions=2.0 + values.sum(axis=1),
        standard_errors=rng.random((rows, players)) / 3 if errors else None,
        evaluations=64,
        derivative_passes=0,
        method="kriging",
        seed=seed,
        degrees_of_freedom=9.0,
        feature_names=(NAMES + [f"player {n}" for n in range(5, players)])[:players],
        data=rng.normal(size=(rows, players)),
        cross_contribution=(eta + eta.transpose(0, 2, 1)) * (1 - np.eye(players)),
    )


def bars(ax: Axes) -> list[Rectangle]:
    return [patch for patch in ax.patches if isinstance(patch, Rectangle)]


def whiskers(ax: Axes) -> Any:
    """Return the ends of the error bars that lie flat, (n, 2, 2): from, to; x, y."""
    flat = [
        c for c in ax.collections if isinstance(c, LineCollection) and c.get_label() == "_nolegend_"
    ]
    return np.array(flat[0].get_segments()) if flat else None


def dots(ax: Axes) -> list[PathCollection]:
    return [c for c in ax.collections if isinstance(c, PathCollection)]


def labels(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def column(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def drawn_texts(axes: Axes) -> list[Text]:
    """Return all texts of axes but labels of ticks beyond the limits, which are not drawn."""
    legend = axes.get_legend()
    texts = list(axes.texts)
    for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        texts += [axis.label, *(label for tick in ticks for label in (tick.label1, tick.label2))]
        texts.append(axis.get_offset_text())
    if legend is not None:
        texts += [legend.get_title(), *legend.get_texts()]
    return [text for text in texts if text.get_visible() and text.get_text()]


def check_texts(ax: Axes) -> None:
    """Assert that no two texts of a figure overlap, unless slanted, and that none leaves it."""
    figure = ax.figure.canvas.figure
    figure.canvas.draw()
    every = [inner for axes in figure.axes for inner in (axes, *axes.child_axes)]
    texts = [text for axes in every for text in drawn_texts(axes)]  # type: ignore[arg-type]
    boxes = np.array([text.get_window_extent().extents for text in texts])
    outside = (boxes[:, :2] < -0.5).any(axis=1) | (
        boxes[:, 2:] > np.array(figure.bbox.size) + 0.5
    ).any(axis=1)
    assert [texts[n].get_text() for n in np.flatnonzero(outside)] == []
    flat = np.array([text.get_rotation() % 90 == 0 for text in texts])
    low, high = boxes[flat, :2] + 0.5, boxes[flat, 2:] - 0.5
    over = ((low[:, None] < high) & (low < high[:, None])).all(axis=2) & ~np.eye(
        len(low), dtype=bool
    )
    assert [texts[n].get_text() for n in np.flatnonzero(flat)[over.any(axis=1)]] == []
