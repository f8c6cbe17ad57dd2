"""What the paper says, what the records say, and why: each finding a function of one data set's records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shearshap.experiments.records import Records, column, where
from shearshap.experiments.spec import ABLATED, PROTOCOLS
from shearshap.experiments.style import look
from shearshap.experiments.summaries import (
    cost,
    curve,
    methods_of,
    protocols_of,
    published_curve,
    published_size,
    selected,
    speeds,
    values_of,
)
from shearshap.experiments.tables import rescaled
from shearshap.report import Table

Verdict = Literal["agrees", "partly", "does not"]

TOLERANCE = 0.3  #: by how much a rescaled error may differ from the published one and still agree
TIME_TOLERANCE = 0.5  #: by how much a time may differ from the cost model's and still agree
SMALL = 64  #: the largest N up to which the paper's order of methods is sound


@dataclass(frozen=True)
class Finding:
    """A statement of the paper, held against records."""

    claim: str
    verdict: Verdict
    evidence: str
    why: str


def findings(records: Records) -> list[Finding]:
    """Return every finding that the records of one data set allow."""
    found = [look_at(records) for look_at in _ALL]
    return [finding for finding in found if finding is not None]


def findings_table(records: Records, dataset: str) -> Table:
    """Return the findings on one data set as a table."""
    every = findings(records)
    return Table(
        f"What the paper says, and what {dataset} shows",
        ("the paper says", "here", "what was measured", "why"),
        tuple((one.claim, f"**{one.verdict}**", one.evidence, one.why) for one in every),
        left=4,
    )


def released_error(records: Records) -> Finding | None:
    """SHEAR's error beside the released numbers."""
    dataset = values_of(records["models"], "dataset")[0]
    theirs, size = published_curve(dataset, "shear", "ae_mean"), published_size(dataset)
    mine = where(records["estimates"], method="shear")
    if not theirs or size is None or not len(mine):
        return None
    sizes = {row["seed"]: row["size"] for row in records["models"].to_pylist()}
    shared = sorted(set(values_of(mine, "n")) & set(theirs))
    ratio = {n: rescaled(mine, n, sizes, size) / theirs[n] for n in shared}
    within = [n for n in shared if abs(ratio[n] - 1) <= TOLERANCE]
    spread = [curve(where(mine, seed=seed, n=ABLATED), "absolute_error").mean[0] for seed in sizes]
    return Finding(
        "SHEAR's released absolute errors",
        _verdict(len(within), len(shared)),
        f"rescaled to the authors' mean ‖φ‖₁, {_numbers(ratio, '{:+.0%}', minus=1)}; "
        f"single networks at N = {ABLATED}: {', '.join(f'{one:.4f}' for one in spread)}",
        "Networks trained alike differ: the error follows how strongly three and more features interact, which "
        "‖φ‖₁ does not tell; the authors' is one network too.",
    )


def order(records: Records) -> Finding | None:
    """PS > APS > SHEAR in error, as the authors ran them."""
    names = ("permutation-authors", "permutation-antithetic-authors", "shear")
    estimates = records["estimates"]
    if len(methods_of(estimates, names)) < len(names):
        return None
    worst, middle, best = (curve(where(estimates, method=name), "absolute_error") for name in names)
    small = [place for place, n in enumerate(worst.n) if n <= SMALL]
    holds = [place for place in small if worst.mean[place] > middle.mean[place] > best.mean[place]]
    lines = "; ".join(
        f"N = {worst.n[place]}: {worst.mean[place]:.4f} > {middle.mean[place]:.4f} > {best.mean[place]:.4f}"
        for place in small
    )
    return Finding(
        f"PS > APS > SHEAR in error, N ≤ {SMALL}",
        _verdict(len(holds), len(small)),
        f"as the authors ran them: {lines}",
        "Two of their N antithetic permutations are left unpaired, whose error is most of APS's.",
    )


def paired_right(records: Records) -> Finding | None:
    """SHEAR is the most accurate: with antithetic permutations paired."""
    estimates = records["estimates"]
    if "permutation-antithetic" not in values_of(estimates, "method"):
        return None
    paired, shear = (
        curve(where(estimates, method=name), "absolute_error") for name in ("permutation-antithetic", "shear")
    )
    wins = int((shear.mean < paired.mean).sum())
    ratio = {int(n): _times(*pair) for n, *pair in zip(shear.n, shear.mean, paired.mean, strict=True)}
    return Finding(
        "SHEAR has the least error at the same evaluations",
        _verdict(wins, len(shear.n)),
        f"fair protocol, SHEAR's error over that of APS paired right: {_numbers(ratio, '{:.2f}')}",
        "Complement pairs alone are exact for interactions of two features, whichever cooperators are selected.",
    )


