"""Other libraries' estimators, and the environment that they run in.

Each estimator is a function (game, players, budget, seed) -> values (p,), where the game maps
coalitions (c, p) to values (c,) and counts them. They get complement pairs if these help them, and
wide batches. To add one, write such a function and a line in PEERS.

shapiq's newest estimators need Python 3.12. `prepared_environment` makes an environment for them,
with the versions in peers-requirements.txt and this checkout; any Python from 3.11 on can start it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "benchmarks" / "peers-requirements.txt"
OUT = ROOT / "out"  # git ignores it
ENVIRONMENT = OUT / "peers-environment"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

Peer = Callable[[Any, int, int, int], Any]


# Estimators


def of_shapiq(name: str, **options: Any) -> Peer:
    """Return the peer of one of shapiq's approximators."""

    def estimate(game: Any, players: int, budget: int, seed: int) -> Any:
        from shapiq import approximator

        made = getattr(approximator, name)(n=players, random_state=seed, **options)
        return made.approximate(budget, game).get_n_order_values(1)

    return estimate


# A row of ones against a background of zeros: an input is then a coalition.


def shap_kernel(game: Any, players: int, budget: int, seed: int) -> Any:
    import numpy as np
    import shap

    np.random.seed(seed)  # noqa: NPY002  (shap draws from numpy's global generator)
    explainer = shap.KernelExplainer(game, np.zeros((1, players)))
    # base value and prediction are not in nsamples; by default only ten players would get a value
    row = np.ones((1, players))
    return explainer.shap_values(row, nsamples=budget - 2, l1_reg=0, silent=True)[0]


def shap_permutation(game: Any, players: int, budget: int, seed: int) -> Any:
    import numpy as np
    import shap

    masker = shap.maskers.Independent(np.zeros((1, players)))
    explainer = shap.PermutationExplainer(game, masker, seed=seed)
    row = np.ones((1, players))
    return explainer(row, max_evals=budget, batch_size=budget, silent=True).values[0]


def of_captum(name: str, game: Any, players: int, budget: int, seed: int) -> Any:
    import torch
    from captum import attr

    torch.manual_seed(seed)
    explainer = getattr(attr, name)(lambda inputs: torch.from_numpy(game(inputs.numpy())))
    answer = explainer.attribute(
        torch.ones(1, players),
        baselines=torch.zeros(1, players),
        n_samples=budget if name == "KernelShap" else (budget - 1) // players,
        perturbations_per_eval=budget,
    )
    return answer[0].double().numpy()


PEERS: dict[str, Peer] = {
    "shapiq KernelSHAP": of_shapiq("KernelSHAP", pairing_trick=True),
    "shapiq LeverageSHAP": of_shapiq("LeverageSHAP"),
    "shapiq PolySHAP 2": of_shapiq("PolySHAP", max_order=2, pairing_trick=True),
    "shapiq PolySHAP 3": of_shapiq("PolySHAP", max_order=3, pairing_trick=True),
    "shapiq OddSHAP": of_shapiq("OddSHAP"),
    "shapiq RegressionMSR linear": of_shapiq("RegressionMSR", index="SV", proxy_model="linear"),
    "shapiq RegressionMSR xgb": of_shapiq("RegressionMSR", index="SV", proxy_model="xgboost"),
    "shapiq ProxySHAP": of_shapiq("ProxySHAP", max_order=1, index="SV", adjustment=True),
    "shapiq SVARM": of_shapiq("SVARM"),
    "shapiq PermutationSamplingSV": of_shapiq("PermutationSamplingSV"),
    "shap KernelExplainer": shap_kernel,
    "shap PermutationExplainer": shap_permutation,
    "captum KernelShap": partial(of_captum, "KernelShap"),
    "captum ShapleyValueSampling": partial(of_captum, "ShapleyValueSampling"),
}


# The environment


def run_inside(script: str, wanted: str | None) -> None:
    """Run this command again in the peers' environment, on one thread, and exit; or return there.

    `wanted` is a Python 3.12 to make the environment with.
    """
    if Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        return
    command = [str(prepared_environment(wanted)), str(Path(script).resolve()), *sys.argv[1:]]
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)


def prepared_environment(wanted: str | None) -> Path:
    """Return the environment's Python, after installing what is missing or has changed."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "installed"
    projects = [ROOT / "pyproject.toml", ROOT / "lab" / "pyproject.toml", REQUIREMENTS]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in projects)).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return python

    print(f"setting up {ENVIRONMENT} (some minutes, once)", file=sys.stderr)
    if not python.exists():
        subprocess.run([python_312(wanted), "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS), "-e", ".", "-e", "lab"], cwd=ROOT, check=True)
    stamp.write_text(digest)
    return python


def python_312(wanted: str | None) -> str:
    """Return the first Python 3.12 that starts: the one asked for, this one, or one installed."""
    for candidate in [wanted] if wanted else [sys.executable, *_installed_pythons()]:
        show = "import sys; print('%d.%d' % sys.version_info[:2])"
        try:
            shown = subprocess.run([candidate, "-c", show], capture_output=True, text=True)
        except OSError:
            continue
        if shown.stdout.strip() == "3.12":
            return candidate
    raise SystemExit(
        "shapiq's newer estimators need Python 3.12, and none was found; install it, or name one: "
        "--python /path/to/python3.12"
    )


def _installed_pythons() -> Iterator[str]:
    """Yield the places where a Python 3.12 may be."""
    found = shutil.which("python3.12")
    if found:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob("versions/3.12*/bin/python")))
