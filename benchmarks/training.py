"""How good the paper's networks are.

    python benchmarks/training.py           census, bank and german, three seeds each
    python benchmarks/training.py census    one of them

A seed decides the split, the first weights and the batches.
"""

import numpy as np

from setting import machine, parser_of
from shearshap_lab import data
from shearshap_lab import networks as models
from shearshap_lab.markdown import plain_table

NAMES = ("census", "bank", "german")
PAPER = {"census": "84.7 %", "bank": "89.8 %"}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    print(f"{machine()}\n")
    header = ["", "test accuracy by seed", "mean", "over the majority class", "paper"]
    print(plain_table(header, [accuracy(name, chosen.seeds) for name in chosen.names]))


def accuracy(name: str, seeds: int) -> list[str]:
    """Return the row of a data set: how good its networks are."""
    runs = [models.train(data.load(name, seed=seed), seed=seed) for seed in range(seeds)]
    scores = [trained.test_accuracy for trained in runs]
    margins = [trained.test_accuracy - trained.majority for trained in runs]
    return [
        name,
        " ".join(f"{score:.1%}" for score in scores),
        f"{np.mean(scores):.1%}",
        f"{100 * np.mean(margins):+.1f} points",
        PAPER.get(name, ""),
    ]


if __name__ == "__main__":
    main()
