"""The options of a job, declared once: for files and folders, in Python and in a terminal.

Also what a text in a terminal stands for: `--background`, `--groups`, `--output-names`, `--device`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from shearshap.apps.jobs.places import errors_of, is_folder, local
from shearshap.apps.jobs.shards import SHARD_ROWS
from shearshap.apps.jobs.tables import WRITTEN, interactions_beside
from shearshap.apps.jobs.urls import Place, Url, names_folder, place, without_secrets
from shearshap.data.background import (
    CHOICES,
    DEFAULT_CENTRES,
    DEFAULT_ROWS,
    STATISTICS,
    Conditional,
)
from shearshap.errors import BudgetError, InputError
from shearshap.games.conditional import KINDS
from shearshap.games.indices import SEMIVALUES, InteractionName
from shearshap.games.loss import Loss
from shearshap.methods.base import Method

REPORT = "_report.html"  #: in a folder of parts
AUTO = "auto"  #: as a device: the GPUs of the worker's machine
GROUPS = "NAME=COLUMN,COLUMN, or a .json file such as {'address': ['street', 'city']}"
"""How `--groups` looks."""

ENDPOINT = re.compile(r"[?&]endpoint_override=(https?://)?[^:&]*$")  #: before the port in a URL
Groups = Mapping[str, Any]  #: columns, or groups within the group, by their names


BY_CONTENT = {"identifies": False}  #: of options that a job compares by what is in them
ASIDE = {"identifies": False}  #: of options that do not change what a job writes


@dataclass(frozen=True, kw_only=True)
class Options:
    """A model, rows in files, and how to explain the model's predictions for them.

    Files and folders are paths, or URLs such as s3://bucket/rows.csv (see
    `shearshap.apps.jobs.places`). Options that are not listed here are the same as in `Explainer`
    and its call.

    Parameters
    ----------
    model
        A folder, a file, or a place in code (see `shearshap.apps.jobs.models.ACCEPTED`); or the
        model itself, which a large job must be able to pickle.
    data
        The rows to explain: a CSV or Parquet file, or a folder of Parquet files, which are read in
        the order of their names.
    out
        Where to write the values: a file, .parquet or .csv; or, for a large job, a folder that is
        empty or holds the same job, which is then continued.
    large
        Whether to write a folder of parts. Default: yes if `data` or `out` is a folder, or `out`
        ends in /.
    background
        A file of rows, of which 100 are drawn if there are more; "sample:FILE" or
        "sample:FILE:200", "kmeans:FILE" or "kmeans:FILE:20", "all:FILE"; or one row, "mean:FILE",
        "median:FILE" or "mode:FILE"; or "copula:FILE", "gaussian:FILE", "empirical:FILE",
        "learned:FILE", as in `Conditional`. Default: the background row of the model if it has one,
        otherwise a sample of the rows explained. A large job also takes anything that an
        `Explainer` takes.
    outputs
        Names or numbers of the outputs to explain; empty for all.
    output_names
        Names of all outputs of the model, if it has none.
    groups
        Columns that form one feature, by its name; each other column is a feature. A mapping inside
        the mapping is a group of features.
    interactions
        Whether to write the interactions of pairs of features, too, or a number for sets of up to
        this many features. They go to `interactions_file`, for a large job to the folder
        _interactions among the parts.
    loss, label
        Explain the loss of each row, whose label is in this column; the model does not see it.
    id_column
        The column that labels the rows, which the model does not see; None numbers the rows.
    drop
        Columns that the model does not use.
    keep
        Columns of the data to write beside the values; None: all.
    device
        Where to compute, such as "cuda", or "auto" for a GPU if there is one; for a large job also
        "cuda:0,cuda:1", which the workers take in turn. None: where the model is.
    trust
        Whether to open pickles, which run whatever code is in them.
    deadline
        Seconds after which to stop. The file then has the rows that are done. A large job has no
        deadline: stop it at any time, and run it again to continue.
    report
        Whether to write a page for a browser, beside `out`; for a large job into its folder, about
        a sample of the rows.
    title
        Title of the report. The default names the data.
    overwrite
        Whether to replace files that no job has written. Files that are read are never replaced.
    shard_rows
        Maximum rows per part, the work that is repeated if a worker dies.
    command
        How the job was started, to be written into the file of values.
    """

    model: Any = field(metadata=BY_CONTENT)
    data: Any = field(metadata=BY_CONTENT)  #: a `Place`; before this is made also text or a path
    out: Any = field(default=Path("values.parquet"), metadata=ASIDE)  #: as `data`
    large: bool | None = field(default=None, metadata=ASIDE)
    background: Any = field(default=None, metadata=BY_CONTENT)
    budget: int | None = None
    method: str | Method = "auto"
    outputs: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    groups: Groups = field(default_factory=dict)
    interactions: bool | int = False
    interaction_index: InteractionName = "k-SII"
    semivalue: str | tuple[float, ...] = "shapley"
    loss: Loss = None
    label: str | None = None
    id_column: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] | None = None
    scale: str | None = None
    returns: str | None = None
    multilabel: bool | None = None
    seed: int = 0
    tol: float | None = None
    batch_size: int | None = field(default=None, metadata=ASIDE)
    device: str | None = field(default=None, metadata=ASIDE)
    trust: bool = field(default=False, metadata=ASIDE)
    deadline: float | None = field(default=None, metadata=ASIDE)
    report: bool = field(default=False, metadata=ASIDE)
    title: str | None = field(default=None, metadata=ASIDE)
    overwrite: bool = field(default=False, metadata=ASIDE)
    shard_rows: int = SHARD_ROWS
    command: str = field(default="shearshap.apps.jobs.Job.run", metadata=ASIDE)

    def __post_init__(self) -> None:
        """Take paths and URLs as text, too, and decide between a file and a folder of parts."""
        if self.large is None:
            object.__setattr__(self, "large", _is_large(place(self.data, "data"), self.out))
        object.__setattr__(self, "data", place(self.data, "data"))
        object.__setattr__(self, "out", place(self.out, "out"))
        object.__setattr__(self, "command", without_secrets(self.command))
        if isinstance(self.model, Path):
            object.__setattr__(self, "model", str(self.model))
        if isinstance(self.model, Url):
            object.__setattr__(self, "model", self.model.address)

    @classmethod
    def identifying(cls) -> list[str]:
        """Return the options that decide what is written: all that do not say otherwise."""
        return [each.name for each in fields(cls) if each.metadata.get("identifies", True)]

    def __repr__(self) -> str:
        listed = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
        return without_secrets(f"{type(self).__name__}({listed})")

    @property
    def model_name(self) -> str:
        """The model, for people."""
        is_text = isinstance(self.model, str)
        return without_secrets(self.model) if is_text else f"a {type(self.model).__name__}"

    @property
    def page(self) -> Place:
        """The file of the report."""
        out: Place = self.out
        return out / REPORT if self.large else out.with_suffix(".html")

    @property
    def interactions_file(self) -> Place:
        """The file of the interactions, beside that of the values."""
        return interactions_beside(self.out)

    @property
    def partial(self) -> Place:
        """The file of the rows that were done, if not all rows could be explained."""
        out: Place = self.out
        return out.with_suffix(f".partial{out.suffix}")

    @property
    def loss_name(self) -> str | None:
        """The loss, for people."""
        return getattr(self.loss, "__qualname__", "a loss") if callable(self.loss) else self.loss

    @property
    def unseen_columns(self) -> tuple[str, ...]:
        """The columns that the model does not see: ids, labels, and those that it does not use."""
        named = (self.id_column, self.label)
        return (*self.drop, *(name for name in named if name is not None))

    @property
    def background_option(self) -> "BackgroundOption":
        """The background that a text names; nothing if the background is an object."""
        is_text = isinstance(self.background, str | None)
        return BackgroundOption.parse(self.background if is_text else None)


def _is_large(data: Place, out: str | Place) -> bool:
    with errors_of(data, "data"):
        if names_folder(out) or is_folder(data):
            return True
    folder = place(out, "out")
    with errors_of(folder, "out"):
        return folder.suffix.lower() not in WRITTEN and is_folder(folder)


# The background


@dataclass(frozen=True)
class BackgroundOption:
    """The background that the user named: a file, and what to choose from its rows."""

    choice: str | None = None  #: as an `Explainer` takes it
    file: Place | None = None
    count: int | None = None  #: of rows to choose

    @classmethod
    def parse(cls, text: str | None) -> "BackgroundOption":
        """Return what a text names; None: nothing.

        Examples are "sample:train.csv", for which "train.csv" is short, "sample:train.csv:200",
        "mean:train.csv", and, for a `Conditional`, "copula:train.csv".
        """
        if text is None:
            return cls()
        name, _, file = text.partition(":")
        is_named = name in (*STATISTICS, *CHOICES, *KINDS)
        if not text or (is_named and not file):
            example = f"{name}:train.csv" if is_named else "sample:train.csv"
            raise InputError(
                f"background: expected a file, such as train.csv or {example}; got {text!r}"
            )
        if not is_named:
            return cls("sample", place(text, "background"))  # a colon in it is the file's own
        start, _, end = file.rpartition(":")
        has_count = start and end.isdecimal() and not ENDPOINT.search(start)
        if name in ("sample", "kmeans", *KINDS) and has_count:
            return cls(name, place(start, "background"), int(end))
        return cls(name, place(file, "background"))

    def of_rows(self, rows: Any) -> Any:
        """Return the background as an `Explainer` takes it, of the file's rows."""
        if self.choice is None:
            return rows
        if self.choice in KINDS:
            return Conditional(rows, self.choice, self.count or DEFAULT_ROWS)  # type: ignore[arg-type]
        return (self.choice, rows) if self.count is None else (self.choice, rows, self.count)

    def words(self, rows: int) -> str:
        """Describe what replaces absent features, chosen from this many rows."""
        place = "passed" if self.file is None else f"of {self.file}"
        own = f"the {rows:,} rows {place}" if rows > 1 else f"the row {place}"
        if self.choice in STATISTICS:
            return f"{self.choice} of {own}"
        if self.choice in KINDS:
            count = self.count or DEFAULT_ROWS
            return f"{count:,} samples of features that move together ({self.choice} of {own})"
        is_kmeans = self.choice == "kmeans"
        count = self.count or (DEFAULT_CENTRES if is_kmeans else DEFAULT_ROWS)
        if self.choice == "all" or rows <= count:
            return own
        how = "chosen by k-means" if is_kmeans else "drawn at random"
        return f"{count:,} of {own}, {how}"


