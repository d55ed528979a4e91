# SPDX-License-Identifier: Apache-2.0
"""Sessions with a meter: the firmware's own marker, at a PPK2 that speaks its real protocol."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.common.errors import DataError, DeviceError
from poetfw.costs import TAKEN, Case, Measurement
from poetfw.meters import Meter, PowerTrace, open_meter
from poetfw.meters.ppk2 import SAMPLES_PER_S, Ppk2Meter
from poetfw.profiling import MemoryStore, Metering, Refused, measuring, metering
from poetfw.tools.link import PortLine
from unit.link.link_device import Simulated
from unit.meters.ppk2_device import VOLTS_PER_COUNT, Device, word
from unit.profiling.sketch_device import (
    BOARD,
    CASES,
    NOTHING,
    SETUP,
    SketchDevice,
    compile_sketch_device,
    is_right,
    measure,
)

VOLTS, IDLE_A = 3.3, 2e-3
METERED = [case for case in CASES if case.kind not in TAKEN]
DRAWS_A = dict(zip(METERED, (5e-3, 8e-3, 12e-3, 10e-3, 3e-3, 7e-3), strict=True))
"""What each case draws, above idling; of differences, no meter is asked."""


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_sketch_device(tmp_path_factory.mktemp("sketch") / "sketch.so")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here takes time, so nothing is waited for around it."""
    monkeypatch.setattr(metering, "_AROUND_S", 0.0)


class Wired(Simulated):
    """A line to a board in whose supply a PPK2 is, with the board's marker at its input D0."""

    def __init__(self, board: SketchDevice, ppk2: Device, spiked: Case) -> None:
        super().__init__(board)
        self._board, self._ppk2, self._spiked = board, ppk2, spiked
        self._counter = self._seen = 0
        self._measuring = False

    def write(self, data: bytes) -> None:
        super().write(data)
        for begin, end in self._board.marks():
            if self._measuring:
                self._draw((end - begin) / BOARD.clock_hz, self._draws_a(end - begin), True)
                self._draw(1e-3, IDLE_A, False)

    def measures(self, measuring: bool) -> None:
        """The PPK2 has begun; or it ends, and until then the board does nothing."""
        self._draw(1e-3, IDLE_A, False)
        self._measuring, self._seen = measuring, 0

    def _draws_a(self, ticks: int) -> float:
        marked = {case: CASES[case] + (NOTHING if case.numbers else 0) for case in METERED}
        case = next(case for case in METERED if ticks % marked[case] == 0)
        self._seen += 1
        spike = 1.5 if case == self._spiked and self._seen == 3 else 1.0
        return IDLE_A + DRAWS_A[case] * spike

    def _draw(self, seconds: float, amperes: float, marked: bool) -> None:
        numbers = range(self._counter, self._counter + round(seconds * SAMPLES_PER_S))
        self._ppk2.send(b"".join(word(amperes, marked, number) for number in numbers))
        self._counter = numbers.stop


class InTime(Ppk2Meter):
    """The real one; simulated boards wait for nobody, and so are told when it measures."""

    def __init__(self, port: str, wired: Wired, device: Device) -> None:
        super().__init__(port, round(VOLTS * 1000))
        self._wired, self._device = wired, device

    def start(self, label: str) -> None:
        self._device.sent.clear()
        super().start(label)
        assert self._device.sent.wait(10)
        self._wired.measures(True)

    def stop(self) -> PowerTrace:
        self._wired.measures(False)
        return super().stop()


def session(
    line: PortLine, meter: Meter | None, folder: Path, real_time: bool = True, **changed: Any
) -> tuple[list[Measurement | Refused], Metering]:
    assert meter is not None
    used = Metering(meter, folder, real_time, idle_s=0.0)
    rows = list(measure(line, metering=used, setup=replace(SETUP, meter=meter.name), **changed))
    return rows, used


def expected_j(case: Case) -> float:
    if case not in METERED:
        return CASES[case] / BOARD.clock_hz * BOARD.power.active_w
    return DRAWS_A[case] * VOLTS * (CASES[case] - NOTHING) / BOARD.clock_hz


