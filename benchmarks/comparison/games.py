"""The games: each has rows whose values are known, and counts the evaluations asked of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap import Explanation, explain, explain_game
from shearshap_lab.data import Dataset, load
from shearshap_lab.networks import Trained, save, train
from shearshap_lab.networks import load as load_network
from shearshap_lab.truth import ground_truth

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

ACTIVATIONS = ("softplus", "relu", "gelu")
SCALES = ("logit", "probability")
CLASS = 1  #: whose logit or probability is explained

#: of DeepFM's values, whose 2^39 coalitions cannot be enumerated: the expected error over mean
#: |value|
DEEPFM_TOLERANCE = 5e-5


@dataclass(eq=False)
class Game(ABC):
    """One kind of game for r rows and p players."""

    name: str
    kind: str  #: games of one kind are drawn in one panel
    truth: Floats  #: (r, p), the rows' Shapley values
    truth_error: float = field(default=0.0, kw_only=True)  #: expected |error| of the truth itself
    differentiable: bool = field(default=False, kw_only=True)
    evaluations: int = field(default=0, init=False)  #: asked for so far

    @property
    def players(self) -> int:
        """The number of players."""
        return int(self.truth.shape[1])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.truth)

    def of_row(self, row: int) -> Callable[[Any], Floats]:
        """Return the value function of a row, from coalitions (c, p) or (p,) to values (c,).

        Numbers count as present from 0.5 on.
        """
        return lambda coalitions: self.values(row, np.atleast_2d(np.asarray(coalitions)) > 0.5)

    @abstractmethod
    def values(self, row: int, coalitions: Bools) -> Floats:
        """Return a row's values (c,) of coalitions (c, p), and count them."""

    @abstractmethod
    def explain(self, rows: slice, *, method: str, budget: int, seed: int) -> Explanation:
        """Explain some rows by one of our methods."""


# Models


@dataclass(eq=False)
class ModelGame(Game):
    """A model's output, where absent players have the background's inputs."""

    inputs: Any  #: (r, d)
    background: Any  #: (d,)
    groups: list[list[int]]
    model: Any  #: a network, or a counting function of inputs (n, d) to outputs (n,)
    scale: Any = None

    def values(self, row: int, coalitions: Bools) -> Floats:
        """Return a row's values (c,) of coalitions (c, p)."""
        present = coalitions[:, self._owners]
        return self._outputs(np.where(present, self.inputs[row], self.background))

    @cached_property
    def _owners(self) -> NDArray[np.int64]:
        """The player that each input belongs to, (d,)."""
        owners = np.empty(len(self.background), dtype=np.int64)
        for player, columns in enumerate(self.groups):
            owners[columns] = player
        return owners

    def _outputs(self, inputs: Any) -> Floats:
        if not isinstance(self.model, torch.nn.Module):
            return np.asarray(self.model(inputs), dtype=np.float64)
        with torch.no_grad():
            logits = self.model(torch.from_numpy(inputs))
        chosen = logits.softmax(dim=1) if self.scale == "probability" else logits
        return np.asarray(chosen[:, CLASS].double())

    def explain(self, rows: slice, *, method: str, budget: int, seed: int) -> Explanation:
        """Explain some rows by one of our methods, which mixes inputs by itself."""
        is_network = isinstance(self.model, torch.nn.Module)
        return explain(
            self.model,
            self.inputs[rows],
            background=self.background,
            groups=self.groups,
            output=CLASS if is_network else None,
            scale=self.scale if is_network else None,
            method=method,
            budget=budget,
            seed=seed,
            progress=False,
        )

    def with_exact_truth(self) -> "ModelGame":
        """Fill in the truth: every coalition of every row."""
        every = 1 << len(self.groups)
        rows = slice(0, len(self.inputs))
        self.truth = self.explain(rows, method="exact", budget=every, seed=0).values
        return self


@dataclass(frozen=True)
class Networks:
    """The paper's networks, which are trained once and kept in a folder."""

    folder: Path
    short: bool = False  #: whether to train for a short time

    def trained(self, data: Dataset, activation: str = "softplus") -> Trained:
        """Return the network for a data set, from the folder where it is there."""
        place = self.folder / f"{data.name}-{activation}{'-short' if self.short else ''}"
        if not (place / "model.json").is_file():
            # DeepFM's own rate is a tenth of this: after 4,000 steps it would not have learnt much
            options: dict[str, Any] = {"steps": 4_000, "learning_rate": 1e-3} if self.short else {}
            save(train(data, activation=activation, **options), place)
        return load_network(place)


def explained_of(data: Dataset, rows: int) -> dict[str, Any]:
    """Return the first test rows of a data set, its background and its groups, by their names."""
    return {
        "inputs": data.inputs[data.test[:rows]],
        "background": data.background,
        "groups": list(data.groups.values()),
    }


