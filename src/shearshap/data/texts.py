r"""Texts and prompts, and the parts of them that are players.

A prompt with fields, and what `groups` makes of it:

    Prompt("Facts: {facts} Question: {question}", {"facts": ["Rome is hot.", "Oslo is cold."], ...})

    text                  Facts: Rome is hot.\nOslo is cold. Question: Where is it cold?
    "facts"                      └─ facts 0 ─┘ └── facts 1 ─┘
    None                         └─ facts 0 ─┘ └── facts 1 ─┘          └──── question ─┘
    ("facts", "words")           Rome, is, hot. in the group facts 0; Oslo, is, cold. in facts 1

What is in no part always stays: here the words of the template.

Letters: p parts, t tokens. A span is the place of a part in its text, (start, end).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError

Span = tuple[int, int]

#: What the parts of texts are; spans and mappings of them are among the groups of any rows.
TextGroups = str | re.Pattern[str] | Callable[[str], Any] | tuple[Any, ...]

_WIDE = "぀-ヿ㐀-䶿一-鿿豈-﫿"  # of languages without spaces each letter is a word

PATTERNS = {
    "words": re.compile(f"[{_WIDE}]|[^\\s{_WIDE}]+"),
    "sentences": re.compile(
        r"\S(?:[^\n]*?[.!?]+[\"'”\u2019)\]]*(?=\s|$)|[^\n]*?[。\uff01\uff1f]|[^\n]*?(?=\s*(?:\n|$)))"
    ),
    "lines": re.compile(r"\S(?:[^\n]*\S)?"),
    "paragraphs": re.compile(r"\S(?:(?:(?!\n[ \t]*\n)[\s\S])*\S)?"),
}
"""Kinds of parts, each the matches of a pattern."""

KINDS = ("tokens", *PATTERNS)

PLACES = (*(kind.removesuffix("s") for kind in KINDS), "part")
"""What parts without a name are called by, such as "word 3"."""

STAYS = "system"  #: the role of messages that stay unless they are asked for


@dataclass(frozen=True)
class Prompt:
    r"""A prompt made of a template and fields; only the fields are explained.

    The words of the template always stay. `groups` chooses the fields to explain: None takes all
    of them, "documents" the items of that field, ["documents", "examples"] the items of both, and
    ("documents", "sentences") the sentences of each document, in groups by document. A prompt may
    also be the content of a message of a chat.

    Parameters
    ----------
    template
        A text with the names of fields in braces, such as "{documents}\n\nQuestion: {question}".
        Write a literal brace twice.
    fields
        The text of each field, or a list of texts, such as retrieved documents or examples, each
        of which is a part.
    separator
        The text between the items of a list.
    """

    template: str
    fields: Mapping[str, str | Sequence[str]]
    separator: str = "\n"

    def __str__(self) -> str:
        """Return the text of the whole prompt."""
        return self.passage().text

    def passage(self) -> "Passage":
        """Return the text, and where in it the fields are; raise if the fields do not fit."""
        if not isinstance(self.fields, Mapping):
            raise InputError(
                f"Prompt: expected a mapping of fields, got {type(self.fields).__name__}"
            )
        text = ""
        fields: list[Field] = []
        used = set()
        for literal, name in self._parsed():
            text += literal
            if name is None:
                continue
            if name not in self.fields:
                raise InputError(
                    f"Prompt: expected the template's field {name!r}, got "
                    f"{', '.join(self.fields) or 'none'}; write {{{{ for a brace"
                )
            used.add(name)
            content = self.fields[name]
            is_list = not isinstance(content, str) and isinstance(content, Iterable)
            for number, item in enumerate(content if is_list else [content]):
                if not isinstance(item, str):
                    raise InputError(
                        f"Prompt: expected texts in {name!r}, got {type(item).__name__}"
                    )
                label = f"{name} {number}" if is_list else name
                text += self.separator if number else ""
                if item:
                    fields.append(Field(name, label, len(text), len(text) + len(item)))
                text += item
        unused = [name for name in self.fields if name not in used]
        if unused:
            raise InputError(f"Prompt: the template has no field {{{unused[0]}}}; add it")
        return Passage(text, tuple(fields))

    def _parsed(self) -> list[tuple[str, str | None]]:
        """Return each text of the template with the name of the field after it, if any."""
        try:
            return [(literal, name) for literal, name, *_ in Formatter().parse(self.template)]
        except ValueError as error:
            raise InputError(
                f"Prompt: the template cannot be read: {error}; write {{{{ for a brace"
            ) from None


@dataclass(frozen=True)
class Field:
    """A field of a prompt, an item of one, or a message of a chat."""

    name: str  #: of the field, or the role of the message
    label: str  #: that tells it from others of its name
    start: int
    end: int

    def shifted(self, by: int) -> "Field":
        """Return the field at a position in a text."""
        return replace(self, start=self.start + by, end=self.end + by)

    def clipped(self, length: int) -> "Field":
        """Return the field within a text of a length."""
        return replace(self, start=max(self.start, 0), end=min(self.end, length))


@dataclass(frozen=True)
class Passage:
    """A text, and the fields in it; without any, all of it can be explained."""

    text: str
    fields: tuple[Field, ...] = ()
    is_chat: bool = False  #: whether a chat template made the text, with its own special tokens

    def chosen(self, names: Iterable[str] | None) -> list[Field]:
        """Return the fields of some names; None: all but system messages, or the whole text."""
        if names is None:
            fields = [field for field in self.fields if field.name != STAYS or not self.is_chat]
            return fields or [Field("", "", 0, len(self.text))]
        wanted = set(names)
        return [field for field in self.fields if field.name in wanted]


def passage(row: Any, number: int, chat_text: Callable[[Any], str] | None) -> Passage:
    """Return a text, a `Prompt`, or a chat as a passage, or raise.

    `chat_text` applies a chat template to messages; None: there is none.
    """
    if isinstance(row, str):
        return Passage(row)
    if isinstance(row, Prompt):
        return row.passage()
    if is_chat(row):
        if chat_text is None:
            raise InputError(
                f"rows: prompt {number} is a chat, but the model has no tokenizer with a chat "
                "template; pass a text"
            )
        return _chat_passage(row, number, chat_text)
    raise InputError(
        f"rows: expected a list of texts, got {type(row).__name__}; a prompt may also be a Prompt "
        "or a chat, a list of messages"
    )


def is_chat(row: Any) -> bool:
    """Return whether a row is a chat: a list of messages {"role": ..., "content": ...}."""
    return isinstance(row, list | tuple) and bool(row) and isinstance(row[0], Mapping)


def _chat_passage(messages: Any, number: int, chat_text: Callable[[Any], str]) -> Passage:
    """Return the text that a chat template makes, with the places of the messages in it.

    They are found by rendering the chat with marks in place of its messages first: a message may be
    a word that the template has, too.
    """
    contents = []
    for message in messages:
        content = message.get("content")
        if not isinstance(content, str | Prompt) or not isinstance(message.get("role"), str):
            raise InputError(
                f"rows: expected messages with a role and a text as content in prompt {number}, "
                f"got {dict(message)!r}"
            )
        contents.append(passage(content, number, None))

    def rendered(texts: Iterable[str]) -> str:
        filled = zip(messages, texts, strict=True)
        return chat_text([{**message, "content": text} for message, text in filled])

    text = rendered(own.text for own in contents)
    template = _MARK.split(rendered(f"\ue000{place}\ue001" for place in range(len(contents))))
    found: list[Field] = []
    end = len(template[0])
    for place, (message, own) in enumerate(zip(messages, contents, strict=True)):
        after = template[place + 1] if len(template) == len(contents) + 1 else None
        # templates may strip messages
        shown = (own.text, own.text.strip(), own.text.rstrip(), own.text.lstrip())
        fits = [each for each in shown if after is not None and text.startswith(each + after, end)]
        if not fits:
            raise InputError(
                f"rows: message {place} of prompt {number} is not in the chat template's output; "
                "pass that text as a prompt instead of the chat"
            )
        content = fits[0]
        start = end
        end += len(content) + len(str(after))
        label = f"{message['role']} {place}"
        fields = own.fields or (Field(message["role"], label, 0, len(own.text)),)
        before = own.text.index(content)
        clipped = [field.shifted(-before).clipped(len(content)) for field in fields]
        found += [field.shifted(start) for field in clipped if field.start < field.end]
    return Passage(text, tuple(found), is_chat=True)


_MARK = re.compile("\ue000\\d+\ue001")  #: stands for a message


# Parts


@dataclass(frozen=True)
class Parts:
    """The parts of a text that are players; what is in none of them always stays."""

    text: str
    spans: tuple[Span, ...]  #: (p,) in their order in the text
    #: (p,) "word 3", by kind and place, or the name of a field, a message or of the user's own
    names: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...] | None = None  #: the groups that each part is in

    @property
    def pieces(self) -> list[str]:
        """The text of each part, (p,)."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def has_places(self) -> bool:
        """Whether parts are called by their places: they have no names of their own."""
        return all(name.rpartition(" ")[0] in PLACES for name in self.names)

    def take(self, which: Sequence[int]) -> "Parts":
        """Return some of the parts."""
        paths = None if self.paths is None else tuple(self.paths[part] for part in which)
        spans = tuple(self.spans[part] for part in which)
        return Parts(self.text, spans, tuple(self.names[part] for part in which), paths)

    def text_with(self, present: NDArray[np.bool_], substitute: str | None = None) -> str:
        """Return the text with some of the parts, (p,) of bool.

        The others are replaced by a substitute; None: they are removed. Of the white space on both
        sides of what is removed, one stays.
        """
        kept = []
        done = 0
        for part in np.flatnonzero(~present).tolist():
            start, end = self.spans[part]
            kept += [self.text[done:start], _GAP if substitute is None else substitute]
            done = end
        text = "".join((*kept, self.text[done:]))
        return _REMOVED.sub(_left, text) if substitute is None else text

    def owners(self, tokens: Sequence[Span]) -> NDArray[np.int64]:
        """Return the part that each token is in, by the spans of t tokens, (t,); -1: in none.

        A token in two parts belongs to the one that has more of it. A token of white space, such
        as a line break, belongs to the part before it, if that begins its line.
        """
        is_space = np.array([self.text[start:end].isspace() for start, end in tokens], dtype=bool)
        spaced = [_with_line_end(self.text, *span) for span in self.spans]
        return np.where(is_space, _owners(spaced, tokens), _owners(self.spans, tokens))


