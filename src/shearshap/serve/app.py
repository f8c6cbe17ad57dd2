"""The addresses of the service, and what each answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from shearshap import __version__
from shearshap.errors import ShearError
from shearshap.result.importance import mean_sizes
from shearshap.serve.batching import Batcher
from shearshap.serve.bodies import max_evaluations, parsed, question_of, read_body
from shearshap.serve.features import checked_rows, plain_rows
from shearshap.serve.guard import WITHOUT_TOKEN, App, Guard
from shearshap.serve.limits import Limits, Refusal, shown
from shearshap.serve.live_page import Document, document
from shearshap.serve.monitoring import CONTENT_TYPE, Monitor
from shearshap.serve.prepared import Answers, Prepared
from shearshap.serve.schemas import (
    About,
    BudgetInfo,
    Explained,
    FeatureInfo,
    Health,
    LoadedRows,
    Overview,
    Problem,
    explain_schema,
)

MOST_LISTED = 100
"""Rows that GET /rows returns at once."""

CLIENT_GONE = 499
"""The status, in the metrics alone, of a request whose client did not wait: as nginx counts it."""

TIMES_DEFAULT = 10
"""How many times the default budget a request may ask for, where no limit is set."""

DESCRIPTION = """
Explains a model's predictions for rows by Shapley values.

The base value is the prediction without any feature. A feature's value is its part in the way from
there to the row's prediction. Its standard error says how far it may be off.

Requests that come at the same time are explained together. That changes no answer.
"""

PROBLEMS = {
    400: "The body is no JSON.",
    401: "A token is needed.",
    403: "The request was sent to another host's name.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    422: "The request does not fit the model.",
    503: "Too many requests at the same time; Retry-After says when to come back.",
    504: "It took too long.",
}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the refusals of an address for OpenAPI."""
    return {status: {"model": Problem, "description": PROBLEMS[status]} for status in statuses}


EVERYWHERE = (401, 403, 503)


