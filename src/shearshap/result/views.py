"""What pictures of an explanation show, as plain data: `plots` and the report draw the same views.

A waterfall is a list of steps. Each starts where the step above it ends:

    base value         |◆
    age = 39           |██████
    hours = 60         |      █████
    sex = Male         |        ███       lowers the output: ends left of where it starts
    5 others           |        ██
    prediction         |          ◆

Every function here takes an explanation of one output. Letters: r rows, p players.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shearshap.result.cells import (
    cells_of,
    has_places,
    is_missing,
    label_text,
    padding,
    text_of_row,
)
from shearshap.result.colours import GREY, sign_colour
from shearshap.result.explanation import Explanation, Floats
from shearshap.result.importance import Importance, importance
from shearshap.result.text import cell_content, counted, decimals, smallest_shown

Ints = NDArray[np.int64]
Interval = tuple[float, float]
Edges = Literal["cross-contribution", "interactions"]

LEVEL = 0.95  #: of all intervals
GAP = "unexplained"
SLICE = 15  #: rows that are alike in a player, to find out what else moves its values
ROUNDING = 1e-9  #: intervals that are shorter than this, relative to the largest value, are 0


# A single row, from its base value to its prediction


@dataclass(frozen=True)
class Step:
    """A bar of a waterfall: a player, the players that are not shown, or the gap."""

    name: str
    size: float
    colour: str
    cell: str = ""  #: the player's content in the row, see `cell_content`
    margin: float = 0.0  #: half the length of the interval; 0 if there is none


@dataclass(frozen=True)
class Waterfall:
    """The steps from a row's base value to its prediction, from the top down."""

    base: float
    prediction: float
    steps: tuple[Step, ...]

    @property
    def sizes(self) -> list[float]:
        """The steps' sizes."""
        return [step.size for step in self.steps]


def waterfall(explanation: Explanation, row: int, most: int) -> Waterfall:
    """Return the waterfall of a row: its largest players, the others as one step, and the gap.

    At most `most` players have a step of their own. The steps of a text are its words.
    """
    if has_places(explanation):
        explanation, row = text_of_row(explanation, row), 0
    values = explanation.values[row]
    shown, others = divided(values, most)
    row_margins = np.nan_to_num(margins(explanation[row])[0])
    steps = [
        Step(
            _within_group(explanation, player),
            float(values[player]),
            sign_colour(values[player]),
            cell_content(explanation, row, player),
            float(row_margins[player]),
        )
        for player in _together(explanation, shown.tolist())
    ]
    if len(others):
        size = float(values[others].sum())
        steps.append(Step(f"{len(others)} others", size, sign_colour(size)))

    # a gap that would be written as 0 is none
    gap = float(explanation.gap[row])
    sizes = np.array([*(step.size for step in steps), gap])
    if abs(gap) >= smallest_shown(float(np.abs(sizes).max()), decimals(sizes)):
        steps.append(Step(GAP, gap, GREY))

    base = float(explanation.base_values[row])
    prediction = float(explanation.predictions[row])
    return Waterfall(base, prediction, tuple(steps))


def _within_group(explanation: Explanation, player: int) -> str:
    """Return a player's name, after that of its largest group if it is in any: "home: street"."""
    path = () if explanation.hierarchy is None else explanation.hierarchy[player]
    return ": ".join((*path[:1], explanation.feature_names[player]))


def _together(explanation: Explanation, players: list[int]) -> list[int]:
    """Return players in the same order, but the members of a largest group after its first one."""
    if explanation.hierarchy is None:
        return players
    groups = [explanation.hierarchy[player][:1] or player for player in players]
    return [
        players[at] for at in sorted(range(len(players)), key=lambda at: groups.index(groups[at]))
    ]


def divided(values: Floats, most: int) -> tuple[Ints, Ints]:
    """Return the numbers of the players to show one by one, the largest first, and of the others.

    A single player beyond the `most` is shown too: "1 others" would take the same room, and say
    less.
    """
    order = largest(values)
    count = len(order) if len(order) == most + 1 else most
    return order[:count], order[count:]