def winner(records: Records) -> Finding | None:
    """Who wins the fair protocol."""
    estimates = records["estimates"]
    methods = methods_of(estimates, PROTOCOLS["fair"])
    if "kriging" not in methods:
        return None
    curves = {method: curve(where(estimates, method=method), "absolute_error") for method in methods}
    best = [min(methods, key=lambda method: curves[method].mean[place]) for place in range(len(curves["shear"].n))]
    ratio = [_times(curves["shear"].mean[place], curves[name].mean[place]) for place, name in enumerate(best)]
    evidence = "; ".join(
        f"N = {n}: {look(name).label}" + (f", with {_count(factor)} times less error" if name != "shear" else "")
        for n, name, factor in zip(curves["shear"].n, best, ratio, strict=True)
    )
    wins = sum(name == "shear" for name in best)
    return Finding(
        "SHEAR beats every method compared",
        _verdict(wins, len(best)),
        f"fair protocol: {evidence}",
        "Each method at its best on the same evaluations; SHEAR's derivatives come on top of them.",
    )


def least_deviation(records: Records) -> Finding | None:
    """SHEAR varies least."""
    estimates = records["estimates"]
    methods = protocols_of(estimates).get("paper")
    if not methods:
        return None
    curves = {method: curve(where(estimates, method=method), "absolute_error") for method in methods}
    count = len(curves["shear"].n)
    wins = sum(
        curves["shear"].deviation[place] <= min(found.deviation[place] for found in curves.values())
        for place in range(count)
    )
    return Finding(
        "SHEAR's error varies least",
        _verdict(wins, count),
        f"least of the paper's protocol at {wins} of {count} numbers of evaluations",
        "Its backgrounds are random too; greedy selection does not make it deterministic.",
    )


def selection_dominates(records: Records) -> Finding | None:
    """What the ablations cost."""
    estimates = where(records["estimates"], n=ABLATED)
    error = {
        name: float(curve(where(estimates, method=name), "absolute_error").mean[0])
        for name in ("shear", "shear-without-as", "shear-without-ccs")
    }
    names = ("shear-without-as", "shear-without-ccs")
    without_as, without_ccs = (_times(error[name], error["shear"]) for name in names)
    return Finding(
        "Cooperator selection (CCS) contributes most, antithetical sampling (AS) less",
        "agrees" if without_ccs > without_as else "does not",
        f"at N = {ABLATED} the error grows {without_ccs:.1f} times without CCS, {without_as:.1f} times without AS",
        "With antithetical backgrounds SHEAR is exact for interactions of two features, whatever cooperators it takes.",
    )


def cross_contribution_tells(records: Records) -> Finding | None:
    """The relationship of error and cross-contribution."""
    found = selected(records["cooperators"])
    return Finding(
        "The error falls as cooperators' cross-contribution rises",
        "agrees" if found.between < 0 else "partly" if found.within < 0 else "does not",
        f"rank correlation {found.between:+.2f} over all features, {found.within:+.2f} within a feature",
        "Features that interact much have both large sums and large errors: mixed, they hide what holds for one.",
    )


def lower_bound(records: Records) -> Finding | None:
    """Whether SHEAR's cooperators are the best."""
    cooperators = where(records["cooperators"], n=ABLATED)
    mine, random = where(cooperators, selection="shear"), where(cooperators, selection="random", draw=0)
    better = float((column(random, "error") < column(mine, "error")).mean())
    ratio = _times(column(random, "error").mean(), column(mine, "error").mean())
    return Finding(
        "SHEAR's cooperators reach the lower bound of the error",
        "agrees" if better == 0 else "partly" if ratio > 1 else "does not",
        f"at N = {ABLATED} their mean error is {ratio:.1f} times smaller; {better:.0%} of random choices do better",
        "Cross-contribution is measured with all features present; the loss is a mean over coalitions.",
    )


