# SPDX-License-Identifier: Apache-2.0
"""Pictures of a plan: when each op runs and its output is in RAM, and the arena over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poetfw.boards import Board
from poetfw.firmware import statement_numbers
from poetfw.memory import MemoryPlan
from poetfw.report.arena import Arena, arena_picture
from poetfw.report.drawing import (
    BLUE,
    GREEN,
    PURPLE,
    VERMILLION,
    literal,
    new_figure,
    number_steps,
    render,
    short,
)
from poetfw.schedule import ExecutionPlan, Schedule, StepKind
from poetfw.training import Program

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES: Mapping[str, str] = {
    "in RAM": "#D5E8F5",
    "computed": BLUE,
    "paged out": PURPLE,
    "paged in": GREEN,
    "computed again": VERMILLION,
}
"""States of an op or its output at a step, and their colours; a cell that stands for several states
shows the last of them."""

MOST_CELLS = (480, 800)
"""Rows and columns of the schedule's picture, at most."""

_INCHES_PER_NAME = 0.13


def draw_pictures(
    program: Program, training: Schedule, memory: MemoryPlan, budget_bytes: int, board: Board
) -> dict[str, bytes]:
    """Both pictures of a training step, as SVG and PNG files by name."""
    title = f"{short(program.training.name, 60)} on {board.name}, batch {program.batch}"
    timeline = Timeline.of(training.plan)
    did = f"{timeline.steps} steps: {training.recomputes} recomputes, "
    did += f"{training.page_outs} page-outs, {training.page_ins} page-ins"
    peak = f"{memory.peak_bytes:,} B of RAM at most"
    limits = f"budget {budget_bytes:,} B, board RAM {board.ram_bytes:,} B"
    arena = Arena.of(f"{peak}; {did}", program, training.plan, memory)
    pictures = {
        "schedule": (schedule_picture(timeline, f"{title}: {did}"), f"{title}: {did}"),
        "memory": (
            arena_picture([arena], budget_bytes, board.ram_bytes, title),
            f"{title}: {peak}; {limits}; {did}",
        ),
    }
    return {
        f"{name}.{kind}": render(figure, kind, description)
        for name, (figure, description) in pictures.items()
        for kind in ("svg", "png")
    }


@dataclass(frozen=True)
class Timeline:
    """Steps at which ops run and their outputs are in RAM, numbered from 1 as in the code.

    Attributes:
        ops: names, in the order in which they are first computed.
        steps: number of steps.
        marks: (state, index in `ops`, first step, last step), in the order of the plan.
    """

    ops: tuple[str, ...]
    steps: int
    marks: tuple[tuple[str, int, int, int], ...]

    @staticmethod
    def of(plan: ExecutionPlan) -> Timeline:
        """The timeline of a plan."""
        rows: dict[str, int] = {}
        begun: dict[str, int] = {}
        marks = []
        numbers = statement_numbers(plan)
        for number, (kind, node, *_) in zip(numbers, plan, strict=True):
            if kind is StepKind.FREE:
                marks.append(("in RAM", rows[node], begun.pop(node), number))
                continue
            state = {
                StepKind.COMPUTE: "computed again" if node in rows else "computed",
                StepKind.PAGE_IN: "paged in",
                StepKind.PAGE_OUT: "paged out",
            }[kind]
            marks.append((state, rows.setdefault(node, len(rows)), number, number))
            begun.setdefault(node, number)
        return Timeline(tuple(rows), numbers[-1], tuple(marks))

    def cells(self, most: tuple[int, int] = MOST_CELLS) -> NDArray[np.uint8]:
        """The states of ops over steps; neighbours are merged where there are too many.

        Args:
            most: rows and columns, at most.

        Returns:
            Array of shape [ops, steps] or smaller: 0, or 1 + the state's position in `STATES`.
        """
        rows, columns = min(most[0], len(self.ops)), min(most[1], self.steps)
        codes = {state: code for code, state in enumerate(STATES, start=1)}
        cells = np.zeros((rows, columns), np.uint8)
        for state, op, first, last in self.marks:
            row = op * rows // len(self.ops)
            begin, end = ((step - 1) * columns // self.steps for step in (first, last))
            part = cells[row, begin : end + 1]
            np.maximum(part, codes[state], out=part)
        return cells


def schedule_picture(timeline: Timeline, title: str) -> Figure:
    """Ops over steps: what is computed, computed again, paged, and in RAM."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    colours = ["white", *STATES.values()]
    norm = BoundaryNorm(np.arange(len(colours) + 1) - 0.5, len(colours))
    names = len(timeline.ops)
    height = min(8.5, max(2.5, names * _INCHES_PER_NAME))
    with new_figure(10.5, height + 1.0) as figure:
        figure.suptitle(literal(title), fontsize=10, x=0.01, ha="left")
        axes = figure.add_subplot()
        axes.imshow(
            timeline.cells(),
            cmap=ListedColormap(colours),
            norm=norm,
            aspect="auto",
            interpolation="nearest",
            extent=(0.5, timeline.steps + 0.5, names - 0.5, -0.5),
        )
        shown = range(0, names, -(-names // int(height / _INCHES_PER_NAME)))
        axes.set_yticks(shown, [literal(short(timeline.ops[i])) for i in shown], fontsize=6.5)
        number_steps(axes, timeline.steps)
        axes.set_ylabel("op" if len(shown) == names else f"op (every {shown.step}th is named)")
        states = {state for state, *_ in timeline.marks}
        handles = [
            Patch(facecolor=colour, edgecolor="black", lw=0.3, label=state)
            for state, colour in STATES.items()
            if state in states
        ]
        figure.legend(handles=handles, fontsize=8, loc="outside right upper", frameon=False)
    return figure
