# SPDX-License-Identifier: Apache-2.0
"""`poetfw place`: the memory placement solver as a command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.command import command, command_deadline
from poetfw.common.errors import InfeasibleError, ProblemError
from poetfw.common.limits import Work
from poetfw.common.sizes import parse_bytes
from poetfw.settings import Limits, Printed, Settings, setting
from poetfw.settings.values import Bytes, File, Listed, OutputFile

if TYPE_CHECKING:
    from poetfw.memory.banks import Bank


class BankType(click.ParamType[Any]):
    """Bank of the arena, as NAME=LOWER:UPPER."""

    name = "bank"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Bank:
        """Parse a bank.

        Raises:
            BadParameter: The text is not NAME=LOWER:UPPER, or name or range is empty.
        """
        from poetfw.memory.banks import Bank

        name, _, extent = str(value).rpartition("=")
        lower, _, upper = extent.partition(":")
        try:
            return Bank(name, parse_bytes(lower), parse_bytes(upper))
        except (ValueError, ProblemError) as error:
            self.fail(f"{value!r:.80} is not NAME=LOWER:UPPER: {error}", param, ctx)


@dataclass(frozen=True)
class PlaceSettings(Settings):
    """Capacity and banks of the arena, and the output file."""

    capacity: int | None = setting(
        "Capacity of the arena.",
        otherwise="as little as possible",
        type=Bytes(0),
        metavar="SIZE",
    )
    banks: tuple[Bank, ...] = setting(
        "Bank: bytes [LOWER, UPPER) of the arena that buffers may prefer; may be given repeatedly.",
        (),
        flag="--bank",
        type=Listed(BankType()),
        metavar="NAME=LOWER:UPPER",
        own=True,
        multiple=True,
    )
    out: Path | None = setting(
        "Write the buffers with an additional column `offset` to this file.",
        type=OutputFile(),
        metavar="FILE.csv",
        own=True,
    )


@command("Example:  poetfw place buffers.csv --capacity 1048576 --out placed.csv")
@click.argument("file", type=File())
def place(file: Path, arena: PlaceSettings, limits: Limits, printed: Printed) -> int:
    """Assign an offset to every buffer of a CSV file: buffers live at the same time do not overlap.

    Columns of FILE: id,lower,upper,size[,alignment][,offset][,bank]. A buffer is live in the
    interval [lower, upper), keeps a given offset, and lies in its bank if this does not increase
    the height.

    Ctrl-C ends the search with the best placement so far, and exit code 130.
    """
    from poetfw.memory import PlacementInterrupted, PlacementStatus
    from poetfw.memory.banks import bank_uses, check_banks, place_in_banks
    from poetfw.memory.csv_file import read_buffers, result_document, write_placement

    banks, capacity, out = arena.banks, arena.capacity, arena.out
    try:
        check_banks(banks)
    except ProblemError as error:
        context, option = click.get_current_context(), place.options["--bank"]
        raise click.BadParameter(error.message, context, option) from error
    end = command_deadline(limits.time_limit_s)
    buffers = read_buffers(file, banks)
    with output.spinner() as progress:
        progress(f"placing {len(buffers):,} {'buffer' if len(buffers) == 1 else 'buffers'}")
        try:
            with Work(limits.work_limit, end).phase("addresses") as work:
                placement, code = place_in_banks(buffers, banks, capacity, work), 0
        except PlacementInterrupted as interrupted:
            placement, code = interrupted.placement, 130
    if placement.status is PlacementStatus.INFEASIBLE:
        raise InfeasibleError(
            f"{file}: proven impossible within {capacity:,} bytes; at least "
            f"{placement.lower_bound_bytes:,} are needed",
            minimum_budget_bytes=placement.lower_bound_bytes,
        )
    if placement.status is PlacementStatus.NOT_FOUND:
        raise InfeasibleError(
            f"{file}: no placement within {capacity:,} bytes was found; "
            f"nothing below {placement.lower_bound_bytes:,} is possible",
            "raise --time-limit" if end.decided else "raise --work-limit",
            f"or give it {placement.height_bytes:,} bytes"
            if placement.height_bytes
            else "or raise --capacity",
        )
    if out is not None:
        write_placement(out, buffers, placement)
    uses = bank_uses(buffers, banks, placement.offsets)
    if printed.as_json:
        output.print_json(
            {
                "schema_version": 1,
                **result_document(buffers, placement, uses),
                **output.spent_json(end),
            }
        )
        return code
    excess = placement.height_bytes - placement.lower_bound_bytes
    rows = [
        ("buffers", f"{len(buffers):,}"),
        ("status", placement.status),
        ("height", output.size(placement.height_bytes)),
        ("lower bound", output.size(placement.lower_bound_bytes)),
        ("above the bound", output.size(excess)),
        *(
            (
                f"bank {use.bank.name}",
                f"{use.buffers:,} of {use.of_buffers:,} buffers that prefer it, "
                f"{output.size(use.size_bytes)} of {output.size(use.of_bytes)}",
            )
            for use in uses
        ),
        *output.spent_rows(end),
    ]
    output.results.print(output.facts(file.name, rows))
    return code
