"""Same seed, same answer, from one version to the next: see golden.py and golden_ways.py."""

import pytest

import golden
import golden_ways
from shearshap import METHODS

# other processors round otherwise, and kriging's fit and nearly singular systems make more of it
ROUNDING = 1e-4
OF_WAYS = 3e-5


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_as_it_did(name: str) -> None:
    asked = golden.questions({name: METHODS[name]})
    assert golden.differences(asked, golden.FILE, ROUNDING) == []


@pytest.mark.parametrize("way", golden_ways.WAYS)
def test_every_way_to_explain_rows_answers_as_it_did(way: str) -> None:
    asked = {way: golden_ways.WAYS[way]}
    assert golden.differences(asked, golden_ways.FILE, OF_WAYS) == []
