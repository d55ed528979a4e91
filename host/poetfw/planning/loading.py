# SPDX-License-Identifier: Apache-2.0
"""Imports of slow packages in the background, while a command waits for another program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Thread


@contextmanager
def loading(*modules: str) -> Iterator[None]:
    """A block that waits for another program, while these modules are imported.

    Whoever imports one of them before it is there waits for it; one that cannot be imported fails
    there.
    """

    def load() -> None:
        try:
            for module in modules:
                import_module(module)
        except ImportError:
            return  # whoever needs it says so

    Thread(target=load, daemon=True).start()
    yield
