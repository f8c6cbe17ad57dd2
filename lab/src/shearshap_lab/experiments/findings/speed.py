"""Claims about speed: accuracy at a throughput, and the cost model."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from shearshap.result.explanation import Floats
from shearshap_lab.comparisons import Verdict
from shearshap_lab.experiments import bootstrap
from shearshap_lab.experiments.bootstrap import Interval
from shearshap_lab.experiments.findings.comparing import rivals_of
from shearshap_lab.experiments.findings.finding import (
    READING_NAMES,
    Finding,
    Number,
    Reading,
    counted,
    leading,
    reading,
)
from shearshap_lab.experiments.records import column, where
from shearshap_lab.experiments.spec import ABLATED
from shearshap_lab.experiments.studies import DERIVATIVES, FORWARD
from shearshap_lab.experiments.style import label_of
from shearshap_lab.experiments.summaries import Networks, speeds, timed_ways, values_of

TOLERANCE = 1.3  #: by how many times a measured time may differ from the cost model
WAY_WORDS = {
    "one by one": "one row at a time",
    "batch": "all rows in one call",
}


# Accuracy at a throughput


def fastest(every: Sequence[Networks], way: str) -> Finding | None:
    """Compare SHEAR's ranking with that of the baselines at its own throughput."""
    able = [each for each in every if len(where(each.records["timings"], way=way, method="shear"))]
    readings = []
    for networks in able:
        for protocol, rivals in rivals_of(networks).items():
            found = [each for rival in rivals for each in _rivals_as_fast(networks, rival, way)]
            counts = counted(verdict for _, _, verdict in found)
            number = _closest(networks, rivals, way, READING_NAMES[protocol])
            readings.append(reading(networks, READING_NAMES[protocol], counts, number))
    if not readings:
        return None
    own = leading(able)
    last = [each for each in readings if (each.dataset, each.recipe) == (own.dataset, own.recipe)]
    return Finding(
        f"SHEAR ranks best at any throughput, {WAY_WORDS[way]}",
        "N x baselines",
        tuple(readings),
        last[-1].number,
        _share(own, way),
        brief=way == "one by one",
        notes=(
            "For each N of SHEAR, a baseline is taken at the N at which it ranks best among those "
            "at which it is at least as fast, by medians of all timings. SHEAR wins where there is "
            "none.",
        ),
    )


one_by_one = partial(fastest, way="one by one")
in_batches = partial(fastest, way="batch")


def _rivals_as_fast(
    networks: Networks, rival: str, way: str
) -> list[tuple[int, Interval | None, Verdict]]:
    """Return, at each N of SHEAR, how its accuracy compares with a rival's that is as fast."""
    timings = where(networks.records["timings"], way=way)
    numbers, own = speeds(where(timings, method="shear"))
    rival_numbers, theirs = speeds(where(timings, method=rival))
    found: list[tuple[int, Interval | None, Verdict]] = []
    for n, speed in zip(numbers.tolist(), own, strict=True):
        if not len(rival_numbers):
            continue  # it was not timed in this way
        as_fast = rival_numbers[theirs >= speed].tolist()
        found.append((n, *_at_throughput(networks, n, rival, as_fast)))
    return found


def _at_throughput(
    networks: Networks, n: int, rival: str, as_fast: Sequence[int]
) -> tuple[Interval | None, Verdict]:
    if not as_fast:
        return None, "win"
    metric = "ranking_accuracy"
    best = max((networks.resampled.mean(rival, each, metric) for each in as_fast),
               key=lambda each: each.mean)  # fmt: skip
    interval = bootstrap.difference(networks.resampled.mean("shear", n, metric), best)
    return interval, bootstrap.judged_difference(interval)


def _closest(networks: Networks, rivals: Sequence[str], way: str, name: str) -> Number:
    """Return SHEAR's accuracy at N = 16 less that of the best baseline that is as fast."""
    found: dict[str, Interval] = {}
    for rival in rivals:
        for n, interval, _ in _rivals_as_fast(networks, rival, way):
            if n == ABLATED and interval is not None:
                found[rival] = interval
    if not found:
        return Number(bootstrap.NOTHING, f"no baseline is as fast ({name})", "+.3f")
    best = min(found, key=lambda rival: found[rival].value)
    words = f"SHEAR's accuracy less {label_of(best)}'s, as fast ({name})"
    return Number(found[best], words, "+.3f")


def _share(networks: Networks, way: str) -> str:
    """Return how much of SHEAR's time its derivatives take."""
    timings = where(networks.records["timings"], way=way)
    seconds = _seconds(timings, "shear", ABLATED)
    derivatives = _seconds(timings, DERIVATIVES, 0)
    part = float(np.median(derivatives) / np.median(seconds))
    return (
        f"Derivatives, which the authors' timings leave out, take {part:.0%} of SHEAR's time at "
        f"N = {ABLATED}."
    )


# The cost model


def cost_model(every: Sequence[Networks]) -> Finding | None:
    """Compare SHEAR's measured time with the cost model."""
    by_dataset = {each.dataset: each for each in every if len(each.records["timings"])}
    readings: list[Reading] = []
    for networks in by_dataset.values():
        timings = networks.records["timings"]
        for way in timed_ways(timings):
            ratios = cost_ratios(where(timings, way=way))
            verdicts = [
                bootstrap.judged_within(each, 1 / TOLERANCE, TOLERANCE) for each in ratios.values()
            ]
            words = f"measured time over the model's ({way})"
            number = Number(ratios[ABLATED], words)
            readings.append(Reading(way, networks.dataset, "ours", counted(verdicts), number))
    if not readings:
        return None
    networks = next(iter(by_dataset.values()))
    first = networks.records["models"].to_pylist()[0]
    features = first["continuous"] + first["categorical"]
    shear = where(networks.records["estimates"], method="shear")
    passes = int(column(shear, "derivative_passes").max())
    return Finding(
        "SHEAR takes M times (t_backward + N t_forward)",
        f"N; measured within {TOLERANCE} times",
        tuple(readings),
        readings[0].number,
        f"{passes} derivative passes for {features} features; selecting takes time too.",
        brief=False,
    )


def cost_ratios(timings: pa.Table) -> dict[int, Interval]:
    """Return SHEAR's measured time over the model's by N, with an interval over the repeats."""
    return {
        n: _cost_ratio(timings, n) for n in sorted(values_of(where(timings, method="shear"), "n"))
    }


def _cost_ratio(timings: pa.Table, n: int) -> Interval:
    parts = [
        _seconds(timings, "shear", n),
        _seconds(timings, DERIVATIVES, 0),
        _seconds(timings, FORWARD, n),
    ]
    repeats = min(len(part) for part in parts)
    rng = np.random.default_rng(bootstrap.SEED)
    places = rng.integers(repeats, size=(bootstrap.REPLICATES, repeats))
    drawn = [np.median(part[places], axis=1) for part in parts]
    ratios = drawn[0] / (drawn[1] + drawn[2])
    own = [float(np.median(part)) for part in parts]
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist()
    return Interval(own[0] / (own[1] + own[2]), low, high)


def _seconds(timings: pa.Table, method: str, n: int) -> Floats:
    """Return the seconds for one row of a method at n, by round."""
    own = where(timings, method=method, n=n).sort_by("round")
    return np.asarray(column(own, "seconds") / column(own, "rows"))
