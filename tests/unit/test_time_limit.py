# SPDX-License-Identifier: Apache-2.0
"""Whatever a search is doing when the time has passed, it ends soon, with the best that it knows.

Time is counted in calls of functions: it goes on with the work, as on a real clock, and is the same
in every run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import FrameType
from typing import Any

import pytest

from made_problems import training_chain, with_ram_fraction
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, OutOfTime, Work
from poetfw.schedule import (
    Schedule,
    ScheduleProblem,
    SolveOptions,
    checkpoint_all_schedule,
    minimum_budget,
    shortest_time,
    simulate,
    solve,
)
from poetfw.schedule.algorithm_1 import formulate_algorithm_1
from poetfw.schedule.baselines.registry import BASELINES
from poetfw.schedule.blocks import cost_blocks, formulate_blocks
from poetfw.schedule.compact import formulate
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.transfers import plan_transfers

import_module("cvxpy")  # what it calls when it is loaded is not the searches'

SOON = 0.1
"""How much may follow when the time has passed, as a share of what the whole takes …"""

SOON_S = 100_000.0
"""… or so many calls, some hundredths of a second, where that is more."""


class Calls:
    """A clock that goes on by a second with each call of a function."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> float:
        return float(self._count)

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        self._count += event in ("call", "c_call")

    def __enter__(self) -> Calls:
        threading.setprofile(self._see)  # HiGHS runs in a thread of its own
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


@dataclass(frozen=True)
class Ended:
    """How a search ended: its answer or error, when by the clock, in which phase, for want of time.

    A phase of a search is one of `Deadline.timing`; `middles_s` has when it was half over, of what
    it did in one go the longest.
    """

    answer: object
    at_s: float
    phase: str
    time_decided: bool
    middles_s: Mapping[str, float]


class Watched(Deadline):
    """A deadline that remembers in which phase it passed, and when each phase was half over."""

    def __init__(self, time_limit_s: float, clock: Calls) -> None:
        super().__init__(time_limit_s, clock)
        self._longest_s: dict[str, float] = {}
        self.middles_s: dict[str, float] = {}
        self.passed_in = ""

    def note(self, phase: str, work: float, seconds: float) -> None:
        super().note(phase, work, seconds)
        if self.elapsed_s >= self.time_limit_s and not self.passed_in:
            self.passed_in = phase
        if seconds > self._longest_s.get(phase, 0.0):
            self._longest_s[phase] = seconds
            self.middles_s[phase] = self.elapsed_s - seconds / 2


def run(search: Callable[[Work], object], time_limit_s: float = 1e12) -> Ended:
    """Search until then."""
    with Calls() as clock:
        deadline = Watched(time_limit_s, clock)
        try:
            answer = search(Work(1.0, deadline))
        except (InfeasibleError, OutOfTime) as error:
            answer = error
        at_s = clock()
    return Ended(answer, at_s, deadline.passed_in, deadline.decided, deadline.middles_s)


def assert_ends_soon(search: Callable[[Work], object], *shares: float) -> list[Ended]:
    """Of a search that has this share of the time that it takes; how it ended each time."""
    whole = run(search)
    assert not whole.time_decided
    hurried = [run(search, share * whole.at_s) for share in shares]
    for share, ended in zip(shares, hurried, strict=True):
        assert ended.time_decided
        over_s = ended.at_s - share * whole.at_s
        assert over_s <= max(SOON_S, SOON * whole.at_s), (share, ended.phase)
    return hurried


def problem(blocks: int, fraction: float = 0.5, *, overlap: bool = False) -> ScheduleProblem:
    made = with_ram_fraction(training_chain(blocks), fraction)
    assert made.storage is not None
    return replace(made, storage=replace(made.storage, overlap=overlap))


def poet(task: ScheduleProblem) -> Callable[[Work], Schedule]:
    return lambda work: solve(task, "poet", SolveOptions(gap=0.0), work=work)


