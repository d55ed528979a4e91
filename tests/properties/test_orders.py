# SPDX-License-Identifier: Apache-2.0
"""Plans beyond the order of the problem, against the best of all plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from brute_force import Order, best_plan
from random_graphs import CHECKED, GRAPHS, about, chunks, random_graph

from poetfw.cli.output import proven_rows
from poetfw.common.errors import InfeasibleError, UnsuitableError
from poetfw.common.limits import Work
from poetfw.schedule import (
    BoundCovers,
    ExecutionPlan,
    Node,
    ScheduleProblem,
    SolveOptions,
    Status,
    StepKind,
    search,
    simulate,
    solve,
)
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.registry import BASELINES
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.orders import Plans, in_better_order
from poetfw.schedule.sequences import EventTrace
from poetfw.schedule.simulator import unlimited
from poetfw.schedule.validation import validate

EXACT = SolveOptions(gap=0.0)
ROUNDING = 1e-6

Record = Callable[[str, object], None]


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:6_000], 100))
def test_nearly_all_answers_are_the_best_in_any_order(
    numbers: range, record_property: Record
) -> None:
    """99 of 100 answers are; none is said to be better than it is, or than it can be."""
    equal, checked = 0, []
    for number in numbers:
        problem = without_overlap(random_graph(number))
        if len(problem.nodes) <= 8:
            with about(problem):
                equal += equals_best(problem)
            checked.append(number)
    record_property(CHECKED, checked)
    assert equal >= 0.99 * len(checked), f"{equal} of {len(checked)}"


def test_an_answer_in_another_order_is_not_called_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes less than all plans in stages in the order given: the bound is that of all plans."""
    proven_j = 0.0
    monkeypatch.setattr(search, "bound_of_every_plan", lambda *_: proven_j)
    monkeypatch.setattr(search, "NODES", 0)
    problem = without_overlap(random_graph(153))
    in_stages = best_plan(problem, Order.STAGES)
    assert in_stages is not None
    once_j = sum(node.energy_j for node in problem.nodes)
    for proven_j in (0.0, once_j * 1.01):
        answer = solve(problem, options=EXACT)
        assert answer.energy_j < in_stages.energy_j * (1 - ROUNDING)
        assert answer.bound_covers is BoundCovers.ALL
        assert answer.bound_j == pytest.approx(max(once_j, proven_j))
        assert answer.gap == pytest.approx(1 - answer.bound_j / answer.energy_j)
        assert answer.status is Status.FEASIBLE
        assert ("… to the best of", "all plans") in proven_rows(answer)


def test_without_paging_no_bound_covers_an_answer_in_another_order() -> None:
    """Its bounds are those of the problem without paging."""
    answer = solve(without_overlap(random_graph(379)), "poet-paging-off", EXACT)
    assert answer.bound_covers is BoundCovers.OWN_STAGES
    assert (answer.gap, answer.overhead_gap) == (None, None)
    assert answer.status is Status.FEASIBLE
    said = "not proven among all orders"
    assert any(said in text for name, text in proven_rows(answer) if name == "status")


