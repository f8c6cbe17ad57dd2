"""How Sphinx builds the documentation: `sphinx-build -W -b html docs out/docs`.

Neither building nor reading loads anything from the network: formulas are MathML.
"""

import re
import sys
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy.typing as npt
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

Number = TypeVar("Number")


class ArrayLike:
    """Stand for numpy's alias, which signatures would spell out in six lines."""


class NDArray(Generic[Number]):
    """Stand for numpy's alias."""


for alias in (ArrayLike, NDArray):  # before any annotation is evaluated
    alias.__module__ = "numpy.typing"
    setattr(npt, alias.__name__, alias)

from shearshap import __version__  # noqa: E402

project = "shearshap"
copyright = "the shearshap developers"  # noqa: A001
release = version = __version__
language = "en"
smartquotes_action = "De"  # docstrings quote strings of Python; pages have curly quotes from MyST

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
myst_enable_extensions = ["dollarmath", "smartquotes"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"  # beside each parameter; signatures have names and defaults
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented"  # no list of parameters that only repeats types
DEFAULTS = {
    "Semivalue(name='Shapley value', weights=())": "'shapley'",
    "<function always>": "always",
    "PosixPath('values.parquet')": "'values.parquet'",
    "<factory>": "{}",
}
LONGEST_TYPE = 60  #: characters; the text describes what else a parameter takes
default_role = "code"  # docstrings put names between single backticks
napoleon_google_docstring = False
napoleon_attr_annotations = False

html_theme = "furo"
pygments_dark_style = "github-dark"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"shearshap {__version__}"
html_show_sphinx = False
html_extra_path = ["extra"]  # llms.txt


def formulas_as_they_stand(lines: list[str]) -> list[str]:
    """Return a docstring whose indented formulas, before any section, are literal blocks."""
    shown: list[str] = []
    sections = next(
        (at for at, line in enumerate(lines) if re.fullmatch(r"-{4,}", line)), len(lines)
    )
    for at, line in enumerate(lines):
        opens = line.startswith("    ") and at < sections and not lines[at - 1].strip()
        shown += ["::", ""] if opens and not (shown and _in_literal(shown)) else []
        shown.append(line)
    return shown


def _in_literal(shown: list[str]) -> bool:
    """Return whether the last lines that are not blank belong to a literal block."""
    last = next((line for line in reversed(shown) if line.strip()), "")
    return last.startswith("    ") or last == "::"


def escaped(line: str) -> str:
    """Return a line with stars, bars and final underscores outside backticks escaped."""
    parts = line.split("`")
    return "`".join(re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part) if at % 2 == 0 else part
                    for at, part in enumerate(parts))  # fmt: skip


def plain_docstrings(
    _app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Make the source's docstrings, which are plain text with formulas, safe to read as
    reStructuredText.
    """
    shown = formulas_as_they_stand(lines)
    literal = False
    for at, line in enumerate(shown):
        literal = line == "::" or (literal and (not line.strip() or line.startswith("    ")))
        shown[at] = line if literal else escaped(line)
    # an empty comment: napoleon takes what is before a colon in the first line for a type
    lines[:] = ["..", "", *shown] if what in ("attribute", "data", "property") else shown


def plain_defaults(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, signature: str | None, returns: str
) -> tuple[str, str] | None:
    """Return a signature whose defaults are as a caller would write them; None if it is."""
    plain = signature or ""
    for printed, written in DEFAULTS.items():
        plain = plain.replace(printed, written)
    return None if plain == (signature or "") else (plain, returns)


def without_long_types(app: Any, _domain: str, _kind: str, _content: Any) -> None:
    """Leave out types that fill lines, before autodoc adds types to the parameters."""
    for annotations in app.env.current_document.autodoc_annotations.values():
        for name in [name for name, text in annotations.items() if len(text) > LONGEST_TYPE]:
            del annotations[name]


def mathml(formula: str, *, block: bool = False) -> str:
    """Return a formula of TeX as MathML, with the spaces that TeX would leave."""
    text = tex2mathml(formula, as_block=block)
    text = text.replace('<mo stretchy="false">|<', '<mo stretchy="false" lspace="0" rspace="0">|<')
    called = r"(<mo>&ApplyFunction;</mo>)(?!\s*<mo[^>]*>[(\[])"  # log x, but cov(x, y)
    return re.sub(called, r'\1<mspace width="0.17em"></mspace>', text)


def inline_formula(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line as MathML."""
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def block_formula(writer: Any, node: nodes.math_block) -> None:
    """Write a formula of its own as MathML."""
    writer.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Read docstrings before napoleon does, and types before autodoc writes them; draw formulas
    without a script.
    """
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
    app.connect("autodoc-process-docstring", plain_docstrings, priority=400)
    app.connect("autodoc-process-signature", plain_defaults)
    app.connect("object-description-transform", without_long_types, priority=400)
