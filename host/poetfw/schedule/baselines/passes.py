# SPDX-License-Identifier: Apache-2.0
"""The two passes of a training step, and the tensors that are idle in between."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import NamedTuple

from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.emitter import Emitter, emit
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, StepKind
from poetfw.schedule.simulator import Simulation, accepts, unlimited
from poetfw.schedule.transfers import plan_transfers


class Gap(NamedTuple):
    """An interval in which a tensor of the forward pass is not read.

    Attributes:
        tensor: the node that makes it.
        start: the last node of the forward pass that reads it, or the tensor's own.
        end: the first node of the backward pass that reads it.
    """

    tensor: int
    start: int
    end: int


def forward_nodes(graph: Indexed, method: str) -> int:
    """Number of nodes of the forward pass: nodes 0 … f - 1.

    Raises:
        UnsuitableError: there are no two passes, one after the other.
    """
    flags = [node.backward for node in graph.problem.nodes]
    forward = flags.index(True) if True in flags else len(flags)
    if forward in (0, len(flags)):
        raise UnsuitableError(method, "the problem has no forward and backward pass")
    if not all(flags[forward:]):
        raise UnsuitableError(method, "forward nodes come after backward ones")
    return forward


def last_forward_use(graph: Indexed, forward: int, i: int) -> int:
    """The last forward node that reads tensor i, or i itself."""
    return max((j for j in graph.consumers[i] if j < forward), default=i)


def gaps(graph: Indexed, forward: int) -> tuple[Gap, ...]:
    """The gap of each forward tensor that the backward pass reads, by start."""
    found = []
    for i in range(forward):
        reads = [j for j in graph.consumers[i] if j >= forward]
        if reads:
            found.append(Gap(i, last_forward_use(graph, forward, i), min(reads)))
    return tuple(sorted(found, key=lambda gap: (gap.start, gap.tensor)))


def bridge(
    graph: Indexed, forward: int, *, recompute: Set[int] = frozenset(), page: Set[int] = frozenset()
) -> ExecutionPlan:
    """The plan that gives up these tensors in their gaps and has them again afterwards.

    Each is produced when the backward pass first reads it. To compute one again, forward tensors
    that nobody keeps are computed again too; those on the way that the backward pass reads as
    well stay until then, so a segment is computed again as a whole, once.
    """
    released: dict[int, list[int]] = {}
    for i in range(forward):
        used_later = graph.consumers[i] and graph.consumers[i][-1] >= forward
        if i in recompute or i in page or not used_later:
            released.setdefault(last_forward_use(graph, forward, i), []).append(i)

    def script(emitter: Emitter) -> None:
        for t in range(graph.n):
            emitter.compute(t)
            for i in released.get(t, ()):
                if i in page:
                    emitter.page(i)
                else:
                    emitter.drop(i)

    return emit(graph, script)


def kept_bytes(graph: Indexed) -> tuple[int, ...]:
    """Per node, the bytes live while it runs if everything is kept until its last use."""
    return running_bytes(graph, checkpoint_all(graph))


def running_bytes(graph: Indexed, plan: ExecutionPlan) -> tuple[int, ...]:
    """Per node, the bytes live while a plan runs it for the first time."""
    during = unlimited(graph.problem, plan).during_bytes
    first: dict[str, int] = {}
    for size, step in zip(during, plan, strict=True):
        if step.kind is StepKind.COMPUTE:
            first.setdefault(step.node, size)
    return tuple(first[node.name] for node in graph.problem.nodes)


def accepted(problem: ScheduleProblem, plan: ExecutionPlan) -> ExecutionPlan | None:
    """The plan if the simulator accepts it, its transfers moved where it misses the deadline."""
    if accepts(problem, plan):
        return plan
    if problem.deadline_s is None or not accepts(replace(problem, deadline_s=None), plan):
        return None
    hastened = plan_transfers(problem, plan)
    return hastened if accepts(problem, hastened) else None


def require(graph: Indexed, plan: ExecutionPlan, method: str) -> ExecutionPlan:
    """The plan, if the simulator accepts it.

    Raises:
        UnsuitableError: it takes more RAM or time than there is.
    """
    found = accepted(graph.problem, plan)
    if found is None:
        raise UnsuitableError(method, shortfall(graph, unlimited(graph.problem, plan)))
    return found


def shortfall(graph: Indexed, simulation: Simulation) -> str:
    """Limit that a plan does not meet."""
    problem = graph.problem
    if simulation.peak_bytes > problem.ram_bytes:
        return (
            f"its best plan needs {simulation.peak_bytes + problem.resident_bytes:,} bytes of a "
            f"budget of {problem.budget_bytes:,}"
        )
    return (
        f"its best plan takes {simulation.time_s:g} s, but the deadline is {problem.deadline_s:g} s"
    )


def choose(
    graph: Indexed, plans: list[ExecutionPlan], method: str, deadline: Deadline | None = None
) -> ExecutionPlan:
    """The fastest of the plans that the simulator accepts, the first of equals.

    Raises:
        UnsuitableError: it accepts none.
        OutOfTime: a deadline has passed.
    """
    best: tuple[float, ExecutionPlan] | None = None
    during = (deadline or Deadline()).during
    for plan in during(plans):
        simulation = accepts(graph.problem, plan)
        if simulation and (best is None or simulation.time_s < best[0]):
            best = simulation.time_s, plan
    if best is None:
        needed = (unlimited(graph.problem, plan) for plan in during(plans))
        smallest = min(needed, key=lambda simulation: simulation.peak_bytes)
        raise UnsuitableError(method, shortfall(graph, smallest))
    return best[1]
