# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import signal
import threading
import time
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from schedule_problems import chain, plan

from made_problems import SD_CARD, training_chain, with_ram_fraction
from poetfw.common import interrupts
from poetfw.common.errors import ConfigError, InfeasibleError, ToolError
from poetfw.common.limits import Work
from poetfw.schedule import (
    BoundCovers,
    Interrupted,
    Node,
    ScheduleProblem,
    SearchProgress,
    SolveOptions,
    Status,
    bounds,
    checkpoint_all_schedule,
    minimum_budget,
    search,
    shortest_time,
    simulate,
    solve,
)
from poetfw.schedule.bounds import small_plan
from poetfw.schedule.milp import SolverOptions


def test_keeping_everything_is_optimal_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_solver(*_: Any) -> None:
        raise AssertionError("there is nothing to solve")

    monkeypatch.setattr(search, "solve_program", no_solver)
    for scheduler in ("checkpoint-all", "poet", "poet-paging-off", "poet-remat-off"):
        schedule = solve(chain(650), scheduler)
        assert schedule.plan == plan("a b c /b d /a /c e /d")
        assert (schedule.status, schedule.gap) == (Status.OPTIMAL, 0.0)
        assert schedule.bound_covers is BoundCovers.ALL
        assert (schedule.overhead, schedule.overhead_gap) == (0.0, 0.0)
        assert schedule.bound_j == schedule.energy_j == 15.0
        assert schedule.scheduler == scheduler


def test_poet_takes_the_cheaper_of_both_ways() -> None:
    recomputed = solve(chain(550), "poet")
    assert (recomputed.recomputes, recomputed.page_ins) == (1, 0)
    assert recomputed.energy_j == 16.0
    paged = solve(chain(550), "poet-remat-off")
    assert (paged.recomputes, paged.page_ins, paged.page_outs) == (0, 1, 1)
    dear = replace(chain(550).nodes[0], energy_j=10.0)
    problem = replace(chain(550), nodes=(dear, *chain().nodes[1:]))
    assert solve(problem, "poet").page_ins == 1
    assert solve(problem, "poet-paging-off").energy_j == 34.0


def test_without_storage_poet_only_recomputes() -> None:
    schedule = solve(chain(550, storage=None), "poet")
    assert (schedule.recomputes, schedule.page_ins) == (1, 0)
    assert schedule.bound_covers is BoundCovers.ALL


@pytest.mark.parametrize(
    ("scheduler", "covers"),
    [
        ("poet", BoundCovers.ALL),
        ("poet-paging-off", BoundCovers.OWN_STAGES),
        ("poet-remat-off", BoundCovers.OWN_STAGES),
        ("poet-algorithm-1", BoundCovers.OWN_STAGES),
        ("dtr", BoundCovers.ALL),
    ],
)
def test_a_bound_says_of_which_plans_it_holds(scheduler: str, covers: BoundCovers) -> None:
    schedule = solve(chain(550), scheduler)
    assert schedule.bound_covers is covers
    assert (schedule.status is Status.OPTIMAL) == (scheduler != "dtr")
    assert schedule.overhead == pytest.approx(schedule.energy_j / 15 - 1)
    assert schedule.bound_j is not None
    over_j, open_j = schedule.energy_j - 15, schedule.energy_j - schedule.bound_j
    assert schedule.gap == pytest.approx(open_j / schedule.energy_j)
    assert schedule.overhead_gap == pytest.approx(open_j / over_j)


def test_the_deadline_decides_between_ways() -> None:
    page_time_s = 15 + 0.5 + 0.128 + 1 + 0.256
    dear = replace(chain().nodes[0], energy_j=0.1, time_s=3.0)
    problem = replace(chain(550), nodes=(dear, *chain().nodes[1:]))
    assert solve(problem).recomputes == 1
    hurried = replace(problem, deadline_s=page_time_s + 2)
    assert solve(hurried).page_ins == 1
    with pytest.raises(InfeasibleError, match=r"a time known to be possible is 18\.884 s"):
        solve(replace(hurried, deadline_s=18.5))
    assert shortest_time(hurried).time_s == pytest.approx(18.884)


