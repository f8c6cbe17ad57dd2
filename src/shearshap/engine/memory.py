"""How many rows to work on at once, by the memory that their coalitions and values take."""

from shearshap.games.game import Game

FIRST_BLOCK = 16
"""Rows of the first block, which is begun before the number of outputs is known."""

BLOCK_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Memory for the coalitions and values of the rows worked on at once, by the game's device."""

PILOT_BYTES = 1 << 28
"""The same for pilot rows, on all devices: a calibration is fitted to those worked on at once."""


def most_rows(game: Game, coalitions: int, outputs: int, *, pilot: bool) -> int:
    """Return how many rows to work on at once, at least one."""
    memory = PILOT_BYTES if pilot else BLOCK_BYTES.get(game.device.type, BLOCK_BYTES["cpu"])
    # a byte for each player, and six double numbers for each output
    bytes_a_coalition = game.players + 48 * outputs
    return max(1, memory // (coalitions * bytes_a_coalition))