@dataclass(frozen=True, eq=False)
class Background:
    """What replaces absent features."""

    value: Any  #: as an `Explainer` takes it
    description: str  #: in words
    source: Place | None = None  #: the file that it comes from; None: the model's own


# Features and outputs


def parse_groups(texts: Sequence[str]) -> dict[str, Any]:
    """Return the columns of each group, or the groups within it, by its name.

    A text is "address=street,city", or names a JSON file of groups.
    """
    groups: dict[str, Any] = {}
    for text in texts:
        for name, columns in _groups_in_text(text).items():
            if name in groups:
                raise InputError(f"groups: duplicate group {name!r}; use each name once")
            groups[name] = columns
    return groups


def _groups_in_text(text: str) -> dict[str, Any]:
    content: Any
    if text.lower().endswith(".json") and "=" not in text:
        try:
            with local(place(text, "groups")) as file:
                content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"groups: {text} cannot be read: {error}") from error
    else:
        name, _, listed = text.partition("=")
        content = {name.strip(): [column.strip() for column in listed.split(",")]}
    if not isinstance(content, dict) or not _are_groups(content):
        raise InputError(f"groups: expected {GROUPS}; got {text!r}")
    return content


def _are_groups(content: Any) -> bool:
    """Return whether this is a group of groups, the columns of one, or null: that of its name."""
    if isinstance(content, dict):
        return bool(content) and all(content) and all(map(_are_groups, content.values()))
    if content is None:
        return True
    is_list = isinstance(content, list) and bool(content)
    return is_list and all(isinstance(each, str) and each for each in content)


