# SPDX-License-Identifier: Apache-2.0
"""platformio.ini has an environment for every board and twin, and none besides."""

from __future__ import annotations

import configparser
from itertools import pairwise

import pytest

from poetfw.boards import Board, list_boards, load_board
from poetfw.boards.environments import SYSTEM_SUFFIX, known_environments
from poetfw.common.resources import firmware_templates_dir, platformio_ini
from poetfw.firmware.platformio_ini import SANITIZE_SUFFIX, select_environments

BARE_METAL = [board.name for board in list_boards() if not board.toolchain.hosted]


def of_the_machines(board: Board) -> set[str]:
    machines = [machine for twin in board.twins for machine in (twin.machine, twin.reference)]
    return {machine.platformio_env for machine in machines if machine.platformio_env is not None}


def setting(environment: str, key: str) -> str:
    """What an environment, or what it extends, says."""
    ini = configparser.RawConfigParser()
    ini.read_string(platformio_ini().read_text())
    section = f"env:{environment}"
    while key not in ini[section]:
        section = ini[section]["extends"]
    return ini[section][key]


def test_comments_stand_where_they_stood_and_the_licence_at_the_top() -> None:
    board = load_board("linux")
    text = select_environments(["linux"], ["linux"], board.toolchain, 115200).decode()
    licence, *lines = text.splitlines()
    assert licence == "; SPDX-License-Identifier: Apache-2.0"
    assert licence not in lines
    whole = platformio_ini().read_text().splitlines()
    above = {
        line: before
        for before, line in pairwise(whole)
        if before.startswith(";") and line.startswith("[")
    }
    commented = [n for n, line in enumerate(lines) if line in above]
    assert "[toolchain]" in [lines[n] for n in commented]
    assert all(lines[n - 1] == above[lines[n]] for n in commented)


def test_every_environment_is_some_boards() -> None:
    named = {f"linux{SANITIZE_SUFFIX}"}
    known = list_boards()
    labels = [f"{board.name}:{storage}" for board in known for storage in board.storages]
    for board in map(load_board, labels):
        itself = board.platformio_env
        named |= {itself, *of_the_machines(board)}
        named |= {itself + SYSTEM_SUFFIX} if not board.toolchain.hosted else set()
    assert known_environments() == named


@pytest.mark.parametrize("name", BARE_METAL)
def test_a_board_is_built_by_its_stock_platform_and_by_the_systems_compiler(name: str) -> None:
    environment = load_board(name).platformio_env
    assert setting(environment, "platform").startswith("platformio/")
    assert setting(environment, "extra_scripts") == "pre:platforms/machine_flags.py"
    system = environment + SYSTEM_SUFFIX
    for key in ("build_src_filter", "build_flags", "board_build.ldscript"):
        assert setting(environment, key) == setting(system, key)
    folder = firmware_templates_dir() / "platformio/systemgcc"
    for offline in (system, *of_the_machines(load_board(name))):
        assert setting(offline, "platform") == "symlink://${PROJECT_DIR}/platforms/systemgcc"
        assert (folder / "boards" / f"{setting(offline, 'board')}.json").is_file()
