"""Evaluations per second of a language model: ours, the bare forwards, and captum's, in one run.

    python benchmarks/generation_speed.py                 a model of a million weights on the CPU
    python benchmarks/generation_speed.py --device cuda   one of 1.1 billion, in bfloat16, on a GPU

The model has random weights and Llama's architecture, since speed does not depend on them, and the
tokenizer is made here: nothing is downloaded. A prompt has a prefix that stays, 64 parts of eight
words and a question; its answer has eight words.

The bare forwards are those that one would write by hand: the same sequences in the same batches,
whole, padded, with logits at the answer only. Captum is left out if it is not installed.
"""

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from shearshap import Explainer, Prompt

PARTS = 64
WORDS = 8  #: of a part, and of the answer
SIZES: dict[str, dict[str, int]] = {
    "cpu": {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "vocab": 2_000},
    "cuda": {
        "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "vocab": 64_000,
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--prompts", type=int, help="of the large call (200; 4 on the CPU)")
    parser.add_argument("--budget", type=int, help="of one prompt (1024; 128 on the CPU)")
    parser.add_argument("--captum", type=int, default=128, help="evaluations for captum (128)")
    chosen = parser.parse_args()
    on_gpu = chosen.device == "cuda"
    prompts = chosen.prompts or (200 if on_gpu else 4)
    budget = chosen.budget or (1024 if on_gpu else 128)

    pair = made(chosen.device)
    size = sum(weight.numel() for weight in pair[0].parameters()) / 1e6
    print(f"{size:,.0f} million weights, {pair[0].dtype}, {device_name(chosen.device)}")
    rng = np.random.default_rng(0)
    several = [prompt_of(rng, pair[1]) for _ in range(prompts)]
    answer = "".join(f" w{number}" for number in rng.integers(10, 1000, size=WORDS))
    explainer = Explainer(pair, groups="parts")
    explainer(several[0], answer=answer, budget=64)  # what is compiled or cached at first

    print_one(pair, explainer, several[0], answer, budget)
    if find_spec("captum") is not None and chosen.captum:
        print_captum(pair, explainer, several[0], answer, chosen.captum)
    print_many(pair, explainer, several, answer)


def made(device: str) -> tuple[Any, Any]:
    """Return a model of random weights and its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    size = dict(SIZES[device])
    words = size.pop("vocab")
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2, **{f"w{n}": n for n in range(3, words)}}
    rules = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    rules.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=rules, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    config = LlamaConfig(
        vocab_size=words,
        num_attention_heads=size["hidden_size"] // 64,
        num_key_value_heads=max(1, size["hidden_size"] // 256),
        max_position_embeddings=4096,
        **size,
    )
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    try:
        torch.set_default_dtype(kind)
        with torch.device(device):
            model = LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)
    return model, tokenizer


def prompt_of(rng: np.random.Generator, tokenizer: Any) -> Prompt:
    """Return a prompt of 64 parts, after a prefix of 64 words and before a question of 16."""

    def words(count: int) -> str:
        return " ".join(f"w{number}" for number in rng.integers(10, len(tokenizer), size=count))

    prefix = " ".join(f"w{number}" for number in range(10, 10 + 8 * WORDS))  # of all prompts
    parts = [words(WORDS) for _ in range(PARTS)]
    return Prompt(
        f"{prefix} {{parts}} {{question}}", {"parts": parts, "question": words(2 * WORDS)}
    )


def device_name(device: str) -> str:
    return (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a run, and what it returns."""
    synchronise()
    started = time.perf_counter()
    result = run()
    synchronise()
    return time.perf_counter() - started, result


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Recorder:
    """Notes the forwards of a model, to repeat them bare."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.forwards: list[tuple[int, int, int]] = []  #: sequences, tokens, places of logits

    def __enter__(self) -> "Recorder":
        self.hook = self.model.register_forward_pre_hook(self._note, with_kwargs=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

    def _note(self, _model: Any, _inputs: Any, options: dict[str, Any]) -> None:
        count, width = options["input_ids"].shape
        cache = options.get("past_key_values")
        before = 0 if cache is None else int(cache.get_seq_length())
        kept = options.get("logits_to_keep", 1)
        self.forwards.append((count, before + width, kept if isinstance(kept, int) else len(kept)))

    @torch.no_grad()
    def repeat(self) -> None:
        """Run the same batches of whole sequences through the model."""
        device = next(self.model.parameters()).device
        for count, width, kept in self.forwards:
            ids = torch.randint(3, 1000, (count, width), device=device)
            logits = self.model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits
            logits[:, -1].float().logsumexp(dim=1).cpu()


def print_one(pair: Any, explainer: Explainer, prompt: Prompt, answer: str, budget: int) -> None:
    with Recorder(pair[0]) as recorder:
        explainer(prompt, answer=answer, budget=budget)
    ours, explanation = timed(lambda: explainer(prompt, answer=answer, budget=budget))
    bare, _ = timed(recorder.repeat)
    count = explanation.evaluations
    print(f"\nOne prompt, {count} evaluations")
    print(f"  explained    {count / ours:8.0f} evaluations/s")
    print(f"  bare         {count / bare:8.0f} evaluations/s   ratio {bare / ours:.2f}")


def print_captum(
    pair: Any, explainer: Explainer, prompt: Prompt, answer: str, evaluations: int
) -> None:
    from captum.attr import KernelShap, LLMAttribution, ShapleyValueSampling, TextTemplateInput

    logging.disable(logging.WARNING)
    parts = list(prompt.fields["parts"])
    template = prompt.template.replace("{parts}", " ".join("{}" for _ in parts))
    template = template.replace("{question}", str(prompt.fields["question"]))
    inputs = TextTemplateInput(template, values=parts, baselines=[""] * len(parts))
    print(f"\nCaptum and ours at about {evaluations} evaluations of one prompt")
    for method, options in (
        (ShapleyValueSampling, {"n_samples": max(1, evaluations // PARTS)}),
        (KernelShap, {"n_samples": evaluations}),
    ):
        attribution = LLMAttribution(method(pair[0]), pair[1])
        attribute = partial(attribution.attribute, inputs, target=answer, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            took, _ = timed(attribute)
        print(f"  captum, {method.__name__:22} {took:8.2f} s")
    took, explanation = timed(lambda: explainer(prompt, answer=answer, budget=evaluations))
    print(f"  shearshap {'':20} {took:8.2f} s, {explanation.evaluations} evaluations")


def print_many(pair: Any, explainer: Explainer, prompts: list[Prompt], answer: str) -> None:
    on_gpu = next(pair[0].parameters()).device.type == "cuda"
    with Recorder(pair[0]) as recorder:
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        took, explanation = timed(lambda: explainer(prompts, answer=answer, budget=PARTS))
    memory = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else float("nan")
    bare, _ = timed(recorder.repeat)
    count = len(explanation) * explanation.evaluations
    tokens = sum(size * width for size, width, _ in recorder.forwards)
    print(f"\n{len(prompts)} prompts of {PARTS} parts, {explanation.evaluations} evaluations each")
    speed = f"{count / bare:8.0f} evaluations/s   ratio {bare / took:.2f}"
    print(f"  explained    {took:8.2f} s   {count / took:8.0f} evaluations/s")
    print(f"  bare         {bare:8.2f} s   {speed}")
    print(f"  {len(recorder.forwards)} forwards, {tokens / 1e6:.2f} million tokens")
    print(f"  peak memory  {memory:8.1f} GiB")


if __name__ == "__main__":
    main()