def test_joules_are_those_that_the_board_drew(firmware: Path, tmp_path: Path) -> None:
    pytest.importorskip("ppk2_api", reason="needs the package ppk2-api (extra `meters`)")
    board, device, spiked = SketchDevice(firmware), Device(), list(CASES)[2]
    with device as port:
        wired = Wired(board, device, spiked)
        with closing(InTime(port, wired, device)) as meter:
            rows, found = session(wired, meter, tmp_path / "traces")
    resolution = 2 * VOLTS_PER_COUNT / 10 / min(DRAWS_A.values())
    assert all(map(is_right, rows))  # times are as without a meter
    for row in rows:
        assert isinstance(row, Measurement)
        # A marked interval is known to a sample of a thousand at each end.
        assert row.energy_j == pytest.approx(expected_j(row.case), rel=resolution + 3e-3)
        assert row.setup.meter == ("ppk2" if row.case in METERED else "none")
    assert found.idle_w == [pytest.approx(IDLE_A * VOLTS, rel=0.02)]
    rejected = {one.case: (one.energy.intervals, one.energy.rejected) for one in found.metered}
    assert rejected == {case: (4, 1) if case == spiked else (5, 0) for case in METERED}
    # What was recorded is kept, and says the same once more, on another board of the kind.
    names = {path.name for path in (tmp_path / "traces").iterdir()}
    assert names == {"idle-5a3b1e00.npz", *(f"{case.key}.npz" for case in METERED)}
    again, replayed = session(
        Simulated(SketchDevice(firmware)), open_meter(f"replay:{tmp_path / 'traces'}"), tmp_path
    )
    assert [replace(row, setup=SETUP) for row in again] == [  # type: ignore[type-var]
        replace(row, setup=SETUP)  # type: ignore[type-var]
        for row in rows
    ]
    assert replayed.idle_w == found.idle_w
    assert {path.name for path in tmp_path.iterdir()} == {"traces"}


class Made:
    """A meter whose trace a test makes."""

    name = "made"
    sees_marker = True
    least_s = 0.0

    def __init__(self, seconds: float, intervals: int = 5, watts: float = 3.0) -> None:
        at = np.arange(100 * (2 * intervals + 1))
        marked = at // 100 % 2 == 1
        power = np.where(marked, watts, 1.0)
        self.trace = PowerTrace(at * seconds / 100, np.ones(len(at)), power, marked)
        self.stopped = 0

    def start(self, label: str) -> None:
        pass

    def mark(self, on: bool) -> None:
        pass

    def stop(self) -> PowerTrace:
        self.stopped += 1
        return self.trace

    def close(self) -> None:
        pass


RELU = next(iter(CASES))


def metered(meter: Made, folder: Path, real_time: bool = True, once_s: float = 1e-3) -> Any:
    used = Metering(meter, folder, real_time, idle_s=0.0)
    used.begin("5a3b1e00")
    return used.energy_of(RELU, once_s, 0.5, lambda times: None)


def test_what_a_call_takes_is_not_the_cases(tmp_path: Path) -> None:
    energy = metered(Made(1e-3), tmp_path)
    assert energy.energy_j == pytest.approx((3.0 - 1.0) * 1e-3 * 0.5, rel=0.02)
    assert energy.time_s == pytest.approx(1e-3)


def test_a_meter_sees_each_set_of_numbers_as_often_as_the_others(tmp_path: Path) -> None:
    asked = list[int]()
    meter = Made(1e-3)
    meter.least_s = 0.01
    used = Metering(meter, tmp_path, False, idle_s=0.0)
    used.begin("5a3b1e00")
    used.energy_of(RELU, 1e-3, 0.5, asked.append, 8)
    assert asked == [16] * 5


def test_a_meter_that_sees_something_else_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"relu for 0.001 s, and the board counted 0.002"):
        metered(Made(1e-3), tmp_path, once_s=2e-3)
    metered(Made(1e-3), tmp_path, real_time=False, once_s=2e-3)  # an emulator's time is its own
    with pytest.raises(DeviceError, match="saw 4 runs of a relu of 5"):
        metered(Made(1e-3, 4), tmp_path)
    unmarked = Made(1e-3)
    unmarked.trace = replace(unmarked.trace, marked=np.zeros_like(unmarked.trace.marked))
    with pytest.raises(DeviceError, match=r"did not see a relu: .* no interval"):
        metered(unmarked, tmp_path)


