"""Evidence for a claim: in how many cases it holds, is left open and fails, and one number.

A *judge* is a function from networks to evidence, one for each reading of the claim. This module
has the judges that claims share; `claims` says which claim has which.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from shearshap_lab.experiments.results import (
    METRICS,
    Networks,
    better_choices,
    correlation,
    feature_correlations,
    label_of,
    random_cooperators,
    selected_mean,
    selection_ratios,
    time_ratio,
    timed_ways,
    within_correlation,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, Reading
from shearshap_lab.runner import values_of, where
from shearshap_lab.statistics import (
    Floats,
    Interval,
    Verdict,
    deviation_ratio,
    judged_difference,
    judged_ratio,
    log_ratio,
    ratio,
)

Outcome = Literal["holds", "equal", "open", "fails"]

MAX_BETTER = 0.01  #: of random cooperators that do better than SHEAR's, if these are the best
BATCH = "batch"  #: the way of timing in which methods, not calls, cost time

READING_NAMES: dict[Reading, str] = {
    "authors": "as run",
    "paper": "appendix",
    "paper-coin": "appendix (coins)",
    "fair": "fair",
}  #: the readings of the paper's baselines, in a word or two


@dataclass(frozen=True)
class Number:
    """A number with its interval, in a sentence."""

    interval: Interval
    sentence: str = "{}"  #: with {} in the number's place
    style: str = ".2f"

    def __str__(self) -> str:
        """Return "1.52 [1.45, 1.60]", or the value alone if there is no interval."""
        if np.isnan(self.interval.value):
            return "-"
        value = written(self.interval.value, self.style)
        if not self.interval.known:
            return value
        low = written(self.interval.low, self.style)
        high = written(self.interval.high, self.style)
        return f"{value} [{low}, {high}]"

    def told(self, mark: str = "") -> str:
        """Return the sentence with the number in it, between marks such as **."""
        if np.isnan(self.interval.value) and "{}" in self.sentence:
            return "not known"
        return self.sentence.format(f"{mark}{self}{mark}")


def written(number: float, style: str = ".2f") -> str:
    """Return a number in a style; a ratio far from 1 with the digits that it needs."""
    if style == ".2f" and (abs(number) >= 100 or 0 < abs(number) < 0.1):
        return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.2g}"
    return f"{number:{style}}"


@dataclass(frozen=True)
class Evidence:
    """A claim under one reading, on the networks of one data set and recipe."""

    reading: str
    outcomes: Counter[Outcome]
    number: Number
    decides: bool = True  #: whether the verdict depends on it
    dataset: str = ""
    recipe: str = ""


Judge = Callable[[Networks], Iterable[Evidence]]


def outcome(verdicts: Iterable[Verdict]) -> Outcome:
    """Return whether a method is better than all rivals; it fails if it is worse than one.

    It is open if one of them is not known; else it is equal to one.
    """
    given = set(verdicts)
    if "worse" in given:
        return "fails"
    if "not known" in given:
        return "open"
    return "equal" if "equal" in given else "holds"


def kept(flags: Iterable[bool]) -> Counter[Outcome]:
    """Return in how many cases a claim holds, and fails in the others."""
    every = list(flags)
    return Counter({"holds": sum(every), "fails": len(every) - sum(every)})


# Methods compared


@dataclass(frozen=True)
class Comparison:
    """A method beside another: the ratio of errors, or the difference of scores."""

    interval: Interval
    verdict: Verdict  #: on the first


Compare = Callable[[Networks, str, str, int, str], Comparison]


def compare(
    networks: Networks, method: str, rival: str, n: int, metric: str, *, rival_n: int | None = None
) -> Comparison:
    """Return a method at n beside another, at the same n or at its own, by means of a metric."""
    own = networks.mean(method, n, metric)
    other = networks.mean(rival, rival_n or n, metric)
    if metric == "absolute_error":
        interval = ratio(own, other, floor=networks.truth_error)
        return Comparison(interval, judged_ratio(interval))
    interval = (own - other).interval()
    return Comparison(interval, judged_difference(interval))


def compare_deviations(
    networks: Networks, method: str, rival: str, n: int, metric: str
) -> Comparison:
    """Return a method beside another by their standard deviations from round to round."""
    own, other = (networks.by_round(name, n, metric) for name in (method, rival))
    if min(own.shape[1], other.shape[1]) < 2:
        return Comparison(Interval(float("nan")), "not known")
    interval = deviation_ratio(own, other)
    return Comparison(interval, judged_ratio(interval))


def compare_spreads(networks: Networks, method: str, rival: str, n: int, metric: str) -> Comparison:
    """Return a method beside another by their standard deviations from row to row."""
    own, other = (networks.spread(name, n, metric) for name in (method, rival))
    interval = log_ratio(own, other).interval().map(lambda logs: np.exp(logs / 2))
    return Comparison(interval, judged_ratio(interval))


WORDS: dict[Compare, str] = {
    compare: "SHEAR's {metric}",
    compare_deviations: "the deviation of SHEAR's {metric} from round to round",
    compare_spreads: "the deviation of SHEAR's {metric} from row to row",
}


def best_of_all(
    *metrics: str, by: Compare = compare, decides: bool = True, fewest: bool = False
) -> Judge:
    """Judge whether SHEAR is better than all five baselines at each N, under each reading.

    `fewest`: at the smallest N alone.
    """

    def judge(networks: Networks) -> Iterator[Evidence]:
        numbers = networks.n()[:1] if fewest else networks.n()
        shown = numbers[0] if fewest else ABLATION_N
        for reading in READINGS:
            rivals = networks.rivals(reading)
            found = {
                (metric, n): {rival: by(networks, "shear", rival, n, metric) for rival in rivals}
                for metric in metrics
                for n in numbers
            }
            outcomes = Counter(
                outcome(each.verdict for each in of_n.values()) for of_n in found.values()
            )
            number = _closest(found[metrics[0], shown], metrics[0], by, reading)
            name = READING_NAMES[reading] if decides else f"{READING_NAMES[reading]}, rows"
            yield Evidence(name, outcomes, number, decides)

    return judge


def _closest(found: Mapping[str, Comparison], metric: str, by: Compare, reading: Reading) -> Number:
    """Return SHEAR beside the rival that comes closest to it, or is furthest ahead."""
    is_ratio = metric == "absolute_error" or by is not compare
    sign = 1 if is_ratio else -1
    closest = max(found, key=lambda rival: sign * found[rival].interval.value)
    subject = WORDS[by].format(metric=METRICS[metric]).replace("absolute error", "error")
    against = f"{label_of(closest)}'s ({READING_NAMES[reading]})"
    if is_ratio:
        return Number(found[closest].interval, f"{subject} is {{}} times {against}")
    return Number(found[closest].interval, f"{subject} less {against} is {{}}", "+.4f")


def both(*judges: Judge) -> Judge:
    """Return the evidence of several judges."""
    return lambda networks: (each for judge in judges for each in judge(networks))


def better_with_fewer(networks: Networks) -> Iterator[Evidence]:
    """Judge whether SHEAR at the fewest evaluations is better than KS, KS-WF and PS at the most."""
    few = min(networks.n())
    many = max(networks.n())
    for reading in READINGS:
        rivals = [
            name for name in networks.rivals(reading) if label_of(name) in ("KS", "KS-WF", "PS")
        ]
        found = {
            rival: compare(networks, "shear", rival, few, "absolute_error", rival_n=many)
            for rival in rivals
        }
        closest = max(rivals, key=lambda rival: found[rival].interval.value)
        sentence = (
            f"SHEAR's error at N = {few} is {{}} times {label_of(closest)}'s at N = {many} "
            f"({READING_NAMES[reading]})"
        )
        outcomes = Counter([outcome(each.verdict for each in found.values())])
        yield Evidence(READING_NAMES[reading], outcomes, Number(found[closest].interval, sentence))


def better_with_more(*metrics: str) -> Judge:
    """Judge whether every method is better at the next larger N, step by step, by metrics."""

    def judge(networks: Networks) -> Iterator[Evidence]:
        steps = list(pairwise(networks.n()))
        first, last = networks.n()[0], networks.n()[-1]
        metric = metrics[0]
        found = compare(networks, "shear", "shear", last, metric, rival_n=first).interval
        if metric == "absolute_error":
            number = Number(found, f"SHEAR's error at N = {last} is {{}} times that at N = {first}")
        else:
            sentence = f"SHEAR's {METRICS[metric]} changes by {{}} from N = {first} to {last}"
            number = Number(found, sentence, "+.4f")
        for reading in READINGS:
            outcomes = Counter(
                outcome(
                    compare(networks, method, method, more, metric, rival_n=fewer).verdict
                    for method in ("shear", *networks.rivals(reading))
                )
                for metric in metrics
                for fewer, more in steps
            )
            yield Evidence(READING_NAMES[reading], outcomes, number)

    return judge


def ablation(pairs: Mapping[str, tuple[str, str]]) -> Judge:
    """Judge whether the first of two variants of SHEAR is better by all four metrics, N = 16."""

    def judge(networks: Networks) -> Iterator[Evidence]:
        for reading, (better, worse) in pairs.items():
            outcomes = Counter(
                outcome([compare(networks, better, worse, ABLATION_N, metric).verdict])
                for metric in METRICS
            )
            found = compare(networks, worse, better, ABLATION_N, "absolute_error")
            sentence = f"the error of {label_of(worse)} is {{}} times that of {label_of(better)}"
            yield Evidence(reading, outcomes, Number(found.interval, sentence))

    return judge


WORKS: dict[Verdict, Outcome] = {
    "better": "fails",
    "equal": "fails",
    "worse": "holds",
    "not known": "open",
}  #: the outcome of a claim that a way of computing does not work, by the verdict on that way


def one_regression(networks: Networks) -> Iterator[Evidence]:
    """Judge whether KS and KS-Pair fail if all N M evaluations go into one regression, by N."""
    for fair in ("kernel", "kernel-paired"):
        found = {
            n: compare(networks, fair, f"{fair}-authors", n, "absolute_error")
            for n in networks.n(fair)
        }
        # that it works, its error being no larger, is what the claim denies
        outcomes = Counter(WORKS[each.verdict] for each in found.values())
        sentence = f"one regression's error is {{}} times that of M regressions ({label_of(fair)})"
        number = Number(found[ABLATION_N].interval, sentence)
        yield Evidence(label_of(fair), outcomes, number)


# Speed


def trade_off(*, control: Literal["throughput", "accuracy"]) -> Judge:
    """Judge whether SHEAR is best at the same throughput, or fastest at the same accuracy.

    For each N of SHEAR, all baselines at all their N are looked at. One that may be as fast has to
    rank worse, or one that may rank as well has to be slower. The claim fails if one that is surely
    as fast ranks better, or one that surely ranks as well is faster.
    """

    def judge(networks: Networks) -> Iterator[Evidence]:
        own = networks.row_seconds(BATCH, "shear")
        for reading in ("authors", "fair") if own else ():
            found = {n: _rivals_at(networks, n, reading, own[n]) for n in own}
            outcomes = Counter(_traded(pairs, control) for pairs in found.values())
            number = _traded_number(found[ABLATION_N], control, reading)
            yield Evidence(READING_NAMES[reading], outcomes, number)

    return judge


Pairs = Mapping[tuple[str, int], tuple[Comparison, Comparison]]  #: accuracy and speed, by rival, N


def _rivals_at(networks: Networks, n: int, reading: Reading, own: Floats) -> Pairs:
    """Return SHEAR at n beside all rivals at all their N, by ranking and by time (batch)."""
    pairs = {}
    for rival in networks.rivals(reading):
        rival_seconds = networks.row_seconds(BATCH, rival)
        for rival_n, seconds in rival_seconds.items():
            accuracy = compare(networks, "shear", rival, n, "ranking_accuracy", rival_n=rival_n)
            times = time_ratio(own, seconds)
            pairs[rival, rival_n] = accuracy, Comparison(times, judged_ratio(times))
    return pairs


def _traded(pairs: Pairs, control: str) -> Outcome:
    swapped = control == "accuracy"
    verdicts: list[Verdict] = []
    for accuracy, speed in pairs.values():
        judged, controlled = (speed, accuracy) if swapped else (accuracy, speed)
        if controlled.verdict == "not known" and judged.verdict == "worse":
            verdicts.append("not known")
        elif controlled.verdict != "better":
            verdicts.append(judged.verdict)
    return outcome(verdicts)


def _traded_number(pairs: Pairs, control: str, reading: Reading) -> Number:
    """Return SHEAR at N = 16 beside the best rival among those that are surely as good."""
    surely = ("worse", "equal")
    if control == "throughput":
        fast = {key: pair[0] for key, pair in pairs.items() if pair[1].verdict in surely}
        if not fast:
            return Number(Interval(float("nan")), "no baseline is surely as fast as SHEAR")
        (rival, n), best = min(fast.items(), key=lambda each: each[1].interval.value)
        sentence = (
            f"SHEAR's ranking accuracy less that of {label_of(rival)} at N = {n}, which is as "
        )
        sentence += "fast, is {}"
        style = "+.4f"
    else:
        good = {key: pair[1] for key, pair in pairs.items() if pair[0].verdict in surely}
        if not good:
            return Number(Interval(float("nan")), "no baseline surely ranks as well as SHEAR")
        (rival, n), best = max(good.items(), key=lambda each: each[1].interval.value)
        sentence = (
            f"SHEAR takes {{}} times as long as {label_of(rival)} at N = {n}, which ranks as "
        )
        sentence += "well"
        style = ".2f"
    return Number(best.interval, f"{sentence} ({READING_NAMES[reading]})", style)


def slower_with_more(networks: Networks) -> Iterator[Evidence]:
    """Judge whether the throughput of all methods falls from each N to the next."""
    for way in reversed(timed_ways(networks)):
        methods = ["shear", *networks.rivals("authors"), *networks.rivals("fair")]
        found = {method: networks.row_seconds(way, method) for method in methods}
        found = {method: seconds for method, seconds in found.items() if seconds}
        numbers = sorted(found["shear"])
        outcomes = Counter(
            outcome(
                judged_ratio(time_ratio(seconds[fewer], seconds[more]))
                for seconds in found.values()
            )
            for fewer, more in pairwise(numbers)
        )
        few, many = numbers[0], numbers[-1]
        interval = time_ratio(found["shear"][few], found["shear"][many])
        sentence = f"SHEAR's throughput at N = {many} is {{}} of that at N = {few} ({way})"
        yield Evidence(way, outcomes, Number(interval, sentence, ".0%"), decides=way == BATCH)


def cost_model(networks: Networks) -> Iterator[Evidence]:
    """Judge whether M (t_backward + N t_forward) explains SHEAR's time, up to a third."""
    for way in reversed(timed_ways(networks)):
        own, derivatives, forward = (
            networks.row_seconds(way, method) for method in ("shear", "derivatives", "forward")
        )
        shares = {n: time_ratio(derivatives[0] + forward[n], own[n]) for n in own}
        outcomes = kept(0.75 <= share.value <= 1.33 for share in shares.values())
        sentence = f"derivatives and forward passes take {{}} of SHEAR's time ({way})"
        number = Number(shares[ABLATION_N], sentence, ".0%")
        yield Evidence(way, outcomes, number, decides=way == BATCH)