def _owners(parts: Sequence[Span], tokens: Sequence[Span]) -> NDArray[np.int64]:
    """Return which of the parts, in their order, has most of each token, (t,); -1: none has any."""
    starts, ends = np.array(parts).T
    token_starts, token_ends = np.array(tokens, dtype=np.int64).reshape(-1, 2).T
    first = np.searchsorted(ends, token_starts, side="right")
    last = np.searchsorted(starts, token_ends, side="left") - 1
    owner = np.where((first <= last) & (token_ends > token_starts), first, -1)
    for token in np.flatnonzero((first < last) & (owner >= 0)).tolist():
        start, end = tokens[token]
        common = np.minimum(ends, end) - np.maximum(starts, start)
        owner[token] = int(common.argmax())
    return owner


_GAP = "\0"  #: stands for a removed part
_REMOVED = re.compile(rf"\s*{_GAP}[\s{_GAP}]*")


def _left(removed: "re.Match[str]") -> str:
    """Return the white space that is left of a removed part, or of several, and what is around it.

    A line break is kept rather than a space, and no space is left before a full stop.
    """
    spaces = removed.group().split(_GAP)
    if removed.start() == 0:
        return spaces[0]
    if removed.end() == len(removed.string):
        return spaces[-1]
    widest = max(spaces, key=lambda space: (space.count("\n"), len(space)))
    return widest if "\n" in widest or all(spaces) else ""


