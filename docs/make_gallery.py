"""Make the pictures of the documentation, docs/images/*.png: every plot, and pages for a browser.

PYTHONPATH=tests python docs/make_gallery.py            all of them
PYTHONPATH=tests python docs/make_gallery.py force text  only these

Pages need Chromium, which is taken from the tests' own `browser`. Pictures of the notebooks in
examples are copied from their stored outputs. The pictures of the service and of tables in a
notebook are made by make_service_image.py and make_notebook_image.py.
"""

import base64
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from PIL import Image

from shearshap import Conditional, Explainer, Explanation, importance, plots
from shearshap_lab import data, networks

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
EXAMPLES = DOCS.parent / "examples"
DPI = 100
PALETTE = 256  #: colours of a page's picture, which make it several times smaller

ROWS = 500
ROW = 6  #: shown by itself
OUTPUTS = ["at most 50K a year", "more than 50K a year"]


def main() -> None:
    """Write the pictures that are named on the command line, or all."""
    mpl.use("Agg")
    torch.set_num_threads(1)  # the same weights on any number of cores
    IMAGES.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or [*PLOTS, *PAGES, *NOTEBOOKS]
    for name in wanted:
        print(name)
        if name in PLOTS:
            write_plot(name, PLOTS[name]())
        elif name in PAGES:
            write_page(name)
        else:
            write_from_notebook(name)


@cache
def names_of(page: str, blocks: int = 1) -> dict:
    """Run the first blocks of a how-to page, and return the names that they define."""
    text = (DOCS / "howto" / page).read_text(encoding="utf-8")
    parts = text.split("```python\n")[1 : 1 + blocks]
    code = "".join(part.split("```")[0] for part in parts)
    names: dict = {}
    exec(compile(code, page, "exec"), names)
    return names


def write_plot(name: str, ax: Axes) -> None:
    """Write a plot to a small file."""
    buffer = BytesIO()
    ax.get_figure(root=True).savefig(buffer, dpi=DPI)
    plt.close("all")
    picture = Image.open(buffer).convert("RGB")
    picture.save(IMAGES / f"{name}.png", optimize=True)


# Tumours: the tutorial


@cache
def tumours() -> Explanation:
    """Return the explanation of the tutorial's 100 rows."""
    explanation: Explanation = names_of("../tutorial.md")["explanation"]
    return explanation


# Census: a table with categories


@cache
def census() -> data.Dataset:
    """Return the data."""
    return data.load("census")


@cache
def census_explainer() -> Explainer:
    """Return an explainer of a quickly trained network."""
    network = networks.train(census(), steps=1_000, seed=0).network
    return Explainer(
        network,
        census().inputs[census().train],
        groups=census().groups,
        output=1,
        scale="probability",
        output_names=OUTPUTS,
    )


@cache
def census_explanation(
    rows: int = ROWS, *, budget: int | None = None, interactions: bool = False
) -> Explanation:
    """Return an explanation of test rows, with cells as people read them."""
    places = census().test[:rows]
    inputs = census().inputs[places]
    explanation = census_explainer()(inputs, budget=budget, interactions=interactions)

    # the network's inputs are encoded; people read the cells, and colours go by their numbers
    cells = census().display[places]
    numbers = np.full(cells.shape, np.nan)
    for player, name in enumerate(census().feature_names):
        if name in census().encoder.numeric:
            numbers[:, player] = cells[:, player].astype(np.float64)
    return replace(explanation, data=numbers, display_data=cells)


def cohorts() -> Axes:
    """Draw the bars of two cohorts."""
    explanation = census_explanation()
    sex = explanation.display_data[:, explanation.feature_names.index("sex")]
    return plots.bar(explanation, groups=sex, max_features=8)


def growing() -> Axes:
    """Draw a row's values as the budget grows."""
    budgets = (250, 500, 1000, 2000, 4000)
    parts = [census_explanation(ROW + 1, budget=budget) for budget in budgets]
    return plots.convergence(parts, row=ROW)


