# SPDX-License-Identifier: Apache-2.0
"""One model and one seed on every board, and on every emulator of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poetfw.boards import load_board
from system.commands import needs_aarch64, needs_twin, succeed

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_twin, needs_aarch64]

BOARDS = ("linux", "mkr1000", "nrf52840", "rpi4", "tx2")
TWINS = [(name, twin.name) for name in BOARDS for twin in load_board(name).twins]
SAME = ("--batch", "4", "--momentum", "0")
STEPS = ("--steps", "5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("boards")


class Runs:
    """Builds of the boards, and what five steps on their twins come to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.builds: dict[str, Any] = {}
        self.runs: dict[tuple[str, str], Any] = {}
        self.images: dict[tuple[str, str], bytes] = {}

    def build(self, board: str) -> Any:
        if board not in self.builds:
            self.builds[board] = succeed("build", "--board", board, *SAME, cwd=self.folder)
        return self.builds[board]

    def run(self, board: str, twin: str) -> Any:
        if (board, twin) not in self.runs:
            image = self.folder / self.build(board)["out_dir"] / "storage.img"
            arguments = ("run", "--board", board, "--emulator", twin, *STEPS, "--verify")
            self.runs[board, twin] = succeed(*arguments, cwd=self.folder)
            trained = image.parent / "run/storage.img"
            self.images[board, twin] = trained.read_bytes()[: image.stat().st_size]
        return self.runs[board, twin]


@pytest.fixture(scope="module")
def all_runs(folder: Path) -> Runs:
    return Runs(folder)


@pytest.mark.parametrize(("board", "twin"), TWINS)
def test_every_twin_of_every_board_trains_alike(all_runs: Runs, board: str, twin: str) -> None:
    losses = all_runs.run("linux", "native")["loss"]
    assert len(set(losses)) == 5
    run = all_runs.run(board, twin)
    assert run["emulator"] == twin
    assert run["loss"] == pytest.approx(losses, rel=1e-5, abs=0)
    assert run["verify"]["ok"]
    assert run["verify"]["bit_identical_to_unscheduled"] is True
    assert run["high_water_bytes"] == all_runs.build(board)["peak_bytes"]
    stack = load_board(board).stack_bytes
    assert 0 < (run["stack_high_water_bytes"] or 1) <= stack


@pytest.mark.parametrize("board", ["mkr1000", "nrf52840"])
def test_a_boards_twins_leave_the_same_bits(all_runs: Runs, board: str) -> None:
    """QEMU's machine, and the model of the chip that boots the program that is flashed."""
    for twin in ("qemu", "unicorn"):
        all_runs.run(board, twin)
    assert all_runs.images[board, "qemu"] == all_runs.images[board, "unicorn"]
    one, other = (all_runs.runs[board, twin] for twin in ("qemu", "unicorn"))
    for figure in ("loss", "accuracy", "storage_bytes_read", "storage_bytes_written"):
        assert one[figure] == other[figure]
    untrained = all_runs.folder / all_runs.build(board)["out_dir"] / "storage.img"
    assert untrained.read_bytes() != all_runs.images[board, "qemu"]


@pytest.mark.parametrize("twin", ["qemu", "unicorn"])
def test_pages_through_the_boards_driver_change_no_bit(
    all_runs: Runs, tmp_path: Path, twin: str
) -> None:
    """The same training with another schedule, which pages all that it can."""
    limits = ("--scheduler", "poet-remat-off")
    build = succeed("build", "--board", "mkr1000", *SAME, *limits, cwd=tmp_path)
    assert build["schedule"]["page_ins"] > 0
    assert build["schedule"]["recomputes"] == 0
    paged = succeed("run", "--board", "mkr1000", "--emulator", twin, *STEPS, cwd=tmp_path)
    assert paged["loss"] == all_runs.run("mkr1000", twin)["loss"]
    assert paged["high_water_bytes"] == build["peak_bytes"]
    assert paged["storage_bytes_written"] > 0
