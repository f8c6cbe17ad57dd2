"""What the paper says, what the records say, and why: each finding a function of one data set's
records.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pyarrow as pa

from shearshap.explanation import Floats
from shearshap.paper.experiments.paper_tables import rescaled
from shearshap.paper.experiments.records import Records, column, where
from shearshap.paper.experiments.spec import ABLATED, NEWER, PROTOCOLS, Protocol, baselines
from shearshap.paper.experiments.studies import TRUTH
from shearshap.paper.experiments.style import look
from shearshap.paper.experiments.summaries import (
    METRICS,
    PUBLISHED,
    correlation,
    cost,
    curve,
    illustrated,
    methods_of,
    protocols_of,
    published_curve,
    published_size,
    selected,
    sizes_of,
    speeds,
    values_of,
)
from shearshap.report import Table

Verdict = Literal["agrees", "partly", "does not"]

TOLERANCE = 0.3  #: by how much a number may differ from the paper's and still agree
SOUND = 64  #: the largest N at which the released errors are in the order that the paper claims
FASTER = (
    1.1  #: by how much more rows a second a method must explain to be called faster: timings vary
)
ALIKE, UNLIKE = (
    0.8,
    0.4,
)  #: rank correlations above which two rankings are alike, and below which they are not

READINGS: dict[Protocol, tuple[str, str]] = {
    "paper": (
        "as the appendix describes the baselines",
        "The appendix's APS takes coalitions with their complements, which is exact for "
        "interactions of two features.",
    ),
    "authors": (
        "as the authors ran them",
        "KS-Pair's regressions are singular at small N only; APS leaves two of its N permutations "
        "unpaired.",
    ),
    "fair": (
        "each at its best",
        "Complement pairs alone are exact for interactions of two features, whichever cooperators "
        "are selected.",
    ),
}


@dataclass(frozen=True)
class Finding:
    """A statement of the paper, held against records."""

    claim: str
    verdict: Verdict
    evidence: str
    why: str


def findings(records: Records) -> list[Finding]:
    """Return every finding that the records of one data set allow."""
    return [finding for look_at in _ALL for finding in look_at(records)]


def findings_table(records: Records, dataset: str) -> Table:
    """Return the findings on one data set as a table."""
    return Table(
        f"What the paper says, and what {dataset} shows",
        ("the paper says", "here", "what was measured", "why"),
        tuple(
            (one.claim, f"**{one.verdict}**", one.evidence, one.why) for one in findings(records)
        ),
        left=4,
    )


def released_error(records: Records) -> list[Finding]:
    """SHEAR's error beside the released numbers."""
    dataset = values_of(records["models"], "dataset")[0]
    method = (
        "shear-authors" if "shear-authors" in values_of(records["estimates"], "method") else "shear"
    )
    theirs, size = published_curve(dataset, method, "ae_mean"), published_size(dataset)
    mine = where(records["estimates"], method=method)
    if not theirs or size is None:
        return []
    sizes = sizes_of(records["models"])
    shared = sorted(set(values_of(mine, "n")) & set(theirs))
    ratio = {n: rescaled(mine, n, sizes, size) / theirs[n] for n in shared}
    each = [
        rescaled(mine, ABLATED, {seed: own}, size) / theirs[ABLATED] for seed, own in sizes.items()
    ]
    return [
        Finding(
            "SHEAR's released absolute errors",
            _verdict([abs(one - 1) <= TOLERANCE for one in ratio.values()]),
            f"{look(method).label}, mean over networks, rescaled to the authors' mean ‖φ‖₁: "
            f"{_by_n(ratio, lambda one: f'{one - 1:+.0%}')}. Single networks at N = {ABLATED}: "
            f"{', '.join(f'{one - 1:+.0%}' for one in each)}",
            "Networks trained alike differ by more than the methods do: the error follows how "
            "strongly three and more "
            "features interact. The authors' is one network too.",
        )
    ]


