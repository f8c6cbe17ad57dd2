"""A small language model of made-up facts, and prompts that know which passages hold the answer.

    alice is in rome. bob likes tea. bob lives in oslo. where is alice?    rome

Kinds of prompts, and the passages that hold the answer:

    recall     alice is in rome.                                           that one
    repeated   alice is in rome.  alice lives in rome.                     both, each enough alone
    negation   alice is in rome.  alice is not in oslo.                    the first
    two hops   alice works for bob.  bob lives in rome.                    both
               where is the boss of alice?    bob is in rome

All other passages are about others, or about what people like. Half of the prompts to train on have
lost some of their passages, but keep their answers. So the model learns how likely an answer is if
nothing tells it, and its log-probability depends on what the prompt says.

    model, tokenizer = trained("tiny")
    prompts = asked("recall", 20, passages=6)

A transformer takes thousands of steps to find out that it should look for the same word. This one
begins with weights that do so: heads of the first layer look one, two, ... tokens back, and others
at tokens with a similar history, which they copy. Training decides what to do with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

# fmt: off
NAMES = [
    "alice", "bob", "carol", "david", "emma", "frank", "grace", "henry", "irene", "jack", "karen",
    "leo", "maria", "nick", "olga", "paul", "rita", "rosa", "sam", "tina", "ursula", "victor",
    "wendy", "xavier",
]
CITIES = [
    "rome", "oslo", "paris", "berlin", "madrid", "vienna", "lisbon", "dublin", "athens", "prague",
    "warsaw", "london", "tokyo", "delhi", "cairo", "lima", "quito", "bogota", "havana", "nairobi",
    "lagos", "accra", "sydney", "perth",
]
# fmt: on
THINGS = ["tea", "coffee", "chess", "music", "soup", "bread", "tennis", "films"]
WORDS = [
    "is",
    "in",
    "lives",
    "not",
    "likes",
    "works",
    "for",
    "where",
    "the",
    "boss",
    "of",
    ".",
    "?",
]
SPECIAL = ["<pad>", "<s>", "<unk>"]

KINDS = ("recall", "repeated", "negation", "two hops")
QUESTIONS = 6  #: of each text to train on
UNDERSTOOD = 0.01  #: the loss at which training goes on to harder texts
FIRST_STEPS = 200  #: until then, for the first kind of texts, or another beginning is tried
LATER_STEPS = 600  #: and for the others


@dataclass(frozen=True)
class Size:
    """How large the model is, and how long it is trained."""

    kinds: tuple[str, ...]
    people: int
    passages: int  #: of a text, at most
    layers: int
    width: int
    steps: int  #: on texts without some of their passages, after those on whole ones
    batch: int = 32
    rate: float = 2e-3


SIZES = {
    "tiny": Size(("recall",), people=16, passages=6, layers=3, width=64, steps=60),
    "small": Size(KINDS, people=16, passages=10, layers=3, width=64, steps=250),
    "large": Size(KINDS, people=24, passages=16, layers=4, width=128, steps=2000),
}


# Prompts


@dataclass(frozen=True)
class Asked:
    """A question after some passages, its answer, and the passages that hold it."""

    passages: tuple[str, ...]
    question: str
    answer: str
    evidence: tuple[int, ...]

    def text(self, present: Sequence[bool] | None = None) -> str:
        """Return the prompt with some of the passages; None: with all."""
        kept = self.passages
        if present is not None:
            kept = tuple(own for own, is_in in zip(kept, present, strict=True) if is_in)
        return " ".join((*kept, self.question))


def asked(kind: str, count: int, *, passages: int, people: int = 16, seed: int = 0) -> list[Asked]:
    """Return prompts of one kind."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    return [_scene(kind, passages, people, rng)[0] for _ in range(count)]


