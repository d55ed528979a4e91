# SPDX-License-Identifier: Apache-2.0
"""Registers by address; an access to any other address is an error."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

WORD_BYTES = 4
ANY = range(1 << 32)


class MachineError(Exception):
    """The firmware did something that the chip forbids or its model lacks."""


@dataclass
class Register:
    """A register that keeps the value written to it.

    Attributes:
        allowed: values that may be written.
        value: current value; initially the reset value.
    """

    allowed: Container[int] = ANY
    value: int = 0


@dataclass
class Bus:
    """Registers of a chip.

    Attributes:
        readable: read handlers, by address.
        writable: write handlers, by address.
        sizes: size in bytes of registers that are not one word.
    """

    readable: dict[int, Callable[[], int]] = field(default_factory=dict)
    writable: dict[int, Callable[[int], None]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def _has(self, address: int, size_bytes: int) -> bool:
        return size_bytes == self.sizes.get(address, WORD_BYTES)

    def keep(self, address: int, register: Register) -> Register:
        """Add a register that reads back the value written to it."""

        def write(value: int) -> None:
            if value not in register.allowed:
                raise MachineError(f"0x{value:08x} is not modelled in the register 0x{address:08x}")
            register.value = value

        self.readable[address] = lambda: register.value
        self.writable[address] = write
        return register

    def task(self, address: int, start: Callable[[], None]) -> None:
        """Add a task register, which triggers an action when 1 is written to it."""

        def write(value: int) -> None:
            if value != 1:
                raise MachineError(f"0x{value:08x} is written to the task 0x{address:08x}")
            start()

        self.writable[address] = write

    def read(self, address: int, size_bytes: int) -> int:
        """Read a register.

        Raises:
            MachineError: The register is not modelled, or the access has another size.
        """
        if address not in self.readable or not self._has(address, size_bytes):
            raise MachineError(
                f"a read of {size_bytes} bytes from 0x{address:08x}, which is not modelled"
            )
        return self.readable[address]()

    def write(self, address: int, size_bytes: int, value: int) -> None:
        """Write a register.

        Raises:
            MachineError: The register is not modelled, the value is not, or the access has another
                size.
        """
        if address not in self.writable or not self._has(address, size_bytes):
            raise MachineError(
                f"a write of {size_bytes} bytes to 0x{address:08x}, which is not modelled"
            )
        self.writable[address](value)
