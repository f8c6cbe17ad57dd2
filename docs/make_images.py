"""Make the pictures of the documentation, docs/images/*.png, from a quickly trained Census network.

python docs/make_images.py
"""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from shearshap import Explainer, data, models, plots

mpl.use("Agg")
torch.set_num_threads(1)  # the same weights on any number of cores

ROWS, ONE = 500, 6
census = data.load("census")
network = models.train(census, steps=1_000, seed=0).network
rows = census.test[:ROWS]
told = census.display[rows]
numeric = np.array([name in census.encoder.numeric for name in census.feature_names])

explainer = Explainer(
    network, census.reference, groups=census.groups, output=1, scale="probability",
    output_names=["P(at most 50K a year)", "P(more than 50K a year)"],
)  # fmt: skip
explanation = explainer(census.inputs[rows], budget=64, interactions=True)
# the encoded inputs' numbers are of no use to people
readable = np.where(numeric, np.where(numeric, told, "nan").astype(np.float64), np.nan)
explanation = replace(explanation, data=readable, display_data=told)

images = Path(__file__).parent / "images"
images.mkdir(exist_ok=True)
drawn = {
    "waterfall": plots.waterfall(explanation, row=ONE),
    "beeswarm": plots.beeswarm(explanation),
    "dependence": plots.dependence(explanation, "age"),
    "cooperators": plots.cooperators(explanation, row=ONE, edges="cross-contribution"),
}
for name, ax in drawn.items():
    ax.figure.savefig(images / f"{name}.png", dpi=110)
