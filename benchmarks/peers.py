"""Error, time and coverage of other libraries' estimators and of ours, on the same games.

    python benchmarks/peers.py                    all games, about half an hour on 2 cores
    python benchmarks/peers.py --quick            four games, a few minutes
    python benchmarks/peers.py --tables FOLDER    tables of games too: each .npz file in the folder

Any Python from 3.11 on can start it. The peers need Python 3.12, so the first start makes an
environment of its own, with the versions in comparison/requirements.txt, and goes on in there.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "benchmarks" / "comparison" / "requirements.txt"
OUT = ROOT / "out"  # git ignores it
ENVIRONMENT = OUT / "peers-environment"

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few games, rows and budgets")
    parser.add_argument("--tables", type=Path, help="a folder of .npz files, each a kind of game")
    parser.add_argument("--only-tables", action="store_true", help="leave the other games out")
    parser.add_argument("--rows", type=int, help="rows of each game (6; quick: 3)")
    parser.add_argument("--seeds", type=int, help="runs over all rows (2; quick: 1)")
    parser.add_argument(
        "--each", type=int, nargs="+", help="evaluations a player (8 16 32 64; quick: 8 32)"
    )
    parser.add_argument("--threads", type=int, default=1, help="of every estimator and model (1)")
    parser.add_argument("--patience", type=float, help="most seconds for one row (10; quick: 3)")
    parser.add_argument("--out", type=Path, default=OUT / "peers", help="where to write")
    parser.add_argument("--python", help="a Python 3.12 to make the environment with")
    options = parser.parse_args()
    if options.only_tables and options.tables is None:
        parser.error("--only-tables needs --tables FOLDER")
    return options


def main() -> None:
    options = arguments()
    if Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        from comparison.study import run

        run(options)
        return

    python = prepared_environment(options.python)
    command = [str(python), str(Path(__file__).resolve()), *sys.argv[1:]]
    pinned = dict.fromkeys(THREADS, str(options.threads))
    raise SystemExit(subprocess.run(command, env={**os.environ, **pinned}, check=False).returncode)


def prepared_environment(wanted: str | None) -> Path:
    """Return the Python of the peers' environment, set up where that is needed."""
    project = (ROOT / "pyproject.toml").read_bytes()
    installed = ["-r", str(REQUIREMENTS), "-e", ".[paper]"]
    return environment_with(ENVIRONMENT, installed, project, wanted)


def environment_with(folder: Path, installed: list[str], facts: bytes, wanted: str | None) -> Path:
    """Return an environment's Python, after installing what is missing or has changed.

    `installed` are words of `pip install`. What is there is kept as long as neither the
    requirements nor the `facts` change.
    """
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + facts).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return python

    print(f"setting up {folder} (some minutes, once)", file=sys.stderr)
    if not python.exists():
        subprocess.run([python_312(wanted), "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *installed], cwd=ROOT, check=True)
    stamp.write_text(digest)
    return python


def python_312(wanted: str | None) -> str:
    """Return the first Python 3.12 that starts: the one asked for, this one, or one installed."""
    candidates = [wanted] if wanted else [sys.executable, *installed_pythons()]
    for candidate in candidates:
        if version(candidate) == "3.12":
            return candidate
    raise SystemExit(
        "shapiq's newer estimators need Python 3.12, and none was found; install it, or name one: "
        "--python /path/to/python3.12"
    )


def installed_pythons() -> Iterator[str]:
    """Yield the places where a Python 3.12 may be."""
    found = shutil.which("python3.12")
    if found:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob("versions/3.12*/bin/python")))


def version(python: str) -> str | None:
    """Return the "3.12" of a Python; None where it does not start."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        shown = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return shown.stdout.strip()


if __name__ == "__main__":
    main()