def largest(values: Floats, most: int | None = None) -> Ints:
    """Return the numbers of the players, the largest |value| first; of equal ones the first."""
    return np.argsort(-np.abs(values), kind="stable")[:most]


# Intervals


def mean_table(explanation: Explanation) -> Importance:
    """Return every player's mean |value|, with an interval, as `explanation.abs().mean()` does."""
    return importance(explanation, sizes=True, level=LEVEL)


def known_intervals(table: Importance) -> list[Interval | None]:
    """Return the intervals of a table, (p,) or (g, p) in one list; None if there is none to draw.

    That is if it is not known, or no longer than rounding.
    """
    shortest = ROUNDING * np.abs(table.values).max(initial=0.0)
    bounds = zip(table.lower.flat, table.upper.flat, strict=True)
    return [
        (float(low), float(high)) if shortest < high - low < np.inf else None
        for low, high in bounds
    ]


def margins(explanation: Explanation) -> Floats:
    """Return half the length of every value's 95 % interval, (r, p).

    NaN stands for a standard error that is not known. All are 0 if no interval is longer than
    rounding, or the method has no standard errors.
    """
    nothing = np.zeros_like(explanation.values)
    if explanation.standard_errors is None:
        return nothing

    half = explanation.interval(LEVEL)[1] - explanation.values
    half = np.where(np.isfinite(half), half, np.nan)
    threshold = ROUNDING * np.abs(explanation.values).max(initial=0.0)
    return half if (half > threshold).any() else nothing


# Texts


def of_row(explanation: Explanation, row: int) -> Explanation:
    """Return the explanation of one row; of a text, by its words alone."""
    return text_of_row(explanation, row) if has_places(explanation) else explanation[row]


def rows_text(explanation: Explanation) -> str:
    """Return what is explained, in words: "20 rows", "20 texts, by word", "game of 9 members"."""
    if explanation.game is not None:
        return f"game of {counted(len(explanation.feature_names), explanation.game)}"
    if has_places(explanation):
        return f"{len(explanation):,} texts, by word"
    return counted(len(explanation), "row")


def evenly_spaced(rows: int, count: int) -> Ints:
    """Return the places of the rows to show, up to a maximum."""
    return np.unique(np.linspace(0, rows - 1, min(rows, count)).astype(np.int64))


# Every row's values, as swarms of points


@dataclass(frozen=True, eq=False)
class Swarm:
    """A player's values in all rows, as points around a line."""

    name: str
    values: Floats  #: (r,) NaN if a row does not have the player, as a text lacks a word
    offsets: Floats  #: (r,) from -1 to 1: how far off the line
    ranks: Floats  #: (r,) of the player's data, from 0 (low) to 1 (high); NaN without an order


def swarms(
    explanation: Explanation, players: Sequence[int] | Ints, *, bins: int, across: float
) -> list[Swarm]:
    """Return the swarms of some players; for `bins` and `across` see `swarm_offsets`."""
    drawn = explanation.values[:, players]
    span = float(drawn.min()), float(drawn.max())
    absent = padding(explanation)
    found = []
    for player in players:
        present = ~absent[:, player]
        values = np.where(present, explanation.values[:, player], np.nan)
        offsets = np.zeros_like(values)
        offsets[present] = swarm_offsets(values[present], span, bins=bins, across=across)
        ranks = data_ranks(ordered_numbers(explanation, int(player)))
        found.append(Swarm(explanation.feature_names[player], values, offsets, ranks))
    return found


def swarm_offsets(values: Floats, span: Interval, *, bins: int, across: float) -> Floats:
    """Return how far each point (n,) stands off the middle of its swarm, from -1 to 1.

    Points whose values fall into the same bin of the span stand 0, 1, -1, 2, -2, ... dots off the
    middle, in their order:

        offset in dots    1         b
                          0    a    a    a
                         -1         c
                        bin    0    1    2

    `across` is how many dots fit between -1 and 1; a fuller swarm is squeezed.
    """
    low, high = span
    width = (high - low) / bins or 1.0
    bin_numbers = np.floor((values - low) / width).astype(np.int64)

    place = _equal_before(bin_numbers)
    sign = np.where(place % 2 == 1, 1, -1)
    dots = (place + 1) // 2 * sign

    farthest = np.abs(dots).max(initial=1)
    return np.asarray(dots * min(2 / across, 1 / farthest))


