"""The plot of an image's values: patches in colours over the picture."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_rgb
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.plots import canvas
from shearshap.result.colours import LOWERS, RAISES
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.text import format_end

CHANNELS = (1, 3, 4)  #: of pictures: grey, colours, colours and transparency
LUMINANCE = np.array([0.299, 0.587, 0.114])  #: how bright red, green and blue are to the eye
LOW = 0.4  #: height of a picture, relative to its width, beside which a bar of colours is too short
OPACITY = 0.85  #: of the patch with the largest value
DARKEST = 0.65  #: brightness of black in the faded picture, so that colours are seen on it

Ints = NDArray[np.int64]


@canvas.plot
def image(
    explanation: Explanation,
    picture: Any,
    *,
    mask: Any = None,
    row: int = 0,
    ax: Axes | None = None,
    title: str | None = None,
    show: bool = False,
) -> Axes:
    """Draw patches in the colours of their values over a picture, in grey.

    Orange patches raise the output and blue ones lower it; the stronger, the less is seen of the
    picture.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    picture
        The picture of the row: (height, width), with channels first or last, or without. An array
        or a tensor.
    mask
        Which pixel belongs to which feature: what `groups` was for the explainer. None: every pixel
        is a feature.
    row
        Which of the explanation's rows.
    """
    explanation = canvas.single_output(explanation, "image")
    row = canvas.row_number(explanation, row)
    grey = _grey(picture)
    owners = _owners(mask, grey.shape, explanation.values.shape[1])
    values = explanation.values[row]

    height, width = grey.shape
    ax = canvas.axes_of(ax, 4.9, 0.8 + 3.9 * min(1.6, max(0.4, height / width)))
    canvas.write_question(ax, explanation, row)
    far = float(np.abs(values).max()) or 1.0
    ax.imshow(grey, cmap="gray", vmin=0, vmax=1, interpolation="nearest", zorder=1)
    ax.imshow(_overlay(values[owners], far), interpolation="nearest", zorder=2)
    _draw_borders(ax, owners)

    canvas.tidy(ax, "both")
    ax.grid(visible=False)
    ax.set(xticks=[], yticks=[])
    ax.spines["bottom"].set_visible(False)
    prediction = format_end(float(explanation.predictions[row]), values)
    base = format_end(float(explanation.base_values[row]), values)
    what = ": ".join(
        filter(None, (canvas.output_label(explanation, 24), f"prediction {prediction}"))
    )
    ax.set_xlabel(f"{what}\nbase value {base}")
    colours = ScalarMappable(Normalize(-far, far), canvas.BY_SIGN)
    as_high = height > LOW * width
    canvas.draw_colour_bar(ax, colours, explanation.semivalue, signed=True, as_high=as_high)
    return canvas.finished(ax, title, show)


def _grey(picture: Any) -> Floats:
    """Return a picture as brightness from DARKEST to 1, (height, width)."""
    numbers = _plain(picture)
    if numbers.ndim == 3:
        single = numbers.shape[2] == 1
        numbers = numbers[:, :, 0] if single else numbers[:, :, :3] @ LUMINANCE
    if numbers.ndim != 2:
        raise InputError(
            "picture: expected (height, width), with channels first or last, or without, got "
            f"{tuple(np.shape(picture))}"
        )

    low = float(np.nanmin(numbers))
    span = float(np.nanmax(numbers)) - low
    bright = (np.nan_to_num(numbers, nan=low) - low) / span if span else np.ones(numbers.shape)
    return np.asarray(DARKEST + (1 - DARKEST) * bright)


def _plain(picture: Any) -> Floats:
    """Return an array or a tensor, on any device, as numbers; the channels of a picture come last.

    If both ends could be channels, the last ones are.
    """
    if hasattr(picture, "detach"):
        picture = picture.detach().cpu()
    numbers = np.asarray(picture, dtype=np.float64)
    if numbers.ndim != 3 or numbers.shape[2] in CHANNELS:
        return numbers
    if numbers.shape[0] in CHANNELS:
        return np.moveaxis(numbers, 0, 2)
    raise InputError(f"picture: expected 1, 3 or 4 channels, got an array {numbers.shape}")


def _owners(mask: Any, shape: tuple[int, ...], players: int) -> Ints:
    """Return the number of each pixel's feature, (height, width)."""
    height, width = shape
    if mask is None:
        if players != height * width:
            raise InputError(
                f"image: {players} features are not {height} x {width} pixels; say which pixel "
                "belongs to which feature: mask="
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


def _overlay(values: Floats, far: float) -> Floats:
    """Return values (height, width) as colours, the more opaque the larger: (height, width, 4)."""
    colours = np.where((values < 0)[:, :, None], to_rgb(LOWERS), to_rgb(RAISES))
    opacity = OPACITY * np.abs(values) / far
    return np.dstack((colours, opacity))


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