def _with_line_end(text: str, start: int, end: int) -> Span:
    """Return the span of a part; one that begins a line has the white space after it, too."""
    before = text[:start].rstrip(" \t")
    if before and not before.endswith("\n"):
        return start, end
    return start, len(text) - len(text[end:].lstrip())


def text_parts(passage: Passage, groups: Any, tokens: Callable[[str], list[Span]] | None) -> Parts:
    """Return the parts of a text that the option `groups` asks for, or raise.

    `tokens` returns the spans of a text's tokens; None: nobody knows them.
    """
    levels = groups if isinstance(groups, tuple) else (groups,)
    if not levels:
        raise InputError("groups: expected the parts of texts, got an empty tuple")
    names = {field.name for field in passage.fields}
    found, deeper = _first_level(passage, levels, names)
    find = _Finder(passage.text, tokens)
    for depth, level in enumerate(deeper):
        grouped = depth > 0 or len(deeper) < len(levels)
        finer: list[_Part] = []
        for part in found:
            own = find(level, part.start, part.end)
            path = (*part.path, part) if grouped else ()
            finer += [replace(each, path=path) for each in own]
        found = finer
    found.sort(key=lambda part: part.start)
    _check(passage.text, found)
    paths = _group_names(passage.text, found) if len(levels) > 1 else None
    kind = levels[-1] or "words"
    noun = kind.removesuffix("s") if isinstance(kind, str) and kind in KINDS else "part"
    labels = unique_names([part.label or f"{noun} {at}" for at, part in enumerate(found)])
    spans = tuple((part.start, part.end) for part in found)
    return Parts(passage.text, spans, tuple(labels), paths)


