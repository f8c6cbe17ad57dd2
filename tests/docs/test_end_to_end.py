"""What a user runs: the example, a benchmark, and the scripts and documents that lead there."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from peer_library import peer
from shearshap_lab.runner import THREADS

ROOT = Path(__file__).parents[2]
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a script as the main program, and returns what it prints."""

    def run(script: str, *arguments: str) -> str:
        monkeypatch.setattr("sys.argv", [script, *arguments])
        runpy.run_path(str(ROOT / script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_example_prints_and_plots_one_row(run: Run, tmp_path: Path) -> None:
    plot = tmp_path / "wine.png"
    text = run("examples/wine.py", "--out", str(plot))
    error = re.search(r"the mean error is ([\d.]+)% of the mean \|value\|", text)
    assert error is not None
    assert float(error[1]) < 2
    assert "proline" in text
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_the_throughput_benchmark_puts_us_beside_the_peers(run: Run) -> None:
    for name in ("shap", "shapiq", "captum"):
        peer(name)
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


@pytest.mark.slow
def test_the_benchmark_of_defaults_measures_all_three(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shap", "shapiq"):
        peer(name)
    for variable in THREADS:  # otherwise it starts itself again
        monkeypatch.setenv(variable, "1")
    pairs = ("--quick", "--pairs", "iris, Gaussian process")
    with threadpool_limits(1):  # the same for libraries that are loaded
        table = run("benchmarks/defaults.py", *pairs, "--out", str(tmp_path))
    line = r"^\| iris, Gaussian process \| 4 \| (\w+) \| (\S+) ±"
    errors = {name: float(error) for name, error in re.findall(line, table, flags=re.MULTILINE)}
    assert list(errors) == ["shearshap", "shap", "shapiq"]
    assert max(errors.values()) < 1e-6  # four features: all are exact
    assert re.search(r"^\| shap \| both exact \| 1 \|", table, flags=re.MULTILINE)
