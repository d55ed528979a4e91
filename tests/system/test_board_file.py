# SPDX-License-Identifier: Apache-2.0
"""A board of a user's own: what its file says reaches compiler, linker and emulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from poetfw.common.resources import boards_dir
from system.commands import needs_twin, poetfw, succeed

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_twin]

CHANGES = (
    ('name = "nrf52840"', 'name = "mine"'),
    ('core = "cortex-m4"', 'core = "cortex-m0plus"'),
    ('float_abi = "hard"\nfpu = "fpv4-sp-d16"\n', 'float_abi = "soft"\n'),
    ("value = 262_144", "value = 100_352"),
    (
        "reserved_ram_bytes",
        'reserved_flash_bytes = { value = 8_192, source = "a bootloader" }\nreserved_ram_bytes',
    ),
)
SECOND_TWIN = """
[[twin]]
name = "second"
emulator = "qemu-system-arm"
machine = "mps2-an386"
options = ["semihosting"]
hal = "mps2"
platformio_env = "nrf52840-twin"
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    text = (boards_dir() / "nrf52840.toml").read_text()
    for old, new in CHANGES:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = tmp_path / "mine.toml"
    path.write_text(text + SECOND_TWIN)
    return path


def test_a_board_of_ones_own_is_built_and_run(tmp_path: Path, board: Path) -> None:
    """Of the smallest core, without FPU, behind a bootloader, with RAM of no power of two."""
    report = succeed("build", "--board", board, "--model", "mlp", "--batch", "4", cwd=tmp_path)
    assert report["board"] == "mine"
    assert report["ram_bytes"] <= 100_352
    with (tmp_path / report["elf"]).open("rb") as file:
        elf = ELFFile(file)
        (attributes,) = elf.get_section_by_name(".ARM.attributes").iter_subsections()
        values = {
            a.tag: a.value for s in attributes.iter_subsubsections() for a in s.iter_attributes()
        }
        assert elf.get_section_by_name(".text")["sh_addr"] == 8192
    assert values["TAG_CPU_ARCH"] == 12  # v6S-M, of the ARM ABI's build attributes
    assert "TAG_FP_ARCH" not in values

    first = succeed("run", "--board", board, "--steps", "3", "--verify", cwd=tmp_path)
    assert (first["emulator"], first["emulated"]) == ("qemu", True)
    assert first["verify"]["ok"]
    chosen = ("--emulator", "second")
    second = succeed("run", "--board", board, "--steps", "3", *chosen, "--verify", cwd=tmp_path)
    assert second["emulator"] == "second"
    assert second["verify"]["ok"]
    assert second["loss"] == first["loss"]
    with_fpu = ("--board", "nrf52840", "--model", "mlp", "--batch", "4")
    succeed("build", *with_fpu, cwd=tmp_path)
    assert first["loss"] == succeed("run", *with_fpu[:2], "--steps", "3", cwd=tmp_path)["loss"]


def test_a_board_whose_twins_are_gone_cannot_run(tmp_path: Path) -> None:
    text = (boards_dir() / "linux.toml").read_text()
    (tmp_path / "mine.toml").write_text(text[: text.index("# Nothing is emulated")])
    small = ("--model", "mlp", "--batch", "4", "--ram", "1000000", "--scheduler", "checkpoint-all")
    report = succeed("build", "--board", "mine.toml", *small, cwd=tmp_path)
    assert report["twin_elf"] is None
    result = poetfw("run", "--board", "mine.toml", cwd=tmp_path)
    assert (result.code, "board 'linux' has no twin" in result.stderr) == (1, True)
