# SPDX-License-Identifier: Apache-2.0
"""POFO's dynamic program: the tensors of a chain to keep, page and recompute.

Theorem 1 of O. Beaumont, L. Eyraud-Dubois, J. Herrmann, A. Joly, A. Shilova, "Optimal checkpointing
for heterogeneous chains: how to train deep neural networks with limited memory", 2019: with x_i
the input of segment i, T(i, j, m) is the least recompute time to differentiate segments i … j in m
bytes besides x_i:

    T(i, j, m) = min of  f_i + T(i + 1, j, m - all_i)             keep all that segment i saves
                         f_i + … + f_{k-1} + T(k, j, m - x_k) + T(i, k - 1, m)    keep x_k only

The first forward pass has the same choices without compute cost, and may also page the tensors that
it keeps: a paged tensor costs channel time and takes RAM only while segments read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.chain import Chain, ChainWriter, Segment
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.chen_sqrt import keep_outputs
from poetfw.schedule.baselines.emitter import Emitter, emit
from poetfw.schedule.baselines.passes import last_forward_use, running_bytes
from poetfw.schedule.problem import ExecutionPlan

_SLOTS = 300
"""Number of slots that the budget is divided into."""

_UNITS = 64
"""Number of units of the channel's time, where transfers overlap with compute."""

_Values = NDArray[np.float64]
"""Seconds by number of RAM slots; in the first pass also by number of channel units."""


class ChainPoint(NamedTuple):
    """Amount of RAM and channel time, and the times of its best plan.

    Attributes:
        slots, units: RAM and channel time.
        core_s: seconds of compute, and of transfers that do not overlap with it.
        channel_s: seconds of transfers that overlap with compute; an estimate, rounded up.
    """

    slots: int
    units: int
    core_s: float
    channel_s: float


class _Choice(NamedTuple):
    """Choice at one segment.

    Attributes:
        split: the segment whose input is kept; the next segment where everything is kept.
        everything: True keeps all that the segment saves; False keeps only the input of `split`.
        page_saved: True pages the tensors that it saves.
        page_output: True pages the input of `split`.
    """

    split: int
    everything: bool
    page_saved: bool = False
    page_output: bool = False


class _Table:
    """Least cost of one state for each amount of RAM and channel time, and its choice."""

    def __init__(self, *shape: int) -> None:
        self.value: _Values = np.full(shape, np.inf)
        self._choices: list[_Choice] = []
        self._chosen = np.zeros(shape, dtype=np.int16)

    def offer(self, value: _Values, least_slots: int, choice: _Choice) -> None:
        """Record a choice for all amounts from `least_slots` on where it costs less than before."""
        better = value < self.value
        better[:least_slots] = False
        self._chosen[better] = len(self._choices)
        self._choices.append(choice)
        np.copyto(self.value, value, where=better)

    def choice(self, *amount: int) -> _Choice:
        """Best choice for this amount."""
        return self._choices[int(self._chosen[amount])]


class _Part(NamedTuple):
    """Segments low … high to differentiate in a number of slots.

    Attributes:
        first: True for the first forward pass, where `high` is the last segment.
        paged: True if the input is paged; `slots` then include it.
        units: remaining units of the channel's time.
    """

    low: int
    high: int
    slots: int
    first: bool = False
    paged: bool = False
    units: int = 0


class _Step(NamedTuple):
    """Compute segments low … high by a choice; without a choice, differentiate segment low."""

    low: int
    high: int
    choice: _Choice | None


