"""Count the modules that a call walks through: those of which a function runs.

    python scripts/walk.py [--list]

A reader who follows a call must open each of them, so there are limits. The script exits with 1 if
a walk is longer than its limit. `--list` names the modules.
"""

import argparse
import inspect
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import CodeType, FrameType

import joblib
import numpy as np
import pandas as pd
import torch
from fastapi.testclient import TestClient
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import shearshap
from shearshap import Explainer
from shearshap.apps.jobs import Job
from shearshap.apps.serve.app import make_app
from shearshap.apps.serve.prepared import prepare

ROOT = Path(shearshap.__file__).parent
INPUTS = 13
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, INPUTS))

Walk = Callable[[], object]


def main() -> None:
    """Print a table of all walks, and exit with 1 if one is too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the modules of each walk")
    shown = parser.parse_args().list

    too_long = False
    print(f"{'walk':<40} modules  limit")
    for name, (limit, opened) in WALKS.items():
        modules = modules_walked(opened)
        too_long |= len(modules) > limit
        print(f"{name:<40} {len(modules):7}  {limit:5}")
        if shown:
            print("".join(f"    {module}\n" for module in sorted(modules)), end="")
    sys.exit(too_long)


def modules_walked(opened: Callable[[], AbstractContextManager[Walk]]) -> set[str]:
    """Return the modules of the library of which a function runs in a walk, in any thread."""
    codes: set[CodeType] = set()

    def see(frame: FrameType, _event: str, _argument: object) -> None:
        codes.add(frame.f_code)

    threading.setprofile(see)  # of threads that are started from now on, as the service's
    with opened() as walk:
        codes.clear()
        sys.setprofile(see)
        walk()
        sys.setprofile(None)
    threading.setprofile(None)
    # what runs when a module is imported, its body and those of its classes, is no step of a walk
    files = {Path(code.co_filename) for code in codes if code.co_flags & inspect.CO_OPTIMIZED}
    return {str(file.relative_to(ROOT)) for file in files if file.is_relative_to(ROOT)}


@contextmanager
def torch_module() -> Iterator[Walk]:
    """Explain rows of an array by a network."""
    net = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, 16), torch.nn.GELU(), torch.nn.Linear(16, 2)
    ).double()
    explainer = Explainer(net, ("mean", ROWS))
    yield lambda: explainer(ROWS, budget=208)


@contextmanager
def sklearn_pipeline() -> Iterator[Walk]:
    """Explain rows of a frame by a Pipeline with a column of words."""
    frame = pd.DataFrame(ROWS, columns=[f"x{number}" for number in range(INPUTS)])
    frame["city"] = RNG.choice(["Bern", "Oslo", "Rome"], len(frame))
    columns = make_column_transformer((OneHotEncoder(), ["city"]), remainder=StandardScaler())
    model = make_pipeline(columns, LogisticRegression()).fit(frame, ROWS[:, 0] > 0)
    explainer = Explainer(model, frame[:1])
    yield lambda: explainer(frame, budget=208)


@contextmanager
def tree_ensemble() -> Iterator[Walk]:
    """Explain rows exactly, from the leaves of a forest."""
    model = RandomForestRegressor(20, random_state=0).fit(ROWS, ROWS[:, 0] * ROWS[:, 1])
    explainer = Explainer(model, ROWS[:10])
    yield lambda: explainer(ROWS)


@contextmanager
def request() -> Iterator[Walk]:
    """Explain a row that comes over HTTP, by a model that was prepared before."""
    names = [f"x{number}" for number in range(INPUTS)]
    frame = pd.DataFrame(ROWS, columns=names)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, ROWS[:, 0] > 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        joblib.dump(model, folder / "model.joblib")
        frame.to_csv(folder / "rows.csv", index=False)
        job = Job(
            model=folder / "model.joblib",
            data=folder / "rows.csv",
            out=folder / "values.csv",
            background=f"mean:{folder / 'rows.csv'}",
            trust=True,
        )
        app = make_app(prepare(job))
        with TestClient(app) as client:

            def walk() -> None:
                row = dict(zip(names, ROWS[0], strict=True))
                client.post("/explain", json={"rows": [row]}).raise_for_status()

            yield walk


WALKS = {
    "a torch module on an array": (45, torch_module),
    "a scikit-learn Pipeline on pandas": (48, sklearn_pipeline),
    "a tree ensemble, exact": (40, tree_ensemble),
    "one request to the service": (45, request),
}

if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
