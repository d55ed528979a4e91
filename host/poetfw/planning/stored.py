# SPDX-License-Identifier: Apache-2.0
"""Effect of a smaller form of activations: bytes that wait, energy, and the gradients' error."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from poetfw.boards import Board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.common.option_values import FLOAT16_FORM
from poetfw.firmware import BLOCK_BYTES
from poetfw.importers import DataSet
from poetfw.ir import Graph
from poetfw.memory import ONLY, resident_bytes
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.planning.choices import derive_program, unordered_program
from poetfw.planning.decision import Decision, Searching
from poetfw.planning.plans import plan_unscheduled
from poetfw.planning.problem import schedule_problem
from poetfw.report import FloatsInstead, StoredAs
from poetfw.schedule import solve
from poetfw.settings import BuildSettings
from poetfw.training import Program, Reference

_WORK = 1.0
"""Limit of work units of the search for a schedule in float32."""


def effect_of_storing(
    settings: BuildSettings,
    model: Model,
    data: DataSet,
    decided: Decision,
    board: Board,
    searching: Searching,
) -> StoredAs | None:
    """Effect of the form in the settings; None for float32.

    Args:
        settings: settings of the build.
        model: the model with its initial weights.
        data: data set, whose first batch gives the gradients.
        decided: the plan with the form.
        board: target board.
        searching: deadline, costs and callbacks of the search for a plan in float32.
    """
    if settings.store_as is None:
        return None
    floats, stored = _programs(settings, model)
    before, after = _waiting_bytes(floats.training), _waiting_bytes(stored.training)
    unlike = decided.problem is not None or bool(decided.program.streamed)
    return StoredAs(
        settings.store_as,
        before,
        after,
        gradient_error(settings, model, data),
        everything_j=decided.checkpoint_all.training.energy_j,
        floats=None if unlike else _floats(settings, model, decided, board, searching),
    )


def gradient_error(settings: BuildSettings, model: Model, data: DataSet) -> float:
    """Distance of the first batch's gradients from those in float32, relative to these."""
    if settings.store_as != FLOAT16_FORM:
        return 0.0
    exact, rounded = (_gradients(program, model, data) for program in _programs(settings, model))
    size = _norm(exact)
    distance = _norm({name: rounded[name] - value for name, value in exact.items()})
    return distance / size if size else 0.0


def _programs(settings: BuildSettings, model: Model) -> tuple[Program, Program]:
    """Programs with activations in float32 and in the form, whose gradients are all stored."""
    floats, stored = (
        unordered_program(replace(settings, store_as=form), model, fuse_updates=False)
        for form in (None, settings.store_as)
    )
    return floats, stored


def _floats(
    settings: BuildSettings, model: Model, decided: Decision, board: Board, searching: Searching
) -> FloatsInstead:
    """The step in float32: keeping everything, and the best schedule found in the same budget."""
    searching.progress("comparing with activations in float32")
    program = derive_program(replace(settings, store_as=None), model, searching.deadline)
    everything = plan_unscheduled(program, board, searching.costs, searching.deadline)
    budget_bytes, _ = decided.budgets[ONLY]
    resident = resident_bytes(program.resident, BLOCK_BYTES)
    table = searching.costs(program.training, board)
    energy_j = None
    if budget_bytes > resident:
        room = budget_bytes - resident
        problem = schedule_problem(program.training, board, table, room, settings.deadline_s)
        with suppress(InfeasibleError), Work(_WORK, searching.deadline).phase("float32") as work:
            energy_j = solve(problem, settings.scheduler, work=work).energy_j
    return FloatsInstead(everything.memory.peak_bytes, everything.training.energy_j, energy_j)


def _gradients(program: Program, model: Model, data: DataSet) -> Mapping[str, Array]:
    ran = Reference(program, model.weights, np.float32)
    ran.step(data.x_train[: program.batch], data.y_train[: program.batch])
    return ran.gradients


def _norm(gradients: Mapping[str, Array]) -> float:
    return float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())))


def _waiting_bytes(graph: Graph) -> int:
    """Bytes of outputs of forward ops that backward ops read."""
    forward = {op.output for op in graph.ops if not op.backward}
    waiting = {
        name for op in graph.ops if op.backward for name in graph.reads(op) if name in forward
    }
    return sum(graph.by_name[name].size_bytes for name in waiting)
