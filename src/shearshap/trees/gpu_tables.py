"""The look-ups of tables on a GPU: the same steps as in `units` and `unit_tables`, by torch.

The tables are made on the host and copied once. Of each row only its inputs go to the GPU, and its
values come back.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shearshap.trees.forest import Decisions, Floats
from shearshap.trees.unit_tables import Product, Tables
from shearshap.trees.units import Units

ROWS = 1 << 14  #: rows at most that are looked up together
ROOM = 1 << 27  #: numbers of 8 bytes that looking up may take


class GpuTables:
    """Tables of some trees that lie on a GPU."""

    def __init__(self, tables: Tables, device: torch.device) -> None:
        self.device = device
        self._decisions = _GpuDecisions.of(tables.units.layout.decisions, device)
        self._patterns = _GpuPatterns.of(tables.units, device)
        self._products = [_GpuProduct.of(product, device) for product in tables.products]

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        rows = self._rows_at_once()
        for start in range(0, len(seen), rows):
            right = self._decisions.go_right(seen[start : start + rows])
            patterns = self._patterns(right)
            part = sums[start : start + rows]
            total = torch.zeros(part.shape, dtype=torch.float64, device=self.device)
            for product in self._products:
                product.add(patterns, total)
            part += total.cpu().numpy()

    def _rows_at_once(self) -> int:
        widest = max((product.numbers_a_row for product in self._products), default=1)
        widest = max(widest, len(self._patterns), len(self._decisions))
        return max(1, min(ROWS, ROOM // widest))


def _on(device: torch.device, array: Any, dtype: torch.dtype | None = None) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)


@dataclass(frozen=True, eq=False)
class _GpuDecisions:
    """Decisions: those about numbers are taken on the GPU, those about categories on the host."""

    decisions: Decisions
    column: Tensor  #: (q,)
    limit: Tensor  #: (q,) the highest value that goes left
    missing_left: Tensor  #: (q,)

    @classmethod
    def of(cls, decisions: Decisions, device: torch.device) -> "_GpuDecisions":
        return cls(
            decisions,
            _on(device, decisions.column),
            _on(device, decisions.limit),
            _on(device, decisions.missing_left),
        )

    def __len__(self) -> int:
        return len(self.column)

    def go_right(self, seen: Floats) -> Tensor:
        """Return 1 where a row goes right, (q, r), for rows as the trees see them (r, d)."""
        device = self.column.device
        if self.decisions.categories:
            return _on(device, self.decisions.go_right(seen), torch.int16)
        inputs = _on(device, seen.T)[self.column]
        right = inputs > self.limit[:, None]
        right |= inputs.isnan() & ~self.missing_left[:, None]
        return right.to(torch.int16)


@dataclass(frozen=True, eq=False)
class _GpuStep:
    """As `units.Step`."""

    parent: Tensor
    decision: Tensor
    on_right: Tensor
    slot: Tensor
    is_unit: Tensor
    unit: Tensor


@dataclass(frozen=True, eq=False)
class _GpuPatterns:
    """The patterns of units."""

    units: int
    trees: int
    descent: list[_GpuStep]
    turns: list[tuple[Tensor, Tensor, int]]

    @classmethod
    def of(cls, units: Units, device: torch.device) -> "_GpuPatterns":
        descent = [
            _GpuStep(
                parent=_on(device, step.parent),
                decision=_on(device, step.decision),
                on_right=_on(device, step.on_right[:, None], torch.int16),
                slot=_on(device, step.slot[:, None], torch.int16),
                is_unit=_on(device, step.is_unit),
                unit=_on(device, step.unit),
            )
            for step in units.descent
        ]
        turns = [
            (_on(device, unit), _on(device, decision), bit) for unit, decision, bit in units.turns
        ]
        return cls(len(units.root), units.layout.levels[0].stop, descent, turns)

    def __len__(self) -> int:
        return self.units

    def __call__(self, right: Tensor) -> Tensor:
        """Return the units' patterns (g, r) for the decisions (q, r) of rows."""
        rows = right.shape[1]
        patterns = right.new_zeros((self.units, rows))
        failed = right.new_zeros((self.trees, rows))
        for step in self.descent:
            missed = (right[step.decision] ^ step.on_right) << step.slot
            failed = failed[step.parent] | missed
            patterns[step.unit] = failed[step.is_unit]
        for unit, decision, bit in self.turns:
            patterns[unit] |= right[decision] << bit
        return patterns


@dataclass(frozen=True, eq=False)
class _GpuProduct:
    """As `unit_tables.Product`."""

    unit: Tensor
    start: Tensor
    cells: Tensor
    table: Tensor

    @classmethod
    def of(cls, product: Product, device: torch.device) -> "_GpuProduct":
        return cls(
            _on(device, product.unit),
            _on(device, product.start[:, None]),
            _on(device, product.cells),
            _on(device, product.table),
        )

    @property
    def numbers_a_row(self) -> int:
        """How many numbers looking up takes for each row."""
        return len(self.unit) * self.table.shape[1]

    def add(self, patterns: Tensor, sums: Tensor) -> None:
        """Add to the sums (r, cells, k) what the units' patterns (g, r) stand for."""
        found = self.table[patterns[self.unit].long() + self.start].sum(dim=0)
        sums[:, self.cells] += found.view(len(sums), len(self.cells), -1)
