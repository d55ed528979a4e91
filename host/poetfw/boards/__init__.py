# SPDX-License-Identifier: Apache-2.0
"""Boards as data: the typed loader of `boards/*.toml`."""

from poetfw.boards.board import (
    Arithmetic,
    Board,
    BoardStorage,
    Compute,
    FirmwareSupport,
    Machine,
    Power,
    TrainingDefaults,
    Twin,
)
from poetfw.boards.hal import family_threads, family_watchdog, with_used
from poetfw.boards.loader import list_boards, load_board
from poetfw.boards.toolchain import Toolchain

__all__ = [
    "Arithmetic",
    "Board",
    "BoardStorage",
    "Compute",
    "FirmwareSupport",
    "Machine",
    "Power",
    "Toolchain",
    "TrainingDefaults",
    "Twin",
    "family_threads",
    "family_watchdog",
    "list_boards",
    "load_board",
    "with_used",
]
