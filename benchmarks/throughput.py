"""Rows a second: each method, the bare forward of as many inputs, and the peers, all in one run.

    python benchmarks/throughput.py                 the CPU, with shap, captum and shapiq beside us
    python benchmarks/throughput.py --device cuda   a GPU, without the peers that cannot use one

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

from setting import BUDGET, GROUPS, INPUTS, PLAYERS, census_like, machine, seconds, table
from shearshap import METHODS, explain

PEERS = ("shap.KernelExplainer", "shap.PermutationExplainer", "captum KernelShap", "captum ShapleyValueSampling",
         "shapiq KernelSHAP")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--rows", type=int, default=None, help="rows for our methods (2000; 200000 on a GPU)"
    )
    parser.add_argument(
        "--peer-rows", type=int, default=10, help="rows for the peers; 0 leaves them out"
    )
    timed = [name for name in METHODS if name != "exact" and not name.endswith("-authors")]
    parser.add_argument("--methods", nargs="+", default=timed)
    chosen = parser.parse_args()
    rows = chosen.rows or (2000 if chosen.device == "cpu" else 200_000)
    net, inputs, reference = census_like()
    net.to(chosen.device)
    runs: dict[str, tuple[Callable[[], object], int]] = {
        "bare forward": (bare_forward(net, rows, chosen.device), rows)
    }
    runs |= ours(net, inputs[:rows], reference, chosen.device, chosen.methods)
    if chosen.device == "cpu" and chosen.peer_rows:
        few = inputs[: chosen.peer_rows]
        runs |= {
            name: (run, len(few))
            for name, run in zip(PEERS, peer_runs(net, few, reference), strict=True)
        }
    print(f"{rows} rows, {chosen.peer_rows} for peers; {machine(chosen.device)}\n")
    print(
        report(
            {name: measured(net, run, count, chosen.device) for name, (run, count) in runs.items()}
        )
    )


def measured(
    net: nn.Sequential, run: Callable[[], object], rows: int, device: str
) -> tuple[float, float]:
    """Return the rows a second of a run, and the model evaluations of one row, counted at the
    model.
    """
    seen: list[int] = []
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        counter = net.register_forward_hook(lambda _net, inputs, _out: seen.append(len(inputs[0])))
        run()
        counter.remove()
        return rows / seconds(run, device, repeats=3), sum(seen) / rows


def report(speeds: dict[str, tuple[float, float]]) -> str:
    """Return the table, with ratios to the bare forward and to the fastest peer."""
    bare, best = (
        speeds["bare forward"][0],
        max((speeds[name][0] for name in PEERS if name in speeds), default=0.0),
    )
    cells = [
        [name, f"{each:.0f}", f"{v:,.0f}", f"{v / bare:.2f}", f"{v / best:,.1f}" if best else ""]
        for name, (v, each) in speeds.items()
    ]
    return table(
        ["", "evaluations a row", "rows/s", "of the bare forward", "of the fastest peer"], cells
    )


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
    net: nn.Sequential, rows: Any, reference: Any, device: str, methods: list[str]
) -> dict[str, tuple[Callable[[], object], int]]:
    """Return a run of each of our methods, and how many rows it explains."""
    given = torch.as_tensor(rows, device=device)
    runs: dict[str, tuple[Callable[[], object], int]] = {}
    for name in methods:
        # the paper's N = 16 for each player, and base value and prediction
        budget = BUDGET + 2 if name.startswith("shear") else BUDGET

        def run(name: str = name, budget: int = budget) -> object:
            return explain(
                net, given, reference=reference, budget=budget, method=name, groups=GROUPS, output=1
            )

        runs[name] = run, len(given)
    return runs


def peer_runs(net: nn.Sequential, rows: Any, reference: Any) -> Iterator[Callable[[], object]]:
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
            codes[:, owner] > 0, rows[np.maximum(codes.max(axis=1) - 1, 0)], reference
        )
        with torch.no_grad():
            return net(torch.from_numpy(masked))[:, 1].numpy()

    codes = np.repeat(np.arange(1.0, len(rows) + 1)[:, None], PLAYERS, axis=1)
    nobody = np.zeros((1, PLAYERS))
    kernel = shap.KernelExplainer(model, nobody)
    yield lambda: kernel.shap_values(codes, nsamples=BUDGET - 2, l1_reg=0, silent=True)
    permutation = shap.PermutationExplainer(model, shap.maskers.Independent(nobody), seed=0)
    yield lambda: permutation(codes, max_evals=BUDGET, silent=True, batch_size=BUDGET)

    tensors, base, mask = (
        torch.from_numpy(rows),
        torch.from_numpy(reference)[None],
        torch.from_numpy(owner)[None],
    )

    def captum_run(method: Any, samples: int) -> Callable[[], object]:
        def run() -> None:
            with torch.no_grad():
                for row in tensors:
                    method.attribute(
                        row[None], baselines=base, target=1, feature_mask=mask, n_samples=samples,
                        perturbations_per_eval=BUDGET,
                    )  # fmt: skip

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
