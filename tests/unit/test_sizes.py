# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them, on the command line, in the environment and in poetfw.toml."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poetfw.common.sizes import parse_bytes
from poetfw.settings.values import Bytes
from system.commands import poetfw

K = 1024


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("262144", 262_144),
        ("262,144", 262_144),
        ("262_144", 262_144),
        ("262,144 B", 262_144),
        ("256K", 256 * K),
        ("256k", 256 * K),
        ("256KB", 256 * K),
        ("256kB", 256 * K),
        ("256KiB", 256 * K),
        ("256 KiB", 256 * K),
        (" 256K ", 256 * K),
        ("0.25M", 256 * K),
        ("1.5M", 1536 * K),
        ("2MiB", 2048 * K),
        ("1GB", K**3),
        ("1T", K**4),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


def test_a_number_is_one_already_and_no_text_begins_with_a_sign() -> None:
    size = Bytes(min=1)
    assert size.convert(4096, None, None) == size.convert("4K", None, None) == 4096
    for wrong in (0, "-4K", "-4096"):
        with pytest.raises(click.BadParameter):
            size.convert(wrong, None, None)


@pytest.mark.parametrize(
    "text",
    [
        *("", "K", "-1", "-1K", "many", "1e6", "0x10", "1.5", "256Kb/s", "256Q", "2 5 6", "1,00"),
        *("1,0000", "1.0001K", "0.1K", ".5K", "5.K", "nan", "inf", "٢٥٦", "256K 1", "1,024.5K"),
        *("1K\n1", "9" * 2000),
    ],
)
def test_anything_else_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not (a number of bytes|a whole number of bytes)"):
        parse_bytes(text)
    with pytest.raises(click.BadParameter):
        Bytes(0).convert(text, None, None)


@given(st.integers(0, 2**60), st.sampled_from(["", "K", "M", "kB", "KiB", "miB", "G", " GiB", "B"]))
def test_a_unit_multiplies(number: int, unit: str) -> None:
    power = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3}[unit.strip().upper().rstrip("B").rstrip("I")]
    assert parse_bytes(f"{number}{unit}") == number * K**power
    assert parse_bytes(f"{number:,}{unit}") == number * K**power


@given(st.text(max_size=12))
def test_no_text_is_misread(text: str) -> None:
    try:
        size = parse_bytes(text)
    except ValueError:
        return
    assert text.isascii()
    assert size >= 0


PLACE = ("place", "buffers.csv", "--json")


def test_the_environment_and_the_settings_file_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "buffers.csv").write_text("id,lower,upper,size\na,0,1,1024\n")
    refused = poetfw(*PLACE, "--capacity", "0.5K", cwd=tmp_path)
    assert refused.code == 5
    assert "within 512 bytes" in refused.stderr
    assert poetfw(*PLACE, "--capacity", "1K", cwd=tmp_path).code == 0
    (tmp_path / "poetfw.toml").write_text('capacity = "0.5K"\n')
    assert poetfw(*PLACE, cwd=tmp_path).code == 5
    (tmp_path / "poetfw.toml").write_text("capacity = 1024\n")
    assert poetfw(*PLACE, cwd=tmp_path).code == 0
    (tmp_path / "poetfw.toml").write_text('capacity = "half"\n')
    wrong = poetfw(*PLACE, cwd=tmp_path)
    assert wrong.code == 1
    assert "poetfw.toml" in wrong.stderr
    assert "'half' is not a number of bytes" in wrong.stderr
