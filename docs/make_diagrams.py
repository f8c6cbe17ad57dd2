"""Draw the diagrams of the documentation, docs/images/*.svg.

python docs/make_diagrams.py
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from shearshap.result.colours import GREY, INK, LOWERS, RAISES

IMAGES = Path(__file__).parent / "images"

FROM_ROW = "#FBE3D3"  #: a tint of the colour of raising
FROM_BACKGROUND = "#D6E8F4"  #: a tint of the colour of lowering
PLAIN = "#F2F2F2"


def main() -> None:
    """Draw all of them."""
    mpl.use("Agg")
    mpl.rcParams.update({"font.size": 9, "text.color": INK, "svg.hashsalt": "shearshap"})
    for name, figure in {"coalition": coalition(), "large-job": large_job()}.items():
        figure.savefig(IMAGES / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def coalition() -> Figure:
    """Draw how a row and a background are mixed, for the coalition of plan and months."""
    figure, ax = _canvas(8.2, 2.7)
    columns = ("city", "plan", "months", "spent")
    lines = {
        "row": ("Oslo", "plus", "41", "12.5"),
        "background": ("Bergen", "basic", "30", "34.1"),
        "plan and months\nare present": ("Bergen", "plus", "41", "34.1"),
    }
    for at, name in enumerate(columns):
        ax.text(2.3 + 1.15 * at, 2.62, name, ha="center", color=GREY)
    tints = (
        [FROM_ROW] * 4,
        [FROM_BACKGROUND] * 4,
        [FROM_BACKGROUND, FROM_ROW, FROM_ROW, FROM_BACKGROUND],
    )
    for height, (title, cells), tint in zip((2.1, 1.4, 0.4), lines.items(), tints, strict=True):
        ax.text(1.55, height + 0.22, title, ha="right", va="center", fontsize=8.5)
        for at, (cell, colour) in enumerate(zip(cells, tint, strict=True)):
            _box(ax, 1.75 + 1.15 * at, height, 1.1, 0.45, cell, colour)
    _box(ax, 7.0, 0.35, 1.15, 0.55, "model", PLAIN)
    _arrow(ax, (6.35, 0.62), (6.95, 0.62))
    _arrow(ax, (8.2, 0.62), (8.75, 0.62))
    ax.text(8.85, 0.62, "a coalition\nvalue", va="center")
    ax.text(7.0, 2.3, "from the row", color=RAISES, va="center")
    ax.text(7.0, 1.6, "from the background", color=LOWERS, va="center")
    return figure


def large_job() -> Figure:
    """Draw how a large job is cut into shards, and what it writes."""
    figure, ax = _canvas(8.2, 2.9)
    for at in range(2):
        _box(ax, 0.0, 1.9 - 1.2 * at, 1.6, 0.7, f"rows/{at}.parquet", PLAIN)
    for at in range(4):
        _box(ax, 2.5, 2.15 - 0.65 * at, 1.2, 0.45, f"shard {at}", FROM_ROW)
        _arrow(ax, (1.65, 2.25 - 1.2 * (at // 2)), (2.45, 2.37 - 0.65 * at))
        _box(ax, 7.1, 2.15 - 0.65 * at, 2.0, 0.45, f"part-{at:06}.parquet", FROM_ROW)
    workers = ("a process, a GPU,\nor a node of Ray", "another one")
    for at, worker in enumerate(workers):
        _box(ax, 4.6, 1.8 - 1.2 * at, 1.7, 0.7, worker, FROM_BACKGROUND)
    for shard, worker in ((0, 0), (1, 1), (2, 0), (3, 1)):
        _arrow(ax, (3.75, 2.37 - 0.65 * shard), (4.55, 2.15 - 1.2 * worker))
        _arrow(ax, (6.35, 2.15 - 1.2 * worker), (7.05, 2.37 - 0.65 * shard))
    ax.text(0.8, 2.85, "read", ha="center", color=GREY)
    ax.text(3.1, 2.85, "cut", ha="center", color=GREY)
    ax.text(5.45, 2.85, "explain", ha="center", color=GREY)
    ax.text(8.1, 2.85, "values/", ha="center", color=GREY)
    return figure


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return axes without ticks, about an inch for each unit."""
    figure, ax = plt.subplots(figsize=(width, height))
    ax.set_xlim(0, 9.8)
    ax.set_ylim(0, 3.1)
    ax.set_axis_off()
    return figure, ax


def _box(
    ax: Axes, left: float, bottom: float, width: float, height: float, text: str, colour: str
) -> None:
    """Draw a box with a text in it."""
    shape = FancyBboxPatch(
        (left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=colour, edgecolor=GREY, linewidth=0.7,
    )  # fmt: skip
    ax.add_patch(shape)
    ax.text(left + width / 2, bottom + height / 2, text, ha="center", va="center", fontsize=8.5)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow."""
    ax.annotate(
        "", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "color": GREY, "linewidth": 0.9}
    )


if __name__ == "__main__":
    main()
