# SPDX-License-Identifier: Apache-2.0
"""NNTrainer's swap modes: what is paged, when it is back, and what memory that takes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from made_problems import random_problem, training_chain, with_ram_fraction
from poetfw.common.errors import UnsuitableError
from poetfw.schedule import (
    ExecutionPlan,
    Node,
    ScheduleProblem,
    Step,
    StepKind,
    Storage,
    Transfer,
    simulate,
)
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.nntrainer_swap import Wait, swap_on_demand, swap_proactive, waits
from poetfw.schedule.baselines.registry import BASELINES
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.simulator import unlimited

STORAGE = Storage(1, Transfer(100.0, 0.0, 1e-3), Transfer(100.0, 0.0, 1e-3), overlap=True)

swap_reduced = BASELINES["swap-reduced"].plan


def ladder(steps: int = 6, ram_bytes: int = 10_000) -> ScheduleProblem:
    """f0 → … → fn, then bn … b0, where each b reads its f and the b before."""
    forward = [Node(f"f{i}", (f"f{i - 1}",) if i else (), 1.0, 1.0, 100 + i) for i in range(steps)]
    backward = [
        Node(
            f"b{i}",
            (f"f{i}", f"b{i + 1}") if i + 1 < steps else (f"f{i}",),
            1.0,
            1.0,
            10,
            backward=True,
        )
        for i in reversed(range(steps))
    ]
    return ScheduleProblem("ladder", ram_bytes, None, STORAGE, (*forward, *backward))


def largest_working_set(problem: ScheduleProblem) -> int:
    graph = Indexed.of(problem)
    return max(map(graph.working_set, range(graph.n)))


def ops_ahead(plan: ExecutionPlan, name: str, reader: str) -> int:
    """How many ops run between the last page-in of a tensor and the op that reads it."""
    kinds = [(step.kind, step.node) for step in plan]
    end = kinds.index((StepKind.COMPUTE, reader))
    begin = max(i for i in range(end) if kinds[i] == (StepKind.PAGE_IN, name))
    return sum(kind is StepKind.COMPUTE for kind, _ in kinds[begin:end])


def test_a_tensor_waits_where_another_op_runs_between_its_uses() -> None:
    graph = Indexed.of(ladder(3))  # f0 f1 f2 b2 b1 b0
    assert waits(graph) == (Wait(0, 1, 5), Wait(1, 2, 4))


def test_on_demand_every_tensor_that_waits_is_paged_once_and_back_right_before_its_use() -> None:
    problem = ladder(5)
    plan = swap_on_demand(problem)
    simulation = simulate(problem, plan)
    assert (simulation.page_outs, simulation.page_ins, simulation.recomputes) == (4, 4, 0)
    assert {ops_ahead(plan, f"f{i}", f"b{i}") for i in range(4)} == {0}


def test_on_demand_memory_is_that_of_the_largest_op() -> None:
    for seed in range(30):
        problem = replace(random_problem(seed, nodes=14, slack=1.0), ram_bytes=10**9)
        problem = replace(problem, nodes=tuple(replace(n, page=True) for n in problem.nodes))
        plan = swap_on_demand(problem)
        # A tensor that the very next op uses too does not leave in between.
        graph = Indexed.of(problem)
        kept = max(
            graph.working_set(t) + sum(graph.size[i] for i in graph.inputs[min(t + 1, graph.n - 1)])
            for t in range(graph.n)
        )
        assert unlimited(problem, plan).peak_bytes <= kept


def test_on_a_ladder_on_demand_takes_the_least_memory_there_is() -> None:
    problem = ladder(8)
    assert simulate(problem, swap_on_demand(problem)).peak_bytes == largest_working_set(problem)


@pytest.mark.parametrize("look_ahead", [0, 1, 3])
def test_proactive_swapping_in_begins_that_many_ops_ahead(look_ahead: int) -> None:
    plan = swap_proactive(ladder(9), look_ahead)
    for i in range(9 - look_ahead - 1):
        paged = any(step == Step(StepKind.PAGE_IN, f"f{i}") for step in plan)
        assert paged
        assert ops_ahead(plan, f"f{i}", f"b{i}") == look_ahead


def test_looking_ahead_takes_memory_and_saves_time() -> None:
    problem = ladder(8)
    demand = simulate(problem, swap_on_demand(problem))
    proactive = simulate(problem, swap_proactive(problem, 2))
    assert proactive.peak_bytes > demand.peak_bytes
    assert proactive.time_s < demand.time_s
    assert proactive.stall_s < demand.stall_s


def test_reduced_swaps_nothing_where_everything_fits() -> None:
    problem = ladder(6)
    assert swap_reduced(problem) == checkpoint_all(Indexed.of(problem))


def test_reduced_swaps_less_the_more_ram_there_is() -> None:
    problem = ladder(8)
    everything = simulate(problem, checkpoint_all(Indexed.of(problem)))
    counts = []
    for fraction in (0.4, 0.6, 0.8, 1.0):
        tight = replace(problem, ram_bytes=int(fraction * everything.peak_bytes))
        counts.append(simulate(tight, swap_reduced(tight)).page_outs)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0


def test_reduced_takes_the_large_tensor_that_waits_long() -> None:
    problem = ladder(8)
    peak = simulate(problem, checkpoint_all(Indexed.of(problem))).peak_bytes
    tight = replace(problem, ram_bytes=peak - 1)
    paged = [step.node for step in swap_reduced(tight) if step.kind is StepKind.PAGE_OUT]
    assert paged == ["f0"]


def test_reduced_gets_as_low_as_on_demand() -> None:
    for seed in range(6):
        problem = training_chain(random.Random(seed).randint(2, 5), 16, 8, 8)
        least = unlimited(problem, swap_on_demand(replace(problem, ram_bytes=10**9))).peak_bytes
        tight = replace(problem, ram_bytes=least)
        assert simulate(tight, swap_reduced(tight)).peak_bytes <= least


def test_what_may_not_be_paged_stays() -> None:
    problem = ladder(5)
    nodes = (replace(problem.nodes[0], page=False), *problem.nodes[1:])
    plan = swap_on_demand(replace(problem, nodes=nodes))
    assert not any(step == Step(StepKind.PAGE_OUT, "f0") for step in plan)
    assert simulate(replace(problem, nodes=nodes), plan).recomputes == 0


@pytest.mark.parametrize("method", [swap_on_demand, swap_reduced, swap_proactive])
def test_too_little_ram_is_refused(method: object) -> None:
    assert callable(method)
    with pytest.raises(UnsuitableError, match="bytes of a budget of 150"):
        method(replace(ladder(5), ram_bytes=150))
    with pytest.raises(UnsuitableError, match="there is no storage"):
        method(replace(with_ram_fraction(ladder(5), 1.0), storage=None))
