# SPDX-License-Identifier: Apache-2.0
"""What the command line does not need, it does not load."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from poetfw.cli.main import COMMANDS

SLOW_TO_IMPORT = (
    "cvxpy",
    "elftools",
    "highspy",
    "matplotlib",
    "onnx",
    "platformio",
    "scipy",
)
NOT_TO_BEGIN = (*SLOW_TO_IMPORT, "numpy", "pydantic", "rich.progress", "rich.table", "serial")


def imported(arguments: list[str], **environment: str) -> list[str]:
    """The modules that a command leaves behind, as it ends well."""
    script = (
        "import atexit, json, os, sys\n"
        "atexit.register(lambda: os.write(2, json.dumps([*sys.modules]).encode()))\n"
        f"sys.argv = ['poetfw', *{arguments!r}]\n"
        "from poetfw.cli.entry import main\n"
        "main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | environment,
    )
    modules: list[str] = json.loads(result.stderr.splitlines()[-1])
    return modules


@pytest.mark.parametrize(
    "arguments", [["--help"], ["boards"], ["build", "--help"], ["models", "mlp"]]
)
def test_quick_commands_import_nothing_slow(arguments: list[str]) -> None:
    assert not set(SLOW_TO_IMPORT).intersection(imported(arguments))


def test_the_version_loads_no_command() -> None:
    modules = imported(["--version"])
    assert not set(NOT_TO_BEGIN).intersection(modules)
    assert not {"poetfw.cli.build", "poetfw.cli.listing"}.intersection(modules)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_needs_no_more_than_the_options(command: str) -> None:
    modules = imported([*command.split(), "--help"])
    assert not set(NOT_TO_BEGIN).intersection(modules)


@pytest.mark.parametrize(
    "words",
    [
        "poetfw b",
        *(f"poetfw {command} --" for command in COMMANDS),
        "poetfw build --board ",
        "poetfw run --board nrf",
        "poetfw build --model ",
        "poetfw build --scheduler poet",
        "poetfw compare --schedulers poet,",
        "poetfw build --optimizer ",
    ],
)
def test_completion_needs_no_more_than_the_options(words: str) -> None:
    modules = imported(
        [],
        _POETFW_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(words.count(" ")),
    )
    assert not set(NOT_TO_BEGIN).intersection(modules)