def test_a_shortest_time_is_of_a_plan_and_says_whether_it_is_proven() -> None:
    assert shortest_time(chain(650)) == (15.0, True)  # nothing is computed again
    tight = chain(550)  # in which keeping everything does not fit
    assert shortest_time(tight) == (pytest.approx(16.0), False)
    step = with_ram_fraction(training_chain(5), 0.5)
    assert not shortest_time(step, SolverOptions(max_nodes=0)).exact
    with pytest.raises(InfeasibleError, match="fits in 100 bytes"):
        shortest_time(chain(100))


def test_an_impossible_deadline_names_the_shortest_time() -> None:
    with pytest.raises(InfeasibleError, match=r"once takes 15 s, the shortest possible time"):
        solve(replace(chain(), deadline_s=14.0))


@pytest.mark.parametrize("scheduler", ["poet", "poet-paging-off", "poet-remat-off"])
def test_a_small_budget_names_the_smallest_and_who_needs_it(scheduler: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        solve(chain(549), scheduler)
    assert str(caught.value) == (
        f"{scheduler} has no schedule of 'chain' in 549 bytes: "
        "the smallest feasible budget is 550 bytes, for node 'c'"
    )
    assert caught.value.minimum_budget_bytes == 550
    assert caught.value.exit_code == 5


def test_checkpoint_all_names_what_it_needs() -> None:
    with pytest.raises(InfeasibleError, match="it needs 650 bytes, for node 'c'") as caught:
        solve(chain(600), "checkpoint-all")
    assert caught.value.minimum_budget_bytes == 650


def test_minimum_budget_counts_what_must_stay() -> None:
    assert minimum_budget(chain()) == (550, "c", True)
    first = replace(chain().nodes[0], page=False, recompute=False)
    held = replace(chain(), nodes=(first, *chain().nodes[1:]))
    assert minimum_budget(held) == (650, "c", False)  # no op needs that much by itself


def test_unknown_schedulers_are_refused() -> None:
    with pytest.raises(ConfigError, match="there is no scheduler 'magic': known are"):
        solve(chain(), "magic")


def test_interrupted_it_keeps_the_best_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "solve_program", interrupt)
    monkeypatch.setattr(bounds, "solve_program", interrupt)
    monkeypatch.setattr(search, "BASELINES", {})
    with pytest.raises(Interrupted) as caught:
        solve(chain(550))
    schedule = caught.value.schedule
    assert schedule.status is Status.INTERRUPTED
    assert schedule.page_ins == 1
    assert schedule.bound_j == 15.0
    with pytest.raises(KeyboardInterrupt) as bare:
        solve(chain(550, storage=None))
    assert not isinstance(bare.value, Interrupted)


@pytest.mark.usefixtures("interruptible")
def test_interrupted_it_keeps_what_the_solver_found_until_then() -> None:
    """Plans are told of in HiGHS's thread, while it goes on."""
    problem = with_ram_fraction(training_chain(4), 0.5)
    main = threading.main_thread().ident
    assert main is not None
    known_j: list[float] = []

    def tell(progress: SearchProgress) -> None:
        solver = threading.current_thread() is not threading.main_thread()
        better = solver and progress.energy_j < min(known_j)
        known_j.append(progress.energy_j)
        if better:
            signal.pthread_kill(main, signal.SIGINT)

    with pytest.raises(Interrupted) as caught:
        solve(problem, tell=tell)
    assert caught.value.schedule.energy_j == min(known_j)
    assert simulate(problem, caught.value.schedule.plan).energy_j == min(known_j)
    assert known_j.count(min(known_j)) == 1


def test_each_better_plan_and_bound_is_told() -> None:
    told: list[SearchProgress] = []
    schedule = solve(with_ram_fraction(training_chain(2), 0.5), tell=told.append)
    assert told[0].phase == "published methods"
    assert {"order", "orders", "other orders"} <= {progress.phase for progress in told}
    energies = [progress.energy_j for progress in told]
    assert energies == sorted(energies, reverse=True)
    assert energies[-1] == schedule.energy_j
    assert told[-1].gap == pytest.approx(schedule.gap, abs=1e-7)


