from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poetfw.devices.console import parse_line
from poetfw.errors import DeviceError


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


def test_nan_means_training_diverged() -> None:
    event = parse_line(b"@step 1 loss=7fc00000")
    assert event is not None
    with pytest.raises(DeviceError, match="training diverged"):
        event.finite("loss")
