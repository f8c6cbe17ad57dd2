"""Points, one for every row: all players' values at once, and one player's values against what it
is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colorbar import Colorbar
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from shearshap.errors import InputError
from shearshap.explanation import Explanation, Floats
from shearshap.plots.canvas import (
    GREY,
    INK,
    KINDS,
    LEVEL,
    LOW_TO_HIGH,
    SMALL,
    VALUE,
    Ints,
    about,
    axes_of,
    checked_count,
    largest,
    lines,
    missing,
    one_output,
    player_number,
    shorten,
    tidy,
)
from shearshap.plots.network import strengths

_WIDE = 0.42  #: half the height of a swarm, of the distance between two
_DOT = 4.0  #: points: diameter
_MANY = 5_000  #: points beyond which they are drawn as one picture in a vector graphic
_KINDS = 12  #: categories on an axis, at most
_COLOURED = 6  #: categories with a colour of their own, at most


@dataclass(frozen=True, eq=False)
class _Column:
    """What a player is in every row: numbers, or the numbers of categories."""

    numbers: Floats  #: (r,) with NaN where there is none
    categories: list[str] | None = None  #: what 0, 1, ... stands for
    others: int = -1  #: the number of the rarest together, if there is


def beeswarm(explanation: Explanation, *, max_players: int = 15, ax: Axes | None = None) -> Axes:
    """Draw every row's values, a swarm of points for each player, the largest mean size first.

    A point's colour is the rank of the player's `data` among the rows, from blue (low) to red
    (high); it is grey where there is no number.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    max_players
        How many players to show; the others are left out, and counted below.
    ax
        Where to draw; None: a new figure.
    """
    one = one_output(explanation, "beeswarm")
    kept = largest(np.abs(one.values).mean(axis=0), checked_count("max_players", max_players))
    values = one.values[:, kept]
    ax = axes_of(ax, 6.8, 1.4 + 0.38 * len(kept))
    lines(ax, [shorten(one.feature_names[player]) for player in kept])
    ax.axvline(0, color=GREY, linewidth=0.8, zorder=1)
    tidy(ax, "both")
    ranks = (
        np.full_like(values, np.nan)
        if one.data is None
        else _ranks(np.asarray(one.data, np.float64)[:, kept])
    )
    place = np.arange(len(kept)) + swarm(values, *_room(ax, len(kept), vertical=True))
    dots = _dots(ax, values.reshape(-1), place.reshape(-1), ranks.reshape(-1), limits=(0, 1))
    if not np.isnan(ranks).all():
        bar = _colour_bar(ax, dots, "the player's value, by rank")
        bar.set_ticks([0, 1], labels=["low", "high"])
    left_out = one.values.shape[1] - len(kept)
    ax.set_xlabel(about(one, "Shapley value", left_out))
    return ax


def dependence(
    explanation: Explanation,
    player: int | str,
    *,
    cooperator: int | str | None = None,
    errors: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a player's values against what it is in each row, coloured by the player that it acts
    with most.

    Parameters
    ----------
    explanation
        Of one output, with `data` or `display_data`.
    player
        Its name or number. Texts in `display_data` that are not all numbers are categories, the
        rarest as "others".
    cooperator
        The player to colour by; None: the one with the largest mean cross-contribution, or where
        there is none the largest mean |interaction|.
    errors
        Whether to draw the 95 % intervals.
    ax
        Where to draw; None: a new figure.
    """
    one = one_output(explanation, "dependence")
    number = player_number(one, player, "player")
    other = (
        _strongest(one, number)
        if cooperator is None
        else player_number(one, cooperator, "cooperator")
    )
    own, colour = _column(one, number, _KINDS), _column(one, other, _COLOURED)
    bounds = one.interval(LEVEL) if errors else None
    ax = axes_of(ax, 6.4, 4.2)
    place = _category_axis(ax, own, one.values[:, number]) if own.categories else own.numbers
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    tidy(ax, "y" if own.categories else "both")
    if bounds is not None:
        ax.vlines(
            place, bounds[0][:, number], bounds[1][:, number], color=GREY, linewidth=0.6, zorder=2
        )
    _coloured(ax, place, one.values[:, number], colour, shorten(one.feature_names[other]))
    empty = int(np.isnan(place).sum())
    ax.set_xlabel(
        shorten(one.feature_names[number]) + (f" ({empty} rows without a number)" if empty else "")
    )
    ax.set_ylabel(about(one, "Shapley value", intervals=errors, letters=28))
    return ax


