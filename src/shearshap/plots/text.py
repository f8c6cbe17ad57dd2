"""The plot of a text whose words have the colours of their values."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.text import Annotation

from shearshap.plots import canvas, words
from shearshap.plots.words import scaled, type_size
from shearshap.result import views
from shearshap.result.colours import INK, sign_colour
from shearshap.result.explanation import Explanation
from shearshap.result.text import format_end, format_numbers

SIZE = 14.0  #: points: the size of words
WIDTH = 7.4  #: inches
EDGE = 10.0  #: points around all
BETWEEN = 9.0  #: points between two words
MAX_NUMBERED = 60  #: words up to which each has its number below


@canvas.plot
def text(
    explanation: Explanation,
    *,
    row: canvas.Row = 0,
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
        Of texts, with one output; from several take `explanation.output(name)`. For other rows, the
        names of the features are the words.
    """
    explanation = canvas.single_output(explanation, "text")
    number = canvas.row_number(explanation, row)
    one = views.of_row(explanation, number)
    figure = None
    if ax is None:
        figure = plt.figure(figsize=(WIDTH, 2.0))
        ax = figure.add_axes((0, 0, 1, 1))
    ax.axis("off")
    words.write_title(ax, title, explanation, number)
    values = one.values[0]
    base = format_end(float(one.base_values[0]), values)
    prediction = format_end(float(one.predictions[0]), values)
    what = "" if words.output_label(one) in ax.get_title() else words.output_label(one)
    head = f"{what or 'prediction'} {prediction}, from a base value of {base}"
    _write(ax, head, type_size(), INK, ha="left").xyann = (EDGE, -EDGE)
    bottom = _write_words(ax, one)
    if figure is not None:
        lines = ax.get_title().count("\n") + 1
        height = bottom + 2.4 * type_size()
        whole = height + (1.3 * lines + 1) * type_size(1)
        figure.set_size_inches(WIDTH, whole / 72)
        ax.set_position((0, 0, 1, height / whole))
    hues = [sign_colour(value) for value in values.tolist() if value]
    marks = canvas.sign_marks(hues)
    ax.legend(handles=marks, loc="lower left", ncols=2, borderaxespad=0.2, **canvas.key_look())
    return canvas.finished(ax, show=show)


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
    size = scaled(SIZE)
    height = (3.0 if numbered else 2.0) * size
    room = words.width_in_points(ax) - 2 * EDGE

    left = 0.0
    top = EDGE + 2.2 * size
    pieces = one.feature_names
    if one.texts is not None and one.display_data is not None:
        pieces = [str(piece) for piece in one.display_data[0]]  # such as documents
    for piece, number, value in zip(pieces, numbers, values.tolist(), strict=True):
        hue = canvas.BY_SIGN(scale(value))
        word = _write(ax, words.fitted(piece, 0.75 * room), size, canvas.ink_on(hue))
        word.set_bbox({"boxstyle": "round,pad=0.18", "facecolor": hue, "edgecolor": "none"})
        lines = {0.0: word}  # how far below the top
        if numbered:
            lines[1.55 * size] = _write(ax, number, type_size(-1), INK)

        width = max(line.get_window_extent().width for line in lines.values())
        width = width * 72 / ax.figure.dpi + 4
        if left and left + width > room:
            left = 0.0
            top += height
        for down, line in lines.items():
            line.xyann = (EDGE + left + width / 2, -top - down)
        left += width + BETWEEN
    return top + height


def _write(ax: Axes, text: str, size: float, colour: str, ha: str = "center") -> Annotation:
    """Write a text; its place is in points from the top left of the axes, to be set."""
    return ax.annotate(
        text,
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(0, 0),
        textcoords="offset points",
        annotation_clip=False,
        ha=ha,
        va="top",
        size=size,
        color=colour,
    )
