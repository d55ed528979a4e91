# SPDX-License-Identifier: Apache-2.0
"""Recomputing on demand, and moves of a plan's events, as the simulator sees them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from brute_force import Order, best_plan
from random_graphs import GRAPHS, about, chunks, random_graph

from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem, Storage, Transfer, tell_nobody
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.found import Found, Incumbent, best_known
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.on_demand import Rule, run_on_demand, search_on_demand
from poetfw.schedule.orders import search_orders
from poetfw.schedule.sequences import EventTrace, Moves, Workload, search_sequences
from poetfw.schedule.simulator import unlimited

STORAGE = Storage(512, Transfer(1e6, 0.0, 4e-7, 2e-4), Transfer(1e6, 0.0, 4e-7, 4e-5))


def unrolled(steps: int, fraction: float) -> ScheduleProblem:
    """A recurrent network over some steps: gradients add up, and the update comes at the end."""
    nodes: list[Node] = []

    def add(name: str, inputs: list[str], joules: float, size: int, **flags: object) -> str:
        node = Node(name, tuple(inputs), joules * 10, joules, size)
        nodes.append(replace(node, backward=steps <= 0, **flags))  # type: ignore[arg-type]
        return name

    forward: dict[str, str] = {"x": add("x", [], 1e-3, 4096)}
    state = None
    for t in range(steps):
        row = add(f"row{t}", ["x"], 1e-6, 512)
        inputs = [row] if state is None else [row, state]
        gates = add(f"gates{t}", inputs, 6e-5, 8192, recompute_before="update")
        active = [add(f"{g}{t}", [gates], 9e-6, 2048) for g in "ifgo"]
        state = add(f"h{t}", active, 3e-6, 2048)
        forward |= {f"row{t}": row, f"h{t}": state}
    total = steps
    steps = 0
    gradient = add("loss", [f"h{total - 1}"], 1e-6, 2048)
    weights = None
    for t in reversed(range(total)):
        parts = [add(f"{g}{t}'", [gradient, f"{g}{t}"], 3e-6, 2048) for g in "ifgo"]
        gates = add(f"gates{t}'", parts, 1e-5, 8192)
        weight = add(f"w{t}", [gates, *([f"h{t - 1}"] if t else []), f"row{t}"], 5e-5, 16384)
        if weights is not None:
            weight = add(f"sum{t}", [weights, weight], 9e-6, 16384, in_place=weights)
        weights = weight
        if t:
            gradient = add(f"h{t}'", [gates], 5e-5, 2048)
    assert weights is not None
    add("update", [weights], 2e-5, 0, recompute=False)
    problem = ScheduleProblem("unrolled", 10**9, None, STORAGE, tuple(nodes))
    peak = unlimited(problem, checkpoint_all(Indexed.of(problem))).peak_bytes
    return replace(problem, ram_bytes=int(fraction * peak))


def plain(number: int) -> ScheduleProblem:
    """A random graph without what traces know nothing of: deadlines, and transfers that overlap."""
    problem = replace(random_graph(number), deadline_s=None)
    if problem.storage is None:
        return problem
    return replace(problem, storage=replace(problem.storage, overlap=False))


def agrees(problem: ScheduleProblem, trace: EventTrace) -> None:
    """The simulator takes the plan of a trace, with RAM enough, and its figures are the trace's."""
    plan = trace.workload.plan(trace.events.tolist())
    simulation = unlimited(problem, plan)
    assert simulation.peak_bytes == trace.peak_bytes
    assert math.isclose(simulation.energy_j, trace.energy_j, rel_tol=1e-9)
    assert trace.workload.events(plan) == trace.events.tolist()


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:1_000], 20))
def test_runs_and_moves_are_legal_and_cost_what_they_say(numbers: range) -> None:
    found = 0
    for number in numbers:
        problem = plain(number)
        workload, work = Workload(Indexed.of(problem)), Work()
        moves = Moves(workload, work, number)
        trace = run_on_demand(workload, Rule.drawn(moves.rng, workload.n), work)
        with about(problem):
            if trace is None:
                continue
            found += 1
            assert trace.fits
            agrees(problem, trace)
            for _ in range(4):
                shaken = moves.shaken(trace)
                if shaken is not None:
                    agrees(problem, shaken.pruned(work))
                    fitted = moves.fitted(shaken, 1.0, 0.3, 20)
                    if fitted is not None:
                        agrees(problem, fitted.pruned(work))
                        thinned = moves.thinned(fitted)
                        agrees(problem, thinned)
                        assert thinned.energy_j <= fitted.energy_j
    assert found > 0.5 * len(numbers)


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:1_000], 20))
def test_bytes_without_an_event_are_those_of_the_trace_without_it(numbers: range) -> None:
    checked = exact = 0
    for number in numbers:
        problem = plain(number)
        workload, work = Workload(Indexed.of(problem)), Work()
        moves = Moves(workload, work, number)
        trace = run_on_demand(workload, Rule.drawn(moves.rng, workload.n), work)
        shaken = None if trace is None else moves.shaken(trace)
        if shaken is None:
            continue
        trace = shaken.pruned(work)
        with about(problem):
            for place in trace.again.tolist():
                gone = trace.unneeded([place])
                without = trace.without([place], work)
                assert len(without.events) == len(trace.events) - len(gone)
                kept = [k for k in range(len(trace.events)) if k not in gone]
                begin = int(trace.idle_from[place])
                during = [
                    int(size)
                    for k, size in zip(kept, without.during_bytes, strict=True)
                    if begin <= k < place
                ]
                # Never more, so that nothing is left out that fits.
                assert trace.idle_bytes(place, gone) <= max(during, default=0)
                exact += trace.idle_bytes(place, gone) == max(during, default=0)
                checked += 1
    assert exact >= 0.97 * checked, f"{exact} of {checked}"
    assert checked > 0


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:600], 20))
def test_traces_are_equal_outside_of_what_changed(numbers: range) -> None:
    narrower = 0
    for number in numbers:
        problem = plain(number)
        workload, work = Workload(Indexed.of(problem)), Work()
        moves = Moves(workload, work, number)
        trace = run_on_demand(workload, Rule.drawn(moves.rng, workload.n), work)
        other = None if trace is None else moves.shaken(trace)
        if trace is None or other is None:
            continue
        begin, end = other.changed_since(trace)
        behind = len(other.events) - end
        with about(problem):
            for mine, theirs in (
                (other.events, trace.events),
                (other.during_bytes, trace.during_bytes),
            ):
                assert mine[:begin].tolist() == theirs[:begin].tolist()
                assert mine[end:].tolist() == theirs[len(theirs) - behind :].tolist()
            assert trace.changed_since(trace) == (len(trace.events), 0)
        narrower += begin > 0 and behind > 0
    assert narrower > 0


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:600], 20))
def test_no_trace_takes_less_than_the_best_plan(numbers: range) -> None:
    near = checked = 0
    for number in numbers:
        problem = plain(number)
        best = best_plan(problem, Order.ANY) if len(problem.nodes) <= 8 else None
        if best is None:
            continue
        workload, work = Workload(Indexed.of(problem)), Work(0.5)
        moves = Moves(workload, work)
        runs = (run_on_demand(workload, Rule.drawn(moves.rng, workload.n), work) for _ in range(8))
        known = [moves.thinned(trace) for trace in runs if trace is not None]
        with about(problem):
            assert all(trace.energy_j >= best.energy_j * (1 - 1e-9) for trace in known)
        checked += 1
        near += any(trace.energy_j <= best.energy_j * 1.1 for trace in known)
    assert near >= 0.8 * checked, f"{near} of {checked}"


