# SPDX-License-Identifier: Apache-2.0
"""Sums of products in integers: the bits that they say, in C and in a Cortex-M0+'s assembly."""

from __future__ import annotations

import ctypes
import math
import struct
import subprocess
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import unicorn
from unicorn import arm_const

from poetfw.ops import Array

TEMPLATES = Path(__file__).parents[3] / "firmware_templates"
SOURCE = str(TEMPLATES / "kernels" / "dot_fused.c")
ON_CORE = (SOURCE, str(TEMPLATES / "kernels" / "dot_fused_asm.S"))
FLAGS = ("-O2", "-std=c11", "-ffp-contract=off", f"-I{TEMPLATES / 'runtime'}")
CORE = ("-mcpu=cortex-m0plus", "-mthumb", "-mfloat-abi=soft")
CODE, DATA, STACK, RETURN = 0x10000, 0x20000000, 0x20100000, 0x1FFF0
WORD = 4

Axis = tuple[int, int, int]
"""A count, and the elements to the next factor of either kind."""
Dot = Callable[[Sequence[Axis], Array, int, Array, int], np.float32]


def words(axes: Sequence[Axis]) -> bytes:
    """A `struct poet_dot`."""
    return struct.pack("<9i", *(number for axis in axes for number in axis))


def pairs(
    axes: Sequence[Axis], a: Array, first_a: int, b: Array, first_b: int
) -> list[tuple[np.float32, np.float32]]:
    """The factors, in order."""
    outer, middle, inner = axes
    return [
        (
            a[first_a + i * outer[1] + j * middle[1] + k * inner[1]],
            b[first_b + i * outer[2] + j * middle[2] + k * inner[2]],
        )
        for i in range(outer[0])
        for j in range(middle[0])
        for k in range(inner[0])
    ]


def parts(value: np.float32) -> tuple[int, int]:
    """A normal number's mantissa of 24 bits, with its sign, and its exponent field."""
    bits = int(np.float32(value).view(np.uint32))
    mantissa = bits & 0x7FFFFF | 0x800000
    return (-mantissa if bits >> 31 else mantissa), bits >> 23 & 0xFF


