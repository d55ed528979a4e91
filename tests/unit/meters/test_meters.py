# SPDX-License-Identifier: Apache-2.0
"""Traces become joules; meters that Linux reads are files in a folder made for the test."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import ConfigError, DataError, DeviceError
from poetfw.meters import (
    HwmonMeter,
    Meter,
    PowerTrace,
    RaplMeter,
    ReplayedMeter,
    idle_power,
    measured_energy,
    open_meter,
)

RATE = 1000.0
IDLE_W, ACTIVE_W = 0.5, 2.5


def trace_of(*bursts_w: float, length: int = 100) -> PowerTrace:
    """Bursts of so many watts, with idling of the same length around each."""
    watts, marked = [IDLE_W] * length, [False] * length
    for power_w in bursts_w:
        watts += [power_w] * length + [IDLE_W] * length
        marked += [True] * length + [False] * length
    count = len(watts)
    return PowerTrace(
        np.arange(count) / RATE, np.full(count, 2.0), np.array(watts) / 2, np.array(marked)
    )


def test_energy_is_the_integral_above_idling() -> None:
    found = measured_energy(replace(trace_of(ACTIVE_W, ACTIVE_W, ACTIVE_W), runs=10))
    # A step of power is seen as a ramp from one sample to the next.
    assert found.energy_j == pytest.approx((ACTIVE_W - IDLE_W) * 100 / RATE / 10, rel=0.005)
    assert found.time_s == pytest.approx(100 / RATE / 10)
    assert (found.intervals, found.rejected, found.idle_w) == (3, 0, IDLE_W)
    assert found.spread_j == pytest.approx(0.0, abs=1e-12)


def test_energy_is_that_of_calculus() -> None:
    """A sine over uneven samples, against its integral."""
    times_s = np.sort(np.random.default_rng(0).uniform(0.0, 1.0, 20_000))
    times_s = np.unique(times_s)
    marked = (times_s > 0.2) & (times_s < 0.7)
    amperes = 1 + np.sin(2 * np.pi * times_s)
    found = measured_energy(
        PowerTrace(times_s, np.full(len(times_s), 3.0), amperes, marked), idle_w=0.0
    )
    exact = 3.0 * (0.5 - (np.cos(2 * np.pi * 0.7) - np.cos(2 * np.pi * 0.2)) / (2 * np.pi))
    assert found.energy_j == pytest.approx(exact, rel=1e-3)


def test_energy_between_two_samples_is_that_of_a_line() -> None:
    """Power that grows by 1 W a second, marked from 1.5 s to 3.5 s."""
    times_s = np.arange(6.0)
    marked = (times_s == 2) | (times_s == 3)
    found = measured_energy(PowerTrace(times_s, np.ones(6), times_s, marked), idle_w=0.0)
    assert found.energy_j == pytest.approx((3.5**2 - 1.5**2) / 2)


def test_a_spike_is_rejected_and_counted() -> None:
    found = measured_energy(trace_of(2.49, 2.5, 2.51, 40.0, 2.5, 2.52))
    assert (found.intervals, found.rejected) == (5, 1)
    assert found.energy_j == pytest.approx(2.0 * 100 / RATE, rel=0.01)
    assert found.spread_j > 0


def test_intervals_that_are_cut_off_do_not_count() -> None:
    whole = trace_of(ACTIVE_W, ACTIVE_W, ACTIVE_W)
    cut = PowerTrace(*(array[150:550] for array in (whole.times_s, whole.volts, whole.amperes)),
                whole.marked[150:550])  # fmt: skip
    assert measured_energy(cut).intervals == 1
    assert measured_energy(cut).energy_j == pytest.approx(measured_energy(whole).energy_j)
    nothing = replace(whole, marked=np.zeros_like(whole.marked))
    with pytest.raises(DataError, match="no interval"):
        measured_energy(nothing)
    with pytest.raises(DataError, match="without a marker"):
        idle_power(replace(whole, marked=np.ones_like(whole.marked)))


def test_a_trace_is_kept_and_replayed(tmp_path: Path) -> None:
    trace = replace(trace_of(ACTIVE_W), runs=7)
    trace.save(tmp_path / "conv.npz")
    meter = open_meter(f"replay:{tmp_path}")
    assert isinstance(meter, ReplayedMeter)
    meter.start("conv")
    meter.mark(True)
    back = meter.stop()
    assert back.runs == 7
    for name in ("times_s", "volts", "amperes", "marked"):
        np.testing.assert_array_equal(getattr(back, name), getattr(trace, name))
    meter.start("another")
    with pytest.raises(DataError, match=r"there is no trace .*another\.npz"):
        meter.stop()
    with pytest.raises(DataError, match="not a folder of traces"):
        open_meter(f"replay:{tmp_path / 'conv.npz'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="not a folder of traces: it has no NPZ files"):
        open_meter(f"replay:{tmp_path / 'empty'}")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"volts": np.array([1.0])}, "equally many"),
        ({"amperes": np.array([1.0, np.nan])}, "finite"),
        ({"times_s": np.array([1.0, 1.0])}, "do not increase"),
        ({"times_s": np.array([0, 1])}, "float64 and bool"),
        ({"marked": np.array([0.0, 1.0])}, "float64 and bool"),
        ({"marked": np.array([object(), object()])}, "holds no trace"),
        ({"runs": np.array(-1)}, "runs in an interval"),
        ({"runs": np.array([1, 2])}, "holds no trace"),
        ({}, ""),
    ],
)
def test_a_file_that_nobody_vouches_for(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "trace.npz"
    two = np.array([0.0, 1.0])
    good = {"times_s": two, "volts": two, "amperes": two, "marked": np.array([False, True])}
    np.savez(path, **(good | changes))  # type: ignore[arg-type]
    if not changes:
        assert PowerTrace.load(path).marked.sum() == 1
        return
    with pytest.raises(DataError, match=said) as refused:
        PowerTrace.load(path)
    assert str(path) in refused.value.message


@pytest.mark.parametrize("content", [b"", b"not an archive"])
def test_a_file_that_is_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "trace.npz").write_bytes(content)
    with pytest.raises(DataError, match="no trace"):
        PowerTrace.load(tmp_path / "trace.npz")


def put(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def jetson(root: Path) -> Path:
    """hwmon with a fan and an INA3221."""
    put(root / "hwmon0/name", "pwmfan")
    put(root / "hwmon3/name", "ina3221")
    for channel, (millivolts, milliamperes) in enumerate(((5000, 100), (12000, -3)), start=1):
        put(root / f"hwmon3/in{channel}_input", millivolts)
        put(root / f"hwmon3/curr{channel}_input", milliamperes)
    return root


@pytest.mark.parametrize(("channel", "expected"), [(1, (5.0, 0.1)), (2, (12.0, -0.003))])
def test_hwmon_says_volts_and_amperes(
    channel: int, expected: tuple[float, float], tmp_path: Path
) -> None:
    meter = HwmonMeter("ina3221", channel, jetson(tmp_path))
    assert meter.read() == pytest.approx(expected)
    assert meter.name == f"ina3221:{channel}"


def test_a_chip_without_a_channel_is_read_at_its_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jetson(tmp_path / "class/hwmon")
    monkeypatch.setenv("POETFW_SYSFS", str(tmp_path))
    for text, channel in (("hwmon:ina3221", 1), ("hwmon:ina3221:2", 2)):
        meter = open_meter(text)
        assert meter is not None
        assert meter.name == f"ina3221:{channel}"


def test_hwmon_refuses_what_is_not_there(tmp_path: Path) -> None:
    root = jetson(tmp_path)
    with pytest.raises(DeviceError, match=r"no channel 3: .*in3_input"):
        HwmonMeter("ina3221", 3, root)
    with pytest.raises(DeviceError, match=r"one ina226 was expected .* there is none"):
        HwmonMeter("ina226", 1, root)
    with pytest.raises(DeviceError, match="there is none"):
        HwmonMeter("ina226", 1, root / "missing")
    with pytest.raises(DeviceError, match="not a chip that is read"):
        HwmonMeter("pwmfan", 1, root)
    put(root / "hwmon4/name", "ina3221")
    with pytest.raises(DeviceError, match="there is 2"):
        HwmonMeter("ina3221", 1, root)


def test_the_bus_and_not_the_shunt_is_read(tmp_path: Path) -> None:
    """What the drivers have in sysfs for each chip: ina2xx counts from in0, ina3221 not."""
    for number, chip in enumerate(("ina219", "ina226")):
        put(tmp_path / f"hwmon{number}/name", chip)
        for name, value in {
            "in0_input": 7,
            "in1_input": 3300,
            "curr1_input": 12,
            "power1_input": 40_000,
            "shunt_resistor": 100_000,
        }.items():
            put(tmp_path / f"hwmon{number}/{name}", value)
        assert HwmonMeter(chip, 1, tmp_path).read() == pytest.approx((3.3, 0.012))
    put(tmp_path / "hwmon5/name", "ina3221")
    for channel in (1, 2, 3):
        put(tmp_path / f"hwmon5/in{channel}_input", 1000 * channel)
        put(tmp_path / f"hwmon5/in{channel + 3}_input", 5)  # shunts
        put(tmp_path / f"hwmon5/curr{channel}_input", 10 * channel)
        put(tmp_path / f"hwmon5/in{channel}_label", "VDD_IN")
        read = HwmonMeter("ina3221", channel, tmp_path).read()
        assert read == pytest.approx((channel, 0.01 * channel))


def test_power_alone_will_do(tmp_path: Path) -> None:
    put(tmp_path / "hwmon0/name", "ina226")
    put(tmp_path / "hwmon0/power1_input", 40_000)
    assert HwmonMeter("ina226", 1, tmp_path).read() == pytest.approx((1.0, 0.04))


def test_one_of_two_chips_is_named_by_its_folder(tmp_path: Path) -> None:
    """A Jetson TX2 has an INA3221 on the module, and one on the board below."""
    root = jetson(tmp_path)
    put(root / "hwmon4/name", "ina3221")
    put(root / "hwmon4/in1_input", 19_000)
    put(root / "hwmon4/curr1_input", 250)
    with pytest.raises(DeviceError, match="there is 2: hwmon3, hwmon4"):
        HwmonMeter("ina3221", 1, root)
    meter = HwmonMeter("hwmon4", 1, root)
    assert meter.read() == pytest.approx((19.0, 0.25))
    assert meter.name == "ina3221:1"
    with pytest.raises(DeviceError, match="'pwmfan' is not a chip"):
        HwmonMeter("hwmon0", 1, root)


@pytest.mark.parametrize("text", ["", "many", "1.5"])
def test_hwmon_refuses_what_is_no_number(text: str, tmp_path: Path) -> None:
    root = jetson(tmp_path)
    put(root / "hwmon3/in1_input", text)
    with pytest.raises(DeviceError, match="not a whole number"):
        HwmonMeter("ina3221", 1, root).start("conv")


def wait_for(meter: HwmonMeter, samples: int) -> None:
    """Wait for so many more samples, however late this thread is."""
    end_s = time.monotonic() + 10
    samples += len(meter._samples)
    while len(meter._samples) < samples:
        assert time.monotonic() < end_s
        time.sleep(1e-3)


def test_a_polled_meter_records_with_the_markers_it_is_told(tmp_path: Path) -> None:
    meter = HwmonMeter("ina3221", 1, jetson(tmp_path))
    for _ in range(2):
        meter.start("conv")
        wait_for(meter, 5)
        meter.mark(True)
        wait_for(meter, 10)
        meter.mark(False)
        wait_for(meter, 10)
        trace = meter.stop()
        assert set(trace.volts) == {5.0}
        assert not trace.marked[0]
        assert not trace.marked[-1]
        assert 9 <= trace.marked.sum() <= len(trace.marked) - 10
        assert measured_energy(trace, idle_w=0.0).energy_j > 0
    with pytest.raises(DeviceError, match="never started"):
        meter.stop()


def test_a_polled_meter_that_goes_away_says_so(tmp_path: Path) -> None:
    meter = HwmonMeter("ina3221", 1, jetson(tmp_path))
    meter.start("conv")
    wait_for(meter, 2)
    (tmp_path / "hwmon3/in1_input").unlink()
    assert meter._thread is not None
    meter._thread.join(10)
    with pytest.raises(DeviceError, match="stopped answering"):
        meter.stop()


def test_rapl_counts_on_past_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = tmp_path / "intel-rapl:0"
    put(zone / "max_energy_range_uj", 999_999)
    put(zone / "energy_uj", 500_000)
    now_s = 100.0
    monkeypatch.setattr("poetfw.meters.polled.time.monotonic", lambda: now_s)
    meter = RaplMeter(root=tmp_path, poll_s=1000.0)
    meter.start("busy")
    for energy_uj, seconds in ((700_000, 0.1), (100_000, 0.2), (300_000, 0.1), (300_000, 0.1)):
        meter.mark(energy_uj == 700_000)
        now_s += seconds
        put(zone / "energy_uj", energy_uj)
    meter.mark(False)
    trace = meter.stop()
    # 0.2 J, 0.4 J past the counter's end, 0.2 J and nothing, each between two samples.
    np.testing.assert_allclose(np.diff(trace.times_s), [0.1, 0.2, 0.1, 0.1])
    np.testing.assert_allclose(trace.watts, [2.0, 2.0, 2.0, 1.0, 0.0])
    assert list(trace.marked) == [False, True, False, False, False]


def test_rapl_in_short_intervals_loses_no_joule(tmp_path: Path) -> None:
    """The counter stands still between two updates: a sample right behind another is no 0 W."""
    zone = tmp_path / "intel-rapl:0"
    put(zone / "max_energy_range_uj", 10**9)
    put(zone / "energy_uj", 0)
    times_s = np.sort(np.r_[np.arange(0, 1.0, 0.01), 0.2001, 0.8001])
    counted = np.floor(times_s * 1000) / 1000 * 3.0  # J of 3 W, as of the last millisecond
    watts = RaplMeter(root=tmp_path).amperes(times_s, counted)
    marked = (times_s > 0.2) & (times_s <= 0.8001)
    trace = PowerTrace(times_s, np.ones_like(watts), watts, marked)
    assert measured_energy(trace, 0.0).energy_j == pytest.approx(3.0 * 0.6, rel=0.02)


def test_rapl_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"max_energy_range_uj cannot be read"):
        RaplMeter(root=tmp_path)
    put(tmp_path / "intel-rapl:0/max_energy_range_uj", 0)
    put(tmp_path / "intel-rapl:0/energy_uj", 0)
    with pytest.raises(DeviceError, match="is 0"):
        RaplMeter(root=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none:",
        "ppk2",
        "ppk2:/dev/x",
        "ppk2:/dev/x@",
        "hwmon",
        "hwmon:ina226:x",
        "replay:",
        "ppk3",
    ],
)
def test_a_meter_that_nobody_knows_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no meter is called"):
        open_meter(text)


def test_no_meter_is_none() -> None:
    nothing: Meter | None = open_meter("none")
    assert nothing is None