def started(problem: ScheduleProblem, units: float) -> Found:
    best = Incumbent(problem, best_known(problem, ()), tell_nobody)
    work = Work(units)
    search_on_demand(best, work.part(0.6 * units))
    search_sequences(best, work)
    return best.found


def test_a_recurrent_network_starts_near_what_it_takes() -> None:
    """What published methods find takes more than 20 times what computing each once takes."""
    problem = unrolled(12, 0.4)
    found, again = (started(problem, 0.3) for _ in range(2))
    once_j = math.fsum(node.energy_j for node in problem.nodes)
    assert found.energy_j <= 1.45 * once_j
    assert found.plan == again.plan


def test_moves_end_where_no_plan_takes_less() -> None:
    """With a gap that the first plan has, no move is tried."""
    problem = unrolled(12, 0.4)
    best = Incumbent(problem, best_known(problem, ()), tell_nobody)
    search_on_demand(best, Work(0.2))
    known_j, work = best.found.energy_j, Work(5.0)
    search_sequences(best, work, gap=1 - best.found.every_j / known_j)
    assert best.found.energy_j == known_j
    assert work.left > 4.0


def test_moves_of_orders_end_where_no_plan_takes_less() -> None:
    """With a gap that the first plan has, no pass of moves follows it; without one, some do."""
    problem = unrolled(12, 0.4)
    first = Incumbent(problem, best_known(problem, ()), tell_nobody)
    search_on_demand(first, Work(0.2))
    assert first.found.plan is not None
    left = []
    for gap in (0.0, 1.0):
        best, work = Incumbent(problem, best_known(problem, ()), tell_nobody), Work(0.4)
        search_orders(best, first.found.plan, work, gap)
        left.append(work.left)
    assert left[0] < 0.3 < left[1]


def test_what_cannot_be_had_again_is_not_dropped() -> None:
    """A gradient needs `old`, which is closed before it is read: without storage it has to stay."""
    nodes = (
        Node("x", (), 1.0, 1.0, 10),
        Node("old", ("x",), 1.0, 1.0, 10, recompute_before="update"),
        Node("update", ("x",), 1.0, 1.0, 0, recompute=False),
        Node("big", ("x",), 1.0, 1.0, 30),
        Node("small", ("big",), 1.0, 1.0, 10),
        Node("end", ("old", "small", "x"), 1.0, 1.0, 10),
    )
    problem = ScheduleProblem("closed", 50, None, None, nodes)
    workload, work = Workload(Indexed.of(problem)), Work()
    trace = run_on_demand(workload, Rule.drawn(Moves(workload, work).rng, 6), work)
    assert trace is not None
    assert trace.fits
    agrees(problem, trace)
    assert trace.events.tolist().count(1) == 1
