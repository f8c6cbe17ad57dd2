"""Hugging Face text classifiers: the tokens of a text, or its words, are the players.

No two texts have the same players, so every text is a game of its own. For the players "words":

    text                "the film was badly"
    tokens (t,)         [CLS]  the  film  was  bad  ##ly  [SEP]
    content (d,)                1    2     3    4    5            positions of the players' tokens
    owners (d,)                 0    1     2    3    3            the player each one belongs to
    names (p,)                 the  film  was  badly

Tokens such as [CLS] and [SEP] always stay. A token of an absent player is replaced by the mask.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from shearshap.errors import InputError, ModelError
from shearshap.models.base import libraries

Kind = Literal["tokens", "words"]


def text_classifier(model: Any) -> "TextClassifier | None":
    """Adapt a `transformers` pipeline or a pair (model, tokenizer); None for anything else."""
    if isinstance(model, tuple):
        pair = model
    else:
        pair = (getattr(model, "model", None), getattr(model, "tokenizer", None))
    if len(pair) != 2:
        return None

    network, tokenizer = pair
    if not isinstance(network, nn.Module) or not hasattr(tokenizer, "convert_tokens_to_ids"):
        return None
    return TextClassifier(network, tokenizer)


def takes_texts(model: object) -> bool:
    """Return whether a model is a text classifier: a `transformers` pipeline, or a pair."""
    library = type(model).__module__.partition(".")[0]
    if not isinstance(model, tuple) and library != "transformers":
        return False
    return text_classifier(model) is not None


def check_text_model(model: Any, rows: Any, background: Any) -> None:
    """Raise if a model is meant for texts, but lacks what it takes to read them."""
    parts = list(model) if isinstance(model, tuple | list) else [model]
    is_pair = isinstance(model, tuple) and len(parts) == 2 and isinstance(parts[0], nn.Module)
    if (is_pair or any(map(_is_tokenizer, parts))) and text_classifier(model) is None:
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise InputError(
            f"model: expected a classifier of texts with its tokenizer, Explainer((model, "
            f"tokenizer)); got {type(model).__name__} of {kinds}"
        )
    if "transformers" not in libraries(model):
        return

    task = getattr(model, "task", None)
    is_module = isinstance(model, nn.Module)
    if is_module and (background is None or _are_texts(rows)):
        raise InputError(
            f"model: a {type(model).__name__} reads texts by its tokenizer; pass both, "
            "Explainer((model, tokenizer))"
        )
    if not is_module and task not in (None, "text-classification"):
        raise InputError(
            f"model: expected a pipeline for the task 'text-classification', got one for {task!r}"
        )


def _is_tokenizer(thing: Any) -> bool:
    is_instance = not isinstance(thing, type | nn.Module)
    return is_instance and hasattr(thing, "convert_tokens_to_ids")


def _are_texts(rows: Any) -> bool:
    """Return whether rows are a text, or a list, Series or array of them."""
    if isinstance(rows, str):
        return True
    is_list = isinstance(rows, Iterable) and not isinstance(rows, Mapping | Tensor)
    return is_list and isinstance(next(iter(rows), None), str) and not hasattr(rows, "columns")


def player_kind(groups: Any) -> Kind:
    """Return whether the players of a text are its tokens or its words, by the option `groups`."""
    if groups is None:
        return "tokens"
    if isinstance(groups, str) and groups in ("tokens", "words"):
        return groups  # type: ignore[return-value]
    raise InputError(
        f"groups: for texts, expected 'tokens', 'words' or 'sentences', got {groups!r}"
    )


@dataclass(frozen=True)
class Text:
    """A text in tokens, and the players that own them."""

    tokens: Tensor  #: (t,) the ids of all tokens
    content: Tensor  #: (d,) the positions of the tokens that players own
    owners: list[int]  #: (d,) the player that owns each of them
    names: list[str]  #: (p,) the players' pieces of the text

    @property
    def row(self) -> Tensor:
        """The ids of the tokens that players own, (d,)."""
        return self.tokens[self.content]


class FramedClassifier(nn.Module):
    """Classifies texts by the tokens that players own, (n, d); the other tokens frame them."""

    returns_logits = True

    def __init__(self, model: nn.Module, text: Text) -> None:
        super().__init__()
        self.model = model
        self.text = text
        self.config = getattr(model, "config", None)

    def forward(self, content: Tensor) -> Tensor:
        """Map the players' tokens (n, d) to logits (n, k)."""
        tokens = self.text.tokens.to(content.device).repeat(len(content), 1)
        tokens[:, self.text.content] = content
        mask = torch.ones_like(tokens)
        return _logits(self.model(input_ids=tokens, attention_mask=mask))

    def embed(self, content: Tensor) -> Tensor:
        """Map tokens (..., d) to embeddings (..., d, e)."""
        return self.model.get_input_embeddings()(content)  # type: ignore[no-any-return, operator]

    def from_embeddings(self, embedded: Tensor) -> Tensor:
        """Map embeddings of the players' tokens (n, d, e) to logits (n, k)."""
        frame = self.embed(self.text.tokens.to(embedded.device)).to(embedded.dtype)
        content = self.text.content
        # Products with 0s and 1s (t, d) put the players' tokens into the text, since writing into a
        # tensor cannot be differentiated in batches.
        place = torch.zeros(len(frame), len(content), dtype=frame.dtype, device=frame.device)
        place[content, torch.arange(len(content))] = 1
        fixed = frame * (1 - place.sum(dim=1))[:, None]
        whole = fixed + torch.einsum("td,nde->nte", place, embedded)
        mask = torch.ones(whole.shape[:2], dtype=torch.long, device=whole.device)
        return _logits(self.model(inputs_embeds=whole, attention_mask=mask))


