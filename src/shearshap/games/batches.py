"""Evaluations in batches: split a box of them until each piece fits, and name the one that fails.

The evaluations of a game fill a box: rows by coalitions by background rows. A box that is too large
for one forward pass is cut in half along its first axis that can be cut, again and again:

    4 rows, 6 coalitions, 1 background row, batches of 8:

        rows 0-3 x coalitions 0-5   24 evaluations: too large
        rows 0-1 x coalitions 0-5   12: too large
        row  0   x coalitions 0-5    6: a batch
        row  1   x coalitions 0-5    6: a batch
        ...

A batch is too large if its inputs would not fit memory, or if a slow function would be silent for
much longer than a second: until it returns, no progress can be shown, and nothing stopped.

Results of a GPU are copied to the host while it computes the next ones; see `HostCopies`.
"""

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import STOPS, ModelError, ShearError

BATCH_BYTES = {"cpu": 4 << 20, "other": 2 << 30}
"""Bytes of model input in one batch: what fits a CPU's cache; what keeps an accelerator busy."""

BATCH_SECONDS = 1.0
"""Seconds that a batch may take."""

MAX_GROWTH = 64
"""How many times larger than a batch the next one may be."""

FIRST_BATCH = 32
"""Evaluations of a function's first batch, which may take any time: the two ends of 16 rows."""

DEFAULT_BATCH = 256
"""Initial batch size for known model types.

Networks round otherwise in very small batches, so that theirs are not made smaller without need.
"""

PIECE_BYTES = 1 << 24
"""Bytes of a piece of pinned memory."""

SMALL_BYTES = 1 << 20
"""Bytes of a tensor up to which the driver is as fast."""


@dataclass
class Pace:
    """How many evaluations take about a second, or less, learnt from the batches so far.

    Two batch sizes separate the fixed cost of a call, such as the way to a server, from the cost of
    an evaluation: smaller batches would not make that any shorter.
    """

    most: float = DEFAULT_BATCH  #: evaluations in the next batch
    seconds: float = BATCH_SECONDS  #: that a batch may take
    _last: tuple[int, float] | None = None  #: size and seconds of the last batch
    _other: tuple[int, float] | None = None  #: of the last that was of a clearly different size

    def learn(self, size: int, seconds: float) -> None:
        """Learn from the time of a batch."""
        largest = max(self.most, MAX_GROWTH * size)
        wanted = self.seconds / self._seconds_each(size, seconds)
        if seconds <= self.seconds / MAX_GROWTH:
            # so short a batch says little about larger ones, which need not be smaller
            wanted = largest
        self.most = max(1.0, min(wanted, largest))
        if self._last is not None and _differ(size, self._last[0]):
            self._other = self._last
        self._last = (size, seconds)

    def _seconds_each(self, size: int, seconds: float) -> float:
        """Return what one evaluation more takes, by two batches if they differ in size."""
        for other in (self._last, self._other):
            if other is not None and _differ(size, other[0]):
                each = (seconds - other[1]) / (size - other[0])
                return max(each, 1e-9)  # a larger batch may have been faster, by chance
        return seconds / size


def _differ(size: int, other: int) -> bool:
    """Return whether sizes differ enough to separate evaluations from fixed costs."""
    return 2 * max(size, other) >= 3 * min(size, other)


