"""A model as the rest of the library sees it: how it is called, what it takes, what it returns.

`Outputs` says which of its outputs are explained, and on which scale. A network does not say what
it returns. Unless its last layer shows it, or the user states it, its outputs are treated as
margins. Made into probabilities a second time they would be wrong, so the first outputs are refused
if they are surely probabilities, and doubted if they may be.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from shearshap.errors import InputError, ModelError

Scale = Literal["probability", "log-odds", "margin", "logit"]

#: Two words for one scale: scores before they become probabilities.
MARGINS = ("margin", "logit")

#: What a model's outputs are.
Form = Literal["probability", "margin"]

#: How a form is known: from the model, from the user, or only by assumption.
Certainty = Literal["known", "stated", "assumed"]

#: Inputs (n, d) to embeddings (n, d, e), and embeddings to what the model returns.
Embedding = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]

_CPU = torch.device("cpu")


def libraries(model: Any) -> list[str]:
    """Return the libraries of a model's class and of the classes that it extends, in that order."""
    return [ancestor.__module__.partition(".")[0] for ancestor in type(model).__mro__]


def model_name(model: Any) -> str:
    """Return the type of a model: XGBClassifier, Pipeline(LogisticRegression), SVC.predict."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return f"{type(model).__name__}({model_name(steps[-1][1])})"
    name = getattr(model, "__name__", None)
    if not isinstance(name, str):
        return type(model).__name__
    owner = getattr(model, "__self__", None)  # of a bound method
    if owner is not None:
        return f"{model_name(owner)}.{name}"
    return "function" if name == "<lambda>" else name


def library_versions(model: Any) -> dict[str, str]:
    """Return the versions of shearshap, of the libraries of a model, of torch and numpy."""
    from shearshap import __version__

    parts = [getattr(model, "__self__", model)]
    parts += [step for _, step in getattr(parts[0], "steps", None) or ()]
    names = [
        name for part in parts for name in libraries(part) if name not in sys.stdlib_module_names
    ]
    versions = {"shearshap": __version__}
    for name in (*names, "torch", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = str(version)
    return versions


@dataclass(frozen=True)
class AdaptedModel:
    """A model of any kind, as the rest of the library sees it."""

    #: Maps the model's arguments to its result.
    call: Callable[[Any], Any]
    #: Whether it returns probabilities or margins; None: unknown.
    form: Form | None = None
    #: Why the form is believed.
    certainty: Certainty = "known"
    #: Whether each output is a probability of its own, rather than all of them summing to 1;
    #: None: unknown, and treated as no.
    independent: bool | None = None
    #: The scale that it is explained on because the user asks for none, and boosted trees add up
    #: margins; None: that of the user, or the model's own.
    usual_scale: Scale | None = None
    #: Whether its margin is the log-odds of the second of two classes.
    is_log_odds: bool = False
    #: Names of all its outputs, such as a classifier's classes.
    output_names: Sequence[str] = ()
    #: Names of the columns it was trained with.
    feature_names: Sequence[str] = ()
    #: Whether it takes tensors on its device; otherwise it takes numpy arrays and frames.
    takes_tensors: bool = False
    #: Whether it takes what the rows are: tensors for tensors, arrays for arrays.
    takes_either: bool = False
    #: Whether it takes frames as they are; otherwise it takes them as a matrix of numbers.
    takes_frames: bool = True
    #: Whether NaN is allowed in a numpy array.
    takes_missing: bool = False
    device: torch.device = _CPU
    #: The floating-point type it takes; None: the type of the rows.
    dtype: torch.dtype | None = None
    #: Whether gradients flow from outputs to inputs.
    differentiable: bool = False
    #: How to differentiate a model whose inputs are indices.
    embedding: Embedding | None = None


# Outputs


Output = int | str | Sequence[int] | Sequence[str] | Callable[[Any], Any] | None

#: Probabilities are clipped this far from 0 and 1, whose log-odds would be infinite.
MIN_PROBABILITY = 1e-7
_LARGEST = math.log(1 / MIN_PROBABILITY - 1)

#: The numbers that an array of objects may hold.
_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)

#: How far outside [0, 1] a rounded probability may lie, and how far from 1 the sum of a row's.
_ROUNDING = 1e-6
_ROUNDING_OF_SUM = 1e-3

#: From this many rows on, a range within [0, 1] is not an accident.
_MIN_SEEN = 16

_HOW_TO_STATE = "returns='probability' if they are, or returns='margin' if they are not"


def _rounding(dtype: torch.dtype) -> float:
    return max(_ROUNDING, 5 * torch.finfo(dtype).eps)


@dataclass
class SeenOutputs:
    """The range of a model's first outputs, before they are put on another scale."""

    rows: int = 0
    low: float = math.inf
    high: float = -math.inf
    rounding: float = _ROUNDING
    clipped: int = 0  #: probabilities whose log-odds are not known

    def add_clipped(self, answer: Tensor) -> None:
        """Count the probabilities that are clipped."""
        beyond = (answer < MIN_PROBABILITY) | (answer > 1 - MIN_PROBABILITY)
        self.clipped += int(beyond.sum())

    def add(self, answer: Tensor) -> None:
        """Take outputs (n,) or (n, k) into account."""
        self.rows += len(answer)
        self.low = min(self.low, float(answer.amin()))
        self.high = max(self.high, float(answer.amax()))
        self.rounding = _rounding(answer.dtype)

    def within_unit(self) -> bool:
        """Return whether all that was seen lies in [0, 1], but for rounding."""
        return self.low >= -self.rounding and self.high <= 1 + self.rounding


