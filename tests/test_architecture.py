"""How modules may depend on each other, read from their source."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import shearshap

ROOT = Path(shearshap.__file__).parent


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    """Every module's source, by its name."""
    return {_module(path): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def imported(statements: Iterator[ast.AST]) -> set[str]:
    """The modules of this package that import statements name."""
    found = set()
    for node in statements:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            # each name is a module, or something in one
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = names & trees().keys()
            found |= modules
            if names - modules:
                found.add(str(node.module))
    return {name for name in found if name.split(".")[0] == "shearshap"}


def when_imported(node: ast.AST) -> Iterator[ast.AST]:
    """The statements that run when a module is imported: not those in functions or for types only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from when_imported(child)


def test_the_library_knows_nothing_of_the_laboratory() -> None:
    for path in ROOT.rglob("*.py"):
        assert "shearshap_lab" not in path.read_text(), path


@pytest.mark.parametrize("name", ["jobs", "report", "serve"])
def test_an_old_name_of_an_application_says_the_new_one(name: str) -> None:
    with pytest.raises(ImportError, match=f"from shearshap.apps.{name} import [A-Z]"):
        import_module(f"shearshap.{name}")


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {module: imported(when_imported(tree)) for module, tree in trees().items()}
    assert sum(map(len, graph.values())) > 100
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
