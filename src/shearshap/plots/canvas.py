"""What all plots share: colours, axes, checks of what was given, and how names and numbers are
written.
"""

from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from shearshap.digits import MINUS, least, written
from shearshap.errors import InputError
from shearshap.explanation import Explanation, Floats

# of the colours of Okabe and Ito, which most colour-blind people tell apart
RAISES, LOWERS = "#D55E00", "#0072B2"
KINDS = (LOWERS, RAISES, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4B00", "#000000")
INK, FAINT, GREY = "#333333", "#DDDDDD", "#9E9E9E"
LOW_TO_HIGH = LinearSegmentedColormap.from_list("low to high", [LOWERS, "#C9BBD3", RAISES])
SMALL = 9  #: points: labels
LEVEL = 0.95  #: of all intervals
NAME, VALUE = 26, 20  #: letters of a player's name and of its value, at most

Ints = NDArray[np.int64]


def one_output(explanation: Explanation, plot: str) -> Explanation:
    """Return the explanation, or raise where it is none or has several outputs."""
    if not isinstance(explanation, Explanation):
        raise InputError(
            f"{plot}: wanted a shearshap.Explanation, got {type(explanation).__name__}"
        )
    names = explanation.output_names
    if explanation.values.ndim == 3 and len(names) > 1:
        raise InputError(
            f"{plot} draws one output, this explanation has {len(names)} "
            f"({', '.join(map(shorten, names[:4]))}"
            f"{', ...' if len(names) > 4 else ''}); take explanation.output({names[0]!r})"
        )
    if not len(explanation):
        raise InputError(f"{plot}: there is nothing to draw in an explanation of 0 rows")
    return explanation.output(0)


def checked_row(explanation: Explanation, row: int) -> int:
    """Return the number of a row, from 0."""
    rows = len(explanation)
    if isinstance(row, bool) or not isinstance(row, int | np.integer) or not -rows <= row < rows:
        raise InputError(f"row: wanted a number from 0 to {rows - 1}, got {row!r}")
    return int(row) % rows


def checked_count(name: str, count: int) -> int:
    """Return how many things to show at most."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"{name}: wanted a positive integer, got {count!r}")
    return int(count)


def player_number(explanation: Explanation, player: int | str, option: str) -> int:
    """Return the number of a player given by its name or number."""
    names = explanation.feature_names
    if isinstance(player, str) and player in names:
        return names.index(player)
    if (
        isinstance(player, int | np.integer)
        and not isinstance(player, bool)
        and -len(names) <= player < len(names)
    ):
        return int(player) % len(names)
    raise InputError(
        f"{option}: there is no player {player!r}; there are {', '.join(names)} (0 to "
        f"{len(names) - 1})"
    )


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes given, or those of a new figure of a size in inches whose layout makes room
    for labels.
    """
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    figure = plt.figure(
        figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    )
    return figure.add_subplot()


def tidy(ax: Axes, grid: str) -> None:
    """Leave of the frame only the bottom line, and a light grid along one axis ("x" or "y") or
    "both".
    """
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=FAINT, linewidth=0.6)  # type: ignore[arg-type]
    ax.tick_params(color=GREY, labelcolor=INK, labelsize=SMALL, length=3)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.label.set(color=INK, size=SMALL + 1)
    ax.yaxis.label.set(color=INK, size=SMALL + 1)


def lines(ax: Axes, labels: list[str]) -> None:
    """Name the lines 0, 1, ... of a plot from the top down."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def column(ax: Axes, numbers: list[str]) -> None:
    """Write numbers to the right of the lines 0, 1, ... of a plot."""
    for line, text in enumerate(numbers):
        ax.annotate(
            text, (1, line), (6, 0), xycoords=ax.get_yaxis_transform(), textcoords="offset points",
            va="center", color=INK, size=SMALL, annotation_clip=False,
        )  # fmt: skip


def margins(explanation: Explanation) -> Floats | None:
    """Return half the length of every value's interval, (r, p), NaN where unknown; None where none
    has a length.
    """
    if explanation.standard_errors is None or not (explanation.standard_errors > 0).any():
        return None
    half = explanation.interval(LEVEL)[1] - explanation.values
    return np.where(np.isfinite(half), half, np.nan)


def largest(sizes: Floats, count: int) -> Ints:
    """Return the numbers of the largest by size, the largest first, and of equal ones the first
    first.
    """
    return np.argsort(-np.abs(sizes), kind="stable")[:count]


def sign_colours(values: Floats) -> list[str]:
    """Return the colour of every value: one for those that raise the output, one for those that
    lower it.
    """
    return np.where(values < 0, LOWERS, RAISES).tolist()  # type: ignore[no-any-return]


def shorten(text: object, letters: int = NAME) -> str:
    """Return a text on one line, with an ellipsis in its middle where it is long, and no
    mathematics in it.
    """
    line = " ".join(str(text).split())
    if len(line) > letters:
        head = ceil(2 * (letters - 1) / 3)
        line = f"{line[:head].rstrip()}…{line[head + 1 - letters :].lstrip()}"
    return line.replace("$", r"\$")


def shown_value(explanation: Explanation, player: int) -> str:
    """Return what a player is in the first row, as people read it; "" where that is not known."""
    if explanation.display_data is not None:
        value = explanation.display_data[0, player]
        return "missing" if missing(value) else _readable(value)
    known = explanation.data is not None and not missing(explanation.data[0, player])
    return _readable(explanation.data[0, player]) if known else ""  # type: ignore[index]


def missing(value: object) -> bool:
    """Return whether a cell of a table is empty: None or NaN."""
    return value is None or (isinstance(value, float) and value != value)


def _readable(value: object) -> str:
    return (
        f"{value:.4g}".replace("-", MINUS) if isinstance(value, float | np.floating) else str(value)
    )


def with_margin(number: float, margin: float, places: int | None) -> str:
    """Return a signed number with its margin, unless that is nothing in the decimals shown."""
    share = written(number, places, sign=True)
    return f"{share} ± {written(margin, places)}" if margin >= least(number, places) else share


def about(
    explanation: Explanation,
    what: str,
    left_out: int = 0,
    *,
    intervals: bool = False,
    letters: int = 40,
) -> str:
    """Return an axis label: what is drawn, of which output, with intervals or not, and how many
    players it lacks.
    """
    first = what + (", with 95 % intervals" if intervals else "")
    others = f"\n({left_out} smaller players not shown)" if left_out else ""
    name = explanation.output_names[0]
    return first + ("" if name == "output" else f"\noutput: {shorten(name, letters)}") + others