@dataclass(frozen=True)
class Outputs:
    """Turns what a model returned into the outputs to explain, (n,) or (n, k)."""

    #: The outputs to explain, as `checked_output` returns them; None: all.
    output: Output = None
    #: The scale to explain them on; None: the model's own.
    scale: Scale | None = None
    #: What the model returns; None: unknown.
    form: Form | None = None
    #: Names of all the model's outputs; none if they are not known.
    names: tuple[str, ...] = ()
    #: Whether each output is a probability of its own, rather than all of them summing to 1.
    independent: bool = False
    #: Whether the margin is the log-odds of the second of two classes.
    is_log_odds: bool = False
    #: Whether the user gave the names, so that there must be one for each output.
    checked: bool = False
    #: Why the form is believed.
    certainty: Certainty = "known"
    #: What the model returned first, if its form is not known.
    seen: SeenOutputs = field(default_factory=SeenOutputs, compare=False, repr=False)

    def check(self) -> None:
        """Raise if the model is known to lack the wanted outputs or scale, before it is called."""
        if self.scale is not None and self.form is None:
            raise InputError(
                f"scale={self.scale!r}: it is not known whether the model returns probabilities "
                "or margins; pass returns='probability' or returns='margin', or leave scale out"
            )
        if self.scale in MARGINS and self.form != "margin":
            raise InputError(
                f"scale={self.scale!r}: the model returns probabilities and has no margins; "
                "leave scale out, or try scale='log-odds'"
            )
        if not self._is_selection():
            return

        wanted = _as_list(self.output)
        by_name = any(isinstance(which, str) for which in wanted)
        if by_name and not self.names:
            raise InputError(
                f"output: there is no output {self.output!r}, as the model's outputs have no "
                "names; pass an index, or name the outputs with output_names="
            )
        # Two names may belong to one score, so they do not yet say how many outputs there are.
        if len(self.names) > 2:
            for which in wanted:
                self.index(which, len(self.names))

    def __call__(self, raw: Any, rows: int) -> Tensor:
        """Return the outputs to explain, from what the model returned for `rows` rows."""
        if callable(self.output):
            raw = self.output(raw)
        answer = _shaped(_tensor(raw, rows), rows)
        self._check_names(1 if answer.ndim == 1 else answer.shape[1])
        # outputs for derivatives are not new outputs
        is_doubtful = self.scale is not None and self.certainty != "known"
        if is_doubtful and self.seen.rows < _MIN_SEEN and not torch.is_grad_enabled():
            self._compare(answer)

        if self.scale == "log-odds" and self.form == "probability":
            self.seen.add_clipped(answer)
        scaled = rescaled(answer, self.form, self.scale, independent=self.independent)
        return self._selected(scaled) if self._is_selection() else scaled

    def consistency_warning(self) -> str | None:
        """Return a warning if the first outputs may not be the margins that they are treated as."""
        is_in_doubt = self.certainty == "assumed" and self.form == "margin"
        is_seen = self.seen.rows >= _MIN_SEEN and self.seen.within_unit()
        if self.scale is None or not is_in_doubt or not is_seen:
            return None
        return (
            f"scale={self.scale!r}: the model's outputs are treated as logits, but the first of "
            f"them lie in [0, 1] ({self.seen.low:.4g} to {self.seen.high:.4g}), as probabilities "
            f"do; pass {_HOW_TO_STATE}"
        )

    def clipping_warning(self) -> str | None:
        """Return a warning if some probabilities had no log-odds, so that nothing is exact."""
        if not self.seen.clipped:
            return None
        return (
            f"scale='log-odds': {self.seen.clipped:,} of the model's probabilities were within "
            f"{MIN_PROBABILITY:g} of 0 or 1. Their log-odds are taken as -{_LARGEST:.1f} and "
            f"{_LARGEST:.1f}, so values may be far off, and have no standard errors; "
            "scale='probability' explains probabilities"
        )

    def _compare(self, answer: Tensor) -> None:
        """Note the range of first outputs (n,) or (n, k), and raise if it belies their form."""
        is_first = self.seen.rows == 0
        self.seen.add(answer)
        is_stated = (self.form, self.certainty) == ("probability", "stated")
        if is_stated and not self.seen.within_unit():
            raise ModelError(
                f"returns='probability': the model returned {self.seen.low:.4g} to "
                f"{self.seen.high:.4g}, which are not probabilities; pass returns='margin' if "
                "they are raw scores, or leave returns and scale out"
            )
        is_assumed = (self.form, self.certainty) == ("margin", "assumed")
        is_of_classes = answer.ndim == 2 and not self.independent
        if is_first and is_assumed and is_of_classes and _sum_to_one(answer):
            raise InputError(
                f"scale={self.scale!r}: the model's {answer.shape[1]} outputs lie in [0, 1] and "
                f"sum to 1, so they may be probabilities; pass {_HOW_TO_STATE} (and "
                "multilabel=True if several labels can be true at once)"
            )

    def _is_selection(self) -> bool:
        """Return whether some outputs are wanted by index or name."""
        return self.output is not None and not callable(self.output)

    def _check_names(self, outputs: int) -> None:
        if not self.checked:
            return
        names = self.names if callable(self.output) else self.names_of(outputs)
        if len(names) != outputs:
            raise InputError(
                f"output_names: expected {outputs}, one per output, got {len(self.names)}"
            )

    def _selected(self, answer: Tensor) -> Tensor:
        table = answer[:, None] if answer.ndim == 1 else answer
        outputs = table.shape[1]
        columns = [self.index(which, outputs) for which in _as_list(self.output)]
        is_single = isinstance(self.output, int | str)
        return table[:, columns[0]] if is_single else table[:, columns]

    def index(self, which: Any, outputs: int) -> int:
        """Return the index of an output, wanted by index or name, among `outputs`."""
        if outputs == 1 and len(self.names) == 2:
            second = self.names[1]  # the one score of two classes is the second's
            if which in (1, -1, second):
                return 0
            raise InputError(
                f"output: the two classes have one score, that of {second!r} (1), got {which!r}; "
                "try scale='log-odds' for both"
            )

        names = self.names_of(outputs)
        if isinstance(which, str) and which in names:
            return names.index(which)
        if isinstance(which, int) and -outputs <= which < outputs:
            return which % outputs

        known = f"0 to {outputs - 1}"
        if self.names:
            known = f"{', '.join(names)} ({known})"
        raise InputError(f"output: there is no output {which!r}; the model has {outputs}: {known}")

    def names_of(self, outputs: int) -> list[str]:
        """Return the names of all outputs; none if the known names do not fit their number."""
        if len(self.names) == outputs:
            return list(self.names)
        if len(self.names) == 2 and outputs == 1:
            return [self.names[1]]
        return []

    @property
    def units(self) -> Scale | None:
        """The scale of the explained outputs; None: it is not known, or they are numbers."""
        if callable(self.output):
            return None
        known = self.form if self.certainty != "assumed" else None
        units = self.scale or known
        if units not in MARGINS:
            return units
        return "log-odds" if self.is_log_odds else "margin"

    def chosen_names(self, outputs: int) -> list[str]:
        """Return the names of the explained outputs; none if they are not known."""
        if self.output is None:
            return self.names_of(outputs)
        if callable(self.output):
            return self.names_of(outputs) if self.checked else []
        wanted = _as_list(self.output)
        if not self.names:
            return [f"output {which}" for which in wanted]
        return [which if isinstance(which, str) else self.names[which] for which in wanted]


