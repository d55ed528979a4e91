# SPDX-License-Identifier: Apache-2.0
"""A family's drivers, compiled for this computer, on a strict model of its chip."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pytest
from sd_card import BLOCK, Card

from emulator.firmware_tools import (
    SAMPLE,
    TEMPLATES,
    compile_c,
    compile_sample,
    run_program,
    sample_image,
    slot_offset,
)
from poetfw.boards import with_used
from poetfw.tools.emulators.unicorn.bus import MachineError, Register
from poetfw.tools.emulators.unicorn.chip import Chip as ChipModel
from poetfw.tools.link.frames import AnswerFrame, decode_answer

CORE = Path(__file__).parent / "chip"
OUT_OF_REACH = 1 << 30
"""More polls than any wait has."""
_RAM, _APART = 0x20000000, 0x10000
_LONGEST_STORM = 1_000_000


class Model(Protocol):
    """What a model of a chip has for all."""

    card: Card
    console: bytes
    misuse: list[str]

    def install(self, library: ctypes.CDLL) -> list[object]:
        """Make it the library's chip; what is returned must be kept as long as it is used."""


class Processor:
    """What is around a chip's registers: the drivers' code, interrupts, SysTick, and memory.

    Time goes on with each read of a register, as it would in a loop that polls.

    Attributes:
        card: what hangs on the SPI pins.
        registers: the chip's; `polls` and `pending` are theirs.
        console: what was sent to it.
        polls: how often it must be asked before what it waits for has come, by name; SPI is an
            exchange.
        polls_per_byte: the same for each byte of an exchange on SPI, besides.
        storm: how often the chip interrupts although nothing has ended.
        typed: what is sent to it, as soon as it sleeps.
        burst: how much of that comes at once.
        on_read: called before each read of a register, with its name.
        writes: every register written, with its value, in order.
        misuse: what the model refuses.
        cycles: how many have passed since a counter was cleared.
        handled: how many of SysTick's interrupts were taken.
        reads_in_thread: how often a register was read outside of an interrupt.
        reset: whether the chip was told to reset itself.
        bites_at: in which cycle its watchdog resets it; None where it does not run.
        warns_at: in which it warns of that.
    """

    handler: ClassVar[str]
    names: ClassVar[Mapping[int, str]] = {
        0xE000E010: "SYST.CSR",
        0xE000E014: "SYST.RVR",
        0xE000E018: "SYST.CVR",
        0xE000E100: "NVIC.ISER[0]",
        0xE000E104: "NVIC.ISER[1]",
        0xE000E180: "NVIC.ICER[0]",
        0xE000E184: "NVIC.ICER[1]",
        0xE000E280: "NVIC.ICPR",
        0xE000ED04: "SCB.ICSR",
        0xE000ED10: "SCB.SCR",
        0xE000ED0C: "SCB.AIRCR",
        0xE000EDFC: "DEMCR",
        0xE0001000: "DWT.CTRL",
        0xE0001004: "DWT.CYCCNT",
    }

    def __init__(
        self,
        chip: ChipModel,
        names: Mapping[int, str],
        card: Card,
        polls: dict[str, int] | None = None,
        polls_per_byte: int = 0,
        typed: bytes = b"",
        burst: int = 1,
    ) -> None:
        self.registers = registers = chip
        self.card = card
        self.console = b""
        self.polls = registers.polls = polls or {}
        self.pending = registers.pending
        self.polls_per_byte = polls_per_byte
        self.storm = 0.0
        self.typed, self.burst = typed, burst
        self.on_read: Callable[[str], None] = lambda name: None
        self.writes: list[tuple[str, int]] = []
        self.misuse: list[str] = []
        self.cycles = self.handled = 0
        self.reads_in_thread = 0
        self.reset = False
        self.bites_at: int | None = None
        self.warns_at: int | None = None
        self._names = {**names, **self.names}
        self._library: ctypes.CDLL | None = None
        self._lines: dict[int, Callable[[], bool]] = {}
        self._enabled: int | None = None
        self._handling = False
        self._polls_left = 0
        self._happen: Callable[[], None] = lambda: None
        self._exchanged_bytes = 0
        self._barrier = self._settled = False
        self._places: dict[int, int] = {}
        self._pending = False
        self._systick = registers.keep(0xE000E010, Register((0, 7)))
        self._system_control = registers.keep(0xE000ED10, Register((1 << 4,)))
        registers.writable[0xE000E280] = self._clear_pending
        registers.keep(0xE000E014, Register((0xFFFFFF,)))
        registers.readable[0xE000E018] = lambda: -self.cycles & 0xFFFFFF
        registers.writable[0xE000E018] = self._clear_systick
        registers.readable[0xE000ED04] = lambda: (self.cycles >> 24 > self.handled) << 26
        for word in (0, 1):
            registers.writable[0xE000E100 + 4 * word] = partial(self._enable, word, True)
            registers.writable[0xE000E180 + 4 * word] = partial(self._enable, word, False)
        registers.writable[0xE000ED0C] = self._reset
        registers.keep(0xE000EDFC, Register((1 << 24,)))
        registers.keep(0xE0001000, Register((1,)))
        registers.readable[0xE0001004] = self._count
        registers.writable[0xE0001004] = lambda value: None
        registers.attach(self)

    def install(self, library: ctypes.CDLL) -> list[object]:
        """Make it the library's chip; what is returned must be kept as long as it is used."""
        self._library = library
        u32 = ctypes.c_uint32
        callbacks: dict[str, object] = {
            "test_read": ctypes.CFUNCTYPE(u32, u32)(lambda address: self.read(address, 4)),
            "test_write": ctypes.CFUNCTYPE(None, u32, u32)(lambda a, v: self.write(a, 4, v)),
            "test_read_part": ctypes.CFUNCTYPE(u32, u32, u32)(self.read),
            "test_write_part": ctypes.CFUNCTYPE(None, u32, u32, u32)(self.write),
            "test_dma_address": ctypes.CFUNCTYPE(u32, ctypes.c_void_p)(self._dma_address),
            "test_barrier": ctypes.CFUNCTYPE(None)(self._set_barrier),
            "test_sleep": ctypes.CFUNCTYPE(ctypes.c_int)(self._sleep),
        }
        return connect(library, callbacks)

    def values(self, name: str) -> list[int]:
        """What was written to a register, in order."""
        return [value for written, value in self.writes if written == name]

    # What the drivers do -----------------------------------------------------------------------

    def read(self, address: int, size_bytes: int) -> int:
        """Read a register, after what happens until then."""
        self.on_read(self._names.get(address, "none"))
        try:
            self._pass()
            return self.registers.read(address, size_bytes)
        except MachineError as error:
            self.misuse.append(str(error))
            return 0

    def write(self, address: int, size_bytes: int, value: int) -> None:
        """Write a register."""
        self.writes.append((self._names.get(address, "none"), value))
        try:
            self.registers.write(address, size_bytes, value)
        except MachineError as error:
            self.misuse.append(str(error))
        self._settled = False

    def _dma_address(self, pointer: int) -> int:
        """A place in RAM as the chip's DMA is told of it, aligned alike."""
        self._barrier = False
        for place, known in self._places.items():
            if known == pointer:
                return place
        place = _RAM + _APART * len(self._places) + pointer % 16
        self._places[place] = pointer
        return place

    def _set_barrier(self) -> None:
        self._barrier = self._settled = True

    def _clear_pending(self, value: int) -> None:
        self._pending = self.registers.has_received()

    def _sleep(self) -> bool:
        """The core waits for an event: an interrupt that becomes pending is one, if it is told so.

        Some characters come in, which the firmware must take before it sleeps again.
        """
        if self._systick.value:
            self.misuse.append("SysTick ends each sleep")
        if not self.typed or not self.registers.listens():
            return False
        wakes = not (self._pending or self.registers.has_received())
        self._pending = True
        try:
            self.registers.receive(self.typed[: self.burst])
        except MachineError as error:
            self.misuse.append(str(error))
        self.typed = self.typed[self.burst :]
        return wakes and bool(self._system_control.value)

    def _clear_systick(self, value: int) -> None:
        self.cycles = self.handled = 0

    def _count(self) -> int:
        self.cycles += 100
        return self.cycles

    def _reset(self, value: int) -> None:
        if value != 0x05FA0004 or not self._settled:
            raise MachineError("a reset without its key, or before what was written is there")
        self.reset = True

    def _enable(self, word: int, on: bool, value: int) -> None:
        interrupt = 32 * word + value.bit_length() - 1
        if interrupt not in self._lines or value.bit_count() != 1:
            raise MachineError("no interrupt that there is")
        self._enabled = interrupt if on else None

    # What the chip does ------------------------------------------------------------------------

    def _pass(self) -> None:
        """Let what is under way come nearer to its end, and take its interrupt."""
        if self._handling:
            return
        self.reads_in_thread += 1
        for _ in range(_LONGEST_STORM):
            if self._polls_left > 0:
                self._polls_left -= 1
                if self._polls_left == 0:
                    self._happen()
            line = self._lines[self._enabled] if self._enabled is not None else None
            if line is None or self._library is None:
                return
            if not line():
                if self.storm <= 0:
                    return
                self.storm -= 1
            self._handling = True
            self._library[self.handler]()
            self._handling = False
        raise MachineError("interrupts for ever")

    def connect(self, interrupt: int, line: Callable[[], bool]) -> None:
        """Connect an interrupt; the drivers enable one, whose handler is `handler`."""
        self._lines[interrupt] = line

    def after(self, cycles: int, happen: Callable[[], None]) -> None:
        """Let an exchange on SPI end."""
        polls = (
            self.polls.get("SPI", self.registers.other_polls)
            + self.polls_per_byte * self._exchanged_bytes
        )
        self._polls_left = max(1, polls) if polls < OUT_OF_REACH else 0
        self._happen = happen

    def watch(
        self, cycles: int, margin: int = 0, warn: Callable[[], int | None] | None = None
    ) -> None:
        """Let a watchdog reset the chip after so many cycles."""
        self.bites_at = self.cycles + cycles
        self.warns_at = self.cycles + cycles - margin

    def dma_read(self, address: int, size_bytes: int) -> bytes:
        """Read RAM."""
        if not self._barrier:
            raise MachineError("DMA begins before what it is told is in RAM")
        return ctypes.string_at(self._pointer(address), size_bytes)

    def dma_write(self, address: int, data: bytes) -> None:
        """Write RAM."""
        ctypes.memmove(self._pointer(address), data, len(data))

    def _pointer(self, address: int) -> int:
        place = max(place for place in self._places if place <= address)
        return self._places[place] + address - place

    def select(self, selected: bool) -> None:
        """Drive the card's select pin."""
        self.card.select(selected)

    def exchange(self, sent: bytes, clock_hz: int, start_s: float) -> bytes:
        """What the card sends at the same time."""
        self._exchanged_bytes = len(sent)
        self.card.clock(clock_hz)
        return self.card.exchange_all(sent)

    def print(self, text: bytes) -> None:
        """Show what the console receives."""
        self.console += text