@dataclass
class Batch:
    """How many model evaluations go into one batch; halved for good whenever memory runs out."""

    size: int
    pace: Pace | None = None  #: bounds the time of a batch; None: nothing does
    has_time: Callable[[], bool] = lambda: True  #: asked before every batch but a call's first

    @property
    def most(self) -> float:
        """The most evaluations of the next batch."""
        most = self.size if self.pace is None else min(self.size, self.pace.most)
        return max(1, most)

    def halve(self, tried: int) -> None:
        """Go on with batches of half the size that was tried."""
        self.size = max(1, min(self.size, tried) // 2)


def automatic_batch(device: torch.device, inputs: int) -> int:
    """Return a batch size that bounds the memory of rows with this number of inputs."""
    memory = BATCH_BYTES["cpu" if device.type == "cpu" else "other"]
    free = free_memory(device)
    if free is not None:
        memory = min(memory, free // 16)
    return max(1, memory // (4 * inputs))  # four bytes a number


class Box(NamedTuple):
    """Which evaluations: some rows, some of their coalitions and some background rows."""

    rows: slice
    coalitions: slice
    background: slice

    @classmethod
    def full(cls, rows: int, coalitions: int, background: int) -> "Box":
        """Return the box of all evaluations."""
        return cls(slice(0, rows), slice(0, coalitions), slice(0, background))

    @property
    def size(self) -> int:
        """The number of evaluations in the box."""
        return prod(part.stop - part.start for part in self)

    def halves(self) -> tuple["Box", "Box"]:
        """Return the box cut in two along its first axis that is longer than 1."""
        for name, part in self._asdict().items():
            if part.stop - part.start > 1:
                middle = part.start + (part.stop - part.start) // 2
                first = self._replace(**{name: slice(part.start, middle)})
                second = self._replace(**{name: slice(middle, part.stop)})
                return first, second
        raise ValueError("a single evaluation cannot be halved")


class FailedBatch(Exception):  # noqa: N818  (it is caught at once, and never seen by users)
    """The model failed, for another reason than memory, on the evaluations of a box."""

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.box = box

        #: of the rows before the box, which are complete; None if there are no outputs yet
        self.outputs: Tensor | None = None


class OutOfTime(Exception):  # noqa: N818  (the engine catches it: what is finished is returned)
    """The deadline came between two batches."""

    def __init__(self, known: Tensor) -> None:
        super().__init__()
        self.known = known  #: of the first rows, which are complete: outputs, then their values


Forward = Callable[[Box], Tensor]  #: the model's outputs in a box, (r, c, b) or (r, c, b, k)


def in_batches(whole: Box, forward: Forward, batch: Batch, device: torch.device) -> Tensor:
    """Return all outputs in double precision, (r, c, b) or (r, c, b, k), on a device.

    Out of memory is not an error: the batch is halved for good, and the box is tried again in
    pieces. Any other error of the model is the cause of a `FailedBatch`. If time is up and more is
    left than a batch, an `OutOfTime` has the outputs of the rows that are complete. So has Ctrl-C.
    """
    outputs: Tensor | None = None
    box = whole
    waiting = [whole]
    try:
        while waiting:
            box = waiting.pop()
            if box.size > batch.most:
                first, second = box.halves()
                waiting += [second, first]
                continue

            if outputs is not None and not batch.has_time():
                left = box.size + sum(other.size for other in waiting)
                if left > batch.most:
                    raise OutOfTime(outputs[: box.rows.start])
            piece = _outputs(box, forward, batch)
            if piece is None:
                waiting.append(box)
                continue

            if outputs is None:
                shape = [part.stop - part.start for part in whole]
                outputs = torch.empty(
                    (*shape, *piece.shape[3:]), dtype=torch.float64, device=device
                )
            # the one copy of what the model returned, whose memory it may use again
            outputs[box] = piece.to(device)
    # boxes are cut along the rows first, so the rows before this one are complete
    except FailedBatch as failed:
        failed.outputs = None if outputs is None else outputs[: box.rows.start]
        raise
    except STOPS as stop:
        known = None if outputs is None else outputs[: box.rows.start]
        # a model that explains another one may have set both
        vars(stop).update(known=known, finished=None)
        raise
    assert outputs is not None, "a box holds at least one evaluation"
    return outputs


def _outputs(box: Box, forward: Forward, batch: Batch) -> Tensor | None:
    """Return the outputs in a box; None if memory ran out, after the batch is halved."""
    started = time.perf_counter()
    try:
        outputs = forward(box)
        if batch.pace is not None:
            batch.pace.learn(box.size, time.perf_counter() - started)
        return outputs
    except Exception as error:
        if isinstance(error, ShearError | OutOfTime):  # a function may keep the time itself
            raise
        if not out_of_memory(error):
            raise FailedBatch(box) from error
        if box.size == 1:
            raise ModelError(
                "out of memory on a single model evaluation "
                f"({type(error).__name__}: {error}); try a smaller model"
            ) from error
    batch.halve(box.size)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


MEMORY_RAN_OUT = re.compile(
    r"(CUDA|HIP|MPS|XPU)( error:| backend)? out of memory"  # torch, on accelerators
    r"|DefaultCPUAllocator: |enforce fail.*can't allocate memory"  # torch, on a CPU
    r"|(CUBLAS|CUDNN)_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"  # the libraries of CUDA
    r"|std::bad_alloc|bad allocation|bad_malloc"  # libraries in C++
    r"|Failed to allocate memory for requested buffer"  # ONNX Runtime
    r"|OOM when allocating|RESOURCE_EXHAUSTED: Out of memory"  # TensorFlow and JAX
)
"""What libraries say when memory ran out, if they have no exception for it.

A model's own message may mention memory for any reason, so only what they say literally counts.
"""


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, on any device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return MEMORY_RAN_OUT.search(str(error)) is not None


def first_failure(box: Box, forward: Forward) -> Box | None:
    """Return the first single row and coalition on which the model fails, sought by halving.

    None if neither half of a failing box fails by itself.
    """
    while box.rows.stop - box.rows.start > 1 or box.coalitions.stop - box.coalitions.start > 1:
        halves = box.halves()
        failing = next((half for half in halves if _fails(half, forward)), None)
        if failing is None:
            return None
        box = failing
    return box


def _fails(box: Box, forward: Forward) -> bool:
    try:
        forward(box)
    except Exception:  # noqa: BLE001  (whatever the model raises)
        return True
    return False


# Devices: what a GPU has free, and copies to and from it. The driver copies ordinary memory slowly,
# so large copies go through two pieces of pinned memory, which the GPU reads and writes by itself.
# On the way to the host, while it fills one, the host empties the other with all its cores:
#
#     the GPU fills      A0   B1   A2   B3
#     the host empties        A0   B1   A2   B3        pieces A and B, parts 0 to 3 of a tensor
#
# The two pieces are all the pinned memory there is: they are let go after each copy, and torch
# gives the same memory to the next. Copies of results go on in their own thread, on their own
# stream, while the GPU computes the next results:
#
#     the GPU computes   block 0   block 1   block 2
#     and copies                   block 0   block 1   block 2


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that a GPU has free; None of other devices: it is not known.

    What torch keeps for later tensors is free too, though the driver counts it as used.
    """
    if device.type != "cuda":
        return None
    free, _total = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + kept


def _is_driver_as_fast(source: Tensor) -> bool:
    return source.device.type != "cuda" or source.nbytes <= SMALL_BYTES


def to_device(numbers: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a tensor on a device and in a type: itself if it is so already."""
    if numbers.device.type != "cpu" or device.type != "cuda" or numbers.nbytes <= SMALL_BYTES:
        return numbers.to(device, dtype)
    placed = torch.empty(numbers.shape, dtype=dtype, device=device)
    size = PIECE_BYTES // placed.itemsize
    pinned = torch.empty((2, size), dtype=dtype, device="cpu", pin_memory=True)
    emptied = [torch.cuda.Event(), torch.cuda.Event()]
    parts = numbers.contiguous().view(-1).split(size)
    with torch.cuda.device(device):
        for number, part in enumerate(placed.view(-1).split(size)):
            piece = pinned[number % 2, : len(part)]
            emptied[number % 2].synchronize()
            piece.copy_(parts[number])
            part.copy_(piece, non_blocking=True)
            emptied[number % 2].record()
    return placed


def to_numpy(numbers: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array: of the CPU's its own memory, else a complete copy."""
    if _is_driver_as_fast(numbers):
        return numbers.cpu().numpy()

    array = empty_array(numbers.shape, numbers.dtype)
    copy_to_host(numbers, torch.from_numpy(array))
    return array


def empty_array(shape: Sequence[int], dtype: torch.dtype) -> NDArray[Any]:
    """Return an array of torch's type whose numbers are not set."""
    return np.empty(shape, torch.empty(0, dtype=dtype, device="cpu").numpy().dtype)


def copy_to_host(source: Tensor, destination: Tensor) -> None:
    """Copy a tensor into one of the host, of the same type, and wait until it is there."""
    if _is_driver_as_fast(source):
        destination.copy_(source)
        return
    with torch.cuda.device(source.device):
        _copy_by_pieces(source.detach().contiguous().view(-1), destination.view(-1))


def _copy_by_pieces(source: Tensor, destination: Tensor) -> None:
    """Copy numbers (n,) from a GPU to the host, by two pieces of pinned memory that take turns."""
    size = PIECE_BYTES // source.itemsize
    pinned = torch.empty((2, size), dtype=source.dtype, device="cpu", pin_memory=True)
    filled = [torch.cuda.Event(), torch.cuda.Event()]
    parts = source.split(size)

    def fill(number: int) -> None:
        part = parts[number]
        pinned[number % 2, : len(part)].copy_(part, non_blocking=True)
        filled[number % 2].record()

    fill(0)
    for number, part in enumerate(destination.split(size)):
        if number + 1 < len(parts):
            fill(number + 1)
        filled[number % 2].synchronize()
        part.copy_(pinned[number % 2, : len(part)])


class HostCopies:
    """Copies to the host that are not waited for; until `wait`, the numbers are not there."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._started: list[Future[None]] = []

    def start(self, source: Tensor, destination: Tensor) -> None:
        """Copy a tensor, which must not change before it is there, into one of the host."""
        if _is_driver_as_fast(source):
            destination.copy_(source)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="copies to the host")
        computed = torch.cuda.Event()
        computed.record(torch.cuda.current_stream(source.device))
        self._started.append(self._thread.submit(_copy_aside, source, destination, computed))

    def wait(self) -> None:
        """Wait until all numbers are there; raise what went wrong."""
        started = self._started
        self._started = []
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        for copy in started:
            copy.result()


def _copy_aside(source: Tensor, destination: Tensor, computed: torch.cuda.Event) -> None:
    """Copy a tensor to the host on a stream of its own, once the GPU has computed it."""
    stream = torch.cuda.Stream(source.device)
    with torch.cuda.stream(stream):
        stream.wait_event(computed)
        copy_to_host(source, destination)
