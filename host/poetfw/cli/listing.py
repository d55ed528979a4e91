# SPDX-License-Identifier: Apache-2.0
"""`poetfw boards` and `poetfw models`: what is known."""

from __future__ import annotations

import click

from poetfw.boards import Twin, list_boards, load_board
from poetfw.cli import output
from poetfw.cli.options import json_option
from poetfw.models import MODELS, build_model
from poetfw.planning import unscheduled_peak_bytes
from poetfw.resources import boards_dir, user_boards_dir


@click.command(epilog="Example:  poetfw boards --json")
@json_option
def boards(as_json: bool) -> None:
    """List the boards poetfw knows."""
    known = list_boards()
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "boards": [
                    {
                        "name": board.name,
                        "description": board.description,
                        "core": board.core,
                        "clock_hz": board.clock_hz,
                        "ram_bytes": board.ram_bytes,
                        "flash_bytes": board.flash_bytes,
                        "storage": board.storage.kind if board.storage else None,
                        "storages": list(board.storages),
                        "twins": [
                            {
                                "name": twin.name,
                                "emulator": twin.machine.emulator,
                                "machine": twin.machine.machine,
                                "cpu": twin.machine.cpu,
                            }
                            for twin in board.twins
                        ],
                        "firmware": board.firmware is not None,
                        "file": str(board.path),
                    }
                    for board in known
                ],
            }
        )
        return
    rows = [
        (
            board.name,
            board.core,
            output.size(board.ram_bytes),
            output.size(board.flash_bytes),
            ", ".join(board.storages) or "none",
            ", ".join(map(_twin, board.twins)) or "none",
            "yes" if board.firmware else "not yet",
            "poetfw" if board.path.parent == boards_dir() else "you",
        )
        for board in known
    ]
    columns = ("board", "core", "RAM", "flash", "storage", "twins", "firmware", "from")
    output.results.print(output.table("Boards", columns, rows))
    if any(row[-1] == "you" for row in rows):
        output.results.print(f"Yours are in {user_boards_dir()}", soft_wrap=True, markup=False)


def _twin(twin: Twin) -> str:
    machine = twin.machine.machine or twin.machine.cpu
    return twin.name if machine is None else f"{twin.name} ({machine})"


@click.command(epilog="Example:  poetfw models --batch 8")
@click.option(
    "--batch", type=click.IntRange(1), default=32, show_default=True, help="Samples in a batch."
)
@json_option
def models(batch: int, as_json: bool) -> None:
    """List the built-in models, with the RAM that training takes if everything is kept."""
    board = load_board("linux")
    known = [build_model(name, batch, seed=0) for name in MODELS]
    peaks = [unscheduled_peak_bytes(model, board) for model in known]
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "batch": batch,
                "models": [
                    {
                        "name": model.name,
                        "description": model.description,
                        "input_shape": list(model.input.shape),
                        "parameters": model.parameter_count,
                        "checkpoint_all_peak_bytes": peak,
                    }
                    for model, peak in zip(known, peaks, strict=True)
                ],
            }
        )
        return
    rows = [
        (
            model.name,
            f"{model.parameter_count:,}",
            output.size(peak),
            model.description,
        )
        for model, peak in zip(known, peaks, strict=True)
    ]
    columns = ("model", "parameters", f"peak at batch {batch}", "")
    output.results.print(output.table("Built-in models", columns, rows))
