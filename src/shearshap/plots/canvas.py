"""Axes, labels, legends, points and cells that plots have in common; checks of their arguments."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from inspect import cleandoc, signature
from math import floor, log10
from typing import Any, Literal, ParamSpec, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, YAxis
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter, MaxNLocator
from matplotlib.transforms import Affine2DBase, ScaledTranslation, blended_transform_factory

from shearshap.errors import InputError
from shearshap.interop.shap import takes_shap_options
from shearshap.plots.words import (
    fitted,
    keep_title_inside,
    scaled,
    settled_width,
    text_width,
    type_size,
    wrapped,
)
from shearshap.result import colours
from shearshap.result.cells import main_output
from shearshap.result.colours import FAINT, GREY, INK, LOWERS, PAPER, RAISES, SIZES
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.text import (
    format_number,
    shortened,
    true_minus,
)

LOW_TO_HIGH = LinearSegmentedColormap.from_list("low to high", colours.LOW_TO_HIGH)

#: values by their sign: nothing if they are 0
BY_SIGN = LinearSegmentedColormap.from_list("by sign", [LOWERS, PAPER, RAISES])

#: sizes without a sign
BY_SIZE = LinearSegmentedColormap.from_list("by size", [PAPER, SIZES])

P = ParamSpec("P")
Which = Literal["x", "y", "both"]
Row = int | str  #: a row's number, or its label

#: the options that plots have in common, which the documentation of each ends with
SHARED_OPTIONS = {
    "explanation": "With one output; from several take `explanation.output(name)`.",
    "row": "Which of the explanation's rows: its number from 0, or its label as text.",
    "max_features": "How many features to show; the plot says how many are left out.",
    "ax": "Where to draw; None makes a new figure.",
    "title": "Title of the plot; None names the output, the rows and the background.",
    "show": "Whether to show the figure at once; needed in a script.",
}

SIGNS = {RAISES: "raises the output", LOWERS: "lowers the output"}  #: what the two colours mean
LINE = 0.36  #: inches from a line of a plot to the next
MAX_TICKS = 8
STEPS = (1, 2, 2.5, 5, 10)
DOT = 4.4  #: points: the diameter
MAX_VECTOR_POINTS = 5_000  #: points beyond which a vector graphic holds them as one picture
HALF_SWARM = 0.42  #: half the width of a swarm, relative to the distance between two
MAX_LISTED = 4  #: outputs that an error message lists

ZERO: dict[str, Any] = {"color": GREY, "linewidth": 0.8, "zorder": 1}  #: the look of a line at 0
WHISKER: dict[str, Any] = {
    "fmt": "none",
    "ecolor": INK,
    "elinewidth": 1.2,
    "capsize": 3,
    "zorder": 3,
}


def plot(draw: Callable[P, Axes]) -> Callable[P, Axes]:
    """Return a plot that takes shap's options too, and whose documentation has all its options."""
    head, rule, own = cleandoc(draw.__doc__ or "").partition("\n----------\n")
    first, *others = (
        "" if f"\n{option}\n    " in f"\n{own}" else f"{option}\n    {SHARED_OPTIONS[option]}"
        for option in signature(draw).parameters
    )
    rule = rule or "\n\nParameters\n----------\n"
    draw.__doc__ = head + rule + "\n".join(filter(None, (first, own, *others)))
    return takes_shap_options(draw)


def axes_of(
    ax: Axes | None, width: float, height: float, beside: Sequence[str] = (), *, texts: bool = False
) -> Axes:
    """Return the axes, or those of a new figure that has a size in inches and room for labels.

    In a larger `context` the height grows as type does, and the width half as much, unless the
    drawing is made of `texts`. The widest text `beside` is added to the width.
    """
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    width = scaled(width) if texts else (width + scaled(width)) / 2
    size = (width + max(map(text_width, beside), default=0.0) / 72, scaled(height))
    return plt.figure(figsize=size, layout=layout).add_subplot()


def finished(ax: Axes, *, show: bool) -> Axes:
    """Return axes that are drawn, and shown if the user wants that.

    A notebook shows the figure by itself: the axes that a cell ends with are not echoed as text.
    """
    vars(ax)["_ipython_display_"] = _no_echo
    keep_title_inside(ax)
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return ax


def _no_echo() -> None:
    """Show nothing, when a notebook asks axes to show themselves."""