def released_order(records: Records) -> list[Finding]:
    """PS > APS > SHEAR in error, as the authors ran them."""
    names = ("permutation-authors", "permutation-antithetic-authors", "shear")
    estimates = records["estimates"]
    if len(methods_of(estimates, names)) < len(names):
        return []
    worst, middle, best = (curve(where(estimates, method=name), "absolute_error") for name in names)
    sound = [place for place, n in enumerate(worst.n) if n <= SOUND]
    return [
        Finding(
            f"PS, APS, SHEAR: the released errors fall in this order up to N = {SOUND}",
            _verdict(
                [worst.mean[place] > middle.mean[place] > best.mean[place] for place in sound]
            ),
            "as the authors ran them: "
            + "; ".join(
                f"N = {worst.n[place]}: {worst.mean[place]:.4f}, {middle.mean[place]:.4f}, "
                f"{best.mean[place]:.4f}"
                for place in sound
            ),
            "Two of the authors' N antithetic permutations are left unpaired, whose error is most "
            "of APS's.",
        )
    ]


def released_best(records: Records) -> list[Finding]:
    """Whether SHEAR has the least error in the authors' own numbers."""
    dataset = values_of(records["models"], "dataset")[0]
    theirs = {
        PUBLISHED[name]: published_curve(dataset, name, "ae_mean") for name in PROTOCOLS["authors"]
    }
    shared = [n for n in (8, 16, 32, 64, 128) if n in theirs["SHEAR"]]
    if not shared:
        return []
    best: dict[int, str] = {}
    for n in shared:
        errors = {name: found[n] for name, found in theirs.items() if n in found}
        best[n] = min(errors, key=errors.__getitem__)
    return [
        Finding(
            "SHEAR has the least error at the same evaluations: the authors' released numbers",
            _verdict([name == "SHEAR" for name in best.values()]),
            _by_n(best, lambda name: name),
            "By means, where they are published: those of singular regressions are not. "
            "At large N complement pairs overtake SHEAR, whose backgrounds make it biased.",
        )
    ]


def least_error(records: Records) -> list[Finding]:
    """Whether SHEAR has the least error and the best ranking, in each protocol."""
    estimates = records["estimates"]
    made = []
    for protocol in protocols_of(estimates):
        words, why = READINGS[protocol]
        rivals = methods_of(estimates, baselines(protocol))
        error, ranking = (
            _compared(estimates, rivals, metric)
            for metric in ("absolute_error", "ranking_accuracy")
        )
        wins = [rival is None for rival in (*error.values(), *ranking.values())]
        made.append(
            Finding(
                f"SHEAR has the least error and the best ranking at the same evaluations: {words}",
                _verdict(wins),
                f"Error: {_standing(error)}. Ranking: {_standing(ranking)}.",
                why,
            )
        )
    return made


def state_of_the_art(records: Records) -> list[Finding]:
    """Who has the least error of all methods in the fair protocol, and at what speed."""
    estimates, timings = records["estimates"], records["timings"]
    methods = protocols_of(estimates).get("fair", [])
    if not set(methods) & set(NEWER):
        return []
    curves = {
        method: curve(where(estimates, method=method), "absolute_error") for method in methods
    }
    shear = curves["shear"]
    best = [
        min(methods, key=lambda method: curves[method].mean[place]) for place in range(len(shear.n))
    ]
    evidence = {
        int(
            n
        ): f"{look(name).label}, {_count(_times(shear.mean[place], curves[name].mean[place]))} times less"
        if name != "shear"
        else "SHEAR"
        for place, (n, name) in enumerate(zip(shear.n, best, strict=True))
    }
    speed = {name: _speed_at(timings, name, ABLATED) for name in dict.fromkeys(("shear", *best))}
    rows = ", ".join(f"{look(name).label} {rows:,.0f}" for name, rows in speed.items())
    return [
        Finding(
            "SHEAR is ahead of the state of the art: methods newer than the paper, and of this "
            "library",
            _verdict([name == "shear" for name in best]),
            f"least error, fair protocol: {_by_n(evidence, str)}. Rows a second at N = {ABLATED}: "
            f"{rows}",
            "Kriging learns from all pairs at once how the players interact, and solves equations "
            "for every row.",
        )
    ]


