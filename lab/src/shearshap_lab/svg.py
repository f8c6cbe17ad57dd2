"""matplotlib figures as SVG inside an HTML page.

Text stays text, ids of several figures do not clash, and markers have tooltips.
"""

import io
import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from matplotlib import rc_context
from matplotlib.figure import Figure

#: the first is what matplotlib measures text with
FONTS = "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif"

#: what HTML has no use for: metadata, styles of the document, namespaces, and fonts, which are
#: said once for the whole figure
UNUSED = re.compile(
    r'<metadata>.*?</metadata>|<style .*?</style>| xmlns(:\w+)?="[^"]*"|font-family: [^;"]*(; )?',
    flags=re.DOTALL,
)
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


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
        Goes into every id in the markup; no two figures of a page may share it.
    """
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = UNUSED.sub("", buffer.getvalue()).replace("xlink:href", "href")
    text = LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", text)
    root = ET.fromstring(re.sub(r">\s+<", "><", text))
    for group in root.iter("g"):
        # the ids that others refer to are not those of groups, and begin with a hash of the salt
        gid = group.attrib.pop("id", "")
        if gid.startswith("series-"):
            group.set("class", f"series {gid}")
            markers = list(group.iter("use"))  # error bars and lines have none
            for marker, title in zip(markers, titles.get(gid, ()), strict=False):
                ET.SubElement(marker, "title").text = title
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
