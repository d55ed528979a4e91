# SPDX-License-Identifier: Apache-2.0
"""Interface of meters, and opening a meter by its name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from poetfw.common.errors import ConfigError, DataError
from poetfw.common.option_values import METERS
from poetfw.meters.joulescope import JoulescopeMeter
from poetfw.meters.polled import PACKAGE, HwmonMeter, RaplMeter
from poetfw.meters.ppk2 import Ppk2Meter
from poetfw.meters.trace import PowerTrace


class Meter(Protocol):
    """A meter that records from `start` to `stop`, repeatedly.

    Attributes:
        name: name of the meter in measurements.
        sees_marker: True if an input records the board's marker with each sample; False if the
            caller marks cases by this computer's clock.
        least_s: shortest marked duration in seconds that gives a usable energy.
    """

    name: str
    sees_marker: bool
    least_s: float

    def start(self, label: str) -> None:
        """Start recording.

        Args:
            label: name of the recording.

        Raises:
            DeviceError: The meter does not answer.
        """

    def mark(self, on: bool) -> None:
        """Mark the begin or end of a case, for meters without a marker input."""

    def stop(self) -> PowerTrace:
        """Stop recording; returns the trace.

        Raises:
            DeviceError: The meter stopped answering.
        """

    def close(self) -> None:
        """Release the meter."""


class ReplayedMeter:
    """Recorded traces in a folder that an earlier profile wrote.

    `sees_marker` is that of the trace replayed last.
    """

    least_s = 0.0

    def __init__(self, folder: Path) -> None:
        """Open a folder of traces; they are read when replayed.

        Raises:
            DataError: The folder does not exist or holds no traces.
        """
        if not any(folder.glob("*.npz")):
            raise DataError(
                f"{folder} is not a folder of traces: it has no NPZ files",
                "name the one that `poetfw profile` printed",
            )
        self.name = f"replay:{folder.resolve()}"
        self.sees_marker = True
        self._folder = folder
        self._label = ""

    def start(self, label: str) -> None:
        """Select the trace with this label."""
        self._label = label

    def mark(self, on: bool) -> None:
        """Do nothing: markers are part of the recording."""

    def stop(self) -> PowerTrace:
        """Load the selected trace.

        Raises:
            DataError: There is no trace with this label, or the file is not a trace.
        """
        trace = PowerTrace.load(self._folder / f"{self._label}.npz")
        self.sees_marker = trace.by_marker
        return trace

    def close(self) -> None:
        """Do nothing: no file stays open."""


@contextmanager
def opened_meter(text: str) -> Iterator[Meter | None]:
    """Open a meter by its name and close it at the end of the block; None for `none`.

    Raises:
        ConfigError: No meter has this name.
        DeviceError: The meter is missing or does not answer.
        DataError: The folder to replay does not exist.
    """
    meter = open_meter(text)
    try:
        yield meter
    finally:
        if meter is not None:
            meter.close()


def open_meter(text: str) -> Meter | None:
    """Open a meter by its name; None for `none`: power then comes from the board file.

    POETFW_SYSFS replaces /sys.

    Raises:
        ConfigError: No meter has this name.
        DeviceError: The meter is missing or does not answer.
        DataError: The folder to replay does not exist.
    """
    kind, _, rest = text.partition(":")
    sysfs = Path(os.environ.get("POETFW_SYSFS", "/sys"))
    if text == "none":
        return None
    if kind == "rapl":
        return RaplMeter(rest or PACKAGE, sysfs / "class/powercap")
    if kind == "replay" and rest:
        return ReplayedMeter(Path(rest))
    if kind == "joulescope":
        return JoulescopeMeter(rest)
    if kind == "hwmon" and rest:
        chip, _, channel = rest.partition(":")
        if channel.isdecimal() or not channel:
            return HwmonMeter(chip, int(channel or 1), root=sysfs / "class/hwmon")
    if kind == "ppk2":
        port, _, millivolts = rest.rpartition("@")
        if port and millivolts.isdecimal():
            return Ppk2Meter(port, int(millivolts))
    raise ConfigError(f"no meter is called {text!r:.80}: use {METERS}")
