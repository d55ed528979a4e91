# SPDX-License-Identifier: Apache-2.0
"""Display of a run as it goes: loss, times and memory beside the plan, checkpoints, and faults."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from poetfw.cli import output
from poetfw.runs.observer import RunObserver, StepDone

if TYPE_CHECKING:
    from poetfw.common.transfer import Transfer
    from poetfw.firmware import Traffic
    from poetfw.runs.execution import BuildFolder, BuiltProject

_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = 48
_REFRESHES_PER_S = 4


class Sparkline:
    """Means of a curve over equal parts of its length, whatever its length.

    Attributes:
        first: first value; None before it is known.
        last: last value.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._sums = [0.0] * _COLUMNS
        self._counts = [0] * _COLUMNS
        self.first: float | None = None
        self.last = 0.0

    def add(self, number: int, value: float) -> None:
        """Add the value at a place, counted from 1."""
        column = (number - 1) * _COLUMNS // max(self._length, number)
        self._sums[column] += value
        self._counts[column] += 1
        self.first = value if self.first is None else self.first
        self.last = value

    def text(self) -> str:
        """Bars of the means; a part without values is left out."""
        counted = zip(self._sums, self._counts, strict=True)
        means = [total / count for total, count in counted if count]
        if not means:
            return ""
        low, high = min(means), max(means)
        scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
        return "".join(_BARS[round((mean - low) * scale)] for mean in means)


class LiveDisplay(RunObserver):
    """State of a run that is shown, and its rendering."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._activity = ""
        self._steps = 0
        self._done = 0
        self._curve = Sparkline(1)
        self._step_s: Mapping[str, float] = {}
        self._moved: Traffic | None = None
        self._checkpoint: int | None = None
        self._resets: list[str] = []
        self._problems: list[str] = []
        self._repeated = 0
        self._memory: dict[str, tuple[int, int]] = {}
        self._build: BuildFolder | None = None
        self._planned_moved: Traffic | None = None
        self._shares = ""

    def begin(self, build: BuildFolder, steps: int) -> None:
        """Take what is planned from the build."""
        from poetfw.firmware import step_traffic

        self._build, self._steps, self._curve = build, steps, Sparkline(steps)
        if not build.apart:
            stages = build.evaluator.stages
            self._planned_moved = step_traffic(stages.program, stages.training)
            self._shares = planned_shares(build.evaluator)

    def activity(self, done: int, total: int, text: str) -> None:
        """Show an activity that is no training step."""
        self._activity = f"{text} {done}/{total}" if done else text

    def step(self, step: StepDone) -> None:
        """Show a training step."""
        self._activity = "training"
        self._done = step.number
        self._curve.add(step.number, step.loss)
        if self._build is not None:
            projects = self._build.projects
            self._step_s = {
                name: ticks * tick_s(projects[name]) for name, ticks in step.ticks.items()
            }

    def moved(self, traffic: Traffic) -> None:
        """Show a step's transfers."""
        self._moved = traffic

    def checkpoint(self, step: int) -> None:
        """Show the last commit."""
        self._checkpoint = step

    def reset(self, cause: str) -> None:
        """Show a start of the firmware."""
        self._resets.append(cause)

    def problem(self, text: str) -> None:
        """Show what the firmware overcame."""
        self._problems.append(text)

    def repeated(self, commands: int) -> None:
        """Show commands sent again."""
        self._repeated = commands

    def memory(self, name: str, arena_bytes: int, stack_bytes: int) -> None:
        """Show measured memory."""
        self._memory[name] = arena_bytes, stack_bytes

    def __rich__(self) -> Group:
        """Render what is known now."""
        head = Table.grid(padding=(0, 2))
        elapsed_s = time.monotonic() - self._began_s
        bar = ProgressBar(total=max(1, self._steps), completed=self._done, width=_COLUMNS)
        head.add_row(bar, f"step {self._done:,} of {self._steps:,}", f"{elapsed_s:,.0f} s")
        rows = Table.grid(padding=(0, 2))
        for name, value in self.rows():
            rows.add_row(Text(name, style="bold"), output.escaped(value))
        return Group(head, rows)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Names and values, as far as they are known."""
        yield "", self._activity
        if self._curve.first is not None:
            values = f"{self._curve.first:.4f} → {self._curve.last:.4f}"
            yield "loss", f"{self._curve.text()}  {values}"
        if self._build is None:
            return
        yield from self._times(self._build)
        yield from self._memories(self._build)
        if self._checkpoint is None:
            yield "last checkpoint", "none yet"
        else:
            behind = self._done - self._checkpoint
            lost = f", {behind:,} steps ago" if behind else ""
            yield "last checkpoint", f"step {self._checkpoint:,}{lost}"
        resets = ", ".join(self._resets[-3:])
        again = max(0, len(self._resets) - 1)
        yield "resets", f"{again:,}" + (f" (starts: {resets})" if resets else "")
        yield "link errors", f"{self._repeated:,} commands sent again"
        if self._problems:
            yield "overcome", f"{len(self._problems):,}, the last {self._problems[-1]}"

    def _times(self, build: BuildFolder) -> Iterator[tuple[str, str]]:
        """Times of a step and its transfers, beside planned ones."""
        planned_s = build.report.schedule.time_s
        for name, step_s in self._step_s.items():
            of = f"step of {name}" if name else "step"
            text = f"{step_s:.4g} s"
            if not build.apart:
                text += f", planned {planned_s:.4g} s"
            if counts_instructions(build.projects[name]):
                share = (
                    "" if build.apart else f"; core {step_s / planned_s:.0%} of the planned step"
                )
                text += f" (at one cycle per instruction on a twin{share})"
            elif not build.apart:
                text += f" ({step_s / planned_s - 1:+.1%})"
            yield of, text
        if self._shares:
            yield "of a step, planned", self._shares
        if self._moved is not None:
            text = f"{self._moved.requests:,} requests, {self._moved.blocks:,} blocks a step"
            planned = self._planned_moved
            if planned is not None and planned != self._moved:
                text += f", planned {planned.requests:,} and {planned.blocks:,}"
            if not build.apart:
                text += self._busy(build.evaluator, self._moved, planned_s)
            yield "storage", text

    def _busy(self, project: BuiltProject, moved: Traffic, planned_s: float) -> str:
        """Seconds of the counted transfers at the board file's speed, and their share of a step."""
        storage = project.board.storage
        if storage is None or not self._step_s or not planned_s:
            return ""
        busy_s = transfers_s(moved, storage.page_in, storage.page_out)
        if counts_instructions(project):
            share = f"{busy_s / planned_s:.0%} of the planned step"
        else:
            share = f"{busy_s / max(self._step_s.values()):.0%} of the step"
        return f"; {busy_s:.4g} s at the board file's speed, {share}"

    def _memories(self, build: BuildFolder) -> Iterator[tuple[str, str]]:
        """Arena and stack of each program: planned, and measured as soon as it is reported."""
        for name, program in build.report.memories.items():
            of = f" of {name}" if name else ""
            planned = f"{output.size(program.peak_bytes)} of {output.size(program.budget_bytes)}"
            measured = self._memory.get(name)
            if measured is None:
                yield f"arena{of}", f"{planned} planned"
                continue
            yield f"arena{of}", f"{output.size(measured[0])} used, {planned} planned"
            if measured[1]:
                yield f"stack{of}", f"{output.size(measured[1])} used"


