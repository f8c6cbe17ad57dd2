"""The summary of the reproduction and what is beyond the paper, in Markdown, from findings."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shearshap_lab.experiments.claims import Finding
from shearshap_lab.experiments.evidence import (
    BATCH,
    READING_NAMES,
    Number,
    Outcome,
    compare,
)
from shearshap_lab.experiments.results import (
    RECIPE_WORDS,
    Networks,
    label_of,
    leading,
    listed,
)
from shearshap_lab.experiments.spec import ABLATION_N, baselines
from shearshap_lab.markdown import plain_table
from shearshap_lab.runner import column
from shearshap_lab.statistics import RATIO_MARGIN, SCORE_MARGIN

TITLE = "The paper, reproduced"
RECIPES = {"authors": "the authors' recipe", "ours": "our recipe"}
PAPER = '"Accelerating Shapley Explanation via Contributive Cooperator Selection" (ICML 2022)'
PAIRED = ("shear", "kernel-paired", "permutation-antithetic")  #: estimators of complement pairs
NEWER = ("shear-unbiased", "leverage", "kriging")  #: methods that the paper does not have

RULES = (
    "**Cases.** A case is a data set and N (evaluations per feature: 8, 16, 32, 64, 128), as in "
    "the paper. SHEAR has to be better than all five baselines in it. The report lists the cases "
    "of other claims. A claim **holds** if it holds in most cases against fair baselines, **holds "
    "only as the authors ran it** if it does so against their baselines alone, **fails** if it "
    "fails in most cases, and is **open** otherwise. A theorem fails if one case fails.",
    "**Readings.** Fair: the same number of evaluations for all, each method at its best. As run: "
    "the baselines as in the authors' released numbers. The appendix allows two more readings, "
    "with PS and APS by prefixes of permutations or by coins; the report has them.",
    "**Better** means that the 95 % interval of the ratio of errors is below 1, and the ratio "
    f"at most {1 - RATIO_MARGIN:g}; for scores, that the difference is above 0 and at least "
    f"{SCORE_MARGIN:g}. **Equal** means that they certainly differ by less. Otherwise the case is "
    "open. Intervals are Student's over networks; the variance of the rows that all networks share "
    "is added. A few of these hundreds of comparisons at 95 % are decided by chance.",
)


def summary(
    found: Mapping[str, Finding], every: Sequence[Networks], origin: Mapping[str, Any]
) -> str:
    """Return the page that a researcher reads in ten minutes."""
    first = leading(every)
    caption = f"Figure 2 a of the paper in three readings: errors on {first.title}"
    parts = [
        f"# {TITLE}",
        "## Should I use SHEAR?",
        *answer(found, every),
        *caveats(every),
        "\n".join(f"- {sentence}" for sentence in sentences(found, every)),
        f"![{caption}](images/reproduction.svg)",
        f"*{caption}. Bars are 95 % intervals.*",
        "## What holds, and what does not",
        numbers_are_of(first),
        plain_table(*claims_table(found)),
        *RULES,
        "## More",
        "- [The report](reproduction/report.html): every figure of the paper, and the evidence for "
        "each claim by data set and reading.\n"
        "- [Beyond the paper](beyond-the-paper.md): newer methods, and networks trained "
        "differently.",
        "## Where the numbers come from",
        _provenance(every, origin),
    ]
    return "\n\n".join(parts) + "\n"


def _provenance(every: Sequence[Networks], origin: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts(every, origin))


def numbers_are_of(networks: Networks) -> str:
    """Return what the numbers of the table of claims are of."""
    return (
        f"The claims of {PAPER}, quoted. Numbers are for {networks.title}, N = {ABLATION_N}, "
        "unless a line says otherwise; brackets are 95 % intervals."
    )


def answer(found: Mapping[str, Finding], every: Sequence[Networks]) -> Iterator[str]:
    """Yield the answer to the first question of a reader, from the verdict on the least error."""
    least = found["least_error"]
    fair = READING_NAMES["fair"]
    compared = least.number.told().replace(f" ({fair})", "")
    plain = found["win_win"].number.told().replace(f" ({fair})", "")
    if least.verdict == "Holds":
        yield f"**Yes.** With each method at its best, {compared}."
    else:
        fails = least.words(least.recipe)[fair] == "Fails"
        lead = "**Not for its accuracy.**" if fails else "**Perhaps.**"
        kriging = _newer_number(leading(every), "kriging").told()
        yield (
            f"{lead} With the same number of evaluations ({ABLATION_N} per feature, "
            f"{leading(every).dataset}) and each method at its best, {compared}, which needs no "
            f'derivatives; {kriging}, which `method="auto"` uses unless exact values are as '
            "cheap."
        )
    yield (
        f"SHEAR is much better than plain sampling, though: {plain}. Use it to reproduce the paper."
    )


def caveats(every: Sequence[Networks]) -> Iterator[str]:
    """Yield what the records cannot say."""
    if min(networks.count for networks in every) == 1:
        yield (
            "There is **one network** of each kind: intervals are about its rows, and say nothing "
            "about other networks."
        )
    rows = min(networks.records["models"]["rows"].to_pylist()[0] for networks in every)
    if rows < 3:
        yield f"There are **too few rows** ({rows}) to decide anything: most claims stay open."


def sentences(found: Mapping[str, Finding], every: Sequence[Networks]) -> Iterator[str]:
    """Yield what was run, and one sentence on error, ranking, speed, and parts and theory."""
    own = [networks for networks in every if networks.recipe == leading(every).recipe]
    names = listed(f"{each.count} on {each.dataset}" for each in own)
    yield (
        f"**What was run.** We trained networks by {RECIPES[own[0].recipe]}, {names}, because none "
        "were released. What the paper calls German Credit is UCI Bank Marketing, `bank` here. "
        "Criteo's data may not be redistributed, so they are not part of this."
    )
    counts = found["least_error"].counts(found["least_error"].recipe)
    prefixes, coins = (counts[READING_NAMES[reading]] for reading in ("paper", "paper-coin"))
    yield (
        f"**Error.** SHEAR's is the smallest of all six methods in {_both('least_error', found)}. "
        "With PS and APS as in the appendix, it is the smallest in "
        f"{prefixes['holds']} of {prefixes.total()} if they use prefixes of permutations, and in "
        f"{coins['holds']} of {coins.total()} if they use coins."
    )
    yield (
        f"**Other metrics.** SHEAR ranks features best in {_both('best_ranking', found)}. It has "
        f"the largest faithfulness or monotonicity in {_both('faithful', found)}: these two "
        "metrics hardly separate the methods."
    )
    if "throughput" in found:
        yield (
            f"**Speed**, derivatives included, in batches. {_told(found['throughput'])}; "
            f"{found['fastest'].number.told()}. One row at a time, the overhead of a call hides "
            "the differences."
        )
    parts = [found[name] for name in ("ccs_dominates", "theorem_2") if name in found]
    yield f"**Parts and theory.** {'. '.join(_told(each) for each in parts)}."


def _told(finding: Finding) -> str:
    text = finding.number.told()
    return text[0].upper() + text[1:]


def _both(name: str, found: Mapping[str, Finding]) -> str:
    """Return "0 of 10 cases against fair baselines, and in 6 of 10 as the authors ran them"."""
    counts = found[name].counts(found[name].recipe)
    fair, run = (counts[READING_NAMES[reading]] for reading in ("fair", "authors"))
    return (
        f"{fair['holds']} of {fair.total()} cases against fair baselines, and in "
        f"{run['holds']} of {run.total()} as the authors ran them"
    )


def facts(every: Sequence[Networks], origin: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield where the numbers come from, each fact with its name."""
    yield "Command", f"`{origin['command'] or 'not known'}`"
    yield "Commit", f"`{origin['commit']}`; code that measures `{origin['code']}`"
    if "note" in origin:
        yield "Afterwards", origin["note"]
    yield "Versions", origin["versions"]
    yield "Machine", origin["machine"]
    minutes, seconds = divmod(round(origin["seconds"]), 60)
    yield "Wall time", f"{minutes} min {seconds} s"
    parts = [f"{each.count} on {each.dataset} by {RECIPES[each.recipe]}" for each in every]
    yield "Networks", ", ".join(parts)
    sizes = []
    for dataset, each in {each.dataset: each for each in every}.items():
        rows = each.records["models"]["rows"].to_pylist()[0]
        rounds = int(column(each.records["rounds"], "round").max()) + 1
        pairs = each.records["pairs"].to_pandas().groupby("seed")["row"].nunique()
        bounded = f"; {pairs.iloc[0]} for the theorems" if len(pairs) else ""
        sizes.append(f"{dataset}: {rows} test rows, {rounds} rounds{bounded}")
    yield "For each network", ". ".join(sizes)
    yield (
        "Records",
        f"`cat *.parquet | sha256sum` in their folder gives `{origin['records']}`; those of the "
        "published run are in `docs/reproduction/records`",
    )
    yield (
        "Pages",
        "`shear paper page RECORDS --out FOLDER` makes all pages from records; a test compares the "
        "published ones",
    )


