# SPDX-License-Identifier: Apache-2.0
"""The bound of every plan, against the best plan in any order by trying them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from brute_force import Order, best_plan
from random_graphs import CHECKED, GRAPHS, about, chunks, random_graph

from poetfw.boards import load_board
from poetfw.cli.output import proven_rows
from poetfw.common.limits import Work
from poetfw.common.transfer import Transfer
from poetfw.schedule import (
    BoundCovers,
    Node,
    ScheduleProblem,
    SolveOptions,
    Status,
    Storage,
    checkpoint_all_schedule,
    every_plan,
    having,
    search,
    simulate,
    solve,
)
from poetfw.schedule.all_orders import search_all_orders
from poetfw.schedule.every_plan import bound_of_every_plan
from poetfw.schedule.found import Incumbent, best_known, tell_nobody
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.moments import Moments, Precedence
from poetfw.schedule.turn import search_turn
from workloads import BOARDS
from workloads.networks.gpt import gpt

ROUNDING = 1e-6

Record = Callable[[str, object], None]


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:6_000], 200))
def test_no_plan_in_any_order_takes_less_than_the_bound(
    numbers: range, record_property: Record
) -> None:
    """It is what the best plan takes in most cases, and more than computing each node once."""
    plans = equal = dear = told = 0
    checked = []
    for number in numbers:
        problem = at_leisure(random_graph(number))
        if len(problem.nodes) > 8:
            continue
        checked.append(number)
        with about(problem):
            bound_j = bound_of_every_plan(Indexed.of(problem), Work(5.0))
            best = best_plan(problem, Order.ANY)
            if best is None:
                continue
            assert bound_j <= best.energy_j * (1 + ROUNDING)
            plans += 1
            equal += bound_j >= best.energy_j * (1 - ROUNDING)
            once_j = math.fsum(node.energy_j for node in problem.nodes) * (1 + ROUNDING)
            dear += best.energy_j > once_j
            told += bound_j > once_j
    record_property(CHECKED, checked)
    assert equal >= 0.85 * plans
    assert told >= 0.85 * dear


@pytest.mark.parametrize("presolved", [0, 10**9])
@pytest.mark.parametrize("numbers", [GRAPHS[:300]])
def test_plans_over_the_turn_are_legal(
    numbers: range, presolved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator accepts each plan that is offered; a third of the random graphs have one."""
    monkeypatch.setattr(having, "_PRESOLVED", presolved)
    found = 0
    for number in numbers:
        problem = at_leisure(random_graph(number))
        with about(problem):
            best = Incumbent(problem, best_known(problem, ()), tell_nobody)
            search_turn(best, Work(5.0))
            if best.found.plan is not None:
                simulate(problem, best.found.plan)
                found += 1
    assert found >= len(numbers) // 3


def turned(number: int) -> Incumbent:
    problem = at_leisure(random_graph(number))
    best = Incumbent(problem, best_known(problem, ()), tell_nobody)
    search_turn(best, Work(5.0))
    return best


def test_where_nothing_is_read_over_the_turn_there_is_no_choice() -> None:
    assert turned(2376).found.plan is None


def test_what_would_come_after_its_update_is_kept_or_paged() -> None:
    """Programs of these graphs first choose to compute a node again when it may not be any more."""
    late = (40, 403, 749, 1994)
    assert all(turned(number).found.plan is not None for number in late)


