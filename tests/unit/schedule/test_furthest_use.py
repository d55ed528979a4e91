# SPDX-License-Identifier: Apache-2.0
"""Belady's rule for tensors, against the rule as it is written, and how its steps grow."""

from __future__ import annotations

import sys

from made_problems import SD_CARD, random_problem
from poetfw.schedule import Node, ScheduleProblem, StepKind
from poetfw.schedule.baselines.furthest_use import furthest_use
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.simulator import accepts


def paged_by_the_rule(graph: Indexed) -> list[tuple[int, int]] | None:
    """Stages and tensors of page-ins; None if RAM does not suffice."""
    held: list[int] = []
    found = []
    for t in range(graph.n):

        def next_use(i: int, t: int = t) -> int:
            return min([j for j in graph.consumers[i] if j > t], default=graph.n)

        found += [(t, i) for i in graph.inputs[t] if i not in held]
        held = sorted({*held, *graph.inputs[t]})
        taken, size = graph.in_place[t], graph.size
        over = taken is not None and next_use(taken) == graph.n
        gone = size[taken] if over and taken is not None else 0
        needed = size[t] + graph.workspace[t] - gone
        may = [i for i in held if graph.pageable[i] and i not in graph.inputs[t]]
        if taken is not None and not over and graph.pageable[taken]:
            may.append(taken)
        while sum(size[i] for i in held) + needed > graph.problem.ram_bytes:
            if not may:
                return None
            furthest = max(may, key=lambda i: (next_use(i), size[i], -i))
            may.remove(furthest)
            held.remove(furthest)
        held = [i for i in {*held, t} if size[i] and next_use(i) < graph.n]
    return found


def test_what_is_read_furthest_ahead_is_paged() -> None:
    plans = 0
    for seed in range(300):
        problem = random_problem(seed, 5 + seed % 12, (0.0, 0.2, 0.5)[seed % 3], seed % 4 == 0)
        graph = Indexed.of(problem)
        plan, expected = furthest_use(graph), paged_by_the_rule(graph)
        assert (plan is None) == (expected is None)
        if plan is not None and expected is not None:
            paged = [step.node for step in plan if step.kind is StepKind.PAGE_IN]
            assert sorted(paged) == sorted(problem.nodes[i].name for _, i in expected)
            assert accepts(problem, plan)
            plans += 1
    assert plans > 150


def test_twice_the_nodes_take_about_twice_the_steps() -> None:
    """Lines of the module that run, for chains whose tensors all wait for the backward pass."""
    steps = [lines_run(chain(links)) for links in (500, 1_000)]
    assert steps[1] < 2.5 * steps[0]


def chain(links: int) -> Indexed:
    nodes = [Node("f0", (), 1.0, 1.0, 8)]
    nodes += [Node(f"f{i}", (f"f{i - 1}",), 1.0, 1.0, 8) for i in range(1, links)]
    gradient = nodes[-1].name
    for i in reversed(range(links)):
        nodes.append(Node(f"b{i}", (f"f{i}", gradient), 1.0, 1.0, 8, backward=True))
        gradient = f"b{i}"
    return Indexed.of(ScheduleProblem("chain", 4 * links, None, SD_CARD, tuple(nodes)))


def lines_run(graph: Indexed) -> int:
    lines = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        assert furthest_use(graph) is not None
    finally:
        sys.settrace(before)
    return lines
