"""The documentation: code blocks run and print what is shown, the site builds, and pages are true to the code."""

import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from itertools import pairwise, product
from math import inf
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from typer.testing import CliRunner

import browser
import shearshap
from peer_library import peer
from setting import Tables
from shearshap import plots
from shearshap.apps.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WITH_RAY = DOCS / "howto" / "large-jobs.md"
"""The page that needs Ray."""
BENCHMARKS = ROOT / "benchmarks" / "README.md"

BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

A_MODEL = """
import torch
from shearshap import explain

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
train, rows = torch.randn(50, 6), torch.randn(9, 6)
X, X_train = rows, train


def model(inputs):
    with torch.no_grad():
        return network(inputs)[:, 1]


exact = explain(network, rows, background=train, budget=3200, output=1)
"""

BEFORE = {"docs/index.md": A_MODEL}
"""What a page assumes: a model, rows to explain and rows it was trained on."""

ELSEWHERE = ("pip ", "sphinx-build ")
"""Commands that are shown but not run: test_wheel.py installs the wheel, and a test below builds the site."""


@dataclass(frozen=True)
class Step:
    """A block of a page that runs."""

    kind: str  #: python or console
    code: str
    line: int  #: of the page
    shown: str | None  #: the output that the page shows right after it


def steps(text: str) -> list[Step]:
    """Return the blocks of a page that run, in their order."""
    blocks = list(BLOCK.finditer(text))
    shown = {}
    for block, following in pairwise(blocks):
        between = text[block.end() : following.start()]
        if following[1] == "text" and not between.strip():
            shown[block.start()] = following[2]

    runs = [block for block in blocks if block[1] != "text"]
    return [
        Step(block[1], block[2], text[: block.start()].count("\n") + 2, shown.get(block.start()))
        for block in runs
    ]


PAGES = [
    path
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if steps(path.read_text(encoding="utf-8"))
]


@pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded:FutureWarning")
@pytest.mark.filterwarnings("ignore:The set_(bad|over|under) function:PendingDeprecationWarning")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page != WITH_RAY],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "shearshap.apps.jobs.folder.SECONDS_PER_LINE", inf
    )  # no lines of a slow machine
    mpl.use("Agg")
    import_peers(page.read_text(encoding="utf-8"))
    name = str(page.relative_to(ROOT))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(BEFORE.get(name, ""), f"before {name}", "exec"), namespace)
    try:
        for step in steps(page.read_text(encoding="utf-8")):
            run = run_python if step.kind == "python" else run_commands
            printed = run(step, str(page), namespace)
            assert step.shown is None or agrees(step.shown, printed), (
                f"{name}:{step.line} shows\n{step.shown}\nand gives\n{printed}"
            )
    finally:
        plt.close("all")


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("session")
@pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\.data")
def test_the_page_on_large_jobs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session of all tests; the page opens one and closes it."""
    import ray

    monkeypatch.setattr(ray, "init", lambda *_, **__: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    test_every_block_runs(WITH_RAY, tmp_path, monkeypatch)


def import_peers(text: str) -> None:
    """Import the peers that a page imports, without the warnings that they give on import."""
    for name in re.findall(r"^(?:import|from) (shap|captum|shapiq)\b", text, flags=re.MULTILINE):
        peer(name)


def run_python(step: Step, page: str, namespace: dict[str, Any]) -> str:
    """Run a block; errors name the page and the line in it."""
    printed = io.StringIO()
    code = compile("\n" * (step.line - 1) + step.code, page, "exec")
    with redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_commands(step: Step, page: str, _namespace: dict[str, Any]) -> str:
    """Run the commands `$ shear ...` of a block."""
    printed = []
    commands = [
        line.removeprefix("$ ")
        for line in step.code.replace("\\\n", " ").splitlines()
        if line.strip()
    ]
    for command in commands:
        if command.startswith(ELSEWHERE):
            continue
        program, *arguments = shlex.split(command)
        assert program == "shear", f"{page}:{step.line} runs {program}, which no test does"
        answer = CliRunner().invoke(app, arguments)
        assert answer.exit_code == 0, (
            f"{page}:{step.line}: {command}\n{answer.output}\n{answer.exception!r}"
        )
        printed.append(answer.output)
    return "".join(printed)


DECIMAL = re.compile(r"(?<![\w.,])([+−-]?)(\d[\d,]*\.\d+)(?!\w|\.\d|\.\.\.)")
"""A sign and a number with decimals: no version, no part of a name, and none that ends in ..."""


def agrees(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed, where ... stands for anything.

    Processors add up in different orders, so the last decimal of a number may differ by one.
    """
    text = " ".join(shown.split())
    pattern = ""
    end = 0
    for number in DECIMAL.finditer(text):
        pattern += literal(text[end : number.start()]) + neighbours(*number.groups())
        end = number.end()
    pattern += literal(text[end:])
    return re.fullmatch(pattern, " ".join(printed.split())) is not None


