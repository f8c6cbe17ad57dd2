"""The addresses of the service, and what each answers."""

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from types import NoneType
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from shearshap import __version__
from shearshap.apps.jobs.tables import FORMULA, NUMBER
from shearshap.apps.serve.batching import Batcher, Parts
from shearshap.apps.serve.guard import Guard, Metrics, RequestError, shown
from shearshap.apps.serve.prepared import Prepared
from shearshap.apps.serve.schemas import (
    About,
    Budget,
    Explained,
    ExplainRequest,
    FoundRow,
    FoundRows,
    Health,
    LoadedRows,
    Overview,
    Problem,
    explained,
    plain_rows,
    request_model,
)
from shearshap.apps.serve.server import Limits
from shearshap.errors import ModelError, ShearError
from shearshap.result.colours import page_colours
from shearshap.result.html import policy_hash
from shearshap.result.importance import mean_sizes
from shearshap.result.text import digits_script

MAX_LISTED = 100
"""Rows that GET /rows and GET /ids return at once."""

MAX_SEARCH = 200  #: characters

MAX_MESSAGE = 500
"""Characters of a message of ours, or of pydantic, that a refusal repeats."""

MAX_LOGGED = 2_000
"""Characters of an error that the log repeats."""

LOG = logging.getLogger("shearshap.apps.serve")

CLIENT_GONE = 499
"""The status, in the metrics alone, of a request whose client did not wait: as nginx counts it."""

TIMES_DEFAULT = 10
"""How many times the default budget a request may ask for, if no limit is set."""

DESCRIPTION = """
Explains a model's predictions for rows by Shapley values.

The base value is the prediction without any feature. A feature's value is its contribution
to the difference between that and the row's prediction. Its standard error says how far it may be
off.

Requests that come at the same time are explained together. That changes no answer.
"""

REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Problem, "description": "The request was refused; `error` says why."},
    "5XX": {
        "model": Problem,
        "description": "503: too many requests, or bytes of requests, at the same time; "
        "Retry-After says when to come back. 504: it took too long.",
    },
}


def make_app(
    prepared: Prepared,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    hosts: tuple[str, ...] | None = None,
) -> Guard:
    """Return the service as an ASGI application.

    Requests must send the token, if there is one, and name one of the hosts; None: any.
    """
    limits = limits or Limits()
    metrics = Metrics()
    batcher = Batcher(prepared.explain, metrics)

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
        responses=REFUSALS,
    )
    # the guard checks the token; here it is only described
    security = [Depends(HTTPBearer(scheme_name="token", auto_error=False))] if token else []
    _add_public_addresses(api)
    api.include_router(_router(State(prepared, limits, batcher, metrics)), dependencies=security)
    _add_handlers(api)
    paths = {"/", "/openapi.json", *api.openapi()["paths"]}
    return Guard(api, limits, metrics, token, hosts, paths)


# What the addresses answer from


