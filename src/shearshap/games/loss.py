"""Losses: how far predictions are from labels, as the worth of a coalition.

    v(S) = -loss(y, mean over b of f(x_S, background b outside S))

So a player's value is by how much it reduces the loss of its row: positive if the model predicts
better with it. A label belongs to its row, and is never replaced. A loss is not linear, so the mean
over background rows is inside: each coalition is evaluated with all of them.

Letters: r rows, c coalitions, b background rows, k outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError, ModelError
from shearshap.models import Outputs
from shearshap.models.base import MIN_PROBABILITY, real_numbers

LOSSES = ("log loss", "mse", "mae")

Loss = str | Callable[[Any, Any], Any] | None
"""A name in LOSSES, or a function of labels (n,) and predictions, (n,) or (n, k): losses (n,)."""

Function = Callable[[Tensor, Tensor], Tensor]
"""Of the rows' numbers (n,) and predictions (n, k): their losses (n,)."""

MIN_BACKGROUND = 32
"""Background rows from which on the jackknife's error is small for most losses.

Measured on the log loss of boosted trees with one positive label in eight: the worth of a coalition
is off by 0.6 % of what all players are worth together, and by 1.3 % with 16; uncorrected by 2.3 %.
"""

MIN_BACKGROUND_OF_SQUARES = 8
"""The same for squared errors, for which the jackknife has no error."""


