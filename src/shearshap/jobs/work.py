"""The work on a shard: its rows are read, explained block by block, and written as a part.

It is the same in every executor. Where the same process works on several shards, the model is
opened once.
"""

from dataclasses import dataclass
from pathlib import Path

from shearshap.jobs.executors import Report
from shearshap.jobs.shards import Shard


@dataclass(frozen=True, eq=False)
class ShardWork:
    """What every worker of a job needs to know; it can be pickled.

    A model that is a file is opened by each process. A model that is an object goes along with the
    work: who runs on several machines sends the work there once, and not with every shard.
    """

    out: Path  #: the folder of the parts
    key: str  #: the hash of the job, under which a process keeps the opened model

    def __call__(self, shard: Shard, *, attempt: int = 1, worker: int = 0) -> Report:
        """Explain a shard, write its part, and report."""
        raise NotImplementedError
