"""Write docs/api/command-line.md: every command of `shear` and all its options, from the program.

python docs/make_cli_reference.py
"""

from pathlib import Path
from typing import Any

import typer

from shearshap.cli import app

PAGE = Path(__file__).parent / "api" / "command-line.md"
HEAD = """# Commands and options

`shear --help` lists the commands, and `shear COMMAND --help` shows what is below.
[The command line](../howto/command-line.md) explains how to use them. This page is made by
`python docs/make_cli_reference.py`.
"""


def reference() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    parts = [_command(name, command) for name, command in group.commands.items()]
    return "\n".join([HEAD, *parts])


def _command(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=f"shear {name}")
    usage = command.get_usage(context).removeprefix("Usage: ").strip()
    words, _, examples = (command.help or "").partition("\b\nExamples:\n")
    lines = [f"## shear {name}", "", words.strip(), "", f"    {usage}", ""]
    if examples:
        lines += ["Examples:", "", examples.rstrip(), ""]
    lines += ["| option | what it does | default |", "| --- | --- | --- |"]
    lines += [_line(parameter, context) for parameter in command.params]
    return "\n".join([*lines, ""])


def _line(parameter: Any, context: Any) -> str:
    name = parameter.opts[0]
    option = f"`{name}`" if name.startswith("-") else f"`{name.upper()}`"
    words = (parameter.help or "").replace("|", "\\|")
    return f"| {option} | {words} | {_default(parameter, context)} |"


def _default(parameter: Any, context: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    default = parameter.get_default(context)
    is_unset = default is None or default is False
    return "" if is_unset or parameter.show_default is False else f"`{default}`"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
