# SPDX-License-Identifier: Apache-2.0
"""Settings in poetfw.toml: which command gets which."""

from __future__ import annotations

from pathlib import Path

import pytest

from poetfw.cli.config import read_config
from poetfw.common.errors import ConfigError

OPTIONS = {
    "build": {"board": True, "batch": True, "out": False, "rate": True},
    "run": {"board": True, "steps": True, "out": False},
}


def read(folder: Path, text: str) -> dict[str, dict[str, str]]:
    (folder / "poetfw.toml").write_text(text)
    return read_config(folder, OPTIONS)


def test_without_a_file_nothing_is_set(tmp_path: Path) -> None:
    assert read_config(tmp_path, OPTIONS) == {}


def test_a_key_at_the_top_is_for_every_command_that_has_it(tmp_path: Path) -> None:
    assert read(tmp_path, 'board = "linux"\nbatch = 8') == {
        "build": {"board": "linux", "batch": "8"},
        "run": {"board": "linux"},
    }


@pytest.mark.parametrize("last", [True, False])
def test_a_table_is_for_its_command_and_comes_first(tmp_path: Path, last: bool) -> None:
    """A key at the top can only be written before the tables; dotted keys come in any order."""
    lines = ['board = "linux"', 'build.board = "rpi4"']
    settings = read(tmp_path, "\n".join(lines if last else reversed(lines)))
    assert settings == {"build": {"board": "rpi4"}, "run": {"board": "linux"}}


@pytest.mark.parametrize(
    ("value", "text"), [("1", "1"), ("0.05", "0.05"), ("true", "True"), ('"x y"', "x y")]
)
def test_values_become_what_stands_behind_a_flag(tmp_path: Path, value: str, text: str) -> None:
    assert read(tmp_path, f"rate = {value}")["build"] == {"rate": text}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[flash]\nport = 1", r"\[flash\] is not a command"),
        ("[build]\nsteps = 1", "build.steps is not a setting"),
        ("speed = 1", "speed is not a setting"),
        ('out = "here"', "out is not a setting"),  # it means something else in each command
        ("board = [1]", "board must be a text, a number or true or false"),
        ('board = "a\\u0000b"', "board holds a NUL character"),
        ("board = ", "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)
