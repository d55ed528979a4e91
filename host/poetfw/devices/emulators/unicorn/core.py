# SPDX-License-Identifier: Apache-2.0
"""A Cortex-M4F: unicorn's instructions, with SysTick, exceptions, sleep and reset of our own.

A cycle is an instruction. The processor runs in slices; between two of them time goes on and
exceptions are taken, so that nothing is called for each instruction. Addresses and bits are those
of the ARMv7-M Architecture Reference Manual.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import unicorn as uc
from unicorn import arm_const as arm

from poetfw.devices.emulators.unicorn.bus import ANY, Bus, MachineError, Register

SLICE = 10_000
"""Most instructions between two looks at the time: what the cycle counter may be late."""

_NEVER = 0xFFFFFFFE  # no instruction is there
_WFE = b"\x20\xbf"

_SYST_CSR, _SYST_RVR, _SYST_CVR = 0xE000E010, 0xE000E014, 0xE000E018
_SYST_OFF, _SYST_ON_WITH_INTERRUPT = 0, 7
_AIRCR, _AIRCR_SYSRESETREQ = 0xE000ED0C, 0x05FA0004
_CPACR, _CPACR_FPU = 0xE000ED88, 0xF << 20
_DEMCR, _DEMCR_TRCENA = 0xE000EDFC, 1 << 24
_DWT_CTRL, _DWT_CTRL_RESET, _DWT_CTRL_CYCCNTENA = 0xE0001000, 1 << 30, 1
_DWT_CYCCNT = 0xE0001004

_SYSTICK = 15
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


class Ending(Enum):
    """Why a processor stopped."""

    ASLEEP = auto()
    RESET = auto()


@dataclass(frozen=True)
class Memory:
    """Bytes at an address."""

    address: int
    content: bytes

    def __contains__(self, place: tuple[int, int]) -> bool:
        """Whether so many bytes from an address on lie within."""
        address, size_bytes = place
        end = self.address + len(self.content)
        return self.address <= address and address + size_bytes <= end


class Core:
    """A processor from reset on, with its memory."""

    def __init__(
        self, bus: Bus, flash: Memory, ram: Memory, peripherals: Sequence[tuple[int, int]]
    ) -> None:
        """Connect a processor.

        Args:
            bus: gets the processor's own registers, beside the peripherals'.
            flash: begins with the vectors; it cannot be written.
            ram: cannot be executed.
            peripherals: address and bytes of each area of registers, the processor's own included.

        Raises:
            MachineError: flash holds no program.
        """
        self._bus = bus
        self._ram = ram
        self._cycles = 0
        self._wraps_at: int | None = None
        self._systick_pending = False
        self._counts_from = 0
        self._ending: Ending | None = None
        self._error: MachineError | None = None
        self._uc = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
        self._uc.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_M4)
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
        stack, self._pc = struct.unpack_from("<2I", flash.content)
        if (stack - 4, 4) not in ram or (self._pc & ~1, 2) not in flash:
            raise MachineError("the flash does not begin with a program's vectors")
        self._uc.reg_write(arm.UC_ARM_REG_SP, stack)
        self._vectors = flash

    def ram(self) -> Memory:
        """RAM as it is."""
        size_bytes = len(self._ram.content)
        return Memory(self._ram.address, bytes(self._uc.mem_read(self._ram.address, size_bytes)))

    def dma_read(self, address: int, size_bytes: int) -> bytes:
        """Read RAM as a DMA controller does.

        Raises:
            MachineError: it is not RAM.
        """
        self._check_dma(address, size_bytes)
        return bytes(self._uc.mem_read(address, size_bytes))

    def dma_write(self, address: int, data: bytes) -> None:
        """Write RAM as a DMA controller does.

        Raises:
            MachineError: it is not RAM.
        """
        self._check_dma(address, len(data))
        self._uc.mem_write(address, data)

    def _check_dma(self, address: int, size_bytes: int) -> None:
        if (address, size_bytes) not in self._ram:
            raise MachineError(f"DMA of {size_bytes} bytes at 0x{address:08x}, which is not RAM")

    def run(self) -> Ending:
        """Run until the firmware resets the chip, or sleeps with nothing of the core to wake it up.

        Called again, what slept goes on.

        Raises:
            MachineError: it does what the chip does not allow or the model does not know.
        """
        try:
            while self._ending is None:
                self._run_slice()
                if self._systick_pending and not self._masked():
                    self._enter(_SYSTICK)
        except MachineError as error:
            pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
            raise MachineError(f"{error}; pc 0x{pc:08x}") from error
        ending, self._ending = self._ending, None
        return ending

    # Instructions ------------------------------------------------------------------------------

    def _run_slice(self) -> None:
        count = SLICE if self._wraps_at is None else min(SLICE, self._wraps_at - self._cycles)
        try:
            self._uc.emu_start(self._pc | 1, _NEVER, count=count)
        except uc.UcError as error:
            self._trap(error)
        else:
            self._pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
            self._pass(count)
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

    def _masked(self) -> bool:
        registers = arm.UC_ARM_REG_PRIMASK, arm.UC_ARM_REG_IPSR
        return any(self._uc.reg_read(register) for register in registers)

    def _enter(self, exception: int) -> None:
        """Exception entry (section B1.5.6), whose frame has room for the FPU if it is in use."""
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
        self._uc.reg_write(arm.UC_ARM_REG_XPSR, _XPSR_THUMB | exception)
        self._uc.reg_write(arm.UC_ARM_REG_IPSR, exception)
        (self._pc,) = struct.unpack_from("<I", self._vectors.content, _VECTOR_BYTES * exception)
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
        self._uc.reg_write(arm.UC_ARM_REG_XPSR, xpsr & ~_XPSR_PADDED)
        self._uc.reg_write(arm.UC_ARM_REG_IPSR, 0)
        control = self._uc.reg_read(arm.UC_ARM_REG_CONTROL) & ~_CONTROL_FPCA
        self._uc.reg_write(arm.UC_ARM_REG_CONTROL, control | _CONTROL_FPCA * with_fpu)
        padding = 4 * bool(xpsr & _XPSR_PADDED)
        self._uc.reg_write(arm.UC_ARM_REG_SP, stack + 4 * (len(registers) + with_fpu) + padding)
        self._pc = frame[len(_BASIC) - 2]

    # Time --------------------------------------------------------------------------------------

    def _pass(self, cycles: int) -> None:
        self._cycles += cycles
        while self._wraps_at is not None and self._cycles >= self._wraps_at:
            self._systick_pending = True
            self._wraps_at += self._reload.value + 1

    def _sleep(self) -> None:
        """Let time pass until SysTick wakes the processor up; nothing else can."""
        if self._wraps_at is None:
            self._ending = Ending.ASLEEP
        else:
            self._pass(self._wraps_at - self._cycles)

    # Registers ---------------------------------------------------------------------------------

    def _add_registers(self) -> None:
        self._reload = self._bus.keep(_SYST_RVR, Register(range(1, 1 << 24)))
        self._bus.keep(_SYST_CVR, Register((0,)))
        self._bus.writable[_SYST_CSR] = self._switch_systick
        self._bus.writable[_AIRCR] = self._reset
        self._cpacr = self._bus.keep(_CPACR, Register((0, _CPACR_FPU)))
        self._demcr = self._bus.keep(_DEMCR, Register((0, _DEMCR_TRCENA)))
        control = _DWT_CTRL_RESET, _DWT_CTRL_RESET | _DWT_CTRL_CYCCNTENA
        self._dwt = self._bus.keep(_DWT_CTRL, Register(control, _DWT_CTRL_RESET))
        self._bus.readable[_DWT_CYCCNT] = self._cycle_counter
        self._bus.writable[_DWT_CYCCNT] = self._set_cycle_counter

    def _switch_systick(self, value: int) -> None:
        if value not in (_SYST_OFF, _SYST_ON_WITH_INTERRUPT):
            raise MachineError(f"0x{value:08x} is not modelled in SysTick's CSR")
        on = value == _SYST_ON_WITH_INTERRUPT
        self._wraps_at = self._cycles + self._reload.value + 1 if on else None

    def _cycle_counter(self) -> int:
        if not (self._demcr.value and self._dwt.value & _DWT_CTRL_CYCCNTENA):
            raise MachineError("the cycle counter is read before it is switched on")
        return (self._cycles - self._counts_from) % len(ANY)

    def _set_cycle_counter(self, value: int) -> None:
        self._counts_from = self._cycles - value

    def _reset(self, value: int) -> None:
        if value != _AIRCR_SYSRESETREQ:
            raise MachineError(f"0x{value:08x} is not modelled in AIRCR")
        self._ending = Ending.RESET
        self._uc.emu_stop()

    # What unicorn calls ------------------------------------------------------------------------

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
        """Stop; an exception that went through unicorn would cost the message."""
        self._error = error
        self._uc.emu_stop()
