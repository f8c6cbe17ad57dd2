"""What happened so far, in the text format of Prometheus."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """How many amounts there were up to each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * len(bounds)
        self.total = 0.0
        self.count = 0

    def add(self, amount: float) -> None:
        """Count an amount."""
        self.total += amount
        self.count += 1
        for place, bound in enumerate(self.bounds):
            if amount <= bound:
                self.counts[place] += 1
                return

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of its buckets, each with all amounts up to its bound."""
        below = 0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound:g}"}} {below}'
        yield f'{name}_bucket{{le="+Inf"}} {self.count}'
        yield f"{name}_sum {self.total:.9g}"
        yield f"{name}_count {self.count}"


class Monitor:
    """Counts of requests and rows; any thread may count."""

    def __init__(self) -> None:
        self.started = time.time()
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds = Histogram(SECONDS)
        self._blocks = Histogram(ROWS)
        self._evaluations = 0
        self._open = 0

    def began(self) -> int:
        """Count a request that has come, and return how many are open now."""
        with self._lock:
            self._open += 1
            return self._open

    def ended(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._open -= 1
            self._requests[method, path, status] += 1
            if path == "/explain":
                self._seconds.add(seconds)

    def explained(self, rows: int, evaluations: int) -> None:
        """Count a block that was explained."""
        with self._lock:
            self._blocks.add(rows)
            self._evaluations += evaluations

    def text(self) -> str:
        """Return all counts."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _header("shear_requests_total", "counter", "Requests answered.")
        for (method, path, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",path="{path}",status="{status}"'
            yield f"shear_requests_total{{{labels}}} {count}"

        yield from _header("shear_open_requests", "gauge", "Requests that are being answered.")
        yield f"shear_open_requests {self._open}"

        name = "shear_explain_seconds"
        yield from _header(name, "histogram", "Seconds to answer POST /explain, waiting included.")
        yield from self._seconds.lines(name)

        name = "shear_block_rows"
        yield from _header(name, "histogram", "Rows that were explained together.")
        yield from self._blocks.lines(name)

        yield from _header("shear_evaluations_total", "counter", "Model evaluations for requests.")
        yield f"shear_evaluations_total {self._evaluations}"

        name = "process_start_time_seconds"
        yield from _header(name, "gauge", "When the service started, in Unix time.")
        yield f"{name} {self.started:.3f}"


def _header(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
