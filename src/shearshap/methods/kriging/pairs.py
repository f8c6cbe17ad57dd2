"""Complement pairs: which of them to ask for, and the odd and even parts of games at them.

For p = 3 players and the pairs {0,1,2} | {}, {0} | {1,2} and {1} | {0,2}:

    signs (m, p)        odd (r k, m)             even (r k, m)
    + + +               (v(012) - v()) / 2       (v(012) + v()) / 2
    + - -               (v(0) - v(12)) / 2       (v(0) + v(12)) / 2
    - + -               (v(1) - v(02)) / 2       (v(1) + v(02)) / 2

The pairs selected are those that lower the variance of the Shapley values most. The selection
depends on the players, the number of pairs and the draws alone, never on the model.
"""

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.games.coalitions import Bools, Floats, allocate, distinct_pairs, pair_caps
from shearshap.methods.kriging.kernel import shapley_of_kernel, shapley_of_white, size_covariance
from shearshap.methods.permutation import prefixes, random_orders

Indices = NDArray[np.int64]
Index = Tensor | slice
ALL = slice(None)

CANDIDATES = 8  #: how many times as many pairs there are to select from as are selected
SELECTION_WORK = 3e9  #: multiplications that the selection may cost; beyond, fewer candidates
SELECTIONS_KEPT = 16  #: the last selections, for services that explain one row at a time
SHORTLIST = 64  #: pairs among which the next ones are proposed
PROPOSED_GAIN = 0.95  #: the least gain proposed, as a part of the least on the list at first

PREFIX_LIMIT = 1.75
"""Below this many pairs per player, prefixes of a joining order come before single players.

In a smooth game, coalitions with one player present or absent are the most informative. But models
such as those of texts behave differently there. Prefixes, with their complements, show every player
twice, at two sizes. With more pairs, others show what happens in between.
"""

# The prior that selects pairs has a kernel of variance 1, and beside it:
SELECTION_NUGGET = 0.1  #: white variance
SELECTION_SIZE = 0.1  #: variance of the component of the coalition's size
SELECTION_LINEAR = 100.0  #: variance of the linear part, which stands for a flat prior

TIE_BREAK = 1e-6
"""A relative tie-break by position: the last pair loses this part of its gain, others less.

Symmetry makes many ties. So the first of those tied is taken, on all machines alike: rounding
errors are far smaller.
"""


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


def min_in_pairs(players: int) -> int:
    """Return the two ends, and a complement pair for each player."""
    return 2 + 2 * players


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


# The selection


def always() -> bool:
    """Return that there is time."""
    return True


def selected_pairs(
    players: int, count: int, rng: np.random.Generator, has_time: Callable[[], bool] = always
) -> Bools:
    """Return one side of `count` pairs, (m, p): single players or prefixes, then the best others.

    They are selected from CANDIDATES times as many, if the work allows. There are fewer if time is
    up before. A selection that was made before from the same state of the generator is not made
    again.
    """
    made = _selections_made(players, count, pickle.dumps(rng))
    if not made:
        pairs = _selection(players, count, rng, has_time)
        if len(pairs) < count:
            return pairs
        made.append((pairs, rng.bit_generator.state))
    pairs, rng.bit_generator.state = made[0]
    return pairs.copy()


@lru_cache(maxsize=SELECTIONS_KEPT)  # which several threads may share
def _selections_made(_players: int, _count: int, _generator: bytes) -> list[tuple[Bools, Any]]:
    """Return the list of the pairs selected, with the state of the generator after, if any were."""
    return []


def _selection(
    players: int, count: int, rng: np.random.Generator, has_time: Callable[[], bool]
) -> Bools:
    """Return the selected pairs."""
    affordable = int(SELECTION_WORK / (count * (count / 2 + 2 * players)))
    candidates = max(count, min(CANDIDATES * count, affordable))
    pairs = candidate_pairs(players, candidates, rng)
    first = players
    if count < PREFIX_LIMIT * players:
        pairs = chained(pairs, count, rng)
        first = players - 1
    if len(pairs) > count:
        pairs = pairs[pivoted_cholesky(pairs, count, first, has_time)]
    return pairs


