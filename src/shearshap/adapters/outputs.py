"""What of a model's answer is explained: on which scale, and which of its outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from shearshap.errors import InputError, ModelError

Output = int | str | Sequence[int] | Sequence[str] | Callable[[Any], Any] | None
Scale = Literal["probability", "log-odds", "margin", "logit"]
Form = Literal["probability", "margin"]

_SMALLEST = 1e-7
"""Probabilities are kept this far from 0 and 1 before their log-odds are taken, which else were
infinite.
"""


@dataclass(frozen=True)
class Outputs:
    """Turns what a model returned into the outputs to explain, (n,) or (n, k)."""

    output: Output = None  #: as the user asked, after `checked_output`
    scale: Scale | None = None  #: None: as the model returns them
    form: Form | None = None  #: what the model returns; None: unknown
    names: tuple[str, ...] = ()  #: of all the model's outputs, where they are known
    independent: bool = (
        False  #: whether each output has a probability of its own, instead of all sharing one
    )
    checked: bool = (
        False  #: whether there must be as many names as outputs, since the user gave them
    )

    def check(self) -> None:
        """Raise where it is known before any work that the model has no such outputs, or not on
        that scale.
        """
        if self.scale in ("margin", "logit") and self.form != "margin":
            kind = "probabilities" if self.form else "numbers of one scale"
            raise InputError(
                f"scale={self.scale!r}: the model returns {kind}, and nothing tells what they "
                "were made of; "
                "leave scale out"
            )
        if self.output is None or callable(self.output):
            return
        if not self.names and any(isinstance(which, str) for which in _several(self.output)):
            raise InputError(
                f"output: there is no output {self.output!r}, as the model's outputs have no "
                "names; give numbers, or "
                "output_names="
            )
        for which in _several(self.output) if len(self.names) > 2 else ():
            self.number(which, len(self.names))

    def __call__(self, raw: Any, rows: int) -> Tensor:
        """Return the chosen outputs of the model's answer for `rows` rows."""
        if callable(self.output):
            raw = self.output(raw)
        answer = _tensor(raw)
        if answer.numel() == rows:
            answer = answer.reshape(rows)
        if answer.ndim not in (1, 2) or len(answer) != rows or answer.numel() == 0:
            raise ModelError(
                f"the model returned shape {tuple(answer.shape)} for {rows} rows; wanted "
                f"({rows},) or ({rows}, k). "
                "Pass output= a function of the model's output that gives such a shape"
            )
        outputs = 1 if answer.ndim == 1 else answer.shape[1]
        known = (
            len(self.names) == outputs if callable(self.output) else bool(self.names_of(outputs))
        )
        if self.checked and not known:
            raise InputError(
                f"output_names: wanted {outputs}, one for each output, got {len(self.names)}"
            )
        scaled = rescaled(answer, self.form, self.scale, independent=self.independent)
        return scaled if self.output is None or callable(self.output) else self._selected(scaled)

    def _selected(self, answer: Tensor) -> Tensor:
        table = answer[:, None] if answer.ndim == 1 else answer
        wanted = [self.number(which, table.shape[1]) for which in _several(self.output)]
        return table[:, wanted[0]] if isinstance(self.output, int | str) else table[:, wanted]

    def number(self, which: Any, outputs: int) -> int:
        """Return the number of an output given by number or name."""
        names = self.names_of(outputs)
        if outputs == 1 and len(self.names) == 2:
            return self._second_class(which)
        if isinstance(which, str) and which in names:
            return names.index(which)
        if isinstance(which, int) and -outputs <= which < outputs:
            return which % outputs
        known = f"{', '.join(names)} (0 to {outputs - 1})" if self.names else f"0 to {outputs - 1}"
        raise InputError(f"output: there is no output {which!r}; the model has {outputs}: {known}")

    def _second_class(self, which: Any) -> int:
        """Return 0, the only output, where the score of two classes is asked for by the class it
        speaks for.
        """
        if which in (1, -1, self.names[1]):
            return 0
        raise InputError(
            f"output: there is one score for two classes, that of {self.names[1]!r} (1), got "
            f"{which!r}; "
            "try scale='log-odds' for both"
        )

    def names_of(self, outputs: int) -> list[str]:
        """Return the names of all outputs, where there are so many names; of a score for two
        classes, the second's.
        """
        if len(self.names) == outputs:
            return list(self.names)
        return [self.names[1]] if outputs == 1 and len(self.names) == 2 else []

    def chosen_names(self, outputs: int) -> list[str]:
        """Return the names of the outputs that are explained, `outputs` of them; none where they
        are not known.
        """
        if self.output is None or (callable(self.output) and self.checked):
            return self.names_of(outputs)
        if callable(self.output):
            return []
        if not self.names:
            return [f"output {which}" for which in _several(self.output)]
        return [
            which if isinstance(which, str) else self.names[which]
            for which in _several(self.output)
        ]


