"""Shapley values to measure against: closed forms, or many antithetic permutations."""

from collections.abc import Iterator, Sequence
from math import factorial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from expensive.models import Trees

Floats = NDArray[np.float64]

INPUTS_AT_ONCE = 1 << 20  #: numbers in one batch of a model's inputs
LEAST = 1_000  #: antithetic pairs of permutations, at least


# Sampling


def sampled_values(
    model: nn.Module,
    row: Tensor,
    background: Tensor,
    *,
    tolerance: float,
    most: int,
    device: str = "cpu",
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Return the values (p,) of a row, and their standard errors (p,).

    Pairs of permutations are added until no standard error exceeds `tolerance` times mean |value|,
    or there are `most` of them. Every input is a player.
    """
    model = model.to(device)
    row = row.to(device)
    background = background.to(device)
    generator = torch.Generator(device).manual_seed(seed)
    size = max(1, INPUTS_AT_ONCE // (2 * len(row) ** 2))

    pairs = 0
    total = torch.zeros(len(row), dtype=torch.float64, device=device)
    squares = torch.zeros_like(total)
    while True:
        gains = antithetic_gains(model, row, background, size, generator)
        total += gains.sum(dim=0)
        squares += gains.square().sum(dim=0)
        pairs += size

        mean = total / pairs
        variance = (squares / pairs - mean.square()).clamp_min(0)
        errors = (variance / (pairs - 1)).sqrt() if pairs > 1 else variance
        close = errors.max() <= tolerance * mean.abs().mean()
        if (close and pairs >= LEAST) or pairs >= most:
            return mean.cpu().numpy(), errors.cpu().numpy()


@torch.no_grad()
def antithetic_gains(
    model: nn.Module, row: Tensor, background: Tensor, pairs: int, generator: torch.Generator
) -> Tensor:
    """Return what players add in permutations and their reverses, a mean for each pair, (n, p)."""
    players = len(row)
    draws = torch.rand(pairs, players, generator=generator, device=row.device)
    forth = draws.argsort(dim=1)
    rank = forth.argsort(dim=1)
    both = torch.cat((rank, players - 1 - rank))  # when each player joins

    sizes = torch.arange(players + 1, device=row.device)
    present = both[:, None, :] < sizes[:, None]
    mixed = torch.where(present, row, background).flatten(0, 1)
    outputs: Tensor = model(mixed)
    values = outputs.double().reshape(len(both), players + 1)

    gains = values.diff(dim=1).gather(1, both)
    return (gains[:pairs] + gains[pairs:]) / 2


# Closed forms


def unanimity_values(players: int, members: Sequence[Sequence[int]], weights: Floats) -> Floats:
    """Return the values (p,) of a sum of unanimity games: each weight divided among its members."""
    values = np.zeros(players)
    for team, weight in zip(members, weights, strict=True):
        values[list(team)] += weight / len(team)
    return values


def tree_values(trees: Trees, row: Floats, background: Floats) -> Floats:
    """Return the values (p,) of a sum of trees by the leaf formula.

    A leaf of value w is reached when all of a players are present and all of b others are absent.
    Each of the former gets w (a-1)! b! / (a+b)!, each of the latter -w a! (b-1)! / (a+b)!.
    """
    values = np.zeros(len(row))
    for tree in range(len(trees.column)):
        for leaf, present, absent in reached_leaves(trees, tree, row, background):
            a = len(present)
            b = len(absent)
            if a:
                values[list(present)] += leaf * factorial(a - 1) * factorial(b) / factorial(a + b)
            if b:
                values[list(absent)] -= leaf * factorial(a) * factorial(b - 1) / factorial(a + b)
    return values


def reached_leaves(
    trees: Trees, tree: int, row: Floats, background: Floats
) -> Iterator[tuple[float, frozenset[int], frozenset[int]]]:
    """Yield each leaf's value that a mixture reaches, and who must be present and absent for it."""
    column = trees.column[tree].tolist()
    threshold = trees.threshold[tree].tolist()
    left = trees.left[tree].tolist()
    right = trees.right[tree].tolist()
    value = trees.value[tree].tolist()

    nobody: frozenset[int] = frozenset()
    open_nodes = [(0, nobody, nobody)]
    while open_nodes:
        node, present, absent = open_nodes.pop()
        if left[node] == node:
            yield value[node], present, absent
            continue

        player = column[node]
        of_row = left[node] if row[player] <= threshold[node] else right[node]
        of_background = left[node] if background[player] <= threshold[node] else right[node]
        if of_row == of_background:
            open_nodes.append((of_row, present, absent))
            continue
        if player not in absent:
            open_nodes.append((of_row, present | {player}, absent))
        if player not in present:
            open_nodes.append((of_background, present, absent | {player}))
