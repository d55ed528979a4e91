"""The steps of a finished execution plan in a better order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poetfw.errors import PlanError
from poetfw.memory.ordering.order import order_ops
from poetfw.memory.ordering.problem import OrderingProblem, OrderOp, without_duplicates
from poetfw.schedule import ExecutionPlan, ScheduleProblem, Step, StepKind, simulate


def reorder_plan(
    problem: ScheduleProblem, plan: ExecutionPlan, time_limit_s: float = 10.0
) -> ExecutionPlan:
    """The same steps in an order with a lower peak, or the plan itself.

    Every step still happens exactly once, so energy and time are the plan's own. What is kept:
    each stay of a tensor in RAM serves the steps it served, the stays of one tensor follow each
    other, a tensor is paged in after it was paged out, and whoever reads a parameter runs before
    its update. Tensors are freed after the last step of their stay.

    Args:
        problem: what was scheduled.
        plan: a legal plan of it.
        time_limit_s: seconds to spend at most.

    Raises:
        PlanError: the plan is not legal.
    """
    before = simulate(problem, plan)
    steps = _steps(problem, plan)
    ordering = order_ops(steps, time_limit_s)
    kinds = {op.name: step for op, step in zip(steps.ops, _lasting(plan), strict=True)}
    in_place = {node.name: node.in_place for node in problem.nodes}
    improved = _with_frees(steps, ordering.order, kinds, in_place)
    try:
        after = simulate(problem, improved)
    except PlanError:  # the search does not see which tensors take over others' RAM
        return plan
    return improved if after.peak_bytes < before.peak_bytes else plan


def _lasting(plan: ExecutionPlan) -> list[Step]:
    """The steps that cost something: all but the frees."""
    return [step for step in plan if step.kind is not StepKind.FREE]


def _steps(problem: ScheduleProblem, plan: ExecutionPlan) -> OrderingProblem:
    """The ordering problem whose ops are steps and whose tensors are stays in RAM."""
    nodes = {node.name: node for node in problem.nodes}
    updated: dict[str, list[str]] = {}
    for node in problem.nodes:
        if node.recompute_before is not None:
            updated.setdefault(node.recompute_before, []).append(node.name)
    ops: list[OrderOp] = []
    sizes: dict[str, int] = {}
    stay: dict[str, str] = {}
    users: dict[str, list[str]] = {}  # of a node's latest stay: the step that began it, and readers
    computed: dict[str, list[str]] = {}
    paged_out: dict[str, str] = {}

    for at, step in enumerate(_lasting(plan)):
        name, node = f"{at} {step.kind} {step.node}", nodes[step.node]
        inputs: list[str] = []
        after: list[str] = []
        begins = False
        match step.kind:
            case StepKind.COMPUTE:
                begins = node.output_bytes > 0
                for source in node.inputs:
                    if nodes[source].output_bytes:
                        inputs.append(stay[source])
                        users[source].append(name)
                    else:
                        after.append(computed[source][-1])
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
            )
        )
    return OrderingProblem(tuple(ops), sizes)


def _with_frees(
    steps: OrderingProblem,
    order: Sequence[str],
    kinds: Mapping[str, Step],
    in_place: Mapping[str, str | None],
) -> ExecutionPlan:
    """The plan of an order, every stay freed right after its last step.

    What a step may take over is freed first, so that it does.
    """
    ops = {op.name: op for op in steps.ops}
    last = {stay: name for name in order for stay in (*ops[name].outputs, *ops[name].inputs)}
    plan: list[Step] = []
    for name in order:
        plan.append(kinds[name])
        taken = in_place[kinds[name].node] if kinds[name].kind is StepKind.COMPUTE else None
        ended = [stay for stay in (*ops[name].inputs, *ops[name].outputs) if last[stay] == name]
        ended.sort(key=lambda stay: kinds[stay].node != taken)
        plan += [_free(kinds[stay]) for stay in ended]
    return tuple(plan)


def _free(step: Step) -> Step:
    """The step that frees what the step has brought into RAM."""
    return Step(StepKind.FREE, step.node)
