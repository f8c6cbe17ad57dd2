"""Explained texts to look at: in a terminal, and in notebooks, each part in its value's colour.

    0  Italy: −0.3, from a base value of −6.1
       +4.10 ± 0.20  ████████████  Rome is in Italy.
       −0.90 ± 0.10  ███           Oslo is in Norway.

A notebook shows the texts themselves. If there are several outputs, such as the tokens of an
answer, the colours are those of the one that is picked.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from secrets import token_hex
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shearshap.result.cells import has_places, padding, predicted_outputs, without_mirror
from shearshap.result.colours import LOWERS, RAISES
from shearshap.result.text import (
    WIDTH,
    counted,
    format_end,
    format_number,
    format_numbers,
    output_text,
    shortened,
)

if TYPE_CHECKING:
    from shearshap.result.explanation import Explanation

Floats = NDArray[np.float64]

MAX_TEXTS = 5  #: shown of several
MAX_PARTS = 8  #: listed of a text
MAX_COLOURS = 20_000  #: parts times outputs of a text in a notebook; with more, one output is shown
BAR = 12  #: letters of the longest bar
STRENGTH = 65  #: percent of the strongest colour


@dataclass(frozen=True)
class View:
    """A text, and its parts in their order."""

    label: str
    text: str
    spans: list[tuple[int, int]]  #: (p,)
    names: list[str]  #: (p,) "" for parts that have no names but their text
    values: Floats  #: (p, k)
    margins: Floats  #: (p, k) of their 95 % intervals, 0 if they are not known
    outputs: list[str]  #: (k,) an answer and its pieces, or the outputs in words
    heads: list[str]  #: (k,) prediction and base value in words

    @property
    def picked(self) -> int:
        """How many outputs can be picked, the first ones."""
        parts, outputs = self.values.shape
        return outputs if parts * outputs <= MAX_COLOURS else 1

    def segments(self) -> list[tuple[str, int | None]]:
        """Return the pieces of the text, each with the number of its part, None if it stays."""
        ends = [(0, 0), *self.spans, (len(self.text), len(self.text))]
        pieces: list[tuple[str, int | None]] = []
        for part, ((_, before), (start, end)) in enumerate(pairwise(ends)):
            pieces.append((self.text[before:start], None))
            if part < len(self.spans):
                pieces.append((self.text[start:end], part))
        return [piece for piece in pieces if piece[0]]

    def shares(self, output: int) -> Floats:
        """Return the values as shares of the largest, from -1 to 1, (p,)."""
        values = self.values[:, output]
        return np.asarray(values / (np.abs(values).max(initial=0.0) or 1.0))


def are_passages(explanation: "Explanation") -> bool:
    """Return whether rows are texts whose parts have known places."""
    return explanation.texts is not None and explanation.starts is not None and len(explanation) > 0


def views(explanation: "Explanation", rows: int = MAX_TEXTS) -> list[View]:
    """Return the first texts of an explanation; classes that mirror another are left out."""
    explanation = without_mirror(explanation)
    shown = range(min(rows, len(explanation)))
    return [_view(explanation[row], str(explanation.index[row])) for row in shown]


def _view(one: "Explanation", label: str) -> View:
    """Return the only text of an explanation; its predicted class, if there is one, comes first."""
    assert one.texts is not None, "are_passages says so"
    assert one.starts is not None, "are_passages says so"
    assert one.ends is not None, "they come together"
    own = np.flatnonzero(~padding(one)[0])
    own = own[np.argsort(one.starts[0, own], kind="stable")]
    count = len(one.output_names)
    outputs = np.arange(count)
    pieces = [output_text(name, one.scale) or "prediction" for name in one.output_names]
    if one.answers is not None:
        pieces = [str(piece) for piece in one.answers.reshape(1, -1)[0]]
        outputs = np.flatnonzero([piece != "" for piece in pieces])
    else:
        predicted = predicted_outputs(one)
        first = 0 if predicted is None else int(predicted[0])
        outputs = np.roll(outputs, -first)

    values = one.values.reshape(1, -1, count)[0][own][:, outputs]
    margins = np.zeros_like(values)
    if one.standard_errors is not None:
        known = (one.interval()[1] - one.values).reshape(1, -1, count)[0][own][:, outputs]
        margins = np.where(np.isfinite(known), known, 0.0)
    ends = zip(
        one.base_values.reshape(-1)[outputs],
        one.predictions.reshape(-1)[outputs],
        values.T,
        strict=True,
    )
    heads = [
        f"{format_end(float(end), each)}, from a base value of {format_end(float(base), each)}"
        for base, end, each in ends
    ]
    is_named = not has_places(one) and one.display_data is not None
    names = [one.feature_names[part] for part in own]
    if is_named:
        texts = [str(one.display_data[0, part]) for part in own]  # type: ignore[index]
        names = ["" if name == text else name for name, text in zip(names, texts, strict=True)]
    return View(
        label,
        str(one.texts[0]),
        [(int(one.starts[0, part]), int(one.ends[0, part])) for part in own],
        names if is_named else [""] * len(own),
        values,
        margins,
        [pieces[output] for output in outputs],
        heads,
    )


def _more(explanation: "Explanation") -> list[str]:
    left = len(explanation) - MAX_TEXTS
    return [f"... and {counted(left, 'more text')}"] if left > 0 else []


# Terminals


def passages_text(explanation: "Explanation") -> str:
    """Return the largest values of the first texts; in a terminal also their coloured text."""
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = get_terminal_size((WIDTH, 24)).columns
    shown = views(explanation)
    below = ["± is the 95 % interval"] if any(view.margins[:, 0].any() for view in shown) else []
    blocks = ["\n".join(_lines(view, width, coloured=coloured)) for view in shown]
    return "\n\n".join([*blocks, "\n".join((*_more(explanation), *below))]).rstrip()


def _lines(view: View, width: int, *, coloured: bool) -> list[str]:
    lines = [f"{view.label}  {shortened(' '.join(view.outputs[0].split()), 40)}: {view.heads[0]}"]
    if coloured:
        lines.append(_ansi(view))
    values = view.values[:, 0]
    order = np.argsort(-np.abs(values), kind="stable")[:MAX_PARTS]
    numbers = format_numbers(values[order], sign=True)
    wide = max(map(len, numbers))
    shares = np.abs(view.shares(0))
    places = len(numbers[0].partition(".")[2])
    errors = [format_number(float(view.margins[part, 0]), places) for part in order]
    margins = [f" ± {error:<{max(map(len, errors))}}" for error in errors]
    if not view.margins[:, 0].any():
        margins = [""] * len(order)
    for number, margin, part in zip(numbers, margins, order.tolist(), strict=True):
        start, end = view.spans[part]
        bar = "█" * max(1, round(BAR * shares[part])) if values[part] else ""
        name = f"{view.names[part]}: " if view.names[part] else ""
        line = f"   {number:>{wide}}{margin}  {bar:<{BAR}}  "
        piece = " ".join(f"{name}{view.text[start:end]}".split())
        lines.append(line + shortened(piece, max(20, width - len(line))))
    left = len(values) - len(order)
    return [*lines, f"   ... and {counted(left, 'more part')}"] if left else lines


def _ansi(view: View) -> str:
    """Return a text with the colours of a terminal, dark letters on the colour of each part."""
    shares = view.shares(0)
    pieces = []
    for piece, part in view.segments():
        if part is None:
            pieces.append(piece)
            continue
        strongest = bytes.fromhex((RAISES if shares[part] >= 0 else LOWERS)[1:])
        mixed = [round(255 - abs(shares[part]) * 0.6 * (255 - channel)) for channel in strongest]
        colour = ";".join(map(str, mixed))
        pieces.append(f"\033[38;2;0;0;0;48;2;{colour}m{piece}\033[0m")
    return "".join(pieces)


# Notebooks


def passages_html(explanation: "Explanation") -> str:
    """Return the first texts as HTML, each part in the colour of its value."""
    more = "".join(f'<div class="shear-soft">{escape(line)}</div>' for line in _more(explanation))
    return coloured_html(views(explanation)) + more


def coloured_html(shown: Sequence[View], below: Callable[[View, int], str] | None = None) -> str:
    """Return texts as HTML, and below each what `below` returns for the output that is picked."""
    most = max(view.picked for view in shown)
    rules = "".join(
        f'.shear-passage:has(input[value="{output}"]:checked) .shear-text [style]'
        f"{{background:var(--v{output})}}"
        f'.shear-passage:has(input[value="{output}"]:checked) .shear-of{output}{{display:block}}'
        for output in range(most)
    )
    return f"<style>{rules}</style>{''.join(_passage(view, below) for view in shown)}"


def _passage(view: View, below: Callable[[View, int], str] | None) -> str:
    """Return a text, and before it the outputs to pick from."""
    count = view.picked
    key = token_hex(6)  # the same text may be shown twice on a page
    picks = []
    for output, name in enumerate(view.outputs[:count]):
        checked = " checked" if output == 0 else ""
        picks.append(
            f'<label><input type="radio" name="{key}" value="{output}"{checked}>'
            f"<span>{escape(name)}</span></label>"
        )
    heads = "".join(
        f'<div class="shear-of shear-of{output} shear-soft">{escape(head)}</div>'
        for output, head in enumerate(view.heads[:count])
    )
    last = ""
    if below is not None:
        last = "".join(
            f'<div class="shear-of shear-of{output}">{below(view, output)}</div>'
            for output in range(count)
        )
    shares = np.stack([view.shares(output) for output in range(count)], axis=1)
    numbers = format_numbers(view.values[:, 0], sign=True)
    words = []
    for piece, part in view.segments():
        if part is None:
            words.append(escape(piece))
            continue
        error = f" ± {view.margins[part, 0]:.2g}" if view.margins[part, 0] > 0 else ""
        name = f"{view.names[part]}: " if view.names[part] else ""
        whole = f" for {view.outputs[0]}" if count > 1 else ""
        title = escape(f"{name}{numbers[part]}{error}{whole}")
        style = ";".join(
            f"--v{output}:{_colour(float(share))}" for output, share in enumerate(shares[part])
        )
        words.append(f'<span style="{style}" title="{title}">{escape(piece)}</span>')
    label = f"Text {view.label}" if view.label.isdigit() else view.label
    return (
        f'<div class="shear-passage"><div><b>{escape(label)}</b> '
        f'<span class="shear-picks">{"".join(picks)}</span></div>{heads}'
        f'<div class="shear-text">{"".join(words)}</div>{last}</div>'
    )


def _colour(share: float) -> str:
    name = "raises" if share >= 0 else "lowers"
    return f"color-mix(in srgb,var(--{name}) {STRENGTH * abs(share):.0f}%,transparent)"
