"""Axes of numbers: ticks that have room for their labels, and labels without an offset beside them.

matplotlib takes out what labels have in common, and writes it at the end of the axis: "1e6", or
"+1.2e3". There it meets other texts, and readers miss it. Here each label is a whole number.
"""

from collections.abc import Sequence
from math import floor, log10
from typing import Any

import numpy as np
from matplotlib.axis import Axis, YAxis
from matplotlib.ticker import Formatter, MaxNLocator

from shearshap.result.digits import format_number, true_minus
from shearshap.result.explanation import Floats

SMALL = 9  #: points: the size of labels
LETTER = 0.62  #: the width of a letter, relative to its size
BETWEEN = 1.5  #: letters between two labels, at least
MOST_TICKS = 8
STEPS = (1, 2, 2.5, 5, 10)


def number_axis(axis: Axis, most: int = MOST_TICKS) -> None:
    """Give an axis ticks that have room for their labels, and labels that need no offset."""
    axis.set_major_locator(RoomyLocator(most))
    axis.set_major_formatter(WholeFormatter())


class WholeFormatter(Formatter):
    """Writes every tick as a whole number, with the decimals that the distance of ticks needs."""

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
    step = float(np.abs(np.diff(numbers)).min()) if len(numbers) > 1 else largest
    if not largest or not np.isfinite(largest):
        return ["0"] * len(numbers)

    if not 1e-4 <= largest < 1e10 or (step and step < 1e-6):
        digits = max(1, 1 + floor(log10(largest)) - floor(log10(step or largest)) + 1)
        return [true_minus(f"{number + 0.0:.{digits}g}") for number in _without_rounding(numbers)]
    places = _step_places(step)
    return [format_number(float(number), places) for number in numbers]


def _step_places(step: float) -> int:
    """Return the decimals of a distance: 2 of 0.25, 0 of 5."""
    if not step:
        return 2
    first = max(0, -floor(log10(step) + 1e-9))
    scaled = step * 10**first
    is_round = abs(scaled - round(scaled)) < 1e-6 * max(1.0, scaled)
    return first if is_round else first + 1


def _without_rounding(numbers: Floats) -> Floats:
    """Return numbers with 0 where they are 0 up to rounding."""
    return np.where(np.abs(numbers) < 1e-9 * np.abs(numbers).max(), 0.0, numbers)


class RoomyLocator(MaxNLocator):
    """Puts as many ticks on an axis as their labels have room for."""

    def __init__(self, most: int = MOST_TICKS) -> None:
        super().__init__(most, steps=list(STEPS))
        self.most = most

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
        if not isinstance(axis, Axis) or len(ticks) < 2:
            return True
        seen = ticks[(ticks >= min(vmin, vmax)) & (ticks <= max(vmin, vmax))]
        if len(seen) < 2:
            return True

        box = axis.axes.get_window_extent()
        letter = SMALL * axis.axes.figure.dpi / 72
        if isinstance(axis, YAxis):
            length = box.height
            needed = 2 * letter
        else:
            length = box.width
            longest = max(len(label) for label in tick_labels(seen.tolist()))
            needed = LETTER * letter * (longest + BETWEEN)
        distance = length * (seen[1] - seen[0]) / abs(vmax - vmin)
        return bool(distance >= needed)
