"""Views against slow oracles: plain loops over rows, players and points."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from drawn import explanation
from shearshap.result import views
from shearshap.result.explanation import Floats
from shearshap.result.text import cell_content

# waterfall


@pytest.mark.parametrize(
    ("size", "gap", "visible"),
    [
        (1.0, 0.0051, True),
        (1.0, 0.0049, False),
        (9.0, 0.0049, False),
        (1e-9, 2e-12, True),
        (1e-9, 5e-13, False),
        (0.0, 0.0, False),
    ],
)
def test_a_gap_is_a_step_unless_it_rounds_to_0(size: float, gap: float, visible: bool) -> None:
    sample = replace(
        explanation(rows=1, players=1, errors=False),
        values=np.array([[size]]),
        base_values=np.zeros(1),
        predictions=np.array([size + gap]),
    )
    names = [step.name for step in views.waterfall(sample, 0, 3).steps]
    assert names == (["age", views.GAP] if visible else ["age"])


# swarms


def slow_offsets(values: Floats, span: tuple[float, float], bins: int, across: float) -> Floats:
    """Return offsets by counting the points of every bin one by one."""
    low, high = span
    count: Counter[int] = Counter()
    dots = []
    for value in values.tolist():
        number = int((value - low) / ((high - low) / bins or 1.0))
        place = count[number]
        count[number] += 1
        dots.append((place + 1) // 2 * (1 if place % 2 else -1))
    farthest = max(1, *(abs(dot) for dot in dots))
    return np.array([dot * min(2 / across, 1 / farthest) for dot in dots])


@pytest.mark.parametrize(("bins", "across"), [(1, 4.0), (20, 100.0), (20, 3.0)])
def test_swarms_are_as_counted_by_hand(bins: int, across: float) -> None:
    sample = explanation(rows=50, players=4)
    order = [2, 0, 3]
    span = float(sample.values[:, order].min()), float(sample.values[:, order].max())
    for swarm, player in zip(
        views.swarms(sample, order, bins=bins, across=across), order, strict=True
    ):
        assert swarm.name == sample.feature_names[player]
        assert swarm.values.tolist() == sample.values[:, player].tolist()
        expected = slow_offsets(sample.values[:, player], span, bins, across)
        assert swarm.offsets == pytest.approx(expected)
        assert sample.data is not None
        expected_ranks = [
            sum(other < number for other in sample.data[:, player]) / 49
            for number in sample.data[:, player]
        ]
        assert swarm.ranks == pytest.approx(expected_ranks)


@pytest.mark.parametrize(
    ("data", "ranks"),
    [
        ([3.0, 1.0, 3.0, 9.0], [0.5, 0, 0.5, 1]),
        ([0.0, 0.0, 0.0, 1.0], [0, 0, 0, 1]),
        ([7.0, 7.0], [0.5, 0.5]),
        ([7.0], [0.5]),
        ([np.nan, 2.0, np.inf, 1.0], [np.nan, 1, np.nan, 0]),
        ([np.nan], [np.nan]),
    ],
)
def test_ranks_of_data(data: list[float], ranks: list[float]) -> None:
    assert views.data_ranks(np.array(data)) == pytest.approx(ranks, nan_ok=True)


# cells


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (-0.123456, "−0.1235"),
        (np.float32(0.5), "0.5"),
        (3, "3"),
        ("low - high", "low - high"),
        ("nan", "nan"),
        (None, "missing"),
        (np.nan, "missing"),
        (np.float32("nan"), "missing"),
        (np.datetime64("NaT"), "missing"),
        (True, "True"),
    ],
)
def test_cells_are_written_as_people_read_them(content: object, text: str) -> None:
    shown = np.full((6, 5), "other", dtype=object)
    shown[1, 2] = content
    assert cell_content(replace(explanation(), display_data=shown), 1, 2) == text


def test_a_missing_number_is_told_from_a_player_without_numbers() -> None:
    data = np.array(explanation().data)
    data[0, 0] = np.nan
    data[:, 1] = np.nan
    sample = replace(explanation(), data=data)
    assert cell_content(sample, 0, 0) == "missing"
    assert cell_content(sample, 0, 1) == ""
    assert cell_content(replace(sample, data=None), 0, 0) == ""


def test_a_column_of_numbers_and_holes_is_numbers() -> None:
    shown = np.array([["1"], [None], [2.5]], dtype=object)
    column = views.column(replace(explanation(3, 1), display_data=shown), 0, 12)
    assert column.numbers == pytest.approx([1, np.nan, 2.5], nan_ok=True)
    assert column.categories == ()


@pytest.mark.parametrize("with_data", [True, False])
def test_rare_categories_have_one_number(with_data: bool) -> None:
    texts = ["b"] * 5 + ["a"] * 4 + ["c"] * 3 + ["d", "e", None]
    sample = replace(
        explanation(rows=15, players=1),
        display_data=np.array(texts, dtype=object)[:, None],
        data=np.arange(15.0, 0, -1)[:, None] if with_data else None,
    )
    column = views.column(sample, 0, 3)
    # the two most frequent, by falling data or by frequency, and four others
    names = ("a", "b") if with_data else ("b", "a")
    assert column.categories == (*names, "4 others")
    assert column.others == 2
    assert [column.categories[int(number)] for number in column.numbers] == [
        text if text in names else "4 others" for text in texts
    ]
    whole = views.column(sample, 0, 12)
    assert set(whole.categories) == {"a", "b", "c", "d", "e", "missing"}
    assert whole.others is None


def test_things_are_spread_without_overlap_near_their_places() -> None:
    places, widths = np.array([0.0, 50.0, 51.0, 90.0]), np.full(4, 10.0)
    spread = views.spread(places, widths, 0.0, 100.0)
    assert spread.tolist() == [5.0, 45.5, 55.5, 90.0]
    assert views.spread(np.full(4, 99.0), widths, 0.0, 100.0).tolist() == [65.0, 75.0, 85.0, 95.0]
