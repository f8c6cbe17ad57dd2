"""The paper's baselines keep the laws of every method, and answer as they did.

PYTHONPATH=tests python lab/tests/test_baselines.py write    replace golden.npz beside this file
"""

import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import golden
from laws import Law, laws_of
from shearshap_lab.baselines import BASELINES

FILE = Path(__file__).with_name("golden.npz")
ROUNDING = 1e-4  # other processors round otherwise


def _kept() -> list[ParameterSet]:
    """Every baseline with each of its laws."""
    return [
        pytest.param(name, law, id=f"{name}-{law}")
        for name, method in BASELINES.items()
        for law in laws_of(method)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "law"), _kept())
def test_the_law_is_kept(name: str, law: Law) -> None:
    law.check(BASELINES[name])


def test_every_baseline_answers_as_it_did() -> None:
    assert golden.differences(golden.questions(BASELINES), FILE, ROUNDING) == []


if __name__ == "__main__":
    golden.main(golden.questions(BASELINES), FILE, sys.argv[1:])
