"""Pictures of a plan: what each stage does with each op, and the arena over time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Graph
from poetfw.memory import MemoryPlan
from poetfw.schedule import ExecutionPlan, Schedule, StepKind
from poetfw.training import Program

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STATES: Mapping[str, tuple[int, str]] = {
    "held": (1, "#c6dbef"),
    "computed": (2, "#08519c"),
    "recomputed": (3, "#e6550d"),
    "paged out": (4, "#756bb1"),
    "paged in": (5, "#31a354"),
}
_BACKGROUND = "#ffffff"
_PERSISTENT = "#969696"


@contextmanager
def own_style() -> Iterator[None]:
    """Matplotlib's defaults while something is drawn, whatever a `matplotlibrc` says."""
    from matplotlib import style

    with style.context("default", after_reset=True):
        yield


@own_style()
def draw_pictures(
    program: Program,
    training: Schedule,
    memory: MemoryPlan,
    budget_bytes: int,
    board: str,
) -> dict[str, bytes]:
    """Both pictures of a training step, as SVG and PNG files by name."""
    title = f"{program.training.name} on {board}, batch {program.batch}"
    figures = {
        "schedule": schedule_picture(program.training, training.plan, title),
        "memory": memory_picture(memory, len(training.plan), budget_bytes, title),
    }
    return {
        f"{name}.{kind}": render(figure, kind)
        for name, figure in figures.items()
        for kind in ("svg", "png")
    }


def schedule_picture(graph: Graph, plan: ExecutionPlan, title: str) -> Figure:
    """Stages against ops: what is computed, computed again, paged, and held.

    A stage ends with the first computation of an op, as in POET's Algorithm 1. Where one stage
    does several things to a tensor, the picture shows the last of recomputed, paged out, paged in.
    """
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    cells = _stage_cells(graph, plan)
    colours = [_BACKGROUND, *(colour for _, colour in _STATES.values())]
    figure, axes = _figure(max(6.0, 0.16 * cells.shape[1] + 2.5), max(4.0, 0.13 * len(cells) + 2))
    norm = BoundaryNorm([i - 0.5 for i in range(len(colours) + 1)], len(colours))
    axes.imshow(cells, cmap=ListedColormap(colours), norm=norm, aspect="auto")
    columns = [op.name for op in graph.ops if op.output is not None]
    axes.set_xticks(range(len(columns)), [_short(n) for n in columns], rotation=90, fontsize=6)
    axes.set_yticks(range(0, len(cells), max(1, len(cells) // 20)))
    axes.set_xlabel("op")
    axes.set_ylabel("stage")
    axes.set_title(_plain(title), fontsize=9)
    handles = [Patch(color=colour, label=name) for name, (_, colour) in _STATES.items()]
    axes.legend(handles=handles, fontsize=6, loc="upper right")
    return figure


def memory_picture(memory: MemoryPlan, steps: int, budget_bytes: int, title: str) -> Figure:
    """The arena over the plan's steps: every allocation of the training step, at its address.

    Args:
        memory: the memory plan.
        steps: number of steps of the execution plan.
        budget_bytes: what the arena may occupy; drawn as a line.
        title: what stands above the picture.
    """
    figure, axes = _figure(9.0, 4.5)
    draw_arena(axes, memory, steps, budget_bytes)
    axes.set_xlabel("plan step")
    axes.set_ylabel("offset in the arena (bytes)")
    axes.set_title(_plain(title), fontsize=9)
    return figure


def draw_arena(axes: Axes, memory: MemoryPlan, steps: int, budget_bytes: int) -> None:
    """Draw the allocations of a training step and the budget, as in `memory_picture`."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.patches import Rectangle

    resident = [(0, steps, a.offset, a.size_bytes) for a in memory.persistent]
    resident.append((0, steps, memory.page_buffer_offset, BLOCK_BYTES))
    for lower, upper, offset, size in resident:
        axes.add_patch(Rectangle((lower, offset), upper - lower, size, color=_PERSISTENT, lw=0))
    shades = ScalarMappable(cmap="tab20").to_rgba(np.arange(20))
    for number, a in enumerate(memory.training):
        axes.add_patch(
            Rectangle(
                (a.lower, a.offset),
                a.upper - a.lower,
                a.size_bytes,
                facecolor=shades[number % 20],
                edgecolor="black",
                lw=0.3,
            )
        )
        if a.size_bytes * (a.upper - a.lower) > 0.02 * budget_bytes * steps:
            centre = ((a.lower + a.upper) / 2, a.offset + a.size_bytes / 2)
            axes.annotate(_short(a.owner), centre, ha="center", va="center", fontsize=5)
    axes.axhline(budget_bytes, color="red", lw=1, ls="--")
    axes.annotate("budget", (steps, budget_bytes), ha="right", va="bottom", fontsize=7, color="red")
    axes.set_xlim(0, steps)
    axes.set_ylim(0, 1.08 * max(budget_bytes, memory.arena_bytes))


def render(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of a file of the given kind (`svg` or `png`), the same every time."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with (
        mpl.rc_context({"svg.hashsalt": "poetfw", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        # A name may hold letters the font lacks; they show as boxes, and nobody can help it.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=110, metadata=metadata)
    return buffer.getvalue()


def _stage_cells(
    graph: Graph, plan: ExecutionPlan
) -> np.ndarray[tuple[int, int], np.dtype[np.int_]]:
    columns = {
        op.name: column for column, op in enumerate(op for op in graph.ops if op.output is not None)
    }
    rows: list[np.ndarray[tuple[int], np.dtype[np.int_]]] = []
    row = np.zeros(len(columns), np.int_)
    held: set[str] = set()
    computed: set[str] = set()
    for kind, node in plan:
        ends_stage = kind is StepKind.COMPUTE and node not in computed
        if node in columns:
            if kind is StepKind.FREE:
                held.discard(node)
            else:
                state = {
                    StepKind.COMPUTE: "recomputed" if node in computed else "computed",
                    StepKind.PAGE_IN: "paged in",
                    StepKind.PAGE_OUT: "paged out",
                }[kind]
                row[columns[node]] = _STATES[state][0]
                held.add(node)
        if ends_stage:
            computed.add(node)
            rows.append(row)
            row = np.zeros(len(columns), np.int_)
            for name in held:
                row[columns[name]] = _STATES["held"][0]
    return np.stack(rows)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _short(name: str, limit: int = 26) -> str:
    plain = _plain(name)
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def _plain(text: str) -> str:
    """Text that matplotlib shows as it stands: no formulas, no control characters."""
    return "".join(c if c.isprintable() else "·" for c in text).replace("$", r"\$")
