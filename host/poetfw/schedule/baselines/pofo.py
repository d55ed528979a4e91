# SPDX-License-Identifier: Apache-2.0
"""POFO: offload and recompute on a chain, by dynamic programming.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Efficient Combination of Rematerialization and
Offloading for Training DNNs", NeurIPS 2021.

Differences from the paper: the dynamic program counts total channel time, not the times when the
channel is idle, and gives the least recompute time for every amount of RAM and channel time. Plans
of a sample of these amounts are run on the timeline, and the fastest wins. Less RAM than the budget
leaves room for transfers in progress; more is tried because a segment's RAM is an estimate. The
smallest saved tensors, 1% of the budget in all, stay in RAM: batch statistics take far longer to
recompute than their bytes are worth. Long chains are grouped into at most 48 segments.
"""

from __future__ import annotations

import math
from dataclasses import replace

from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.chain import Chain, Segment, chain_of
from poetfw.schedule.baselines.chain_program import ChainPoint, ChainProgram
from poetfw.schedule.baselines.passes import require, shortfall
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.simulator import accepts, simulate, unlimited
from poetfw.schedule.transfers import hasten_page_ins, plan_transfers

_LONGEST_CHAIN = 48
_SMALL_SHARE = 0.01
_SHARES = (1.0, 1.05, 1.15, 1.3, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
"""Shares of the budget to run the program with."""
_RELOAD_SHARES = (1.0, 1.05)
"""Shares of the budget where sources are loaded again instead of kept in RAM."""
_STRIDE = 8
"""Step between the points to try."""
_NODES_RUN = 16_000
"""Most nodes, in all, of the plans to try."""
_FEWEST_TRIED = 16


def pofo(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Fastest plan, on the timeline, of those that the dynamic program suggests.

    Raises:
        UnsuitableError: the problem cannot be grouped into a chain, or no choice fits.
        OutOfTime: the deadline has passed.
    """
    chain = _without_small(_shortened(chain_of(Indexed.of(problem), "pofo")))
    search = _Search(replace(problem, deadline_s=None), chain, deadline)
    search.run(deadline)
    if search.best is None:
        if not search.unfit:
            raise UnsuitableError("pofo", f"no choice fits in {problem.budget_bytes:,} bytes")
        closest = min((unlimited(problem, p) for p in search.unfit), key=lambda s: s.peak_bytes)
        raise UnsuitableError("pofo", shortfall(chain.graph, closest))
    return require(chain.graph, plan_transfers(problem, search.best, deadline), "pofo")


_Place = tuple[int, int]
"""Index of a share of the budget, and index of one of its points."""


class _Search:
    """Search over the points, with plans run on the timeline.

    Attributes:
        best: the fastest plan so far.
        unfit: plans that exceed the RAM.
    """

    def __init__(self, problem: ScheduleProblem, chain: Chain, deadline: Deadline) -> None:
        self.best: ExecutionPlan | None = None
        self.unfit: list[ExecutionPlan] = []
        self._problem = problem
        self._best_s = math.inf
        self._best_place = (0, 0)
        self._left = max(_FEWEST_TRIED, _NODES_RUN // len(problem.nodes))
        keep = ChainProgram(chain, max(_SHARES), False, deadline)
        reload = ChainProgram(chain, max(_RELOAD_SHARES), True, deadline)
        shares = [(keep, share) for share in _SHARES]
        shares += [(reload, share) for share in _RELOAD_SHARES]
        self._untried: dict[_Place, tuple[ChainProgram, ChainPoint]] = {
            (row, column): (program, point)
            for row, (program, share) in enumerate(shares)
            for column, point in enumerate(program.points(share))
        }

    def run(self, deadline: Deadline) -> None:
        """Try the most promising points, evenly spread points, and those near the best."""
        points = {place: point for place, (_, point) in self._untried.items()}
        promise = sorted(points, key=lambda at: max(points[at].core_s, points[at].channel_s))
        evenly = sorted((c, r) for r, c in points if c % _STRIDE == 0)
        for place in deadline.during((*promise[: self._left // 3], *((r, c) for c, r in evenly))):
            self._try(place)
        stride = _STRIDE
        while stride := stride // 2:
            row, column = self._best_place
            for r in deadline.during((row - 1, row, row + 1)):
                self._try((r, column - stride))
                self._try((r, column + stride))

    def _try(self, place: _Place) -> None:
        """Run the plan of a point, unless it was run already or cannot be the best."""
        if not self._left or place not in self._untried:
            return
        program, point = self._untried.pop(place)
        if point.core_s >= self._best_s:
            return
        plan = program.plan(point)
        if not accepts(self._problem, plan):
            self.unfit.append(plan)
            return
        self._left -= 1
        plan = hasten_page_ins(self._problem, plan)
        time_s = simulate(self._problem, plan).time_s
        if time_s < self._best_s:
            self.best, self._best_s, self._best_place = plan, time_s, place


def _shortened(chain: Chain) -> Chain:
    """Join neighbouring segments until the chain is short enough.

    A segment whose output the backward pass does not read, such as a batch norm before its ReLU, is
    always joined with the next: keeping that output would gain nothing.
    """
    segments: list[Segment] = []
    for segment in chain.segments:
        if segments and not _read_backward(chain, segments[-1].output):
            segment = _joined(segments.pop(), segment, ())
        segments.append(segment)
    while len(segments) > _LONGEST_CHAIN:
        sizes = [sum(chain.graph.size[i] for i in chain.own(segment)) for segment in segments]
        at = min(range(len(segments) - 1), key=lambda s: sizes[s] + sizes[s + 1])
        first, second = segments[at : at + 2]
        assert first.output is not None
        segments[at : at + 2] = [_joined(first, second, (first.output,))]
    return replace(chain, segments=tuple(segments))


def _read_backward(chain: Chain, i: int | None) -> bool:
    return i is not None and any(j >= chain.forward for j in chain.graph.consumers[i])


def _joined(first: Segment, second: Segment, crossing: tuple[int, ...]) -> Segment:
    """Join two neighbours; the joined segment also saves the tensors that cross between them."""
    return Segment(
        range(first.forward.start, second.forward.stop),
        range(second.backward.start, first.backward.stop),
        first.input,
        second.output,
        (*first.saved, *crossing, *second.saved),
    )


def _without_small(chain: Chain) -> Chain:
    """Treat the smallest saved tensors, such as batch statistics, like sources that are kept."""
    size = chain.graph.size
    left = _SMALL_SHARE * chain.graph.problem.ram_bytes
    small = set()
    for i in sorted((i for s in chain.segments for i in s.saved), key=lambda i: (size[i], i)):
        left -= size[i]
        if left < 0:
            break
        small.add(i)
    segments = tuple(
        replace(segment, saved=tuple(i for i in segment.saved if i not in small))
        for segment in chain.segments
    )
    return replace(chain, segments=segments, sources=chain.sources | small)
