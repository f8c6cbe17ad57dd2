"""The sdist holds every file of the repository, and the wheel made of it all that it needs."""

import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import shearshap

ROOT = Path(__file__).parent.parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")

SCRIPT = """
sys.modules["safetensors"] = None  # of an extra: the core does without
import shearshap, shearshap.cli, shearshap.jobs, shearshap.paper.data, shearshap.paper.networks
from shearshap.report import Page, render
from shearshap.paper.experiments.summaries import published_curve
assert "<h1>" in render(Page("A page", (), (), ()))
assert published_curve("census", "shear", "ae_mean")[16] == 0.0127495
print(shearshap.__file__)
for name in ("census", "bank", "german"):
    print(repr(shearshap.paper.data.load(name)))
"""

# one worker for all of them: each looks at what is built once
pytestmark = pytest.mark.xdist_group("wheel")


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to build in, with the tools that pyproject.toml asks for."""
    folder = tmp_path_factory.mktemp("built")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = project["build-system"]["requires"]
    run(*PIP, "install", "--target", str(folder / "tools"), *needed, cwd=folder)
    return folder


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build an sdist or a wheel into a folder."""
    script = (
        f"import sys; sys.path.insert(0, {str(folder / 'tools')!r}); "
        f"from hatchling import build; print(build.build_{kind}({str(folder)!r}))"
    )
    return folder / run(sys.executable, "-c", script, cwd=source).split()[-1]


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    """The unpacked sdist."""
    packed = build("sdist", ROOT, folder)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def site(sdist: Path, folder: Path) -> Path:
    """Where the wheel that is made of the sdist is installed."""
    wheel = build("wheel", sdist, folder)
    run(*PIP, "install", "--no-deps", "--target", "site", str(wheel), cwd=folder)
    return folder / "site"


def test_the_sdist_holds_every_file_of_the_repository(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only a checkout knows which files belong to the repository")
    files = run("git", "ls-files", "-z", cwd=ROOT).strip("\0").split("\0")
    here = [file for file in files if (ROOT / file).exists()]
    assert len(here) > 100
    assert [file for file in here if not (sdist / file).exists()] == []


def test_an_installed_wheel_loads_the_three_data_sets(site: Path) -> None:
    path = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    printed = run(sys.executable, "-c", path + SCRIPT, cwd=site.parent)
    assert str(site) in printed
    assert "20838/5210/6513" in printed
    assert "28934/7234/9043" in printed
    assert "1000 rows, 7 continuous + 13 categorical" in printed
    assert (site / "shearshap" / "py.typed").exists()


def test_the_metadata_name_the_version_and_both_licences(site: Path) -> None:
    (info,) = site.glob("shearshap-*.dist-info")
    metadata: Message = message_from_string((info / "METADATA").read_text(encoding="utf-8"))
    assert metadata["Version"] == shearshap.__version__
    assert metadata["License-Expression"] == "MIT AND CC-BY-4.0"
    texts = [
        (info / "licenses" / name).read_text() for name in metadata.get_all("License-File", [])
    ]
    assert any("MIT License" in text for text in texts)
    assert any("CC BY 4.0" in text and "C5XW20" in text for text in texts)
