# SPDX-License-Identifier: Apache-2.0
"""A build for devices on boards of their own: a program for each, which a host brings together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.boards import Board, load_board
from poetfw.costs import CostTable
from poetfw.devices import emulator_of
from poetfw.errors import ConfigError, InfeasibleError, listed
from poetfw.firmware import BLOCK_BYTES
from poetfw.limits import Work
from poetfw.memory import (
    DeviceArena,
    MemoryPlan,
    Partner,
    PartnerPlan,
    evaluator,
    place_partners,
)
from poetfw.planning.devices import DeviceFile
from poetfw.planning.workers import costs_of, find_plan, named_boards
from poetfw.schedule import Schedule, ScheduleSummary
from poetfw.schedule.devices import DevicesPlan, DevicesProblem
from poetfw.schedule.devices.solve import Tell
from poetfw.training import Program

_RESERVED = ("run", "src", "lib", "ld", "platforms", "include", "test")
"""No names for a partner's folder: a project has folders of these names itself, or may have."""


@dataclass(frozen=True)
class PartnerSchedule:
    """What one partner follows of a plan, and where its buffers lie; see `Plan`.

    Attributes:
        training: the figures of a training step, of all devices.
        evaluation: the schedule of the evaluation step; without steps where another evaluates.
        memory: where every buffer lies in this partner's memory.
        steps: its part of a training step.
        costs: what each op takes where the plan computes it first.
    """

    training: ScheduleSummary
    evaluation: Schedule
    memory: MemoryPlan
    steps: PartnerPlan
    costs: CostTable

    @property
    def limit_bytes(self) -> int:
        """What the whole arena may take: the device's limit, and what lives for the whole run."""
        return self.steps.arena.offset + self.steps.arena.limit_bytes

    @property
    def evaluates(self) -> bool:
        """Whether this partner evaluates held-out samples."""
        return self.steps.device == self.steps.evaluates


def boards_of_partners(files: Sequence[DeviceFile], paths: Sequence[Path]) -> Mapping[str, Board]:
    """Each device's board, by the device's name, with one thread for its kernels.

    Raises:
        BoardError: a file names no board, or one that has no firmware.
        ConfigError: there are fewer than two devices, two of one name, one of a reserved name, or
            their boards do not train to the same bits.
    """
    names = named_boards(files, paths)
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
            f"the devices round sums of products in different ways: {listed(said)}",
            "name devices whose boards have the same arithmetic (`poetfw boards`): only those "
            "train to the same bits",
        )
    return boards


def plan_partners(
    program: Program,
    evaluation: Schedule,
    problem: DevicesProblem,
    plan: DevicesPlan | None,
    work: Work,
    tell: Tell,
) -> Mapping[str, PartnerSchedule]:
    """The best plan within each device's limit whose buffers could be placed there, in parts.

    Arguments and errors are those of `plan_on_devices`. Links' buffers are not placed.
    """
    limits = {device.name: device.problem.ram_bytes for device in problem.devices}

    def place(steps: DevicesPlan) -> tuple[tuple[DeviceArena, ...], Mapping[str, Partner]]:
        partners = place_partners(
            program, steps, evaluation.plan, limits, BLOCK_BYTES, work.deadline
        )
        return tuple(partner.arena for partner in partners.values()), partners

    found = find_plan(problem, plan, place, work, tell)
    first = evaluator(limits)
    return {
        name: PartnerSchedule(
            found.figures,
            evaluation if name == first else replace(evaluation, plan=()),
            partner.memory,
            PartnerPlan(found.steps, name, tuple(limits), first, partner.arena),
            costs_of(problem, found.steps),
        )
        for name, partner in found.placed.items()
    }


def require_room_on(boards: Mapping[str, Board], plans: Mapping[str, PartnerSchedule]) -> None:
    """Check that each partner's arena, with what lives for the whole run, fits its board.

    Raises:
        InfeasibleError: one does not.
    """
    for name, board in boards.items():
        available = board.ram_bytes - board.reserved_ram_bytes - board.stack_bytes
        if plans[name].memory.arena_bytes > available:
            raise InfeasibleError(
                f"device {name!r} takes {plans[name].memory.arena_bytes:,} bytes, "
                f"{plans[name].steps.arena.offset:,} of them for what lives for the whole run, and "
                f"board {board.name!r} has {available:,}",
                "lower ram_bytes in its file, or its --ram-fraction: then less is put there",
                "or choose a smaller --batch",
            )
