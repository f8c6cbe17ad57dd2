"""`shear report`: the report of a file of values is the one that `shear explain` wrote with it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from explain_command import done, explain
from shearshap.apps.cli import app

pytestmark = pytest.mark.usefixtures("here")


def report(*words: object) -> str:
    """Run a command that must work, and return what it says."""
    result = CliRunner().invoke(app, ["report", *map(str, words)])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def refusal(*words: object) -> str:
    """Run a command that must fail, and return its one line."""
    result = CliRunner().invoke(app, ["report", *map(str, words)])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ")


@pytest.fixture
def mixed(here: Path) -> Path:
    """Rows with ids, text, categories, dates, truth values and gaps, and a column of no use."""
    rng = np.random.default_rng(0)
    rows = 40
    frame = pd.DataFrame(
        {
            "id": [f"{number:03}" for number in range(rows)],
            "a": rng.integers(0, 100_000, rows),
            "b": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            "s": rng.choice(["x", "y", "z"], rows),
            "kind": pd.Categorical(rng.choice(["low", "high"], rows), ["low", "high"]),
            "new": rng.random(rows) < 0.5,
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(rows), "D"),
            "note": rng.choice(["seen", "unseen"], rows),
            "y": rng.random(rows),
        }
    )
    frame.to_parquet("mixed.parquet")
    (here / "mixed.py").write_text(
        "import numpy as np\n\n\n"
        "def predict(x):\n"
        "    level = x['a'] / 1e5 + x['b'].fillna(0) * (x['s'] == 'x') + x['new'].astype(float)\n"
        "    return 1 / (1 + np.exp(-level - (x['kind'] == 'low') * x['b'].fillna(1)))\n\n\n"
        "def classes(x):\n"
        "    one = predict(x)\n"
        "    return np.stack((1 - one, one / 2, one / 2), axis=1)\n"
    )
    return Path("mixed.parquet")


@pytest.mark.parametrize(
    "words",
    [
        ("mixed.py:predict", "--id", "id"),
        ("mixed.py:predict", "--id", "id", "--title", "Late payments", "--loss", "mse", "--label", "y"),
        ("mixed.py:classes", "--drop", "id", "--output-names", "no,maybe,yes"),
        ("mixed.py:predict", "--drop", "id", "--groups", "level=a,b", "--groups", "what=s,kind"),
        ("mixed.py:predict", "--drop", "id", "--interactions"),
        ("mixed.py:classes", "--drop", "id", "--interactions", "3", "--output", "1", "--output", "2"),
        ("mixed.py:predict", "--id", "id", "--method", "permutation-antithetic", "--tol", "0.02", "--budget", "400"),
        ("mixed.py:predict", "--id", "id", "--method", "kernel", "--budget", "40"),
        ("mixed.py:predict", "--id", "id", "--deadline", "1e6"),
        ("score.py:total", "--drop", "id", "--drop", "s", "--drop", "kind", "--drop", "day", "--groups", "two=a,b"),
    ],
)  # fmt: skip
def test_it_is_the_report_of_the_job(mixed: Path, words: tuple[str, ...]) -> None:
    model, *options = words
    if "--label" not in words:
        options += ("--drop", "y")
    done(model, mixed, "--drop", "note", "--report", *options)
    Path("values.html").rename("wanted.html")
    assert report("values.parquet") == "written to  values.html\n"
    assert Path("values.html").read_text() == Path("wanted.html").read_text()


def test_of_columns_that_are_not_kept_nothing_is_shown() -> None:
    done("score.py:predict", "rows.csv", "--background", "absent.csv", "--keep", "a")
    report("values.parquet", "--out", "page.html", "--title", "Of <three> rows")
    page = Path("page.html").read_text()
    assert "<h1>Of &lt;three&gt; rows</h1>" in page
    assert '"texts":[""]' in page


def test_rows_that_were_done_have_a_report_that_says_so() -> None:
    assert (
        explain("score.py:fails_late", "many.csv", "--background", "mean:many.csv").exit_code == 2
    )
    report("values.partial.parquet")
    page = Path("values.partial.html").read_text()
    assert "Not all rows were explained: the model failed" in page


def test_other_files_are_refused() -> None:
    pd.DataFrame({"a": [1]}).to_parquet("other.parquet")
    done("score.py:pairs", "rows.csv", "--background", "absent.csv", "--interactions")
    done("score.py:predict", "rows.csv", "--background", "absent.csv", out="values.csv")
    done("score.py:predict", "rows.csv", "--background", "absent.csv", out="parts/")
    for name in ("other.parquet", "values.interactions.parquet"):
        assert refusal(name).startswith(f"values: {name} was not written by shear explain")
    assert refusal("no.parquet") == "values: there is no file no.parquet\n"
    assert refusal("score.py").startswith("values: expected a file that ends in ")
    assert refusal("values.csv").startswith("values: a report needs metadata that only Parquet")
    assert refusal("parts").startswith(
        "values: parts is the folder of a large job; run its command"
    )
    assert refusal("values.parquet", "--out", "page").startswith(
        "out: expected a file that ends in"
    )
    Path("values.interactions.parquet").unlink()
    assert refusal("values.parquet").startswith(
        "interactions: there is no file values.interactions"
    )


def test_a_page_of_another_maker_stays(here: Path) -> None:
    done("score.py:predict", "rows.csv", "--background", "absent.csv")
    (here / "values.html").write_text("mine")
    assert refusal("values.parquet").startswith("report: values.html already exists")
    report("values.parquet", "--overwrite")
    report("values.parquet")  # it is ours now