def tidy(ax: Axes, grid: Which, *, numbers: Which | None = None) -> None:
    """Leave only the bottom line of the frame, and a light grid along one axis or both.

    The axes of `numbers` have ticks written in full, as many as there is room for.
    """
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=FAINT, linewidth=0.6)
    ax.tick_params(color=GREY, labelcolor=INK, labelsize=type_size(), length=3)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.label.set(color=INK, size=type_size())
    ax.yaxis.label.set(color=INK, size=type_size())
    if numbers in ("x", "both"):
        number_axis(ax.xaxis)
    if numbers in ("y", "both"):
        number_axis(ax.yaxis)


# What colours mean


def sign_marks(hues: Sequence[str]) -> list[Line2D]:
    """Return a legend's entries for the colours of raising and lowering that are shown."""
    return [colour_mark(label, hue) for hue, label in SIGNS.items() if hue in hues]


def colour_mark(label: str, hue: str, marker: str = "s") -> Line2D:
    """Return a legend's entry for a colour."""
    size = scaled(7)
    return Line2D([], [], marker=marker, linestyle="", color=hue, markersize=size, label=label)


def key_look() -> dict[str, Any]:
    """Return the options of `Axes.legend` for the look of a legend."""
    return {
        "frameon": False,
        "fontsize": type_size(),
        "labelcolor": INK,
        "handlelength": 1.4,
        "handletextpad": 0.5,
        "columnspacing": 1.4,
    }


def key_below(ax: Axes, marks: Sequence[Line2D]) -> None:
    """Write a legend below the x-axis and its label, in as few lines as there is room for."""
    if not marks:
        return
    room = settled_width(ax)
    short = [wrapped(room - 3 * type_size(), fitted(str(m.get_label()), np.inf)) for m in marks]
    for mark, name in zip(marks, short, strict=True):
        mark.set_label(name)
    widths = [text_width(name) + 3.3 * type_size() for name in short]
    columns = len(marks) if sum(widths) <= 1.1 * room else int(room / max(widths))
    # how far the x-axis reaches down with its numbers and its label, in points
    ticks = 1.2 * type_size() + 8 if ax.xaxis.get_visible() else 4
    label = ax.get_xlabel()
    lines = label.count("\n") + 1 if label else 0
    below = ticks + 5 + 1.25 * type_size() * lines
    ax.legend(
        handles=marks,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + ScaledTranslation(0, -below / 72, ax.figure.dpi_scale_trans),
        ncols=max(1, columns),
        borderaxespad=0.0,
        **key_look(),
    )


def key_beside(ax: Axes, marks: Sequence[Any], title: str = "") -> None:
    """Write a legend beside the axes, from the top down."""
    legend = ax.legend(
        handles=marks,
        title=title,
        loc="upper left",
        bbox_to_anchor=(1, 1),
        title_fontproperties={"size": type_size()},
        alignment="left",
        **key_look(),
    )
    legend.get_title().set_color(INK)


def ink_on(colour: Sequence[float]) -> str:
    """Return the colour of text that can be read on a colour: white on a dark one."""
    red, green, blue = colour[:3]
    brightness = 0.299 * red + 0.587 * green + 0.114 * blue  # as the eye sees it
    return "white" if brightness < 0.58 else INK


# Lines with names


def lines_of(
    ax: Axes | None,
    labels: Sequence[str],
    numbers: Sequence[str] = (),
    *,
    width: float = 4.8,
    around: float = 1.6,
    line: float = LINE,
) -> Axes:
    """Return axes with lines 0, 1, ... from the top down, with labels, and numbers to their right.

    A new figure is as wide as the drawing, labels and numbers need, and as high as the lines and
    what is `around` them, in inches.
    """
    beside = max(map(text_width, numbers), default=0.0) / 72
    ax = axes_of(ax, width + beside, around + line * len(labels), beside=labels)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    for place, text in enumerate(numbers):
        write_beside(ax, place, text)
    return ax


def write_beside(ax: Axes, line: float, text: str, va: str = "center") -> None:
    """Write a text to the right of the axes, at the height of a line."""
    ax.annotate(
        text,
        xy=(1, line),
        xytext=(6, 0),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        va=va,
        color=INK,
        size=type_size(),
        annotation_clip=False,
    )


# Axes of numbers


def number_axis(axis: Axis, most: int = MAX_TICKS) -> None:
    """Give an axis ticks that have room for their labels, and labels that need no offset."""
    axis.set_major_locator(_RoomyLocator(most))
    axis.set_major_formatter(_PlainFormatter())


