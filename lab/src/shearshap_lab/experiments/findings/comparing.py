"""Claims that compare SHEAR with the five baselines, by every metric and under every reading."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from shearshap.result.explanation import Floats
from shearshap_lab.comparisons import Verdict
from shearshap_lab.experiments import bootstrap
from shearshap_lab.experiments.bootstrap import Interval, Sampled
from shearshap_lab.experiments.findings.finding import (
    READING_NAMES,
    Counts,
    Finding,
    Number,
    Reading,
    counted,
    leading,
    reading,
)
from shearshap_lab.experiments.spec import ABLATED, NEWER, Protocol, baselines
from shearshap_lab.experiments.studies import TRUTH
from shearshap_lab.experiments.style import label_of
from shearshap_lab.experiments.summaries import (
    METRICS,
    PUBLISHED,
    Networks,
    methods_of,
    protocols_of,
    published_curve,
    speed_at,
)

ALIKE = 0.8  #: the rank correlation above which two metrics rank the methods alike
RELEASED: tuple[int, ...] = (8, 16, 32, 64, 128)  #: the N of the paper's figures
SOUND = 64  #: the largest N at which the released errors are in the order that the paper claims


@dataclass(frozen=True)
class Comparison:
    """SHEAR beside another method at the same N."""

    rival: str
    n: int
    interval: Interval  #: of the ratio of errors, or of the difference of scores
    verdict: Verdict  #: on SHEAR


def compared(networks: Networks, rivals: Sequence[str], metric: str) -> list[Comparison]:
    """Return SHEAR beside each rival at each N."""
    return [
        compare(networks, "shear", rival, n, metric)
        for rival in rivals
        for n in networks.resampled.n("shear")
        if networks.resampled.has(rival, n)
    ]


def compare(networks: Networks, method: str, rival: str, n: int, metric: str) -> Comparison:
    """Return a method beside another by the means of a metric, errors by their ratio."""
    own = networks.resampled.mean(method, n, metric)
    other = networks.resampled.mean(rival, n, metric)
    if metric == "absolute_error":
        interval = bootstrap.ratio(own, other, floor=networks.truth_error)
        return Comparison(rival, n, interval, bootstrap.judged_ratio(interval))
    interval = bootstrap.difference(own, other)
    return Comparison(rival, n, interval, bootstrap.judged_difference(interval))


def rivals_of(networks: Networks) -> dict[Protocol, list[str]]:
    """Return the five baselines of each protocol that was run."""
    estimates = networks.records["estimates"]
    return {
        protocol: methods_of(estimates, baselines(protocol)) for protocol in protocols_of(estimates)
    }


def _best(networks: Networks, methods: Sequence[str], metric: str) -> str:
    """Return the best of some methods at N = 16, by its mean."""
    sign = 1 if metric == "absolute_error" else -1
    means = {
        method: sign * networks.resampled.mean(method, ABLATED, metric).mean for method in methods
    }
    return min(means, key=means.__getitem__)


def best_number(networks: Networks, protocol: Protocol, metric: str) -> Number:
    """Return SHEAR beside the best baseline of a protocol at N = 16."""
    rival = _best(networks, rivals_of(networks)[protocol], metric)
    found = compare(networks, "shear", rival, ABLATED, metric)
    name = READING_NAMES[protocol]
    if metric == "absolute_error":
        return Number(found.interval, f"SHEAR's error over {label_of(rival)}'s ({name})")
    words = f"SHEAR's {METRICS[metric]} less {label_of(rival)}'s ({name})"
    return Number(found.interval, words, "+.3f")


# Error, ranking, faithfulness, monotonicity


def least_error(every: Sequence[Networks]) -> Finding | None:
    """Compare SHEAR's error with the baselines', the authors' released numbers included."""
    found = _metric_finding(
        every,
        ("absolute_error",),
        "SHEAR has the smallest error for the same evaluations",
        _losses,
    )
    if found is None:
        return None
    released = [each for networks in every for each in _released(networks)]
    return Finding(
        found.claim,
        found.cases,
        (*released, *found.readings),
        found.headline,
        found.sentence,
        notes=(
            "Released: the means of the authors' own files, which have no spread; a difference of "
            f"less than {bootstrap.RATIO_MARGIN:.0%} is a tie. Means of singular regressions are "
            "not among them.",
            "A truth that is an estimate has an error of its own. No error counts as smaller than "
            "that: methods below it are tied.",
        ),
    )


def best_ranking(every: Sequence[Networks]) -> Finding | None:
    """Compare how well SHEAR and the baselines rank the features."""
    return _metric_finding(
        every,
        ("ranking_accuracy",),
        "SHEAR ranks the features best for the same evaluations",
        _losses,
    )


