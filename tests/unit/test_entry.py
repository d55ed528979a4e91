# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, or too little memory, while the command is still loading."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(name, *others):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{number})
sys.meta_path.insert(0, Finder)
sys.argv = ["poetfw", "profile", "--board", "nrf52840", {option!r}]
from poetfw.cli.entry import main
main()
"""


SHORT = """
import sys
class Finder:
    def find_spec(name, *others):
        if name == "rich":
            raise MemoryError
sys.meta_path.insert(0, Finder)
sys.argv = ["poetfw", "boards", *sys.argv[1:]]
from poetfw.cli.entry import main
main()
"""


@pytest.mark.parametrize("option", ["--json", "--verbose"])
def test_memory_that_does_not_suffice_to_load_it_is_an_error(option: str) -> None:
    """Loading the command, and printing an error, both need the module that finds no memory."""
    command = [sys.executable, "-c", SHORT, option]
    done = subprocess.run(command, capture_output=True, check=False)
    said = "error: memory ran out: free some of this computer's memory"
    assert (done.returncode, done.stderr.decode().splitlines()) == (3, [said])
    if option == "--json":
        assert json.loads(done.stdout)["error"] == {
            "message": said.removeprefix("error: "),
            "exit_code": 3,
            "try_next": [],
            "said": [],
        }


@pytest.mark.parametrize("module", ["click", "numpy", "poetfw.cli.main"])
@pytest.mark.parametrize(("number", "option"), [("SIGINT", "--json"), ("SIGTERM", "--report")])
def test_whoever_stops_it_while_it_loads_ends_it(module: str, number: str, option: str) -> None:
    assert hasattr(signal, number)
    source = INTERRUPTED.format(module=module, number=number, option=option)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted\n")
    if option == "--json":
        assert json.loads(done.stdout)["error"]["exit_code"] == 130
    else:
        assert not done.stdout
