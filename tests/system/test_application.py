# SPDX-License-Identifier: Apache-2.0
"""An ordinary PlatformIO project: an application in C++, a library, and an interrupt of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.bare_chips import NRF52840
from system.commands import needs_twin, succeed

pytestmark = [pytest.mark.emulator, needs_twin]

APPLICATION = Path(__file__).parent / "application"
ENVIRONMENT = "nrf52840-system"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build whose application is another's."""
    folder = tmp_path_factory.mktemp("application")
    small = ("--model", "mlp", "--batch", "4", "--ram", "150K", "--scheduler", "checkpoint-all")
    succeed("build", "--board", "nrf52840", *small, "--generate-only", cwd=folder)
    project = folder / "build/nrf52840"
    (project / "src/main.c").unlink()
    shutil.copytree(APPLICATION, project, dirs_exist_ok=True)
    return project


def pio_run(project: Path, environment: str = ENVIRONMENT, **variables: str) -> Path:
    """Build as a stranger does, without poetfw; returns the ELF."""
    result = subprocess.run(
        [sys.executable, "-m", "platformio", "run", "-e", environment],
        cwd=project,
        env={**os.environ, "HOME": str(project.parent), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return project / f".pio/build/{environment}/firmware.elf"


@pytest.mark.parametrize("flags", ["", pytest.param("-flto", marks=pytest.mark.slow)])
def test_an_application_has_its_objects_its_library_and_its_interrupts(
    project: Path, tmp_path: Path, flags: str
) -> None:
    elf = pio_run(project, PLATFORMIO_BUILD_FLAGS=flags)
    image = (project / "storage.img").read_bytes()
    code, lines, said = NRF52840.run(tmp_path, elf, image)
    assert (code, said) == (0, "")
    (line,) = (line for line in lines if line.startswith("application"))
    found = re.fullmatch(r"application constructed=42 steps=3 periods=(\d+)", line)
    assert found, lines
    assert int(found[1]) > 3
