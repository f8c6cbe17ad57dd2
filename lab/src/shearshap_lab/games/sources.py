"""The games of `shear benchmark`: rules, trees and the paper's networks; a source is a line below.

Tables of models take long to make. They are kept in a folder, and made again only where something
that they depend on has changed.
"""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from shearshap.errors import InputError
from shearshap.games.coalitions import subsets
from shearshap.store import Store
from shearshap_lab import networks
from shearshap_lab.data import Dataset, load
from shearshap_lab.games.rules import RULES
from shearshap_lab.games.tables import Floats, Games, Rows, slug
from shearshap_lab.provenance import code_hash, short_hash, versions

RULE_PLAYERS = 12
CONTEST_RULES = ("weighted votes", "gloves", "maximum", "unanimity sums", "logistic")
CLASS = 1  #: whose logit, margin or probability is explained
STEPS = 4_000  #: batches, at most, that a network is trained for


@dataclass(frozen=True)
class Request:
    """How many games are wanted, and where what they are made of is kept."""

    rows: int  #: games of each origin: rows of a model, or draws of a rule
    folder: Path
    quick: bool = False  #: fewer models


Source = Callable[[Request], Iterator[Games]]
Made = tuple[Any, dict[str, Any]]  #: a model, and the output and scale to explain


def from_rules(request: Request) -> Iterator[Games]:
    """Yield games of some rules."""
    coalitions = subsets(RULE_PLAYERS)
    for name in CONTEST_RULES:
        seeds = [[crc32(name.encode()), number] for number in range(request.rows)]
        values = [RULES[name](RULE_PLAYERS, np.random.default_rng(seed))[0] for seed in seeds]
        yield Games(name, "rules", np.stack([value(coalitions) for value in values]))


# Models


@dataclass(frozen=True)
class Origin:
    """A model to be trained on a data set."""

    name: str
    kind: str
    dataset: str
    make: Callable[[Dataset, Path], Made]

    def games(self, request: Request) -> Games:
        """Return the games of the first test rows, from the folder where they are there."""

        @cache
        def model() -> Rows:
            dataset = load(self.dataset)
            made, options = self.make(dataset, request.folder)
            inputs = dataset.inputs[dataset.test[: request.rows]]
            options = {"groups": dataset.groups, **options}
            return Rows(self.name, self.kind, made, inputs, dataset.background, options=options)

        key = short_hash(self.name, request.rows, code_hash(), versions())
        tables = Store(request.folder / "games", key).piece(
            f"{slug(self.name)}.npy", lambda: model().tables(), read=_read_array, write=_write_array
        )
        # trees have no derivatives, and tables answer faster
        differentiable = self.kind == "networks"
        return Games(self.name, self.kind, tables, model if differentiable else None)


def _read_array(path: Path) -> Floats:
    try:
        return np.asarray(np.load(path))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _write_array(tables: Floats, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, tables)


def _network(activation: str, dataset: Dataset, folder: Path) -> Made:
    """Return a network of the paper, from the folder where it has been trained before."""
    place = folder / "networks" / f"{dataset.name}-{activation}-{code_hash()}"
    try:
        trained = networks.load(place)
    except InputError:
        trained = networks.train(dataset, activation=activation, steps=STEPS, progress=False)
        networks.save(trained, place)
    return trained.network, {"output": CLASS}


def _boosted(dataset: Dataset, _folder: Path) -> Made:
    trees = HistGradientBoostingClassifier(max_iter=100, random_state=0)
    trees.fit(dataset.inputs[dataset.train], dataset.labels[dataset.train])
    return trees, {"scale": "margin"}


def _forest(dataset: Dataset, _folder: Path) -> Made:
    trees = RandomForestClassifier(n_estimators=50, max_depth=8, random_state=0)
    trees.fit(dataset.inputs[dataset.train], dataset.labels[dataset.train])
    return trees, {"output": CLASS, "scale": "probability"}


NETWORKS = (
    Origin("census network", "networks", "census", partial(_network, "softplus")),
    Origin("bank network", "networks", "bank", partial(_network, "softplus")),
    Origin("census relu network", "networks", "census", partial(_network, "relu")),
    Origin("bank relu network", "networks", "bank", partial(_network, "relu")),
)
TREES = (
    Origin("census boosted trees", "trees", "census", _boosted),
    Origin("census forest", "trees", "census", _forest),
    Origin("bank boosted trees", "trees", "bank", _boosted),
    Origin("bank forest", "trees", "bank", _forest),
)
FEW = 2  #: models of each kind in a quick run


def _from_models(origins: tuple[Origin, ...], request: Request) -> Iterator[Games]:
    for origin in origins[: FEW if request.quick else None]:
        yield origin.games(request)


SOURCES: dict[str, Source] = {
    "rules": from_rules,
    "trees": partial(_from_models, TREES),
    "networks": partial(_from_models, NETWORKS),
}
"""The kinds of games that need no file of the user's."""
