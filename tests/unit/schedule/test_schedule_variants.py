# SPDX-License-Identifier: Apache-2.0
"""Nodes that run faster with more workspace: which do, and what is said of the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Work
from poetfw.planning import Variants, solve_variants, variants
from poetfw.schedule import (
    BoundCovers,
    ExecutionPlan,
    Interrupted,
    Schedule,
    ScheduleProblem,
    Status,
    solve,
)
from unit.schedule.schedule_problems import chain

RAM = 650
"""Bytes in which the chain is computed once: c takes them. At b there are 350 more than it needs,
at d 150; c has none, unless the plan frees a and has it again."""


def both(**faster: tuple[float, int]) -> Variants:
    """The chain, and by the nodes' names the joules and the workspace of faster ways."""
    lean = chain(RAM)
    nodes = []
    for node in lean.nodes:
        if node.name in faster:
            joules, workspace = faster[node.name]
            node = replace(node, energy_j=joules, workspace_bytes=workspace)
        nodes.append(node)
    return Variants(lean, replace(lean, nodes=tuple(nodes)))


ROOM = both(b=(0.5, 350), d=(3.5, 150))
FOR_ONE = both(b=(0.5, 351), d=(3.5, 150))
WORTH_IT = both(c=(1.0, 100))
NOT_WORTH_IT = both(c=(2.5, 100))


class Solves:
    """In place of `solve`: takes notes and a unit of work, and raises what the nth call shall."""

    def __init__(self) -> None:
        self.works: list[float] = []
        self.known: list[tuple[ExecutionPlan, ...]] = []
        self.raises: dict[int, BaseException] = {}

    def __call__(
        self,
        problem: ScheduleProblem,
        scheduler: str,
        options: Any,
        known: Iterable[ExecutionPlan],
        work: Work,
        tell: Any,
    ) -> Schedule:
        self.works.append(work.left)
        work.spend(1.0)
        self.known.append(tuple(known))
        if len(self.works) in self.raises:
            raise self.raises[len(self.works)]
        return solve(problem, scheduler, options, known, work, tell)


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> Solves:
    noted = Solves()
    monkeypatch.setattr(variants, "solve", noted)
    return noted


def interrupted(problem: ScheduleProblem) -> Interrupted:
    return Interrupted(replace(solve(problem), status=Status.INTERRUPTED))


def test_the_first_of_the_faster_saves_most() -> None:
    assert ROOM.faster == ("b", "d")
    assert both(b=(1.9, 350), d=(3.5, 150)).faster == ("d", "b")
    assert ROOM.by(()) == ROOM.lean
    assert ROOM.by(("d", "b")) == ROOM.every
    assert [node.energy_j for node in ROOM.by(["d"]).nodes] == [1.0, 2.0, 3.0, 3.5, 5.0]


def test_without_a_choice_there_is_one_search_with_all_the_work(solves: Solves) -> None:
    problem = chain(550)
    found = solve_variants(Variants(problem, problem), work=Work(8.0))
    assert solves.works == [8.0]
    assert found == solve(problem, work=Work(8.0))
    assert found.faster == ()


def test_both_searches_share_the_work(solves: Solves) -> None:
    work, known = Work(8.0), solve(chain(RAM), "dtr").plan
    found = solve_variants(WORTH_IT, "poet", None, [known], work)
    assert solves.works == [6.0, 7.0]
    assert work.left <= 6.0
    assert solves.known[0] == (known,)
    assert solves.known[1] == (known, solve(chain(RAM)).plan)
    assert found.energy_j < solve(chain(RAM)).energy_j


def test_where_there_is_room_for_all() -> None:
    found = solve_variants(ROOM)
    assert found == replace(solve(ROOM.every), faster=("b", "d"))
    assert (found.energy_j, found.overhead, found.status) == (13.0, 0, Status.OPTIMAL)


def test_where_there_is_room_for_one() -> None:
    """What is proven then is of both: that none takes less than all at once and the faster way."""
    found = solve_variants(FOR_ONE)
    assert (found.faster, found.energy_j, found.peak_bytes) == (("d",), 14.5, RAM)
    assert found.status is Status.FEASIBLE
    assert (found.bound_j, found.bound_covers) == (13.0, BoundCovers.ALL)
    assert found.gap == pytest.approx(1.5 / 14.5)
    assert found.overhead == pytest.approx(1.5 / 13)
    assert found.overhead_gap == pytest.approx(1)


