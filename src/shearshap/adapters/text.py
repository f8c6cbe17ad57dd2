"""Hugging Face text classifiers: a text's tokens, or its words, are the players.

Every text is a game of its own, since no two have the same players; an absent token is replaced by
the mask.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from shearshap.adapters.modules import evaluating
from shearshap.engine.progress import progress_bar
from shearshap.errors import InputError
from shearshap.explanation import Explanation

if TYPE_CHECKING:
    from shearshap.explainer import Explainer


def text_classifier(model: Any) -> "TextClassifier | None":
    """Return the text classifier of a `transformers` pipeline or a pair (model, tokenizer); None of
    anything else.
    """
    parts = (
        model
        if isinstance(model, tuple)
        else (getattr(model, "model", None), getattr(model, "tokenizer", None))
    )
    if (
        len(parts) != 2
        or not isinstance(parts[0], nn.Module)
        or not hasattr(parts[1], "convert_tokens_to_ids")
    ):
        return None
    return TextClassifier(*parts)


@dataclass(frozen=True)
class Text:
    """A text in tokens: the template holds those that always stay, such as [CLS] and [SEP]."""

    template: Tensor  #: (t,) all token ids
    content: Tensor  #: (d,) where in the template the players' tokens stand
    owner: list[int]  #: (d,) the player that owns each of them
    names: list[str]  #: of the players: their piece of the text


class Framed(nn.Module):
    """A classifier of the content tokens alone, (n, d), put into their template."""

    def __init__(self, model: nn.Module, text: Text) -> None:
        super().__init__()
        self.model, self.text = model, text
        self.config = getattr(model, "config", None)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map content tokens (n, d) to logits (n, k)."""
        whole = self.text.template.to(tokens.device).expand(len(tokens), -1).clone()
        whole[:, self.text.content] = tokens
        return self._logits(input_ids=whole)

    def embed(self, tokens: Tensor) -> Tensor:
        """Map content tokens (n, d) to embeddings (n, d, e)."""
        return self.model.get_input_embeddings()(tokens)  # type: ignore[no-any-return, operator]

    def from_embeddings(self, embedded: Tensor) -> Tensor:
        """Map embeddings of the content (n, d, e) to logits (n, k)."""
        frame = self.embed(self.text.template.to(embedded.device)).to(embedded.dtype)
        place = torch.zeros(
            len(frame), len(self.text.content), dtype=frame.dtype, device=frame.device
        )
        place[self.text.content, torch.arange(len(self.text.content))] = 1
        # a product with 0s and 1s, since writing into a tensor cannot be differentiated in batches
        kept = frame * (1 - place.sum(dim=1))[:, None]
        return self._logits(inputs_embeds=kept + torch.einsum("td,nde->nte", place, embedded))

    def _logits(self, **inputs: Tensor) -> Tensor:
        shape = next(iter(inputs.values())).shape[:2]
        mask = torch.ones(shape, dtype=torch.long, device=next(iter(inputs.values())).device)
        return self.model(**inputs, attention_mask=mask).logits  # type: ignore[no-any-return]


