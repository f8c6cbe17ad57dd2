"""Products of players: the functions prod_{j in T} u_j that carry most of a game's odd part.

Under a row's prior the coefficient of T has the variance prod_{j in T} r_j, so that its kernel is

    K = sum_T r_T u_T u_T'        for odd T with three players or more.

The largest few r_T make most of it. They differ from row to row, but the vectors u_T do not.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from shearshap.games.coalitions import members_of_all_sets
from shearshap.methods.kriging.kernels import odd_scale

ORDERS = (3, 5, 7)  #: numbers of players in a product
MOST_CANDIDATES = 20_000  #: products of one order; if there are more, only triples are candidates


@dataclass(frozen=True)
class Products:
    """A few products of players."""

    members: Tensor  #: (f, p), 1 for a player in the product, else 0
    columns: Tensor  #: (m, f), the product at each pair
    shapley: Tensor  #: (p, f), the Shapley values of a product: 2 / |T| for each of its players

    @classmethod
    def of(cls, u: Tensor, r: Tensor, count: int) -> "Products":
        """Return the products of the largest mean variance at relevances r (k, p)."""
        members = _candidates(u.shape[1], u)
        importance = _variances(members, r).mean(0)
        largest = torch.topk(importance, min(count, len(members))).indices
        members = members[largest.sort().values]

        # A product is minus one to the number of its players with the sign -1.
        negative = (1 - u) / 2 @ members.mT
        columns = 1 - 2 * (negative % 2)
        return cls(members, columns, 2 * (members / members.sum(1, keepdim=True)).mT)

    def variances(self, r: Tensor) -> Tensor:
        """Return the variances r_T at relevances (r, p), as parts of k(u, u), (r, f)."""
        return _variances(self.members, r)


def _variances(members: Tensor, r: Tensor) -> Tensor:
    log_variance = r.log() @ members.mT - odd_scale(r).log()[:, None]
    return log_variance.exp_()


def _candidates(players: int, like: Tensor) -> Tensor:
    """Return the products to choose from, (f, p)."""
    by_order = [
        _all_products(players, order, like)
        for order in ORDERS
        if order == ORDERS[0] or math.comb(players, order) <= MOST_CANDIDATES
    ]
    return torch.cat(by_order)


def _all_products(players: int, order: int, like: Tensor) -> Tensor:
    index = torch.from_numpy(members_of_all_sets(players, order)).to(like.device)
    return like.new_zeros(len(index), players).scatter_(1, index, 1.0)
