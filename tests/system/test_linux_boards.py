# SPDX-License-Identifier: Apache-2.0
"""The boards under Linux: one source, on this computer and on emulated cores of their kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from system.commands import needs_aarch64, needs_twin, poetfw, succeed

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_aarch64]

BOARDS = ("linux", "rpi4", "tx2", pytest.param("nrf52840", marks=needs_twin))
CORES = {"rpi4": "Cortex-A72", "tx2": "Cortex-A57"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("boards")


def trained(folder: Path, board: str) -> Any:
    """What five verified steps on a board come to."""
    if not (folder / "build" / board).exists():
        succeed("build", "--board", board, "--batch", "8", cwd=folder)
    return succeed("run", "--board", board, "--steps", "5", "--verify", cwd=folder)


@pytest.fixture(scope="module")
def losses(folder: Path) -> list[float]:
    """Those of this computer."""
    loss: list[float] = trained(folder, "linux")["loss"]
    assert len(set(loss)) == 5
    return loss


@pytest.mark.parametrize("board", BOARDS)
def test_every_board_trains_alike(folder: Path, losses: list[float], board: str) -> None:
    run = trained(folder, board)
    assert run["loss"] == pytest.approx(losses, rel=1e-5, abs=0)
    assert run["verify"]["ok"]
    assert run["verify"]["bit_identical_to_unscheduled"]
    assert run["emulator"] == ("native" if board == "linux" else "qemu")
    assert run["emulated"] is (board != "linux")


def test_the_arena_is_no_larger_than_the_firmware_can_count(folder: Path) -> None:
    trained(folder, "tx2")
    report = json.loads((folder / "build/tx2/build.json").read_text())
    assert report["budget_bytes"] == 2**32 - 512


@pytest.mark.parametrize("board", CORES)
def test_the_program_is_for_the_boards_core(folder: Path, board: str) -> None:
    from elftools.elf.elffile import ELFFile

    trained(folder, board)
    with (folder / f"build/{board}/.pio/build/{board}/firmware.elf").open("rb") as file:
        elf = ELFFile(file)
        assert elf.get_machine_arch() == "AArch64"
        assert elf.get_section_by_name(".interp") is None  # it needs no library of the board's
    ini = (folder / f"build/{board}/platformio.ini").read_text()
    assert f"machine_flags = -mcpu={CORES[board].lower()} -static -pthread\n" in ini


def test_energy_is_claimed_where_it_is_measured(folder: Path, tmp_path: Path) -> None:
    """Of an emulated core, a meter would tell what emulating it takes."""
    channel = {"name": "ina3221", "in1_label": "VDD_IN", "in1_input": 5000, "curr1_input": 2000}
    monitor = tmp_path / "class/hwmon/hwmon0"
    monitor.mkdir(parents=True)
    for name, value in channel.items():
        (monitor / name).write_text(f"{value}\n")
    for board in ("linux", "rpi4"):
        trained(folder, board)
        arguments = ("run", "--board", board, "--steps", "5")
        run = succeed(*arguments, cwd=folder, POETFW_SYSFS=str(tmp_path))
        measured = (run["measured_energy_j"], run["energy_source"])
        if board == "linux":
            assert measured[0] > 0
            assert measured[1] == "ina3221"
            text = poetfw(*arguments, cwd=folder, POETFW_SYSFS=str(tmp_path)).stdout
            assert "energy, measured (ina3221)" in text
        else:
            assert measured == (None, None)
