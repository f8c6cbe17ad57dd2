"""Which passage made the model say that? Against exact values, beside other libraries.

    python benchmarks/language.py                   four kinds of prompts of ten passages
    python benchmarks/language.py --quick           one kind, six passages, four prompts
    python benchmarks/language.py --size large --passages 14 --device cuda

A small language model is trained on made-up facts (facts.py), so each prompt knows which of its
passages hold the answer. The value of some passages is the log-probability of the answer after a
prompt that has only them; the exact Shapley values come from all 2^p of these. Everybody gets the
same budgets, N evaluations a passage and two. Run with OMP_NUM_THREADS=1.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.stats import spearmanr

from facts import SIZES, Asked, accuracy, asked, log_probabilities, trained
from setting import Tables, machine, parser_of
from shearshap import Explainer, Prompt, ShearError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

EACH = (0.5, 1, 2, 4)  #: evaluations a passage
OURS = ("kriging", "permutation")


# Truth


@dataclass(frozen=True)
class Enumerated:
    """A prompt, and the value of every coalition of its p passages."""

    prompt: Asked
    table: Floats  #: (2^p,) by the bits of the coalition's number, the first passage the lowest
    values: Floats  #: (p,) the exact Shapley values

    def __call__(self, coalitions: NDArray[Any]) -> Floats:
        """Return the values (c,) of coalitions (c, p)."""
        present = np.atleast_2d(np.asarray(coalitions)) > 0.5
        return self.table[present @ (1 << np.arange(present.shape[1]))]


def all_coalitions(players: int) -> Bools:
    """Return (2^p, p), the coalition of each number."""
    members: Bools = (np.arange(1 << players)[:, None] >> np.arange(players)) % 2 == 1
    return members


def shapley_values(table: Floats) -> Floats:
    """Return the exact values (p,): sum |S|! (p - |S| - 1)! / p! (v(S + i) - v(S)) over S."""
    players = len(table).bit_length() - 1
    sets = all_coalitions(players)
    weights = [1 / (players * math.comb(players - 1, size)) for size in range(players)]
    values = np.zeros(players)
    for player in range(players):
        without = np.flatnonzero(~sets[:, player])
        gains = table[without + (1 << player)] - table[without]
        values[player] = np.array(weights)[sets[without].sum(axis=1)] @ gains
    return values


def enumerated(model: Any, tokenizer: Any, prompt: Asked) -> Enumerated:
    """Return a prompt with all its values."""
    texts = [prompt.text(own) for own in all_coalitions(len(prompt.passages))]
    table = log_probabilities(model, tokenizer, texts, prompt.answer)
    return Enumerated(prompt, table, shapley_values(table))


# Estimators: of the games of several prompts, at a budget, their values (r, p)


@dataclass(frozen=True)
class Answer:
    """What an estimator says: values (r, p), and the ends of its 95 % intervals if it has them."""

    values: Floats
    interval: tuple[Floats, Floats] | None = None


Estimator = Callable[[Any, Any, Sequence[Enumerated], int], Answer]


def ours(method: str) -> Estimator:
    """Return one of our methods, which explains all prompts in one call."""

    def estimate(model: Any, tokenizer: Any, games: Sequence[Enumerated], budget: int) -> Answer:
        explainer = Explainer((model, tokenizer), groups="passages", method=method)
        prompts = [
            Prompt(f"{{passages}} {own.prompt.question}", {"passages": own.prompt.passages}, " ")
            for own in games
        ]
        answers = [own.prompt.answer for own in games]
        found = explainer(prompts, answer=answers, budget=budget, progress=False)
        interval = None if found.standard_errors is None else found.interval()
        return Answer(found.values, interval)

    return estimate


def one_by_one(estimate: Callable[[Enumerated, int, int], Floats]) -> Estimator:
    """Return the estimator of a function of one prompt's values, a budget and a seed."""

    def every(model: Any, tokenizer: Any, games: Sequence[Enumerated], budget: int) -> Answer:
        del model, tokenizer
        return Answer(np.stack([estimate(own, budget, seed) for seed, own in enumerate(games)]))

    return every