def test_out_of_nodes_it_says_how_far_it_is() -> None:
    problem = with_ram_fraction(training_chain(6), 0.5)
    schedule = solve(problem, "poet", SolveOptions(gap=0.0, max_nodes=0), work=Work(0.3))
    assert schedule.status is Status.FEASIBLE
    assert schedule.bound_j is not None
    assert schedule.gap is not None
    assert schedule.gap == pytest.approx(1 - schedule.bound_j / schedule.energy_j)
    assert schedule.gap > 0


@pytest.mark.parametrize("fraction", [0.6, 0.5])
def test_a_training_step_of_a_small_cnn_is_solved_in_seconds(fraction: float) -> None:
    problem = with_ram_fraction(training_chain(4), fraction)
    began_s = time.process_time()
    schedule = solve(problem, "poet", SolveOptions(gap=1e-3))
    assert schedule.gap is not None
    assert schedule.gap <= 1e-3
    assert schedule.bound_covers is BoundCovers.ALL
    assert time.process_time() - began_s < 20  # about 1 s


def test_another_solver_finds_plans_without_the_cuts_of_this_one() -> None:
    problem = with_ram_fraction(training_chain(2), 0.6)
    energies_j = [
        solve(problem, "poet", SolveOptions(gap=1e-3, solver=solver), work=Work(0.3)).energy_j
        for solver in ("HIGHS", "SCIPY")
    ]
    assert energies_j[1] == pytest.approx(energies_j[0], rel=1e-3)


def test_a_small_plan_comes_near_the_smallest_budget() -> None:
    problem = replace(with_ram_fraction(training_chain(), 1.0), storage=None)
    plan = small_plan(problem, SolverOptions(), Work())
    roomy = checkpoint_all_schedule(problem)
    peak_bytes = simulate(problem, plan).peak_bytes
    assert peak_bytes < 0.8 * roomy.peak_bytes
    assert peak_bytes < 1.2 * minimum_budget(problem, work=Work(6.0)).bytes


def rigid(links: int, ram_bytes: int) -> ScheduleProblem:
    """A chain whose tensors all wait for the backward pass and can neither go nor come again."""

    def node(name: str, *inputs: str, backward: bool = False) -> Node:
        return Node(name, inputs, 1.0, 1.0, 8, recompute=False, page=False, backward=backward)

    nodes = [node("f0")]
    nodes += [node(f"f{i}", f"f{i - 1}") for i in range(1, links)]
    gradient = nodes[-1].name
    for i in reversed(range(links)):
        nodes.append(node(f"b{i}", f"f{i}", gradient, backward=True))
        gradient = f"b{i}"
    return ScheduleProblem("rigid", ram_bytes, None, None, tuple(nodes))


def test_a_graph_in_which_only_the_order_can_change_needs_no_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_program(*_: Any, **__: Any) -> None:
        raise AssertionError("there is nothing to choose")

    for module in (search, bounds):
        monkeypatch.setattr(module, "formulate", no_program)
    work = Work()
    with pytest.raises(InfeasibleError, match=r"the smallest feasible budget is 20,008 bytes") as e:
        solve(rigid(2_500, 1_000), work=work)
    assert e.value.minimum_budget_bytes == 20_008
    assert work.left > 59.0
    assert solve(rigid(2_500, 20_008)).status is Status.OPTIMAL


