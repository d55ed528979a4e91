# SPDX-License-Identifier: Apache-2.0
"""A build for several devices: which board they are of, which plan they follow, within what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from poetfw.boards import Board, family_threads, load_board
from poetfw.costs import CostTable, OpCost
from poetfw.devices import emulator_of
from poetfw.errors import BoardError, ConfigError, InfeasibleError
from poetfw.firmware import BLOCK_BYTES
from poetfw.limits import RAISE_TIME_LIMIT, Work
from poetfw.memory import DeviceArena, MemoryPlan, WorkersPlan, place_devices
from poetfw.planning.devices import DeviceFile
from poetfw.schedule import Schedule, ScheduleSummary, Status
from poetfw.schedule.devices import (
    DevicesAnswer,
    DevicesFigures,
    DevicesPlan,
    DevicesProblem,
    DeviceStepKind,
    Minimise,
    require_same_graph,
    simulate_devices,
    solve_devices,
    validate_devices,
)
from poetfw.schedule.devices.solve import Tell
from poetfw.training import Program

_Placed = TypeVar("_Placed")
_ATTEMPTS = 5
_ATTEMPT_SHARE = 0.75  # of the work left; most plans can be placed, and the first one is the last


@dataclass(frozen=True)
class DevicesBuildSettings:
    """What a user may set for a build for several devices, beside the settings of any build.

    Attributes:
        files: one TOML file per device.
        ram_fractions: per device its RAM, as a fraction of what keeping everything takes; None for
            the RAM in its file.
        parallel: whether they work at once.
        followed: an answer to follow instead of searching for one; None for a search.
        apart: whether each has a program of its own, on a board of its own.
    """

    files: tuple[Path, ...]
    ram_fractions: tuple[float, ...] | None = None
    parallel: bool = False
    followed: DevicesAnswer | None = None
    apart: bool = False

    def plan_of(self, problem: DevicesProblem) -> DevicesPlan | None:
        """The plan to follow; None for a search.

        Raises:
            PlanError: it is of another graph than the problem.
        """
        if self.followed is None:
            return None
        require_same_graph(problem, self.followed.tensor_bytes)
        return self.followed.plan


@dataclass(frozen=True)
class WorkersSchedule:
    """The plan that several devices follow, and where every buffer lies; see `Plan`.

    Attributes:
        training: the figures of a training step.
        evaluation: the schedule of the evaluation step.
        memory: where every buffer lies.
        workers: the plan of a training step.
        costs: what each op takes where the plan computes it first.
    """

    training: ScheduleSummary
    evaluation: Schedule
    memory: MemoryPlan
    workers: WorkersPlan
    costs: CostTable

    @property
    def steps(self) -> WorkersPlan:
        """The same plan, by the name that it has in every build."""
        return self.workers

    @property
    def limit_bytes(self) -> int:
        """What the whole arena may take: each device's limit, and what they share."""
        shared = min(arena.offset for arena in self.workers.arenas)
        return shared + sum(arena.limit_bytes for arena in self.workers.arenas)


def named_boards(files: Sequence[DeviceFile], paths: Sequence[Path]) -> list[str]:
    """The board that each device's file names.

    Raises:
        BoardError: a file names none.
        ConfigError: there are fewer than two devices.
    """
    if len(files) < 2:
        raise ConfigError("--devices of a build takes two device files or more")
    names = []
    for path, file in zip(paths, files, strict=True):
        if file.board is None:
            raise BoardError(
                f"{path}: board is missing: it says whose programs run on the device",
                'add board = "NAME" to it (`poetfw boards` lists what is known)',
            )
        names.append(file.board)
    return names


def board_of_devices(files: Sequence[DeviceFile], paths: Sequence[Path]) -> Board:
    """The board that devices are parts of, with one thread for each device's kernels.

    Raises:
        BoardError: a file names no board, or one without threads.
        ConfigError: there are fewer than two devices, or of different boards.
    """
    names = list(dict.fromkeys(named_boards(files, paths)))
    if len(names) > 1:
        raise ConfigError(
            f"the devices are of different boards: {', '.join(names)}",
            "name devices whose files have the same board: they share its memory",
            "or give each a program of its own: --apart",
        )
    board = load_board(names[0], check_machine=emulator_of)
    board.require_firmware()
    if not family_threads(board.hal):
        raise BoardError(
            f"board {board.name!r} runs one thread only: devices of it cannot work together",
            "use a board whose programs have an operating system",
        )
    return replace(board, compute=replace(board.compute, threads=1))


