"""Language models: tiny ones of random weights, against one forward at a time."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from games import Floats, all_coalitions, exact_shares
from shearshap import Explainer, InputError, Prompt
from shearshap.models import generation

KINDS = ("llama", "qwen2", "gpt2", "t5")
CORPUS = ["Rome is in Italy. Oslo is in Norway. Where is Rome? In Italy, of course. Answer:"] * 4
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content | trim }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
PROMPT = "Rome is in Italy. Oslo is in Norway.\nWhere is Rome? Answer:"


def tokenizer_of(kind: str) -> Any:
    """A byte-level tokenizer, with a first token for Llama, and a last one for T5."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    rules = Tokenizer(models.BPE())
    rules.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rules.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    rules.train_from_iterator(CORPUS, trainer)
    frame = {"llama": "<s> $A", "t5": "$A </s>"}.get(kind)
    if frame is not None:
        rules.post_processor = processors.TemplateProcessing(
            single=frame, special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=rules, bos_token="<s>", eos_token="</s>", chat_template=CHAT
    )


def model_of(kind: str) -> Any:
    import transformers as hf

    sizes: dict[str, Any] = {"vocab_size": 340, "bos_token_id": 0, "eos_token_id": 1}
    usual: dict[str, Any] = sizes | {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.4,
    }
    torch.manual_seed(0)
    if kind == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**usual))
    if kind == "qwen2":
        return hf.Qwen2ForCausalLM(hf.Qwen2Config(**usual))
    if kind == "gpt2":
        small = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 256}
        return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, **small, initializer_range=0.4))
    small = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    config = hf.T5Config(
        **sizes, **small, decoder_start_token_id=0, pad_token_id=0, initializer_factor=3.0
    )
    return hf.T5ForConditionalGeneration(config)


@pytest.fixture(scope="module", name="pairs")
def _pairs() -> dict[str, tuple[Any, Any]]:
    return {kind: (model_of(kind).eval(), tokenizer_of(kind)) for kind in KINDS}


def log_probabilities(model: Any, prompt: Sequence[int], answer: Sequence[int]) -> Floats:
    """The log-probability of each token of an answer, by a forward for it alone."""
    found = []
    for place, token in enumerate(answer):
        before = torch.tensor([answer[:place]], dtype=torch.long)
        with torch.no_grad():
            if model.config.is_encoder_decoder:
                start = torch.tensor([[model.config.decoder_start_token_id]])
                logits = model(
                    input_ids=torch.tensor([list(prompt)]),
                    decoder_input_ids=torch.cat((start, before), dim=1),
                ).logits
            else:
                whole = torch.tensor([[*prompt, *answer[:place]]])
                logits = model(input_ids=whole).logits
        found.append(float(logits[0, -1].double().log_softmax(dim=0)[token]))
    return np.array(found)


def kept_ids(tokenizer: Any, text: str, absent: Sequence[tuple[int, int]]) -> list[int]:
    """The tokens of a text of which no letter is in an absent part."""
    coded = tokenizer(text, return_offsets_mapping=True)
    pairs = zip(coded["input_ids"], coded["offset_mapping"], strict=True)
    return [
        token
        for token, (start, end) in pairs
        if not any(start < high and low < end for low, high in absent)
    ]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S[^.?\n]*[.?]", text)]


@pytest.mark.parametrize("kind", KINDS)
def test_values_against_all_coalitions_one_by_one(
    kind: str, pairs: dict[str, tuple[Any, Any]]
) -> None:
    model, tokenizer = pairs[kind]
    model.train()  # it is put into eval mode, and back
    explainer = Explainer((model, tokenizer), groups=re.compile(r"\S[^.?\n]*[.?]"), output="tokens")
    answer = explainer(PROMPT, answer=" In Italy")
    assert model.training
    model.eval()

    spans = sentence_spans(PROMPT)
    assert answer.feature_names == [PROMPT[start:end] for start, end in spans]
    assert answer.starts is not None
    assert answer.starts.tolist() == [[start for start, _ in spans]]
    ids = tokenizer(" In Italy", add_special_tokens=False)["input_ids"]
    table = np.array(
        [
            log_probabilities(
                model,
                kept_ids(
                    tokenizer, PROMPT, [s for s, kept in zip(spans, z, strict=True) if not kept]
                ),
                ids,
            )
            for z in all_coalitions(len(spans))
        ]
    )
    wanted = np.stack([exact_shares(column) for column in table.T], axis=1)
    np.testing.assert_allclose(answer.values[0, :, 1:], wanted, atol=2e-5)
    np.testing.assert_allclose(answer.values[0, :, 0], wanted.sum(axis=1), atol=2e-5)
    np.testing.assert_allclose(answer.predictions[0, 0], table[-1].sum(), atol=2e-5)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    assert answer.answers is not None
    assert "".join(answer.answers[0, 1:]) == answer.answers[0, 0] == " In Italy"
