"""The plot of a text whose words have the colours of their values."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.text import Annotation

from shearshap.interop.shap import takes_shap_options
from shearshap.plots import canvas
from shearshap.result import views
from shearshap.result.colours import INK
from shearshap.result.explanation import Explanation
from shearshap.result.text import against, format_end, format_numbers

SIZE = 12  #: points: the size of words
WIDTH = 6.8  #: inches
EDGE = 10.0  #: points around all
BETWEEN = 5.0  #: points between two words
MAX_NUMBERED = 60  #: words up to which each has its number below
WORD_LETTERS = 30  #: letters of a word, at most


@takes_shap_options
def text(
    explanation: Explanation,
    *,
    row: int = 0,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
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
    title
        Written above; None: nothing.
    show
        Whether to show the figure at once, as a script must.
    """
    explanation = canvas.single_output(explanation, "text")
    one = views.of_row(explanation, canvas.row_number(explanation, row))
    figure = None
    if ax is None:
        figure = plt.figure(figsize=(WIDTH, 2.0))
        ax = figure.add_axes((0, 0, 1, 1))
    ax.axis("off")
    _write_head(ax, one)
    bottom = _write_words(ax, one)
    if figure is not None:
        height = bottom + 3.2 * canvas.SMALL
        whole = height + (0 if title is None else 3 * canvas.SMALL)
        figure.set_size_inches(WIDTH, whole / 72)
        ax.set_position((0, 0, 1, height / whole))
    marks = [canvas.colour_mark(label, hue) for label, hue in canvas.SIGNS.items()]
    ax.legend(handles=marks, loc="lower left", ncols=2, borderaxespad=0.2, **canvas.KEY)
    return canvas.finished(ax, title, show)


def _write_head(ax: Axes, one: Explanation) -> None:
    """Write base value and prediction above the text."""
    values = one.values[0]
    base = format_end(float(one.base_values[0]), values)
    prediction = format_end(float(one.predictions[0]), values)
    what = canvas.output_label(one, 24) or "prediction"
    words = f"{what}: {prediction}, from a base value of {base}"
    head = _write(ax, ", ".join(filter(None, (words, against(one)))), canvas.SMALL + 1, INK)
    head.set_horizontalalignment("left")
    head.xyann = (EDGE, -EDGE)


def _write_words(ax: Axes, one: Explanation) -> float:
    """Write words on their colours, line by line, and return where the last line ends, in points.

    A word and the number below it are written first, and moved to their place once their width is
    known.
    """
    values = one.values[0]
    far = float(np.abs(values).max(initial=0.0)) or 1.0
    scale = Normalize(-far, far)
    numbers = format_numbers(values, sign=True)
    numbered = len(values) <= MAX_NUMBERED
    height = (3.0 if numbered else 2.0) * SIZE
    room = canvas.width_in_points(ax) - 2 * EDGE

    left = 0.0
    top = EDGE + 2.2 * SIZE
    words = zip(one.feature_names, numbers, values.tolist(), strict=True)
    for name, number, value in words:
        hue = canvas.BY_SIGN(scale(value))
        word = _write(ax, canvas.shorten(name, WORD_LETTERS), SIZE, canvas.ink_on(hue))
        word.set_bbox({"boxstyle": "round,pad=0.18", "facecolor": hue, "edgecolor": "none"})
        lines = {0.0: word}  # how far below the top
        if numbered:
            lines[1.55 * SIZE] = _write(ax, number, canvas.SMALL - 1, INK)

        width = max(line.get_window_extent().width for line in lines.values())
        width = width * 72 / ax.figure.dpi + 4
        if left and left + width > room:
            left = 0.0
            top += height
        for down, line in lines.items():
            line.xyann = (EDGE + left + width / 2, -top - down)
        left += width + BETWEEN
    return top + height


def _write(ax: Axes, words: str, size: float, colour: str) -> Annotation:
    """Write words; their place is in points from the top left of the axes, to be set."""
    return ax.annotate(
        words,
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(0, 0),
        textcoords="offset points",
        annotation_clip=False,
        ha="center",
        va="top",
        size=size,
        color=colour,
    )