def plan_on_devices(
    program: Program,
    evaluation: Schedule,
    problem: DevicesProblem,
    plan: DevicesPlan | None,
    work: Work,
    tell: Tell,
) -> WorkersSchedule:
    """The best plan within each device's limit whose buffers could be placed there.

    Args:
        program: what is trained.
        evaluation: the schedule of the evaluation step.
        problem: the devices.
        plan: what to follow instead of a search's answer; None for a search.
        work: what the search may do, all attempts together.
        tell: is told how the search goes on.

    Raises:
        InfeasibleError: no plan is known, or its buffers found no place within the limits.
        PlanError: the plan to follow is not one of these devices, or illegal.
    """
    limits = {device.name: device.problem.ram_bytes for device in problem.devices}
    buffers = {(link.source, link.target): link.buffer_bytes for link in problem.links}

    def place(steps: DevicesPlan) -> tuple[tuple[DeviceArena, ...], MemoryPlan]:
        memory, arenas = place_devices(
            program.persistent,
            BLOCK_BYTES,
            (program.training, steps),
            (program.evaluation, evaluation.plan),
            limits,
            buffers,
            work.deadline,
        )
        return arenas, memory

    found = find_plan(problem, plan, place, work, tell)
    workers = WorkersPlan(found.steps, found.arenas, problem.parallel, buffers)
    costs = costs_of(problem, found.steps)
    return WorkersSchedule(found.figures, evaluation, found.placed, workers, costs)


class Found(NamedTuple, Generic[_Placed]):
    """A plan for several devices whose buffers have their addresses."""

    figures: ScheduleSummary
    steps: DevicesPlan
    arenas: tuple[DeviceArena, ...]
    placed: _Placed


def find_plan(
    problem: DevicesProblem,
    plan: DevicesPlan | None,
    place: Callable[[DevicesPlan], tuple[tuple[DeviceArena, ...], _Placed]],
    work: Work,
    tell: Tell,
) -> Found[_Placed]:
    """The best plan within each device's limit whose buffers could be placed there.

    Args:
        problem: the devices.
        plan: what to follow instead of a search's answer; None for a search.
        place: gives a plan's buffers their addresses; says each device's arena, and where all is.
        work: what the search may do, all attempts together.
        tell: is told how the search goes on.

    Raises:
        InfeasibleError: no plan is known, or its buffers found no place within the limits.
        PlanError: the plan to follow is not one of these devices, or illegal.
    """
    validate_devices(problem)
    limited = problem
    for _ in range(_ATTEMPTS):
        if plan is None:
            part = work.part(work.left * _ATTEMPT_SHARE)
            answer = solve_devices(limited, Minimise.TIME, work=part, tell=tell)
            steps = answer.plan
            figures = _summary(answer, answer.scheduler, answer.status)
        else:
            steps = plan
            figures = _summary(simulate_devices(problem, plan), "replayed", Status.FEASIBLE)
        arenas, placed = place(steps)
        excess = {a.device: a.size_bytes - a.limit_bytes for a in arenas}
        if max(excess.values()) <= 0:
            return Found(figures, steps, arenas, placed)
        if plan is not None:
            break
        limited = _tightened(limited, excess)
    over = " and ".join(
        f"{arena.device!r} {arena.size_bytes:,} of {arena.limit_bytes:,}"
        for arena in arenas
        if arena.size_bytes > arena.limit_bytes
    )
    raise InfeasibleError(
        f"no plan was found whose buffers could be placed within the devices' limits: the last one "
        f"takes {over} bytes",
        *([RAISE_TIME_LIMIT] if work.deadline.decided else []),
        "give the devices more RAM, or choose a smaller --batch",
    )


def require_room(board: Board, memory: MemoryPlan) -> None:
    """Check that the devices' arenas fit the RAM of the board that they are parts of.

    Raises:
        InfeasibleError: they do not.
    """
    available = board.ram_bytes - board.reserved_ram_bytes - board.stack_bytes
    if memory.arena_bytes > available:
        raise InfeasibleError(
            f"the devices' arenas and what they share take {memory.arena_bytes:,} bytes, and board "
            f"{board.name!r} has {available:,}",
            "choose a smaller --batch",
        )


def _tightened(problem: DevicesProblem, excess: Mapping[str, int]) -> DevicesProblem:
    """The problem with so much less RAM on each device as placement took too much there."""
    return replace(
        problem,
        devices=tuple(
            replace(
                device,
                problem=replace(
                    device.problem,
                    ram_bytes=device.problem.ram_bytes - max(0, excess[device.name]),
                ),
            )
            for device in problem.devices
        ),
    )


def _summary(figures: DevicesFigures, scheduler: str, status: Status) -> ScheduleSummary:
    """The figures as a build reports them; the bound, which is of time, is the search's to tell."""
    return ScheduleSummary(
        energy_j=figures.energy_j,
        compute_energy_j=figures.energy_j,
        paging_energy_j=0.0,
        time_s=figures.time_s,
        peak_bytes=sum(figures.peak_bytes.values()),
        recomputes=figures.recomputes,
        page_ins=figures.page_ins,
        page_outs=figures.page_outs,
        scheduler=scheduler,
        status=status,
        overhead=None,
        bound_j=None,
        bound_covers=None,
        gap=None,
        overhead_gap=None,
    )


def costs_of(problem: DevicesProblem, plan: DevicesPlan) -> CostTable:
    """What each op takes where a plan computes it first."""
    nodes = {
        device.name: {node.name: node for node in device.problem.nodes}
        for device in problem.devices
    }
    ops: dict[str, OpCost] = {}
    for step in plan:
        if step.kind is DeviceStepKind.COMPUTE and step.node not in ops:
            node = nodes[step.device][step.node]
            ops[step.node] = OpCost(node.time_s, node.energy_j)
    return CostTable(", ".join(nodes), ops)
