"""What the paper claims (claims.csv), and what the records show.

A claim is counted in *cases*, which are those of the paper: a data set and N, in each of which
SHEAR has to be better than all other methods. Cases are counted under each reading of the paper;
networks by the authors' recipe decide, if there are any.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy.stats import spearmanr

from shearshap_lab.experiments.evidence import (
    READING_NAMES,
    Evidence,
    Judge,
    Number,
    Outcome,
    ablation,
    best_at_throughput,
    best_of_all,
    better_with_fewer,
    better_with_more,
    bound_ratio,
    compare_deviations,
    cost_model,
    falling_correlation,
    kept,
    lower_bound,
    outcome,
    share_of,
    slower_with_more,
)
from shearshap_lab.experiments.results import (
    METRICS,
    Networks,
    every_network,
    leading,
    published_curve,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, Records
from shearshap_lab.runner import column, values_of, where
from shearshap_lab.statistics import Floats, Interval, judged_ratio, row_mean, student_width

Word = Literal["Holds", "Holds only as the authors ran it", "Open", "Fails"]

NEGLIGIBLE = 1e-9  #: a loss or a bound that is rounding alone
SMALL_REMAINDER = 0.1  #: the part of a row's losses that a negligible remainder may be
PRINTED = 0.005  #: half of the last of the two decimals that the paper prints
TOP_FEATURES = {"education", "marital-status", "occupation"}  #: of the row that it illustrates
NEAR = 0.25  #: how far our mean error may be from a released one that it reproduces
ALIKE = 0.8  #: the rank correlation above which two metrics rank the methods alike


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and how it is judged."""

    name: str
    section: str  #: of the paper
    says: str
    cases: str  #: what is counted, for each data set
    quantifier: str  #: "most cases", or "every case": then one in which it fails refutes it
    judge: Judge


@dataclass(frozen=True)
class Finding:
    """A claim, and what the records say of it."""

    claim: Claim
    evidence: tuple[Evidence, ...]
    recipe: str  #: whose networks decide
    number: Number

    def counts(self, recipe: str) -> dict[str, Counter[Outcome]]:
        """Return the outcomes of each reading over all data sets, on networks of a recipe."""
        sums: dict[str, Counter[Outcome]] = {}
        for each in self.evidence:
            if each.recipe == recipe:
                sums.setdefault(each.reading, Counter()).update(each.outcomes)
        return sums

    @property
    def verdict(self) -> Word:
        """Whether it holds in most cases: against fair baselines, or else as the authors ran it."""
        words = {
            reading: _word(outcomes, every=self.claim.quantifier == "every case")
            for reading, outcomes in self.counts(self.recipe).items()
        }
        fair = words.get(READING_NAMES["fair"])
        if fair is None:
            least = [word for word in ("Fails", "Open", "Holds") if word in words.values()]
            return least[0] if least else "Open"  # type: ignore[return-value]
        if fair != "Holds" and words[READING_NAMES["authors"]] == "Holds":
            return "Holds only as the authors ran it"
        return fair


def _word(outcomes: Counter[Outcome], *, every: bool) -> Literal["Holds", "Open", "Fails"]:
    """Return what most of the cases say; of a claim about every case, one may refute it."""
    total = outcomes.total()
    if (every and outcomes["fails"]) or outcomes["fails"] > total / 2:
        return "Fails"
    return "Holds" if outcomes["holds"] > total / 2 else "Open"


def findings(records: Records) -> dict[str, Finding]:
    """Return every finding that the records allow, by the name of its claim."""
    every = every_network(records)
    found = {}
    for claim in CLAIMS:
        evidence = tuple(
            replace(each, dataset=networks.dataset, recipe=networks.recipe)
            for networks in every
            for each in claim.judge(networks)
        )
        if evidence:
            found[claim.name] = _finding(claim, evidence, every)
    return found


def _finding(claim: Claim, evidence: tuple[Evidence, ...], every: Sequence[Networks]) -> Finding:
    judged = {each.recipe for each in evidence}
    recipe = leading([networks for networks in every if networks.recipe in judged]).recipe
    own = [each for each in evidence if each.recipe == recipe]
    # the fair reading comes last, and others lead with the most important one
    first = own[0].dataset
    of_first = [each for each in own if each.dataset == first]
    fair = [each for each in of_first if each.reading == READING_NAMES["fair"]]
    return Finding(claim, evidence, recipe, (fair or of_first)[0].number)


