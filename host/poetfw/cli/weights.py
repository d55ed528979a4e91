# SPDX-License-Identifier: Apache-2.0
"""`poetfw export-weights`: trained weights as a file for the network's framework."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from poetfw.api.folders import built_folder
from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.common.option_values import WEIGHT_FORMATS
from poetfw.settings import Built, Printed, Settings, setting
from poetfw.settings.values import File, OutputFile


@dataclass(frozen=True)
class WeightsSettings(Settings):
    """Trained weights, and the file to write."""

    kind: str = setting(
        "Format of the file; torch needs PyTorch.",
        "npz",
        flag="--as",
        type=click.Choice(WEIGHT_FORMATS),
    )
    image: Path | None = setting(
        "Storage image, e.g. from `poetfw pull`.",
        otherwise="that of the last run",
        type=File(),
        metavar="FILE",
    )
    model: Path | None = setting(
        "For --as onnx: the ONNX file of the build, whose weights are replaced.",
        type=File(),
        metavar="FILE.onnx",
        own=True,
    )
    file: Path = setting(
        "File to write.",
        flag="--output",
        short="-o",
        type=OutputFile(),
        metavar="FILE",
        own=True,
        required=True,
    )


@command(
    "Example:  poetfw export-weights --as safetensors -o trained.safetensors", name="export-weights"
)
def export_weights(built: Built, weights: WeightsSettings, printed: Printed) -> int:
    """Write trained weights and running statistics under the names of the network's author."""
    from poetfw.common.output_file import replace_file
    from poetfw.pipeline import REPORT
    from poetfw.report import BuildReport
    from poetfw.runs.execution import open_build
    from poetfw.runs.trained import FORMATS, trained_weights

    folder, label = built_folder(built)
    on_board = [] if weights.image is None else BuildReport.read(folder / REPORT).memories
    build = open_build(folder, label, on_board=on_board)
    arrays = trained_weights(build.evaluator, weights.image)
    replace_file(weights.file, FORMATS[weights.kind](arrays, weights.model))
    if printed.as_json:
        output.print_json(
            {
                "schema_version": 1,
                "file": str(weights.file),
                "format": weights.kind,
                "weights": {name: list(values.shape) for name, values in arrays.items()},
            }
        )
    else:
        numbers = sum(values.size for values in arrays.values())
        text = f"{weights.file}: {len(arrays):,} arrays of {numbers:,} numbers"
        output.results.print(output.escaped(text))
    return 0
