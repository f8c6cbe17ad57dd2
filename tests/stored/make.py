"""Make the stored files of this folder, and what they hold: results as users keep them.

They were made once, by commit 7cbb1c1, and stay as they are: `test_stored.py` reads them with the
present code. To add files of a later version, make them beside these.

    git worktree add /tmp/then 7cbb1c1
    PYTHONPATH=/tmp/then/src:/tmp/then/tests:/tmp/then/tests/models python tests/stored/make.py
"""

import json
import os
import shutil
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from score import predict
from sklearn.ensemble import GradientBoostingRegressor
from test_models_generation import model_of, tokenizer_of
from typer.testing import CliRunner

from shearshap import Explainer, Explanation, explain_game
from shearshap.apps.cli import app

HERE = Path(__file__).parent
ROWS = 8


def plain(content: Any) -> Any:
    """Return a field as JSON: numbers as they are, everything else as text."""
    if isinstance(content, np.ndarray):
        return [plain(each) for each in content.tolist()]
    if isinstance(content, list | tuple):
        return [plain(each) for each in content]
    if isinstance(content, dict):
        return {str(key): plain(each) for key, each in content.items()}
    if content is None or isinstance(content, bool | int | float | str):
        return content
    return repr(content) if hasattr(content, "to_dict") else str(content)


def frame() -> pd.DataFrame:
    """Rows with ids, text, categories, truth values, dates and gaps."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"{number:03}" for number in range(ROWS)],
            "a": rng.normal(size=ROWS),
            "b": np.where(rng.random(ROWS) < 0.3, np.nan, rng.normal(size=ROWS)),
            "s": rng.choice(["x", "y", "z"], ROWS),
            "kind": pd.Categorical(rng.choice(["low", "high"], ROWS), ["low", "high"]),
            "new": rng.random(ROWS) < 0.5,
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(ROWS), "D"),
        }
    )


def explanations() -> dict[str, Explanation]:
    """Return the explanations to save, by the names of their files."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 5))
    many = rng.normal(size=(300, 5))
    many[::3, 3:] = 0  # rows of fewer active features have numbers of their own in a calibration

    def smooth(x: Any) -> Any:
        return np.sin(x.sum(axis=1)) + x[:, 0] * x[:, 1] * x[:, 2]

    def three(x: Any) -> Any:
        return np.stack((x[:, 0] * x[:, 1], x[:, 2] ** 2, x.sum(axis=1)), axis=1)

    def letters(texts: list[str]) -> Any:
        return [len(text) ** 2 / 10 for text in texts]

    def with_mean(model: Any, **options: Any) -> Explainer:
        return Explainer(model, np.zeros(5), **options)

    pair = (model_of("gpt2").eval(), tokenizer_of("gpt2"))
    prompt = "Rome is in Italy. Oslo is in Norway.\nWhere is Rome? Answer:"
    mixed = frame()
    dated = mixed.drop(columns="id").set_index(mixed["day"].dt.date.rename("when"))[:4]
    groups = {"place": ["s", "kind"], "level": {"a": None, "b": None}}
    trees = GradientBoostingRegressor(n_estimators=3, random_state=0).fit(rows, smooth(rows))
    return {
        "kriging": with_mean(smooth, method="kriging")(many, budget=24)[:3],
        "stopped": with_mean(smooth, method="permutation-antithetic")(rows, tol=0.3, budget=40),
        "outputs": with_mean(three, method="kriging")(rows[:2], budget=24),
        "pairs": with_mean(smooth, method="kriging")(rows[:1], budget=24, interactions=True),
        "sets": Explainer(three, np.zeros(3))(rows[:1, :3], interactions=3, interaction_index="FSII"),
        "trees": Explainer(trees, rows)(rows),
        "covers": Explainer(trees)(rows),
        "texts": Explainer(letters, text=("lines", "words"))(["a good film", "a bad\nbad film"]),
        "answers": Explainer(pair, output="tokens")([prompt], answer=" Italy"),
        "frame": Explainer(predict, dated, groups=groups)(dated),
        "ids": Explainer(predict, ("median", mixed.drop(columns="id")))(mixed, index="id")[:3],
        "loss": Explainer(smooth, rows, loss="mse")(rows, y=rows[:, 0]),
        "game": explain_game(lambda z: z @ np.arange(3.0), players=3, semivalue="banzhaf"),
    }  # fmt: skip


FOLDER = (
    "explain", "--model", "score.py:product", "--data", "rows", "--id", "id", "--keep", "id",
    "--background", "all:absent.parquet", "--budget", 24, "--method", "kriging",
)  # fmt: skip
"""The command of the folders, without the place to write to."""


def shear(*words: object) -> int:
    """Run a command, and return its exit code."""
    return CliRunner().invoke(app, [str(word) for word in words]).exit_code


def make_values() -> None:
    """Write files of values with their metadata, and what a loss needs."""
    mixed = frame()
    mixed.assign(y=predict(mixed) > 0.5).to_parquet("mixed.parquet", index=False)
    words = ("--model", "score.py:predict", "--data", "mixed.parquet", "--drop", "y")
    named = ("--id", "id", "--title", "Late payments", "--out", "values.parquet")
    assert not shear("explain", *words, *named, "--interactions")
    loss = ("--drop", "id", "--label", "y", "--loss", "log loss", "--out", "needed.parquet")
    assert not shear("importance", *words[:4], *loss)
    Path("mixed.parquet").unlink()
    Path("values.html").unlink()


def make_folders() -> None:
    """Write the folder of a large job that is finished, and of one that lacks its last part."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(8, 5)), columns=list("abcde")).round(3)
    rows.mean().to_frame().T.to_parquet("absent.parquet", index=False)
    Path("rows").mkdir(exist_ok=True)
    rows = rows.assign(id=[f"{number:03}" for number in range(8)])
    rows.to_parquet("rows/0.parquet", index=False, row_group_size=4)
    assert not shear(*FOLDER, "--out", "finished/")
    Path("finished/_log.jsonl").unlink()
    Path("finished/_lock").unlink(missing_ok=True)

    shutil.copytree("finished", "interrupted")
    Path("interrupted/part-000001.parquet").unlink()
    lines = Path("interrupted/_parts.jsonl")
    kept = [line for line in lines.read_text(encoding="utf-8").splitlines() if "000001" not in line]
    lines.write_text("\n".join(kept), encoding="utf-8")


def main() -> None:
    """Write all files, and expected.json."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.chdir(HERE)
    expected: dict[str, Any] = {}
    for name, explanation in explanations().items():
        explanation.save(f"{name}.npz")
        known = {each.name: getattr(explanation, each.name) for each in fields(Explanation)}
        expected[name] = plain(known | {"seconds": None})
    calibration = Explanation.load("kriging.npz").calibration
    Path("calibration.json").write_text(json.dumps(calibration.to_dict()), encoding="utf-8")

    make_values()
    make_folders()
    for name in ("values", "values.interactions", "needed", "finished"):
        table = pd.read_parquet(name if name == "finished" else f"{name}.parquet")
        expected[name] = plain({column: table[column].tolist() for column in table})
        expected[name].pop("output", None)
    lines = [f'"{name}":{json.dumps(content)}' for name, content in expected.items()]
    Path("expected.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
