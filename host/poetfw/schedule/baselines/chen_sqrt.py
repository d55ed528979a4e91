# SPDX-License-Identifier: Apache-2.0
"""Chen et al.: √n segments, each recomputed as a whole.

T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016,
section 4.1: a chain of n links is divided into √n segments. The forward pass keeps only the tensors
between segments; the backward pass recomputes each segment before it differentiates it. Here the
links are the segments of the grouped chain, cut where one tensor separates the graph, as in section
4.3. The tensors of the last segment are kept, because the backward pass reads them first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from poetfw.schedule.baselines.chain import Chain, chain_of
from poetfw.schedule.baselines.passes import bridge, require
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def chen_sqrt(problem: ScheduleProblem) -> ExecutionPlan:
    """Plan of √n segments, independent of the budget.

    Raises:
        UnsuitableError: the problem cannot be grouped into a chain, or the plan does not fit.
    """
    chain = chain_of(Indexed.of(problem), "chen-sqrt")
    links = len(chain.segments)
    parts = max(1, round(math.sqrt(links)))
    kept = [round(links * part / parts) - 1 for part in range(1, parts)]
    return require(chain.graph, keep_outputs(chain, kept), "chen-sqrt")


def keep_outputs(chain: Chain, kept: Sequence[int]) -> ExecutionPlan:
    """Plan that keeps the outputs of these segments and recomputes the other tensors.

    Args:
        chain: the grouped problem.
        kept: segment indices, ascending. Tensors after the last of them are kept.
    """
    dropped: set[int] = set()
    for number in range(kept[-1] + 1 if kept else 0):
        segment = chain.segments[number]
        dropped.update(i for i in chain.own(segment) if i != segment.output or number not in kept)
    return bridge(chain.graph, chain.forward, recompute=dropped)
