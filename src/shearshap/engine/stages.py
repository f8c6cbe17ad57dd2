"""A run's stages: made when the first row gets there, calibrated once, then shared by all rows.

Some coalitions of a stage were in the stage before: their values are known. The others are fresh,
and are asked for. Coalitions with equal keys are the same:

    known before     key 7   key 3   key 9
    the stage        key 3   key 5   key 9   key 5
    fresh                    ^                        column 1 is asked for, and used twice
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
        """Return the sources of coalitions of these keys (c,), where those of `known` (c',) are."""
        both = np.concatenate((known, keys))
        _, first, group = np.unique(both, return_index=True, return_inverse=True)
        # a key is fresh where it occurs first after the known ones
        fresh = np.sort(first[first >= len(known)]) - len(known)

        # of each distinct key: its place in (known before, fresh)
        place = np.empty(len(first), dtype=np.int64)
        place[group[: len(known)]] = np.arange(len(known))
        place[group[len(known) + fresh]] = len(known) + np.arange(len(fresh))
        source = place[group[len(known) :]]
        return cls(torch.from_numpy(fresh).to(device), torch.from_numpy(source).to(device))


@dataclass
class ScheduledStage:
    """A stage of a run, and where the values of its coalitions come from."""

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
        self._to_come = stages
        self._made: list[ScheduledStage] = []

    def stage(self, number: int) -> ScheduledStage | None:
        """Return a stage, made now if no row was there before; None after the last."""
        if number == len(self._made):
            stage = next(self._to_come, None)
            if stage is None:
                return None
            self._made.append(self._scheduled(stage))
        return self._made[number]

    def _scheduled(self, stage: Stage) -> ScheduledStage:
        keys = stage.keys.cpu().numpy()
        # before the first stage the two ends are known, with which every stage begins
        known = self._made[-1].keys if self._made else keys[:2]
        device = stage.design.coalitions.device
        return ScheduledStage(stage.design, keys, Sources.between(known, keys, device))

    def settled(self, number: int, pilot: Tensor) -> Design:
        """Return a stage's design, with the calibration that it keeps from now on.

        The first rows that get there settle it: it is fitted to the values (r, c, k) of the pilot
        rows among them. Where there are none, it takes the calibration of the stage before. Rows
        that tell nothing leave it to the next.
        """
        stage = self._made[number]
        if not stage.settled:
            if len(pilot):
                stage.design = stage.design.fit(pilot)
            elif number and stage.design.calibration is None:
                before = self._made[number - 1].design
                stage.design = stage.design.calibrated(before.calibration)
            stage.settled = not stage.design.tentative
        return stage.design

    @property
    def calibration(self) -> object:
        """What the stages so far have learnt."""
        return self.method.calibration_of([stage.design for stage in self._made])
