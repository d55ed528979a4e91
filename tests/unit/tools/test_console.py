# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poetfw.common.errors import DeviceError
from poetfw.tools.console import Event, parse_line


def test_a_step_line() -> None:
    event = parse_line(b"@step 12 loss=3f9e0651 ticks=123456\r\n")
    assert event is not None
    assert (event.word, event.number) == ("step", 12)
    assert event.real("loss") == pytest.approx(1.2345678)
    assert event.integer("ticks") == 123456


@given(st.binary(max_size=200))
def test_any_bytes_give_an_event_or_none(line: bytes) -> None:
    event = parse_line(line)
    assert event is None or line.startswith(b"@")


@pytest.mark.parametrize(
    "line", [b"step 1 loss=3f9e0651", b"@step loss", b"@step 1 loss=\xff", b"@STEP 1", b""]
)
def test_other_lines_are_ignored(line: bytes) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize("text", ["zz", "3f9e065", "3f9e06511", ""])
def test_malformed_floats_are_refused(text: str) -> None:
    event = parse_line(f"@step 1 loss={text}".encode()) or parse_line(b"@step 1")
    assert event is not None
    with pytest.raises(DeviceError, match="no f32 'loss'"):
        event.real("loss")


@pytest.mark.parametrize("text", ["", "-1", "1e3", "1" * 21, "\N{SUPERSCRIPT TWO}"])
def test_malformed_numbers_are_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="no number 'ticks'"):
        Event("done", 0, {"ticks": text}).integer("ticks")
    assert Event("done", 0, {"ticks": "9" * 20}).integer("ticks") == 10**20 - 1


def test_a_line_about_no_step_has_number_0() -> None:
    event = parse_line(b"@done ticks=5")
    assert event is not None
    assert (event.number, event.integer("ticks")) == (0, 5)


@pytest.mark.parametrize("bits", ["7fc00000", "7f800000", "ff800000"])
def test_nan_and_infinity_mean_training_diverged(bits: str) -> None:
    event = parse_line(f"@step 1 loss={bits}".encode())
    assert event is not None
    with pytest.raises(DeviceError, match="training diverged"):
        event.finite("loss")