def one_backward(records: Records) -> Finding | None:
    """What the derivatives cost."""
    found = cost(records["timings"])
    passes = int(column(where(records["estimates"], method="shear"), "derivative_passes").max())
    place = found.n.tolist().index(ABLATED) if ABLATED in found.n else 0
    share, ratio = found.backward / found.measured[place], found.measured / found.predicted
    return Finding(
        "SHEAR takes t_backward + N t_forward, with one backward process",
        _verdict((passes == 1) + bool((abs(ratio - 1) <= TIME_TOLERANCE).all()), 2),
        f"{passes} derivative passes a row, {share:.0%} of the time at N = {found.n[place]}; measured times are "
        f"{ratio.min():.2f} to {ratio.max():.2f} of the model",
        "A Hessian in player space needs a backward pass for each feature; the authors' timings leave it out.",
    )


def fastest(records: Records) -> Finding | None:
    """The trade-off of throughput and accuracy, in the fair protocol."""
    estimates, timings = records["estimates"], records["timings"]
    if "permutation-antithetic" not in values_of(timings, "method"):
        return None
    error, rows = {}, {}
    for method in methods_of(timings, PROTOCOLS["fair"]):
        error[method] = curve(where(estimates, method=method, n=ABLATED), "absolute_error").mean[0]
        n, speed = speeds(where(timings, method=method))
        rows[method] = speed[n == ABLATED][0]
    beaten = [name for name in rows if name != "shear" and rows[name] > rows["shear"] and error[name] < error["shear"]]
    shown = ["shear", *beaten]
    lines = "; ".join(f"{look(name).label} {rows[name]:,.0f} rows a second, error {error[name]:.4f}" for name in shown)
    return Finding(
        "SHEAR has the best accuracy at any throughput",
        "does not" if beaten else "agrees",
        f"fair protocol, N = {ABLATED}: {lines}",
        "Designs that all rows share are one matrix product; SHEAR's differ from row to row, after derivatives.",
    )


def theorem_2(records: Records) -> Finding | None:
    """How tight the bound is, and whether it holds."""
    bounds = records["bounds"]
    if not len(bounds):
        return None
    loss, printed, sure = (column(bounds, name) for name in ("loss", "printed", "sure"))
    kept = printed > 1e-9
    ratio = loss[kept] / printed[kept]
    broken, unsure = (float((loss > bound * (1 + 1e-4) + 1e-9).mean()) for bound in (printed, sure))
    return Finding(
        "Theorem 2 bounds what leaving a feature out takes from another's share",
        "agrees" if broken == 0 else "partly",
        f"median loss {np.median(ratio) if kept.any() else 0:.0%} of the printed bound; {broken:.1%} of {len(loss)} "
        f"pairs exceed it, by {ratio.max(initial=1) - 1:.0%} at most; with differences for derivatives: {unsure:.1%}",
        "Derivatives at corners are not the differences between them; on smooth networks they are close.",
    )


def adds_up(records: Records) -> Finding | None:
    """Efficiency of the illustrated row."""
    rows = records["illustration"].to_pylist()
    if not rows:
        return None
    rows = [row for row in rows if row["seed"] == rows[0]["seed"]]
    total = rows[0]["prediction"] - rows[0]["base_value"]
    gap = total - sum(row["shear"] for row in rows)
    return Finding(
        "The illustrated shares add up to prediction less base value",
        "agrees" if abs(gap) < 1e-6 else "partly",
        f"{total:+.4f} to share, SHEAR misses {gap:+.4f} of it",
        "SHEAR does not enforce it; `explanation.gap` reports it and `corrected()` closes it.",
    )


_ALL: tuple[Callable[[Records], Finding | None], ...] = (
    released_error, order, paired_right, winner, least_deviation, selection_dominates, cross_contribution_tells,
    lower_bound, fastest, one_backward, adds_up, theorem_2,
)  # fmt: skip


def _verdict(holds: int, of: int) -> Verdict:
    return "agrees" if holds == of else "partly" if holds else "does not"


def _numbers(by_n: dict[int, float], form: str, minus: float = 0) -> str:
    return ", ".join(f"N = {n}: {form.format(value - minus)}" for n, value in by_n.items())


def _times(error: float, other: float) -> float:
    """Return how many times larger an error is than another, which may be none at all."""
    return float(error / other) if other else float("inf")


def _count(times: float) -> str:
    return f"{times:,.1f}" if times < 100 else f"{times:,.0f}"
