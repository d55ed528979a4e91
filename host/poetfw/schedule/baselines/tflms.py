# SPDX-License-Identifier: Apache-2.0
"""TFLMS: page along the edges that span the longest distance.

T. D. Le, H. Imai, Y. Negishi, K. Kawachiya, "TFLMS: Large Model Support in TensorFlow by Graph
Rewriting", 2018: an edge from a forward to a backward op is rewritten to go through swap-out and
swap-in ops if it spans more levels of the graph than a threshold, and no more tensors are swapped
than asked for. The user tunes both; here tensors are taken by the longest distance first, as many
as the budget asks for. A level is the longest path from an op that reads nothing.
"""

from __future__ import annotations

from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def tflms(problem: ScheduleProblem) -> ExecutionPlan:
    """The plan that pages the tensors of the longest distances.

    Raises:
        UnsuitableError: there is no storage, there are no two passes, or paging all is not enough.
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
