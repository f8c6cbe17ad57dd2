"""Complement pairs as signs, and the odd and even parts of games at them.

For p = 3 players and the pairs {0,1,2} | {}, {0} | {1,2} and {1} | {0,2}:

    signs (m, p)        odd (r k, m)             even (r k, m)
    + + +               (v(012) - v()) / 2       (v(012) + v()) / 2
    + - -               (v(0) - v(12)) / 2       (v(0) + v(12)) / 2
    - + -               (v(1) - v(02)) / 2       (v(1) + v(02)) / 2
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

Index = Tensor | slice
ALL = slice(None)


@dataclass(frozen=True)
class OddEven:
    """The odd and even parts of games at complement pairs.

    The pair of the full and the empty coalition comes first. Outputs that share a row's kernel are
    games that follow one another.
    """

    signs: Tensor  #: (m, p), 1 for a player on the first side of the pair, -1 elsewhere
    odd: Tensor  #: (r k, m)
    even: Tensor  #: (r k, m)
    outputs: int = 1  #: k

    @classmethod
    def of(cls, sides: Tensor, inside: Tensor, outside: Tensor, outputs: int = 1) -> "OddEven":
        """Return the parts of the values v(S) and v(S^c), (r k, m), of sides S (m, p)."""
        odd = (inside - outside) / 2
        even = (inside + outside) / 2
        return cls(signs_of(sides), odd, even, outputs)

    @property
    def rows(self) -> int:
        """The number of rows r."""
        return len(self.odd) // self.outputs

    @property
    def odd_by_row(self) -> Tensor:
        """The odd parts of each row's outputs, (r, k, m)."""
        return self.odd.reshape(self.rows, self.outputs, -1)

    def normalised(self) -> tuple["OddEven", Tensor]:
        """Return the parts divided by each game's largest value, and these values (r k, 1).

        Squares of the parts then stay finite.
        """
        largest = torch.maximum(self.odd.abs(), self.even.abs()).amax(1, keepdim=True)
        size = largest.clamp_min(torch.finfo(self.odd.dtype).tiny)
        return OddEven(self.signs, self.odd / size, self.even / size, self.outputs), size

    def take_rows(self, rows: Tensor) -> "OddEven":
        """Return the parts of all outputs of these rows."""
        games = rows[:, None] * self.outputs + torch.arange(self.outputs, device=rows.device)
        return replace(self.take(games.flatten()), outputs=self.outputs)

    def take_outputs(self, outputs: Tensor) -> "OddEven":
        """Return the parts of these outputs of all rows."""
        if len(outputs) == self.outputs:
            return self
        games = torch.arange(self.rows)[:, None] * self.outputs + outputs
        return replace(self.take(games.flatten()), outputs=len(outputs))

    def take_pairs(self, pairs: slice) -> "OddEven":
        """Return the parts of all games at these pairs."""
        return replace(self.take(pairs=pairs), outputs=self.outputs)

    def take(self, games: Index = ALL, pairs: Index = ALL) -> "OddEven":
        """Return the parts of these games, each as a row of its own, at these pairs."""
        odd = self.odd[games][:, pairs]
        even = self.even[games][:, pairs]
        return OddEven(self.signs[pairs], odd, even)

    def spread_games(self, count: int) -> Tensor:
        """Return the numbers of at most `count` games, spread over rows and outputs."""
        count = min(count, len(self.odd))
        places = torch.arange(count, device="cpu")
        rows = places % self.rows if self.rows < count else places * self.rows // count
        outputs = places * self.outputs // max(count, 1)
        return rows * self.outputs + outputs


def signs_of(sides: Tensor) -> Tensor:
    """Return sides of bool (m, p) as signs: 1 for a player on the side, -1 elsewhere."""
    return 2 * sides.double() - 1


def evenly_spaced(length: int, count: int) -> Tensor:
    """Return at most `count` of the indices 0 ... length - 1, evenly spaced."""
    count = max(0, min(length, count))
    return torch.arange(count, device="cpu") * length // max(count, 1)


def inner_pairs(signs: Tensor) -> Tensor:
    """Return which pairs (m, p) are neither the full coalition nor a single player, (m,) of bool.

    |sum_j u_j| is p for the full coalition, and p - 2 for a single player or all but one.
    """
    return signs.sum(1).abs() < signs.shape[1] - 2


def thinned_pairs(signs: Tensor, count: int) -> Tensor:
    """Return the indices of about `count` of the pairs (m, p).

    The full coalition and all single players stay, even if they are more than `count`. The rest are
    evenly spaced among the other pairs.
    """
    inner = inner_pairs(signs)
    ends = torch.nonzero(~inner)[:, 0]
    others = torch.nonzero(inner)[:, 0]

    places = evenly_spaced(len(others), count - len(ends))
    return torch.cat([ends, others[places.to(others.device)]])
