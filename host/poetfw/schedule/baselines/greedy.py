# SPDX-License-Identifier: Apache-2.0
"""Greedy offloading: page the tensors with the longest gaps until the rest fits.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural
Network Training", Euro-Par 2020, the first of their two heuristics: offload activations in the
order of the forward pass, as many as the budget requires. Their relaxation offloads part of the
last one; here a tensor moves as a whole.
"""

from __future__ import annotations

from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def greedy(problem: ScheduleProblem) -> ExecutionPlan:
    """Plan that pages the first tensors of the forward pass.

    Raises:
        UnsuitableError: no storage, no two passes, or paging every tensor is not enough.
    """
    offloading = Offloading.of(problem, "greedy")
    return offloading.plan(offloading.first_that_fit(offloading.gaps), "greedy")
