# SPDX-License-Identifier: Apache-2.0
"""Settings of boards, built projects and the connection to a board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poetfw.settings.declaration import Settings, like, setting
from poetfw.settings.values import BOARD, Folder


@dataclass(frozen=True)
class Target(Settings, group="Board"):
    """Board to plan or measure for."""

    board: str = setting(
        "The board, with one of its storages; `poetfw boards` lists the known ones.",
        type=BOARD,
        metavar="NAME|FILE.toml[:STORAGE]",
        first=True,
        required=True,
    )


@dataclass(frozen=True)
class ProjectSettings(Settings, group="Output"):
    """Folder of a project; None for the board's default."""

    out: Path | None = setting(
        "The project's folder.",
        otherwise="build/BOARD",
        type=Folder(),
        metavar="DIR",
        first=True,
    )


@dataclass(frozen=True)
class Built(ProjectSettings):
    """Built project, given by its folder or its board."""

    board: str | None = like(
        Target,
        "board",
        what="Board of the build.",
        otherwise="that of the only build in build/",
        group="Board",
        required=False,
    )


@dataclass(frozen=True)
class PortSettings(Settings, group="Board"):
    """Serial port of a board; None for the only one on USB."""

    port: str | None = setting(
        "The board's serial port.",
        otherwise="the only one on USB",
        metavar="DEVICE|socket://HOST:PORT",
        first=True,
    )


@dataclass(frozen=True)
class HostSettings(Settings, group="Board"):
    """Linux board reached by ssh; None for a board on a serial line."""

    host: str | None = setting(
        "Connect to a Linux board by ssh, under this name.",
        metavar="USER@HOST",
        excludes=("--port",),
        first=True,
    )
