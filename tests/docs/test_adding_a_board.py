# SPDX-License-Identifier: Apache-2.0
"""docs/adding-a-board.md word by word: its tables are a board, its files a family that runs it."""

from __future__ import annotations

import re
import shutil
import tomllib
from itertools import takewhile
from pathlib import Path

import pytest
from pydantic import BaseModel

from docs.pages import REPOSITORY, block_behind, commands, split
from poetfw.boards import load_board, tables
from poetfw.tools.emulators import EMULATORS
from system.commands import needs_twin, poetfw, succeed

PAGE = "docs/adding-a-board.md"
TEXT = (REPOSITORY / PAGE).read_text()
FAMILY, TWIN = "stm32f405", "netduinoplus2"
SHOWN = (
    f"firmware_templates/hal/{TWIN}/board.c",
    f"firmware_templates/hal/{TWIN}/hal.toml",
    f"firmware_templates/ld/{TWIN}.ld.j2",
    f"firmware_templates/ld/{FAMILY}.ld.j2",
)
ENVIRONMENTS = block_behind(PAGE, "These environments")


def tables_of_the_page() -> str:
    """The tables on the page, one behind the other."""
    blocks = takewhile(lambda block: not block.text.startswith("poetfw"), split(PAGE)[0])
    return "\n".join(block.text for block in blocks)


def files_of_the_family() -> set[str]:
    """Those that the page's table names."""
    named = set()
    for cell in re.findall(r"^\| (`firmware_templates/.*?) \|", TEXT, re.MULTILINE):
        first, *more = re.findall(r"`(.+?)`", cell)
        named |= {first, *(f"{Path(first).parent}/{name}" for name in more)}
    return named


def test_the_tables_are_the_board_that_poetfw_has_under_another_name() -> None:
    shown = tomllib.loads(tables_of_the_page())
    shipped = tomllib.loads(load_board(FAMILY).path.read_text())
    assert shown["name"] == "my-f405"
    assert shown | {key: shipped[key] for key in ("name", "description")} == shipped


def test_the_files_shown_are_those_that_poetfw_has() -> None:
    for file in SHOWN:
        assert block_behind(PAGE, f"`{file}`") == (REPOSITORY / file).read_text(), file
    assert ENVIRONMENTS in (REPOSITORY / "platformio.ini").read_text()


def test_the_table_names_every_file_of_the_family() -> None:
    templates = REPOSITORY / "firmware_templates"
    files = {path.relative_to(REPOSITORY).as_posix() for path in templates.rglob("*.*")}
    assert files_of_the_family() == {file for file in files if FAMILY in file or TWIN in file}


@needs_twin
@pytest.mark.emulator
@pytest.mark.slow
def test_the_files_on_the_page_are_a_board_of_a_third_family(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for part in ("host/poetfw", "firmware_templates", "boards"):
        shutil.copytree(
            REPOSITORY / part, tree / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    (tree / "boards/stm32f405.toml").unlink()
    for file in files_of_the_family():
        (tree / file).unlink()
    for folder in (FAMILY, TWIN):
        (tree / "firmware_templates/hal" / folder).rmdir()
    environments = (REPOSITORY / "platformio.ini").read_text().replace(ENVIRONMENTS, "")
    assert FAMILY not in environments
    (tree / "platformio.ini").write_text(environments)

    own = tmp_path / "config/poetfw/boards/my-f405.toml"
    own.parent.mkdir(parents=True)
    own.write_text(tables_of_the_page())
    reader = {"PYTHONPATH": str(tree / "host"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    without = poetfw("build", "--board", "my-f405", cwd=tmp_path, **reader)
    assert without.code == 1
    assert "firmware.hal: must be a HAL family that poetfw has" in without.stderr
    assert f"not '{FAMILY}'" in without.stderr

    for file in files_of_the_family():
        (tree / file).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / file, tree / file)
    for file in SHOWN:
        (tree / file).write_text(block_behind(PAGE, f"`{file}`"))
    (tree / "platformio.ini").write_text(environments + "\n" + ENVIRONMENTS)

    known = {
        board["name"]: board["file"]
        for board in succeed("boards", cwd=tmp_path, **reader)["boards"]
    }
    assert known["my-f405"] == str(own)

    typed = [command.text.split()[1:] for command in commands(PAGE)]
    assert [words[0] for words in typed] == ["build", "run"]
    build, run = (succeed(*words, cwd=tmp_path, **reader) for words in typed)
    assert build["board"] == "my-f405"
    assert build["checkpoint_all_peak_bytes"] > build["budget_bytes"]
    assert build["ram_bytes"] <= 131_072
    assert (run["emulator"], len(run["loss"])) == ("qemu", 20)
    assert run["instructions"] > 2**24 * 125 // 21  # the counter of cycles has wrapped
    assert run["verify"]["ok"] is True
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.mark.parametrize(
    "table",
    [
        tables._Firmware,
        tables._Toolchain,
        tables._Training,
        tables.TransferRates,
        tables._Beside,
        tables.TwinTable,
        tables.ReferenceTable,
    ],
)
def test_every_key_is_on_the_page(table: type[BaseModel]) -> None:
    named = set(re.findall(r"`([a-z_]+)[ `]", TEXT)) | set(
        re.findall(r"^ +([a-z_]+) = ", TEXT, re.M)
    )
    assert set(table.model_fields) <= named


def test_every_emulator_and_its_options_are_on_the_page() -> None:
    for emulator in EMULATORS.values():
        for name in (emulator.name, *emulator.options):
            assert f"`{name}`" in TEXT
