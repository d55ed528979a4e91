# SPDX-License-Identifier: Apache-2.0
"""Bandwidth and latency of boards' storage drivers, beside those of the board files.

The profiler's sketch pages on the model of the chip, whose bus takes the time of its bits, with a
card that takes its time, too. A line through the times of several sizes is a latency and a
bandwidth, as the board files have them. Each transfer is waited for; its checksum is part of it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from poetfw.boards import load_board
from poetfw.common.transfer import TRAILER_BYTES, OverlapCosts, Transfer, page_bytes
from poetfw.costs import BESIDE, MOVES, TAKEN, TRANSFERS, Case
from poetfw.costs.fitted import fit_beside, fit_transfer
from poetfw.firmware import BLOCK_BYTES, IMAGE, write_project
from poetfw.firmware.sketch import NOTHING, render_sketch
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.tools import build_environments, choose_toolchain
from poetfw.tools.emulators.unicorn.__main__ import _hear, _print, read_flash
from poetfw.tools.emulators.unicorn.flash import Flash
from poetfw.tools.emulators.unicorn.nrf52840 import Nrf52840Dk
from poetfw.tools.emulators.unicorn.nrf52840_qspi import Nrf52840DkFlash
from poetfw.tools.emulators.unicorn.samd21 import Mkr1000
from poetfw.tools.emulators.unicorn.sd_card import Card
from poetfw.tools.link import DeviceLink, Profiler, piped
from poetfw.training import Program
from workloads.stm32f405 import Stm32f405

CHIPS: dict[str, Any] = {
    "nrf52840": Nrf52840Dk,
    "nrf52840:qspi": Nrf52840DkFlash,
    "mkr1000": Mkr1000,
    "stm32f405": Stm32f405,
}
"""Models of boards' chips, whose storage takes its time."""

SIZES_BYTES = (512, 1024, 2048, 4096, 8192)
"""Of tensors that small networks page."""

SECTORS = (1, 2, 3)
"""That a tensor fills, where a storage has larger blocks than poetfw: of a part, less is read."""

READ_S, WRITE_S = 0.2e-3, 0.1e-3
"""Seconds of the card from a command to its first block, and to write a block."""

ROOM_BYTES = 16_384
STORAGE_BYTES = 8 << 20
SERVE = "serve"


def measured(name: str, folder: Path) -> Mapping[str, Transfer]:
    """Times of `page_in` and `page_out`, as lines through those of all sizes.

    Raises:
        PoetfwError: the sketch cannot be built, or the driver fails.
    """
    board = load_board(name)
    storage = board.storage
    assert storage is not None
    settings = BuildSettings(board=name, model="mlp").on(board)
    program = derive_program(settings, load_model(settings))
    kinds = MOVES if storage.overlap else TRANSFERS
    sizes = SIZES_BYTES
    if storage.block_bytes > BLOCK_BYTES:
        sizes = tuple(count * storage.block_bytes - TRAILER_BYTES for count in SECTORS)
    if storage.erase_bytes is not None:
        # The sketch gives the tensor other content while the first of two is under way: the second
        # then finds some of it there, and does not erase that.
        kinds = tuple(
            kind for kind in kinds if kind in TRANSFERS or not kind.startswith("page_out")
        )
    cases = [Case(kind, size_bytes=size) for kind in kinds for size in sizes]
    rows: dict[str, list[tuple[int, float]]] = {kind: [] for kind in MOVES}
    for case, time_s in times_of(cases, program, name, ROOM_BYTES, folder).items():
        rows[case.kind].append((page_bytes(case.size_bytes, storage.block_bytes), time_s))
    return {
        kind: replace(
            fit_transfer([(*row, row[1]) for row in rows[kind]], getattr(storage, kind)),
            beside=fit_beside(rows[f"{kind}_beside"], rows[f"{kind}_taken"]),
        )
        for kind in TRANSFERS
    }


def times_of(
    cases: Sequence[Case], program: Program, name: str, room_bytes: int, folder: Path
) -> Mapping[Case, float]:
    """Seconds that each case takes on a board's chip.

    Args:
        cases: ops and transfers of a program.
        program: whose.
        name: the board's.
        room_bytes: what the sketch's arena may have.
        folder: where the sketch is built.

    Raises:
        PoetfwError: the sketch cannot be built, or the driver fails.
    """
    board = choose_toolchain(load_board(name))
    sketch = render_sketch(cases, program, board, room_bytes)
    write_project(sketch.project, folder)
    environment = board.own_environment
    elf = build_environments(folder, [environment])[environment]
    (folder / IMAGE).write_bytes(bytes(STORAGE_BYTES))
    times = {}
    with piped([sys.executable, __file__, SERVE, name, str(elf.resolve())], folder) as line:
        profiler = Profiler(DeviceLink(line))
        nothing = profiler.run(len(cases), NOTHING, 1).ticks
        for index, case in enumerate(cases):
            profiler.run(index, case.key, 1)
            call = 0 if case.kind in (*BESIDE, *TAKEN) else nothing
            times[case] = (profiler.run(index, case.key, 2).ticks - call) / 2 / board.clock_hz
    return times


def serve(name: str, elf: str) -> None:
    """Be a board whose storage takes its time, at standard input and output."""
    chip = CHIPS[name]
    with Path(IMAGE).open("r+b") as image:
        storage = Flash(image) if chip is Nrf52840DkFlash else Card(image, READ_S, WRITE_S)
        program = Path(elf) if chip is Stm32f405 else read_flash(Path(elf), chip)
        chip(program, storage, _print, _hear).run()


@click.command(help=__doc__, epilog="Example: python benchmarks/storage.py --board mkr1000")
@click.option("--board", type=click.Choice(list(CHIPS)), help="Only this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(board: str | None, as_json: bool) -> None:
    found = {}
    for name in [board] if board else CHIPS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = measured(name, Path(folder))
    if as_json:
        document = {
            name: {kind: asdict(transfer) for kind, transfer in one.items()}
            for name, one in found.items()
        }
        print(json.dumps(document))
        return
    print(f"{'':<15}{'':<10}{'measured':>22}{'board file':>25}")
    for name, transfers in found.items():
        for kind, transfer in transfers.items():
            both = (transfer, getattr(load_board(name).storage, kind))
            print(f"{name:<15}{kind:<10}" + "   ".join(map(shown, both)))
            besides = [one.beside for one in both]
            if any(besides):
                print(f"{'':<15}{'  beside':<10}" + "   ".join(map(shown, besides)))
                print(f"{'':<15}{'  core':<10}" + "   ".join(map(core_shown, besides)))


def shown(line: Transfer | OverlapCosts | None) -> str:
    """Bandwidth and latency; of what was not measured, spaces."""
    if line is None:
        return f"{'':22}"
    return f"{line.bandwidth_bytes_per_s / 1e3:8.1f} KB/s {line.latency_s * 1e3:6.3f} ms"


def core_shown(beside: OverlapCosts | None) -> str:
    """The core's time of a byte and of a transfer; of what was not measured, spaces."""
    if beside is None:
        return f"{'':22}"
    return f"{beside.core_s_per_byte * 1e9:8.1f} ns/B {beside.core_latency_s * 1e3:6.3f} ms"


if __name__ == "__main__":
    if sys.argv[1:2] == [SERVE]:
        serve(*sys.argv[2:])
    else:
        main()
