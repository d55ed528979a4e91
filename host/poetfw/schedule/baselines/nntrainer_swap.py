# SPDX-License-Identifier: Apache-2.0
"""NNTrainer's swap modes: page between uses, from the execution order alone.

J. J. Moon et al., "A New Frontier of AI: On-Device AI Training and Personalization", ICSE-SEIP
2024, on swapping: training runs in a fixed order, so the uses of each tensor are known in advance.

    on demand   swap a tensor out after each use, and in right before the next
    proactive   swap in some ops ahead, so that the transfer overlaps with compute
    reduced     on demand, but only as much as the budget requires

A tensor waits between two uses if at least one other op runs in between. Nothing is recomputed, and
gradients are swapped like activations. The paper writes a tensor at each swap-out; here it is
written once, as tensors do not change. The paper does not say which tensors its reduced mode
leaves in memory; here those idle at the peak are swapped by bytes times the ops that they wait.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import count, pairwise
from typing import NamedTuple

from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.emitter import Emitter, emit
from poetfw.schedule.baselines.passes import require, shortfall
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, StepKind
from poetfw.schedule.simulator import unlimited

LOOK_AHEAD = 1
"""Default look-ahead of proactive swapping, in ops."""


class Wait(NamedTuple):
    """Interval without uses of a tensor.

    Attributes:
        tensor: the node that makes it.
        start: a node that uses it, or makes it.
        end: the node that uses it next.
    """

    tensor: int
    start: int
    end: int


def swap_on_demand(problem: ScheduleProblem) -> ExecutionPlan:
    """Plan that swaps every tensor in each of its waits, independent of the budget.

    Raises:
        UnsuitableError: there is no storage, or the working set of an op does not fit.
    """
    return swap_proactive(problem, 0, "swap-on-demand")


def swap_proactive(
    problem: ScheduleProblem, look_ahead: int = LOOK_AHEAD, method: str = "swap-proactive"
) -> ExecutionPlan:
    """Plan that swaps each tensor in `look_ahead` ops before the op before its use.

    Raises:
        UnsuitableError: there is no storage, or the tensors in RAM at once do not fit.
    """
    graph = _graph(problem, method)
    swapped = {wait for wait in waits(graph) if wait.end - wait.start > look_ahead + 1}
    return require(graph, swap(graph, swapped, look_ahead), method)


def swap_reduced(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Plan that swaps on demand, only as much as needed to fit.

    Raises:
        UnsuitableError: there is no storage, or swapping everything is not enough.
        OutOfTime: the deadline has passed.
    """
    graph = _graph(problem, "swap-reduced")
    left = set(waits(graph))
    swapped: set[Wait] = set()
    for _ in deadline.during(count()):
        plan = swap(graph, swapped, 0)
        simulation = unlimited(problem, plan)
        if simulation.peak_bytes <= problem.ram_bytes:
            return require(graph, plan, "swap-reduced")
        at = simulation.during_bytes.index(simulation.peak_bytes)
        computed = sum(step.kind is StepKind.COMPUTE for step in plan[: at + 1])
        waiting = [wait for wait in left if wait.start < computed <= wait.end + 1]
        if not waiting:
            break
        longest = max(waiting, key=lambda w: (graph.size[w.tensor] * (w.end - w.start), w))
        swapped.add(longest)
        left.remove(longest)
    raise UnsuitableError("swap-reduced", shortfall(graph, simulation))


def waits(graph: Indexed) -> tuple[Wait, ...]:
    """Waits of all pageable tensors, by tensor and start."""
    return tuple(
        Wait(i, start, end)
        for i in range(graph.n)
        if graph.pageable[i]
        for start, end in pairwise((i, *graph.consumers[i]))
        if end > start + 1
    )


def swap(graph: Indexed, swapped: Set[Wait], look_ahead: int) -> ExecutionPlan:
    """Plan that swaps tensors in these waits, and in again `look_ahead` ops ahead."""
    leaving: dict[int, list[int]] = {}
    for wait in sorted(swapped):
        leaving.setdefault(wait.start, []).append(wait.tensor)

    def script(emitter: Emitter) -> None:
        for t in range(graph.n):
            for used in graph.inputs[t : t + look_ahead + 1]:
                for i in used:
                    if i < t:
                        emitter.ensure(i)
            emitter.compute(t)
            for i in leaving.get(t, ()):
                emitter.page(i)

    return emit(graph, script)


def _graph(problem: ScheduleProblem, method: str) -> Indexed:
    if problem.storage is None:
        raise UnsuitableError(method, "it only pages, and there is no storage")
    return Indexed.of(problem)