def at_leisure(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem without deadline and overlap, as brute force and the turn have it."""
    if problem.storage is not None:
        problem = replace(problem, storage=replace(problem.storage, overlap=False))
    return replace(problem, deadline_s=None)


def test_an_update_closes_what_reads_its_parameter() -> None:
    """A node that may not be computed after the update is not had again after it."""
    problem = _closing("u")
    open_ = replace(
        problem, nodes=tuple(replace(node, recompute_before=None) for node in problem.nodes)
    )
    assert bound_of_every_plan(Indexed.of(open_), Work(5.0)) == pytest.approx(6.0 + 1.0)
    assert math.isinf(bound_of_every_plan(Indexed.of(problem), Work(5.0)))


PAGING = Storage(1, Transfer(1e6, 0.0, 0.0, 0.25), Transfer(1e6, 0.0, 0.0, 0.5))
"""A page-in takes 0.25 J, a page-out 0.5 J."""


@pytest.mark.parametrize(
    ("waits", "storage", "one", "both"),
    [
        (False, None, 1.0, 2.0),
        (False, PAGING, 0.75, 1.0),  # paged out once
        (True, None, 1.0, 1.0),  # the first reader can wait for the second moment
    ],
)
def test_a_tensor_that_two_moments_push_out(
    monkeypatch: pytest.MonkeyPatch,
    waits: bool,
    storage: Storage | None,
    one: float,
    both: float,
) -> None:
    """x does not fit beside w or v, and is read after each; one moment sees it come again once."""

    def node(name: str, *inputs: str, size: int) -> Node:
        return Node(name, inputs, 1.0, 1.0, size)

    nodes = (
        node("x", size=4),
        node("a", "x", size=6),
        node("w", "a", size=6),
        node("b", "w", size=1),
        node("r", "b", "x", size=1),
        node("c", "b" if waits else "r", size=6),
        node("v", "c", size=6),
        node("d", "v", "x", size=1),
    )
    problem = ScheduleProblem("twice", 14, None, storage, nodes)
    graph = Indexed.of(problem)
    best = best_plan(problem, Order.ANY)
    assert best is not None
    assert best.energy_j == pytest.approx(8.0 + both)
    assert bound_of_every_plan(graph, Work(5.0)) == pytest.approx(8.0 + both)
    monkeypatch.setattr(every_plan, "_CHAIN_NODES", 0)
    assert bound_of_every_plan(graph, Work(5.0)) == pytest.approx(8.0 + one)


@pytest.mark.parametrize("most", [4, 8])
def test_moments_of_a_long_path_bound_no_less_than_one(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """In little RAM, some of the nodes of a path together prove more than one of them."""
    problem = gpt(2, load_board(str(BOARDS / "poet-m4f.toml")))
    peak_bytes = checkpoint_all_schedule(problem).peak_bytes
    graph = Indexed.of(replace(problem, ram_bytes=peak_bytes // 2))
    taken: list[int] = []
    moments = Precedence.moments

    def counted(precedence: Precedence, chain: Sequence[int]) -> Moments:
        taken.append(len(chain))
        return moments(precedence, chain)

    monkeypatch.setattr(Precedence, "moments", counted)
    monkeypatch.setattr(every_plan, "_CHAIN_NODES", 0)
    one_j = bound_of_every_plan(graph, Work(1.0))
    assert math.isfinite(one_j)
    assert max(taken) == 1
    monkeypatch.setattr(every_plan, "_CHAIN_NODES", most * graph.n)
    assert bound_of_every_plan(graph, Work(2.0)) >= one_j
    assert 1 < max(taken) <= most + 1


def test_the_bound_stops_where_it_is_enough() -> None:
    """With half of what is added to computing each node once, fewer moments are solved."""
    problem = gpt(2, load_board(str(BOARDS / "poet-m4f.toml")))
    everything = checkpoint_all_schedule(problem)
    graph = Indexed.of(replace(problem, ram_bytes=everything.peak_bytes // 2))
    whole, half = Work(5.0), Work(5.0)
    most_j = bound_of_every_plan(graph, whole)
    assert most_j > everything.energy_j
    enough_j = (everything.energy_j + most_j) / 2
    assert enough_j <= bound_of_every_plan(graph, half, enough_j) <= most_j
    assert half.left > whole.left


def test_a_graph_without_programs_in_stages_is_proven_with_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A graph of more than `_STAGED` nodes has half of the work for its bound, not a tenth."""
    problem = gpt(2, load_board(str(BOARDS / "poet-m4f.toml")))
    peak_bytes = checkpoint_all_schedule(problem).peak_bytes
    problem = replace(problem, ram_bytes=peak_bytes // 2)
    units: list[float] = []

    def bound(graph: Indexed, work: Work, enough_j: float = math.inf) -> float:
        units.append(work.left)
        return bound_of_every_plan(graph, work, enough_j)

    monkeypatch.setattr(search, "bound_of_every_plan", bound)
    monkeypatch.setattr(search, "_LARGE", 0)
    monkeypatch.setattr(search, "_STAGED", 10)
    answer = solve(problem, work=Work(10.0))
    assert answer.bound_covers is BoundCovers.ALL
    assert answer.gap is not None
    assert answer.gap <= SolveOptions().gap
    assert units[0] > 3.0


@pytest.mark.parametrize(
    ("near", "staged", "is_moved_only"), [(0.0, 10, False), (1.0, 10, True), (1.0, 1_000, False)]
)
def test_a_large_graph_near_the_best_of_all_plans_has_moves_only(
    monkeypatch: pytest.MonkeyPatch, near: float, staged: int, is_moved_only: bool
) -> None:
    """No other start can be much better, and published methods take long."""
    problem = gpt(2, load_board(str(BOARDS / "poet-m4f.toml")))
    peak_bytes = checkpoint_all_schedule(problem).peak_bytes
    monkeypatch.setattr(search, "_STAGED", staged)
    monkeypatch.setattr(search, "_NEAR", near)
    monkeypatch.setattr(search, "_SMALL", 0)
    monkeypatch.setattr(search, "_LARGE", 0)
    monkeypatch.setattr(search, "bound_of_every_plan", lambda graph, *limits: 1e-9)
    work = Work(2.0)
    solve(replace(problem, ram_bytes=peak_bytes // 2), work=work)
    phases = {spent.phase for spent in work.deadline.timing().phases}
    starts = {"published methods", "on demand", "other orders"}
    assert phases & {"moves", *starts} == ({"moves"} if is_moved_only else {"moves", *starts})


@pytest.mark.parametrize("outside", [False, True])
def test_a_plan_that_no_other_bound_covers_has_work_left_for_the_bound_of_all_plans(
    monkeypatch: pytest.MonkeyPatch, outside: bool
) -> None:
    problem = gpt(2, load_board(str(BOARDS / "poet-m4f.toml")))
    peak_bytes = checkpoint_all_schedule(problem).peak_bytes
    units: list[float] = []

    def bound(graph: Indexed, work: Work, enough_j: float = math.inf) -> float:
        units.append(work.left)
        return 1e-9

    monkeypatch.setattr(search, "bound_of_every_plan", bound)
    monkeypatch.setattr(Incumbent, "is_outside", lambda best: outside)
    monkeypatch.setattr(search, "_LARGE", math.inf)
    monkeypatch.setattr(search, "_EVERY_WORK", 1e-3)
    solve(replace(problem, ram_bytes=peak_bytes // 2), work=Work(2.0))
    assert (units[-1] > 1e-3) is outside


def _closing(update: str) -> ScheduleProblem:
    """x is read by the update, which is as large as RAM beside its input, and after it."""

    def node(name: str, *inputs: str, size: int, before: str | None = None) -> Node:
        return Node(name, inputs, 1.0, 1.0, size, recompute_before=before)

    nodes = (
        node("x", size=4, before=update),
        node("a", "x", size=4),
        node("b", "a", size=6),
        node(update, "b", size=4),
        node("c", update, size=2),
        node("d", "c", "x", size=2),
    )
    storage: Storage | None = None
    return ScheduleProblem("closing", 10, None, storage, nodes)


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:6_000], 200))
def test_up_to_ten_nodes_every_order_is_searched(numbers: range) -> None:
    """Then the answer is the best of all plans, and says so, or none has been said to exist."""
    for number in numbers[:60]:
        problem = at_leisure(random_graph(number))
        if len(problem.nodes) > 8:
            continue
        with about(problem):
            best = best_plan(problem, Order.ANY)
            incumbent = Incumbent(problem, best_known(problem, ()), tell_nobody)
            search_all_orders(incumbent, Work(5.0))
            assert (best is None) == (incumbent.found.plan is None)
            if best is None:
                continue
            assert incumbent.found.energy_j == pytest.approx(best.energy_j, rel=1e-9)
            assert incumbent.found.every_j == pytest.approx(best.energy_j, rel=1e-6)


def test_optimal_needs_no_addition_up_to_ten_nodes() -> None:
    """A plan in another order than the one given is optimal among all plans."""
    problem = at_leisure(random_graph(153))
    assert len(problem.nodes) <= 10
    answer = solve(problem, options=SolveOptions(gap=0.0))
    assert (answer.status, answer.bound_covers) == (Status.OPTIMAL, BoundCovers.ALL)
    assert ("status", "optimal among all plans") in proven_rows(answer)
