# SPDX-License-Identifier: Apache-2.0
"""The Joulescope against a fake of its package's interface: topics, and messages of samples."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from poetfw.common.errors import DeviceError
from poetfw.meters import JoulescopeMeter, measured_energy, open_meter

FULL_RATE, FACTOR = 1_000_000, 10
IDLE_A, ACTIVE_A, VOLTS = 1e-3, 5e-3, 3.3
COUNT = 17_000


def timeline() -> tuple[Any, Any, Any]:
    """Amperes, volts and marker of three cases of 20.01 ms, 50 ms apart, at 100,000 a second."""
    at = np.arange(COUNT)
    marked = (at >= 2003) & ((at - 2003) % 5000 < 2001)  # in the middle of bytes
    return np.where(marked, ACTIVE_A, IDLE_A), np.full(COUNT, VOLTS), marked


class FakeDriver:
    """What pyjoulescope_driver.Driver does, as far as one Joulescope asks for it.

    Messages hold what the package's stream_buffer.py reads: `sample_id` of the full rate,
    `decimate_factor`, `sample_rate`, and inputs as eight samples in a byte.
    """

    def __init__(self) -> None:
        self.paths = ["u/js220/000123"]
        self.calls: list[tuple[Any, ...]] = []
        self.lost = 0
        self._taken: dict[str, Callable[[str, Any], None]] = {}

    def device_paths(self) -> list[str]:
        return self.paths

    def open(self, path: str) -> None:
        assert path in self.paths
        self.calls.append(("open", path))

    def close(self, path: str) -> None:
        self.calls.append(("close", path))

    def finalize(self) -> None:
        self.calls.append(("finalize",))

    def subscribe(self, topic: str, flags: str, taken_by: Callable[[str, Any], None]) -> None:
        assert flags == "pub"
        self._taken[topic] = taken_by

    def unsubscribe(self, topic: str, taken_by: Callable[[str, Any], None]) -> None:
        assert self._taken.pop(topic) is taken_by  # by identity, as the package wants it

    def publish(self, topic: str, value: Any) -> None:
        self.calls.append(("publish", topic, value))
        if topic.endswith("/ctrl") and value == 1:
            self._send(topic.removesuffix("/ctrl") + "/!data")

    def _send(self, topic: str) -> None:
        amperes, volts, marked = timeline()
        # Signals do not begin at the same sample.
        values, late = {"i": (amperes, 8), "v": (volts, 0), "0": (marked, 16)}[topic.split("/")[-2]]
        for begin in range(late, COUNT, 1000):
            data = values[begin : min(begin + 1000, COUNT)]
            packed = topic.endswith("gpi/0/!data")
            self._taken[topic](
                topic,
                {
                    "sample_id": (begin + 512 + (self.lost if begin > 9000 else 0)) * FACTOR,
                    "decimate_factor": FACTOR,
                    "sample_rate": FULL_RATE,
                    "data": np.packbits(data, bitorder="little")
                    if packed
                    else data.astype(np.float32),
                },
            )


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    package = SimpleNamespace(Driver=lambda: fake)
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", package)  # type: ignore[arg-type]
    return fake


def test_current_and_markers_are_those_that_were_sent(driver: FakeDriver) -> None:
    meter = open_meter("joulescope")
    assert isinstance(meter, JoulescopeMeter)
    assert meter.sees_marker
    for _ in range(2):
        meter.start("conv")
        trace = meter.stop()
        amperes, _, marked = timeline()
        np.testing.assert_array_equal(trace.marked, marked[16:])
        np.testing.assert_allclose(trace.amperes, amperes[16:], rtol=1e-6)
        energy = measured_energy(trace)
        assert energy.intervals == 3
        assert energy.time_s == pytest.approx(20.01e-3)
        assert energy.energy_j == pytest.approx((ACTIVE_A - IDLE_A) * VOLTS * 20.01e-3, rel=1e-3)
    meter.close()
    path = driver.paths[0]
    assert ("publish", f"{path}/h/fs", 100_000) in driver.calls
    assert ("publish", f"{path}/s/gpi/0/ctrl", 0) in driver.calls
    assert driver.calls[-2:] == [("close", path), ("finalize",)]


def test_samples_that_are_lost_are_found(driver: FakeDriver) -> None:
    driver.lost = 5
    meter = JoulescopeMeter()
    meter.start("conv")
    with pytest.raises(DeviceError, match="5 did not come"):
        meter.stop()


def test_a_joulescope_that_sends_nothing_says_so(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_send", lambda topic: None)
    meter = JoulescopeMeter()
    meter.start("conv")
    with pytest.raises(DeviceError, match="sent no sample"):
        meter.stop()


def test_one_of_several_is_named(driver: FakeDriver) -> None:
    driver.paths.append("u/js110/001123")
    with pytest.raises(DeviceError, match="u/js220/000123, u/js110/001123"):
        open_meter("joulescope")
    open_meter("joulescope:001123")
    assert ("open", "u/js110/001123") in driver.calls
    driver.paths.clear()
    with pytest.raises(DeviceError, match="there is none"):
        open_meter("joulescope")
    assert driver.calls[-1] == ("finalize",)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", None)
    with pytest.raises(DeviceError, match="needs the package") as refused:
        open_meter("joulescope")
    assert refused.value.try_next == ("pip install 'poetfw[joulescope]'",)


def test_a_joulescope_that_goes_away_says_so(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = JoulescopeMeter()

    def gone(*_: Any) -> None:
        raise RuntimeError("jsdrv_publish failed")

    monkeypatch.setattr(driver, "publish", gone)
    with pytest.raises(DeviceError, match="stopped answering: jsdrv_publish"):
        meter.start("conv")
