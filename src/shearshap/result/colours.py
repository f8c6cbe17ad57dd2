"""The colours of all pictures, as hexadecimal texts.

They come from the palette of Okabe and Ito, which most colour-blind people can tell apart.
"""

import numpy as np

RAISES = "#D55E00"  #: vermilion: a value that raises the output
LOWERS = "#0072B2"  #: blue: a value that lowers it

INK = "#333333"  #: text and whiskers
GREY = "#9E9E9E"  #: axes, and points without a number
SIZES = "#6A4BC4"  #: violet: sizes without a sign
FAINT = "#DDDDDD"  #: the grid
PAPER = "#F7F7F7"  #: the middle between raising and lowering, where values are 0

#: from the lowest number to the highest: vivid throughout, and brighter step by step, also to eyes
#: that cannot tell red from green
LOW_TO_HIGH = ("#2448E6", "#CC3399", "#FF8C00")

#: categories, or the lines of a chart
KINDS = (LOWERS, RAISES, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4B00", "#000000")

#: cohorts and classes: the colours of raising and lowering, which have a meaning, come last
COHORTS = tuple(KINDS[place] for place in (2, 4, 3, 5, 6, 7, 0, 1))

#: the custom properties of a page's style sheet: `ink` is var(--ink)
PAGE = {
    "paper": "#FFFFFF",
    "ink": "#1C2128",
    "soft": "#57606A",
    "faint": "#8C959F",
    "line": "#D8DEE4",
    "tint": "#F6F8FA",
    "link": "#0A58A8",
    "raises": RAISES,
    "lowers": LOWERS,
    "sizes": SIZES,
}

DARK_RAISES = "#F0873E"
DARK_LOWERS = "#4DA6E8"

#: the same for people who prefer dark pages; the signs are lighter there, to stand out as well
DARK_PAGE = {
    "paper": "#14181D",
    "ink": "#E6EAEE",
    "soft": "#A3ADB8",
    "faint": "#6E7883",
    "line": "#2E353D",
    "tint": "#1D2329",
    "link": "#6CB2F2",
    "raises": DARK_RAISES,
    "lowers": DARK_LOWERS,
    "sizes": "#9A82E8",
}


def page_colours(*, dark: bool = True) -> str:
    """Return the CSS rules that define a page's colours; `dark`: also those of dark pages."""
    light_rule, dark_rule = (
        ":root { " + " ".join(f"--{name}: {colour};" for name, colour in colours.items()) + " }"
        for colours in (PAGE, DARK_PAGE)
    )
    if not dark:
        return light_rule
    return f"{light_rule}\n@media screen and (prefers-color-scheme: dark) {{ {dark_rule} }}"


def sign_colour(value: float) -> str:
    """Return the colour of a value: that of raising the output or that of lowering it."""
    return LOWERS if value < 0 else RAISES


def rank_colour(rank: float) -> str:
    """Return the colour of a rank between 0 (low) and 1 (high); grey if it is NaN."""
    if rank != rank:
        return GREY
    stops = [list(bytes.fromhex(colour[1:])) for colour in LOW_TO_HIGH]  # red, green and blue
    channels = [np.interp(rank, (0.0, 0.5, 1.0), channel) for channel in zip(*stops, strict=True)]
    return "#" + "".join(f"{round(channel):02X}" for channel in channels)
