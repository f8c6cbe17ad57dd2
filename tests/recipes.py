"""The job of the tests of data engines: a prepared explainer, its rows, and the table of values.

It is a module of its own, since workers import it.
"""

from typing import Any

import numpy as np
import pandas as pd

from shearshap import Explainer
from shearshap.engine.prepared import PreparedExplainer

COUNT = 120
PLAYERS = ["area", "age", "floor", "city"]

_NUMBERS = np.random.default_rng(0).normal(size=(COUNT, 3))
HOUSES = pd.DataFrame(_NUMBERS, columns=PLAYERS[:3]).assign(
    city=["Bern", "Oslo", "Rome"] * (COUNT // 3),
    id=[f"house-{number:03}" for number in range(COUNT)],
)


def price(houses: Any) -> Any:
    """Return the price of houses, for which all columns must have types of numpy."""
    in_bern = houses["area"] * (houses["city"] == "Bern")
    return in_bern - houses["age"] * houses["floor"] + houses["floor"] ** 2


def prepared() -> PreparedExplainer:
    """Return the prepared explainer, whose values are estimates."""
    explainer = Explainer(price, HOUSES[:9], method="kriging")
    return explainer.prepare(HOUSES[:40], budget=120, index="id")


def check_values(found: Any, ready: PreparedExplainer) -> None:
    """Assert that a table of pandas has the values of all rows, in any order."""
    expected = ready.table(HOUSES).to_pandas()
    assert found.columns.tolist() == ready.schema.names
    # engines have types of their own
    ordered = found.sort_values("id", ignore_index=True).astype(expected.dtypes.to_dict())
    pd.testing.assert_frame_equal(ordered, expected, rtol=0, atol=1e-10)
