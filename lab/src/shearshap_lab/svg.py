"""matplotlib figures as SVG inside an HTML page.

Text stays text, ids of several figures do not clash, and markers have tooltips.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: the first is what matplotlib measures text with
FONTS = "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif"

FONT = re.compile(r"font-family: [^;]*(; )?")  #: said once, for the whole figure
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")

#: the id in url(#id) and #id
REFERENCE = re.compile(r"(?<=url\(#)[^)]+|(?<=^#).+")


def inline(figure: "Figure", *, alt: str, titles: Mapping[str, Sequence[str]], salt: str) -> str:
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
    if not re.fullmatch(r"[A-Za-z][\w-]*", salt):
        raise ValueError(f"a salt is a letter, then letters, digits, - and _, got {salt!r}")
    root = ET.fromstring(_drawn(figure, salt))
    _strip(root)
    for gid, texts in titles.items():
        _add_titles(root, gid, texts)
    _classify(root)
    _rename(root, salt)
    _shrink(root)
    _set_root(root, alt)
    return ET.tostring(root, encoding="unicode")


def _drawn(figure: "Figure", salt: str) -> str:
    """Return the figure as matplotlib's SVG, without the date."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'shearshap[reproduce]'") from error

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


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
    if name == "d":
        value = " ".join(value.split())
    if name in ("d", "x", "y", "transform"):
        return LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", value)
    if name == "style":
        return FONT.sub("", value)
    return value


def _shrink(root: Element) -> None:
    """Remove what draws nothing: turns by no angle, and groups that only hold others.

    What all parts of a group have in common is said of the group.
    """
    for element in list(root.iter()):
        if element.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
            del element.attrib["transform"]
        if element.tag == "g":
            for name in ("style", "clip-path"):
                _hoist(element, name)
    _unwrap(root)


def _hoist(group: Element, name: str) -> None:
    """Move an attribute that all parts of a group share to the group."""
    values = {child.get(name) for child in group}
    turned = any("transform" in child.attrib for child in group)
    if len(group) < 2 or len(values) > 1 or None in values or turned or name in group.attrib:
        return
    group.set(name, str(values.pop()))
    for child in group:
        del child.attrib[name]


def _unwrap(element: Element) -> None:
    """Put the children of groups without attributes in their place, from the innermost out."""
    for child in list(element):
        _unwrap(child)
    flat: list[Element] = []
    for child in element:
        bare = child.tag == "g" and not child.attrib
        flat += list(child) if bare else [child]
    element[:] = [child for child in flat if child.tag not in ("defs", "g") or len(child)]


def _add_titles(root: Element, gid: str, texts: Sequence[str]) -> None:
    """Give the markers of a series their tooltips."""
    markers_of_groups = [list(group.iter("use")) for group in _groups(root, gid)]
    drawn = [markers for markers in markers_of_groups if markers]
    if not drawn:
        raise ValueError(f"titles are for markers of {gid!r}, and the figure draws none")

    for markers in drawn:
        if len(markers) != len(texts):
            raise ValueError(f"{gid!r} draws {len(markers)} markers, got {len(texts)} titles")
        for marker, text in zip(markers, texts, strict=True):
            ET.SubElement(marker, "title").text = text


def _groups(root: Element, gid: str) -> Iterator[Element]:
    return (group for group in root.iter("g") if group.get("id") == gid)


def _classify(root: Element) -> None:
    """Give the groups of a series its class: ids must differ, and classes need not."""
    for group in root.iter("g"):
        gid = group.get("id", "")
        if gid.startswith("series-"):
            group.set("class", f"series {gid}")


def _rename(root: Element, salt: str) -> None:
    """Begin every id with the salt, in references too; remove ids that nothing refers to."""
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {name for value in values for name in REFERENCE.findall(value)}

    short = {name: f"{salt}-{place}" for place, name in enumerate(dict.fromkeys(_ids(root, used)))}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, short[value])
            else:
                element.set(name, REFERENCE.sub(lambda match: short[match[0]], value))


def _ids(root: Element, used: set[str]) -> Iterator[str]:
    """Yield the ids that are referred to, in the order of their elements."""
    return (element.get("id", "") for element in root.iter() if element.get("id") in used)


def _set_root(root: Element, alt: str) -> None:
    """Let the figure be as wide as its panel up to its own width, and name its content."""
    width = root.attrib["width"]
    root.attrib = {
        "class": "plot",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": alt,
        "style": f"width: 100%; max-width: {width}; stroke-linejoin: round; stroke-linecap: butt; "
        f"font-family: {FONTS}",
    }
