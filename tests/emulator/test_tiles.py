# SPDX-License-Identifier: Apache-2.0
"""Generated kernels on an emulated Cortex-M4F: bits, bounds, registers, counted instructions."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unicorn as uc

from compiling import compile_each
from emulator.drawn_convolutions import drawn
from emulator.drawn_products import BETWEEN, RUN, drawn_products, matrices, summed
from emulator.firmware_tools import C_FLAGS, TEMPLATES
from emulator.kernel_core import Build, Core, Operand, needs_compiler
from poetfw.firmware.project import render_blocks
from poetfw.kernels import (
    Convolution,
    ConvolutionPass,
    Dot,
    Pass,
    Product,
    Stencil,
    Task,
    TiledPass,
    tiling,
)
from poetfw.kernels.held import Held
from poetfw.kernels.tilings import counted, estimates
from poetfw.ops import Array
from unit.kernels.conftest import INCLUDES, KERNELS, WARNINGS
from unit.kernels.test_canonical_sums import (
    Geometry,
    backward_input,
    backward_weight,
    bits,
    forward,
)

pytestmark = [pytest.mark.emulator, needs_compiler]

M4F = Build()

HELPERS = r"""
#include "tiles.h"

/* Adds to the parameter, which shows what is put twice. */
static void step(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                 const float *gradient)
{
    for (int32_t i = 0; i < count; i++) {
        sink->parameter[index + i] = gradient[i];
        sink->first[index + i] += 1.0f;
    }
}

void test_put(const struct poet_tiles *tiles, const float *source, const float *weight,
              float *result, float *times)
{
    const struct poet_update update = {.step = step};
    const struct poet_gradient_sink sink = {.update = &update, .parameter = result, .first = times};
    poet_tiles_apply_f32(tiles, source, weight, &sink);
}
"""


def geometry(of: Convolution) -> Geometry:
    """The same for the canonical sums."""
    x = (of.batch, of.in_channels, of.in_height, of.in_width)
    return Geometry(x, of.out_channels, of.kernel, of.stride, of.padding, of.groups, of.dilation)


class TileCore(Core):
    """A core with the tiles of some passes, by name."""

    def __init__(self, passes: Mapping[str, TiledPass], folder: Path, build: Build = M4F) -> None:
        blocks = {block.name: block for one in passes.values() for block in one.blocks}
        tables = [f"extern poet_tile {name};\n" for name in blocks]
        tables += [
            one.table(name).replace(
                f"static const struct poet_tiles {name}[", f"const struct poet_tiles {name}["
            )
            for name, one in passes.items()
        ]
        (folder / "tables.c").write_text(HELPERS + "".join(tables))
        (folder / "blocks.S").write_bytes(render_blocks("tests", "0" * 8, [*blocks.values()]))
        sources = [folder / "tables.c", folder / "blocks.S"]
        sources += [KERNELS / name for name in ("conv2d.c", "dot.c", "tiles.c")]
        sources += [KERNELS / name for name in ("tiles_asm.S", "update.c")]
        sources += sorted((TEMPLATES / "runtime").glob("poet_m*.[cS]"))
        command = ["arm-none-eabi-gcc", *build.machine, *C_FLAGS, *WARNINGS, "-O2"]
        command += ["-ffreestanding", *INCLUDES]
        super().__init__(build, folder, compile_each(command, sources, folder))
        said = subprocess.run(
            ["arm-none-eabi-nm", "--print-size", str(folder / "kernels.elf")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        fields = [line.split() for line in said.splitlines()]
        self.sizes = {one[3]: int(one[1], 16) for one in fields if len(one) == 4}
        self.instructions = 0
        self._lengths: dict[tuple[int, int], int] = {}
        self._core.hook_add(uc.UC_HOOK_BLOCK, self._count)

    def _count(self, core: uc.Uc, address: int, size: int, _: Any) -> None:
        length = self._lengths.get((address, size))
        if length is None:
            code = np.frombuffer(core.mem_read(address, size), np.uint16)
            length = at = 0
            while at < len(code):
                at += 2 if code[at] >= 0xE800 else 1
                length += 1
            self._lengths[address, size] = length
        self.instructions += length

    def results(self, function: str, given: Sequence[Operand | str]) -> list[Array]:
        """Floats that a call leaves, after its instructions have been counted from 0."""
        self.instructions = 0
        return [np.frombuffer(left, np.float32) for left in self.call(function, given)]


class Case:
    """A convolution, its operands, and the passes' canonical sums."""

    def __init__(self, of: Convolution, seed: int) -> None:
        self.of, self.geometry = of, geometry(of)
        draw = np.random.default_rng(seed)
        shapes = (self.geometry.x, self.geometry.w, self.geometry.y, (of.out_channels,))
        self.x, self.w, self.dy, self.b = (
            draw.standard_normal(shape).astype(np.float32) for shape in shapes
        )

    def weights(self, core: TileCore, name: str) -> tuple[Array, Array, Array]:
        """dW as it is stored, as it is applied, and how often each element is."""
        x, dy = Operand(self.x.tobytes()), Operand(self.dy.tobytes())
        blank = Operand(b"\xa5" * self.w.nbytes, written=True)
        zeros = Operand(bytes(self.w.nbytes), written=True)
        stored = sums(core, name, [self.x, self.dy, self.b], self.w.size)
        applied, times = core.results("test_put", [applied_name(name), x, dy, blank, zeros])
        return stored, applied, times


