"""How each method looks, in every figure: the colours of Okabe and Ito, which most colour-blind
people tell apart.
"""

from shearshap.report import Series

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


def look(method: str) -> Series:
    """Return how a method looks; a baseline looks the same in every protocol."""
    alike = method.removesuffix("-paper").removesuffix("-authors")
    return SERIES["shear-block" if method == "shear-authors" else alike]


def dashes(series: Series) -> tuple[int, tuple[int, ...]] | str:
    """Return the line style as matplotlib wants it."""
    return (0, tuple(int(part) for part in series.dash.split())) if series.dash else "-"
