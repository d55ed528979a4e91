"""`poetfw place`: the address allocator as a tool of its own."""

from __future__ import annotations

from pathlib import Path

import click

from poetfw.cli import output
from poetfw.cli.options import OutputFile, Positive, json_option, option
from poetfw.errors import InfeasibleError

_EPILOG = "Example:  poetfw place buffers.csv --capacity 1048576 --out placed.csv"


@click.command(epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@option(
    "--capacity",
    type=click.IntRange(0),
    metavar="BYTES",
    help="What the arena may occupy.  [default: as little as possible]",
)
@option(
    "--time-limit",
    type=Positive(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to search.",
)
@option(
    "--out",
    command="place",
    type=OutputFile(),
    metavar="FILE.csv",
    help="Write the buffers with a column `offset` to this file.",
)
@json_option
def place(
    file: Path, capacity: int | None, time_limit: float, out: Path | None, as_json: bool
) -> None:
    """Give every buffer of a CSV file an address, such that none overlap while both are live.

    Columns of FILE: id,lower,upper,size[,alignment][,offset]; a buffer is live during
    [lower, upper), and stays at its offset if it has one.
    """
    from poetfw.memory import PlacementStatus
    from poetfw.memory import place as find_placement
    from poetfw.memory.csv_file import read_buffers, result_document, write_placement

    buffers = read_buffers(file)
    with output.spinner() as progress:
        progress(f"placing {len(buffers):,} buffers")
        placement = find_placement(buffers, capacity, time_limit)
    if placement.status is PlacementStatus.INFEASIBLE:
        raise InfeasibleError(
            f"{file}: proven impossible within {capacity:,} bytes; at least "
            f"{placement.lower_bound_bytes:,} are needed",
            minimum_budget_bytes=placement.lower_bound_bytes,
        )
    if placement.status is PlacementStatus.NOT_FOUND:
        raise InfeasibleError(
            f"{file}: no placement within {capacity:,} bytes was found in {time_limit:g} s; "
            f"nothing below {placement.lower_bound_bytes:,} is possible",
            "raise --time-limit",
            f"or give it {placement.height_bytes:,} bytes"
            if placement.height_bytes
            else "or raise --capacity",
        )
    if out is not None:
        write_placement(out, buffers, placement)
    if as_json:
        output.print_json({"schema_version": 1, **result_document(buffers, placement)})
        return
    excess = placement.height_bytes - placement.lower_bound_bytes
    rows = [
        ("buffers", f"{len(buffers):,}"),
        ("status", placement.status),
        ("height", output.size(placement.height_bytes)),
        ("lower bound", output.size(placement.lower_bound_bytes)),
        ("above the bound", output.size(excess)),
        ("time", f"{placement.solve_time_s:.2f} s"),
    ]
    output.results.print(output.facts(file.name, rows))
