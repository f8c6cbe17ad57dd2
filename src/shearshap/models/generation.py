"""Language models: how likely an answer is, given a prompt with only some of its parts.

The prompt is tokenised once, and so is the answer. A coalition leaves out the tokens of absent
parts, or puts others in their place, and the tokens of the answer follow:

    prompt tokens    <s>  Rome  is  hot  .  Where  is  it  hot  ?
    owners           -1    0    0   0    0   -1   -1  -1   -1  -1        -1: always stays
    {}               <s>                    Where  is  it  hot  ?  | In  Rome
    {0}              <s>  Rome  is  hot  .  Where  is  it  hot  ?  | In  Rome

One forward gives the log-probability of every token of the answer. Sequences are sorted by length,
and padded on the right: no token of a causal model sees what comes after it, so that neither a mask
nor a padding token is needed. Tokens before the first part, if there are many, go through the model
once, and their keys and values are used for all coalitions.

Letters: n sequences, t tokens, a tokens of an answer, k outputs, v tokens that the model knows.
"""

import copy
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shearshap.data.texts import Parts, Passage, Span, text_parts
from shearshap.errors import InputError, ModelError
from shearshap.games.batches import free_memory, out_of_memory
from shearshap.models.base import libraries

Ids = NDArray[np.int64]

MAX_TOKENS = {"cpu": 1 << 12, "other": 1 << 16}
"""Tokens in one forward: more do not make it faster."""

MAX_BYTES = {"cpu": 1 << 28, "other": 4 << 30}
"""Bytes of logits in one forward, and of keys and values of a prefix."""

MIN_PREFIX = 32  #: tokens, and a quarter of a prompt, from which a prefix is kept

ATTENTION = {"full_attention", "sliding_attention"}
"""Kinds of layers whose keys and values can be kept."""

DEFAULT_ANSWER = 64  #: tokens of a generated answer, at most

GENERATED_AT_ONCE = 16  #: prompts

PARTIAL = "\ufffd"  #: what a token decodes to that holds only a part of a letter


def language_model(model: Any) -> "LanguageModel | None":
    """Adapt a pair (model, tokenizer) or a pipeline that generates; None for anything else."""
    pair = model
    if not isinstance(model, tuple):
        if "transformers" not in libraries(model):
            return None
        pair = (getattr(model, "model", None), getattr(model, "tokenizer", None))
    if len(pair) != 2 or not isinstance(pair[0], nn.Module):
        return None
    network, tokenizer = pair
    can_generate = getattr(network, "can_generate", None)
    if not callable(can_generate) or not can_generate():
        return None
    return LanguageModel(network, tokenizer) if hasattr(tokenizer, "decode") else None


def chat_text(tokenizer: Any, messages: Any) -> str:
    """Return the text that a tokenizer's chat template makes of messages, ready for an answer."""
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "rows: a chat needs a tokenizer with a chat template, and there is none; pass a text"
        )
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return str(text)


@dataclass(frozen=True)
class PromptTokens:
    """The tokens of a prompt, each followed by what stands in for it if its part is absent."""

    ids: Ids  #: (t,)
    owner: Ids  #: (t,) the part that a token is in; -1: none
    present: NDArray[np.bool_]  #: (t,) whether a token is there if its part is; else if it is not

    def kept(self, coalition: NDArray[np.bool_]) -> Ids:
        """Return the tokens that are there if some parts are, (p,) of bool."""
        return np.asarray(self.ids[(self.owner < 0) | (coalition[self.owner] == self.present)])

    @property
    def longest(self) -> int:
        """The tokens of the longest coalition."""
        parts = int(self.owner.max(initial=-1)) + 1
        moving = self.owner >= 0
        sizes = [
            np.bincount(self.owner[moving & (self.present == present)], minlength=parts)
            for present in (True, False)
        ]
        return int((~moving).sum() + np.maximum(*sizes).sum())

    @cached_property
    def prefix(self) -> tuple[int, ...]:
        """The tokens that come first in all coalitions, but the last of them."""
        moving = np.flatnonzero(self.owner >= 0)
        return tuple(self.ids[: max(int(moving[0]) - 1, 0)].tolist()) if len(moving) else ()


