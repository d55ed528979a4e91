# SPDX-License-Identifier: Apache-2.0
"""`poetfw export-weights`: what was trained, for the framework that the network came from."""

from __future__ import annotations

from pathlib import Path

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.options import (
    OutputFile,
    built_board_option,
    built_folder,
    json_option,
    option,
    out_option,
)
from poetfw.common.option_values import WEIGHT_FORMATS


@click.command(
    "export-weights",
    cls=Command,
    epilog="Example:  poetfw export-weights --as safetensors -o trained.safetensors",
)
@built_board_option
@option(
    "--as",
    "kind",
    type=click.Choice(WEIGHT_FORMATS),
    default="npz",
    show_default=True,
    help="The file's format; torch needs PyTorch to be installed.",
)
@option(
    "--image",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A storage image, e.g. from `poetfw pull`.  [default: that of the last run]",
)
@option(
    "--model",
    command="export-weights",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.onnx",
    help="For --as onnx: the file that was built, which gets the weights.",
)
@option(
    "--output",
    "-o",
    "file",
    command="export-weights",
    type=OutputFile(),
    required=True,
    metavar="FILE",
    help="The file to write.",
)
@out_option
@json_option
def export_weights(
    board: str | None,
    kind: str,
    image: Path | None,
    model: Path | None,
    file: Path,
    out: Path | None,
    as_json: bool,
) -> int:
    """Write trained weights and running statistics under the names of the network's author."""
    from poetfw.common.output_file import replace_file
    from poetfw.pipeline import REPORT
    from poetfw.report import BuildReport
    from poetfw.runs.execution import open_build
    from poetfw.runs.trained import FORMATS, trained_weights

    folder, label = built_folder(out, board)
    on_board = [] if image is None else BuildReport.read(folder / REPORT).memories
    build = open_build(folder, label, on_board=on_board)
    arrays = trained_weights(build.evaluator, image)
    replace_file(file, FORMATS[kind](arrays, model))
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "file": str(file),
                "format": kind,
                "weights": {name: list(values.shape) for name, values in arrays.items()},
            }
        )
    else:
        numbers = sum(values.size for values in arrays.values())
        text = f"{file}: {len(arrays):,} arrays of {numbers:,} numbers"
        output.results.print(output.escaped(text))
    return 0