def literal(text: str) -> str:
    """Return a pattern of a text, where ... stands for anything."""
    return ".*".join(re.escape(part) for part in text.split("..."))


def neighbours(sign: str, size: str) -> str:
    """Return a pattern of a number and the next ones with as many decimals; 0 has any sign."""
    value = Decimal(size.replace(",", ""))
    unit = Decimal(1).scaleb(-len(size.partition(".")[2]))
    patterns = []
    for near in (value - unit, value, value + unit):
        signs = re.escape(sign) if near and value else "[+−-]?"
        digits = f"{near:,f}" if "," in size else f"{near:f}"
        if near >= 0:
            patterns.append(signs + re.escape(digits))
    return f"(?:{'|'.join(patterns)})"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("value 0.127\n", "value  0.126"),
        ("−0.127 -1.5", "−0.128 -1.4"),
        ("9.99 1,049.9", "10.00 1,050.0"),
        ("+0.000 -0.00 0.0", "−0.000 0.00 -0.0"),
        ("+0.001 -0.01 0.0", "+0.000 0.00 -0.1"),
        ("took ... s: 0.5, 0.12...", "took 7 s: 0.4, 0.1298"),
    ],
)
def test_the_last_decimal_of_a_printed_number_may_differ_by_one(shown: str, printed: str) -> None:
    assert agrees(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("0.127", "0.129"),
        ("0.127", "-0.127"),
        ("+0.5", "0.5"),
        ("−0.5", "-0.5"),
        ("0.12", "0.120"),
        ("0.12", "0.1"),
        ("0.12", "0.12 and more"),
        ("0.12...", "0.1312"),
        ("12 rows", "13 rows"),
        ("1,049", "1,050"),
        ("[4. 5.]", "[4. 6.]"),
        ("version 0.1.0", "version 0.1.1"),
        ("x1.5", "x1.6"),
        ("1.5e-05", "1.5e-04"),
        ("age 0.10 bmi 0.20", "bmi 0.20 age 0.10"),
        ("age 0.10", "bmi 0.10"),
        ("██ 0.1", "███ 0.1"),
        ("True", "False"),
    ],
)
def test_all_else_that_is_printed_must_be_as_shown(shown: str, printed: str) -> None:
    assert not agrees(shown, printed)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as HTML; a warning of Sphinx is an error."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    places = ["-d", str(folder / "read"), str(DOCS), str(folder / "html")]
    done = subprocess.run([*build, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.xdist_group("site")  # which is built once
def test_the_site_builds_without_a_warning(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert [page for page in pages if not (site / page).exists()] == []
    api = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    assert [name for name in documented() if f'id="{name}"' not in api] == []


BEYOND_THE_WINDOW = """
const wide = document.documentElement.clientWidth;
const scrolls = element => element && (
  ["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
return [...document.querySelectorAll("article *")]
  .filter(element => element.getBoundingClientRect().right > wide + 1 && !scrolls(element.parentElement))
  .map(element => `${element.tagName} ${element.textContent.slice(0, 40)}`);
"""

BROKEN_IMAGES = (
    "return [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
)

BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


@pytest.mark.browser
@pytest.mark.xdist_group("site")
def test_every_page_can_be_read_on_a_desk_and_on_a_phone(site: Path, driver: Any) -> None:
    """In light and in dark; a page is loaded once, since style sheets follow the window."""
    pages = sorted(path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md"))
    assert len(pages) > 25
    for page in pages:
        browser.visit(driver, site / page, width=1280)
        assert driver.execute_script(BROKEN_IMAGES) == [], page
        for scheme, width in product(("light", "dark"), (390, 1280)):
            browser.resize(driver, width=width)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.command(driver, "Emulation.setEmulatedMedia", features=features)
            assert driver.execute_script(BEYOND_THE_WINDOW) == [], (page, scheme, width)
            colour = driver.execute_script(BACKGROUND)
            lightness = sum(int(part) for part in re.findall(r"\d+", colour)[:3])
            assert (lightness > 600) == (scheme == "light"), (page, colour)


def documented() -> list[str]:
    """The names that the API pages must have."""
    core = [f"shearshap.{name}" for name in shearshap.__all__ if name != "METHODS"]
    members = [
        "Explainer.stream",
        "Explanation.concat",
        "Explanation.interval",
        "Explanation.load",
        "Explanation.notes",
        "Explanation.save",
        "Explanation.to_frame",
        "apps.jobs.Job.run",
        "methods.METHODS",
    ]
    drawn = [f"shearshap.plots.{name}" for name in plots.__all__]
    return [*core, *(f"shearshap.{name}" for name in members), *drawn]


def test_no_block_is_of_a_kind_that_is_not_run() -> None:
    """Python and commands run, text is compared, directives are Sphinx's: there is no fifth kind to be forgotten."""
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        fences = re.findall(
            r"^ *(?:```+|~~~+)(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        assert len(fences) % 2 == 0, page
        kinds = {kind.strip() for kind in fences[::2]}
        assert {kind for kind in kinds if not kind.startswith("{")} <= {
            "python",
            "console",
            "text",
        }, page


def test_the_reference_of_commands_is_that_of_the_program() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        reference = import_module("make_cli_reference")
    finally:
        sys.path.remove(str(DOCS))
    assert reference.PAGE.read_text(encoding="utf-8") == reference.reference(), (
        "run python docs/make_cli_reference.py"
    )


def test_every_chart_is_drawn_from_the_tables_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    mpl.use("Agg")
    made = import_module("make_charts").charts()
    plt.close("all")
    assert sorted(f"{name}.svg" for name in made) == sorted(
        path.name for path in (DOCS / "images" / "charts").iterdir()
    )
    shown = BENCHMARKS.read_text(encoding="utf-8")
    assert [name for name in made if f"charts/{name}.svg" not in shown] == []


def test_every_table_of_results_names_its_command_and_is_linked() -> None:
    page = BENCHMARKS.read_text(encoding="utf-8")
    tables = sorted((ROOT / "benchmarks" / "results").iterdir())
    assert [path.name for path in tables if f"results/{path.name}" not in page] == []
    for path in tables:
        command, setting = path.read_text(encoding="utf-8").splitlines()[:2]
        assert command.startswith("# command: "), path
        assert setting.startswith("# setting: "), path
        assert len(pd.read_csv(path, comment="#")) > 0, path


def test_a_benchmark_writes_its_table_with_one_number_in_each_cell(tmp_path: Path) -> None:
    tables = Tables("2 cores", tmp_path)
    columns = ["name", "rows", "held %", "error ±", "ratio (low to high)"]
    tables.show("made", columns, [["a, b", "1,200", "97%", "0.3 ± 0.1", "2 (1 to 1,300)"]])
    tables.show("made", columns, [["c", "-5", "", "", "2e-3"]])
    command, setting, *lines = (tmp_path / "made.csv").read_text(encoding="utf-8").splitlines()
    assert command.startswith("# command: python benchmarks/")
    assert setting == "# setting: 2 cores"
    assert lines == [
        "name,rows,held %,error,error ±,ratio,ratio low,ratio high",
        '"a, b",1200,97,0.3,0.1,2,1,1300',
        "c,-5,,,,2e-3,,",
    ]


DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")


def test_links_between_pages_lead_somewhere() -> None:
    for page in (*(ROOT / name for name in DOCUMENTS), *DOCS.rglob("*.md")):
        links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page
