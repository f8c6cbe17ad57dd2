"""Claims about the authors' released errors, and about what a network's training does to them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from shearshap.result.explanation import Floats
from shearshap_lab.comparisons import Verdict
from shearshap_lab.experiments import bootstrap
from shearshap_lab.experiments.bootstrap import Interval
from shearshap_lab.experiments.findings.finding import (
    Finding,
    Number,
    Reading,
    counted,
    leading,
    listed,
    reading,
)
from shearshap_lab.experiments.records import column, where
from shearshap_lab.experiments.spec import ABLATED
from shearshap_lab.experiments.style import label_of
from shearshap_lab.experiments.summaries import Networks, published_curve, values_of

BACKGROUND_NAMES = {"authors": "with the quirk", "authors-mean": "true mean", "ours": "ours"}
COMPARED = ("shear", "permutation-antithetic", "kernel-paired")
"""The methods whose errors are set against what training does; kriging is far from all of them."""

BASE = {
    "encoding": "standardised",
    "stopping": "20 epochs",
    "background": "quirk",
    "activation": "softplus",
}  #: the authors' choices
SETTING_WORDS = {"mean": "true mean", "0/1": "0/1 columns"}  #: of the figure, where words are short


# The released errors


def released_error(every: Sequence[Networks]) -> Finding | None:
    """Compare SHEAR's error, network by network and not rescaled, with the released numbers."""
    able = [networks for networks in every if beside_published(networks)]
    if not able:
        return None
    readings = tuple(_released(networks) for networks in able)
    own = leading(able)
    headline = next(
        each.number for each in readings if (each.dataset, each.recipe) == (own.dataset, own.recipe)
    )
    judged = [networks for networks in able if networks.recipe == own.recipe]
    return Finding(
        "SHEAR's released errors",
        "N; the published error lies within those of our networks",
        readings,
        headline,
        f"Networks at N = {ABLATED}, against the published: {_ranges(judged)}.",
        notes=(
            "A win: the published error lies between the smallest and the largest of our networks. "
            "A loss: it lies where a network of the same kind would be in less than 5 of 100 "
            "cases (Student's prediction interval of logarithms). A tie: neither.",
            "Nothing is rescaled. Judged on the authors' recipe; with others it is a study of "
            "sensitivity.",
        ),
    )


def beside_published(networks: Networks) -> dict[int, Floats]:
    """Return each network's error over the published one, by N; empty where none is published."""
    method = "shear-authors" if networks.resampled.n("shear-authors") else "shear"
    published = published_curve(networks.dataset, method, "ae_mean")
    return {
        n: networks.resampled.mean(method, n, "absolute_error").by_network / published[n]
        for n in networks.resampled.n(method)
        if n in published
    }


def judged_published(ratios: Floats) -> Verdict:
    """Return whether a published error, over which these are, may be one of our networks'."""
    if ratios.min() <= 1 <= ratios.max():
        return "win"
    low, high = bootstrap.next_network(ratios)
    return "tie" if low <= 1 <= high else "loss"


def _released(networks: Networks) -> Reading:
    ratios = beside_published(networks)
    at = ratios[ABLATED] if ABLATED in ratios else next(iter(ratios.values()))
    words = "SHEAR's error over the published"
    number = Number(bootstrap.over_networks(at), words)
    counts = counted(judged_published(each) for each in ratios.values())
    return reading(networks, BACKGROUND_NAMES[networks.recipe], counts, number)


def _ranges(every: Sequence[Networks]) -> str:
    """Return "census -52% to +1%, bank -27% to +9%"."""
    parts = []
    for networks in every:
        ratios = beside_published(networks)[ABLATED]
        ends = dict.fromkeys(f"{each - 1:+.0%}" for each in (ratios.min(), ratios.max()))
        parts.append(f"{networks.dataset} {' to '.join(ends)}")
    return listed(parts)


# What training does