def _shaped(answer: Tensor, rows: int) -> Tensor:
    """Return an answer as (n,) or (n, k), or raise if it has no such shape."""
    # one number for each row, whatever axes of length 1 are beside them
    if answer.numel() == rows and rows in (1, *answer.shape):
        return answer.reshape(rows)
    if answer.ndim == 0:
        raise ModelError(
            f"the model returned shape () for {rows} rows, a single number; expected one per "
            "row, such as x.sum(axis=1) instead of x.sum()"
        )
    if answer.ndim != 2 or len(answer) != rows or answer.numel() == 0:
        raise ModelError(
            f"the model returned shape {tuple(answer.shape)} for {rows} rows; expected ({rows},) "
            f"or ({rows}, k). Pass output= a function that turns the model's output into such a "
            "shape"
        )
    return answer


def _tensor(raw: Any, rows: int) -> Tensor:
    """Return an answer as a floating-point tensor, which may share the model's memory."""
    if isinstance(raw, list) and _is_row_by_row(raw, rows):
        raw = [part.detach().cpu().numpy() if isinstance(part, Tensor) else part for part in raw]
    elif raw is None or (isinstance(raw, tuple | list) and any(np.ndim(part) for part in raw)):
        raise _no_numbers(raw)
    try:
        return real_numbers(raw, "the model")
    except (TypeError, ValueError) as error:
        raise _no_numbers(raw) from error


