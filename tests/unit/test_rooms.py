# SPDX-License-Identifier: Apache-2.0
"""The contract of rooms holds, and breaks on an import that it forbids."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("poetfw", "workloads"):
        shutil.copytree(ROOT / "host" / name, tmp_path / name, ignore=ignore)
    return tmp_path / "poetfw"


def test_the_contract_holds(package: Path) -> None:
    assert lint(package.parent).returncode == 0


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("common/errors.py", "import poetfw.cli.main", "poetfw.common.errors -> poetfw.cli.main"),
        (
            "runs/execution.py",
            "def later() -> None:\n    import poetfw.runs.desks",
            "No cycles are allowed in poetfw.runs",
        ),
        ("another.py", "", "poetfw.another"),
        ("models/mlp.py", "import workloads.olla", "poetfw is not allowed to import workloads"),
    ],
    ids=["upwards", "circle in a room, from a function", "loose module", "not shipped"],
)
def test_the_contract_breaks(package: Path, file: str, line: str, said: str) -> None:
    with (package / file).open("a") as source:
        source.write(f"\n\n{line}\n")
    result = lint(package.parent)
    assert result.returncode != 0
    assert said in result.stdout