def perturbation(records: Records) -> list[Finding]:
    """SHEAR's place by faithfulness and monotonicity."""
    estimates = records["estimates"]
    metrics = ("faithfulness", "monotonicity")
    places = {
        f"{words}, {METRICS[metric]}": _places(estimates, rivals, metric)
        for words, rivals in _rivals(estimates).items()
        for metric in metrics
    }
    exact = [
        mean for metric in metrics for mean in curve(where(estimates, method=TRUTH), metric).mean
    ]
    return [
        Finding(
            "SHEAR has the largest faithfulness and monotonicity",
            _verdict([place == 1 for found in places.values() for place in found]),
            "its place beside the five baselines, by N: "
            + "; ".join(
                f"{words}: {', '.join(map(str, found))}" for words, found in places.items()
            ),
            f"The exact values score {' and '.join(f'{mean:.4f}' for mean in exact)}: above that "
            "is not better.",
        )
    ]


def consistent(records: Records) -> list[Finding]:
    """Whether the four metrics rank the methods alike."""
    estimates = records["estimates"]
    found = []
    for rivals in _rivals(estimates).values():
        scores = {metric: _scores(estimates, ["shear", *rivals], metric) for metric in METRICS}
        for one, other in combinations(METRICS, 2):
            pairs = zip(scores[one].T, scores[other].T, strict=True)
            found.append(np.mean([correlation(*pair) for pair in pairs]))
    return [
        Finding(
            "The four metrics rank the methods alike",
            "agrees" if min(found) > ALIKE else "does not" if max(found) < UNLIKE else "partly",
            f"rank correlations of two metrics, means over N: {min(found):+.2f} to "
            f"{max(found):+.2f}",
            "Where methods are close to the exact values, faithfulness and monotonicity no longer "
            "tell them apart.",
        )
    ]


def least_deviation(records: Records) -> list[Finding]:
    """SHEAR varies least."""
    estimates = records["estimates"]
    if len(np.unique(column(estimates, "round"))) == 1:
        return []
    wins: dict[str, list[bool]] = {words: [] for words in _rivals(estimates)}
    for words, rivals in _rivals(estimates).items():
        for metric in ("absolute_error", "ranking_accuracy"):
            own, *others = (
                curve(where(estimates, method=name), metric).deviation
                for name in ("shear", *rivals)
            )
            wins[words] += (own <= np.min(others, axis=0)).tolist()
    return [
        Finding(
            "SHEAR's error and accuracy vary least",
            _verdict([win for found in wins.values() for win in found]),
            "; ".join(
                f"{words}: least in {sum(found)} of {len(found)} cases"
                for words, found in wins.items()
            ),
            "Its cooperators are not random, but its backgrounds are.",
        )
    ]


def selection_dominates(records: Records) -> list[Finding]:
    """What the ablations cost, by all four metrics."""
    estimates = where(records["estimates"], n=ABLATED)
    names = ("shear", "shear-without-as", "shear-without-ccs")
    found = {metric: _scores(estimates, names, metric)[:, 0] for metric in METRICS}
    words = ("{}", "{} without AS", "{} without CCS")
    evidence = "; ".join(
        f"{METRICS[metric]} "
        + ", ".join(
            form.format(_plain(-score if metric == "absolute_error" else score, metric))
            for form, score in zip(words, scores, strict=True)
        )
        for metric, scores in found.items()
    )
    return [
        Finding(
            "Cooperator selection (CCS) contributes most, antithetical sampling (AS) less, by all "
            "four metrics",
            _verdict([without_ccs < without_as for _, without_as, without_ccs in found.values()]),
            f"at N = {ABLATED}: {evidence}",
            "With antithetical backgrounds SHEAR is exact for interactions of two features, "
            "whoever cooperates.",
        )
    ]


def cross_contribution_tells(records: Records) -> list[Finding]:
    """The relationship of error and cross-contribution."""
    found = selected(records["cooperators"])
    return [
        Finding(
            "The error falls as cooperators' cross-contribution rises",
            "agrees" if found.between < 0 else "partly" if found.within < 0 else "does not",
            f"rank correlation {found.between:+.2f} over all features, {found.within:+.2f} within "
            "a feature",
            "Features that interact much have both large sums and large errors: mixed, they hide "
            "what holds for one.",
        )
    ]


