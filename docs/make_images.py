"""Make the pictures of the documentation, docs/images/*.png, from a quickly trained Census network.

python docs/make_images.py
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from shearshap import data, explain, model_game, models, plots
from shearshap.interaction import cross_contribution

mpl.use("Agg")
torch.set_num_threads(1)  # the same weights on any number of cores

ROWS, ONE = 500, 6
census = data.load("census")
network = models.train(census, steps=1_000, seed=0).network
rows = census.test[:ROWS]
groups = list(census.groups.values())
told = census.display[rows]
numeric = np.array([name in census.encoder.numeric for name in census.feature_names])


def probability(logits: torch.Tensor) -> torch.Tensor:
    """Return the probability of the second class."""
    return logits.softmax(dim=1)[:, 1]


asked: dict[str, Any] = {"reference": census.reference, "groups": groups, "output": probability}
explanation = explain(network, census.inputs[rows], budget=64, **asked)
with model_game(network, census.inputs[rows], **asked) as game:
    together = cross_contribution(game).cpu().numpy()
explanation = replace(
    explanation,
    feature_names=census.feature_names,
    output_names=["P(more than 50K a year)"],
    data=np.where(numeric, np.where(numeric, told, "nan").astype(np.float64), np.nan),
    display_data=told,
    cross_contribution=together,
)

images = Path(__file__).parent / "images"
images.mkdir(exist_ok=True)
drawn = {
    "waterfall": plots.waterfall(explanation, row=ONE),
    "beeswarm": plots.beeswarm(explanation),
    "dependence": plots.dependence(explanation, "age"),
    "cooperators": plots.cooperators(explanation, row=ONE),
}
for name, ax in drawn.items():
    ax.figure.savefig(images / f"{name}.png", dpi=110)
