"""Ctrl-C, put off while something must not be left half done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A block that Ctrl-C ends only behind its last line.

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
