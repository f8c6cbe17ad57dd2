"""How the paper's figures look: the colours and marks of each method.

The colours are those of Okabe and Ito, which most colour-blind people can tell apart. Methods with
close colours have different marks.
"""

from shearshap.report import Series

INK = "#333333"  #: notes, and lines to compare with
GRID = "#e4e4e4"
RANDOM = "#0072B2"  #: random cooperators; also negative values
SELECTED = "#D55E00"  #: the cooperators that SHEAR selects; also positive values

SERIES: dict[str, Series] = {
    series.name: series
    for series in (
        Series("shear", "SHEAR", "#D55E00", marker="o"),
        Series("shear-block", "SHEAR block maximum", "#D55E00", "2 2", "X"),
        Series("shear-unbiased", "SHEAR unbiased", "#CC79A7", marker="P"),
        Series("kernel", "KS", "#56B4E9", "5 2", "s"),
        Series("kernel-welford", "KS-WF", "#0072B2", "5 2", "D"),
        Series("kernel-paired", "KS-Pair", "#009E73", marker="^"),
        Series("permutation", "PS", "#E69F00", "5 2", "v"),
        Series("permutation-antithetic", "APS", "#7A4B00", marker="<"),
        Series("leverage", "Leverage", "#707070", "2 2", ">"),
        Series("kriging", "Kriging", "#000000", marker="*"),
        Series("truth", "Exact values", "#333333", "1 2"),
        Series("shear-without-as", "SHEAR without AS", "#56B4E9", marker="s"),
        Series("shear-without-ccs", "SHEAR without CCS", "#009E73", marker="^"),
        Series("shear-without-either", "SHEAR without either", "#707070", marker="v"),
    )
}


def series_of(method: str) -> Series:
    """Return the series of a method; a baseline looks the same in every protocol."""
    if method == "shear-authors":
        return SERIES["shear-block"]
    return SERIES[method.removesuffix("-paper").removesuffix("-authors")]


def label_of(method: str) -> str:
    """Return the name of a method in figures and tables, such as KS-Pair."""
    return series_of(method).label


def line_style(series: Series) -> tuple[int, tuple[int, ...]] | str:
    """Return the dashes of a series as a line style of matplotlib: (offset, lengths), or solid."""
    if not series.dash:
        return "-"
    return 0, tuple(int(length) for length in series.dash.split())
