"""The few numbers of kriging's Gaussian process, and how to store them."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from math import nextafter
from typing import Any

from shearshap import __version__
from shearshap.errors import InputError, warn
from shearshap.result.archive import DAMAGES, check_types, first_words

MAX_RELEVANCE = 0.95  #: at 1 the kernels would be singular

MAX_NUMBER = 1e9  #: far beyond whatever is fitted
MIN_POSITIVE = 1e-12
RANGES = {
    "nugget": (1e-300, MAX_NUMBER),
    "inflation": (MIN_POSITIVE, MAX_NUMBER),
    "size_variance": (0, MAX_NUMBER),
    "quiet_variance": (MIN_POSITIVE, MAX_NUMBER),
    "centres": (MIN_POSITIVE, nextafter(MAX_RELEVANCE, 0)),
    "pairs": (0, MAX_NUMBER),
}
"""The numbers that a stored calibration may have; all others lie between -+MAX_NUMBER."""


@dataclass(frozen=True)
class Calibration:
    """The rule for a row's relevances, the nugget and the inflation of standard errors.

        logit(r_j / MAX_RELEVANCE) = level + linear log c_j^2 + pairwise log q_j
                                     + ratio log(mean q / mean c^2) + players_j

    Here c_j are the linear coefficients of the odd part, and q_j is the sum of the squared pairwise
    coefficients of player j in the even part. The logs of c_j^2 and q_j are centred over the row's
    players.

    A run whose rows have different numbers of active players, or stop at several stages, fits such
    numbers for each. One calibration holds all of them: with it, another run gives a row the same
    answer, whatever stage the row stops at.
    """

    level: float = -3.5
    linear: float = 0.2
    pairwise: float = 0.9
    ratio: float = 0.1
    nugget: float = 1e-4  #: white variance, relative to the kernel's diagonal
    inflation: float = 1.0  #: factor of the standard errors
    players: tuple[float, ...] = ()  #: (p,)
    #: of what depends on the coalition's size alone, relative to the kernel's diagonal
    size_variance: float = 0.0
    #: of players that seem to add nothing: what is added to the logits of their relevances, and the
    #: variance of their linear coefficients; None: they are like others
    quiet_shift: float = 0.0
    quiet_variance: float | None = None
    #: relevances (k, p) of a few pilot rows, at which kernels are shared; none: no rows share any
    centres: tuple[tuple[float, ...], ...] = ()
    #: complement pairs that it was fitted to, without the full and the empty coalition
    pairs: int = 0
    #: those of other numbers of pairs or active players, none of which has others
    others: tuple["Calibration", ...] = ()

    @classmethod
    def default(cls, players: int) -> "Calibration":
        """Return the calibration to use for p players if none was fitted."""
        return cls(players=(0.0,) * players)

    @classmethod
    def joined(cls, players: int, fitted: "Sequence[Calibration]") -> "Calibration":
        """Join calibrations of rows with `players` players, of which fewer may be active."""
        every = [fit for calibration in fitted for fit in (calibration, *calibration.others)]
        plain = sorted({replace(fit, others=()) for fit in every}, key=_size_and_pairs)
        if plain[-1].size == players:
            return replace(plain[-1], others=tuple(plain[:-1]))
        return replace(plain[-1].for_players(players), others=tuple(plain))

    @property
    def size(self) -> int:
        """The number of players p that it is for."""
        return len(self.players)

    def at(self, players: int, pairs: int) -> "Calibration":
        """Return the calibration for a number of active players and of pairs.

        It is that of the nearest number of players and, of these, of as many pairs; if there is
        none, of the largest number below, or the smallest.
        """
        fits = sorted((self, *self.others), key=_size_and_pairs)
        nearest = min(fits, key=lambda fit: abs(fit.size - players)).size
        near = [fit for fit in fits if fit.size == nearest]
        below = [fit for fit in near if fit.pairs <= pairs]
        chosen = below[-1] if below else near[0]
        return replace(chosen.for_players(players), others=())

    def for_players(self, count: int) -> "Calibration":
        """Return this calibration for rows with fewer active players, which may be any of them.

        The rule stays as it is, but knows nothing of single players.
        """
        if count == self.size:
            return self
        centres = tuple((sum(centre) / len(centre),) * count for centre in self.centres)
        return replace(self, players=(0.0,) * count, centres=tuple(dict.fromkeys(centres)))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, and the version of shearshap, as a dict that JSON can hold."""
        return {"version": __version__, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Calibration":
        """Return the calibration that `to_dict` wrote, also after JSON made lists of tuples.

        Numbers that a later version added are left out, with a warning. Anything else is an
        InputError.
        """
        try:
            calibration, notes = cls.read(data)
        except DAMAGES as error:
            raise InputError(
                f"calibration: expected what to_dict returns; {first_words(error)}"
            ) from error
        for note in notes:
            warn(note)
        return calibration

    @classmethod
    def read(cls, data: dict[str, Any]) -> tuple["Calibration", list[str]]:
        """Return the calibration that `to_dict` wrote, and a note on numbers that are left out."""
        if not isinstance(data, dict):
            raise ValueError(f"its calibration is {reprlib.repr(data)}")
        names = {each.name for each in fields(cls)}
        numbers = {name: number for name, number in data.items() if name in names}
        check_types(cls, numbers)
        _check_numbers(numbers)
        numbers["players"] = tuple(numbers["players"])
        numbers["centres"] = tuple(tuple(centre) for centre in numbers["centres"])
        others = [cls.read(other) for other in numbers["others"]]
        numbers["others"] = tuple(other for other, _ in others)
        notes = [note for _, each in others for note in each]
        unknown = sorted(data.keys() - names - {"version"})
        if unknown:
            version = data.get("version") or "of another version"
            notes.append(
                f"the calibration was fitted by shearshap {version}; shearshap {__version__} does "
                f"not know these numbers of it, and leaves them out: {', '.join(unknown)}"
            )
        return cls(**numbers), notes


def _check_numbers(numbers: Mapping[str, Any]) -> None:
    """Raise if some numbers would make no kernel, or not one of the players."""
    players = numbers["players"]
    centres = numbers["centres"]
    if any(len(centre) != len(players) for centre in centres):
        raise ValueError(f"its centres are not those of {len(players)} players")
    singles = {name: [number] for name, number in numbers.items() if number is not None}
    lists = {"players": players, "centres": chain.from_iterable(centres), "others": ()}
    for name, content in (singles | lists).items():
        low, high = RANGES.get(name, (-MAX_NUMBER, MAX_NUMBER))
        for number in content:
            # not True of NaN either
            if not low <= number <= high:
                raise ValueError(f"its {name} holds {reprlib.repr(number)}")


def _size_and_pairs(calibration: Calibration) -> tuple[int, int]:
    return calibration.size, calibration.pairs