class ChainProgram:
    """Dynamic program, solved for every amount of RAM up to a share of the budget.

    A segment's RAM besides the tensors that it keeps is measured in two runs: one keeps
    everything, the other only the tensors between segments. It is an estimate if the graph is not
    a plain chain.
    """

    def __init__(
        self, chain: Chain, largest_share: float, reload: bool, deadline: Deadline
    ) -> None:
        """Solve the program.

        Args:
            chain: the grouped problem.
            largest_share: largest share of the budget that points may have.
            reload: True drops sources and loads them again for each read.
            deadline: time limit.

        Raises:
            OutOfTime: the deadline has passed.
        """
        self._chain = chain
        self._graph = chain.graph
        self._nodes = chain.graph.problem.nodes
        self._count = len(chain.segments)
        self._reloaded = frozenset(i for i in chain.sources if reload and not self._nodes[i].inputs)
        self._resident = self._bytes(*(chain.sources - self._reloaded))
        ram_bytes = chain.graph.problem.ram_bytes
        self._slot_bytes = max(1.0, (ram_bytes - self._resident) / _SLOTS)
        self._slots = int(_SLOTS * largest_share)
        self._saved = [self._bytes(*segment.saved) for segment in chain.segments]
        self._output = [self._bytes(*_output(segment)) for segment in chain.segments]
        self._input = [0, *self._output]
        self._measure_bytes()
        self._measure_seconds()
        self._again: dict[tuple[int, int], _Table] = {}
        for length in deadline.during(range(self._count)):
            for i in range(self._count - length):
                self._again[i, i + length] = self._solve_again(i, i + length)
        self._first: dict[tuple[int, bool], _Table] = {}
        for i in deadline.during(reversed(range(self._count))):
            for paged in (False, True):
                self._first[i, paged] = self._solve_first(i, paged)

    def points(self, share: float) -> list[ChainPoint]:
        """Points of this share of the budget, one per amount of channel time that saves time."""
        slots = min(self._slots, int(_SLOTS * share))
        row = self._first[0, False].value[slots]
        better = row < np.minimum.accumulate([np.inf, *row])[:-1]
        once_s = math.fsum(node.time_s for node in self._nodes)
        return [
            ChainPoint(slots, int(u), once_s + float(row[u]), float(u) * self._unit_s)
            for u in np.flatnonzero(better)
        ]

    def plan(self, point: ChainPoint) -> ExecutionPlan:
        """Plan of a point."""
        steps = list(self._steps(point))
        return emit(
            self._graph, lambda emitter: _Writer(self._chain, emitter, self._reloaded).write(steps)
        )

    # Bytes and seconds of segments ----------------------------------------------------------

    def _bytes(self, *tensors: int) -> int:
        return sum(self._graph.size[i] for i in tensors)

    def _to_slots(self, size: int) -> int:
        return max(0, math.ceil(size / self._slot_bytes))

    def _measure_bytes(self) -> None:
        """Measure bytes per segment, besides its input and the tensors kept for other segments.

        `_forward`: forward run that keeps all saved tensors; `_advance`: forward run without them;
        `_backward`: backward run; `_gradient`: gradient resident at the start of `_backward`.
        """
        graph, chain = self._graph, self._chain
        kept = running_bytes(graph, checkpoint_all(graph))
        light = running_bytes(graph, keep_outputs(chain, range(self._count - 1)))
        self._forward, self._advance, self._backward, self._gradient = [], [], [], []
        saved = outputs = 0
        for number, segment in enumerate(chain.segments):
            beside = self._bytes(*chain.sources) if number else self._resident
            before = beside + outputs + saved
            start = segment.backward.start
            self._forward.append(max(kept[i] for i in segment.forward) - before)
            self._advance.append(max(light[i] for i in segment.forward) - beside - outputs)
            self._backward.append(max((kept[i] for i in segment.backward), default=0) - before)
            waiting = (
                t
                for t in range(chain.forward, start)
                if max(graph.consumers[t], default=t) >= start
            )
            self._gradient.append(self._bytes(*waiting))
            saved += self._saved[number]
            outputs += self._output[number]

    def _measure_seconds(self) -> None:
        """Measure seconds to recompute each segment, for the next or itself, and to transfer."""
        chain, problem = self._chain, self._graph.problem
        self._compute_s = [
            math.fsum(self._nodes[i].time_s for i in chain.own(segment) if self._nodes[i].recompute)
            for segment in chain.segments
        ]
        self._prepare_s = [
            time_s if saved else 0.0
            for time_s, saved in zip(self._compute_s, self._saved, strict=True)
        ]
        read_first = self._reloaded & set(chain.segments[0].forward)
        loads_s = math.fsum(self._nodes[i].time_s for i in read_first)
        self._compute_s[0] += loads_s
        self._prepare_s[0] += loads_s
        self._save_s = [self._transfer_s(*segment.saved) for segment in chain.segments]
        self._send_s = [self._transfer_s(*_output(segment)) for segment in chain.segments]
        overlap = problem.storage is not None and problem.storage.overlap
        self._units = _UNITS if overlap else 0
        all_s = math.fsum(s for s in (*self._save_s, *self._send_s) if s < math.inf)
        self._unit_s = all_s / _UNITS

    def _transfer_s(self, *tensors: int) -> float:
        storage = self._graph.problem.storage
        if storage is None or not all(self._graph.pageable[i] for i in tensors):
            return math.inf
        sizes = [self._graph.size[i] for i in tensors]
        return math.fsum(storage.page_out_time_s(s) + storage.page_in_time_s(s) for s in sizes)

    def _moves_s(self, i: int, choice: _Choice) -> float:
        """Seconds of channel time of a choice at segment i."""
        saved_s = self._save_s[i] if choice.page_saved else 0.0
        return saved_s + (self._send_s[choice.split - 1] if choice.page_output else 0.0)

    def _to_units(self, moves_s: float) -> int:
        return math.ceil(moves_s / self._unit_s * (1 - 1e-9)) if moves_s else 0

    def _keeps(self, i: int, choice: _Choice) -> int:
        """Number of slots still occupied after a choice at segment i."""
        saved = self._saved[i] if choice.everything and not choice.page_saved else 0
        return self._to_slots(saved + (0 if choice.page_output else self._output[choice.split - 1]))

    # The recurrences ------------------------------------------------------------------------

    def _solve_again(self, i: int, j: int) -> _Table:
        """T(i, j, ·), with only x_i resident of these segments."""
        table = _Table(self._slots + 1)
        gradient, backward = self._gradient[j], self._backward[i]
        if i == j:
            needs = max(backward, self._forward[i] + gradient if self._saved[i] else 0)
            value = np.full(self._slots + 1, self._prepare_s[i])
            table.offer(value, self._to_slots(needs), _Choice(j + 1, True))
            return table
        choice = _Choice(i + 1, True)
        rest = _after(self._again[i + 1, j].value, self._keeps(i, choice))
        needs = max(backward, self._forward[i] + gradient)
        table.offer(self._compute_s[i] + rest, self._to_slots(needs), choice)
        advance_s, needs = 0.0, 0
        for k in range(i + 1, j + 1):
            choice = _Choice(k, False)
            advance_s += self._compute_s[k - 1]
            read = self._input[k - 1] if k - 1 > i else 0
            needs = max(needs, self._advance[k - 1] + read + gradient)
            rest = _after(self._again[k, j].value, self._keeps(i, choice))
            value = advance_s + rest + self._again[i, k - 1].value
            table.offer(value, self._to_slots(needs), choice)
        return table

    def _solve_first(self, i: int, paged: bool) -> _Table:
        """Least time from segment i to the end in the first forward pass.

        If x_i is `paged`, the RAM includes it: it is resident while segments read it. Of choices
        with equal cost, the one that pages earliest wins.
        """
        table = _Table(self._slots + 1, self._units + 1)
        read = self._input[i] if paged else 0
        needs = max(self._forward[i], self._backward[i]) + read
        if i == self._count - 1:
            value = np.zeros_like(table.value)
            table.offer(value, self._to_slots(needs), _Choice(self._count, True))
            return table
        for page_saved in (True, False) if self._saved[i] else (False,):
            for page_output in (True, False):
                choice = _Choice(i + 1, True, page_saved, page_output)
                self._offer_first(table, i, choice, needs, 0.0)
        needs = 0
        for k in range(i + 1, self._count):
            needs = max(needs, self._advance[k - 1] + (self._input[k - 1] if k - 1 > i else read))
            again = _after(self._again[i, k - 1].value, self._to_slots(read))[:, np.newaxis]
            for page_output in (True, False):
                choice = _Choice(k, False, False, page_output)
                self._offer_first(table, i, choice, needs, again)
        return table

    def _offer_first(
        self, table: _Table, i: int, choice: _Choice, needs: int, again: _Values | float
    ) -> None:
        """Offer a choice at segment i, with the time to recompute up to its split."""
        moves_s = self._moves_s(i, choice)
        if moves_s == math.inf:
            return
        rest = self._first[choice.split, choice.page_output].value
        value = _after(rest, self._keeps(i, choice)) + again
        if self._units:
            value = _after(value.T, self._to_units(moves_s)).T
        else:
            value += moves_s
        table.offer(value, self._to_slots(needs), choice)

    # Backtracking -----------------------------------------------------------------------------

    def _steps(self, point: ChainPoint) -> Iterator[_Step]:
        """Steps in order, from an explicit stack of parts to run and segments to differentiate."""
        last = self._count - 1
        todo: list[_Part | int] = [_Part(0, last, point.slots, first=True, units=point.units)]
        while todo:
            part = todo.pop()
            if isinstance(part, int):
                yield _Step(part, part, None)
                continue
            low, high, slots, first, paged, units = part
            if first:
                choice = self._first[low, paged].choice(slots, units)
            else:
                choice = self._again[low, high].choice(slots)
            yield _Step(low, choice.split - 1, choice)
            if choice.everything:
                todo.append(low)
            else:
                beside = self._to_slots(self._input[low]) if paged else 0
                todo.append(_Part(low, choice.split - 1, slots - beside))
            if low < high:
                left = slots - self._keeps(low, choice)
                if first and self._units:
                    units -= self._to_units(self._moves_s(low, choice))
                todo.append(_Part(choice.split, high, left, first, choice.page_output, units))


