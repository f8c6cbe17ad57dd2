"""The games: a model with rows and a background, or sums of unanimity games; and their files."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from comparison.games import Bools, Floats, Game
from expensive.models import load_model
from shearshap import Explanation, explain, explain_game

FOLDER = Path(__file__).resolve().parents[2] / "out" / "expensive"  # git ignores it


@dataclass(eq=False)
class Expensive(Game):
    """A game of r rows and p players, to be explained with few evaluations."""

    standard_errors: Floats  #: (r, p), of the truth; 0 where it is exact
    grid: tuple[int, ...]  #: how the players lie: (p,), or (height, width) of pixels
    model: nn.Module | None = field(default=None, kw_only=True)  #: (n, p) -> (n,)
    rows: NDArray[Any] | None = field(default=None, kw_only=True)  #: (r, p)
    background: NDArray[Any] | None = field(default=None, kw_only=True)  #: (p,)

    @abstractmethod
    def value(self, row: int, coalitions: Bools) -> Floats:
        """Return a row's values (c,) of coalitions (c, p)."""

    def values(self, row: int, coalitions: Bools) -> Floats:
        """Return a row's values (c,) of coalitions (c, p), and count them."""
        before = self.evaluations
        values = self.value(row, coalitions)
        # a model counts by itself, whoever asks for it
        self.evaluations = before + len(coalitions)
        return values

    def explain_alone(self, row: int, *, method: Any, budget: int, seed: int) -> Explanation:
        """Explain a row as a function of coalitions, whose inputs are not known."""
        return explain_game(
            self.of_row(row), players=self.players, method=method, budget=budget, seed=seed
        )


@dataclass(eq=False)
class ModelGame(Expensive):
    """A model's output, where absent players have the background's inputs."""

    def __post_init__(self) -> None:
        def count(_model: object, inputs: tuple[torch.Tensor, ...], _outputs: object) -> None:
            self.evaluations += len(inputs[0])

        assert self.model is not None
        self.model.register_forward_hook(count)

    def value(self, row: int, coalitions: Bools) -> Floats:
        """Return a row's values (c,) of coalitions (c, p)."""
        assert self.model is not None
        assert self.rows is not None
        inputs = np.where(coalitions, self.rows[row], self.background)
        with torch.no_grad():
            return np.asarray(self.model(torch.from_numpy(inputs)).double())

    def explain(self, rows: slice, *, method: Any, budget: int, seed: int) -> Explanation:
        """Explain some rows by one of our methods, which sees inputs and background."""
        assert self.rows is not None
        return explain(
            self.model,
            torch.from_numpy(self.rows[rows]),  # as a tensor, tokens stay integers
            background=torch.from_numpy(self.background),
            method=method,
            budget=budget,
            seed=seed,
            progress=False,
        )


@dataclass(eq=False)
class Unanimity(Expensive):
    """Sums of unanimity games: a weight counts where all members of its team are present."""

    teams: Sequence[Bools]  #: of each row, (t, p)
    weights: Sequence[Floats]  #: of each row, (t,)

    def value(self, row: int, coalitions: Bools) -> Floats:
        """Return a row's values (c,) of coalitions (c, p)."""
        teams = self.teams[row].astype(np.float64)
        missing = (~coalitions).astype(np.float64) @ teams.T
        return np.asarray((missing == 0) @ self.weights[row], dtype=np.float64)

    def explain(self, rows: slice, *, method: Any, budget: int, seed: int) -> Explanation:
        """Explain some rows by one of our methods, each row a game of its own."""
        chosen = range(len(self))[rows]
        return Explanation.concat(
            [self.explain_alone(row, method=method, budget=budget, seed=seed) for row in chosen]
        )


# Files


def save(name: str, folder: Path, *, kind: str, grid: tuple[int, ...], **arrays: Any) -> None:
    """Write a game's arrays, without its model."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", kind=kind, grid=grid, **arrays)


def load(name: str, folder: Path | str = FOLDER, *, rows: int | None = None) -> Expensive:
    """Return a game that was made before, or its first rows."""
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        raise SystemExit(
            f"there is no game {name!r} in {folder}; make the games by "
            "`python benchmarks/low_budgets.py --make`"
        )
    with np.load(path) as file:
        arrays = dict(file)
    return from_arrays(name, arrays, Path(folder), rows)


def names(folder: Path | str = FOLDER) -> list[str]:
    """Return the names of the games that were made."""
    return sorted(path.stem for path in Path(folder).glob("*.npz"))


def from_arrays(
    name: str, arrays: dict[str, NDArray[Any]], folder: Path, rows: int | None
) -> Expensive:
    """Return the game of the arrays in a file."""
    truth = arrays["truth"][:rows]
    errors = arrays["standard_errors"][:rows]
    shared: dict[str, Any] = {
        "name": name,
        "kind": str(arrays["kind"]),
        "truth": truth,
        # of a normal distribution, the expected |error| is 0.8 standard errors
        "truth_error": float(np.sqrt(2 / np.pi) * errors.mean()),
        "standard_errors": errors,
        "grid": tuple(arrays["grid"].tolist()),
    }
    if "teams" in arrays:
        return Unanimity(
            **shared, teams=list(arrays["teams"][:rows]), weights=list(arrays["weights"][:rows])
        )
    return ModelGame(
        **shared,
        model=load_model(folder / "models" / f"{arrays['model']}.pt"),
        rows=arrays["rows"][:rows],
        background=arrays["background"],
    )
