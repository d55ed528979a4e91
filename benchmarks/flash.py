# SPDX-License-Identifier: Apache-2.0
"""Bytes of flash of built projects, by part.

Counted are symbols, by the file that they come from. What is left are texts, and what aligns them.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from pathlib import Path

from poetfw.tools import elf_size

PARTS = (
    ("lib/poetfw/kernels/", "kernels"),
    ("lib/poetfw/generated/", "generated steps and tables"),
    ("lib/poetfw/storage/sd", "SD card's driver"),
    ("lib/poetfw/storage/", "image, slots, commits"),
    ("lib/poetfw/runtime/", "library's calls, samples, own math"),
    ("src/hal/", "board: start, bus, console, clock"),
    ("src/", "application: reports, commands"),
)
ASSEMBLY = "kernels in assembly"
REST = "texts, alignment"


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
            part = next((name for folder, name in PARTS if f"/{folder}" in source), ASSEMBLY)
            found[part] += int(fields[1], 16)
            found[REST] -= int(fields[1], 16)
    return found


def main() -> None:
    """Print a table with a column for each ELF."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/flash.py .pio/build/nrf52840/*.elf"
    )
    parser.add_argument("elf", nargs="+", type=Path, help="programs of a Cortex-M")
    columns = [parts(elf) for elf in parser.parse_args().elf]
    for name in (*dict(PARTS).values(), ASSEMBLY, REST):
        print(f"| {name} |", *(f"{column[name]:,} |" for column in columns))
    print("| together |", *(f"{column.total():,} |" for column in columns))


if __name__ == "__main__":
    main()
