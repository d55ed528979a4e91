# SPDX-License-Identifier: Apache-2.0
"""A project belongs to its user: PlatformIO builds it without poetfw, and without a registry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from system.commands import succeed


@pytest.mark.slow
def test_pio_run_builds_a_project_and_leaves_it_runnable(tmp_path: Path) -> None:
    succeed("build", "--board", "linux", "--model", "mlp", cwd=tmp_path)
    project = tmp_path / "build" / "linux"
    elf = project / ".pio" / "build" / "linux" / "firmware.elf"
    before = elf.read_bytes()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLATFORMIO_")}
    result = subprocess.run(
        [sys.executable, "-m", "platformio", "run"],
        cwd=project,
        env={**environment, "HOME": str(tmp_path)},  # no packages of an installation of the user's
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert elf.read_bytes() == before
    assert not (tmp_path / ".platformio" / "packages").exists()
    assert succeed("run", "--board", "linux", "--steps", "1", cwd=tmp_path)["steps"] == 1
