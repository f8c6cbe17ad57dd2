"""Progress: the bar moves for slow models, and changes no number."""

import sys
from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor, nn

from shearshap import Explainer, Explanation
from shearshap.engine import loop
from shearshap.engine.loop import in_kernel, progress_bar
from shearshap.games import batches
from shearshap.games.batches import BATCH_SECONDS, FIRST_BATCH

Floats = NDArray[np.float64]


class Clock:
    """A clock that only a model moves on."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(batches, "time", clock)
    return clock


class Slow:
    """A function that takes its time, and remembers how long each call took."""

    def __init__(self, clock: Clock, each: float, call: float = 0.0, first: float = 0.0) -> None:
        self.clock = clock
        self.each = each
        self.call = call
        self.first = first
        self.calls: list[tuple[int, float]] = []

    def __call__(self, rows: Floats) -> Floats:
        seconds = self.call + self.each * len(rows)
        if not self.calls:
            seconds += self.first
        self.clock.now += seconds
        self.calls.append((len(rows), seconds))
        return np.asarray(rows[:, 0] * rows[:, 1] + rows[:, 2] - rows[:, 5] * rows[:, 6])

    @property
    def longest(self) -> float:
        return max(seconds for _, seconds in self.calls)


ROWS = np.random.default_rng(0).normal(size=(40, 8))


def explained(model: Any, method: str = "leverage", **options: Any) -> Explanation:
    return Explainer(model, np.zeros(8), method=method, **options)(ROWS, budget=130)


@pytest.mark.parametrize("each", [1e-6, 0.003, 0.05])
def test_a_batch_of_a_slow_function_takes_about_a_second(clock: Clock, each: float) -> None:
    model = Slow(clock, each)
    answer = explained(model)
    assert model.longest <= max(1.3 * BATCH_SECONDS, FIRST_BATCH * each)
    at_once = explained(Slow(clock, each), batch_size=10**6)
    np.testing.assert_array_equal(answer.values, at_once.values)
    assert answer.standard_errors is not None
    np.testing.assert_array_equal(answer.standard_errors, at_once.standard_errors)


def test_a_fast_function_is_asked_in_large_batches(clock: Clock) -> None:
    model = Slow(clock, 1e-6)
    explained(model)
    assert max(size for size, _ in model.calls) >= 40 * 64
    assert len(model.calls) <= 9


def test_what_a_call_takes_whatever_its_size_makes_no_small_batches(clock: Clock) -> None:
    model = Slow(clock, 1e-5, call=2.0)
    explained(model)
    assert len(model.calls) <= 16


def test_a_slow_first_call_does_not_count_for_ever(clock: Clock) -> None:
    model = Slow(clock, 1e-4, first=20.0)
    explained(model)
    assert len(model.calls) <= 14
    assert model.calls[-1][0] > 1000


def test_a_batch_size_of_ones_own_is_kept(clock: Clock) -> None:
    model = Slow(clock, 0.5)
    explained(model, batch_size=64)
    assert 32 < max(size for size, _ in model.calls) <= 64


def test_batches_of_a_network_are_not_made_small() -> None:
    """A network rounds otherwise in very small batches."""
    sizes: list[int] = []

    class Network(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            sizes.append(len(rows))
            return rows.sum(dim=1)

    explained(Network(), "kriging")
    assert sizes[0] == 80  # both ends of all rows
    assert len(sizes) <= 4


# The bar


class Bar:
    """A bar that remembers where it was."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.n = 0.0
        self.steps: list[float] = []
        self.postfix = ""

    def update(self, step: float) -> None:
        assert step > 0
        self.n += step
        self.steps.append(self.n)

    def set_postfix_str(self, text: str, *, refresh: bool) -> None:
        assert not refresh
        self.postfix = text

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bar]:
    shown = Bar(0)

    def opened(_progress: bool | None, total: int, **_: Any) -> Bar:
        shown.total = total
        return shown

    monkeypatch.setattr(loop, "progress_bar", opened)
    yield shown
    assert shown.n <= shown.total


def tanh(rows: Floats) -> Floats:
    return np.asarray(np.tanh(rows.sum(axis=1)))


def test_the_bar_moves_with_every_batch_of_a_slow_model(bar: Bar) -> None:
    Explainer(tanh, np.zeros(8), batch_size=64, method="exact")(ROWS[:6], budget=256)
    assert len(bar.steps) >= 6 * 256 / 64
    assert bar.n == pytest.approx(6)
    assert bar.postfix == f"{6 * 256:,} evaluations"


@pytest.mark.parametrize(
    "options",
    [
        {"method": "shear"},
        {"method": "exact"},
        {"method": "leverage"},
        {"method": "permutation-antithetic"},
        {"method": "kriging", "tol": 0.01},
    ],
)
def test_the_bar_ends_at_the_last_row(bar: Bar, options: dict[str, Any]) -> None:
    tol = options.pop("tol", None)
    Explainer(lambda x: np.stack((tanh(x), x[:, 0]), axis=1), np.zeros(8), **options)(
        ROWS, budget=300, tol=tol
    )
    assert bar.n == pytest.approx(40)
    assert bar.steps == sorted(bar.steps)


def test_a_notebook_has_a_bar_with_or_without_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_kernel()
    terminal = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert not in_kernel()
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    assert in_kernel()

    drawn = StringIO()
    monkeypatch.setattr(loop, "find_spec", lambda _name: None)
    with progress_bar(True, total=40, unit=" rows", mininterval=0, file=drawn) as bar:
        bar.update(10)
    assert "10/40" in drawn.getvalue()
    drawn = StringIO()
    with progress_bar(None, total=40, file=drawn) as bar:
        bar.update(40)
    with progress_bar(False, total=40, file=drawn) as bar:
        bar.update(40)
    assert drawn.getvalue() == ""  # it took less than two seconds, or was not wanted

    widgets = SimpleNamespace(tqdm=lambda **options: options)
    monkeypatch.setattr(loop, "find_spec", lambda _name: object())
    monkeypatch.setitem(sys.modules, "tqdm.notebook", widgets)
    assert progress_bar(None, total=3) == {"delay": loop.DELAY, "total": 3}
