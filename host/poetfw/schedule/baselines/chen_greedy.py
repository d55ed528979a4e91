# SPDX-License-Identifier: Apache-2.0
"""Chen et al.: segments of about b bytes, with b chosen for the budget.

T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016,
Algorithm 3 (memory planning with a budget) and section 4.3 (search over b). Their algorithm may end
a segment at any node the user allows; here it may at each articulation point of the forward pass.
"""

from __future__ import annotations

from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.chain import Chain, chain_of
from poetfw.schedule.baselines.chen_sqrt import keep_outputs
from poetfw.schedule.baselines.passes import choose
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem

_LONGEST_SWEEP = 200
"""Number of divisions that are tried; of more, evenly spaced ones."""


def chen_greedy(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """The fastest plan within the budget that any b leads to.

    Raises:
        UnsuitableError: the problem cannot be grouped into a chain, or no b leads to a plan that
            fits.
        OutOfTime: the deadline has passed.
    """
    chain = chain_of(Indexed.of(problem), "chen-greedy")
    divisions = sorted(_divisions(chain), key=lambda kept: (len(kept), kept))
    stride = -(-len(divisions) // _LONGEST_SWEEP)
    plans = [keep_outputs(chain, kept) for kept in deadline.during(divisions[::stride])]
    return choose(chain.graph, plans, "chen-greedy", deadline)


def _divisions(chain: Chain) -> set[tuple[int, ...]]:
    """The divisions of Algorithm 3, for each b that makes a difference."""
    sizes = [sum(chain.graph.size[i] for i in chain.own(segment)) for segment in chain.segments]
    divisions = set()
    limit = 0
    while True:
        kept: list[int] = []
        # The next larger b that changes anything is the smallest sum that exceeded this one.
        larger = []
        part = 0
        for number, size in enumerate(sizes[:-1]):
            part += size
            if part > limit:
                kept.append(number)
                larger.append(part)
                part = 0
        divisions.add(tuple(kept))
        if not larger:
            return divisions
        limit = min(larger)
