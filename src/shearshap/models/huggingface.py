"""Hugging Face text classifiers: the tokens of a text, or its words, are the players.

For the players "words":

    text                "the film was badly"
    tokens (t,)         [CLS]  the  film  was  bad  ##ly  [SEP]
    content (d,)                1    2     3    4    5            positions of the players' tokens
    owners (d,)                 0    1     2    3    3            the player each one belongs to
    names (p,)                 the  film  was  badly

Tokens such as [CLS] and [SEP] always stay. A token of an absent player is replaced by the mask.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from shearshap.data.texts import Parts, Span
from shearshap.errors import InputError, ModelError
from shearshap.models.base import libraries
from shearshap.models.endpoint import CompletionEndpoint


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


def takes_texts(model: Any, text: object = None) -> bool:
    """Return whether the rows of a model are texts, by the model or by the option `text`."""
    if text is not None or isinstance(model, CompletionEndpoint):
        return True
    if _begins_with_vectorizer(model):
        return True
    library = type(model).__module__.partition(".")[0]
    if not isinstance(model, tuple) and library != "transformers":
        return False
    return text_classifier(model) is not None


def _begins_with_vectorizer(model: Any) -> bool:
    """Return whether a Pipeline, or a search for one, takes texts."""
    model = getattr(model, "best_estimator_", model)
    steps = getattr(model, "steps", None)
    if not isinstance(steps, list) or not steps:
        return False  # a vectorizer alone cannot predict
    first = steps[0][1]
    return hasattr(first, "build_analyzer") or _begins_with_vectorizer(first)


def check_text_model(model: Any, rows: Any, background: Any) -> None:
    """Raise if a model is meant for texts, but lacks what it takes to read them."""
    parts = list(model) if isinstance(model, tuple | list) else [model]
    is_pair = isinstance(model, tuple) and len(parts) == 2 and isinstance(parts[0], nn.Module)
    if (is_pair or any(map(_is_tokenizer, parts))) and text_classifier(model) is None:
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise InputError(
            "model: expected a text classifier with its tokenizer, Explainer((model, "
            f"tokenizer)); got {type(model).__name__} of {kinds}"
        )
    if "transformers" not in libraries(model):
        return

    task = getattr(model, "task", None)
    is_module = isinstance(model, nn.Module)
    has_text = isinstance(next(iter(rows), None), str) if are_texts(rows) else False
    if is_module and (background is None or has_text):
        raise InputError(
            f"model: a {type(model).__name__} needs its tokenizer; pass both, Explainer((model, "
            "tokenizer))"
        )
    if not is_module and task not in (None, "text-classification", "text-generation"):
        raise InputError(
            "model: expected a pipeline for the task 'text-classification' or 'text-generation', "
            f"got one for {task!r}"
        )


def _is_tokenizer(thing: Any) -> bool:
    is_instance = not isinstance(thing, type | nn.Module)
    return is_instance and hasattr(thing, "convert_tokens_to_ids")


def are_texts(rows: Any) -> bool:
    """Return whether rows are a list, Series or array, as of texts, and no frame or numbers."""
    # a frame would be read as the names of its columns
    is_list = isinstance(rows, Iterable) and not isinstance(rows, Mapping | Tensor)
    is_array = hasattr(rows, "shape") and len(rows.shape) != 1
    return is_list and not is_array and not hasattr(rows, "columns")


@dataclass(frozen=True)
class Text:
    """A text in tokens, and the players that own them."""

    tokens: Tensor  #: (t,) the ids of all tokens
    content: Tensor  #: (d,) the positions of the tokens that players own
    owners: list[int]  #: (d,) the player that owns each of them

    @property
    def row(self) -> Tensor:
        """The ids of the tokens that players own, (d,)."""
        return self.tokens[self.content]


class LogitsOfTokens(nn.Module):
    """Classifies texts by all their tokens, (n, t): none of them is padded."""

    returns_logits = True

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.config = getattr(model, "config", None)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (n, t) to logits (n, k)."""
        return _logits(self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)))


class FramedClassifier(LogitsOfTokens):
    """Classifies texts by the tokens that players own, (n, d); the other tokens frame them."""

    def __init__(self, model: nn.Module, text: Text) -> None:
        super().__init__(model)
        self.text = text

    def forward(self, content: Tensor) -> Tensor:
        """Map the players' tokens (n, d) to logits (n, k)."""
        tokens = self.text.tokens.to(content.device).repeat(len(content), 1)
        tokens[:, self.text.content] = content
        return super().forward(tokens)

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

    @property
    def has_classes(self) -> bool:
        """Whether its logits are of several classes or labels, as a pipeline's scores are."""
        config = getattr(self.model, "config", None)
        is_regression = getattr(config, "problem_type", None) == "regression"
        return len(self.output_names) > 1 and not is_regression

    def check(self) -> None:
        """Raise if the tokenizer does not say where its tokens are."""
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

    def token_spans(self, text: str) -> list[Span]:
        """Return where in a text its tokens are."""
        return [tuple(span) for span in self._coded(text)["offset_mapping"]]

    def text(self, parts: Parts) -> tuple[Text, Parts]:
        """Return a text in tokens, and its parts that have any: a long text is cut off."""
        coded = self._coded(parts.text)
        owner = parts.owners([tuple(span) for span in coded["offset_mapping"]])
        owner[[bool(special) for special in coded["special_tokens_mask"]]] = -1
        known = sorted(set(owner[owner >= 0].tolist()))
        content = (owner >= 0).nonzero()[0]
        owners = [known.index(own) for own in owner[content].tolist()]
        return (
            Text(torch.tensor(coded["input_ids"]), torch.from_numpy(content), owners),
            parts.take(known),
        )

    @cached_property
    def _max_tokens(self) -> int | None:
        """The most tokens of a text; None: what the tokenizer says, which may be any number."""
        context = getattr(getattr(self.model, "config", None), "max_position_embeddings", None)
        if context is None or context < 1:  # XLNet's is -1
            return None
        for name, module in self.model.named_modules():
            first = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and first is not None:
                context -= first + 1  # RoBERTa counts positions from there
        # a tokenizer that was made by hand does not know how much the model takes
        return int(min(self.tokenizer.model_max_length, context))

    def _coded(self, text: str) -> Any:
        return self.tokenizer(
            text,
            truncation=True,
            max_length=self._max_tokens,
            return_special_tokens_mask=True,
            return_offsets_mapping=True,
        )
