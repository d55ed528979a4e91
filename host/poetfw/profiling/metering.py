# SPDX-License-Identifier: Apache-2.0
"""Energy of each case by a power meter, above the board's idle power."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.common.errors import DataError, DeviceError, OutputError, PoetfwError
from poetfw.costs import Case
from poetfw.meters import MeasuredEnergy, Meter, PowerTrace, idle_power, measured_energy

INTERVALS = 5
"""Number of marked intervals per case; each has as many runs as the meter needs."""

IDLE_S = 0.5
"""Seconds for which idle power is measured before the first case of a sketch."""

_AROUND_S = 0.05  # recorded before, between and after intervals
_MOST_RUNS = 10**8
_APART = 0.1
"""Relative difference allowed between marked interval and board's counter."""
_BUSY = 0.5
"""Relative excess allowed if this computer's clock marks intervals, which then include the
command."""


class BusyError(DeviceError):
    """Other activity on this computer disturbed the measurement."""


@dataclass(frozen=True, slots=True)
class Metered:
    """Energy of a case as measured by a meter.

    Attributes:
        case: the case.
        energy: energy of one run.
        trace: file of the trace; None if it was replayed.
    """

    case: Case
    energy: MeasuredEnergy
    trace: Path | None


class Metering:
    """Measures the energy of cases with one meter and keeps the traces.

    Attributes:
        meter: the meter.
        folder: folder of the traces.
        real_time: True if the board's counter counts real time; an emulator's does not.
        metered: energies, in order of measurement.
        idle_w: idle power of the board for each sketch, in watts.
    """

    def __init__(self, meter: Meter, folder: Path, real_time: bool, idle_s: float = IDLE_S) -> None:
        """Prepare measurements; nothing is measured yet.

        Args:
            meter: an open meter.
            folder: folder of the traces, created with the first trace.
            real_time: True if the board's counter counts real time.
            idle_s: seconds for which idle power is measured.
        """
        self.meter, self.folder, self.real_time = meter, folder, real_time
        self.metered: list[Metered] = []
        self.idle_w: list[float] = []
        self._idle_s = idle_s
        self._never = threading.Event()  # never set: used to sleep

    @property
    def aligned_by(self) -> str:
        """Description of how a case's begin and end are found among the samples."""
        if self.meter.sees_marker:
            return "the board's marker at the meter's input"
        return "this computer's clock, around the command"

    @property
    def replays(self) -> bool:
        """True if the meter replays recorded traces."""
        return self.meter.name.startswith("replay:")

    def begin(self, sketch_id: str) -> None:
        """Measure the board's idle power.

        Raises:
            DeviceError: The meter fails.
            DataError: The trace to replay is missing, or its marker is always set.
        """
        label = f"idle-{sketch_id}"
        trace, _ = self._recorded(label, 0, 0.0, lambda: self._wait(self._idle_s))
        self.idle_w.append(idle_power(trace))

    def energy_of(
        self,
        case: Case,
        once_s: float,
        share: float,
        run: Callable[[int], object],
        sets: int = 1,
    ) -> MeasuredEnergy:
        """Measure the energy of one run of a case.

        Args:
            case: the case.
            once_s: duration of a run by the board's counter, including call and operand feeding.
            share: share of `once_s` that the case itself takes.
            run: function that runs the case a number of times.
            sets: number of operand sets, which runs use in turn; the runs are a multiple of it.

        Raises:
            BusyError: This computer, whose clock marks the cases, was busy with other work.
            DeviceError: The meter fails, or its intervals disagree with the board's counter.
            DataError: The trace to replay is missing.
        """
        longest_s = max(self.meter.least_s, once_s)
        runs = min(_MOST_RUNS, math.ceil(longest_s / once_s)) if once_s else _MOST_RUNS
        runs = -(-runs // sets) * sets

        def intervals() -> None:
            self._wait(_AROUND_S)
            for _ in range(INTERVALS):
                self.meter.mark(True)
                run(runs)
                self.meter.mark(False)
                self._wait(0.0 if self.meter.sees_marker else _AROUND_S)
            self._wait(_AROUND_S)

        trace, path = self._recorded(case.key, runs, once_s, intervals)
        try:
            energy = measured_energy(trace, self.idle_w[-1])
        except DataError as error:
            raise DeviceError(f"the meter did not see a {case.kind}: {error.message}") from error
        seen = energy.intervals + energy.rejected
        if seen != INTERVALS:
            raise DeviceError(
                f"the meter saw {seen} runs of a {case.kind} of {INTERVALS}",
                "connect the pin that is high while a case runs to the meter's input",
            )
        self._compare(case, energy.time_s, trace)
        energy = replace(energy, energy_j=energy.energy_j * share, spread_j=energy.spread_j * share)
        self.metered.append(Metered(case, energy, path))
        return energy

    def _compare(self, case: Case, seen_s: float, trace: PowerTrace) -> None:
        """Compare the duration of the meter's intervals with the board's counter."""
        counted_s = trace.counted_s
        if not counted_s:
            return  # an emulator does not run in real time
        said = f"the meter saw a {case.kind} for {seen_s:.3g} s, and the board counted "
        said += f"{counted_s:.3g}"
        if not trace.by_marker and seen_s > (1 + _BUSY) * counted_s:
            raise BusyError(f"{said}: this computer does something else, too")
        if trace.by_marker and abs(seen_s - counted_s) > _APART * counted_s:
            raise DeviceError(said, "check the marker's wire, and `clock_hz` in the board's file")

    def _recorded(
        self, label: str, runs: int, once_s: float, meanwhile: Callable[[], None]
    ) -> tuple[PowerTrace, Path | None]:
        self.meter.start(label)
        try:
            meanwhile()
        except BaseException:
            with suppress(PoetfwError):
                self.meter.stop()
            raise
        trace = self.meter.stop()
        if self.replays:
            return trace, None
        trace = replace(
            trace,
            runs=runs,
            counted_s=once_s if self.real_time else 0.0,
            by_marker=self.meter.sees_marker,
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.folder} cannot be made: {error.strerror}") from error
        path = self.folder / f"{label}.npz"
        trace.save(path)
        return trace, path

    def _wait(self, seconds: float) -> None:
        if seconds and not self.replays:
            self._never.wait(seconds)
