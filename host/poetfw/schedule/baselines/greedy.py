# SPDX-License-Identifier: Apache-2.0
"""Greedy offloading: page what waits longest until the rest fits.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural
Network Training", Euro-Par 2020, the first of their two heuristics: activations are offloaded in
the order in which the forward pass makes them, as many as the budget asks for. Their relaxation
lets part of the last one stay; here each is moved as a whole.
"""

from __future__ import annotations

from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def greedy(problem: ScheduleProblem) -> ExecutionPlan:
    """The plan that pages the first tensors of the forward pass.

    Raises:
        UnsuitableError: there is no storage, there are no two passes, or paging all is not enough.
    """
    offloading = Offloading.of(problem, "greedy")
    return offloading.plan(offloading.first_that_fit(offloading.gaps), "greedy")
