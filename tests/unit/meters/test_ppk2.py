# SPDX-License-Identifier: Apache-2.0
"""The PPK2 by its package, against one that speaks its protocol over a pseudo-terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from poetfw.common.errors import ConfigError, DeviceError
from poetfw.meters import PowerTrace, measured_energy, open_meter, ppk2
from poetfw.meters.ppk2 import Ppk2Meter
from unit.meters.ppk2_device import VOLTS_PER_COUNT, Device, word

pytest.importorskip("ppk2_api", reason="needs the package ppk2-api (extra `meters`)")

IDLE_A, ACTIVE_A = 1e-3, 5e-3


def samples(lost: int = 0) -> Iterator[bytes]:
    """Three cases of 200 samples, 300 apart."""
    for number in range(1700):
        marked = number >= 200 and (number - 200) % 500 < 200
        yield word(ACTIVE_A if marked else IDLE_A, marked, number + (lost if number > 900 else 0))


def record(device: Device, port: str) -> PowerTrace:
    meter = Ppk2Meter(port, 3300)
    meter.start("conv")
    assert device.sent.wait(10)
    trace = meter.stop()
    meter.close()
    return trace


def test_current_and_markers_are_those_that_were_sent() -> None:
    device = Device(samples())
    with device as port:
        trace = record(device, port)
    assert len(trace.times_s) == 1700
    assert trace.times_s[-1] == pytest.approx(0.01699)
    assert trace.marked.sum() == 600
    assert set(trace.volts) == {3.3}
    resolution_a = VOLTS_PER_COUNT / 10
    assert trace.amperes[100] == pytest.approx(IDLE_A, abs=resolution_a)
    assert trace.amperes[300] == pytest.approx(ACTIVE_A, abs=resolution_a)
    energy = measured_energy(trace)
    assert energy.intervals == 3
    assert energy.time_s == pytest.approx(2e-3)
    assert energy.energy_j == pytest.approx((ACTIVE_A - IDLE_A) * 3.3 * 2e-3, rel=0.01)
    # Stopped first, in case it still measures; then what it is to do.
    assert device.commands[:4] == [b"\x07", b"\x11\x01", b"\x0d\x0c\xe4", b"\x0c\x01"]
    assert device.commands[4:] == [b"\x06", b"\x07"]


def test_samples_that_come_late_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the stop, the port may be quiet for 24 reads, again and again."""
    monkeypatch.setattr(ppk2, "_READ_S", 0.0)
    late = iter([*[b""] * 24, word(IDLE_A, False, 0), *[b""] * 24, word(ACTIVE_A, True, 1)])
    with Device() as port, closing(Ppk2Meter(port, 3300)) as meter:
        has_ended = meter._end.is_set
        monkeypatch.setattr(
            meter._ppk2, "get_data", lambda: next(late, b"") if has_ended() else b""
        )
        meter.start("conv")
        assert meter.stop().marked.tolist() == [False, True]


def test_samples_that_are_lost_are_found() -> None:
    device = Device(samples(lost=7))
    with device as port, pytest.raises(DeviceError, match="sent 7 samples that"):
        record(device, port)


def test_it_may_be_recorded_again() -> None:
    device = Device(list(samples()))
    with device as port:
        meter = open_meter(f"ppk2:{port}@3300")
        assert isinstance(meter, Ppk2Meter)
        traces = []
        for _ in range(2):
            device.sent.clear()
            meter.start("conv")
            assert device.sent.wait(10)
            traces.append(meter.stop())
        meter.close()
    np.testing.assert_array_equal(traces[0].marked, traces[1].marked)


def test_what_is_no_ppk2_is_refused() -> None:
    with Device([], meta_data="hello\n") as port, pytest.raises(DeviceError, match="as a PPK2"):
        Ppk2Meter(port, 3300)
    with pytest.raises(DeviceError, match="cannot be opened"):
        Ppk2Meter("/dev/no-such-port", 3300)


@pytest.mark.parametrize("millivolts", [799, 5001])
def test_a_supply_that_it_would_change_is_refused(millivolts: int) -> None:
    with pytest.raises(ConfigError, match="800 to 5000 mV"):
        Ppk2Meter("/dev/any", millivolts)


def test_silence_is_no_trace() -> None:
    device = Device([])
    with device as port, pytest.raises(DeviceError, match="no sample"):
        record(device, port)