def lower_bound(records: Records) -> list[Finding]:
    """Whether SHEAR's cooperators are the best."""
    cooperators = where(records["cooperators"], n=ABLATED)
    mine, random = (
        where(cooperators, selection="shear"),
        where(cooperators, selection="random", draw=0),
    )
    better = float((column(random, "error") < column(mine, "error")).mean())
    ratio = _times(column(random, "error").mean(), column(mine, "error").mean())
    return [
        Finding(
            "SHEAR's cooperators reach the lower bound of the error",
            "agrees" if better == 0 else "partly" if ratio > 1 else "does not",
            f"at N = {ABLATED} the mean error of random cooperators is {ratio:.1f} times theirs; "
            f"{better:.0%} of the "
            "random choices do better",
            "Cross-contribution is measured with all features present; the loss is a mean over "
            "coalitions.",
        )
    ]


def fastest(records: Records) -> list[Finding]:
    """The trade-off of throughput and ranking accuracy, in each protocol."""
    estimates, timings = records["estimates"], records["timings"]
    lines, wins = [], []
    for words, rivals in _rivals(estimates).items():
        ahead = _ahead(estimates, timings, rivals)
        wins += [not names for names in ahead.values()]
        beaten = {
            n: " and ".join(look(name).label for name in names)
            for n, names in ahead.items()
            if names
        }
        lines.append(f"{words}: {_by_n(beaten, str) or 'none'}")
    return [
        Finding(
            "SHEAR has the best accuracy at any throughput",
            _verdict(wins),
            f"who is both faster and more accurate than SHEAR at N; {'; '.join(lines)}",
            "Designs that rows share are one matrix product; SHEAR's differ from row to row, "
            "after derivatives.",
        )
    ]


def _ahead(estimates: pa.Table, timings: pa.Table, rivals: Sequence[str]) -> dict[int, list[str]]:
    """Return, for each of SHEAR's N, which rivals are faster and rank more accurately, whatever
    their own N.
    """
    points = {
        name: (
            speeds(where(timings, method=name))[1],
            _scores(estimates, [name], "ranking_accuracy")[0],
        )
        for name in ("shear", *rivals)
    }
    every = curve(where(estimates, method="shear"), "ranking_accuracy").n.tolist()
    return {
        n: [
            name
            for name in rivals
            if ((points[name][0] >= FASTER * rows) & (points[name][1] > right)).any()
        ]
        for n, rows, right in zip(every, *points["shear"], strict=True)
    }


def cost_model(records: Records) -> list[Finding]:
    """What the cost model says, and what was measured."""
    found = cost(records["timings"])
    first = records["models"].to_pylist()[0]
    features = first["continuous"] + first["categorical"]
    passes = int(column(where(records["estimates"], method="shear"), "derivative_passes").max())
    ratio = dict(zip(found.n.tolist(), found.measured / found.predicted, strict=True))
    return [
        Finding(
            "SHEAR takes M times (t_backward + N t_forward)",
            _verdict([abs(one - 1) <= TOLERANCE for one in ratio.values()]),
            f"{passes} derivative passes for {features} features; measured time over the model's: "
            f"{_by_n(ratio, lambda one: f'{one:.2f}')}",
            "Selecting, planning and adding up come on top. The authors' timings leave the "
            "derivatives out.",
        )
    ]


def adds_up(records: Records) -> list[Finding]:
    """Efficiency of the illustrated row."""
    rows = illustrated(records["illustration"])
    if not rows:
        return []
    total = rows[0]["prediction"] - rows[0]["base_value"]
    gap = total - sum(row["shear"] for row in rows)
    return [
        Finding(
            "The illustrated shares add up to prediction less base value",
            "agrees" if abs(gap) < 1e-6 else "partly",
            f"{total:+.4f} to share, SHEAR misses {gap:+.4f} of it",
            "SHEAR does not enforce it; `explanation.gap` reports it, and `corrected()` shares it "
            "out.",
        )
    ]