def _equal_before(keys: Ints) -> Ints:
    """Return for each key (n,) how many equal keys stand before it."""
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    first = np.searchsorted(sorted_keys, sorted_keys)

    count = np.empty_like(order)
    count[order] = np.arange(len(keys)) - first
    return count


def data_ranks(data: Floats) -> Floats:
    """Return ranks (n,) from 0, the lowest number, to 1, the highest; NaN if there is no number.

    Equal numbers have equal ranks, and ranks have equal distances. If all are equal, it is 0.5.
    """
    ranks = np.full(data.shape, np.nan)
    known = np.isfinite(data)
    different, places = np.unique(data[known], return_inverse=True)
    ranks[known] = places / (len(different) - 1) if len(different) > 1 else 0.5
    return ranks


def ordered_numbers(explanation: Explanation, player: int) -> Floats:
    """Return the numbers to colour a player's rows by, (r,); NaN if they would mean nothing.

    That is if texts have no order but that of their alphabet. Texts whose `data` are in another
    order keep their colours: somebody has put them in that order.
    """
    unknown = np.full(len(explanation), np.nan)
    if explanation.data is None:
        return unknown
    data = explanation.data[:, player]
    cells = cells_of(explanation, player)
    assert cells is not None, "there are data"
    is_text = np.array([isinstance(content, str) for content in cells], dtype=bool)
    if not is_text.any():
        return data
    texts = column_of(cells, 1)
    if not texts.categories:
        return texts.numbers

    _, alphabet = np.unique(cells[is_text].astype(str), return_inverse=True)
    _, order = np.unique(data[is_text], return_inverse=True)
    return unknown if np.array_equal(alphabet, order) else data


def category_means(explanation: Explanation, player: int, most: int = 8) -> dict[str, float]:
    """Return the mean value of each category, the most frequent first; none if cells are ordered.

    Beyond `most`, the rarest are left out.
    """
    if (
        not has_cells(explanation, player)
        or np.isfinite(ordered_numbers(explanation, player)).any()
    ):
        return {}
    own = column(explanation, player, most)
    counts = np.bincount(own.numbers.astype(np.int64)) if own.categories else np.zeros(0, np.int64)
    return {
        own.categories[category]: float(explanation.values[own.numbers == category, player].mean())
        for category in np.argsort(-counts, kind="stable").tolist()
        if category != own.others
    }


