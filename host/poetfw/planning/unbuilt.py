# SPDX-License-Identifier: Apache-2.0
"""The schedule problem of a model on a board, without a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from poetfw.boards import Board, load_board
from poetfw.common.limits import Deadline, Work
from poetfw.costs import CostProvider, analytic_costs
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import resident_bytes
from poetfw.models import Model
from poetfw.planning.budget import keep_in_flash
from poetfw.planning.choices import derive_program, load_model
from poetfw.planning.homes import program_within, reading_obstacle
from poetfw.planning.inference import least_evaluation
from poetfw.planning.problem import schedule_problem
from poetfw.planning.training_problem import TrainingProblem
from poetfw.schedule import ScheduleProblem
from poetfw.settings import BuildSettings
from poetfw.tools import emulator_of


def load_training_problem(
    settings: BuildSettings,
    warn: Callable[[str], None] = lambda text: None,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
) -> TrainingProblem:
    """A model's training step on a board, with all the RAM that the board has for tensors.

    Weights that do not fit that RAM, or the settings' budget, are streamed, and frozen ones that
    flash has no room for. Nothing is compiled, so static data is not subtracted. `warn` is called
    with each warning of the model.
    """
    board = load_board(settings.board, check_machine=emulator_of)
    settings = settings.on(board)
    model = load_model(settings)
    for warning in model.warnings:
        warn(warning)
    return training_problem_of(settings, board, model, costs, deadline)


def training_problem_of(
    settings: BuildSettings,
    board: Board,
    model: Model,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
) -> TrainingProblem:
    """`load_training_problem` for a model in memory and settings for the board (`settings.on`)."""
    program = derive_program(settings, model, deadline)
    budget = board.unreserved_bytes if settings.ram_bytes is None else settings.ram_bytes
    program = keep_in_flash(program, board, reading_obstacle(settings, board))
    program = program_within(program, board, costs, budget, settings, deadline)
    resident = resident_bytes(program.resident, BLOCK_BYTES)
    available = max(0, board.unreserved_bytes - resident)
    table = costs(program.training, board)
    problem = schedule_problem(program.training, board, table, available, settings.deadline_s)
    evaluation = least_evaluation(program, board, costs, Work(deadline=deadline)).peak_bytes
    return TrainingProblem(
        replace(problem, resident_bytes=resident), resident + evaluation, board, table
    )


def load_schedule_problem(
    settings: BuildSettings, costs: CostProvider = analytic_costs
) -> ScheduleProblem:
    """A model's schedule problem, with all the RAM that the board has for tensors."""
    return load_training_problem(settings, costs=costs).problem