def leave_one_out(game: Enumerated, budget: int, seed: int) -> Floats:
    """Return by how much the value falls without each passage; it needs p + 1 evaluations."""
    del seed
    players = len(game.values)
    _needs(players + 1, budget)
    return game(np.ones(players)) - game(~np.eye(players, dtype=bool))


def lime(game: Enumerated, budget: int, seed: int) -> Floats:
    """Return the coefficients of LIME for texts, in a few lines of our own.

    A ridge regression of penalty 1 on random coalitions, each without 1 to p passages, weighted by
    the cosine distance d from the whole prompt: sqrt(exp(-(100 d / 25)^2)).
    """
    players = len(game.values)
    rng = np.random.default_rng(seed)
    sets = np.ones((budget, players))
    for own in sets[1:]:
        own[rng.permutation(players)[: rng.integers(1, players + 1)]] = 0
    distances = 1 - np.sqrt(sets.mean(axis=1))
    weights = np.sqrt(np.exp(-((100 * distances / 25) ** 2)))
    values = game(sets)
    centred = sets - np.average(sets, axis=0, weights=weights)
    inner = centred.T * weights
    return np.asarray(np.linalg.solve(inner @ centred + np.eye(players), inner @ values))


def partition(game: Enumerated, budget: int, seed: int) -> Floats:
    """Return the values of shap's Partition explainer, of a tree that halves the prompt."""
    import shap

    np.random.seed(seed)  # noqa: NPY002  (shap draws from numpy's global generator)
    players = len(game.values)
    tree = linkage(np.arange(players)[:, None], "complete")
    masker = shap.maskers.Partition(np.zeros((1, players)), clustering=tree)
    explainer = shap.explainers.Partition(game, masker)
    row = np.ones((1, players))
    return np.asarray(explainer(row, max_evals=budget, silent=True, batch_size=2).values[0])


def captum_llm(name: str) -> Estimator:
    """Return captum's LLMAttribution with one of its methods."""

    def estimate(model: Any, tokenizer: Any, games: Sequence[Enumerated], budget: int) -> Answer:
        from captum import attr

        values = []
        for seed, own in enumerate(games):
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            prompt = own.prompt
            players = len(prompt.passages)
            samples = budget if name == "KernelShap" else (budget - 1) // players
            _needs(1, samples)
            template = "{} " * players + prompt.question
            parts = attr.TextTemplateInput(template, list(prompt.passages), [""] * players)
            explainer = attr.LLMAttribution(getattr(attr, name)(model), tokenizer)
            with torch.inference_mode():
                # one forward an evaluation; token by token, its cache changes the probabilities
                found = explainer.attribute(
                    parts, target=prompt.answer, n_samples=samples, forward_in_tokens=False
                )
            values.append(found.seq_attr.double().cpu().numpy())
        return Answer(np.stack(values))

    return estimate


class TooFewError(Exception):
    """An estimator cannot work with so few evaluations."""


def _needs(least: int, budget: int) -> None:
    if budget < least:
        raise TooFewError


ESTIMATORS: dict[str, Estimator] = {
    **{method: ours(method) for method in OURS},
    "captum ShapleyValueSampling": captum_llm("ShapleyValueSampling"),
    "captum KernelShap": captum_llm("KernelShap"),
    "shap Partition": one_by_one(partition),
    "leave-one-out": one_by_one(leave_one_out),
    "LIME": one_by_one(lime),
}


# Measures: each of values (r, p), one number per prompt


def recall(values: Floats, games: Sequence[Enumerated]) -> Floats:
    """Return how many of the passages that hold the answer are among as many largest values."""
    found = []
    for own, game in zip(values, games, strict=True):
        held = set(game.prompt.evidence)
        largest = np.argsort(-own, kind="stable")[: len(held)]
        found.append(len(held & set(largest.tolist())) / len(held))
    return np.array(found)


