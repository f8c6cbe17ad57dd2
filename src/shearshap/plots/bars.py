"""Bars: one row from its base value to its prediction, and the size of shares over many rows."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from shearshap.digits import decimals, least, written
from shearshap.explanation import Explanation, Floats
from shearshap.plots.canvas import (
    GREY,
    INK,
    VALUE,
    about,
    axes_of,
    checked_count,
    checked_row,
    column,
    largest,
    lines,
    margins,
    one_output,
    shorten,
    shown_value,
    sign_colours,
    tidy,
    with_margin,
)

_WHISKER = {"fmt": "none", "ecolor": INK, "elinewidth": 1.0, "capsize": 2.5}


@dataclass(frozen=True, eq=False)
class _Steps:
    """The bars of a waterfall, from the top down."""

    labels: list[str]
    sizes: Floats  #: (n,)
    margins: Floats  #: (n,) half the length of the interval, 0 where there is none
    colours: list[str]


def waterfall(
    explanation: Explanation, *, row: int = 0, max_players: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw how the players' values lead from a row's base value to its prediction, the largest
    first.

    The players beyond `max_players` are summed as "n others". Whiskers and ± are 95 % intervals of
    the single values; a sum has none, as how its parts err together is not known. What the values
    miss of the prediction, if anything, is a bar of its own, the gap.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    row
        Which of the explanation's rows.
    max_players
        How many players to show one by one; a single one beyond is shown too.
    ax
        Where to draw; None: a new figure.
    """
    one = one_output(explanation, "waterfall")
    one = one[checked_row(one, row)]
    steps = _steps(one, checked_count("max_players", max_players))
    base, prediction = float(one.base_values[0]), float(one.predictions[0])
    ax = axes_of(ax, 6.4, 1.2 + 0.3 * (len(steps.sizes) + 2))
    ax.use_sticky_edges = False
    starts = base + np.concatenate(([0.0], np.cumsum(steps.sizes)))
    _draw_steps(ax, steps, starts)
    ax.plot([base, prediction], [0, len(starts)], "D", color=INK, markersize=4, zorder=3)
    lines(ax, ["base value", *steps.labels, "prediction"])
    places = decimals(steps.sizes)
    shares = [
        with_margin(*pair, places)
        for pair in zip(steps.sizes.tolist(), steps.margins.tolist(), strict=True)
    ]
    column(ax, [written(base, places), *shares, written(prediction, places)])
    ax.set_xlabel(
        about(one, "from base value to prediction", intervals=bool((steps.margins > 0).any()))
    )
    tidy(ax, "x")
    return ax


def bar(explanation: Explanation, *, max_players: int = 15, ax: Axes | None = None) -> Axes:
    """Draw the mean size of every player's value over the rows, the largest first; of a single row,
    the values.

    Whiskers are 95 % intervals of the estimate for these rows. For a mean they are the mean of the
    rows' intervals: what holds even if all rows err together, as rows that share their coalitions
    may. They do not say how the mean would differ for other rows.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    max_players
        How many players to show; the others are left out, and counted below.
    ax
        Where to draw; None: a new figure.
    """
    one = one_output(explanation, "bar")
    single = len(one) == 1
    sizes = one.values[0] if single else np.abs(one.values).mean(axis=0)
    kept = largest(sizes, checked_count("max_players", max_players))
    ax = axes_of(ax, 6.4, 1.2 + 0.3 * len(kept))
    ax.use_sticky_edges = not single
    ax.barh(
        range(len(kept)),
        sizes[kept],
        height=0.62,
        color=sign_colours(sizes[kept]) if single else GREY,
    )
    spread = margins(one)
    if spread is not None:
        margin = spread.mean(axis=0)[kept]
        down = margin if single else np.minimum(margin, sizes[kept])  # a mean size is not below 0
        ax.errorbar(sizes[kept], range(len(kept)), xerr=np.stack((down, margin)), **_WHISKER)  # type: ignore[arg-type]
    ax.axvline(0, color=GREY, linewidth=0.8)
    lines(
        ax,
        [_label(one, player) if single else shorten(one.feature_names[player]) for player in kept],
    )
    places = decimals(sizes)
    column(ax, [written(size, places, sign=single) for size in sizes[kept].tolist()])
    what = "Shapley value" if single else f"mean |Shapley value| of {len(one):,} rows"
    ax.set_xlabel(about(one, what, len(sizes) - len(kept), intervals=spread is not None))
    tidy(ax, "x")
    return ax


def _steps(one: Explanation, max_players: int) -> _Steps:
    """Return the bars of one row's waterfall: the largest players, the others as one, and the gap."""
    values, spread = one.values[0], margins(one)
    kept = largest(values, max_players + (len(values) == max_players + 1))
    labels = [_label(one, player) for player in kept]
    sizes, colours = values[kept].tolist(), sign_colours(values[kept])
    sure = np.zeros(len(kept)) if spread is None else spread[0, kept]
    if len(kept) < len(values):
        rest = float(values.sum() - values[kept].sum())
        labels.append(f"{len(values) - len(kept)} others")
        sizes.append(rest)
        colours += sign_colours(np.array([rest]))
    gap = float(one.gap[0])
    steps = np.array([*sizes, gap])
    if abs(gap) >= least(np.abs(steps).max(), decimals(steps)):
        labels.append("gap (not shared out)")
        sizes.append(gap)
        colours.append(GREY)
    return _Steps(labels, np.array(sizes), np.pad(sure, (0, len(sizes) - len(sure))), colours)


def _draw_steps(ax: Axes, steps: _Steps, starts: Floats) -> None:
    """Draw every bar from where the one before it ends, (n + 1,) with the last end, and whiskers at
    their ends.
    """
    line = np.arange(1, len(starts))
    ax.barh(line, steps.sizes, left=starts[:-1], height=0.62, color=steps.colours, zorder=2)
    ax.vlines(
        starts,
        np.append(0, line),
        np.append(line, len(starts)),
        color=GREY,
        linewidth=0.8,
        zorder=1,
    )
    sure = steps.margins > 0
    if sure.any():
        ax.errorbar(starts[1:][sure], line[sure], xerr=steps.margins[sure], zorder=3, **_WHISKER)  # type: ignore[arg-type]


def _label(one: Explanation, player: int) -> str:
    """Return a player's name with its value in the first row, where that is known."""
    name, value = shorten(one.feature_names[player]), shown_value(one, player)
    return f"{name} = {shorten(value, VALUE)}" if value else name