ChipT = TypeVar("ChipT", bound=Model)


def compile_drivers(folder: Path, family: str, *flags: str, without: Container[str] = ()) -> Path:
    """The sample project with a family's drivers as a shared library; it listens if told to.

    Those of the families that it uses go along, but for some files.
    """
    listens = any(flag.startswith("-DPOET_LISTEN_TICKS") for flag in flags)
    quiet = () if listens else ("-DPOET_LISTEN_TICKS=0u",)
    hals = [f"hal/{used}" for used in sorted(with_used([family]))]
    templates = [TEMPLATES / d for d in ("storage", "runtime", *hals)]
    folders = [*templates, SAMPLE / "src/generated"]
    sources = [file for folder in folders for file in sorted(folder.glob("*.c"))]
    sources = [f for f in sources if f.name != "poet_memory.c" and f.name not in without]
    return compile_c(
        folder / f"{family}.so",
        [CORE / "core.c", *sources],
        [CORE, *folders, TEMPLATES / "hal", TEMPLATES / "hal/cortex_m"],
        *("-include", str(CORE / "core.h"), "-shared", "-fPIC", *quiet, *flags),
    )


def drivers(family: str, *flags: str) -> Callable[..., Path]:
    """Create a module's fixture: the family's drivers, compiled with these flags."""

    @pytest.fixture(scope="module")
    def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return compile_drivers(tmp_path_factory.mktemp(family), family, *flags)

    return compiled


