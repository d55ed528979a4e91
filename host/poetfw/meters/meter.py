# SPDX-License-Identifier: Apache-2.0
"""What all meters have in common, and the one that a user names."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from poetfw.errors import ConfigError
from poetfw.meters.polled import HwmonMeter, RaplMeter
from poetfw.meters.ppk2 import Ppk2Meter
from poetfw.meters.trace import Trace

_FORMS = "none, ppk2:PORT@MILLIVOLTS, hwmon:CHIP[:CHANNEL], rapl[:ZONE] or replay:FILE.npz"


class Meter(Protocol):
    """Records from `start` to `stop`, as often as wanted.

    Attributes:
        name: what measurements say they were measured by.
    """

    name: str

    def start(self) -> None:
        """Begin to record.

        Raises:
            DeviceError: the meter does not answer.
        """

    def mark(self, on: bool) -> None:
        """Say that a case begins or has ended, for a meter without an input for a marker."""

    def stop(self) -> Trace:
        """End recording; returns what was recorded.

        Raises:
            DeviceError: the meter ceased to answer.
        """


class ReplayedMeter:
    """A trace that was recorded before."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            DataError: the file holds no trace.
        """
        self.name = f"replay:{path.name}"
        self._trace = Trace.load(path)

    def start(self) -> None:
        """Nothing: it is recorded already."""

    def mark(self, on: bool) -> None:
        """Nothing: markers are recorded already."""

    def stop(self) -> Trace:
        """The trace."""
        return self._trace


def open_meter(text: str) -> Meter | None:
    """The meter that a user names; None for `none`: power is then the board file's.

    Raises:
        ConfigError: no meter is called so.
        DeviceError: it is not there, or does not answer.
        DataError: a file to replay holds no trace.
    """
    kind, _, rest = text.partition(":")
    if text == "none":
        return None
    if kind == "rapl":
        return RaplMeter(rest) if rest else RaplMeter()
    if kind == "replay" and rest:
        return ReplayedMeter(Path(rest))
    if kind == "hwmon" and rest:
        chip, _, channel = rest.partition(":")
        if channel.isdecimal() or not channel:
            return HwmonMeter(chip, int(channel or 1))
    if kind == "ppk2":
        port, _, millivolts = rest.rpartition("@")
        if port and millivolts.isdecimal():
            return Ppk2Meter(port, int(millivolts))
    raise ConfigError(f"no meter is called {text!r:.80}: use {_FORMS}")