def check(core: TileCore, case: Case, name: str, which: Pass, tiles: TiledPass) -> None:
    """Bits and instructions of a pass."""
    if which is Pass.BACKWARD_WEIGHT:
        expected = backward_weight(case.geometry, case.x, case.dy)
        stored, applied, times = case.weights(core, name)
        np.testing.assert_array_equal(bits(stored), bits(expected).ravel(), str(case.of))
        np.testing.assert_array_equal(bits(applied), bits(expected).ravel(), str(case.of))
        assert (times == 1).all(), case.of
        source, weight = case.x, case.dy
    elif which is Pass.FORWARD:
        expected = forward(case.geometry, case.x, case.w, case.b if case.of.bias else None)
        source, weight = case.x, case.w
    else:
        expected = backward_input(case.geometry, case.w, case.dy)
        source, weight = case.dy, case.w
    left = sums(core, name, [source, weight, case.b], expected.size)
    np.testing.assert_array_equal(bits(left), bits(expected).ravel(), f"{which} of {case.of}")
    assert core.instructions == tiles.instructions, f"{which} of {case.of}"
    negative = [np.zeros_like(source), np.full_like(weight, -1), np.full_like(case.b, -0.0)]
    assert not bits(sums(core, name, negative, expected.size)).any(), f"{which} of {case.of}"


def sums(
    core: TileCore, name: str, operands: Sequence[Array], count: int, begun: Array | None = None
) -> Array:
    """Results of source, weight and bias, or what they have become of others."""
    given = [Operand(value.tobytes()) for value in operands]
    before = b"\xa5" * (4 * count) if begun is None else begun.tobytes()
    blank = Operand(before, written=True)
    return core.results("poet_tiles_sum_f32", [name, *given, blank])[0]


def check_all(shapes: Sequence[Convolution], folder: Path, build: Build = M4F) -> int:
    """Check all passes of some shapes; returns how many have no tile."""
    tasks = {
        f"pass_{i}_{which}": ConvolutionPass(shape, which)
        for i, shape in enumerate(shapes)
        for which in Pass
    }
    passes = tiled(tasks)
    core = TileCore(passes, folder, build)
    for i, shape in enumerate(shapes):
        case = Case(shape, i)
        for which in Pass:
            if (one := passes.get(f"pass_{i}_{which}")) is not None:
                check(core, case, f"pass_{i}_{which}", which, one)
    check_sizes(core, passes)
    return sum(name not in passes for name in tasks)


def applied_name(name: str) -> str:
    """Name of the table of a gradient's sums that a sink takes."""
    return f"{name}_applied"


