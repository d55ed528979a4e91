# SPDX-License-Identifier: Apache-2.0
"""Small programs for the models of chips, and what they do there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from emulator.firmware_tools import compile_c, compile_sample, linker_script, run_program
from poetfw.boards import Board, load_board
from poetfw.firmware import IMAGE
from poetfw.tools import emulator_of
from poetfw.tools.emulators.unicorn.__main__ import MACHINES, ChipBoard, read_flash
from poetfw.tools.emulators.unicorn.bus import Bus
from poetfw.tools.emulators.unicorn.core import Core, CoreMemory, CoreModel, StopReason
from poetfw.tools.emulators.unicorn.sd_card import BLOCK_BYTES, BLOCKS_PER_UNIT, Card

PORT = 0x40000000
"""A register that the tests' processors have, and that tells them what is written to it."""

START_DEVICE, CLEAR_DEVICE = PORT + 4, PORT + 8
DEVICE, DEVICE_CYCLES = 35, 30_000
"""A device that interrupts so long after it was started, until it is cleared."""

PROGRAM = f"""
#include <stdint.h>
#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SAY(value) (REGISTER({PORT:#x}u) = (uint32_t)(value))
void reset(void);
__attribute__((weak)) void systick(void);
__attribute__((weak)) void device(void);
__attribute__((section(".vectors"), used)) static const struct {{
    uint32_t stack;
    void (*handlers[15 + {DEVICE} + 1])(void);
}} VECTORS = {{ 0x20001000u, {{ [0] = reset, [14] = systick, [15 + {DEVICE}] = device }} }};
static inline void wait(void) {{ __asm__ volatile("wfe" ::: "memory"); }}
static inline _Noreturn void end(void) {{ for (;;) {{ wait(); }} }}
"""


@dataclass(frozen=True)
class BareChip:
    """A board's chip, as its model has it."""

    board: Board
    model: CoreModel

    @property
    def sizes(self) -> dict[str, int]:
        board = self.board
        return {
            "ram_bytes": board.ram_bytes,
            "flash_start": board.reserved_flash_bytes,
            "flash_bytes": board.flash_bytes - board.reserved_flash_bytes,
            "stack_bytes": board.stack_bytes,
        }

    @property
    def machine(self) -> type[ChipBoard]:
        return MACHINES[str(self.board.twin("unicorn").machine.machine)]

    def read_flash(self, elf: Path) -> bytes:
        return read_flash(elf, self.machine)

    def compile(self, folder: Path, program: str) -> Path:
        source = folder / "program.c"
        source.write_text(PROGRAM + program)
        script = linker_script(self.board.hal, folder / "program.ld", **self.sizes)
        flags = ("-ffreestanding", "-nostdlib", f"-T{script}", "-Wl,-ereset")
        machine = self.board.toolchain.machine_flags
        compiler = self.board.toolchain.compiler
        elf = folder / "program.elf"
        return compile_c(elf, [source], [], *machine, *flags, "-lgcc", compiler=compiler)

    def compile_sample(self, out: Path, *flags: str) -> Path:
        machine = self.board.toolchain.machine_flags
        return compile_sample(out, self.board.hal, *flags, machine=machine, **self.sizes)

    def says(self, folder: Path, program: str) -> list[int]:
        """What a program on the processor alone writes to the port until it sleeps."""
        said: list[int] = []
        bus = Bus()
        bus.writable[PORT] = said.append
        core = Core(
            self.model,
            bus,
            CoreMemory(0, self.read_flash(self.compile(folder, program))),
            CoreMemory(0x20000000, bytes(self.board.ram_bytes)),
            ((PORT, 0x1000), (0xE0000000, 0x10000)),
            vectors=self.board.reserved_flash_bytes,
        )
        pending: list[bool] = []
        core.connect(DEVICE, lambda: bool(pending))
        bus.task(START_DEVICE, lambda: core.after(DEVICE_CYCLES, lambda: pending.append(True)))
        bus.task(CLEAR_DEVICE, pending.clear)
        assert core.run() is StopReason.ASLEEP
        return said

    def boot(self, folder: Path, elf: Path) -> bytes:
        """What a program of the chip prints, without a process of its own."""
        said = bytearray()
        with (folder / "card").open("w+b") as card:
            card.truncate(BLOCK_BYTES * BLOCKS_PER_UNIT)
            self.machine(self.read_flash(elf), Card(card), said.extend).run()
        return bytes(said)

    def run(self, folder: Path, elf: Path, image: bytes | bytearray) -> tuple[int, list[str], str]:
        """Exit code, console, and what standard error says."""
        machine = self.board.twin("unicorn").machine
        emulator = emulator_of(machine)
        storage = folder / IMAGE
        storage.write_bytes(image)
        emulator.prepare(machine, storage, 0)
        command = ["sh", "-c", '"$@" 2>stderr', "sh", *emulator.command(machine, elf)]
        code, lines = run_program(command, folder)
        return code, lines, (folder / "stderr").read_text()


NRF52840 = BareChip(load_board("nrf52840"), CoreModel.CORTEX_M4F)
NRF52840_QSPI = BareChip(load_board("nrf52840:qspi"), CoreModel.CORTEX_M4F)
SAMD21 = BareChip(load_board("mkr1000"), CoreModel.CORTEX_M0PLUS)