# Cooperators: Figures 4 e and f


def falling_correlation(networks: Networks) -> Iterator[Evidence]:
    """Judge whether errors fall as the cross-contribution of random cooperators rises.

    Three readings of Figure 4 e: over all features, within a feature of a row, and for each feature
    across rows.
    """
    random = random_cooperators(networks)
    if not len(random):
        return
    readings = {
        "over all features": [correlation(random)],
        "within a feature of a row": [within_correlation(random)],
        "of one feature across rows": list(feature_correlations(random).values()),
    }
    for reading, every in readings.items():
        outcomes: Counter[Outcome] = Counter(
            outcome([judged_difference(Interval(-each.value, -each.high, -each.low))])
            for each in every
        )
        middle = sorted(every, key=lambda each: each.value)[len(every) // 2]
        name = "rank correlation" if len(every) == 1 else "median rank correlation"
        yield Evidence(reading, outcomes, Number(middle, f"the {name} {reading} is {{}}", "+.2f"))


def drops_to_zero(networks: Networks) -> Iterator[Evidence]:
    """Judge whether the error among random cooperators falls at each N, and is 0 at the last."""
    records = where(networks.records["cooperators"], draw=0, selection="random")
    numbers = sorted(values_of(records, "n"))
    if len(numbers) < 2:
        return
    means = [selected_mean(records, n, "random", "error") for n in numbers]
    verdicts = [judged_ratio(ratio(more, fewer, floor=1e-6)) for fewer, more in pairwise(means)]
    outcomes = Counter(outcome([verdict]) for verdict in verdicts)
    sentence = f"the error at N = {numbers[-1]} is {{}} times that at N = {numbers[0]}"
    number = Number(ratio(means[-1], means[0], floor=1e-9), sentence, ".1g")
    yield Evidence("random cooperators", outcomes, number)


def lower_bound(networks: Networks) -> Iterator[Evidence]:
    """Judge whether errors among SHEAR's cooperators are the least there are, at each N."""
    records = where(networks.records["cooperators"], draw=0)
    share = better_choices(where(records, n=ABLATION_N))
    if share is None:
        return
    rare = share.high <= MAX_BETTER
    frequent = share.low > MAX_BETTER
    least: Counter[Outcome] = Counter(["holds" if rare else "fails" if frequent else "open"])
    sentence = "{} of random choices do better than SHEAR's"
    yield Evidence("every random choice", least, Number(share, sentence, ".0%"))

    ratios = selection_ratios(records)
    outcomes = Counter(outcome([judged_ratio(each)]) for each in ratios.values())
    shown = ratios.get(ABLATION_N, Interval(float("nan")))
    sentence = "SHEAR's error is {} times that of random choices"
    yield Evidence("the mean random choice", outcomes, Number(shown, sentence), decides=False)
