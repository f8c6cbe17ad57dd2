"""Complement pairs as signs, and the odd and even parts of games at them.

For p = 3 players and the pairs {0,1,2} | {}, {0} | {1,2} and {1} | {0,2}:

    signs (m, p)        odd (r, m)               even (r, m)
    + + +               (v(012) - v()) / 2       (v(012) + v()) / 2
    + - -               (v(0) - v(12)) / 2       (v(0) + v(12)) / 2
    - + -               (v(1) - v(02)) / 2       (v(1) + v(02)) / 2
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Index = Tensor | slice
ALL = slice(None)


@dataclass(frozen=True)
class OddEven:
    """The odd and even parts of each row's game at complement pairs.

    The pair of the full and the empty coalition comes first.
    """

    signs: Tensor  #: (m, p), 1 for a player on the first side of the pair, -1 elsewhere
    odd: Tensor  #: (r, m)
    even: Tensor  #: (r, m)

    @classmethod
    def of(cls, sides: Tensor, inside: Tensor, outside: Tensor) -> "OddEven":
        """Return the parts of the coalition values v(S) and v(S^c), (r, m), of sides S (m, p)."""
        odd = (inside - outside) / 2
        even = (inside + outside) / 2
        return cls(signs_of(sides), odd, even)

    def normalised(self) -> tuple["OddEven", Tensor]:
        """Return the parts divided by each row's largest value, and these values (r, 1).

        Squares of the parts then stay finite.
        """
        largest = torch.maximum(self.odd.abs(), self.even.abs()).amax(1, keepdim=True)
        size = largest.clamp_min(torch.finfo(self.odd.dtype).tiny)
        return OddEven(self.signs, self.odd / size, self.even / size), size

    def take(self, rows: Index = ALL, pairs: Index = ALL) -> "OddEven":
        """Return the parts of these rows at these pairs."""
        odd = self.odd[rows][:, pairs]
        even = self.even[rows][:, pairs]
        return OddEven(self.signs[pairs], odd, even)


def signs_of(sides: Tensor) -> Tensor:
    """Return sides of bool (m, p) as signs: 1 for a player on the side, -1 elsewhere."""
    return 2 * sides.double() - 1


def evenly_spaced(length: int, count: int) -> Tensor:
    """Return at most `count` of the indices 0 ... length - 1, evenly spaced."""
    count = max(0, min(length, count))
    return torch.arange(count, device="cpu") * length // max(count, 1)


def thinned_pairs(signs: Tensor, count: int) -> Tensor:
    """Return the indices of about `count` of the pairs (m, p).

    The full coalition and all single players stay, even if they are more than `count`. The rest are
    evenly spaced among the other pairs.
    """
    players = signs.shape[1]

    # |sum_j u_j| is p for the full coalition, and p - 2 for a single player or all but one.
    imbalance = signs.sum(1).abs()
    ends = torch.nonzero(imbalance >= players - 2)[:, 0]
    others = torch.nonzero(imbalance < players - 2)[:, 0]

    places = evenly_spaced(len(others), count - len(ends))
    return torch.cat([ends, others[places.to(others.device)]])