def tiled(tasks: Mapping[str, Task]) -> dict[str, TiledPass]:
    """Tiles of each that has some, by its name, and those of gradients that are applied."""
    every = dict(tasks)
    for name, task in tasks.items():
        if isinstance(task, ConvolutionPass) and task.which is Pass.BACKWARD_WEIGHT:
            every[applied_name(name)] = replace(task, applied=True)
    return {name: one for name, task in every.items() if (one := tiling(task)) is not None}


def check_sizes(core: TileCore, passes: Mapping[str, TiledPass]) -> None:
    """The bytes of each block are those that the assembler makes."""
    for one in passes.values():
        for block in one.blocks:
            assert core.sizes[block.name] == block.size_bytes, block.name


def check_products(
    products: Sequence[Product], folder: Path, build: Build = M4F
) -> list[TiledPass]:
    """Check bits, instructions and zeros of some products; returns their tiles."""
    passes = tiled({f"product_{i}": of for i, of in enumerate(products)})
    assert len(passes) == len(products)
    core = TileCore(passes, folder, build)
    for i, (of, (name, one)) in enumerate(zip(products, passes.items(), strict=True)):
        left, right, bias = matrices(of, i)
        expected = summed(of, left, right, bias)
        if of.applied:
            source, weight = Operand(right.tobytes()), Operand(left.tobytes())
            blank = Operand(b"\xa5" * expected.nbytes, written=True)
            zeros = Operand(bytes(expected.nbytes), written=True)
            found, times = core.results("test_put", [name, source, weight, blank, zeros])
            assert (times == 1).all(), of
        else:
            found = sums(core, name, [right, left, bias], expected.size)
            assert core.instructions == one.instructions, of
            negative = [np.zeros_like(right), np.full_like(left, -1), np.full_like(bias, -0.0)]
            zeros = bits(sums(core, name, negative, expected.size))
            assert not zeros[bits(expected) != BETWEEN].any(), of
        np.testing.assert_array_equal(bits(found), bits(expected).ravel(), str(of))
    check_sizes(core, passes)
    return [*passes.values()]


def test_drawn_shapes(tmp_path: Path) -> None:
    assert check_all([*drawn(40, 1)], tmp_path) <= 2