def perturbation(every: Sequence[Networks]) -> Finding | None:
    """Compare faithfulness and monotonicity."""
    return _metric_finding(
        every,
        ("faithfulness", "monotonicity"),
        "SHEAR has the largest faithfulness and monotonicity",
        _mostly_tied,
    )


Sentence = Callable[[Sequence[Networks], Sequence[str], Sequence[Reading]], str]


def _metric_finding(
    every: Sequence[Networks], metrics: Sequence[str], claim: str, sentence: Sentence
) -> Finding | None:
    readings = []
    for networks in every:
        for protocol, rivals in rivals_of(networks).items():
            verdicts = [
                each.verdict for metric in metrics for each in compared(networks, rivals, metric)
            ]
            number = best_number(networks, protocol, metrics[0])
            readings.append(reading(networks, READING_NAMES[protocol], counted(verdicts), number))
    if not readings:
        return None
    return Finding(
        claim,
        "N x baselines" if len(metrics) == 1 else "N x baselines x two metrics",
        tuple(readings),
        _headline(every, metrics[0]),
        sentence(every, metrics, readings),
    )


def _headline(every: Sequence[Networks], metric: str) -> Number:
    """Return the number of the last protocol, which is the fair one where it was run."""
    networks = leading(every)
    return best_number(networks, list(rivals_of(networks))[-1], metric)


def _losses(every: Sequence[Networks], metrics: Sequence[str], _: Sequence[Reading]) -> str:
    """Return to which baseline SHEAR loses most often under each reading."""
    parts = []
    for protocol in rivals_of(leading(every)):
        by_rival: dict[str, list[Verdict]] = {}
        for networks in every:
            for each in compared(networks, rivals_of(networks).get(protocol, []), metrics[0]):
                by_rival.setdefault(label_of(each.rival), []).append(each.verdict)
        parts.append(f"{READING_NAMES[protocol]}: {_most_losses(by_rival)}")
    return f"Most losses: {', '.join(parts)}."


def _most_losses(by_rival: dict[str, list[Verdict]]) -> str:
    most = max(by_rival, key=lambda rival: by_rival[rival].count("loss"))
    losses = by_rival[most].count("loss")
    if not losses:
        return "none"
    return f"{most} {losses} of {len(by_rival[most])}"


def _mostly_tied(
    every: Sequence[Networks], metrics: Sequence[str], readings: Sequence[Reading]
) -> str:
    """Return how many comparisons are ties, and what the exact values score themselves."""
    counts = sum((each.counts for each in readings), Counts())
    networks = leading(every)
    exact = [networks.resampled.mean(TRUTH, 0, metric).mean for metric in metrics]
    return (
        f"{counts.ties} of {counts.total} comparisons are ties. The exact values score "
        f"{exact[0]:.3f} and {exact[1]:.3f}."
    )


def _released(networks: Networks) -> list[Reading]:
    """Return SHEAR beside the baselines in the authors' released means, where there are any."""
    if networks.recipe != "authors":
        return []
    shear = published_curve(networks.dataset, "shear", "ae_mean")
    ratios: dict[tuple[str, int], float] = {}
    for method in baselines("authors"):
        theirs = published_curve(networks.dataset, method, "ae_mean")
        shared = (n for n in RELEASED if n in theirs and n in shear)
        ratios |= {(method, n): shear[n] / theirs[n] for n in shared}
    if not ratios:
        return []
    verdicts = [bootstrap.judged_ratio(Interval(each, each, each)) for each in ratios.values()]
    (rival, n) = max(ratios, key=ratios.__getitem__)
    worst = Interval(ratios[rival, n], float("nan"), float("nan"))
    number = Number(worst, f"SHEAR's error over {PUBLISHED[rival]}'s (N = {n}), the largest ratio")
    return [reading(networks, "released", counted(verdicts), number)]


# The order of the released errors


def released_order(every: Sequence[Networks]) -> Finding | None:
    """Compare the errors of PS, APS and SHEAR, as the authors ran them."""
    names = ("permutation-authors", "permutation-antithetic-authors", "shear")
    able = [
        networks
        for networks in every
        if len(methods_of(networks.records["estimates"], names)) == len(names)
    ]
    if not able:
        return None
    readings = [_order(networks, names) for networks in able]
    headline = next(each for each in readings if _is_of(each, leading(able))).number
    return Finding(
        f"PS, APS, SHEAR: the errors fall in this order up to N = {SOUND}, as released",
        "N x two steps",
        tuple(readings),
        headline,
        f"Errors at N = {ABLATED}: {_errors(leading(able), names)}.",
        notes=(
            "The authors left two of the N antithetic permutations unpaired; in the fair protocol "
            "all of them are paired.",
        ),
        brief=False,
    )


