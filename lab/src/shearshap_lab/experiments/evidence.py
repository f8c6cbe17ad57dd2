"""Evidence for a claim: in how many cases it holds, is left open and fails, and one number.

A *judge* is a function from networks to evidence, one for each reading of the claim. This module
has the judges that claims share; `claims` says which claim has which.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from shearshap_lab.experiments.results import (
    METRICS,
    Networks,
    label_of,
    random_cooperators,
    speeds,
    timed_ways,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS
from shearshap_lab.runner import column, values_of, where
from shearshap_lab.statistics import (
    Estimate,
    Floats,
    Interval,
    Ints,
    Verdict,
    judged_difference,
    judged_ratio,
    log_ratio,
    rank_correlation,
    ratio,
    row_mean,
)

Outcome = Literal["holds", "open", "fails"]

MAX_BETTER = 0.01  #: of random cooperators that do better than SHEAR's, if these are the best

READING_NAMES = {
    "authors": "as run",
    "paper": "appendix",
    "paper-coin": "appendix (coins)",
    "fair": "fair",
}  #: the readings of the paper's baselines, in a word or two


@dataclass(frozen=True)
class Number:
    """A number with its interval, and what it is."""

    interval: Interval
    words: str = ""
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
    dataset: str = ""
    recipe: str = ""

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return self.outcomes.total()


Judge = Callable[[Networks], Iterable[Evidence]]


def outcome(verdicts: Iterable[Verdict]) -> Outcome:
    """Return whether a method is better than all rivals: it fails if it is worse than one."""
    given = list(verdicts)
    if "worse" in given:
        return "fails"
    return "holds" if all(verdict == "better" for verdict in given) else "open"


def kept(flags: Iterable[bool]) -> Counter[Outcome]:
    """Return in how many cases a claim holds, and fails in the others."""
    every = list(flags)
    outcomes: Counter[Outcome] = Counter()
    outcomes["holds"] = sum(every)
    outcomes["fails"] = len(every) - sum(every)
    return outcomes


# Methods compared


@dataclass(frozen=True)
class Comparison:
    """A method beside another: the ratio of errors, or the difference of scores."""

    interval: Interval
    verdict: Verdict  #: on the first


def compare(
    networks: Networks, method: str, rival: str, n: int, metric: str, *, rival_n: int | None = None
) -> Comparison:
    """Return a method at n beside another, at the same n or at its own, by means of a metric."""
    own = networks.mean(method, n, metric)
    other = networks.mean(rival, rival_n or n, metric)
    if metric == "absolute_error":
        interval = ratio(own, other, floor=networks.truth_error)
        return Comparison(interval, judged_ratio(interval))
    interval = (own - other).interval().within(-2, 2)
    return Comparison(interval, judged_difference(interval))


def compare_deviations(
    networks: Networks, method: str, rival: str, n: int, metric: str
) -> Comparison:
    """Return a method beside another by their standard deviations over rounds."""
    if networks.cube(method, n, metric).shape[1] < 2:
        return Comparison(Interval(float("nan")), "not known")
    logs = log_ratio(networks.variance(method, n, metric), networks.variance(rival, n, metric))
    halves = Estimate(logs.mean / 2, logs.replicates / 2, logs.by_cluster / 2)
    interval = halves.interval().exp()
    return Comparison(interval, judged_ratio(interval))


def best_of_all(metric: str, compared: Callable[..., Comparison] = compare) -> Judge:
    """Judge whether SHEAR is better than all five baselines at each N, under each reading."""
    larger_is_worse = metric == "absolute_error" or compared is compare_deviations

    def judge(networks: Networks) -> Iterator[Evidence]:
        for reading in READINGS:
            rivals = networks.rivals(reading)
            found = {
                n: {rival: compared(networks, "shear", rival, n, metric) for rival in rivals}
                for n in networks.n()
            }
            sign = 1 if larger_is_worse else -1
            at = found[ABLATION_N]
            closest = max(rivals, key=lambda rival: sign * at[rival].interval.value)
            what = METRICS[metric] if compared is compare else f"deviation of the {METRICS[metric]}"
            relation = "over" if larger_is_worse else "less"
            number = Number(
                at[closest].interval,
                f"SHEAR's {what} {relation} {label_of(closest)}'s ({READING_NAMES[reading]})",
                ".2f" if larger_is_worse else "+.3f",
            )
            outcomes = Counter(
                outcome(each.verdict for each in of_n.values()) for of_n in found.values()
            )
            yield Evidence(READING_NAMES[reading], outcomes, number)

    return judge


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
        words = (
            f"SHEAR's error at N = {few} over {label_of(closest)}'s at N = {many} "
            f"({READING_NAMES[reading]})"
        )
        outcomes = Counter([outcome(each.verdict for each in found.values())])
        number = Number(found[closest].interval, words)
        yield Evidence(READING_NAMES[reading], outcomes, number)


def better_with_more(*metrics: str) -> Judge:
    """Judge whether every method is better at the next larger N, step by step, by metrics."""

    def judge(networks: Networks) -> Iterator[Evidence]:
        steps = list(zip(networks.n(), networks.n()[1:], strict=False))
        for reading in READINGS:
            outcomes = Counter(
                outcome(
                    compare(networks, method, method, more, metric, rival_n=fewer).verdict
                    for method in ("shear", *networks.rivals(reading))
                )
                for metric in metrics
                for fewer, more in steps
            )
            first, last = networks.n()[0], networks.n()[-1]
            found = compare(networks, "shear", "shear", last, metrics[0], rival_n=first)
            relation = "over" if metrics[0] == "absolute_error" else "less"
            words = f"SHEAR's {METRICS[metrics[0]]} at N = {last} {relation} that at N = {first}"
            style = ".2f" if metrics[0] == "absolute_error" else "+.3f"
            number = Number(found.interval, words, style)
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
            words = f"error of {label_of(worse)} over that of {label_of(better)}"
            yield Evidence(reading, outcomes, Number(found.interval, words))

    return judge


# Speed


def best_at_throughput(networks: Networks) -> Iterator[Evidence]:
    """Judge whether SHEAR ranks better than all baselines that are as fast, in batches.

    For each N of SHEAR, a baseline is taken at the N at which it ranks best among those at which it
    is at least as fast, by medians of all timings. SHEAR is better if there is none.
    """
    timings = networks.records["timings"]
    numbers, own = speeds(timings, "batch", "shear")
    for reading in READINGS if len(numbers) else ():
        rivals = networks.rivals(reading)
        outcomes: Counter[Outcome] = Counter()
        number = Number(Interval(float("nan")), "no baseline is as fast")
        for n, speed in zip(numbers.tolist(), own[:, 1], strict=True):
            found = {
                rival: _at_throughput(networks, n, rival, *speeds(timings, "batch", rival), speed)
                for rival in rivals
            }
            known = {rival: each for rival, each in found.items() if each is not None}
            verdicts: list[Verdict] = [each.verdict for each in known.values()]
            outcomes[outcome(verdicts)] += 1
            if n == ABLATION_N and known:
                closest = min(known, key=lambda rival: known[rival].interval.value)
                words = f"SHEAR's accuracy less {label_of(closest)}'s, as fast"
                words += f" ({READING_NAMES[reading]})"
                number = Number(known[closest].interval, words, "+.3f")
        yield Evidence(READING_NAMES[reading], outcomes, number)


def _at_throughput(
    networks: Networks, n: int, rival: str, numbers: Ints, rates: Floats, speed: float
) -> Comparison | None:
    """Return SHEAR at n beside the best that a rival does at this speed, None if it cannot."""
    as_fast = [int(each) for each in numbers[rates[:, 1] >= speed]]
    if not as_fast:
        return None
    metric = "ranking_accuracy"
    best = max(as_fast, key=lambda each: networks.mean(rival, each, metric).mean)
    return compare(networks, "shear", rival, n, metric, rival_n=best)


def slower_with_more(networks: Networks) -> Iterator[Evidence]:
    """Judge whether SHEAR's throughput falls from each N to the next: tenths must not overlap."""
    for way in timed_ways(networks):
        numbers, tenths = speeds(networks.records["timings"], way, "shear")
        outcomes: Counter[Outcome] = Counter()
        for (_, _, fastest), (slowest, _, _) in zip(tenths[1:], tenths[:-1], strict=True):
            outcomes["holds" if fastest < slowest else "open"] += 1
        change = Interval(float(tenths[-1, 1] / tenths[0, 1]))
        words = f"of the rows a second at N = {numbers[0]} are left at N = {numbers[-1]} ({way})"
        yield Evidence(way, outcomes, Number(change, words, ".0%"))


