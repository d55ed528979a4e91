# SPDX-License-Identifier: Apache-2.0
"""Random graphs by number, and how tests say which of them they have checked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from made_problems import random_problem
from poetfw.schedule import Node, ScheduleProblem
from poetfw.schedule.indexed import Indexed

GRAPHS = range(10_000)
"""Numbers of all that are checked; a test may take some of them."""

CHECKED = "random graphs"
"""The property (pytest's `record_property`) under which a test records the numbers it checked."""


def random_graph(number: int) -> ScheduleProblem:
    """5 to 14 nodes of every kind, the same for the same number.

    Workspaces, outputs without bytes, and what may not be recomputed, paged, or recomputed after
    another node are in three of four; ops that write in place in half; a deadline in a third; one
    in five has no storage, and where there is one, a third overlaps transfers with computing.
    """
    rng = random.Random(number)
    slack = rng.choice((0.0, 0.2, 0.4, 0.6, 0.8))
    problem = random_problem(number, rng.randint(5, 14), slack, plain=rng.random() < 0.25)
    if rng.random() < 0.5:
        problem = with_in_place(problem, number)
    problem = _with_convolutions(problem)
    if rng.random() < 0.2:
        problem = replace(problem, storage=None)
    elif problem.storage is not None and rng.random() < 0.33:
        problem = replace(problem, storage=replace(problem.storage, overlap=True))
    if rng.random() < 0.33:
        once_s = sum(node.time_s for node in problem.nodes)
        problem = replace(problem, deadline_s=rng.uniform(1.0, 2.0) * once_s)
    return problem


def with_in_place(problem: ScheduleProblem, seed: int) -> ScheduleProblem:
    """The problem with some nodes as large as an input of theirs, which they may take over."""
    rng = random.Random(seed)
    made: dict[str, Node] = {}
    for node in problem.nodes:
        sized = [name for name in node.inputs if made[name].output_bytes]
        if sized and node.output_bytes and rng.random() < 0.6:
            taken = rng.choice(sized)
            node = replace(node, in_place=taken, output_bytes=made[taken].output_bytes)
        made[node.name] = node
    resized = replace(problem, nodes=tuple(made.values()))
    floor = max(map(Indexed.of(resized).working_set, range(len(made))))
    return replace(resized, ram_bytes=max(resized.ram_bytes, floor))


def _with_convolutions(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem with every third node called a convolution, by which vDNN goes."""
    names = {
        node.name: f"conv{i}" if i % 3 == 1 else node.name for i, node in enumerate(problem.nodes)
    }

    def renamed(node: Node) -> Node:
        return replace(
            node,
            name=names[node.name],
            inputs=tuple(names[name] for name in node.inputs),
            recompute_before=names.get(node.recompute_before or ""),
            in_place=names.get(node.in_place or ""),
        )

    return replace(problem, nodes=tuple(map(renamed, problem.nodes)))


def chunks(numbers: range, size: int) -> list[object]:
    """Parameters for a test: at most `size` numbers each. Only the first is quick."""
    parts = [numbers[first : first + size] for first in range(0, len(numbers), size)]
    return [
        pytest.param(
            part,
            id=f"{part[0]}-{part[-1]}",
            marks=[pytest.mark.slow] if part[0] != numbers[0] else (),
        )
        for part in parts
    ]


@contextmanager
def about(problem: ScheduleProblem) -> Iterator[None]:
    """Have whatever fails inside say of which problem."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{problem.name}, in {problem.ram_bytes:,} bytes")
        raise
