# SPDX-License-Identifier: Apache-2.0
"""What holds for any graph: 1,000 random ones in `make test`, 10,000 in `make test-all`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from random_graphs import CHECKED, GRAPHS, about, chunks, random_graph

from poetfw.common.errors import InfeasibleError, PlanError, UnsuitableError
from poetfw.comparisons.comparison import Comparison, Task, Trial, settle
from poetfw.planning import TrainingProblem
from poetfw.schedule import (
    SCHEDULERS,
    BoundCovers,
    ExecutionPlan,
    Schedule,
    ScheduleProblem,
    SolveOptions,
    StepKind,
    checkpoint_all_schedule,
    simulate,
    solve,
)
from poetfw.schedule.baselines.registry import BASELINES
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import plan_of
from poetfw.schedule.simulator import unlimited
from poetfw.schedule.timeline import Span
from poetfw.schedule.transfers import plan_transfers

FRACTIONS = (0.5, 0.7, 0.9)

EXACT = SolveOptions(gap=0.0)
WITHOUT_PROGRAM = ("checkpoint-all", *BASELINES)
ROUNDING = 1e-6
"""Relative: solvers work in doubles, and within tolerances."""

Record = Callable[[str, object], None]


@pytest.mark.parametrize("numbers", chunks(GRAPHS, 25))
def test_plans_of_any_graph(numbers: range, record_property: Record) -> None:
    for number in numbers:
        problem = random_graph(number)
        with about(problem):
            poet = attempt(problem, "poet")
            if poet is not None:
                assert_legal(problem, poet)
                assert_bound_holds(problem, poet)
            for name in WITHOUT_PROGRAM:
                schedule = attempt(problem, name)
                if schedule is not None:
                    assert_legal(problem, schedule)
                    assert_not_better(schedule, poet)
    record_property(CHECKED, list(numbers))


@pytest.mark.parametrize("numbers", chunks(GRAPHS[::20], 2))
def test_schedulers_side_by_side(numbers: range, record_property: Record) -> None:
    for number in numbers:
        problem = random_graph(number)
        with about(problem):
            everything = checkpoint_all_schedule(problem)
            comparison = Comparison(
                Task("any", problem.name), None, TrainingProblem(problem), everything
            )
            cells = settle(list(comparison.cells(FRACTIONS, tuple(SCHEDULERS), EXACT)))
            for name in SCHEDULERS:
                assert_monotone([cell for cell in cells if cell.scheduler == name])
            for fraction in FRACTIONS:
                assert_poet_is_best([cell for cell in cells if cell.ram_fraction == fraction])
    record_property(CHECKED, list(numbers))


def attempt(problem: ScheduleProblem, scheduler: str) -> Schedule | None:
    """The scheduler's answer; None if it says that it has none."""
    try:
        return solve(problem, scheduler, EXACT)
    except (InfeasibleError, UnsuitableError):
        return None


def assert_legal(problem: ScheduleProblem, schedule: Schedule) -> None:
    """The simulator accepts the plan, the figures are its own, and the steps add up to them."""
    simulation = simulate(problem, schedule.plan)
    assert simulation.peak_bytes == schedule.peak_bytes <= problem.ram_bytes
    assert simulation.energy_j == schedule.energy_j
    assert simulation.time_s == schedule.time_s
    computing_s, moving_s, energy_j = costs_by_hand(problem, schedule.plan)
    assert energy_j == pytest.approx(schedule.energy_j)
    if problem.storage is not None and problem.storage.overlap:
        assert schedule.time_s >= max(computing_s, moving_s) * (1 - ROUNDING)
        assert schedule.time_s <= (computing_s + moving_s) * (1 + ROUNDING)
        assert_steps_wait_for_transfers(problem, schedule.plan, simulation.spans)
    else:
        assert schedule.time_s == pytest.approx(computing_s + moving_s)
    with pytest.raises(PlanError, match="of a budget of"):
        simulate(replace(problem, ram_bytes=schedule.peak_bytes - 1), schedule.plan)
    assert_lowering_loses_nothing(problem, schedule.plan)
    assert_planned_transfers_are_no_slower(problem, schedule.plan)


def costs_by_hand(problem: ScheduleProblem, plan: ExecutionPlan) -> tuple[float, float, float]:
    """Seconds that the core computes, seconds that the channel moves, joules of both."""
    nodes, storage = {node.name: node for node in problem.nodes}, problem.storage
    computing_s, moving_s, energy_j = [], [], []
    for kind, name, *_ in plan:
        node = nodes[name]
        if kind is StepKind.COMPUTE:
            computing_s.append(node.time_s)
            energy_j.append(node.energy_j)
        elif kind is not StepKind.FREE:
            assert storage is not None
            transfer = storage.page_in if kind is StepKind.PAGE_IN else storage.page_out
            size_bytes = math.ceil(node.output_bytes / storage.block_bytes) * storage.block_bytes
            moving_s.append(transfer.latency_s + size_bytes / transfer.bandwidth_bytes_per_s)
            energy_j.append(transfer.energy_j + size_bytes * transfer.energy_j_per_byte)
    return math.fsum(computing_s), math.fsum(moving_s), math.fsum(energy_j)