@dataclass(frozen=True, eq=False)
class LabelledLoss:
    """A loss, with the labels of all rows."""

    name: str
    function: Function
    min_background: int = MIN_BACKGROUND
    #: how much of the jackknife's correction to apply: 0 none, 1 if the background is a small
    #: sample of the rows that it stands for
    correction: float = 0.0

    def worth(self, means: Tensor, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return values (r, c, 1) of means (r, c, k) of outputs (r, c, b, k), for rows (r,).

        The loss of a mean over few background rows is too large, by about g'' s^2 / 2b. The
        jackknife finds that from the means without one of the rows each:

            corrected = g(mean) - (b - 1) (mean over i of g(mean without i) - g(mean))
        """
        losses = self._losses(means, rows)
        count = outputs.shape[2]
        if self.correction and count > 1:
            without = (count * means.unsqueeze(2) - outputs) / (count - 1)
            excess = self._losses(without, rows).mean(dim=2) - losses
            losses = losses - self.correction * (count - 1) * excess
        return -losses.unsqueeze(-1)

    def _losses(self, predictions: Tensor, rows: Tensor) -> Tensor:
        """Return losses (r, ...) of predictions (r, ..., k)."""
        shape = predictions.shape[:-1]
        places = rows.reshape(-1, *(1 for _ in shape[1:])).expand(shape).reshape(-1)
        flat = predictions.double().reshape(len(places), -1)
        return self.function(places, flat).reshape(shape).to(predictions.device)


def labelled_loss(
    loss: Loss, y: Any, rows: int, outputs: Outputs, classes: Sequence[str] = ()
) -> LabelledLoss | None:
    """Return the loss that a user asks for, or raise if its labels do not fit; None: no loss.

    `classes` are the model's own names of its outputs, if it has any.
    """
    labels = checked_labels(loss, y, rows)
    if loss is None or labels is None:
        return None
    if loss == "log loss":
        return LabelledLoss(loss, _log_loss(labels, outputs, classes))
    if callable(loss):
        return LabelledLoss(_name(loss), _users(loss, labels))
    numbers = torch.from_numpy(_numbers(labels).reshape(rows, -1))
    least = MIN_BACKGROUND_OF_SQUARES if loss == "mse" else MIN_BACKGROUND
    return LabelledLoss(str(loss), _of_differences(str(loss), numbers), least)


def checked_labels(loss: Loss, y: Any, rows: int) -> NDArray[Any] | None:
    """Return the labels of rows as an array, or raise if there is not one for each; None: no loss.

    They are checked against the model later.
    """
    if loss is None:
        if y is not None:
            raise InputError("y: labels are only used with a loss; pass, for example, loss='mse'")
        return None
    if not callable(loss) and loss not in LOSSES:
        known = ", ".join(map(repr, LOSSES))
        raise InputError(
            f"loss: expected one of {known}, or a function of labels and predictions; got {loss!r}"
        )
    if y is None:
        raise InputError(f"loss: expected y=, the labels of the {rows:,} rows, got none")
    labels = _array(y)
    if len(labels) != rows:
        raise InputError(f"y: expected {rows:,} labels, one per row, got {len(labels):,}")
    return labels


def no_loss(loss: Loss) -> Callable[[Any, Any], Any]:
    """Return a loss of the same name that is always 0, for a row without a label."""

    def zero(_labels: Any, predictions: Any) -> NDArray[np.float64]:
        return np.zeros(len(predictions))

    zero.__name__ = loss if isinstance(loss, str) else _name(loss)
    return zero


def _name(loss: Loss) -> str:
    return getattr(loss, "__name__", "loss")


def _array(y: Any) -> NDArray[Any]:
    """Return labels as an array (r,) or (r, k)."""
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.ndim == 0:
        raise InputError(f"y: expected one label per row, got {y!r}")
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _numbers(labels: NDArray[Any]) -> NDArray[np.float64]:
    try:
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"y: expected numbers, got {str(labels.flat[0])!r}; try 'log loss'"
        ) from error
    if not np.isfinite(numbers).all():
        raise InputError(
            "y: expected finite numbers, got NaN or infinite ones; leave out such rows"
        )
    return numbers


def _of_differences(name: str, labels: Tensor) -> Function:
    """Return the mean squared or absolute difference of labels (r, k), over the outputs."""

    def losses(rows: Tensor, predictions: Tensor) -> Tensor:
        own = labels[rows].to(predictions)
        if own.shape != predictions.shape:
            raise InputError(
                f"{name}: the model has {predictions.shape[1]} outputs, and y has {own.shape[1]} "
                "for each row; choose one by output=, or try loss='log loss'"
            )
        gaps = predictions - own
        return (gaps.square() if name == "mse" else gaps.abs()).mean(dim=1)

    return losses


def _users(function: Callable[[Any, Any], Any], labels: NDArray[Any]) -> Function:
    """Return a user's function, called with arrays; a model with one output has (n,) of it."""

    def losses(rows: Tensor, predictions: Tensor) -> Tensor:
        table = predictions.cpu().numpy()
        answer = function(labels[rows.cpu().numpy()], table[:, 0] if table.shape[1] == 1 else table)
        found = real_numbers(answer, "the loss")
        if found.shape != rows.shape:
            raise InputError(
                f"loss: expected one per row, shape ({len(rows)},), got {tuple(found.shape)}; "
                "return the losses, not their mean"
            )
        return found

    return losses


def _log_loss(labels: NDArray[Any], outputs: Outputs, names: Sequence[str]) -> Function:
    """Return -log of the probability of each row's class.

    Probabilities are clipped a little away from 0, whose loss would be infinite.
    """
    if outputs.independent or labels.ndim > 1:
        raise InputError(
            "log loss: expected one class per row, got several labels; pass a function of labels "
            "and predictions as loss="
        )
    if outputs.output is not None:
        raise InputError(
            "output: the log loss takes the probabilities of all classes; leave it out"
        )
    if outputs.form is not None and (outputs.scale or outputs.form) != "probability":
        raise InputError("scale: the log loss takes probabilities; leave it out")
    classes = torch.from_numpy(_class_numbers(labels, names, outputs.names))
    highest = int(classes.max())

    def losses(rows: Tensor, predictions: Tensor) -> Tensor:
        count = max(predictions.shape[1], 2)
        low, high = (float(end) for end in predictions.detach().aminmax())
        if low < -ROUNDING or high > 1 + ROUNDING:
            raise ModelError(
                f"log loss: expected probabilities, but the model returned {low:.4g} to "
                f"{high:.4g}; pass returns='margin' if these are raw scores"
            )
        if highest >= count:
            raise InputError(f"y: expected classes 0 to {count - 1}, got {highest}")
        own = classes.to(rows.device)[rows].to(predictions.device)
        if predictions.shape[1] == 1:
            probability = torch.where(own == 1, predictions[:, 0], 1 - predictions[:, 0])
        else:
            probability = predictions.gather(1, own[:, None])[:, 0]
        return -probability.clamp(MIN_PROBABILITY, 1.0).log()

    return losses


ROUNDING = 1e-3
"""How far outside [0, 1] a probability may lie: a mean without one of its terms is rounded too."""


def _class_numbers(
    labels: NDArray[Any], own: Sequence[str], given: Sequence[str]
) -> NDArray[np.int64]:
    """Return the number of each row's class, (r,).

    By the model's own names of its classes; if it has none, by the user's names, or numbers.
    """
    texts = np.array([_class_text(label) for label in labels.tolist()], dtype=object)
    distinct, numbers = np.unique(texts, return_inverse=True)
    known = {name: number for number, name in enumerate(own or given)}
    if not own:
        known |= {"False": 0, "True": 1}
        known |= {text: int(text) for text in distinct if text.isdecimal()}
    strange = [text for text in distinct if text not in known]
    if strange:
        expected = f"one of {', '.join(own or given)}" if own or given else "classes 0, 1, ..."
        raise InputError(f"y: expected {expected}; got {strange[0]!r}")
    return np.array([known[text] for text in distinct], dtype=np.int64)[numbers]


def _class_text(label: Any) -> str:
    is_whole = isinstance(label, float) and label.is_integer()
    return str(int(label) if is_whole else label)