def summed(factors: Sequence[tuple[np.float32, np.float32]]) -> float:
    """The sum for zeros and normal numbers as dot_fused.c describes it, not yet rounded."""
    if len(factors) == 1:
        return float(factors[0][0] * factors[0][1] + np.float32(0))

    def shifted(value: int, places: int) -> int:
        return (value + (1 << places >> 1)) >> places

    total, at = 0, 0
    for x, y in factors:
        if x == 0 or y == 0:
            continue
        (p, e), (q, f) = parts(x), parts(y)
        high, low = divmod(abs(p), 256)
        other_high, other_low = divmod(abs(q), 256)
        cross = high * other_low + low * other_high
        product = (high * other_high + cross // 256) // 4
        product = product if (p < 0) == (q < 0) else -product
        if e + f > at:
            total, at = shifted(total, e + f - at) + product, e + f
        elif at - e - f <= 31:
            total += shifted(product, at - e - f)
        if not -(2**30) <= total < 2**30:
            total, at = shifted(total, 1), at + 1
    return math.ldexp(total, at - 282)


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Dot:
    library = tmp_path_factory.mktemp("dot") / "dot.so"
    flags = (*FLAGS, "-shared", "-fPIC", "-fsanitize=undefined")
    trap = "-fsanitize-undefined-trap-on-error"
    subprocess.run(["gcc", *flags, trap, "-o", str(library), SOURCE], check=True)
    function = ctypes.CDLL(str(library)).poet_dot_f32
    function.restype = ctypes.c_float

    def run(axes: Sequence[Axis], a: Array, first_a: int, b: Array, first_b: int) -> np.float32:
        pointers = (
            ctypes.c_void_p(v.ctypes.data + WORD * first)
            for v, first in ((a, first_a), (b, first_b))
        )
        return np.float32(function(words(axes), 1, *pointers))

    return run


@pytest.fixture(scope="module")
def on_core(tmp_path_factory: pytest.TempPathFactory) -> Dot:
    """The object code of a Cortex-M0+, run by an emulator that traps on what that core has not."""
    folder = tmp_path_factory.mktemp("dot")
    elf, binary = folder / "dot.elf", folder / "dot.bin"
    link = ("-nostartfiles", f"-Wl,-Ttext={CODE:#x},-e,poet_dot_f32", "-lc", "-lgcc")
    flags = (*FLAGS, "-Wall", "-Wextra", "-Wconversion", "-Werror")
    command = ["arm-none-eabi-gcc", *CORE, *flags, *ON_CORE, *link, "-o", str(elf)]
    subprocess.run(command, check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(binary)], check=True)
    said = subprocess.run(
        ["arm-none-eabi-nm", str(elf)], check=True, capture_output=True, text=True
    ).stdout
    entry = next(int(line.split()[0], 16) for line in said.splitlines() if "T poet_dot_f32" in line)
    core = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    core.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M0)
    core.mem_map(CODE & ~0xFFFF, 0x20000)
    core.mem_map(DATA, 0x200000)
    core.mem_write(CODE, binary.read_bytes())
    kept = [getattr(arm_const, f"UC_ARM_REG_R{number}") for number in range(4, 12)]

    def run(axes: Sequence[Axis], a: Array, first_a: int, b: Array, first_b: int) -> np.float32:
        at_a, at_b = DATA + 0x1000, DATA + 0x80000
        core.mem_write(DATA, words(axes))
        core.mem_write(at_a, a.tobytes())
        core.mem_write(at_b, b.tobytes())
        for number, register in enumerate(kept):
            core.reg_write(register, 0x1000 + number)
        core.reg_write(arm_const.UC_ARM_REG_R0, DATA)
        core.reg_write(arm_const.UC_ARM_REG_R1, 1)
        core.reg_write(arm_const.UC_ARM_REG_R2, at_a + WORD * first_a)
        core.reg_write(arm_const.UC_ARM_REG_R3, at_b + WORD * first_b)
        core.reg_write(arm_const.UC_ARM_REG_SP, STACK)
        core.reg_write(arm_const.UC_ARM_REG_LR, RETURN | 1)
        core.emu_start(entry | 1, RETURN)
        assert core.reg_read(arm_const.UC_ARM_REG_SP) == STACK
        assert [core.reg_read(r) for r in kept] == [0x1000 + i for i in range(8)]
        return np.uint32(core.reg_read(arm_const.UC_ARM_REG_R0)).view(np.float32)

    return run


def drawn(seed: int) -> tuple[list[Axis], Array, int, Array, int]:
    """Axes that go to and fro over two arrays, and numbers of very different sizes, some 0."""
    rng = np.random.default_rng(seed)
    counts = [int(n) for n in rng.integers(1, (4, 5, 12))]
    steps = rng.choice([-3, -2, -1, 1, 2, 3], (3, 2))
    axes: list[Axis] = [(n, int(p), int(q)) for n, (p, q) in zip(counts, steps, strict=True)]
    arrays: list[Array] = []
    firsts: list[int] = []
    for side in (1, 2):
        low = sum(min(0, axis[side] * (axis[0] - 1)) for axis in axes)
        high = sum(max(0, axis[side] * (axis[0] - 1)) for axis in axes)
        values = rng.standard_normal(high - low + 1) * 2.0 ** rng.integers(
            -(spread := int(rng.choice([0, 3, 30, 50]))), spread + 1, high - low + 1
        )
        values[rng.random(len(values)) < rng.choice([0.0, 0.3])] = rng.choice([0.0, -0.0])
        arrays.append(values.astype(np.float32))
        firsts.append(-low)
    return axes, arrays[0], firsts[0], arrays[1], firsts[1]


SPECIAL = [0.0, -0.0, 1.5, -3e38, 1e-38, 1e-45, -1e-40, math.inf, -math.inf, math.nan]


def special(seed: int) -> tuple[list[Axis], Array, int, Array, int]:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    a, b = (rng.choice(SPECIAL, count).astype(np.float32) for _ in range(2))
    return [(1, 0, 0), (1, 0, 0), (count, 1, 1)], a, 0, b, 0


