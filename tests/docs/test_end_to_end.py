"""What a user runs: the example, a benchmark, and the scripts and documents that lead there."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """Return what a script prints.

    Numba is switched off: compiling shap's loops takes longer than the rest of the test, and no
    test here is about speed.
    """
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_example_prints_and_plots_one_row(tmp_path: Path) -> None:
    plot = tmp_path / "wine.png"
    text = run("examples/wine.py", "--out", str(plot))
    error = re.search(r"the mean error is ([\d.]+)% of the mean \|value\|", text)
    assert error is not None
    assert float(error[1]) < 2
    assert "proline" in text
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_the_throughput_benchmark_puts_us_beside_the_peers() -> None:
    options = ("--rows", "40", "--peer-rows", "1", "--methods", "leverage", "shear")
    table = run("benchmarks/throughput.py", *options)
    rows = re.findall(r"^\| ([\w. -]+?) \| (\d+) \|", table, flags=re.MULTILINE)
    assert [name for name, _ in rows] == [
        "bare forward",
        "leverage",
        "shear",
        "shap.KernelExplainer",
        "shap.PermutationExplainer",
        "captum KernelShap",
        "captum ShapleyValueSampling",
        "shapiq KernelSHAP",
    ]
    assert all(180 <= int(evaluations) <= 212 for _, evaluations in rows)