def _output(segment: Segment) -> tuple[int, ...]:
    return () if segment.output is None else (segment.output,)


def _after(value: _Values, taken: int) -> _Values:
    """Value for each amount, given that `taken` slots or units are occupied."""
    rest = np.full_like(value, np.inf)
    if taken < len(value):
        rest[taken:] = value[: len(value) - taken]
    return rest


class _Writer(ChainWriter):
    """Writer of the chosen steps."""

    def __init__(self, chain: Chain, emitter: Emitter, reloaded: frozenset[int]) -> None:
        super().__init__(chain, emitter, reloaded)
        self._leaving: dict[int, list[int]] = {}

    def write(self, steps: list[_Step]) -> None:
        for low, high, choice in steps:
            if choice is None:
                self.reverse(self.chain.segments[low])
            else:
                self._advance(low, high, choice)

    def _advance(self, low: int, high: int, choice: _Choice) -> None:
        for number in range(low, high + 1):
            segment = self.chain.segments[number]
            saved = segment.saved if choice.everything else ()
            output = _output(segment)
            paged = (
                *(saved if choice.page_saved else ()),
                *(output if choice.page_output and number == high else ()),
            )
            for i in paged:
                last = last_forward_use(self.chain.graph, self.chain.forward, i)
                self._leaving.setdefault(last, []).append(i)
            self._forward(segment, choice.everything)
            for i in self.chain.own(segment):
                if i not in (*saved, *output):
                    self.emitter.drop(i)
            if number > low and segment.input is not None:
                self.emitter.drop(segment.input)
            self.drop_sources()

    def _forward(self, segment: Segment, everything: bool) -> None:
        if not self.emitter.computed(segment.forward[0]):
            for i in segment.forward:
                self.emitter.compute(i)
                for gone in self._leaving.get(i, ()):
                    self.emitter.page(gone)
        else:
            for i in segment.saved if everything else _output(segment):
                self.emitter.ensure(i)
