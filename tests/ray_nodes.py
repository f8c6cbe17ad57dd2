"""A Ray node whose files differ from those of the others, for tests of clusters.

It is a process on this machine, in a mount namespace of its own, with its own address and host
name. What is mounted there is seen by its workers only:

    with node.mounted(other_folder, folder):
        ...
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from folder_jobs import wait_for

HOST = "odd"  #: the node's host name
ADDRESS = "127.0.0.9"
STORE = 100 << 20  #: bytes of its object store
SCRIPT = f'hostname {HOST} && exec "$@"'


class Node:
    """A node with its own files, which joins a cluster when it is made."""

    def __init__(self, cluster: str, *, cpus: int, log: Path) -> None:
        self.log = log
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        options = {
            "address": cluster,
            "node-ip-address": ADDRESS,
            "num-cpus": cpus,
            "object-store-memory": STORE,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        alone = ["unshare", "--mount", "--uts", "sh", "-c", SCRIPT, "sh"]
        environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}  # as in the cluster of the tests
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [*alone, *ray, *words], env=environment, stdout=output, stderr=output
            )
        wait_for(lambda: "Ray runtime started" in log.read_text() or self.process.poll())
        assert self.process.poll() is None, log.read_text()

    @contextmanager
    def mounted(self, source: Path, place: Path) -> Iterator[None]:
        """Let the node, and nobody else, see a file or a folder at the place of another."""
        self._inside("mount", "--bind", source, place)
        try:
            yield
        finally:
            self._inside("umount", "--lazy", place)

    def _inside(self, *words: str | Path) -> None:
        command = ["nsenter", f"--target={self.process.pid}", "--mount", *words]
        subprocess.run(command, check=True)

    def kill(self) -> None:
        """Kill the node: all processes that see its files."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _pids(self) -> list[int]:
        place = Path(f"/proc/{self.process.pid}/ns/mnt").readlink()
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (folder / "ns/mnt").readlink() == place:
                    pids.append(int(folder.name))
        return pids


@contextmanager
def started_node(cluster: str, log: Path, *, cpus: int) -> Iterator[Node]:
    """A node, until the end of its tests; they are skipped if this machine cannot make one."""
    if shutil.which("unshare") is None or os.geteuid():
        pytest.skip("only root can give a process its own mounts")
    if subprocess.run(["unshare", "--mount", "--uts", "true"], check=False).returncode:
        pytest.skip("this machine lets no process have its own mounts")
    node = Node(cluster, cpus=cpus, log=log)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.kill()