@dataclass(frozen=True)
class Answer:
    """An answer in tokens."""

    ids: Ids  #: (a,)
    pieces: tuple[str, ...]  #: (a,) the text of each token

    @classmethod
    def from_pieces(cls, pieces: Sequence[str]) -> "Answer":
        """Return the answer of a model whose numbers of tokens are not known."""
        return cls(np.arange(len(pieces)), tuple(pieces))

    @property
    def text(self) -> str:
        """The whole answer."""
        return self.joined(range(len(self.pieces)))

    def joined(self, tokens: Iterable[int]) -> str:
        """Return the text of some tokens."""
        text = "".join(self.pieces[token] for token in tokens)
        return text.replace(PARTIAL, "") or text[:1]

    def segments(self, kind: object) -> list[list[int]]:
        """Return the numbers of the tokens of each output: all, then by token or by sentence."""
        every = list(range(len(self.ids)))
        if kind is None:
            return [every]
        if kind == "tokens":
            return [every, *([token] for token in every)]
        lengths = np.array([0 if piece == PARTIAL else len(piece) for piece in self.pieces])
        ends = np.cumsum(lengths)
        parts = text_parts(Passage(self.text), "sentences", None)
        if not parts.spans:  # white space
            return [every, every]
        owner = parts.owners(list(zip(ends - lengths, ends, strict=True)))
        for token in reversed(every[:-1]):  # a letter of several tokens is whole with the last
            if self.pieces[token] == PARTIAL:
                owner[token] = owner[token + 1]
        for token in every:  # what is between two sentences belongs to the one before
            if owner[token] < 0:
                owner[token] = owner[token - 1] if token else 0
        own = [np.flatnonzero(owner == part).tolist() for part in range(len(parts.spans))]
        return [every, *filter(None, own)]