def test_a_plan_pays_for_room_that_is_worth_it() -> None:
    found = solve_variants(WORTH_IT)
    assert (found.faster, found.energy_j, found.recomputes) == (("c",), 14.0, 1)
    assert found.overhead == pytest.approx(1 / 13)
    found = solve_variants(NOT_WORTH_IT)
    assert (found.faster, found.energy_j, found.recomputes) == ((), 15.0, 0)
    assert (found.status, found.bound_j) == (Status.FEASIBLE, 14.5)
    assert found.overhead == pytest.approx(0.5 / 14.5)


def test_of_two_plans_alike_the_one_of_which_more_is_proven() -> None:
    """In 550 bytes a is computed twice: no plan takes less than that of both searches."""
    tight = both(b=(0.5, 250), d=(3.5, 50)).mapped(lambda form: replace(form, ram_bytes=550))
    found = solve_variants(tight)
    assert (found.faster, found.energy_j, found.status) == (("b", "d"), 14.0, Status.OPTIMAL)
    assert (found.bound_j, found.bound_covers) == (14.0, BoundCovers.ALL)


def test_what_is_proven_of_plans_in_stages_is_not_of_both_ways() -> None:
    """No plan has room for the faster way, and the search without it computes a twice."""
    found = solve_variants(both(c=(2.5, RAM)).mapped(lambda form: replace(form, ram_bytes=550)))
    assert (found.faster, found.recomputes, found.energy_j) == ((), 1, 16.0)
    assert (found.bound_j, found.bound_covers) == (14.5, BoundCovers.ALL)


def test_what_takes_next_to_nothing_less_is_as_good() -> None:
    found = solve_variants(both(c=(2.999, 100)))
    assert (found.faster, found.status) == ((), Status.OPTIMAL)


def test_ops_that_take_nothing_have_no_overhead() -> None:
    nodes = tuple(replace(node, energy_j=0.0) for node in FOR_ONE.lean.nodes)
    quicker = tuple(replace(node, workspace_bytes=351) for node in nodes)
    problem = replace(FOR_ONE.lean, nodes=nodes)
    found = solve_variants(Variants(problem, replace(problem, nodes=quicker)))
    assert (found.energy_j, found.overhead, found.gap) == (0, None, 0)


def test_a_method_that_has_no_plan_the_second_time_keeps_the_first(solves: Solves) -> None:
    solves.raises[2] = UnsuitableError("poet", "it does not like it")
    assert solve_variants(ROOM).faster == ("b", "d")
    assert len(solves.works) == 2


def test_the_plan_that_was_known_when_the_user_interrupted() -> None:
    for problem, second, faster, energy_j in (
        (ROOM, KeyboardInterrupt(), ("b", "d"), 13.0),
        (FOR_ONE, KeyboardInterrupt(), ("d",), 14.5),
        (WORTH_IT, interrupted(WORTH_IT.every), ("c",), 14.0),
        (NOT_WORTH_IT, interrupted(NOT_WORTH_IT.every), (), 15.0),
    ):
        with pytest.MonkeyPatch.context() as patch:
            noted = Solves()
            noted.raises[2] = second
            patch.setattr(variants, "solve", noted)
            with pytest.raises(Interrupted) as stopped:
                solve_variants(problem)
        found = stopped.value.schedule
        assert (found.faster, found.energy_j) == (faster, energy_j)
        assert found.status is Status.INTERRUPTED


def test_interrupted_at_first_nothing_more_is_searched(solves: Solves) -> None:
    solves.raises[1] = interrupted(chain(RAM))
    with pytest.raises(Interrupted) as stopped:
        solve_variants(ROOM)
    found = stopped.value.schedule
    assert (found.status, found.energy_j, found.faster) == (Status.INTERRUPTED, 15.0, ())
    assert found.overhead == pytest.approx(2 / 13), "over that of keeping everything, as of others"
    assert len(solves.works) == 1


def test_without_a_choice_it_keeps_what_was_proven(solves: Solves) -> None:
    """In 550 bytes more than to compute each node once."""
    problem = chain(550)
    solves.raises[1] = interrupted(problem)
    with pytest.raises(Interrupted) as stopped:
        solve_variants(Variants(problem, problem))
    assert stopped.value.schedule == interrupted(problem).schedule
    assert stopped.value.schedule.bound_covers is BoundCovers.ALL
