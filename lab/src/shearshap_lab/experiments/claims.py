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

from shearshap.result.text import counted
from shearshap_lab import theory
from shearshap_lab.experiments.evidence import (
    READING_NAMES,
    Evidence,
    Judge,
    Number,
    Outcome,
    ablation,
    best_of_all,
    better_with_fewer,
    better_with_more,
    both,
    compare_deviations,
    compare_spreads,
    cost_model,
    drops_to_zero,
    falling_correlation,
    kept,
    lower_bound,
    one_regression,
    slower_with_more,
    trade_off,
)
from shearshap_lab.experiments.results import (
    METRICS,
    Networks,
    bound_ratio,
    every_network,
    leading,
    published_curve,
    share_of,
)
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, Records
from shearshap_lab.runner import column, values_of, where
from shearshap_lab.statistics import (
    Floats,
    Interval,
    count_interval,
    mean_over,
    row_mean,
)

Word = Literal["Holds", "Holds only as the authors ran it", "Open", "Fails"]

NEGLIGIBLE = 1e-9  #: a loss or a bound that is rounding alone
KEPT = {"pairs": 1e-3, "selection_bound": 1e-2}  #: how far records are rounded
SMALL_REMAINDER = 0.1  #: the part of a row's losses that a negligible remainder may be
NEAR_LEAST = 1.05  #: SHEAR's bound over the least there is, if the selection is nearly optimal
TOP_FEATURES = {"education", "marital-status", "occupation"}  #: of the row that it illustrates
NEAR = 0.25  #: how far our mean error may be from a released one that it reproduces
ALIKE = 0.8  #: the rank correlation above which two metrics rank the methods alike


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and how it is judged."""

    name: str
    section: str  #: of the paper
    title: str  #: in a few words
    quote: str  #: the paper's own sentence
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
            if each.recipe == recipe and each.decides:
                sums.setdefault(each.reading, Counter()).update(each.outcomes)
        return sums

    def words(self, recipe: str) -> dict[str, Literal["Holds", "Open", "Fails"]]:
        """Return the verdict of each reading on networks of a recipe."""
        every = self.claim.quantifier == "every case"
        return {name: _word(found, every=every) for name, found in self.counts(recipe).items()}

    @property
    def verdict(self) -> Word:
        """Whether it holds on the networks that decide."""
        return self.verdict_on(self.recipe)

    def verdict_on(self, recipe: str) -> Word:
        """Whether it holds in most cases: against fair baselines, or else as the authors ran it."""
        words = self.words(recipe)
        fair = words.get(READING_NAMES["fair"])
        if fair is None:
            least = [word for word in ("Fails", "Open", "Holds") if word in words.values()]
            return least[0] if least else "Open"  # type: ignore[return-value]
        if fair != "Holds" and words[READING_NAMES["authors"]] == "Holds":
            return "Holds only as the authors ran it"
        return fair


def _word(outcomes: Counter[Outcome], *, every: bool) -> Literal["Holds", "Open", "Fails"]:
    """Return what most of the cases say; of a claim about every case, one may refute it.

    To be equal is not to be better: such a case counts against the claim.
    """
    total = outcomes.total()
    against = outcomes["fails"] + outcomes["equal"]
    if (every and against) or against > total / 2:
        return "Fails"
    return "Holds" if outcomes["holds"] > total / 2 else "Open"


def findings(records: Records, *names: str) -> dict[str, Finding]:
    """Return every finding that the records allow, or some, by the name of its claim."""
    every = every_network(records)
    found = {}
    for claim in [each for each in CLAIMS if not names or each.name in names]:
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
    """Judge whether the chain rule leaves a small part of a row's losses, on average."""
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
    unclear = not mean.known or mean.low <= SMALL_REMAINDER < mean.high
    outcomes: Counter[Outcome] = Counter(
        ["open" if unclear else "holds" if mean.value <= SMALL_REMAINDER else "fails"]
    )
    sentence = f"{{}} of a row's losses remain, a mean over {counted(len(rows), 'row')}"
    yield Evidence("as printed", outcomes, Number(mean, sentence, ".1%"))


