"""Rows per second: each method, the bare forward of as many inputs, and the peers, all in one run.

    python benchmarks/throughput.py                 the CPU, with shap, captum and shapiq beside us
    python benchmarks/throughput.py --device cuda   a GPU, without the peers that cannot use one;
                                                    and the seconds for a million rows
    python benchmarks/throughput.py --scaling       how time grows with rows, and with the budget

Every run explains one logit of the same network (107 inputs in 13 groups, 64-64-2), at 208
evaluations per row.
"""

import contextlib
import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from setting import (
    BUDGET,
    EVERY_METHOD,
    GROUPS,
    INPUTS,
    PLAYERS,
    SAMPLING,
    Tables,
    census_like,
    machine,
    parser_of,
    seconds,
)
from shearshap import Explanation, Kriging, Shear, explain
from shearshap.methods.base import Method

APPENDIX = [name for name in EVERY_METHOD if name.endswith("-paper") and "coin" not in name]
CALIBRATED = "kriging, the calibration given"
MANY = 1_000_000  #: rows of the last run on a GPU, for which copies to the host count

# of --scaling
SCALED = ("leverage", "permutation-antithetic", "shear", "kriging")
ROWS = (250, 500, 1000, 2000, 4000)
EVALUATIONS = (8, 16, 32, 64, 128)

Run = Callable[[], object]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rows", type=int, help="for our methods (2000; 200000 on a GPU)")
    parser.add_argument("--peer-rows", type=int, default=10, help="0 leaves the peers out (10)")
    parser.add_argument("--methods", nargs="+", default=[*SAMPLING, *APPENDIX])
    parser.add_argument("--scaling", action="store_true", help="other rows and budgets instead")
    chosen = parser.parse_args()
    if chosen.scaling:
        show_scaling(Tables(machine(), chosen.csv))
        return
    device = chosen.device
    rows = chosen.rows or (2000 if device == "cpu" else 200_000)
    net, inputs, background = census_like()
    net.to(device)

    peer_rows = chosen.peer_rows if device == "cpu" else 0
    for_peers = f", {peer_rows} for peers" if peer_rows else ""
    tables = Tables(f"{rows} rows{for_peers}; {machine(device)}", chosen.csv)
    runs = {"bare forward": bare_forward(net, rows, device)}
    runs |= ours(net, inputs[:rows], background, device, chosen.methods)
    speeds = {name: measured(net, run, rows, device) for name, run in runs.items()}
    peers: dict[str, Run] = {}
    if peer_rows:
        few = inputs[:peer_rows]
        peers = peer_runs(net, few, background)
        speeds |= {name: measured(net, run, len(few), device) for name, run in peers.items()}
    best = max((speeds[name][0] for name in peers), default=0.0)
    columns = ["method", "evaluations per row", "rows per second", "of the bare forward"]
    columns += ["of the fastest peer"] if best else []
    name = "throughput-cpu" if device == "cpu" else "throughput-gpu"
    tables.show(name, columns, lines(speeds, best))
    if device == "cuda":
        many = np.resize(inputs, (MANY, INPUTS))
        runs = ours(net, many, background, device, ["leverage", "kriging"])
        times = [[name, f"{seconds(run, device):.3f}"] for name, run in runs.items()]
        tables.show("throughput-million", ["method", "seconds"], times)


def measured(net: nn.Sequential, run: Run, rows: int, device: str) -> tuple[float, float]:
    """Return the rows per second of a run, and the evaluations of one row, counted at the model."""
    seen: list[int] = []
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        counter = net.register_forward_hook(lambda _net, inputs, _out: seen.append(len(inputs[0])))
        run()
        counter.remove()
        return rows / seconds(run, device, repeats=3), sum(seen) / rows


def lines(speeds: dict[str, tuple[float, float]], best: float) -> list[list[str]]:
    """Return the table, with ratios to the bare forward and to the fastest peer, if any."""
    bare, _ = speeds["bare forward"]
    cells = []
    for name, (speed, evaluations) in speeds.items():
        of_best = [f"{speed / best:,.1f}"] if best else []
        cells.append([name, f"{evaluations:.0f}", f"{speed:,.0f}", f"{speed / bare:.2f}", *of_best])
    return cells


def show_scaling(tables: Tables) -> None:
    """Print the microseconds per evaluation: level if cost is linear."""
    net, inputs, background = census_like()

    def microseconds(method: str, rows: int, each: int) -> str:
        budget = each * PLAYERS + 2
        run = explained(net, inputs[:rows], background, EVERY_METHOD[method], budget)
        return f"{seconds(run, repeats=3) / rows / budget * 1e6:.2f}"

    print("By rows, at 16 evaluations per player:\n")
    times = [[name, *(microseconds(name, rows, 16) for rows in ROWS)] for name in SCALED]
    tables.show("scaling-rows", ["method", *map(str, ROWS)], times)
    print("By evaluations per player, at 1000 rows:\n")
    times = [[name, *(microseconds(name, 1000, each) for each in EVALUATIONS)] for name in SCALED]
    tables.show("scaling-evaluations", ["method", *map(str, EVALUATIONS)], times)


