# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: deferred during steps that must complete, immediate while C++ code computes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import FrameType
from typing import TypeVar, cast

from poetfw.common.system import require_memory

EXIT_INTERRUPTED = 130
_CALL_BYTES = 64 * 2**20  # address space of a thread with its stack and the solver's own data
_T = TypeVar("_T")


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A block during which Ctrl-C is deferred to the block's end.

    Python raises KeyboardInterrupt between any two instructions of the main thread; other threads
    never see it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    previous = {
        number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for first in arrived[:1]:
            signal.raise_signal(first)


def run_interruptibly(call: Callable[[], _T]) -> _T:
    """Run a call that computes in C++; Ctrl-C ends the wait for it at once.

    Python handles a signal only between its own instructions, and a solver runs for a minute
    without one. The abandoned call ends with
    the process, if not before.

    Raises:
        MemoryError: memory is too short to run it; glibc would end the process in the new thread.
    """
    require_memory(_CALL_BYTES)
    answers: SimpleQueue[tuple[_T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # handed to the caller's thread, whatever it is
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    result, error = answers.get()
    if error is not None:
        raise error
    return cast(_T, result)


def leave(*_: object) -> None:
    """Exit at once after an interrupt; see `end`."""
    end("interrupted", EXIT_INTERRUPTED)


def end(message: str, exit_code: int, prefix: str = "") -> None:
    """Exit at once, without an exception, which a module under import could swallow.

    Standard error gets prefix and message; with `--json`, standard output the error's document.
    """
    if "--json" in sys.argv[1:]:
        said = '{"error": {"message": "%s", "exit_code": %d, "try_next": [], "said": []}}\n'
        os.write(1, (said % (message, exit_code)).encode())
    os.write(2, f"{prefix}{message}\n".encode())
    os._exit(exit_code)
