# SPDX-License-Identifier: Apache-2.0
"""The MKR1000's own program on the chip's model, and what the model does not let pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.bare_chips import NRF52840, SAMD21
from emulator.firmware_tools import (
    CORTEX_M0PLUS,
    compile_sample,
    needs_qemu,
    qemu,
    run_program,
    sample_image,
)
from poetfw.firmware import IMAGE
from poetfw.tools.emulators.unicorn.bus import MachineError

pytestmark = [pytest.mark.emulator, needs_qemu]

CARD_BYTES = 1 << 20
STEPS = 5


def test_the_boards_own_program_trains_to_the_bits_of_the_twins(tmp_path: Path) -> None:
    """The twin is another machine, with another SD card behind another SPI controller."""
    image = sample_image(steps=STEPS)
    own, twin = tmp_path / "own", tmp_path / "twin"
    own.mkdir()
    twin.mkdir()
    code, lines, said = SAMD21.run(own, SAMD21.compile_sample(own / "firmware.elf"), image)
    assert (code, said) == (0, "")
    sizes = {"ram_bytes": 32768, "flash_bytes": 262144, "stack_bytes": 2048}
    elf = compile_sample(twin / "firmware.elf", "lm3s6965", machine=CORTEX_M0PLUS, **sizes)
    (twin / IMAGE).write_bytes(image.ljust(CARD_BYTES, b"\0"))
    card = ("-cpu", "cortex-m0", "-icount", "shift=0", "-drive", f"if=sd,format=raw,file={IMAGE}")
    code, twin_lines = run_program(qemu("lm3s6965evb", elf, *card), twin)
    assert code == 0
    storage, twin_storage = ((f / IMAGE).read_bytes()[: len(image)] for f in (own, twin))
    assert storage == twin_storage != image
    values = [re.findall("(?:loss|metric)=([0-9a-f]{8})", " ".join(x)) for x in (lines, twin_lines)]
    assert values[0] == values[1]
    assert len(values[0]) == STEPS + 2
    assert lines[0] == "@boot plan=5a3b1e00 board=sample reset=power-on"
    assert "tick_unit=cycles" in lines[-1]


GLUE = """
    #define BYTE(address) (*(volatile uint8_t *)(address))
    #define CTRL BYTE(0x40001000u)
    #define CONFIG BYTE(0x40001001u)
    #define EWCTRL BYTE(0x40001002u)
    #define INTENSET BYTE(0x40001005u)
    #define INTFLAG BYTE(0x40001006u)
    #define CLEAR BYTE(0x40001008u)
    #define SETTLE while (BYTE(0x40001007u) != 0u) { }
    #define CLOCK REGISTER(0x40000c08u) = 0x803u; while (BYTE(0x40000c01u) != 0u) { } \\
        REGISTER(0x40000c04u) = 0x10303u; while (BYTE(0x40000c01u) != 0u) { } \\
        *(volatile uint16_t *)0x40000c02u = 0x4303u;
    #define SETTINGS CONFIG = 5u; EWCTRL = 4u; SETTLE
    #define START CLOCK SETTINGS CTRL = 2u; SETTLE
    #define FEED (INTFLAG = 1u, CLEAR = 0xa5u)
    #define WAKES INTENSET = 1u; REGISTER(0xe000ed10u) = 16u;
    #define READY (REGISTER(0xe000e280u) = 4u)
    #define LOOP(rounds) do { uint32_t n = (rounds); __asm__ volatile( \\
        ".syntax unified\\n 1: subs %0, #1\\n bne 1b" : "+r"(n)); } while (0)
"""
"""At 1 MHz, as after a reset: 256 cycles of 4096 Hz are 62,500 of the processor's."""

