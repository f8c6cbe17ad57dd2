"""Language models: tiny ones of random weights, against one forward at a time."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from games import Floats, all_coalitions, exact_shares
from shearshap import Explainer, InputError, ModelError, Prompt, ShearWarning, plots
from shearshap.models import generation

KINDS = ("llama", "qwen2", "gpt2", "t5", "bart")
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
    if kind == "bart":
        return hf.BartForConditionalGeneration(bart_config(sizes))
    small = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    config = hf.T5Config(
        **sizes, **small, decoder_start_token_id=0, pad_token_id=0, initializer_factor=1.0
    )
    return hf.T5ForConditionalGeneration(config)


def bart_config(sizes: dict[str, Any]) -> Any:
    """A configuration whose answers all begin with the same token, as those of BART do."""
    import transformers as hf

    small = {"d_model": 16, "max_position_embeddings": 256, "init_std": 0.4}
    for side in ("encoder", "decoder"):
        small |= {f"{side}_layers": 1, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 32}
    tokens = {"decoder_start_token_id": 1, "pad_token_id": 1, "forced_bos_token_id": 0}
    return hf.BartConfig(**sizes, **small, **tokens)


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
                forced = model.generation_config.forced_bos_token_id
                begins = [
                    model.config.decoder_start_token_id,
                    *([] if forced is None else [forced]),
                ]
                start = torch.tensor([begins])
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


@pytest.mark.parametrize("kind", KINDS)
def test_padding_batches_and_kept_prefixes_change_nothing(
    kind: str, pairs: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = "Oslo is in Norway. " * 4
    prompts = [Prompt(fixed + "{facts} Answer:", {"facts": facts}) for facts in (
        "Rome is in Italy.", "Where is Rome? In Italy, of course.", "Oslo.",
    )]  # fmt: skip
    answers = [" Italy", " In Norway, of course.", " Rome"]

    def values(**options: Any) -> Floats:
        explainer = Explainer(pairs[kind], groups="words", output="tokens", **options)
        return explainer(prompts, answer=answers, budget=64).values

    kept = values()
    alone = values(batch_size=1)
    np.testing.assert_allclose(kept, alone, atol=1e-5)
    monkeypatch.setattr(generation, "MIN_PREFIX", 10_000)
    np.testing.assert_allclose(values(), alone, atol=1e-5)
    monkeypatch.setitem(generation.MAX_TOKENS, "cpu", 100)
    np.testing.assert_allclose(values(), alone, atol=1e-5)


def test_the_prefix_goes_through_the_model_once(
    pairs: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = pairs["llama"]
    seen: list[tuple[int, ...]] = []
    own = type(model).forward

    def forward(self: Any, input_ids: Any = None, **rest: Any) -> Any:
        seen.append(tuple(input_ids.shape))
        return own(self, input_ids=input_ids, **rest)

    monkeypatch.setattr(type(model), "forward", forward)
    prompt = Prompt("Oslo is in Norway. " * 8 + "{facts} Answer:", {"facts": "Rome is in Italy."})
    Explainer((model, tokenizer), groups="words")(prompt, answer=" Italy", budget=16)
    length = len(tokenizer("Oslo is in Norway. " * 8)["input_ids"])
    ones = [shape for shape in seen if shape[0] == 1]
    assert len(ones) == 1
    assert length - 3 <= ones[0][1] <= length
    assert max(width for count, width in seen if count > 1) < 20


def test_memory_that_runs_out_halves_the_forwards(
    pairs: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = pairs["gpt2"]
    wanted = Explainer((model, tokenizer))(PROMPT, answer=" Italy", budget=64)
    own = type(model).forward

    def forward(self: Any, input_ids: Any = None, **rest: Any) -> Any:
        if len(input_ids) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return own(self, input_ids=input_ids, **rest)

    monkeypatch.setattr(type(model), "forward", forward)
    halved = Explainer((model, tokenizer))(PROMPT, answer=" Italy", budget=64)
    np.testing.assert_allclose(halved.values, wanted.values, atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_the_generated_answer_is_the_models_own(
    kind: str, pairs: dict[str, tuple[Any, Any]]
) -> None:
    model, tokenizer = pairs[kind]
    prompts = [PROMPT, "Where is Rome?"]
    explained = Explainer((model, tokenizer), groups="sentences")(prompts, answer=3)
    assert explained.notes == ("The answer was generated greedily, with at most 3 tokens.",)
    ids = [np.array(tokenizer(prompt)["input_ids"]) for prompt in prompts]
    language = generation.LanguageModel(model, tokenizer)
    answers = language.generated(ids, 3, torch.device("cpu"))
    for prompt, answer, text in zip(ids, answers, explained.answers, strict=True):  # type: ignore[arg-type]
        alone = torch.from_numpy(prompt)[None]
        made = model.generate(alone, max_new_tokens=3, do_sample=False, pad_token_id=1)[0]
        new = made[1:] if kind == "t5" else made[len(prompt) :]
        assert answer.ids.tolist() == new.tolist()
        assert answer.text == text


def test_sentences_of_an_answer_add_up(pairs: dict[str, tuple[Any, Any]]) -> None:
    answer = " In Italy. Oslo is in Norway."
    both = [PROMPT, "Where is Oslo? Answer:"]
    parts = Explainer(pairs["llama"], groups="sentences", output="sentences")(
        both, answer=[answer, " In Norway."]
    )
    assert parts.output_names == ["answer", "sentence 0", "sentence 1"]
    assert parts.answers is not None
    assert parts.answers.tolist() == [
        [answer, " In Italy.", " Oslo is in Norway."],
        [" In Norway.", " In Norway.", ""],
    ]
    np.testing.assert_allclose(parts.values[..., 1:].sum(axis=2), parts.values[..., 0])
    assert (parts.values[1, :, 2] == 0).all()
    total = Explainer(pairs["llama"], groups="sentences")(both, answer=[answer, " In Norway."])
    np.testing.assert_allclose(total.values, parts.values[..., 0], atol=1e-9)
    assert total.scale == "log-probability"


def test_a_chat_keeps_its_template_and_its_system_prompt(pairs: dict[str, tuple[Any, Any]]) -> None:
    model, tokenizer = pairs["qwen2"]
    chat = [
        {"role": "system", "content": "Oslo is in Norway."},
        {"role": "user", "content": " Rome is in Italy. "},
        {"role": "assistant", "content": "Of course."},
        {"role": "user", "content": Prompt("{facts} Where is {city}?", {"facts": ["Rome.", "Oslo."], "city": "Rome"})},
    ]  # fmt: skip
    explainer = Explainer((model, tokenizer), groups="messages")
    answer = explainer([chat], answer="Italy")
    assert answer.feature_names == ["user 1", "assistant 2", "facts 0", "facts 1", "city"]
    empty = (
        "<|system|>\nOslo is in Norway.<|end|>\n<|user|>\n<|end|>\n<|assistant|>\n<|end|>\n"
        "<|user|>\n Where is?<|end|>\n<|assistant|>\n"
    )
    (text,) = answer.texts  # type: ignore[misc]
    assert text == (
        "<|system|>\nOslo is in Norway.<|end|>\n<|user|>\nRome is in Italy.<|end|>\n"
        "<|assistant|>\nOf course.<|end|>\n<|user|>\nRome.\nOslo. Where is Rome?<|end|>\n"
        "<|assistant|>\n"
    )
    ids = tokenizer("Italy", add_special_tokens=False)["input_ids"]
    for end, words in ((answer.predictions, text), (answer.base_values, empty)):
        prompt = tokenizer(words, add_special_tokens=False)["input_ids"]
        np.testing.assert_allclose(end[0], log_probabilities(model, prompt, ids).sum(), atol=2e-5)
    system = Explainer((model, tokenizer), groups=("system", "words"))([chat], answer="Italy")
    assert system.feature_names == ["Oslo", "is", "in", "Norway."]
    facts = Explainer((model, tokenizer), groups=["facts"])([chat, chat], answer="Italy")
    assert facts.feature_names == ["facts 0", "facts 1"]


@pytest.mark.parametrize(
    ("background", "wanted"),
    [("pad", "</s>" * 5), ("...", "..."), ("remove", "")],
)
def test_what_stands_in_for_absent_parts(
    background: str, wanted: str, pairs: dict[str, tuple[Any, Any]]
) -> None:
    model, _ = pairs["gpt2"]
    tokenizer = tokenizer_of("gpt2")
    tokenizer.pad_token = "</s>"
    prompt = "Where is Rome? Rome is in Italy. Answer:"
    explainer = Explainer((model, tokenizer), background, groups={"fact": " Rome is in Italy."})
    answer = explainer(prompt, answer=" Italy")
    ids = tokenizer(" Italy")["input_ids"]
    fact = len(tokenizer(" Rome is in Italy.")["input_ids"])
    assert fact == 5
    before = tokenizer("Where is Rome?" + wanted + " Answer:")["input_ids"]
    np.testing.assert_allclose(
        answer.base_values[0], log_probabilities(model, before, ids).sum(), atol=2e-5
    )


def test_an_empty_prompt_begins_with_the_first_token(pairs: dict[str, tuple[Any, Any]]) -> None:
    model, tokenizer = pairs["gpt2"]
    assert tokenizer.pad_token is None
    answer = Explainer((model, tokenizer))("Rome is", answer=" in")
    ids = tokenizer(" in")["input_ids"]
    wanted = log_probabilities(model, [0], ids).sum()
    np.testing.assert_allclose(answer.base_values[0], wanted, atol=1e-5)


def test_pipelines_half_precision_and_models_that_are_spread(
    pairs: dict[str, tuple[Any, Any]],
) -> None:
    from transformers import pipeline

    model, tokenizer = pairs["llama"]
    wanted = Explainer((model, tokenizer), groups="sentences")(PROMPT, answer=" Italy")
    piped = Explainer(
        pipeline("text-generation", model=model, tokenizer=tokenizer), groups="sentences"
    )
    np.testing.assert_allclose(piped(PROMPT, answer=" Italy").values, wanted.values, atol=1e-6)
    half = model_of("llama").eval().to(torch.bfloat16)
    half.hf_device_map = {"": "cpu"}
    rough = Explainer((half, tokenizer), groups="sentences")(PROMPT, answer=" Italy")
    assert next(half.parameters()).dtype is torch.bfloat16
    np.testing.assert_allclose(rough.predictions, wanted.predictions, rtol=0.05)


@pytest.mark.parametrize(
    ("options", "prompts", "answer", "message"),
    [
        ({}, "", " Italy", "rows: text 0 has no parts to explain: ''"),
        ({}, ["Rome", "  "], " Italy", "rows: text 1 has no parts to explain"),
        ({}, "Rome is", "", "answer: expected a text, got an empty one for prompt 0"),
        (
            {},
            ["Rome", "Oslo"],
            [" Italy"],
            "answer: expected a text, or a list with one text per prompt (2)",
        ),
        ({}, "Rome", 0, "answer: expected a positive integer, got 0"),
        ({}, "Rome is " * 200, " in", "tokens, and the model's context holds 256; shorten"),
        (
            {"groups": [(0, 6), (5, 7)]},
            "Rome is",
            " in",
            "groups: parts overlap: 'Rome i' and 'is'",
        ),
        ({"groups": [(0, 9)]}, "Rome is", " in", "expected a span (start, end) in a text of 7"),
        ({"groups": {"a": "Oslo"}}, "Rome is", " in", "got 'Oslo', which occurs 0 times"),
        ({"groups": [(0, 1), (1, 3)]}, "Rome is", " in", "the part 'R' is only a piece of a token"),
        ({"groups": "messages"}, "Rome is", " in", "expected a chat or a Prompt for 'messages'"),
        ({"groups": "docs"}, "Rome is", " in", "groups: for texts, expected 'tokens', 'words'"),
        ({"output": 1}, "Rome is", " in", "expected None, 'tokens' or 'sentences', got 1"),
        ({"scale": "probability"}, "Rome is", " in", "the log-probability of an answer is"),
        ({"background": "mask"}, "Rome is", " in", "the tokenizer has no mask token; try"),
        ({"background": 0}, "Rome is", " in", "expected 'remove' or a text such as '...'"),
        ({"loss": "mse"}, "Rome is", " in", "loss: expected a model for tables"),
    ],
)
def test_bad_prompts(
    options: dict[str, Any],
    prompts: Any,
    answer: Any,
    message: str,
    pairs: dict[str, tuple[Any, Any]],
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Explainer(pairs["gpt2"], **options)(prompts, answer=answer)


def test_an_answer_that_has_other_tokens_after_its_prompt_is_noted(
    pairs: dict[str, tuple[Any, Any]],
) -> None:
    split = Explainer(pairs["gpt2"])("Where is R", answer="ome")
    assert split.notes[0].startswith(
        "The answer 'ome' was tokenised separately, since it has other tokens right"
    )
    whole = Explainer(pairs["gpt2"])("Where is", answer=" Rome")
    assert not whole.notes


def test_a_letter_of_several_tokens(pairs: dict[str, tuple[Any, Any]]) -> None:
    model, tokenizer = pairs["gpt2"]
    explained = Explainer((model, tokenizer), output="tokens")("Where is", answer=" \u00e9\u2603.")
    assert explained.answers is not None
    pieces = explained.answers[0]
    assert pieces[0] == " \u00e9\u2603."
    assert len(pieces) == 1 + len(tokenizer(" \u00e9\u2603.")["input_ids"])
    assert "" not in pieces.tolist()
    assert "".join(pieces[1:]).replace("\ufffd", "") == pieces[0]


def test_labels_deadlines_and_streams(pairs: dict[str, tuple[Any, Any]]) -> None:
    explainer = Explainer(pairs["gpt2"], groups="sentences")
    prompts = [PROMPT, "Where is Rome?", PROMPT]
    whole = explainer(prompts, answer=" Italy", index=["a", "b", "c"], deadline=1e6)
    assert whole.index.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(whole.values[0], whole.values[2], atol=1e-6)
    streamed = list(explainer.stream(prompts, answer=" Italy"))
    assert sum(map(len, streamed)) == 3
    with pytest.raises(InputError, match="prepare: every text has its own words"):
        explainer.prepare(prompts)


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("template", [CHAT, CHATML])
def test_messages_are_found_in_any_template(
    pairs: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    """Also those that are words of the template, and fields that end in white space."""
    model, tokenizer = pairs["qwen2"]
    monkeypatch.setattr(tokenizer, "chat_template", template)
    question = Prompt("{docs}\n{q}", {"docs": ["  Rome is hot. ", ""], "q": "Where is it?\n"})
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "user"},
        {"role": "assistant", "content": "start"},
        {"role": "user", "content": question},
    ]
    answer = Explainer((model, tokenizer), groups=None)([chat], answer=" In", budget=16)
    assert answer.feature_names == ["user 0", "assistant 1", "docs 0", "q"]
    assert answer.texts is not None
    assert answer.starts is not None
    assert answer.ends is not None
    plain = [{**message, "content": str(message["content"])} for message in chat]
    text = tokenizer.apply_chat_template(plain, add_generation_prompt=True, tokenize=False)
    assert answer.texts[0] == text
    pieces = [
        text[start:end].strip() for start, end in zip(answer.starts[0], answer.ends[0], strict=True)
    ]
    assert pieces == ["user", "start", "Rome is hot.", "Where is it?"]
    # the tag before a message is no part of it
    assert all(text[: answer.starts[0][part]].endswith("\n") for part in range(3))


def test_one_message_is_explained_by_its_words(pairs: dict[str, tuple[Any, Any]]) -> None:
    chat = [{"role": "user", "content": "Where is Rome?"}]
    assert Explainer(pairs["llama"])([chat], answer=" In").feature_names == ["Where", "is", "Rome?"]


def test_parts_that_are_named_may_be_anywhere(pairs: dict[str, tuple[Any, Any]]) -> None:
    chat = [{"role": "system", "content": "be nice"}, {"role": "user", "content": "who is it"}]
    answer = Explainer(pairs["llama"], groups={"how": "be nice", "who": "who"})([chat], answer=" a")
    assert answer.feature_names == ["how", "who"]


def test_letters_of_several_tokens(pairs: dict[str, tuple[Any, Any]]) -> None:
    tokens = Explainer(pairs["llama"], groups="tokens")("café é", answer=" a")
    assert "".join(tokens.feature_names) == "café é"
    said = " \U0001f600\U0001f600 Yes. No. Maybe so."
    sentences = Explainer(pairs["llama"], output="sentences")("Rome is", answer=said)
    names = [name.strip() for name in sentences.output_names[1:]]
    assert names == ["\U0001f600\U0001f600 Yes.", "No.", "Maybe so."]
    whole = sentences.values[..., 1:].sum(axis=2)
    np.testing.assert_allclose(whole, sentences.values[..., 0], atol=1e-9)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_an_answer_is_generated_within_the_context(
    pairs: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    model, _ = pairs[kind]
    monkeypatch.setattr(model.generation_config, "eos_token_id", None)
    long = "Rome is in Italy. " * 80
    with pytest.raises(InputError, match=r"tokens, and the model's context holds 256; shorten"):
        Explainer(pairs[kind], groups="sentences")(long)
    with pytest.raises(InputError, match=r"tokens, and the model's (context|decoder) holds 256"):
        Explainer(pairs[kind])("Rome is", answer=long)
    room = Explainer(pairs[kind], groups="sentences")("Rome is in Italy. " * 12, answer=250)
    assert np.isfinite(room.predictions).all()


def test_a_long_prompt_leaves_the_answers_of_others_alone(
    pairs: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = pairs["gpt2"]
    monkeypatch.setattr(model.generation_config, "eos_token_id", None)
    explainer = Explainer(pairs["gpt2"], groups="lines")
    alone = explainer("Rome is", answer=12)
    both = explainer(["Rome is", "Oslo is in Norway. " * 34], answer=12)
    assert alone.answers is not None
    assert both.answers is not None
    assert both.answers[0] == alone.answers[0]
    assert len(both.answers[1]) < len(both.answers[0])


def test_a_model_that_fails_to_generate(
    pairs: dict[str, tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = pairs["llama"]

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no luck")

    monkeypatch.setattr(model, "generate", fails)
    with pytest.raises(ModelError, match="failed to generate an answer: RuntimeError: no luck"):
        Explainer(pairs["llama"])("Rome is")


def test_plots_of_an_answer_with_its_tokens_show_the_answer(
    pairs: dict[str, tuple[Any, Any]],
) -> None:
    answer = Explainer(pairs["llama"], output="tokens")("Rome is in Italy", answer=" In Italy")
    whole = Explainer(pairs["llama"])("Rome is in Italy", answer=" In Italy")
    for plot in (plots.bar, plots.text, plots.waterfall):
        drawn = [text.get_text() for text in plot(answer).texts]
        assert drawn == [text.get_text() for text in plot(whole).texts]
    page = answer._repr_html_() + answer._repr_html_()
    assert len(set(re.findall(r'type="radio" name="(\w+)"', page))) == 2


@pytest.mark.filterwarnings("ignore:There are no error bars")
def test_very_many_parts_with_few_evaluations() -> None:
    with pytest.warns(ShearWarning, match="too few for 520 features"):
        answer = Explainer(lambda texts: [len(text) for text in texts], text="words")(
            "word " * 520, budget=130
        )
    assert answer.evaluations == 130
