# SPDX-License-Identifier: Apache-2.0
"""How many bytes of an SD card the driver moves each second through QEMU.

The machine is the MKR1000's twin, whose bus is polled and takes no emulated time. The seconds are
those of this computer: they say what tests take, nothing of a board.

    python benchmarks/sd_throughput.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from emulator.firmware_tools import BLOCK, qemu
from emulator.test_sd_card import _build

CARD_BYTES = 64 << 20
ROUNDS, BLOCKS = 256, 16


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        card = folder / "card.img"
        with card.open("wb") as file:
            file.truncate(CARD_BYTES)
        elf = _build(folder, CARD_BYTES // BLOCK - 1, f"-DROUNDS={ROUNDS}u")
        drive = ("-drive", f"if=sd,format=raw,file={card}")
        command = qemu("lm3s6965evb", elf, "-cpu", "cortex-m0", *drive)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            heard = {line.strip(): time.monotonic() for line in process.stdout}
    moved = ROUNDS * BLOCKS * BLOCK
    for name, begin, end in (("written", "@begin", "@written"), ("read", "@written", "@read")):
        print(f"{name:8} {moved / (heard[end] - heard[begin]) / 1e6:6.2f} MB/s")


if __name__ == "__main__":
    main()
