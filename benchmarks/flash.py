# SPDX-License-Identifier: Apache-2.0
"""Bytes of flash of built projects, by part, and of the tiles that networks would run.

Counted are symbols, by the file that they come from. What is left are texts, and what aligns them.
With --networks, blocks and tables of tiles on the nRF52840 are counted without building.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from poetfw.boards import load_board
from poetfw.firmware.tile_choice import program_tiles
from poetfw.models import build_model
from poetfw.ops.tile_tables import tables_of
from poetfw.tools import elf_size
from poetfw.training import make_program

PARTS = (
    (r"poet_tile|kernels/(conv2d|linear|matmul|tiles)\.c", "convolutions and dense layers"),
    ("lib/poetfw/kernels/", "other kernels"),
    ("lib/poetfw/generated/", "generated steps, other constants"),
    ("lib/poetfw/storage/sd", "SD card's driver"),
    ("lib/poetfw/storage/", "image, slots, commits"),
    ("lib/poetfw/runtime/", "library's calls, samples, own math"),
    ("src/hal/", "board: start, bus, console, clock"),
    ("src/", "application: reports, commands"),
)
"""Patterns of a symbol and the file that it comes from; the first that is found decides."""
OTHERS = "compiler's own"
REST = "texts, alignment"
NETWORKS = (("digits-cnn", 32), ("resnet8", 1), ("ds-cnn", 1), ("mobilenet", 1))


def parts(elf: Path) -> Counter[str]:
    """Bytes of flash by part."""
    listing = subprocess.run(
        ["arm-none-eabi-nm", "--print-size", "--line-numbers", str(elf)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = Counter({REST: elf_size(elf).flash_bytes})
    seen = set()  # names of a default handler have one address
    for fields in (line.split(maxsplit=4) for line in listing.splitlines()):
        if len(fields) >= 4 and fields[2] in "tTrRdDwWV" and fields[0] not in seen:
            seen.add(fields[0])
            source = fields[4] if len(fields) == 5 else ""
            symbol = f"{fields[3]} {source}"
            part = next((name for of, name in PARTS if re.search(of, symbol)), OTHERS)
            found[part] += int(fields[1], 16)
            found[REST] -= int(fields[1], 16)
    return found


def network_lines() -> Iterator[str]:
    """A table of each network's tiles: inner blocks, and constants of the training step's ops."""
    yield "| network, batch | blocks | bytes | tables |"
    yield "|---|--:|--:|--:|"
    board = load_board("nrf52840")
    for name, batch in NETWORKS:
        model = build_model(name, batch)
        program = make_program(model.graph, model.loss, model.optimizer)
        choice = program_tiles(program, board)
        chosen = [choice(table) for table in dict.fromkeys(tables_of(program.training))]
        tiles = [one for one in chosen if one is not None]
        blocks = {block for one in tiles for block in one.blocks}
        size, tables = sum(b.size_bytes for b in blocks), sum(one.table_bytes for one in tiles)
        yield f"| {name}, {batch} | {len(blocks)} | {size:,} | {tables:,} |"


def main() -> None:
    """Print a table with a column for each ELF."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/flash.py .pio/build/nrf52840/*.elf"
    )
    parser.add_argument("elf", nargs="*", type=Path, help="programs of a Cortex-M")
    parser.add_argument("--networks", action="store_true", help="tiles of some built-in networks")
    arguments = parser.parse_args()
    if arguments.networks:
        print("\n".join(network_lines()), end="\n\n")
    elif not arguments.elf:
        parser.error("name an ELF, or --networks")
    columns = [parts(elf) for elf in arguments.elf]
    for name in (*dict(PARTS).values(), OTHERS, REST) if columns else ():
        print(f"| {name} |", *(f"{column[name]:,} |" for column in columns))
    if columns:
        print("| together |", *(f"{column.total():,} |" for column in columns))


if __name__ == "__main__":
    main()