def without_overlap(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem with transfers for which the core waits, as brute force has it."""
    if problem.storage is None:
        return problem
    return replace(problem, storage=replace(problem.storage, overlap=False))


def equals_best(problem: ScheduleProblem) -> bool:
    """Whether the answer is as good as the best plan; it claims no more than is true."""
    best = best_plan(problem, Order.ANY)
    if best is None:
        with pytest.raises(InfeasibleError):
            solve(problem, options=EXACT)
        return True
    try:
        answer = solve(problem, options=EXACT)
    except InfeasibleError:
        return False
    assert simulate(problem, best.plan).energy_j == pytest.approx(best.energy_j)
    assert answer.energy_j >= best.energy_j * (1 - ROUNDING)
    if answer.bound_covers is BoundCovers.ALL:
        assert answer.bound_j is not None
        assert answer.bound_j <= best.energy_j * (1 + ROUNDING)
    return answer.energy_j <= best.energy_j * (1 + ROUNDING)


@pytest.mark.parametrize("numbers", [GRAPHS[:300]])
def test_the_order_has_less_beyond_the_budget(numbers: Sequence[int]) -> None:
    """It is a legal one of the same nodes; many are better, none is worse."""
    better = 0
    for number in numbers:
        problem = random_graph(number)
        with about(problem):
            ordered = in_better_order(problem, Work(1.0))
            validate(ordered)
            assert set(ordered.nodes) == set(problem.nodes)
            before, after = beyond(problem), beyond(ordered)
            assert after < before or ordered == problem
            better += after < before
    assert better > len(numbers) / 5


@pytest.mark.parametrize("numbers", [GRAPHS[:60]])
def test_moves_lead_to_legal_plans_that_are_taken_for_what_they_are(
    numbers: Sequence[int],
) -> None:
    """The simulator accepts them, but for the budget, and says the same of RAM, joules, seconds."""
    checked = 0
    for number in numbers:
        problem = random_graph(number)
        plans = Plans(problem, Work())
        with about(problem):
            for plan in known_plans(problem):
                trace = EventTrace.of(plans.workload, plans.workload.events(plan), Work())
                order = trace.events.tolist()
                for first in range(len(order) - 1):
                    for last in range(first + 1, min(len(order), first + 4)):
                        for events in plans.swapped(trace, first, last):
                            moved = events.tolist()
                            assert sorted(moved) == sorted(order)
                            if order.count(order[first]) == order.count(order[last]) == 1:
                                assert moved.index(order[last]) < moved.index(order[first])
                            assert_taken_for_what_it_is(problem, plans, moved)
                            checked += 1
    assert checked > 1_000


def test_what_must_follow_goes_with_what_is_delayed() -> None:
    """The update of a parameter that an op reads comes after it, wherever that goes."""
    nodes = (
        Node("reader", (), 1.0, 1.0, 8, recompute_before="update"),
        Node("update", (), 1.0, 1.0, 0, recompute=False),
        Node("other", (), 1.0, 1.0, 8),
    )
    plans = Plans(ScheduleProblem("update", 64, None, None, nodes), Work())
    trace = plans.tried(range(3)).trace
    moved = [events.tolist() for events in plans.swapped(trace, 0, 2)]
    assert moved == [[2, 0, 1], [2, 0, 1]]
    assert list(plans.swapped(trace, 0, 1)) == []


def known_plans(problem: ScheduleProblem) -> list[ExecutionPlan]:
    """Plans that compute again and page."""
    plans = [checkpoint_all(Indexed.of(problem))]
    for name in ("dtr", "swap-on-demand"):
        with suppress(UnsuitableError):
            plans.append(BASELINES[name].plan(replace(problem, deadline_s=None)))
    return plans


def assert_taken_for_what_it_is(
    problem: ScheduleProblem, plans: Plans, events: Sequence[int]
) -> None:
    """Compare with the simulator."""
    tried = plans.tried(events)
    plan = plans.workload.plan(events)
    assert tried.trace.events.tolist() == plans.workload.events(plan)
    simulation = unlimited(problem, plan)
    ram_bytes, during = problem.ram_bytes, simulation.during_bytes
    made = [
        size
        for step, size in zip(plan, during, strict=True)
        if step.kind in (StepKind.COMPUTE, StepKind.PAGE_IN)
    ]
    assert tried.trace.during_bytes.tolist() == made
    beyond, joules, seconds, load = tried.rank
    late_s = max(0.0, seconds - (problem.deadline_s or math.inf))
    assert beyond == pytest.approx(sum(max(0, size - ram_bytes) for size in made) + late_s)
    assert joules == pytest.approx(simulation.energy_j)
    assert seconds == pytest.approx(simulation.time_s)
    assert load == sum(size**2 for size in made)


@pytest.mark.parametrize("numbers", [GRAPHS[:40]])
def test_what_may_stay_is_not_produced_again(numbers: Sequence[int]) -> None:
    """Nothing is left that could be left out within the budget."""
    shortened = 0
    for number in numbers:
        problem = replace(random_graph(number), deadline_s=None)
        plans = Plans(problem, Work())
        for plan in known_plans(problem):
            tried = plans.tried(plans.workload.events(plan))
            short = plans.shortened(tried)
            assert short.rank <= tried.rank
            shortened += len(short.trace.events) < len(tried.trace.events)
            for place in short.trace.again.tolist():
                without = plans.tried(np.delete(short.trace.events, place))
                assert without.rank >= short.rank
    assert shortened


def beyond(problem: ScheduleProblem) -> int:
    """Bytes beyond the budget, over all computations, where everything is kept."""
    simulation = unlimited(problem, plan := checkpoint_all(Indexed.of(problem)))
    used = zip(plan, simulation.during_bytes, strict=True)
    return sum(max(0, size - problem.ram_bytes) for step, size in used if step.kind == "compute")


def test_a_reader_of_a_parameter_stays_before_its_update() -> None:
    """Otherwise fewer bytes would be live at once."""
    for number in GRAPHS[:300]:
        problem = random_graph(number)
        position = {
            node.name: i for i, node in enumerate(in_better_order(problem, Work(1.0)).nodes)
        }
        for node in problem.nodes:
            after = position.get(node.recompute_before or "", math.inf)
            assert position[node.name] < after
