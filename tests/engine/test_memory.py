"""Limits of memory cut work into pieces, and change no number: each at its smallest."""

import pytest

import golden
import golden_ways

SINGLE = 3e-5  #: shared kernels are solved in single precision
WAYS = {
    "engine.backgrounds.BLOCK_ENTRIES": ["all background rows, leverage"],
    "engine.backgrounds.BLOCK_INPUTS": ["all background rows, permutation"],
    "engine.plan.BLOCK_BYTES": [
        "shared kernels, tol",
        "some background rows, permutation",
        "a hierarchy",
        "SII",
    ],
    "games.batches.BATCH_BYTES": ["weighted background rows, leverage", "null players"],
    "games.conditional.MAX_ENTRIES": [
        "given the present, copula",
        "given the present, gaussian, interactions",
        "given the present, empirical, some draws",
    ],
    "games.marginal.MAX_COMPARED": ["null players"],
    # not shared kernels: in single precision, another order of sums shows on some processors
    "methods.kriging.kernel.CHUNK_ENTRIES": ["own kernels", "STII", "votes"],
}


@pytest.mark.parametrize(
    ("limit", "way"), [(limit, way) for limit, ways in WAYS.items() for way in ways]
)
def test_a_small_limit_changes_no_number(
    limit: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_device = limit.endswith(("BYTES", "CHUNK_ENTRIES"))
    smallest = {"cpu": 1, "other": 1, "cuda": 1} if by_device else 1
    monkeypatch.setattr(f"shearshap.{limit}", smallest)
    asked = {way: golden_ways.WAYS[way]}
    assert golden.differences(asked, golden_ways.FILE, SINGLE) == []
