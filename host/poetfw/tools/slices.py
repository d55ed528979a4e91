# SPDX-License-Identifier: Apache-2.0
"""Runs firmware that times each statement of a training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from poetfw.common.errors import DeviceError
from poetfw.common.option_values import SILENCE_S
from poetfw.tools.console import Event, parse_line
from poetfw.tools.process import TimedOut, started
from poetfw.tools.statuses import STATUSES

STEPS = 8
"""Number of steps whose statements the firmware times."""


@dataclass(frozen=True)
class Slices:
    """Durations of a training step and its statements.

    Attributes:
        tick_unit: unit of a tick: instructions, cycles or ns.
        whole: ticks of an uninterrupted step, averaged over as many steps.
        ticks: ticks of each statement, averaged over steps, by statement number; statements without
            time are left out.
    """

    tick_unit: str
    whole: int
    ticks: Mapping[int, float]


def run_slices(
    command: Sequence[str],
    folder: Path,
    timeout_s: float,
    count: int,
    silence_s: float = SILENCE_S,
) -> Slices:
    """Run timing firmware to its end.

    Args:
        command: command that runs the firmware.
        folder: folder of the storage image.
        timeout_s: seconds that the run may take.
        count: number of statements in a step; a statement gives one time, and another if it waits.
        silence_s: seconds without a line after which the firmware counts as hung.

    Raises:
        DeviceError: The firmware hangs or fails, or its report is invalid.
        ToolError: The command cannot be started.
    """
    empty = 0
    ticks: dict[int, int] = {}
    begun: dict[int, int] = {}
    statement = pieces = 0
    most = 1 + STEPS * 2 * count
    with started(command, folder) as process:
        try:
            for line in process.lines(timeout_s, silence_s):
                event = parse_line(line)
                if event is None:
                    continue
                if event.word == "slice" and event.number == pieces < most:
                    pieces += 1
                    if pieces == 1:
                        empty = event.integer("ticks")
                        continue
                    slot = event.integer("slot") if "slot" in event.values else -1
                    statement = event.integer("statement") or begun.get(slot, statement)
                    begun[slot] = statement
                    ticks[statement] = ticks.get(statement, 0) + event.integer("ticks") - empty
                elif event.word == "done" and pieces > 1 and (pieces - 1) % STEPS == 0:
                    unit = event.values.get("tick_unit", "")
                    means = {number: max(0.0, ticks[number] / STEPS) for number in sorted(ticks)}
                    return Slices(unit, event.integer("ticks"), means)
                elif event.word in ("slice", "done", "error", "fault"):
                    raise _failed(event, pieces)
        except TimedOut:
            raise DeviceError(
                f"the firmware hangs: it timed {pieces} pieces of steps",
                "raise --timeout, or --silence, if a step is just long",
            ) from None
    raise DeviceError(
        f"the firmware ended after {pieces} pieces of steps",
        "build again: `poetfw build`",
    )


def _failed(event: Event, pieces: int) -> DeviceError:
    status = event.values.get("status", "")
    said = " ".join(f"{key}={value}" for key, value in event.values.items())
    meaning = f": {STATUSES[status]}" if status in STATUSES else ""
    return DeviceError(
        f"the firmware timed {pieces} pieces of steps, and then said @{event.word} {said}{meaning}",
        "build again: `poetfw build`",
    )
