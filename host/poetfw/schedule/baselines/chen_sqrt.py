# SPDX-License-Identifier: Apache-2.0
"""Chen et al.: √n segments, each computed again as a whole.

T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016,
section 4.1: a chain of n links is divided into √n segments; the forward pass keeps only what
passes from one segment to the next, and the backward pass computes each segment again before it
differentiates it. Here the links are the segments of the grouped chain, as in their section 4.3 the
nodes of a graph are cut where one tensor separates it. The last segment's tensors are wanted at
once, so they are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from poetfw.schedule.baselines.chain import Chain, chain_of
from poetfw.schedule.baselines.passes import bridge, require
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def chen_sqrt(problem: ScheduleProblem) -> ExecutionPlan:
    """The plan of √n segments, whatever the budget.

    Raises:
        UnsuitableError: the problem cannot be grouped into a chain, or the plan does not fit.
    """
    chain = chain_of(Indexed.of(problem), "chen-sqrt")
    links = len(chain.segments)
    parts = max(1, round(math.sqrt(links)))
    kept = [round(links * part / parts) - 1 for part in range(1, parts)]
    return require(chain.graph, keep_outputs(chain, kept), "chen-sqrt")


def keep_outputs(chain: Chain, kept: Sequence[int]) -> ExecutionPlan:
    """The plan that keeps the outputs of these segments and drops the rest until it is wanted.

    Args:
        chain: the grouped problem.
        kept: numbers of segments, ascending. What comes after the last of them is not dropped.
    """
    dropped: set[int] = set()
    for number in range(kept[-1] + 1 if kept else 0):
        segment = chain.segments[number]
        dropped.update(i for i in chain.own(segment) if i != segment.output or number not in kept)
    return bridge(chain.graph, chain.forward, recompute=dropped)
