"""Charts of explanations for a report: all rows by the size of values, all values as dots, one row
as a waterfall.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.digits import MINUS, decimals, least, written
from shearshap.explanation import Explanation, Floats
from shearshap.report import Dot, Line, chart, swarm

DOTS = 250  #: rows drawn as dots, evenly taken
GLOBAL, LOCAL = 20, 12  #: features in a chart of all rows, and of one
RAISES, LOWERS, GREY = "#D55E00", "#0072B2", "#9aa1a9"


def sizes_chart(one: Explanation) -> str:
    """Return the chart of mean |value|."""
    sizes, spread = np.abs(one.values).mean(axis=0), margins(one)
    places = decimals(sizes)
    lines = []
    for player in largest_first(sizes)[:GLOBAL]:
        size, margin = (
            float(sizes[player]),
            0.0 if spread is None else float(spread[:, player].mean()),
        )
        whisker = (max(0.0, size - margin), size + margin) if margin > 0 else None
        number = written(size, places)
        lines.append(
            Line(
                one.feature_names[player],
                number=number,
                bar=(0.0, size),
                color=GREY,
                whisker=whisker,
            )
        )
    return chart(lines, alt=f"Mean size of values, {title(one)}", unit=f"mean |value|{_of(one)}")


def dots_chart(one: Explanation) -> str:
    """Return the chart of all values, a dot for each row."""
    kept = np.unique(np.linspace(0, len(one) - 1, min(DOTS, len(one))).astype(int))
    few = one[kept]
    places = decimals(few.values)
    lines = []
    for player in largest_first(np.abs(one.values).mean(axis=0))[:GLOBAL]:
        values, colors = few.values[:, player].tolist(), _colors(few, player)
        told = [
            f"row {row}: {_told(few, at, player)} {written(value, places, sign=True)}"
            for at, (row, value) in enumerate(zip(kept, values, strict=True))
        ]
        dots = map(Dot, values, swarm(values), colors, told)
        lines.append(Line(one.feature_names[player], dots=tuple(dots)))
    return chart(lines, alt=f"Values row by row, {title(one)}", unit=f"value{_of(one)}")


def _colors(one: Explanation, player: int) -> list[str]:
    """Return a colour for each row by the rank of the feature's own value; grey where there is
    none.
    """
    if one.data is None:
        return [GREY] * len(one)
    data = one.data[:, player]
    kinds = np.unique(data[np.isfinite(data)])
    ranks = np.searchsorted(kinds, data) / max(1, len(kinds) - 1)
    return [
        _mixed(rank) if known else GREY
        for rank, known in zip(ranks.tolist(), np.isfinite(data), strict=True)
    ]


def _mixed(share: float) -> str:
    """Return the colour so far on the way from blue to orange, by way of a light one."""
    ends = np.array([(0x00, 0x72, 0xB2), (0xC9, 0xBB, 0xD3), (0xD5, 0x5E, 0x00)])
    start, within = (0, 2 * share) if share < 0.5 else (1, 2 * share - 1)
    red, green, blue = np.round(ends[start] + within * (ends[start + 1] - ends[start])).astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"


def waterfall(one: Explanation, row: int) -> str:
    """Return the chart from a row's base value to its prediction, the largest features first."""
    bars = steps(one, row)
    base, prediction = float(one.base_values[row]), float(one.predictions[row])
    places = decimals(np.array([step.size for step in bars] + [prediction - base]))
    ends = base + np.cumsum([step.size for step in bars])
    lines = [Line("base value", number=written(base, places), point=base)]
    for step, end in zip(bars, ends.tolist(), strict=True):
        whisker = (end - step.margin, end + step.margin) if step.margin > 0 else None
        margin = (
            f" ± {written(step.margin, places)}" if step.margin >= least(step.size, places) else ""
        )
        number = written(step.size, places, sign=True) + margin
        lines.append(
            Line(step.label, step.detail, number, (end - step.size, end), step.color, whisker)
        )
    lines.append(Line("prediction", number=written(prediction, places), point=prediction))
    return chart(
        lines, alt=f"Row {row}, from base value to prediction", unit=one.output_names[0], rule=base
    )


@dataclass(frozen=True)
class Step:
    """A bar of a waterfall."""

    label: str
    size: float
    margin: float = 0.0
    detail: str = ""
    color: str = GREY


def steps(one: Explanation, row: int) -> list[Step]:
    """Return the bars of one row: the largest features, the others as one, and the gap where there
    is one.
    """
    values, spread = one.values[row], margins(one)
    players = largest_first(np.abs(values))
    kept = players[: LOCAL + (len(players) == LOCAL + 1)]
    bars = [
        Step(
            one.feature_names[player],
            float(values[player]),
            0.0 if spread is None else float(spread[row, player]),
            _told(one, row, player),
            RAISES if values[player] >= 0 else LOWERS,
        )
        for player in kept
    ]
    if len(kept) < len(players):
        rest = float(values[players[len(kept) :]].sum())
        bars.append(
            Step(f"{len(players) - len(kept)} others", rest, color=RAISES if rest >= 0 else LOWERS)
        )
    gap, largest = float(one.gap[row]), max(abs(step.size) for step in bars)
    return [*bars, Step("gap", gap, detail="not shared out")] if abs(gap) > 1e-3 * largest else bars


# Numbers and words


def margins(one: Explanation) -> Floats | None:
    """Return half the length of every value's 95 % interval, like `values`, 0 where unknown; None
    where all are 0.
    """
    if one.standard_errors is None:
        return None
    half = one.interval()[1] - one.values
    known = np.where(np.isfinite(half), half, 0.0)
    return known if (known > 1e-9 * np.abs(one.values).max()).any() else None


def plain(text: str) -> str:
    """Return a text in which nothing is marked up."""
    return (
        text.replace("`", "\N{ACUTE ACCENT}")
        .replace("**", "*\N{WORD JOINER}*")
        .replace("](", "]\N{WORD JOINER}(")
    )


def _told(one: Explanation, row: int, player: int) -> str:
    """Return "= value" of a feature in a row, where it is known."""
    table: NDArray[Any] | None = one.data if one.display_data is None else one.display_data
    if table is None:
        return ""
    value = table[row, player]
    if value is None or value != value:
        return "missing"
    return "= " + (
        f"{value:.4g}".replace("-", MINUS) if isinstance(value, float | np.floating) else str(value)
    )


def largest_first(sizes: Floats) -> list[int]:
    """Return the players' numbers by size; of equal ones the first first."""
    return np.argsort(-sizes, kind="stable").tolist()  # type: ignore[no-any-return]


def title(one: Explanation) -> str:
    """Return the name of an explanation's one output."""
    return one.output_names[0]


def _of(one: Explanation) -> str:
    return "" if one.output_names == ["output"] else f", {one.output_names[0]}"
