"""Methods that look at a row before they choose its coalitions, such as SHEAR.

look       every row's cross-contributions, by derivatives or from the values of coalitions
design     the method's, each row with coalitions of its own
values     those that the look has shown already; the others are asked for
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shearshap.engine.finished import Answer
from shearshap.engine.run import Run
from shearshap.games.coalitions import FULL, codes, end_coalitions
from shearshap.games.game import Game
from shearshap.interactions.cross import derivative_contribution, second_differences
from shearshap.interactions.fields import check_pairs
from shearshap.methods.base import Look


@dataclass(frozen=True)
class SeenValues:
    """Coalition values that are known after a look, those of the two ends first."""

    coalitions: Tensor  #: (c, p)
    values: Tensor  #: (r, c, k)


def answer_after_look(game: Game, run: Run, look: Look, rows: Tensor, ends: Tensor) -> Answer:
    """Look at a game's rows, design for each, ask for what is not known yet, and estimate.

    `rows` (r,) are the rows' numbers in their block, and `ends` (r, 2, k) the values of the two
    ends.
    """
    eta, seen = _looked(game, look, ends)
    rng = np.random.default_rng(run.seed)  # the same draws for all rows
    design = run.method.design_after(game, run.coalitions(game), rng, eta)
    if run.interactions:
        check_pairs(design.coalitions)

    values, fresh = _values_by_row(game, design.coalitions, seen)
    evaluations = (seen.values.shape[1] + fresh) * game.cost
    return Answer.of(rows, design, values, evaluations)


def most_looked_coalitions(game: Game, run: Run) -> int:
    """Return the most coalitions that a row's own design may have."""
    # with all the others as cooperators, 2^p coalitions for each of p players
    every = game.players << game.players
    return min(run.coalitions(game), every)


def _looked(game: Game, look: Look, ends: Tensor) -> tuple[Tensor, SeenValues]:
    """Return what the look shows of every row, (r, ...), and the values seen on the way."""
    both_ends = end_coalitions(game.players, game.device)[0]
    if look.kind == "distance":
        return game.distances(), SeenValues(both_ends, ends)
    if look.coalitions is None:
        return derivative_contribution(game, look.kind), SeenValues(both_ends, ends)

    # the full coalition comes first there, and is known
    without_full = look.coalitions[:, 1:]
    values = game(without_full)
    eta = second_differences(torch.cat((ends[:, FULL, None], values), dim=1), game.players)

    coalitions = torch.cat((both_ends, without_full[0]))
    return eta, SeenValues(coalitions, torch.cat((ends, values), dim=1))


def _values_by_row(game: Game, designs: Tensor, seen: SeenValues) -> tuple[Tensor, Tensor]:
    """Return the values (r, c, k) of designs (r, c, p), and how many were asked for, (r,).

    With numbers in place of coalitions, and x where a value must be asked for:

        seen       0  7  6  5  3      in columns 0 1 2 3 4, for all rows alike
        row 0      0  7  5  4         columns  0  1  3  x
        row 1      0  7  2  4         columns  0  1  x  x
    """
    rows, count, outputs = seen.values.shape
    designs = designs.expand(rows, -1, -1)
    if count == 2:
        # only the ends are known, and they come first: all else is asked for at once
        values = torch.cat((seen.values, game(designs[:, 2:])), dim=1)
        fresh = torch.full((rows,), designs.shape[1] - 2, device=values.device)
        return values, fresh

    row, place, column = _places_seen(designs, seen.coalitions)
    values = seen.values.new_empty((*designs.shape[:2], outputs))
    values[row, place] = seen.values[row, column]
    missing = torch.ones(designs.shape[:2], dtype=torch.bool, device=values.device)
    missing[row, place] = False
    if missing.any():  # with few players, a look may show all coalitions
        row, place = missing.nonzero(as_tuple=True)
        values[row, place] = game.each(row, designs[row, place])
    return values, missing.sum(dim=1)


def _places_seen(designs: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the row and place of all coalitions of designs (r, c, p) that are seen, and where.

    The last of the three is a coalition's column among those seen, (c', p).
    """
    # few coalitions have a size that was seen: only those get a key, which takes eight bytes
    sizes = designs.sum(dim=2)
    row, place = torch.isin(sizes, seen.sum(dim=1).unique()).nonzero(as_tuple=True)
    keys = codes(designs[row, place])

    seen_keys, order = codes(seen).sort()
    nearest = torch.searchsorted(seen_keys, keys).clamp_max(len(order) - 1)
    known = seen_keys[nearest] == keys
    return row[known], place[known], order[nearest[known]]
