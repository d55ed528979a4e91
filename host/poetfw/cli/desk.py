# SPDX-License-Identifier: Apache-2.0
"""`poetfw flash`, `monitor`, `pull` and `push`: a board on the desk, or elsewhere under Linux."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.options import (
    OutputFile,
    built_board_option,
    built_folder,
    host_option,
    json_option,
    option,
    out_option,
    port_option,
)

if TYPE_CHECKING:
    from poetfw.runs.execution import BuiltProject
    from poetfw.tools.link import Desk

_Command = TypeVar("_Command", bound=Callable[..., Any])


def image_option(**rules: Any) -> Callable[[_Command], _Command]:
    """--image, and what it goes with."""
    return option(
        "--image",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="With the ring of a storage image, such as run/storage.img, in place of a board's.",
        **rules,
    )


@contextlib.contextmanager
def connected(project: BuiltProject, port: str | None) -> Iterator[tuple[Desk, str]]:
    """The board at a port, and the port's name; see `chosen_port`."""
    from poetfw.tools.link import Desk, DeviceLink, open_port

    name = chosen_port(port)
    with open_port(name, project.board.console_baud) as line:
        yield Desk(DeviceLink(line, random.randrange(1, 1 << 31))), name


def chosen_port(port: str | None) -> str:
    """A port, or the only one on USB, which is said."""
    from poetfw.tools.link import choose_port

    name = choose_port(port)
    if port is None:
        output.messages.print(f"port {output.escaped(name)}")
    return name


@click.command(cls=Command, epilog="Example:  poetfw flash --storage --port /dev/ttyACM0")
@built_board_option
@port_option
@host_option
@option(
    "--storage",
    excludes=("--host",),
    is_flag=True,
    help="Send the storage image over the line, not the firmware.",
)
@option(
    "--force",
    needs=("--storage",),
    is_flag=True,
    help="Overwrite a card that holds what is not poetfw's.",
)
@out_option
@json_option
def flash(
    board: str | None,
    port: str | None,
    host: str | None,
    storage: bool,
    force: bool,
    out: Path | None,
    as_json: bool,
) -> int:
    """Put what was built on the board: its firmware, or with --storage its storage image.

    Firmware goes the way that PlatformIO has for the board. With --host, program and image go to a
    computer under Linux, by ssh.
    """
    from poetfw.runs import on_board, remote
    from poetfw.runs.execution import open_project
    from poetfw.tools import upload_firmware
    from poetfw.tools.link import choose_port, usb_ports
    from poetfw.tools.ssh import Host

    project = open_project(*built_folder(out, board), on_board=True)
    done: dict[str, Any]
    with output.progress_bar() as update:
        if host is not None:
            computer = Host(host)
            remote.flash(project, computer, update)
            done = {"host": computer.name, "folder": remote.folder_of(project)}
            said = f"copied to {computer.name}:{remote.folder_of(project)}"
        elif storage:
            with connected(project, port) as (desk, name):
                upload = on_board.flash_storage(project, desk, force, update)
            done = {"port": name, "blocks": upload.blocks, "sent": upload.sent}
            said = f"{upload.blocks:,} blocks, of which {upload.sent:,} were sent"
        else:
            if port is None and usb_ports():  # a debugger need not have one
                port = choose_port(None)
            update(0, 1, "uploading the firmware")
            upload_firmware(project.folder, project.environment, port)
            done = {"port": port, "environment": project.environment}
            said = "the firmware is on the board"
    if as_json:
        output.print_json({"schema_version": 1, "board": project.board.label, **done})
    else:
        output.results.print(output.escaped(said))
    return 0


@click.command(cls=Command, epilog="Example:  poetfw monitor --port /dev/ttyACM0")
@built_board_option
@port_option
@out_option
def monitor(board: str | None, port: str | None, out: Path | None) -> int:
    """Show what the board prints, until Ctrl-C; the board is sent nothing."""
    from poetfw.boards import load_board
    from poetfw.runs.execution import open_project
    from poetfw.tools.link import choose_port, console_lines, open_port

    if board is not None:
        baud = load_board(board).console_baud
    else:
        baud = open_project(*built_folder(out, board), on_board=True).board.console_baud
    name = choose_port(port)
    with open_port(name, baud) as line:
        output.messages.print(f"port {output.escaped(name)}, Ctrl-C ends")
        for text in console_lines(line):
            output.results.print(output.escaped(text))
            output.flush()
    return 0


@click.command(cls=Command, epilog="Example:  poetfw pull --port /dev/ttyACM0 -o trained.img")
@built_board_option
@port_option
@option(
    "--output",
    "-o",
    "file",
    command="pull",
    type=OutputFile(),
    required=True,
    metavar="FILE",
    help="The file to write.",
)
@option(
    "--ring",
    command="pull",
    is_flag=True,
    help="Fetch the samples that the board took, as an NPZ file.",
)
@image_option(needs=("--ring",))
@out_option
@json_option
def pull(
    board: str | None,
    port: str | None,
    file: Path,
    ring: bool,
    image: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Fetch the storage image, with what was trained, from the board.

    With --ring, fetch the samples that the board took itself: arrays x, y, labelled and id.
    """
    from poetfw.runs import on_board, ring_files
    from poetfw.runs.execution import open_project

    project = open_project(*built_folder(out, board), on_board=True)
    if ring:
        from_image = functools.partial(ring_files.pull_from_image, project, out=file)
        from_board = functools.partial(on_board.pull_ring, project, out=file)
        return _move_samples(project, port, image, from_image, from_board, file, as_json)
    with output.progress_bar() as update, connected(project, port) as (desk, name):
        fetched = on_board.pull(project, desk, file, update)
    if as_json:
        document: dict[str, Any] = {"schema_version": 1, "board": project.board.label, "port": name}
        counts = {"blocks": fetched.blocks, "fetched": fetched.sent}
        output.print_json({**document, **counts, "file": str(file)})
    else:
        text = f"{file}: {fetched.blocks:,} blocks, of which {fetched.sent:,} were fetched"
        output.results.print(output.escaped(text))
    return 0


@click.command(cls=Command, epilog="Example:  poetfw push --port /dev/ttyACM0 samples.npz")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@built_board_option
@port_option
@image_option(excludes=("--port",))
@out_option
@json_option
def push(
    file: Path,
    board: str | None,
    port: str | None,
    image: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Append the samples in an NPZ file, arrays x and y, to those that the board took itself.

    An array of booleans, labelled, may say which of them have a target. The oldest samples make
    room where there is none.
    """
    from poetfw.runs import on_board, ring_files
    from poetfw.runs.execution import open_project

    project = open_project(*built_folder(out, board), on_board=True)
    to_image = functools.partial(ring_files.push_to_image, project, file=file)
    to_board = functools.partial(on_board.push_ring, project, file=file)
    return _move_samples(project, port, image, to_image, to_board, file, as_json)


def _move_samples(
    project: BuiltProject,
    port: str | None,
    image: Path | None,
    with_image: Callable[..., int],
    with_board: Callable[..., int],
    file: Path,
    as_json: bool,
) -> int:
    """Move samples between a file and the ring of an image or a board."""
    name = None
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
