# SPDX-License-Identifier: Apache-2.0
"""The published methods against trying every plan."""

from __future__ import annotations

import pytest
from brute_force import least_energy

from poetfw.schedule import Node, ScheduleProblem, simulate
from poetfw.schedule.baselines.registry import BASELINES


def alike(links: int, slots: int) -> ScheduleProblem:
    """A chain of links that are alike, in RAM for so many tensors; only links take energy."""
    nodes = [Node("x", (), 0.0, 0.0, 1)]
    for i in range(links):
        nodes.append(Node(f"f{i}", (nodes[-1].name,), 1.0, 1.0, 1))
    gradient = nodes[-1].name
    for i in reversed(range(links)):
        nodes.append(Node(f"b{i}", (nodes[i].name, gradient), 1.0, 0.0, 1, backward=True))
        gradient = f"b{i}"
    return ScheduleProblem("alike", slots, None, None, tuple(nodes))


@pytest.mark.parametrize(
    ("links", "slots"),
    [(6, 4), (7, 4), *(pytest.param(n, s, marks=pytest.mark.slow) for n, s in [(12, 4), (9, 5)])],
)
def test_binomial_checkpointing_computes_no_link_too_often(links: int, slots: int) -> None:
    problem = alike(links, slots)
    plan = BASELINES["griewank"].plan(problem)
    assert simulate(problem, plan).energy_j == least_energy(problem, in_order=False)