def remark_1(networks: Networks) -> Iterator[Evidence]:
    """Judge whether a feature less halves the coalitions of a value, of two features or more."""
    players = len(values_of(networks.records["illustration"], "feature"))
    sizes = range(1, players)
    halves = [2 * theory.coalitions_needed(k - 1) == theory.coalitions_needed(k) for k in sizes]
    if halves:
        share = Interval(float(np.mean(halves)))  # counted, not estimated: there is no interval
        sentence = f"{{}} of the steps from {players} features down to 1 halve the coalitions"
        yield Evidence("by counting", kept(halves), Number(share, sentence, ".0%"))


def theorem_2(networks: Networks) -> Iterator[Evidence]:
    """Judge, pair by pair, whether the loss of a value keeps to its bound."""
    pairs = networks.records["pairs"]
    for name, reading in (("printed", "as printed"), ("sure", "by differences")):
        if len(pairs):
            beyond = _beyond(abs(column(pairs, "loss")), column(pairs, name), KEPT["pairs"])
            sentence = f"{{}} of pairs exceed the bound {reading}"
            number = Number(share_of(pairs, beyond), sentence, ".1%")
            yield Evidence(reading, kept((beyond == 0).tolist()), number, name == "printed")


def _beyond(numbers: Floats, bounds: Floats, rounding: float) -> Floats:
    """Return which numbers exceed their bounds by more than rounding: 1 or 0."""
    return np.asarray(numbers > bounds * (1 + rounding) + NEGLIGIBLE, dtype=np.float64)


def remark_2(networks: Networks) -> Iterator[Evidence]:
    """Judge whether the error keeps to Remark 2's bound, and SHEAR's bound is nearly the least."""
    records = networks.records["selection_bound"]
    if not len(records):
        return
    ratios = {
        n: bound_ratio(networks, n, "shear", "bound", "bound") for n in values_of(records, "n")
    }
    known = {n: each for n, each in ratios.items() if np.isfinite(each.value)}
    outcomes = kept(each.value <= NEAR_LEAST for each in known.values())
    sentence = "SHEAR's bound is {} times the least there is"
    yield Evidence("nearly optimal", outcomes, Number(ratios[ABLATION_N], sentence, ".3f"))

    beyond = _beyond(column(records, "error"), column(records, "bound"), KEPT["selection_bound"])
    number = Number(share_of(records, beyond), "{} of errors exceed the bound", ".1%")
    yield Evidence("it is a bound", kept((beyond == 0).tolist()), number, decides=False)


# One row


def efficiency(networks: Networks) -> Iterator[Evidence]:
    """Judge, network by network, whether a row's values add up at the paper's two decimals."""
    rows = _illustrated_rows(networks)
    if networks.dataset != "census" or not rows:
        return
    totals = [features[0]["prediction"] - features[0]["base_value"] for features in rows]
    sums = [sum(feature["shear"] for feature in features) for features in rows]
    agree = [round(a, 2) == round(b, 2) for a, b in zip(totals, sums, strict=True)]
    gaps = np.abs(np.subtract(totals, sums))
    sentence = (
        "SHEAR's values miss the sum by {}, a mean over networks; the two decimals agree in "
        f"{sum(agree)} of {len(agree)}"
    )
    number = Number(mean_over(gaps[:, None]).positive_interval(), sentence, ".4f")
    yield Evidence("two decimals", kept(agree), number)


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
        ("the same three features are on top", top),
        ("the base value is negative", base),
        ("sex = Male is positive", sex),
    ):
        if found:
            share = count_interval(sum(found), len(found))
            sentence = f"in {{}} of networks ({sum(found)} of {len(found)}) {reading}"
            yield Evidence(reading, kept(found), Number(share, sentence, ".0%"))


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
        of_networks = mean_over(logs[:, None]).interval()
        mean = of_networks.value
        near = abs(mean) <= np.log(1 + NEAR)
        # one more network varies by 1 + 1 / s of the variance, a mean of s by 1 / s
        width = (of_networks.high - mean) * np.sqrt(1 + len(logs))
        possible = not of_networks.known or abs(mean) <= width
        outcomes["holds" if near and possible else "open" if possible else "fails"] += 1
        if n == ABLATION_N:
            sentence = "SHEAR's error is {} times the released one"
            number = Number(of_networks.map(np.exp), sentence)
    if outcomes:
        yield Evidence("not rescaled", outcomes, number)


