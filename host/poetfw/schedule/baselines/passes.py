# SPDX-License-Identifier: Apache-2.0
"""Forward and backward pass of a training step, and the tensors idle in between."""

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
    """Interval without reads of a forward tensor.

    Attributes:
        tensor: the node that makes it.
        start: the last forward node that reads it, or `tensor` itself.
        end: the first backward node that reads it.
    """

    tensor: int
    start: int
    end: int


def forward_nodes(graph: Indexed, method: str) -> int:
    """Number of nodes of the forward pass: nodes 0 … f - 1.

    Raises:
        UnsuitableError: the nodes do not form two passes, one after the other.
    """
    flags = [node.backward for node in graph.problem.nodes]
    forward = flags.index(True) if True in flags else len(flags)
    if forward in (0, len(flags)):
        raise UnsuitableError(method, "the problem has no forward and backward pass")
    if not all(flags[forward:]):
        raise UnsuitableError(method, "forward nodes come after backward ones")
    return forward


def last_forward_use(graph: Indexed, forward: int, i: int) -> int:
    """Last forward node that reads tensor i, or i itself."""
    return max((j for j in graph.consumers[i] if j < forward), default=i)


def gaps(graph: Indexed, forward: int) -> tuple[Gap, ...]:
    """Gap of each forward tensor that the backward pass reads, by start."""
    found = []
    for i in range(forward):
        reads = [j for j in graph.consumers[i] if j >= forward]
        if reads:
            found.append(Gap(i, last_forward_use(graph, forward, i), min(reads)))
    return tuple(sorted(found, key=lambda gap: (gap.start, gap.tensor)))


def bridge(
    graph: Indexed, forward: int, *, recompute: Set[int] = frozenset(), page: Set[int] = frozenset()
) -> ExecutionPlan:
    """Plan that evicts these tensors in their gaps and brings them back afterwards.

    A tensor returns when the backward pass first reads it. Recomputing it also recomputes the
    forward tensors that it needs and nobody keeps; those that the backward pass reads too stay
    until then, so a segment is recomputed once, as a whole.
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
    """Per node, bytes live while it runs if every tensor is kept until its last use."""
    return running_bytes(graph, checkpoint_all(graph))


def running_bytes(graph: Indexed, plan: ExecutionPlan) -> tuple[int, ...]:
    """Per node, bytes live while a plan runs it for the first time."""
    during = unlimited(graph.problem, plan).during_bytes
    first: dict[str, int] = {}
    for size, step in zip(during, plan, strict=True):
        if step.kind is StepKind.COMPUTE:
            first.setdefault(step.node, size)
    return tuple(first[node.name] for node in graph.problem.nodes)


def accepted(problem: ScheduleProblem, plan: ExecutionPlan) -> ExecutionPlan | None:
    """Plan if the simulator accepts it, with its transfers moved if it missed the deadline."""
    if accepts(problem, plan):
        return plan
    if problem.deadline_s is None or not accepts(replace(problem, deadline_s=None), plan):
        return None
    hastened = plan_transfers(problem, plan)
    return hastened if accepts(problem, hastened) else None


def require(graph: Indexed, plan: ExecutionPlan, method: str) -> ExecutionPlan:
    """Plan, if the simulator accepts it.

    Raises:
        UnsuitableError: it takes more RAM or time than there is.
    """
    found = accepted(graph.problem, plan)
    if found is None:
        raise UnsuitableError(method, shortfall(graph, unlimited(graph.problem, plan)))
    return found


def shortfall(graph: Indexed, simulation: Simulation) -> str:
    """Message with the limit that a plan exceeds: RAM or deadline."""
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
    """Fastest plan that the simulator accepts, the first of equal ones.

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
