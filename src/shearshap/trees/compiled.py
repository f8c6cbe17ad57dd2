"""Walks of 64 rows at once through deep trees, compiled by numba.

A word has a bit for each of 64 rows. A walk goes from the root to all leaves that some
coalition of one background row z and any of the rows reaches. On its way it knows the rows that
are alive, for each player the rows that failed it (u), and the players that z failed (q):

    at a node that asks player i, z goes one way, and rows that part from it the other way:
      towards z      all rows stay alive; those that part fail i from now on
      away from z    only rows that part stay, unless they failed i before; z fails i from now on
      if z failed i before, every row just follows its own state.

At a leaf, the sums `gain` and `loss` of each living row grow by what a player of q gets and what
one of u loses. A player is in q, or in u, below one node: so its value is the growth of the sum
between entering and leaving that part of the walk, and nothing is added player by player.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from shearshap.trees.covers import CoverWalk, edges_of
from shearshap.trees.forest import Bools, Bytes, Floats, Integers
from shearshap.trees.layout import BackgroundGame, CoverGame, Layout
from shearshap.trees.leaves import Coefficients

Words = Any  # arrays of uint64, and what numba makes of them

WALK = 0  #: what is on the stack: a node to go on from,
LEAVE_ROWS = 1  #: a player that rows have no longer failed,
ENTER_OTHER = 2  #: a player that z fails from now on,
LEAVE_OTHER = 3  #: and no longer.

ZERO = np.uint64(0)
ONE = np.uint64(1)
ROWS_PER_WORD = 64
COVER_ROWS = 64  #: that walk side by side without a background
MAX_ANSWER_BYTES = 1 << 25  #: of answers to decisions that are kept at a time
MAX_SORT_COLUMNS = 8  #: by which rows are sorted, so that neighbours take similar ways

compiled = njit(cache=True, error_model="numpy")


class CompiledWalk:
    """Sums of rows against a background, for trees of any depth, by numba."""

    def __init__(self, game: BackgroundGame) -> None:
        self.game = game
        layout = game.layout
        order = np.argsort(layout.tree, kind="stable")  # a tree's nodes next to each other
        place = np.argsort(order)
        child = layout.child[order]
        self.trees = Trees(
            roots=place[layout.levels[0]],
            child=np.where(child < 0, -1, place[child]),
            player=layout.player[order],
            value=layout.value[order],
        )
        self.decision = layout.decision[order]
        self.depth = len(layout.levels)
        self.decisions = layout.decisions
        self.columns = _columns(layout)

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        order = _alike(seen, self.columns)
        bytes_a_block = (len(self.decisions) + 8 * sums[0].size) * ROWS_PER_WORD
        step = max(1, MAX_ANSWER_BYTES // bytes_a_block) * ROWS_PER_WORD
        for start in range(0, len(seen), step):
            rows = order[start : start + step]
            found = self._found(seen[rows], sums.shape[1:])
            sums[rows] += found.reshape(-1, *sums.shape[1:])[: len(rows)]

    def _found(self, seen: Floats, shape: tuple[int, ...]) -> Floats:
        """Return the sums (blocks, 64, cells, k) of rows, of which the last may be none."""
        game = self.game
        words = self._words(seen)
        found = np.zeros((len(words), ROWS_PER_WORD, *shape))
        factors = game.factors(min(self.depth, game.players))
        step = max(1, MAX_ANSWER_BYTES // max(1, len(self.decision)))
        for start in range(0, len(game.background), step):
            some = slice(start, start + step)
            right = self.decisions.go_right(game.background[some])[self.decision]
            others = BackgroundRows(np.ascontiguousarray(right.T), game.weights[some])
            walk(self.trees, self.depth, words, others, factors, game.players, game.pairs, found)
        return found

    def _words(self, seen: Floats) -> NDArray[np.uint64]:
        """Return the rows that go right, (blocks, n), a bit for each row of a block."""
        packed = np.packbits(self.decisions.go_right(seen), axis=1, bitorder="little")
        packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % (ROWS_PER_WORD // 8))))
        words = packed.view(np.dtype("<u8"))
        return np.ascontiguousarray(words[self.decision].T, dtype=np.uint64)


class CompiledCoverWalk:
    """Sums of rows for trees of any depth whose absent players follow the covers, by numba.

    The walk of `CoverWalk`, with some rows side by side: their products P, and the sums of these
    below each node of the path, stay in the processor's cache. Pairs are walked by numpy.
    """

    def __init__(self, game: CoverGame) -> None:
        layout = game.layout
        self.pairs = CoverWalk(game) if game.pairs else None
        self.decisions = layout.decisions
        order = _depth_first(layout)
        edges = edges_of(layout)
        parent = np.maximum(layout.parent[order], 0)
        before = edges.before[order]
        self.depth = len(layout.levels)
        self.edges = CoverEdges(
            depth=layout.depths[order],
            is_leaf=layout.child[order] < 0,
            value=layout.value[order],
            decision=layout.decision[parent],
            on_right=(layout.child[parent] != order).astype(np.uint8),
            player=layout.player[parent],
            before=np.where(before < 0, 0, layout.depths[before]),
            factor=edges.factor[order],
            gain=edges.gain[order],
        )

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        if self.pairs is not None:
            self.pairs.add(seen, sums)
            return
        blocks_at_once = MAX_ANSWER_BYTES // ((len(self.decisions) + 1) * COVER_ROWS)
        step = max(1, blocks_at_once) * COVER_ROWS
        for start in range(0, len(seen), step):
            some = seen[start : start + step]
            right = self.decisions.go_right(some)
            right = np.pad(right, ((0, 0), (0, -len(some) % COVER_ROWS)))
            blocks = right.reshape(len(right), -1, COVER_ROWS).transpose(1, 0, 2)
            found = np.zeros((len(blocks), *sums.shape[1:], COVER_ROWS))
            walk_covers(self.edges, self.depth, np.ascontiguousarray(blocks), found)
            found = found.transpose(0, 3, 1, 2).reshape(-1, *sums.shape[1:])
            sums[start : start + step] += found[: len(some)]


def _depth_first(layout: Layout) -> Integers:
    """Return the nodes (n,) of one tree after the other, each before all that is below it."""
    sizes = np.ones(len(layout.child), dtype=np.int64)
    for level in reversed(layout.levels[1:]):
        np.add.at(sizes, layout.parent[level], sizes[level])
    place = np.zeros(len(sizes), dtype=np.int64)
    roots = layout.levels[0]
    place[roots] = np.cumsum(sizes[roots]) - sizes[roots]
    for level in layout.levels[1:]:
        left = np.arange(level.start, level.stop, 2)
        place[left] = place[layout.parent[left]] + 1
        place[left + 1] = place[left] + sizes[left]
    return np.argsort(place)


def _columns(layout: Layout) -> Integers:
    """Return the columns that are asked about most near the roots, the first one most."""
    inner = np.flatnonzero(layout.child >= 0)
    column = layout.decisions.column[layout.decision[inner]]
    asked = np.bincount(column, weights=0.5 ** layout.depths[inner])
    return np.argsort(-asked, kind="stable")[:MAX_SORT_COLUMNS]


def _alike(seen: Floats, columns: Integers) -> Integers:
    """Return an order of rows whose neighbours take similar ways, so that walks are shared."""
    code = np.zeros(len(seen), dtype=np.int64)
    for column in columns:
        values = seen[:, column]
        middle = np.partition(values, len(values) // 2)[len(values) // 2]
        code = 2 * code + (values > middle)
    return np.argsort(code, kind="stable")


# What is compiled


class Trees(NamedTuple):
    """The trees that are walked."""

    roots: Integers  #: (t,)
    child: Integers  #: (n,) the node to the left, with that to the right behind it; -1 for leaves
    player: Integers  #: (n,)
    value: Floats  #: (n, k)


class BackgroundRows(NamedTuple):
    """Some background rows."""

    right: Bytes  #: (b, n) whether each goes right at each node
    weight: Floats  #: (b,)


class Stack(NamedTuple):
    """What is still to do, the next thing last."""

    kind: Integers
    item: Integers  #: a node or a player
    rows: Words


class PathState(NamedTuple):
    """What a walk knows on its way."""

    failed: Words  #: (p,) the rows that failed each player
    failures: Integers  #: (64,) how many players each row failed
    entered: Integers  #: the players that rows failed, one after the other,
    entered_rows: Words  #: and which rows
    is_other: Bools  #: (p,) whether z failed each player
    others: Integers  #: the players that z failed, one after the other
    sizes: Integers  #: (2,) how many are in `entered` and `others`


def _lowest(_context: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        zero_is_undefined = ir.Constant(ir.IntType(1), 1)
        return builder.cttz(arguments[0], zero_is_undefined)

    return types.int64(types.uint64), generate


lowest: Any = intrinsic(_lowest)  #: the number of the lowest bit of a word that is not 0


# The walk


@compiled
def walk(
    trees: Trees,
    depth: int,
    words: Words,
    background: BackgroundRows,
    factors: Coefficients,
    players: int,
    pairs: bool,
    sums: Floats,
) -> None:
    """Add the values of rows to `sums` (blocks, 64, p, k), or their interactions (.., p * p, k).

    Bit r of words (blocks, n) says whether row r of a block goes right at a node. Interactions are
    added to one of the two cells of a pair.
    """
    room = 4 * depth + 8  # four things a level
    stack = Stack(
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.uint64),
    )
    state = PathState(
        np.zeros(players, dtype=np.uint64),
        np.zeros(ROWS_PER_WORD, dtype=np.int64),
        np.zeros(depth + 1, dtype=np.int64),
        np.zeros(depth + 1, dtype=np.uint64),
        np.zeros(players, dtype=np.bool_),
        np.zeros(depth + 1, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )
    members = np.empty(depth + 1, dtype=np.int64)
    gain = np.zeros((ROWS_PER_WORD, trees.value.shape[1]))
    loss = np.zeros((ROWS_PER_WORD, trees.value.shape[1]))
    for root in trees.roots:
        for block in range(len(words)):
            table = sums[block]
            for z in range(len(background.right)):
                gain[:] = 0.0
                loss[:] = 0.0
                top = _push(stack, 0, WALK, root, ~ZERO)
                while top > 0:
                    top -= 1
                    kind = stack.kind[top]
                    item = stack.item[top]
                    rows = stack.rows[top]
                    if kind == WALK:
                        start = state.sizes[0]
                        top, item, rows = _descend(
                            trees, words[block], background.right[z], stack, top, state, item, rows
                        )
                        value = trees.value[item]
                        weight = background.weight[z]
                        if pairs:
                            _add_pairs(table, value, weight, rows, state, factors, members)
                            continue
                        for entry in range(start, state.sizes[0]):
                            _add_to_player(
                                table, state.entered[entry], state.entered_rows[entry], loss, 1.0
                            )
                        _add_leaf(value, weight, rows, state, factors, gain, loss)
                        continue
                    _change(state, kind, item, rows)
                    if not pairs:
                        amounts = loss if kind == LEAVE_ROWS else gain
                        sign = 1.0 if kind == LEAVE_OTHER else -1.0
                        _add_to_player(table, item, rows, amounts, sign)


# On the way


@compiled
def _push(stack: Stack, top: int, kind: int, item: int, rows: Any) -> int:
    stack.kind[top] = kind
    stack.item[top] = item
    stack.rows[top] = rows
    return top + 1


@compiled
def _descend(
    trees: Trees,
    words: Words,
    right: Bytes,
    stack: Stack,
    top: int,
    state: PathState,
    node: int,
    rows: Any,
) -> tuple[int, int, Any]:
    """Return the leaf that z leads to, and the rows alive there; push what is to be done later."""
    while trees.child[node] >= 0:
        side = right[node]
        towards = trees.child[node] + side
        away = trees.child[node] + 1 - side
        asks = trees.player[node]
        parts = rows & (~words[node] if side else words[node])
        node = towards
        if state.is_other[asks]:
            stay = rows & ~parts
            if stay == ZERO:
                node = away
            elif parts != ZERO:
                top = _push(stack, top, WALK, away, parts)
                rows = stay
        else:
            parts &= ~state.failed[asks]
            if parts != ZERO:
                # read from its end: first without z's failing the player, then with it
                top = _push(stack, top, LEAVE_OTHER, asks, parts)
                top = _push(stack, top, WALK, away, parts)
                top = _push(stack, top, ENTER_OTHER, asks, parts)
                top = _push(stack, top, LEAVE_ROWS, asks, parts)
                _enter_rows(state, asks, parts)
    return top, node, rows


@compiled
def _enter_rows(state: PathState, player: int, rows: Any) -> None:
    state.failed[player] |= rows
    state.entered[state.sizes[0]] = player
    state.entered_rows[state.sizes[0]] = rows
    state.sizes[0] += 1
    while rows != ZERO:
        state.failures[lowest(rows)] += 1
        rows &= rows - ONE


@compiled
def _change(state: PathState, kind: int, player: int, rows: Any) -> None:
    """Let z fail a player from now on or no longer, or rows fail it no longer."""
    if kind == ENTER_OTHER:
        state.is_other[player] = True
        state.others[state.sizes[1]] = player
        state.sizes[1] += 1
    elif kind == LEAVE_OTHER:
        state.is_other[player] = False
        state.sizes[1] -= 1
    else:
        state.failed[player] &= ~rows
        state.sizes[0] -= 1
        while rows != ZERO:
            state.failures[lowest(rows)] -= 1
            rows &= rows - ONE


# At the leaves


@compiled
def _add_leaf(
    value: Floats,
    weight: float,
    rows: Any,
    state: PathState,
    factors: Coefficients,
    gain: Floats,
    loss: Floats,
) -> None:
    """Add what a player of q gains at a leaf, and one of u loses, to the sums of living rows."""
    while rows != ZERO:
        row = lowest(rows)
        rows &= rows - ONE
        of_present = weight * factors.present[state.sizes[1], state.failures[row]]
        of_absent = weight * factors.absent[state.sizes[1], state.failures[row]]
        for output in range(len(value)):
            gain[row, output] += value[output] * of_present
            loss[row, output] += value[output] * of_absent


@compiled
def _add_to_player(table: Floats, player: int, rows: Any, amounts: Floats, sign: float) -> None:
    """Add what the rows have gained or lost so far to a player's values."""
    while rows != ZERO:
        row = lowest(rows)
        rows &= rows - ONE
        for output in range(amounts.shape[1]):
            table[row, player, output] += sign * amounts[row, output]


