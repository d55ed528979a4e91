# SPDX-License-Identifier: Apache-2.0
"""POFO: offload and recompute on a chain, by dynamic programming.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Efficient Combination of Rematerialization and
Offloading for Training DNNs", NeurIPS 2021, on top of their optimal rematerialization ("Optimal
checkpointing for heterogeneous chains: how to train deep neural networks with limited memory",
2019, Theorem 1). With x_i what segment i reads, T(i, j, m) is the least time that recomputing
takes when segments i … j are differentiated in m bytes besides x_i:

    T(i, j, m) = min of  f_i + T(i + 1, j, m - all_i)             keep all that segment i saves
                         f_i + … + f_{k-1} + T(k, j, m - x_k) + T(i, k - 1, m)    keep x_k only

The first way through the chain has the same choices, each with what is kept also paged out and in
instead, which takes no RAM but time on the channel.

Where this differs from the paper: it weighs the channel's time with a price instead of tracking the
channel's idle time, tries several prices, and takes the plan whose compute or transfers, whichever
is longer, take least, since transfers go on beside compute. What a segment needs while it runs is
taken from the run that keeps everything, which may be more or less than it takes in the end; so the
program runs with several amounts of RAM around the budget, and the simulator says which plans fit.
Long chains are grouped into at most 48 segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poetfw.errors import UnsuitableError
from poetfw.limits import Deadline
from poetfw.schedule.baselines.chain import Chain, Segment, chain_of
from poetfw.schedule.baselines.emitter import Emitter, emit
from poetfw.schedule.baselines.passes import accepted, kept_bytes, last_forward_use, shortfall
from poetfw.schedule.bounds import unlimited
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, StepKind

_SLOTS = 300
_LONGEST_CHAIN = 48
_PRICES = (1.0, 0.5, 0.25, 0.1, 0.01)
_AMOUNTS = (1.3, 1.15, 1.05, 1.0, 0.95, 0.85)
"""What share of the budget the program is given."""

Row = NDArray[np.float64]
"""A value per number of slots of RAM: index m is the value in m slots."""


def pofo(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """The plan that takes least time if transfers overlap with compute.

    Raises:
        UnsuitableError: the problem cannot be grouped into a chain, or no choice fits.
        OutOfTime: the deadline has passed.
    """
    chain = _shortened(chain_of(Indexed.of(problem), "pofo"))
    kept = kept_bytes(chain.graph)
    plans: set[ExecutionPlan] = set()
    for amount in _AMOUNTS:
        program = _Program(chain, kept, int(problem.ram_bytes * amount), deadline)
        for price in deadline.during(_PRICES if problem.storage else (None,)):
            plan = program.plan(price)
            if plan is None:
                break
            plans.add(plan)
    if not plans:
        raise UnsuitableError("pofo", f"no choice fits in {problem.ram_bytes:,} bytes")
    fitting = [found for plan in deadline.during(plans) if (found := accepted(problem, plan))]
    if not fitting:
        closest = min((unlimited(problem, plan) for plan in plans), key=lambda s: s.peak_bytes)
        raise UnsuitableError("pofo", shortfall(chain.graph, closest))
    return min(fitting, key=lambda plan: (_overlapped_time_s(problem, plan), plan))


def _overlapped_time_s(problem: ScheduleProblem, plan: ExecutionPlan) -> tuple[float, float]:
    """The longer of compute and transfers, then their sum to break ties."""
    nodes = {node.name: node for node in problem.nodes}
    compute_s = transfer_s = 0.0
    for kind, name in plan:
        if kind is StepKind.COMPUTE:
            compute_s += nodes[name].time_s
        elif problem.storage and kind is StepKind.PAGE_IN:
            transfer_s += problem.storage.page_in_time_s(nodes[name].output_bytes)
        elif problem.storage and kind is StepKind.PAGE_OUT:
            transfer_s += problem.storage.page_out_time_s(nodes[name].output_bytes)
    return max(compute_s, transfer_s), compute_s + transfer_s


def _shortened(chain: Chain) -> Chain:
    """The chain with neighbours joined until it is short enough.

    A segment whose output the backward pass does not read, such as a batch norm before its ReLU,
    is joined with the next in any case: keeping that output would gain nothing.
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
    """Two neighbours as one segment, which saves what crosses between them."""
    return Segment(
        range(first.forward.start, second.forward.stop),
        range(second.backward.start, first.backward.stop),
        first.input,
        second.output,
        (*first.saved, *crossing, *second.saved),
    )


class _Choice(NamedTuple):
    """How to treat what begins at a segment.

    Attributes:
        split: the segment whose input is kept; the segment after this one to keep everything.
        everything: whether all that the segment saves is kept, not only the next one's input.
        paged: whether what is kept is paged.
    """

    split: int
    everything: bool
    paged: bool