def assert_every_phase_ends_soon(task: ScheduleProblem, *shares: float) -> set[str]:
    """Of a search that ends in the middle of each of its phases, and after these shares of it."""
    whole = run(poet(task))
    middles = [middle_s / whole.at_s for middle_s in whole.middles_s.values()]
    hurried = assert_ends_soon(poet(task), *sorted([*middles, *shares]))
    energies = []
    for ended in hurried:
        assert isinstance(ended.answer, Schedule)
        assert simulate(task, ended.answer.plan).energy_j == ended.answer.energy_j
        energies.append(ended.answer.energy_j)
    assert energies == sorted(energies, reverse=True)
    phases = {ended.phase for ended in hurried}
    assert phases == set(whole.middles_s)
    return phases


def test_a_search_ends_soon() -> None:
    phases = assert_every_phase_ends_soon(problem(2))
    assert phases >= {"published methods", "published methods, other order", "other orders"}


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [False, True])
def test_every_phase_ends_soon(overlap: bool) -> None:
    task = problem(6, overlap=overlap)
    phases = assert_every_phase_ends_soon(task, *(x / 20 for x in range(1, 20)))
    assert phases >= {"published methods", "plans nearby", "relaxation"}


def blocks_of(graph: Indexed, deadline: Deadline) -> object:
    return formulate_blocks(graph, cost_blocks(graph), deadline)


@pytest.mark.parametrize("scheduler", [*BASELINES, "poet-algorithm-1"])
def test_other_schedulers_end_soon(scheduler: str) -> None:
    def search(work: Work) -> Schedule:
        return solve(task, scheduler, work=work)

    task = problem(4 if scheduler in BASELINES else 2, 0.6)
    assert run(search, 0.0).at_s <= SOON_S
    whole = run(search)
    over_s = run(search, 0.4 * whole.at_s).at_s - 0.4 * whole.at_s
    assert over_s <= max(SOON_S, SOON * whole.at_s)


@pytest.mark.parametrize(
    ("write", "soon"), [(formulate, 0.03), (formulate_algorithm_1, 0.1), (blocks_of, 0.13)]
)
def test_a_program_that_is_being_written_is_given_up_at_once(
    write: Callable[..., object], soon: float
) -> None:
    graph = Indexed.of(problem(2))
    whole_s = run(lambda work: write(graph, deadline=work.deadline)).at_s
    for share in (x / 20 for x in range(20)):
        ended = run(lambda work: write(graph, deadline=work.deadline), share * whole_s)
        assert isinstance(ended.answer, OutOfTime)
        assert ended.at_s <= (share + soon) * whole_s, share


def test_bounds_end_soon() -> None:
    task = replace(problem(2, 0.3), storage=None)
    unscheduled_bytes = checkpoint_all_schedule(task).peak_bytes
    for ended in assert_ends_soon(lambda work: minimum_budget(task, work=work), 0.2, 0.7):
        budget, _, exact = ended.answer  # type: ignore[misc]
        assert not exact
        assert budget <= unscheduled_bytes
    assert_ends_soon(lambda work: shortest_time(problem(2), work=work), 0.5)


def test_an_explanation_ends_soon() -> None:
    task = replace(problem(2, 0.01), storage=None)
    for ended in assert_ends_soon(poet(task), 0.05, 0.5, 0.9):
        assert isinstance(ended.answer, InfeasibleError)
        assert "found no schedule" in ended.answer.message
        assert "raise the time limit: it ended the search" in ended.answer.try_next


def test_transfers_are_moved_while_there_is_time() -> None:
    def move(work: Work) -> float:
        return simulate(task, plan_transfers(task, plan, work.deadline)).time_s

    task = problem(6, overlap=True)
    plan = BASELINES["swap-on-demand"].plan(task)
    whole = run(move).answer
    hurried = [ended.answer for ended in assert_ends_soon(move, 0.2, 0.6)]
    times_s = [simulate(task, plan).time_s, *hurried, whole]
    assert times_s == sorted(set(times_s), reverse=True)