@dataclass(frozen=True, eq=False)
class State:
    """What the addresses answer from."""

    prepared: Prepared
    limits: Limits
    batcher: Batcher
    monitor: Monitor

    @cached_property
    def budget(self) -> BudgetInfo:
        """The evaluations that a row may have."""
        default = self.prepared.budget
        most = self.limits.budget or TIMES_DEFAULT * default
        most = min(most, max_evaluations(default, self.limits))
        least = self.prepared.least_budget
        return BudgetInfo(default=default, minimum=least, maximum=max(default, most))

    @cached_property
    def about(self) -> About:
        """What is served."""
        prepared = self.prepared
        return About(
            version=__version__,
            model=prepared.model,
            background=prepared.background,
            method=prepared.overview.method,
            features=[
                FeatureInfo(
                    name=feature.name,
                    kind=feature.kind,
                    missing=feature.missing,
                    typical=feature.typical,
                    minimum=feature.least,
                    maximum=feature.most,
                    categories=None if feature.categories is None else list(feature.categories),
                )
                for feature in prepared.features
            ],
            groups=prepared.groups,
            outputs=prepared.outputs,
            rows=len(prepared.rows),
            most_rows=self.limits.rows,
            most_evaluations=max_evaluations(prepared.budget, self.limits),
            budget=self.budget,
            notes=list(prepared.notes),
        )

    @cached_property
    def overview(self) -> Overview:
        """The global view."""
        explanation = self.prepared.overview
        means = mean_sizes(explanation)
        predictions = explanation.predictions.reshape(len(explanation), -1)
        ranges = np.stack((predictions.min(axis=0), predictions.max(axis=0)), axis=1)
        return Overview(
            rows=len(explanation),
            features=self.names,
            outputs=self.prepared.outputs,
            mean_absolute_values=means.reshape(len(means), -1).T.tolist(),
            prediction_ranges=ranges.tolist(),
        )

    @cached_property
    def names(self) -> list[str]:
        """The names of the features explained, each a column or a group of columns."""
        return list(self.prepared.overview.feature_names)

    def loaded(self, offset: int, limit: int) -> LoadedRows:
        """Return some of the rows loaded."""
        frame = self.prepared.rows
        rows = plain_rows(frame.iloc[offset : offset + limit])
        return LoadedRows(offset=offset, total=len(frame), rows=rows)

    async def explain(self, request: Request) -> bytes:
        """Return the answer to POST /explain."""
        until = asyncio.get_running_loop().time() + self.limits.seconds
        content = parsed(await read_body(request, self.limits, until))
        question = question_of(content, self.prepared.outputs, self.budget, self.limits)
        rows = checked_rows(self.prepared.features, question.rows)
        answers = await self._answers(request, rows, question.budget, until)
        return self._json(answers, question.budget, question.output)

    async def _answers(
        self, request: Request, rows: list[Any], budget: int, until: float
    ) -> Answers:
        """Return the answers; when it is too late, or nobody waits for them, end their work."""
        wanted = f"an answer within {self.limits.seconds:g} s"
        answers = asyncio.wrap_future(self.batcher.submit(rows, budget))
        gone = asyncio.create_task(_gone(request))
        try:
            left = until - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait(
                (answers, gone), timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED
            )
            if answers in done:
                return answers.result()
            if gone in done:
                raise Refusal(CLIENT_GONE, wanted, "a closed connection")
            raise Refusal(504, wanted, "none yet", "fewer rows or a smaller budget")
        except asyncio.CancelledError:  # by the server, after its grace period
            raise Refusal(503, wanted, "a service that is being stopped", "again later") from None
        except ShearError as error:
            message = " ".join(str(error).split())
            raise Refusal(
                422,
                "rows that the model can predict",
                f"an error of the model: {message[:500]}",
                "cells like those of GET /rows",
                "rows",
            ) from error
        finally:
            answers.cancel()
            gone.cancel()

    def _json(self, answers: Answers, budget: int, output: int | None) -> bytes:
        chosen = slice(None) if output is None else slice(output, output + 1)
        errors = answers.standard_errors
        explanations = [
            {
                "values": values,
                "standard_errors": own_errors,
                "base_value": base_value,
                "prediction": prediction,
                "evaluations": evaluations,
            }
            for values, own_errors, base_value, prediction, evaluations in zip(
                answers.values[:, chosen].tolist(),
                [None] * len(answers.values) if errors is None else _nulls(errors[:, chosen]),
                answers.base_values[:, chosen].tolist(),
                answers.predictions[:, chosen].tolist(),
                answers.evaluations.tolist(),
                strict=True,
            )
        ]
        answer = {
            "features": self.names,
            "outputs": self.prepared.outputs[chosen],
            "method": answers.method,
            "budget": budget,
            "explanations": explanations,
            "notes": answers.notes,
        }
        return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


