# SPDX-License-Identifier: Apache-2.0
"""What the command line does not need, it does not load."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SLOW_TO_IMPORT = (
    "cvxpy",
    "elftools",
    "highspy",
    "matplotlib",
    "onnx",
    "platformio",
    "scipy",
)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["boards"], ["build", "--help"], ["models", "mlp"]]
)
def test_quick_commands_import_nothing_slow(arguments: list[str]) -> None:
    script = (
        "import json, sys; from poetfw.cli import main\n"
        f"sys.argv = ['poetfw', *{arguments!r}]; code = main._run()\n"
        "print(json.dumps([code, *sys.modules]), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    code, *modules = json.loads(result.stderr.splitlines()[-1])
    assert code == 0
    assert [module for module in SLOW_TO_IMPORT if module in modules] == []
