# SPDX-License-Identifier: Apache-2.0
"""Reset and vectors of every family: what an application with its own interrupts relies on."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from emulator.bare_chips import CLEAR_DEVICE, DEVICE_CYCLES, PORT, START_DEVICE
from emulator.firmware_tools import (
    CORTEX_M0PLUS,
    CORTEX_M4F,
    TEMPLATES,
    compile_c,
    linker_script,
    needs_qemu,
)
from poetfw.tools.emulators.unicorn.bus import Bus
from poetfw.tools.emulators.unicorn.core import Core, CoreMemory, CoreModel, StopReason

pytestmark = [pytest.mark.emulator, needs_qemu]

RAM = 0x20000000
RAM_BYTES = 0x4000
FIRST_INTERRUPT = 16
SYSTICK = 15
CFSR = 0xE000ED28


@dataclass(frozen=True)
class Family:
    """A HAL family: its core, where its flash begins, interrupts by their vendor's names."""

    model: CoreModel
    numbers: dict[str, int]
    count: int
    flash: int = 0
    bootloader_bytes: int = 0x2000
    uses: tuple[str, ...] = ()


M0PLUS, M4F = CoreModel.CORTEX_M0PLUS, CoreModel.CORTEX_M4F
STM32F405 = {
    "TIM2_IRQHandler": 28,
    "WWDG_IRQHandler": 0,
    "USART1_IRQHandler": 37,
    "FPU_IRQHandler": 81,
}
"""From RM0090, table 61."""
FAMILIES = {
    # nRF52840 Product Specification 1.7, section 4.2.4
    "nrf52840": Family(
        M4F,
        {"TIMER2_IRQHandler": 10, "POWER_CLOCK_IRQHandler": 0, "RTC2_IRQHandler": 36}
        | {"SPIM0_SPIS0_TWIM0_TWIS0_SPI0_TWI0_IRQHandler": 3, "SPIM3_IRQHandler": 47},
        48,
    ),
    # SAM D21 data sheet, table 11-3
    "samd21": Family(
        M0PLUS, {"TC3_Handler": 18, "PM_Handler": 0, "DMAC_Handler": 6, "I2S_Handler": 27}, 28
    ),
    "stm32f405": Family(M4F, STM32F405, 82, flash=0x08000000),
    "netduinoplus2": Family(M4F, STM32F405, 82, bootloader_bytes=0, uses=("stm32f405",)),
    # Arm DAI 0386, table 3-2
    "mps2": Family(
        M4F,
        {"TIMER1_Handler": 9, "UARTRX0_Handler": 0, "PORT0_15_Handler": 31},
        32,
        bootloader_bytes=0,
    ),
    # LM3S6965 data sheet, table 2-9
    "lm3s6965": Family(
        M0PLUS,
        {"Timer0A_IRQHandler": 19, "UART0_IRQHandler": 5, "Hibernate_IRQHandler": 43},
        44,
        bootloader_bytes=0,
    ),
}

PROGRAM = """
#include <stdint.h>
#include "console.h"
#include "hal.h"
#include "nvic.h"
#define SAY(value) poet_write({port}u, (uint32_t)(value))
void {handler}(void);
static uint32_t initialised = 40u;
static uint32_t constructed;
static volatile uint32_t zero;

__attribute__((constructor)) static void construct(void)
{{
    constructed = initialised + 2u + zero;
}}

void {handler}(void)
{{
    poet_write({clear}u, 1u);
    SAY(2);
}}

_Noreturn void poet_run(void)
{{
    SAY(constructed);
    poet_interrupt_enable({number}u);
    poet_interrupt_enable({unhandled}u);
    poet_write({start}u, 1u);
    for (;;) {{
        poet_wait_for_event();
    }}
}}

void poet_print(const char *text) {{ (void)text; }}
void poet_print_hex(uint32_t value) {{ (void)value; }}

_Noreturn void poet_hal_exit(int code)
{{
    SAY(code);
    poet_interrupts_off();
    for (;;) {{
        poet_wait_for_event();
    }}
}}
"""


