"""Hugging Face text classifiers, with a tiny one of random weights."""

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from clock import Watch
from games import Floats, all_coalitions, exact_shares
from shearshap import Explainer, Explanation, InputError, ModelError, ShearWarning, plots

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
KNOWN = [*SPECIAL, *["the", "film", "was", "good", "bad", "##ly", "not", "great", "aw", "##ful"]]
SIZES: dict[str, Any] = {
    "vocab_size": len(KNOWN),
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "initializer_range": 0.5,
}


@pytest.fixture(scope="module", name="classifier")
def _classifier() -> tuple[Any, Any]:
    """A tiny classifier of texts, and its tokenizer; transformers takes long to import."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    rules = Tokenizer(
        models.WordPiece({word: at for at, word in enumerate(KNOWN)}, unk_token="[UNK]")
    )
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    rules.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad", "unk", "cls", "sep", "mask")
    tokens = {f"{name}_token": token for name, token in zip(names, SPECIAL, strict=True)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=rules, **tokens)
    torch.manual_seed(0)
    config = BertConfig(id2label={0: "negative", 1: "positive"}, **SIZES)
    return BertForSequenceClassification(config).eval(), tokenizer


def logits(classifier: tuple[Any, Any], ids: list[int]) -> Floats:
    return classifier[0](input_ids=torch.tensor([ids])).logits.detach().double().numpy()[0]  # type: ignore[no-any-return]


def test_tokens_against_one_evaluation_at_a_time(classifier: tuple[Any, Any]) -> None:
    answer = Explainer(classifier, scale="margin")(["the film was good", "not bad"])
    assert answer.output_names == ["negative", "positive"]
    assert answer.display_data is not None
    assert answer.display_data.tolist() == [["the", "film", "was", "good"], ["not", "bad", "", ""]]
    for row, inner in enumerate(([5, 6, 7, 8], [11, 9])):
        masked = [
            [token if kept else 4 for token, kept in zip(inner, z, strict=True)]
            for z in all_coalitions(len(inner))
        ]
        table = np.array([logits(classifier, [2, *tokens, 3]) for tokens in masked])
        for output in range(2):
            wanted = exact_shares(table[:, output])
            np.testing.assert_allclose(answer.values[row, : len(inner), output], wanted, atol=1e-5)
    assert (answer.values[1, 2:] == 0).all()
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)


def test_words_are_groups_of_tokens(classifier: tuple[Any, Any]) -> None:
    answer = Explainer(classifier, groups="words", output="positive", scale="probability")(
        ["the film was awful badly"]
    )
    assert answer.feature_names == ["the", "film", "was", "awful", "badly"]
    whole = torch.tensor(logits(classifier, [2, 5, 6, 7, 13, 14, 9, 10, 3])).softmax(dim=0)[1]
    np.testing.assert_allclose(answer.predictions, [float(whole)], atol=1e-6)
    masked = torch.tensor(logits(classifier, [2, *[4] * 7, 3])).softmax(dim=0)[1]
    np.testing.assert_allclose(answer.base_values, [float(masked)], atol=1e-6)


def test_shear_differentiates_a_text_at_its_embeddings(classifier: tuple[Any, Any]) -> None:
    model, _ = classifier
    model.train()
    answer = Explainer(classifier, method="shear", output=1)(["the film was not awful"], budget=120)
    assert answer.derivative_passes > 0
    assert model.training
    model.eval()
    exact = Explainer(classifier, method="exact", output=1)(["the film was not awful"], budget=64)
    assert abs(answer.values - exact.values).max() < 0.2 * abs(exact.values).max()


def test_a_pipeline_and_bare_token_ids(classifier: tuple[Any, Any]) -> None:
    from transformers import pipeline

    model, tokenizer = classifier
    pair = Explainer(classifier, output=1, scale="margin")(["the film was good"])
    piped = Explainer(
        pipeline("text-classification", model=model, tokenizer=tokenizer), output=1, scale="margin"
    )(["the film was good"])
    np.testing.assert_allclose(pair.values, piped.values, atol=1e-6)
    mask = np.array([0, 1, 2, 3, 4, 5])
    bare = Explainer(model, torch.tensor([2, 4, 4, 4, 4, 3]), groups=mask, output=1)(
        torch.tensor([[2, 5, 6, 7, 8, 3]])
    )
    np.testing.assert_allclose(bare.values[:, 1:5], pair.values, atol=1e-6)
    # the ends are asked in a batch of their own, where single precision rounds otherwise
    np.testing.assert_allclose(bare.values[:, [0, 5]], 0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "texts", "message"),
    [
        ({}, [3], "rows: expected a list of texts, got int"),
        ({}, {"text": ["good"]}, "rows: expected a list of texts, got a dict"),
        ({}, pd.DataFrame({"good": ["not bad"]}), "got a DataFrame; pass"),
        ({}, pl.DataFrame({"good": ["not bad"]}), "got a DataFrame; pass"),
        ({}, [], "rows: expected a list of texts, got none"),
        ({}, [""], "rows: text 0 has no parts to explain: ''"),
        ({"feature_names": ["a"]}, ["good"], "feature_names: the features of a text"),
        (
            {"groups": "letters"},
            ["good"],
            "groups: for texts, expected 'tokens', 'words', 'sentences', 'lines'",
        ),
        ({"background": "[BLANK]"}, ["good"], "background: the tokenizer has no token '[BLANK]'"),
        ({"background": np.zeros(3)}, ["good"], "background: for texts, expected a token"),
    ],
)
def test_bad_texts(
    classifier: tuple[Any, Any], options: dict[str, Any], texts: Any, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Explainer(classifier, **options)(texts)


def test_a_text_model_without_its_tokenizer_says_what_it_lacks(classifier: tuple[Any, Any]) -> None:
    from transformers import BertConfig, BertModel

    model, tokenizer = classifier
    lacks_tokenizer = "needs its tokenizer; pass both, Explainer((model, tokenizer))"
    cases: list[tuple[Any, Any, Any, str]] = [
        (model, None, ["good"], lacks_tokenizer),
        (model, "[MASK]", pd.Series(["good"]), lacks_tokenizer),
        (tokenizer, None, ["good"], "expected a text classifier with its tokenizer"),
        ((tokenizer, model), None, ["good"], "expected a text classifier with its tokenizer"),
        ([model, tokenizer], None, ["good"], "expected a text classifier with its tokenizer"),
        ((model, "bert-base"), None, ["good"], "got tuple of BertForSequenceClassification, str"),
    ]
    for wrong, background, texts, message in cases:
        with pytest.raises(InputError, match=re.escape(message)):
            Explainer(wrong, background)(texts)
    with pytest.raises(ModelError, match="without logits; expected a model for sequence"):
        Explainer((BertModel(BertConfig(**SIZES)), tokenizer))(["good"])


def test_labels_that_do_not_exclude_each_other(
    classifier: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = classifier
    monkeypatch.setattr(model.config, "problem_type", "multi_label_classification")
    labels = Explainer(classifier, scale="probability")(["not bad"])
    wanted = torch.tensor(logits(classifier, [2, 11, 9, 3])).sigmoid()
    np.testing.assert_allclose(labels.predictions[0], wanted, atol=1e-6)
    with pytest.raises(InputError, match="outputs are known to be independent labels"):
        Explainer(classifier, scale="probability", multilabel=False)(["not bad"])
    monkeypatch.undo()
    stated = Explainer(classifier, scale="probability", multilabel=True)(["not bad"])
    np.testing.assert_array_equal(stated.predictions, labels.predictions)
    with pytest.raises(InputError, match="returns='probability': the model is known to"):
        Explainer(classifier, scale="probability", returns="probability")(["not bad"])


def test_texts_stop_at_the_deadline(classifier: tuple[Any, Any], watch: Watch) -> None:
    model, tokenizer = classifier

    def tick(*_inputs: object) -> None:
        watch.now += 1

    texts = ["the film was good", "not bad", "great", "awful"] * 10
    hook = model.register_forward_pre_hook(tick)
    with pytest.warns(
        ShearWarning, match=r"the deadline of 20 s was reached after \d+ of 40 texts"
    ):
        part = Explainer((model, tokenizer))(texts, deadline=20)
    hook.remove()
    assert 1 <= len(part) < 40
    assert watch.now <= 121


def test_texts_carry_their_labels(classifier: tuple[Any, Any]) -> None:
    texts = ["the film was good", "good"]
    named = Explainer(classifier, output=1)(texts, index=["a", "b"])
    assert named.index.tolist() == ["a", "b"]
    series = pd.Series(texts, index=pd.Index([7, 9], name="review"))
    labelled = Explainer(classifier, output=1)(series)
    assert labelled.index.tolist() == [7, 9]
    assert labelled.index_name == "review"
    np.testing.assert_allclose(labelled.values, named.values, atol=1e-6)
    with pytest.raises(InputError, match="index: expected 2 labels, one per row, got 1"):
        Explainer(classifier)(texts, index=["a"])


@pytest.mark.parametrize("method", ["auto", "shear"])
def test_an_error_leads_to_the_text_it_came_of(
    classifier: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    model, _ = classifier
    own = type(model).forward

    def forward(self: Any, input_ids: Any = None, **rest: Any) -> Any:
        if input_ids is not None:
            is_great = (input_ids == 12).any(dim=1)
            is_masked = (input_ids == 4).any(dim=1)
            if bool((is_great & is_masked).any()):
                raise RuntimeError("great alone")
        return own(self, input_ids=input_ids, **rest)

    monkeypatch.setattr(type(model), "forward", forward)
    texts = ["the film", "not bad", "good", "the great film"]
    labels = ["a", "b", "c", "d"]
    with pytest.raises(ModelError, match=r"\(first on row 3 with [12] of 3 features") as caught:
        Explainer(classifier, method=method)(texts, budget=16, index=labels)
    error = caught.value
    assert error.row == 3
    assert error.finished.index.tolist() == ["a", "b", "c"]
    words = np.array(["the", "great", "film"])
    present = ", ".join(words[error.coalition])
    absent = ", ".join(words[~error.coalition])
    assert "great" in present
    notes = "".join(error.__notes__)
    assert "Row 3 has the label 'd'." in notes
    assert f"Features present: {present}; absent: {absent}." in notes


def test_texts_of_all_lengths_come_back_in_their_order(classifier: tuple[Any, Any]) -> None:
    words = ["good", "bad", "film", "awful", "great", "was", "the", "not"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(40)]
    explainer = Explainer(classifier, method="exact", output=1)
    together = explainer(texts)
    assert together.texts is not None
    assert together.texts.tolist() == texts
    assert together.index.tolist() == list(range(40))
    for number in (0, 7, 39):
        alone = explainer(texts[number])
        own = alone.values[0]
        np.testing.assert_allclose(together.values[number, : len(own)], own, atol=1e-5)
    blocks = Explanation.concat(explainer.stream(texts))
    np.testing.assert_allclose(blocks.values, together.values, atol=1e-6)


def test_probabilities_are_the_default_as_of_a_pipeline(classifier: tuple[Any, Any]) -> None:
    answer = Explainer(classifier)(["the film was good"])
    whole = torch.tensor(logits(classifier, [2, 5, 6, 7, 8, 3])).softmax(dim=0)
    np.testing.assert_allclose(answer.predictions[0], whole, atol=1e-6)
    assert answer.scale == "probability"


def test_a_classifier_without_positions(classifier: tuple[Any, Any]) -> None:
    """T5 has no most number of tokens, and neither has a tokenizer made by hand."""
    from transformers import T5Config, T5ForSequenceClassification

    torch.manual_seed(0)
    small = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = T5Config(
        vocab_size=20, **small, decoder_start_token_id=0, eos_token_id=3, pad_token_id=0
    )
    answer = Explainer((T5ForSequenceClassification(config), classifier[1]))(["good film"])
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)


def test_a_classifier_that_depends_on_its_batch_is_noticed(
    classifier: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = classifier
    own = type(model).forward

    def forward(self: Any, **inputs: Any) -> Any:
        result = own(self, **inputs)
        result.logits = result.logits + 0.1 * len(result.logits) * torch.tensor([1.0, -1.0])
        return result

    monkeypatch.setattr(type(model), "forward", forward)
    with pytest.warns(ShearWarning, match="depends on the other texts in its batch"):
        Explainer(classifier)(["the film was good", "a film was awful"])


def test_words_are_in_sentences(classifier: tuple[Any, Any]) -> None:
    text = "the film was good! the acting was awful!"
    explainer = Explainer(classifier, groups=("sentences", "words"), output="positive")
    answer = explainer([text], budget=1000)
    assert answer.method == "exact"
    words = answer.feature_names
    assert answer.hierarchy is not None
    assert list(dict.fromkeys(answer.hierarchy)) == [
        (" ".join(words[: len(words) // 2]),),
        (" ".join(words[len(words) // 2 :]),),
    ]
    folded = answer.fold()
    assert len(folded.feature_names) == 2
    np.testing.assert_allclose(folded.gap, 0, atol=1e-6)
    plots.text(folded)
