"""matplotlib figures as SVG inside an HTML page.

Text stays text, ids of several figures do not clash, and markers have tooltips.
"""

import io
import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from matplotlib import rc_context
from matplotlib.figure import Figure

#: the first is what matplotlib measures text with
FONTS = "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif"

FONT = re.compile(r"font-family: [^;]*(; )?")  #: said once, for the whole figure
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
REFERENCE = re.compile(r"(?<=url\(#)[^)]+|(?<=^#).+")  #: the id in url(#id) and #id


def inline(figure: Figure, *, alt: str, titles: Mapping[str, Sequence[str]], salt: str) -> str:
    """Return the figure as an <svg> element for a page; the same figure and salt, the same text.

    Parameters
    ----------
    figure
        Artists whose gid begins with "series-" become groups of the class "series" and of their
        gid; several artists, such as a line and its error bars, may share one.
    alt
        What the figure shows, for those who cannot see it.
    titles
        gid -> what the tooltip of each of its markers says, one text for each marker drawn.
    salt
        Begins every id in the markup; no two figures of a page may share it.
    """
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue())
    _strip(root)
    for group in root.iter("g"):
        gid = group.get("id", "")
        if gid.startswith("series-"):
            _add_titles(group, titles.get(gid, ()))
            group.set("class", f"series {gid}")  # ids must differ, and classes need not
    _rename(root, salt)
    # as wide as its panel, up to its own width
    style = f"width: 100%; max-width: {root.attrib['width']}; stroke-linejoin: round; "
    root.attrib = {
        "class": "plot",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": alt,
        "style": f"{style}stroke-linecap: butt; font-family: {FONTS}",
    }
    return ET.tostring(root, encoding="unicode")


def _strip(root: Element) -> None:
    """Remove what HTML has no use for: namespaces, metadata, blank text, document-wide styles."""
    for element in list(root.iter()):
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        element.attrib = {name: _tidy(name, value) for name, value in attributes.items()}
        element.tail = None
        if element.tag not in ("text", "tspan") or len(element):
            element.text = None
        for child in list(element):
            if _local(child.tag) in ("metadata", "style"):
                element.remove(child)


def _local(name: str) -> str:
    """Return a name without its namespace, which ElementTree writes as {namespace}name."""
    return name.rpartition("}")[2]


def _tidy(name: str, value: str) -> str:
    """Return an attribute's value: paths on one line, and numbers to a hundredth of a point."""
    if name in ("d", "x", "y", "transform"):
        value = " ".join(value.split())
        return LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", value)
    return FONT.sub("", value) if name == "style" else value


def _add_titles(group: Element, texts: Sequence[str]) -> None:
    """Give the markers of a group their tooltips; error bars and lines have no markers."""
    markers = list(group.iter("use"))
    if texts and markers:
        for marker, text in zip(markers, texts, strict=True):
            ET.SubElement(marker, "title").text = text


def _rename(root: Element, salt: str) -> None:
    """Begin every id with the salt, in references too; remove ids that nothing refers to."""
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {name for value in values for name in REFERENCE.findall(value)}
    ids = [element.get("id", "") for element in root.iter() if element.get("id") in used]
    short = {name: f"{salt}-{place}" for place, name in enumerate(dict.fromkeys(ids))}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        for name, value in element.attrib.items():
            renamed = REFERENCE.sub(lambda match: short[match[0]], value)
            element.set(name, short[value] if name == "id" else renamed)
