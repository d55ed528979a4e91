# SPDX-License-Identifier: Apache-2.0
"""`poetfw flash`, `monitor` and `pull`: a board on the desk, or elsewhere under Linux."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from poetfw import on_board, remote
from poetfw.boards import load_board
from poetfw.cli import output
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
from poetfw.devices import upload_firmware
from poetfw.devices.link import Desk, Link, choose_port, console_lines, open_port, usb_ports
from poetfw.devices.ssh import Host
from poetfw.execution import BuiltProject, open_project


@contextlib.contextmanager
def connected(project: BuiltProject, port: str | None) -> Iterator[tuple[Desk, str]]:
    """The board at a port, and the port's name; a port that was chosen is said."""
    name = choose_port(port)
    if port is None:
        output.messages.print(f"port {output.escaped(name)}")
    with open_port(name, project.board.console_baud) as line:
        yield Desk(Link(line, random.randrange(1, 1 << 31))), name


@click.command(epilog="Example:  poetfw flash --storage --port /dev/ttyACM0")
@built_board_option
@port_option
@host_option
@option("--storage", is_flag=True, help="Send the storage image over the line, not the firmware.")
@option("--force", is_flag=True, help="Overwrite a card that holds what is not poetfw's.")
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
    if host is not None and (port is not None or storage):
        raise click.UsageError("--host copies program and image: it takes no --port, no --storage")
    if force and not storage:
        raise click.UsageError("--force is for --storage")
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


@click.command(epilog="Example:  poetfw monitor --port /dev/ttyACM0")
@built_board_option
@port_option
@out_option
def monitor(board: str | None, port: str | None, out: Path | None) -> int:
    """Show what the board prints, until Ctrl-C; the board is sent nothing."""
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


@click.command(epilog="Example:  poetfw pull --port /dev/ttyACM0 -o trained.img")
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
@out_option
@json_option
def pull(board: str | None, port: str | None, file: Path, out: Path | None, as_json: bool) -> int:
    """Fetch the storage image, with what was trained, from the board."""
    project = open_project(*built_folder(out, board), on_board=True)
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