@compiled
def _add_pairs(
    table: Floats,
    value: Floats,
    weight: float,
    rows: Any,
    state: PathState,
    factors: Coefficients,
    members: Integers,
) -> None:
    """Add a leaf's value to the pairs (64, p * p, k) of the players that z and a row failed."""
    players = len(state.failed)
    a = state.sizes[1]
    present = state.others[:a]
    while rows != ZERO:
        cells = table[lowest(rows)]
        b = _failed_by(state, rows & (~rows + ONE), members)
        absent = members[:b]
        rows &= rows - ONE
        for output in range(len(value)):
            amount = weight * value[output]
            of_output = cells[:, output]
            _add_within(of_output, players, present, amount * factors.both_present[a, b])
            _add_within(of_output, players, absent, amount * factors.both_absent[a, b])
            for i in present:
                for j in absent:
                    of_output[i * players + j] -= amount * factors.mixed[a, b]


@compiled
def _failed_by(state: PathState, row: Any, members: Integers) -> int:
    """Write the players that a row failed into `members`, and return how many they are."""
    count = 0
    for entry in range(state.sizes[0]):
        if state.entered_rows[entry] & row:
            members[count] = state.entered[entry]
            count += 1
    return count


@compiled
def _add_within(cells: Floats, players: int, members: Integers, amount: float) -> None:
    for i in range(len(members)):
        for j in range(i):
            cells[members[i] * players + members[j]] += amount