def _errors(networks: Networks, names: Sequence[str]) -> str:
    """Return "PS 0.0974, APS 0.0377, SHEAR 0.0147"."""
    means = {name: networks.resampled.mean(name, ABLATED, "absolute_error").mean for name in names}
    return ", ".join(f"{label_of(name)} {mean:.4f}" for name, mean in means.items())


def _order(networks: Networks, names: Sequence[str]) -> Reading:
    largest, middle, smallest = names
    n = [number for number in networks.resampled.n(smallest) if number <= SOUND]
    steps = [compare(networks, middle, largest, each, "absolute_error") for each in n]
    steps += [compare(networks, smallest, middle, each, "absolute_error") for each in n]
    number = compare(networks, smallest, middle, ABLATED, "absolute_error")
    words = "SHEAR's error over APS's (as run)"
    counts = counted(step.verdict for step in steps)
    return reading(networks, READING_NAMES["authors"], counts, Number(number.interval, words))


def _is_of(each: Reading, networks: Networks) -> bool:
    return (each.dataset, each.recipe) == (networks.dataset, networks.recipe)


# Newer methods


def newer_methods(every: Sequence[Networks]) -> Finding | None:
    """Compare SHEAR with methods newer than the paper, and with those of this library."""
    readings = []
    for networks in every:
        rivals = methods_of(networks.records["estimates"], NEWER)
        if rivals:
            verdicts = [each.verdict for each in compared(networks, rivals, "absolute_error")]
            number = _newest(networks, _best(networks, rivals, "absolute_error"))
            readings.append(reading(networks, READING_NAMES["fair"], counted(verdicts), number))
    if not readings:
        return None
    networks = leading([each for each in every if methods_of(each.records["estimates"], NEWER)])
    rivals = methods_of(networks.records["estimates"], NEWER)
    best = _best(networks, rivals, "absolute_error")
    return Finding(
        "SHEAR is ahead of newer methods",
        "N x newer methods",
        tuple(readings),
        _newest(networks, best),
        _speeds(networks, best),
    )


def _newest(networks: Networks, rival: str) -> Number:
    found = compare(networks, "shear", rival, ABLATED, "absolute_error")
    return Number(found.interval, f"SHEAR's error over {label_of(rival)}'s (fair)")


def _speeds(networks: Networks, rival: str) -> str:
    own = speed_at(networks.records["timings"], "batch", "shear", ABLATED)
    other = speed_at(networks.records["timings"], "batch", rival, ABLATED)
    if own is None or other is None:
        return f"{label_of(rival)} has the smallest error of them at N = {ABLATED}."
    return (
        f"At N = {ABLATED} {label_of(rival)} explains {other:,.0f} rows a second in batches, SHEAR "
        f"{own:,.0f}."
    )


# Deviations and agreement


def steadiest(every: Sequence[Networks]) -> Finding | None:
    """Compare how much SHEAR and its baselines vary from round to round."""
    metrics = ("absolute_error", "ranking_accuracy")
    readings = []
    for networks in every:
        if networks.resampled.cube("shear", ABLATED, metrics[0]).shape[1] < 2:
            continue
        for protocol, rivals in rivals_of(networks).items():
            found = [each for metric in metrics for each in _deviations(networks, rivals, metric)]
            number = _least_deviation(networks, protocol, rivals)
            counts = counted(each.verdict for each in found)
            readings.append(reading(networks, READING_NAMES[protocol], counts, number))
    if not readings:
        return None
    own = [each for each in readings if _is_of(each, leading(every))]
    return Finding(
        "SHEAR varies least from round to round",
        "N x baselines x two metrics",
        tuple(readings),
        own[-1].number,
        _relative_deviations(leading(every)),
        notes=(
            "All rows of a round share its random draws. So their errors rise and fall together, "
            "and deviations over rounds are larger than with draws of each row's own.",
        ),
    )


def _relative_deviations(networks: Networks) -> str:
    """Return how much the errors of SHEAR and of the steadiest baseline vary, over their means."""
    protocol, rivals = list(rivals_of(networks).items())[-1]
    found = [_deviation(networks, rival, ABLATED, "absolute_error") for rival in rivals]
    steady = max(found, key=lambda each: each.interval.value).rival
    own, other = (_relative_deviation(networks, method) for method in ("shear", steady))
    return (
        f"From round to round SHEAR's error varies by {own:.1%} of its mean, {label_of(steady)}'s "
        f"by {other:.1%} ({READING_NAMES[protocol]})."
    )


