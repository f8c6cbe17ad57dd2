"""Copies of the working tree, and pytest in them."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied(tree: Path) -> Path:
    """Copy what git knows, or would know, of the working tree."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def run_pytest(
    tree: Path, arguments: Sequence[str], more: Mapping[str, str], log: Path, limit: float
) -> int | None:
    """Run pytest in a tree, and return its status; None if it took longer than the limit."""
    places = [tree / "src", tree / "lab" / "src", Path(__file__).parents[1]]
    environment = {**os.environ, **more, "CI": "1", "PYTHONPATH": os.pathsep.join(map(str, places))}
    plugins = ["-p", "mutation.plugin", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    with (
        log.open("w") as file,
        subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):  # with all processes that tests have started
                os.killpg(process.pid, signal.SIGKILL)
