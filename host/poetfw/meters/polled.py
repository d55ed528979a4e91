# SPDX-License-Identifier: Apache-2.0
"""Meters that Linux reads: files in sysfs, polled while cases run.

They have no marker input: the caller reports the begin and end of each case.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from poetfw.common.errors import DeviceError
from poetfw.meters.trace import Floats, PowerTrace

_POLL_S = 1e-3
_HWMON = Path("/sys/class/hwmon")
_POWERCAP = Path("/sys/class/powercap")
_MILLI = 1e-3
_MICRO = 1e-6
PACKAGE = "intel-rapl:0"
"""Powercap zone of the computer's first processor package."""
_INA = ("ina219", "ina220", "ina226", "ina230", "ina231", "ina3221")


class PolledMeter(ABC):
    """Meter that takes a sample at regular intervals from `start` to `stop`."""

    name: str
    sees_marker = False
    least_s = 0.5  # long compared with the delay between this computer and the board

    def __init__(self, poll_s: float = _POLL_S) -> None:
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._marked = False
        self._samples: list[tuple[float, float, float, bool]] = []
        self._failed: Exception | None = None
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def read(self) -> tuple[float, float]:
        """Current voltage and current, in volts and amperes.

        Raises:
            DeviceError: The meter does not answer.
        """

    def amperes(self, times_s: Floats, read: Floats) -> Floats:
        """Convert the second value of each reading to amperes; by default, it is the current."""
        return read

    def start(self, label: str) -> None:
        """Start recording.

        Raises:
            DeviceError: The meter does not answer.
        """
        self.read()
        self._samples, self._failed, self._marked = [], None, False
        self._end.clear()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def mark(self, on: bool) -> None:
        """Set or clear the marker for samples from now on; one sample is taken right before."""
        self._sample()
        self._marked = on

    def stop(self) -> PowerTrace:
        """Stop recording; returns the trace.

        Raises:
            DeviceError: The meter stopped answering.
        """
        if self._thread is None:
            raise DeviceError(f"the meter {self.name} is stopped, but was never started")
        self._end.set()
        self._thread.join()
        self._thread = None
        if self._failed is not None:
            raise DeviceError(f"the meter {self.name} stopped answering: {self._failed}")
        columns = np.array(self._samples, dtype=np.float64).reshape(-1, 4).T
        amperes = self.amperes(columns[0], columns[2])
        return PowerTrace(columns[0], columns[1], amperes, columns[3] != 0)

    def close(self) -> None:
        """Stop recording."""
        self._end.set()

    def _poll(self) -> None:
        while not self._end.wait(self._poll_s) and self._failed is None:
            self._sample()

    def _sample(self) -> None:
        with self._lock:
            try:
                volts, amperes = self.read()
            except DeviceError as error:
                self._failed = error
                return
            now_s = time.monotonic()
            if not self._samples or now_s > self._samples[-1][0]:
                self._samples.append((now_s, volts, amperes, self._marked))