def metrics_agree(networks: Networks) -> Iterator[Evidence]:
    """Judge, for each two metrics, whether they rank the methods alike, on average over N.

    Noise makes two orders of six methods less alike than they are, above all by faithfulness and
    monotonicity, which hardly tell the methods apart: a low correlation leaves the claim open.
    """
    for reading in READINGS:
        found = {
            f"{METRICS[first]} and {METRICS[second]}": _agreement(networks, reading, first, second)
            for first, second in combinations(METRICS, 2)
        }
        alike = sum(each.value >= ALIKE for each in found.values())
        outcomes: Counter[Outcome] = Counter({"holds": alike, "open": len(found) - alike})
        lowest = min(found, key=lambda pair: found[pair].value)
        sentence = f"the rank correlation of {lowest} is {{}} ({READING_NAMES[reading]})"
        number = Number(found[lowest], sentence, "+.2f")
        yield Evidence(READING_NAMES[reading], outcomes, number)


def _agreement(networks: Networks, reading: Any, first: str, second: str) -> Interval:
    """Return how alike two metrics rank the methods: a mean over N, its interval over networks."""
    methods = ["shear", *networks.rivals(reading)]
    by_network = np.zeros(networks.count)
    for n in networks.n():
        scores = [
            np.stack([networks.mean(each, n, metric).by_cluster for each in methods], axis=1)
            * (-1 if metric == "absolute_error" else 1)
            for metric in (first, second)
        ]
        for number, (a, b) in enumerate(zip(*scores, strict=True)):
            differ = np.ptp(a) > 0 and np.ptp(b) > 0
            by_network[number] += spearmanr(a, b).statistic if differ else 0.0
    by_network /= len(networks.n())
    return mean_over(by_network[:, None]).bounded_interval(-1, 1)


JUDGES: dict[str, Judge] = {
    "theorem_1": theorem_1,
    "remark_1": remark_1,
    "theorem_2": theorem_2,
    "remark_2": remark_2,
    "cost_model": cost_model,
    "error_falls": better_with_more("absolute_error"),
    "ranking_rises": better_with_more("ranking_accuracy"),
    "least_error": best_of_all("absolute_error"),
    "best_ranking": best_of_all("ranking_accuracy"),
    "win_win": better_with_fewer,
    "steadiest": both(
        best_of_all("absolute_error", "ranking_accuracy", by=compare_deviations),
        best_of_all("absolute_error", "ranking_accuracy", by=compare_spreads, decides=False),
    ),
    "more_faithful": better_with_more("faithfulness", "monotonicity"),
    "faithful": best_of_all("faithfulness", "monotonicity"),
    "few_faithful": best_of_all("faithfulness", "monotonicity", fewest=True),
    "consistent": metrics_agree,
    "slower": slower_with_more,
    "throughput": trade_off(control="throughput"),
    "fastest": trade_off(control="accuracy"),
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
    "drops": drops_to_zero,
    "lower_bound": lower_bound,
    "efficiency": efficiency,
    "illustration": illustrated_row,
    "one_regression": one_regression,
    "released_error": released_errors,
}
"""How each claim of claims.csv is judged, by its name."""


def _claims() -> Iterator[Claim]:
    text = (files("shearshap_lab.experiments") / "claims.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        yield Claim(**row, judge=JUDGES[row["name"]])


CLAIMS = tuple(_claims())
"""Every claim that is judged, in the order of the paper."""