def error(values: Floats, games: Sequence[Enumerated]) -> Floats:
    """Return mean |error| over the mean |value| of all prompts."""
    truth = np.stack([game.values for game in games])
    errors: Floats = np.abs(values - truth).mean(axis=1) / np.abs(truth).mean()
    return errors


def correlation(values: Floats, games: Sequence[Enumerated]) -> Floats:
    """Return Spearman's rank correlation with the exact values; 0 if all values are the same."""
    found = []
    for own, game in zip(values, games, strict=True):
        is_flat = np.ptp(own) < 1e-12
        found.append(0.0 if is_flat else spearmanr(own, game.values).statistic)
    return np.array(found)


def covered(answer: Answer, games: Sequence[Enumerated]) -> Floats | None:
    """Return which part of the exact values is in the intervals, if there are some."""
    if answer.interval is None:
        return None
    truth = np.stack([game.values for game in games])
    lower, upper = answer.interval
    # single precision rounds differently in other batches
    inside = (lower - 1e-4 <= truth) & (truth <= upper + 1e-4)
    return np.asarray(inside.mean(axis=1))


def cell(each: Floats | None) -> str:
    """Return a mean over prompts with its standard error; "" of nothing."""
    if each is None:
        return ""
    spread = each.std(ddof=1) / len(each) ** 0.5 if len(each) > 1 else math.nan
    return f"{each.mean():.2f} ± {spread:.2f}"


def lines(
    model: Any, tokenizer: Any, games: Sequence[Enumerated], budget: int
) -> dict[str, list[Floats | None]]:
    """Return what was measured of each estimator, by its name."""
    measured: dict[str, list[Floats | None]] = {}
    for name, estimate in ESTIMATORS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = estimate(model, tokenizer, games, budget)
        except (TooFewError, ShearError):
            continue
        values = answer.values
        measured[name] = [
            recall(values, games),
            error(values, games),
            correlation(values, games),
            covered(answer, games),
        ]
    return measured


def main() -> None:
    """Print one table per kind of prompts."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="little of it: to see that it works")
    parser.add_argument("--size", choices=SIZES, help="of the model (small; quick: tiny)")
    parser.add_argument("--passages", type=int, help="of a prompt, at most 16 (10; quick: 6)")
    parser.add_argument("--prompts", type=int, help="of each kind and model (20; quick: 4)")
    parser.add_argument("--seeds", type=int, default=1, help="models that are trained (1)")
    parser.add_argument("--device", default="cpu", help="where models are trained and run (cpu)")
    options = parser.parse_args()
    size = options.size or ("tiny" if options.quick else "small")
    players = options.passages or (6 if options.quick else 10)
    count = options.prompts or (4 if options.quick else 20)
    setting = f"{size} model, {players} passages, {count} prompts of each kind, "
    tables = Tables(f"{setting}{options.seeds} models; {machine()}", options.csv)
    columns = ["prompts", "N", "method", "recall ±", "error ±", "rank correlation ±"]
    columns += ["intervals that hold ±"]
    models = [trained(size, seed=seed, device=options.device) for seed in range(options.seeds)]
    for kind in SIZES[size].kinds:
        people = SIZES[size].people
        tests = asked(kind, 200, passages=players, people=people, seed=1000)
        right = [accuracy(*pair, tests) for pair in models]
        sampled = asked(kind, count, passages=players, people=people, seed=2000)
        games = [[enumerated(*pair, own) for own in sampled] for pair in models]
        exact = np.concatenate([recall(np.stack([own.values for own in g]), g) for g in games])
        shown = ", ".join(f"{share:.1%}" for share in right)
        print(f"{kind}: answers {shown} of 200 prompts; recall of exact values {cell(exact)}\n")
        rows = []
        for each in EACH:
            budget = int(each * players) + 2
            found = [lines(*pair, own, budget) for pair, own in zip(models, games, strict=True)]
            for name in found[0]:
                joined = zip(*(own[name] for own in found), strict=True)
                cells = [None if one[0] is None else np.concatenate(one) for one in joined]
                rows.append([kind, f"{each:g}", name, *map(cell, cells)])
        tables.show("language", columns, rows)


if __name__ == "__main__":
    main()
