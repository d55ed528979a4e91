# SPDX-License-Identifier: Apache-2.0
"""The nRF52840's own program on the chip's model, and what the model does not let pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from emulator.bare_chips import (
    CLEAR_DEVICE,
    DEVICE,
    DEVICE_CYCLES,
    NRF52840,
    NRF52840_QSPI,
    SAMD21,
    START_DEVICE,
    BareChip,
)
from emulator.firmware_tools import compile_sample, needs_qemu, run_twin, sample_image
from poetfw.firmware import IMAGE
from poetfw.tools.emulators.unicorn.__main__ import main
from poetfw.tools.emulators.unicorn.bus import Bus, MachineError
from poetfw.tools.emulators.unicorn.core import SLICE, Core, CoreMemory, CoreModel

pytestmark = [pytest.mark.emulator, needs_qemu]


@pytest.mark.parametrize(
    ("own_hal", "chip"),
    [
        ("nrf52840", NRF52840),
        pytest.param("nrf52840_qspi", NRF52840_QSPI, marks=pytest.mark.slow),
    ],
)
def test_the_boards_own_program_trains_to_the_bits_of_the_twins(
    tmp_path: Path, own_hal: str, chip: BareChip
) -> None:
    image = sample_image(steps=5)
    own, twin = tmp_path / "own", tmp_path / "twin"
    results = {}
    for folder, hal in ((own, own_hal), (twin, "mps2")):
        folder.mkdir()
        elf = compile_sample(folder / "firmware.elf", hal)
        if folder is own:
            code, lines, said = chip.run(folder, elf, image)
            assert (code, said) == (0, "")
        else:
            (folder / IMAGE).write_bytes(image)
            code, lines = run_twin(elf, folder)
            assert code == 0
        results[folder] = lines, (folder / IMAGE).read_bytes()[: len(image)]
    (lines, storage), (twin_lines, twin_storage) = results[own], results[twin]
    assert storage == twin_storage != image
    values = [re.findall("(?:loss|metric)=([0-9a-f]{8})", " ".join(x)) for x in (lines, twin_lines)]
    assert values[0] == values[1]
    assert len(values[0]) == 5 + 2
    # The first boot of a chip sets its reset pin, and resets it.
    assert lines[0] == "@boot plan=5a3b1e00 board=sample reset=software"
    assert "tick_unit=cycles" in lines[-1]


UARTE = """
    REGISTER(0x40000000u) = 1u;
    REGISTER(0x50000508u) = 1u << 6;
    REGISTER(0x50000718u) = 1u;
    REGISTER(0x4000250cu) = 6u;
    REGISTER(0x40002524u) = 0x01d60000u;
    REGISTER(0x40002500u) = 8u;
    REGISTER(0x40002548u) = 4u;
