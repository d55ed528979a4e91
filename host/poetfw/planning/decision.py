# SPDX-License-Identifier: Apache-2.0
"""The devices of a training step, and its plan: on one device, or on several.

This is the only place where the two differ. On one device the search covers recomputing, paging
and the budget; on several it covers which device computes each op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from poetfw.boards import Board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.costs import CostProvider, CostTable, analytic_costs
from poetfw.firmware import BLOCK_BYTES, Ring
from poetfw.memory import ONLY, resident_bytes
from poetfw.models import Model
from poetfw.planning.budget import arena_budget, keep_in_flash, plan_within, require_flash
from poetfw.planning.choices import derive_program, make_ring
from poetfw.planning.devices import devices_problem, read_device
from poetfw.planning.homes import (
    all_streamed,
    can_use_storage,
    reading_obstacle,
    stream_within,
    streaming_obstacle,
    with_not_streamed,
)
from poetfw.planning.inference import schedule_within
from poetfw.planning.kept_features import Keepable, are_wanted, find_keepable
from poetfw.planning.loading import loading
from poetfw.planning.plans import Plan, plan_unscheduled
from poetfw.planning.problem import schedule_problem
from poetfw.planning.read_ahead import MOST_ENERGY, read_ahead, spare_at
from poetfw.planning.several import costs_of, plan_on_devices, require_room
from poetfw.planning.watchdog import require_fed, watchdog_time_ms
from poetfw.schedule import ExecutionPlan, Schedule, StepCost, Tell, step_costs, tell_nobody
from poetfw.schedule.several import DevicesProblem, device_step_costs, require_same_graph
from poetfw.schedule.several.solve import Tell as TellOfDevices
from poetfw.settings import BuildSettings, DevicesSettings
from poetfw.training import Program

_RENDERING = 2.5
"""Estimated time of the stages after the search, as a multiple of the time before it: before, it is
mostly loading Python packages; after, loading matplotlib and drawing."""

_PLAN_SHARE = 0.5
"""Share of the work that is left to the search for the plan, whatever that for homes took."""

_AHEAD_SHARE = 0.25
"""Share of that work that planning takes again for weights that are loaded ahead."""

Progress = Callable[[str], None]
"""Called with the name of the stage that begins."""


@dataclass(frozen=True)
class Searching:
    """Deadline, costs and callbacks of a search.

    Attributes:
        deadline: end of the search.
        progress: called with the name of each stage as it begins.
        costs: provider of op costs on a board.
        tell: called with the progress of a search for a schedule of one device.
        tell_of_devices: called with the progress of a search for a plan of several devices.
    """

    deadline: Deadline
    progress: Progress
    costs: CostProvider = analytic_costs
    tell: Tell = tell_nobody
    tell_of_devices: TellOfDevices = lambda phase, cost, bound: None


@dataclass(frozen=True)
class Decision:
    """A program and its plan.

    Attributes:
        program: the training and the evaluation step.
        plan: the plan that firmware follows, as the program sees it that evaluates.
        checkpoint_all: the plan that keeps everything, in as much RAM as it takes.
        costs: what the training step's ops cost.
        budgets: what each memory's arena may occupy, and the smallest budget that there could be.
        problem: of several devices, what the plan solves; None for one.
        ring: the samples that the device keeps, None for none.
        watchdog_ms: see `watchdog_time_ms`.
        keepable: features that the plan could keep in storage; None without any.
        latest: features that the plan could keep in RAM: those that it calculates last.
        keeps: True if features are wanted, so that the budget has room for them.
        step_costs: planned times and energy of each step of the plan.
    """

    program: Program
    plan: Plan
    checkpoint_all: Plan
    costs: CostTable
    budgets: Mapping[str, tuple[int, int]]
    problem: DevicesProblem | None = None
    ring: Ring | None = None
    watchdog_ms: int | None = None
    keepable: Keepable | None = None
    latest: Keepable | None = None
    keeps: bool = False
    step_costs: tuple[StepCost, ...] = ()


def decide(
    settings: BuildSettings, boards: Mapping[str, Board], model: Model, searching: Searching
) -> Decision:
    """Derive a model's training step, schedule it on these boards, and place its buffers.

    Raises:
        PoetfwError: No plan exists within the budget and the deadline.
    """
    if settings.devices is None:
        return _decide_on_board(settings, boards[ONLY], model, searching)
    return _decide_on_devices(settings, settings.devices, boards, model, searching)


def _decide_on_board(
    settings: BuildSettings, board: Board, model: Model, searching: Searching
) -> Decision:
    deadline, costs, progress = searching.deadline, searching.costs, searching.progress
    watchdog_ms = watchdog_time_ms(settings, board)
    program = derive_program(settings, model, deadline)
    program = keep_in_flash(program, board, reading_obstacle(settings, board))
    ring = make_ring(settings, model.batch)
    unlimited = plan_unscheduled(program, board, costs, deadline)
    table = costs(program.training, board)
    keepable, _ = find_keepable(program, unlimited.training.plan, board, table) or (None, None)
    keeps = are_wanted(settings, model, keepable)
    deadline.reserve(_RENDERING)
    kept = keepable.features if keepable is not None and keeps else None

    def budget_of(program: Program, unlimited: Plan) -> int:
        if settings.ram_bytes is not None:
            return settings.ram_bytes
        progress("asking the compiler for the size of static data")
        with deadline.excluded(), loading("cvxpy", "matplotlib.figure"):
            return arena_budget(program, board, unlimited, ring, kept)

    found: tuple[Plan, int] | None = None
    if not program.beyond_flash:
        budget = budget_of(program, unlimited)
        progress("solving for the schedule")
        try:
            found = _plan_on_board(
                *(program, board, costs, budget, settings, unlimited, searching),
                Work(settings.work_limit, deadline),
            )
        except InfeasibleError as error:
            if error.minimum_budget_bytes is None or not can_use_storage(program):
                raise
            obstacle = streaming_obstacle(settings, board)
            if obstacle:
                raise InfeasibleError(
                    f"{error.message}. Its weights cannot be streamed from storage: {obstacle}",
                    *error.try_next,
                    minimum_budget_bytes=error.minimum_budget_bytes,
                ) from error
    if found is None:
        progress("choosing weights to stream from storage")
        only_read = bool(streaming_obstacle(settings, board))
        everything = all_streamed(program, only_read=only_read)
        budget = budget_of(everything, plan_unscheduled(everything, board, costs, deadline))
        streamed = _plan_streamed(program, board, costs, budget, settings, searching)
        program, unlimited, found = streamed.program, streamed.unlimited, streamed.found
        table = costs(program.training, board)
    plan, minimum = found
    if watchdog_ms is not None:
        require_fed(watchdog_ms, program, board, costs, plan)
    keepable, latest = find_keepable(program, plan.training.plan, board, table) or (None, None)
    return Decision(
        program=program,
        plan=plan,
        checkpoint_all=unlimited,
        costs=table,
        budgets={ONLY: (budget, minimum)},
        ring=ring,
        watchdog_ms=watchdog_ms,
        keepable=keepable,
        latest=latest,
        keeps=keeps,
        step_costs=step_costs(
            schedule_problem(program.training, board, table, None), plan.step.steps
        ),
    )


class _Streamed(NamedTuple):
    """A program that streams, and its plans.

    Attributes:
        program: the program.
        unlimited: its plan without a limit of RAM.
        found: the best plan within the budget, and the smallest feasible budget in bytes.
    """

    program: Program
    unlimited: Plan
    found: tuple[Plan, int]

    @property
    def schedule(self) -> Schedule:
        """Schedule of the training step."""
        return self.found[0].training


def _plan_streamed(
    program: Program,
    board: Board,
    costs: CostProvider,
    budget: int,
    settings: BuildSettings,
    searching: Searching,
) -> _Streamed:
    """Choose what is streamed and stored, and plan it.

    Raises:
        InfeasibleError: No plan fits.
    """
    deadline = searching.deadline
    work = Work(settings.work_limit, deadline)
    chosen = stream_within(program, board, costs, budget, settings, work)
    searching.progress("solving for the schedule with streamed weights")
    units = max(settings.work_limit - chosen.work, settings.work_limit * _PLAN_SHARE)

    def planned(program: Program, units: float, known: Sequence[ExecutionPlan]) -> _Streamed:
        unlimited = plan_unscheduled(program, board, costs, deadline)
        of_board = (program, board, costs, budget, settings, unlimited, searching)
        found = _plan_on_board(*of_board, Work(units, deadline), known)
        return _Streamed(program, unlimited, found)

    try:
        best = planned(chosen.program, units, chosen.known)
    except InfeasibleError as refused:
        raise with_not_streamed(refused, chosen.program) from refused
    program, schedule = best.program, best.schedule
    room = budget - resident_bytes(program.resident, BLOCK_BYTES)
    problem = schedule_problem(program.training, board, costs(program.training, board), room)
    for spare_bytes in (spare_at(problem, schedule.plan), {}) if board.overlaps else ():
        ahead = read_ahead(program, board, costs, spare_bytes)
        if ahead == program or deadline.has_passed():
            break
        with suppress(InfeasibleError):
            other = planned(ahead, units * _AHEAD_SHARE, [schedule.plan])
            if other.schedule.energy_j <= MOST_ENERGY * schedule.energy_j:
                return other
    return best


def _plan_on_board(
    program: Program,
    board: Board,
    costs: CostProvider,
    budget: int,
    settings: BuildSettings,
    unlimited: Plan,
    searching: Searching,
    work: Work,
    known: Sequence[ExecutionPlan] = (),
) -> tuple[Plan, int]:
    """Find the best plan within a budget; returns it and the smallest feasible budget in bytes.

    Raises:
        InfeasibleError: No plan fits.
    """
    evaluation = schedule_within(
        program.evaluation,
        board,
        costs,
        budget - resident_bytes(program.resident, BLOCK_BYTES),
        unlimited.evaluation,
        work,
    )
    return plan_within(
        program, board, costs, budget, settings, evaluation, work, searching.tell, known
    )


def _decide_on_devices(
    settings: BuildSettings,
    devices: DevicesSettings,
    boards: Mapping[str, Board],
    model: Model,
    searching: Searching,
) -> Decision:
    deadline = searching.deadline
    program = derive_program(settings, model, deadline)
    require_flash(program, boards.values())
    files = [read_device(path) for path in devices.files]
    problem = replace(
        devices_problem(program.training, files, devices.ram_fractions),
        parallel=devices.parallel,
        deadline_s=settings.deadline_s,
    )
    unlimited = plan_unscheduled(program, next(iter(boards.values())), analytic_costs, deadline)
    deadline.reserve(_RENDERING)
    searching.progress("solving for the plan")
    followed = None
    if devices.followed is not None:
        require_same_graph(problem, devices.followed.tensor_bytes)
        followed = devices.followed.plan
    plan = plan_on_devices(
        program,
        unlimited.evaluation,
        problem,
        followed,
        Work(settings.work_limit, deadline),
        searching.tell_of_devices,
        apart=devices.apart,
    )
    require_room(program, boards, plan)
    limits = {name: plan.of(name).limit_bytes for name in boards}
    return Decision(
        program=program,
        plan=plan,
        checkpoint_all=unlimited,
        costs=costs_of(problem, plan.training.plan),
        budgets={name: (limits[name], plan.memories[name].arena_bytes) for name in boards},
        problem=problem,
        step_costs=device_step_costs(problem, plan.step.steps),
    )