def cost_model(networks: Networks) -> Iterator[Evidence]:
    """Judge whether M (t_backward + N t_forward) explains SHEAR's time, up to a third."""
    for way in timed_ways(networks):
        shares = explained_shares(networks.records["timings"], way)
        outcomes = kept(0.75 <= share <= 1.33 for share in shares.values())
        words = f"of SHEAR's time at N = {ABLATION_N} ({way})"
        yield Evidence(way, outcomes, Number(Interval(shares[ABLATION_N]), words, ".0%"))


def explained_shares(timings: pa.Table, way: str) -> dict[int, float]:
    """Return the part of SHEAR's measured time that derivatives and forward passes take, by N."""
    numbers, own = speeds(timings, way, "shear")
    _, derivatives = speeds(timings, way, "derivatives")
    _, forward = speeds(timings, way, "forward")
    parts = 1 / derivatives[0, 1] + 1 / forward[:, 1]
    return dict(zip(numbers.tolist(), (parts * own[:, 1]).tolist(), strict=True))


# Cooperators: Figures 4 e and f


def falling_correlation(networks: Networks) -> Iterator[Evidence]:
    """Judge whether errors fall as the cross-contribution of random cooperators rises.

    Three readings of Figure 4 e: over all features, within a feature of a row, and for each feature
    across rows.
    """
    random = random_cooperators(networks)
    if not len(random):
        return
    together = correlation(random)
    yield _correlated("all features", [together], together)
    within = within_correlation(random)
    yield _correlated("within a feature of a row", [within], within)
    by_feature = list(feature_correlations(random).values())
    middle = sorted(by_feature, key=lambda each: each.value)[len(by_feature) // 2]
    yield _correlated("one feature across rows", by_feature, middle)


def _correlated(reading: str, every: Sequence[Interval], shown: Interval) -> Evidence:
    outcomes: Counter[Outcome] = Counter(
        outcome([judged_difference(Interval(-each.value, -each.high, -each.low))]) for each in every
    )
    return Evidence(reading, outcomes, Number(shown, f"rank correlation, {reading}", "+.2f"))


def correlation(random: pa.Table) -> Interval:
    """Return the rank correlation of error and cross-contribution over features, rows, draws."""
    names = ("cross_contribution", "error", "seed", "row")
    return rank_correlation(*(column(random, name) for name in names))


def feature_correlations(random: pa.Table) -> dict[int, Interval]:
    """Return the rank correlation across rows of each feature."""
    players = sorted(values_of(random, "player"))
    return {player: correlation(where(random, player=player)) for player in players}


def within_correlation(random: pa.Table) -> Interval:
    """Return the rank correlation over the draws of one feature of one row, a mean over all."""
    names = ("draw", "player", "row", "seed")
    order = np.lexsort([column(random, name) for name in names])
    draws = len(values_of(random, "draw"))
    ranks = [
        column(random, name)[order].reshape(-1, draws).argsort(axis=1).argsort(axis=1)
        for name in ("cross_contribution", "error")
    ]
    centred = [rank - (draws - 1) / 2 for rank in ranks]
    # ranks 0 ... d - 1 have the variance (d^2 - 1) / 12
    correlations = (centred[0] * centred[1]).mean(axis=1) * 12 / max(draws**2 - 1, 1)
    seeds, rows = (column(random, name)[order][::draws] for name in ("seed", "row"))
    return row_mean(correlations, seeds, rows).interval().within(-1, 1)


def lower_bound(networks: Networks) -> Iterator[Evidence]:
    """Judge whether errors among SHEAR's cooperators are the least there are, at each N."""
    records = where(networks.records["cooperators"], draw=0)
    ratios = selection_ratios(records)
    if not ratios:
        return
    outcomes = Counter(outcome([judged_ratio(each)]) for each in ratios.values())
    shown = ratios.get(ABLATION_N, next(iter(ratios.values())))
    words = "SHEAR's error over that of random choices"
    yield Evidence("than the mean random choice", outcomes, Number(shown, words))

    share = better_choices(where(records, n=ABLATION_N))
    rare = share.high <= MAX_BETTER
    frequent = share.low > MAX_BETTER
    least: Counter[Outcome] = Counter(["holds" if rare else "fails" if frequent else "open"])
    words = "of random choices do better"
    yield Evidence("than every random choice", least, Number(share, words, ".1%"))


def selection_ratios(records: pa.Table) -> dict[int, Interval]:
    """Return the mean error among SHEAR's cooperators over that among random ones, by N.

    An N at which all features are cooperators, so that nothing is lost, is left out.
    """
    ratios = {}
    for n in sorted(values_of(records, "n")):
        own, random = (_selected(records, n, name, "error") for name in ("shear", "random"))
        if max(own.mean, random.mean) > 1e-6:
            ratios[n] = ratio(own, random)
    return ratios


def better_choices(records: pa.Table) -> Interval:
    """Return the fraction of random choices with a smaller error than SHEAR's."""
    order = [("seed", "ascending"), ("row", "ascending")]
    own = where(records, selection="shear").sort_by(order)
    random = where(records, selection="random").sort_by(order)
    better = (column(random, "error") < column(own, "error")).astype(np.float64)
    return share_of(own, better)


def mean_of(records: pa.Table, values: Floats) -> Estimate:
    """Return the mean over networks and rows of values (n,), one for each record."""
    return row_mean(values, column(records, "seed"), column(records, "row"))


def share_of(records: pa.Table, is_so: Floats) -> Interval:
    """Return the fraction of records of which something is so, (n,) of 0 and 1."""
    return mean_of(records, is_so).interval().within(0, 1)


def bound_ratio(networks: Networks, n: int, first: str, second: str, name: str) -> Interval:
    """Return the mean of Remark 2's bound, or error, of one selection over another's at n."""
    records = networks.records["selection_bound"]
    return ratio(_selected(records, n, first, name), _selected(records, n, second, name))


def _selected(records: pa.Table, n: int, selection: str, name: str) -> Estimate:
    """Return the mean of a column at n, of one selection of cooperators."""
    own = where(records, n=n, selection=selection)
    return mean_of(own, column(own, name))