@dataclass(frozen=True, eq=False)
class State:
    """A prepared model, and what makes its answers."""

    prepared: Prepared
    limits: Limits
    batcher: Batcher
    metrics: Metrics

    @cached_property
    def max_evaluations(self) -> int:
        """The evaluations that a request may take: those of one usual row at least."""
        return max(self.limits.evaluations, self.prepared.explainer.budget)

    @cached_property
    def budget(self) -> Budget:
        """The evaluations that a row may have."""
        default = self.prepared.explainer.budget
        most = self.limits.budget or TIMES_DEFAULT * default
        return Budget(
            default=default,
            minimum=self.prepared.explainer.minimum_budget,
            maximum=max(default, min(most, self.max_evaluations)),
        )

    @cached_property
    def about(self) -> About:
        """The description of the model that is served."""
        prepared = self.prepared
        return About(
            version=__version__,
            model=prepared.model,
            background=prepared.background,
            method=prepared.overview.method,
            features=prepared.features,
            groups=prepared.groups,
            outputs=prepared.outputs,
            rows=len(prepared.rows),
            id_column=prepared.id_column,
            most_rows=self.limits.rows,
            most_evaluations=self.max_evaluations,
            budget=self.budget,
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
            features=list(explanation.feature_names),
            outputs=self.prepared.outputs,
            mean_absolute_values=means.reshape(len(means), -1).T.tolist(),
            prediction_ranges=ranges.tolist(),
        )

    async def explain(self, question: ExplainRequest, request: Request) -> Explained:
        """Return the explanations of the rows of a request."""
        rows = len(question.rows)
        budget = question.budget
        if rows * budget > self.max_evaluations:
            raise RequestError(
                422,
                f"expected at most {self.max_evaluations} evaluations per request, got {rows} "
                f"rows of {budget} evaluations, {rows * budget} in all; try at most "
                f"{self.max_evaluations // budget} rows, a smaller budget, or shear explain for "
                "a whole file",
                "rows",
            )
        parts = await self._parts(question, request)
        if question.output is not None:
            parts = [part.output(question.output) for part in parts]
        return explained(parts, budget)

    async def _parts(self, question: ExplainRequest, request: Request) -> Parts:
        """Return the explanations; when it is too late, or the client has gone, end the work."""
        expected = f"expected an answer within {self.limits.seconds:g} s"
        answers = asyncio.wrap_future(self.batcher.submit(question.rows, question.budget))
        gone = asyncio.create_task(_gone(request))
        try:
            left = request.scope["until"] - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait(
                (answers, gone), timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED
            )
            if answers in done:
                return answers.result()
            if gone in done:
                raise RequestError(CLIENT_GONE, f"{expected}, got a closed connection")
            hint = "try fewer rows or a smaller budget"
            raise RequestError(504, f"{expected}, got none yet; {hint}")
        except asyncio.CancelledError:  # by the server, after its grace period
            raise RequestError(503, f"{expected}, got a service that is being stopped") from None
        except ShearError as error:
            raise _refusal(error) from None
        finally:
            answers.cancel()
            gone.cancel()


