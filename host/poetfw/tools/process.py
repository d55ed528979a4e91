# SPDX-License-Identifier: Apache-2.0
"""Child processes, each in a process group of its own that does not outlive this process."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from poetfw.common.errors import ToolError
from poetfw.common.interrupts import uninterrupted
from poetfw.common.system import kill_group, own_group
from poetfw.tools.console import MAX_LINE_BYTES
from poetfw.tools.temporary import MAKE_ROOM


class TimedOut(Exception):
    """A process ran for too long, or printed nothing for too long.

    Attributes:
        silent: True if the silence was too long.
    """

    def __init__(self, silent: bool = False) -> None:
        super().__init__()
        self.silent = silent


@dataclass(frozen=True)
class Files:
    """Open files for a program's standard streams.

    Attributes:
        source: standard input; None for an empty one.
        target: standard output, whose lines are then not read; None to read them.
    """

    source: BinaryIO | None = None
    target: BinaryIO | None = None


_NONE = Files()


class Process:
    """A running program whose output, with standard error merged in, is read line by line."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        files: Files = _NONE,
    ) -> None:
        """Start a program.

        Args:
            command: program and arguments.
            cwd: working folder.
            environment: variables added to those of this process.
            files: files in place of the standard streams.

        Raises:
            ToolError: The program cannot be started.
        """
        try:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                stdin=files.source or subprocess.DEVNULL,
                stdout=files.target or subprocess.PIPE,
                stderr=subprocess.PIPE if files.target else subprocess.STDOUT,
                **own_group(),
            )
        except OSError as error:
            raise ToolError(f"cannot start {command[0]}: {error}", "run `poetfw doctor`") from error
        self._lines: queue.Queue[bytes | None] = queue.Queue(maxsize=10_000)
        self._unwanted = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        output = self._process.stdout or self._process.stderr
        assert output is not None
        with output as stream:
            while not self._unwanted and (line := stream.readline(MAX_LINE_BYTES)):
                self._lines.put(line)
        self._lines.put(None)

    def lines(self, timeout_s: float, silence_s: float | None = None) -> Iterator[bytes]:
        """Yield the program's lines as they come.

        Args:
            timeout_s: seconds that the program may run, from now.
            silence_s: seconds without a line; None for no limit of its own.

        Raises:
            TimedOut: One of the two limits has passed.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut
            silent = silence_s is not None and silence_s < left
            try:
                line = self._lines.get(timeout=silence_s if silent else left)
            except queue.Empty:
                raise TimedOut(silent) from None
            if line is None:
                return
            yield line

    def wait(self, timeout_s: float) -> int:
        """Wait for the program's end; returns its exit code.

        Raises:
            TimedOut: The program still runs after the timeout.
        """
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimedOut from None

    def kill(self) -> None:
        """Kill the program and its process group."""
        kill_group(self._process)
        self._process.wait()
        self._unwanted = True
        with contextlib.suppress(queue.Empty):
            while True:  # the reading thread may be blocked on a full queue
                self._lines.get_nowait()


@contextlib.contextmanager
def started(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    files: Files = _NONE,
) -> Iterator[Process]:
    """Start a program and kill it at the end of the `with` block."""
    with contextlib.ExitStack() as stack:
        with uninterrupted():
            process = Process(command, cwd, environment, files)
            stack.callback(process.kill)
        yield process


def run_tool(
    command: Sequence[str],
    cwd: Path,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a tool to its end; returns its output.

    Raises:
        ToolError: The tool fails or exceeds `timeout_s`; the error holds its last lines.
    """
    output: list[bytes] = []
    name = Path(command[0]).name
    with started(command, cwd, environment) as process:
        try:
            output.extend(process.lines(timeout_s))
            code = process.wait(timeout_s)
        except TimedOut:
            raise ToolError(
                f"{name} did not end within {timeout_s:.0f} s", said=last_lines(output)
            ) from None
    if code != 0:
        said = last_lines(output)
        full = any(os.strerror(errno.ENOSPC) in line for line in said)
        hints = (f"make room for the files of {cwd}, or {MAKE_ROOM}",) if full else ()
        raise ToolError(f"{name} ended with exit code {code}", *hints, said=said)
    return b"".join(output).decode(errors="replace")


def last_lines(output: Iterable[bytes], most: int = 30) -> list[str]:
    """Last lines of a program's output as text."""
    text = b"".join(deque(output, most)).decode(errors="replace").rstrip()
    return text.splitlines()[-most:]
