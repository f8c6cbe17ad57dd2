"""Views against slow oracles: plain loops over rows, players and points."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from shearshap import Explanation
from shearshap.result import views
from shearshap.result.colours import GREY, LOWERS, RAISES
from shearshap.result.explanation import Floats
from shearshap.result.text import cell_content, decimals, format_estimate, format_number


def explanation(
    rows: int = 3, players: int = 30, *, errors: bool = True, seed: int = 0
) -> Explanation:
    """Return values of many sizes, and a gap of 0.01 in every row."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, players)) * 1.3 ** -np.arange(players)
    base = rng.normal(size=rows)
    return Explanation(
        values=values,
        base_values=base,
        predictions=base + values.sum(axis=1) + 0.01,
        standard_errors=rng.random((rows, players)) / 5 if errors else None,
        evaluations=64,
        derivative_passes=0,
        method="kriging",
        seed=seed,
        degrees_of_freedom=9.0,
        data=rng.normal(size=(rows, players)),
    )


# waterfall


@pytest.mark.parametrize("most", [1, 4, 12])
def test_steps_are_the_largest_players_the_others_and_the_gap(most: int) -> None:
    sample = explanation()
    upper = sample.interval()[1]
    for row in range(3):
        view = views.waterfall(sample, row, most)
        by_size = sorted(range(30), key=lambda player: -abs(sample.values[row, player]))
        for step, player in zip(view.steps, by_size[:most], strict=False):
            value = sample.values[row, player]
            assert step.name == f"x{player}"
            assert step.size == value
            assert step.margin == pytest.approx(upper[row, player] - value)
            assert step.colour == (LOWERS if value < 0 else RAISES)
            assert step.cell == f"{sample.data[row, player]:.4g}".replace("-", "−")  # type: ignore[index]

        others, gap = view.steps[most:]
        assert others.name == f"{30 - most} others"
        assert others.size == pytest.approx(sum(sample.values[row, p] for p in by_size[most:]))
        assert others.margin == 0
        assert (gap.name, gap.colour) == (views.GAP, GREY)
        assert gap.size == pytest.approx(0.01)


def test_steps_lead_from_base_value_to_prediction() -> None:
    sample = explanation()
    for row in range(3):
        view = views.waterfall(sample, row, 12)
        at = sample.base_values[row]
        for size, start, end in zip(view.sizes, view.starts, view.ends, strict=True):
            assert start == pytest.approx(at)
            at += size
            assert end == pytest.approx(at)
        assert at == pytest.approx(sample.predictions[row])


def test_a_single_player_beyond_the_most_has_its_own_step() -> None:
    sample = explanation(players=5)
    whole = replace(sample, predictions=sample.base_values + sample.values.sum(axis=1))
    assert len(views.waterfall(whole, 0, 4).steps) == 5
    assert [step.name for step in views.waterfall(whole, 0, 3).steps[3:]] == ["2 others"]


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
    assert names == (["x0", views.GAP] if visible else ["x0"])


# bars and intervals


@pytest.mark.parametrize("nothing", [None, 0.0, 1e-12, np.nan, np.inf])
def test_without_known_errors_there_are_no_intervals(nothing: float | None) -> None:
    sample = explanation(errors=False)
    errors = None if nothing is None else np.full_like(sample.values, nothing)
    sample = replace(sample, standard_errors=errors)
    assert not views.margins(sample).any()
    assert not any(step.margin for step in views.waterfall(sample, 0, 30).steps)


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
        assert (swarm.player, swarm.name) == (player, f"x{player}")
        assert swarm.values.tolist() == sample.values[:, player].tolist()
        expected = slow_offsets(sample.values[:, player], span, bins, across)
        assert swarm.offsets == pytest.approx(expected)
        assert sample.data is not None
        expected_ranks = [
            sum(other < number for other in sample.data[:, player]) / 49
            for number in sample.data[:, player]
        ]
        assert swarm.ranks == pytest.approx(expected_ranks)


def test_a_swarm_keeps_points_apart_until_it_is_full() -> None:
    values = np.array([0.0, 0.01, 0.02, 10.0, 0.0])
    offsets = views.swarm_offsets(values, (0.0, 10.0), bins=10, across=20.0)
    assert offsets == pytest.approx([0, 0.1, -0.1, 0, 0.2])
    full = views.swarm_offsets(np.zeros(101), (0.0, 0.0), bins=10, across=20.0)
    assert np.sort(full) == pytest.approx(np.linspace(-1, 1, 101))
    assert not views.swarm_offsets(np.zeros(1), (0.0, 0.0), bins=10, across=20.0).any()


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
    shown = np.full((3, 30), "other", dtype=object)
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
    column = views.column(replace(explanation(players=1), display_data=shown), 0, 12)
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


# colours and digits


def test_numbers_have_the_digits_that_the_largest_needs() -> None:
    numbers = np.array([0.01234, -4.5678])
    assert [format_number(number, decimals(numbers), sign=True) for number in numbers] == [
        "+0.01",
        "−4.57",
    ]
    sizes = (123.0, 12.3, 0.123, 1e-9, 1e9, 0.0)
    assert [decimals(np.array([size])) for size in sizes] == [0, 1, 3, None, None, 0]
    assert format_number(1234567.8, 0) == "1,234,568"
    assert format_number(-1.2345e-9, None, sign=True) == "−1.23e−09"


def test_a_margin_is_written_unless_it_rounds_to_0() -> None:
    assert format_estimate(1.0, 0.25, 2) == "+1.00 ± 0.25"
    assert format_estimate(1.0, 0.004, 2) == "+1.00"
    assert format_estimate(1.0, np.nan, 2) == "+1.00"