"""
SEND = "REGISTER(0x40002008u) = 1u;"
WATCHDOG = "REGISTER(0x4001050cu) = 0u; REGISTER(0x40010504u) = 32u; REGISTER(0x40010000u) = 1u;"
FLASH, RAM, LAST, BEYOND = "0x100u", "0x20000000u", "0x2003fffcu", "0x2003fffdu"

REFUSED = {
    "read": ("(void)REGISTER(0x40001504u);", "read of 4 bytes from 0x40001504, which is not model"),
    "write": ("REGISTER(0x40001504u) = 1u;", "write of 4 bytes to 0x40001504, which is not model"),
    "write-only": ("(void)REGISTER(0x40002008u);", "read of 4 bytes from 0x40002008"),
    "byte": ("*(volatile uint8_t *)0x40000400u = 1u;", "write of 1 bytes to 0x40000400"),
    "value": ("REGISTER(0x40002500u) = 4u;", "0x00000004 is not modelled in the register UARTE.EN"),
    "no memory": ("(void)REGISTER(0x20040000u);", "read of 4 bytes at 0x20040000"),
    "across the end": ("(void)REGISTER(0x2003fffeu);", "read of . bytes at 0x200"),
    "write to flash": ("REGISTER(0x8000u) = 0u;", "write of 4 bytes at 0x00008000"),
    "beyond flash": ("(void)REGISTER(0x100000u);", "read of 4 bytes at 0x00100000"),
    "code in RAM": ("((void (*)(void))0x20000001u)();", "fetch of . bytes at 0x20000000"),
    "FPU": ('__asm__ volatile("vmov.f32 s0, #1.0");', "FPU is used before it is switched on"),
    "undefined": ('__asm__ volatile(".short 0xde00");', "an instruction that cannot be executed"),
    "ARMv8-M": ('__asm__ volatile(".inst.w 0xe8d10faf");', "an instruction that cannot be execut"),
    "UICR": ("REGISTER(0x10001200u) = 0u;", "PSELRESET.0. is written while NVMC does not allow it"),
    "fed too early": ("REGISTER(0x40010600u) = 0x6e524635u;", "watchdog is fed that does not run"),
    "another feed": (
        WATCHDOG + "REGISTER(0x40010600u) = 1u;",
        "not modelled in the register WDT.RR",
    ),
    "another time": (WATCHDOG + "REGISTER(0x40010504u) = 99u;", "WDT.CRV is written while the wat"),
    "started twice": (WATCHDOG + "REGISTER(0x40010000u) = 1u;", "WDT.TASKS_START is written while"),
    "short time": (
        "REGISTER(0x40010504u) = 14u;",
        "0x0000000e is not modelled in the register WDT",
    ),
    "sleepless": ("REGISTER(0x40010000u) = 1u;", "a watchdog that counts in sleep is not modelled"),
    "silent console": (SEND, "the UARTE sends before it is enabled"),
    "DMA from flash": (
        UARTE + f"REGISTER(0x40002544u) = {FLASH};" + SEND,
        "DMA of 4 bytes at 0x00000100, which is not RAM",
    ),
    "DMA beyond RAM": (
        UARTE + f"REGISTER(0x40002544u) = {BEYOND};" + SEND,
        "DMA of 4 bytes at 0x2003fffd, which is not RAM",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_board_would_not_do_is_an_error(tmp_path: Path, name: str) -> None:
    statement, message = REFUSED[name]
    elf = NRF52840.compile(tmp_path, f"void reset(void) {{ {statement} end(); }}")
    with pytest.raises(MachineError, match=rf"{message}.*; pc 0x[02]000[0-9a-f]{{4}}$"):
        NRF52840.boot(tmp_path, elf)


def test_an_error_ends_the_process(tmp_path: Path) -> None:
    elf = NRF52840.compile(tmp_path, f"void reset(void) {{ {REFUSED['read'][0]} end(); }}")
    code, lines, said = NRF52840.run(tmp_path, elf, bytes(512))
    assert (code, lines) == (1, [])
    assert re.fullmatch(
        r"nrf52840: a read of 4 bytes from 0x40001504, which is not modelled; pc 0x[0-9a-f]{8}\n",
        said,
    )


COUNT = """
    uint32_t cause = REGISTER(0x40000400u);
    REGISTER(0x20000000u) = '0' + (cause >> 1 & 1u);
    REGISTER(0x40002544u) = 0x20000000u;
    REGISTER(0x40002548u) = 1u;
    REGISTER(0x40002008u) = 1u;
    if (cause & 2u) { end(); }