@dataclass(frozen=True)
class LanguageModel:
    """A causal or a sequence-to-sequence model, and its tokenizer."""

    model: Any
    tokenizer: Any

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether an encoder reads the prompt, and a decoder writes the answer."""
        return bool(self.model.config.is_encoder_decoder)

    def check(self) -> None:
        """Raise if the tokenizer does not say where its tokens are."""
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(
                "model: this tokenizer does not report where in the text its tokens are; use a "
                "fast tokenizer"
            )
        if self.is_encoder_decoder and self.model.config.decoder_start_token_id is None:
            raise InputError(
                "model: its configuration does not say how an answer begins; set "
                "config.decoder_start_token_id"
            )

    def chat_text(self, messages: Any) -> str:
        """Return the text that the chat template makes of messages, ready for an answer."""
        return chat_text(self.tokenizer, messages)

    def token_spans(self, text: str) -> list[Span]:
        """Return where in a text its tokens are."""
        coded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [tuple(span) for span in coded["offset_mapping"]]

    def prompt_tokens(self, parts: Parts, absent: Any, *, is_chat: bool) -> PromptTokens:
        """Return a prompt in tokens; `absent` is the background, see `substitute`."""
        coded = self._coded(parts.text, is_chat=is_chat)
        ids = np.array(coded["input_ids"], dtype=np.int64)
        owner = parts.owners([tuple(span) for span in coded["offset_mapping"]])
        lacking = [part for part in range(len(parts.spans)) if part not in owner]
        if lacking:
            raise InputError(
                f"groups: the part {parts.pieces[lacking[0]]!r} is only a piece of a token; make "
                "it longer"
            )
        substitute = self.substitute(absent)
        if substitute is None:
            return PromptTokens(ids, owner, np.ones(len(ids), dtype=bool))
        is_token = absent in ("mask", "pad")
        pieces: list[tuple[Any, int, bool]] = []
        for place, (token, own) in enumerate(zip(ids.tolist(), owner.tolist(), strict=True)):
            pieces.append((token, own, True))
            is_last = own >= 0 and own not in owner[place + 1 :]
            if own >= 0 and (is_token or is_last):
                pieces += [(each, own, False) for each in substitute]
        columns = [np.array(column) for column in zip(*pieces, strict=True)]
        return PromptTokens(columns[0], columns[1], columns[2])

    def _coded(self, text: str, *, is_chat: bool) -> Any:
        # a chat template writes its special tokens itself
        return self.tokenizer(
            text, add_special_tokens=not is_chat, truncation=False, return_offsets_mapping=True
        )

    def substitute(self, absent: Any) -> list[int] | None:
        """Return the tokens that stand in for absent ones, by the option `background`.

        None and "remove": nothing does. "mask" and "pad": that token for each absent token. Any
        other text: its tokens for each absent part.
        """
        if absent is None or absent == "remove":
            return None
        if not isinstance(absent, str):
            raise InputError(
                "background: for prompts, expected 'remove', 'mask', 'pad' or a text such as "
                f"'...', got {type(absent).__name__}"
            )
        if absent not in ("mask", "pad"):
            return list(self.tokenizer(absent, add_special_tokens=False)["input_ids"])
        token = getattr(self.tokenizer, f"{absent}_token_id")
        if token is None:
            raise InputError(
                f"background: the tokenizer has no {absent} token; try 'remove', or a text such as "
                "'...'"
            )
        return [int(token)]

    # Answers

    def answer(self, text: str, parts: Parts, *, is_chat: bool) -> tuple[Answer, bool]:
        """Return an answer in the tokens that it has after its prompt, and whether it has such.

        If a token would hold both the end of the prompt and the beginning of the answer, the
        answer is tokenised alone.
        """
        if not self.is_encoder_decoder:
            before = self._coded(parts.text, is_chat=is_chat)["input_ids"]
            both = self._coded(parts.text + text, is_chat=is_chat)["input_ids"]
            alone = both[len(before) :]
            if both[: len(before)] == before and alone:
                return self._answer(alone), True
        alone = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self._answer(alone), self.is_encoder_decoder

    def _answer(self, ids: Sequence[int]) -> Answer:
        pieces = []
        done = ""
        for end in range(1, len(ids) + 1):
            text = self.tokenizer.decode(ids[:end], clean_up_tokenization_spaces=False)
            if text.endswith(PARTIAL):
                pieces.append(PARTIAL)
                continue
            pieces.append(text[len(done) :] or " ")
            done = text
        return Answer(np.array(ids, dtype=np.int64), tuple(pieces))

    def generated(self, prompts: Sequence[Ids], most: int, device: torch.device) -> list[Answer]:
        """Generate answers greedily, up to a number of tokens."""
        room = self._context
        waiting: list[list[Ids]] = []
        was_long = False
        for prompt in prompts:
            # a prompt that leaves less room would cut the answers of the others
            is_long = room is not None and len(prompt) + most > room
            if not waiting or is_long or was_long or len(waiting[-1]) == GENERATED_AT_ONCE:
                waiting.append([])
            waiting[-1].append(prompt)
            was_long = is_long
        waiting.reverse()
        answers: list[Answer] = []
        while waiting:
            some = waiting.pop()
            try:
                answers += self._generated(some, most, device)
            except Exception as error:
                if not out_of_memory(error):
                    reason = f"{type(error).__name__}: {error}"
                    raise ModelError(f"the model failed to generate an answer: {reason}") from error
                if len(some) == 1:
                    raise
                half = len(some) // 2
                waiting += [some[half:], some[:half]]
        return answers

    def _generated(self, prompts: list[Ids], most: int, device: torch.device) -> list[Answer]:
        # generation goes on at the right, so that the padding is on the left
        ids, mask = _padded(prompts, left=not self.is_encoder_decoder)
        room = self._context
        if room is not None:
            most = min(most, room - (1 if self.is_encoder_decoder else ids.shape[1]))
        made = self.model.generate(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=torch.from_numpy(mask).to(device),
            max_new_tokens=most + len(self.decoder_start) - 1 if self.is_encoder_decoder else most,
            do_sample=False,
            num_beams=1,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=self.start_token if self.start_token is not None else 0,
        )
        first = len(self.decoder_start) if self.is_encoder_decoder else ids.shape[1]
        return [self._answer(self._until_end(tokens)) for tokens in made[:, first:].tolist()]

    @property
    def decoder_start(self) -> list[int]:
        """The tokens that a decoder begins every answer with: some models force the first one."""
        forced = getattr(self.model.generation_config, "forced_bos_token_id", None)
        start = [self.model.config.decoder_start_token_id]
        return start if forced is None else [*start, forced]

    def _until_end(self, tokens: list[int]) -> list[int]:
        ends = getattr(self.model.generation_config, "eos_token_id", None)
        known = [ends] if isinstance(ends, int) else list(ends or [])
        known.append(self.tokenizer.eos_token_id)
        places = [place for place, token in enumerate(tokens) if token in known]
        return tokens[: places[0]] if places else tokens

    @property
    def start_token(self) -> int | None:
        """The token that stands for an empty prompt: that of the beginning, or of the end."""
        for name in ("bos", "eos", "pad"):
            token = getattr(self.tokenizer, f"{name}_token_id", None)
            if token is not None:
                return int(token)
        return None

    @property
    def _context(self) -> int | None:
        """The tokens that the model can hold; None: any number."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    def check_length(self, prompt: PromptTokens, answer: int, number: int) -> None:
        """Raise if a prompt and its answer do not fit in the model's context."""
        most = self._context
        if most is None:
            return
        length = prompt.longest + (0 if self.is_encoder_decoder else answer)
        if length > most:
            raise InputError(
                f"rows: prompt {number} and its answer have {length:,} tokens, and the model's "
                f"context holds {most:,}; shorten the prompt"
            )
        if self.is_encoder_decoder and answer + len(self.decoder_start) - 1 > most:
            raise InputError(
                f"answer: the answer to prompt {number} has {answer:,} tokens, and the model's "
                f"decoder holds {most:,}; shorten it"
            )


