# SPDX-License-Identifier: Apache-2.0
"""A Power Profiler Kit II at a pseudo-terminal: commands in, calibration and samples out."""

from __future__ import annotations

import os
import pty
import struct
import threading
import tty
from collections.abc import Iterable
from dataclasses import dataclass, field

GET_META_DATA, AVERAGE_START, AVERAGE_STOP = 0x19, 0x06, 0x07
SET_POWER_MODE, DEVICE_RUNNING_SET, REGULATOR_SET = 0x11, 0x0C, 0x0D
LENGTHS = {SET_POWER_MODE: 2, DEVICE_RUNNING_SET: 2, REGULATOR_SET: 3}
"""Bytes of the commands that have more than one."""

OHMS = 10.0
META_DATA = "Calibrated: 0\n" + "".join(
    f"R{i}: {OHMS}\nGS{i}: 0\nGI{i}: 1\nO{i}: 0\nS{i}: 0\nI{i}: 0\nUG{i}: 1\n" for i in range(5)
) + "HW: 9173\nIA: 56\nEND\n"  # fmt: skip
VOLTS_PER_COUNT = 4 * 1.8 / 163840
"""The converter counts in 14 bits of four units each."""


def word(amperes: float, marked: bool, counter: int, current_range: int = 1) -> bytes:
    """One sample, as the PPK2 sends it."""
    adc = round(amperes * OHMS / VOLTS_PER_COUNT)
    assert 0 <= adc < 1 << 14
    bits = adc | current_range << 14 | (counter & 63) << 18 | marked << 24
    return struct.pack("<I", bits)


@dataclass
class Device:
    """Answers until it is closed.

    Attributes:
        samples: what it sends when it is told to measure, from the first one.
        commands: what it was told, but for questions.
    """

    samples: Iterable[bytes] = ()
    meta_data: str = META_DATA
    commands: list[bytes] = field(default_factory=list)

    def __enter__(self) -> str:
        self._own, self._other = pty.openpty()
        tty.setraw(self._other)
        self.sent = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return os.ttyname(self._other)

    def __exit__(self, *exception: object) -> None:
        os.close(self._other)
        self._thread.join()
        os.close(self._own)

    def send(self, samples: bytes) -> None:
        """Send more samples, while somebody reads them."""
        os.write(self._own, samples)

    def _serve(self) -> None:
        try:
            while command := os.read(self._own, 1):
                for _ in range(LENGTHS.get(command[0], 1) - 1):
                    command += os.read(self._own, 1)
                self._obey(command)
        except OSError:
            return  # everybody has closed the other end

    def _obey(self, command: bytes) -> None:
        if command[0] == GET_META_DATA:
            os.write(self._own, self.meta_data.encode())
            return
        self.commands.append(command)
        if command[0] == AVERAGE_START:
            for sample in self.samples:
                os.write(self._own, sample)
            self.sent.set()
