"""Words on plots: the size of type, texts measured before they are cut, labels and titles."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import ceil
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from shearshap.errors import InputError
from shearshap.result import views
from shearshap.result.colours import INK
from shearshap.result.explanation import Explanation
from shearshap.result.importance import Importance
from shearshap.result.text import against, counted, output_text, shortened
from shearshap.result.views import LEVEL

Context = Literal["paper", "notebook", "talk", "poster"]

TYPE = 11.0  #: points: the size of labels
SCALES = {"paper": 0.8, "notebook": 1.0, "talk": 1.4, "poster": 2.0}  #: of type, by context
NAME_ROOM = 4.6  #: inches for the names beside a new figure's lines, at most
SHARE = 0.775  #: of a figure's width that axes have before labels find their room
KEPT = 8  #: letters before the first in which long names differ
OUTPUT_LETTERS = 48  #: letters of an output's name, at most

_scale: ContextVar[float] = ContextVar("scale", default=1.0)


@contextmanager
def context(size: Context | float) -> Iterator[None]:
    """Draw plots with type for another place: with plots.context("talk"): plots.bar(explanation).

    Parameters
    ----------
    size
        "paper", "notebook" (as without), "talk" or "poster", or how many times as large.
    """
    scale = SCALES.get(size) if isinstance(size, str) else size
    if scale is None or not 0 < scale < 10:
        names = ", ".join(map(repr, SCALES))
        raise InputError(f"context: expected {names} or a positive number, got {size!r}")
    before = _scale.set(scale)
    try:
        yield
    finally:
        _scale.reset(before)


def scaled(size: float) -> float:
    """Return a length in points or inches, in the size of the `context`."""
    return size * _scale.get()


def type_size(more: float = 0.0) -> float:
    """Return the size of labels in points; `more` for smaller or larger type."""
    return scaled(TYPE + more)


# Widths


def text_width(text: str, more: float = 0.0) -> float:
    """Return how wide a text of labels is in points; `more` for smaller or larger type."""
    font = FontProperties(size=type_size(more))
    lines = text.split("\n")
    return max(text_to_path.get_text_width_height_descent(line, font, False)[0] for line in lines)


def width_in_points(ax: Axes) -> float:
    """Return how wide axes are."""
    return float(ax.bbox.width * 72 / ax.figure.dpi)


def height_in_points(ax: Axes) -> float:
    """Return how high axes are."""
    return float(ax.bbox.height * 72 / ax.figure.dpi)


def settled_width(ax: Axes) -> float:
    """Return how wide axes are in points, once the texts around them have found their room."""
    figure = ax.figure.canvas.figure  # not that of a part
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    return width_in_points(ax)


def room_across(ax: Axes) -> float:
    """Return how wide a text above or below axes may be, in points, with names on their left."""
    names = max((text_width(text.get_text()) for text in ax.get_yticklabels()), default=0.0)
    return max(width_in_points(ax) / SHARE - names - 2 * type_size(), 8 * type_size())


def name_room(ax: Axes | None) -> float:
    """Return how wide the names beside lines may be, in points: axes given share theirs."""
    if ax is None:
        return scaled(72 * NAME_ROOM)
    layout = ax.figure.canvas.figure.get_layout_engine()
    return (0.5 if layout is None else 0.6) * width_in_points(ax)


# Texts that fit


def fitted(text: str, room: float) -> str:
    """Return a text on one line; one wider than the room, in points, has an ellipsis inside.

    Dollar signs are escaped, as matplotlib would read what is between two of them as mathematics.
    """
    line = " ".join(text.split())
    width = text_width(line)
    if width > room:
        letters = ceil(len(line) * room / width) + 2
        while letters > 1 and text_width(shortened(line, letters)) > room:
            letters -= 1
        line = shortened(line, letters)
    return line.replace("$", r"\$")


def fitted_names(names: Sequence[str], room: float) -> list[str]:
    """Return names that fit; those that would look the same lose what they begin with alike."""
    return fitted_pairs([(name, "") for name in names], [room] * len(names))


def fitted_pairs(pairs: Sequence[tuple[str, str]], rooms: Sequence[float]) -> list[str]:
    """Return "name = cell", or the name alone if the cell is not known or says the same."""
    between = " = "
    cells = ["" if cell == name else cell for name, cell in pairs]
    rests = [
        max((room - text_width(between)) / 2, room - text_width(between + cell)) if cell else room
        for cell, room in zip(cells, rooms, strict=True)
    ]
    names = [name for name, _ in pairs]
    short = [fitted(name, rest) for name, rest in zip(names, rests, strict=True)]
    narrow = [fitted(name, min(rests)) for name in names]
    for same in set(narrow):
        twins = {name for name, other in zip(names, narrow, strict=True) if other == same}
        if len(twins) > 1:
            letters = enumerate(zip(*twins, strict=False))
            differ = next((at for at, some in letters if len(set(some)) > 1), 0)
            start = max(0, differ - KEPT)
            for place, name in enumerate(names):
                if name in twins and "…" in short[place]:
                    short[place] = fitted(f"…{name[start:]}", rests[place])
    return [
        name + between + fitted(cell, room - text_width(name + between)) if cell else name
        for name, cell, room in zip(short, cells, rooms, strict=True)
    ]


def wrapped(room: float, *parts: str) -> str:
    """Return the parts of a label, each on a new line if it has no room on the last.

    A part that is wider than the room is broken between its words.
    """
    lines = [""]
    for part in filter(None, parts):
        for piece in [part] if text_width(part) <= room else part.split():
            longer = f"{lines[-1]} {piece}".strip()
            if lines[-1] and text_width(longer) > room:
                lines.append(piece)
            else:
                lines[-1] = longer
    return "\n".join(lines)


# Labels and titles


def axis_label(
    ax: Axes,
    content: Explanation | Importance,
    what: str,
    *,
    left_out: int = 0,
    intervals: bool = False,
    room: float | None = None,
) -> str:
    """Return what an axis shows, and how many features are left out.

    It says for which output, unless the title does. Lines are no longer than the room, in points.
    """
    room = room or room_across(ax)
    output = output_label(content)
    if output in " ".join(ax.get_title().split()):
        output = ""
    level = content.level if isinstance(content, Importance) else LEVEL
    errors = f"({100 * level:g} % intervals)" if intervals else ""
    if not intervals and isinstance(content, Explanation) and content.standard_errors is None:
        errors = "(no error bars)"
    label = wrapped(room, what, fitted(f"for {output}", room) if output else "", errors)
    return "\n".join(filter(None, (label, left_out_label(left_out))))


def output_label(content: Explanation | Importance) -> str:
    """Return the one output, such as P(yes); "" if it is not known, or one of several."""
    first, *others = content.output_names
    scale = getattr(content, "scale", None)  # a table of importance has none
    return "" if others else output_text(shortened(" ".join(first.split()), OUTPUT_LETTERS), scale)


def left_out_label(features: int) -> str:
    """Return how many features are left out; "" if none is."""
    return f"{counted(features, 'less important feature')} not shown" if features else ""


def write_title(
    ax: Axes,
    title: str | None,
    content: Explanation | Importance,
    row: int | None = None,
    *,
    rows: str = "",
    pad: float | None = None,
) -> None:
    """Write a title above axes: the user's, or which output and rows are explained, against what.

    The rows are one, by its number, or all; `rows` are other words for them. A table of importance
    knows no background. `pad` is the distance from the axes, in points. A title of the axes stays.
    """
    if title is None:
        if ax.get_title():
            return
        background = ""
        if isinstance(content, Importance):
            rows = rows or counted(sum(content.rows), "row")
        else:
            if row is None and len(content) == 1 and not rows:
                row = 0
            rows = rows or views.rows_text(content)
            if row is not None and content.game is None:
                rows = f"row {content.index[row]}"
            background = against(content).partition(", ")[0]  # how rows were drawn is a detail
        room = room_across(ax) * TYPE / (TYPE + 1)  # the type of titles is larger
        parts = filter(None, (output_label(content), rows, background))
        *firsts, last = (fitted(part, 2 * room) for part in parts)
        title = wrapped(room, *(f"{first}," for first in firsts), last)
    ax.set_title(title, color=INK, size=type_size(1), pad=pad)


def keep_title_inside(ax: Axes) -> None:
    """Move a title that would stick out of its figure to the left or right, once all is drawn."""
    settled_width(ax)
    figure = ax.figure.bbox
    box = ax.title.get_window_extent()
    out = max(0.0, figure.x0 - box.x0) - max(0.0, box.x1 - figure.x1)
    if out and box.width <= figure.width:
        ax.title.set_x(ax.title.get_position()[0] + out / ax.bbox.width)
