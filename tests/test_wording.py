"""Messages in a terminal: no option of Python is named there, whichever error or note it is."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import shearshap
from shearshap.cli import app
from shearshap.jobs.wording import FLAGS, in_terminal_words

ROOT = Path(shearshap.__file__).parent

#: packages whose messages no command prints, or that have a command line of their own
ELSEWHERE = ("plots", "interop", "paper", "contest", "serve")

#: options of Python that no message of a terminal may name
PYTHON = {
    *inspect.signature(shearshap.Explainer).parameters,
    *inspect.signature(shearshap.Explainer.__call__).parameters,
    *inspect.signature(shearshap.explain).parameters,
} - {"self", "model", "rows"}

NAMED = re.compile(rf"\b({'|'.join(sorted(PYTHON))})=")

#: messages that cannot come out of the command: it passes no such objects
OF_PYTHON_ONLY = (
    "passed as output=",  # a function
    "shap's DenseData",
    "these are Shapley values, and not Owen values",  # a masker of shap
    "Explanation(",  # its repr
    "Explainer(",
    "model(",
)


def _texts(tree: ast.AST) -> Iterator[str]:
    """All texts of a module but docstrings; what is filled in is 'x' where it is quoted, else x."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(_filled(part) for part in node.values)
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings | inside:
            yield node.value  # type: ignore[attr-defined]


def _filled(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    return "'x'" if part.conversion == ord("r") else "x"


def messages() -> list[str]:
    """All texts of the library that name an option as Python does."""
    files = [
        path
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in ELSEWHERE and path.name != "wording.py"
    ]
    texts = [text for path in files for text in _texts(ast.parse(path.read_text()))]
    named = [text for text in texts if NAMED.search(text)]
    return [text for text in named if not any(phrase in text for phrase in OF_PYTHON_ONLY)]


def test_there_are_messages_to_check() -> None:
    assert len(messages()) > 20


@pytest.mark.parametrize("message", messages())
def test_no_message_names_an_option_of_python(message: str) -> None:
    said = in_terminal_words(message)
    assert not NAMED.search(said), said
    assert "= " not in said, said
    for name in re.findall(r"\bleave (\w+)(?: and (\w+))? out", said):
        assert not set(name) & PYTHON, said
    for flag in re.findall(r"--[\w-]+", said):
        assert flag in OPTIONS, f"{flag}: {said}"


def _options() -> set[str]:
    import typer

    command = typer.main.get_command(app)
    explain = command.commands["explain"]  # type: ignore[attr-defined]
    return {name for parameter in explain.params for name in parameter.opts}


OPTIONS = _options()


def test_every_flag_is_an_option_of_the_command() -> None:
    assert set(FLAGS.values()) <= OPTIONS


@pytest.mark.parametrize(
    ("python", "terminal"),
    [
        ("pass returns='margin', or leave scale out", "pass --returns margin, or leave --scale out"),
        ("leave returns and scale out", "leave --returns and --scale out"),
        ("try method='kriging', 'leverage' or 'exact', with two", "try --method kriging, leverage or exact, with two"),
        ("(and multilabel=True if each is a label)", "(and --multilabel if each is a label)"),
        ("Pass budget=65536 to spend them, or method='auto'", "Pass --budget 65536 to spend them, or --method auto"),
        ("pass ('mean', background), fewer rows", "pass --background mean:FILE, fewer rows"),
        ("background=('median', rows)", "--background median:FILE"),
        ("output_names: wanted 3, one for each output", "output-names: wanted 3, one for each output"),
        ("the cell a=b of output=", "the cell a=b of --output"),
        ("background: there is no file x.csv", "background: there is no file x.csv"),
    ],
)  # fmt: skip
def test_options_in_the_words_of_the_terminal(python: str, terminal: str) -> None:
    assert in_terminal_words(python) == terminal