def test_a_long_chain_that_may_only_be_paged_is_proven_without_a_program_in_stages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has nothing to recompute, and more stages than fit in memory: the turn decides."""
    monkeypatch.setattr(search, "_STAGED", 100)
    problem = rigid(60, 400)
    pageable = tuple(replace(node, page=True) for node in problem.nodes)
    told: list[SearchProgress] = []
    schedule = solve(replace(problem, storage=SD_CARD, nodes=pageable), tell=told.append)
    assert (schedule.status, schedule.bound_covers) == (Status.OPTIMAL, BoundCovers.ALL)
    assert schedule.page_ins > 0
    assert "published methods" not in {x.phase for x in told}


def test_another_order_is_found_where_only_the_order_can_change() -> None:
    """Each large tensor is read by one small op alone: one after the other, three fit."""

    def node(name: str, *inputs: str, size: int) -> Node:
        return Node(name, inputs, 1.0, 1.0, size, recompute=False, page=False)

    nodes = tuple(node(f"large{i}", size=100) for i in range(12))
    nodes += tuple(node(f"small{i}", f"large{i}", size=1) for i in range(12))
    problem = ScheduleProblem("wide", 300, None, None, nodes)
    schedule = solve(problem)
    assert (schedule.status, schedule.bound_covers) == (Status.OPTIMAL, BoundCovers.ALL)
    assert simulate(problem, schedule.plan).peak_bytes <= 300
    with pytest.raises(InfeasibleError):
        solve(problem, options=SolveOptions(other_orders=False))


SHORTAGES = (
    MemoryError(),
    ImportError("libx.so: failed to map segment from shared object"),
    ImportError("libx.so: cannot allocate memory in static TLS block"),
    OSError(errno.ENOMEM, "of the system"),
    RuntimeError("can't start new thread"),
)
"""Exceptions of a solver with too little memory, also while it is loaded."""


@pytest.mark.parametrize("shortage", SHORTAGES, ids=repr)
def test_when_memory_runs_out_the_best_plan_known_is_the_answer(
    monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    def too_large(*_: Any, **__: Any) -> None:
        raise shortage

    problem = with_ram_fraction(training_chain(4, 16, 8, 8), 0.6)
    monkeypatch.setattr(search, "solve_program", too_large)
    told: list[SearchProgress] = []
    schedule = solve(problem, tell=told.append)
    assert schedule.status is Status.FEASIBLE
    assert simulate(problem, schedule.plan).energy_j == schedule.energy_j
    assert "memory ran out: the best schedule so far is the answer" in {x.phase for x in told}


def test_without_memory_for_its_thread_no_solver_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is the process ended, as glibc does where a thread finds no memory for its own data."""
    monkeypatch.setattr(interrupts, "_CALL_BYTES", 1 << 62)
    with pytest.raises(MemoryError):
        interrupts.run_interruptibly(lambda: pytest.fail("it was started"))
    problem = with_ram_fraction(training_chain(4, 16, 8, 8), 0.6)
    assert solve(problem).status is Status.FEASIBLE


def test_a_solver_that_is_not_there_is_no_shortage_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ImportError("No module named 'cvxpy'")

    monkeypatch.setattr(search, "solve_program", missing)
    with pytest.raises(ImportError, match="cvxpy"):
        solve(with_ram_fraction(training_chain(4, 16, 8, 8), 0.6))


@pytest.mark.parametrize(
    ("module", "name"), [(search, "checkpoint_all"), (bounds, "solve_program")]
)
@pytest.mark.parametrize("shortage", SHORTAGES[:2], ids=repr)
def test_when_memory_runs_out_without_a_plan_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, shortage: Exception, module: ModuleType, name: str
) -> None:
    """In the search, whose limits are then not explained, or in their explanation."""

    def too_large(*_: Any, **__: Any) -> None:
        raise shortage

    monkeypatch.setattr(module, name, too_large)
    problem = replace(with_ram_fraction(training_chain(4, 16, 8, 8), 0.2), storage=None)
    with pytest.raises(
        ToolError, match="memory ran out while poet looked for a schedule of 'cnn4'"
    ):
        solve(problem)


def test_one_node() -> None:
    alone = ScheduleProblem("one", 8, None, None, (Node("a", (), 1.0, 1.0, 8),))
    assert solve(alone).status is Status.OPTIMAL
    with pytest.raises(InfeasibleError, match=r"in 0 bytes: the smallest feasible budget is 8"):
        solve(replace(alone, ram_bytes=0))
