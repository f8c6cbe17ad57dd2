"""The parts of texts, and what is left of a text without some of them."""

import re
from typing import Any

import numpy as np
import pytest

from shearshap import InputError, Prompt
from shearshap.data.texts import Passage, passage, text_parts, unique_names

TEXT = "Dear all,\n\nRome is hot. Is it? (Yes!) Oslo\nis cold.\n\n  Bye"


def pieces(text: Any, groups: Any) -> list[str]:
    own = text.passage() if isinstance(text, Prompt) else Passage(text)
    return text_parts(own, groups, None).pieces


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        (None, TEXT.split()),
        ("words", TEXT.split()),
        (
            "sentences",
            ["Dear all,", "Rome is hot.", "Is it?", "(Yes!)", "Oslo", "is cold.", "Bye"],
        ),
        ("lines", ["Dear all,", "Rome is hot. Is it? (Yes!) Oslo", "is cold.", "Bye"]),
        ("paragraphs", ["Dear all,", "Rome is hot. Is it? (Yes!) Oslo\nis cold.", "Bye"]),
        (re.compile(r"[A-Z]\w+"), ["Dear", "Rome", "Is", "Yes", "Oslo", "Bye"]),
        ([(11, 15), (0, 4)], ["Dear", "Rome"]),
        ({"place": "Rome", "end": (len(TEXT) - 3, len(TEXT))}, ["Rome", "Bye"]),
        (lambda text: [(0, len(text))], [TEXT]),
    ],
)
def test_kinds_of_parts(groups: Any, wanted: list[str]) -> None:
    assert pieces(TEXT, groups) == wanted


def test_languages_without_spaces() -> None:
    assert pieces("東京は 暑い。雨?", "words") == ["東", "京", "は", "暑", "い", "。", "雨", "?"]
    assert pieces("東京は暑い。雨です。", "sentences") == ["東京は暑い。", "雨です。"]


def test_groups_of_parts_are_a_hierarchy() -> None:
    own = Passage("It is hot. Yes. Yes.\n\nIt is cold.")
    parts = text_parts(own, ("paragraphs", "sentences", "words"), None)
    assert parts.pieces == own.text.split()
    assert parts.paths is not None
    first = "It is hot. Yes. Yes."
    assert [path[1] for path in parts.paths] == [
        *["It is hot."] * 3, "Yes.", "Yes. (1)", *["It is cold. (1)"] * 3,
    ]  # fmt: skip
    assert [path[0] for path in parts.paths] == [*[first] * 5, *["It is cold."] * 3]


@pytest.mark.parametrize(
    ("text", "groups", "absent", "wanted"),
    [
        ("the film was bad", "words", [1], "the was bad"),
        ("the film was bad", "words", [0, 1], "was bad"),
        ("the film was bad", "words", [3], "the film was"),
        ("the film", "words", [0, 1], ""),
        ("a b\nc d", "words", [1], "a\nc d"),
        ("a b\nc d", "words", [2], "a b\nd"),
        ("a\nb\nc", "lines", [1], "a\nc"),
        ("a\nb\nc", "lines", [0, 1], "c"),
        ("Facts:\n\none\n\ntwo\n\nQuestion", {"x": "one", "y": "two"}, [0], "Facts:\n\ntwo\n\nQuestion"),
        ("(Rome)", {"x": "Rome"}, [0], "()"),
        ("In hot Rome.", re.compile(r"\w+"), [1, 2], "In."),
        ("a b\nc d", "words", [1, 2], "a\nd"),
        (" a b ", "words", [0, 1], " "),
    ],
)  # fmt: skip
def test_a_part_goes_with_the_space_beside_it(
    text: str, groups: Any, absent: list[int], wanted: str
) -> None:
    parts = text_parts(Passage(text), groups, None)
    present = np.ones(len(parts.spans), dtype=bool)
    present[absent] = False
    assert parts.text_with(present) == wanted
    assert parts.text_with(~np.zeros(len(present), dtype=bool)) == text


