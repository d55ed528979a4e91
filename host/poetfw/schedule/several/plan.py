# SPDX-License-Identifier: Apache-2.0
"""Lowering of each stage's and device's actions to a linear plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, Step, StepKind

_ORDER = {
    kind: number
    for number, kind in enumerate(
        (
            StepKind.COMPUTE,
            StepKind.PAGE_IN,
            StepKind.COPY,
            StepKind.PAGE_OUT,
        )
    )
}


class Made(NamedTuple):
    """Action of a stage on a node. Frees are not actions: they follow from the last uses.

    Attributes:
        stage: index of the node that the stage computes for the first time.
        node: index of the node.
        kind: kind of the step.
        device: index of the device; of a copy, the source.
        target: of a copy, the index of the target device.
    """

    stage: int
    node: int
    kind: StepKind
    device: int
    target: int | None = None


def in_order(made: Iterable[Made]) -> list[Made]:
    """Sort actions into the order of a plan in stages.

    Within a stage, nodes come in topological order; a node is computed, paged in, then copied.
    """
    return sorted(made, key=lambda x: (x.stage, x.node, _ORDER[x.kind], x.device, x.target or 0))


def complete(graph: Indexed, made: Iterable[Made]) -> list[Made]:
    """Add frees to a plan, each right after the tensor's last use, for the least RAM.

    Actions whose result nobody uses are left out.

    Args:
        graph: problem of any device.
        made: actions in order.
    """
    wanted: set[tuple[int, int]] = set()
    paged: set[tuple[int, int]] = set()
    reverse: list[Made] = []
    for item in reversed(list(made)):
        stage, i, kind, d, target = item
        used = (d, i) in wanted

        def free(u: int, d: int = d, stage: int = stage) -> Made:
            return Made(stage, u, StepKind.FREE, d)

        match kind:
            case StepKind.COMPUTE:
                if not (used or i == stage):
                    continue
                wanted.discard((d, i))
                last = [u for u in graph.inputs[i] if (d, u) not in wanted]
                taken = graph.in_place[i] if graph.in_place[i] in last else None
                reverse += [free(u) for u in reversed(last) if u != taken]
                wanted.update((d, u) for u in last)
                if not used and graph.size[i]:
                    reverse.append(free(i))
                if taken is not None:
                    reverse.append(free(taken))  # right after the op that takes over its RAM
            case StepKind.COPY:
                assert target is not None
                if (target, i) not in wanted:
                    continue
                wanted.discard((target, i))
                if not used:
                    reverse.append(free(i))
                wanted.add((d, i))
            case StepKind.PAGE_IN:
                if not used:
                    continue
                wanted.discard((d, i))
                paged.add((d, i))
            case StepKind.PAGE_OUT:
                if (d, i) not in paged:
                    continue
                paged.discard((d, i))
                if not used:
                    reverse.append(free(i))
                wanted.add((d, i))
        reverse.append(item)
    return reverse[::-1]


def named(graph: Indexed, names: tuple[str, ...], steps: Iterable[Made]) -> ExecutionPlan:
    """Plan with names instead of indices.

    Args:
        graph: problem of any device.
        names: names of the devices.
        steps: with frees, see `complete`.
    """
    nodes = graph.problem.nodes
    return tuple(
        Step(
            step.kind,
            nodes[step.node].name,
            names[step.device],
            None if step.target is None else names[step.target],
        )
        for step in steps
    )


def in_stages(graph: Indexed, names: tuple[str, ...], plan: ExecutionPlan) -> list[Made] | None:
    """Sort a plan into stages, which may make it illegal; None if its first computations differ.

    Args:
        graph: problem of any device.
        names: names of the devices.
        plan: a legal plan.
    """
    position = {node.name: i for i, node in enumerate(graph.problem.nodes)}
    number = {name: d for d, name in enumerate(names)}
    stage = 0
    made: list[Made] = []
    for kind, name, device, target in plan:
        i, d = position[name], number[device]
        if kind is StepKind.FREE:
            continue
        first = kind is StepKind.COMPUTE and i == stage
        if kind is StepKind.COMPUTE and i > stage:
            return None
        # Copies and paging right after a tensor's first computation belong to the same stage.
        last = (
            i == stage - 1 and kind in (StepKind.COPY, StepKind.PAGE_OUT) and made[-1].stage < stage
        )
        at = stage - 1 if last else stage
        made.append(Made(at, i, kind, d, None if target is None else number[target]))
        stage += first
    return complete(graph, in_order(made))
