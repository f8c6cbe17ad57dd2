"""How long `shear serve` takes for requests of one row, on the Census network.

    python benchmarks/service.py                        200 requests per second for 60 seconds
    python benchmarks/service.py --rate 400 --seconds 10

The service runs in a process of its own, the load in this one. Requests are sent on time, whether
or not earlier ones are answered, as independent people send them; each one's seconds count from the
moment at which it was due. So a service that falls behind shows it.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from setting import Tables, machine, parser_of
from shearshap_lab import networks
from shearshap_lab.data import load

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

ROWS = 500  #: rows that requests are made of
STEPS = 600  #: batches that the network is trained for


async def post(address: str, free: deque[Connection], request: bytes) -> str:
    """Send a request by a connection that is open and free; return the status of the answer."""
    while free and free[-1][0].at_eof():  # the service closes those that idle
        free.pop()[1].close()
    host, _, port = address.rpartition(":")
    reader, writer = free.pop() if free else await asyncio.open_connection(host, int(port))
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    free.append((reader, writer))
    return head[9:12].decode()


async def send(
    address: str, requests: list[bytes], rate: float, duration: float
) -> tuple[list[float], Counter[str]]:
    """Send requests at a steady rate, and return their seconds and statuses."""
    seconds: list[float] = []
    statuses: Counter[str] = Counter()
    free: deque[Connection] = deque()
    start = time.perf_counter()

    async def one(number: int, due: float) -> None:
        try:
            statuses[await post(address, free, requests[number % len(requests)])] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            statuses[type(error).__name__] += 1
        seconds.append(time.perf_counter() - due)

    tasks = []
    for number in range(int(rate * duration)):
        due = start + number / rate
        await asyncio.sleep(max(0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number, due)))
    await asyncio.gather(*tasks)
    for _, writer in free:
        writer.close()
    return seconds, statuses


def bodies(address: str, evaluations: int) -> list[bytes]:
    """Return a request for each of the rows that a service has loaded."""
    requests = []
    for offset in range(0, ROWS, 100):
        with urllib.request.urlopen(f"http://{address}/rows?offset={offset}&limit=100") as answer:
            rows = json.load(answer)["rows"]
        for row in rows:
            body = json.dumps({"rows": [row], "budget": evaluations}).encode()
            head = (
                f"POST /explain HTTP/1.1\r\nHost: {address}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            requests.append(head.encode() + body)
    return requests


@contextmanager
def census_service(evaluations: int) -> Iterator[str]:
    """Start a service of the Census network, and yield its address."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        census = load("census")
        rows = census.write(folder / "census.csv")
        network = networks.save(networks.train(census, steps=STEPS), folder / "network")
        command = [sys.executable, "-m", "shearshap.apps.cli", "serve", "--port", "0"]
        command += ["--model", str(network), "--data", str(rows), "--budget", str(evaluations)]
        # one thread: a network as small as this one only loses time by more
        environment = {"OMP_NUM_THREADS": "1"} | os.environ
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert service.stdout is not None
            address = next(line for line in service.stdout if line.startswith("API"))
            yield address.split("//")[1].split("/")[0]
        finally:
            service.terminate()
            service.wait()


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rate", type=float, default=200, help="requests per second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--budget", type=int, default=64, help="evaluations for one row")
    given = parser.parse_args()
    with census_service(given.budget) as address:
        requests = bodies(address, given.budget)
        # a second before, in which designs are made and connections opened
        asyncio.run(send(address, requests, given.rate / 2, 1.0))
        started = time.perf_counter()
        seconds, statuses = asyncio.run(send(address, requests, given.rate, given.seconds))
        rate = len(seconds) / (time.perf_counter() - started)

    load = f"{given.rate:g} requests per second for {given.seconds:g} seconds"
    tables = Tables(f"{load}, {given.budget} evaluations each; {machine()}", given.csv)
    header = ["requests", "per second", "median ms", "90 % within ms", "99 % within ms"]
    header += ["slowest ms", "errors"]
    times = [f"{1000 * time:.0f}" for time in np.quantile(seconds, (0.5, 0.9, 0.99, 1))]
    errors = {name: count for name, count in statuses.items() if name != "200"}
    cells = [f"{len(seconds):,}", f"{rate:.1f}", *times, str(errors or 0)]
    tables.show("service", header, [cells])


if __name__ == "__main__":
    main()
