"""The programs against each other, and against trying every plan."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import replace

import pytest

from poetfw.errors import InfeasibleError
from poetfw.schedule import Node, ScheduleProblem, Status, minimum_budget, solve
from poetfw.schedule.algorithm_1 import formulate_algorithm_1
from poetfw.schedule.compact import Timing, formulate
from poetfw.schedule.examples import random_problem
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import Outcome, Program, SolverOptions, solve_program

EXACT = SolverOptions(gap=0.0, time_limit_s=120.0)
SLACKS = (0.0, 0.3, 0.6)


def optimum(program: Program) -> float | None:
    """The least energy; None if there is no solution."""
    solution = solve_program(program, EXACT)
    assert solution.outcome in (Outcome.OPTIMAL, Outcome.INFEASIBLE)
    return None if solution.values is None else solution.objective


def problems(seed: int, sizes: tuple[int, ...]) -> list[ScheduleProblem]:
    """One graph with several budgets; every third plain, every fourth with a deadline."""
    made = [
        random_problem(seed, sizes[seed % len(sizes)], slack, plain=seed % 3 == 0)
        for slack in SLACKS
    ]
    if seed % 4 == 1:
        deadline_s = 1.4 * sum(node.time_s for node in made[0].nodes)
        made = [replace(problem, deadline_s=deadline_s) for problem in made]
    return made


def assert_programs_agree(seed: int) -> None:
    """Compare the compact formulation with Algorithm 1.

    Algorithm 1 pages between stages: what it pages out is in RAM during the next stage, and what
    it pages in is there from the beginning of a stage. So the comparison is with the compact
    formulation in that timing, or without paging; a device need not wait, so it does no worse.
    """
    for problem in problems(seed, sizes=(5, 6, 7, 8, 9, 10, 11, 12)):
        graph = Indexed.of(problem)
        published = optimum(formulate_algorithm_1(graph).program)
        assert optimum(formulate(graph, timing=Timing.PAPER).program) == pytest.approx(published)
        on_device = optimum(formulate(graph).program)
        if published is not None:
            assert on_device is not None
            assert on_device <= published + 1e-6
        remat = Indexed.of(replace(problem, storage=None))
        assert optimum(formulate(remat).program) == pytest.approx(
            optimum(formulate_algorithm_1(remat).program)
        )


@pytest.mark.parametrize("seed", range(40))
def test_compact_formulation_equals_algorithm_1(seed: int) -> None:
    assert_programs_agree(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 240))
def test_compact_formulation_equals_algorithm_1_on_many(seed: int) -> None:
    assert_programs_agree(seed)


def least_energy(problem: ScheduleProblem, in_order: bool) -> float | None:
    """The least energy of any plan, by Dijkstra's algorithm over what is in RAM and in AUX.

    Args:
        problem: without a deadline.
        in_order: whether what is produced between two first computations comes in topological
            order, each at most once, as in the stages of the programs.
    """
    nodes = problem.nodes
    position = {node.name: i for i, node in enumerate(nodes)}
    inputs = [
        {position[u] for u in node.inputs if nodes[position[u]].output_bytes} for node in nodes
    ]
    before = [
        len(nodes) if node.recompute_before is None else position[node.recompute_before]
        for node in nodes
    ]
    storage = problem.storage

    def size(ram: frozenset[int]) -> int:
        return sum(nodes[i].output_bytes for i in ram)

    State = tuple[int, int, frozenset[int], frozenset[int]]
    begin: State = (0, -1, frozenset(), frozenset())
    energy: dict[State, float] = {begin: 0.0}
    tie = itertools.count()
    queue: list[tuple[float, int, State]] = [(0.0, next(tie), begin)]

    def reach(cost: float, state: State) -> None:
        if size(state[2]) <= problem.ram_bytes and cost < energy.get(state, float("inf")) - 1e-12:
            energy[state] = cost
            heapq.heappush(queue, (cost, next(tie), state))

    while queue:
        cost, _, state = heapq.heappop(queue)
        if cost > energy[state]:
            continue
        t, slot, ram, aux = state
        if t == len(nodes):
            return cost
        for i in range(slot + 1 if in_order else 0, t + 1):
            node = nodes[i]
            if i in ram or (i < t and not node.output_bytes):
                continue
            during = size(ram) + node.output_bytes + node.workspace_bytes
            allowed = i == t or (node.recompute and t <= before[i])
            after = ram | {i} if node.output_bytes else ram
            following = (t + 1, -1) if i == t else (t, i)
            if allowed and inputs[i] <= ram and during <= problem.ram_bytes:
                reach(cost + node.energy_j, (*following, after, aux))
            taken = None if node.in_place is None else position[node.in_place]
            if allowed and inputs[i] <= ram and taken in ram and node.output_bytes:
                if during - node.output_bytes <= problem.ram_bytes:
                    reach(cost + node.energy_j, (*following, after - {taken}, aux))
            if i in aux:
                assert storage is not None
                reach(cost + storage.page_in_energy_j(node.output_bytes), (t, i, after, aux))
        for i in ram:
            reach(cost, (t, slot, ram - {i}, aux))
            if storage is not None and nodes[i].page and i not in aux:
                page_out_j = storage.page_out_energy_j(nodes[i].output_bytes)
                reach(cost + page_out_j, (t, slot, ram, aux | {i}))
    return None


def with_in_place(problem: ScheduleProblem, seed: int) -> ScheduleProblem:
    """The problem with some nodes as large as an input of theirs, which they may take over."""
    rng = random.Random(seed)
    made: dict[str, Node] = {}
    for node in problem.nodes:
        sized = [name for name in node.inputs if made[name].output_bytes]
        if sized and node.output_bytes and rng.random() < 0.6:
            taken = rng.choice(sized)
            node = replace(node, in_place=taken, output_bytes=made[taken].output_bytes)
        made[node.name] = node
    resized = replace(problem, nodes=tuple(made.values()))
    floor = max(map(Indexed.of(resized).working_set, range(len(made))))
    return replace(resized, ram_bytes=max(resized.ram_bytes, floor))


def assert_equals_brute_force(seed: int, sizes: tuple[int, ...]) -> None:
    """Within stages the programs are exact; a plan outside them may only be better."""
    for problem in problems(seed, sizes):
        problem = replace(problem, deadline_s=None)
        found = optimum(formulate(Indexed.of(problem)).program)
        assert found == pytest.approx(least_energy(problem, in_order=True))
        anyhow = least_energy(problem, in_order=False)
        if found is not None:
            assert anyhow is not None
            assert anyhow <= found + 1e-6


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_compact_formulation_equals_brute_force(seed: int) -> None:
    assert_equals_brute_force(seed, sizes=(4, 5))


@pytest.mark.parametrize("seed", range(2000, 2030))
def test_taking_over_an_input_equals_brute_force(seed: int) -> None:
    for problem in problems(seed, sizes=(4, 5)):
        problem = with_in_place(replace(problem, deadline_s=None), seed)
        found = optimum(formulate(Indexed.of(problem)).program)
        assert found == pytest.approx(least_energy(problem, in_order=True))


@pytest.mark.parametrize("seed", range(2030, 2060))
def test_plans_that_take_over_inputs_are_accepted(seed: int) -> None:
    for problem in problems(seed, sizes=(6, 8, 10)):
        problem = with_in_place(replace(problem, deadline_s=None), seed)
        needed = minimum_budget(problem)
        solved = solve(replace(problem, ram_bytes=max(problem.ram_bytes, needed.bytes)))
        assert solved.status is Status.OPTIMAL
        if needed.exact:
            with pytest.raises(InfeasibleError):
                solve(replace(problem, ram_bytes=needed.bytes - 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1030, 1130))
def test_compact_formulation_equals_brute_force_on_many(seed: int) -> None:
    assert_equals_brute_force(seed, sizes=(5, 6, 7))