async def _gone(request: Request) -> None:
    """Return when the client of a request, whose body is read, has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refusal(error: ShearError) -> RequestError:
    """Return what a client hears about rows that cannot be explained.

    Our own words are about its rows. Those of any other exception, which a ModelError repeats, may
    hold paths and more of what the client is not to know.
    """
    if isinstance(error, ModelError) or not isinstance(error.__cause__, ShearError | NoneType):
        return RequestError(422, f"the model fails on them; {_logged(error)}", "rows")
    message = " ".join(str(error).split())[:MAX_MESSAGE]
    return RequestError(422, f"the model rejects them: {message}", "rows")


def _logged(error: Exception) -> str:
    """Write an error to the log, and return where it is found there."""
    number = secrets.token_hex(4)
    # repr: its text may have cells of a request, which must not look like lines of the log
    LOG.error("error %s: %s: %r", number, type(error).__name__, str(error)[:MAX_LOGGED])
    return f"the log of the service says why, at error {number}"


# Addresses


def _add_public_addresses(api: FastAPI) -> None:
    content, policy = page()

    @api.get("/", include_in_schema=False)
    async def root() -> Response:
        headers = {"Content-Security-Policy": policy}
        return Response(content, media_type="text/html; charset=utf-8", headers=headers)

    @api.get("/healthz", summary="Whether the service is running")
    async def healthz() -> Health:
        return Health()


def _router(state: State) -> APIRouter:
    """Return the addresses that show something about the model or the rows."""
    router = APIRouter()
    prepared = state.prepared
    question_type = request_model(
        prepared.features, prepared.rows, prepared.outputs, state.budget, state.limits.rows
    )

    @router.post("/explain", summary="Explain rows", response_model=Explained)
    async def explain(question: question_type, request: Request) -> Response:  # type: ignore[valid-type]
        """Return the Shapley values of the rows of the body.

        A row has a cell for each feature, as GET /rows returns it. The answer is the same whatever
        other rows are explained at the same time.
        """
        answer = await state.explain(question, request)
        # written by pydantic itself, which has null for what is not known
        return Response(answer.model_dump_json(), media_type="application/json")

    @router.get("/about", summary="The model, its features and the limits")
    async def about() -> About:
        return state.about

    @router.get("/global", summary="The mean size of each feature's values")
    async def overview() -> Overview:
        return state.overview

    @router.get("/rows", summary="Rows that are loaded")
    async def rows(
        offset: Annotated[int, Query(ge=0, le=2**53, description="The first row.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_LISTED, description="How many rows.")] = 10,
    ) -> LoadedRows:
        listed = plain_rows(prepared.rows.iloc[offset : offset + limit])
        ids = prepared.ids[offset : offset + limit]
        return LoadedRows(offset=offset, total=len(prepared.rows), ids=ids, rows=listed)

    @router.get("/ids", summary="Rows found by their ids")
    def ids(
        search: Annotated[str, Query(max_length=MAX_SEARCH, description="Part of an id.")] = "",
        limit: Annotated[int, Query(ge=1, le=MAX_LISTED, description="How many rows.")] = 10,
    ) -> FoundRows:
        """Return the rows whose ids hold a text; upper and lower case do not matter."""
        return _found(prepared.ids, search.strip().casefold(), limit)

    @router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        counts = generate_latest(state.metrics.registry)
        return Response(counts, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


def _found(ids: Sequence[str], text: str, limit: int) -> FoundRows:
    """Return the ids that hold a text: first those that are it, then those that start with it."""
    found = [number for number, each in enumerate(ids) if text in each.casefold()]

    def rank(number: int) -> tuple[bool, bool]:
        own = ids[number].casefold()
        return own != text, not own.startswith(text)

    rows = [FoundRow(number=number, id=ids[number]) for number in sorted(found, key=rank)[:limit]]
    return FoundRows(total=len(found), rows=rows)


# Refusals of the framework, in the form of ours


def _add_handlers(api: FastAPI) -> None:
    @api.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        return _invalid(error).response()

    @api.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        if isinstance(error, RequestError):
            return error.response()
        detail = f"{error.detail}: {request.method} {shown(request.url.path)}"
        return RequestError(error.status_code, detail, headers=dict(error.headers or {})).response()

    @api.exception_handler(Exception)
    async def failed(_request: Request, error: Exception) -> Response:
        return RequestError(500, f"an error of the service itself; {_logged(error)}").response()


def _invalid(error: RequestValidationError) -> RequestError:
    """Return the refusal of a request that pydantic refuses, by the first of its errors."""
    first, *others = error.errors()
    if first["type"] == "json_invalid":
        return RequestError(422, f"the body is not valid JSON: {first['ctx']['error']}")
    _part, *path = first["loc"]
    path = path[:3] if path[:1] == ["rows"] else path[:1]  # without the kinds of a union
    where = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    message = f"{first['msg'][:MAX_MESSAGE]}, got {shown(first['input'])}"
    more = f" (and {len(others)} more)" if others else ""
    return RequestError(422, message + more, where.removeprefix("."))


# The page: one document with its style and script inside, which needs no others


def page() -> tuple[bytes, str]:
    """Return the page, and its Content-Security-Policy.

    The policy allows this very style and script, by their hashes, and requests to the service.
    """
    folder = files("shearshap.apps.serve")
    style = page_colours() + (folder / "live.css").read_text(encoding="utf-8")
    patterns = f"const FORMULA = {json.dumps(FORMULA)}, NUMBER = {json.dumps(NUMBER)};\n"
    script = patterns + digits_script() + (folder / "live.js").read_text(encoding="utf-8")
    frame = (folder / "live.html").read_text(encoding="utf-8")
    content = frame.replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; style-src {policy_hash(style)}; script-src {policy_hash(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return content.encode(), policy
