"""Write docs/api/command-line.md: every command of `shear` and all its options, from the program.

python docs/make_cli_reference.py
"""

import re
from pathlib import Path
from typing import Any

import typer

from shearshap.apps.cli import SECTIONS, app

PAGE = Path(__file__).parent / "api" / "command-line.md"
HEAD = """# Commands and options

`shear --help` lists the commands, and `shear COMMAND --help` shows their options.
[The command line](../howto/command-line.md) explains how to use them. `shear benchmark` and
`shear paper` come with shearshap-lab. This page is made by `python docs/make_cli_reference.py`.
"""


def reference() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    explain = group.commands["explain"]
    parts = []
    for name, command in group.commands.items():
        within = getattr(command, "commands", {}).items()
        parts += [_command(f"{name} {each}", inner, explain) for each, inner in within]
        if not within:
            parts.append(_command(name, command, explain))
    return "\n".join([HEAD, *parts])


def _command(name: str, command: Any, explain: Any) -> str:
    """Return the section of a command; options that explain has too are only named."""
    context = typer.Context(command, info_name=f"shear {name}")
    usage = command.get_usage(context).removeprefix("Usage: ").strip()
    words, _, examples = (command.help or "").partition("\b\nExamples:\n")
    lines = [f"## shear {name}", "", _options_as_code(words.strip()), "", f"    {usage}", ""]
    if examples:
        lines += ["Examples:", "", examples.rstrip(), ""]
    known = set() if command is explain else {_line(each, context) for each in explain.params}
    rows = {parameter: _line(parameter, context) for parameter in command.params}
    shared = [parameter for parameter, row in rows.items() if row in known]
    if len(shared) > 1:
        names = ", ".join(f"`{parameter.opts[0]}`" for parameter in shared)
        lines += [f"It shares these options with `shear explain`: {names}. Its own are:", ""]
        rows = {parameter: row for parameter, row in rows.items() if row not in known}
    lines += ["| option | what it does |", "| --- | --- |"]
    sections = [getattr(parameter, "rich_help_panel", None) for parameter in rows]
    for section in sorted(set(sections), key=lambda name: SECTIONS.index(name) if name else -1):
        if len(set(sections)) > 1:
            lines.append(f"| **{section}** | |")
        found = zip(rows.values(), sections, strict=True)
        lines += [row for row, each in found if each == section]
    return "\n".join([*lines, ""])


def _line(parameter: Any, context: Any) -> str:
    name = parameter.opts[0]
    kind = "" if parameter.metavar is None else f" {parameter.metavar}"
    option = f"`{name}{kind}`" if name.startswith("-") else f"`{name.upper()}`"
    words = f"{parameter.help or ''} {_default(parameter, context)}".strip().replace("|", "\\|")
    return f"| {option} | {_options_as_code(words)} |"


def _options_as_code(words: str) -> str:
    """Return words with the options in them as code, where two hyphens are no dash."""
    return re.sub(r"--[a-z][a-z-]*", r"`\g<0>`", words)


def _default(parameter: Any, context: Any) -> str:
    """Return a sentence about the default, or nothing."""
    if parameter.required:
        return "*Required.*"
    if parameter.show_default == "none":
        return ""
    if isinstance(parameter.show_default, str):
        return f"*Default: {parameter.show_default}.*"
    default = parameter.get_default(context)
    is_unset = default is None or default is False
    return "" if is_unset or parameter.show_default is False else f"*Default: {default}.*"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
