"""The plot of images: each picture, and beside it its patches in the colours of their values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.plots import canvas, words
from shearshap.plots.canvas import Row
from shearshap.plots.words import type_size
from shearshap.result.cells import without_mirror
from shearshap.result.colours import INK
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.text import counted, decimals, format_number, output_text

CHANNELS = (1, 3, 4)  #: of pictures: grey, colours, colours and transparency
LUMINANCE = np.array([0.299, 0.587, 0.114])  #: how bright red, green and blue are to the eye
DARKEST = 0.8  #: brightness of black in the faded picture, so that colours are seen on it
BAR = 3.0  #: inches: the height of the colour bar, at most
CELL = 1.7  #: inches: the longer side of one of several pictures; a single one is larger
HEAD = 0.5  #: inches: the height of what is written above a picture
MAX_ROWS = 10  #: pictures, if the user names no rows

Ints = NDArray[np.int64]


@canvas.plot
def image(
    explanation: Explanation,
    picture: Any,
    *,
    mask: Any = None,
    row: Row | Sequence[Row] | None = None,
    outputs: int | Sequence[int | str] = 3,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw pictures, each beside a grey copy whose patches are coloured by their values.

    Orange patches raise the output, blue ones lower it; stronger colours mean more. All share one
    scale. Each output's prediction and base value are written above it.

    Parameters
    ----------
    explanation
        With one or several outputs, such as classes.
    picture
        The picture of one row: (height, width), with channels first or last, or without. Or the
        pictures of all rows, as a list or an array. Arrays or tensors.
    mask
        Which pixel belongs to which feature: what `groups` was for the explainer, such as
        `shearshap.patches`. None: every pixel is a feature.
    row
        Which of the explanation's rows: a number or label, or several. None: all rows that have a
        picture, up to 10.
    outputs
        How many outputs to show, the highest predictions of each picture first; or their names or
        numbers.
    """
    canvas.check_explanation(explanation, "image")
    explanation = without_mirror(explanation)
    pictures = _by_row(explanation, picture, row)
    faded = [_grey(each) for each in pictures.values()]
    owners = _owners(mask, faded[0].shape, explanation.values.shape[1])
    rows, players = explanation.values.shape[:2]
    values = explanation.values.reshape(rows, players, -1)  # (r, p, k)
    chosen = {number: _chosen(explanation, number, outputs) for number in pictures}
    far = max(np.abs(values[at][:, of]).max() for at, of in chosen.items()) or 1.0

    side = CELL if len(pictures) > 1 else 1.5 * CELL
    high, wide = side * np.array(owners.shape) / max(owners.shape)
    columns = 1 + len(next(iter(chosen.values())))
    width = max(columns * (max(wide, 1.3) + 0.15) + 1.2, 4.5)
    ax = canvas.axes_of(ax, width, len(pictures) * (high + HEAD) + 0.8, texts=True)
    only = next(iter(pictures)) if len(pictures) == 1 else None
    words.write_title(ax, title, explanation, only, rows=counted(len(pictures), "row"))
    ax.axis("off")
    colours = ScalarMappable(Normalize(-far, far), canvas.BY_SIGN)
    share = 1 / (1 + HEAD / high)  # of a line's height that is the picture
    for line, ((number, original), grey) in enumerate(zip(pictures.items(), faded, strict=True)):
        box = (1 - (line + 1) / len(pictures), 1 / columns, share / len(pictures))
        shown = _inset(ax, box, 0, "" if only is not None else f"row {explanation.index[number]}")
        shown.imshow(_displayed(original), cmap="gray", interpolation="nearest")
        for place, output in enumerate(chosen[number], start=1):
            cell = _inset(ax, box, place, _ends(explanation, number, output, far))
            hues = colours.to_rgba(values[number, owners, output])[:, :, :3]
            cell.imshow(hues * grey[:, :, None], interpolation="nearest")
            _draw_borders(cell, owners)

    share = min(1.0, 72 * words.scaled(BAR) / words.height_in_points(ax))
    canvas.draw_colour_bar(ax, colours, explanation.semivalue, signed=True, height=share)
    return canvas.finished(ax, show=show)


def _inset(ax: Axes, box: tuple[float, float, float], column: int, head: str) -> Axes:
    """Return axes in a column of a line, whose bottom, width and height are a box."""
    bottom, width, height = box
    cell = ax.inset_axes(((column + 0.04) * width, bottom, 0.92 * width, height))
    cell.set(xticks=[], yticks=[])
    cell.spines[:].set_visible(False)
    cell.set_title(head, size=type_size(-1), color=INK, pad=3)
    return cell


def _ends(explanation: Explanation, row: int, output: int, far: float) -> str:
    """Return an output's prediction and base value, "P(3) 0.981" above "base value 0.100"."""
    single = explanation.output(output)
    places = decimals([far])
    prediction = format_number(float(single.predictions[row]), places)
    base = format_number(float(single.base_values[row]), places)
    name = output_text(single.output_names[0], explanation.scale) or "prediction"
    return f"{words.fitted(name, words.scaled(100))} {prediction}\nbase value {base}"


