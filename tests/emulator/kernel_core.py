# SPDX-License-Identifier: Apache-2.0
"""Kernels as a core has them, run on their own, with no memory beside their tensors.

Tensors end, and then begin, where memory does: what lies beside one cannot be read or written.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import unicorn as uc
from unicorn import arm_const as arm

from compiling import compile_each
from emulator.firmware_tools import C_FLAGS, CORTEX_M0PLUS, CORTEX_M4F, TEMPLATES
from poetfw.ir import NUMPY_TYPES, Attribute
from poetfw.ops import KINDS, Array, Constants
from poetfw.ops.base import DIVISORS, PLAIN_LOOPS, Field, TileTable
from unit.kernels.conftest import INCLUDES, KERNELS, WARNINGS, graph_of_one

PAGE = 0x1000
CODE, RETURN, STACK, TENSORS = 0x10000, 0x8000, 0x20000000, 0x40000000
STACK_BYTES, APART = 4 * PAGE, 0x1000000
ARGUMENTS = [getattr(arm, f"UC_ARM_REG_R{number}") for number in range(4)]
KEPT = [getattr(arm, f"UC_ARM_REG_R{number}") for number in range(4, 12)]
KEPT_FLOATS = [getattr(arm, f"UC_ARM_REG_S{number}") for number in range(16, 32)]
MODELS = {
    "cortex-m0plus": arm.UC_CPU_ARM_CORTEX_M0,
    "cortex-m4": arm.UC_CPU_ARM_CORTEX_M4,
    "cortex-m7": arm.UC_CPU_ARM_CORTEX_M7,
    "cortex-m33": arm.UC_CPU_ARM_CORTEX_M33,
}
MOST_ON_STACK = 8
"""Arguments beside those in registers."""
BESIDE = {True: b"\x3c", False: b"\xff"}
"""What fills the page of a tensor: NaN beside what is read, which would show in a result."""


needs_compiler = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc"
)


@dataclass(frozen=True)
class Build:
    """How kernels are compiled.

    Attributes:
        machine: flags of the core, of which those of a Cortex-M0+ have no FPU.
        compiler: "gcc" or "clang".
        level: of optimisation.
        dot: the file that sums where there is no FPU.
        flags: further ones.
    """

    machine: tuple[str, ...] = CORTEX_M4F
    compiler: str = "gcc"
    level: str = "-O2"
    dot: str = "dot.c"
    flags: tuple[str, ...] = ()

    @property
    def fpu(self) -> bool:
        """True for a core with an FPU."""
        return self.machine != CORTEX_M0PLUS

    def __str__(self) -> str:
        core = "m4f" if self.fpu else f"m0+ {self.dot.removesuffix('.c')}"
        return f"{core} {self.compiler} {self.level}"


@dataclass(frozen=True)
class Operand:
    """What an argument points to, and whether a kernel may write it."""

    content: bytes
    written: bool = False


class Core:
    """A program of all kernels, and a core that runs one of its functions at a time."""

    def __init__(self, build: Build, folder: Path, objects: Sequence[str] = ()) -> None:
        self._fpu = build.fpu
        elf, image = folder / "kernels.elf", folder / "kernels.bin"
        objects = objects or kernel_objects(build, folder)
        link = ("-nostdlib", f"-Wl,-Ttext={CODE:#x},-e,memcpy", "-lgcc", "-o", str(elf))
        subprocess.run(["arm-none-eabi-gcc", *build.machine, *objects, *link], check=True)
        subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(image)], check=True)
        said = subprocess.run(
            ["arm-none-eabi-nm", str(elf)], check=True, capture_output=True, text=True
        ).stdout
        lines = (line.split() for line in said.splitlines())
        self._addresses = {name: int(address, 16) for address, _, name in lines}
        self._core = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
        (core,) = (flag for flag in build.machine if flag.startswith("-mcpu="))
        self._core.ctl_set_cpu_model(MODELS[core.removeprefix("-mcpu=")])
        self._map(CODE, image.read_bytes(), uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        self._map(RETURN, b"", uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        self._map(STACK, bytes(STACK_BYTES), uc.UC_PROT_READ | uc.UC_PROT_WRITE)

    def run(
        self,
        kind: str,
        inputs: Sequence[Array],
        attributes: Mapping[str, Attribute] | None = None,
        updates: Sequence[Array] = (),
    ) -> tuple[Array, ...]:
        """What an op leaves: its output, if it has one, and then what it updates.

        Once with the tensors at the end of their memory, and once at its beginning.
        """
        op, graph = graph_of_one(kind, inputs, attributes or {}, updates)
        kernel = KINDS[kind].kernel(op, graph)
        contents = {name: value.tobytes() for name, value in zip(op.inputs, inputs, strict=True)}
        contents |= {name: value.tobytes() for name, value in zip(op.updates, updates, strict=True)}
        written = op.updates if op.output is None else (op.output, *op.updates)
        results = []
        for end, prefill in ((True, b"\xa5"), (False, b"\x5a")):
            if op.output is not None:
                contents[op.output] = graph.by_name[op.output].size_bytes * prefill
            self._place = _Place(self._map, end)
            given = [] if kernel.struct is None else [self._constants(kernel.fields)]
            at = {name: self._place(Operand(contents[name], True)) for name in written}
            for argument in kernel.arguments:
                if isinstance(argument, Constants):
                    given.append(self._constants(argument.fields))
                elif isinstance(argument, str):
                    if argument not in at:
                        at[argument] = self._place(Operand(contents[argument]))
                    given.append(at[argument])
                else:
                    given.append(argument or 0)
            if kernel.workspace_bytes:
                given.append(self._place(Operand(kernel.workspace_bytes * prefill, True)))
            self._call(kernel.function, given)
            results.append([self._left(at[name], kernel.function) for name in written])
            for _, base, size in self._place.regions.values():
                self._core.mem_unmap(base, size)
        assert results[0] == results[1], f"{kernel.function}: bits depend on old contents or place"
        return tuple(
            np.frombuffer(left, NUMPY_TYPES[graph.by_name[name].dtype]).reshape(
                graph.by_name[name].shape
            )
            for name, left in zip(written, results[0], strict=True)
        )

    def call(self, function: str, given: Sequence[Operand | str]) -> list[bytes]:
        """Contents of the written operands after a call; a string is the address of a symbol."""
        self._place = _Place(self._map, end=True)
        operands = [one for one in given if isinstance(one, Operand)]
        at = {id(one): self._place(one) for one in operands}
        self._call(
            function, [at[id(o)] if isinstance(o, Operand) else self._addresses[o] for o in given]
        )
        left = [self._left(at[id(one)], function) for one in operands if one.written]
        for _, base, size in self._place.regions.values():
            self._core.mem_unmap(base, size)
        return left

    def address(self, symbol: str) -> int:
        """The address of a symbol of the program."""
        return self._addresses[symbol]

    def _map(self, address: int, content: bytes, allowed: int) -> int:
        size = max(1, -(-len(content) // PAGE)) * PAGE
        self._core.mem_map(address, size, allowed)
        self._core.mem_write(address, content)
        return size

    def _constants(self, fields: Sequence[tuple[str, Field]]) -> int:
        """The address of a struct, each of whose members takes four bytes."""
        content = b""
        for _, value in fields:
            if isinstance(value, tuple):
                table = struct.pack(f"<{len(value)}f", *value)
                content += struct.pack("<I", self._place(Operand(table)))
            elif isinstance(value, str):
                content += struct.pack("<I", self._addresses[value] | 1)
            elif value is None or isinstance(value, TileTable):  # the plain loops
                content += struct.pack("<I", 0)
            else:
                content += struct.pack("<f" if isinstance(value, float) else "<i", value)
        return self._place(Operand(content))

    def _call(self, function: str, given: Sequence[int]) -> None:
        stack = STACK + STACK_BYTES - 4 * MOST_ON_STACK
        registers = len(ARGUMENTS)
        assert len(given) <= registers + MOST_ON_STACK
        self._core.mem_write(stack, struct.pack(f"<{len(given[registers:])}I", *given[registers:]))
        for register, value in zip(ARGUMENTS, given, strict=False):
            self._core.reg_write(register, value)
        kept = KEPT + KEPT_FLOATS if self._fpu else KEPT
        for number, register in enumerate(kept):
            self._core.reg_write(register, 0x1000 + number)
        self._core.reg_write(arm.UC_ARM_REG_SP, stack)
        self._core.reg_write(arm.UC_ARM_REG_LR, RETURN | 1)
        self._core.emu_start(self._addresses[function] | 1, RETURN)
        assert [self._core.reg_read(register) for register in kept] == [
            0x1000 + number for number in range(len(kept))
        ], f"{function} leaves other registers"
        assert self._core.reg_read(arm.UC_ARM_REG_SP) == stack

    def _left(self, address: int, function: str) -> bytes:
        """What a kernel left in an operand, beside which it must have left all as it was."""
        operand, base, size = self._place.regions[address]
        left = bytes(self._core.mem_read(base, size))
        first, end = address - base, address - base + len(operand.content)
        beside = left[:first] + left[end:]
        assert beside == len(beside) * BESIDE[True], f"{function} wrote beside its result"
        return left[first:end]


class _Place:
    """Gives operands memory of their own, at whose end they are, or at its beginning."""

    def __init__(self, map_: Callable[[int, bytes, int], int], end: bool) -> None:
        self._map = map_
        self._end = end
        self.regions: dict[int, tuple[Operand, int, int]] = {}

    def __call__(self, operand: Operand) -> int:
        """The address of an operand."""
        base, content = TENSORS + len(self.regions) * APART, operand.content
        beside = -len(content) % PAGE * BESIDE[operand.written]
        allowed = uc.UC_PROT_READ | (uc.UC_PROT_WRITE if operand.written else 0)
        size = self._map(base, beside + content if self._end else content + beside, allowed)
        address = base + len(beside) if self._end else base
        self.regions[address] = (operand, base, size)
        return address


def kernel_objects(build: Build, folder: Path) -> list[str]:
    """Compile all kernels and what they call; returns the paths of the objects."""
    kernels = (path for path in sorted(KERNELS.glob("*.[cS]")) if not path.name.startswith("dot"))
    dot = build.dot.removesuffix(".c")
    runtime = ("poet_math", "poet_memory", *(() if build.fpu else ("soft_float",)))
    sources = [
        *kernels,
        *KERNELS.glob(f"{dot}.c"),
        *KERNELS.glob(f"{dot}_asm.S"),
        *(path for name in runtime for path in (TEMPLATES / "runtime").glob(f"{name}*.[cS]")),
    ]
    told = dict.fromkeys((*DIVISORS, *PLAIN_LOOPS), 1)
    command = {
        "gcc": ["arm-none-eabi-gcc"],
        "clang": ["clang", "--target=arm-none-eabi", "-meabi", "gnu", "-Wno-overlength-strings"],
    }[build.compiler]
    command[1:1] = [*build.machine, *C_FLAGS, *WARNINGS, build.level, *build.flags]
    command += ["-ffreestanding", *INCLUDES, "-DPOET_SHAPES_H"]
    command += [f"-D{name}={value}" for name, value in told.items()]
    return compile_each(command, sources, folder)