def chained(pairs: Bools, count: int, rng: np.random.Generator) -> Bools:
    """Return pairs (m, p) with the prefixes of a joining order in place of single players.

    Single players come last, and only if there are fewer than `count` pairs without them.
    """
    players = pairs.shape[1]
    chain = prefixes(random_orders(players, 1, rng))
    signs = np.where(pairs, 1, -1) @ np.where(chain, 1, -1).T
    is_new = ~(np.abs(signs) == players).any(axis=1)
    single = pairs[:players][is_new[:players]]
    others = pairs[players:][is_new[players:]]
    missing = max(count - len(chain) - len(others), 0)
    return np.concatenate((chain, others, single[:missing]))


def candidate_pairs(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw distinct pairs, (count, p): the single players, then every size alike.

    If there are fewer pairs than `count`, all of them. They are shuffled, since the first of
    equally good pairs is selected: a random order favours no player.
    """
    caps = pair_caps(players)
    larger = allocate(count - players, np.ones(len(caps) - 1), caps[1:], rng)
    drawn = distinct_pairs(players, [caps[0], *larger.tolist()], rng)
    drawn[players:] = rng.permutation(drawn[players:])
    return drawn


def pivoted_cholesky(
    pairs: Bools, count: int, first: int | None = None, has_time: Callable[[], bool] = always
) -> Indices:
    """Return which of the pairs (m, p), (count,), lower the variance of the Shapley values most.

    Let o(n) be the odd part at pair n, under a prior K of one relevance for all players. Given the
    pairs chosen so far, pair n lowers sum_i var(phi_i) by

        gain(n) = sum_i cov(phi_i, o(n))^2 / var(o(n)).

    The greedy choice is a Cholesky factorisation of K that takes the largest gain as its pivot.
    Step s appends a row to the factor L (s, m), and conditions both covariances on the pivot:

        L[s]        = (K[pivot] - L[:s, pivot]' L[:s]) / sqrt(var(pivot))
        cov(phi, .) = cov(phi, .) - cov(phi, pivot) / sqrt(var(pivot)) L[s]'
        var(.)      = var(.) - L[s]^2

    The full coalition and the first pairs come first, so that the linear part is known. These are
    as many as players, the single ones, if not said otherwise. If time is up, those chosen by then
    are all.

    Products of matrices are faster than one step at a time. So the next few pivots are proposed
    from a short list of pairs, and the rows of all of them computed at once. These show the gains
    of all pairs at each of the steps, and the pivots are taken up to the first that is not the
    best. So the choice is the same as that of one step at a time.
    """
    factor = PivotedFactor(SelectionPrior.from_pairs(pairs), count + 1)
    first = pairs.shape[1] if first is None else first
    factor.append(factor.step_on(np.arange(first + 1)))

    while factor.steps <= count and has_time():
        proposed = factor.step_on(factor.proposed_pivots(count + 1 - factor.steps))
        factor.append(proposed.first(factor.best_pivots(proposed)))

    # Pivot 0 is the full coalition, which is in every design.
    return factor.pivots[1 : factor.steps] - 1


@dataclass(frozen=True)
class SelectionPrior:
    """The prior that selects pairs: one relevance for all players, a linear part and sizes.

    So a covariance depends on how many players two pairs have on the same side and on their sizes,
    and that with a Shapley value on a pair's size and whether the player is in it.
    """

    signs: NDArray[np.float32]  #: (1 + m, p), the full coalition first
    sizes: Indices  #: (1 + m,), players on the first side of a pair
    by_dot: Floats  #: (2 p + 1,), cov(o(u), o(u')) if u . u' = -p ... p, without nugget and size
    by_size: Floats  #: (p + 1, p + 1), what two pairs have in common by their sizes
    cross: Floats  #: (p, 1 + m), cov(phi, o)
    variance: Floats  #: (1 + m,), var(o)

    @classmethod
    def from_pairs(cls, pairs: Bools) -> "SelectionPrior":
        """Return the prior for candidate pairs (m, p)."""
        players = pairs.shape[1]
        full = np.ones((1, players), dtype=np.float32)
        signs = np.concatenate((full, np.where(pairs, np.float32(1), np.float32(-1))))

        r = min(3 / players, 0.5)
        dot = np.arange(-players, players + 1)
        # the odd kernel of equal relevances, a function of u . u' alone
        determinant = (1 - r * r) ** (players / 2)
        kernel = determinant * np.sinh(math.atanh(r) * dot) - r * dot
        scale = float(kernel[-1])
        by_dot = kernel / scale + SELECTION_LINEAR / players * dot

        # The first 1 ... p players stand for all coalitions of these sizes.
        u = torch.from_numpy(2.0 * np.tri(players) - 1)
        of_kernel, _ = shapley_of_kernel(u, u.new_full((1, players), r))
        of_white, _ = shapley_of_white(u)
        of_linear = 2 * SELECTION_LINEAR / players * u.mT
        by_count = (of_kernel[0] / scale + SELECTION_NUGGET * of_white + of_linear).numpy()
        sizes = np.count_nonzero(signs > 0, axis=1)
        # the first player is in all of them, the last only in that of all
        cross = np.where(signs.T > 0, by_count[0][sizes - 1], by_count[-1][sizes - 1])

        by_size = SELECTION_SIZE * size_covariance(players).numpy()
        variance = by_dot[-1] + SELECTION_NUGGET + by_size.diagonal()[sizes]
        return cls(signs, sizes, by_dot, by_size, cross, variance)

    def covariance(self, pairs: Indices) -> Floats:
        """Return cov(o(pairs), o), (n, 1 + m)."""
        covariance = self._kernel(pairs, slice(None))
        covariance[np.arange(len(pairs)), pairs] += SELECTION_NUGGET
        return covariance

    def covariance_among(self, pairs: Indices) -> Floats:
        """Return cov(o(pairs), o(pairs)), (n, n)."""
        return self._kernel(pairs, pairs) + SELECTION_NUGGET * np.eye(len(pairs))

    def _kernel(self, some: Indices, others: Indices | slice) -> Floats:
        """Return the covariances of some pairs and others, without the nugget."""
        dot = _product(self.signs[some], self.signs[others].T).astype(np.intp)
        of_dot = self.by_dot.take(dot + self.signs.shape[1])
        return np.asarray(of_dot + self.by_size[self.sizes[some]][:, self.sizes[others]])


@dataclass(frozen=True)
class Step:
    """Pivots, and what conditioning on them takes: n pivots, one after the other."""

    pivots: Indices  #: (n,)
    rows: Floats  #: (n, 1 + m), of the factor
    weights: Floats  #: (n, p), cov(phi, pivot) / sqrt(var(pivot)), given the pivots before

    def first(self, count: int) -> "Step":
        """Return the step on the first of the pivots."""
        return Step(self.pivots[:count], self.rows[:count], self.weights[:count])


class PivotedFactor:
    """The rows of a Cholesky factor, and the covariances given the pivots so far."""

    def __init__(self, prior: SelectionPrior, most: int) -> None:
        pairs = len(prior.signs)
        self.prior = prior
        self.steps = 0
        self.pivots: Indices = np.empty(most, dtype=np.int64)
        self.rows: Floats = np.empty((most, pairs))
        self.cross = prior.cross.copy()  #: (p, 1 + m), of the Shapley values
        self.squares = _sums_of_squares(self.cross)  #: (1 + m,)
        self.variance = prior.variance.copy()  #: (1 + m,), infinite at pivots: they gain nothing
        self.tie_break = np.linspace(1, 1 - TIE_BREAK, pairs)

    def step_on(self, pivots: Indices) -> Step:
        """Return what conditioning on more pivots takes."""
        known = self.rows[: self.steps]
        covariance = self.prior.covariance(pivots)
        covariance -= _product(known[:, pivots].T, known)
        root = torch.linalg.cholesky(torch.from_numpy(covariance[:, pivots]))
        whitening = torch.linalg.inv(root).numpy()

        rows = self.rows[self.steps :][: len(pivots)]
        rows[:] = _product(whitening, covariance)
        return Step(pivots, rows, _product(whitening, self.cross[:, pivots].T))

    def append(self, step: Step) -> None:
        """Condition on the pivots of a step."""
        # its rows are where `step_on` has put them
        self.pivots[self.steps :][: len(step.pivots)] = step.pivots
        self.steps += len(step.pivots)

        self.cross -= _product(step.weights.T, step.rows)
        self.squares = _sums_of_squares(self.cross)
        self.variance -= _sums_of_squares(step.rows)
        self.variance[step.pivots] = np.inf

    def proposed_pivots(self, most: int) -> Indices:
        """Return the next pivots, as far as a short list of the best pairs now shows."""
        gain = self.squares / self.variance * self.tie_break
        size = min(SHORTLIST, len(gain) - self.steps)
        listed = np.sort(np.argpartition(gain, -size)[-size:])

        known = self.rows[: self.steps, listed]
        covariance = self.prior.covariance_among(listed) - _product(known.T, known)
        least = PROPOSED_GAIN * gain[listed].min()
        places = _greedy(covariance, self.cross[:, listed], self.tie_break[listed], least, most)
        return listed[places]

    def best_pivots(self, step: Step) -> int:
        """Return how many of the step's pivots, from the first on, have the largest gain.

        Let c_t be the weights of pivot t, l_t its row, and C_t the covariance with the Shapley
        values before it. Each step changes the sums of squares of C by

            |C_t - c_t l_t'|^2 - |C_t|^2 = l_t (|c_t|^2 l_t - 2 c_t' C_t),
            c_t' C_t                     = c_t' C_0 - sum over s < t of (c_t . c_s) l_s.
        """
        gram = _product(step.weights, step.weights.T)
        mixed = 2 * np.tril(gram) - np.diag(gram.diagonal())
        change = _product(mixed, step.rows)
        change -= _product(2 * step.weights, self.cross)
        change *= step.rows

        squares = self.squares.copy()
        variance = self.variance.copy()
        for t, following in enumerate(step.pivots[1:]):
            squares += change[t]
            variance -= np.square(step.rows[t])
            variance[step.pivots[t]] = np.inf
            if following != (squares / variance * self.tie_break).argmax():
                return t + 1
        return len(step.pivots)


def _product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a @ b, by torch: numpy's threads are others than those that a user gives torch.

    When workers share the cores, unwanted threads wait for each other.
    """
    return np.asarray((torch.from_numpy(a) @ torch.from_numpy(b)).numpy())


def _sums_of_squares(x: Floats) -> Floats:
    """Return the sum of squares of each column."""
    return np.asarray(np.einsum("ij,ij->j", x, x))


def _greedy(
    covariance: Floats, cross: Floats, tie_break: Floats, least: float, most: int
) -> Indices:
    """Return pivots of the largest gains one after the other, as long as these are not too small.

    The covariances, (n, n) and (p, n), are those of a short list.
    """
    n = len(covariance)
    both = np.concatenate((covariance, cross))
    cross = both[n:]
    variance = both.diagonal()

    pivots: list[int] = []
    while len(pivots) < min(most, n):
        gain = _sums_of_squares(cross) / variance * tie_break
        pivot = int(gain.argmax())
        if pivots and gain[pivot] < least:
            break
        pivots.append(pivot)
        both -= np.outer(both[:, pivot], both[pivot] / both[pivot, pivot])
        both[pivot, pivot] = np.inf
    return np.array(pivots)
