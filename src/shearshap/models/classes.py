"""What the columns of an estimator's answer are: its classes, its targets, its labels.

Three classes, one target:          three targets of two classes each (several labels):

    predict_proba   (n, 3)              predict_proba   (n, 3), or a list of three (n, 2)
    output_names    no, maybe, yes      output_names    label 0, label 1, label 2
"""

from collections.abc import Sequence
from typing import Any

import numpy as np


def kind_of(model: Any) -> str | None:
    """Return "classifier", "regressor", "clusterer", "outlier_detector", ...; None if unknown."""
    own = getattr(model, "_estimator_type", None)  # of scikit-learn before 1.6, and of others
    if own is not None:
        return str(own)
    try:
        kind = model.__sklearn_tags__().estimator_type
    except Exception:  # noqa: BLE001  (other libraries have no tags, or tags of their own)
        return None
    return None if kind is None else str(kind)


def innermost(model: Any) -> Any:
    """Return the estimator that answers inside a Pipeline, a search or a selector of features."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return innermost(steps[-1][1])
    if hasattr(model, "best_estimator_"):
        return innermost(model.best_estimator_)
    is_ensemble = hasattr(model, "estimators_")  # it keeps what it copies under estimator_
    if hasattr(model, "estimator_") and not is_ensemble:
        return innermost(model.estimator_)
    return model


def class_names(model: Any) -> tuple[str, ...]:
    """Return the names of a classifier's classes; none if it has several targets, or no names."""
    classes = getattr(model, "classes_", None)
    if classes is None or _are_targets(classes):
        return ()
    return tuple(str(name) for name in classes)


def output_names(model: Any) -> tuple[str, ...]:
    """Return the names of the columns of an estimator's `predict_proba`, where they are known."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return _component_names(model)
    if _are_targets(classes):
        return _target_names(_in_order_of_targets(classes, model), first=_stacks(model))
    if is_multilabel(model):
        return tuple(f"label {name}" for name in classes)
    return class_names(model)


def margin_names(model: Any) -> tuple[str, ...]:
    """Return the names of the columns of an estimator's `decision_function`."""
    names = output_names(model)
    compares_pairs = getattr(innermost(model), "decision_function_shape", None) == "ovo"
    if not compares_pairs or len(names) < 3:
        return names
    return tuple(
        f"{name} against {other}"
        for place, name in enumerate(names)
        for other in names[place + 1 :]
    )


def is_multilabel(model: Any) -> bool:
    """Return whether a classifier's outputs are labels that do not exclude one another."""
    if _are_targets(getattr(model, "classes_", None)):
        return True
    inner = innermost(model)
    if getattr(inner, "multilabel_", False):
        return True
    binarizer = getattr(inner, "_label_binarizer", None)
    return str(getattr(binarizer, "y_type_", "")).startswith("multilabel")


def _are_targets(classes: Any) -> bool:
    """Return whether there is one array of classes for each of several targets."""
    return isinstance(classes, list) and any(getattr(part, "shape", ()) for part in classes)


def _in_order_of_targets(classes: Sequence[Any], model: Any) -> Sequence[Any]:
    """Return the classes of each target; a chain has them in the order in which it predicts."""
    order = getattr(innermost(model), "order_", None)
    if order is None or sorted(order) != list(range(len(classes))):
        return classes
    own = dict(zip(order, classes, strict=True))
    return [own[target] for target in range(len(classes))]


def _target_names(targets: Sequence[Any], *, first: bool) -> tuple[str, ...]:
    """Return the names of the columns of `Tables`, or those of first classes."""
    if not first and all(list(classes) == [0, 1] for classes in targets):
        return tuple(f"label {target}" for target in range(len(targets)))
    names = []
    for target, classes in enumerate(targets):
        shown = classes[1:] if len(classes) == 2 else classes
        if first:
            shown = classes[:1]
        names += [f"target {target}: {name}" for name in shown]
    return tuple(names)


def _stacks(model: Any) -> bool:
    """Return whether the columns are probabilities of each target's first class.

    So it is in scikit-learn's StackingClassifier, and nowhere else.
    """
    return any(cls.__name__ == "StackingClassifier" for cls in type(innermost(model)).__mro__)


def _component_names(model: Any) -> tuple[str, ...]:
    """Return the names of a mixture's components."""
    if kind_of(model) != "density_estimator":
        return ()
    components = getattr(innermost(model), "n_components", 0)
    return tuple(f"component {component}" for component in range(components))


# Probabilities of several targets


class Tables(Sequence[Any]):
    """One table of probabilities for each target, which numpy takes for one: side by side.

    Of a target with two classes the second alone is kept: the first is 1 minus it.
    """

    def __init__(self, tables: list[Any]) -> None:
        self.tables = tables

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, target: Any) -> Any:
        return self.tables[target]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        tables = [np.asarray(table, dtype) for table in self.tables]
        shown = [table[:, 1:] if table.shape[1] == 2 else table for table in tables]
        return np.concatenate(shown, axis=1)


def side_by_side(answer: Any) -> Any:
    """Return probabilities as what numpy takes for one array, if they are a list.

    They are a list of rows, or of one table for each target. A function that the user passes as
    output= can still take the tables one by one.
    """
    if not isinstance(answer, list):
        return answer
    if all(isinstance(row, list | tuple) for row in answer):
        return np.asarray(answer)
    return Tables(answer) if all(np.ndim(table) == 2 for table in answer) else answer
