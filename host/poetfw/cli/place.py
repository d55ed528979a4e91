# SPDX-License-Identifier: Apache-2.0
"""`poetfw place`: the address allocator as a tool of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.options import (
    Bytes,
    OutputFile,
    command_deadline,
    json_option,
    limit_options,
    option,
    split_at_commas,
)
from poetfw.cli.sizes import parse_bytes
from poetfw.common.errors import InfeasibleError, ProblemError
from poetfw.common.limits import Work

if TYPE_CHECKING:
    from poetfw.memory.banks import Bank

_EPILOG = "Example:  poetfw place buffers.csv --capacity 1048576 --out placed.csv"


def _parse_banks(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> list[Bank]:
    """Callback of --bank.

    Raises:
        BadParameter: a value is not NAME=LOWER:UPPER, its name or range is empty, or a name occurs
            twice.
    """
    if not values:
        return []
    from poetfw.memory.banks import Bank, check_banks

    banks = []
    for value in split_at_commas(context, parameter, values):
        name, _, extent = value.rpartition("=")
        lower, _, upper = extent.partition(":")
        try:
            banks.append(Bank(name, parse_bytes(lower), parse_bytes(upper)))
        except ValueError as error:
            raise click.BadParameter(f"{value!r:.80} is not NAME=LOWER:UPPER: {error}") from error
    try:
        check_banks(banks)
    except ProblemError as error:
        raise click.BadParameter(error.message) from error
    return banks


@click.command(cls=Command, epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@option(
    "--capacity",
    type=Bytes(0),
    metavar="SIZE",
    help="What the arena may occupy.  [default: as little as possible]",
)
@option(
    "--bank",
    "banks",
    command="place",
    multiple=True,
    callback=_parse_banks,
    metavar="NAME=LOWER:UPPER",
    help="Bytes [LOWER, UPPER) of the arena that buffers may prefer; may be given repeatedly.",
)
@limit_options()
@option(
    "--out",
    command="place",
    type=OutputFile(),
    metavar="FILE.csv",
    help="Write the buffers with a column `offset` to this file.",
)
@json_option
def place(
    file: Path,
    capacity: int | None,
    banks: list[Bank],
    work_limit: float,
    time_limit: float,
    out: Path | None,
    as_json: bool,
) -> int:
    """Give every buffer of a CSV file an address, such that none overlap while both are live.

    Columns of FILE: id,lower,upper,size[,alignment][,offset][,bank]; a buffer is live during
    [lower, upper), stays at its offset if it has one, and lies in its bank if that costs no height.

    Ctrl-C ends the search with the best answer known, and exit code 130.
    """
    from poetfw.memory import PlacementInterrupted, PlacementStatus
    from poetfw.memory.banks import bank_uses, place_in_banks
    from poetfw.memory.csv_file import read_buffers, result_document, write_placement

    end = command_deadline(time_limit)
    buffers = read_buffers(file, banks)
    with output.spinner() as progress:
        progress(f"placing {len(buffers):,} {'buffer' if len(buffers) == 1 else 'buffers'}")
        try:
            with Work(work_limit, end).phase("addresses") as work:
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
    if as_json:
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
