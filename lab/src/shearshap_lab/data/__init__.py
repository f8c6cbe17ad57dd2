"""The paper's data sets, ready to train on and to explain."""

from pathlib import Path

from shearshap.errors import InputError
from shearshap.result.text import no_such
from shearshap_lab.data import criteo, uci
from shearshap_lab.data.dataset import Dataset
from shearshap_lab.data.encoder import Encoder
from shearshap_lab.data.preparation import OURS, Preparation

NAMES = (*uci.SOURCES, "criteo")


def load(
    name: str,
    *,
    seed: int = 0,
    path: Path | str | None = None,
    preparation: Preparation = OURS,
) -> Dataset:
    """Return a data set by name, encoded and split; the seed decides the split.

    `preparation` says how the rows of those that ship are split and encoded.

    census, bank (the paper's "German Credit") and german (Statlog German Credit) ship inside the
    package. criteo reads the user's own file at `path`.
    """
    if path is not None and name in NAMES and name != "criteo":
        raise InputError(
            f"path: only criteo reads a file of yours, {name} needs none; got {str(path)!r}"
        )
    if name in uci.SOURCES:
        return uci.load(name, uci.SOURCES[name], seed, preparation)
    if name in NAMES and preparation != OURS:
        raise InputError(
            f"preparation: only {', '.join(uci.SOURCES)} can be prepared in other ways than ours, "
            f"got {name}"
        )
    if name == "criteo":
        return criteo.load(path, seed)

    raise InputError(no_such("data set", str(name), NAMES))


__all__ = ["NAMES", "Dataset", "Encoder", "Preparation", "load"]
