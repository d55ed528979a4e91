# SPDX-License-Identifier: Apache-2.0
"""`poetfw flash`, `monitor`, `pull` and `push`: boards on a serial line, or reached by ssh."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poetfw.api.folders import built_folder
from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.settings import Built, HostSettings, PortSettings, Printed, Settings, like, setting
from poetfw.settings.values import File, OutputFile

if TYPE_CHECKING:
    from poetfw.runs.execution import BuiltProject
    from poetfw.tools.link import Desk


@dataclass(frozen=True)
class Flashing(Settings):
    """Firmware or storage image to flash."""

    storage: bool = setting(
        "Write the storage image over the serial line instead of the firmware.",
        False,
        excludes=("--host",),
    )
    force: bool = setting(
        "Overwrite a card whose content is not poetfw's.", False, needs=("--storage",)
    )


@dataclass(frozen=True)
class Pushed(Settings):
    """Target of samples: a board's ring, or that of a storage image."""

    image: Path | None = setting(
        "Use the ring of this storage image, such as run/storage.img, instead of a board's.",
        type=File(exists=True),
        metavar="FILE",
        excludes=("--port",),
    )


@dataclass(frozen=True)
class Pulled(Settings):
    """Output file of `poetfw pull`, and its content."""

    file: Path = setting(
        "The file to write.",
        flag="--output",
        short="-o",
        type=OutputFile(),
        metavar="FILE",
        own=True,
        required=True,
    )
    ring: bool = setting(
        "Fetch the samples recorded by the board, as an NPZ file.", False, own=True
    )
    image: Path | None = like(Pushed, "image", needs=("--ring",), excludes=())


@contextlib.contextmanager
def connected(project: BuiltProject, port: str | None) -> Iterator[tuple[Desk, str]]:
    """Connect to the board at a port; yields the connection and the port's name."""
    from poetfw.tools.link import Desk, DeviceLink, open_port

    name = chosen_port(port)
    with open_port(name, project.board.console_baud) as line:
        yield Desk(DeviceLink(line, random.randrange(1, 1 << 31))), name


def chosen_port(port: str | None) -> str:
    """The given port, or the only one on USB, whose name is printed."""
    from poetfw.tools.link import choose_port

    name = choose_port(port)
    if port is None:
        output.messages.print(f"port {output.escaped(name)}")
    return name


@command("Example:  poetfw flash --storage --port /dev/ttyACM0")
def flash(
    built: Built, line: PortSettings, computer: HostSettings, flashing: Flashing, printed: Printed
) -> int:
    """Write a build to the board: its firmware, or with --storage its storage image.

    Firmware is uploaded as PlatformIO does it for the board. With --host, program and storage image
    are copied to a Linux computer by ssh.
    """
    from poetfw.runs import on_board, remote
    from poetfw.runs.execution import open_project
    from poetfw.tools import ssh, upload_firmware
    from poetfw.tools.link import choose_port, usb_ports

    project = open_project(*built_folder(built), on_board=True)
    done: dict[str, Any]
    with output.progress_bar() as update:
        if computer.host is not None:
            host = ssh.Host(computer.host)
            remote.flash(project, host, update)
            done = {"host": host.name, "folder": remote.folder_of(project)}
            said = f"copied to {host.name}:{remote.folder_of(project)}"
        elif flashing.storage:
            with connected(project, line.port) as (desk, name):
                upload = on_board.flash_storage(project, desk, flashing.force, update)
            done = {"port": name, "blocks": upload.blocks, "sent": upload.sent}
            said = f"{upload.blocks:,} blocks, of which {upload.sent:,} were sent"
        else:
            port = line.port
            if port is None and usb_ports():  # with a debugger, there need not be a port
                port = choose_port(None)
            update(0, 1, "uploading the firmware")
            upload_firmware(project.folder, project.environment, port)
            done = {"port": port, "environment": project.environment}
            said = "the firmware is on the board"
    if printed.as_json:
        output.print_json({"schema_version": 1, "board": project.board.label, **done})
    else:
        output.results.print(output.escaped(said))
    return 0