@dataclass(frozen=True)
class _Part:
    start: int
    end: int
    label: str = ""  #: its name; "": it has none
    path: tuple["_Part", ...] = ()  #: the parts that it is in, from the largest to the smallest


def _first_level(
    passage: Passage, levels: tuple[Any, ...], names: set[str]
) -> tuple[list[_Part], tuple[Any, ...]]:
    """Return the fields that the first level names, and the levels that are left to look for."""
    first = levels[0]
    is_named = isinstance(first, list) and first and all(isinstance(name, str) for name in first)
    if not (first is None or isinstance(first, str | re.Pattern) or is_named):
        # spans and pieces of the text may be anywhere in it
        return [_Part(0, len(passage.text))], levels
    chosen: Iterable[str] | None = None
    whole = first is None or (isinstance(first, str) and first in ("fields", "messages"))
    if whole and not passage.fields:
        if first is None:
            return [_Part(0, len(passage.text))], ("words", *levels[1:])
        raise InputError(
            f"groups: expected a chat or a Prompt for {first!r}, got a text; try 'sentences'"
        )
    if isinstance(first, str) and first not in KINDS and not whole:
        chosen = [first]
    if is_named:
        chosen = first
    unknown = [name for name in chosen or () if name not in names]
    if unknown:
        known = [*sorted(names), *(("messages",) if passage.is_chat else ()), *KINDS]
        raise InputError(
            f"groups: for texts, expected {', '.join(map(repr, known))}, a compiled pattern, spans "
            f"(start, end), a mapping of names to them, or a function; got {unknown[0]!r}"
        )
    fields = passage.chosen(chosen)
    if levels == (None,) and len(fields) == 1:
        # one part would get all there is
        levels = ("words",)
        whole = False
    is_fields = whole or chosen is not None
    found = [_Part(field.start, field.end, field.label) for field in fields]
    return found, levels[1:] if is_fields else levels