def _logits(result: Any) -> Tensor:
    """Return the logits (n, k) of a classifier's result."""
    logits = getattr(result, "logits", None)
    if logits is None:
        raise ModelError(
            f"the model returned a {type(result).__name__} without logits; expected a model for "
            "sequence classification, such as AutoModelForSequenceClassification makes"
        )
    return logits  # type: ignore[no-any-return]


@dataclass(frozen=True)
class TextClassifier:
    """A sequence classifier and its tokenizer."""

    model: nn.Module
    tokenizer: Any

    @property
    def output_names(self) -> tuple[str, ...]:
        """The labels, in the order of the outputs; none if the model does not name them."""
        config = getattr(self.model, "config", None)
        labels = getattr(config, "id2label", None) or {}
        return tuple(str(labels[number]) for number in sorted(labels))

    def check(self, *, feature_names: Any = None) -> None:
        """Raise if the tokenizer, or an option of the explainer, does not go with texts."""
        if feature_names is not None:
            raise InputError(
                "feature_names: the features of a text are its own words; leave feature_names out"
            )
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(
                "model: this tokenizer does not report where in the text its tokens are; use a "
                "fast tokenizer"
            )

    def absent_token(self, background: Any) -> int:
        """Return the id of the token that replaces absent ones.

        None: the mask, or the first of its substitutes that the tokenizer has.
        """
        tokenizer = self.tokenizer
        if background is None:
            names = ("mask", "unk", "pad", "eos")
            known = [getattr(tokenizer, f"{name}_token_id") for name in names]
            token = next((token for token in known if token is not None), None)
            if token is None:
                raise InputError(
                    "Background data is missing: the tokenizer has no mask. Pass the token that "
                    "replaces absent ones, for example Explainer(model, '.')."
                )
            return int(token)

        if not isinstance(background, str):
            raise InputError(
                "background: for texts, expected a token such as '[MASK]', got "
                f"{type(background).__name__}"
            )
        token = tokenizer.convert_tokens_to_ids(background)
        is_unknown = token == tokenizer.unk_token_id and background != tokenizer.unk_token
        if token is None or is_unknown:
            raise InputError(
                f"background: the tokenizer has no token {background!r}; try "
                f"{tokenizer.mask_token!r}"
            )
        return int(token)

    def texts(self, rows: Any, kind: Kind) -> list[Text]:
        """Return texts in tokens, or raise if the rows are not texts."""
        return [self._text(text, kind, number) for number, text in enumerate(_checked_texts(rows))]

    def _text(self, text: str, kind: Kind, number: int) -> Text:
        encoding = self.tokenizer(
            text, truncation=True, return_special_tokens_mask=True, return_offsets_mapping=True
        )
        tokens = encoding["input_ids"]
        is_special = encoding["special_tokens_mask"]
        content = [position for position in range(len(tokens)) if not is_special[position]]
        if not content:
            raise InputError(f"rows: text {number} has no tokens: {text!r}")

        pieces = encoding.word_ids() if kind == "words" else range(len(tokens))
        _, owners = np.unique([pieces[position] for position in content], return_inverse=True)
        spans = np.array([encoding["offset_mapping"][position] for position in content])
        own_spans = [spans[owners == player] for player in range(owners.max() + 1)]
        names = [text[own[:, 0].min() : own[:, 1].max()] for own in own_spans]
        return Text(torch.tensor(tokens), torch.tensor(content), owners.tolist(), names)


def _checked_texts(rows: Any) -> list[str]:
    # a frame would be read as the names of its columns, and a text as its letters
    is_list = isinstance(rows, Iterable) and not isinstance(rows, Mapping | str)
    if not is_list or hasattr(rows, "columns"):
        raise InputError(
            f"rows: expected a list of texts, got a {type(rows).__name__}; pass [text], or a "
            "frame's column of texts"
        )
    texts = list(rows)
    others = [type(text).__name__ for text in texts if not isinstance(text, str)]
    if others or not texts:
        raise InputError(f"rows: expected a list of texts, got {', '.join(others[:1]) or 'none'}")
    return texts
