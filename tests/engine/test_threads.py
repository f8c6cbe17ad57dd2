"""Threads: small equations take one, the model keeps its own, and other threads do not notice."""

from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest
import torch

from clock import join
from shearshap import Explainer
from shearshap.engine.plan import MAX_SMALL_EQUATIONS, one_thread, threads_for
from shearshap.methods.kriging.method import ComplementPairs


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def in_new_thread() -> int:
    """Return the number of threads that a thread begins with."""
    numbers: list[int] = []
    thread = Thread(target=lambda: numbers.append(torch.get_num_threads()))
    thread.start()
    join(thread)
    return numbers[0]


def test_one_thread_holds_here_and_nowhere_else() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
        assert in_new_thread() == 3
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_an_error_gives_the_threads_back() -> None:
    with pytest.raises(RuntimeError, match="inside"), one_thread():
        raise RuntimeError("inside")
    assert torch.get_num_threads() == 3
    assert in_new_thread() == 3


def test_large_equations_keep_all_threads() -> None:
    with threads_for(MAX_SMALL_EQUATIONS):
        assert torch.get_num_threads() == 1
    with threads_for(MAX_SMALL_EQUATIONS + 1):
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize("method", ["kriging", "leverage", "shear"])
def test_the_model_keeps_its_threads(method: str) -> None:
    seen: set[int] = set()

    def model(rows: torch.Tensor) -> torch.Tensor:
        seen.add(torch.get_num_threads())
        return rows.prod(dim=1)

    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 6)))
    Explainer(model, torch.zeros(6, dtype=rows.dtype), method=method)(rows, budget=50)
    assert seen == {3}
    assert torch.get_num_threads() == 3


def test_small_equations_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    fit = ComplementPairs.fit

    def watched(self: ComplementPairs, values: torch.Tensor) -> ComplementPairs:
        seen.append(torch.get_num_threads())
        return fit(self, values)

    monkeypatch.setattr(ComplementPairs, "fit", watched)
    rows = np.random.default_rng(0).normal(size=(5, 8))
    Explainer(lambda x: x.prod(axis=1), np.zeros(8), method="kriging")(rows, budget=60)
    assert seen == [1]
