# SPDX-License-Identifier: Apache-2.0
"""Measuring the cases of one sketch on the device that runs it."""

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
"""A case is repeated until a sample takes so long, as MLPerf Tiny's harness does for longer."""

MOST_TIMES = 4096
"""Or until it ran so often."""

SAMPLES = 5
"""Number of timings of a case; two where an emulator counts the same both times."""

_TIMES_OF_DIFFERENCE = 8
"""Or so often where two runs differ by little."""

_NOTHING_TIMES = 10_000
_NANOSECONDS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Timed:
    """The result of running a case.

    Attributes:
        ticks: median of one run.
        marked_ticks: how long the pin was high for it.
        spread_ticks: median absolute deviation.
        repetitions: runs in all, without the one that warms up and the one that looks how long it
            takes.
    """

    ticks: float
    marked_ticks: float
    spread_ticks: float
    repetitions: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A case that could not be measured.

    Attributes:
        case: which.
        reason: why.
        failed: whether the device failed; else the case does not fit it.
    """

    case: Case
    reason: str
    failed: bool


def setup_of(case: Case, setup: Setup) -> Setup:
    """Under which conditions a case is measured: no meter is asked of a difference of two runs."""
    return replace(setup, meter=NO_METER) if _is_difference(case) else setup


def _is_difference(case: Case) -> bool:
    return case.kind in (*BESIDE, *TAKEN)


def check_sketch(profiler: Profiler, sketch: Sketch, setup: Setup) -> Counter:
    """Check that a device runs a sketch; returns what it counts in.

    Raises:
        DeviceError: the device fails.
        WrongBoardError: it runs another one, or counts what the board does not.
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
    """Measure the cases of a sketch, one after the other.

    Args:
        profiler: the device.
        sketch: what it runs.
        setup: under which conditions.
        board: whose power figures energy is calculated from, where nothing meters.
        version_of: the version of a case's kernel.
        now: the time of day, as ISO 8601.
        metering: measures energy.

    Raises:
        DeviceError: the device, the line or the meter fails, or what it says makes no sense.
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
    """Time one case: warm up, see how long it takes, and run it as often as that asks for.

    Args:
        profiler: the device.
        index: number of the case.
        key: the case's.
        counter: what the device counts in.
        hz: ticks in a second.
        call_ticks: what calling it takes, as far as the device has not subtracted it.
        difference: whether the device says by how much two runs differ, which may be nothing, and
            takes longer than that.
        sets: of numbers that it runs with in turn: each as often as the others.

    Raises:
        DeviceError: the device or the line fails, or it says that the case takes no time.
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
    """The watts drawn while a case runs, by the board's file: during a transfer, by the storage."""
    if case.kind not in MOVES or case.kind in TAKEN or board.storage is None:
        return board.power.active_w
    transfer = getattr(board.storage, direction_of(case.kind))
    return float(transfer.cost_j(case.size_bytes) / transfer.time_s(case.size_bytes))
