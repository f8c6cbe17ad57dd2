"""The command `shear paper`: what it prints, what it leaves behind, and one clear line for what goes wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from made_records import ORIGIN, records
from shearshap.apps.cli import app
from shearshap_lab import networks as models
from shearshap_lab.data import NAMES
from shearshap_lab.runner import write_records


def shear(*words: object) -> Result:
    return CliRunner().invoke(app, ["paper", *(str(word) for word in words)])


def done(*words: object) -> str:
    result = shear(*words)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return result.stdout


def failed(*words: object) -> str:
    """What is said about a mistake: one line on stderr, nothing on stdout, no traceback."""
    result = shear(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, briefly trained on 13 features."""
    folder = tmp_path_factory.mktemp("census")
    done("train", "census", "--steps", 1, "--out", folder)
    return folder


# Help


def test_the_command_starts_without_the_experiments() -> None:
    script = "import sys, shearshap.apps.cli; print(*(name for name in sys.modules if name.startswith('shearshap_lab')))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(finished.stdout.split()) == {
        "shearshap_lab",
        "shearshap_lab.commands",
        "shearshap_lab.contest",
        "shearshap_lab.contest.benchmark",
    }


# data


@pytest.mark.slow
def test_data_lists_all_data_sets() -> None:
    header, *lines = done("data").splitlines()
    assert header.split() == ["name", "rows", "features", "what", "it", "is"]
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert lines[0].split()[1:3] == ["32561", "13"]
    assert lines[2].split()[1:3] == ["1000", "20"]
    assert lines[3].endswith("of your own file: needs --path FILE")


def test_data_writes_rows_that_people_read(tmp_path: Path) -> None:
    printed = done("data", "german", "--out", tmp_path / "made" / "german.csv")
    assert f"written to {tmp_path / 'made' / 'german.csv'}" in printed
    lines = (tmp_path / "made" / "german.csv").read_text().splitlines()
    assert len(lines) == 1001
    assert lines[0].startswith("checking,duration,history,purpose,amount")
    assert lines[1].startswith(
        'below 0 DM,6,"critical account, or credits elsewhere",radio or television,1169'
    )
    assert {line.rsplit(",", 1)[1] for line in lines[1:]} == {"train", "validation", "test"}
    assert shear("data", "--out", tmp_path / "all.csv").exit_code == 2


# train


def test_train_saves_a_network_and_says_how_good_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = done("train", "german", "--steps", 6, "--activation", "relu", "--seed", 2)
    trained = models.load(tmp_path / "out" / "german-relu-seed2")
    assert (trained.dataset, trained.seed, trained.config.activation) == ("german", 2, "relu")
    for part in (
        "german: UCI Statlog German Credit",
        "network   mlp, relu, 2 epochs, seed 2\n",
        f"accuracy  {trained.test_accuracy:.2%} of 200 test rows\n",
        "majority  70.00% are of the larger class\n",
        f"saved in  {Path('out') / 'german-relu-seed2'}\n",
    ):
        assert part in text


@pytest.mark.slow
def test_train_follows_the_authors_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = done("train", "german", "--recipe", "authors", "--seed", 1)
    folder = Path("out") / "german-authors-softplus-seed1"
    assert "network   mlp, softplus, 20 epochs, seed 1\n" in text
    assert f"saved in  {folder}\n" in text
    assert models.load(folder).preparation == models.RECIPES["authors"].preparation
    assert "values    exact\n" in done("truth", folder, "--rows", 1)
    wrong = CliRunner().invoke(app, ["paper", "train", "german", "--recipe", "theirs"])
    assert wrong.exit_code == 2
    assert wrong.stderr == "error: recipe: expected one of ours, authors, got 'theirs'\n"


# truth


@pytest.mark.slow
def test_truth_is_computed_once_and_summarised(folder: Path, tmp_path: Path) -> None:
    text = done("truth", folder, "--rows", 3, "--out", tmp_path)
    (kept,) = tmp_path.glob("truth-*")
    for part in (
        "census: UCI Adult",
        "rows      3 of 6513 test rows, 13 features each\n",
        "values    exact\n",
        "cost      8192 evaluations per row\n",
        "|value|   0.",
        f"kept in   {kept}\n",
    ):
        assert part in text
    times = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    done("truth", folder, "--rows", 3, "--out", tmp_path)
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == times


# page


@pytest.mark.slow
def test_pages_are_made_from_records(tmp_path: Path) -> None:
    write_records(records(), tmp_path / "records", ORIGIN)
    text = done("page", tmp_path / "records", "--out", tmp_path / "pages")
    assert f"summary   {tmp_path / 'pages' / 'reproduction.md'}\n" in text
    assert (tmp_path / "pages" / "reproduction" / "report.html").exists()
    assert failed("page", tmp_path / "nowhere").startswith("error: ")


# Errors


def test_mistakes_are_one_line_each(folder: Path, tmp_path: Path) -> None:
    assert failed("data", "cencus").startswith(
        "error: there is no data set 'cencus'; did you mean 'census'?"
    )
    assert failed("data", "iris") == (
        f"error: there is no data set 'iris'; there are: {', '.join(NAMES)}\n"
    )
    assert failed("data", "criteo").startswith(
        "error: criteo: no file was given. Criteo's data cannot be shipped:"
    )
    assert failed("data", "criteo", "--path", "nowhere.txt").startswith(
        "error: criteo: there is no file 'nowhere.txt'."
    )
    assert failed("train", "german", "--path", "x").startswith(
        "error: path: only criteo reads your own file"
    )
    assert failed("train", "german", "--activation", "sine") == (
        "error: activation: expected one of softplus, relu, gelu, tanh, got 'sine'\n"
    )
    assert failed("truth", tmp_path).startswith(
        f"error: {tmp_path}: expected a network, as 'shear paper train' saves it"
    )
    assert failed("truth", folder, "--output", 5, "--rows", 1).startswith(
        "error: output: there is no output 5;"
    )


@pytest.mark.parametrize(("command", "kept"), [("train", False), ("truth", True), ("data", False)])
def test_what_is_kept_after_an_interrupt_is_told_as_it_is(
    command: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shearshap_lab.networks.recipe_of", interrupted)
    monkeypatch.setattr("shearshap_lab.networks.load", interrupted)
    monkeypatch.setattr("shearshap_lab.data.load", interrupted)
    result = CliRunner().invoke(app, ["paper", command, "german"])
    assert result.exit_code == 130
    assert ("run the same command again" in result.stderr) == kept
    assert ("no partial file was left" in result.stderr) != kept


@pytest.mark.parametrize(
    "words",
    [
        ("paper", "train", "german", "--steps", "1", "--out", "."),
        ("paper", "data", "german", "--out", "notes.csv"),
        ("paper", "reproduce", "census", "--quick", "--out", "."),
        ("benchmark", "--quick", "--games", "rules", "--out", "."),
    ],
)
def test_files_of_others_are_not_replaced(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"model.json": '{"learner": "mine"}', "notes.csv": "mine,yours\n1,2\n"}
    for name, content in files.items():
        Path(name).write_text(content)
    Path("records").mkdir()
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: out: ")
    assert {path.name for path in tmp_path.iterdir()} == {*files, "records"}
    assert {name: Path(name).read_text() for name in files} == files