def rescaled(
    answer: Tensor, form: Form | None, scale: Scale | None, *, independent: bool = False
) -> Tensor:
    """Return outputs on the scale asked for: softmax or sigmoid of margins, or the log-odds of each
    class.
    """
    if scale in (None, form, "margin", "logit"):
        return answer
    apart = answer.ndim == 1 or independent
    if scale == "probability":
        return answer.sigmoid() if apart else answer.softmax(dim=1)
    if form == "margin":
        return answer if apart else _log_odds_of_margins(answer)
    return _log_odds_of_chances(answer)


def _log_odds_of_margins(margins: Tensor) -> Tensor:
    """Return z_c - log(sum over the other classes of exp z), which is log p_c / (1 - p_c) and loses
    no digits.
    """
    own = torch.eye(margins.shape[1], dtype=torch.bool, device=margins.device)
    others = [margins[:, ~own[c]].logsumexp(dim=1) for c in range(margins.shape[1])]
    return margins - torch.stack(others, dim=1)


def _log_odds_of_chances(chances: Tensor) -> Tensor:
    if bool((chances < 0).any() | (chances > 1).any()):
        raise ModelError(
            "scale='log-odds' needs probabilities, and the model returned "
            f"{float(chances.min()):.4g} to "
            f"{float(chances.max()):.4g}; leave scale out, or pass output= a function that makes "
            "the numbers you want"
        )
    return chances.double().clamp(_SMALLEST, 1 - _SMALLEST).logit()


def _tensor(raw: Any) -> Tensor:
    if isinstance(raw, Tensor):
        return raw if raw.is_floating_point() else raw.double()
    try:
        if isinstance(raw, tuple | list) and any(np.ndim(part) for part in raw):
            raise TypeError
        return torch.from_numpy(
            np.array(raw, dtype=np.float64)
        )  # a copy: the model may use its memory again
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"the model returned a {type(raw).__name__} that is no array of numbers; "
            "pass output= a function that picks the array out of it"
        ) from error


def _several(output: Any) -> list[Any]:
    return [output] if isinstance(output, int | str) else list(output)


def checked_output(output: Any) -> Output:
    """Return `output` as None, a function, an index or name, or a list of them, or raise."""
    if output is None:
        return None
    if callable(output):
        return output  # type: ignore[no-any-return]
    several = isinstance(output, Sequence | np.ndarray) and not isinstance(output, str)
    wanted = list(output) if several else [output]
    if not wanted or not all(
        isinstance(one, int | str | np.integer) and not isinstance(one, bool) for one in wanted
    ):
        raise InputError(
            "output: wanted a class's index or name, several, or a function of the model's "
            f"output; got {output!r}"
        )
    plain: list[Any] = [one if isinstance(one, str) else int(one) for one in wanted]
    return plain if several else plain[0]


def checked_scale(scale: Any, output: Output) -> Scale | None:
    """Return the scale asked for, or raise."""
    if scale is not None and scale not in get_args(Scale):
        raise InputError(
            f"scale: wanted one of {', '.join(get_args(Scale))}, or none for the model's own; got "
            f"{scale!r}"
        )
    if scale is not None and callable(output):
        raise InputError(
            "scale: a function given as output= makes its own scale; give one of the two"
        )
    return scale  # type: ignore[no-any-return]
