"""The plot of all values, a swarm of points for each feature."""

import numpy as np
from matplotlib.axes import Axes

from shearshap.plots.canvas import (
    HALF_SWARM,
    axes_of,
    axis_label,
    colour_key,
    draw_colour_bar,
    draw_numbers,
    label_lines,
    number_axes,
    positive_count,
    room,
    shorten,
    single_output,
    tidy,
)
from shearshap.result import views
from shearshap.result.cells import same_players
from shearshap.result.colours import GREY
from shearshap.result.explanation import Explanation
from shearshap.result.importance import mean_sizes


def beeswarm(explanation: Explanation, *, max_players: int = 15, ax: Axes | None = None) -> Axes:
    """Draw every row's values, a swarm of points for each feature, the largest mean size first.

    A point's colour is the rank of the feature's `data` among the rows, from blue (low) to orange
    (high). It is grey if there is no number, and where categories have no order. Several texts
    have a swarm for each word.

    Parameters
    ----------
    explanation
        Of one output; of several take `explanation.output(name)`.
    max_players
        How many features to show; the others are left out, and counted below.
    ax
        Where to draw; None: a new figure.
    """
    explanation = single_output(explanation, "beeswarm")
    most = positive_count("max_players", max_players)
    explanation = same_players(explanation)
    sizes = mean_sizes(explanation)
    players = views.largest(sizes, most)

    ax = axes_of(ax, 6.8, 1.4 + 0.38 * len(players))
    label_lines(ax, [shorten(explanation.feature_names[player]) for player in players])
    ax.axvline(0, color=GREY, linewidth=0.8, zorder=1)
    tidy(ax, "both")

    bins, across = room(ax, len(players), horizontal=True)
    swarms = views.swarms(explanation, players, bins=bins, across=across)
    _draw_swarms(ax, swarms)

    left_out = len(sizes) - len(players)
    ax.set_xlabel(axis_label(explanation, "Shapley value", left_out=left_out))
    number_axes(ax, "x")
    if _has_colours_and_grey(swarms):
        colour_key(ax, {"no number, or categories without an order": GREY}, marker="o")
    return ax


def _has_colours_and_grey(swarms: list[views.Swarm]) -> bool:
    """Return whether some points have a colour and others are grey, which asks for an answer."""
    known = np.concatenate([~np.isnan(swarm.ranks) for swarm in swarms])
    return bool(known.any() and not known.all())


def _draw_swarms(ax: Axes, swarms: list[views.Swarm]) -> None:
    """Draw swarms around the lines 0, 1, ..., with a bar of their colours if there are any."""
    values = np.column_stack([swarm.values for swarm in swarms])  # (r, features)
    offsets = np.column_stack([swarm.offsets for swarm in swarms])
    ranks = np.column_stack([swarm.ranks for swarm in swarms])

    lines = np.arange(len(swarms)) + HALF_SWARM * offsets
    if len(values) == 1:
        ranks = np.full_like(ranks, np.nan)  # among one row there is no low and high
    present = ~np.isnan(values)
    dots = draw_numbers(ax, values[present], lines[present], ranks[present], (0, 1))
    if not np.isnan(ranks).all():
        bar = draw_colour_bar(ax, dots, "data, by rank")
        bar.set_ticks([0, 1], labels=["low", "high"])
