"""The trees of a model of any library, or the reason why they cannot be read."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from shearshap.trees.tree_model import NotTrees, TreeModel

#: The reader, as module.function, for every library whose models have trees.
READERS = {
    "xgboost": "xgboost.read_xgboost",
    "lightgbm": "lightgbm.read_lightgbm",
    "catboost": "catboost.read_catboost",
    "sklearn": "sklearn.read_sklearn",
}


def read(model: Any) -> TreeModel:
    """Return the trees of a fitted model; raise `NotTrees` with the reason if that cannot be."""
    if hasattr(model, "best_estimator_"):  # of a search, which predicts by it
        return read(model.best_estimator_)
    for ancestor in type(model).__mro__:
        library = ancestor.__module__.partition(".")[0]
        if library in READERS:
            return _read_by(READERS[library], model)
    raise NotTrees(f"a {type(model).__name__} is of no library whose trees can be read")


def _read_by(place: str, model: Any) -> TreeModel:
    """Call the reader at `place`, a module.function of this package."""
    module, name = place.split(".")
    reader: Callable[[Any], TreeModel]
    reader = getattr(import_module(f"shearshap.trees.readers.{module}"), name)
    try:
        return reader(model)
    except NotTrees:
        raise
    except Exception as error:  # a model that is not fitted, or of a version with another format
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise NotTrees(
            f"the trees of this {type(model).__name__} cannot be read ({first_line})"
        ) from error


__all__ = ["READERS", "NotTrees", "TreeModel", "read"]
