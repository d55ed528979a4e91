# SPDX-License-Identifier: Apache-2.0
"""Runs firmware to its end and collects what its console reports."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from poetfw.common.errors import DeviceError, MixedImagesError
from poetfw.common.option_values import SILENCE_S
from poetfw.firmware import Traffic
from poetfw.tools.console import Event, parse_line
from poetfw.tools.process import TimedOut, last_lines, started
from poetfw.tools.statuses import STATUSES

_LINES_QUOTED = 5
_MOST_ARENAS = 64
_MOST_DAMAGED = 1024
_MIXED = "-29"
_REBUILD = ("build again: `poetfw build` writes firmware and storage image together",)


@dataclass(frozen=True, slots=True)
class MeterEnergy:
    """Energy measured on the computer that ran the firmware.

    Attributes:
        energy_j: energy in joules.
        source: name of the meter, as the firmware reports it.
    """

    energy_j: float
    source: str


@dataclass(frozen=True)
class RunLog:
    """Report of a firmware's run.

    Attributes:
        losses: mean loss of each training step, the f32 value that the device computed.
        resumed_from: number of training steps done in earlier runs.
        metrics: metric of each evaluation batch.
        ticks: duration of the training in ticks.
        tick_unit: unit of a tick: instructions, cycles or ns.
        high_water_bytes: highest byte of the arena ever written.
        stack_high_water_bytes: bytes of stack used at most.
        storage_bytes_read, storage_bytes_written: bytes transferred from and to the storage.
        storage_file: access to a storage file: `direct`, bypassing the system's cache, or `cached`;
            None if the storage is not a file, or unknown.
        storage_erases: erase operations of the storage; None if it has none.
        arenas: `high_water_bytes` of each device, if the training step runs on several.
        damaged: numbers of damaged samples that were skipped, by kind: `training`, `held_out`, and
            slots of the `ring`.
        begun_anew: True if no commit was intact and training began with the program's initial
            weights.
        energy: energy measured during the run; None without a meter.
        step_traffic: transfers of all training steps; None if the device does not report it.
    """

    losses: tuple[float, ...]
    metrics: tuple[float, ...]
    ticks: int
    tick_unit: str
    high_water_bytes: int
    stack_high_water_bytes: int
    storage_bytes_read: int
    storage_bytes_written: int
    storage_file: str | None = None
    storage_erases: int | None = None
    energy: MeterEnergy | None = None
    resumed_from: int = 0
    arenas: tuple[int, ...] = ()
    damaged: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    begun_anew: bool = False
    step_traffic: Traffic | None = None


def run_firmware(
    command: list[str],
    folder: Path,
    timeout_s: float,
    on_event: Callable[[Event], None] = lambda event: None,
    *,
    steps: int,
    evaluations: int,
    resume: bool = False,
    silence_s: float = SILENCE_S,
    environment: Mapping[str, str] | None = None,
) -> RunLog:
    """Run firmware to its end in the folder of its storage image.

    Args:
        command: command of an `Emulator`.
        folder: working folder, in which the firmware opens `storage.img`.
        timeout_s: seconds that the run may take.
        on_event: called for each event of the console as it comes.
        steps: number of training steps that the image asks for.
        evaluations: number of held-out batches in the image.
        resume: True if earlier runs may have done some of the steps.
        silence_s: seconds without a line after which the firmware counts as hung.
        environment: variables added to those of this process.

    Raises:
        DeviceError: The firmware hangs, faults or reports an error, or its steps and evaluations
            are not those expected, in order.
        ToolError: The command cannot be started.
    """
    transcript = _Transcript(steps, evaluations, resume)
    ends_s = time.monotonic() + timeout_s
    with started(command, folder, environment) as process:
        try:
            for line in process.lines(timeout_s, silence_s):
                event = parse_line(line)
                if event is None:
                    transcript.ignored.append(line)
                else:
                    transcript.add(event)
                    on_event(event)
            code = process.wait(max(0.0, ends_s - time.monotonic()))
        except TimedOut as stop:
            error = transcript.silent(silence_s) if stop.silent else transcript.hang(timeout_s)
            raise error from None
    return transcript.log(code)


class _Transcript:
    """Events of a firmware so far. Its size is bounded, whatever the firmware prints."""

    def __init__(self, steps: int, evaluations: int, resume: bool = False) -> None:
        self._resume = resume
        self._wanted = {"step": steps, "eval": evaluations}
        self._before = {"step": 0, "eval": 0}
        self._heard: dict[str, list[Event]] = {"step": [], "eval": []}
        self._end: Event | None = None
        self._storage_file: str | None = None
        self._energy: MeterEnergy | None = None
        self._arenas: list[int] = []
        self._damaged: dict[str, set[int]] = {"training": set(), "held_out": set(), "ring": set()}
        self._begun_anew = False
        self._moved: Traffic | None = None
        self._moved_by_steps = Traffic()
        self._steps_counted = 0
        self._last: Event | None = None
        self.ignored: deque[bytes] = deque(maxlen=_LINES_QUOTED)

    def add(self, event: Event) -> None:
        """Add an event.

        Raises:
            DeviceError: The event is not the one expected next.
        """
        if event.word == "energy":  # printed last, after the report's end
            energy_j = event.integer("microjoules") * 1e-6
            self._energy = MeterEnergy(energy_j, event.values.get("source", "unknown"))
            return
        self._last = event
        if self._end is not None and event.word != "fault":
            return
        if event.word in ("done", "error", "fault"):
            self._end = event
        elif event.word == "storage":
            file = event.values.get("file")
            self._storage_file = file if file in ("direct", "cached") else None
        elif event.word == "arena" and event.number == len(self._arenas) + 1 <= _MOST_ARENAS:
            self._arenas.append(event.integer("high_water"))
        elif event.word == "damaged":
            for kind, numbers in self._damaged.items():
                if kind in event.values and len(numbers) < _MOST_DAMAGED:
                    numbers.add(event.integer(kind))
        elif event.word == "transfers":
            self._count_traffic(event)
        elif event.word == "anew":
            self._begun_anew = True
        elif event.word == "train" and self._resume and not self._heard["step"]:
            self._before["step"] = event.integer("done")
        elif event.word in self._heard:
            heard, wanted = self._heard[event.word], self._wanted[event.word]
            there = self._before[event.word] + len(heard)
            if event.number != there + 1 or event.number > wanted:
                raise DeviceError(
                    f"the device reports @{event.word} {event.number}, but {there} of "
                    f"{wanted} came before it",
                    *_REBUILD,
                )
            event.finite("loss" if event.word == "step" else "metric")
            if event.word == "step":
                event.integer("ticks")
            heard.append(event)

    def _count_traffic(self, event: Event) -> None:
        """Add what a step has moved; a step and a commit are each followed by such a line."""
        moved = Traffic(*map(event.integer, ("requests", "read", "written")))
        steps = len(self._heard["step"])
        if self._moved is not None and steps > self._steps_counted:
            self._moved_by_steps += moved - self._moved
        self._moved, self._steps_counted = moved, steps

    def hang(self, timeout_s: float) -> DeviceError:
        """Create the error for firmware that exceeds the run's time limit."""
        return DeviceError(
            f"the firmware hangs: it did not end within {timeout_s:g} s; the last it said was "
            f"{self._said}",
            "raise --timeout if the run is just long",
            *_REBUILD,
        )

    def silent(self, silence_s: float) -> DeviceError:
        """Create the error for firmware that is silent for too long."""
        return DeviceError(
            f"the firmware hangs: it said nothing for {silence_s:g} s; the last it said was "
            f"{self._said}",
            "raise --silence if a step just takes longer",
            *_REBUILD,
        )

    @property
    def _said(self) -> str:
        """The last event, as text for messages."""
        return f"@{self._last.word} {dict(self._last.values)}" if self._last else "nothing at all"

    def log(self, code: int) -> RunLog:
        """Report of a run that ended with an exit code.

        Raises:
            DeviceError: The firmware failed, or its report is incomplete.
        """
        end = self._end
        if end is not None and end.word != "done":
            values = " ".join(f"{key}={value}" for key, value in end.values.items())
            what = (
                "the firmware stopped with an error"
                if end.word == "error"
                else "the processor faulted"
            )
            meaning = STATUSES.get(end.values.get("status", ""))
            said = f"{values}: {meaning}" if meaning else values
            mixed = end.values.get("status") == _MIXED
            hints = MixedImagesError.WRITE_WHOLE if mixed else _REBUILD
            raise DeviceError(f"{what}: {said} (exit code {code})", *hints)
        if code != 0 or end is None:
            raise DeviceError(
                f"the firmware ended with exit code {code} before its report was complete",
                *_REBUILD,
                # lines outside the protocol: messages of an emulator or a sanitizer
                said=last_lines(self.ignored, _LINES_QUOTED),
            )
        for word, heard in self._heard.items():
            there = self._before[word] + len(heard)
            if there < self._wanted[word]:
                raise DeviceError(
                    f"the firmware ended after @{word} {there} of {self._wanted[word]}",
                    *_REBUILD,
                )
        steps = self._heard["step"]
        return RunLog(
            losses=tuple(event.finite("loss") for event in steps),
            metrics=tuple(event.finite("metric") for event in self._heard["eval"]),
            ticks=end.integer("ticks"),
            tick_unit=end.values.get("tick_unit", "ticks"),
            high_water_bytes=end.integer("high_water"),
            stack_high_water_bytes=end.integer("stack_high_water"),
            storage_bytes_read=end.integer("read"),
            storage_bytes_written=end.integer("written"),
            storage_file=self._storage_file,
            storage_erases=end.integer("erases") if "erases" in end.values else None,
            energy=self._energy,
            resumed_from=self._before["step"],
            arenas=tuple(self._arenas),
            damaged={kind: tuple(sorted(found)) for kind, found in self._damaged.items() if found},
            begun_anew=self._begun_anew,
            step_traffic=None if self._moved is None else self._moved_by_steps,
        )
