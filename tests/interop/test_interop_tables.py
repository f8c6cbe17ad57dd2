"""Explanations as tables of pandas, polars and pyarrow."""

from dataclasses import replace
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pytest

from small_explanation import NAMES, explanation

BACKENDS: list[Literal["pandas", "polars", "pyarrow"]] = ["pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("outputs", [(), (3,)])
def test_tables_hold_a_line_for_each_row_player_and_output(
    backend: Any, outputs: tuple[int, ...]
) -> None:
    pytest.importorskip(backend)
    ours = explanation(outputs=outputs, rows=2)
    lines = iter(nw.from_native(ours.to_frame(backend)).rows(named=True))
    assert ours.data is not None
    for row in range(2):
        for player, name in enumerate(NAMES):
            for number, output in enumerate(ours.output_names):
                one = ours.output(number)
                assert one.standard_errors is not None
                assert next(lines) == {
                    "row": row,
                    "output": output,
                    "feature": name,
                    "value": one.values[row, player],
                    "standard_error": one.standard_errors[row, player],
                    "data": ours.data[row, player],
                    "base_value": one.base_values[row],
                    "prediction": one.predictions[row],
                }
    assert next(lines, None) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_missing_is_null_in_a_table(backend: Any) -> None:
    pytest.importorskip(backend)
    ours = explanation(errors=False, words=True, rows=2)
    assert ours.display_data is not None
    ours.display_data[1, 2] = float("nan")
    frame = nw.from_native(ours.to_frame(backend))
    assert frame["data"].to_list()[:3] == ["41", "cook", "9.5"]
    assert frame["data"].is_null().to_list() == [False] * 3 + [True] + [False] * 2 + [True] * 2
    assert frame.schema["data"] == nw.String
    assert frame["standard_error"].is_null().all()
    assert frame.schema["standard_error"] == nw.Float64
    numbers = explanation(rows=1)
    assert numbers.data is not None
    numbers.data[0, 1] = np.nan
    frame = nw.from_native(numbers.to_frame(backend))
    assert frame["data"].is_null().to_list() == [False, True, False, False]
    assert "data" not in nw.from_native(replace(numbers, data=None).to_frame(backend)).columns
