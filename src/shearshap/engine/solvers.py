"""Solvers: model + rows -> explanations, or "not mine".

A solver takes a task and a run. It returns an iterator of explanations, block by block, or None
if the model is not of its kind. The first solver that returns explanations is taken; the last
one takes any model. A solver for models that know their own answer, without sampling, goes before
the last.
"""

from collections.abc import Callable, Iterator

from shearshap.engine import sampling, text
from shearshap.engine.run import Run, Task
from shearshap.result.explanation import Explanation
from shearshap.trees import forests

Solver = Callable[[Task, Run, bool | None], Iterator[Explanation] | None]

SOLVERS: dict[str, Solver] = {
    "text": text.solve,
    "trees": forests.solve,
    "sampling": sampling.solve,
}


def solve(task: Task, run: Run, progress: bool | None = None) -> Iterator[Explanation]:
    """Return the explanations of a task's rows, block by block, by the first able solver."""
    for solver in SOLVERS.values():
        blocks = solver(task, run, progress)
        if blocks is not None:
            return blocks
    raise AssertionError("the last solver takes any model")
