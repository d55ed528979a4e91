# SPDX-License-Identifier: Apache-2.0
"""What a build says where the linker had no room."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import ToolError
from poetfw.common.resources import boards_dir
from poetfw.pipeline import compile_build, plan_build, write_build
from poetfw.planning import BuildSettings


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs the compiler")
def test_a_build_that_overflows_says_what_to_do(tmp_path: Path) -> None:
    text = (boards_dir() / "nrf52840.toml").read_text()
    figure = 'flash_bytes = { value = 1_048_576, source = "PS'
    assert figure in text
    path = tmp_path / "small.toml"
    path.write_text(text.replace(figure, figure.replace("1_048_576", "8_192")))
    assert load_board(path).flash_bytes == 8192
    build = plan_build(BuildSettings(board=str(path), model="mlp", batch=2), lambda text: None)
    report = write_build(build, tmp_path / "out")
    with pytest.raises(
        ToolError, match=r"does not fit nrf52840: flash overflows by [\d,]+ B"
    ) as one:
        compile_build(build, report, tmp_path / "out")
    assert all("FLASH" in line for line in one.value.said)
    (tmp_path / "out/src/main.c").write_text("no C\n")
    with pytest.raises(ToolError, match="ended with exit code"):
        compile_build(build, report, tmp_path / "out")