UNALIGNED = "an instruction that cannot be executed: Unhandled CPU exception"
ACCESS = '__asm__ volatile("{} r0, [%0]" ::"l"({}u) : "r0");'
REFUSED = {
    "a watchdog without a clock": ("CONFIG = 5u;", "WDT.CONFIG is written without a clock of its"),
    "on the processor's clock": (
        "*(volatile uint16_t *)0x40000c02u = 0x4003u; CONFIG = 5u;",
        "WDT.CONFIG is written without a clock of its own",
    ),
    "a clock of nothing": (
        "*(volatile uint16_t *)0x40000c02u = 0x4303u;",
        "a clock from a generator that is off",
    ),
    "a divider": ("REGISTER(0x40000c08u) = 0x101u;", "generator 1 divides by 1"),
    "an odd time": ("CLOCK CONFIG = 12u;", "WDT.CONFIG is 0xc"),
    "too soon": ("CLOCK CONFIG = 5u; CTRL = 2u;", "WDT.CTRL is written while it synchronises"),
    "a window": ("CLOCK SETTINGS CTRL = 6u;", "WDT.CTRL is 6 after 0"),
    "never to stop": ("CLOCK SETTINGS CTRL = 0x80u;", "WDT.CTRL is 128 after 0"),
    "switched off": ("START CTRL = 0u;", "WDT.CTRL is 0 after 2"),
    "another time": ("START CONFIG = 6u;", "WDT.CONFIG is changed while it is enabled"),
    "another warning": ("START EWCTRL = 3u;", "WDT.EWCTRL is changed while it is enabled"),
    "fed too early": ("CLOCK SETTINGS FEED;", "a watchdog is fed that does not run"),
    "fed twice": ("START FEED; FEED;", "WDT.CLEAR is written while it synchronises"),
    "another feed": ("START CLEAR = 0x5au;", "0x5a in WDT.CLEAR resets the chip"),
    "a look at feeding": ("(void)CLEAR;", "read of 1 bytes from 0x40001008"),
    "read": ("(void)REGISTER(0x40000418u);", "read of 4 bytes from 0x40000418, which is not model"),
    "write": ("REGISTER(0x40000418u) = 1u;", "write of 4 bytes to 0x40000418, which is not model"),
    "write-only": ("(void)REGISTER(0x40000c08u);", "read of 4 bytes from 0x40000c08"),
    "read-only": ("*(volatile uint8_t *)0x40000438u = 1u;", "write of 1 bytes to 0x40000438"),
    "half": ("(void)*(volatile uint16_t *)0x40000420u;", "read of 2 bytes from 0x40000420"),
    "byte": ("*(volatile uint8_t *)0x40000420u = 1u;", "write of 1 bytes to 0x40000420"),
    "wide": ("(void)REGISTER(0x40000814u);", "read of 4 bytes from 0x40000814"),
    "no clock": ("(void)REGISTER(0x42001c00u);", "SERCOM5.CTRLA is read without the bus's clock"),
    "no generator": (
        "REGISTER(0x40000420u) = 0x10080u; REGISTER(0x42001c00u) = 1u;",
        "SERCOM5.CTRLA is written without a clock",
    ),
    "fast": ("REGISTER(0x40000820u) = 0u;", "OSC8M loses its calibration"),
    "no FPU": ("(void)REGISTER(0xe000ed88u);", "read of 4 bytes from 0xe000ed88, which is not mo"),
    "no cycle counter": ("(void)REGISTER(0xe0001004u);", "read of 4 bytes from 0xe0001004"),
    "no memory": ("(void)REGISTER(0x20008000u);", "read of 4 bytes at 0x20008000"),
    "write to flash": ("REGISTER(0x8000u) = 0u;", "write of 4 bytes at 0x00008000"),
    "beyond flash": ("(void)REGISTER(0x40000u);", "read of 4 bytes at 0x00040000"),
    "code in RAM": ("((void (*)(void))0x20000001u)();", "fetch of . bytes at 0x20000000"),
    "unaligned word": (ACCESS.format("ldr", 0x20000002), UNALIGNED),
    "unaligned half": (ACCESS.format("ldrh", 0x20000001), UNALIGNED),
    "unaligned store": (ACCESS.format("str", 0x20000001), UNALIGNED),
    "unaligned register": (ACCESS.format("ldr", 0x40000421), UNALIGNED),
    "udiv": ('__asm__ volatile(".inst.w 0xfbb0f0f1");', "an instruction that cannot be executed"),
    "movw": ('__asm__ volatile(".inst.w 0xf2400001");', "an instruction that cannot be executed"),
    "ldrex": ('__asm__ volatile(".inst.w 0xe8510f00");', "an instruction that cannot be executed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_board_would_not_do_is_an_error(tmp_path: Path, name: str) -> None:
    statement, message = REFUSED[name]
    elf = SAMD21.compile(tmp_path, GLUE + f"void reset(void) {{ {statement} end(); }}")
    with pytest.raises(MachineError, match=rf"{message}.*; pc 0x[02]000[0-9a-f]{{4}}$"):
        SAMD21.boot(tmp_path, elf)


def test_a_program_is_the_chips_own(tmp_path: Path) -> None:
    program = "void reset(void) { end(); }"
    with pytest.raises(MachineError, match=r"program.elf is for another processor"):
        SAMD21.read_flash(NRF52840.compile(tmp_path, program))
    with pytest.raises(MachineError, match="no program's vectors are at 0x00000000"):
        NRF52840.boot(tmp_path, SAMD21.compile(tmp_path, program))


def test_a_reset_begins_the_program_again(tmp_path: Path) -> None:
    """RAM stays as it is, and the cause tells."""
    program = """
        void reset(void) {
            const uint8_t cause = *(volatile uint8_t *)0x40000438u;
            if (cause == 0x40u && REGISTER(0x20004000u) == 42u) { end(); }
            if (cause != 1u) { REGISTER(0u) = 0u; }
            REGISTER(0x20004000u) = 42u;
            REGISTER(0xe000ed0cu) = 0x05fa0004u;
            for (;;) { }
        }
    """
    assert SAMD21.boot(tmp_path, SAMD21.compile(tmp_path, program)) == b""


@pytest.mark.parametrize(
    ("then", "bites"),
    [
        ("for (;;) { }", True),
        ("LOOP(24000u); FEED; LOOP(24000u); FEED; LOOP(36000u);", True),
        ("WAKES for (int i = 0; i < 9; i++) { LOOP(24000u); FEED; READY; } SLEEP", False),
        ("WAKES LOOP(24000u); SLEEP", False),
        ("WAKES wait(); LOOP(14400u); FEED; READY; SLEEP", False),
        ("WAKES wait(); LOOP(17600u); FEED; READY; SLEEP", True),
        ("WAKES wait(); wait();", True),
        ("WAKES wait(); FEED; end();", True),
        ("REGISTER(0xe000ed10u) = 16u; wait();", True),
        ("INTENSET = 1u; wait();", True),
        ("end();", True),
    ],
    ids=["hangs", "is fed for a while", "is fed", "sleeps late", "soon after", "late after",
         "is woken and not fed", "pending for ever", "does not warn", "does not hear", "sleeps"],
)  # fmt: skip
def test_the_watchdog_counts_in_sleep_and_its_warning_ends_it(
    tmp_path: Path, then: str, bites: bool
) -> None:
    """Half of 62,500 cycles after it was fed it warns."""
    sleep = "#define SLEEP for (;;) { wait(); SETTLE FEED; READY; }\n"
    said = "if (BYTE(0x40000438u) == 0x20u) { REGISTER(0u) = 0u; }"
    program = f"void reset(void) {{ {said} START {then} end(); }}"
    elf = SAMD21.compile(tmp_path, GLUE + sleep + program)
    if bites:
        with pytest.raises(MachineError, match="write of 4 bytes at 0x00000000"):
            SAMD21.boot(tmp_path, elf)
    else:
        assert SAMD21.boot(tmp_path, elf) == b""


@pytest.mark.parametrize("listens", [True, False])
def test_the_boards_own_program_sleeps_beside_its_watchdog(tmp_path: Path, listens: bool) -> None:
    """When all is done, whether or not somebody may still say something."""
    flags = ["-DPOETFW_WATCHDOG_MS=20u", *([] if listens else ["-DPOET_LISTEN_TICKS=0u"])]
    elf = SAMD21.compile_sample(tmp_path / "firmware.elf", *flags)
    code, lines, said = SAMD21.run(tmp_path, elf, sample_image(steps=1))
    assert (code, said) == (0, "")
    assert [line for line in lines if "@boot" in line] == lines[:1]
    assert lines[-1].startswith("@done")
