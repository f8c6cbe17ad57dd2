"""Messages of the library in the words of the command line.

The library speaks Python: "pass returns='margin', or leave scale out". Who reads it in a terminal
needs the options that are there: "pass --returns margin, or leave --scale out".
"""

import re

FLAGS = {
    "background": "--background",
    "reference": "--background",
    "budget": "--budget",
    "max_evals": "--budget",
    "method": "--method",
    "groups": "--groups",
    "output": "--output",
    "output_names": "--output-names",
    "scale": "--scale",
    "returns": "--returns",
    "multilabel": "--multilabel",
    "tol": "--tol",
    "interactions": "--interactions",
    "batch_size": "--batch-size",
    "device": "--device",
    "index": "--id",
    "seed": "--seed",
}
"""The options of Python by name, and those of the command line that do the same."""

MAX_MESSAGE = 300  #: characters of another library's message that are repeated

_STACK_TRACE = re.compile(r"\s*Stack trace:[ \t]*(?:\n\s*\[bt\][^\n]*)*\s*")
_SOURCE = re.compile(
    r"^(?:\[\d\d:\d\d:\d\d\]\s*)?"  # XGBoost's time of day
    r"(?:\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : )?"
    r"(?:\S+\.(?:cc|cpp|cu|cuh|h|hpp):\d+:\s*)?"  # a line of the library's own source
)

_NAMES = "|".join(FLAGS)
_QUOTED = r"'[^']*'"
_LISTED = rf"{_QUOTED}(?:(?:, or|,| or) {_QUOTED})*"

#: a background as it is written in Python, ('mean', rows)
_PAIR = re.compile(r"(?:background=)?\('(mean|median|mode)', \w+\)")

#: returns='margin', interactions=True, method='kriging', 'leverage' or 'exact', groups=
_ASSIGNED = re.compile(rf"\b({_NAMES})=({_LISTED}|[\w.]*\w)?")

#: leave returns and scale out
_LEFT_OUT = re.compile(rf"\bleave ((?:{_NAMES})(?: and (?:{_NAMES}))*) out\b")

#: output_names: wanted 3 names
_FIRST = re.compile(rf"^({_NAMES})(?=: )")

#: what has no counterpart in a terminal
_ONLY_IN_PYTHON = (
    (", or pass output= a function that makes the numbers you want", ""),
    (
        "Pass output= a function of the model's output that gives such a shape",
        "Wrap it in a function that gives such a shape: --model path/to/file.py:function",
    ),
    (", or None where that is known", ", or nothing where that is known"),
    ("pass an index, or name the outputs", "give a number, or name the outputs"),
)


def in_terminal_words(message: str) -> str:
    """Return a message in which options are those of the command line."""
    for phrase, other in _ONLY_IN_PYTHON:
        message = message.replace(phrase, other)
    message = _PAIR.sub(r"--background \1:FILE", message)
    message = _ASSIGNED.sub(_flag, message)
    message = _LEFT_OUT.sub(_left_out, message)
    return _FIRST.sub(lambda match: FLAGS[match[1]].removeprefix("--"), message)


def _flag(match: re.Match[str]) -> str:
    flag = FLAGS[match[1]]
    value = match[2] or ""
    if value == "True":
        return flag
    if value in ("False", "None"):
        return f"no {flag}"
    return f"{flag} {value}".replace("'", "").rstrip()


def _left_out(match: re.Match[str]) -> str:
    names = match[1].split(" and ")
    return f"leave {' and '.join(FLAGS[name] for name in names)} out"


# Messages of other libraries


def without_stack_trace(message: str) -> str:
    """Return a message without the addresses of native code that a library puts into it."""
    return _STACK_TRACE.sub(" ", message).strip()


def first_line(message: str) -> str:
    """Return the first line of a message that means something, without places in native code."""
    lines = (line.strip() for line in without_stack_trace(message).splitlines())
    line = next((line for line in lines if line and not line.startswith("[bt]")), "")
    return _SOURCE.sub("", line).rstrip(" :")[:MAX_MESSAGE]
