"""Every method by name, and the way from a name to a method and back."""

from shearshap.errors import MethodError
from shearshap.methods.auto import Auto
from shearshap.methods.base import Method
from shearshap.methods.coarse import CoarseToFine
from shearshap.methods.exact import Enumeration, Exact
from shearshap.methods.kernel import Kernel, Leverage, Welford
from shearshap.methods.kriging import Calibration
from shearshap.methods.kriging.method import Kriging
from shearshap.methods.permutation import Permutation
from shearshap.methods.shear import Shear
from shearshap.result.text import no_such

METHODS: dict[str, Method] = {
    "auto": Auto(),
    "exact": Exact(),
    "shear": Shear(),
    "shear-unbiased": Shear(unbiased=True),
    "kernel": Kernel(),
    "kernel-paired": Kernel(paired=True),
    "kernel-welford": Welford(),
    "permutation": Permutation(),
    "permutation-antithetic": Permutation(antithetic=True),
    "leverage": Leverage(),
    "kriging": Kriging(),
    "coarse-to-fine": CoarseToFine(),
}
"""The methods by name."""


def resolve(method: str | Method) -> Method:
    """Return the method that a name, or an instance, stands for."""
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "design"):
            raise MethodError(
                f"method: expected a name or an instance such as Shear(), got {method!r}"
            )
        return method
    if method not in METHODS:
        raise MethodError(no_such("method", method, list(METHODS)))
    return METHODS[method]


def name_of(method: Method) -> str:
    """Return the name in METHODS, or how the method prints itself.

    A calibration is not printed: with it, a method has the same name as without.
    """
    printed = repr(method)
    alike = {name: known for name, known in METHODS.items() if isinstance(method, type(known))}
    return next((name for name, known in alike.items() if repr(known) == printed), printed)


__all__ = [
    "METHODS",
    "Auto",
    "Calibration",
    "CoarseToFine",
    "Enumeration",
    "Exact",
    "Kernel",
    "Kriging",
    "Leverage",
    "Permutation",
    "Shear",
    "Welford",
    "name_of",
    "resolve",
]