def counts_instructions(project: BuiltProject) -> bool:
    """True if ticks of a twin are instructions; on the board itself they are cycles."""
    return not project.board.toolchain.hosted


def tick_s(project: BuiltProject) -> float:
    """Seconds of a tick: a nanosecond of a system's clock, or a cycle of the core."""
    return 1e-9 if project.board.toolchain.hosted else 1 / project.board.clock_hz


def transfers_s(moved: Traffic, page_in: Transfer, page_out: Transfer) -> float:
    """Seconds of counted transfers; requests are shared between directions by their bytes."""
    total = moved.read_bytes + moved.written_bytes
    if not total:
        return 0.0
    latency_s = page_in.latency_s * moved.read_bytes + page_out.latency_s * moved.written_bytes
    return (
        moved.requests * latency_s / total
        + moved.read_bytes / page_in.bandwidth_bytes_per_s
        + moved.written_bytes / page_out.bandwidth_bytes_per_s
    )


def planned_shares(project: BuiltProject) -> str:
    """Shares of a planned step in which core and storage work; they may overlap."""
    from poetfw.common.reading import parse_json, read_bytes
    from poetfw.report.stage_files import PLAN, step_costs_of, training_of
    from poetfw.schedule import StepKind

    document = parse_json(read_bytes(project.folder / PLAN))
    busy = {True: 0.0, False: 0.0}
    for step, cost in zip(training_of(document).steps, step_costs_of(document), strict=True):
        busy[step.kind is StepKind.COMPUTE] += cost.end_s - cost.begin_s
    whole_s = project.report.schedule.time_s
    return f"core {busy[True] / whole_s:.0%}, storage {busy[False] / whole_s:.0%}"


def can_show(console: Console) -> bool:
    """True if a terminal can redraw lines."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def live_display() -> Iterator[LiveDisplay]:
    """Show a run on the terminal until the block ends, however it ends."""
    output.began = True
    display = LiveDisplay()
    console = output.messages
    with Live(
        display, console=console, refresh_per_second=_REFRESHES_PER_S, vertical_overflow="crop"
    ):
        yield display