@dataclass(frozen=True)
class TextClassifier:
    """A sequence classifier and its tokenizer."""

    model: nn.Module
    tokenizer: Any

    def explain(
        self,
        explainer: "Explainer",
        texts: Any,
        *,
        budget: int | None,
        tol: float | None,
        interactions: bool,
        progress: bool | None,
    ) -> Explanation:
        """Explain texts one after the other, each at all its coalitions at once."""
        kind, absent = _kind(explainer.groups), self._absent(explainer.background)
        if explainer.feature_names is not None:
            raise InputError(
                "feature_names: the players of a text are named by its own words; leave "
                "feature_names out"
            )
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(
                "model: the tokenizer does not tell where its tokens stand in a text; use a fast "
                "one"
            )
        split = [self._split(text, kind, at) for at, text in enumerate(_checked(texts))]
        found = []
        with (
            evaluating(self.model, explainer.device),
            progress_bar(progress, total=len(split), unit=" texts") as bar,
        ):
            for text in split:
                one = self._one(explainer, text, absent)
                rows = text.template[text.content][None]
                found.append(
                    one(rows, budget=budget, tol=tol, interactions=interactions, progress=False)
                )
                bar.update()
        return _joined(found, split, kind)

    def _one(self, explainer: "Explainer", text: Text, absent: int) -> "Explainer":
        """Return the explainer of one text."""
        labels = getattr(getattr(self.model, "config", None), "id2label", None) or {}
        known = None if callable(explainer.output) else [str(labels[at]) for at in sorted(labels)]
        names = explainer.output_names or known
        return replace(
            explainer,
            model=Framed(self.model, text),
            background=torch.full((1, len(text.content)), absent),
            groups=np.array(text.owner),
            output_names=names,
            feature_names=None,
            device=None,
        )

    def _absent(self, background: Any) -> int:
        """Return the token that stands for an absent one."""
        tokens = self.tokenizer
        if isinstance(background, str):
            number = tokens.convert_tokens_to_ids(background)
            if number is None or (number == tokens.unk_token_id and background != tokens.unk_token):
                raise InputError(
                    f"background: the tokenizer knows no token {background!r}; try "
                    f"{tokens.mask_token!r}"
                )
            return int(number)
        if background is not None:
            raise InputError(
                "background: for texts, wanted a token such as '[MASK]', got "
                f"{type(background).__name__}"
            )
        known = (
            tokens.mask_token_id,
            tokens.unk_token_id,
            tokens.pad_token_id,
            tokens.eos_token_id,
        )
        number = next((number for number in known if number is not None), None)
        if number is None:
            raise InputError(
                "background: the tokenizer has no mask; pass a token that stands for an absent one"
            )
        return int(number)

    def _split(self, text: str, kind: str, at: int) -> Text:
        """Return a text's tokens and who owns them."""
        coded = self.tokenizer(
            text, truncation=True, return_special_tokens_mask=True, return_offsets_mapping=True
        )
        ids, special = coded["input_ids"], coded["special_tokens_mask"]
        content = [place for place, fixed in enumerate(special) if not fixed]
        if not content:
            raise InputError(f"rows: there are no tokens in text {at}, {text!r}")
        spans = [coded["offset_mapping"][place] for place in content]
        words = coded.word_ids() if kind == "words" else list(range(len(ids)))
        _, owner = np.unique([words[place] for place in content], return_inverse=True)
        names = [_piece(text, [span for span, own in zip(spans, owner, strict=True) if own == player])
                 for player in range(int(owner.max()) + 1)]  # fmt: skip
        return Text(torch.tensor(ids), torch.tensor(content), owner.tolist(), names)


def _piece(text: str, spans: list[tuple[int, int]]) -> str:
    return text[min(start for start, _ in spans) : max(stop for _, stop in spans)]


def _kind(groups: Any) -> str:
    if groups is None:
        return "tokens"
    if isinstance(groups, str) and groups in ("tokens", "words"):
        return groups
    raise InputError(f"groups: for texts, wanted 'tokens' or 'words', got {groups!r}")


def _checked(texts: Any) -> list[str]:
    if isinstance(texts, str):
        raise InputError("rows: wanted a list of texts, got one text; pass [text]")
    listed = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, Mapping) else []
    wrong = next((one for one in listed if not isinstance(one, str)), None)
    if not listed or wrong is not None:
        raise InputError(
            f"rows: wanted a list of texts, got {type(texts if wrong is None else wrong).__name__}"
        )
    return listed


def _joined(found: list[Explanation], split: list[Text], kind: str) -> Explanation:
    """Return one explanation of all texts; those with fewer players have players without a name and
    a share of 0.
    """
    players = max(len(text.names) for text in split)
    words = np.full((len(split), players), "", dtype=object)
    for at, text in enumerate(split):
        words[at, : len(text.names)] = text.names
    methods = dict.fromkeys(one.method for one in found)
    alone = len(split) == 1
    return replace(
        found[0],
        values=_padded([one.values for one in found], 1),
        base_values=np.concatenate([one.base_values for one in found]),
        predictions=np.concatenate([one.predictions for one in found]),
        standard_errors=_padded([one.standard_errors for one in found], 1),
        interactions=_padded([one.interactions for one in found], 2),
        cross_contribution=_padded([one.cross_contribution for one in found], 2),
        evaluations=max(one.evaluations for one in found),
        derivative_passes=max(one.derivative_passes for one in found),
        degrees_of_freedom=min(one.degrees_of_freedom for one in found),
        row_evaluations=_padded([one.row_evaluations for one in found], 0),
        converged=_padded([one.converged for one in found], 0),
        method=", ".join(methods),
        feature_names=split[0].names
        if alone
        else [f"{kind.removesuffix('s')} {at}" for at in range(players)],
        data=None,
        display_data=words,
        index=np.arange(len(split)),
    )


def _padded(parts: list[Any], axes: int) -> Any:
    """Return arrays (1, p, ...) of several texts as one, with zeros behind on the first `axes` axes
    after the rows.
    """
    if any(part is None for part in parts):
        return None
    most = [max(part.shape[axis] for part in parts) for axis in range(1, 1 + axes)]

    def pad(part: Any) -> Any:
        behind = [
            (0, most[axis - 1] - part.shape[axis]) if 0 < axis <= axes else (0, 0)
            for axis in range(part.ndim)
        ]
        return np.pad(part, behind)

    return np.concatenate([pad(part) for part in parts])
