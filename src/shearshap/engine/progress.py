"""Progress bars: tqdm over rows, by default in a terminal and in a notebook, after two seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from tqdm import tqdm

DELAY = 2.0  #: seconds after which a bar appears by itself

BAR_FORMAT = (
    "{percentage:3.0f}%|{bar}| {n:,.0f}/{total:,.0f}{unit} [{elapsed}<{remaining}{postfix}]"
)
"""The line of a bar over rows; tqdm would write all digits of 3.5 rows."""


def progress_bar(progress: bool | None, **options: Any) -> Any:
    """Return a bar of tqdm, with options of tqdm.

    `progress` says when it is shown. True: at once; False: never; None: in a terminal or in a
    notebook, after two seconds.
    """
    delay = 0 if progress else DELAY
    if progress is not False and in_kernel():
        return _notebook_bar()(delay=delay, **options)
    disabled = None if progress is None else not progress
    return tqdm(disable=disabled, delay=delay, **options)


def in_kernel() -> bool:
    """Return whether this is a notebook's kernel, and no terminal."""
    # if IPython is not imported yet, it does not run this code
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _notebook_bar() -> Any:
    """Return tqdm's bar of widgets if ipywidgets is installed, else its line of text."""
    if find_spec("ipywidgets") is None:
        return partial(tqdm, file=sys.stdout)  # on stderr it would look like an error
    from tqdm.notebook import tqdm as widget

    return widget


class RowProgress:
    """Moves a bar over rows; rows that are begun count in part, by their evaluations.

    Before `over`, and without a bar, it only counts.
    """

    def __init__(self, progress: bool | None = False) -> None:
        self.progress = progress
        self._bar: Any = None
        self._row_evaluations = 1  #: of a row, at most
        self._evaluations = 0
        self._begun = 0.0  #: rows, beyond those finished
        self._finished = 0  #: rows

    @contextmanager
    def over(self, rows: int, unit: str = "rows") -> Iterator[None]:
        """Show a bar over rows."""
        # by time alone: how far it is between two batches may change at any time
        bar = progress_bar(
            self.progress,
            total=rows,
            unit=f" {unit}",
            bar_format=BAR_FORMAT,
            miniters=0,
            mininterval=0.2,
        )
        with bar:
            self._bar = bar
            yield

    def expect(self, evaluations: int) -> None:
        """Take rows to need this many evaluations each, at most."""
        self._row_evaluations = max(1, evaluations)

    def asked(self, evaluations: int) -> None:
        """Count evaluations."""
        self._evaluations += evaluations
        self._begun += evaluations / self._row_evaluations
        self._move()

    def finished(self, rows: int) -> None:
        """Count rows of which nothing is left to do."""
        self._finished += rows
        self._begun = 0.0
        self._move()

    def _move(self) -> None:
        """Move the bar, which never goes back, and not beyond its end."""
        if self._bar is None:
            return
        self._bar.set_postfix_str(f"{self._evaluations:,} evaluations", refresh=False)
        step = min(self._finished + self._begun, self._bar.total) - self._bar.n
        if step > 0:
            self._bar.update(step)
