# SPDX-License-Identifier: Apache-2.0
"""Running a firmware, and taking note of what it says."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from poetfw.common.errors import DeviceError, MixedImagesError
from poetfw.common.option_values import SILENCE_S
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
    """Energy, as a meter has it.

    Attributes:
        energy_j: in joules.
        source: which meter, by the firmware's word for it.
    """

    energy_j: float
    source: str


@dataclass(frozen=True)
class RunLog:
    """The report of a run.

    Attributes:
        losses: mean loss of each training step, as the f32 the device calculated.
        resumed_from: training steps that were done before.
        metrics: metric of each evaluation batch.
        ticks: ticks of the whole training.
        tick_unit: what a tick is: instructions, cycles or ns.
        high_water_bytes: bytes of the arena up to the highest that was ever written.
        stack_high_water_bytes: bytes of stack that were used.
        storage_bytes_read, storage_bytes_written: what went through the storage.
        storage_file: how a storage that is a file was used: `direct`, past the system's cache, or
            `cached`; None where the storage is none, or nobody says.
        storage_erases: how often a part of it was erased; None where nothing was.
        arenas: bytes of each device's arena up to the highest that was ever written, where the
            training step runs on several devices.
        damaged: samples that were skipped: numbers of `training` samples and `held_out` ones, and
            places of the `ring`.
        begun_anew: whether no commit was whole, and the training began with the initial weights
            that the program holds.
        energy: what was measured to be taken meanwhile by what ran the firmware; None where nothing
            measures.
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
) -> RunLog:
    """Run a firmware to its end in the folder that holds its storage image.

    Args:
        command: what runs it, from an `Emulator`.
        folder: the working folder; the firmware opens `storage.img` in it.
        timeout_s: seconds the run may take.
        on_event: called for each line of the protocol as it comes.
        steps: training steps that the image asks for.
        evaluations: batches of held-out samples in the image.
        resume: whether some of the steps may have been done before.
        silence_s: seconds that it may say nothing.

    Raises:
        DeviceError: the firmware hangs, faults, reports an error, or reports anything but so many
            steps, less those that it says were done before, and evaluations, one after the other.
        ToolError: the command cannot be started.
    """
    transcript = _Transcript(steps, evaluations, resume)
    ends_s = time.monotonic() + timeout_s
    with started(command, folder) as process:
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
    """The output of a firmware so far. Nothing in it makes it grow beyond what was asked for."""

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
        self._last: Event | None = None
        self.ignored: deque[bytes] = deque(maxlen=_LINES_QUOTED)

    def add(self, event: Event) -> None:
        """Take note of an event.

        Raises:
            DeviceError: it is not the one that must come next.
        """
        if event.word == "energy":  # which ends with the program, behind its report
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

    def hang(self, timeout_s: float) -> DeviceError:
        """The error of a firmware that does not end within a time."""
        return DeviceError(
            f"the firmware hangs: it did not end within {timeout_s:g} s; the last it said was "
            f"{self._said}",
            "raise --timeout if the run is just long",
            *_REBUILD,
        )

    def silent(self, silence_s: float) -> DeviceError:
        """The error of a firmware that says nothing for so long."""
        return DeviceError(
            f"the firmware hangs: it said nothing for {silence_s:g} s; the last it said was "
            f"{self._said}",
            "raise --silence if a step just takes longer",
            *_REBUILD,
        )

    @property
    def _said(self) -> str:
        """The last lines that it said."""
        return f"@{self._last.word} {dict(self._last.values)}" if self._last else "nothing at all"

    def log(self, code: int) -> RunLog:
        """The log of a firmware that ended with an exit code.

        Raises:
            DeviceError: it failed, or its report is not complete.
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
                # of no use to the protocol: an emulator's or a sanitizer's message
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
        )
