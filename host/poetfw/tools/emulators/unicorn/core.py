# SPDX-License-Identifier: Apache-2.0
"""A Cortex-M: unicorn executes instructions; SysTick, exceptions, sleep and reset are here.

One instruction takes one cycle. The processor runs in slices; time, scheduled events and exceptions
advance between slices, which avoids a callback per instruction. All exceptions have the same
priority, which the firmware does not change: no exception preempts another. Addresses and bits are
those of the ARMv7-M Architecture Reference Manual, of which ARMv6-M has a subset.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Any

import unicorn as uc
from unicorn import arm_const as arm

from poetfw.tools.emulators.unicorn.bus import ANY, Bus, MachineError, Register

SLICE = 2_000
"""Largest number of instructions in a slice, hence the cycle counter's largest delay."""
_SLICE_AFTER_EXCEPTION = 64
"""First slice after an exception, when the firmware is likely to start something; slices double
from there."""

_NEVER = 0xFFFFFFFE  # no instruction is there
_NEVER_CYCLES = 1 << 62
_WFE = b"\x20\xbf"

_SYST_CSR, _SYST_RVR, _SYST_CVR = 0xE000E010, 0xE000E014, 0xE000E018
_SYST_OFF, _SYST_ON_WITH_INTERRUPT = 0, 7
_ICSR, _ICSR_PENDSTSET = 0xE000ED04, 1 << 26
_VTOR, _VTOR_ALIGNMENT = 0xE000ED08, 1 << 7
_AIRCR, _AIRCR_SYSRESETREQ = 0xE000ED0C, 0x05FA0004
_SCR, _SCR_SEVONPEND = 0xE000ED10, 1 << 4
_CPACR, _CPACR_FPU = 0xE000ED88, 0xF << 20
_DEMCR, _DEMCR_TRCENA = 0xE000EDFC, 1 << 24
_DWT_CTRL, _DWT_CTRL_RESET, _DWT_CTRL_CYCCNTENA = 0xE0001000, 1 << 30, 1
_DWT_CYCCNT = 0xE0001004

_NVIC_ISER, _NVIC_ICER, _NVIC_ICPR = 0xE000E100, 0xE000E180, 0xE000E280
_INTERRUPTS = range(64)
_SYSTICK = 15
_FIRST_INTERRUPT = 16
_VECTOR_BYTES = 4
_EXC_RETURN = 0xFFFFFFE1  # the bits that all of them have
_EXC_RETURN_MAIN = 0xFFFFFFF9  # to a program on the main stack
_EXC_RETURN_NO_FPU = 1 << 4
_CONTROL_SPSEL, _CONTROL_FPCA = 1 << 1, 1 << 2
_XPSR_THUMB, _XPSR_PADDED = 1 << 24, 1 << 9

_BASIC = (
    *(arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R1, arm.UC_ARM_REG_R2, arm.UC_ARM_REG_R3),
    *(arm.UC_ARM_REG_R12, arm.UC_ARM_REG_LR, arm.UC_ARM_REG_PC, arm.UC_ARM_REG_XPSR),
)
_FPU = (*range(arm.UC_ARM_REG_S0, arm.UC_ARM_REG_S0 + 16), arm.UC_ARM_REG_FPSCR)


class CoreModel(Enum):
    """A processor model, by its number in unicorn."""

    CORTEX_M0PLUS = arm.UC_CPU_ARM_CORTEX_M0
    CORTEX_M4F = arm.UC_CPU_ARM_CORTEX_M4


class StopReason(Enum):
    """Reason why a processor stopped."""

    ASLEEP = auto()
    SOFTWARE = auto()
    PIN = auto()
    WATCHDOG = auto()


@dataclass(frozen=True)
class CoreMemory:
    """Memory content and its start address."""

    address: int
    content: bytes

    def __contains__(self, place: tuple[int, int]) -> bool:
        """True if all `(address, size_bytes)` lies within the memory."""
        address, size_bytes = place
        end = self.address + len(self.content)
        return self.address <= address and address + size_bytes <= end


