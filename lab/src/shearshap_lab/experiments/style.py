"""How the paper's figures look: the colours and marks of each method.

The colours are those of Okabe and Ito, which most colour-blind people can tell apart. Methods with
close colours have different marks. All lines are solid: a dashed one is of the published numbers.
"""

from shearshap.report import Series

INK = "#333333"  #: notes, and lines to compare with
GRID = "#e4e4e4"
RANDOM = "#0072B2"  #: random cooperators; also negative values
SELECTED = "#D55E00"  #: the cooperators that SHEAR selects; also positive values
DASHED = (0, (4, 2))  #: the line style of published numbers

SERIES: dict[str, Series] = {
    series.name: series
    for series in (
        Series("shear", "SHEAR", "#D55E00", marker="o"),
        Series("shear-block", "SHEAR block maximum", "#D55E00", marker="X"),
        Series("shear-unbiased", "SHEAR unbiased", "#CC79A7", marker="P"),
        Series("kernel", "KS", "#56B4E9", marker="s"),
        Series("kernel-welford", "KS-WF", "#0072B2", marker="D"),
        Series("kernel-paired", "KS-Pair", "#009E73", marker="^"),
        Series("permutation", "PS", "#E69F00", marker="v"),
        Series("permutation-antithetic", "APS", "#7A4B00", marker="<"),
        Series("permutation-prefix", "PS by prefixes", "#E69F00", marker="v"),
        Series("permutation-antithetic-prefix", "APS by prefixes", "#7A4B00", marker="<"),
        Series("permutation-coin", "PS by coins", "#E69F00", marker=">"),
        Series("permutation-antithetic-coin", "APS by coins", "#7A4B00", marker="X"),
        Series("leverage", "Leverage", "#707070", marker=">"),
        Series("kriging", "Kriging", "#000000", marker="*"),
        Series("truth", "Exact values", "#333333", "1 2"),
        Series("with-ccs", "with CCS", "#D55E00", marker="o"),
        Series("without-ccs", "without CCS", "#0072B2", marker="s"),
    )
}

_READINGS = {
    "shear-authors": "shear-block",
    "permutation-paper": "permutation-prefix",
    "permutation-antithetic-paper": "permutation-antithetic-prefix",
}  #: methods whose series cannot be told from their names

_LABELS = {
    "permutation-prefix": "PS",
    "permutation-antithetic-prefix": "APS",
    "permutation-coin": "PS",
    "permutation-antithetic-coin": "APS",
}  #: what to call a method where its reading is named beside it

ABLATION_LABELS = {
    "shear-without-ccs": "SHEAR without CCS",
    "shear-unpaired": "SHEAR, V unpaired",
    "shear-unpaired-without-ccs": "SHEAR, V unpaired, without CCS",
    "shear-empty": "SHEAR, V empty",
    "shear-empty-without-ccs": "SHEAR, V empty, without CCS",
}


def series_of(method: str) -> Series:
    """Return the series of a method; a baseline looks the same in every protocol.

    Ablations have two series: with cooperator selection, and without.
    """
    if method in ABLATION_LABELS:
        return SERIES["without-ccs" if method.endswith("-without-ccs") else "with-ccs"]
    name = _READINGS.get(method, method.removesuffix("-paper").removesuffix("-authors"))
    return SERIES[name]


def label_of(method: str) -> str:
    """Return the name of a method in tables and sentences, such as KS-Pair."""
    if method in ABLATION_LABELS:
        return ABLATION_LABELS[method]
    series = series_of(method)
    return _LABELS.get(series.name, series.label)


def line_style(series: Series) -> tuple[int, tuple[int, ...]] | str:
    """Return the dashes of a series as a line style of matplotlib: (offset, lengths), or solid."""
    if not series.dash:
        return "-"
    return 0, tuple(int(length) for length in series.dash.split())
