"""scikit-learn estimators and Pipelines, and whatever else has `predict` or `predict_proba`."""

from collections.abc import Callable
from copy import copy
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.adapters.adapted import AdaptedModel
from shearshap.adapters.outputs import Form, Scale
from shearshap.errors import InputError

MARGINS = ("margin", "logit")


def estimator(model: Any, scale: Scale | None) -> AdaptedModel:
    """Tell how to ask an estimator: probabilities of a classifier, margins where asked for, else
    its predictions.
    """
    if not hasattr(model, "predict"):
        raise InputError(
            f"model: a {type(model).__name__} cannot predict; pass a fitted estimator or a "
            "Pipeline with one"
        )
    ask, form = _method(model, scale)
    knows_none = _knows_none(model)
    return AdaptedModel(
        lambda rows: ask(_as_fitted(rows, knows_none=knows_none)),
        form=form,
        output_names=class_names(model) if form else (),
        feature_names=trained_names(model),
        takes_missing=True,
    )


def _as_fitted(rows: Any, *, knows_none: bool) -> Any:
    """Return a frame with missing strings as the estimator was fitted: NaN, as in pandas, or None,
    as elsewhere.
    """
    if not nw.dependencies.is_into_dataframe(rows):
        return rows
    frame = nw.from_native(rows, eager_only=True)
    holes = [
        name
        for name, dtype in frame.schema.items()
        if not dtype.is_numeric() and frame[name].null_count()
    ]
    if frame.implementation.is_polars() and (knows_none or not holes):
        return rows
    table = frame.to_pandas()
    if not knows_none:
        return table
    return table.assign(
        **{name: table[name].astype(object).where(table[name].notna(), None) for name in holes}
    )


def _knows_none(model: Any, depth: int = 8) -> bool:
    """Return whether an encoder anywhere in an estimator learnt None as a category."""
    if isinstance(model, list | tuple):
        return any(_knows_none(part, depth) for part in model)
    if (
        depth == 0
        or isinstance(model, type)
        or not (hasattr(model, "get_params") or hasattr(model, "estimator"))
    ):
        return False
    if any(None in list(kinds) for kinds in getattr(model, "categories_", ())):
        return True
    return any(_knows_none(part, depth - 1) for part in vars(model).values())


def _method(model: Any, scale: Scale | None) -> tuple[Callable[[Any], Any], Form | None]:
    """Return what to ask an estimator by, and what that returns."""
    chances, margins = (
        getattr(model, "predict_proba", None),
        getattr(model, "decision_function", None),
    )
    name = type(model).__name__
    if scale in MARGINS and margins is not None:
        return margins, "margin"
    if scale in MARGINS and chances is not None:
        raise InputError(
            f"scale={scale!r}: {name} has no decision_function; try scale='log-odds', made of its "
            "probabilities"
        )
    if chances is not None:
        return chances, "probability"
    if scale is not None:
        else_ = (
            ", try scale='margin', or wrap it in CalibratedClassifierCV"
            if margins is not None
            else ""
        )
        raise InputError(f"scale={scale!r}: {name} has no probabilities; leave scale out{else_}")
    classifies = margins is not None and hasattr(model, "classes_")
    return (margins, "margin") if classifies else (model.predict, None)  # type: ignore[return-value]


def class_names(model: Any) -> tuple[str, ...]:
    """Return the names of a classifier's classes; none where it has several targets, or no names."""
    classes = getattr(model, "classes_", None)
    if classes is None or (
        isinstance(classes, list) and any(getattr(part, "shape", ()) for part in classes)
    ):
        return ()
    return tuple(str(name) for name in classes)


def trained_names(model: Any) -> tuple[str, ...]:
    """Return the columns of the frame that an estimator was fitted to; none where it was an array."""
    try:
        names = getattr(model, "feature_names_in_", None)
    except Exception:  # noqa: BLE001  (wrappers raise errors of their own where there are none)
        names = None
    return () if names is None else tuple(str(name) for name in names)