@pytest.mark.parametrize("seed", [1])
def test_sums_that_are_continued(tmp_path: Path, seed: int) -> None:
    check_continued([of for of in drawn(60, seed) if of.groups == 1], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_sums_that_are_continued(tmp_path: Path, seed: int) -> None:
    check_continued([of for of in drawn(100, seed) if of.groups == 1], tmp_path)


def check_continued(shapes: Sequence[Convolution], folder: Path) -> None:
    """Check that some channels first, and then the others, leave the bits of all at once."""
    tasks: dict[str, Task] = {}
    for i, of in enumerate(shapes):
        for which, axis in CHANNELS.items():
            count = getattr(of, axis)
            first = replace(of, **{axis: count // 2 or 1, "bias": of.bias and count == 1})
            tasks[f"first_{i}_{which}"] = ConvolutionPass(first, which)
            if count > 1:
                rest = replace(of, **{axis: count - count // 2})
                tasks[f"rest_{i}_{which}"] = ConvolutionPass(rest, which, continued=True)
    passes = tiled(tasks)
    core = TileCore(passes, folder)
    continued = 0
    for i, of in enumerate(shapes):
        case = Case(of, i)
        for which, axis in CHANNELS.items():
            names = [f"{one}_{i}_{which}" for one in ("first", "rest")]
            if any(name in tasks and name not in passes for name in names):
                continue
            if which is Pass.FORWARD:
                expected = forward(case.geometry, case.x, case.w, case.b if of.bias else None)
                sources, weights = case.x, case.w
            else:
                expected = backward_input(case.geometry, case.w, case.dy)
                sources, weights = case.dy, case.w.swapaxes(0, 1)
            at = getattr(of, axis) // 2 or 1
            found = None
            for name, part in zip(names, (slice(at), slice(at, None)), strict=True):
                if name in tasks:
                    w = (
                        weights[:, part]
                        if which is Pass.FORWARD
                        else weights[:, part].swapaxes(0, 1)
                    )
                    operands = [np.ascontiguousarray(v) for v in (sources[:, part], w, case.b)]
                    found = sums(core, name, operands, expected.size, found)
                    assert core.instructions == passes[name].instructions, f"{which} of {of}"
            continued += names[1] in tasks
            assert found is not None
            np.testing.assert_array_equal(bits(found), bits(expected).ravel(), f"{which} of {of}")
    check_sizes(core, passes)
    assert continued > len(shapes)


def test_products_that_are_continued(tmp_path: Path) -> None:
    """Dense layers by inputs, in runs, and the gradients of their inputs, by outputs."""
    drawn = [
        (of, of.inner // 2 if not of.run else -(-of.inner // RUN // 2) * RUN)
        for of in (*drawn_products(120, 3), Product(1, 2, 97, 5, (97, 1), (1, 97), (5, 1), RUN))
        if not of.applied and of.batch == of.left[1] == 1 < of.inner
    ]
    drawn = [(of, at) for of, at in drawn if 0 < at < of.inner]
    tasks: dict[str, Task] = {}
    for i, (of, at) in enumerate(drawn):
        for name, count in ((f"first_{i}", at), (f"rest_{i}", of.inner - at)):
            right = (1, count) if of.right == (1, of.inner) else of.right
            part = replace(of, inner=count, left=(count, 1), right=right)
            is_first = name.startswith("first")
            tasks[name] = replace(part, continued=not is_first, bias=of.bias and not is_first)
    passes = tiled(tasks)
    assert passes.keys() == tasks.keys()
    core = TileCore(passes, tmp_path)
    for i, (of, at) in enumerate(drawn):
        left, right, bias = matrices(of, i)
        found, rows = None, left.reshape(of.rows, of.inner)
        for name, part in (("first", slice(at)), ("rest", slice(at, None))):
            one = passes[f"{name}_{i}"]
            columns = right.reshape(of.inner, -1)[part]
            if of.right == (1, of.inner):
                columns = right.reshape(-1, of.inner)[:, part]
            operands = (columns, rows[:, part], bias)
            found = sums(core, f"{name}_{i}", operands, of.rows * of.columns, found)
            assert core.instructions == one.instructions, of
        assert found is not None
        expected = summed(of, left, right, bias)
        np.testing.assert_array_equal(bits(found), bits(expected).ravel(), str(of))
    blocks = {
        (type(block), block.continued)
        for one in passes.values()
        for block in one.blocks
        if isinstance(block, (Dot, Stencil))
    }
    assert {(Dot, True), (Stencil, True)} <= blocks


CHANNELS = {Pass.FORWARD: "in_channels", Pass.BACKWARD_INPUT: "out_channels"}
"""The channels over which a pass sums."""


def test_any_block_that_holds_its_source(tmp_path: Path) -> None:
    """Of 1x1 kernels behind few channels, whichever tile is chosen: bits and instructions."""
    draw = random.Random(3)
    passes: dict[str, TiledPass] = {}
    shapes = []
    while len(shapes) < 60:
        channels, groups, stride = draw.randint(1, 4), draw.choice((1, 1, 2)), draw.randint(1, 3)
        extents = draw.randint(1, 9), draw.randint(1, 20)
        of = Convolution(
            *(draw.randint(1, 2), channels * groups, *extents, draw.randint(1, 9) * groups),
            *((1, 1), (stride, stride), (0, 0, 0, 0), groups),
            bias=draw.random() < 0.5,
        )
        found = [
            one
            for one in estimates(ConvolutionPass(of, Pass.FORWARD))
            if isinstance(one.entries[0].block, Held)
        ]
        chosen = next(counted(draw.sample(found, min(len(found), 5)), 1), None)
        if chosen is not None:
            passes[f"pass_{len(shapes)}"] = chosen
            shapes.append(of)
    blocks = [block for one in passes.values() for block in one.blocks if isinstance(block, Held)]
    for part in ("sources", "joined", "bias", "tail", "loops"):
        assert {bool(getattr(block, part)) for block in blocks} == {False, True}, part
    assert {block.part < block.positions for block in blocks} == {False, True}
    core = TileCore(passes, tmp_path)
    for i, shape in enumerate(shapes):
        check(core, Case(shape, i), f"pass_{i}", Pass.FORWARD, passes[f"pass_{i}"])
    check_sizes(core, passes)


def test_drawn_products(tmp_path: Path) -> None:
    """Both blocks, runs of 32 with a shorter one behind them, and updates in several entries."""
    rows = Product(1, 1, 63, 8, (63, 1), (1, 63), (8, 1), RUN, True)
    found = check_products([*drawn_products(59, 1), rows], tmp_path)
    blocks = [block for one in found for block in one.blocks]
    assert any(isinstance(block, Dot) and block.short for block in blocks)
    assert any(isinstance(block, Stencil) and block.run for block in blocks)
    assert any(isinstance(block, Stencil) and block.targets for block in blocks)
    assert any(len(one.entries) > 1 and one.puts for one in found)


def test_products_whose_results_lie_apart(tmp_path: Path) -> None:
    """Slices of a layer's outputs, for all samples at once: nothing between them is written."""
    drawn = [of for of in drawn_products(40, 2) if of.batch == 1 and not of.applied]
    apart = [replace(of, result=(of.columns + 1 + i % 9, 1)) for i, of in enumerate(drawn)]
    found = check_products(apart, tmp_path)
    assert {type(block) for one in found for block in one.blocks} >= {Dot, Stencil}


@pytest.mark.parametrize(
    ("core", "fpu"), [("cortex-m7", "fpv5-d16"), ("cortex-m33", "fpv5-sp-d16")]
)
def test_other_cores_that_run_tiles(tmp_path: Path, core: str, fpu: str) -> None:
    build = Build((f"-mcpu={core}", "-mthumb", "-mfloat-abi=hard", f"-mfpu={fpu}"))
    assert check_all([*drawn(12, 30)], tmp_path, build) <= 2
    check_products([*drawn_products(12, 31)], tmp_path, build)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_drawn_products(tmp_path: Path, seed: int) -> None:
    check_products([*drawn_products(60, seed)], tmp_path)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_products_of_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """No number takes part in a sum that is not its own."""
    products = [*drawn_products(12, 20)]
    passes = tiled({f"product_{i}": replace(of, applied=False) for i, of in enumerate(products)})
    core = TileCore(passes, tmp_path)
    for i, (of, name) in enumerate(zip(products, passes, strict=True)):
        left, right, bias = matrices(of, i)
        special = (np.inf, -np.inf, np.nan)[i % 3]
        left[i % len(left)] = right[-1 - i % len(right)] = special
        found = sums(core, name, [right, left, bias], of.batch * of.rows * of.columns)
        expected = summed(replace(of, applied=False), left, right, bias)
        np.testing.assert_array_equal(found, expected.ravel(), str(of))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_drawn_shapes(tmp_path: Path, seed: int) -> None:
    assert check_all([*drawn(50, seed)], tmp_path) <= 3


@pytest.mark.filterwarnings("ignore:invalid value")
def test_gradients_of_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """Padding takes no part in a sum, whatever it would be multiplied with."""
    shapes = [
        Convolution(2, 2, 4, width, 3, (2, taps), (1, stride), (0, taps // 2, 1, taps // 2))
        for taps, stride in ((3, 1), (5, 1), (3, 2), (4, 1))
        for width in range(14, 30, 3)
    ]
    which = Pass.BACKWARD_WEIGHT
    passes = tiled({f"pass_{i}": ConvolutionPass(of, which) for i, of in enumerate(shapes)})
    assert len(passes) == 2 * len(shapes)
    blocks = [block for one in passes.values() for block in one.blocks]
    assert sum(isinstance(block, Dot) and block.head > 0 for block in blocks) > 4
    core = TileCore(passes, tmp_path)
    for i, (shape, special) in enumerate(zip(shapes, cycle((np.inf, -np.inf, np.nan)))):
        case = Case(shape, i)
        case.dy[-1, i % shape.out_channels, i % shape.out_height, [0, -1][i % 2]] = special
        expected = backward_weight(case.geometry, case.x, case.dy)
        stored, applied, times = case.weights(core, f"pass_{i}")
        np.testing.assert_array_equal(stored, expected.ravel(), str(shape))
        np.testing.assert_array_equal(applied, expected.ravel(), str(shape))
        assert (times == 1).all(), shape


@pytest.mark.filterwarnings("ignore:invalid value")
def test_convolutions_with_weights_that_are_not_finite(tmp_path: Path) -> None:
    """Padding takes no part in a sum, whatever it would be multiplied with."""
    shapes = [
        Convolution(1, 2, 3, width, 2, (3, taps), (1, stride), (1, taps // 2) * 2, bias=True)
        for taps, stride in ((3, 1), (5, 1), (3, 2))
        for width in (15, 28)
    ]
    both = (Pass.FORWARD, Pass.BACKWARD_INPUT)
    tasks = {
        f"{which}_{i}": ConvolutionPass(of, which) for i, of in enumerate(shapes) for which in both
    }
    passes = tiled(tasks)
    assert passes.keys() == tasks.keys()
    core = TileCore(passes, tmp_path)
    for i, (shape, special) in enumerate(zip(shapes, cycle((np.inf, -np.inf, np.nan)))):
        case = Case(shape, i)
        case.w[:, :, :, 0] = special
        for which, given, expected in (
            (Pass.FORWARD, [case.x, case.w], forward(case.geometry, case.x, case.w, case.b)),
            (
                Pass.BACKWARD_INPUT,
                [case.dy, case.w],
                backward_input(case.geometry, case.w, case.dy),
            ),
        ):
            found = sums(core, f"{which}_{i}", [*given, case.b], expected.size)
            np.testing.assert_array_equal(found, expected.ravel(), f"{which} of {shape}")
            assert np.isfinite(found).any()


@pytest.mark.parametrize("has_tiles", [True, False])
def test_a_convolution_without_tiles_runs_the_plain_loop(tmp_path: Path, has_tiles: bool) -> None:
    """Sums that are begun and continued, and both gradients."""
    of = Convolution(1, 2, 3, 28, 2, (3, 3), (1, 1), (1, 1, 1, 1), bias=True)
    one = replace(of, in_channels=1)
    case = Case(of, 1)
    tasks: dict[str, Task] = {
        "forward": ConvolutionPass(replace(one, bias=False), Pass.FORWARD),
        "forward_continued": ConvolutionPass(one, Pass.FORWARD, continued=True),
        "backward_input": ConvolutionPass(of, Pass.BACKWARD_INPUT),
        "backward_weight": ConvolutionPass(of, Pass.BACKWARD_WEIGHT),
    }
    core = TileCore(tiled(tasks), tmp_path)

    def run(name: str, channels: int, operands: Sequence[Array], result: Array) -> Array:
        extents = [1, 1, channels, 3, 28, 2, 3, 28, 3, 3, 1, 1, 1, 1]
        table = core.address(name) if has_tiles else 0
        given = [np.array([*extents, table], np.int32), *operands]
        left = Operand(result.tobytes(), written=True)
        all_operands = [*(Operand(each.tobytes()) for each in given), left]
        (found,) = core.results(f"poet_conv2d_{name}_f32", all_operands)
        assert (core.instructions < 5 * of.macs * channels / 2) == has_tiles, name
        return found

    y = np.full(case.geometry.y, np.nan, np.float32)
    for channel, (name, bias) in enumerate(
        (("forward", 0 * case.b), ("forward_continued", case.b))
    ):
        x, w = case.x[:, channel], case.w[:, channel]
        y = run(name, 1, [x, w, bias], y)
    np.testing.assert_array_equal(y, forward(case.geometry, case.x, case.w, case.b).ravel())
    dx = run("backward_input", 2, [case.w, case.dy], case.x)
    np.testing.assert_array_equal(dx, backward_input(case.geometry, case.w, case.dy).ravel())
    dw = run("backward_weight", 2, [case.x, case.dy], case.w)
    np.testing.assert_array_equal(dw, backward_weight(case.geometry, case.x, case.dy).ravel())