async def _gone(request: Request) -> None:
    """Return when the client of a request, whose body is read, has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _nulls(errors: NDArray[np.float64]) -> list[Any]:
    """Return standard errors (r, k, p) as lists, with None for those that are not known."""
    known = np.isfinite(errors)
    cells = errors if known.all() else errors.astype(object)
    if not known.all():
        cells[~known] = None
    lists: list[Any] = cells.tolist()
    return lists


def make_app(
    prepared: Prepared,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    hosts: tuple[str, ...] | None = None,
) -> App:
    """Return the service as an ASGI application.

    Parameters
    ----------
    token
        That requests must bring; None: none.
    hosts
        The names under which requests may come; None: any.
    """
    limits = limits or Limits()
    monitor = Monitor()
    batcher = Batcher(prepared.explain, monitor)
    state = State(prepared, limits, batcher, monitor)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        # in a thread, so that requests that are still open hear of it
        await asyncio.to_thread(batcher.close, limits.grace)

    api = FastAPI(
        title="shear serve",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # these fetch scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    _add_page(api, document())
    _add_addresses(api, state)
    _add_refusals(api)
    api.openapi = _openapi(api, protected=token is not None)  # type: ignore[method-assign]
    paths = {getattr(route, "path", "") for route in api.routes}
    return Guard(api, limits, monitor, token, hosts, paths)


def _add_page(api: FastAPI, page: Document) -> None:
    @api.get("/", include_in_schema=False)
    async def root() -> Response:
        headers = {"Content-Security-Policy": page.policy}
        return Response(page.content, media_type="text/html; charset=utf-8", headers=headers)


def _add_addresses(api: FastAPI, state: State) -> None:
    example = plain_rows(state.prepared.rows.iloc[:1])[0]
    body = explain_schema(
        state.prepared.features, state.prepared.outputs, state.budget, state.limits, example
    )

    @api.get("/healthz", summary="Whether the service lives", responses=_problems(403))
    async def healthz() -> Health:
        return Health(status="ok")

    @api.get(
        "/about", summary="The model, its features and the limits", responses=_problems(*EVERYWHERE)
    )
    async def about() -> About:
        return state.about

    @api.get(
        "/global",
        summary="The mean size of each feature's values",
        responses=_problems(*EVERYWHERE),
    )
    async def overview() -> Overview:
        return state.overview

    @api.get("/rows", summary="Rows that are loaded", responses=_problems(*EVERYWHERE, 422))
    async def rows(
        offset: Annotated[int, Query(ge=0, le=2**53, description="The first row.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many rows.")] = 10,
    ) -> LoadedRows:
        return state.loaded(offset, limit)

    @api.get(
        "/metrics",
        summary="Counts for Prometheus",
        response_class=PlainTextResponse,
        responses=_problems(*EVERYWHERE),
    )
    async def metrics() -> Response:
        return Response(state.monitor.text(), headers={"Content-Type": CONTENT_TYPE})

    @api.post(
        "/explain",
        summary="Explain rows",
        response_model=Explained,
        responses=_problems(400, *EVERYWHERE, 408, 413, 415, 422, 504),
        openapi_extra={
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}}
        },
    )
    async def explain(request: Request) -> Response:
        """Return the Shapley values of the rows of the body.

        A row has a cell for each feature, as GET /rows returns it. The answer is the same whatever
        other rows are explained at the same time.
        """
        return Response(await state.explain(request), media_type="application/json")


# Refusals of the framework, in the form of ours


def _add_refusals(api: FastAPI) -> None:
    @api.exception_handler(Refusal)
    async def refusal(_request: Request, error: Refusal) -> Response:
        return _response(error)

    @api.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        message = str(first["msg"])
        wanted = message.removeprefix("Input should be ").removeprefix("a valid ")
        where = ".".join(str(place) for place in first["loc"])
        return _response(Refusal(422, wanted, shown(first.get("input")), where=where))

    @api.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            wanted = "an address of /openapi.json"
            return _response(Refusal(404, wanted, shown(request.url.path), "/, /about or /explain"))
        headers = dict(error.headers or {})
        if error.status_code == 405:
            allowed = headers.get("Allow", headers.get("allow", "another method"))
            return _response(
                Refusal(405, allowed, shown(request.method), f"{allowed}", headers=headers)
            )
        refusal = Refusal(error.status_code, "another request", str(error.detail), headers=headers)
        return _response(refusal)


def _response(refusal: Refusal) -> Response:
    return Response(
        refusal.body(), refusal.status, headers=refusal.headers, media_type="application/json"
    )


# OpenAPI


def _openapi(api: FastAPI, *, protected: bool) -> Callable[[], dict[str, Any]]:
    """Return what makes the document, once."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(
                get_openapi(
                    title=api.title,
                    version=api.version,
                    description=api.description,
                    routes=api.routes,
                )
            )
            _tidy(made, protected=protected)
        return made

    return openapi


def _tidy(schema: dict[str, Any], *, protected: bool) -> None:
    """Describe validation errors as they are here, and the token where one is needed."""
    kinds = schema["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        kinds.pop(unused, None)
    if not protected:
        return
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in schema["paths"].items():
        if path in WITHOUT_TOKEN:
            continue
        for operation in operations.values():
            operation["security"] = [{"token": []}]