def settings(sensitivity: pa.Table) -> dict[str, dict[str, str]]:
    """Return the trainings that were tried, by how they differ from the authors'."""
    names = tuple(BASE)
    tried = dict.fromkeys(zip(*(sensitivity[name].to_pylist() for name in names), strict=True))
    every = {}
    for values in tried:
        choices = dict(zip(names, values, strict=True))
        every[_setting_name(choices)] = choices
    return every


def _setting_name(choices: Mapping[str, str]) -> str:
    """Return in words what is not the authors' choice: "0/1, mean"."""
    other = [
        SETTING_WORDS.get(value, value) for name, value in choices.items() if value != BASE[name]
    ]
    return ", ".join(other) or "as the authors did"


def setting_errors(sensitivity: pa.Table, method: str, n: int) -> dict[str, Floats]:
    """Return a method's error under each setting, by network (s,)."""
    own = where(sensitivity, method=method, n=n)
    every = {}
    for name, choices in settings(sensitivity).items():
        records = where(own, **choices).sort_by("seed")
        if len(records):
            every[name] = column(records, "error")
    return every


def training(every: Sequence[Networks]) -> Finding | None:
    """Compare how far training moves SHEAR's error with how far the choice of method does."""
    tried = {
        networks.dataset: networks.records["sensitivity"]
        for networks in every
        if len(networks.records["sensitivity"])
    }
    if not tried:
        return None
    readings = [
        _training(dataset, sensitivity, name)
        for dataset, sensitivity in tried.items()
        for name in ACTIVATIONS
    ]
    sensitivity = next(iter(tried.values()))
    moved, methods = _spreads(sensitivity, ABLATED, "softplus alone")
    names = listed([label_of(method) for method in COMPARED])
    return Finding(
        "Not in the paper: training moves the error more than the method does",
        "N; the spread over trainings against that over methods",
        tuple(readings),
        readings[0].number,
        f"Training moves SHEAR's error {_geometric(moved):.1f} times, the choice among {names} "
        f"{_geometric(methods):.1f} times.",
        notes=(
            "The spread over trainings is SHEAR's largest error over its smallest, among networks "
            "of one seed that differ in encoding, epochs or background, and in the second reading "
            f"in activation too. The spread over methods is the same among {names} on the network "
            "that was trained as the authors' was.",
        ),
    )


ACTIVATIONS = ("softplus alone", "all activations")  #: the readings of "training"


def _geometric(values: Floats) -> float:
    return float(np.exp(np.log(values).mean()))


def _training(dataset: str, sensitivity: pa.Table, name: str) -> Reading:
    verdicts: list[Verdict] = []
    for n in sorted(values_of(sensitivity, "n")):
        moved, methods = _spreads(sensitivity, n, name)
        verdicts.append(_larger(bootstrap.over_networks(moved / methods)))
    moved, methods = _spreads(sensitivity, ABLATED, name)
    words = f"spread by training over that by method ({name})"
    number = Number(bootstrap.over_networks(moved / methods), words)
    return Reading(name, dataset, "authors", counted(verdicts), number)


def _larger(interval: Interval) -> Verdict:
    """Return whether a ratio is above 1."""
    if not interval.known:
        return "tie"
    return bootstrap.judged_ratio(Interval(1 / interval.value, 1 / interval.high, 1 / interval.low))


def _spreads(sensitivity: pa.Table, n: int, name: str) -> tuple[Floats, Floats]:
    """Return by network (s,) the spread of SHEAR's error over settings, and that over methods."""
    tried = sensitivity
    if name == "softplus alone":
        tried = where(sensitivity, activation=BASE["activation"])
    shear = np.array(list(setting_errors(tried, "shear", n).values()))
    base = _setting_name(BASE)
    methods = np.array([setting_errors(sensitivity, each, n)[base] for each in COMPARED])
    return shear.max(axis=0) / shear.min(axis=0), methods.max(axis=0) / methods.min(axis=0)
