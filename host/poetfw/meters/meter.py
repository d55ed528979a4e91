# SPDX-License-Identifier: Apache-2.0
"""The interface of meters, and the meter that a user names."""

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
    """Records from `start` to `stop`, as often as wanted.

    Attributes:
        name: what measurements say they were measured by.
        sees_marker: whether it has the board's own marker at an input, sample by sample; else
            whoever runs the cases marks them by this computer's clock.
        least_s: how long a case must be marked at least, for its energy to be told from its
            surroundings.
    """

    name: str
    sees_marker: bool
    least_s: float

    def start(self, label: str) -> None:
        """Begin to record.

        Args:
            label: names what is recorded.

        Raises:
            DeviceError: the meter does not answer.
        """

    def mark(self, on: bool) -> None:
        """Say that a case begins or has ended, for a meter without an input for a marker."""

    def stop(self) -> PowerTrace:
        """End recording; returns what was recorded.

        Raises:
            DeviceError: the meter stopped answering.
        """

    def close(self) -> None:
        """Give it back to whoever wants it."""


class ReplayedMeter:
    """Traces that were recorded before: the folder that a profile kept them in.

    Whether they have the board's own marker, the last one that was replayed says.
    """

    least_s = 0.0

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet.

        Raises:
            DataError: there is no such folder, or it holds no traces.
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
        """Choose the trace."""
        self._label = label

    def mark(self, on: bool) -> None:
        """Nothing: markers are recorded already."""

    def stop(self) -> PowerTrace:
        """The trace.

        Raises:
            DataError: there is none of that name, or the file holds no trace.
        """
        trace = PowerTrace.load(self._folder / f"{self._label}.npz")
        self.sees_marker = trace.by_marker
        return trace

    def close(self) -> None:
        """Do nothing: no file stays open."""


@contextmanager
def opened_meter(text: str) -> Iterator[Meter | None]:
    """The meter that a user names, for as long as the `with` block; None for `none`.

    Raises:
        ConfigError: no meter is called so.
        DeviceError: it is not there, or does not answer.
        DataError: a folder to replay is not there.
    """
    meter = open_meter(text)
    try:
        yield meter
    finally:
        if meter is not None:
            meter.close()


def open_meter(text: str) -> Meter | None:
    """The meter that a user names; None for `none`: power is then the board file's.

    POETFW_SYSFS names another folder than /sys.

    Raises:
        ConfigError: no meter is called so.
        DeviceError: it is not there, or does not answer.
        DataError: a folder to replay is not there.
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