def _relative_deviation(networks: Networks, method: str) -> float:
    variance = networks.resampled.variance(method, ABLATED, "absolute_error").mean
    mean = networks.resampled.mean(method, ABLATED, "absolute_error").mean
    return float(np.sqrt(variance) / max(mean, bootstrap.TINY))


def _deviations(networks: Networks, rivals: Sequence[str], metric: str) -> list[Comparison]:
    return [
        _deviation(networks, rival, n, metric)
        for rival in rivals
        for n in networks.resampled.n("shear")
    ]


def _deviation(networks: Networks, rival: str, n: int, metric: str) -> Comparison:
    """Return SHEAR beside another method by their standard deviations over rounds."""
    own = networks.resampled.variance("shear", n, metric)
    other = networks.resampled.variance(rival, n, metric)
    interval = bootstrap.root(bootstrap.ratio(own, other))
    return Comparison(rival, n, interval, bootstrap.judged_ratio(interval))


def _least_deviation(networks: Networks, protocol: Protocol, rivals: Sequence[str]) -> Number:
    """Return SHEAR's deviation of the error at N = 16 over the smallest of the baselines'."""
    found = [_deviation(networks, rival, ABLATED, "absolute_error") for rival in rivals]
    most = max(found, key=lambda each: each.interval.value)
    words = f"SHEAR's deviation over {label_of(most.rival)}'s ({READING_NAMES[protocol]})"
    return Number(most.interval, words)


def consistent(every: Sequence[Networks]) -> Finding | None:
    """Compare how the four metrics rank the methods."""
    readings = []
    for networks in every:
        for protocol, rivals in rivals_of(networks).items():
            found = _agreements(networks, ["shear", *rivals])
            counts = counted(bootstrap.judged_within(each, ALIKE, 1) for each in found.values())
            lowest = min(found, key=lambda pair: found[pair].value)
            number = _agreement(found[lowest], lowest, protocol)
            readings.append(reading(networks, READING_NAMES[protocol], counts, number))
    if not readings:
        return None
    own = [each for each in readings if _is_of(each, leading(every))]
    low = min(each.number.interval.value for each in readings)
    return Finding(
        "The four metrics rank the methods alike",
        f"pairs of metrics; a rank correlation of at least {ALIKE}",
        tuple(readings),
        own[-1].number,
        f"The lowest rank correlation of two metrics, over all readings, is {low:+.2f}.",
    )


def _agreement(interval: Interval, pair: tuple[str, str], protocol: Protocol) -> Number:
    first, second = (METRICS[metric] for metric in pair)
    words = f"between {first} and {second} ({READING_NAMES[protocol]})"
    return Number(interval, words, "+.2f")


def _agreements(networks: Networks, methods: Sequence[str]) -> dict[tuple[str, str], Interval]:
    """Return the rank correlation of each two metrics over methods, its mean over N."""
    n = networks.resampled.n("shear")
    ranks = {metric: [_ranks(networks, methods, metric, each) for each in n] for metric in METRICS}
    found = {}
    for pair in combinations(METRICS, 2):
        first, second = (ranks[metric] for metric in pair)
        correlations = np.mean(
            [_correlations(a, b) for a, b in zip(first, second, strict=True)], axis=0
        )
        # the first is of the means themselves, the others are of replicates
        sampled = Sampled(float(correlations[0]), correlations[1:], correlations[:1])
        found[pair] = sampled.interval()
    return found


def _ranks(networks: Networks, methods: Sequence[str], metric: str, n: int) -> Floats:
    """Return the ranks of methods by a metric, (1 + b, methods); better ones have larger ranks."""
    sampled = [networks.resampled.mean(method, n, metric) for method in methods]
    means = np.array([[each.mean, *each.replicates] for each in sampled]).T
    sign = -1 if metric == "absolute_error" else 1
    # tied scores share their mean rank: how many are below, and half of those that are equal
    below = (means[:, None, :] < means[:, :, None]).sum(axis=2)
    equal = (means[:, None, :] == means[:, :, None]).sum(axis=2)
    ranks = sign * (below + (equal - 1) / 2)
    return np.where(np.isnan(means), np.nan, ranks)  # one row of one network has no replicates


def _correlations(first: Floats, second: Floats) -> Floats:
    """Return the correlation of two rankings in each row; 0 where one is constant."""
    a = first - first.mean(axis=1, keepdims=True)
    b = second - second.mean(axis=1, keepdims=True)
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    product = (a * b).sum(axis=1)
    correlations = np.divide(product, scale, out=np.zeros_like(product), where=scale != 0)
    return np.asarray(correlations)