"""


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("for (;;) { }", b"01"),
        ("for (int i = 0; i < 9; i++) { FEED; LOOP(25000u); } FEED; LOOP(40000u);", b"01"),
        ("for (int i = 0; i < 9; i++) { FEED; LOOP(25000u); } end();", b"0"),
        ("LOOP(32000u); FEED; LOOP(32000u); end();", b"0"),
    ],
    ids=["hangs", "is fed for a while", "is fed", "sleeps"],
)
def test_the_watchdog_counts_what_the_core_does(tmp_path: Path, then: str, said: bytes) -> None:
    """33 of 32,768 in a second: 64,453 cycles. It resets the chip; sleep is left out."""
    loop = '__asm__ volatile("1: subs %0, #1\\n bne 1b" : "+r"(n));'
    macros = (
        f"#define LOOP(rounds) do {{ uint32_t n = (rounds); {loop} }} while (0)\n"
        "#define FEED (REGISTER(0x40010600u) = 0x6e524635u)\n"
    )
    elf = NRF52840.compile(
        tmp_path, macros + f"void reset(void) {{ {UARTE + COUNT + WATCHDOG + then} end(); }}"
    )
    assert NRF52840.boot(tmp_path, elf) == said


def test_the_watchdog_and_a_reset_by_software(tmp_path: Path) -> None:
    text = f"void reset(void) {{ {WATCHDOG} REGISTER(0xe000ed0cu) = 0x05fa0004u; end(); }}"
    elf = NRF52840.compile(tmp_path, text)
    with pytest.raises(MachineError, match="runs on over a reset by software is not modelled"):
        NRF52840.boot(tmp_path, elf)


@pytest.mark.parametrize("address", [RAM, LAST])
def test_dma_reads_all_of_ram(tmp_path: Path, address: str) -> None:
    text = f"REGISTER({address}) = 0x0a216948u; REGISTER(0x40002544u) = {address};"
    elf = NRF52840.compile(tmp_path, f"void reset(void) {{ {UARTE + text + SEND} end(); }}")
    assert NRF52840.boot(tmp_path, elf) == b"Hi!\n"


def test_the_address_of_an_error_is_that_of_its_instruction(tmp_path: Path) -> None:
    places = "extern char place[]; void reset(void) { SAY(place); "
    access = '__asm__ volatile("movs r0, #0\\n movs r1, #5\\n place: .global place\\n"'
    program = places + access + ' "strb r1, [r0]" ::: "r0", "r1"); }'
    with pytest.raises(MachineError) as error:
        NRF52840.says(tmp_path, program)
    (pc,) = re.findall("pc 0x([0-9a-f]+)", str(error.value))
    with (tmp_path / "program.elf").open("rb") as file:
        (symbol,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name("place")
        assert int(pc, 16) == symbol["st_value"] & ~1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no ELF", "is not a readable ELF file"),
        (Path("/bin/sh").read_bytes(), "another processor"),
    ],
)
def test_a_file_that_is_no_program_of_the_chip(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "other.elf").write_bytes(content)
    with pytest.raises(MachineError, match=f"other.elf {message}|other.elf is for {message}"):
        NRF52840.read_flash(tmp_path / "other.elf")


@pytest.mark.parametrize("size_bytes", [0, 512, 524_287, 524_800])
@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (
            "nrf52840",
            "no SD card has the {:,} bytes of the storage image: a card has a multiple of ",
        ),
        ("samd21", "no SD card has the {:,} bytes of the storage image: a card has a multiple of "),
        ("nrf52840-qspi", "the flash has 8,388,608 bytes, and the storage image {:,}"),
    ],
)
def test_an_image_of_another_size_than_the_storage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: str,
    message: str,
    size_bytes: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / IMAGE).write_bytes(bytes(size_bytes))
    chip = SAMD21 if machine == "samd21" else NRF52840
    elf = chip.compile(tmp_path, "void reset(void) { end(); }")
    monkeypatch.setattr("sys.argv", ["unicorn", machine, str(elf)])
    assert main() == 1
    assert capsys.readouterr().err.startswith(f"{machine}: {message.format(size_bytes)}")


def test_a_program_behind_a_bootloader_does_not_start_by_itself() -> None:
    flash, ram = CoreMemory(0, b"\xff" * (1 << 20)), CoreMemory(0x20000000, bytes(1 << 18))
    with pytest.raises(MachineError, match="no program's vectors are at 0x00000000"):
        Core(CoreModel.CORTEX_M4F, Bus(), flash, ram, ())


# Exceptions ------------------------------------------------------------------------------------

SYSTICK = """
#define START(reload) (REGISTER(0xe000e014u) = (reload), REGISTER(0xe000e018u) = 0u, \\
                       REGISTER(0xe000e010u) = 7u)
