# SPDX-License-Identifier: Apache-2.0
"""Reordering of a finished execution plan's steps for a lower peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from poetfw.common.limits import Work
from poetfw.memory.ordering.order import order_ops
from poetfw.memory.ordering.problem import OrderingProblem, OrderOp, without_duplicates
from poetfw.schedule import ExecutionPlan, ScheduleProblem, Step, StepKind, simulate
from poetfw.schedule.simulator import TIME_TOLERANCE


def reorder_plan(
    problem: ScheduleProblem, plan: ExecutionPlan, work: Work | None = None
) -> ExecutionPlan:
    """Reorder a plan's steps for a lower peak; return it as it is if no order found has one.

    Every step still happens exactly once, so the energy is unchanged. The time is unchanged too: if
    overlapping transfers would take longer, the plan stays as it is. The order keeps each tensor's
    stays in RAM and the steps that use each stay, page-outs before page-ins, and reads of a
    parameter before its update. A tensor is freed after the last step of its stay.

    Args:
        problem: the scheduled problem.
        plan: a legal plan of it.
        work: work limit; None for the default.

    Raises:
        PlanError: The plan is illegal.
    """
    before = simulate(problem, plan)
    steps = _steps(problem, plan)
    ordering = order_ops(steps, work)
    if ordering.peak_bytes >= before.peak_bytes:
        return plan
    kinds = {op.name: step for op, step in zip(steps.ops, _lasting(plan), strict=True)}
    improved = _with_frees(steps, ordering.order, kinds)
    after = simulate(replace(problem, deadline_s=None), improved)
    return improved if after.time_s <= before.time_s * (1 + TIME_TOLERANCE) else plan


def _lasting(plan: ExecutionPlan) -> list[Step]:
    """Steps of a plan without the frees."""
    return [step for step in plan if step.kind is not StepKind.FREE]


def _steps(problem: ScheduleProblem, plan: ExecutionPlan) -> OrderingProblem:
    """Ordering problem whose ops are steps and whose tensors are stays in RAM."""
    nodes = {node.name: node for node in problem.nodes}
    updated: dict[str, list[str]] = {}
    for node in problem.nodes:
        if node.recompute_before is not None:
            updated.setdefault(node.recompute_before, []).append(node.name)
    ops: list[OrderOp] = []
    sizes: dict[str, int] = {}
    stay: dict[str, str] = {}
    users: dict[str, list[str]] = {}  # per node, the step that began its latest stay, and readers
    computed: dict[str, list[str]] = {}
    paged_out: dict[str, str] = {}

    for at, step in enumerate(_lasting(plan)):
        name, node = f"{at} {step.kind} {step.node}", nodes[step.node]
        inputs: list[str] = []
        after: list[str] = []
        begins = False
        taken: str | None = None
        match step.kind:
            case StepKind.COMPUTE:
                begins = node.output_bytes > 0
                for source in node.inputs:
                    if nodes[source].output_bytes:
                        inputs.append(stay[source])
                        users[source].append(name)
                    else:
                        after.append(computed[source][-1])
                if node.in_place is not None and begins:
                    taken = stay[node.in_place]
                for reader in updated.get(node.name, ()):
                    after += computed.get(reader, ())
                computed.setdefault(node.name, []).append(name)
            case StepKind.PAGE_OUT:
                inputs.append(stay[node.name])
                users[node.name].append(name)
                paged_out[node.name] = name
            case StepKind.PAGE_IN:
                begins = True
                after.append(paged_out[node.name])
            case _:  # frees follow from the order
                continue
        if begins:
            after += users.get(node.name, ())
            users[node.name] = [name]
            stay[node.name] = name
            sizes[name] = node.output_bytes
        ops.append(
            OrderOp(
                name=name,
                inputs=without_duplicates(inputs),
                outputs=(name,) if begins else (),
                workspace_bytes=node.workspace_bytes if step.kind is StepKind.COMPUTE else 0,
                after=without_duplicates(after),
                in_place=taken,
            )
        )
    return OrderingProblem(tuple(ops), sizes)


def _with_frees(
    steps: OrderingProblem, order: Sequence[str], kinds: Mapping[str, Step]
) -> ExecutionPlan:
    """Plan of an order, with each stay freed right after its last step.

    A stay that an op may overwrite in place is freed first.
    """
    ops = {op.name: op for op in steps.ops}
    last = {stay: name for name in order for stay in (*ops[name].outputs, *ops[name].inputs)}
    plan: list[Step] = []
    for name in order:
        plan.append(kinds[name])
        ended = [stay for stay in (*ops[name].inputs, *ops[name].outputs) if last[stay] == name]
        ended.sort(key=lambda stay: stay != ops[name].in_place)
        plan += [_free(kinds[stay]) for stay in ended]
    return tuple(plan)


def _free(step: Step) -> Step:
    """Free of the tensor that the step has brought into RAM."""
    return Step(StepKind.FREE, step.node)
