# SPDX-License-Identifier: Apache-2.0
"""With how much work each program in stages is begun, and how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from made_problems import training_chain, with_ram_fraction
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.schedule import ExecutionPlan, ScheduleProblem, search, simulate, solve
from poetfw.schedule.baselines.registry import BASELINES, Baseline
from poetfw.schedule.cuts.relaxation import Relaxed
from poetfw.schedule.found import Incumbent
from poetfw.schedule.search import SolveOptions

UNITS = 10.0
PROBLEM = with_ram_fraction(training_chain(4), 0.6)
NOTHING_PROVEN = Relaxed(None, -math.inf, np.zeros(0), ())
Began = list[tuple[str, ScheduleProblem, float]]


@pytest.fixture(autouse=True)
def no_bound_of_all_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of all plans proves nothing, so it does not end a search early."""
    monkeypatch.setattr(search, "bound_of_every_plan", lambda *_: 0.0)


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Began]:
    """Which searches were begun, of which problem, and with how much work."""

    def run(spent: Mapping[str, float], order: ScheduleProblem = PROBLEM) -> Began:
        found: Began = []

        def searches(name: str) -> Callable[[Incumbent, SolveOptions, Work], None]:
            def begin(best: Incumbent, options: SolveOptions, work: Work) -> None:
                found.append((name, best.problem, work.left))
                work.spend(spent[name])

            return begin

        for name in spent:
            monkeypatch.setattr(search, name, searches(name))
        monkeypatch.setattr(search, "_choose_order", lambda *_: order)
        options = SolveOptions(other_orders=False)
        assert solve(PROBLEM, options=options, work=Work(UNITS)).status == "feasible"
        return found

    return run


@pytest.mark.parametrize(("took", "names"), [(3.0, 2), (3.5, 1)])
def test_a_search_begins_with_twice_what_the_one_before_took(
    began: Callable[..., Began], took: float, names: int
) -> None:
    """Of 9.5 units, which are those for programs in stages, 6.5 or 6 are left."""
    found = began({"_search_relaxation": took, "_search_everything": 0.1})
    assert [name for name, *_ in found] == ["_search_relaxation", "_search_everything"][:names]


def test_another_order_has_a_tenth_of_the_work(began: Callable[..., Began]) -> None:
    other = replace(PROBLEM, name="other order")
    found = began({"_search_relaxation": 0.1, "_search_everything": 0.1}, other)
    assert [order for _, order, _ in found] == [PROBLEM, PROBLEM, other, other]
    assert 0.5 * UNITS < found[0][2] < UNITS
    assert found[2][2] == pytest.approx(0.1 * found[0][2])


@pytest.mark.parametrize(
    ("large", "staged", "far", "is_ordered"),
    [
        (0, search._STAGED, 0.0, True),
        (0, search._STAGED, 1.0, False),
        (0, 1, 0.0, False),
        (search._LARGE, search._STAGED, 1.0, True),
    ],
)
def test_another_order_is_tried_unless_the_graph_is_large_and_near_the_best_of_all_plans(
    monkeypatch: pytest.MonkeyPatch, large: int, staged: int, far: float, is_ordered: bool
) -> None:
    """A GRU at 40% of its RAM took 7.1 times computing each node once, and 1.3 in another order."""
    limits = {"_LARGE": large, "_STAGED": staged, "_FAR": far, "_SMALL": 0}
    for name, value in limits.items():
        monkeypatch.setattr(search, name, value)
    other = replace(PROBLEM, name="other order")
    monkeypatch.setattr(search, "in_better_order", lambda *_: other)
    programs: list[ScheduleProblem] = []

    def choose(best: Incumbent, ordered: ScheduleProblem, *_: object) -> ScheduleProblem:
        programs.append(ordered)
        return best.problem

    monkeypatch.setattr(search, "_choose_order", choose)
    work = Work(1.0)
    solve(PROBLEM, work=work)
    phases = {"order", "published methods, other order", "on demand, other order"}
    begun = phases & {spent.phase for spent in work.deadline.timing().phases}
    assert begun == (phases if is_ordered else set())
    programs_of = [PROBLEM if large == 0 else other]  # those of a large graph keep its order
    assert programs == (programs_of if staged > 1 else [])


def test_only_proofs_end_where_they_gain_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a relaxation, of which no plan is wanted."""
    shares: dict[bool, float] = {}

    def improve(best: Incumbent, options: SolveOptions, *_: object) -> None:
        shares[options.heuristics] = options.stalled_share

    monkeypatch.setattr(search, "_improve", improve)
    monkeypatch.setattr(search, "_FEWER_BLOCKS", 1.0)
    monkeypatch.setattr(search, "strengthen_periods", lambda *_: (NOTHING_PROVEN, ()))
    solve(PROBLEM, work=Work(UNITS))
    assert shares[True] == 0 < shares[False] < 1e-4


def test_a_large_graphs_blocks_count_all_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their formulation counts by its items."""
    left: list[float] = []

    def strengthen(*arguments: Any) -> tuple[Relaxed, tuple[()]]:
        left.append(arguments[-1].left)
        return NOTHING_PROVEN, ()

    monkeypatch.setattr(search, "_LARGE", 0)
    monkeypatch.setattr(search, "_FEWER_BLOCKS", 1.0)
    monkeypatch.setattr(search, "strengthen_periods", strengthen)
    for units in (0.0, 1e-6):
        monkeypatch.setattr(search, "_ITEM_WORK", units)
        solve(PROBLEM, options=SolveOptions(other_orders=False), work=Work(UNITS))
    assert left[1] < left[0]


def test_a_published_method_with_an_illegal_plan_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def illegal(problem: ScheduleProblem, _: Deadline) -> ExecutionPlan:
        simulate(problem, ())
        return ()

    methods = {"broken": Baseline("makes no plan", illegal), "greedy": BASELINES["greedy"]}
    monkeypatch.setattr(search, "BASELINES", methods)
    told: list[str] = []
    answer = solve(PROBLEM, work=Work(0.1), tell=lambda progress: told.append(progress.phase))
    simulate(PROBLEM, answer.plan)
    assert any("broken is left out" in phase and "never computes" in phase for phase in told)


def test_published_methods_spend_work_and_end_with_it() -> None:
    """Each method alone has a plan in a little work, and not in hardly any."""
    for name in ("dtr", "chen-greedy", "swap-reduced"):
        work = Work(1.0)
        solve(PROBLEM, name, work=work)
        assert 0 < 1.0 - work.left < 0.5, name
        with pytest.raises(InfeasibleError):
            solve(PROBLEM, name, work=Work(1e-6))
