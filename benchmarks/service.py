"""What `shear serve` takes: single-row requests a second on the Census network, and how long each.

    python benchmarks/service.py                        200 requests a second for 60 seconds
    python benchmarks/service.py --rate 400 --seconds 10
    python benchmarks/service.py --address 127.0.0.1:8000      a service that runs already

The service runs in a process of its own, the load in this one. Requests are sent on time, whether
or not earlier ones are answered, as independent people send them; each one's seconds count from the
moment at which it was due. So a service that falls behind shows it.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from setting import machine
from shearshap_lab import networks
from shearshap_lab.data import load

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

ROWS = 500  #: rows that requests are made of
STEPS = 600  #: batches that the network is trained for


@dataclass
class Tally:
    """What came of the requests."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def lines(self, wall: float) -> Iterator[str]:
        """Yield what people want to know."""
        times = sorted(self.seconds)
        bad = {name: count for name, count in self.statuses.items() if name != "200"}
        yield f"requests    {len(times):,} in {wall:.1f} s"
        yield f"rate        {len(times) / wall:.1f} a second"
        for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0)):
            place = min(len(times) - 1, int(part * len(times)))
            yield f"{name:<11} {1000 * times[place]:.1f} ms"
        yield f"errors      {sum(bad.values())} {bad or ''}".rstrip()


class Connections:
    """Connections that are kept open and used again."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._free: deque[Connection] = deque()

    async def post(self, request: bytes) -> str:
        """Send a request, and return the status of the answer."""
        reader, writer = self._kept() or await asyncio.open_connection(self.host, self.port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(_length(head))
        self._free.append((reader, writer))
        return head[9:12].decode()

    def _kept(self) -> Connection | None:
        """Return a connection that is open and free; the service closes those that idle."""
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    def close(self) -> None:
        """Close all of them."""
        for _, writer in self._free:
            writer.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def send(host: str, port: int, requests: list[bytes], rate: float, seconds: float) -> Tally:
    """Send requests at a steady rate, and return what came of them."""
    tally = Tally()
    connections = Connections(host, port)
    start = time.perf_counter()

    async def one(number: int, due: float) -> None:
        try:
            status = await connections.post(requests[number % len(requests)])
        except (OSError, asyncio.IncompleteReadError) as error:
            status = type(error).__name__
        tally.statuses[status] += 1
        tally.seconds.append(time.perf_counter() - due)

    tasks = []
    for number in range(int(rate * seconds)):
        due = start + number / rate
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(number, due)))
    await asyncio.gather(*tasks)
    connections.close()
    return tally


def bodies(address: str, evaluations: int, token: str | None) -> list[bytes]:
    """Return a request for each of the rows that a service has loaded."""
    requests = []
    extra = f"Authorization: Bearer {token}\r\n" if token else ""
    for offset in range(0, ROWS, 100):
        for row in _get(address, f"/rows?offset={offset}&limit=100", token)["rows"]:
            body = json.dumps({"rows": [row], "budget": evaluations}).encode()
            head = (
                f"POST /explain HTTP/1.1\r\nHost: {address}\r\n{extra}"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            requests.append(head.encode() + body)
    return requests


def _get(address: str, path: str, token: str | None) -> dict[str, list[object]]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    with urllib.request.urlopen(request) as answer:
        content: dict[str, list[object]] = json.load(answer)
    return content


@contextmanager
def census_service(evaluations: int) -> Iterator[str]:
    """Start a service of the Census network, and yield its address."""
    shear = [sys.executable, "-m", "shearshap.cli"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        census = load("census")
        rows = census.write(folder / "census.csv")
        network = networks.save(networks.train(census, steps=STEPS), folder / "network")
        command = [*shear, "serve", "--model", str(network), "--data", str(rows), "--port", "0"]
        # one thread: a network as small as this one only loses time by more
        service = subprocess.Popen(
            [*command, "--budget", str(evaluations)],
            stdout=subprocess.PIPE,
            text=True,
            env={"OMP_NUM_THREADS": "1"} | os.environ,
        )
        try:
            yield _address(service)
        finally:
            service.terminate()
            service.wait()


def _address(service: "subprocess.Popen[str]") -> str:
    """Return where a service listens, once it says so."""
    assert service.stdout is not None
    for line in service.stdout:
        if line.startswith("API"):
            return line.split("//")[1].split("/")[0]
    raise SystemExit("the service did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=200, help="requests a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--budget", type=int, default=64, help="evaluations for one row")
    parser.add_argument("--address", help="host:port of a service that runs already")
    parser.add_argument("--token")
    given = parser.parse_args()
    if given.address:
        measure(given.address, given)
        return
    with census_service(given.budget) as address:
        measure(address, given)


def measure(address: str, given: argparse.Namespace) -> None:
    host, _, port = address.rpartition(":")
    requests = bodies(address, given.budget, given.token)
    print(f"machine     {machine()}")
    print(f"load        {given.rate:g} a second, one row each, {given.budget} evaluations")
    # a second before, in which designs are made and connections opened
    asyncio.run(send(host, int(port), requests, given.rate / 2, 1.0))
    started = time.perf_counter()
    tally = asyncio.run(send(host, int(port), requests, given.rate, given.seconds))
    print("\n".join(tally.lines(time.perf_counter() - started)))


if __name__ == "__main__":
    main()
