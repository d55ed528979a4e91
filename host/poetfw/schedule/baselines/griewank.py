# SPDX-License-Identifier: Apache-2.0
"""Revolve: binomial checkpointing of a chain.

A. Griewank, A. Walther, "Algorithm 799: Revolve", ACM TOMS 26(1), 2000. With s checkpoints, the
input among them, the fewest forward steps that reverse a chain of l steps are

    t(l, s) = r l - C(s + r, r - 1)      with the least r such that C(s + r, s) ≥ l

(their equation 3), not counting the l steps that are differentiated. The steps are the segments of
the grouped chain, taken as equally expensive as in the paper; the checkpoints are the tensors
between them. A segment's saved tensors are computed when it is differentiated. The plan uses as
many checkpoints as fit.

The paper keeps the input in memory. If the input can be loaded again, it may leave RAM except while
the first segment runs: the same forward steps then take one checkpoint less of memory, and one load
per return to the input. Both variants are tried.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from math import comb

from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.chain import Chain, ChainWriter, chain_of
from poetfw.schedule.baselines.emitter import emit
from poetfw.schedule.baselines.passes import choose
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.simulator import accepts


def griewank(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Faster of two plans with as many checkpoints as fit: input kept, or input loaded again.

    Raises:
        UnsuitableError: the problem cannot be grouped into a chain, or no number of checkpoints
            fits.
        OutOfTime: the deadline has passed.
    """
    chain = chain_of(Indexed.of(problem), "griewank")
    plans = [_most_checkpoints(problem, chain, reload, deadline) for reload in (False, True)]
    return choose(chain.graph, plans, "griewank", deadline)


def _most_checkpoints(
    problem: ScheduleProblem, chain: Chain, reload: bool, deadline: Deadline
) -> ExecutionPlan:
    """Plan with the most checkpoints that fits; with the fewest if none fits."""
    for checkpoints in deadline.during(range(len(chain.segments), 0, -1)):
        plan = revolve(chain, checkpoints, reload)
        if accepts(problem, plan):
            break
    return plan


@cache
def forward_steps(steps: int, checkpoints: int) -> int:
    """t(l, s): the fewest forward steps, not counting those that are differentiated."""
    repeats = 0
    while comb(checkpoints + repeats, checkpoints) < steps:
        repeats += 1
    return repeats * steps - (comb(checkpoints + repeats, repeats - 1) if repeats else 0)


@cache
def next_checkpoint(steps: int, checkpoints: int) -> int:
    """Least number of steps, of 2 or more, after which to set the next of 2 or more checkpoints.

    The cost is convex in it, as t is convex in the number of steps.
    """

    def cost(m: int) -> int:
        return m + forward_steps(steps - m, checkpoints - 1) + forward_steps(m, checkpoints)

    return 1 + bisect_left(range(1, steps - 1), 0, key=lambda m: cost(m + 1) - cost(m))


def revolve(chain: Chain, checkpoints: int, reload: bool = False) -> ExecutionPlan:
    """Plan that reverses the chain with this many checkpoints, its input among them.

    Args:
        chain: the grouped problem.
        checkpoints: 1 or more.
        reload: True loads sources again for each read, where possible.
    """
    sources = chain.sources if reload else frozenset[int]()
    return emit(
        chain.graph, lambda emitter: _Reversal(chain, emitter, sources).reverse_all(checkpoints)
    )


class _Reversal(ChainWriter):
    """Writer of the steps of a reversal."""

    def reverse_all(self, checkpoints: int) -> None:
        # An explicit stack: long chains with few checkpoints nest deeply.
        todo: list[tuple[int, int, int]] = [(0, len(self.chain.segments), checkpoints)]
        while todo:
            low, high, free = todo.pop()
            if high - low == 1:
                self.differentiate(low)
                continue
            split = next_checkpoint(high - low, free) if free > 1 else high - low - 1
            self.advance(low, low + split)
            # With one checkpoint left, the segment that it advanced to is differentiated at once.
            todo.append((low, low + split, free))
            todo.append((low + split, high, max(1, free - 1)))

    def advance(self, low: int, high: int) -> None:
        """Advance from the checkpoint before segment `low` to the one before segment `high`."""
        for number in range(low, high):
            segment = self.chain.segments[number]
            self.forward(number)
            for i in self.chain.own(segment):
                if i != segment.output:
                    self.emitter.drop(i)
            if number > low and segment.input is not None:
                self.emitter.drop(segment.input)
            self.drop_sources()

    def forward(self, number: int) -> None:
        segment = self.chain.segments[number]
        if not self.emitter.computed(segment.forward[0]):
            for i in segment.forward:
                self.emitter.compute(i)
        elif segment.output is not None:
            self.emitter.ensure(segment.output)

    def differentiate(self, number: int) -> None:
        """Compute the segment's saved tensors if they are missing, then run its backward nodes."""
        segment = self.chain.segments[number]
        if not self.emitter.computed(segment.forward[0]):
            self.forward(number)
        self.reverse(segment)
