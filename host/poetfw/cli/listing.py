# SPDX-License-Identifier: Apache-2.0
"""`poetfw boards` and `poetfw models`: lists of known boards and models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.common.errors import BoardError, ModelError
from poetfw.common.option_values import DEFAULT_BATCH, MODELS
from poetfw.common.resources import boards_dir, user_boards_dir
from poetfw.settings import Printed, TrainingSettings, like
from poetfw.settings.values import MODEL

if TYPE_CHECKING:
    from poetfw.boards import Board, Twin
    from poetfw.models import Model
    from poetfw.planning import RamNeeds


@command("Example:  poetfw boards --json")
def boards(printed: Printed) -> int:
    """List the known boards.

    Exit code 1 if a board file of your own is invalid.
    """
    from poetfw.boards import list_boards

    refused: list[BoardError] = []
    known = list_boards(refused.append)
    if printed.as_json:
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
                "refused": [error.message for error in refused],
            }
        )
        return 1 if refused else 0
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
    for error in refused:
        output.print_error(error, as_json=False)
    return 1 if refused else 0


def _twin(twin: Twin) -> str:
    machine = twin.machine.machine or twin.machine.cpu
    return twin.name if machine is None else f"{twin.name} ({machine})"


@dataclass(frozen=True)
class Listing(Printed):
    """Batch size and format of the list of models."""

    batch: int = like(
        TrainingSettings,
        "batch",
        default=DEFAULT_BATCH,
        otherwise="",
        variable=False,
        group="Options",
    )


@command("Example:  poetfw models --batch 8")
@click.argument("names", nargs=-1, metavar="[NAME]...", type=MODEL)
def models(names: tuple[str, ...], listing: Listing) -> None:
    """List built-in models, all or those named, with the RAM that training takes.

    Peak is the arena size if everything is kept. The smallest budget is the least `--ram` of a
    build: no schedule needs less, and with paging one reaches it, however slow. A board has a
    budget if its RAM without stack and other reserved areas is as large; static data of the program
    take some kilobytes of that, too.
    """
    from poetfw.boards import list_boards
    from poetfw.models import build_model
    from poetfw.planning import ram_needs

    boards = list_boards(lambda error: output.warn(error.message))
    known: list[tuple[Model, RamNeeds | None]] = []
    for name in names or MODELS:
        model = build_model(name, listing.batch, seed=0)
        try:
            known.append((model, ram_needs(model, boards)))
        except ModelError:
            known.append((model, None))  # its batch norms need more than one value per channel
    if listing.as_json:
        documents = [_model(model, needs, boards) for model, needs in known]
        output.print_json({"schema_version": 1, "batch": listing.batch, "models": documents})
        return
    rows = [
        (
            model.name,
            f"{model.parameter_count:,}",
            f"{model.macs:,}",
            output.size(needs.peak_bytes) if needs else "-",
            _budgets(needs) if needs else "-",
            ", ".join(_shown(name, needs) for name in _fitting(needs, boards)) if needs else "none",
        )
        for model, needs in known
    ]
    columns = ("model", "parameters", "MACs", "peak", "smallest budget", "boards that have it")
    output.results.print(output.table(f"Built-in models, batch {listing.batch}", columns, rows))


def _model(model: Model, needs: RamNeeds | None, boards: Sequence[Board]) -> dict[str, Any]:
    smallest = needs.smallest_bytes if needs else {}
    return {
        "name": model.name,
        "description": model.description,
        "input_shape": list(model.input.shape),
        "parameters": model.parameter_count,
        "macs": model.macs,
        "checkpoint_all_peak_bytes": needs.peak_bytes if needs else None,
        "minimum_budget_bytes": {board.name: smallest.get(board.name) for board in boards},
        "boards": _fitting(needs, boards) if needs else [],
        "streamed": sorted(needs.streamed) if needs else [],
    }


def _budgets(needs: RamNeeds) -> str:
    """Smallest budget on most boards, then other budgets with the boards that have them."""
    boards: dict[int, list[str]] = {}
    for board, size in needs.smallest_bytes.items():
        if size is not None:
            boards.setdefault(size, []).append(board)
    most, *others = sorted(boards, key=lambda size: (-len(boards[size]), size))
    named = [f"{output.size(size)} on {', '.join(boards[size])}" for size in others]
    return "; ".join([output.size(most), *named])


def _shown(board: str, needs: RamNeeds) -> str:
    return f"{board} (streamed)" if board in needs.streamed else board


def _fitting(needs: RamNeeds, boards: Sequence[Board]) -> list[str]:
    sizes = needs.smallest_bytes
    fitting = []
    for board in boards:
        size = sizes[board.name]
        if size is not None and size <= board.unreserved_bytes:
            fitting.append(board.name)
    return fitting
