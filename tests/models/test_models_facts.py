"""Language models of made-up facts: prompts know which of their passages hold the answer."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from facts import KINDS, SIZES, Asked, accuracy, asked, made_model, made_tokenizer, trained
from language import ESTIMATORS, Enumerated, enumerated, recall
from shearshap import Explainer, Prompt


@pytest.fixture(scope="module", name="untrained")
def _untrained() -> tuple[Any, Any]:
    tokenizer = made_tokenizer()
    return made_model(SIZES["tiny"], len(tokenizer), seed=0).eval(), tokenizer


@pytest.fixture(scope="module", name="taught")
def _taught() -> tuple[Any, Any]:
    return trained("tiny", seed=2)  # the quickest of the first three


def log_probability(pair: tuple[Any, Any], prompt: Asked, present: list[bool]) -> float:
    """One prompt and one token at a time, of words that are split by hand."""
    model, tokenizer = pair
    words = ["<s>", *prompt.text(present).replace(".", " .").replace("?", " ?").split()]
    total = 0.0
    for word in prompt.answer.split():
        with torch.no_grad():
            logits = model(torch.tensor([tokenizer.convert_tokens_to_ids(words)])).logits[0, -1]
        total += float(logits.double().log_softmax(dim=0)[tokenizer.convert_tokens_to_ids(word)])
        words.append(word)
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_the_passages_that_hold_the_answer_say_it(kind: str) -> None:
    for prompt in asked(kind, 20, passages=7):
        held = [prompt.passages[place] for place in prompt.evidence]
        name = prompt.question.removesuffix("?").split()[-1]
        assert all(name in passage or kind == "two hops" for passage in held)
        assert any(f" in {prompt.answer.split()[-1]}." in passage for passage in held)
        assert not any("not" in passage or "likes" in passage for passage in held)
        assert len(held) == (2 if kind in ("repeated", "two hops") else 1)
        rest = " ".join(set(prompt.passages) - set(held))
        answering = f"{name} (is|lives) in" if kind != "two hops" else f"{name} works for"
        assert not re.search(answering, rest)


def test_enumeration_against_one_prompt_at_a_time(untrained: tuple[Any, Any]) -> None:
    (prompt,) = asked("two hops", 1, passages=4)
    game = enumerated(*untrained, prompt)
    for number in range(16):
        present = [bool(number >> place & 1) for place in range(4)]
        value = log_probability(untrained, prompt, present)
        np.testing.assert_allclose(game(np.array([present])), [value], atol=1e-5)
    assert game.table.std() > 0.01
    np.testing.assert_allclose(game.values.sum(), game.table[-1] - game.table[0], atol=1e-9)


def test_the_library_finds_the_enumerated_values(untrained: tuple[Any, Any]) -> None:
    prompts = asked("negation", 3, passages=5)
    found = Explainer(untrained, groups="passages", method="exact")(
        [
            Prompt(f"{{passages}} {own.question}", {"passages": own.passages}, separator=" ")
            for own in prompts
        ],
        answer=[own.answer for own in prompts],
    )
    games = [enumerated(*untrained, own) for own in prompts]
    np.testing.assert_allclose(found.values, [game.values for game in games], atol=1e-5)
    np.testing.assert_allclose(found.predictions, [game.table[-1] for game in games], atol=1e-5)
    np.testing.assert_allclose(found.base_values, [game.table[0] for game in games], atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of shap's import
@pytest.mark.parametrize(
    "name",
    ["leave-one-out", "LIME", pytest.param("shap Partition", marks=pytest.mark.slow)],
)
def test_an_additive_game_is_told_by_every_peer(name: str) -> None:
    (prompt,) = asked("recall", 1, passages=4)
    worth = np.array([3.0, -1.0, 0.5, 0.0])
    table = ((np.arange(16)[:, None] >> np.arange(4)) % 2) @ worth
    game = Enumerated(prompt, table, worth)
    found = ESTIMATORS[name](None, None, [game], 400).values[0]
    # LIME's penalty shrinks its coefficients
    np.testing.assert_allclose(found, worth, atol=0.2 if name == "LIME" else 1e-9)


@pytest.mark.slow
def test_the_small_model_knows_facts(taught: tuple[Any, Any]) -> None:
    tests = asked("recall", 100, passages=6, seed=1000)
    assert accuracy(*taught, tests) > 0.95


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of captum's import
def test_the_passage_that_holds_the_answer_is_found(taught: tuple[Any, Any]) -> None:
    """One in six would be chance."""
    games = [enumerated(*taught, own) for own in asked("recall", 10, passages=6, seed=1)]
    assert recall(np.stack([game.values for game in games]), games).mean() > 0.95
    for name in ("kriging", "captum ShapleyValueSampling"):
        answer = ESTIMATORS[name](*taught, games, 2 * 6 + 2)
        assert recall(answer.values, games).mean() > 0.85


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of captum's import
def test_captum_plays_the_same_game(untrained: tuple[Any, Any]) -> None:
    games = [enumerated(*untrained, own) for own in asked("two hops", 2, passages=4)]
    answer = ESTIMATORS["captum ShapleyValueSampling"](*untrained, games, 10)
    gain = [game.table[-1] - game.table[0] for game in games]
    np.testing.assert_allclose(answer.values.sum(axis=1), gain, atol=1e-4)
