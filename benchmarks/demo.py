"""The demo's memory before and after: what order, sharing and a schedule save, step by step.

Run it with

    python benchmarks/demo.py [--picture FILE.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure
from ordering import buffers_of

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.firmware import BLOCK_BYTES
from poetfw.limits import Work
from poetfw.memory import Allocation, MemoryPlan, place, resident_bytes
from poetfw.memory.ordering import OrderingProblem, from_graph, order_ops
from poetfw.planning import (
    BuildSettings,
    arena_budget,
    load_model,
    order_program,
    plan_unscheduled,
    plan_within,
)
from poetfw.report.pictures import draw_arena, render
from poetfw.training import Program, make_program


@dataclass(frozen=True, slots=True)
class Stage:
    """How far memory planning has got.

    Attributes:
        name: what it does that the one before does not.
        memory: where everything lies.
        steps: of its plan.
    """

    name: str
    memory: MemoryPlan
    steps: int


def plan_stages(settings: BuildSettings) -> tuple[list[Stage], int]:
    """The stages of a build, and the budget of its arena in bytes."""
    board = load_board(settings.board)
    model = load_model(settings)
    stored = make_program(model.graph, model.loss, model.optimizer, fuse_updates=False)
    sharing = from_graph(stored.training)
    alone = replace(sharing, ops=tuple(replace(op, in_place=None) for op in sharing.ops))
    program = order_program(make_program(model.graph, model.loss, model.optimizer))
    unscheduled = plan_unscheduled(program, board, analytic_costs)
    budget = arena_budget(program, board, unscheduled)
    scheduled, _ = plan_within(
        program, board, analytic_costs, budget, settings, unscheduled.evaluation, Work()
    )
    stages = [
        _place("keeping everything, in the order of the model", stored, alone, alone.names),
        _place("+ in the order of the lowest peak", stored, alone, order_ops(alone).order),
        _place("+ outputs written over inputs that die", stored, sharing, order_ops(sharing).order),
        Stage(
            "+ gradients applied without being stored",
            unscheduled.memory,
            len(unscheduled.training.plan),
        ),
        Stage("+ scheduled", scheduled.memory, len(scheduled.training.plan)),
    ]
    return stages, budget


def draw_before_and_after(stages: list[Stage], budget_bytes: int) -> Figure:
    """The arena in the first stage and in the last."""
    figure = Figure(figsize=(12.0, 4.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, stage in zip(panels, (stages[0], stages[-1]), strict=True):
        draw_arena(axes, stage.memory, stage.steps, budget_bytes)
        axes.set_xlabel("plan step")
        axes.set_title(f"{stage.memory.arena_bytes:,} bytes", fontsize=9)
    panels[0].set_ylim(0, 1.05 * stages[0].memory.arena_bytes)
    panels[0].set_ylabel("offset in the arena (bytes)")
    return figure


def _place(name: str, program: Program, problem: OrderingProblem, order: Sequence[str]) -> Stage:
    """Every tensor at an address, live from the op that produces it to the last that reads it."""
    buffers = buffers_of(problem, order)
    placement = place(buffers)
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    # What is resident is drawn as one block, like the page buffer.
    persistent = (Allocation("resident", False, 0, 0, 0, resident),)
    training = tuple(
        Allocation(b.id, False, b.lower, b.upper, resident + placement.offsets[b.id], b.size)
        for b in buffers
    )
    arena, peak = placement.height_bytes, placement.lower_bound_bytes
    memory = MemoryPlan(persistent, 0, training, (), resident + arena, resident + peak)
    return Stage(name, memory, len(order))


def main() -> None:
    """Print the stages; draw the first and the last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw before and after")
    options = parser.parse_args()
    stages, budget = plan_stages(BuildSettings(board="nrf52840"))
    first = stages[0].memory.arena_bytes
    print(f"digits-cnn, batch 32, nrf52840, budget {budget:,} bytes\n")
    print("| | arena bytes | over the peak | of the first |")
    print("|---|--:|--:|--:|")
    for stage in stages:
        arena, peak = stage.memory.arena_bytes, stage.memory.peak_bytes
        print(f"| {stage.name} | {arena:,} | {arena - peak:,} | {arena / first:.1%} |")
    if options.picture is not None:
        options.picture.write_bytes(render(draw_before_and_after(stages, budget), "png"))


if __name__ == "__main__":
    main()
