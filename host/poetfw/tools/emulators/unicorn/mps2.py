# SPDX-License-Identifier: Apache-2.0
"""Arm's MPS2 board with the AN386 image, a Cortex-M4F, whose storage is a file by semihosting.

The model of the machine that QEMU calls `mps2-an386`, as far as the firmware uses it. It runs at
full speed, because nothing happens by itself: no interrupt is taken, and storage and console answer
at once. Only with `counts` does the timer advance, by one tick in 40 instructions, since counting
takes unicorn ten times as long.

Sources: Arm DAI 0386 (memory map, table 3-2), CMSDK Technical Reference Manual (timer, UART), Arm
"Semihosting for AArch32 and AArch64" 2.0, ARMv7-M Architecture Reference Manual, B3.5 (MPU).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import unicorn as uc
from unicorn import arm_const as arm

from poetfw.firmware import IMAGE
from poetfw.tools.emulators.unicorn.bus import Bus, MachineError, Register
from poetfw.tools.emulators.unicorn.chip import Console, Keyboard

_CODE, _RAM, _MEMORY_BYTES = 0x00000000, 0x20000000, 4 << 20
_AREAS = ((0x40000000, 0x10000), (0xE0000000, 0x10000))
_PAGE_BYTES = 4096
_NEVER = 0xFFFFFFFE  # no instruction is there
_SLICE = 100
"""Instructions between two advances of the timer."""
_INSTRUCTIONS_PER_TICK = 40

_TIMER_CTRL, _TIMER_VALUE, _TIMER_RELOAD = 0x40000000, 0x40000004, 0x40000008
_UART_DATA, _UART_STATE, _UART_CTRL = 0x40004000, 0x40004004, 0x40004008
_UART_INTERRUPTS, _UART_BAUDDIV = 0x4000400C, 0x40004010
_UART_RX_FULL, _UART_ON = 2, 1 | 2 | 8
_VTOR, _CPACR = 0xE000ED08, 0xE000ED88
_NVIC_ISER, _NVIC_ICER, _NVIC_ICPR, _RX_INTERRUPT = 0xE000E100, 0xE000E180, 0xE000E280, 1
_MPU_CTRL, _MPU_RBAR, _MPU_RASR = 0xE000ED94, 0xE000ED9C, 0xE000EDA0
_RBAR_VALID, _RBAR_REGION, _RASR_ENABLE = 1 << 4, 15, 1

_BREAKPOINT = b"\xab\xbe"  # bkpt 0xab
_WFI = b"\x30\xbf"
_OPEN, _WRITE, _READ, _SEEK, _LENGTH, _COMMAND_LINE, _EXIT = 1, 5, 6, 10, 12, 21, 32
_HANDLE = 5
_READ_WRITE_BINARY = 3  # fopen's "r+b"
_FAILED = 0xFFFFFFFF
_APPLICATION_EXIT = 0x20026
_LISTENS = b"firmware listen"
_SILENT = b"firmware"


class Mps2:
    """The machine from its start to its exit."""

    flash_bytes: ClassVar[int] = _MEMORY_BYTES
    architectures: ClassVar[tuple[int, ...]] = (10, 11, 12, 13)  # ARMv7, ARMv6-M … ARMv7E-M

    def __init__(
        self,
        flash: bytes,
        storage: BinaryIO,
        console: Console,
        keyboard: Keyboard | None = None,
        *,
        counts: bool,
    ) -> None:
        """Set up the machine.

        Args:
            flash: content of the code memory.
            storage: file of the storage image, readable and writable.
            console: receiver of the UART's lines.
            keyboard: source of the UART's input, which makes the firmware listen; None for neither.
            counts: True to count instructions.

        Raises:
            MachineError: The code memory holds no program.
        """
        self._storage, self._console, self._keyboard = storage, console, keyboard
        self._counts, self._instructions = counts, 0
        self._said, self._heard = bytearray(), bytearray()
        self._region, self._regions = 0, dict[int, tuple[int, int]]()
        self._guard_waits = False
        self._exit_code: int | None = None
        self._error: MachineError | None = None
        self._uc = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB, arm.UC_CPU_ARM_CORTEX_M4)
        self._uc.mem_map(_CODE, _MEMORY_BYTES, uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        self._uc.mem_map(_RAM, _MEMORY_BYTES, uc.UC_PROT_READ | uc.UC_PROT_WRITE)
        self._uc.mem_write(_CODE, flash)
        for area, size_bytes in _AREAS:
            self._uc.mmio_map(area, size_bytes, self._load, area, self._store, area)
        self._uc.hook_add(uc.UC_HOOK_INTR, self._trap)
        self._uc.hook_add(uc.UC_HOOK_MEM_INVALID, self._refuse)
        self._trapped = False
        self._bus = Bus()
        self._add_registers()
        stack, self._pc = struct.unpack_from("<2I", flash)
        if not (_RAM < stack <= _RAM + _MEMORY_BYTES and self._pc & 1 and self._pc < len(flash)):
            raise MachineError("the code memory does not begin with a program's vectors")
        self._uc.reg_write(arm.UC_ARM_REG_SP, stack)

    def run(self) -> int:
        """Run until the firmware exits; returns its exit code.

        Raises:
            MachineError: The firmware did something that the machine forbids or the model lacks.
        """
        try:
            while self._exit_code is None:
                self._run_on()
        except MachineError as error:
            raise MachineError(f"{error}; pc 0x{self._pc & ~1:08x}") from error
        finally:
            self._console(bytes(self._said))
        return self._exit_code

    def _run_on(self) -> None:
        """Run to the next service, sleep or slice's end."""
        count = _SLICE if self._counts else 0
        try:
            self._uc.emu_start(self._pc | 1, _NEVER, count=count)
        except uc.UcError as error:
            self._pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
            unknown = MachineError(f"an instruction that cannot be executed: {error}")
            raise self._error or unknown from error
        self._pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
        self._instructions += count
        if self._error is not None:
            raise self._error
        if self._trapped:
            self._trapped = False
            if self._at(self._pc) != _BREAKPOINT:
                raise MachineError("an exception, which is not modelled")
            self._serve()
            self._pc += len(_BREAKPOINT)
        elif self._at(self._pc - len(_WFI)) == _WFI:
            self._sleep()

    def _at(self, address: int) -> bytes:
        return bytes(self._uc.mem_read(address, 2))

    def _sleep(self) -> None:
        """Wait for input; the machine has nothing else that could wake it."""
        if self._heard:
            return
        if self._keyboard is None:
            raise MachineError("the firmware sleeps, and nothing can wake it")
        self._console(bytes(self._said))
        self._said.clear()
        self._heard += self._keyboard()

    # Services ----------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Serve a semihosting call: its number in r0, its arguments at r1; the result is in r0."""
        service = self._uc.reg_read(arm.UC_ARM_REG_R0)
        place = self._uc.reg_read(arm.UC_ARM_REG_R1)
        first, second, third = struct.unpack("<3I", self._uc.mem_read(place, 12))
        result = 0
        if service == _OPEN:
            name = bytes(self._uc.mem_read(first, third)).decode(errors="replace")
            result = _HANDLE if (name, second) == (IMAGE, _READ_WRITE_BINARY) else _FAILED
        elif service == _WRITE:
            self._storage.write(self._uc.mem_read(second, third))
        elif service == _READ:
            content = self._storage.read(third)
            self._uc.mem_write(second, content)
            result = third - len(content)
        elif service == _SEEK:
            self._storage.seek(second)
        elif service == _LENGTH:
            result = self._storage.seek(0, 2)
        elif service == _COMMAND_LINE:
            line = _SILENT if self._keyboard is None else _LISTENS
            self._uc.mem_write(first, line + b"\0")
            self._uc.mem_write(place + 4, struct.pack("<I", len(line)))
        elif service == _EXIT:
            self._exit_code = second if first == _APPLICATION_EXIT else 1
        else:
            raise MachineError(f"the semihosting service {service}, which is not modelled")
        self._uc.reg_write(arm.UC_ARM_REG_R0, result)
        if self._guard_waits:
            self._guard()

    # Memory protection -------------------------------------------------------------------------

    def _guard(self) -> None:
        """Unmap the memory that no region makes accessible, in whole pages."""
        self._guard_waits = False
        open_pages = {page for start, end in self._covered() for page in _pages(start, end)}
        for start in (_CODE, _RAM):
            for page in _pages(start, start + _MEMORY_BYTES):
                if page not in open_pages:
                    self._uc.mem_unmap(page, _PAGE_BYTES)

    def _covered(self) -> Iterator[tuple[int, int]]:
        """Start and end of each enabled eighth of a region."""
        for base, attributes in self._regions.values():
            size = 2 << (attributes >> 1 & 31)
            eighths = range(8) if attributes & _RASR_ENABLE else ()
            for eighth in eighths:
                if not attributes >> 8 + eighth & 1:
                    start = base + eighth * (size // 8)
                    yield start, min(start + size // 8, _RAM + _MEMORY_BYTES)

    # Registers ---------------------------------------------------------------------------------

    def _add_registers(self) -> None:
        bus = self._bus
        bus.keep(_TIMER_CTRL, Register((1,)))
        bus.keep(_TIMER_RELOAD, Register((0xFFFFFFFF,)))
        bus.writable[_TIMER_VALUE] = lambda value: None
        bus.readable[_TIMER_VALUE] = lambda: (
            0xFFFFFFFF - self._instructions // _INSTRUCTIONS_PER_TICK % (1 << 32)
        )
        bus.keep(_UART_BAUDDIV, Register(range(16, 1 << 20)))
        bus.keep(_UART_CTRL, Register((_UART_ON,)))
        bus.readable[_UART_STATE] = lambda: _UART_RX_FULL * bool(self._heard)
        bus.writable[_UART_DATA] = self._say
        bus.readable[_UART_DATA] = lambda: self._heard.pop(0) if self._heard else 0
        bus.writable[_UART_INTERRUPTS] = lambda value: None
        bus.keep(_VTOR, Register((_CODE,)))
        bus.keep(_CPACR, Register((0xF << 20,)))
        for address in (_NVIC_ISER, _NVIC_ICER, _NVIC_ICPR):
            bus.keep(address, Register((_RX_INTERRUPT,)))
        bus.writable[_MPU_RBAR] = self._choose_region
        bus.writable[_MPU_RASR] = self._set_region
        bus.writable[_MPU_CTRL] = self._switch_guard

    def _say(self, character: int) -> None:
        self._said.append(character & 0xFF)
        if character == ord("\n"):
            self._console(bytes(self._said))
            self._said.clear()

    def _choose_region(self, value: int) -> None:
        if not value & _RBAR_VALID:
            raise MachineError("a region's base without its number, which is not modelled")
        self._region = value & _RBAR_REGION
        self._regions[self._region] = value & ~(_RBAR_VALID | _RBAR_REGION), 0

    def _set_region(self, value: int) -> None:
        base, _ = self._regions[self._region]
        self._regions[self._region] = base, value

    def _switch_guard(self, value: int) -> None:
        """Guard memory from the next service on: memory cannot be unmapped under an instruction."""
        if value != 1:
            raise MachineError(f"0x{value:08x} is not modelled in MPU_CTRL")
        self._guard_waits = True

    # Callbacks of unicorn ----------------------------------------------------------------------

    def _trap(self, engine: uc.Uc, number: int, data: object) -> None:
        self._trapped = True
        engine.emu_stop()

    def _load(self, engine: uc.Uc, offset: int, size_bytes: int, area: int) -> int:
        try:
            return self._bus.read(area + offset, size_bytes)
        except MachineError as error:
            self._give_up(error)
            return 0

    def _store(self, engine: uc.Uc, offset: int, size_bytes: int, value: int, area: int) -> None:
        try:
            self._bus.write(area + offset, size_bytes, value)
        except MachineError as error:
            self._give_up(error)

    def _refuse(
        self, engine: uc.Uc, access: int, address: int, size_bytes: int, value: int, data: object
    ) -> bool:
        kinds = {uc.UC_MEM_WRITE_UNMAPPED: "a write", uc.UC_MEM_WRITE_PROT: "a write"}
        self._error = MachineError(
            f"{kinds.get(access, 'a read')} of {size_bytes} bytes at 0x{address:08x}, where that "
            "is not possible"
        )
        return False

    def _give_up(self, error: MachineError) -> None:
        """Stop and keep the error; raised through unicorn, an exception would lose its message."""
        self._error = error
        self._uc.emu_stop()


def _pages(start: int, end: int) -> range:
    """Addresses of the pages that a range touches."""
    return range(start // _PAGE_BYTES * _PAGE_BYTES, end, _PAGE_BYTES)
