"""What a reader makes of a model, and what it says where it cannot read one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shearshap.trees.forest import Floats, Forest, Integers


class NotTrees(Exception):  # noqa: N818  (it is a reason to go on by sampling, and no failure)
    """The model is not a sum of leaves that can be read; its text is the reason, in one line."""


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A model's trees, and how they see the rows that the model is given.

    The sums of leaves are the model's margin, its prediction or its probability, whichever is
    linear in the leaves, up to a constant. The caller compares them with the model.
    """

    forest: Forest

    #: Makes rows as the model's `predict` takes them, an array or a frame, into float64 (r, d').
    see: Callable[[Any], Floats]

    columns: Integers  #: (d',) the position of the input column that each seen column is made of