def impatient_drivers(
    family: str, polls: int, polls_per_byte: int, *flags: str
) -> Callable[..., Path]:
    """Create the fixture of drivers whose waits end early: a million polls take seconds here."""
    limits = f"-DPOET_POLLS={polls}u", f"-DPOET_POLLS_PER_BYTE={polls_per_byte}u"
    return drivers(family, *limits, *flags)


def connect(library: ctypes.CDLL, callbacks: Mapping[str, object]) -> list[object]:
    """Have the library call these; what is returned must be kept as long as it is used."""
    for name, callback in callbacks.items():
        address = ctypes.cast(callback, ctypes.c_void_p).value  # type: ignore[arg-type]
        ctypes.c_void_p.in_dll(library, name).value = address
    return list(callbacks.values())


@dataclass(frozen=True)
class Trained:
    """What the sample project comes to."""

    lines: list[str]
    weight: bytes


def trained_here(folder: Path, steps: int) -> Trained:
    """The sample project run as a program of this computer."""
    native = compile_sample(folder / "native", "posix")
    image = folder / "storage.img"
    image.write_bytes(sample_image(steps=steps))
    code, lines = run_program([str(native), str(image)], folder)
    assert code == 0
    content = image.read_bytes()
    lines = [line for line in lines if not line.startswith("@storage ")]  # it is a file here only
    return Trained(lines, content[slot_offset(content, "weight") :][:4])


