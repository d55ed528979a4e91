# SPDX-License-Identifier: Apache-2.0
"""A power meter beside a session: joules of each case, above what the board takes doing nothing."""

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
"""Number of marked intervals of a case, of so many runs each as the meter asks for."""

IDLE_S = 0.5
"""Seconds for which the idle board is metered, before the first case of a sketch."""

_AROUND_S = 0.05  # recorded before the first interval, after the last, and between
_MOST_RUNS = 10**8
_APART = 0.1
"""Share by which an interval between markers may differ from what the board counted."""
_BUSY = 0.5
"""By how much an interval by this computer's clock may exceed it: it holds the command, too."""


class BusyError(DeviceError):
    """An error: the case was not alone in what a meter saw."""


@dataclass(frozen=True, slots=True)
class Metered:
    """The energy of a case by a meter.

    Attributes:
        case: which.
        energy: of one run.
        trace: the file that its samples are kept in; None where they were replayed.
    """

    case: Case
    energy: MeasuredEnergy
    trace: Path | None


class Metering:
    """Joules of cases, by one meter, with what it recorded kept.

    Attributes:
        meter: it.
        folder: where traces are kept.
        real_time: whether the board's counter counts real time, as no emulator's does.
        metered: what was measured, in that order.
        idle_w: what each sketch's board took doing nothing.
    """

    def __init__(self, meter: Meter, folder: Path, real_time: bool, idle_s: float = IDLE_S) -> None:
        """Nothing is measured yet.

        Args:
            meter: open.
            folder: made when the first trace is kept.
            real_time: whether the board's counter counts real time.
            idle_s: how long the board is watched doing nothing.
        """
        self.meter, self.folder, self.real_time = meter, folder, real_time
        self.metered: list[Metered] = []
        self.idle_w: list[float] = []
        self._idle_s = idle_s
        self._never = threading.Event()  # to wait by

    @property
    def aligned_by(self) -> str:
        """Method by which a case's begin and end are found among the meter's samples."""
        if self.meter.sees_marker:
            return "the board's marker at the meter's input"
        return "this computer's clock, around the command"

    @property
    def replays(self) -> bool:
        """True if the meter has its traces from a folder."""
        return self.meter.name.startswith("replay:")

    def begin(self, sketch_id: str) -> None:
        """Measure what the board takes doing nothing.

        Raises:
            DeviceError: the meter fails.
            DataError: there is nothing to replay, or the marker was always set.
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
        """The energy of one run of a case.

        Args:
            case: which.
            once_s: what the board says that a run takes, calling it, and feeding its operands.
            share: of it that is the case's.
            run: runs the case so many times.
            sets: of numbers that it runs with in turn: each as often as the others.

        Raises:
            BusyError: the computer, by whose clock cases are found, was busy otherwise.
            DeviceError: the meter fails, or what it saw is not what the board did.
            DataError: there is nothing to replay.
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
        """Compare what the meter's intervals took with what the board counted in them."""
        counted_s = trace.counted_s
        if not counted_s:
            return  # an emulator's time is its own
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