def numpy_or_pandas(rows: Any, *kept: str) -> Any:
    """Return a frame as pandas, unless it is of a library in `kept`; anything else as it is."""
    if not nw.dependencies.is_into_dataframe(rows):
        return rows
    frame = nw.from_native(rows, eager_only=True)
    library = str(frame.implementation).removeprefix("Implementation.").lower()
    return rows if library in ("pandas", *kept) else frame.to_pandas()


def made_columns(transformer: Any) -> dict[str, list[int]]:
    """Return the columns of a fitted transformer's output by the column of its input that each was
    made of.

    For those who explain the model behind the transformer, on rows already transformed: its one-hot
    blocks are players.
    """
    try:
        owners = _owners(transformer, _input_names(transformer))
    except InputError:
        raise
    except (
        Exception
    ) as error:  # whatever a transformer raises that is not fitted, or that names no columns
        kind = type(transformer).__name__
        raise InputError(
            f"groups: this {kind} does not tell which columns it makes: {error}"
        ) from error
    players: dict[str, list[int]] = {}
    for column, owner in enumerate(owners):
        players.setdefault(owner, []).append(column)
    return players


def _input_names(transformer: Any) -> list[str]:
    """Return the columns that a transformer was fitted to, by name, or as scikit-learn numbers
    them.
    """
    names = getattr(transformer, "feature_names_in_", None)
    return (
        [f"x{at}" for at in range(transformer.n_features_in_)]
        if names is None
        else [str(name) for name in names]
    )


def _owners(transformer: Any, columns: list[str]) -> list[str]:
    """Return the column, of those that its input columns were made of, that each output column was
    made of.
    """
    if hasattr(transformer, "transformers_"):
        return _of_column_transformer(transformer, columns)
    if hasattr(transformer, "steps"):
        for _, step in transformer.steps:
            columns = columns if step in (None, "passthrough") else _owners(step, columns)
        return columns
    own, made = _input_names(transformer), _made_of(transformer)
    if not set(made) <= set(own):
        raise InputError(
            f"groups: cannot tell which columns {type(transformer).__name__} makes of which; pass "
            "lists of columns"
        )
    return [columns[own.index(name)] for name in made]


def _made_of(transformer: Any) -> list[str]:
    """Return the names of a transformer's output columns; those of a OneHotEncoder by the column
    they were made of.
    """
    plain = copy(transformer)
    if hasattr(plain, "feature_name_combiner"):
        plain.feature_name_combiner = lambda column, _category: column
    return [str(name) for name in plain.get_feature_names_out()]


def _of_column_transformer(transformer: Any, columns: list[str]) -> list[str]:
    owners = [""] * sum(part.stop - part.start for part in transformer.output_indices_.values())
    own = _input_names(transformer)
    for name, inner, chosen in transformer.transformers_:
        part = transformer.output_indices_[name]
        if part.stop == part.start:
            continue
        given = [columns[at] for at in _places(chosen, own)]
        owners[part] = given if inner == "passthrough" else _owners(inner, given)
    return owners


def _places(chosen: Any, columns: list[str]) -> list[int]:
    """Return the places of a transformer's columns, given as names, numbers, a mask or a slice of
    either.
    """
    if isinstance(chosen, str):
        return [columns.index(chosen)]
    if isinstance(chosen, slice):
        first, last = (
            columns.index(end) if isinstance(end, str) else end
            for end in (chosen.start, chosen.stop)
        )
        last = (
            last + 1 if isinstance(chosen.stop, str) else last
        )  # a slice of names ends with its last
        return list(range(len(columns)))[slice(first, last, chosen.step)]
    wanted = np.asarray(chosen)
    if wanted.dtype == bool:
        return [int(at) for at in np.flatnonzero(wanted)]
    return [
        columns.index(one) if isinstance(one, str) else int(one) % len(columns)
        for one in wanted.tolist()
    ]
