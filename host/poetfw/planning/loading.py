# SPDX-License-Identifier: Apache-2.0
"""Imports of slow packages in the background, while a command waits for another program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Thread


@contextmanager
def loading(*modules: str) -> Iterator[None]:
    """Context that imports modules in a background thread, for blocks that wait for a program.

    An import of such a module elsewhere waits for the background import; errors are raised there.
    """

    def load() -> None:
        try:
            for module in modules:
                import_module(module)
        except ImportError:
            return  # whoever needs it says so

    Thread(target=load, daemon=True).start()
    yield