@dataclass(frozen=True)
class _Finder:
    """Finds the parts of one level in a stretch of a text."""

    text: str
    tokens: Callable[[str], list[Span]] | None

    def __call__(self, level: Any, start: int, end: int) -> list[_Part]:
        """Return the parts between two places."""
        if isinstance(level, str) and level == "tokens":
            if self.tokens is None:
                raise InputError("groups: 'tokens' needs a tokenizer; try 'words'")
            spans = [span for span in self.tokens(self.text) if start <= span[0] < end]
            return [_Part(*span) for span in _without_common(spans)]
        pattern = PATTERNS.get(level) if isinstance(level, str) else level
        if isinstance(pattern, re.Pattern):
            matches = [match.span() for match in pattern.finditer(self.text, start, end)]
            return [_Part(*span) for span in matches if span[1] > span[0]]
        if isinstance(level, str) or level is None:
            raise InputError(
                f"groups: expected {', '.join(map(repr, KINDS))} inside other parts, got {level!r}"
            )
        given = level(self.text) if callable(level) else level
        every = [self._given(label, where) for label, where in _listed(given)]
        return [part for part in every if start <= part.start and part.end <= end]

    def _given(self, label: str, where: Any) -> _Part:
        """Return a part by its span, or by its text."""
        if isinstance(where, str):
            count = self.text.count(where) if where else 0
            if count != 1:
                raise InputError(
                    f"groups: expected a text that occurs once in the prompt, got {where!r}, "
                    f"which occurs {count} times; pass (start, end)"
                )
            start = self.text.index(where)
            return _Part(start, start + len(where), label)
        is_pair = isinstance(where, Sequence) and len(where) == 2
        if not is_pair or not all(isinstance(end, int | np.integer) for end in where):
            raise InputError(f"groups: expected a span (start, end) or a text, got {where!r}")
        start, end = map(int, where)
        if not 0 <= start < end <= len(self.text):
            raise InputError(
                f"groups: expected a span (start, end) in a text of {len(self.text)} characters, "
                f"got {where!r}"
            )
        return _Part(start, end, label)


def _without_common(spans: Iterable[Span]) -> list[Span]:
    """Return spans of tokens; those that share a letter, which has several tokens, are one."""
    merged: list[Span] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _listed(given: Any) -> list[tuple[str, Any]]:
    """Return the user's parts with their names, "" if they have none."""
    if isinstance(given, Mapping):
        return [(str(name), where) for name, where in given.items()]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(
            f"groups: for texts, expected {', '.join(map(repr, KINDS))}, a compiled pattern, spans "
            f"(start, end), a mapping of names to them, or a function; got {given!r}"
        )
    return [("", where) for where in given]


def _check(text: str, found: list[_Part]) -> None:
    """Raise if parts overlap."""
    for part, following in pairwise(found):
        if following.start < part.end:
            pieces = [repr(text[each.start : each.end]) for each in (part, following)]
            raise InputError(
                f"groups: parts overlap: {' and '.join(pieces)}; expected parts without common "
                "characters"
            )


def unique_names(names: Iterable[str]) -> list[str]:
    """Return names that differ: the same one again gets a number."""
    seen: Counter[str] = Counter()
    unique: dict[str, None] = {}
    for name in names:
        own = name
        while own in unique:
            seen[name] += 1
            own = f"{name} ({seen[name]})"
        unique[own] = None
    return list(unique)


def _group_names(text: str, found: list[_Part]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the groups that each part is in; the same text again gets a number."""
    groups = list(dict.fromkeys(group for part in found for group in part.path))
    names = unique_names([group.label or text[group.start : group.end] for group in groups])
    by_group = dict(zip(groups, names, strict=True))
    return tuple(tuple(by_group[group] for group in part.path) for part in found)