class Core:
    """A processor, from its reset on, and its memory."""

    def __init__(
        self,
        model: CoreModel,
        bus: Bus,
        flash: CoreMemory,
        ram: CoreMemory,
        peripherals: Sequence[tuple[int, int]],
        vectors: int = 0,
    ) -> None:
        """Create a processor after reset.

        Args:
            model: the processor model.
            bus: registers of the peripherals; the processor's own registers are added.
            flash: program memory, read-only.
            ram: data memory, not executable.
            peripherals: start address and size in bytes of each register area, the processor's
                included.
            vectors: address of the vector table in flash.

        Raises:
            MachineError: Flash holds no program.
        """
        self._bus = bus
        self._ram = ram
        self._cycles = 0
        self._slice = SLICE
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._lines: dict[int, Callable[[], bool]] = {}
        self._enabled: set[int] = set()
        self._wraps_at: int | None = None
        self._systick_pending = False
        self._counts_from = 0
        self._event = False
        self._pending: set[int] = set()
        self._watched = _NEVER_CYCLES
        self._margin = 0
        self._warn: Callable[[], int | None] | None = None
        self._counts_asleep = self._woken_to_feed = False
        self._cpacr = Register((0, _CPACR_FPU))
        self._ending: StopReason | None = None
        self._error: MachineError | None = None
        # Without UC_MODE_MCLASS, which would turn any model into a Cortex-M33.
        self._uc = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB, model.value)
        for memory, rights in (
            (flash, uc.UC_PROT_READ | uc.UC_PROT_EXEC),
            (ram, uc.UC_PROT_READ | uc.UC_PROT_WRITE),
        ):
            self._uc.mem_map(memory.address, len(memory.content), rights)
            self._uc.mem_write(memory.address, memory.content)
        for address, size_bytes in peripherals:
            self._uc.mmio_map(address, size_bytes, self._read, address, self._write, address)
        self._uc.hook_add(uc.UC_HOOK_MEM_INVALID, self._refuse)
        self._add_registers()
        if model is CoreModel.CORTEX_M4F:
            self._add_registers_of_m4()
        self._flash = flash
        self._vectors = flash.content[vectors - flash.address :]
        stack, self._pc = struct.unpack_from("<2I", self._vectors)
        if (stack - 4, 4) not in ram or (self._pc & ~1, 2) not in flash:
            raise MachineError(f"no program's vectors are at 0x{vectors:08x}")
        self._uc.reg_write(arm.UC_ARM_REG_SP, stack)

    def ram(self) -> CoreMemory:
        """Current content of RAM."""
        size_bytes = len(self._ram.content)
        return CoreMemory(
            self._ram.address, bytes(self._uc.mem_read(self._ram.address, size_bytes))
        )

    def dma_read(self, address: int, size_bytes: int) -> bytes:
        """Read RAM as a DMA controller does.

        Raises:
            MachineError: The address range is not RAM.
        """
        self._check_dma(address, size_bytes)
        return bytes(self._uc.mem_read(address, size_bytes))

    def dma_write(self, address: int, data: bytes) -> None:
        """Write RAM as a DMA controller does.

        Raises:
            MachineError: The address range is not RAM.
        """
        self._check_dma(address, len(data))
        self._uc.mem_write(address, data)

    def _check_dma(self, address: int, size_bytes: int) -> None:
        if (address, size_bytes) not in self._ram:
            raise MachineError(f"DMA of {size_bytes} bytes at 0x{address:08x}, which is not RAM")

    @property
    def cycles(self) -> int:
        """Time since the reset, in cycles, as of the last slice."""
        return self._cycles

    def after(self, cycles: int, happen: Callable[[], None]) -> None:
        """Schedule an action after a number of cycles; actions run in order of time."""
        heapq.heappush(self._events, (self._cycles + cycles, next(self._numbers), happen))

    def press(self) -> None:
        """Press the reset button."""
        self._ending = StopReason.PIN

    def watch(
        self, cycles: int, margin: int = 0, warn: Callable[[], int | None] | None = None
    ) -> None:
        """Restart the watchdog, which resets the chip after a number of cycles awake.

        Args:
            cycles: cycles until the reset; those asleep count only with `warn`.
            margin: cycles left when `warn` is called.
            warn: early warning; returns the interrupt that it makes pending, if any.
        """
        self._watched, self._margin, self._warn = cycles, margin, warn
        self._counts_asleep = warn is not None

    def connect(self, interrupt: int, line: Callable[[], bool]) -> None:
        """Connect an interrupt; it is requested while `line` returns True."""
        self._lines[interrupt] = line

    @property
    def wakes_by_pending(self) -> bool:
        """True if a pending interrupt ends sleep even if it is not enabled (SEVONPEND)."""
        return bool(self._system_control.value)

    def run(self) -> StopReason:
        """Run until the chip is reset, or sleeps with no event of the core left to wake it.

        A watchdog's warning is not such an event: firmware that wakes, feeds the watchdog and
        sleeps again would run for ever. Another call continues from sleep.

        Raises:
            MachineError: The firmware did something that the chip forbids or the model lacks.
        """
        self._woken_to_feed = False
        try:
            while self._ending is None:
                self._run_slice()
                if (exception := self._requested()) and not self._masked():
                    self._enter(exception)
        except MachineError as error:
            pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
            raise MachineError(f"{error}; pc 0x{pc:08x}") from error
        ending, self._ending = self._ending, None
        return ending

    # Instructions ------------------------------------------------------------------------------

    def _run_slice(self) -> None:
        soonest = min(self._next_cycles() - self._cycles, self._unwatched_cycles())
        instructions = max(1, min(self._slice, soonest))
        self._slice = min(SLICE, 2 * self._slice)
        try:
            self._uc.emu_start(self._pc | 1, _NEVER, count=instructions)
        except uc.UcError as error:
            self._trap(error)
        else:
            self._pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
            self._pass(instructions)
            self._event |= self._count(instructions)
        if self._error is not None:
            raise self._error
        fpu_used = self._uc.reg_read(arm.UC_ARM_REG_CONTROL) & _CONTROL_FPCA
        if fpu_used and self._cpacr.value != _CPACR_FPU:
            raise MachineError("the FPU is used before it is switched on")

    def _trap(self, error: uc.UcError) -> None:
        self._pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
        if self._error is not None:
            return
        if error.errno == uc.UC_ERR_EXCEPTION and self._pc & _EXC_RETURN == _EXC_RETURN & ~1:
            self._return(self._pc)
        elif error.errno == uc.UC_ERR_INSN_INVALID and self._before(self._pc) == _WFE:
            self._sleep()
        else:
            raise MachineError(f"an instruction that cannot be executed: {error}")

    def _before(self, pc: int) -> bytes:
        return bytes(self._uc.mem_read(pc - len(_WFE), len(_WFE)))

    # Exceptions --------------------------------------------------------------------------------

    def _requested(self) -> int | None:
        """Exception to take next, SysTick first; None if none is requested."""
        if self._systick_pending:
            return _SYSTICK
        for interrupt in sorted(self._enabled):
            if self._lines[interrupt]():
                return _FIRST_INTERRUPT + interrupt
        return None

    def _masked(self) -> bool:
        registers = arm.UC_ARM_REG_PRIMASK, arm.UC_ARM_REG_IPSR
        return any(self._uc.reg_read(register) for register in registers)

    def _enter(self, exception: int) -> None:
        """Enter an exception (section B1.5.6); the stack frame includes FPU registers if in use."""
        control = self._uc.reg_read(arm.UC_ARM_REG_CONTROL)
        if control & _CONTROL_SPSEL:
            raise MachineError("an exception on the process stack, which is not modelled")
        with_fpu = bool(control & _CONTROL_FPCA)
        frame = [self._uc.reg_read(register) for register in (*_BASIC, *_FPU[: 17 * with_fpu])]
        frame += [0] * with_fpu  # reserved
        top = self._uc.reg_read(arm.UC_ARM_REG_SP)
        stack = (top - 4 * len(frame)) & ~7
        if (top - 4 * len(frame)) & 4:
            frame[len(_BASIC) - 1] |= _XPSR_PADDED
        self.dma_write(stack, struct.pack(f"<{len(frame)}I", *frame))
        self._uc.reg_write(arm.UC_ARM_REG_SP, stack)
        self._uc.reg_write(arm.UC_ARM_REG_CONTROL, control & ~_CONTROL_FPCA)
        back = _EXC_RETURN_MAIN & ~(_EXC_RETURN_NO_FPU * with_fpu)
        self._uc.reg_write(arm.UC_ARM_REG_LR, back)
        self._set_psr(_XPSR_THUMB | exception)
        (self._pc,) = struct.unpack_from("<I", self._vectors, _VECTOR_BYTES * exception)
        self._slice = _SLICE_AFTER_EXCEPTION
        if exception == _SYSTICK:
            self._systick_pending = False

    def _return(self, exc_return: int) -> None:
        """Exception return (section B1.5.8)."""
        with_fpu = not exc_return & _EXC_RETURN_NO_FPU
        stack = self._uc.reg_read(arm.UC_ARM_REG_SP)
        registers = (*_BASIC, *_FPU[: 17 * with_fpu])
        frame = struct.unpack(f"<{len(registers)}I", self.dma_read(stack, 4 * len(registers)))
        xpsr = frame[len(_BASIC) - 1]
        for register, value in zip(registers, frame, strict=True):
            self._uc.reg_write(register, value)
        self._set_psr(xpsr & ~_XPSR_PADDED)
        control = self._uc.reg_read(arm.UC_ARM_REG_CONTROL) & ~_CONTROL_FPCA
        self._uc.reg_write(arm.UC_ARM_REG_CONTROL, control | _CONTROL_FPCA * with_fpu)
        padding = 4 * bool(xpsr & _XPSR_PADDED)
        self._uc.reg_write(arm.UC_ARM_REG_SP, stack + 4 * (len(registers) + with_fpu) + padding)
        self._pc = frame[len(_BASIC) - 2]
        self._event = True  # an exception's return is an event: the next WFE does not sleep

    def _set_psr(self, value: int) -> None:
        self._uc.reg_write(arm.UC_ARM_REG_XPSR_NZCVQG, value)
        # Writing the flags makes unicorn update whether the processor handles an exception.
        self._uc.reg_write(arm.UC_ARM_REG_APSR_NZCV, value)

    # Time --------------------------------------------------------------------------------------

    def _next_cycles(self) -> int:
        """Cycle of the next scheduled event; far in the future without one."""
        times = [self._wraps_at] if self._wraps_at is not None else []
        return min(times + [at for at, *_ in self._events[:1]], default=_NEVER_CYCLES)

    def _pass(self, cycles: int) -> None:
        self._cycles += cycles
        while self._events and self._events[0][0] <= self._cycles:
            heapq.heappop(self._events)[-1]()
        while self._wraps_at is not None and self._cycles >= self._wraps_at:
            self._systick_pending = True
            self._wraps_at += self._reload.value + 1

    def _unwatched_cycles(self) -> int:
        """Cycles until the watchdog warns or resets."""
        return self._watched - (0 if self._warn is None else self._margin)

    def _count(self, cycles: int) -> bool:
        """Advance the watchdog; returns True if its warning wakes the processor."""
        self._watched -= cycles
        if self._watched <= 0 and self._ending is None:
            self._ending = StopReason.WATCHDOG
        if self._warn is None or self._watched > self._margin:
            return False
        interrupt, self._warn = self._warn(), None
        if interrupt is None or interrupt in self._pending:
            return False
        self._pending.add(interrupt)
        return self.wakes_by_pending

    def _sleep(self) -> None:
        """Advance time to the next event that may wake the processor."""
        if self._event:
            self._event = False
            return
        fed = self._woken_to_feed and self._warn is not None and not self._pending
        if self._next_cycles() == _NEVER_CYCLES and (fed or not self._counts_asleep):
            self._ending = StopReason.ASLEEP
        while self._ending is None:
            cycles = max(0, self._next_cycles() - self._cycles)
            if not self._counts_asleep or cycles <= self._unwatched_cycles():
                self._count(cycles * self._counts_asleep)
                self._pass(cycles)
                return
            cycles = self._unwatched_cycles()
            self._pass(cycles)
            if self._count(cycles):
                self._woken_to_feed = True
                return

    # Registers ---------------------------------------------------------------------------------

    def _add_registers(self) -> None:
        self._reload = self._bus.keep(_SYST_RVR, Register(range(1, 1 << 24)))
        self._bus.readable[_SYST_CVR] = self._systick_value
        self._bus.writable[_SYST_CVR] = self._clear_systick
        self._bus.writable[_SYST_CSR] = self._switch_systick
        self._bus.readable[_ICSR] = lambda: (
            _ICSR_PENDSTSET * self._systick_pending | self._uc.reg_read(arm.UC_ARM_REG_IPSR)
        )
        self._bus.writable[_VTOR] = self._move_vectors
        self._bus.writable[_AIRCR] = self._reset
        self._system_control = self._bus.keep(_SCR, Register((_SCR_SEVONPEND,)))
        self._bus.writable[_NVIC_ICPR] = self._clear_pending
        for word in (0, 1):
            self._bus.writable[_NVIC_ISER + 4 * word] = self._switch_interrupts(word, True)
            self._bus.writable[_NVIC_ICER + 4 * word] = self._switch_interrupts(word, False)

    def _add_registers_of_m4(self) -> None:
        self._bus.keep(_CPACR, self._cpacr)
        self._demcr = self._bus.keep(_DEMCR, Register((0, _DEMCR_TRCENA)))
        control = _DWT_CTRL_RESET, _DWT_CTRL_RESET | _DWT_CTRL_CYCCNTENA
        self._dwt = self._bus.keep(_DWT_CTRL, Register(control, _DWT_CTRL_RESET))
        self._bus.readable[_DWT_CYCCNT] = self._cycle_counter
        self._bus.writable[_DWT_CYCCNT] = self._set_cycle_counter

    def _systick_value(self) -> int:
        """Read the counter, which counts down and interrupts at 0 (section B3.3.1)."""
        if self._wraps_at is None:
            raise MachineError("SysTick is read while it is off")
        return (self._wraps_at - self._cycles) % (self._reload.value + 1)

    def _clear_systick(self, value: int) -> None:
        if self._wraps_at is not None:
            raise MachineError("SysTick is cleared while it counts, which is not modelled")

    def _switch_systick(self, value: int) -> None:
        if value not in (_SYST_OFF, _SYST_ON_WITH_INTERRUPT):
            raise MachineError(f"0x{value:08x} is not modelled in SysTick's CSR")
        on = value == _SYST_ON_WITH_INTERRUPT
        self._wraps_at = self._cycles + self._reload.value + 1 if on else None

    def _move_vectors(self, address: int) -> None:
        if address % _VTOR_ALIGNMENT or (address, _VECTOR_BYTES) not in self._flash:
            raise MachineError(f"no vectors can be at 0x{address:08x}")
        self._vectors = self._flash.content[address - self._flash.address :]

    def _switch_interrupts(self, word: int, on: bool) -> Callable[[int], None]:
        def write(value: int) -> None:
            for interrupt in (i for i in _INTERRUPTS if i // 32 == word and value >> i % 32 & 1):
                if interrupt not in self._lines:
                    raise MachineError(f"the interrupt {interrupt} is not modelled")
                (self._enabled.add if on else self._enabled.discard)(interrupt)

        return write

    def _clear_pending(self, value: int) -> None:
        self._pending -= {i for i in _INTERRUPTS if value >> i & 1}

    def _cycle_counter(self) -> int:
        if not (self._demcr.value and self._dwt.value & _DWT_CTRL_CYCCNTENA):
            raise MachineError("the cycle counter is read before it is switched on")
        return (self._cycles - self._counts_from) % len(ANY)

    def _set_cycle_counter(self, value: int) -> None:
        self._counts_from = self._cycles - value

    def _reset(self, value: int) -> None:
        if value != _AIRCR_SYSRESETREQ:
            raise MachineError(f"0x{value:08x} is not modelled in AIRCR")
        self._ending = StopReason.SOFTWARE
        self._uc.emu_stop()

    # Callbacks of unicorn ----------------------------------------------------------------------

    def _read(self, engine: uc.Uc, offset: int, size_bytes: int, base: int) -> int:
        try:
            return self._bus.read(base + offset, size_bytes)
        except MachineError as error:
            self._give_up(error)
            return 0

    def _write(self, engine: uc.Uc, offset: int, size_bytes: int, value: int, base: int) -> None:
        try:
            self._bus.write(base + offset, size_bytes, value)
        except MachineError as error:
            self._give_up(error)

    def _refuse(
        self, engine: uc.Uc, access: int, address: int, size_bytes: int, value: int, data: Any
    ) -> bool:
        kinds = {
            uc.UC_MEM_WRITE_UNMAPPED: "a write",
            uc.UC_MEM_WRITE_PROT: "a write",
            uc.UC_MEM_FETCH_UNMAPPED: "an instruction fetch",
            uc.UC_MEM_FETCH_PROT: "an instruction fetch",
        }
        self._error = MachineError(
            f"{kinds.get(access, 'a read')} of {size_bytes} bytes at 0x{address:08x}, "
            "where that is not possible"
        )
        return False

    def _give_up(self, error: MachineError) -> None:
        """Stop and keep the error; raised through unicorn, an exception would lose its message."""
        self._error = error
        self._uc.emu_stop()
