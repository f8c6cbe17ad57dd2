"""What a device has free, and how large tensors get from a GPU to the host, and there.

The driver copies ordinary memory slowly. Large copies therefore go through two pieces of pinned
memory, which the GPU reads and writes by itself. While it fills one, the host empties the other
with all its cores:

    the GPU fills      A0   B1   A2   B3
    the host empties        A0   B1   A2   B3        pieces A and B, parts 0 to 3 of a tensor

The two pieces are all the pinned memory there is: they are let go after each copy, and torch gives
the same memory to the next.

Copies of results need not be waited for. They go on in a thread of their own, on a stream of their
own, while the GPU computes the next results:

    the GPU computes   block 0   block 1   block 2
    and copies                   block 0   block 1   block 2
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PIECE_BYTES = 1 << 24
"""Bytes of a piece of pinned memory."""

SMALL_BYTES = 1 << 20
"""Bytes of a tensor up to which the driver is as fast."""


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that a GPU has free; None of other devices, where they are not known.

    What torch keeps for later tensors is free too, though the driver counts it as used.
    """
    if device.type != "cuda":
        return None
    free, _total = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + kept


def to_numpy(numbers: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array: of the CPU's its own memory, else a complete copy."""
    if numbers.device.type != "cuda" or numbers.nbytes <= SMALL_BYTES:
        return numbers.cpu().numpy()

    array = empty_array(numbers.shape, numbers.dtype)
    copy_to_host(numbers, torch.from_numpy(array))
    return array


def to_device(numbers: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a tensor on a device and in a type: itself where it is so already."""
    on_its_way_to_gpu = numbers.device.type == "cpu" and device.type == "cuda"
    if not on_its_way_to_gpu or numbers.nbytes <= SMALL_BYTES:
        return numbers.to(device, dtype)

    placed = torch.empty(numbers.shape, dtype=dtype, device=device)
    _copy_to_gpu_by_pieces(_flat(numbers), placed.view(-1))
    return placed


def empty_array(shape: Sequence[int], dtype: torch.dtype) -> NDArray[Any]:
    """Return an array of torch's type whose numbers are not set."""
    return np.empty(shape, torch.empty(0, dtype=dtype, device="cpu").numpy().dtype)


def copy_to_host(source: Tensor, destination: Tensor) -> None:
    """Copy a tensor into one of the host, of the same type, and wait until it is there."""
    if source.device.type != "cuda" or source.nbytes <= SMALL_BYTES:
        destination.copy_(source)
        return
    with torch.cuda.device(source.device):
        _copy_to_host_by_pieces(_flat(source), destination.view(-1))


class HostCopies:
    """Copies to the host that are not waited for; until `wait`, the numbers are not there."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._started: list[Future[None]] = []

    def start(self, source: Tensor, destination: Tensor) -> None:
        """Copy a tensor, which must not change before it is there, into one of the host."""
        if source.device.type != "cuda" or source.nbytes <= SMALL_BYTES:
            copy_to_host(source, destination)
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


def _flat(numbers: Tensor) -> Tensor:
    return numbers.detach().contiguous().view(-1)


def _copy_to_host_by_pieces(source: Tensor, destination: Tensor) -> None:
    """Copy numbers (n,) from a GPU to the host."""
    pinned = _Pinned(source.dtype)
    parts = source.split(pinned.size)

    def fill(number: int) -> None:
        part = parts[number]
        pinned.piece(number, len(part)).copy_(part, non_blocking=True)
        pinned.event(number).record()

    fill(0)
    for number, part in enumerate(destination.split(pinned.size)):
        if number + 1 < len(parts):
            fill(number + 1)
        pinned.event(number).synchronize()
        part.copy_(pinned.piece(number, len(part)))


def _copy_to_gpu_by_pieces(source: Tensor, destination: Tensor) -> None:
    """Copy numbers (n,) from the host to a GPU, into the type that they are to have there."""
    pinned = _Pinned(destination.dtype)
    parts = source.split(pinned.size)
    with torch.cuda.device(destination.device):
        for number, part in enumerate(destination.split(pinned.size)):
            piece = pinned.piece(number, len(part))
            pinned.event(number).synchronize()  # the GPU has read what was there before
            piece.copy_(parts[number])
            part.copy_(piece, non_blocking=True)
            pinned.event(number).record()


class _Pinned:
    """Two pieces of pinned memory that take turns, each with an event of the GPU's last use."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.size = PIECE_BYTES // dtype.itemsize  #: numbers in a piece
        self._pieces = [
            torch.empty(self.size, dtype=dtype, device="cpu", pin_memory=True) for _ in range(2)
        ]
        self._events = [torch.cuda.Event() for _ in range(2)]

    def piece(self, number: int, count: int) -> Tensor:
        """Return the first numbers of the piece whose turn it is."""
        return self._pieces[number % 2][:count]

    def event(self, number: int) -> torch.cuda.Event:
        """Return the event of the piece whose turn it is."""
        return self._events[number % 2]