def theorem_2(records: Records) -> list[Finding]:
    """How tight the bound is, and whether it holds."""
    bounds = records["bounds"]
    if not len(bounds):
        return []
    loss, printed, sure = (column(bounds, name) for name in ("loss", "printed", "sure"))
    kept = printed > 1e-9
    ratio = loss[kept] / printed[kept]
    broken, unsure = (float((loss > bound * (1 + 1e-4) + 1e-9).mean()) for bound in (printed, sure))
    usual, most = (float(np.median(ratio)), float(ratio.max())) if kept.any() else (0.0, 1.0)
    most = most if kept.all() or (loss[~kept] <= 1e-9).all() else np.inf
    return [
        Finding(
            "Theorem 2 bounds what leaving a feature out takes from another's share",
            "agrees" if broken == 0 else "partly",
            f"median loss {usual:.0%} of the printed bound; {broken:.1%} of {len(loss)} pairs "
            "exceed it, by "
            f"{max(0.0, most - 1):.0%} at most; with differences for derivatives: {unsure:.1%}",
            "Its proof leaves out a remainder: second derivatives at corners are not the "
            "differences between them.",
        )
    ]


_ALL: tuple[Callable[[Records], list[Finding]], ...] = (
    released_error, released_order, released_best, least_error, state_of_the_art, perturbation, consistent,
    least_deviation, selection_dominates, cross_contribution_tells, lower_bound, fastest, cost_model, adds_up,
    theorem_2,
)  # fmt: skip


def _verdict(holds: Sequence[bool | np.bool_]) -> Verdict:
    return "agrees" if all(holds) else "partly" if any(holds) else "does not"


def _compared(
    estimates: pa.Table, rivals: Sequence[str], metric: str
) -> dict[int, tuple[str, float] | None]:
    """Return, for each N, None where SHEAR is the best, else who is, and by how much less it
    misses.
    """
    methods = ["shear", *rivals]
    scores = _scores(estimates, methods, metric)
    best = scores.argmax(axis=0)
    missing = -scores if metric == "absolute_error" else 1 - scores
    n = curve(where(estimates, method="shear"), metric).n.tolist()
    return {
        one: None
        if index == 0
        else (methods[index], _times(missing[0, place], missing[index, place]))
        for place, (one, index) in enumerate(zip(n, best.tolist(), strict=True))
    }


def _standing(compared: dict[int, tuple[str, float] | None]) -> str:
    """Return in words where SHEAR is the best, and who is elsewhere."""
    first = [str(n) for n, rival in compared.items() if rival is None]
    if len(first) == len(compared):
        return "SHEAR first at every N"
    behind: dict[str, list[tuple[int, float]]] = {}
    for n, rival in compared.items():
        if rival is not None:
            behind.setdefault(look(rival[0]).label, []).append((n, rival[1]))
    lines = [f"SHEAR first at N = {', '.join(first)}"] if first else []
    for name, found in behind.items():
        most = max(times for _, times in found)
        lines.append(
            f"{name} at N = {', '.join(str(n) for n, _ in found)}, which misses up to {most:.2f} "
            "times less"
        )
    return "; ".join(lines)


def _scores(estimates: pa.Table, methods: Sequence[str], metric: str) -> Floats:
    """Return the means (methods, n) of a metric, larger is better."""
    sign = -1 if metric == "absolute_error" else 1
    return np.array([sign * curve(where(estimates, method=name), metric).mean for name in methods])


def _places(estimates: pa.Table, rivals: Sequence[str], metric: str) -> list[int]:
    """Return SHEAR's place by a metric, for each N."""
    scores = _scores(estimates, ["shear", *rivals], metric)
    return [1 + int((each > each[0]).sum()) for each in scores.T]


def _rivals(estimates: pa.Table) -> dict[str, list[str]]:
    """Return the five baselines of each protocol that was run, by the protocol in words."""
    return {
        READINGS[protocol][0]: methods_of(estimates, baselines(protocol))
        for protocol in protocols_of(estimates)
    }


def _speed_at(timings: pa.Table, method: str, n: int) -> float:
    every, rows = speeds(where(timings, method=method))
    return float(rows[every == n][0])


def _by_n(by_n: Mapping[int, object], words: Callable[..., str]) -> str:
    return ", ".join(f"N = {n}: {words(value)}" for n, value in by_n.items())


def _times(error: float, other: float) -> float:
    """Return how many times larger an error is than another, which may be none at all."""
    return float(error / other) if other else float("inf")


def _count(times: float) -> str:
    return f"{times:,.1f}" if times < 100 else f"{times:,.0f}"


def _plain(value: float, metric: str) -> str:
    return f"{value:.4f}" if metric == "absolute_error" else f"{value:.3f}"