# Rows, outputs and their pictures


def _by_row(
    explanation: Explanation, picture: Any, row: Row | Sequence[Row] | None
) -> dict[int, Floats]:
    """Return the pictures to draw, channels last, by the numbers of their rows."""
    if hasattr(picture, "detach"):
        picture = picture.detach().cpu()
    rows = len(explanation)
    several = isinstance(picture, list | tuple) or np.ndim(picture) == 4
    if not several and np.ndim(picture) == 3 and np.shape(picture)[0] == rows:
        several = not {np.shape(picture)[0], np.shape(picture)[2]} & set(CHANNELS)
    if several and len(picture) != rows:
        expected = f"one picture, or one per row ({rows})"
        raise InputError(f"picture: expected {expected}, got {len(picture)} pictures")
    if row is None:
        row = list(range(min(rows, MAX_ROWS))) if several else 0
    wanted = [row] if isinstance(row, str | int | np.integer) else list(row)
    numbers = [canvas.row_number(explanation, each) for each in wanted]
    if not several and len(numbers) != 1:
        raise InputError(f"picture: expected {rows} pictures, one per row, got one")
    return {number: _plain(picture[number] if several else picture) for number in numbers}


def _chosen(explanation: Explanation, row: int, outputs: int | Sequence[int | str]) -> list[int]:
    """Return the numbers of the outputs to draw for a row, the highest predictions first."""
    names = explanation.output_names
    if isinstance(outputs, int | np.integer):
        count = canvas.positive_count("outputs", outputs)
        order = np.argsort(-np.atleast_1d(explanation.predictions[row]), kind="stable")
        return [int(number) for number in order[:count]]
    wanted = [outputs] if isinstance(outputs, str) else list(outputs)
    numbers = [names.index(each) if each in names else each for each in wanted]
    for number in numbers:
        explanation.output(number)  # which raises if there is none
    return [int(number) for number in numbers]


def _plain(picture: Any) -> Floats:
    """Return an array or a tensor, on any device, as numbers; the channels of a picture come last.

    If both ends could be channels, the last ones are. A single channel is left out.
    """
    if hasattr(picture, "detach"):
        picture = picture.detach().cpu()
    numbers = np.asarray(picture, dtype=np.float64)
    if numbers.ndim == 3 and numbers.shape[2] not in CHANNELS:
        if numbers.shape[0] not in CHANNELS:
            raise InputError(f"picture: expected 1, 3 or 4 channels, got an array {numbers.shape}")
        numbers = np.moveaxis(numbers, 0, 2)
    if numbers.ndim not in (2, 3):
        raise InputError(
            "picture: expected (height, width), with channels first or last, or without, got "
            f"{numbers.shape}"
        )
    return numbers[:, :, 0] if numbers.ndim == 3 and numbers.shape[2] == 1 else numbers


def _displayed(picture: Floats) -> Floats:
    """Return a picture with numbers from 0 to 1, whatever they were; missing ones are 0."""
    low = float(np.nanmin(picture))
    span = float(np.nanmax(picture)) - low
    return (np.nan_to_num(picture, nan=low) - low) / span if span else np.ones(picture.shape)


def _grey(picture: Floats) -> Floats:
    """Return a picture as brightness from DARKEST to 1, (height, width)."""
    if picture.ndim == 3:
        picture = picture[:, :, :3] @ LUMINANCE
    return np.asarray(DARKEST + (1 - DARKEST) * _displayed(picture))


def _owners(mask: Any, shape: tuple[int, ...], players: int) -> Ints:
    """Return the number of each pixel's feature, (height, width)."""
    height, width = shape
    if mask is None:
        if players != height * width:
            raise InputError(
                f"image: {players} features are not {height} x {width} pixels; pass mask=, the "
                "feature of each pixel"
            )
        return np.arange(players).reshape(shape)

    owners = _plain(mask)
    if owners.ndim == 3:
        owners = owners[..., 0]
    if owners.shape != shape:
        raise InputError(f"mask: expected the picture's {height} x {width}, got {owners.shape}")
    numbers, places = np.unique(owners, return_inverse=True)
    if len(numbers) != players:
        raise InputError(
            f"mask: expected {players} features, as the explanation has, got {len(numbers)}"
        )
    return places.reshape(shape)


# Borders


def _draw_borders(ax: Axes, owners: Ints) -> None:
    """Draw thin lines between the pixels of different features; none if each has its own."""
    if len(np.unique(owners)) == owners.size:
        return
    upright = [
        [(x + 0.5, y - 0.5), (x + 0.5, y + 0.5)]
        for y, x in np.argwhere(owners[:, 1:] != owners[:, :-1]).tolist()
    ]
    flat = [
        [(x - 0.5, y + 0.5), (x + 0.5, y + 0.5)]
        for y, x in np.argwhere(owners[1:] != owners[:-1]).tolist()
    ]
    ax.add_collection(
        LineCollection(upright + flat, colors="white", linewidths=0.6, alpha=0.6, zorder=3),
        autolim=False,
    )
