"""The plot of a text whose words have the colours of their values."""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from shearshap.plots.canvas import (
    BY_SIGN,
    SMALL,
    colour_mark,
    colour_of,
    ink_on,
    key_look,
    row_number,
    shorten,
    single_output,
)
from shearshap.result import views
from shearshap.result.colours import INK, LOWERS, RAISES
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.text import decimals, format_end, format_number

SIZE = 12  #: points: the size of words
WIDTH = 6.8  #: inches
EDGE = 10.0  #: points around all
BETWEEN = 5.0  #: points between two words
NUMBERED = 60  #: words up to which each has its number below
WORD_LETTERS = 30  #: letters of a word, at most


@dataclass(frozen=True)
class _Placed:
    """A word and its place: the middle of its top, in points from the top left."""

    word: str
    number: str
    value: float
    x: float
    y: float


def text(explanation: Explanation, *, row: int = 0, ax: Axes | None = None) -> Axes:
    """Draw a text: each word in the colour of its value, and the value below it.

    Orange words raise the output and blue ones lower it. Beyond 60 words there is no room for
    numbers.

    Parameters
    ----------
    explanation
        Of texts and one output; of several take `explanation.output(name)`. For other rows, the
        features' names are the words.
    row
        Which of the explanation's texts.
    ax
        Where to draw; None: a new figure, as high as the text needs.
    """
    explanation = single_output(explanation, "text")
    one = views.of_row(explanation, row_number(explanation, row))
    values = one.values[0]
    words = [shorten(word, WORD_LETTERS) for word in one.feature_names]

    own = ax is None
    if ax is None:
        ax = plt.figure(figsize=(WIDTH, 2.0)).add_axes((0, 0, 1, 1))
    ax.axis("off")
    room = ax.bbox.width * 72 / ax.figure.dpi - 2 * EDGE
    placed, bottom = _placed(ax, words, values, room)
    _write_head(ax, one)
    _write_words(ax, placed, values)

    if own:
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.set_size_inches(WIDTH, (bottom + 3.2 * SMALL) / 72)
    marks = [colour_mark("raises the output", RAISES), colour_mark("lowers the output", LOWERS)]
    ax.legend(handles=marks, loc="lower left", ncols=2, borderaxespad=0.2, **key_look())
    return ax


def _placed(ax: Axes, words: list[str], values: Floats, room: float) -> tuple[list[_Placed], float]:
    """Return the places of words, line by line, and where the last line ends, in points."""
    with_numbers = len(words) <= NUMBERED
    places = decimals(values)
    numbers = [format_number(float(value), places, sign=True) for value in values]
    height = (3.0 if with_numbers else 2.0) * SIZE

    placed = []
    left = 0.0
    top = EDGE + 2.2 * SIZE
    for word, number, value in zip(words, numbers, values.tolist(), strict=True):
        width = _width(ax, word, SIZE)
        if with_numbers:
            width = max(width, _width(ax, number, SMALL - 1))
        if left and left + width > room:
            left = 0.0
            top += height
        shown = number if with_numbers else ""
        placed.append(_Placed(word, shown, value, EDGE + left + width / 2, top))
        left += width + BETWEEN
    return placed, top + height


def _width(ax: Axes, word: str, size: float) -> float:
    """Return how wide a word is, in points."""
    measured = ax.text(0, 0, word, size=size)
    width = measured.get_window_extent().width * 72 / ax.figure.dpi
    measured.remove()
    return float(width) + 4


def _write_head(ax: Axes, one: Explanation) -> None:
    """Write base value and prediction above the text."""
    values = one.values[0]
    base = format_end(float(one.base_values[0]), values)
    prediction = format_end(float(one.predictions[0]), values)
    name = one.output_names[0]
    what = "prediction" if name == "output" else shorten(name, 40)
    head = f"{what}: {prediction}, from a base value of {base}"
    _write(ax, head, EDGE, EDGE, size=SMALL + 1, ha="left", va="top", color=INK)


def _write_words(ax: Axes, placed: list[_Placed], values: Floats) -> None:
    """Write words on their colours, and numbers below them."""
    far = float(np.abs(values).max(initial=0.0)) or 1.0
    colours = ScalarMappable(Normalize(-far, far), BY_SIGN)
    for word in placed:
        hue = colour_of(colours, word.value)
        _write(
            ax,
            word.word,
            word.x,
            word.y,
            size=SIZE,
            ha="center",
            va="top",
            color=ink_on(hue),
            bbox={"boxstyle": "round,pad=0.18", "facecolor": hue, "edgecolor": "none"},
        )
        if word.number:
            below = word.y + 1.55 * SIZE
            _write(
                ax,
                word.number,
                word.x,
                below,
                size=SMALL - 1,
                ha="center",
                va="top",
                color=INK,
            )


def _write(ax: Axes, words: str, x: float, y: float, **look: object) -> None:
    """Write words at a place in points from the top left of the axes."""
    ax.annotate(
        words,
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(x, -y),
        textcoords="offset points",
        annotation_clip=False,
        **look,  # type: ignore[arg-type]
    )
