"""The games of `shear benchmark`: rules, trees and the paper's networks; a source is a line below.

Networks take long to train. They are kept in a folder, and trained again only if the code has
changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from shearshap.errors import InputError
from shearshap.games.coalitions import subsets
from shearshap_lab import networks
from shearshap_lab.data import Dataset, load
from shearshap_lab.games.rules import RULES
from shearshap_lab.games.tables import Games, Rows
from shearshap_lab.provenance import code_hash

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
        """Return the games of the first test rows."""
        dataset = load(self.dataset)
        made, options = self.make(dataset, request.folder)
        inputs = dataset.inputs[dataset.test[: request.rows]]
        options = {"groups": dataset.groups, **options}
        rows = Rows(self.name, self.kind, made, inputs, dataset.background, options=options)
        # trees have no derivatives, and tables answer faster
        return Games(self.name, self.kind, rows.tables(), rows if self.kind == "networks" else None)


def _network(activation: str, dataset: Dataset, folder: Path) -> Made:
    """Return a network of the paper, from the folder if it has been trained before."""
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