def test_a_busy_computer_is_no_reason_to_end(firmware: Path, tmp_path: Path) -> None:
    """Its clock says when cases ran, and it had something else to do: they are left out."""
    meter = Made(1.0)
    meter.sees_marker = False
    rows, _ = session(Simulated(SketchDevice(firmware)), meter, tmp_path)
    refused = [row for row in rows if isinstance(row, Refused)]
    assert all("something else" in row.reason for row in refused)
    assert [row.case for row in refused] == METERED


def test_a_replay_is_judged_and_aligned_as_what_it_repeats(firmware: Path, tmp_path: Path) -> None:
    meter = Made(1.0)
    meter.sees_marker = False
    rows, _ = session(Simulated(SketchDevice(firmware)), meter, tmp_path)
    again, replayed = session(
        Simulated(SketchDevice(firmware)), open_meter(f"replay:{tmp_path}"), tmp_path
    )
    assert [getattr(row, "reason", row.case) for row in again] == [
        getattr(row, "reason", row.case) for row in rows
    ]
    assert "this computer's clock" in replayed.aligned_by
    assert replayed.meter.name == f"replay:{tmp_path.resolve()}"


def test_what_no_meter_is_asked_of_is_known_with_any(firmware: Path, tmp_path: Path) -> None:
    """A second profile with the meter measures nothing, one without a meter only the rest.

    A first one with the meter measures anew whatever was measured without.
    """
    store, versions = MemoryStore(), dict.fromkeys(CASES, "0123456789abcdef")
    rows, _ = session(Simulated(SketchDevice(firmware)), Made(1.0), tmp_path, False)
    store.add(row for row in rows if isinstance(row, Measurement))
    metered = replace(SETUP, meter=Made(1.0).name)
    assert measuring._known(store, metered, versions).keys() == CASES.keys()
    assert measuring._known(store, SETUP, versions).keys() == {*CASES} - {*METERED}
    (calculated,) = measuring._known(store, SETUP, versions).values()
    assert measuring._source(calculated) == "counted without the storage, which is not a board's"
    itself = replace(calculated, setup=replace(calculated.setup, machine=""))
    assert measuring._source(itself) == "measured time, datasheet power"
    store.rows = [replace(row, setup=SETUP) for row in store.rows]
    assert measuring._known(store, metered, versions).keys() == {*CASES} - {*METERED}


def test_less_than_idling_is_no_measurement(firmware: Path, tmp_path: Path) -> None:
    rows, _ = session(Simulated(SketchDevice(firmware)), Made(1.0, watts=0.5), tmp_path, False)
    refused = [row for row in rows if isinstance(row, Refused)]
    assert all("less than doing nothing" in row.reason for row in refused)
    assert [row.case for row in refused] == METERED


def test_a_session_that_ends_leaves_no_meter_recording(firmware: Path, tmp_path: Path) -> None:
    line, meter = Simulated(SketchDevice(firmware)), Made(1.0)
    rows: list[Any] = []
    used = Metering(meter, tmp_path, False, idle_s=0.0)
    measuring = measure(line, metering=used)
    rows.append(next(measuring))
    line.dead_after = line.writes + 4  # the next case's key, warm-up, look and first sample
    stopped = meter.stopped
    with pytest.raises(DeviceError):
        rows.append(next(measuring))
    assert meter.stopped == stopped
    line = Simulated(SketchDevice(firmware))
    measuring = measure(line, metering=used)
    next(measuring)
    stopped, line.dead_after = meter.stopped, line.writes + 6
    with pytest.raises(DeviceError):
        next(measuring)
    assert meter.stopped == stopped + 1


def test_there_is_nothing_to_replay_of_another_case(firmware: Path, tmp_path: Path) -> None:
    (tmp_path / "another.npz").touch()
    with pytest.raises(DataError, match=r"there is no trace .*idle-5a3b1e00\.npz"):
        session(Simulated(SketchDevice(firmware)), open_meter(f"replay:{tmp_path}"), tmp_path)
