# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from invalid.case import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return Sandbox(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `build/linux`: the model `mlp`, compiled for this computer."""
    from system.commands import ON_LINUX, succeed

    folder = tmp_path_factory.mktemp("compiled")
    succeed("build", *ON_LINUX, "--model", "mlp", "--batch", "8", cwd=folder)
    shutil.rmtree(folder / "build/linux/.pio/core", ignore_errors=True)  # which no case uses
    return folder


@pytest.fixture
def built(sandbox: Sandbox, compiled: Path) -> Path:
    """The sandbox's own copy of the compiled project."""
    shutil.copytree(compiled, sandbox.work, dirs_exist_ok=True)
    return sandbox.work / "build/linux"