@pytest.mark.parametrize("first", range(0, 1500, 250))
def test_bits(on_host: Dot, on_core: Dot, first: int) -> None:
    """In C, in assembly and in Python's integers; and how far it is from the truth."""
    for seed in range(first, first + 250):
        case = drawn(seed)
        factors = pairs(*case)
        result = on_host(*case)
        assert result.tobytes() == np.float32(summed(factors)).tobytes(), seed
        assert on_core(*case).tobytes() == result.tobytes(), seed
        products = [Fraction(float(x)) * Fraction(float(y)) for x, y in factors]
        exact, magnitude = sum(products), sum(map(abs, products))
        bound = (len(products) + 6) * magnitude / 2**29 + abs(Fraction(float(result))) / 2**24
        assert abs(Fraction(float(result)) - exact) <= bound, seed


def test_special_numbers(on_host: Dot, on_core: Dot) -> None:
    """Infinities, NaN, overflow and what is close to zero come out as sums of floats do."""
    with np.errstate(all="ignore"):
        for seed in range(600):
            case = special(seed)
            result = on_host(*case)
            on_the_core = on_core(*case)
            if not np.isnan(result):  # which has a sign, and no two machines agree on it
                assert on_the_core.tobytes() == result.tobytes(), seed
            assert np.isnan(on_the_core) == np.isnan(result), seed
            products = [np.float64(x) * np.float64(y) for x, y in pairs(*case)]
            expected = np.float32(sum(products))
            if np.isnan(sum(np.float32(product) for product in products)):
                assert np.isnan(result) or result == expected, seed  # inf - inf, after an overflow
            elif np.isinf(expected):
                assert result == expected, seed
            else:
                slack = len(products) * 2.0**-149 + 2.0**-22 * sum(map(abs, products))
                assert abs(float(result) - float(sum(products))) <= slack, seed


def test_results_below_the_smallest_normal_number(on_host: Dot) -> None:
    """Rounded to the nearest multiple of 2^-149, the even one of two."""
    two: list[Axis] = [(1, 0, 0), (1, 0, 0), (2, 1, 1)]
    for exponent in range(-152, -124):
        for mantissa in (1.0, 1.0 + 2.0**-23, 1.25, 1.5, 1.75):
            a = np.array([2.0**-80, 0.0], np.float32)
            b = np.array([mantissa * 2.0 ** (exponent + 80), 1.0], np.float32)
            expected = np.float32(mantissa * 2.0**exponent)
            assert on_host(two, a, 0, b, 0) == expected, (exponent, mantissa)


def test_no_factors(on_host: Dot, on_core: Dot) -> None:
    nothing = np.zeros(1, np.float32)
    for counts in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        axes: list[Axis] = [(n, 1, 1) for n in counts]
        assert on_host(axes, nothing, 0, nothing, 0).tobytes() == bytes(4)
        assert on_core(axes, nothing, 0, nothing, 0).tobytes() == bytes(4)


def test_the_linker_keeps_what_the_assembly_calls(tmp_path: Path) -> None:
    """Where programs are optimised as a whole, which other people's build systems ask for."""
    main = tmp_path / "main.c"
    main.write_text(
        '#include "dot.h"\n'
        "volatile float a, b;\n"
        "int main(void) {\n"
        "    const struct poet_dot dot = {{1, 0, 0}, {1, 0, 0}, {2, 1, 1}};\n"
        "    float x[2] = {a, b};\n"
        "    a = poet_dot_f32(&dot, 2, x, x);\n"
        "}\n"
        "void _exit(int status) { for (;;) { (void)status; } }\n"
    )
    include = f"-I{TEMPLATES / 'kernels'}"
    link = ("-flto", "-nostartfiles", "-Wl,-e,main", "-o", str(tmp_path / "main.elf"))
    command = ["arm-none-eabi-gcc", *CORE, *FLAGS, include, str(main), *ON_CORE, *link]
    subprocess.run(command, check=True)
