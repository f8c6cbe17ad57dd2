"""Requests and responses: pydantic models, which check them and describe them in OpenAPI.

The rows of a request have a cell for each column of the rows loaded:

    a column                  a cell of it
    int64                     a whole number
    float64                   a number; null too, if cells of the column are missing
    text                      a text
    categories red, green     one of those
    bool                      true or false
    datetime64                a text such as 2026-01-31T12:00:00
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    NaiveDatetime,
    model_validator,
)
from pydantic import create_model as derived_model
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from shearshap.errors import InputError
from shearshap.result.explanation import Explanation, spent_evaluations

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["number", "integer", "boolean", "text", "category", "time"]
Cell = float | int | bool | str | None
Row = Mapping[str, Any]

#: by the names of `pandas.api.types.infer_dtype`
KINDS: Mapping[str, Kind] = {
    "floating": "number",
    "integer": "integer",
    "boolean": "boolean",
    "string": "text",
    "categorical": "category",
    "datetime64": "time",
}

MAX_CATEGORIES = 200
"""Distinct texts up to which a column's texts are listed for people to choose from."""

MAX_NUMBER = float(np.finfo(np.float32).max)
"""The largest number of a request: most models compute in single precision."""

MAX_INTEGER = 2**53 - 1
"""The largest whole number that all readers of JSON agree on."""

MAX_TEXT = 10_000  #: characters

MAX_UNKNOWN = 10
"""Unknown keys of an object that are refused by their names: one by one, they take time."""

YEARS = (1678, 2262)
"""The first whole year of pandas, which counts nanoseconds, and the one after the last."""


# Answers


class Problem(BaseModel):
    """Why a request was refused."""

    error: str = Field(
        description="What is wrong, in a sentence.",
        examples=["rows[0].age: Input should be a valid integer, got 'old'"],
    )
    where: str = Field(
        description="Where in the request; empty for the whole request.", examples=["rows[0].age"]
    )


class Health(BaseModel):
    """The service lives."""

    status: Literal["ok"] = "ok"


class Feature(BaseModel):
    """A column that the model takes, with what the rows loaded hold."""

    name: str
    kind: Kind
    missing: bool = Field(description="Whether it may be null.")
    typical: Cell = Field(description="For numbers the median, otherwise the most frequent value.")
    minimum: float | int | None = Field(description="For numbers, in the loaded rows.")
    maximum: float | int | None = Field(description="For numbers, in the loaded rows.")
    categories: list[Any] | None = Field(
        description="Values in the loaded rows, if there are few; for the kind category only these "
        "are accepted."
    )


class Budget(BaseModel):
    """Model evaluations for one row."""

    default: int
    minimum: int
    maximum: int


class About(BaseModel):
    """The model that is served, and what it takes."""

    version: str = Field(description="The version of shearshap.")
    model: str
    background: str = Field(description="What features are compared with, in words.")
    method: str = Field(description="The method at the default budget.")
    features: list[Feature] = Field(description="The columns of a row.")
    groups: dict[str, list[str]] = Field(
        description="Columns that are explained as one feature, by its name."
    )
    outputs: list[str]
    rows: int = Field(description="How many rows are loaded: see GET /rows.")
    id_column: str | None = Field(
        description="The column that labels the rows; null for row numbers."
    )
    most_rows: int = Field(description="Maximum rows per request.")
    most_evaluations: int = Field(description="Maximum rows x budget per request.")
    budget: Budget


class Overview(BaseModel):
    """The global view: how large each feature's values are, over rows loaded."""

    rows: int = Field(description="Rows behind these numbers, evenly spaced among those loaded.")
    features: list[str]
    outputs: list[str]
    mean_absolute_values: list[list[float]] = Field(
        description="For each output the mean |value| of each feature."
    )
    prediction_ranges: list[list[float]] = Field(
        description="For each output the lowest and the highest prediction."
    )


class LoadedRows(BaseModel):
    """Rows that were loaded at the start, as POST /explain takes them."""

    offset: int = Field(description="The number of the first, counted from 0.")
    total: int
    ids: list[str] = Field(
        description="Labels of these rows, or their numbers if they have no labels."
    )
    rows: list[dict[str, Cell]]


class FoundRow(BaseModel):
    """A row that was loaded, by its number and its id."""

    number: int = Field(description="Counted from 0: the offset of GET /rows.")
    id: str


