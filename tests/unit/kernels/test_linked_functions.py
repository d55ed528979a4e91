# SPDX-License-Identifier: Apache-2.0
"""What firmware carries for a convolution of each class of shapes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from emulator.kernel_core import Build, kernel_objects, needs_compiler

FIVES = ("5x5_", "5x5_by_2_", "depthwise_5x5_", "depthwise_5x5_by_2_")
CLASSES = ("3x3_", "3x3_by_2_", *FIVES, "depthwise_", "depthwise_by_2_")
PASSES = ("forward", "backward_input", "backward_weight", "backward_weight_update")
USE_GENERAL = {f"{name}{part}" for name in FIVES for part in PASSES[:2]}
USE_GENERAL |= {f"depthwise_{part}" for part in PASSES[2:]}
"""Where weights are not finite, or a depthwise kernel does not have stride 1."""

pytestmark = needs_compiler


def linked(folder: Path, build: Build, classes: Sequence[str] = CLASSES) -> dict[str, set[str]]:
    """The convolutions' functions in firmware that calls one, by that one's class and pass."""
    objects = kernel_objects(build, folder)
    linker = ["arm-none-eabi-gcc", *build.machine, "-nostdlib", "-Wl,--gc-sections"]
    linker += [*objects, "-Wl,--unresolved-symbols=ignore-all", "-o", "elf"]
    found = {}
    for name in (f"{shape}{part}" for shape in classes for part in PASSES):
        entry = f"-Wl,-e,poet_conv2d_{name}_f32"
        subprocess.run([*linker, entry], cwd=folder, check=True)
        symbols = subprocess.run(
            ["arm-none-eabi-nm", "elf"], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        found[name] = set(re.findall(r" T poet_conv2d_(\w+?)(?:_f32)?$", symbols, re.MULTILINE))
    return found


def test_general_loops_are_where_a_shape_may_need_them(tmp_path: Path) -> None:
    classes = (*CLASSES, "pointwise_")
    for name, functions in linked(tmp_path, Build(), classes).items():
        assert len(functions) > 1, "and its inner loops"
        assert bool(functions & set(PASSES)) == (name in USE_GENERAL), name


def test_without_a_floating_point_unit_they_are_all(tmp_path: Path) -> None:
    for name, functions in linked(tmp_path, Build(fpu=False)).items():
        on_the_way = {f"depthwise_each_{part}" for part in PASSES[:2]}
        (general,) = functions - {name} - on_the_way
        assert name.endswith(f"_{general}")
