"""The pictures: every plot is in the gallery, and every picture on a page is made by one command."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from shearshap import plots

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = (DOCS / "gallery.md").read_text(encoding="utf-8")
README = DOCS.parent / "README.md"
ELSEWHERE = {"notebook", "service"}  #: pictures that other commands make
MAX_BYTES = 200_000  #: bytes of a picture, at most


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_gallery", DOCS / "make_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pictures() -> set[str]:
    """The pictures on all pages."""
    link = re.compile(r"!\[[^\]]+\]\((?:\.\./|docs/)?images/([\w-]+)\.png\)")
    pages = [README, *DOCS.rglob("*.md")]
    return {name for page in pages for name in link.findall(page.read_text(encoding="utf-8"))}


def test_every_plot_is_in_the_gallery() -> None:
    assert [name for name in plots.__all__ if f"`plots.{name}(" not in GALLERY] == []


def test_every_picture_is_made_by_the_command() -> None:
    module = maker()
    made = {*module.PLOTS, *module.PAGES, *module.NOTEBOOKS}
    assert pictures() - ELSEWHERE == made
    assert set(module.PAGES) == set(module.SHOTS)
    for name in made:
        assert (DOCS / "images" / f"{name}.png").stat().st_size < MAX_BYTES, name
