# SPDX-License-Identifier: Apache-2.0
"""Running the firmware that times a training step piece by piece, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from poetfw.common.errors import DeviceError
from poetfw.common.option_values import SILENCE_S
from poetfw.tools.console import Event, parse_line
from poetfw.tools.process import TimedOut, started
from poetfw.tools.statuses import STATUSES

STEPS = 8
"""So many steps the firmware times piece by piece."""


@dataclass(frozen=True)
class Slices:
    """A training step, timed.

    Attributes:
        tick_unit: what a tick is: instructions, cycles or ns.
        whole: ticks of a step that nobody interrupted, on average over the same steps.
        nothing: ticks of an empty slice.
        ticks: of each op and each transfer, on average over steps, an empty slice's included.
    """

    tick_unit: str
    whole: int
    nothing: int
    ticks: tuple[float, ...]


def run_slices(
    command: Sequence[str],
    folder: Path,
    timeout_s: float,
    count: int,
    silence_s: float = SILENCE_S,
) -> Slices:
    """Run it to its end.

    Args:
        command: what runs it.
        folder: where the storage image is.
        timeout_s: seconds that it may take.
        count: how many slices a step has.
        silence_s: seconds that it may say nothing.

    Raises:
        DeviceError: the firmware hangs, fails, or says what makes no sense.
        ToolError: the command cannot be started.
    """
    ticks: list[int] = []
    most = 1 + STEPS * count
    with started(command, folder) as process:
        try:
            for line in process.lines(timeout_s, silence_s):
                event = parse_line(line)
                if event is None:
                    continue
                if event.word == "slice" and event.number == len(ticks) < most:
                    ticks.append(event.integer("ticks"))
                elif event.word == "done" and len(ticks) == most:
                    unit = event.values.get("tick_unit", "")
                    each = tuple(mean(ticks[1 + i :: count]) for i in range(count))
                    return Slices(unit, event.integer("ticks"), ticks[0], each)
                elif event.word in ("slice", "done", "error", "fault"):
                    raise _failed(event, len(ticks), most)
        except TimedOut:
            raise DeviceError(
                f"the firmware hangs: it timed {len(ticks)} of {most} pieces of steps",
                "raise --timeout, or --silence, if a step is just long",
            ) from None
    raise DeviceError(
        f"the firmware ended after {len(ticks)} of {most} pieces of steps",
        "build again: `poetfw build`",
    )


def _failed(event: Event, timed: int, count: int) -> DeviceError:
    status = event.values.get("status", "")
    said = " ".join(f"{key}={value}" for key, value in event.values.items())
    meaning = f": {STATUSES[status]}" if status in STATUSES else ""
    return DeviceError(
        f"the firmware timed {timed} of {count} pieces of steps, and then said @{event.word} "
        f"{said}{meaning}",
        "build again: `poetfw build`",
    )
