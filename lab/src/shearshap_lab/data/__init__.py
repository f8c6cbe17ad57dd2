"""The paper's data sets, ready to train on and to explain."""

from pathlib import Path

from shearshap.errors import InputError
from shearshap.result.text import no_such
from shearshap_lab.data import criteo, uci
from shearshap_lab.data.dataset import OURS, Dataset, Encoder, Preparation

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
    if name == "criteo":
        if preparation != OURS:
            raise InputError(f"preparation: criteo is prepared in our way only, got {preparation}")
        return criteo.load(path, seed)
    if name not in uci.SOURCES:
        raise InputError(no_such("data set", str(name), NAMES))
    if path is not None:
        raise InputError(f"path: only criteo reads your own file, got {str(path)!r} for {name}")
    return uci.load(name, uci.SOURCES[name], seed, preparation)


__all__ = ["NAMES", "Dataset", "Encoder", "Preparation", "load"]