def network_game(
    data: Dataset, activation: str, scale: str, rows: int, networks: Networks
) -> ModelGame:
    """Return the game of the paper's network on a data set."""
    network: Any = networks.trained(data, activation).network
    game = ModelGame(
        f"{data.name} {activation} {scale}",
        f"networks, {scale}",
        truth=np.empty((rows, len(data.groups))),
        **explained_of(data, rows),
        model=network,
        scale=scale,
        differentiable=True,
    )
    count_forwards(game, network.layers)
    return game.with_exact_truth()


def deepfm_game(rows: int, networks: Networks) -> ModelGame:
    """Return the game of DeepFM on synthetic data of Criteo's schema, with 39 players.

    Its values are estimated by antithetic permutations, until the tolerance is reached.
    """
    data = load("criteo-synthetic")
    trained = networks.trained(data)
    network: Any = trained.network
    truth = ground_truth(
        trained,
        data,
        rows=rows,
        output=CLASS,
        folder=networks.folder,
        tolerance=DEEPFM_TOLERANCE,
    )
    game = ModelGame(
        "criteo-synthetic DeepFM logit",
        "DeepFM, 39 players",
        truth=truth.values,
        truth_error=truth.error * float(np.abs(truth.values).mean()),
        **explained_of(data, rows),
        model=network,
        differentiable=True,
    )
    count_forwards(game, network.deep)
    return game


def count_forwards(game: Game, layers: torch.nn.Module) -> None:
    """Count every input that goes through a network's layers, whoever asks for it."""

    def count(_layers: object, inputs: tuple[torch.Tensor, ...], _outputs: object) -> None:
        game.evaluations += len(inputs[0])

    layers.register_forward_hook(count)


def tree_game(data: Dataset, scale: str, rows: int, *, threads: int) -> ModelGame:
    """Return the game of boosted trees, as XGBoost makes them by default, on a data set."""
    import xgboost

    trees = xgboost.XGBClassifier(n_jobs=threads, random_state=0)
    trees.fit(data.inputs[data.train], data.labels[data.train])
    booster = trees.get_booster()
    kind = "value" if scale == "probability" else "margin"

    def outputs(inputs: Any) -> Any:
        game.evaluations += len(inputs)
        return booster.inplace_predict(inputs, predict_type=kind)

    game = ModelGame(
        f"{data.name} trees {scale}",
        "boosted trees",
        truth=np.empty((rows, len(data.groups))),
        **explained_of(data, rows),
        model=outputs,
        scale=scale,
    )
    return game.with_exact_truth()


# Tables


@dataclass(eq=False)
class TableGame(Game):
    """Complete tables of games: bit i of a coalition's index is player i."""

    table: Floats  #: (r, 2^p)

    def values(self, row: int, coalitions: Bools) -> Floats:
        """Return a row's values (c,) of coalitions (c, p)."""
        self.evaluations += len(coalitions)
        index = (coalitions.astype(np.int64) << np.arange(self.players)).sum(axis=1)
        return np.asarray(self.table[row, index], dtype=np.float64)

    def explain(self, rows: slice, *, method: str, budget: int, seed: int) -> Explanation:
        """Explain some rows by one of our methods, each row a game of its own."""
        chosen = range(len(self))[rows]
        return Explanation.concat(
            [
                explain_game(
                    self.of_row(row),
                    players=self.players,
                    method=method,
                    budget=budget,
                    seed=seed,
                )
                for row in chosen
            ]
        )


def table_game(path: Path, rows: int) -> TableGame:
    """Return the first games in a file: values (games, 2^p), phi (games, p) and players p."""
    with np.load(path) as file:
        players = int(file["players"])
        table = file["values"][:rows]
        truth = file["phi"][:rows]
    if table.shape != (len(truth), 1 << players) or truth.shape[1] != players:
        raise SystemExit(
            f"{path}: wanted values (games, {1 << players}) and phi (games, {players}) for "
            f"{players} players, got {table.shape} and {truth.shape}"
        )
    return TableGame(path.stem, "tables", truth=truth, table=table)


def table_games(folder: Path, rows: int) -> list[TableGame]:
    """Return the games of every .npz file in a folder."""
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        raise SystemExit(f"--tables: there is no .npz file in {folder}")
    return [table_game(path, rows) for path in paths]


# Which games


def all_games(rows: int, *, threads: int, folder: Path) -> Iterator[Game]:
    """Yield the games of a full run, each as soon as it is made."""
    networks = Networks(folder)
    for name in ("census", "bank"):
        data = load(name)
        for activation in ACTIVATIONS:
            for scale in SCALES:
                yield network_game(data, activation, scale, rows, networks)
        for scale in SCALES:
            yield tree_game(data, scale, rows, threads=threads)
    yield deepfm_game(rows, networks)


def quick_games(rows: int, *, threads: int, folder: Path) -> Iterator[Game]:
    """Yield one game of each kind, of networks that are trained for a short time."""
    networks = Networks(folder, short=True)
    census = load("census")
    yield network_game(census, "gelu", "logit", rows, networks)
    yield network_game(load("bank"), "relu", "probability", rows, networks)
    yield tree_game(census, "logit", rows, threads=threads)
    yield deepfm_game(rows, networks)
