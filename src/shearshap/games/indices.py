"""Indices of a game: numbers for its sets of players, each a linear function of its values.

With u = 2z - 1 and v = sum_T c_T prod_{j in T} u_j, all indices here have one form. For a set S of
s players

    I_S = 2^s * sum over T containing S of c_T M_s(|T| - s),

so that an index is its moments M_s. If it is the discrete derivative of v at S, averaged over
random coalitions of the other players, M_s(n) is the mean of the product of the signs u of n
others. For players that are present with probability t, and t drawn from a distribution on [0, 1],

    M_s(n) = E[(2t - 1)^n]       Shapley: t is uniform       Banzhaf: t = 1/2

Semivalue           numbers for single players, by how many others are present
interaction_index   numbers for sets of up to k players: SII, k-SII, STII, FSII
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations
from math import comb, isfinite
from typing import Any, Literal

from shearshap.errors import InputError

InteractionName = Literal["k-SII", "SII", "STII", "FSII"]

SEMIVALUES = ("shapley", "banzhaf")
MAX_EXACT_SUM = 1e-6  #: by which the sum of a user's weights may differ from 1

Sets = list[tuple[int, ...]]
Numbers = tuple[Fraction, ...]  #: exact, as their sums would lose all digits


@dataclass(frozen=True)
class Index:
    """An index of the sets of up to k of p players, by its moments."""

    players: int
    moments: tuple[Numbers, ...]  #: M_1, ..., M_k, of p - s + 1 numbers each

    @property
    def order(self) -> int:
        """The largest number of players in a set."""
        return len(self.moments)

    @property
    def sets(self) -> int:
        """How many sets there are."""
        return sum(comb(self.players, size) for size in range(1, self.order + 1))

    @property
    def is_odd(self) -> bool:
        """Whether an index of single players depends on v(S) - v(S^c) alone."""
        return self.order == 1 and not any(self.moments[0][1::2])


def sets_up_to(players: int, order: int) -> Sets:
    """Return all sets of 1 to `order` players: the smaller ones first, then in dictionary order."""
    return [each for size in range(1, order + 1) for each in combinations(range(players), size)]


# Numbers for single players


@dataclass(frozen=True)
class Semivalue:
    """The mean of what a player adds to a random coalition of the others.

    All coalitions of a size are equally likely. The probabilities of the sizes 0 to p - 1 make the
    semivalue (Dubey, Neyman & Weber 1981):

        Shapley value    1 / p for each          Banzhaf value    C(p - 1, s) / 2^(p - 1)
    """

    name: str
    weights: tuple[float, ...] = ()  #: the probabilities of a user's own, for all players

    @classmethod
    def from_option(cls, option: Any) -> "Semivalue":
        """Return the semivalue of a name, or of weights by size."""
        if isinstance(option, Semivalue):
            return option
        if isinstance(option, str) and option in SEMIVALUES:
            return SHAPLEY if option == "shapley" else BANZHAF
        expected = (
            "semivalue: expected 'shapley', 'banzhaf', or a weight for each number of other "
            "features present, from 0 to all: not negative, with the sum 1"
        )
        try:
            weights = tuple(float(weight) for weight in option)
        except (TypeError, ValueError):
            raise InputError(f"{expected}; got {option!r}") from None
        total = sum(weights)
        if not isfinite(total) or abs(total - 1) > MAX_EXACT_SUM or min(weights) < 0:
            raise InputError(f"{expected}; got {list(weights)} of sum {total:g}")
        return cls("semivalue", tuple(weight / total for weight in weights))

    def probabilities(self, players: int) -> Numbers:
        """Return how likely it is that 0 to p - 1 of the others are present, (p,).

        If only p of a user's q players take part, as the others are null, it is how likely that is
        among those: of s present others, t are drawn (hypergeometric).
        """
        if self == SHAPLEY:
            return (Fraction(1, players),) * players
        if self == BANZHAF:
            halves = 1 << (players - 1)
            return tuple(Fraction(comb(players - 1, size), halves) for size in range(players))
        others = len(self.weights) - 1
        return tuple(
            _total(
                Fraction(weight) * comb(size, present) * comb(others - size, players - 1 - present)
                for size, weight in enumerate(self.weights)
            )
            / comb(others, players - 1)
            for present in range(players)
        )

    def check_players(self, players: int) -> None:
        """Raise if there are weights for another number of players than a game has."""
        if self.weights and len(self.weights) != players:
            raise InputError(
                f"semivalue: expected {players} weights, for 0 to {players - 1} other features, "
                f"got {len(self.weights)}"
            )

    def chance(self, present: int, absent: int, players: int) -> float:
        """Return the probability that some others are all present, and some all absent."""
        if self == BANZHAF:
            return 0.5 ** (present + absent)
        free = players - 1 - present - absent
        sizes = enumerate(self.probabilities(players)[present : present + free + 1])
        return float(
            _total(
                weight * comb(free, more) / comb(players - 1, present + more)
                for more, weight in sizes
            )
        )

    def index(self, players: int) -> Index:
        """Return the semivalue as an index of single players."""
        return _semivalue_index(self, players)


SHAPLEY = Semivalue("Shapley value")
BANZHAF = Semivalue("Banzhaf value")


@lru_cache
def _semivalue_index(semivalue: Semivalue, players: int) -> Index:
    """Return the index: given the size, M(n) is the mean of a product of n of the p - 1 signs."""
    sizes = krawtchouk(players - 1)
    chances = semivalue.probabilities(players)
    moments = (
        _total(chance * sizes[size][n] for size, chance in enumerate(chances))
        / comb(players - 1, n)
        for n in range(players)
    )
    return Index(players, (tuple(moments),))


@cache
def krawtchouk(players: int) -> list[list[int]]:
    """Return e_n of p signs of which s are +1, for s and n of 0 to p: K[s][n].

    e_n is the sum of the products of n of them. From e_1 e_n,

        (n + 1) e_{n+1} = e_1 e_n - (p - n + 1) e_{n-1}.
    """
    table = []
    for size in range(players + 1):
        total = 2 * size - players
        line = [0, 1]
        for n in range(players):
            line.append((total * line[-1] - (players - n + 1) * line[-2]) // (n + 1))
        table.append(line[1:])
    return table


# Numbers for sets


@lru_cache
def interaction_index(name: InteractionName, order: int, players: int) -> Index:
    """Return an interaction index of the sets of up to `order` players.

    SII     the Shapley interaction index of every set (Grabisch & Roubens 1999)
    k-SII   SII, of which larger sets give a part to smaller ones (Bordt & von Luxburg 2023)
    STII    the Shapley-Taylor interaction index (Sundararajan, Dhamdhere & Agarwal 2020)
    FSII    the faithful Shapley interaction index (Tsai, Yeh & Ravikumar 2023)

    All but SII add up to v(all) - v(none).
    """
    rules = {"SII": _sii, "k-SII": _k_sii, "STII": _stii, "FSII": _fsii}
    moments = (
        tuple(rules[name](size, order, n) for n in range(players - size + 1))
        for size in range(1, order + 1)
    )
    return Index(players, tuple(moments))


def _sii(_size: int, _order: int, n: int) -> Fraction:
    """Return M(n) for t uniform."""
    return Fraction(1 - n % 2, n + 1)


def _k_sii(size: int, order: int, n: int) -> Fraction:
    """Return M(n) of the sum over T containing S, |T| <= k, of B_{|T| - s} SII_T."""
    shares = _bernoulli(order - size)
    return _total(
        share * comb(n, more) * 2**more * _sii(0, 0, n - more)
        for more, share in enumerate(shares)
        if more <= n
    )


def _stii(size: int, order: int, n: int) -> Fraction:
    """Return M(n): derivatives at the empty set but for the largest sets, t of Beta(1, k)."""
    if size < order:
        return Fraction((-1) ** n)
    return _of_powers([Fraction(1, comb(order + power, power)) for power in range(n + 1)])


def _fsii(size: int, order: int, n: int) -> Fraction:
    """Return M(n), from what a product of t players z_j gives to s of them.

    It is 1 if t = s, 0 if s < t <= k and, by Tsai et al. 2023, Theorem 19, else

        (-1)^(k - s) s / (k + s) C(k, s) C(t - 1, k) / C(t + k - 1, k + s).

    For s = k these are the moments of Beta(k, k).
    """
    powers = [Fraction(1)]
    for total in range(size + 1, size + n + 1):
        share = Fraction(size * comb(order, size) * comb(total - 1, order), order + size)
        powers.append((-1) ** (order - size) * share / comb(total + order - 1, order + size))
    return _of_powers(powers)


def _of_powers(powers: Sequence[Fraction]) -> Fraction:
    """Return E[(2t - 1)^n] of E[t^0], ..., E[t^n]."""
    n = len(powers) - 1
    return _total(
        comb(n, power) * 2**power * (-1) ** (n - power) * mean for power, mean in enumerate(powers)
    )


@cache
def _bernoulli(last: int) -> list[Fraction]:
    """Return the Bernoulli numbers B_0, ..., B_last, with B_1 = -1/2."""
    numbers: list[Fraction] = []
    for n in range(last + 1):
        known = _total(comb(n + 1, k) * number for k, number in enumerate(numbers))
        numbers.append(Fraction(1) if n == 0 else -known / (n + 1))
    return numbers


def _total(numbers: Iterable[Fraction]) -> Fraction:
    return sum(numbers, Fraction(0))


# Games of the size alone


@lru_cache
def size_weights(index: Index) -> tuple[tuple[float, ...], ...]:
    """Return G_s(a) for sizes a of 0 to p: a game f of the size alone has I_S = sum_a G_s(a) f(a).

    The value of a coalition of which l players are in S, and t are not, counts for
    2^(s - p) (-1)^(s - l) sum_n M_s(n) e_n, with e_n that of the signs of the p - s others.
    """
    found = []
    for size, moments in enumerate(index.moments, start=1):
        others = index.players - size
        weights = [Fraction(0)] * (index.players + 1)
        for outside, signs in enumerate(krawtchouk(others)):
            of_one = _total(moment * e for moment, e in zip(moments, signs, strict=True))
            for inside in range(size + 1):
                count = comb(others, outside) * comb(size, inside) * (-1) ** (size - inside)
                weights[outside + inside] += count * of_one / 2**others
        found.append(tuple(map(float, weights)))
    return tuple(found)