@command("Example:  poetfw monitor --port /dev/ttyACM0")
def monitor(built: Built, line: PortSettings) -> int:
    """Show what the board prints, until Ctrl-C; nothing is sent to the board."""
    from poetfw.boards import load_board
    from poetfw.runs.execution import open_project
    from poetfw.tools.link import choose_port, console_lines, open_port

    if built.board is not None:
        baud = load_board(built.board).console_baud
    else:
        baud = open_project(*built_folder(built), on_board=True).board.console_baud
    name = choose_port(line.port)
    with open_port(name, baud) as opened:
        output.messages.print(f"port {output.escaped(name)}, Ctrl-C ends")
        for text in console_lines(opened):
            output.results.print(output.escaped(text))
            output.flush()
    return 0


@command("Example:  poetfw pull --port /dev/ttyACM0 -o trained.img")
def pull(built: Built, line: PortSettings, pulled: Pulled, printed: Printed) -> int:
    """Fetch the storage image with the trained weights from the board.

    With --ring, fetch the samples recorded by the board: arrays x, y, labelled and id.
    """
    from poetfw.runs import on_board, ring_files
    from poetfw.runs.execution import open_project

    project = open_project(*built_folder(built), on_board=True)
    file = pulled.file
    if pulled.ring:
        from_image = functools.partial(ring_files.pull_from_image, project, out=file)
        from_board = functools.partial(on_board.pull_ring, project, out=file)
        moves = (from_image, from_board)
        return _move_samples(project, line.port, pulled.image, moves, file, printed.as_json)
    with output.progress_bar() as update, connected(project, line.port) as (desk, name):
        fetched = on_board.pull(project, desk, file, update)
    if printed.as_json:
        document: dict[str, Any] = {"schema_version": 1, "board": project.board.label, "port": name}
        counts = {"blocks": fetched.blocks, "fetched": fetched.sent}
        output.print_json({**document, **counts, "file": str(file)})
    else:
        text = f"{file}: {fetched.blocks:,} blocks, of which {fetched.sent:,} were fetched"
        output.results.print(output.escaped(text))
    return 0


@command("Example:  poetfw push --port /dev/ttyACM0 samples.npz")
@click.argument("file", type=File(exists=True))
def push(file: Path, built: Built, line: PortSettings, pushed: Pushed, printed: Printed) -> int:
    """Append samples of an NPZ file, arrays x and y, to those recorded by the board.

    An optional boolean array, labelled, marks the samples that have a target. If the ring is full,
    the oldest samples are replaced.
    """
    from poetfw.runs import on_board, ring_files
    from poetfw.runs.execution import open_project

    project = open_project(*built_folder(built), on_board=True)
    to_image = functools.partial(ring_files.push_to_image, project, file=file)
    to_board = functools.partial(on_board.push_ring, project, file=file)
    moves = (to_image, to_board)
    return _move_samples(project, line.port, pushed.image, moves, file, printed.as_json)


def _move_samples(
    project: BuiltProject,
    port: str | None,
    image: Path | None,
    moves: tuple[Callable[..., int], Callable[..., int]],
    file: Path,
    as_json: bool,
) -> int:
    """Copy samples between a file and the ring of an image or a board."""
    name, (with_image, with_board) = None, moves
    if image is not None:
        samples = with_image(image=image)
    else:
        with output.progress_bar() as update, connected(project, port) as (desk, name):
            samples = with_board(desk=desk, update=update)
    if as_json:
        where = {"port": name, "image": None if image is None else str(image)}
        document = {"schema_version": 1, "board": project.board.label, **where}
        output.print_json({**document, "samples": samples, "file": str(file)})
    else:
        output.results.print(output.escaped(f"{file}: {samples:,} samples"))
    return 0
