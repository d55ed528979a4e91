# SPDX-License-Identifier: Apache-2.0
"""Meters that Linux reads: files of sysfs, again and again, beside what runs.

They have no input for a marker: whoever runs the cases says when one begins and ends.
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
"""The zone of a computer's first, and mostly only, processor."""
_INA = ("ina219", "ina220", "ina226", "ina230", "ina231", "ina3221")


class PolledMeter(ABC):
    """Reads a sample every so often, from `start` to `stop`."""

    name: str
    sees_marker = False
    least_s = 0.5  # what passes between this computer and the board is little beside it

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
        """Volts and amperes now.

        Raises:
            DeviceError: the meter does not answer.
        """

    def amperes(self, times_s: Floats, read: Floats) -> Floats:
        """The amperes of samples, from the second of what was read at these times."""
        return read

    def start(self, label: str) -> None:
        """Begin to record.

        Raises:
            DeviceError: the meter does not answer.
        """
        self.read()
        self._samples, self._failed, self._marked = [], None, False
        self._end.clear()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def mark(self, on: bool) -> None:
        """Set or clear the marker: samples from now on have it, and there is one right before."""
        self._sample()
        self._marked = on

    def stop(self) -> PowerTrace:
        """End recording.

        Raises:
            DeviceError: the meter stopped answering.
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
        """Record no more."""
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
    """A shunt monitor by Texas Instruments that a driver of Linux has in hwmon.

    INA219 and INA226 (driver `ina2xx`) have one channel, with the bus's voltage in `in1_input` and
    the shunt's in `in0_input`; the INA3221, as on the Jetson TX2, has three, `in1_input` to
    `in3_input`, and the shunts' behind them. Volts are in mV there, and `curr<n>_input` in mA
    (Linux, Documentation/hwmon/ina2xx.rst and ina3221.rst). Where a driver gives power only, in uW
    in `power<n>_input`, a sample is 1 V and as many amperes as watts.
    """

    def __init__(
        self, chip: str, channel: int = 1, root: Path = _HWMON, poll_s: float = _POLL_S
    ) -> None:
        """Find the chip.

        Args:
            chip: its name, such as `ina3221`; where there are several, its folder's, `hwmon3`.
            channel: which, from 1.
            root: the folder of hwmon's devices.
            poll_s: seconds from sample to sample, or a little more.

        Raises:
            DeviceError: there is no such chip, more than one, or no such channel.
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
        """Volts and amperes now."""
        if self._only_power:
            return 1.0, _integer(self._microwatts) * _MICRO
        return _integer(self._volts) * _MILLI, _integer(self._amperes) * _MILLI


class RaplMeter(PolledMeter):
    """The processor's own account of its energy (Intel RAPL; AMD has it, too), in powercap.

    `energy_uj` counts microjoules up to `max_energy_range_uj` and begins again. A sample is 1 V,
    and as many amperes as watts were drawn on average from the sample before it to the one after.
    """

    def __init__(self, zone: str = PACKAGE, root: Path = _POWERCAP, poll_s: float = 10e-3) -> None:
        """Find the counter.

        Args:
            zone: which part of the computer, as powercap calls it.
            root: the folder of powercap's zones.
            poll_s: seconds from sample to sample; the counter moves about every millisecond.

        Raises:
            DeviceError: there is no such counter, or it may not be read.
        """
        super().__init__(poll_s)
        self.name = f"rapl:{zone}"
        self._counter = root / zone / "energy_uj"
        self._range_uj = _integer(root / zone / "max_energy_range_uj")
        if self._range_uj <= 0:
            raise DeviceError(f"{root / zone / 'max_energy_range_uj'} is {self._range_uj}")
        self._before_uj, self._spent_uj = _integer(self._counter), 0

    def read(self) -> tuple[float, float]:
        """1 V, and the joules since the meter was found."""
        now_uj = _integer(self._counter)
        self._spent_uj += (now_uj - self._before_uj) % (self._range_uj + 1)
        self._before_uj = now_uj
        return 1.0, self._spent_uj * _MICRO

    def amperes(self, times_s: Floats, read: Floats) -> Floats:
        """The mean power around each sample: of an interval that is short, the counter knows none.

        Raises:
            DeviceError: there are too few samples.
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