# The table of claims


def claims_table(
    found: Mapping[str, Finding], *, mark: str = "**"
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows: claim, verdict, cases, and a number between marks."""
    header = ("the paper says", "verdict", "cases in which it holds", "one number")
    rows: list[tuple[str, ...]] = [
        (
            f"“{finding.claim.quote}” ({finding.claim.section})",
            f"**{finding.verdict}**",
            _cases(finding),
            finding.number.told(mark),
        )
        for finding in found.values()
    ]
    return header, rows


def _cases(finding: Finding) -> str:
    """Return "as run 6 of 10, 4 fail; fair 0 of 10, 10 fail", without readings that add nothing."""
    counts = finding.counts(finding.recipe)
    words = finding.words(finding.recipe)
    usual = {READING_NAMES["fair"], READING_NAMES["authors"]}
    same = {words[name] for name in usual & set(words)}
    return "; ".join(
        f"{reading} {counted_cases(outcomes)}"
        for reading, outcomes in counts.items()
        if reading in usual or not same or words[reading] not in same
    )


def counted_cases(outcomes: Counter[Outcome]) -> str:
    """Return "6 of 10, 1 open, 3 fail"."""
    words: dict[Outcome, str] = {"equal": "equal", "open": "open", "fails": "fail"}
    others = [f"{outcomes[name]} {word}" for name, word in words.items() if outcomes[name]]
    return ", ".join([f"{outcomes['holds']} of {outcomes.total()}", *others])


# Beyond the paper


def beyond(found: Mapping[str, Finding], every: Sequence[Networks]) -> str:
    """Return the page of what the paper does not have."""
    own = [each for each in every if each.recipe == leading(every).recipe]
    parts = [
        "# Beyond the paper",
        f"Results that {PAPER} does not have, from the same run as "
        f"[{TITLE.lower()}](reproduction.md#where-the-numbers-come-from).",
        "## Newer methods",
        "SHEAR's error divided by the error of newer methods with the same number of evaluations, "
        f"and the rows that each explains per second in batches at N = {ABLATION_N}. `leverage` "
        "was published in 2025; `shear-unbiased` and `kriging` come from this library.",
        plain_table(*_newer_table(own)),
    ]
    both = {each.recipe for each in every}
    if len(both) > 1:
        parts += [
            "## Networks trained differently",
            "Our recipe has raw 0/1 columns, trains until the validation accuracy stops rising, "
            "splits the data anew for each network, and uses the mean of the training rows as "
            "background. The verdicts on the paper's claims, for both recipes:",
            plain_table(*_recipes_table(found)),
            "## What matters more: the training, or the method?",
            *_training(every),
        ]
    parts += [
        "## Data that are not measured here",
        "The real Statlog German Credit data ship as `german`, for `shear paper train german`; the "
        "paper did not use them. For Criteo, download the data yourself: `shear paper reproduce "
        "criteo --path train.txt.gz`.",
    ]
    return "\n\n".join(parts) + "\n"


def _newer_number(networks: Networks, method: str, n: int = ABLATION_N) -> Number:
    found = compare(networks, "shear", method, n, "absolute_error")
    return Number(found.interval, f"it is {{}} times that of this library's `{method}`")


def _newer_table(own: Sequence[Networks]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    numbers = own[0].n()
    rows = []
    for networks in own:
        for method in (*NEWER, "shear"):
            if not networks.n(method):
                continue
            seconds = networks.row_seconds(BATCH, method).get(ABLATION_N)
            speed = "-" if seconds is None else f"{1 / np.median(seconds):,.0f}"
            ratios = (
                "1" if method == "shear" else str(_newer_number(networks, method, n))
                for n in numbers
            )
            rows.append((networks.dataset, label_of(method), *ratios, speed))
    return ("data set", "method", *(f"N = {n}" for n in numbers), "rows per second"), rows


def _recipes_table(found: Mapping[str, Finding]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = [
        (
            f"{finding.claim.title} ({finding.claim.section})",
            *(
                f"**{finding.verdict_on(recipe)}**: {_recipe_cases(finding, recipe)}"
                if finding.counts(recipe)
                else "-"
                for recipe in RECIPE_WORDS
            ),
        )
        for finding in found.values()
    ]
    return ("claim", *RECIPE_WORDS.values()), rows


def _recipe_cases(finding: Finding, recipe: str) -> str:
    counts = finding.counts(recipe)
    fair = counts.get(READING_NAMES["fair"])
    return counted_cases(fair if fair is not None else sum(counts.values(), Counter()))


def _training(every: Sequence[Networks]) -> Iterator[str]:
    """Yield how far SHEAR's error moves with the recipe, and with the method."""
    lines = []
    for first in (each for each in every if each.recipe == "authors"):
        second = next(
            (each for each in every if each.dataset == first.dataset and each.recipe == "ours"),
            None,
        )
        if second is None:
            continue
        shear = [each.mean("shear", ABLATION_N, "absolute_error").mean for each in (first, second)]
        by_network = first.mean("shear", ABLATION_N, "absolute_error").by_cluster
        six = _spread(first, ("shear", *baselines("fair")))
        lines.append(
            f"- {first.dataset}: SHEAR's mean error is {shear[0]:.2g} by the authors' recipe and "
            f"{shear[1]:.2g} by ours, {max(shear) / min(shear):.1f} times apart; the networks of "
            f"one recipe are up to {by_network.max() / by_network.min():.1f} times apart. "
            f"Between methods it differs by a factor of {_spread(first, PAIRED):.1f} among SHEAR, "
            f"KS-Pair and APS, and of {six:.0f} among all six of the paper (fair)."
        )
    yield f"Absolute errors at N = {ABLATION_N}; largest over smallest, without intervals."
    yield "\n".join(lines)


def _spread(networks: Networks, methods: Sequence[str]) -> float:
    means = [networks.mean(method, ABLATION_N, "absolute_error").mean for method in methods]
    return max(means) / min(means)
