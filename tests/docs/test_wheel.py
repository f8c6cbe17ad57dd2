"""The wheel holds all that it needs: built, installed elsewhere, and asked for its data."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
import shearshap, shearshap.cli, shearshap.jobs, shearshap_lab.data, shearshap_lab.networks
from shearshap.report import Page, render
from shearshap_lab.experiments.results import published_curve
assert "<h1>" in render(Page("A page", (), (), ()))
assert published_curve("census", "shear", "ae_mean")[16] == 0.0127495
print(shearshap.__file__)
for name in ("census", "bank", "german"):
    print(repr(shearshap_lab.data.load(name)))
"""


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_loads_the_three_data_sets(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT), cwd=tmp_path)
    (wheel,) = tmp_path.glob("shearshap-*.whl")
    run(*pip, "install", "--no-deps", "--target", str(tmp_path / "site"), str(wheel), cwd=tmp_path)
    path = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
    printed = run(sys.executable, "-c", path + SCRIPT, cwd=tmp_path)
    assert str(tmp_path / "site") in printed
    assert "20838/5210/6513" in printed
    assert "28934/7234/9043" in printed
    assert "1000 rows, 7 continuous + 13 categorical" in printed
    assert (tmp_path / "site" / "shearshap" / "py.typed").exists()
