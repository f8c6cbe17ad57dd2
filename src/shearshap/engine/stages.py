"""A run's stages: made when the first row gets there, calibrated once, then shared by all rows.

A stage's values are those known at the stage before and fresh ones. Keys say which is which:

    known before     key 7   key 3   key 9
    the stage        key 3   key 5   key 9   key 5
    fresh                    ^                        column 1 is asked for, once
    source           1       3       2       3        places in (known before, fresh)
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.methods.base import Design, Method, Stage

Keys = NDArray[np.int64]


@dataclass(frozen=True)
class Sources:
    """Where the values of a stage's coalitions come from."""

    fresh: Tensor  #: (f,) which of the stage's coalitions to ask for
    source: Tensor  #: (c,) places of all its values, those known before and the fresh ones joined

    @classmethod
    def between(cls, known: Keys, keys: Keys, device: torch.device) -> "Sources":
        """Return the sources of coalitions of some keys (c,), where others (c',) are known."""
        both = np.concatenate((known, keys))
        _, first, group = np.unique(both, return_index=True, return_inverse=True)
        # a key is fresh where it occurs first after the known ones
        fresh = np.sort(first[first >= len(known)]) - len(known)

        place = np.empty(len(first), dtype=np.int64)
        place[group[: len(known)]] = np.arange(len(known))
        place[group[len(known) + fresh]] = len(known) + np.arange(len(fresh))
        source = place[group[len(known) :]]
        return cls(torch.from_numpy(fresh).to(device), torch.from_numpy(source).to(device))


@dataclass
class ScheduledStage:
    """A stage of a run, and how its values come of those of the stage before."""

    design: Design
    keys: Keys
    sources: Sources
    settled: bool = False  #: whether the design has the calibration that it keeps

    @property
    def coalitions(self) -> int:
        """How many coalitions the stage has in all."""
        return len(self.keys)


class Schedule:
    """The stages of a run, in order."""

    def __init__(self, method: Method, stages: Iterator[Stage]) -> None:
        self.method = method
        self._coming = stages
        self._made: list[ScheduledStage] = []

    def stage(self, number: int) -> ScheduledStage | None:
        """Return a stage, made now if no row was there before; None after the last."""
        if number == len(self._made):
            stage = next(self._coming, None)
            if stage is None:
                return None
            self._made.append(self._scheduled(stage))
        return self._made[number]

    def _scheduled(self, stage: Stage) -> ScheduledStage:
        keys = stage.keys.cpu().numpy()
        # of the first stage, the two ends are known: they are asked for before anything else
        known = self._made[-1].keys if self._made else keys[:2]
        device = stage.design.coalitions.device
        return ScheduledStage(stage.design, keys, Sources.between(known, keys, device))

    def settled(self, number: int, pilot: Tensor) -> Design:
        """Return a stage's design, calibrated for good by the first rows that get there.

        It is fitted to the pilot rows' values (r, c, k) or, where no pilot row got there, has the
        calibration of the stage before.
        """
        stage = self._made[number]
        if not stage.settled:
            if len(pilot):
                stage.design = stage.design.fit(pilot)
            elif number and stage.design.calibration is None:
                before = self._made[number - 1].design
                stage.design = stage.design.calibrated(before.calibration)
            stage.settled = True
        return stage.design

    @property
    def calibration(self) -> object:
        """What the stages so far have learnt."""
        return self.method.calibration_of([stage.design for stage in self._made])