#define STOP() (REGISTER(0xe000e010u) = 0u)
static volatile uint32_t times, number, back, alignment;
static volatile float noise;
__attribute__((naked)) void systick(void)
{
    __asm__ volatile("mov r0, lr\\n mov r1, sp\\n push {r4, lr}\\n bl count\\n pop {r1, r2}\\n"
                     "mov lr, r2\\n mov r0, #0\\n msr apsr_nzcvq, r0\\n mov r1, r0\\n"
                     "mov r2, r0\\n mov r3, r0\\n mov r12, r0\\n bx lr");
}
void count(uint32_t lr, uint32_t sp);
__attribute__((used)) void count(uint32_t lr, uint32_t sp)
{
    times++;
    back = lr;
    alignment |= sp & 7u;
    __asm__ volatile("mrs %0, ipsr" : "=r"(lr));
    number = lr;
#ifdef WITH_FPU
    noise = noise * 1.5f + 1.0f;
    __asm__ volatile("vmov s0, %0\\n vmov s1, %0\\n vmov s14, %0\\n vmov s15, %0" ::"r"(sp));
#endif
}
/* Branches, conditional instructions and floating point: all that an exception must keep. */
__attribute__((unused)) static uint32_t mix(uint32_t rounds)
{
    uint32_t a = 1u, b = 2u;
#ifdef WITH_FPU
    float f = 0.0f;
#endif
    for (uint32_t i = 0u; i < rounds; i++) {
#if __ARM_ARCH_ISA_THUMB >= 2
        __asm__ volatile("tst %0, #1\\n itete ne\\n addne %1, #3\\n subeq %1, #1\\n"
                         "eorne %0, %0, %1\\n addeq %0, %0, %1, lsl #1" : "+r"(a), "+r"(b)::"cc");
#else
        __asm__ volatile("lsr %0, #1\\n bcc 1f\\n add %1, #3\\n b 2f\\n 1: sub %1, #1\\n"
                         "2: adc %0, %1" : "+l"(a), "+l"(b)::"cc");
#endif
        a = a * 1664525u + i;
#ifdef WITH_FPU
        f = f * 0.75f + (float)(a >> 8);
#endif
    }
#ifdef WITH_FPU
    a += (uint32_t)f;
#endif
    return a ^ b;
}
"""
FPU_ON = 'REGISTER(0xe000ed88u) = 0xfu << 20; __asm__ volatile("dsb\\n isb");'


CHIPS = pytest.mark.parametrize("chip", [NRF52840, SAMD21], ids=["M4F", "M0+"])


@pytest.mark.parametrize(
    ("chip", "fpu"),
    [(NRF52840, False), (NRF52840, True), (SAMD21, False)],
    ids=["M4", "M4F", "M0+"],
)
def test_an_exception_leaves_everything_as_it_was(
    tmp_path: Path, chip: BareChip, fpu: bool
) -> None:
    steps = """
        SAY(mix(200000u)); START(9999u); SAY(mix(200000u)); STOP();
        SAY(times); SAY(number); SAY(back); SAY(alignment); end();
    """
    define = "#define WITH_FPU\n" if fpu else ""
    program = define + SYSTICK + f"void reset(void) {{ {FPU_ON if fpu else ''} {steps} }}"
    quiet, disturbed, times, number, back, alignment = chip.says(tmp_path, program)
    assert disturbed == quiet
    assert times > 100
    assert number == 15
    assert back == (0xFFFFFFE9 if fpu else 0xFFFFFFF9)
    assert alignment == 0


@CHIPS
def test_an_exception_returns_from_a_plain_function(tmp_path: Path, chip: BareChip) -> None:
    program = """
        static volatile uint32_t times;
        void systick(void) { times++; }
        void reset(void) {
            REGISTER(0xe000e014u) = 999u; REGISTER(0xe000e018u) = 0u; REGISTER(0xe000e010u) = 7u;
            while (times < 5u) { wait(); }
            REGISTER(0xe000e010u) = 0u; SAY(times); end();
        }
    """
    assert chip.says(tmp_path, program) == [5]


@CHIPS
def test_systick_comes_as_often_as_it_should(tmp_path: Path, chip: BareChip) -> None:
    loop = '__asm__ volatile(".syntax unified\\n 1: subs %0, #1\\n bne 1b" : "+r"(n));'
    program = f"uint32_t n = 500000u; START(49999u); {loop} STOP(); SAY(times); end();"
    (times,) = chip.says(tmp_path, SYSTICK + f"void reset(void) {{ {program} }}")
    assert times == 1_000_000 // 50_000


@CHIPS
def test_an_exception_waits_until_it_is_let_in(tmp_path: Path, chip: BareChip) -> None:
    program = """
        __asm__ volatile("cpsid i"); START(99u); SAY(mix(5000u)); SAY(times);
        __asm__ volatile("cpsie i"); (void)mix(5000u); STOP(); SAY(times != 0u); end();
    """
    assert chip.says(tmp_path, SYSTICK + f"void reset(void) {{ {program} }}")[1:] == [0, 1]


@CHIPS
def test_sleep_ends_with_systick_or_never(tmp_path: Path, chip: BareChip) -> None:
    """The second sleep ends at once: an exception has come since the first began."""
    program = "START(999999u); wait(); wait(); wait(); STOP(); SAY(times); end();"
    assert chip.says(tmp_path, SYSTICK + f"void reset(void) {{ {program} }}") == [2]


@CHIPS
def test_systick_counts_down_as_time_goes_on(tmp_path: Path, chip: BareChip) -> None:
    loop = '__asm__ volatile(".syntax unified\\n 1: subs %0, #1\\n bne 1b" : "+r"(n));'
    program = f"""
        uint32_t n = 500000u; __asm__ volatile("cpsid i"); START(0xffffffu);
        SAY(REGISTER(0xe000e018u)); {loop} SAY(REGISTER(0xe000e018u));
        SAY(REGISTER(0xe000ed04u)); n = 8000000u; {loop} SAY(REGISTER(0xe000e018u));
        SAY(REGISTER(0xe000ed04u)); STOP(); end();
    """
    first, value, none, wrapped, pending = chip.says(
        tmp_path, SYSTICK + f"void reset(void) {{ {program} }}"
    )
    assert first == 0  # it begins with the next cycle
    assert -value % (1 << 24) == pytest.approx(1_000_000, abs=SLICE)
    assert -wrapped % (1 << 24) == pytest.approx(17_000_000 - (1 << 24), abs=SLICE)
    assert (none, pending) == (0, 1 << 26)


INTERRUPTED = f"""
#define START() (REGISTER({START_DEVICE:#x}u) = 1u)
#define CLEAR() (REGISTER({CLEAR_DEVICE:#x}u) = 1u)
#define ENABLE() (REGISTER(0xe000e104u) = 1u << 3)
static volatile uint32_t times, number;
__attribute__((unused)) static uint32_t loops(void)
{{
    uint32_t n = 0u;
    while (times == 0u && n < 100000u) {{ n++; }}
    return n;
}}
void device(void);
"""
HANDLER = """
void device(void)
{
    uint32_t ipsr;
    __asm__ volatile("mrs %0, ipsr" : "=r"(ipsr));
    number = ipsr;
    times++;
    CLEAR();
}
"""


@CHIPS
def test_a_device_interrupts_when_its_time_has_come(tmp_path: Path, chip: BareChip) -> None:
    steps = "ENABLE(); START(); SAY(loops()); SAY(number); SAY(times); (void)loops(); SAY(times);"
    program = INTERRUPTED + HANDLER + f"void reset(void) {{ {steps} end(); }}"
    waited, number, *times = chip.says(tmp_path, program)
    assert number == 16 + DEVICE
    assert times == [1, 1]
    assert DEVICE_CYCLES / 8 < waited < (DEVICE_CYCLES + SLICE) / 3  # of 4 to 7 instructions


@CHIPS
@pytest.mark.parametrize("lets_in", ["ENABLE();", '__asm__ volatile("cpsie i");'])
def test_a_device_waits_until_it_is_let_in(tmp_path: Path, chip: BareChip, lets_in: str) -> None:
    before = '__asm__ volatile("cpsid i"); ENABLE();' if "cpsie" in lets_in else ""
    steps = f"{before} START(); SAY(loops()); {lets_in} SAY(loops() < 100000u); SAY(times);"
    program = INTERRUPTED + HANDLER + f"void reset(void) {{ {steps} end(); }}"
    assert chip.says(tmp_path, program) == [100_000, 1, 1]


@CHIPS
def test_an_interrupt_that_is_not_cleared_comes_again(tmp_path: Path, chip: BareChip) -> None:
    handler = "void device(void) { if (++times == 5u) { REGISTER(0xe000e184u) = 1u << 3; } }"
    steps = "ENABLE(); START(); (void)loops(); SAY(times); end();"
    assert chip.says(tmp_path, INTERRUPTED + handler + f"void reset(void) {{ {steps} }}") == [5]


@CHIPS
def test_a_device_ends_sleep(tmp_path: Path, chip: BareChip) -> None:
    steps = "ENABLE(); START(); wait(); SAY(times); end();"
    program = INTERRUPTED + HANDLER + f"void reset(void) {{ {steps} }}"
    assert chip.says(tmp_path, program) == [1]


def test_the_cycle_counter_counts_instructions(tmp_path: Path) -> None:
    program = """
        REGISTER(0xe000edfcu) = 1u << 24; REGISTER(0xe0001004u) = 0u;
        REGISTER(0xe0001000u) = REGISTER(0xe0001000u) | 1u;
        uint32_t n = 500000u; uint32_t before = REGISTER(0xe0001004u);
        __asm__ volatile("1: subs %0, #1\\n bne 1b" : "+r"(n));
        SAY(REGISTER(0xe0001004u) - before); end();
    """
    (cycles,) = NRF52840.says(tmp_path, f"void reset(void) {{ {program} }}")
    assert cycles == pytest.approx(1_000_000, abs=SLICE)
