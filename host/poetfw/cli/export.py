# SPDX-License-Identifier: Apache-2.0
"""`poetfw export`: a project's library for another build system."""

from __future__ import annotations

from pathlib import Path

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.options import Folder, json_option, option
from poetfw.common.option_values import EXPORTED_NAME, EXPORTED_WEIGHTS, EXPORTS


@click.command(
    cls=Command,
    epilog="Example:  poetfw export --as cmake -o keyword --name keyword build/nrf52840",
)
@click.argument("project", type=Folder())
@option("--as", "form", type=click.Choice(EXPORTS), required=True, help="For what.")
@option(
    "--name",
    default=EXPORTED_NAME,
    show_default=True,
    help="What the library, its header and all its symbols are called.",
)
@option(
    "--weights",
    type=click.Choice(EXPORTED_WEIGHTS),
    default=EXPORTED_WEIGHTS[0],
    show_default=True,
    help="Which weights the library holds; trained ones are those of the last `poetfw run`.",
)
@option(
    "--out",
    "-o",
    "target",
    command="export",
    type=Folder(),
    required=True,
    metavar="DIR",
    help="The folder that is written.",
)
@json_option
def export(project: Path, form: str, name: str, weights: str, target: Path, as_json: bool) -> None:
    """Write the library of PROJECT, a folder of `poetfw build`, for another build system.

    Each has examples, and a README that says how it is used.
    """
    from poetfw.exports.library import ExportSettings, export_project

    files = export_project(project, target, ExportSettings(form, name, weights))
    if as_json:
        output.print_json({"out_dir": str(target), "files": list(files)})
    else:
        output.results.print(f"{form}: {len(files)} files in {output.escaped(str(target))}")
