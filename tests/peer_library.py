"""The libraries that we are compared with."""

import warnings
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import pytest


def peer(name: str) -> Any:
    """Import a peer without its warnings, or skip.

    Its loops stay uncompiled: numba takes seconds to compile what then runs for a few rows.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if find_spec("numba") is None:
            return pytest.importorskip(name)
        import numba

        with patch.object(numba.config, "DISABLE_JIT", 1):
            return pytest.importorskip(name, reason="the peers extra is not installed")