def assert_steps_wait_for_transfers(
    problem: ScheduleProblem, plan: ExecutionPlan, spans: Sequence[Span]
) -> None:
    """Transfers run one at a time; nothing is read on its way in, nor moved or freed on its way."""
    nodes = {node.name: node for node in problem.nodes}
    arrives_s: dict[str, float] = {}
    written_s: dict[str, float] = {}
    computed_s = moved_s = 0.0
    for (kind, name, *_), (start_s, end_s) in zip(plan, spans, strict=True):
        assert start_s >= computed_s
        if kind is StepKind.COMPUTE:
            assert all(start_s >= arrives_s.get(read, 0.0) for read in nodes[name].inputs)
            computed_s = end_s
            continue
        assert start_s >= max(arrives_s.get(name, 0.0), written_s.get(name, 0.0))
        if kind is not StepKind.FREE:
            assert start_s >= moved_s
            moved_s = end_s
            (arrives_s if kind is StepKind.PAGE_IN else written_s)[name] = end_s


def assert_lowering_loses_nothing(problem: ScheduleProblem, plan: ExecutionPlan) -> None:
    """What a plan produces, completed anew, takes no more RAM and no more energy."""
    graph = Indexed.of(problem)
    position = {node.name: i for i, node in enumerate(problem.nodes)}
    computed: set[str] = set()
    events = []
    for kind, name, *_ in plan:
        if kind in (StepKind.COMPUTE, StepKind.PAGE_IN):
            first = kind is StepKind.COMPUTE and name not in computed
            events.append((position[name], kind, first))
            computed.add(name)
    lowered = unlimited(problem, plan_of(graph, events))
    known = unlimited(problem, plan)
    assert lowered.peak_bytes <= known.peak_bytes
    assert lowered.energy_j <= known.energy_j * (1 + ROUNDING)


def assert_planned_transfers_are_no_slower(problem: ScheduleProblem, plan: ExecutionPlan) -> None:
    """The same steps in another order, within the budget."""
    planned = plan_transfers(problem, plan)
    assert Counter(planned) == Counter(plan)
    before, after = simulate(problem, plan), simulate(problem, planned)
    assert after.time_s <= before.time_s * (1 + ROUNDING)
    assert after.energy_j == pytest.approx(before.energy_j)


def assert_bound_holds(problem: ScheduleProblem, schedule: Schedule) -> None:
    """Only a plan that is not made of stages in the order given takes less than the bound."""
    assert schedule.bound_j is not None
    if schedule.bound_j > schedule.energy_j * (1 + ROUNDING):
        assert schedule.bound_covers is BoundCovers.STAGES
        assert not is_in_stages(problem, schedule.plan)


def is_in_stages(problem: ScheduleProblem, plan: ExecutionPlan) -> bool:
    """Whether nodes come first in order, and between them others in order, each at most once."""
    position = {node.name: i for i, node in enumerate(problem.nodes)}
    stage, last = 0, -1
    for kind, name, *_ in plan:
        if kind not in (StepKind.COMPUTE, StepKind.PAGE_IN):
            continue
        if kind is StepKind.COMPUTE and position[name] == stage:
            stage, last = stage + 1, -1
        elif last < position[name] < stage:
            last = position[name]
        else:
            return False
    return True


def assert_not_better(schedule: Schedule, poet: Schedule | None) -> None:
    """POET has a plan where another has, of no more energy, and its bound holds in stages."""
    assert poet is not None, schedule.scheduler
    assert poet.energy_j <= schedule.energy_j * (1 + ROUNDING), schedule.scheduler
    assert poet.bound_covers in (BoundCovers.ALL, BoundCovers.STAGES)


def assert_monotone(row: list[Trial]) -> None:
    """Of one scheduler, smallest budget first: more RAM is used, or takes no more energy."""
    for less, more in pairwise(row):
        assert less.ram_bytes <= more.ram_bytes
        if less.answer is not None:
            assert more.answer is not None, less.scheduler
            assert more.answer.energy_j <= less.answer.energy_j, less.scheduler
            assert more.answer.peak_bytes >= less.answer.peak_bytes, less.scheduler


def assert_poet_is_best(column: list[Trial]) -> None:
    """Of one budget: no other takes less energy, nor less than a bound of all plans."""
    (poet,) = (cell for cell in column if cell.scheduler == "poet")
    answers = [cell.answer for cell in column if cell.answer is not None]
    bounds = [a.bound_j for a in answers if a.bound_covers is BoundCovers.ALL]
    for answer in answers:
        assert poet.answer is not None, answer.scheduler
        assert poet.answer.energy_j <= answer.energy_j, answer.scheduler
        for bound_j in bounds:
            assert bound_j is not None
            assert bound_j <= answer.energy_j * (1 + ROUNDING), answer.scheduler
