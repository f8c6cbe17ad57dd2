"""The few numbers of the Gaussian process, and how to store them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from shearshap.errors import MethodError


@dataclass(frozen=True)
class Calibration:
    """The rule for a row's relevances, the nugget and the inflation of standard errors.

    logit(r_j / LARGEST_RELEVANCE) = level + linear log c_j^2 + pairwise log q_j
                                     + ratio log(mean q / mean c^2) + players_j

    Here c_j are the linear coefficients of the odd part, and q_j is the sum of the squared pairwise
    coefficients of player j in the even part. The logs of c_j^2 and q_j are centred over the row's
    players.
    """

    level: float = -3.5
    linear: float = 0.2
    pairwise: float = 0.9
    ratio: float = 0.1
    nugget: float = 1e-4  #: white variance, relative to the kernel's diagonal
    inflation: float = 1.0  #: factor of the standard errors
    players: tuple[float, ...] = ()  #: (p,)
    #: of players that seem to add nothing: what is added to the logits of their relevances, and the
    #: variance of their linear coefficients; None: they are like others
    quiet_shift: float = 0.0
    quiet_variance: float | None = None
    #: relevances (k, p) of a few pilot rows, at which kernels are shared; none: no rows share any
    centres: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def default(cls, players: int) -> "Calibration":
        """Return the calibration to use for p players where none was fitted."""
        return cls(players=(0.0,) * players)

    @property
    def size(self) -> int:
        """The number of players p that it is for."""
        return len(self.players)

    def at(self, _pairs: int) -> "Calibration":
        """Return this calibration, whatever the number of pairs."""
        return self

    def for_players(self, count: int) -> "Calibration":
        """Return this calibration for rows with fewer active players, which may be any of them.

        The rule stays as it is, but knows nothing of single players.
        """
        if count == self.size:
            return self
        centres = tuple((sum(centre) / len(centre),) * count for centre in self.centres)
        return replace(self, players=(0.0,) * count, centres=tuple(dict.fromkeys(centres)))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a dict that JSON can hold; see `calibration_from_dict`."""
        return {
            "kind": "calibration",
            **asdict(self),
            "players": list(self.players),
            "centres": [list(centre) for centre in self.centres],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Calibration":
        """Return the calibration that `to_dict` wrote."""
        numbers = {name: number for name, number in data.items() if name != "kind"}
        numbers["players"] = tuple(numbers["players"])
        numbers["centres"] = tuple(tuple(centre) for centre in numbers.get("centres", ()))
        return cls(**numbers)


@dataclass(frozen=True)
class StagedCalibration:
    """The calibrations of a run with several stages, each of more complement pairs.

    A run with a tolerance fits a calibration at each of its stages. With all of them, another run
    gives the same answer for a row, whatever stage the row stops at.
    """

    #: the number of pairs m of a stage, not counting the full and the empty coalition, and the
    #: calibration fitted to them; m increases
    stages: tuple[tuple[int, Calibration], ...]

    def __post_init__(self) -> None:
        """Check that the stages increase and have the same players."""
        pairs = [count for count, _ in self.stages]
        if not pairs or pairs != sorted(set(pairs)):
            raise MethodError(
                f"StagedCalibration: wanted stages of more and more pairs, got stages of {pairs}"
            )
        lengths = sorted({calibration.size for _, calibration in self.stages})
        if len(lengths) > 1:
            raise MethodError(
                f"StagedCalibration: wanted stages of the same players, got stages of {lengths} "
                "players"
            )

    @property
    def size(self) -> int:
        """The number of players p that every stage is for."""
        _, first = self.stages[0]
        return first.size

    def for_players(self, count: int) -> "StagedCalibration":
        """Return these calibrations for rows with fewer active players."""
        stages = [(pairs, calibration.for_players(count)) for pairs, calibration in self.stages]
        return StagedCalibration(tuple(stages))

    def at(self, pairs: int) -> Calibration:
        """Return the calibration for a design of this number of pairs.

        It is that of the stage with this many pairs or, where there is none, of the largest stage
        with fewer. Below the first stage it is the first.
        """
        _, chosen = self.stages[0]
        for count, calibration in self.stages:
            if count <= pairs:
                chosen = calibration
        return chosen

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a dict that JSON can hold; see `calibration_from_dict`."""
        stages = [
            {"pairs": count, "calibration": calibration.to_dict()}
            for count, calibration in self.stages
        ]
        return {"kind": "staged-calibration", "stages": stages}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "StagedCalibration":
        """Return the calibration that `to_dict` wrote."""
        stages = [
            (int(stage["pairs"]), Calibration.from_dict(stage["calibration"]))
            for stage in data["stages"]
        ]
        return cls(tuple(stages))


@dataclass(frozen=True)
class CalibrationByPlayers:
    """The calibrations of a run whose rows have different numbers of active players.

    The other players of a row are null. Rows with equally many active ones were calibrated
    together.
    """

    size: int  #: the number of all players p
    #: numbers of active players, increasing, and the calibrations fitted to such rows
    counts: tuple[tuple[int, Calibration | StagedCalibration], ...]

    @classmethod
    def of(
        cls, size: int, calibrations: Mapping[int, Calibration | StagedCalibration]
    ) -> "CalibrationByPlayers":
        """Return the calibrations by their number of active players."""
        return cls(size, tuple(sorted(calibrations.items(), key=lambda item: item[0])))

    def for_players(self, count: int) -> Calibration | StagedCalibration:
        """Return the calibration for rows with this number of active players.

        Where no such rows were calibrated, it is adapted from the nearest number.
        """
        _, nearest = min(self.counts, key=lambda item: abs(item[0] - count))
        return nearest.for_players(count)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a dict that JSON can hold; see `calibration_from_dict`."""
        counts = [
            {"players": count, "calibration": calibration.to_dict()}
            for count, calibration in self.counts
        ]
        return {"kind": "calibration-by-players", "size": self.size, "counts": counts}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "CalibrationByPlayers":
        """Return the calibrations that `to_dict` wrote."""
        counts: dict[int, Calibration | StagedCalibration] = {}
        for each in data["counts"]:
            calibration = calibration_from_dict(each["calibration"])
            assert not isinstance(calibration, CalibrationByPlayers)
            counts[int(each["players"])] = calibration
        return cls.of(int(data["size"]), counts)


AnyCalibration = Calibration | StagedCalibration | CalibrationByPlayers


def calibration_from_dict(data: dict[str, Any]) -> AnyCalibration:
    """Return the calibration that any class's `to_dict` wrote.

    A dict without a "kind", as earlier versions wrote it, is a `Calibration`.
    """
    kind = data.get("kind", "calibration")
    if kind == "calibration":
        return Calibration.from_dict(data)
    if kind == "staged-calibration":
        return StagedCalibration.from_dict(data)
    if kind == "calibration-by-players":
        return CalibrationByPlayers.from_dict(data)
    raise MethodError(
        "calibration: wanted a dict of kind 'calibration', 'staged-calibration' or "
        f"'calibration-by-players', got {kind!r}; give what a calibration's to_dict returned"
    )
