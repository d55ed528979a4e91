# SPDX-License-Identifier: Apache-2.0
"""docs/adding-a-board.md against the files that it speaks of."""

from __future__ import annotations

import re
import tomllib

import pytest
from pydantic import BaseModel

from docs.pages import REPOSITORY, split
from poetfw.boards import load_board, loader
from poetfw.devices.emulators import EMULATORS

PAGE = "docs/adding-a-board.md"
TEXT = (REPOSITORY / PAGE).read_text()


def test_the_examples_are_those_of_nrf52840_and_mkr1000() -> None:
    shown = "\n".join(block.text for block in split(PAGE)[0] if block.text.startswith("["))
    tables = tomllib.loads(shown)
    board = tomllib.loads(load_board("nrf52840").path.read_text())
    smaller = tomllib.loads(load_board("mkr1000").path.read_text())
    assert tables.pop("training") == smaller["training"]
    assert tables == {key: board[key] for key in ("firmware", "toolchain", "twin")}


@pytest.mark.parametrize(
    "table",
    [loader._Firmware, loader._Toolchain, loader._Training, loader._Twin, loader._Reference],
)
def test_every_key_is_on_the_page(table: type[BaseModel]) -> None:
    named = set(re.findall(r"`([a-z_]+)`", TEXT)) | set(re.findall(r"^ +([a-z_]+) = ", TEXT, re.M))
    assert set(table.model_fields) <= named


def test_every_emulator_and_its_options_are_on_the_page() -> None:
    for emulator in EMULATORS.values():
        for name in (emulator.name, *emulator.options):
            assert f"`{name}`" in TEXT
