# SPDX-License-Identifier: Apache-2.0
"""A project is PlatformIO's from then on: it builds and uploads where there is no poetfw."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from system.commands import needs_twin, succeed

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_twin]

WITHOUT = """
import sys
from importlib.machinery import PathFinder


class Without:
    def find_spec(name, path=None, target=None):
        elsewhere = [p for p in sys.path if "site-packages" not in p]
        spec = PathFinder.find_spec(name, elsewhere) if name == "SCons" else None
        if name in ("poetfw", "SCons") and spec is None:
            raise ModuleNotFoundError(name)
        return spec


sys.meta_path.insert(0, Without)
"""
"""Makes a Python that has neither poetfw nor the SCons of the one that runs the tests."""

UPLOADS = {
    "nrf52840": r"nrfjprog -f nrf52 --program \S+/firmware.hex --sectorerase --verify --reset",
    "mkr1000": r"bossac --port=/dev/ttyX --usb-port --offset=0x2000 .*/firmware.bin",
    "stm32f405": (
        r"openocd -f interface/stlink.cfg -f target/stm32f4x.cfg "
        r"-c program {\S+/firmware.elf} verify reset exit"
    ),
}


class Reader:
    """Somebody with PlatformIO, the system's compilers and a project, but without poetfw."""

    def __init__(self, root: Path, project: Path) -> None:
        self.project = project
        self.told = root / "told"
        python, programs = root / "python", root / "bin"
        for folder in (python, programs):
            folder.mkdir()
        (python / "sitecustomize.py").write_text(WITHOUT)
        for name in ("nrfjprog", "bossac", "openocd", "dfu-util"):
            (programs / name).write_text(f'#!/bin/sh\necho "{name} $@" >> "{self.told}"\n')
            (programs / name).chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "PYTHONPATH": str(python),
            "HOME": str(root),
        }

    def runs(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def pio(self, *arguments: str) -> str:
        result = self.runs("-m", "platformio", "run", *arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


@pytest.mark.parametrize("board", UPLOADS)
def test_a_project_is_built_and_uploaded_without_poetfw(board: str, tmp_path: Path) -> None:
    build = succeed("build", "--board", board, "--model", "mlp", "--batch", "4", cwd=tmp_path)
    project = tmp_path / build["out_dir"]
    binary = f".pio/build/{board}-system/firmware.bin"
    before = (project / binary).read_bytes()
    shutil.rmtree(project / ".pio/build")
    moved = tmp_path / "moved"
    project.rename(moved)
    reader = Reader(tmp_path, moved)
    assert reader.runs("-c", "import poetfw").returncode != 0
    assert reader.runs("-c", "import SCons").returncode != 0
    assert shutil.which("poetfw", path=reader.environment["PATH"]) is None

    environment = f"{board}-system"
    reader.pio()
    assert (moved / binary).read_bytes() == before
    assert (moved / f".pio/build/{board}-twin/firmware.elf").is_file()
    said = reader.pio("-e", environment, "-t", "size")
    assert re.search(r"^ *text\s+data\s+bss\s+dec", said, re.MULTILINE)
    upload = ("-e", environment, "-t", "upload")
    if board == "mkr1000":  # whose sketch would have to become the bootloader
        assert "upload" in reader.pio("-e", environment, "--list-targets")
    else:
        reader.pio(*upload)
        assert re.fullmatch(UPLOADS[board], reader.told.read_text().strip())


def test_a_program_for_this_computer_is_built_without_poetfw(tmp_path: Path) -> None:
    build = succeed("build", "--board", "linux", "--model", "mlp", "--batch", "4", cwd=tmp_path)
    project = tmp_path / build["out_dir"]
    shutil.rmtree(project / ".pio/build")
    reader = Reader(tmp_path, project)
    reader.pio("-e", "linux")
    assert re.search(r"^ *text\s+data", reader.pio("-e", "linux", "-t", "size"), re.MULTILINE)
    assert (tmp_path / build["elf"]).is_file()


def test_the_stm32f405_uploads_through_its_usb_port(tmp_path: Path) -> None:
    """As docs/hardware.md says: after a change of one word in platformio.ini."""
    build = succeed("build", "--board", "stm32f405", "--model", "mlp", "--batch", "4", cwd=tmp_path)
    project = tmp_path / build["out_dir"]
    settings = project / "platformio.ini"
    text = settings.read_text()
    assert text.count("upload_protocol = stlink") == 1
    settings.write_text(text.replace("upload_protocol = stlink", "upload_protocol = dfu"))
    reader = Reader(tmp_path, project)
    reader.pio("-e", "stm32f405-system", "-t", "upload")
    assert re.fullmatch(
        r"dfu-util --device 0483:df11 --alt 0 --dfuse-address 0x08000000:leave "
        r"--download \S+/firmware.bin",
        reader.told.read_text().strip(),
    )
    binary = project / ".pio/build/stm32f405-system/firmware.bin"
    stack = int.from_bytes(binary.read_bytes()[:4], "little")
    reset = int.from_bytes(binary.read_bytes()[4:8], "little")
    assert stack == 0x20000000 + 4096
    assert 0x08000000 < reset < 0x08000000 + os.stat(binary).st_size