def swarm(values: Floats, bins: int, levels: float) -> Floats:
    """Return how far each point (r, q) stands off the middle of its column's swarm, within +-0.42.

    Points of a column whose values fall into the same of so many bins stand at 0, 1, -1, 2, -2, ...
    dots from the middle; `levels` is how many dots fit beside each other. A fuller swarm is
    squeezed.
    """
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    width = (high - low) / bins or 1.0
    keys = np.floor((values - low) / width).astype(np.int64) + np.arange(values.shape[1]) * (
        bins + 2
    )
    place = _rank_within(keys.reshape(-1)).reshape(values.shape)
    steps = (place + 1) // 2 * np.where(place % 2 == 1, 1, -1)  # 0, 1, -1, 2, -2, ...
    farthest = np.abs(steps).max(axis=0, initial=1)
    return np.asarray(steps * np.minimum(2 * _WIDE / levels, _WIDE / farthest))


def _rank_within(keys: Ints) -> Ints:
    """Return for each key (n,) how many equal ones stand before it."""
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(keys)) - np.searchsorted(sorted_keys, sorted_keys)
    return rank


def _room(ax: Axes, columns: int, *, vertical: bool) -> tuple[int, float]:
    """Return how many dots fit along the values, and across one of the swarms, which stack
    vertically or do not.
    """
    box = ax.get_window_extent()
    dot = _DOT * ax.figure.dpi / 72
    along, across = (box.width, box.height) if vertical else (box.height, box.width)
    return max(1, int(0.9 * along / dot)), max(1.0, 2 * _WIDE * across / columns / dot)


def _ranks(data: Floats) -> Floats:
    """Return each column's ranks from 0 to 1, equal for equal numbers, NaN for those that are not
    numbers.
    """
    ranks = np.full(data.shape, np.nan)
    for column in range(data.shape[1]):
        known = np.isfinite(data[:, column])
        kinds, place, counts = np.unique(
            data[known, column], return_inverse=True, return_counts=True
        )
        middle = np.cumsum(counts) - (counts + 1) / 2
        ranks[known, column] = (middle / max(1, known.sum() - 1))[place] if len(kinds) > 1 else 0.5
    return ranks


def _dots(
    ax: Axes, x: Floats, y: Floats, colour: Floats, *, limits: tuple[float, float]
) -> PathCollection:
    """Draw points: those without a colour first, in grey."""
    known = ~np.isnan(colour)
    look = _look(len(x))
    if not known.all():
        ax.scatter(x[~known], y[~known], color=GREY, zorder=2, **look)
    low, high = limits
    return ax.scatter(
        x[known], y[known], c=colour[known], cmap=LOW_TO_HIGH, vmin=low, vmax=high, zorder=3, **look
    )


def _look(points: int) -> dict[str, Any]:
    return {"s": _DOT**2, "linewidths": 0, "alpha": 0.85, "rasterized": points > _MANY}


def _strongest(one: Explanation, player: int) -> int:
    """Return the player that acts with one the most, on the mean over rows."""
    found = strengths(one)
    if found is None:
        raise InputError(
            "dependence: this explanation does not say which players act together; "
            "explain with interactions=True, or choose one to colour by: cooperator="
        )
    together = np.abs(found.strength).mean(axis=0)[player]
    together[player] = -1
    return int(together.argmax())  # of a single player, itself


def _column(one: Explanation, player: int, kinds: int) -> _Column:
    """Return what a player is in every row, with no more categories than `kinds` and "others"."""
    if one.display_data is None and one.data is None:
        raise InputError(
            "dependence needs the rows' data, this explanation has neither data nor display_data"
        )
    told = one.data[:, player] if one.display_data is None else one.display_data[:, player]  # type: ignore[index]
    try:
        numbers = np.array([np.nan if missing(value) else float(value) for value in told])
        return _Column(np.where(np.isfinite(numbers), numbers, np.nan))
    except (TypeError, ValueError):
        texts = np.array(["missing" if missing(value) else str(value) for value in told])
        return _categories(texts, None if one.data is None else one.data[:, player], kinds)