def spread(places: Floats, widths: Floats, low: float, high: float) -> Floats:
    """Return places between two ends, (n,), as near to growing ones as things so wide can stand."""
    before = np.cumsum(widths) - widths / 2  # of the middle of each, if all stand side by side
    blocks: list[tuple[float, int]] = []  # things that touch: how far they are moved, how many
    for shift in (places - before).tolist():
        blocks.append((shift, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, some), (second, others) = blocks[-2:]
            both = some + others
            blocks[-2:] = [((first * some + second * others) / both, both)]
    shifts = np.repeat([shift for shift, _ in blocks], [count for _, count in blocks])
    return np.asarray(before + np.clip(shifts, low, max(low, high - widths.sum())))


# Contents of cells


@dataclass(frozen=True, eq=False)
class Column:
    """A player's cells in all rows, as numbers or as the numbers of categories."""

    numbers: Floats  #: (r,) NaN if there is none
    categories: tuple[str, ...] = ()  #: the meanings of 0, 1, ...; none if cells are numbers
    others: int | None = None  #: the number of the rarest categories together, if they are
    name: str = ""


def has_cells(explanation: Explanation, player: int) -> bool:
    """Return whether it is known what a player holds in the rows."""
    if explanation.display_data is not None:
        return True
    return explanation.data is not None and bool(np.isfinite(explanation.data[:, player]).any())


def column(explanation: Explanation, player: int, most: int) -> Column:
    """Return a player's cells, with at most `most` categories; the rarest are counted as one.

    Cells come from `display_data`, or from `data` without. If all are numbers or missing, they are
    taken as numbers.
    """
    cells = cells_of(explanation, player)
    assert cells is not None, "a column needs data or display_data"
    data = None if explanation.data is None else explanation.data[:, player]
    return column_of(cells, most, data, name=explanation.feature_names[player])


def column_of(
    cells: Sequence[Any] | NDArray[Any], most: int, data: Floats | None = None, name: str = ""
) -> Column:
    """Return cells (r,) as a column; categories are in the order of their mean `data`."""
    try:
        numbers = np.array([np.nan if is_missing(cell) else float(cell) for cell in cells])
    except (TypeError, ValueError):
        return _categories(np.array([label_text(cell) for cell in cells]), data, most, name)
    return Column(np.where(np.isfinite(numbers), numbers, np.nan), name=name)


def _categories(texts: NDArray[np.str_], data: Floats | None, most: int, name: str) -> Column:
    """Return a column of categories: in the order of their mean data, or else by frequency."""
    names, place, counts = np.unique(texts, return_inverse=True, return_counts=True)
    shown = len(names) if len(names) <= most else most - 1
    left_out = len(names) - shown

    order = np.argsort(-counts, kind="stable")[:shown]
    if data is not None:
        means = np.bincount(place, weights=np.nan_to_num(data)) / counts
        order = order[np.argsort(means[order], kind="stable")]

    # all that are left out have the number after the last
    numbers = np.full(len(names), float(shown))
    numbers[order] = np.arange(shown)

    categories = names[order].tolist()
    if left_out:
        categories.append(f"{left_out} others")
    return Column(numbers[place], tuple(categories), shown if left_out else None, name)


# Players that act together


@dataclass(frozen=True, eq=False)
class Strengths:
    """How strongly players act together."""

    kind: str  #: its name in legends
    values: Floats  #: (r, p, p)
    signed: bool  #: whether a sign has a meaning


def strengths(explanation: Explanation, kinds: Sequence[Edges]) -> Strengths | None:
    """Return the first of some kinds of strengths that an explanation has; None if it has none."""
    fields = {
        "cross-contribution": explanation.cross_contribution,
        "interactions": explanation.interactions,
    }
    for kind in kinds:
        values = fields[kind]
        if values is not None:
            return Strengths(kind.removesuffix("s"), values, signed=kind == "interactions")
    return None


def likely_cooperator(explanation: Explanation, player: int) -> int | None:
    """Return the player whose data go best with what another player's values differ by.

    Rows are sorted by the player's own data and cut into slices. Within a slice the player itself
    is about the same, so that what its values differ by is owed to others. The answer is the player
    with the largest |correlation| with the values, on average over the slices; None without data,
    or if nothing goes with the values.
    """
    if explanation.data is None:
        return None
    values = explanation.values[:, player]
    order = np.argsort(explanation.data[:, player], kind="stable")
    slices = np.array_split(order, max(1, len(order) // SLICE))
    ranks = [data_ranks(data) for data in explanation.data.T]
    scores = [_mean_correlation(values, other, slices) for other in ranks]
    scores[player] = 0.0
    best = int(np.argmax(scores))
    return best if scores[best] > 0 else None


def _mean_correlation(values: Floats, ranks: Floats, slices: list[Ints]) -> float:
    """Return the mean |correlation| of values and the ranks of data over slices of rows."""
    total = 0.0
    for rows in slices:
        known = rows[np.isfinite(ranks[rows])]
        if len(known) < 3 or np.ptp(values[known]) == 0 or np.ptp(ranks[known]) == 0:
            continue
        correlation = float(np.corrcoef(values[known], ranks[known])[0, 1])
        total += abs(correlation) * len(known)
    return total / len(values)
