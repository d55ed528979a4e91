# SPDX-License-Identifier: Apache-2.0
"""Chen et al.: segments of about b bytes, with b searched for the budget.

T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016,
Algorithm 3 (memory planning with a budget) and section 4.3 (search over b). In the paper, a segment
may end at any node that the user marks; here, at each articulation point of the forward pass.
"""

from __future__ import annotations

from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.chain import Chain, chain_of
from poetfw.schedule.baselines.chen_sqrt import keep_outputs
from poetfw.schedule.baselines.passes import choose
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem

_LONGEST_SWEEP = 200
"""Most divisions to try; if there are more, evenly spaced ones are tried."""


def chen_greedy(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Fastest plan within the budget over all b.

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
    """Distinct divisions that Algorithm 3 makes over all b."""
    sizes = [sum(chain.graph.size[i] for i in chain.own(segment)) for segment in chain.segments]
    divisions = set()
    limit = 0
    while True:
        kept: list[int] = []
        # The next larger b with another division is the smallest sum that exceeded this one.
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