# Without a background


class CoverEdges(NamedTuple):
    """The edges of some trees, depth first; see `covers.Edges`."""

    depth: Integers  #: (n,) of the node
    is_leaf: Bools  #: (n,)
    value: Floats  #: (n, k)
    decision: Integers  #: (n,) that the parent takes
    on_right: Bytes  #: (n,) 1 for the parent's right child
    player: Integers  #: (n,) that the parent asks
    before: Integers  #: (n,) the depth of the edge at which it was asked before; 0: none
    factor: Floats  #: (n, 3, q)
    gain: Floats  #: (n, 3, q)


@compiled
def walk_covers(edges: CoverEdges, depth: int, right: Any, found: Floats) -> None:
    """Add to the sums (blocks, p, k, rows) of rows that go right, (blocks, decisions, rows)."""
    nodes = edges.factor.shape[2]
    outputs = edges.value.shape[1]
    passes = np.ones((depth, COVER_ROWS), dtype=np.uint8)
    states = np.ones((depth, COVER_ROWS), dtype=np.int64)
    path = np.zeros(depth, dtype=np.int64)
    products = np.ones((depth, nodes, COVER_ROWS))
    below = np.zeros((depth, outputs, nodes, COVER_ROWS))
    count = len(edges.depth)
    for block in range(len(right)):
        for edge in range(count):
            level = edges.depth[edge]
            path[level] = edge
            if level > 0:
                answers = right[block, edges.decision[edge]]
                before = passes[edges.before[edge]]
                for row in range(COVER_ROWS):
                    passed = before[row] & (answers[row] == edges.on_right[edge])
                    passes[level, row] = passed
                    states[level, row] = before[row] + passed
                _enter(edges.factor[edge], states[level], products[level - 1], products[level])
            _arrive(edges.is_leaf[edge], edges.value[edge], products[level], below[level])

            # the next edge is below this one, or leaves some of the path behind
            stay = edges.depth[edge + 1] if edge + 1 < count else 1
            for left in range(level, max(stay, 1) - 1, -1):
                total = found[block, edges.player[path[left]]]
                _leave(edges.gain[path[left]], states[left], below[left], below[left - 1], total)