# Wine: three classes


@cache
def wine_explanation() -> Explanation:
    """Return an explanation of all three classes."""
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    wine, cultivar = load_wine(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(wine, cultivar)
    names = ["Barolo", "Grignolino", "Barbera"]
    return Explainer(model, wine, output_names=names)(wine)


# Digits: pictures


def digit() -> Axes:
    """Draw a two, a three and a five, and beside each what makes it one digit or another."""
    names = names_of("images.md", blocks=2)
    pictures, squares = names["pictures"][:20], names["squares"]
    return plots.image(names["explanation"], pictures, mask=squares, row=[2, 3, 5])


# Churn: one customer against two backgrounds


def churn_explanation(choice: str) -> Explanation:
    """Return the explanation of the risky customer on the page about backgrounds."""
    names = names_of("background.md")
    return Explainer(names["model"], (choice, names["train"]), output="churned")(names["risky"])


# Diabetes: which features the model needs


def needed_features() -> Axes:
    """Draw the importance on the page about it."""
    names = names_of("needed-features.md")
    return plots.bar(
        importance(
            names["model"],
            names["test"],
            names["y_test"],
            loss="mse",
            background=names["train"],
        )
    )


# Flats: one against background rows, and if features move together


def flat() -> Axes:
    """Draw the values of the flat on the page about features that move together, both ways."""
    names = names_of("conditional.md")
    backgrounds = {
        "against background rows": names["train"],
        "if features move together": Conditional(names["train"]),
    }
    _, axes = plt.subplots(2, 1, figsize=(7.6, 7.6), layout="constrained")
    for ax, (title, background) in zip(axes, backgrounds.items(), strict=True):
        plots.waterfall(Explainer(names["model"], background)(names["flat"]), ax=ax, title=title)
    return axes[0]


# Houses, whose features are in groups


def hierarchy() -> Axes:
    """Draw the features of a house in their groups, and the groups below them."""
    names = names_of("hierarchies.md")
    groups = {
        "place": dict.fromkeys(["street", "district"]),
        "building": {"size": dict.fromkeys(["rooms", "area"]), "age": None, "heating": None},
    }
    explainer = Explainer(names["price"], names["houses"][:1], groups=groups)
    explanation = explainer(names["houses"][200:201])
    _, axes = plt.subplots(2, 1, figsize=(7.6, 7.6), layout="constrained")
    plots.waterfall(explanation, ax=axes[0], title="features")
    return plots.waterfall(explanation.fold(), ax=axes[1], title="groups")


# Text


@cache
def text_explanation() -> Explanation:
    """Return an explanation of sentences by their words, from a tiny BERT."""
    names = names_of("text.md")
    explainer = Explainer(
        (names["model"], names["tokenizer"]),
        groups="words",
        output="positive",
        scale="probability",
    )
    texts = [
        "the acting was great a lovely story so bad was the film",
        "a lovely film",
        "the story was so dull",
        "so bad a film",
        "great acting",
    ]
    return explainer(texts, interactions=True)


PLOTS: dict[str, Callable[[], Axes]] = {
    "readme": lambda: names_of("../../README.md") and plt.gca(),
    "tutorial-waterfall": lambda: plots.waterfall(tumours(), row=0),
    "tutorial-beeswarm": lambda: plots.beeswarm(tumours(), max_features=8),
    "waterfall": lambda: plots.waterfall(census_explanation(), row=ROW),
    "force": lambda: plots.force(census_explanation(), row=ROW),
    "bar": lambda: plots.bar(census_explanation()),
    "cohorts": cohorts,
    "classes": lambda: plots.bar(wine_explanation(), max_features=10),
    "beeswarm": lambda: plots.beeswarm(census_explanation()),
    "heatmap": lambda: plots.heatmap(census_explanation()[:200]),
    "decision": lambda: plots.decision(census_explanation()[:50], highlight=ROW),
    "dependence": lambda: plots.dependence(census_explanation(), "age"),
    "scatter": lambda: plots.scatter(census_explanation(), "hours-per-week", colour="sex"),
    "cooperators": lambda: plots.cooperators(
        census_explanation(ROW + 1, interactions=True), row=ROW, edges="cross-contribution"
    ),
    "interactions": lambda: plots.interactions(
        census_explanation(ROW + 1, interactions=True), row=ROW, max_features=8
    ),
    "convergence": growing,
    "background-mean": lambda: plots.waterfall(churn_explanation("mean")),
    "background-sample": lambda: plots.waterfall(churn_explanation("sample")),
    "needed-features": needed_features,
    "conditional": flat,
    "hierarchy": hierarchy,
    "image": digit,
    "text": lambda: plots.text(text_explanation()),
    "words": lambda: plots.bar(text_explanation()),
    "data": lambda: plots.bar(names_of("data.md")["worth"]),
}


# Pages for a browser


def write_page(name: str) -> None:
    """Write what a browser shows of the top of a report."""
    import browser

    width, height = SHOTS[name]
    with TemporaryDirectory() as folder:
        page = PAGES[name](Path(folder))
        with browser.chromium() as driver:
            browser.command(
                driver,
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=1,
                mobile=False,
            )
            browser.command(driver, "Emulation.setScrollbarsHidden", hidden=True)
            scheme = {"name": "prefers-color-scheme", "value": "light"}
            browser.command(driver, "Emulation.setEmulatedMedia", features=[scheme])
            driver.get(page.as_uri())
            shot = browser.command(driver, "Page.captureScreenshot")
    picture = Image.open(BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    palette = picture.quantize(PALETTE, dither=Image.Dither.NONE)
    palette.save(IMAGES / f"{name}.png", optimize=True)


def write_census(folder: Path) -> None:
    """Write a network, people to explain, and those that it was trained on."""
    networks.save(networks.train(census(), steps=1_000, seed=0), folder / "census-network")
    rows = pd.read_csv(census().write(folder / "census.csv"), dtype=str)
    rows[rows.split == "test"][:ROWS].to_csv(folder / "people.csv", index=False)
    rows[rows.split == "train"].to_csv(folder / "train.csv", index=False)


def explained_report(folder: Path) -> Path:
    """Return the report of `shear explain` on Census."""
    write_census(folder)
    command = "shear explain --model census-network --data people.csv --out values.csv"
    command += " --background sample:train.csv"
    run = "from shearshap.apps.cli import app; app()"
    arguments = [*command.split()[1:], "--report"]
    # as a user would run it, in the folder: the page has no paths of this machine
    start = f"import sys; sys.argv[0] = 'shear'; {run}"
    subprocess.run([sys.executable, "-c", start, *arguments], cwd=folder, check=True)
    (page,) = folder.glob("*.html")
    return page


def explained_answer(folder: Path) -> Path:
    """Return the page about an answer of a language model."""
    explanation: Explanation = names_of("language-models.md", blocks=2)["explanation"]
    return explanation.to_html(folder / "answer.html", title="Why Lima?")


PAGES: dict[str, Callable[[Path], Path]] = {
    "answer": explained_answer,
    "report": explained_report,
}
SHOTS = {
    "answer": (1000, 800),
    "report": (1000, 1360),
}


# Notebooks

NOTEBOOKS = {  #: the notebook, and which of its pictures
    "notebook-credit": ("credit.ipynb", 1),
    "notebook-images": ("images.ipynb", 1),
    "notebook-answer": ("why_this_answer.ipynb", 0),
}


def write_from_notebook(name: str) -> None:
    """Write a picture that a notebook has stored."""
    notebook, which = NOTEBOOKS[name]
    cells = json.loads((EXAMPLES / notebook).read_text(encoding="utf-8"))["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    shot = [data["image/png"] for data in outputs if "image/png" in data][which]
    picture = Image.open(BytesIO(base64.b64decode(shot))).convert("RGB")
    picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
