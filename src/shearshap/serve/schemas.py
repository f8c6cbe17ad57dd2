"""What goes in and out, as OpenAPI describes it.

Answers are written as JSON by hand, since that is faster; the tests compare them with this.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shearshap.serve.features import Feature, Kind
from shearshap.serve.limits import Limits


class Problem(BaseModel):
    """Why a request was refused."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": "rows[0].age: wanted a whole number, got 'old'; try 39",
                    "where": "rows[0].age",
                    "wanted": "a whole number",
                    "got": "'old'",
                    "try": "39",
                }
            ]
        }
    )

    error: str = Field(description="All of it in a sentence.")
    where: str = Field(description="The place in the request; empty where it is all of it.")
    wanted: str = Field(description="What the service takes.")
    got: str = Field(description="What came, shortened.")
    hint: str = Field(alias="try", description="What to try; may be empty.")


class FeatureInfo(BaseModel):
    """A feature of the model, with what the rows loaded hold."""

    name: str
    kind: Kind
    missing: bool = Field(description="Whether it may be null.")
    typical: float | int | bool | str | None = Field(
        description="The median of a number, else the most frequent cell."
    )
    minimum: float | int | None = Field(description="Of a number, in the rows loaded.")
    maximum: float | int | None = Field(description="Of a number, in the rows loaded.")
    categories: list[float | int | bool | str] | None = Field(
        description="The cells there are, where they are few; of the kind category no others are "
        "taken."
    )


class BudgetInfo(BaseModel):
    """Model evaluations for one row."""

    default: int
    minimum: int
    maximum: int


class About(BaseModel):
    """The model that is served, and what it takes."""

    version: str = Field(description="Of shearshap.")
    model: str
    background: str = Field(description="What an absent feature is replaced with, in words.")
    method: str = Field(description="That explains a row at the default budget.")
    features: list[FeatureInfo] = Field(description="The cells of a row.")
    groups: dict[str, list[str]] = Field(
        description="Cells that are explained as one feature, by its name."
    )
    outputs: list[str]
    rows: int = Field(description="How many rows are loaded: see GET /rows.")
    most_rows: int = Field(description="Rows that one request may have.")
    most_evaluations: int = Field(description="Rows x budget of one request.")
    budget: BudgetInfo
    notes: list[str] = Field(description="What may be wrong with the files, in sentences.")


class Overview(BaseModel):
    """The global view: how large each feature's values are, over rows loaded."""

    rows: int = Field(description="Rows that it was made of, evenly spaced among those loaded.")
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
    rows: list[dict[str, float | int | bool | str | None]]


class RowExplanation(BaseModel):
    """The Shapley values of one row; for every output they add up to prediction - base_value."""

    values: list[list[float]] = Field(description="For each output the value of each feature.")
    standard_errors: list[list[float | None]] | None = Field(
        description="Like values; null where the method has none."
    )
    base_value: list[float] = Field(description="For each output: with all features absent.")
    prediction: list[float] = Field(description="For each output: the model's own.")
    evaluations: int = Field(description="Model evaluations that were spent on the row.")


class Explained(BaseModel):
    """The explanations of a request's rows, in their order."""

    features: list[str]
    outputs: list[str]
    method: str
    budget: int
    explanations: list[RowExplanation]
    notes: list[str] = Field(description="What to know about the numbers, in sentences.")


class Health(BaseModel):
    """The service lives."""

    status: str = Field(description='"ok".')


def explain_schema(
    features: Sequence[Feature],
    outputs: Sequence[str],
    budget: BudgetInfo,
    limits: Limits,
    example: dict[str, Any],
) -> dict[str, Any]:
    """Return the JSON schema of the body of POST /explain."""
    row = {
        "type": "object",
        "description": "A cell for each feature.",
        "properties": {feature.name: feature.schema() for feature in features},
        "required": [feature.name for feature in features],
        "additionalProperties": False,
    }
    evaluations = {
        "type": "integer",
        "minimum": budget.minimum,
        "maximum": budget.maximum,
        "description": f"Model evaluations for one row; {budget.default} where it is left out.",
    }
    output = {
        "description": "The output to return, by name or number; all where it is left out.",
        "anyOf": [
            {"type": "string", "enum": list(outputs)},
            {"type": "integer", "minimum": 0, "maximum": len(outputs) - 1},
        ],
    }
    return {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": row, "minItems": 1, "maxItems": limits.rows},
            "budget": evaluations,
            "output": output,
        },
        "required": ["rows"],
        "additionalProperties": False,
        "examples": [{"rows": [example], "budget": budget.default}],
    }
