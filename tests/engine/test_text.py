"""Functions of texts, and Pipelines of scikit-learn that read texts."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from clock import Watch
from games import all_coalitions, exact_shares
from shearshap import (
    Explainer,
    Explanation,
    InputError,
    ModelError,
    Prompt,
    ShearWarning,
    explain,
    plots,
)
from shearshap.result.importance import Importance

TEXTS = ["the film was good", "a bad bad film\nso bad"]


def lengths(texts: list[str]) -> list[float]:
    """The square of the number of letters: words act together."""
    assert isinstance(texts, list)
    return [len(text) ** 2 / 10 for text in texts]


def test_a_function_against_all_coalitions() -> None:
    answer = Explainer(lengths, text="words")(TEXTS)
    assert answer.values.shape == (2, 6)
    for row, text in enumerate(TEXTS):
        words = text.split()
        table = []
        for z in all_coalitions(len(words)):
            kept = [word for word, is_kept in zip(words, z, strict=True) if is_kept]
            own = " ".join(kept)
            table.append(len(own) ** 2 / 10)
        wanted = exact_shares(np.array(table))
        np.testing.assert_allclose(answer.values[row, : len(words)], wanted)
        np.testing.assert_allclose(answer.predictions[row], len(text) ** 2 / 10)
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    assert (answer.values[0, 4:] == 0).all()


def test_several_outputs_names_hierarchies_and_substitutes() -> None:
    def counts(texts: list[str]) -> Any:
        return np.array([[text.count("bad"), text.count("...")] for text in texts])

    answer = Explainer(counts, "...", text=("lines", "words"), output_names=["bad", "dots"])(
        TEXTS[1:]
    )
    assert answer.output_names == ["bad", "dots"]
    np.testing.assert_allclose(answer.values[0, :, 0], [0, 1, 1, 0, 0, 1], atol=1e-9)
    np.testing.assert_allclose(answer.values[0, :, 1], -1, atol=1e-9)
    assert answer.fold().feature_names == ["a bad bad film", "so bad"]
    assert answer.background == "'...'"


def test_a_pipeline_of_texts_is_recognised(tmp_path: Any) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    pipeline.fit(["good film", "bad film", "so good", "so bad"], ["yes", "no", "yes", "no"])
    rows = pd.Series(TEXTS, index=pd.Index([7, 9], name="review"))
    answer = Explainer(pipeline, output="yes")(rows)
    np.testing.assert_allclose(answer.predictions, pipeline.predict_proba(TEXTS)[:, 1])
    np.testing.assert_allclose(answer.base_values, pipeline.predict_proba(["", ""])[:, 1])
    assert answer.index.tolist() == [7, 9]
    margins = explain(pipeline, rows, scale="margin")
    np.testing.assert_allclose(margins.predictions, pipeline.decision_function(TEXTS))

    frame = answer.to_frame()
    assert frame["feature"].tolist() == [*TEXTS[0].split(), *TEXTS[1].split()]
    spans = zip(frame["row"], frame["start"], frame["end"], strict=True)
    assert [rows[row][start:end] for row, start, end in spans] == frame["feature"].tolist()
    answer.save(tmp_path / "texts.npz")
    loaded = Explanation.load(tmp_path / "texts.npz")
    assert loaded.texts is not None
    assert loaded.texts.tolist() == TEXTS
    assert loaded.to_frame().equals(frame)

    table = answer.abs().mean()
    assert isinstance(table, Importance)
    assert "bad" in table.feature_names
    plots.bar(answer)
    plots.text(answer, row=1)


def test_a_search_and_a_pipeline_in_a_pipeline_are_recognised() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    nested = make_pipeline(make_pipeline(CountVectorizer()), LogisticRegression())
    search = GridSearchCV(nested, {"logisticregression__C": [1.0]}, cv=2)
    search.fit(["good film", "bad film", "so good", "so bad"], ["yes", "no", "yes", "no"])
    for model in (search, search.best_estimator_):
        answer = Explainer(model, output="yes")(TEXTS)
        np.testing.assert_allclose(answer.predictions, search.predict_proba(TEXTS)[:, 1])


def test_the_deadline_of_texts_is_noted(watch: Watch) -> None:
    def slow(texts: list[str]) -> list[float]:
        watch.now += 0.01 * len(texts)
        return [0.0] * len(texts)

    with pytest.warns(ShearWarning, match="the deadline of"):
        part = Explainer(slow, text="words")(["a b c"] * 100, deadline=0.3)
    assert len(part) < 100
    assert any("the deadline of 0.3 s" in note for note in part.notes)


def test_prompts_with_different_fields_share_their_names() -> None:
    rows = [
        Prompt("{docs} {question}", {"docs": ["a b", "c"], "question": "d?"}),
        Prompt("{docs} {question}", {"docs": ["e", "f", "g h"], "question": "i?"}),
    ]
    answer = Explainer(lengths, text=True)(rows)
    assert answer.feature_names == ["docs 0", "docs 1", "docs 2", "question"]
    assert answer.display_data is not None
    assert answer.display_data.tolist() == [["a b", "c", "", "d?"], ["e", "f", "g h", "i?"]]
    assert answer.values[0, 2] == 0
    np.testing.assert_allclose(answer.gap, 0, atol=1e-9)
    assert len(answer.to_frame()) == 7


def test_what_is_printed_and_shown() -> None:
    answer = Explainer(lengths, text="words")(TEXTS * 4)
    printed = str(answer)
    assert "0  prediction: 28.90, from a base value of 0.00" in printed
    assert re.search(r"\+\d\.\d+  █+  +film", printed)
    assert "... and 3 more texts" in printed
    page = answer._repr_html_()
    assert page.count('class="shear-passage"') == 5
    assert 'title="+' in page
    assert ">good</span>" in page


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    answer = Explainer(lengths, text="words")("good film")
    assert "\033[38;2;0;0;0;48;2;" in str(answer)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in str(answer)


def test_an_error_leads_to_the_text() -> None:
    def picky(texts: list[str]) -> list[float]:
        if any("bad" in text and "film" not in text for text in texts):
            raise ValueError("bad without film")
        return [0.0] * len(texts)

    with pytest.raises(ModelError, match="bad without film") as caught:
        Explainer(picky, text="words")(TEXTS, index=["a", "b"])
    assert caught.value.row == 1
    assert "film" not in caught.value.inputs
    assert caught.value.finished.index.tolist() == ["a"]


def bad_fields(fields: Any) -> Any:
    """Fields that types would not allow."""
    return fields


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"text": "words", "groups": "lines"}, TEXTS, "text and groups: both say what the parts"),
        ({"text": "words", "background": [0]}, TEXTS, "expected 'remove' or a text such as"),
        ({"text": "words", "feature_names": ["a"]}, TEXTS, "feature_names: the features of a"),
        ({"text": "words"}, np.zeros((2, 3)), "rows: expected a list of texts, got a ndarray"),
        ({"text": "words"}, [["a"], ["b"]], "rows: expected a list of texts, got list"),
        ({"text": "words", "background": "pad"}, TEXTS, "background='pad': this model has no"),
        ({"text": True}, Prompt("{a} {", {"a": "b"}), "the template cannot be read: Single '{'"),
        (
            {"text": True},
            Prompt("{a}", bad_fields({"a": 3})),
            "Prompt: expected texts in 'a', got int",
        ),
        (
            {"text": True},
            Prompt("{a}", bad_fields(["a"])),
            "Prompt: expected a mapping of fields, got list",
        ),
    ],
)
def test_bad_texts(options: dict[str, Any], rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Explainer(lengths, **options)(rows)


def test_answers_belong_to_language_models() -> None:
    with pytest.raises(InputError, match="answer: expected a language model"):
        Explainer(lengths, text="words")(TEXTS, answer="yes")
    with pytest.raises(InputError, match="answer: expected a language model"):
        Explainer(lambda x: x.sum(axis=1), 0.0)(np.ones((2, 3)), answer="yes")
