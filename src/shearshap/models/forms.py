"""What a model's outputs are, probabilities or margins: known, stated by the user, or assumed.

A network does not say what it returns. Unless its last layer tells, or the user does, its outputs
are taken for margins. Made into probabilities a second time they would be wrong, so outputs that
look like probabilities are refused where that is certain enough, and doubted where it is not.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from shearshap.errors import InputError, ModelError

Form = Literal["probability", "margin"]

Certainty = Literal["known", "stated", "assumed"]
"""Why a form is believed: the model says it, the user does, or nobody."""

LEAST_SEEN = 16
"""Rows of outputs from which on a range within [0, 1] is no accident."""

_ROUNDING = {torch.float16: 5e-3, torch.bfloat16: 4e-2}
_SMALLEST_ROUNDING = 1e-6  #: how far outside [0, 1] a sum of rounded probabilities may lie
_USUAL_ROUNDING = 1e-3  #: how far from 1 the sum of a row's probabilities may be

HOW_TO_STATE = "returns='probability' if they are, or returns='margin' if they are not"


@dataclass
class SeenOutputs:
    """The range of what a model returned in a run, before it is put on another scale."""

    rows: int = 0
    low: Tensor | None = None
    high: Tensor | None = None

    #: Whether a number outside [0, 1] was seen, after which there is nothing more to find out.
    settled: bool = False

    def add(self, answer: Tensor) -> None:
        """Take outputs (n,) or (n, k) into account; only the first of them wait for the device."""
        if self.settled:
            return
        self.rows += len(answer)
        low = answer.detach().amin()
        high = answer.detach().amax()
        if self.low is None or self.high is None:
            self.low = low
            self.high = high
            self.settled = not self.within_unit()
            return
        self.low = torch.minimum(self.low, low)
        self.high = torch.maximum(self.high, high)

    def within_unit(self) -> bool:
        """Return whether all that was seen lies in [0, 1], but for rounding."""
        if self.low is None or self.high is None or self.settled:
            return False
        rounding = _ROUNDING.get(self.low.dtype, _SMALLEST_ROUNDING)
        return bool(self.low >= -rounding) and bool(self.high <= 1 + rounding)

    def range(self) -> str:
        """Return the range in words."""
        assert self.low is not None, "there is a range once something was seen"
        assert self.high is not None
        return f"{float(self.low):.4g} to {float(self.high):.4g}"


def refuse_shares(scale: str, answer: Tensor) -> None:
    """Raise if outputs (n, k) that are taken for margins are probabilities, or percentages."""
    if _are_shares(answer, 1):
        raise InputError(
            f"scale={scale!r}: the model's {answer.shape[1]} outputs lie in [0, 1] and sum to 1, "
            f"as probabilities do, but nothing says what they are; pass {HOW_TO_STATE} (and "
            "multilabel=True if each is a label of its own)"
        )
    if _are_shares(answer, 100):
        raise InputError(
            f"scale={scale!r}: the model's {answer.shape[1]} outputs lie in [0, 100] and sum to "
            "100, as percentages do; divide them by 100 in the model and pass "
            "returns='probability', leave scale out, or pass returns='margin' if they are scores"
        )


def _are_shares(answer: Tensor, whole: int) -> bool:
    """Return whether outputs (n, k) are not negative, and sum to `whole`, but for rounding."""
    numbers = answer.detach().double() / whole
    low = -_ROUNDING.get(answer.dtype, _SMALLEST_ROUNDING)
    tolerance = _ROUNDING.get(answer.dtype, _USUAL_ROUNDING)
    sums_to_one = ((numbers.sum(dim=1) - 1).abs() <= tolerance).all()
    return bool(sums_to_one) and bool((numbers >= low).all())


def refuse_range(seen: SeenOutputs) -> None:
    """Raise: outputs that the user calls probabilities are none."""
    raise ModelError(
        f"returns='probability': the model returned {seen.range()}, which are no probabilities; "
        "pass returns='margin' if they are scores before they become probabilities, or leave "
        "returns and scale out"
    )


def doubtful_range(scale: str, seen: SeenOutputs) -> str:
    """Return the warning that outputs taken for margins may well be probabilities."""
    return (
        f"scale={scale!r}: the model's outputs are taken for scores before they become "
        f"probabilities, but all that were seen lie in [0, 1] ({seen.range()}), as probabilities "
        f"do; pass {HOW_TO_STATE}"
    )


# What users give


def checked_returns(returns: Any) -> Form | None:
    """Return what the user says of the model's outputs, or raise."""
    if returns is None:
        return None
    if not isinstance(returns, str) or returns not in get_args(Form):
        raise InputError(
            "returns: wanted 'probability' or 'margin', what the model's outputs are, or None "
            f"where that is known; got {returns!r}"
        )
    return returns  # type: ignore[return-value]


def checked_multilabel(multilabel: Any) -> bool | None:
    """Return whether the user says that each output is a label of its own, or raise."""
    if multilabel is None or isinstance(multilabel, bool):
        return multilabel
    raise InputError(
        "multilabel: wanted True (each output is a label of its own), False (classes of which one "
        f"is true) or None; got {multilabel!r}"
    )
