# SPDX-License-Identifier: Apache-2.0
"""The firmware's console: lines of `@word [number] key=value …`. Every byte is untrusted."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from poetfw.common.errors import DeviceError

_LINE = re.compile(r"@([a-z]+)(?: (\d{1,10}))?((?: [a-z_]+=[\w.-]+)*)", re.ASCII)
MAX_LINE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the firmware's console protocol.

    Attributes:
        word: event name: boot, train, step, eval, done, error, fault.
        number: number of the step or batch, from 1; 0 if the event has none.
        values: values of the line as text, by key.
    """

    word: str
    number: int
    values: Mapping[str, str]

    def integer(self, key: str) -> int:
        """Decimal value of a key, 0 or more.

        Raises:
            DeviceError: The line has no such value.
        """
        text = self.values.get(key, "")
        if not (text.isascii() and text.isdigit() and len(text) <= 20):
            raise DeviceError(f"the device's @{self.word} line has no number {key!r}: {text!r}")
        return int(text)

    def real(self, key: str) -> float:
        """Value of a key as f32, sent as the eight hexadecimal digits of its bits.

        Raises:
            DeviceError: The line has no such value.
        """
        text = self.values.get(key, "")
        if not re.fullmatch(r"[0-9a-f]{8}", text):
            raise DeviceError(f"the device's @{self.word} line has no f32 {key!r}: {text!r}")
        value: float = struct.unpack(">f", bytes.fromhex(text))[0]
        return value

    def finite(self, key: str) -> float:
        """Value of a key as f32, which training that has not diverged keeps finite.

        Raises:
            DeviceError: The value is missing, NaN or infinite.
        """
        return check_finite(key, self.real(key))


def check_finite(key: str, value: float) -> float:
    """Return a value that a device reports, after checking that training has not diverged.

    Raises:
        DeviceError: The value is NaN or infinite.
    """
    if not math.isfinite(value):
        raise DeviceError(
            f"training diverged: the device reports {key} = {value}",
            "lower --learning-rate",
            "check the data's scale",
        )
    return value


def parse_line(line: bytes) -> Event | None:
    """Parse a line of the console; None for a line outside the protocol."""
    text = line.decode("ascii", errors="replace").rstrip("\r\n")
    match = _LINE.fullmatch(text)
    if match is None:
        return None
    pairs = (pair.split("=", 1) for pair in match[3].split())
    return Event(match[1], int(match[2] or 0), dict(pairs))
