# SPDX-License-Identifier: Apache-2.0
"""Sums and products of floats without a floating-point unit: IEEE 754's bits for every pair."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import unicorn
from unicorn import arm_const

TEMPLATES = Path(__file__).parents[3] / "firmware_templates"
SOURCE = str(TEMPLATES / "runtime" / "soft_float.c")
ON_CORE = (SOURCE, str(TEMPLATES / "runtime" / "soft_float_asm.S"))
CORE = ("-mcpu=cortex-m0plus", "-mthumb", "-mfloat-abi=soft")
FLAGS = ("-O2", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")
CODE, RETURN, STACK = 0x10000, 0x1FFF0, 0x20010000
ARRAYS = (0x21000000, 0x22000000, 0x23000000)
MOST = 1 << 18
"""Pairs in one call."""

Bits = npt.NDArray[np.uint32]
Run = Callable[[str, Bits, Bits], Bits]

OPERATORS: dict[str, Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], object]] = {
    "sum": np.add,
    "difference": np.subtract,
    "product": np.multiply,
}

LOOP = """
void {name}(const {type} *a, const {type} *b, {type} *results, int pairs)
{{
    for (int i = 0; i < pairs; i++) {{
        results[i] = {result};
    }}
}}
"""
IN_C = "#include <stdint.h>\nuint32_t poet_sum_bits(uint32_t a, uint32_t b);\n" + (
    "uint32_t poet_product_bits(uint32_t a, uint32_t b);\n"
    + LOOP.format(name="sum", type="uint32_t", result="poet_sum_bits(a[i], b[i])")
    + LOOP.format(
        name="difference", type="uint32_t", result="poet_sum_bits(a[i], b[i] ^ 0x80000000u)"
    )
    + LOOP.format(name="product", type="uint32_t", result="poet_product_bits(a[i], b[i])")
)
BY_THE_COMPILER = (
    LOOP.format(name="sum", type="float", result="a[i] + b[i]")
    + LOOP.format(name="difference", type="float", result="a[i] - b[i]")
    + LOOP.format(name="product", type="float", result="a[i] * b[i]")
    + "int main(void) { return 0; }\n"
)


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The functions in C."""
    folder = tmp_path_factory.mktemp("host")
    loops, library = folder / "loops.c", folder / "loops.so"
    loops.write_text(IN_C)
    checks = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    sources = ("-shared", "-fPIC", "-DPOET_SOFT_FLOAT_IN_C", str(loops), SOURCE)
    subprocess.run(["gcc", *FLAGS, *checks, *sources, "-o", str(library)], check=True)
    functions = ctypes.CDLL(str(library))

    def run(name: str, a: Bits, b: Bits) -> Bits:
        results = np.empty_like(a)
        pointers = (ctypes.c_void_p(v.ctypes.data) for v in (a, b, results))
        getattr(functions, name)(*pointers, len(a))
        return results

    return run


def linked(folder: Path, text: str, *flags: str) -> tuple[Path, dict[str, tuple[str, int]]]:
    """A program of a Cortex-M0+, and its symbols: their letters and addresses."""
    main, elf = folder / "main.c", folder / "main.elf"
    main.write_text(text)
    link = ("-nostartfiles", f"-Wl,-Ttext={CODE:#x},-e,main", "-o", str(elf))
    command = ["arm-none-eabi-gcc", *CORE, *FLAGS, *flags, str(main), *ON_CORE, *link]
    subprocess.run(command, check=True)
    said = subprocess.run(
        ["arm-none-eabi-nm", str(elf)], check=True, capture_output=True, text=True
    ).stdout
    lines = (line.split() for line in said.splitlines())
    return elf, {name: (letter, int(address, 16)) for address, letter, name in lines}