class FoundRows(BaseModel):
    """Rows whose ids hold a text."""

    total: int = Field(description="How many there are.")
    rows: list[FoundRow] = Field(description="Some of them, best matches first.")


class RowExplanation(BaseModel):
    """The Shapley values of one row; for every output they add up to prediction - base_value."""

    values: list[list[float]] = Field(description="For each output the value of each feature.")
    # pydantic writes NaN, which is an error that is not known, as null
    standard_errors: list[list[float | None]] | None = Field(
        description="Like values; null if the method has none."
    )
    base_value: list[float] = Field(
        description="For each output: the prediction with all features absent."
    )
    prediction: list[float] = Field(description="For each output: the model's prediction.")
    evaluations: int = Field(description="Model evaluations spent on the row.")


class Explained(BaseModel):
    """The explanations of a request's rows, in their order."""

    features: list[str]
    outputs: list[str]
    method: str
    budget: int
    explanations: list[RowExplanation]
    notes: list[str] = Field(description="What to know about the numbers, in sentences.")


def explained(parts: Sequence[Explanation], budget: int) -> Explained:
    """Return the answer to a request whose rows were explained in parts."""
    return Explained(
        features=parts[0].feature_names,
        outputs=parts[0].output_names,
        method=", ".join(dict.fromkeys(part.method for part in parts)),
        budget=budget,
        explanations=[row for part in parts for row in _row_explanations(part)],
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _row_explanations(part: Explanation) -> list[RowExplanation]:
    rows = len(part)
    errors = part.standard_errors
    columns = (
        _outputs_first(part.values).tolist(),
        [None] * rows if errors is None else _outputs_first(errors).tolist(),
        part.base_values.reshape(rows, -1).tolist(),
        part.predictions.reshape(rows, -1).tolist(),
        spent_evaluations(part).tolist(),
    )
    names = RowExplanation.model_fields
    return [
        RowExplanation(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)
    ]


def _outputs_first(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an array (r, p) or (r, p, k) as (r, k, p)."""
    return array[:, None] if array.ndim == 2 else np.swapaxes(array, 1, 2)


# Requests


class ExplainRequest(BaseModel):
    """Rows to explain."""

    model_config = ConfigDict(extra="forbid")

    rows: list[Any]
    budget: int
    output: str | int | None = Field(
        None, description="The output to return, by name or number; default: all."
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, content: Any) -> Any:
        return _with_few_keys(content, len(cls.model_fields))


def _with_few_keys(content: Any, known: int) -> Any:
    """Return what came; raise if it has many more keys than are known."""
    most = known + MAX_UNKNOWN
    if isinstance(content, dict) and len(content) > most:
        raise PydanticCustomError(
            "too_many_keys", "Input should have at most {most} keys", {"most": most}
        )
    return content


def request_model(
    features: Sequence[Feature],
    frame: "pd.DataFrame",
    outputs: Sequence[str],
    budget: Budget,
    max_rows: int,
) -> type[ExplainRequest]:
    """Return the model of a request about rows like those of a frame."""
    # a TypedDict and not a model, whose fields could not have every name that a column has
    cells = {feature.name: _cell_type(feature, frame[feature.name]) for feature in features}
    row = cast(Any, TypedDict)("Row", cells)
    row.__pydantic_config__ = ConfigDict(extra="forbid")
    few_keys = BeforeValidator(lambda x: _with_few_keys(x, len(cells)))
    example = {feature.name: feature.typical for feature in features}
    rows = Field(min_length=1, max_length=max_rows, examples=[[example]])
    words = f"Model evaluations per row; default: {budget.default}."
    names = Literal[*outputs]  # type: ignore[valid-type]
    numbers = _whole_number(0, len(outputs) - 1)
    return derived_model(
        "ExplainRequest",
        __base__=ExplainRequest,
        # the first row that is wrong is enough
        rows=(Annotated[list[Annotated[row, few_keys]], FailFast()], rows),  # type: ignore[valid-type]
        budget=(
            _whole_number(budget.minimum, budget.maximum),
            Field(budget.default, description=words),
        ),
        output=(names | numbers | None, ExplainRequest.model_fields["output"]),
    )


def _whole_number(low: float, high: float) -> Any:
    """Return the type of whole numbers in a range."""
    # JSON does not distinguish 39.0 from 39
    whole = BeforeValidator(lambda x: int(x) if isinstance(x, float) and x.is_integer() else x)
    return Annotated[int, Field(strict=True, ge=low, le=high), whole]


def _cell_type(feature: Feature, column: "pd.Series[Any]") -> Any:
    """Return the type of a cell, with its limits, as pydantic takes it."""
    kind: Any
    if feature.kind == "integer":
        kind = _whole_number(*_limits(feature, *_integers(column.dtype)))
    elif feature.kind == "number":
        low, high = _limits(feature, -MAX_NUMBER, MAX_NUMBER)
        kind = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=low, le=high)]
    elif feature.kind == "boolean":
        kind = Annotated[bool, Field(strict=True)]
    elif feature.kind == "text":
        kind = Annotated[str, Field(strict=True, max_length=MAX_TEXT)]
    elif feature.kind == "category":
        kind = Literal[*feature.categories or ()]
    else:
        # the same hour is another one in another zone
        zone = getattr(column.dtype, "tz", None)
        utc = None if zone is None else UTC
        first, last = (datetime(year, 1, 1, tzinfo=utc) for year in YEARS)
        kind = Annotated[NaiveDatetime if zone is None else AwareDatetime, Field(ge=first, lt=last)]
    cell = Annotated[kind, Field(examples=[feature.typical])]
    return cell | None if feature.missing else cell


def _limits(feature: Feature, low: float, high: float) -> tuple[float, float]:
    """Return limits that hold what the rows loaded hold, however large."""
    return min(low, feature.minimum or 0), max(high, feature.maximum or 0)


def _integers(dtype: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of a type of integers that JSON has, too."""
    info = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    return max(int(info.min), -MAX_INTEGER), min(int(info.max), MAX_INTEGER)


# Features of a frame


def features_from_frame(frame: "pd.DataFrame") -> list[Feature]:
    """Return the features of the rows loaded."""
    return [_feature(frame[name]) for name in frame.columns]


def _feature(column: "pd.Series[Any]") -> Feature:
    known = column.dropna()
    if not len(known):
        raise InputError(
            f"data: column {column.name!r} has no values, so nothing is known about it; leave "
            "it out with --drop, or serve rows that have some"
        )
    kind = _kind(known)
    is_numeric = kind in ("number", "integer")
    typical = known.median() if is_numeric else known.mode().iloc[0]
    return Feature(
        name=str(column.name),
        kind=kind,
        missing=len(known) < len(column),
        typical=int(typical) if kind == "integer" else plain_cell(typical),
        minimum=plain_cell(known.min()) if is_numeric else None,
        maximum=plain_cell(known.max()) if is_numeric else None,
        categories=_categories(known, kind),
    )


def _kind(known: "pd.Series[Any]") -> Kind:
    from pandas.api.types import infer_dtype

    inferred = infer_dtype(known)
    # objects other than texts have no limits, and no way back from JSON
    is_other_object = known.dtype == object and inferred != "string"
    if is_other_object or inferred not in KINDS:
        raise InputError(
            f"data: column {known.name!r} holds {inferred} cells such as {known.iloc[0]!r}; a "
            "service takes numbers, texts, categories, truth values and times"
        )
    return KINDS[inferred]


def _categories(known: "pd.Series[Any]", kind: Kind) -> list[Any] | None:
    if kind == "category":
        return [plain_cell(category) for category in known.cat.categories]
    if kind != "text":
        return None
    distinct = known.unique()
    return sorted(distinct) if len(distinct) <= MAX_CATEGORIES else None


def plain_cell(cell: Any) -> Any:
    """Return a cell of pandas as JSON has it; a missing one, or infinity, is None."""
    import pandas as pd

    if pd.isna(cell) or cell in (inf, -inf):
        return None
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    return cell.item() if isinstance(cell, np.generic) else cell


def plain_rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON has them."""
    columns = [[plain_cell(cell) for cell in frame[name]] for name in frame.columns]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def frame_from_rows(rows: Sequence[Row], types: Mapping[str, Any]) -> "pd.DataFrame":
    """Return rows of a request as a frame whose columns have the types given by name."""
    import pandas as pd

    # arrays, since to make a Series of each takes three times as long
    return pd.DataFrame(
        {name: pd.array([row[name] for row in rows], dtype=kind) for name, kind in types.items()}
    )
