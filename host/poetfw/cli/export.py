# SPDX-License-Identifier: Apache-2.0
"""`poetfw export`: a project as a library for another build system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.settings import ExportSettings, Printed, setting
from poetfw.settings.values import Folder


@dataclass(frozen=True)
class Destination(Printed):
    """Folder of the library, and format of the printed result."""

    target: Path = setting(
        "Folder to write the library to.",
        flag="--out",
        short="-o",
        type=Folder(),
        metavar="DIR",
        group="Options",
        own=True,
        required=True,
    )


@command("Example:  poetfw export --as cmake -o keyword --name keyword build/nrf52840")
@click.argument("project", type=Folder())
def export(project: Path, settings: ExportSettings, destination: Destination) -> None:
    """Write the library of PROJECT, a folder of `poetfw build`, for another build system.

    The library comes with examples and a README on its use.
    """
    from poetfw.exports.library import export_project

    folder = destination.target
    files = export_project(project, folder, settings)
    if destination.as_json:
        output.print_json({"out_dir": str(folder), "files": list(files)})
    else:
        output.results.print(
            f"{settings.form}: {len(files)} files in {output.escaped(str(folder))}"
        )
