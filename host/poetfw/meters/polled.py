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

from poetfw.errors import DeviceError
from poetfw.meters.trace import Trace

_POLL_S = 1e-3
_HWMON = Path("/sys/class/hwmon")
_POWERCAP = Path("/sys/class/powercap")
_MILLI = 1e-3
_MICRO = 1e-6
_INA = ("ina219", "ina220", "ina226", "ina230", "ina231", "ina3221")


class PolledMeter(ABC):
    """Reads a sample every so often, from `start` to `stop`."""

    name: str

    def __init__(self, poll_s: float = _POLL_S) -> None:
        self._poll_s = poll_s
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

    def start(self) -> None:
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
        """Set or clear the marker: samples from now on have it."""
        self._marked = on

    def stop(self) -> Trace:
        """End recording.

        Raises:
            DeviceError: the meter ceased to answer.
        """
        if self._thread is None:
            raise DeviceError(f"the meter {self.name} is stopped, but was never started")
        self._end.set()
        self._thread.join()
        self._thread = None
        if self._failed is not None:
            raise DeviceError(f"the meter {self.name} ceased to answer: {self._failed}")
        columns = np.array(self._samples, dtype=np.float64).reshape(-1, 4).T
        return Trace(columns[0], columns[1], columns[2], columns[3] != 0)

    def _poll(self) -> None:
        last_s = -np.inf
        while not self._end.wait(self._poll_s):
            try:
                volts, amperes = self.read()
            except DeviceError as error:
                self._failed = error
                return
            now_s = time.monotonic()
            if now_s > last_s:
                self._samples.append((now_s, volts, amperes, self._marked))
                last_s = now_s


class HwmonMeter(PolledMeter):
    """A shunt monitor by Texas Instruments that a driver of Linux has in hwmon.

    INA219 and INA226 (driver `ina2xx`) have one channel, and its voltage in `in1_input`; the
    INA3221, as on the Jetson TX2, has three, `in1_input` to `in3_input`. Volts are in mV there, and
    `curr<n>_input` in mA (Linux, Documentation/hwmon/ina2xx.rst and ina3221.rst).
    """

    def __init__(
        self, chip: str, channel: int = 1, root: Path = _HWMON, poll_s: float = _POLL_S
    ) -> None:
        """Find the chip.

        Args:
            chip: its name, such as `ina3221`.
            channel: which, from 1.
            root: the folder of hwmon's devices.
            poll_s: seconds from sample to sample, or a little more.

        Raises:
            DeviceError: there is no such chip, more than one, or no such channel.
        """
        super().__init__(poll_s)
        if chip not in _INA:
            raise DeviceError(f"{chip!r:.40} is no chip that is read: use {', '.join(_INA)}")
        found = [
            folder
            for folder in (sorted(root.glob("hwmon*")) if root.is_dir() else [])
            if _text(folder / "name") == chip
        ]
        if len(found) != 1:
            many = "none" if not found else f"{len(found)}"
            raise DeviceError(
                f"one {chip} was expected in {root}, and there is {many}",
                "load its driver, or name another meter",
            )
        self.name = f"{chip}:{channel}"
        self._volts = found[0] / f"in{channel}_input"
        self._amperes = found[0] / f"curr{channel}_input"
        for path in (self._volts, self._amperes):
            if not path.exists():
                raise DeviceError(f"the {chip} has no channel {channel}: {path} is missing")

    def read(self) -> tuple[float, float]:
        """Volts and amperes now."""
        return _integer(self._volts) * _MILLI, _integer(self._amperes) * _MILLI


class RaplMeter(PolledMeter):
    """The processor's own account of its energy (Intel RAPL; AMD has it, too), in powercap.

    `energy_uj` counts microjoules up to `max_energy_range_uj` and begins again. What a sample says
    is the mean power since the one before, as amperes at 1 V.
    """

    def __init__(
        self, zone: str = "intel-rapl:0", root: Path = _POWERCAP, poll_s: float = 10e-3
    ) -> None:
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
        self._before = (time.monotonic(), _integer(self._counter))

    def read(self) -> tuple[float, float]:
        """1 V, and as many amperes as watts were drawn since the last time."""
        now_s, energy_uj = time.monotonic(), _integer(self._counter)
        before_s, before_uj = self._before
        self._before = now_s, energy_uj
        spent_uj = (energy_uj - before_uj) % (self._range_uj + 1)
        return 1.0, spent_uj * _MICRO / (now_s - before_s) if now_s > before_s else 0.0


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