class Application:
    """A program behind a bootloader, with a handler of the family's first interrupt above."""

    def __init__(
        self, folder: Path, name: str, *flags: str, bootloader_bytes: int | None = None
    ) -> None:
        self.family = family = FAMILIES[name]
        self.handler, self.number = next(iter(family.numbers.items()))
        self.unhandled = self.number + 1
        values = {"port": PORT, "clear": CLEAR_DEVICE, "start": START_DEVICE}
        source = folder / "program.c"
        source.write_text(
            PROGRAM.format(
                handler=self.handler, number=self.number, unhandled=self.unhandled, **values
            )
        )
        script = linker_script(
            name,
            folder / "program.ld",
            family.bootloader_bytes if bootloader_bytes is None else bootloader_bytes,
            ram_bytes=RAM_BYTES,
            flash_bytes=0x8000,
            stack_bytes=1024,
        )
        machine = CORTEX_M4F if family.model is M4F else CORTEX_M0PLUS
        folders = ["runtime", "hal", "hal/cortex_m", f"hal/{name}"]
        folders += [f"hal/{used}" for used in family.uses]
        elf = compile_c(
            folder / "program.elf",
            [source, TEMPLATES / "hal/cortex_m/startup.c"],
            [TEMPLATES / each for each in folders],
            *machine,
            *("-ffreestanding", "-nostdlib", "-Wl,--gc-sections", f"-T{script}"),
            *(*flags, "-lgcc"),
            compiler="arm-none-eabi-gcc",
        )
        with elf.open("rb") as file:
            program = ELFFile(file)
            symbols = program.get_section_by_name(".symtab").iter_symbols()
            self.symbols = {s.name: s["st_value"] for s in symbols}
            self.start = family.flash + family.bootloader_bytes
            flash = bytearray(0x10000)
            for segment in program.iter_segments("PT_LOAD"):
                at = segment["p_paddr"] - self.start
                flash[at : at + segment["p_filesz"]] = segment.data()
        self.vectors = struct.unpack_from(f"<{FIRST_INTERRUPT + family.count}I", flash)
        # A bootloader's: of the program it knows stack and reset, and all else is its own.
        bootloader = struct.pack("<2I", *self.vectors[:2]).ljust(0x2000, b"\xee")
        bootloader = bootloader[: family.bootloader_bytes]
        self.flash = CoreMemory(family.flash, bootloader + bytes(flash))

    def says(self) -> list[int]:
        """What it writes to a port until it sleeps; both interrupts come, the handled one first."""
        said: list[int] = []
        pending: set[int] = set()
        bus = Bus()
        bus.writable[PORT] = said.append
        bus.readable[CFSR] = lambda: 0  # no fault, only an interrupt that nobody handles
        areas = ((PORT, 0x1000), (0xE0000000, 0x10000))
        ram = CoreMemory(RAM, b"\xa5" * RAM_BYTES)
        core = Core(self.family.model, bus, self.flash, ram, areas, vectors=self.family.flash)
        for interrupt in (self.number, self.unhandled):
            core.connect(interrupt, lambda interrupt=interrupt: interrupt in pending)

        def start() -> None:
            core.after(DEVICE_CYCLES, lambda: pending.add(self.number))
            core.after(2 * DEVICE_CYCLES, lambda: pending.add(self.unhandled))

        bus.task(START_DEVICE, start)
        bus.task(CLEAR_DEVICE, lambda: pending.discard(self.number))
        assert core.run() is StopReason.ASLEEP
        return said


@pytest.mark.parametrize(
    ("name", "flags"),
    [(name, ()) for name in FAMILIES]
    + [
        pytest.param(name, ("-flto",), marks=[] if name == "stm32f405" else pytest.mark.slow)
        for name in FAMILIES
    ],
)
def test_an_application_behind_a_bootloader_has_its_own_interrupts(
    tmp_path: Path, name: str, flags: tuple[str, ...]
) -> None:
    """The bootloader's vectors are left, which on an STM32F405 are at 0 in place of the program."""
    application = Application(tmp_path, name, *flags)
    assert application.says() == [42, 2, 99]

    vectors, symbols = application.vectors, application.symbols
    assert symbols["poet_vectors_lower"] == application.start
    assert symbols["poet_vectors_upper"] == application.start + 4 * len(vectors)
    assert vectors[:2] == (RAM + 1024, symbols["poet_reset"] | 1)
    handled = FIRST_INTERRUPT + application.number
    fault = symbols["poet_fault_entry"] | 1
    assert vectors[handled] == symbols[application.handler] | 1 != fault
    assert {*vectors[2:handled], *vectors[handled + 1 :]} <= {0, fault}
    for handler, number in application.family.numbers.items():
        assert vectors[FIRST_INTERRUPT + number] & ~1 == symbols[handler] & ~1
    assert vectors[SYSTICK] & ~1 == symbols["SysTick_Handler"] & ~1


def test_vectors_that_vtor_cannot_point_to_do_not_link(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        Application(tmp_path, "stm32f405", bootloader_bytes=0x2100)
    assert "a multiple of their size, rounded up to a power of 2" in capfd.readouterr().err