class HwmonMeter(PolledMeter):
    """Texas Instruments shunt monitor that a Linux driver offers in hwmon.

    INA219 and INA226 (driver `ina2xx`) have one channel: bus voltage in `in1_input`, shunt voltage
    in `in0_input`. The INA3221, as on the Jetson TX2, has three: `in1_input` to `in3_input`,
    followed by the shunt voltages. Voltage is in mV, `curr<n>_input` in mA (Linux,
    Documentation/hwmon/ina2xx.rst and ina3221.rst). If a driver offers only power, `power<n>_input`
    in uW, a sample is stored as 1 V and amperes equal to the watts.
    """

    def __init__(
        self, chip: str, channel: int = 1, root: Path = _HWMON, poll_s: float = _POLL_S
    ) -> None:
        """Find the chip.

        Args:
            chip: name of the chip, such as `ina3221`, or of its hwmon folder, such as `hwmon3`, if
                there are several.
            channel: number of the channel, from 1.
            root: folder of hwmon devices.
            poll_s: seconds between samples, at least.

        Raises:
            DeviceError: There is not exactly one such chip, or it lacks the channel.
        """
        super().__init__(poll_s)
        folders = {path.name: path for path in (root.glob("hwmon*") if root.is_dir() else ())}
        named = _text(folders[chip] / "name") if chip in folders else chip
        if named not in _INA:
            raise DeviceError(f"{named!r:.40} is not a chip that is read: use {', '.join(_INA)}")
        found = [
            folder
            for name, folder in sorted(folders.items())
            if chip == name or _text(folder / "name") == chip
        ]
        if len(found) != 1:
            many = "none" if not found else f"{len(found)}: {', '.join(f.name for f in found)}"
            raise DeviceError(
                f"one {chip} was expected in {root}, and there is {many}",
                "load its driver" if not found else "name the folder in the chip's place",
                "or name another meter",
            )
        self.name = f"{named}:{channel}"
        self._volts, self._amperes, self._microwatts = (
            found[0] / f"{quantity}{channel}_input" for quantity in ("in", "curr", "power")
        )
        self._only_power = not self._amperes.exists() and self._microwatts.exists()
        for path in () if self._only_power else (self._volts, self._amperes):
            if not path.exists():
                raise DeviceError(f"the {named} has no channel {channel}: {path} is missing")

    def read(self) -> tuple[float, float]:
        """Current voltage and current, in volts and amperes."""
        if self._only_power:
            return 1.0, _integer(self._microwatts) * _MICRO
        return _integer(self._volts) * _MILLI, _integer(self._amperes) * _MILLI


class RaplMeter(PolledMeter):
    """Energy counter of the processor (Intel RAPL, also on AMD), read from powercap.

    `energy_uj` counts microjoules up to `max_energy_range_uj` and wraps. A sample is stored as 1 V
    and amperes equal to the mean watts between the samples before and after it.
    """

    def __init__(self, zone: str = PACKAGE, root: Path = _POWERCAP, poll_s: float = 10e-3) -> None:
        """Find the counter.

        Args:
            zone: name of the powercap zone.
            root: folder of powercap zones.
            poll_s: seconds between samples; the counter is updated about every millisecond.

        Raises:
            DeviceError: The counter does not exist or cannot be read.
        """
        super().__init__(poll_s)
        self.name = f"rapl:{zone}"
        self._counter = root / zone / "energy_uj"
        self._range_uj = _integer(root / zone / "max_energy_range_uj")
        if self._range_uj <= 0:
            raise DeviceError(f"{root / zone / 'max_energy_range_uj'} is {self._range_uj}")
        self._before_uj, self._spent_uj = _integer(self._counter), 0

    def read(self) -> tuple[float, float]:
        """1 V, and the energy in joules since the meter was opened."""
        now_uj = _integer(self._counter)
        self._spent_uj += (now_uj - self._before_uj) % (self._range_uj + 1)
        self._before_uj = now_uj
        return 1.0, self._spent_uj * _MICRO

    def amperes(self, times_s: Floats, read: Floats) -> Floats:
        """Mean power around each sample; shorter intervals are below the counter's resolution.

        Raises:
            DeviceError: There are fewer than two samples.
        """
        if len(times_s) < 2:
            raise DeviceError(f"the meter {self.name} was read too seldom: {len(times_s)} times")
        before, after = np.arange(len(read)) - 1, np.arange(len(read)) + 1
        before, after = before.clip(0), after.clip(max=len(read) - 1)
        return np.asarray((read[after] - read[before]) / (times_s[after] - times_s[before]))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise DeviceError(
            f"{path} cannot be read: {error.strerror}",
            "see whether it is there, and whether you may read it",
        ) from error


def _integer(path: Path) -> int:
    text = _text(path)
    try:
        return int(text)
    except ValueError:
        raise DeviceError(f"{path} holds {text!r:.40}, not a whole number") from None