def all_finite(values: Tensor) -> bool:
    """Return whether no value is NaN or infinite.

    The sum of numbers that are not all finite is not finite either, and takes one pass. If it is
    not, it may only have overflowed.
    """
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def real_numbers(raw: Any, source: Literal["the model", "the game", "the loss"]) -> Tensor:
    """Return what a model or a game returned as a tensor of floating-point numbers.

    Truth values, integers and floats are numbers, also in an array of objects; anything else is a
    ModelError, even if it could be read as a number. Anything but an array is a TypeError or
    ValueError. The tensor may share the memory of what was returned.
    """
    if isinstance(raw, Tensor):
        if raw.is_complex():
            raise _not_real(raw.dtype, source)
        dense = raw if raw.layout == torch.strided else raw.to_dense()
        return dense if dense.is_floating_point() else dense.double()
    if hasattr(raw, "toarray"):  # a sparse matrix
        raw = raw.toarray()
    if np.ma.is_masked(raw):
        raise _not_real("masked values", source)

    table = np.asarray(raw)
    if table.dtype.kind not in "biuf":
        if table.dtype.kind == "V" or table.ndim == 0:
            raise TypeError(f"expected an array of numbers, got a {type(raw).__name__}")
        others: Any = table.ravel()
        if table.dtype == object:
            others = [each for each in others.tolist() if not isinstance(each, _NUMBERS)]
        if len(others):
            error = _not_real(f"{table.dtype} such as {others[0]!s:.40}", source)
            if isinstance(others[0], str) and source == "the model":
                raise ModelError(f"{error}, or pass the classifier itself instead of its predict")
            raise error
    # torch wants memory that is aligned, writable and without negative strides
    array = np.require(table, np.float64, ["ALIGNED", "C", "ENSUREARRAY", "WRITEABLE"])
    return torch.from_numpy(array)


def _not_real(kind: object, source: str) -> ModelError:
    make = "pass output= a function that returns" if source == "the model" else "return"
    return ModelError(
        f"{source} returned {kind}; expected numbers, such as probabilities or scores; {make} "
        "real numbers"
    )


def _is_row_by_row(parts: list[Any], rows: int) -> bool:
    """Return whether a list holds an answer for each row, and not several arrays for all."""
    if len(parts) != rows or any(np.ndim(part) > 1 for part in parts):
        return False
    if all(isinstance(part, list) for part in parts):
        return True
    # as many arrays as there are rows, each as long, may be either
    return rows == 1 or not any(np.ndim(part) and len(part) == rows for part in parts)


def _no_numbers(raw: Any) -> ModelError:
    example = ""
    if isinstance(raw, tuple | list):
        example = f", such as lambda result: result[0] for the first of its {len(raw)}"
    if isinstance(raw, dict) and raw:
        example = f", such as lambda result: result[{next(iter(raw))!r}]"
    return ModelError(
        f"the model returned a {type(raw).__name__}, which is not an array of numbers; "
        f"pass output= a function that extracts the array{example}"
    )


