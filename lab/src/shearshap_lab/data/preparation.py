"""How the rows of a data set are split and encoded, and what an absent feature is replaced with."""

from dataclasses import dataclass
from typing import Literal, get_args

from shearshap.errors import InputError

Encoding = Literal["0/1", "standardised"]
Fitted = Literal["training rows", "all rows"]
Split = Literal["stratified", "scikit-learn"]
Background = Literal["mean", "quirk"]


@dataclass(frozen=True)
class Preparation:
    """The choices between a table and the inputs of a network; the paper states none of them.

    Parameters
    ----------
    encoding
        Of one-hot columns: left at "0/1", or "standardised" to mean 0 and standard deviation 1, as
        numbers always are.
    fitted
        The rows that means, standard deviations and categories are of.
    split
        "stratified" by label, which the seed decides, or "scikit-learn": its `train_test_split`
        twice with random state 0, whatever the seed.
    background
        The "mean" of the training rows, or the authors' "quirk": 0 for a number, and for a category
        the mean of its 0/1 columns, even where the columns are standardised.
    """

    encoding: Encoding = "0/1"
    fitted: Fitted = "training rows"
    split: Split = "stratified"
    background: Background = "mean"

    def __post_init__(self) -> None:
        """Check the words."""
        choices = {
            "encoding": Encoding,
            "fitted": Fitted,
            "split": Split,
            "background": Background,
        }
        for name, words in choices.items():
            word = getattr(self, name)
            if word not in get_args(words):
                raise InputError(
                    f"{name}: wanted one of {', '.join(get_args(words))}, got {word!r}"
                )


OURS = Preparation()
AUTHORS = Preparation("standardised", "all rows", "scikit-learn", "quirk")
