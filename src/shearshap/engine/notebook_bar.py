"""A progress bar for notebooks: plain HTML that is updated in place, without widgets.

It is a tqdm bar that draws itself otherwise. ipywidgets is not needed, the finished bar stays in
the saved notebook, and its colours are those of the notebook's theme, light or dark.
"""

from html import escape
from typing import Any

from IPython.display import display
from tqdm import tqdm

from shearshap.result.colours import LOWERS

TRACK = "rgba(127,127,127,.25)"  #: what is left to do; it shows on light and on dark paper


class NotebookBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """tqdm's bar as HTML."""

    # no thread that redraws bars: its output would have no cell to go to
    monitor_interval = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._shown: Any = None  #: the handle of what is on the page
        super().__init__(*arguments, gui=True, **options)
        if not self.delay:
            self.display()

    def display(self, msg: str | None = None, pos: int | None = None) -> None:  # noqa: ARG002
        """Draw the bar, or draw it anew in its place."""
        content = {"text/html": bar_html(self.format_dict), "text/plain": str(self)}
        if self._shown is None:
            self._shown = display(content, raw=True, display_id=True)
        else:
            self._shown.update(content, raw=True)

    def close(self) -> None:
        """Draw the bar as it ends, if it was ever shown."""
        if self.disable:
            return
        super().close()
        if self._shown is not None:
            self.display()

    def clear(self, *_arguments: Any, **_options: Any) -> None:
        """Leave the bar where it is: a page, unlike a terminal, has room."""


def bar_html(state: dict[str, Any]) -> str:
    """Return a bar as HTML, by the numbers that tqdm formats it with."""
    total = state["total"]
    part = min(state["n"] / total, 1.0) if total else 0.0
    number = f"{100 * part:.0f}"
    return (
        '<div style="display:flex;flex-wrap:wrap;align-items:center;gap:2px 10px;'
        'font:13px system-ui,sans-serif;font-variant-numeric:tabular-nums">'
        f'<div role="progressbar" aria-valuenow="{number}" aria-valuemin="0" aria-valuemax="100" '
        f'style="flex:1 1 160px;max-width:420px;height:8px;border-radius:4px;overflow:hidden;'
        f'background:{TRACK}">'
        f'<div style="width:{100 * part:.1f}%;height:100%;background:{LOWERS}"></div></div>'
        f"<div>{escape(_words(state))}</div></div>"
    )


def _words(state: dict[str, Any]) -> str:
    """Return how far it is, and for how long it has run and will run, in words."""
    done = f"{state['n']:,.0f}"
    total = state["total"]
    count = f"{done} of {total:,.0f}" if total else done
    parts = [f"{count} {state['unit'].strip()}", _seconds(state, total)]
    if state.get("postfix"):
        parts.append(state["postfix"])
    return " · ".join(parts)


def _seconds(state: dict[str, Any], total: float | None) -> str:
    elapsed: str = tqdm.format_interval(state["elapsed"])
    done = state["n"]
    if not total or not done or done >= total:
        return elapsed
    left = state["elapsed"] * (total - done) / done
    return f"{elapsed}, about {tqdm.format_interval(left)} left"
