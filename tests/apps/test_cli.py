"""The command `shear`: its help, its version, and how quickly it starts."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from shearshap import __version__
from shearshap.apps.cli import app


def test_the_program_runs_on_its_own() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "shearshap.apps.cli", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stderr == ""
    assert finished.stdout.startswith("Usage: shear [OPTIONS] COMMAND")


def test_help_has_the_commands_in_sections() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert "..." not in text.partition("Options:")[2], "a help text is cut off"
    sections = [part.split("\n") for part in text.split("\n\n")]
    names = {lines[0]: [line.split()[0] for line in lines[1:] if line] for lines in sections}
    assert names["Explain models:"] == ["explain", "report", "importance", "serve"]
    assert names["Research (shearshap-lab):"] == ["benchmark", "paper"]


@pytest.mark.parametrize(
    "command",
    ["explain", "report", "importance", "serve", "benchmark", "paper train", "paper reproduce"],
)
def test_the_help_of_a_command_is_in_words(command: str) -> None:
    """It shows neither the types of Python nor the ranges of numbers."""
    text = CliRunner().invoke(app, [*command.split(), "--help"]).stdout
    assert f"{command} [OPTIONS]" in text
    assert not re.search(r"<\w+|\bx[<>]=|\{\w+\}|: \(", text), text


def test_the_help_of_explain_is_in_sections() -> None:
    text = CliRunner().invoke(app, ["explain", "--help"]).stdout
    sections = ["Input:", "What to explain:", "Precision:", "Output:", "Large jobs:"]
    assert sorted(sections, key=text.index) == sections


def test_the_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"shear {__version__}\n"


def test_help_loads_no_heavy_library() -> None:
    """So that `shear --help` takes less than half a second."""
    heavy = ("torch", "numpy", "scipy", "pandas", "pyarrow", "jinja2", "matplotlib", "rich")
    script = (
        "import sys; from shearshap.apps.cli import app; app(['--help'], standalone_mode=False); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert finished.stdout.splitlines()[-1] == "[]"