# The theory


def theorem_1(networks: Networks) -> Iterator[Evidence]:
    """Judge, row by row, whether the chain rule leaves a small part of the losses."""
    pairs = networks.records["pairs"]
    if not len(pairs):
        return
    losses = column(pairs, "loss")
    remainders = losses - column(pairs, "chain")
    keys = np.column_stack([column(pairs, "seed"), column(pairs, "row")])
    rows, place = np.unique(keys, axis=0, return_inverse=True)
    total = np.bincount(place.ravel(), abs(losses))
    parts = np.bincount(place.ravel(), abs(remainders)) / np.maximum(total, NEGLIGIBLE)
    mean = row_mean(parts, rows[:, 0], rows[:, 1]).positive_interval()
    outcomes = kept((parts <= SMALL_REMAINDER).tolist())
    yield Evidence("as printed", outcomes, Number(mean, "of a row's losses remain", ".1%"))


def theorem_2(networks: Networks) -> Iterator[Evidence]:
    """Judge, pair by pair, whether the loss of a value keeps to its bound."""
    pairs = networks.records["pairs"]
    for name, reading in (("printed", "as printed"), ("sure", "by differences")):
        if len(pairs):
            beyond = _beyond(abs(column(pairs, "loss")), column(pairs, name))
            outcomes = kept((beyond == 0).tolist())
            words = f"of pairs exceed the bound {reading}"
            yield Evidence(reading, outcomes, Number(share_of(pairs, beyond), words, ".1%"))


def _beyond(numbers: Floats, bounds: Floats) -> Floats:
    """Return which numbers exceed their bounds by more than rounding: 1 or 0."""
    return np.asarray(numbers > bounds * (1 + 1e-4) + NEGLIGIBLE, dtype=np.float64)


def remark_2(networks: Networks) -> Iterator[Evidence]:
    """Judge whether SHEAR's selection makes Remark 2's bound smaller than random ones do, by N."""
    records = networks.records["selection_bound"]
    if not len(records):
        return
    ratios = {
        n: bound_ratio(networks, n, "shear", "random", "bound") for n in values_of(records, "n")
    }
    outcomes = Counter(outcome([judged_ratio(each)]) for each in ratios.values())
    words = "SHEAR's bound over that of random choices"
    yield Evidence("than random choices", outcomes, Number(ratios[ABLATION_N], words))


# One row


def efficiency(networks: Networks) -> Iterator[Evidence]:
    """Judge, network by network, whether a row's values add up at the paper's two decimals."""
    gaps = []
    for features in _illustrated_rows(networks):
        total = features[0]["prediction"] - features[0]["base_value"]
        gaps.append(abs(total - sum(feature["shear"] for feature in features)))
    if gaps:
        outcomes = kept(gap < PRINTED for gap in gaps)
        words = "is the largest difference between the sum and what it should be"
        yield Evidence("two decimals", outcomes, Number(Interval(max(gaps)), words, ".4f"))


def illustrated_row(networks: Networks) -> Iterator[Evidence]:
    """Judge, network by network, what the paper says of its row of census."""
    rows = _illustrated_rows(networks)
    if networks.dataset != "census" or not rows:
        return
    base = [features[0]["base_value"] < 0 for features in rows]
    largest = [
        {each["feature"] for each in sorted(features, key=lambda each: -each["exact"])[:3]}
        for features in rows
    ]
    top = [features == TOP_FEATURES for features in largest]
    men = [each for features in rows for each in features if each["value"] == "Male"]
    sex = [each["exact"] > 0 for each in men]
    for reading, found in (
        ("the base value is negative", base),
        ("education, marital-status and occupation are largest", top),
        ("sex = Male is positive", sex),
    ):
        if found:
            number = Number(Interval(sum(found)), f"of {len(found)} networks: {reading}", ".0f")
            yield Evidence(reading, kept(found), number)


def _illustrated_rows(networks: Networks) -> list[list[dict[str, Any]]]:
    illustration = networks.records["illustration"]
    return [where(illustration, seed=seed).to_pylist() for seed in values_of(illustration, "seed")]


# Released numbers, and the four metrics


