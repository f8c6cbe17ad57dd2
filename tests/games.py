"""Games for the tests, and slow, obvious oracles."""

from collections.abc import Callable
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from shearshap.models import Outputs, Predictor
from shearshap.models.networks import module

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Value = Callable[[Bools], Floats]


def additive(players: int, seed: int = 0) -> tuple[Value, Floats]:
    """A game without interaction, and its Shapley values: a player's share is its own worth."""
    rng = np.random.default_rng(seed)
    worth, base = rng.normal(size=players), rng.normal()
    return lambda z: base + z @ worth, worth


def pairwise(players: int, seed: int = 0) -> tuple[Value, Floats]:
    """A game of interactions of order <= 2, and its Shapley values: an interaction is shared equally."""
    rng = np.random.default_rng(seed)
    worth = rng.normal(size=players)
    upper = np.triu(rng.normal(size=(players, players)), 1)
    both = upper + upper.T
    return lambda z: 1.5 + z @ worth + np.einsum("ci,ij,cj->c", z, upper, z), worth + both.sum(
        axis=1
    ) / 2


def table_game(table: Floats) -> Value:
    """The game of a table (2^p, ...) in binary counting order: bit i of the index is player i."""
    return lambda z: table[z @ (1 << np.arange(z.shape[1]))]


def random_table(players: int, seed: int = 0, outputs: tuple[int, ...] = ()) -> Floats:
    """Any game at all."""
    return np.random.default_rng(seed).normal(size=(1 << players, *outputs))


def smooth_table(players: int, seed: int = 0) -> Floats:
    """A game as networks make them: interactions of every order, weaker the higher."""
    rng = np.random.default_rng(seed)
    members = (np.arange(1 << players)[:, None] >> np.arange(players) & 1).astype(float)
    hidden = np.tanh(members @ rng.normal(size=(players, 8)) + rng.normal(size=8))
    return np.asarray(hidden @ rng.normal(size=8))


def all_coalitions(players: int) -> Bools:
    return (np.arange(1 << players)[:, None] >> np.arange(players) & 1).astype(bool)


def shapley_by_permutations(value: Value, players: int) -> Floats:
    """The definition, transcribed: what a player adds on joining, averaged over all p! orders."""
    shares: Any = np.zeros(players)
    for order in permutations(range(players)):
        coalition = np.zeros((1, players), dtype=bool)
        before = value(coalition)[0]
        for player in order:
            coalition[0, player] = True
            after = value(coalition)[0]
            shares[player] += after - before
            before = after
    return np.asarray(shares / factorial(players))


def exact_shares(table: Floats) -> Floats:
    """The Shapley values of a table by eq. 3, one plain sum for each player."""
    players = len(table).bit_length() - 1
    members = all_coalitions(players)
    sizes = members.sum(axis=1)
    shares = []
    for player in range(players):
        without = np.flatnonzero(~members[:, player])
        weight = np.array(
            [factorial(s) * factorial(players - 1 - s) / factorial(players) for s in sizes[without]]
        )
        shares.append(np.tensordot(weight, table[without | 1 << player] - table[without], 1))
    return np.array(shares)


def network(
    inputs: int, outputs: int = 2, activation: type[nn.Module] = nn.Softplus, seed: int = 0
) -> nn.Sequential:
    """A small network with weights large enough to interact."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(inputs, 16), activation(), nn.Linear(16, 16), activation(), nn.Linear(16, outputs)
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=generator) * 1.5 / parameter.shape[-1] ** 0.5
            )
    return net.double()


def predictor(network: nn.Module, output: Any = None) -> Predictor:
    """A module on the CPU, ready to be asked."""
    return Predictor(module(network, torch.device("cpu")), Outputs(output))


def people(count: int = 60, seed: int = 0) -> pd.DataFrame:
    """A frame with numbers, words, categories, truth values and gaps."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, count),
            "city": rng.choice(np.array(["Rome", "Oslo", "Bern", None]), count),
            "kind": pd.Categorical(rng.choice(list("abc"), count), categories=list("cab")),
            "height": np.where(rng.random(count) < 0.2, np.nan, rng.normal(170, 10, count)),
            "member": rng.random(count) < 0.5,
        }
    )
