"""Walks of 64 rows at once through deep trees, compiled by numba.

A word has a bit, a lane, for each of 64 rows. A walk goes from the root to all leaves that some
coalition of one background row z and any of the rows reaches. On its way it knows the rows that
are alive, for each player the rows that failed it (u), and the players that z failed (q):

    at a node that asks player i, z goes one way, and rows that part from it the other way:
      towards z      all rows stay alive; those that part fail i from now on
      away from z    only rows that part stay, unless they failed i before; z fails i from now on
      if z failed i before, every row just follows its own way.

At a leaf, the sums `gain` and `loss` of each living row grow by what a player of q gets and what
one of u loses. A player is in q, or in u, below one node: so its value is the growth of the sum
between entering and leaving that part of the walk, and nothing is added player by player.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import intrinsic

WALK = 0  #: what is on the stack: a node to go on from,
LEAVE_ROWS = 1  #: the rows that have no longer failed a player,
ENTER_OTHER = 2  #: a player that z fails from now on,
LEAVE_OTHER = 3  #: and no longer.

ZERO = np.uint64(0)
ONE = np.uint64(1)
LANES = 64


@intrinsic  # type: ignore[untyped-decorator]
def lowest(_context: Any, _word: Any) -> Any:
    """Return the number of the lowest bit of a word that is not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], types_true())

    return types.int64(types.uint64), generate


def types_true() -> Any:
    from llvmlite import ir

    return ir.Constant(ir.IntType(1), 1)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def walk_values(
    roots: Any,
    child: Any,
    player: Any,
    value: Any,
    words: Any,
    other_right: Any,
    weights: Any,
    present: Any,
    absent: Any,
    depth: Any,
    sums: Any,
) -> None:
    """Add the values of all blocks of rows to `sums` (blocks, 64, p, k).

    words (blocks, n): which rows go right; other_right (b, n): whether a background row does.
    """
    outputs = value.shape[1]
    failed = np.zeros(sums.shape[2], dtype=np.uint64)
    is_other = np.zeros(sums.shape[2], dtype=np.bool_)
    count = np.zeros(LANES, dtype=np.int64)
    gain = np.zeros((LANES, outputs))
    loss = np.zeros((LANES, outputs))
    kinds = np.empty(4 * depth + 8, dtype=np.int64)
    items = np.empty(4 * depth + 8, dtype=np.int64)
    rows = np.empty(4 * depth + 8, dtype=np.uint64)

    for tree in range(len(roots)):
        for block in range(len(words)):
            right = words[block]
            table = sums[block]
            for z in range(len(other_right)):
                goes = other_right[z]
                weight = weights[z]
                gain[:] = 0.0
                loss[:] = 0.0
                others = 0
                kinds[0] = WALK
                items[0] = roots[tree]
                rows[0] = ~ZERO
                top = 1
                while top > 0:
                    top -= 1
                    kind = kinds[top]
                    node = items[top]
                    alive = rows[top]
                    if kind == LEAVE_ROWS:
                        failed[node] &= ~alive
                        while alive != ZERO:
                            row = lowest(alive)
                            alive &= alive - ONE
                            count[row] -= 1
                            for output in range(outputs):
                                table[row, node, output] -= loss[row, output]
                        continue
                    if kind == ENTER_OTHER:
                        is_other[node] = True
                        others += 1
                        while alive != ZERO:
                            row = lowest(alive)
                            alive &= alive - ONE
                            for output in range(outputs):
                                table[row, node, output] -= gain[row, output]
                        continue
                    if kind == LEAVE_OTHER:
                        is_other[node] = False
                        others -= 1
                        while alive != ZERO:
                            row = lowest(alive)
                            alive &= alive - ONE
                            for output in range(outputs):
                                table[row, node, output] += gain[row, output]
                        continue

                    while child[node] >= 0:
                        left = child[node]
                        side = goes[node]
                        asks = player[node]
                        parts = alive & (~right[node] if side else right[node])
                        towards = left + side
                        away = left + 1 - side
                        if is_other[asks]:
                            stays = alive & ~parts
                            if parts == ZERO:
                                node = towards
                            elif stays == ZERO:
                                node = away
                            else:
                                kinds[top] = WALK
                                items[top] = towards
                                rows[top] = stays
                                top += 1
                                node = away
                                alive = parts
                            continue
                        parts &= ~failed[asks]
                        if parts != ZERO:
                            # the stack is read from its end: z's part of the walk comes last
                            kinds[top] = LEAVE_OTHER
                            items[top] = asks
                            rows[top] = parts
                            kinds[top + 1] = WALK
                            items[top + 1] = away
                            rows[top + 1] = parts
                            kinds[top + 2] = ENTER_OTHER
                            items[top + 2] = asks
                            rows[top + 2] = parts
                            kinds[top + 3] = LEAVE_ROWS
                            items[top + 3] = asks
                            rows[top + 3] = parts
                            top += 4
                            failed[asks] |= parts
                            while parts != ZERO:
                                row = lowest(parts)
                                parts &= parts - ONE
                                count[row] += 1
                                for output in range(outputs):
                                    table[row, asks, output] += loss[row, output]
                        node = towards

                    while alive != ZERO:
                        row = lowest(alive)
                        alive &= alive - ONE
                        if_present = weight * present[others, count[row]]
                        if_absent = weight * absent[others, count[row]]
                        for output in range(outputs):
                            gain[row, output] += value[node, output] * if_present
                            loss[row, output] += value[node, output] * if_absent
