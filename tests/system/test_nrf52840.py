# SPDX-License-Identifier: Apache-2.0
"""The whole way on the nRF52840: schedule, code, PlatformIO, twin, references."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pictures import PICTURES
from system.commands import needs_twin, poetfw, succeed

pytestmark = [pytest.mark.emulator, needs_twin]

BOARD_RAM_BYTES = 262_144
FLASH_BYTES, STACK_BYTES = 30_176, 760
"""What the demo takes when GCC 12.2 compiles it (docs/builds.md): less is welcome, more is not."""
ROOT = Path(__file__).parent.parent.parent


def _compiler() -> str:
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        return ""
    return subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True).stdout


needs_gcc_12_2 = pytest.mark.skipif(
    not _compiler().startswith("12.2"), reason="the figures are of GCC 12.2"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nrf52840")


@pytest.fixture(scope="module")
def build(folder: Path) -> Any:
    return succeed("build", "--board", "nrf52840", cwd=folder, **{PICTURES: "1"})


def test_training_does_not_fit_without_a_schedule(build: Any) -> None:
    assert build["checkpoint_all_peak_bytes"] > 1.4 * BOARD_RAM_BYTES
    assert build["live_bytes"] <= build["peak_bytes"] <= build["budget_bytes"] < BOARD_RAM_BYTES


def test_real_board_elf_fits(folder: Path, build: Any) -> None:
    assert (folder / build["elf"]).is_file()
    assert build["ram_bytes"] <= BOARD_RAM_BYTES
    assert build["flash_bytes"] <= 1_048_576


@needs_gcc_12_2
def test_flash_does_not_grow(build: Any) -> None:
    assert build["flash_bytes"] <= FLASH_BYTES
    table = (ROOT / "docs/builds.md").read_text()
    (together,) = re.findall(r"^\| together \|.*", table, re.MULTILINE)
    assert f" {FLASH_BYTES:,} " in together


def test_a_schedule_takes_a_few_hundred_bytes(build: Any) -> None:
    assert 0 < build["schedule_bytes"] < 1000


def test_schedule_is_certified(build: Any) -> None:
    schedule = build["schedule"]
    assert schedule["status"] == "optimal"
    assert schedule["bound_covers"] == "plans in stages in the order given"
    assert schedule["gap"] <= 1e-3
    assert schedule["recomputes"] + schedule["page_ins"] > 0


@pytest.fixture(scope="module")
def run(folder: Path, build: Any) -> Any:
    return succeed("run", "--board", "nrf52840", cwd=folder)


def test_network_learns_inside_the_twin(build: Any, run: Any) -> None:
    assert run["emulated"]
    assert run["accuracy"] >= 0.90
    assert run["loss"][-1] < run["loss"][0] / 4
    assert run["high_water_bytes"] == build["peak_bytes"]
    assert run["instructions"] > 0
    assert run["stack_high_water_bytes"] < 4096


@needs_gcc_12_2
def test_instructions_are_those_planned_within_1_percent(run: Any) -> None:
    counted = run["ticks"] / run["steps"]
    assert run["step_instructions"] == pytest.approx(counted)
    assert run["planned_instructions"] == pytest.approx(counted, rel=0.01)


def test_transfers_of_a_step_are_those_planned(run: Any) -> None:
    assert run["step_traffic"] == run["planned_traffic"]
    assert run["step_traffic"]["read_bytes"] < run["storage_bytes_read"]  # those of evaluations


def test_stack_does_not_grow(run: Any) -> None:
    assert run["stack_high_water_bytes"] <= STACK_BYTES
    assert f"needs {STACK_BYTES:,} bytes on the twin" in (ROOT / "docs/builds.md").read_text()


def test_readme_shows_the_figures_of_the_demo(build: Any, run: Any) -> None:
    schedule = build["schedule"]
    text = (ROOT / "README.md").read_text()
    for name, figure in {
        "keeping everything": f"{build['checkpoint_all_peak_bytes']:,} B",
        "budget": f"{build['budget_bytes']:,} B",
        "peak": f"{build['peak_bytes']:,} B",
        "schedule": f"{schedule['scheduler']}: {schedule['recomputes']} recomputes, "
        f"{schedule['page_outs']} page-outs, {schedule['page_ins']} page-ins",
        "status": f"{schedule['status']} among plans for this op order",
        "overhead": f"{schedule['overhead']:.4%} of the energy of keeping everything",
        "loss": f"{run['loss'][0]:.4f} → {run['loss'][-1]:.4f}",
        "held-out accuracy": f"{run['accuracy']:.2%}",
        "arena high-water mark": f"{run['high_water_bytes']:,} B",
    }.items():
        assert re.search(rf"^ +{name} +{re.escape(figure)}", text, re.MULTILINE), (name, figure)


def test_the_pages_show_the_demo(folder: Path, build: Any) -> None:
    """Their data and pictures, which `tests/docs/test_figures.py` compares with each other."""
    data = json.loads((ROOT / "docs/img/demo.json").read_bytes())
    arenas = [arena_bytes for _, arena_bytes, _ in data["stages"]]
    assert arenas == sorted(arenas, reverse=True)
    assert arenas[-2:] == [build["checkpoint_all_peak_bytes"], build["peak_bytes"]]
    assert data["budget_bytes"] == build["budget_bytes"]
    schedule = build["schedule"]
    assert data["figures"] == pytest.approx({name: schedule[name] for name in data["figures"]})

    def says(picture: Path) -> str:
        return str(Image.open(picture).info["Description"])

    limits = f"budget {build['budget_bytes']:,} B, board RAM {BOARD_RAM_BYTES:,} B"
    arena = f"keeping everything: {arenas[-2]:,} B; scheduled by poetfw: {arenas[-1]:,} B; {limits}"
    assert says(ROOT / "docs/img/before-after.png").endswith(arena)
    assert limits in says(folder / build["out_dir"] / "memory.png")
    assert f"{build['peak_bytes']:,} B of RAM" in says(folder / build["out_dir"] / "memory.png")
    for name in ("memory.png", "schedule.png"):
        assert says(folder / build["out_dir"] / name) == says(ROOT / "docs/img" / name)
        assert (ROOT / "docs/img" / name).stat().st_size < 150_000


def test_run_agrees_with_the_references(folder: Path, build: Any) -> None:
    run = succeed("run", "--board", "nrf52840", "--steps", "10", "--verify", cwd=folder)
    assert len(run["loss"]) == run["steps"] == 10
    assert run["verify"]["max_rel_error_loss"] <= 1e-5
    assert run["verify"]["max_rel_error_gradients"] <= 1e-4
    assert run["verify"]["max_rel_error_weights"] <= 1e-5
    assert run["verify"]["bit_identical_to_unscheduled"] is True


def test_twin_and_this_computer_calculate_the_same_bits(folder: Path, build: Any) -> None:
    steps = ("--steps", "3")
    succeed("build", "--board", "linux", cwd=folder)
    native = succeed("run", "--board", "linux", *steps, cwd=folder)
    twin = succeed("run", "--board", "nrf52840", *steps, cwd=folder)
    assert twin["loss"] == native["loss"]


def test_paging_goes_through_the_storage(tmp_path: Path) -> None:
    whole = succeed("build", "--board", "nrf52840", "--generate-only", cwd=tmp_path)
    ram = whole["minimum_budget_bytes"]  # with less, weights would be streamed
    limits = ("--ram", str(ram), "--scheduler", "poet-remat-off")
    build = succeed("build", "--board", "nrf52840", *limits, cwd=tmp_path)
    assert build["schedule"]["recomputes"] == 0
    assert build["schedule"]["page_ins"] >= build["schedule"]["page_outs"] > 0
    run = succeed("run", "--board", "nrf52840", "--steps", "2", "--verify", cwd=tmp_path)
    assert run["high_water_bytes"] == build["peak_bytes"] <= ram
    assert run["storage_bytes_written"] > 2 * 65_536
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.fixture
def copied(folder: Path, build: Any, tmp_path: Path) -> Path:
    """A folder with the build, to be changed."""
    shutil.copytree(folder / "build/nrf52840", tmp_path / "build/nrf52840", symlinks=True)
    return tmp_path


def test_corrupt_storage_image_is_refused(copied: Path) -> None:
    image = copied / "build/nrf52840/storage.img"
    content = bytearray(image.read_bytes())
    content[8 * 512 + 20] ^= 1
    image.write_bytes(content)
    result = poetfw("run", "--board", "nrf52840", cwd=copied)
    assert result.code == 4
    assert "is not a storage image" in result.stderr


def test_broken_slot_stops_the_firmware(copied: Path) -> None:
    image = copied / "build/nrf52840/storage.img"
    content = np.frombuffer(image.read_bytes(), np.uint8).copy()
    trailers = np.flatnonzero(content == ord("S"))
    last = max(i for i in trailers if bytes(content[i : i + 4]) == b"SLOT")
    content[last + 12] ^= 1
    image.write_bytes(content.tobytes())
    result = poetfw("run", "--board", "nrf52840", "--steps", "1", cwd=copied)
    assert result.code == 4
    assert "the firmware stopped with an error" in result.stderr