def _padded(sequences: Sequence[Ids], *, left: bool = False) -> tuple[Ids, Ids]:
    """Return sequences as one array (n, t), and where it has tokens (n, t), 1, or none, 0."""
    width = max(map(len, sequences))
    ids = np.zeros((len(sequences), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, own in enumerate(sequences):
        place = slice(width - len(own), None) if left else slice(len(own))
        ids[row, place] = own
        mask[row, place] = 1
    return ids, mask


# Log-probabilities of answers


@dataclass
class AnswerScorer:
    """The log-probability of each text's answer given its prompt with some of the parts."""

    language: LanguageModel
    prompts: Sequence[PromptTokens]
    answers: Sequence[Answer]
    sums: Sequence[NDArray[np.float64]]  #: (a, k) for each text: which tokens add up to an output
    device: torch.device
    single: bool = True  #: whether there is one output, and no axis of outputs
    batch_size: int | None = None  #: sequences in one forward, if the user says so
    tokens: int = field(init=False)  #: in one forward at most; halved when memory runs out
    _prefix: tuple[tuple[int, ...], Any] = field(default=((), None), init=False)

    def __post_init__(self) -> None:
        """Set the size of forwards."""
        self.tokens = MAX_TOKENS[self._kind]

    def __call__(self, texts: NDArray[np.int64], coalitions: NDArray[np.bool_]) -> Tensor:
        """Map numbers of texts (n,) and coalitions of their parts (n, p) to (n,) or (n, k)."""
        numbers = texts.tolist()
        inputs = [self.inputs(text, own) for text, own in zip(numbers, coalitions, strict=True)]
        prefixes = [self._prefix_of(text) for text in numbers]
        order = sorted(range(len(inputs)), key=lambda row: (prefixes[row], -len(inputs[row])))
        alike = groupby(order, key=lambda row: prefixes[row])
        waiting = [(prefix, list(rows)) for prefix, rows in alike]
        limit = self._byte_limit()
        found: list[tuple[list[int], Tensor]] = []
        while waiting:
            prefix, rows = waiting.pop()
            prompts = [inputs[row] for row in rows]
            answers = [self.answers[numbers[row]].ids for row in rows]
            if not self._fits(prompts, answers, len(prefix), limit):
                half = len(rows) // 2
                waiting += [(prefix, rows[half:]), (prefix, rows[:half])]
                continue
            try:
                # not fetched yet, so that an accelerator computes while the next are made ready
                found.append((rows, self._forward(prompts, answers, prefix)))
            except Exception as error:
                if len(rows) == 1 or not out_of_memory(error):
                    raise
                self.tokens = max(1, len(rows) * len(prompts[0]) // 2)
                waiting.append((prefix, rows))
        return self._summed(numbers, found)

    def inputs(self, text: int, coalition: NDArray[np.bool_]) -> Ids:
        """Return the tokens of a prompt with some of its parts."""
        kept = self.prompts[text].kept(coalition)
        if len(kept):
            return kept
        start = self.language.start_token
        if start is None:
            raise ModelError(
                "the tokenizer has no token for the beginning of a text, which an empty prompt "
                "needs; keep a part of the prompt"
            )
        return np.array([start])

    def _summed(self, numbers: list[int], found: list[tuple[list[int], Tensor]]) -> Tensor:
        """Return outputs (n,) or (n, k), the sums of log-probabilities of tokens."""
        outputs = np.empty((len(numbers), self.sums[0].shape[1]))
        for rows, each in found:
            for row, own in zip(rows, each.cpu().numpy(), strict=True):
                sums = self.sums[numbers[row]]
                outputs[row] = own[: len(sums)] @ sums
        placed = torch.from_numpy(outputs).to(self.device)
        return placed[:, 0] if self.single else placed

    # The size of forwards

    @property
    def _kind(self) -> str:
        return "cpu" if self.device.type == "cpu" else "other"

    @cached_property
    def _config(self) -> Any:
        """The configuration of the model, or of the part of it that reads texts."""
        return self.language.model.config.get_text_config()

    def _prefix_of(self, text: int) -> tuple[int, ...]:
        """Return the tokens of a text whose keys and values are worth keeping."""
        prompt = self.prompts[text]
        prefix = prompt.prefix
        is_long = len(prefix) >= max(MIN_PREFIX, len(prompt.ids) // 4)
        return prefix if is_long and self._keeps_prefixes else ()

    @cached_property
    def _keeps_prefixes(self) -> bool:
        """Whether the model has nothing but attention to the tokens before."""
        layers = set(getattr(self._config, "layer_types", None) or ())
        attends = hasattr(self._config, "num_attention_heads") and layers <= ATTENTION
        is_recurrent = getattr(self.language.model, "_is_stateful", False)
        return attends and not is_recurrent and not self.language.is_encoder_decoder

    def _byte_limit(self) -> int:
        """Return the bytes that logits, or keys and values, may take."""
        free = free_memory(self.device)
        most = MAX_BYTES[self._kind]
        return most if free is None else min(most, free // 4)

    def _fits(self, prompts: list[Ids], answers: list[Ids], prefix: int, limit: int) -> bool:
        """Return whether prompts, the longest first, are small enough for one forward."""
        count = len(prompts)
        if count == 1:
            return True
        if self.batch_size is not None:
            return count <= self.batch_size
        answer = max(map(len, answers))
        longest = len(prompts[0])
        span = answer if self.language.is_encoder_decoder else longest - len(prompts[-1]) + answer
        logits = 4 * count * span * int(self._config.vocab_size)
        kept = count * (longest + answer) * self._bytes_a_token if prefix else 0
        return count * (longest - prefix + answer) <= self.tokens and max(logits, kept) <= limit

    @cached_property
    def _bytes_a_token(self) -> int:
        """What keys and values of a token take, in bytes."""
        config = self._config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None)
        size = size or config.hidden_size // config.num_attention_heads
        return int(2 * config.num_hidden_layers * heads * size * self.language.model.dtype.itemsize)

    # One forward

    def _forward(self, prompts: list[Ids], answers: list[Ids], prefix: tuple[int, ...]) -> Tensor:
        """Return the log-probabilities of answers' tokens, (n, a) in double precision."""
        if self.language.is_encoder_decoder:
            logits, place = self._decoded(prompts, answers)
        else:
            logits, place = self._continued(prompts, answers, prefix)
        targets, mask = _padded(answers)
        wanted = torch.from_numpy(targets).to(logits.device)
        rows = torch.arange(len(answers), device=logits.device)
        before = place.to(logits.device)
        precise = torch.promote_types(logits.dtype, torch.float32)
        steps = []
        for token in range(targets.shape[1]):  # one at a time: 32 bits for all would take memory
            own = logits[rows, (before + token).clamp(max=logits.shape[1] - 1)].to(precise)
            chosen = own.gather(1, wanted[:, token : token + 1])[:, 0]
            steps.append(chosen.double() - own.logsumexp(dim=1).double())
        return torch.stack(steps, dim=1) * torch.from_numpy(mask).to(logits.device)

    def _continued(
        self, prompts: list[Ids], answers: list[Ids], prefix: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """Return logits (n, t, v) of a causal model, and the place (n,) before each answer.

        They are computed only from before the first answer on, up to before the last token.
        """
        done = len(prefix)
        whole = [
            np.concatenate((prompt[done:], answer[:-1]))
            for prompt, answer in zip(prompts, answers, strict=True)
        ]
        place = np.array([len(prompt) - done - 1 for prompt in prompts])
        first = int(place.min())
        last = max(map(len, whole))
        options: dict[str, Any] = {"use_cache": False}
        if prefix:
            options = {"use_cache": True, "past_key_values": self._kept(prefix, len(prompts))}
        if self._keeps_logits:
            options["logits_to_keep"] = torch.arange(first, last, device=self.device)
        ids = torch.from_numpy(_padded(whole)[0]).to(self.device)
        logits = self.language.model(input_ids=ids, **options).logits
        if not self._keeps_logits:
            logits = logits[:, first:]
        return logits, torch.from_numpy(place - first)

    @cached_property
    def _keeps_logits(self) -> bool:
        """Whether the model can compute logits only at some places."""
        return "logits_to_keep" in inspect.signature(self.language.model.forward).parameters

    def _kept(self, prefix: tuple[int, ...], count: int) -> Any:
        """Repeat the keys and values of a prefix for each sequence."""
        if self._prefix[0] != prefix:
            ids = torch.tensor([prefix], device=self.device)
            options = {"logits_to_keep": 1} if self._keeps_logits else {}
            made = self.language.model(input_ids=ids, use_cache=True, **options)
            self._prefix = (prefix, made.past_key_values)
        cache = copy.deepcopy(self._prefix[1])  # the model adds to it
        cache.batch_repeat_interleave(count)
        return cache

    def _decoded(self, prompts: list[Ids], answers: list[Ids]) -> tuple[Tensor, Tensor]:
        """Return logits (n, a, v) of a decoder, and the place (n,) before each answer."""
        ids, mask = _padded(prompts)
        start = self.language.decoder_start
        before = [np.concatenate((start, answer[:-1])) for answer in answers]
        logits = self.language.model(
            input_ids=torch.from_numpy(ids).to(self.device),
            attention_mask=torch.from_numpy(mask).to(self.device),
            decoder_input_ids=torch.from_numpy(_padded(before)[0]).to(self.device),
            use_cache=False,
        ).logits
        return logits, torch.full((len(answers),), len(start) - 1)
