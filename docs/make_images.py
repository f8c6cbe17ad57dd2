"""Make the pictures of the documentation, docs/images/*.png, from a quickly trained Census network.

python docs/make_images.py
"""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from shearshap import Explainer, Explanation, plots
from shearshap.paper import data, networks

ROWS = 500
ROW = 6  #: shown by itself
IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Explain rows of Census, and write a picture of each plot."""
    mpl.use("Agg")
    torch.set_num_threads(1)  # the same weights on any number of cores
    explanation = census_explanation()
    pictures = {
        "waterfall": plots.waterfall(explanation, row=ROW),
        "beeswarm": plots.beeswarm(explanation),
        "dependence": plots.dependence(explanation, "age"),
        "cooperators": plots.cooperators(explanation, row=ROW, edges="cross-contribution"),
    }
    IMAGES.mkdir(exist_ok=True)
    for name, ax in pictures.items():
        ax.figure.savefig(IMAGES / f"{name}.png", dpi=110)


def census_explanation() -> Explanation:
    """Return an explanation of test rows, with cells as people read them."""
    census = data.load("census")
    network = networks.train(census, steps=1_000, seed=0).network
    explainer = Explainer(
        network,
        census.background,
        groups=census.groups,
        output=1,
        scale="probability",
        output_names=["P(at most 50K a year)", "P(more than 50K a year)"],
    )
    rows = census.test[:ROWS]
    explanation = explainer(census.inputs[rows], budget=64, interactions=True)

    # the network's inputs are encoded; people read the cells, and colours go by their numbers
    cells = census.display[rows]
    numbers = np.full(cells.shape, np.nan)
    for player, name in enumerate(census.feature_names):
        if name in census.encoder.numeric:
            numbers[:, player] = cells[:, player].astype(np.float64)
    return replace(explanation, data=numbers, display_data=cells)


if __name__ == "__main__":
    main()
