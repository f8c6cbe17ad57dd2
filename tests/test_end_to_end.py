"""What a user runs: the example, the benchmarks' commands, and that the README names the two scripts there are."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_prints_and_plots_one_row(tmp_path: Path) -> None:
    printed = run("examples/wine.py", "--out", str(tmp_path / "wine.png"))
    error = re.search(r"the mean error is ([\d.]+)% of the mean share", printed)
    assert error is not None
    assert float(error[1]) < 2
    assert "proline" in printed
    assert (tmp_path / "wine.png").read_bytes()[:4] == b"\x89PNG"


def test_the_throughput_benchmark_puts_us_beside_the_peers() -> None:
    printed = run(
        "benchmarks/throughput.py",
        "--rows",
        "40",
        "--peer-rows",
        "1",
        "--methods",
        "leverage",
        "shear",
    )
    names = re.findall(r"^\| ([\w. -]+?) \| (\d+) \|", printed, flags=re.MULTILINE)
    assert [name for name, _ in names] == [
        "bare forward", "leverage", "shear", "shap.KernelExplainer", "shap.PermutationExplainer", "captum KernelShap",
        "captum ShapleyValueSampling", "shapiq KernelSHAP",
    ]  # fmt: skip
    assert all(180 <= int(evaluations) <= 212 for _, evaluations in names)


def test_the_readme_names_the_two_scripts() -> None:
    commands = re.findall(
        r"^    (sh scripts/\S+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE
    )
    assert commands == ["sh scripts/demo.sh", "sh scripts/check.sh"]
    assert "sh scripts/check.sh" in (ROOT / ".ci" / "run").read_text()


def test_links_between_documents_lead_somewhere() -> None:
    for document in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "benchmarks/README.md",
        "docs/reproduction.md",
    ):
        path = ROOT / document
        links = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text())
        assert [link for link in links if not (path.parent / link).exists()] == [], document
