# SPDX-License-Identifier: Apache-2.0
"""Lowering of the productions of each stage and device to a linear plan."""

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
    """Something that a stage does with a node: all but freeing, which follows from the rest.

    Attributes:
        stage: in which node `stage` is computed for the first time.
        node: its number.
        kind: what is done.
        device: where, by number; of a copy the source.
        target: of a copy, the number of the other device.
    """

    stage: int
    node: int
    kind: StepKind
    device: int
    target: int | None = None


def in_order(made: Iterable[Made]) -> list[Made]:
    """The tensors in the order in which a plan in stages makes them.

    A stage goes through the nodes in their order: each is computed, then paged in, then copied.
    """
    return sorted(made, key=lambda x: (x.stage, x.node, _ORDER[x.kind], x.device, x.target or 0))


def complete(graph: Indexed, made: Iterable[Made]) -> list[Made]:
    """The plan that does this with the least RAM: tensors are freed after their last use.

    What nobody uses is left out.

    Args:
        graph: any device's.
        made: in order.
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
                    reverse.append(free(taken))  # right after the op, which takes it over
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
    """The plan by names.

    Args:
        graph: any device's.
        names: of the devices.
        steps: complete.
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
    """A plan put into stages, which may make it illegal; None if it has another first order.

    Args:
        graph: any device's.
        names: of the devices.
        plan: a legal one.
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
        # What moves a tensor right after its first computation is of the same stage.
        last = (
            i == stage - 1 and kind in (StepKind.COPY, StepKind.PAGE_OUT) and made[-1].stage < stage
        )
        at = stage - 1 if last else stage
        made.append(Made(at, i, kind, d, None if target is None else number[target]))
        stage += first
    return complete(graph, in_order(made))