def parse_semivalue(text: str) -> str | tuple[float, ...]:
    """Return a semivalue's name, or its weights: "0.5,0.3,0.2"."""
    if text in SEMIVALUES:
        return text
    try:
        return tuple(map(float, text.split(",")))
    except ValueError as error:
        raise InputError(
            f"semivalue: expected {', '.join(SEMIVALUES)}, or weights separated by commas; got "
            f"{text!r}"
        ) from error


def parse_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of outputs: one text with commas, or a text for each name."""
    names = texts[0].split(",") if len(texts) == 1 else texts
    names = [name.strip() for name in names]
    if texts and not all(names):
        raise InputError(f"output-names: expected names separated by commas; got {texts[0]!r}")
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"output-names: duplicate name {doubled!r}")
    return tuple(names)


def chosen_output(wanted: Sequence[str], names: Sequence[str]) -> Any:
    """Return the outputs to explain as an `Explainer` takes them: by name, otherwise by number."""
    outputs = [
        int(text) if text.removeprefix("-").isdecimal() and text not in names else text
        for text in wanted
    ]
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else outputs


# Devices


def parse_devices(text: str | None) -> tuple[str, ...]:
    """Return the devices that an option names."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name == AUTO:
            continue
        try:
            torch.device(name)
        except RuntimeError as error:
            raise InputError(
                f"device: expected auto, or names such as cpu or cuda:0,cuda:1; got {text!r}"
            ) from error
        if name.startswith("cuda") and not torch.cuda.is_available():
            raise InputError(f"device: got {text}, but this machine has no GPU; try cpu")
    return names


def device_of(devices: Sequence[str], worker: int) -> str | None:
    """Return the device of a worker; "auto" is a GPU of its machine, if there is one."""
    if not devices:
        return None
    name = devices[worker % len(devices)]
    if name != AUTO:
        return name
    gpus = torch.cuda.device_count()
    return f"cuda:{worker % gpus}" if gpus else None


# Warnings and errors


@contextmanager
def errors_with_files(data: Place, background: Background) -> Iterator[None]:
    """Name the file in the explainer's errors about rows or background."""
    try:
        yield
    except (InputError, BudgetError) as error:
        message = str(error)
        if message.startswith("rows:"):
            error.args = (f"data: {data}: {message.removeprefix('rows: ')}",)
        elif background.source is not None and (
            message.startswith("background") or "background rows" in message
        ):
            message = message.removeprefix("background: ")
            error.args = (f"background: {background.source}: {message}",)
        raise
