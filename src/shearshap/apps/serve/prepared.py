"""A model that is loaded and prepared once, and then explains block after block of rows."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.apps.jobs.job import Job
from shearshap.apps.jobs.models import open_model
from shearshap.apps.jobs.options import errors_with_files
from shearshap.apps.jobs.plan import described, open_files
from shearshap.apps.jobs.urls import place
from shearshap.apps.serve.schemas import Cell, Feature, Row, features_from_frame, frame_from_rows
from shearshap.data.background import Conditional, ParsedBackground
from shearshap.data.players import flattened
from shearshap.engine.prepared import PreparedExplainer, with_fixed_background
from shearshap.errors import ModelError, ShearError, collect_warnings
from shearshap.explainer import Explainer
from shearshap.games.marginal import no_progress
from shearshap.result.cells import label_text
from shearshap.result.explanation import Explanation
from shearshap.result.views import evenly_spaced

if TYPE_CHECKING:
    import pandas as pd

Encode = Callable[[Sequence[Row]], Any]

OURS = {"shearshap", "torch", "contextlib"}
"""The packages whose code is part of an explanation, and not of the model's own."""

MAX_CELLS = 20_000
"""Cells of a column whose encodings are kept."""


@dataclass(eq=False)
class Prepared:
    """A model ready to explain rows of requests; one thread at a time may call it."""

    model: str  #: its name, for people
    background: str  #: in words
    rows: "pd.DataFrame"  #: those loaded
    ids: list[str]  #: of those rows: their labels, or else their numbers
    id_column: str | None
    features: list[Feature]
    groups: dict[str, list[str]]  #: columns that are one player, by its name
    encode: Encode  #: rows as the model takes them
    explainer: PreparedExplainer
    notes: tuple[str, ...]

    @property
    def overview(self) -> Explanation:
        """The explanation of a sample of the rows loaded."""
        return self.explainer.overview

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs that are explained."""
        return self.overview.output_names

    def explain(
        self,
        rows: Sequence[Row],
        budget: int | None = None,
        advance: Callable[[int], object] = no_progress,
    ) -> Explanation:
        """Explain rows, all of them as one block, or raise a `ShearError`.

        `advance` is called with the number of evaluations of each batch; it may raise one, too.
        """
        with collect_warnings([]):  # they are in the explanation's notes
            try:
                block = self.encode(rows)
                return self.explainer.explain(block, budget=budget, data=False, advance=advance)
            except BaseException as error:  # the model may raise what ends a program, too
                if isinstance(error, Exception) and _is_ours(error):
                    raise
                name = type(error).__name__
                raise ModelError(f"the model's code raised {name}: {error}") from error


def _is_ours(error: BaseException) -> bool:
    """Return whether only the code of this package, and of torch, led to an error and its cause.

    The model's own code may raise any of our errors, with words that are not for clients. Other
    errors are no refusals, and stay what they are.
    """
    if not isinstance(error, ShearError):
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    packages = {str(frame.f_globals.get("__name__")).partition(".")[0] for frame in frames}
    return packages <= OURS and (error.__cause__ is None or _is_ours(error.__cause__))


def prepare(job: Job, *, sample: int = 200) -> Prepared:
    """Open a job's files, explain a sample of its rows, and return what explains any others.

    The sample is for the global view and the calibration.
    """
    opened = open_files(job, open_model(job.model, trust=job.trust))
    rows = opened.frame
    notes = opened.notes
    labels = range(len(rows)) if job.id_column is None else opened.data[job.id_column].to_pylist()
    with collect_warnings(notes), errors_with_files(job.data, opened.background):
        features = features_from_frame(rows)
        explainer = opened.explainer()
        some = rows.iloc[evenly_spaced(len(rows), sample)].reset_index(drop=True)
        prepared, encode = _prepared(explainer, some, job)

    # clients hear names alone, not where on this machine files are
    background = described(opened.background, prepared.overview)
    words = background.description
    if background.source is not None:
        words = words.replace(str(background.source), background.source.name)
    return Prepared(
        model=job.title or place(job.model, "model").name or "model",
        background=words,
        rows=rows,
        ids=[label_text(each) for each in labels],
        id_column=job.id_column,
        features=features,
        groups=flattened(job.groups)[0],
        encode=encode,
        explainer=prepared,
        notes=tuple(dict.fromkeys((*notes, *prepared.overview.notes))),
    )


def _prepared(
    explainer: Explainer, sample: "pd.DataFrame", job: Job
) -> tuple[PreparedExplainer, Encode]:
    """Return the prepared explainer, and the function that gives it rows."""
    set_by_user = (
        explainer.groups,
        explainer.output_names,
        explainer.returns,
        explainer.multilabel,
    )
    is_plain = all(option is None for option in set_by_user)
    # features that move together are those of the rows, and not the columns that encode them
    is_plain &= not isinstance(explainer.background, Conditional)
    if not is_plain or not hasattr(explainer.model, "encoded_"):
        prepared = explainer.prepare(sample, budget=job.budget, tol=job.tol)
        columns = prepared.types or dict(sample.dtypes)
        return prepared, lambda rows: frame_from_rows(rows, columns)

    # A model that encodes column by column: encoded rows are mixed, so that the model need not
    # encode a frame for each coalition. That takes a quarter of the time.
    module, encode, groups = explainer.model.encoded_
    fixed, types = with_fixed_background(explainer, sample)
    background = fixed.background
    assert isinstance(background, ParsedBackground)
    inside = replace(
        explainer,
        model=module,
        background=replace(background, rows=torch.from_numpy(encode(background.rows))),
        groups=groups,
        scale=explainer.scale or "probability",
        returns="margin",
        output_names=[str(name) for name in explainer.model.classes_],
    )
    prepared = inside.prepare(torch.from_numpy(encode(sample)), budget=job.budget, tol=job.tol)
    return prepared, CellEncoding(encode, types or dict(sample.dtypes), groups)


class CellEncoding:
    """Encodes each cell once: cells of a column recur, and to encode a frame takes milliseconds.

    rows           age 39, sex Male     age 50, sex Male
    kept before            sex Male             sex Male
    encoded now    the first row        the second row
    """

    def __init__(
        self,
        encode: Callable[["pd.DataFrame"], NDArray[np.float32]],
        types: Mapping[str, Any],
        groups: Mapping[str, Sequence[int]],
    ) -> None:
        self.encode = encode
        self.types = types
        self.places = {name: np.asarray(groups[name]) for name in types}
        self._known: dict[str, dict[Cell, NDArray[np.float32]]] = {name: {} for name in types}

    def __call__(self, rows: Sequence[Row]) -> torch.Tensor:
        """Return rows as the inputs (r, d) of the model's network."""
        if any(len(known) > MAX_CELLS for known in self._known.values()):
            # before this block and not within it, whose cells are all needed
            self._known = {name: {} for name in self.types}
        new = [row for row in rows if any(row[name] not in self._known[name] for name in row)]
        if new:
            encoded = self.encode(frame_from_rows(new, self.types))
            for name, places in self.places.items():
                cells = [row[name] for row in new]
                self._known[name].update(zip(cells, encoded[:, places], strict=True))

        inputs = np.empty((len(rows), sum(map(len, self.places.values()))), dtype=np.float32)
        for name, places in self.places.items():
            known = self._known[name]
            inputs[:, places] = [known[row[name]] for row in rows]
        return torch.from_numpy(inputs)
