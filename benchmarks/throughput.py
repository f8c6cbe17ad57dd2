"""Rows a second: each method, the bare forward of as many inputs, and the peers, all in one run.

    python benchmarks/throughput.py                 the CPU, with shap, captum and shapiq beside us
    python benchmarks/throughput.py --device cuda   a GPU, without the peers that cannot use one;
                                                    and the seconds for a million rows

Every run explains one logit of the same network (107 inputs in 13 groups, 64-64-2) at 208
evaluations a row.
"""

import argparse
import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
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
    census_like,
    machine,
    parser_of,
    seconds,
)
from shearshap import Explanation, Kriging, Shear, explain
from shearshap.methods.base import Method
from shearshap_lab.markdown import plain_table

PEERS = (
    "shap.KernelExplainer",
    "shap.PermutationExplainer",
    "captum KernelShap",
    "captum ShapleyValueSampling",
    "shapiq KernelSHAP",
)
APPENDIX = (
    "kernel-paper",
    "kernel-paired-paper",
    "permutation-paper",
    "permutation-antithetic-paper",
)  #: the baselines as the paper's appendix describes them

CALIBRATED = "kriging, the calibration given"
MANY = 1_000_000  #: rows of the last run on a GPU, for which copies to the host count

Run = tuple[Callable[[], object], int]  #: what to time, and how many rows it explains


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--rows", type=int, default=None, help="rows for our methods (2000; 200000 on a GPU)"
    )
    parser.add_argument(
        "--peer-rows", type=int, default=10, help="rows for the peers; 0 leaves them out"
    )
    parser.add_argument("--methods", nargs="+", default=[*SAMPLING, *APPENDIX])
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    device = chosen.device
    rows = chosen.rows or (2000 if device == "cpu" else 200_000)
    net, inputs, background = census_like()
    net.to(device)

    runs: dict[str, Run] = {"bare forward": (bare_forward(net, rows, device), rows)}
    runs |= ours(net, inputs[:rows], background, device, chosen.methods)
    if device == "cpu" and chosen.peer_rows:
        few = inputs[: chosen.peer_rows]
        for name, run in zip(PEERS, peer_runs(net, few, background), strict=True):
            runs[name] = run, len(few)

    print(f"{rows} rows, {chosen.peer_rows} for peers; {machine(device)}\n")
    speeds = {name: measured(net, run, count, device) for name, (run, count) in runs.items()}
    print(report(speeds))
    if device == "cuda":
        many = np.resize(inputs, (MANY, INPUTS))
        print()
        for name, (run, _) in ours(net, many, background, device, ["leverage", "kriging"]).items():
            print(f"{MANY} rows by {name}: {seconds(run, device):.3f} s")


def measured(
    net: nn.Sequential, run: Callable[[], object], rows: int, device: str
) -> tuple[float, float]:
    """Return the rows a second of a run, and the evaluations of one row, counted at the model."""
    seen: list[int] = []
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        counter = net.register_forward_hook(lambda _net, inputs, _out: seen.append(len(inputs[0])))
        run()
        counter.remove()
        return rows / seconds(run, device, repeats=3), sum(seen) / rows


def report(speeds: dict[str, tuple[float, float]]) -> str:
    """Return the table, with ratios to the bare forward and to the fastest peer."""
    bare, _ = speeds["bare forward"]
    best = max((speeds[name][0] for name in PEERS if name in speeds), default=0.0)
    cells = []
    for name, (speed, evaluations) in speeds.items():
        of_best = f"{speed / best:,.1f}" if best else ""
        cells.append([name, f"{evaluations:.0f}", f"{speed:,.0f}", f"{speed / bare:.2f}", of_best])
    header = ["", "evaluations a row", "rows/s", "of the bare forward", "of the fastest peer"]
    return plain_table(header, cells)


def bare_forward(net: nn.Sequential, rows: int, device: str) -> Callable[[], object]:
    """Return a run of the model alone on rows * 208 inputs, in the batches that suit it best."""
    total = rows * BUDGET
    batches = [1 << n for n in (range(11, 16) if device == "cpu" else range(18, 23))]

    def run_in(size: int, count: int) -> Callable[[], object]:
        inputs = torch.randn(size, INPUTS, device=device)

        def run() -> None:
            with torch.no_grad():
                for start in range(0, count, size):
                    net(inputs[: count - start])

        return run

    trial = min(total, max(batches))
    best = min(batches, key=lambda size: seconds(run_in(size, trial), device, repeats=3))
    return run_in(best, total)


def ours(
    net: nn.Sequential, rows: Any, background: Any, device: str, methods: list[str]
) -> dict[str, Run]:
    """Return a run of each of our methods."""
    inputs = torch.as_tensor(rows, device=device)

    def timed(method: Method, inputs: Any = inputs) -> Callable[[], Explanation]:
        # SHEAR: the paper's N = 16 for each player, and base value and prediction
        budget = BUDGET + 2 if isinstance(method, Shear) else BUDGET
        return lambda: explain(
            net,
            inputs,
            reference=background,
            budget=budget,
            method=method,
            groups=GROUPS,
            output=1,
        )

    runs: dict[str, Run] = {}
    for name in methods:
        runs[name] = timed(EVERY_METHOD[name]), len(inputs)
        if name == "kriging":
            fitted = timed(Kriging(), inputs[:256])().calibration
            runs[CALIBRATED] = timed(Kriging(calibration=fitted)), len(inputs)
    return runs


def peer_runs(net: nn.Sequential, rows: Any, background: Any) -> Iterator[Callable[[], object]]:
    """Yield a run of each peer over all rows at the same budget, in its widest batches.

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
        masked = np.where(
            codes[:, owner] > 0, rows[np.maximum(codes.max(axis=1) - 1, 0)], background
        )
        with torch.no_grad():
            return net(torch.from_numpy(masked))[:, 1].numpy()

    codes = np.repeat(np.arange(1.0, len(rows) + 1)[:, None], PLAYERS, axis=1)
    nobody = np.zeros((1, PLAYERS))
    kernel = shap.KernelExplainer(model, nobody)
    yield lambda: kernel.shap_values(codes, nsamples=BUDGET - 2, l1_reg=0, silent=True)
    permutation = shap.PermutationExplainer(model, shap.maskers.Independent(nobody), seed=0)
    yield lambda: permutation(codes, max_evals=BUDGET, silent=True, batch_size=BUDGET)

    tensors = torch.from_numpy(rows)
    base = torch.from_numpy(background)[None]
    mask = torch.from_numpy(owner)[None]

    def captum_run(method: Any, samples: int) -> Callable[[], object]:
        def run() -> None:
            with torch.no_grad():
                for row in tensors:
                    method.attribute(
                        row[None],
                        baselines=base,
                        target=1,
                        feature_mask=mask,
                        n_samples=samples,
                        perturbations_per_eval=BUDGET,
                    )

        return run

    yield captum_run(KernelShap(net), BUDGET)
    yield captum_run(ShapleyValueSampling(net), BUDGET // PLAYERS)

    def shapiq_run() -> None:
        for row in range(1, len(rows) + 1):
            approximator = shapiq.KernelSHAP(n=PLAYERS, random_state=0)
            approximator.approximate(BUDGET, lambda z, row=row: model(np.atleast_2d(z) * row))

    yield shapiq_run


if __name__ == "__main__":
    main()
