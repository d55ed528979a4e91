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
from poetfw.planning.choices import derive_program, load_model
from poetfw.planning.inference import least_evaluation
from poetfw.planning.kernels import choose_kernels
from poetfw.planning.variants import Variants
from poetfw.planning.workspace import KernelChoices
from poetfw.schedule import ScheduleProblem
from poetfw.settings import BuildSettings
from poetfw.tools import emulator_of


def load_kernel_choices(
    settings: BuildSettings,
    warn: Callable[[str], None] = lambda text: None,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
) -> tuple[KernelChoices, Variants]:
    """Load a model's training step on a board, with all of the board's RAM for tensors.

    Nothing is compiled, so static data is not subtracted. `warn` is called with each warning of the
    model.
    """
    board = load_board(settings.board, check_machine=emulator_of)
    settings = settings.on(board)
    model = load_model(settings)
    for warning in model.warnings:
        warn(warning)
    return kernel_choices(settings, board, model, costs, deadline)


def kernel_choices(
    settings: BuildSettings,
    board: Board,
    model: Model,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
) -> tuple[KernelChoices, Variants]:
    """`load_kernel_choices` for a model in memory and settings for the board (`settings.on`)."""
    chosen = choose_kernels(derive_program(settings, model, deadline), board, costs)
    program = chosen.program
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    training = program.training
    choices = KernelChoices.of(training, chosen.by[training.name], board, costs)
    available = max(0, board.unreserved_bytes - resident)
    variants = choices.variants(available, settings.deadline_s, resident)
    evaluation = least_evaluation(program, board, costs, Work(deadline=deadline)).peak_bytes
    return choices, replace(variants, evaluation_bytes=resident + evaluation)


def load_schedule_problem(
    settings: BuildSettings, costs: CostProvider = analytic_costs
) -> ScheduleProblem:
    """Load a model's schedule problem with the kernel of least workspace for each op."""
    _, variants = load_kernel_choices(settings, costs=costs)
    return variants.lean
