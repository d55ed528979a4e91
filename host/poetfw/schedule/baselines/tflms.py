# SPDX-License-Identifier: Apache-2.0
"""TFLMS: page along the edges that span the most levels of the graph.

T. D. Le, H. Imai, Y. Negishi, K. Kawachiya, "TFLMS: Large Model Support in TensorFlow by Graph
Rewriting", 2018: an edge from a forward to a backward op goes through swap-out and swap-in ops if
it spans more levels of the graph than a threshold, up to a number of tensors. The user tunes both;
here tensors are taken by decreasing distance, as many as the budget requires. The level of an op is
its longest path from an op without inputs.
"""

from __future__ import annotations

from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def tflms(problem: ScheduleProblem) -> ExecutionPlan:
    """Plan that pages the tensors of the longest distances.

    Raises:
        UnsuitableError: no storage, no two passes, or paging every tensor is not enough.
    """
    offloading = Offloading.of(problem, "tflms")
    level = _levels(offloading.graph)
    order = sorted(offloading.gaps, key=lambda gap: level[gap.tensor] - level[gap.end])
    return offloading.plan(offloading.first_that_fit(order), "tflms")


def _levels(graph: Indexed) -> list[int]:
    levels: list[int] = []
    for inputs in graph.inputs:
        levels.append(max((levels[u] + 1 for u in inputs), default=0))
    return levels