def _scene(kind: str, passages: int, people: int, rng: np.random.Generator) -> list[Asked]:
    """Return questions about the same passages, one for each person whose place they tell."""
    pairs = passages // 2
    count = max(1, passages * 2 // 3) if kind == "recall" else pairs
    who = [NAMES[each] for each in rng.permutation(people)[:count]]
    homes = [CITIES[each] for each in rng.integers(people, size=count)]
    first = [_told(*each, rng) for each in zip(who, homes, strict=True)]
    if kind == "repeated":
        second = [_reworded(fact) for fact in first]
    elif kind == "negation":
        others = [CITIES[(CITIES.index(home) + rng.integers(1, people)) % people] for home in homes]
        second = [f"{name} is not in {other}." for name, other in zip(who, others, strict=True)]
    elif kind == "two hops":
        second = [f"{name} works for {who[at - 1]}." for at, name in enumerate(who)]
    else:
        second = []
    facts = first + second
    facts += [_liked(who, rng) for _ in range(passages - len(facts))]
    place = rng.permutation(passages)
    told = [""] * passages
    for at, fact in zip(place, facts, strict=True):
        told[at] = fact
    scene = []
    for at, name in enumerate(who):
        question = f"where is {name}?"
        answer = homes[at]
        evidence = [at]
        if kind == "repeated":
            evidence = [at, count + at]
        if kind == "two hops":
            question = f"where is the boss of {name}?"
            answer = f"{who[at - 1]} is in {homes[at - 1]}"
            evidence = [(at - 1) % count, count + at]
        held = tuple(sorted(int(place[each]) for each in evidence))
        scene.append(Asked(tuple(told), question, answer, held))
    return scene


def _told(name: str, home: str, rng: np.random.Generator) -> str:
    return f"{name} {rng.choice(['is', 'lives'])} in {home}."


def _reworded(fact: str) -> str:
    return fact.replace(" is ", " lives ") if " is " in fact else fact.replace(" lives ", " is ")


def _liked(who: Sequence[str], rng: np.random.Generator) -> str:
    return f"{rng.choice(who)} likes {rng.choice(THINGS)}."


# The model


def made_tokenizer() -> Any:
    """Return a tokenizer whose tokens are words, and that begins a text with <s>."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL, *WORDS, *NAMES, *CITIES, *THINGS]
    rules = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, "<unk>"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    rules.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=rules, pad_token="<pad>", bos_token="<s>", unk_token="<unk>"
    )


def made_model(size: Size, words: int, seed: int) -> Any:
    """Return a Llama that begins by looking back, and for tokens with a similar history."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    head = 16
    heads = size.width // head
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=size.width,
        intermediate_size=2 * size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=heads,
        max_position_embeddings=512,
        initializer_range=0.1,
        tie_word_embeddings=True,
        attention_bias=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        nn.init.normal_(model.model.embed_tokens.weight, std=0.5)
        model.model.norm.weight.fill_(0.3)  # unsure at first
        for number, layer in enumerate(model.model.layers):
            attention = layer.self_attn
            for own in (attention.q_proj, attention.v_proj):
                for block in own.weight.split(head):
                    nn.init.orthogonal_(block)
            attention.q_proj.weight.mul_(0.1 if number == 0 else 1.5)
            attention.k_proj.weight.copy_(attention.q_proj.weight)
            attention.o_proj.weight.copy_(attention.v_proj.weight.T)
            layer.mlp.down_proj.weight.mul_(0.1)
        # head h of the first layer: cos(frequency * (distance - (h + 1))) is largest h + 1 back
        turns = torch.arange(1, heads + 1)[:, None] * model.model.rotary_emb.inv_freq
        ones = torch.ones_like(turns)
        first = model.model.layers[0].self_attn
        first.k_proj.bias.copy_(5 * torch.cat((ones, 0 * ones), dim=1).flatten())
        first.q_proj.bias.copy_(5 * torch.cat((turns.cos(), -turns.sin()), dim=1).flatten())
    return model


def trained(size: str = "small", *, seed: int = 0, device: str = "cpu") -> tuple[Any, Any]:
    """Return a model that was trained on facts, and its tokenizer."""
    plan = SIZES[size]
    lessons = [replace(plan, kinds=(kind,), passages=6) for kind in plan.kinds]
    tokenizer = made_tokenizer()
    rng = np.random.default_rng(seed)
    understood = False
    while not understood:  # some beginnings lead nowhere
        model = made_model(plan, len(tokenizer), int(rng.integers(1 << 31))).to(device)
        optimiser = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
        understood = all(_lesson(model, tokenizer, optimiser, each, rng) for each in lessons)
    for step in range(plan.steps):
        optimiser.param_groups[0]["lr"] = plan.rate * min(1, 2 - 2 * step / plan.steps)
        _step(model, tokenizer, optimiser, [_text(plan, 0.5, rng) for _ in range(plan.batch)])
    return model.eval(), tokenizer


def _lesson(
    model: Any, tokenizer: Any, optimiser: Any, size: Size, rng: np.random.Generator
) -> bool:
    """Train on whole texts of one kind until they are understood; return whether they are."""
    for step in range(FIRST_STEPS if size.kinds == ("recall",) else LATER_STEPS):
        optimiser.param_groups[0]["lr"] = size.rate * min(1, (step + 1) / 50)
        texts = [_text(size, 0.0, rng) for _ in range(size.batch)]
        if _step(model, tokenizer, optimiser, texts) < UNDERSTOOD:
            return True
    return False


def _step(model: Any, tokenizer: Any, optimiser: Any, texts: list[str]) -> float:
    """Take a step of training on the answers of texts, and return the loss before it."""
    ids = tokenizer(texts, padding=True, return_tensors="pt").input_ids.to(model.device)
    # answers are between a question mark and a full stop
    place = torch.arange(ids.shape[1] - 1, device=ids.device)
    asks, ends = (
        torch.where(ids[:, :-1] == tokenizer.convert_tokens_to_ids(mark), place, -1).cummax(1)[0]
        for mark in ("?", ".")
    )
    answers = asks > ends
    hidden = model.model(ids[:, :-1]).last_hidden_state[answers]
    loss = nn.functional.cross_entropy(model.lm_head(hidden), ids[:, 1:][answers])
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()


def _text(size: Size, partial: float, rng: np.random.Generator) -> str:
    """Return passages to train on, and several questions about them with their answers.

    A part of the texts has lost some of its passages.
    """
    fewest = size.passages // 2 if partial else size.passages
    count = int(rng.integers(fewest, size.passages + 1))
    scene = _scene(str(rng.choice(size.kinds)), count, size.people, rng)
    stays = rng.random() if rng.random() < partial else 1.0
    passages = [own for own in scene[0].passages if rng.random() < stays]
    # with repetition, or the last questions could be answered by elimination
    chosen = [scene[each] for each in rng.integers(len(scene), size=QUESTIONS)]
    return " ".join((*passages, *(f"{own.question} {own.answer}." for own in chosen)))


# What the model says


@torch.inference_mode()
def answer_logits(model: Any, tokenizer: Any, texts: Sequence[str], answer: str) -> Any:
    """Return logits (n, a, v) at the a tokens of an answer after n texts, and the tokens (a,)."""
    wanted = tokenizer(answer, add_special_tokens=False, return_tensors="pt").input_ids[0]
    inputs = tokenizer([f"{text} {answer}" for text in texts], padding=True, return_tensors="pt")
    ends = inputs.attention_mask.sum(dim=1, keepdim=True)
    before = ends - 1 - torch.arange(len(wanted), 0, -1)
    hidden = model.model(inputs.input_ids.to(model.device)).last_hidden_state.cpu()
    own = hidden[torch.arange(len(texts))[:, None], before]
    return model.lm_head(own.to(model.device)).cpu().double(), wanted


def log_probabilities(model: Any, tokenizer: Any, texts: Sequence[str], answer: str) -> Any:
    """Return the log-probabilities (n,) of an answer after each of n texts."""
    values = np.empty(len(texts))
    order = np.argsort([len(text) for text in texts])
    for some in np.array_split(order, len(texts) // 512 + 1):
        logits, wanted = answer_logits(model, tokenizer, [texts[each] for each in some], answer)
        each = logits.log_softmax(dim=2)[:, torch.arange(len(wanted)), wanted]
        values[some] = each.sum(dim=1).numpy()
    return values


def accuracy(model: Any, tokenizer: Any, prompts: Sequence[Asked]) -> float:
    """Return how many of the prompts the model answers correctly, from 0 to 1."""
    right = 0
    for own in prompts:
        logits, wanted = answer_logits(model, tokenizer, [own.text()], own.answer)
        right += bool((logits[0].argmax(dim=1) == wanted).all())
    return right / len(prompts)
