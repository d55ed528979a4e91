# SPDX-License-Identifier: Apache-2.0
"""What firmware carries for a convolution of each class of shapes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from unit.kernels.test_kernels_compile import HARD_FLOAT, SOFT_FLOAT, TEMPLATES

FIVES = ("5x5_", "5x5_by_2_", "depthwise_5x5_", "depthwise_5x5_by_2_")
CLASSES = ("3x3_", "3x3_by_2_", *FIVES, "depthwise_", "depthwise_by_2_")
PASSES = ("forward", "backward_input", "backward_weight", "backward_weight_update")
USE_GENERAL = {f"{name}{part}" for name in FIVES for part in PASSES[:2]}
USE_GENERAL |= {f"depthwise_{part}" for part in PASSES[2:]}
"""Where weights are not finite, or a depthwise kernel does not have stride 1."""

pytestmark = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc"
)


def linked(folder: Path, core: list[str], classes: Sequence[str] = CLASSES) -> dict[str, set[str]]:
    """The convolutions' functions in firmware that calls one, by that one's class and pass."""
    compiler = ["arm-none-eabi-gcc", *core, "-std=c11", "-O2", "-ffreestanding", "-nostdlib"]
    compiler += ["-ffunction-sections", "-fdata-sections", "-ffp-contract=off", "-fno-math-errno"]
    kernels = TEMPLATES / "kernels"
    sources = [*kernels.glob("conv2d*.[cS]"), *map(kernels.joinpath, ("update.c", "dot.c"))]
    includes = [f"-I{kernels}", f"-I{TEMPLATES / 'runtime'}"]
    subprocess.run([*compiler, *includes, "-c", *map(str, sources)], cwd=folder, check=True)
    left_out = ["-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all"]
    found = {}
    for name in (f"{shape}{part}" for shape in classes for part in PASSES):
        entry = f"-Wl,-e,poet_conv2d_{name}_f32"
        objects = [f"{path.stem}.o" for path in sources]
        subprocess.run([*compiler, *left_out, entry, *objects, "-o", "elf"], cwd=folder, check=True)
        symbols = subprocess.run(
            ["arm-none-eabi-nm", "elf"], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        found[name] = set(re.findall(r" T poet_conv2d_(\w+?)(?:_f32)?$", symbols, re.MULTILINE))
    return found


def test_general_loops_are_where_a_shape_may_need_them(tmp_path: Path) -> None:
    classes = (*CLASSES, "pointwise_")
    for name, functions in linked(tmp_path, HARD_FLOAT, classes).items():
        assert len(functions) > 1, "and its inner loops"
        assert bool(functions & set(PASSES)) == (name in USE_GENERAL), name


def test_without_a_floating_point_unit_they_are_all(tmp_path: Path) -> None:
    for name, functions in linked(tmp_path, SOFT_FLOAT).items():
        on_the_way = {f"depthwise_each_{part}" for part in PASSES[:2]}
        (general,) = functions - {name} - on_the_way
        assert name.endswith(f"_{general}")
