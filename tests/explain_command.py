"""`shear explain` as a test calls it."""

from typing import Any

import pandas as pd
from typer.testing import CliRunner, Result

from shearshap.apps.cli import app


def explain(model: object, data: object, *words: object, out: str = "values.parquet") -> Result:
    """Run the command, and return how it went."""
    given = ("explain", "--model", model, "--data", data, "--out", out, *words)
    return CliRunner().invoke(app, [str(word) for word in given])


def done(model: object, data: object, *words: object, out: str = "values.parquet") -> str:
    """Run a command that must work, and return what it says."""
    result = explain(model, data, *words, out=out)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def refusal(model: object, data: object, *words: object, out: str = "values.parquet") -> str:
    """Run a command that must fail, and return the one line on stderr; nothing is on stdout."""
    result = explain(model, data, *words, out=out)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ").removesuffix("\n")


def written(path: str = "values.parquet") -> Any:
    """Return the table that a command has written."""
    return pd.read_parquet(path)
