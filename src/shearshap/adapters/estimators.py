"""scikit-learn estimators and Pipelines, and whatever else has `predict` or `predict_proba`."""

from collections.abc import Callable
from copy import copy
from typing import Any

import narwhals.stable.v2 as nw

from shearshap.adapters.adapted import Adapted
from shearshap.adapters.outputs import Scale
from shearshap.errors import InputError

MARGINS = ("margin", "logit")


def estimator(model: Any, scale: Scale | None) -> Adapted:
    """Tell how to ask an estimator: probabilities of a classifier, margins where asked for, else its predictions."""
    if not hasattr(model, "predict"):
        raise InputError(
            f"model: a {type(model).__name__} cannot predict; pass a fitted estimator or a Pipeline with one"
        )
    ask, form = _method(model, scale)
    knows_none = _knows_none(model)
    return Adapted(
        lambda rows: ask(_as_fitted(rows, knows_none=knows_none)),
        form=form,
        output_names=class_names(model) if form else (),
        feature_names=trained_names(model),
        takes_missing=True,
    )


def _as_fitted(rows: Any, *, knows_none: bool) -> Any:
    """Return a frame with missing strings as the estimator was fitted: NaN, as in pandas, or None, as elsewhere."""
    if not nw.dependencies.is_into_dataframe(rows):
        return rows
    frame = nw.from_native(rows, eager_only=True)
    holes = [name for name, dtype in frame.schema.items() if not dtype.is_numeric() and frame[name].null_count()]
    if frame.implementation.is_polars() and (knows_none or not holes):
        return rows
    table = frame.to_pandas()
    if not knows_none:
        return table
    return table.assign(**{name: table[name].astype(object).where(table[name].notna(), None) for name in holes})


def _knows_none(model: Any) -> bool:
    """Return whether an encoder in an estimator learnt None as a category."""
    parts = [step for _, step in getattr(model, "steps", ())] + [t[1] for t in getattr(model, "transformers_", ())]
    learnt = [list(kinds) for kinds in getattr(model, "categories_", ())]
    return any(None in kinds for kinds in learnt) or any(_knows_none(part) for part in parts)


def _method(model: Any, scale: Scale | None) -> tuple[Callable[[Any], Any], Any]:
    chances, margins = getattr(model, "predict_proba", None), getattr(model, "decision_function", None)
    classifies = chances is not None or (margins is not None and hasattr(model, "classes_"))
    if scale in MARGINS or (classifies and chances is None):
        if margins is None:
            raise InputError(
                f"scale={scale!r}: {type(model).__name__} has no decision_function; try scale='log-odds', which is "
                "made of its probabilities"
            )
        return margins, "margin"
    if classifies:
        return chances, "probability"  # type: ignore[return-value]
    if scale is not None:
        raise InputError(f"scale={scale!r}: {type(model).__name__} has no probabilities; leave scale out")
    return model.predict, None


def class_names(model: Any) -> tuple[str, ...]:
    """Return the names of a classifier's classes; none where it has several targets, or no names."""
    classes = getattr(model, "classes_", None)
    if classes is None or (isinstance(classes, list) and any(getattr(part, "shape", ()) for part in classes)):
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
    """Return the columns of a fitted transformer's output by the column of its input that each was made of.

    For those who explain the model behind the transformer, on rows already transformed: its one-hot blocks are players.
    """
    if not hasattr(transformer, "get_feature_names_out"):
        raise InputError(f"groups: a {type(transformer).__name__} does not tell which columns it makes")
    owners = _owners(transformer, list(map(str, transformer.feature_names_in_)))
    players: dict[str, list[int]] = {}
    for column, owner in enumerate(owners):
        players.setdefault(owner, []).append(column)
    return players


def _owners(transformer: Any, columns: list[str]) -> list[str]:
    """Return the input column that each output column of a fitted transformer was made of."""
    if hasattr(transformer, "transformers_"):
        return _of_column_transformer(transformer, columns)
    if hasattr(transformer, "steps"):
        for _, step in transformer.steps:
            columns = columns if step in (None, "passthrough") else _owners(step, columns)
        return columns
    if hasattr(transformer, "feature_name_combiner"):  # a OneHotEncoder, which lets us name what it makes
        plain = copy(transformer)
        plain.feature_name_combiner = lambda column, _category: column
        return list(plain.get_feature_names_out(columns))
    if list(transformer.get_feature_names_out(columns)) == columns:
        return columns
    raise InputError(
        f"groups: cannot tell which columns {type(transformer).__name__} makes of which; pass lists of columns"
    )


def _of_column_transformer(transformer: Any, columns: list[str]) -> list[str]:
    owners = [""] * sum(part.stop - part.start for part in transformer.output_indices_.values())
    for name, inner, chosen in transformer.transformers_:
        part = transformer.output_indices_[name]
        if part.stop == part.start:
            continue
        own = _chosen(chosen, columns)
        made = own if inner == "passthrough" else _owners(inner, own)
        owners[part] = made
    return owners


def _chosen(chosen: Any, columns: list[str]) -> list[str]:
    """Return the names of a transformer's columns, given as names, numbers, a mask or a slice."""
    if isinstance(chosen, str):
        return [chosen]
    if isinstance(chosen, slice):
        return columns[chosen]
    wanted = list(chosen)
    if wanted and isinstance(wanted[0], bool):
        return [name for name, kept in zip(columns, wanted, strict=True) if kept]
    return [one if isinstance(one, str) else columns[one] for one in wanted]