def test_a_substitute_takes_the_place_of_a_part() -> None:
    parts = text_parts(Passage("the film was bad"), "words", None)
    assert parts.text_with(np.array([True, False, True, False]), "...") == "the ... was ..."


def test_sentences_of_a_single_field() -> None:
    prompt = Prompt("Q: {doc} A:", {"doc": "Rome is hot. Oslo is cold."})
    parts = text_parts(prompt.passage(), (None, "sentences"), None)
    assert parts.pieces == ["Rome is hot.", "Oslo is cold."]
    assert parts.paths == (("doc",), ("doc",))


def test_names_of_parts_differ() -> None:
    assert unique_names(["a", "a", "a (1)", "a", "b"]) == ["a", "a (1)", "a (1) (1)", "a (2)", "b"]


def test_fields_of_a_prompt() -> None:
    prompt = Prompt(
        "{{Facts}}: {facts} Question: {question}",
        {"facts": ["Rome is hot.", "Oslo is cold."], "question": "Where is it cold?"},
        separator=" | ",
    )
    assert str(prompt) == "{Facts}: Rome is hot. | Oslo is cold. Question: Where is it cold?"
    own = prompt.passage()
    for groups, names in [
        (None, ("facts 0", "facts 1", "question")),
        ("fields", ("facts 0", "facts 1", "question")),
        ("facts", ("facts 0", "facts 1")),
        (["question", "facts"], ("facts 0", "facts 1", "question")),
        ("sentences", ("sentence 0", "sentence 1", "sentence 2")),
    ]:
        assert text_parts(own, groups, None).names == names
    nested = text_parts(own, ("facts", "words"), None)
    assert nested.pieces == ["Rome", "is", "hot.", "Oslo", "is", "cold."]
    assert nested.paths == (*[("facts 0",)] * 3, *[("facts 1",)] * 3)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Prompt("{a}", {"b": "x"}), "Prompt: expected the template's field 'a', got b"),
        (Prompt("a", {"b": "x"}), "Prompt: the template has no field {b}; add it"),
        (
            Prompt("{a}", {"a": [1]}),  # type: ignore[list-item]
            "Prompt: expected texts in 'a', got int",
        ),
        ([{"role": "user", "content": ["x"]}], "expected messages with a role and a text"),
        (
            [{"role": "user", "content": "x"}],
            "message 0 of prompt 0 is not in the chat template's output",
        ),
        (7, "rows: expected a list of texts, got int"),
    ],
)
def test_bad_prompts(row: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        passage(row, 0, lambda _: "no such message")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("letters", "groups: for texts, expected 'tokens', 'words', 'sentences', 'lines'"),
        ("tokens", "'tokens' needs a tokenizer; try 'words'"),
        (("words", "letters"), "inside other parts, got 'letters'"),
        ((), "got an empty tuple"),
        (7, "a mapping of names to them, or a function; got 7"),
        ([(0, "a")], "expected a span (start, end) or a text, got (0, 'a')"),
        ({"a": "Rome", "b": "Rome is"}, "groups: parts overlap: 'Rome' and 'Rome is'"),
    ],
)
def test_bad_groups(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        pieces(TEXT, groups)


def test_tokens_belong_to_the_part_that_has_more_of_them() -> None:
    own = Passage("Rome is\nhot, so\n\nso hot")
    parts = text_parts(own, {"a": "Rome is", "b": (8, 11), "c": (11, 15), "d": "so hot"}, None)
    #         <s>     Rome    " is"   \n      "hot,"   " so"    \n\n      "so"      " hot"
    tokens = [(0, 0), (0, 4), (4, 7), (7, 8), (8, 12), (12, 15), (15, 17), (17, 19), (19, 23)]
    assert parts.owners(tokens).tolist() == [-1, 0, 0, 0, 1, 2, -1, 3, 3]
