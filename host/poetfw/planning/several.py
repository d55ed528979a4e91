# SPDX-License-Identifier: Apache-2.0
"""A build for several devices: boards, memory limits and the plan.

Devices share the memory of one board, or each has a program on a board of its own ("apart").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from poetfw.boards import Board, family_threads, load_board
from poetfw.common.errors import BoardError, ConfigError, InfeasibleError, listed
from poetfw.common.limits import RAISE_TIME_LIMIT, Work
from poetfw.costs import CostTable, OpCost
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import ONLY, place_parts
from poetfw.planning.advice import fewer_layers, smaller_batch
from poetfw.planning.devices import DeviceFile, read_device
from poetfw.planning.inference import PLACEMENT_ATTEMPTS, search_placeable
from poetfw.planning.plans import Plan
from poetfw.schedule import ExecutionPlan, Schedule, Status, StepKind
from poetfw.schedule.several import (
    DevicesFigures,
    DevicesProblem,
    Minimise,
    simulate_devices,
    solve_devices,
    validate_devices,
)
from poetfw.schedule.several.solve import Tell
from poetfw.settings import BuildSettings
from poetfw.tools import choose_toolchain, emulator_of
from poetfw.training import Program

_RESERVED = ("run", "src", "lib", "ld", "platforms", "include", "test")
"""Reserved names, which are those of folders in a project; devices cannot have them."""


def boards_of(settings: BuildSettings) -> Mapping[str, Board]:
    """Boards by memory name, each with the toolchain that builds its program.

    Raises:
        BoardError: A board is unknown or has no firmware, or a device file is malformed or names no
            board that can run its program, or the toolchain does not build for a board.
        ConfigError: The devices' boards cannot be combined.
    """
    found = _boards_of(settings)
    return {name: choose_toolchain(board, settings.toolchain) for name, board in found.items()}


def _boards_of(settings: BuildSettings) -> Mapping[str, Board]:
    devices = settings.devices
    if devices is None:
        board = load_board(settings.board, check_machine=emulator_of).with_threads(settings.threads)
        board.require_firmware()
        return {ONLY: board}
    files = [read_device(path) for path in devices.files]
    if devices.apart:
        return boards_apart(files, devices.files)
    return {ONLY: _shared_board(files, devices.files)}


def _named_boards(files: Sequence[DeviceFile], paths: Sequence[Path]) -> list[str]:
    """Board names in the device files.

    Raises:
        BoardError: A file names no board.
        ConfigError: There are fewer than two devices.
    """
    if len(files) < 2:
        raise ConfigError("--devices of a build takes two device files or more")
    names = []
    for path, file in zip(paths, files, strict=True):
        if file.board is None:
            raise BoardError(
                f"{path}: board is missing: it says whose programs run on the device",
                'add board = "NAME" to it (`poetfw boards` lists the known boards)',
            )
        names.append(file.board)
    return names


def _shared_board(files: Sequence[DeviceFile], paths: Sequence[Path]) -> Board:
    """Board whose memory the devices share, with one thread per device.

    Raises:
        BoardError: A file names no board, or a board without threads.
        ConfigError: There are fewer than two devices, or their boards differ.
    """
    names = list(dict.fromkeys(_named_boards(files, paths)))
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
            f"board {board.name!r} runs one thread only, and devices that share it need one each",
            "use a board whose programs have an operating system",
        )
    return replace(board, compute=replace(board.compute, threads=1))


def boards_apart(files: Sequence[DeviceFile], paths: Sequence[Path]) -> Mapping[str, Board]:
    """Boards by device name, each with a single thread for kernels.

    Raises:
        BoardError: A file names no board, or a board without firmware.
        ConfigError: There are fewer than two devices, a name is reserved or used twice, or the
            boards do not train to the same bits.
    """
    names = _named_boards(files, paths)
    boards: dict[str, Board] = {}
    for path, file, named in zip(paths, files, names, strict=True):
        if file.name in boards or file.name in _RESERVED:
            taken = "another device has it" if file.name in boards else "poetfw takes it itself"
            raise ConfigError(
                f"{path}: the name {file.name!r} cannot be a program's: {taken}",
                "give the device another name",
            )
        board = load_board(named, check_machine=emulator_of)
        board.require_firmware()
        boards[file.name] = replace(board, compute=replace(board.compute, threads=1))
    classes = {board.compute.arithmetic for board in boards.values()}
    if len(classes) > 1:
        said = [f"{name!r} ({b.name}): {b.compute.arithmetic}" for name, b in boards.items()]
        raise ConfigError(
            f"the devices' boards round sums of products in different ways: {listed(said)}",
            "name devices whose boards have the same arithmetic (`poetfw boards`): only those "
            "train to the same bits",
        )
    return boards


def plan_on_devices(
    program: Program,
    evaluation: Schedule,
    problem: DevicesProblem,
    plan: ExecutionPlan | None,
    work: Work,
    tell: Tell,
    *,
    apart: bool = False,
) -> Plan:
    """Find the best plan whose buffers can be placed within each device's limit.

    Args:
        program: training and evaluation step.
        evaluation: schedule of the evaluation step.
        problem: problem of the devices.
        plan: plan to follow without a search; None to search.
        work: limit of all attempts together.
        tell: called with the progress of the search.
        apart: True if each device has a memory of its own.

    Raises:
        InfeasibleError: No plan was found, or its buffers cannot be placed within the limits.
        PlanError: The plan to follow is illegal, or for other devices.
    """
    validate_devices(problem)
    limits = {device.name: device.problem.ram_bytes for device in problem.devices}
    buffers = {(link.source, link.target): link.buffer_bytes for link in problem.links}

    def attempt(limited: DevicesProblem, part: Work) -> tuple[Plan, DevicesProblem | None]:
        if plan is None:
            answer = solve_devices(limited, Minimise.TIME, work=part, tell=tell)
            training = _schedule(answer, answer.plan, answer.scheduler, answer.status)
        else:
            figures = simulate_devices(problem, plan)
            training = _schedule(figures, plan, "replayed", Status.FEASIBLE)
        placed = place_parts(
            program,
            training.plan,
            evaluation.plan,
            {name: name if apart else ONLY for name in limits},
            limits,
            BLOCK_BYTES,
            buffers=buffers,
            at_once=problem.parallel,
            deadline=work.deadline,
        )
        arenas = [part.arena for part in placed.step.parts]
        excess = {arena.device: arena.size_bytes - arena.limit_bytes for arena in arenas}
        fits = max(excess.values()) <= 0
        return Plan(training, evaluation, *placed), None if fits else _tightened(limited, excess)

    attempts = PLACEMENT_ATTEMPTS if plan is None else 1
    found, fits = search_placeable(problem, attempt, work, attempts)
    if fits:
        return found
    over = " and ".join(
        f"{arena.device!r} {arena.size_bytes:,} of {arena.limit_bytes:,}"
        for arena in (part.arena for part in found.step.parts)
        if arena.size_bytes > arena.limit_bytes
    )
    raise InfeasibleError(
        f"no plan was found whose buffers could be placed within the devices' limits: the last one "
        f"takes {over} bytes",
        *([RAISE_TIME_LIMIT] if work.deadline.decided else []),
        "give the devices more RAM",
        *smaller_batch(program),
    )


def require_room(program: Program, boards: Mapping[str, Board], plan: Plan) -> None:
    """Check that the arena of each memory, with its persistent tensors, fits the board's RAM.

    Raises:
        InfeasibleError: An arena does not fit.
    """
    for name, board in boards.items():
        available = board.ram_bytes - board.reserved_ram_bytes - board.stack_bytes
        needed = plan.memories[name].arena_bytes
        if needed <= available:
            continue
        if not plan.step.apart:
            raise InfeasibleError(
                f"the devices' arenas and shared tensors take {needed:,} bytes, and board "
                f"{board.name!r} has {available:,}",
                *smaller_batch(program),
                *fewer_layers(program),
            )
        (part,) = plan.step.of(name).own
        raise InfeasibleError(
            f"device {name!r} takes {needed:,} bytes, {part.arena.offset:,} of them for persistent "
            f"tensors, and board {board.name!r} has {available:,}",
            "lower ram_bytes in its file, or its --ram-fraction, so that it gets fewer tensors",
            *smaller_batch(program),
        )


def _tightened(problem: DevicesProblem, excess: Mapping[str, int]) -> DevicesProblem:
    """The problem with each device's RAM reduced by the bytes that placement exceeded."""
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


def _schedule(
    figures: DevicesFigures, plan: ExecutionPlan, scheduler: str, status: Status
) -> Schedule:
    """Schedule with the figures of several devices, without a bound, as theirs is one of time."""
    return Schedule(
        plan=plan,
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


def costs_of(problem: DevicesProblem, plan: ExecutionPlan) -> CostTable:
    """Costs of each op on the device that first computes it."""
    nodes = {
        device.name: {node.name: node for node in device.problem.nodes}
        for device in problem.devices
    }
    ops: dict[str, OpCost] = {}
    for step in plan:
        if step.kind is StepKind.COMPUTE and step.node not in ops:
            node = nodes[step.device][step.node]
            ops[step.node] = OpCost(node.time_s, node.energy_j)
    return CostTable(", ".join(nodes), ops)
