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

EXIT_INTERRUPTED = 130
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
    """
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
    """Exit at once, without an exception, which a module under import could swallow.

    With `--json`, standard output gets the document of an error.
    """
    if "--json" in sys.argv[1:]:
        said = '{"error": {"message": "interrupted", "exit_code": %d, "try_next": [], "said": []}}'
        os.write(1, (said % EXIT_INTERRUPTED).encode() + b"\n")
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)