# Scales


def rescaled(
    answer: Tensor, form: Form | None, scale: Scale | None, *, independent: bool = False
) -> Tensor:
    """Return outputs (n,) or (n, k) of a form on the wanted scale."""
    if scale is None or scale == form or scale in MARGINS:
        return answer
    if answer.dtype in (torch.float16, torch.bfloat16):
        answer = answer.float()
    is_each_alone = answer.ndim == 1 or independent
    if scale == "probability":
        return answer.sigmoid() if is_each_alone else answer.softmax(dim=1)
    if form != "margin":
        return _log_odds_of_probabilities(answer)
    return answer if is_each_alone else _log_odds_of_margins(answer)


def _log_odds_of_margins(margins: Tensor) -> Tensor:
    """Return z_c - log(sum over the other classes of exp z) for margins z (n, k).

    That is log p_c / (1 - p_c) for p = softmax(z), without the digits lost if p_c is almost 1.
    """
    own = torch.eye(margins.shape[1], dtype=torch.bool, device=margins.device)
    others = margins[:, None, :].masked_fill(own, -torch.inf)  # (n, k, k)
    return margins - others.logsumexp(dim=2)


def _log_odds_of_probabilities(probabilities: Tensor) -> Tensor:
    lowest = float(probabilities.detach().min())
    highest = float(probabilities.detach().max())
    if lowest < -_ROUNDING or highest > 1 + _ROUNDING:
        raise ModelError(
            f"scale='log-odds' needs probabilities, but the model returned {lowest:.4g} to "
            f"{highest:.4g}; leave scale out, pass returns='margin' if these are raw scores, or "
            "pass output= a function that makes the numbers you want"
        )
    return probabilities.double().clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY).logit()


def _sum_to_one(answer: Tensor) -> bool:
    """Return whether outputs (n, k) are not negative, and sum to 1, but for rounding."""
    numbers = answer.detach().double()
    rounding = _rounding(answer.dtype)
    sums_to_one = (numbers.sum(dim=1) - 1).abs() <= max(rounding, _ROUNDING_OF_SUM)
    return bool(sums_to_one.all()) and bool((numbers >= -rounding).all())


# The user's options


def _as_list(output: Any) -> list[Any]:
    return [output] if isinstance(output, int | str) else list(output)


def checked_output(output: Any) -> Output:
    """Return `output` as None, a function, an index or name, or a list of those, or raise."""
    if output is None:
        return None
    if callable(output):
        return output  # type: ignore[no-any-return]

    is_several = isinstance(output, Sequence | np.ndarray) and not isinstance(output, str)
    wanted = list(output) if is_several else [output]
    if not wanted or not all(_is_index_or_name(which) for which in wanted):
        raise InputError(
            "output: expected a class's index or name, several, or a function of the model's "
            f"output; got {output!r}"
        )
    plain: list[Any] = [which if isinstance(which, str) else int(which) for which in wanted]
    return plain if is_several else plain[0]


def _is_index_or_name(which: Any) -> bool:
    return isinstance(which, int | str | np.integer) and not isinstance(which, bool)


def checked_scale(scale: Any, output: Output) -> Scale | None:
    """Return the wanted scale, or raise."""
    if scale is None:
        return None
    if scale not in get_args(Scale):
        known = ", ".join(get_args(Scale))
        hint = "; did you mean 'margin'?" if scale == "raw" else ""  # as shap calls it
        raise InputError(
            f"scale: expected one of {known}, or None for the model's own; got {scale!r}{hint}"
        )
    if callable(output):
        raise InputError(
            "scale: a function passed as output= makes its own scale; pass only one of the two"
        )
    return scale  # type: ignore[no-any-return]


def check_statements(returns: Any, multilabel: Any) -> None:
    """Raise unless the user's statements about the model's outputs are possible ones."""
    if returns is not None and returns not in get_args(Form):
        raise InputError(
            "returns: expected 'probability' or 'margin', or None to infer what the model "
            f"returns; got {returns!r}"
        )
    if multilabel is not None and not isinstance(multilabel, bool):
        raise InputError(
            "multilabel: expected True (several labels can be true at once), False (exactly one "
            f"class is true) or None; got {multilabel!r}"
        )
