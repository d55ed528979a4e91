# SPDX-License-Identifier: Apache-2.0
"""Settings of a board, of what was built for it, and of the line to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poetfw.settings.declaration import Settings, like, setting
from poetfw.settings.values import BOARD, Folder


@dataclass(frozen=True)
class Target(Settings, group="Board"):
    """A board to plan or measure for."""

    board: str = setting(
        "The board, and which of its storages; `poetfw boards` lists what is known.",
        type=BOARD,
        metavar="NAME|FILE.toml[:STORAGE]",
        first=True,
        required=True,
    )


@dataclass(frozen=True)
class ProjectSettings(Settings, group="Output"):
    """A project's folder; None for the board's."""

    out: Path | None = setting(
        "The project's folder.",
        otherwise="build/BOARD",
        type=Folder(),
        metavar="DIR",
        first=True,
    )


@dataclass(frozen=True)
class Built(ProjectSettings):
    """A project that was built, by its folder or its board."""

    board: str | None = like(
        Target,
        "board",
        what="The board.",
        otherwise="that of the only build in build/",
        group="Board",
        required=False,
    )


@dataclass(frozen=True)
class PortSettings(Settings, group="Board"):
    """The serial line to a board; None for the only one."""

    port: str | None = setting(
        "The board's serial port.",
        otherwise="the only one on USB",
        metavar="DEVICE|socket://HOST:PORT",
        first=True,
    )


@dataclass(frozen=True)
class HostSettings(Settings, group="Board"):
    """A board under Linux that ssh reaches; None for one at a serial line."""

    host: str | None = setting(
        "A board that ssh reaches, as ssh calls it.",
        metavar="USER@HOST",
        excludes=("--port",),
        first=True,
    )
