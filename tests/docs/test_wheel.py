"""The sdist holds every file of the repository, and the two wheels made of it all that they need."""

import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import shearshap

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")

SCRIPT = """
import shearshap, shearshap.apps.cli, shearshap.apps.jobs, shearshap_lab.networks
from shearshap.apps.report import Page, render
from shearshap_lab.data import load
assert "<h1>" in render(Page("A page", (), ()))
print(shearshap.__file__)
for name in ("census", "bank", "german"):
    print(repr(load(name)))
"""

MAX_BYTES = 1_500_000  #: of the library's wheel

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
    """Where the wheels that are made of the sdist are installed."""
    library = build("wheel", sdist, folder)
    assert library.stat().st_size < MAX_BYTES
    laboratory = build("wheel", sdist / "lab", folder)
    wheels = (str(library), str(laboratory))
    run(*PIP, "install", "--no-deps", "--target", "site", *wheels, cwd=folder)
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


@pytest.mark.parametrize(
    ("name", "licence", "texts"),
    [
        ("shearshap", "MIT", ["MIT License"]),
        ("shearshap_lab", "MIT AND CC-BY-4.0", ["MIT License", "CC BY 4.0"]),
    ],
)
def test_the_metadata_name_version_and_licences(
    site: Path, name: str, licence: str, texts: list[str]
) -> None:
    (info,) = site.glob(f"{name}-*.dist-info")
    metadata: Message = message_from_string((info / "METADATA").read_text(encoding="utf-8"))
    assert metadata["Version"] == shearshap.__version__
    assert metadata["License-Expression"] == licence
    assert f"\nversion: {shearshap.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    files = [
        (info / "licenses" / file).read_text() for file in metadata.get_all("License-File", [])
    ]
    for text in texts:
        assert any(text in file for file in files)
    holds_data = any((site / name).rglob("*.xz"))
    assert holds_data == (name == "shearshap_lab")