@compiled
def _enter(factor: Floats, states: Integers, above: Floats, products: Floats) -> None:
    """Write the products P (q, rows) of a node, from those above it."""
    for node in range(len(products)):
        failed, fails, passes = factor[0, node], factor[1, node], factor[2, node]
        for row in range(COVER_ROWS):
            state = states[row]
            by = passes if state == 2 else (fails if state == 1 else failed)
            products[node, row] = above[node, row] * by


@compiled
def _arrive(is_leaf: bool, value: Floats, products: Floats, below: Floats) -> None:
    """Write the sums (k, q, rows) of the leaves at or below a node, as far as they are known."""
    for output in range(len(below)):
        worth = value[output] if is_leaf else 0.0
        for node in range(len(products)):
            for row in range(COVER_ROWS):
                below[output, node, row] = worth * products[node, row]


@compiled
def _leave(gain: Floats, states: Integers, below: Floats, above: Floats, total: Floats) -> None:
    """Add to the sums (k, rows) what a player gains from all leaves below an edge."""
    for output in range(len(below)):
        for node in range(gain.shape[1]):
            fails, passes = gain[1, node], gain[2, node]
            for row in range(COVER_ROWS):
                state = states[row]
                by = passes if state == 2 else (fails if state == 1 else 0.0)
                total[output, row] += by * below[output, node, row]
                above[output, node, row] += below[output, node, row]