# What is timed


def bare_forward(net: nn.Sequential, rows: int, device: str) -> Run:
    """Return a run of the model alone on rows * 208 inputs, in the batches that suit it best."""
    total = rows * BUDGET
    batches = [1 << n for n in (range(11, 16) if device == "cpu" else range(18, 23))]

    def run_in(size: int, count: int) -> Run:
        inputs = torch.randn(size, INPUTS, device=device)

        def run() -> None:
            with torch.no_grad():
                for start in range(0, count, size):
                    net(inputs[: count - start])

        return run

    trial = min(total, max(batches))
    best = min(batches, key=lambda size: seconds(run_in(size, trial), device, repeats=3))
    return run_in(best, total)


def explained(
    net: nn.Module, rows: Any, background: Any, method: Method, budget: int = BUDGET
) -> Callable[[], Explanation]:
    """Return a run of one of our methods."""
    options: dict[str, Any] = {"reference": background, "groups": GROUPS, "output": 1}
    return partial(explain, net, rows, budget=budget, method=method, **options)


def ours(
    net: nn.Sequential, rows: Any, background: Any, device: str, methods: list[str]
) -> dict[str, Run]:
    """Return a run of each of our methods."""
    inputs = torch.as_tensor(rows, device=device)
    runs: dict[str, Run] = {}
    for name in methods:
        method = EVERY_METHOD[name]
        # SHEAR: the paper's N = 16 for each player, and base value and prediction
        budget = BUDGET + 2 if isinstance(method, Shear) else BUDGET
        runs[name] = explained(net, inputs, background, method, budget)
        if name == "kriging":
            fitted = explained(net, inputs[:256], background, Kriging())().calibration
            runs[CALIBRATED] = explained(net, inputs, background, Kriging(calibration=fitted))
    return runs


def peer_runs(net: nn.Sequential, rows: Any, background: Any) -> dict[str, Run]:
    """Return a run of each peer over all rows at the same budget, in its widest batches.

    shap and shapiq see the 13 players: a present player's number is its row's number, an absent
    one's 0. captum takes the groups as they are.
    """
    import shap
    import shapiq
    from captum.attr import KernelShap, ShapleyValueSampling

    owner = np.empty(INPUTS, dtype=np.int64)
    for player, block in enumerate(GROUPS):
        owner[block] = player

    def model(codes: Any) -> Any:
        codes = np.asarray(codes).astype(np.int64)
        row = rows[np.maximum(codes.max(axis=1) - 1, 0)]
        with torch.no_grad():
            masked = np.where(codes[:, owner] > 0, row, background)
            return net(torch.from_numpy(masked))[:, 1].numpy()

    def captum(method: Any, samples: int) -> None:
        options: dict[str, Any] = {"target": 1, "perturbations_per_eval": BUDGET}
        options["baselines"] = torch.from_numpy(background)[None]
        options["feature_mask"] = torch.from_numpy(owner)[None]
        with torch.no_grad():
            for row in torch.from_numpy(rows):
                method.attribute(row[None], n_samples=samples, **options)

    def of_shapiq() -> None:
        for row in range(1, len(rows) + 1):
            approximator = shapiq.KernelSHAP(n=PLAYERS, random_state=0)
            approximator.approximate(BUDGET, lambda z, row=row: model(np.atleast_2d(z) * row))

    codes = np.repeat(np.arange(1.0, len(rows) + 1)[:, None], PLAYERS, axis=1)
    nobody = np.zeros((1, PLAYERS))
    kernel = shap.KernelExplainer(model, nobody)
    permutation = shap.PermutationExplainer(model, shap.maskers.Independent(nobody), seed=0)
    sampling = BUDGET // PLAYERS
    return {
        "shap.KernelExplainer": partial(
            kernel.shap_values, codes, nsamples=BUDGET - 2, l1_reg=0, silent=True
        ),
        "shap.PermutationExplainer": partial(
            permutation, codes, max_evals=BUDGET, silent=True, batch_size=BUDGET
        ),
        "captum KernelShap": partial(captum, KernelShap(net), BUDGET),
        "captum ShapleyValueSampling": partial(captum, ShapleyValueSampling(net), sampling),
        "shapiq KernelSHAP": of_shapiq,
    }


if __name__ == "__main__":
    main()
