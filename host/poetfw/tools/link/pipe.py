# SPDX-License-Identifier: Apache-2.0
"""A line to firmware that runs as a program here, over its standard input and output."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from poetfw.common.errors import DeviceError, PortLostError
from poetfw.tools.process import Files, Process, TimedOut, started


class Pipe:
    """A running program that takes commands on its standard input."""

    def __init__(self, process: Process, target: int) -> None:
        """Connect to a program, whose standard input is the pipe's end `target`."""
        self._process, self._target = process, target
        self._said: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send all bytes.

        Raises:
            PortLostError: The program has ended.
        """
        try:
            while data:
                data = data[os.write(self._target, data) :]
        except OSError as error:
            raise self._ended() from error

    def read(self, timeout_s: float) -> bytes:
        """Next line, or nothing after a timeout in seconds.

        Raises:
            PortLostError: The program has ended.
        """
        try:
            line = next(self._process.lines(timeout_s), None)
        except TimedOut:
            return b""
        if line is None:
            raise self._ended()
        self._said = [*self._said[-4:], line]
        return line

    def now_s(self) -> float:
        """Time in seconds on a monotonic clock."""
        return time.monotonic()

    def _ended(self) -> DeviceError:
        said = b" ".join(line.strip() for line in self._said).decode(errors="replace")
        return PortLostError(
            f"the firmware has ended; the last it said was: {said[-300:] or 'nothing'}",
            "repeat the command: it goes on where it stopped",
        )


@contextlib.contextmanager
def piped(command: Sequence[str], folder: Path) -> Iterator[Pipe]:
    """Start firmware that takes commands, in a folder; it is killed at the end of the block.

    Raises:
        ToolError: The command cannot be started.
    """
    source, target = os.pipe()
    try:
        with os.fdopen(source, "rb") as theirs, started(command, folder, files=Files(theirs)) as it:
            yield Pipe(it, target)
    finally:
        os.close(target)