def _categories(texts: Any, data: Floats | None, kinds: int) -> _Column:
    """Return categories in the order of their mean `data`, or the most frequent first; the rarest
    are "others".
    """
    names, place, counts = np.unique(texts, return_inverse=True, return_counts=True)
    kept = np.argsort(-counts, kind="stable")[: len(names) if len(names) <= kinds else kinds - 1]
    if data is not None:
        means = np.bincount(place, weights=np.nan_to_num(data)) / counts
        kept = kept[np.argsort(means[kept], kind="stable")]
    numbers = np.full(len(names), float(len(kept)))
    numbers[kept] = np.arange(len(kept))
    if len(kept) == len(names):
        return _Column(numbers[place], names[kept].tolist())
    return _Column(
        numbers[place],
        [*names[kept].tolist(), f"{len(names) - len(kept)} others"],
        others=len(kept),
    )


def _category_axis(ax: Axes, own: _Column, values: Floats) -> Floats:
    """Put categories on the x-axis, and return where each row's point stands: beside those of like
    value.
    """
    assert own.categories is not None
    names = [shorten(name, VALUE) for name in own.categories]
    count = len(names)
    slanted = sum(map(len, names)) > 60 or max(map(len, names)) * count > 70
    ax.set_xticks(range(count), names)
    if slanted:
        ax.tick_params(axis="x", rotation=35)
        for text in ax.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    ax.set_xlim(-0.6, count - 0.4)
    member = own.numbers[:, None] == np.arange(count)
    low, high = values.min(), values.max()
    spread = np.zeros(len(values))
    bins, levels = _room(ax, count, vertical=False)
    for kind in range(count):
        # the ends of the whole range, so that bins are as high in every category
        inside = np.concatenate((values[member[:, kind]], [low, high]))
        spread[member[:, kind]] = swarm(inside[:, None], bins, levels)[:-2, 0]
    return own.numbers + spread


def _coloured(ax: Axes, x: Floats, y: Floats, colour: _Column, name: str) -> None:
    """Draw points coloured by a cooperator: its categories with a legend, its numbers with a bar."""
    if colour.categories is not None:
        hues = [
            GREY if kind == colour.others else KINDS[kind] for kind in range(len(colour.categories))
        ]
        ax.scatter(x, y, c=[hues[int(kind)] for kind in colour.numbers], **_look(len(x)))
        _legend(ax, name, dict(zip(colour.categories, hues, strict=True)))
        return
    known = colour.numbers[~np.isnan(colour.numbers)]
    low, high = _limits(known)
    dots = _dots(ax, x, y, colour.numbers, limits=(low, high))
    if known.size:
        beyond = {
            (False, False): "neither",
            (True, False): "min",
            (False, True): "max",
            (True, True): "both",
        }
        _colour_bar(ax, dots, name, beyond[bool(known.min() < low), bool(known.max() > high)])


def _limits(known: Floats) -> tuple[float, float]:
    """Return the numbers where colours begin and end: percentiles, unless nearly all numbers are
    the same.
    """
    if not known.size:
        return 0.0, 1.0
    for low, high in (np.percentile(known, [5, 95]), (known.min(), known.max())):
        if low < high:
            return float(low), float(high)
    return float(known[0]) - 1, float(known[0]) + 1


def _legend(ax: Axes, title: str, hues: dict[str, str]) -> None:
    """Say beside the axes which category has which colour."""
    marks = [
        Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            color=hue,
            markersize=5,
            label=shorten(category, VALUE),
        )
        for category, hue in hues.items()
    ]
    ax.legend(
        handles=marks, title=title, loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=SMALL,
        title_fontproperties={"size": SMALL}, labelcolor=INK, alignment="left", handletextpad=0.2,
    )  # fmt: skip


def _colour_bar(ax: Axes, dots: PathCollection, label: str, extend: str = "neither") -> Colorbar:
    """Draw a bar of the points' colours, without their transparency, beside the axes."""
    colours = ScalarMappable(norm=dots.norm, cmap=dots.cmap)
    bar = ax.figure.colorbar(
        colours,
        ax=ax,
        aspect=30,
        pad=0.02,
        extend=extend,
        ticks=MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]),
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(color=GREY, labelcolor=INK, labelsize=SMALL, length=2)
    bar.set_label(label, color=INK, size=SMALL)
    return bar