class _Table:
    """The least value of one state in each amount of RAM, and the choice that leads to it."""

    def __init__(self, offers: list[tuple[Row, _Choice]], least_slots: int) -> None:
        """Choose among what each choice costs, with at least so many slots of RAM."""
        values = np.stack([value for value, _ in offers])
        self._choices: list[_Choice] = [choice for _, choice in offers]
        self._chosen = values.argmin(axis=0)
        self.value: Row = values.min(axis=0)
        self.value[:least_slots] = np.inf

    def choice(self, slots: int) -> _Choice:
        """The best choice in so many slots."""
        return self._choices[int(self._chosen[slots])]


class _Program:
    """The dynamic program in so many bytes of RAM."""

    def __init__(
        self, chain: Chain, kept: tuple[int, ...], ram_bytes: int, deadline: Deadline
    ) -> None:
        self.chain = chain
        self.graph = chain.graph
        self.kept = kept
        self.count = len(chain.segments)
        sources = sum(self.graph.size[i] for i in chain.sources)
        self.slot_bytes = max(1.0, (ram_bytes - sources) / _SLOTS)
        segments = chain.segments
        self.time_s = [self._recompute_s(segment) for segment in segments]
        self.output = [self._bytes(self._output(segment)) for segment in segments]
        self.all = [self._bytes(self._kept(segment)) for segment in segments]
        self.needs = [self._needs(number, sources) for number in range(self.count)]
        self.again: dict[tuple[int, int], _Table] = {}
        self.once: dict[int, _Table] = {}
        for length in deadline.during(range(self.count)):
            for i in range(self.count - length):
                self.again[i, i + length] = self._solve_again(i, i + length)

    def plan(self, price: float | None) -> ExecutionPlan | None:
        """The plan of least cost at a price for seconds of the channel; None if nothing fits.

        Args:
            price: seconds of compute that a second of transfer is worth; None not to page.
        """
        for i in reversed(range(self.count)):
            self.once[i] = self._solve_once(i, price)
        if not np.isfinite(self.once[0].value[_SLOTS]):
            return None
        steps = list(self._steps())
        return emit(self.graph, lambda emitter: _Writer(self.chain, emitter).write(steps))

    # What segments take ---------------------------------------------------------------------

    def _output(self, segment: Segment) -> tuple[int, ...]:
        return () if segment.output is None else (segment.output,)

    def _bytes(self, tensors: tuple[int, ...]) -> int:
        return sum(self.graph.size[i] for i in tensors)

    def _slots(self, size: int) -> int:
        return int(-(-size // self.slot_bytes))

    def _recompute_s(self, segment: Segment) -> float:
        nodes = self.graph.problem.nodes
        own = self.chain.own(segment)
        return math.fsum(nodes[i].time_s for i in own if nodes[i].recompute)

    def _needs(self, number: int, sources: int) -> int:
        """Bytes that running a segment takes at least, its input left out."""
        segment, kept = self.chain.segments[number], self.kept
        before = self._bytes(tuple(g for s in self.chain.segments[:number] for g in self._kept(s)))
        own = self._bytes(segment.saved)
        source_bytes = sources if segment.forward[0] else 0
        forward = max(kept[i] for i in segment.forward) - before - source_bytes
        backward = max((kept[i] for i in segment.backward), default=0) - before - source_bytes
        return max(0, forward, backward, own)

    def _kept(self, segment: Segment) -> tuple[int, ...]:
        """What a segment leaves in RAM for the backward pass, if nothing is given up."""
        return (*segment.saved, *self._output(segment))

    def _transfer_s(self, tensors: tuple[int, ...]) -> float:
        storage = self.graph.problem.storage
        if storage is None or not all(self.graph.pageable[i] for i in tensors):
            return math.inf
        sizes = [self.graph.size[i] for i in tensors]
        return math.fsum(storage.page_out_time_s(s) + storage.page_in_time_s(s) for s in sizes)

    # The recurrences ------------------------------------------------------------------------

    def _solve_again(self, i: int, j: int) -> _Table:
        """T(i, j, ·): besides x_i nothing of these segments is in RAM."""
        if i == j:
            saved_s = self.time_s[i] if self.chain.segments[i].saved else 0.0
            return self._table(i, [(np.full(_SLOTS + 1, saved_s), _Choice(j + 1, True, False))])
        rest = _after(self.again[i + 1, j].value, self._slots(self.all[i]))
        offers = [(self.time_s[i] + rest, _Choice(i + 1, True, False))]
        advance_s = 0.0
        for k in range(i + 1, j + 1):
            advance_s += self.time_s[k - 1]
            rest = _after(self.again[k, j].value, self._slots(self.output[k - 1]))
            value = advance_s + rest + self.again[i, k - 1].value
            offers.append((value, _Choice(k, False, False)))
        return self._table(i, offers)

    def _solve_once(self, i: int, price: float | None) -> _Table:
        """The same from segment i to the end, the first time: computing it costs nothing more."""
        if i == self.count - 1:
            return self._table(i, [(np.zeros(_SLOTS + 1), _Choice(self.count, True, False))])
        segment = self.chain.segments[i]
        rest = _after(self.once[i + 1].value, self._slots(self.all[i]))
        offers = [(rest, _Choice(i + 1, True, False))]
        if price is not None:
            moved = price * self._transfer_s(self._kept(segment))
            value = moved + self._beside_paged_input(i + 1)
            offers.append((value, _Choice(i + 1, True, True)))
        for k in range(i + 1, self.count):
            again = self.again[i, k - 1].value
            rest = _after(self.once[k].value, self._slots(self.output[k - 1]))
            offers.append((rest + again, _Choice(k, False, False)))
            if price is not None:
                moved = price * self._transfer_s(self._output(self.chain.segments[k - 1]))
                value = moved + self._beside_paged_input(k) + again
                offers.append((value, _Choice(k, False, True)))
        return self._table(i, offers)

    def _table(self, i: int, offers: list[tuple[Row, _Choice]]) -> _Table:
        return _Table(offers, self._slots(self.needs[i]))

    def _beside_paged_input(self, k: int) -> Row:
        """The value from segment k on, if its input is in RAM only while the segment runs."""
        least = self._slots(self.needs[k]) + self._slots(self.output[k - 1])
        return np.where(np.arange(_SLOTS + 1) >= least, self.once[k].value, np.inf)

    # The way back ---------------------------------------------------------------------------

    def _steps(self) -> Iterator[_Step]:
        """What to do, in order: an explicit stack of ranges to run and segments to reverse."""
        todo: list[_Range | int] = [_Range(0, self.count - 1, _SLOTS, True)]
        while todo:
            part = todo.pop()
            if isinstance(part, int):
                yield _Step(part, part, False, False, True)
                continue
            i, j, slots, first = part
            table = self.once[i] if first else self.again[i, j]
            choice = table.choice(slots)
            if i == j:
                yield _Step(i, i, True, False, False)
                todo.append(i)
                continue
            yield _Step(i, choice.split - 1, choice.everything, choice.paged, False)
            kept = self.all[i] if choice.everything else self.output[choice.split - 1]
            left = slots if choice.paged else slots - self._slots(kept)
            if choice.everything:
                todo.append(i)
            else:
                todo.append(_Range(i, choice.split - 1, slots, False))
            todo.append(_Range(choice.split, j, left, first))


class _Range(NamedTuple):
    """Segments low … high to differentiate in so many slots, for the first time or again."""

    low: int
    high: int
    slots: int
    first: bool


class _Step(NamedTuple):
    """Compute segments low … high, keeping all or the last one's output; or reverse one."""

    low: int
    high: int
    everything: bool
    paged: bool
    backward: bool


def _after(value: Row, slots: int) -> Row:
    """The value in what is left of each amount of RAM once so many slots are taken."""
    row = np.full(_SLOTS + 1, np.inf)
    if slots <= _SLOTS:
        row[slots:] = value[: _SLOTS + 1 - slots]
    return row


class _Writer:
    """Writes the chosen steps down."""

    def __init__(self, chain: Chain, emitter: Emitter) -> None:
        self.chain = chain
        self.emitter = emitter
        self.leaving: dict[int, list[int]] = {}

    def write(self, steps: list[_Step]) -> None:
        for step in steps:
            if step.backward:
                self.reverse(self.chain.segments[step.low])
            else:
                self.advance(step)

    def advance(self, step: _Step) -> None:
        for number in range(step.low, step.high + 1):
            segment = self.chain.segments[number]
            own = self.chain.own(segment)
            kept = set(segment.saved) if step.everything else set()
            if segment.output is not None:
                kept.add(segment.output)
            if step.paged and number == step.high:
                for i in sorted(kept):
                    last = last_forward_use(self.chain.graph, self.chain.forward, i)
                    self.leaving.setdefault(last, []).append(i)
            self.forward(segment, step.everything)
            for i in own:
                if i not in kept:
                    self.emitter.drop(i)
            if number > step.low and segment.input is not None:
                self.emitter.drop(segment.input)

    def forward(self, segment: Segment, everything: bool) -> None:
        if not self.emitter.computed(segment.forward[0]):
            for i in segment.forward:
                self.emitter.compute(i)
                for gone in self.leaving.get(i, ()):
                    self.emitter.page(gone)
            return
        if everything:
            for i in segment.saved:
                self.emitter.ensure(i)
        elif segment.output is not None:
            self.emitter.ensure(segment.output)

    def reverse(self, segment: Segment) -> None:
        for i in segment.backward:
            self.emitter.compute(i)
        for i in (*self.chain.own(segment), *(() if segment.input is None else (segment.input,))):
            self.emitter.drop(i)
