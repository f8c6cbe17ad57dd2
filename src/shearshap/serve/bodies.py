"""Bodies of requests: bytes to JSON to what is asked for, each step checked."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from shearshap.serve.limits import Limits, Refusal, shown
from shearshap.serve.schemas import BudgetInfo

FIELDS = ("rows", "budget", "output")
EXAMPLE = 'the example in /openapi.json, {"rows": [{...}]}'


@dataclass(frozen=True)
class Question:
    """What POST /explain asks for."""

    rows: list[Any]
    budget: int
    output: int | None  #: its number; None: all


async def read_body(request: Request, limits: Limits, until: float) -> bytes:
    """Return a request's body, or refuse one that is no JSON, too large or too slow.

    `until` is the event loop's time at which the request has taken too long.
    """
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        wanted = "the header 'Content-Type: application/json'"
        raise Refusal(415, wanted, shown(kind) if kind else "none", "to add it")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limits.body:
        raise _too_large(limits, f"{length[:20]} bytes")
    try:
        async with asyncio.timeout_at(until):
            return await _chunks(request, limits)
    except TimeoutError as error:
        raise Refusal(
            408, f"a whole body within {limits.seconds:g} s", "a part of it", "again"
        ) from error
    except ClientDisconnect as error:
        raise Refusal(400, "a whole body", "a part of it", "again") from error


async def _chunks(request: Request, limits: Limits) -> bytes:
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limits.body:
            raise _too_large(limits, f"more than {limits.body} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limits: Limits, got: str) -> Refusal:
    wanted = f"a body of at most {limits.body} bytes"
    return Refusal(413, wanted, got, "fewer rows in a request, or shear explain for a whole file")


def parsed(body: bytes) -> Any:
    """Return what JSON says, or refuse it."""
    try:
        return json.loads(body.decode(), parse_constant=_no_constant)
    except RecursionError as error:
        raise Refusal(400, "JSON of a few levels", "too many levels", EXAMPLE) from error
    except UnicodeDecodeError as error:
        raise Refusal(400, "JSON in UTF-8", "other bytes", EXAMPLE) from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Refusal(400, "JSON", f"a mistake ({error.msg})", EXAMPLE, place) from error
    except ValueError as error:  # a number of thousands of digits
        raise Refusal(400, "numbers of a few digits", "a longer one", EXAMPLE) from error


def _no_constant(name: str) -> NoReturn:
    raise Refusal(400, "finite numbers", name, "null where a cell is missing")


def question_of(
    content: Any, outputs: Sequence[str], budget: BudgetInfo, limits: Limits
) -> Question:
    """Return what a body asks for, its rows unchecked, or refuse it."""
    if not isinstance(content, dict):
        raise Refusal(422, "an object with rows", shown(content), EXAMPLE)
    unknown = [name for name in content if name not in FIELDS]
    if unknown:
        raise Refusal(422, f"only {', '.join(FIELDS)}", shown(unknown[0]), EXAMPLE)
    question = Question(
        _rows(content.get("rows"), limits),
        _budget(content, budget),
        _output(content, outputs),
    )
    _check_evaluations(question, max_evaluations(budget.default, limits))
    return question


def _rows(rows: Any, limits: Limits) -> list[Any]:
    wanted = f"a list of 1 to {limits.rows} rows"
    if not isinstance(rows, list) or not rows:
        raise Refusal(422, wanted, shown(rows), EXAMPLE, "rows")
    if len(rows) > limits.rows:
        hint = "several requests, or shear explain for a whole file"
        raise Refusal(422, wanted, f"{len(rows)} rows", hint, "rows")
    return rows


def _budget(content: dict[str, Any], budget: BudgetInfo) -> int:
    if "budget" not in content:
        return budget.default
    given = content["budget"]
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if is_number and budget.minimum <= given <= budget.maximum and given == int(given):
        return int(given)
    wanted = f"a whole number from {budget.minimum} to {budget.maximum}"
    raise Refusal(422, wanted, shown(given), str(budget.default), "budget")


def max_evaluations(default_budget: int, limits: Limits) -> int:
    """Return how many evaluations a request may take: those of one usual row at least."""
    return max(limits.evaluations, default_budget)


def _check_evaluations(question: Question, most: int) -> None:
    rows = len(question.rows)
    budget = question.budget
    if rows * budget <= most:
        return
    wanted = f"at most {most} evaluations in a request"
    got = f"{rows} rows of {budget} evaluations, {rows * budget} in all"
    fewer = f"at most {most // budget} rows, " if most >= budget else ""
    hint = f"{fewer}a smaller budget, or shear explain for a whole file"
    raise Refusal(422, wanted, got, hint, "rows")


def _output(content: dict[str, Any], outputs: Sequence[str]) -> int | None:
    if "output" not in content:
        return None
    given = content["output"]
    if isinstance(given, str) and given in outputs:
        return outputs.index(given)
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if is_number and 0 <= given < len(outputs) and given == int(given):
        return int(given)
    names = ", ".join(shown(name) for name in outputs[:12])
    wanted = f"one of {names}, or a number from 0 to {len(outputs) - 1}"
    raise Refusal(422, wanted, shown(given), shown(outputs[0]), "output")
