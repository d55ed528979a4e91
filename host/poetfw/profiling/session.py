# SPDX-License-Identifier: Apache-2.0
"""Measurement of a sketch's cases on the device that runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from poetfw.boards import Board
from poetfw.common.errors import DeviceError, WrongBoardError
from poetfw.costs import (
    BESIDE,
    MOVES,
    NO_METER,
    TAKEN,
    Case,
    Counter,
    Measurement,
    Setup,
    direction_of,
)
from poetfw.firmware.sketch import NOTHING, Sketch
from poetfw.profiling.metering import BusyError, Metering
from poetfw.tools.link import Profiler, StatusError

LEAST_S = 0.01
"""A case is repeated until a sample takes this many seconds, as in MLPerf Tiny's harness."""

MOST_TIMES = 4096
"""Most repetitions in a sample."""

SAMPLES = 5
"""Number of samples per case; an emulator needs two if they are equal."""

_TIMES_OF_DIFFERENCE = 8
"""Most repetitions in a sample if a case is the difference of two runs."""

_NOTHING_TIMES = 10_000
_NANOSECONDS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Timed:
    """Duration of a case.

    Attributes:
        ticks: median ticks of one run.
        marked_ticks: median ticks that the marker pin is high for one run.
        spread_ticks: median absolute deviation of the ticks.
        repetitions: total number of runs, without the warm-up and the first estimate.
    """

    ticks: float
    marked_ticks: float
    spread_ticks: float
    repetitions: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A case that could not be measured.

    Attributes:
        case: the case.
        reason: reason for the message.
        failed: True if the device failed; False if the case does not fit the device.
    """

    case: Case
    reason: str
    failed: bool


def setup_of(case: Case, setup: Setup) -> Setup:
    """Conditions under which a case is measured: no meter for the difference of two runs."""
    return replace(setup, meter=NO_METER) if _is_difference(case) else setup


def _is_difference(case: Case) -> bool:
    return case.kind in (*BESIDE, *TAKEN)


def check_sketch(profiler: Profiler, sketch: Sketch, setup: Setup) -> Counter:
    """Check that a device runs a sketch; returns its counter's unit.

    Raises:
        DeviceError: The device fails.
        WrongBoardError: The device runs another sketch, or counts in a unit that the board does not
            have.
    """
    said = profiler.hello()
    if (said.sketch_id, said.cases) != (sketch.sketch_id, len(sketch.cases) + 1):
        raise WrongBoardError(
            f"the board has the sketch {said.sketch_id} for {said.board}, not the one that was "
            f"just built, {sketch.sketch_id}",
            "put on the board what `poetfw profile` built, and repeat the command",
        )
    counter = Counter(said.tick_unit)
    if counter is Counter.INSTRUCTIONS and not setup.machine:
        raise WrongBoardError(
            "what answers counts instructions: it is an emulator, and no board",
            "say so with --emulator",
        )
    return counter


def measure_sketch(
    profiler: Profiler,
    sketch: Sketch,
    setup: Setup,
    board: Board,
    version_of: Callable[[Case], str],
    now: Callable[[], str],
    metering: Metering | None = None,
) -> Iterator[Measurement | Refused]:
    """Measure the cases of a sketch one after another.

    Args:
        profiler: connection to the device.
        sketch: sketch that the device runs.
        setup: measurement conditions.
        board: board whose power figures give the energy if there is no meter.
        version_of: function that returns the version of a case's kernel.
        now: function that returns the current time in ISO 8601.
        metering: energy measurement; None without a meter.

    Raises:
        DeviceError: The device, the line or the meter fails, or answers are invalid.
    """
    counter = check_sketch(profiler, sketch, setup)
    hz = _NANOSECONDS_PER_S if counter is Counter.NANOSECONDS else setup.clock_hz
    last = len(sketch.cases)
    nothing_ticks = profiler.run(last, NOTHING, _NOTHING_TIMES).ticks / _NOTHING_TIMES
    if metering is not None:
        metering.begin(sketch.sketch_id)
    for index, (case, sets) in enumerate(zip(sketch.cases, sketch.sets, strict=True)):
        if profiler.key(index) != case.key:
            raise DeviceError(
                f"the board's case {index} is not the one that its sketch has there",
                "repeat the command",
            )
        difference = _is_difference(case)
        try:
            call_ticks = 0.0 if difference or sets else nothing_ticks
            timed = time_case(
                profiler, index, case.key, counter, hz, call_ticks, difference, max(1, sets)
            )
            time_s = timed.ticks / hz
            energy_j, energy_spread_j = time_s * power_w(case, board), 0.0
            if metering is not None and not difference:
                marked = timed.marked_ticks
                energy = metering.energy_of(
                    case,
                    marked / hz,
                    timed.ticks / marked if marked else 1.0,
                    partial(profiler.run, index, case.key),
                    max(1, sets),
                )
                energy_j, energy_spread_j = energy.energy_j, energy.spread_j
        except (StatusError, BusyError) as error:
            yield Refused(case, error.message, failed=True)
            continue
        if energy_j < 0:
            reason = f"the meter saw it take {-energy_j:.3g} J less than doing nothing"
            yield Refused(case, reason, failed=True)
            continue
        yield Measurement(
            case=case,
            setup=setup_of(case, setup),
            kernel_version=version_of(case),
            repetitions=timed.repetitions,
            counter=counter,
            ticks=timed.ticks,
            spread_ticks=timed.spread_ticks,
            time_s=time_s,
            energy_j=energy_j,
            energy_spread_j=energy_spread_j,
            measured_at=now(),
        )


def time_case(
    profiler: Profiler,
    index: int,
    key: str,
    counter: Counter,
    hz: float,
    call_ticks: float,
    difference: bool = False,
    sets: int = 1,
) -> Timed:
    """Time one case: warm up, estimate its duration and choose the repetitions accordingly.

    Args:
        profiler: connection to the device.
        index: number of the case.
        key: key of the case.
        counter: unit of the device's counter.
        hz: ticks per second.
        call_ticks: ticks of the call to subtract, if the device has not done so.
        difference: True if the case is the difference of two runs, which may be 0 and take longer
            than it.
        sets: number of operand sets, which runs use in turn; the runs are a multiple of it.

    Raises:
        DeviceError: The device or the line fails, or reports that the case takes no time.
    """
    profiler.run(index, key, sets)
    once = profiler.run(index, key, sets).ticks / sets
    most = _TIMES_OF_DIFFERENCE if difference else MOST_TIMES
    times = min(most, max(1, math.ceil(LEAST_S * hz / max(once, 1))))
    times = -(-times // sets) * sets
    samples: list[float] = []
    marked: list[float] = []
    while len(samples) < SAMPLES:
        ran = profiler.run(index, key, times)
        if ran.ticks == 0 and times > 1 and not difference:
            raise DeviceError(
                f"the board says that case {index} takes no time at all, {times} times",
                "reset it, and repeat the command",
            )
        samples.append(max(0.0, ran.ticks / times - call_ticks))
        marked.append(ran.marked_ticks / times)
        if counter is Counter.INSTRUCTIONS and samples[-2:] == [samples[-1]] * 2:
            break
    middle = median(samples)
    spread = median(abs(sample - middle) for sample in samples)
    return Timed(middle, median(marked), spread, times * len(samples))


def power_w(case: Case, board: Board) -> float:
    """Power in watts while a case runs, by the board's file; for a transfer, the storage's."""
    if case.kind not in MOVES or case.kind in TAKEN or board.storage is None:
        return board.power.active_w
    transfer = getattr(board.storage, direction_of(case.kind))
    return float(transfer.cost_j(case.size_bytes) / transfer.time_s(case.size_bytes))