def released_errors(networks: Networks) -> Iterator[Evidence]:
    """Judge, N by N, whether our networks' errors of SHEAR are those that the authors released.

    They are if the mean is near, and chance is not excluded; they are not if Student's interval of
    one more network leaves the released error out.
    """
    method = "shear-authors" if networks.n("shear-authors") else "shear"
    published = published_curve(networks.dataset, method, "ae_mean")
    outcomes: Counter[Outcome] = Counter()
    number = Number(Interval(float("nan")))
    for n in networks.n(method):
        if n not in published:
            continue
        errors = networks.mean(method, n, "absolute_error").by_cluster
        logs = np.log(np.maximum(errors, NEGLIGIBLE) / published[n])
        width = student_width(logs)
        mean = float(logs.mean())
        near = abs(mean) <= np.log(1 + NEAR)
        # one more network varies by 1 + 1 / s of the variance, a mean of s by 1 / s
        possible = len(logs) < 2 or abs(mean) <= width * np.sqrt(1 + len(logs))
        outcomes["holds" if near and possible else "open" if possible else "fails"] += 1
        if n == ABLATION_N:
            ends = (mean - width, mean + width) if width else (np.nan, np.nan)
            interval = Interval(mean, *ends).exp()
            number = Number(interval, "SHEAR's error over the released one")
    if outcomes:
        yield Evidence("not rescaled", outcomes, number)


def metrics_agree(networks: Networks) -> Iterator[Evidence]:
    """Judge, for each two metrics, whether they rank the methods alike, on average over N.

    Faithfulness and monotonicity hardly tell the methods apart, so that a low correlation is no
    sign of disagreement: it leaves the claim open.
    """
    for reading in READINGS:
        methods = ["shear", *networks.rivals(reading)]
        means = {
            metric: np.array(
                [[networks.mean(each, n, metric).mean for each in methods] for n in networks.n()]
            )
            for metric in METRICS
        }
        means["absolute_error"] = -means["absolute_error"]
        found = {}
        for first, second in combinations(METRICS, 2):
            pairs = zip(means[first], means[second], strict=True)
            both = [float(spearmanr(a, b).statistic) for a, b in pairs if np.ptp(a) and np.ptp(b)]
            found[f"{METRICS[first]} and {METRICS[second]}"] = float(np.mean(both or [0.0]))
        alike = sum(each >= ALIKE for each in found.values())
        outcomes: Counter[Outcome] = Counter()
        outcomes["holds"] = alike
        outcomes["open"] = len(found) - alike
        lowest = min(found, key=found.__getitem__)
        words = f"rank correlation of {lowest} ({READING_NAMES[reading]})"
        number = Number(Interval(found[lowest]), words, "+.2f")
        yield Evidence(READING_NAMES[reading], outcomes, number)


JUDGES: dict[str, Judge] = {
    "least_error": best_of_all("absolute_error"),
    "best_ranking": best_of_all("ranking_accuracy"),
    "win_win": better_with_fewer,
    "more_evaluations": better_with_more("absolute_error", "ranking_accuracy"),
    "steadiest": best_of_all("absolute_error", compare_deviations),
    "released_error": released_errors,
    "faithfulness": best_of_all("faithfulness"),
    "monotonicity": best_of_all("monotonicity"),
    "more_faithful": better_with_more("faithfulness", "monotonicity"),
    "consistent": metrics_agree,
    "slower": slower_with_more,
    "throughput": best_at_throughput,
    "cost_model": cost_model,
    "without_as": ablation(
        {"V unpaired": ("shear", "shear-unpaired"), "V empty": ("shear", "shear-empty")}
    ),
    "without_ccs": ablation({"V paired": ("shear", "shear-without-ccs")}),
    "ccs_dominates": ablation(
        {
            "V unpaired": ("shear-unpaired", "shear-without-ccs"),
            "V empty": ("shear-empty", "shear-without-ccs"),
        }
    ),
    "cross_contribution": falling_correlation,
    "lower_bound": lower_bound,
    "theorem_1": theorem_1,
    "theorem_2": theorem_2,
    "remark_2": remark_2,
    "efficiency": efficiency,
    "illustration": illustrated_row,
}
"""How each claim of claims.csv is judged, by its name."""


def _claims() -> Iterator[Claim]:
    text = (files("shearshap_lab.experiments") / "claims.csv").read_text()
    for row in csv.DictReader(text.splitlines()):
        yield Claim(**row, judge=JUDGES[row["name"]])


CLAIMS = tuple(_claims())
"""Every claim that is judged, in the order of the report."""