@pytest.fixture(scope="module")
def on_core(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What the compiler calls, run by an emulator that traps on what a Cortex-M0+ has not."""
    folder = tmp_path_factory.mktemp("core")
    elf, symbols = linked(folder, BY_THE_COMPILER)
    assert all(symbols[f"__aeabi_{name}"][0] == "W" for name in ("fadd", "fsub", "fmul"))
    binary = folder / "main.bin"
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(binary)], check=True)
    core = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    core.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M0)
    core.mem_map(CODE & ~0xFFFF, 0x20000)
    core.mem_map(STACK & ~0xFFFFF, 0x4000000)
    core.mem_write(CODE, binary.read_bytes())
    kept = [getattr(arm_const, f"UC_ARM_REG_R{number}") for number in range(4, 12)]
    given = [getattr(arm_const, f"UC_ARM_REG_R{number}") for number in range(4)]

    def run(name: str, a: Bits, b: Bits) -> Bits:
        core.mem_write(ARRAYS[0], a.tobytes())
        core.mem_write(ARRAYS[1], b.tobytes())
        for register, value in zip(given, (*ARRAYS, len(a)), strict=True):
            core.reg_write(register, value)
        for number, register in enumerate(kept):
            core.reg_write(register, 0x1000 + number)
        core.reg_write(arm_const.UC_ARM_REG_SP, STACK)
        core.reg_write(arm_const.UC_ARM_REG_LR, RETURN | 1)
        core.emu_start(symbols[name][1] | 1, RETURN)
        assert core.reg_read(arm_const.UC_ARM_REG_SP) == STACK
        assert [core.reg_read(register) for register in kept] == [0x1000 + i for i in range(8)]
        return np.frombuffer(bytes(core.mem_read(ARRAYS[2], 4 * len(a))), np.uint32)

    return run


MANTISSAS = (0, 1, 2, 3, 0x2AAAAA, 0x3FFFFF, 0x400000, 0x400001, 0x555555, 0x7FFFFE, 0x7FFFFF)
EXPONENTS = (
    *(0, 1, 2, 3, 22, 23, 24, 25, 26, 63, 64, 100, 101, 102, 103, 104, 126, 127, 128, 129),
    *(150, 151, 152, 153, 154, 190, 191, 192, 229, 230, 252, 253, 254, 255),
)


def packed(signs: Bits, exponents: Bits, mantissas: Bits) -> Bits:
    return (signs << 31 | exponents << 23 | mantissas).astype(np.uint32)


def structured() -> tuple[Bits, Bits]:
    """All pairs of numbers with some signs, exponents and mantissas."""
    axes = np.meshgrid((0, 1), EXPONENTS, MANTISSAS, indexing="ij")
    values = packed(*(axis.ravel().astype(np.uint32) for axis in axes))
    first, second = np.meshgrid(values, values)
    return first.ravel(), second.ravel()


def drawn(seed: int) -> tuple[Bits, Bits]:
    """Any bits."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 1 << 32, (2, MOST), np.uint32)
    return a, b


def mantissas(rng: np.random.Generator) -> Bits:
    """Any, or with many zeros or ones at the end, as what lies between two floats has."""
    ends = (rng.integers(0, 16, MOST) << rng.integers(0, 20, MOST)) - rng.integers(0, 2, MOST)
    return np.where(rng.random(MOST) < 0.5, rng.integers(0, 1 << 23, MOST), ends & 0x7FFFFF)


def of_like_size(seed: int) -> tuple[Bits, Bits]:
    """Exponents so near that sums cancel and carry."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 256, MOST)
    second = np.clip(first + rng.integers(-30, 31, MOST), 0, 255)
    a, b = (packed(rng.integers(0, 2, MOST), e, mantissas(rng)) for e in (first, second))
    return a, b


def at_the_edges(seed: int) -> tuple[Bits, Bits]:
    """Exponents whose product overflows, is close to 0, or is of 1."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 256, MOST)
    of_both = 127 + rng.choice([127, 1, 254, -20, 0, 2], MOST) + rng.integers(-2, 3, MOST)
    second = np.clip(of_both - first, 0, 255)
    a, b = (packed(rng.integers(0, 2, MOST), e, mantissas(rng)) for e in (first, second))
    return a, b


PAIRS = {
    "structured": structured,
    "any bits": lambda: drawn(1),
    "of like size": lambda: of_like_size(2),
    "at the edges": lambda: at_the_edges(3),
}


def slices(a: Bits, b: Bits) -> Iterator[tuple[Bits, Bits]]:
    for first in range(0, len(a), MOST):
        some = slice(first, first + MOST)
        yield np.ascontiguousarray(a[some]), np.ascontiguousarray(b[some])


@pytest.mark.parametrize("where", ["on_host", "on_core"])
@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_bits(request: pytest.FixtureRequest, where: str, pairs: str, operator: str) -> None:
    """As NumPy's on a core with floats; of NaN only that it is one."""
    run: Run = request.getfixturevalue(where)
    for a, b in slices(*PAIRS[pairs]()):
        with np.errstate(all="ignore"):
            expected = np.asarray(OPERATORS[operator](a.view(np.float32), b.view(np.float32)))
        results = run(operator, a, b)
        wrong = results != expected.view(np.uint32)
        wrong &= ~(np.isnan(expected) & np.isnan(results.view(np.float32)))
        assert not wrong.any(), [
            f"{a[i]:08x} {b[i]:08x}: {results[i]:08x}, not {expected.view(np.uint32)[i]:08x}"
            for i in np.flatnonzero(wrong)[:5]
        ]


def test_the_linker_takes_them_where_programs_are_optimised_as_a_whole(tmp_path: Path) -> None:
    """And nothing of the compiler's library, which other people's build systems may name first."""
    text = "volatile float a, b;\nint main(void) { a = a * b + a; return 0; }\n"
    _, symbols = linked(tmp_path, text, "-flto")
    assert symbols["__aeabi_fadd"][0] == symbols["__aeabi_fmul"][0] == "W"


def test_a_programs_own_function_is_kept(tmp_path: Path) -> None:
    text = (
        "float __aeabi_fmul(float a, float b);\n"
        "float __aeabi_fmul(float a, float b) { (void)a; return b; }\n"
        "volatile float a, b;\n"
        "int main(void) { a = a * b + a; return 0; }\n"
    )
    _, symbols = linked(tmp_path, text)
    assert (symbols["__aeabi_fmul"][0], symbols["__aeabi_fadd"][0]) == ("T", "W")