def native(steps: int) -> Callable[..., Trained]:
    """Create a module's fixture: the sample project, trained on this computer."""

    @pytest.fixture(scope="module")
    def here(tmp_path_factory: pytest.TempPathFactory) -> Trained:
        return trained_here(tmp_path_factory.mktemp("native"), steps)

    return here


def check_answers(lines: Sequence[str]) -> None:
    """Check the answers of a board that was asked for its name, in damage, and hello."""
    assert lines[-6:-4] == ["m-name-dut-[poetfw]", "m-ready"]
    assert [decode_answer(lines[i].encode()) for i in (-4, -2)] == [
        AnswerFrame(True, 0, "damaged", (), None),
        AnswerFrame(False, 7, "hello", ("3", "5a3b1e00", "sample"), None),
    ]


def check_training(board: Board[Any], here: Trained) -> None:
    """Check that a board trains as this computer does, without misuse of its card."""
    lines = board.run()
    assert [*map(without_ticks, lines)] == [*map(without_ticks, here.lines)]
    assert "tick_unit=cycles" in lines[-1]
    assert board.weight == here.weight
    assert board.chip.card.misuse == []


def without_ticks(line: str) -> str:
    """A line of the console without what no two boards have in common."""
    return " ".join(word for word in line.split() if not word.startswith(("ticks=", "tick_unit=")))


class Board(Generic[ChipT]):
    """The drivers on a chip, with variables of their own.

    Attributes:
        steps: how many `run` trains.
    """

    steps: ClassVar[int] = 1

    def __init__(self, library: Path, chip: ChipT) -> None:
        with NamedTemporaryFile(suffix=".so") as copy:
            copy.write(library.read_bytes())
            copy.flush()
            self.library = ctypes.CDLL(copy.name)
        self.chip = chip
        self._kept = chip.install(self.library)

    def start(self) -> int:
        return self.call("poet_hal_init")

    def start_bus(self, hz: int = 400_000) -> None:
        """Start the SPI bus by itself."""
        assert self.start() == 0
        self.call("poet_hal_spi_init")
        self.call("poet_hal_spi_clock", hz)

    def call(self, name: str, *arguments: object) -> int:
        status: int = self.library[name](*arguments)
        assert self.chip.misuse == [], self.chip.misuse
        return status

    def run(self) -> list[str]:
        """Run the sample project on a card with its image; the console's lines."""
        image = bytes(sample_image(steps=self.steps))
        blocks = range(len(image) // BLOCK)
        self.chip.card.content = {i: image[i * BLOCK :][:BLOCK] for i in blocks}
        self.call("test_run")
        return self.chip.console.decode().splitlines()

    @property
    def weight(self) -> bytes:
        """What was trained, on the card."""
        blocks = range(len(sample_image()) // BLOCK)
        content = b"".join(map(self.chip.card.block, blocks))
        return content[slot_offset(content, "weight") :][:4]
