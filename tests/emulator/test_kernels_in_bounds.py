# SPDX-License-Identifier: Apache-2.0
"""Convolutions as a Cortex-M4F has them, much of it assembly: bits, and what they touch.

Tensors end, and then begin, where memory does: what lies beside one cannot be read or written.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import unicorn as uc
from unicorn import arm_const as arm

from emulator.firmware_tools import C_FLAGS, CORTEX_M4F, TEMPLATES
from poetfw.ir import Attribute
from poetfw.ops import KINDS, Array
from poetfw.ops.base import DIVISORS
from unit.kernels.conftest import INCLUDES, KERNELS, graph_of_one
from unit.kernels.test_canonical_sums import (
    GEOMETRIES,
    Geometry,
    backward_input,
    backward_weight,
    bits,
    forward,
)

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc"),
]

PAGE = 0x1000
CODE, RETURN, STACK, TENSORS = 0x10000, 0x8000, 0x20000000, 0x40000000
STACK_BYTES, APART = 4 * PAGE, 0x1000000
ARGUMENTS = [getattr(arm, f"UC_ARM_REG_R{number}") for number in range(4)]
KEPT = [getattr(arm, f"UC_ARM_REG_R{number}") for number in range(4, 12)]
KEPT += [getattr(arm, f"UC_ARM_REG_S{number}") for number in range(16, 32)]
BESIDE = {True: b"\x3c", False: b"\xff"}
"""What fills the page of a tensor: NaN beside what is read, which would show in a result."""

CASES = [
    *(case for case in GEOMETRIES if np.prod(case.y) * np.prod(case.w[1:]) < 15_000),
    Geometry((2, 8, 1, 1), 8, (3, 3)),  # of nine taps eight meet nothing
    Geometry((1, 8, 9, 15), 8, (3, 3), stride=(2, 2)),
    Geometry((1, 4, 6, 9), 5, (3, 3), stride=(2, 2)),  # rows of seven columns end dX
    Geometry((1, 4, 6, 11), 12, (5, 5), stride=(2, 2), padding=(2, 2, 2, 2)),
    Geometry((1, 4, 5, 9), 8, (5, 5), padding=(2, 2, 2, 2)),
    Geometry((1, 4, 8, 16), 4, (5, 5), stride=(2, 2), padding=(2, 2, 2, 2)),
    Geometry((2, 8, 7, 6), 8, (1, 1), stride=(2, 2), padding=(0, 0, 0, 0)),
]


class Core:
    """A program of kernels, and a core that runs one of its functions at a time."""

    def __init__(self, folder: Path, fours: bool) -> None:
        elf, image = folder / "kernels.elf", folder / "kernels.bin"
        told = dict.fromkeys(DIVISORS, 1)
        if fours:
            told |= dict.fromkeys((name for name in DIVISORS if "CONV2D" in name), 4)
        names = ("conv2d", "dot.c", "update")
        sources = [path for path in sorted(KERNELS.glob("*.c")) if path.name.startswith(names)]
        sources += [TEMPLATES / "runtime" / f"{name}.c" for name in ("poet_math", "poet_memory")]
        flags = ("-DPOET_SHAPES_H", *(f"-D{name}={value}" for name, value in told.items()))
        link = ("-ffreestanding", "-nostdlib", f"-Wl,-Ttext={CODE:#x},-e,memcpy", "-lgcc")
        command = ["arm-none-eabi-gcc", *CORTEX_M4F, *C_FLAGS, *INCLUDES, *flags]
        subprocess.run([*command, *map(str, sources), *link, "-o", str(elf)], check=True)
        subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(image)], check=True)
        said = subprocess.run(
            ["arm-none-eabi-nm", str(elf)], check=True, capture_output=True, text=True
        ).stdout
        lines = (line.split() for line in said.splitlines())
        self._addresses = {name: int(address, 16) for address, _, name in lines}
        self._core = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
        self._core.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_M4)
        self._map(CODE, image.read_bytes(), uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        self._map(RETURN, b"", uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        self._map(STACK, bytes(STACK_BYTES), uc.UC_PROT_READ | uc.UC_PROT_WRITE)

    def _map(self, address: int, content: bytes, allowed: int) -> int:
        size = max(1, -(-len(content) // PAGE)) * PAGE
        self._core.mem_map(address, size, allowed)
        self._core.mem_write(address, content)
        return size

    def call(self, function: str, given: Sequence[bytes | None], written: int, end: bool) -> bytes:
        """What is left in an argument. Each lies at the end of its memory, or at the beginning."""
        places: list[tuple[int, int, int]] = []
        addresses = []
        for number, content in enumerate(given):
            if content is None:
                addresses.append(0)
                continue
            base, allowed = TENSORS + number * APART, uc.UC_PROT_READ
            if number == written:
                allowed |= uc.UC_PROT_WRITE
            beside = -len(content) % PAGE * BESIDE[number == written]
            size = self._map(base, beside + content if end else content + beside, allowed)
            addresses.append(base + (len(beside) if end else 0))
            places.append((number, base, size))
        stack = STACK + STACK_BYTES - 16
        self._core.mem_write(stack, struct.pack("<I", (*addresses, 0)[4]))
        for register, value in zip(ARGUMENTS, addresses, strict=False):
            self._core.reg_write(register, value)
        for number, register in enumerate(KEPT):
            self._core.reg_write(register, 0x1000 + number)
        self._core.reg_write(arm.UC_ARM_REG_SP, stack)
        self._core.reg_write(arm.UC_ARM_REG_LR, RETURN | 1)
        self._core.emu_start(self._addresses[function] | 1, RETURN)
        assert [self._core.reg_read(register) for register in KEPT] == [
            0x1000 + number for number in range(len(KEPT))
        ]
        assert self._core.reg_read(arm.UC_ARM_REG_SP) == stack
        left = b""
        for number, base, size in places:
            if number == written:
                left = bytes(self._core.mem_read(base, size))
            self._core.mem_unmap(base, size)
        content = given[written]
        assert content is not None
        around = len(left) - len(content)
        beside, result = (
            (left[:around], left[around:])
            if end
            else (
                left[len(content) :],
                left[: len(content)],
            )
        )
        assert beside == around * BESIDE[True], f"{function} wrote beside its result"
        return result


@pytest.fixture(scope="module")
def core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Core:
    """Compiled for any channels, and where four divides all."""
    return Core(tmp_path_factory.mktemp("core"), request.param)


def run(
    core: Core, kind: str, inputs: Sequence[Array], attributes: Mapping[str, Attribute]
) -> Array:
    op, graph = graph_of_one(kind, inputs, attributes, ())
    kernel = KINDS[kind].kernel(op, graph)
    constants = b"".join(struct.pack("<i", value) for _, value in kernel.fields)
    contents = {name: value.tobytes() for name, value in zip(op.inputs, inputs, strict=True)}
    assert op.output is not None
    size, results = graph.by_name[op.output].size_bytes, []
    for end, prefill in ((True, b"\xa5"), (False, b"\x5a")):
        contents[op.output] = size * prefill
        given = [None if name is None else contents[name] for name in kernel.arguments]
        written = 1 + kernel.arguments.index(op.output)
        results.append(core.call(kernel.function, [constants, *given], written, end))
    assert results[0] == results[1], kernel.function
    return np.frombuffer(results[0], np.float32)


def has_fours(case: Geometry) -> bool:
    """Whether four divides the channels of a group."""
    by_groups = (case.x[1] // case.groups, case.out_channels // case.groups)
    return not any(channels % 4 for channels in by_groups)


@pytest.mark.parametrize(
    ("core", "case"),
    [(fours, case) for fours in (False, True) for case in CASES if not fours or has_fours(case)],
    ids=lambda value: str(value) if isinstance(value, Geometry) else ("any", "fours")[value],
    indirect=["core"],
)
def test_convolutions(core: Core, case: Geometry) -> None:
    generator = np.random.default_rng(3)
    x, w, dy, b = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in (case.x, case.w, case.y, case.w[:1])
    )
    x[x < -1] = 0
    extents: dict[str, Attribute] = {"input_shape": case.x, "weight_shape": case.w}
    wanted: dict[str, tuple[Sequence[Array], Callable[[], Array]]] = {
        "conv2d": ([x, w, b], lambda: forward(case, x, w, b)),
        "conv2d_backward_input": ([w, dy], lambda: backward_input(case, w, dy)),
        "conv2d_backward_weight": ([x, dy], lambda: backward_weight(case, x, dy)),
    }
    for kind, (inputs, expected) in wanted.items():
        attributes = case.attributes if kind == "conv2d" else case.attributes | extents
        left = run(core, kind, inputs, attributes)
        np.testing.assert_array_equal(bits(left), bits(expected()).ravel(), kind)
