# SPDX-License-Identifier: Apache-2.0
"""Calls of one operating system alone; other modules use none."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subprocess import Popen

_SLOWEST_START_S = 60.0
"""A process that seems to have begun earlier has not: some sandboxes count from elsewhere."""
_POLL_S = 0.01
_PR_SET_PDEATHSIG = 1  # prctl(2)


def require_memory(size_bytes: int) -> None:
    """Check that so many bytes of address space are free, under `ulimit -v` for example.

    Some libraries end the process where they find too little: OpenBLAS while it loads, glibc when a
    new thread first uses a library.

    Raises:
        MemoryError: they are not free.
    """
    try:
        mmap.mmap(-1, size_bytes).close()
    except OSError:
        raise MemoryError from None


def process_start_s() -> float:
    """Start of this process on `time.perf_counter`'s clock; now, if the system does not know it."""
    now_s = time.perf_counter()
    if sys.platform != "linux":
        return now_s
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    except OSError:
        return now_s
    fields = stat.rpartition(")")[2].split()
    began_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # proc(5): field 22, starttime
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - began_s
    return now_s - age_s if 0 <= age_s <= _SLOWEST_START_S else now_s


@cache
def own_group() -> Mapping[str, Any]:
    """Arguments of `subprocess.Popen` for a program that `kill_group` ends with all it starts."""
    if sys.platform == "win32":
        import subprocess

        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True, "preexec_fn": _ender()}


def _ender() -> Callable[[], None] | None:
    """Child's first action after fork, which ties its lifetime to this process.

    On Linux the kernel then kills the child when this process ends in any way. The function is
    looked up here, since little may be done between fork and exec.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, end = ctypes.CDLL(None).prctl, signal.SIGKILL

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, end, 0, 0, 0)

    return end_with_parent


def kill_group(process: Popen[bytes]) -> None:
    """Kill a program that was started with `OWN_GROUP`, and the programs it started."""
    if sys.platform == "win32":
        import subprocess

        if process.poll() is None:
            tree = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
            subprocess.run(tree, capture_output=True, check=False)
            process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def wait_for_input(serial: Any, timeout_s: float) -> bool:
    """True as soon as a serial port of pyserial has input, False after a timeout in seconds."""
    if sys.platform == "win32":
        ends_s = time.monotonic() + timeout_s
        while not serial.in_waiting:
            if time.monotonic() >= ends_s:
                return False
            time.sleep(_POLL_S)
        return True
    else:
        return bool(select.select([serial.fileno()], [], [], timeout_s)[0])