class _PlainFormatter(Formatter):
    """Writes every tick in full, with the decimals that the distance of ticks needs."""

    def __call__(self, number: float, _: int | None = None) -> str:
        """Return the label of a number by itself."""
        return tick_labels([number])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Return the labels of all ticks."""
        return tick_labels(values)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return the labels of ticks at equal distances."""
    numbers = np.asarray(ticks, dtype=np.float64)
    largest = float(np.abs(numbers).max(initial=0.0))
    if not largest or not np.isfinite(largest):
        return ["0"] * len(numbers)

    step = float(np.abs(np.diff(numbers)).min()) if len(numbers) > 1 else largest
    if not 1e-4 <= largest < 1e10 or (step and step < 1e-6):
        digits = max(1, 1 + floor(log10(largest)) - floor(log10(step or largest)) + 1)
        exact = np.where(np.abs(numbers) < 1e-9 * largest, 0.0, numbers)  # 0 up to rounding
        return [true_minus(f"{number:.{digits}g}") for number in exact]
    # the decimals of the distance: 2 of 0.25, 0 of 5
    exponent = int(Decimal(f"{step:.2g}").normalize().as_tuple().exponent)
    return [format_number(float(number), max(0, -exponent)) for number in numbers]


class _RoomyLocator(MaxNLocator):
    """Puts as many ticks on an axis as their labels have room for."""

    def __init__(self, most: int = MAX_TICKS) -> None:
        super().__init__(most, steps=list(STEPS))
        self.most = most
        self.size = type_size()  # of the context in which the plot is made, not drawn

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks between two numbers."""
        for bins in range(self.most, 0, -1):
            self.set_params(nbins=bins)
            ticks = np.asarray(super().tick_values(vmin, vmax))
            if self._has_room(ticks, vmin, vmax):
                break
        return ticks

    def _has_room(self, ticks: Floats, vmin: float, vmax: float) -> bool:
        """Return whether the labels of the ticks that are seen keep apart."""
        axis = self.axis
        seen = ticks[(ticks >= min(vmin, vmax)) & (ticks <= max(vmin, vmax))]
        if not isinstance(axis, Axis) or len(seen) < 2:
            return True

        box = axis.axes.get_window_extent()
        letter = self.size * axis.axes.figure.dpi / 72
        if isinstance(axis, YAxis):
            length = box.height
            needed = 2 * letter
        else:
            length = box.width
            longest = max(map(text_width, tick_labels(seen.tolist()))) / type_size()
            needed = letter * (longest + 1)
        distance = length * (seen[1] - seen[0]) / abs(vmax - vmin)
        return bool(distance >= needed)


# Points


def swarm_room(ax: Axes, swarms: int, *, horizontal: bool) -> tuple[int, float]:
    """Return how many dots fit along the values, and how many across a swarm.

    Swarms are horizontal, one below the other, or stand side by side.
    """
    box = ax.get_window_extent()
    along, across = (box.width, box.height) if horizontal else (box.height, box.width)
    dot = scaled(DOT) * ax.figure.dpi / 72

    bins = int(0.9 * along / dot)
    levels = 2 * HALF_SWARM * across / swarms / dot
    return max(1, bins), max(1.0, levels)


def draw_numbers(
    ax: Axes, x: Floats, y: Floats, numbers: Floats, limits: tuple[float, float]
) -> PathCollection:
    """Draw points that are coloured by numbers between limits; grey ones without a number first."""
    known = ~np.isnan(numbers)
    look = dot_look(len(x))
    if not known.all():
        ax.scatter(x[~known], y[~known], color=GREY, zorder=2, **look)
    scale = Normalize(*limits)
    return ax.scatter(
        x[known], y[known], c=numbers[known], cmap=LOW_TO_HIGH, norm=scale, zorder=3, **look
    )


def dot_look(points: int) -> dict[str, Any]:
    """Return the options of `Axes.scatter` for this number of points."""
    area = scaled(DOT) ** 2
    return {"s": area, "linewidths": 0, "alpha": 0.9, "rasterized": points > MAX_VECTOR_POINTS}


# Cells, and bars of colours


def draw_cells(
    ax: Axes,
    cells: Floats,
    *,
    aspect: Literal["auto", "equal"],
    percentile: float = 100.0,
    signed: bool = True,
) -> ScalarMappable:
    """Draw cells (lines, columns) in colours, in a light frame; without a number, they stay empty.

    Colours are the darkest from a percentile of |cells| on.
    """
    known = np.abs(cells[~np.isnan(cells)])
    far = float(np.percentile(known, percentile)) if known.size else 0.0
    far = far or float(known.max(initial=0.0)) or 1.0
    cmap = BY_SIGN if signed else BY_SIZE
    norm = Normalize(-far if signed else 0.0, far)
    picture = ax.imshow(cells, cmap=cmap, norm=norm, aspect=aspect, interpolation="nearest")
    picture.set_zorder(2)

    tidy(ax, "both")
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(FAINT)
    return picture


def draw_colour_bar(
    ax: Axes,
    coloured: ScalarMappable,
    label: str,
    numbers: Floats | None = None,
    *,
    signed: bool = False,
    after: float = 0.0,
    height: float = 1.0,
) -> Colorbar:
    """Draw a bar of colours beside the axes, without the transparency of what is drawn in them.

    Its ends are pointed if some of the `numbers` lie beyond them. If it is `signed`, words say what
    its ends mean. It stands `after` texts of that width, in points, and has a share of the axes'
    height, from the top.
    """
    low, high = coloured.get_clim()
    assert low is not None
    assert high is not None
    below = numbers is not None and bool(np.nanmin(numbers) < low)
    above = numbers is not None and bool(np.nanmax(numbers) > high)
    extend = (("neither", "max"), ("min", "both"))[below][above]

    opaque = ScalarMappable(norm=coloured.norm, cmap=coloured.cmap)
    # to the right of the axes in inches, and as high as they are, whatever the layout makes of them
    right = ScaledTranslation(1, 0, cast("Affine2DBase", ax.transAxes))
    inches = blended_transform_factory(ax.figure.dpi_scale_trans + right, ax.transAxes)
    box = ((scaled(10) + after) / 72, 1 - height, scaled(11) / 72, height)
    beside = ax.inset_axes(box, transform=inches)
    bar = ax.figure.colorbar(opaque, cax=beside, extend=extend)
    number_axis(bar.ax.yaxis, most=5)

    bar.outline.set_visible(False)
    bar.ax.tick_params(color=GREY, labelcolor=INK, labelsize=type_size(), length=2)
    meaning = "\n← lowers   raises →" if signed else ""
    bar.set_label(label + meaning, color=INK, size=type_size())
    return bar


# Arguments


def single_output(explanation: Explanation, plot: str) -> Explanation:
    """Return the explanation without an axis of outputs; raise if it has several, or no rows.

    Of two classes it is the second, and of an answer with its tokens the whole answer.
    """
    check_explanation(explanation, plot)
    explanation = main_output(explanation)
    names = explanation.output_names
    if len(names) > 1:
        listed = [shortened(name, 26) for name in names[:MAX_LISTED]]
        if len(names) > MAX_LISTED:
            listed.append("...")
        raise InputError(
            f"{plot} draws one output, this explanation has {len(names)} "
            f"({', '.join(listed)}); take explanation.output({names[0]!r})"
        )
    return explanation.output(0)


def check_explanation(explanation: object, plot: str) -> None:
    """Raise if something is not an explanation, or has no rows."""
    if not isinstance(explanation, Explanation):
        kind = type(explanation).__name__
        raise InputError(f"{plot}: expected a shearshap.Explanation, got {kind}")
    if not len(explanation):
        raise InputError(f"{plot}: the explanation has no rows to draw")


def row_number(explanation: Explanation, row: Row) -> int:
    """Return the number of a row, from 0, from its number or label."""
    rows = len(explanation)
    labels = [str(label) for label in explanation.index]
    if isinstance(row, str) and row in labels:
        return labels.index(row)
    if not _is_integer(row) or not -rows <= int(row) < rows:
        raise InputError(
            f"row: expected a number from 0 to {rows - 1}, or a label as text such as "
            f"{labels[0]!r}, got {row!r}"
        )
    return int(row) % rows


def positive_count(option: str, count: int) -> int:
    """Return how many things to show at most."""
    if not _is_integer(count) or count < 1:
        raise InputError(f"{option}: expected a positive integer, got {count!r}")
    return int(count)


def feature_number(explanation: Explanation, feature: int | str, option: str) -> int:
    """Return the number of a feature, from its name or number."""
    names = explanation.feature_names
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if _is_integer(feature) and -len(names) <= int(feature) < len(names):
        return int(feature) % len(names)
    listed = ", ".join(names)
    last = len(names) - 1
    raise InputError(f"{option}: there is no feature {feature!r}; there are {listed} (0 to {last})")


def _is_integer(number: object) -> bool:
    """Return whether a number is an integer; Python counts True and False as integers, too."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)
