# SPDX-License-Identifier: Apache-2.0
"""The demo's memory before and after: what order, sharing and a schedule save, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import place, resident_bytes
from poetfw.memory.ordering import OrderingProblem, from_graph, order_ops
from poetfw.planning import Build
from poetfw.report.arena import Arena, arena_picture
from poetfw.report.drawing import render
from poetfw.training import Program, make_program
from workloads.olla import buffers_of


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of memory planning.

    Attributes:
        name: what it does that the one before does not.
        arena_bytes: bytes of the arena.
        peak_bytes: most bytes live at any step.
    """

    name: str
    arena_bytes: int
    peak_bytes: int


def stages_of(build: Build) -> list[Stage]:
    """Stages of a build, each with one more means of saving memory."""
    model = build.model
    stored = make_program(model.graph, model.loss, model.optimizer, fuse_updates=False)
    sharing = from_graph(stored.training)
    alone = replace(sharing, ops=tuple(replace(op, in_place=None) for op in sharing.ops))
    kept, scheduled = build.checkpoint_all.memory, build.plan.memory
    return [
        _place("keeping everything, in the order of the model", stored, alone, alone.names),
        _place("+ in the order of the lowest peak", stored, alone, order_ops(alone).order),
        _place("+ outputs written over inputs that die", stored, sharing, order_ops(sharing).order),
        Stage("+ gradients applied without being stored", kept.arena_bytes, kept.peak_bytes),
        Stage("+ scheduled", scheduled.arena_bytes, scheduled.peak_bytes),
    ]


def before_and_after(build: Build) -> bytes:
    """A PNG of the arena with everything kept, beside that of the schedule."""
    plans = {"keeping everything": build.checkpoint_all, "scheduled by poetfw": build.plan}
    arenas = [
        Arena.of(
            f"{name}: {plan.memory.arena_bytes:,} B",
            build.program,
            plan.training.plan,
            plan.memory,
        )
        for name, plan in plans.items()
    ]
    board = build.image.board
    title = f"{build.program.training.name} on {board.name}, batch {build.program.batch}"
    limits = f"budget {build.image.budget_bytes:,} B, board RAM {board.ram_bytes:,} B"
    shown = "; ".join(arena.title for arena in arenas)
    figure = arena_picture(arenas, build.image.budget_bytes, board.ram_bytes, title)
    return render(figure, "png", f"{title}: {shown}; {limits}")


def _place(name: str, program: Program, problem: OrderingProblem, order: Sequence[str]) -> Stage:
    """Every tensor at an address, live from the op that produces it to the last that reads it."""
    placement = place(buffers_of(problem, order))
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    return Stage(name, resident + placement.height_bytes, resident + placement.lower_bound_bytes)
