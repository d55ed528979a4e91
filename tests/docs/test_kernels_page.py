# SPDX-License-Identifier: Apache-2.0
"""docs/kernels.md names functions and files that are there, and shows a block of the demo."""

from __future__ import annotations

import re

from docs.pages import REPOSITORY, read
from poetfw.boards import load_board
from poetfw.firmware.tile_choice import program_tiles
from poetfw.models import build_model
from poetfw.ops import kind_of
from poetfw.ops.tile_tables import table_of
from poetfw.training import make_program

FOLDERS = ("firmware_templates", "host", "benchmarks")


def test_every_function_and_file_that_the_page_names_is_there() -> None:
    files = [
        path
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in {".c", ".h", ".S", ".py"}
    ]
    names = {path.name for path in files}
    words = {word for path in files for word in re.findall(r"\w+", path.read_text())}
    prefixes = {word[: end + 1] for word in words for end in range(len(word))}
    missing = []
    for code in re.findall(r"`([^`\n]+)`", read("docs/kernels.md")):
        if re.fullmatch(r"\w+\.[chS]", code):
            known = any(name.endswith(code) for name in names)
        elif re.fullmatch(r"\w+…", code):
            known = code[:-1] in prefixes
        else:
            known = not re.fullmatch(r"[a-z_]\w*", code) or code in words
        if not known:
            missing.append(code)
    assert missing == []


def test_the_row_of_a_kernel_on_the_page_is_that_of_the_demos_second_convolution() -> None:
    model = build_model("digits-cnn", 32)
    program = make_program(model.graph, model.loss, model.optimizer)
    (op,) = (op for op in program.training.ops if op.name == "conv2")
    table = table_of(kind_of(op).kernel(op, program.training))
    assert table is not None
    tiles = program_tiles(program, load_board("nrf52840"))(table)
    assert tiles is not None
    (block,) = tiles.blocks
    lines = [" ".join(line.split()) for line in block.code.lines]
    row = [line for line in lines[lines.index("/* row 1 */") + 1 :] if not line.endswith(":")]
    section = read("docs/kernels.md").partition("Row 1 of the kernel is:")[2].partition("…")[0]
    shown = re.findall(r"^    (\S+) +(.+?)  ", section + " ", re.M)
    assert len(shown) == 9
    assert [f"{name} {operands}" for name, operands in shown] == row[: len(shown)]
    assert block.name.startswith("poet_tile_3x3_1x8")
