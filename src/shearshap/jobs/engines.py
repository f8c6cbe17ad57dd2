"""Engines: executors by the names that the command line has for them."""

from shearshap.errors import InputError
from shearshap.jobs.executors import Executor, InProcess, LocalProcesses
from shearshap.jobs.ray_executor import RayExecutor

ENGINES = ("local", "ray")


def executor_for(
    engine: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    gpus: float | None = None,
) -> Executor:
    """Return the executor of an engine.

    Parameters
    ----------
    engine
        "local": processes of this machine, or with one worker this process; "ray": tasks of Ray.
    workers
        How many; None: one, and of Ray as many as the cluster has room for.
    address
        Of the Ray cluster; see `RayExecutor`.
    gpus
        That Ray sets aside for a task.
    """
    if engine == "ray":
        return RayExecutor(address=address, workers=workers, num_gpus=gpus or 0)
    if engine != "local":
        raise InputError(f"engine: wanted {' or '.join(ENGINES)}, got {engine!r}")
    if address is not None or gpus is not None:
        raise InputError("address and gpus are for --engine ray; leave them out")
    if workers is None or workers == 1:
        return InProcess()
    return LocalProcesses(workers)
