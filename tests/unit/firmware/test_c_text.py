# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poetfw.firmware import initial_weights
from poetfw.firmware.c_text import comment_text, float_literal, string_literal, wrap_call


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_literal_is_exact(value: float) -> None:
    literal = float_literal(value)
    assert literal.endswith("f")
    assert np.float32(float.fromhex(literal[:-1])) == np.float32(value)


@given(st.text())
def test_no_text_breaks_out_of_a_comment(text: str) -> None:
    safe = comment_text(text)
    assert len(safe) <= 48
    assert not set(safe) & set('*/\\?\n\r"')
    assert safe.isascii()


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "é", "??/"])
def test_string_literal_refuses_what_needs_escapes(text: str) -> None:
    with pytest.raises(AssertionError):
        string_literal(text)


def test_long_calls_break_under_the_parenthesis() -> None:
    text = wrap_call("function", [f"argument_{i}" for i in range(12)], indent=4)
    first, *rest = text.splitlines()
    assert first.startswith("function(argument_0, ")
    assert rest
    assert all(line.startswith(" " * 13 + "argument_") for line in rest)
    assert all(len(line) <= 100 for line in [" " * 4 + first, *rest])


def test_weights_are_written_as_the_words_of_all_their_floats() -> None:
    values = np.linspace(-2, 3, 21, dtype=np.float32)
    (written,) = initial_weights({"P0001": "layer.weight"}, {"layer.weight": values})
    words = re.findall(r"0x([0-9a-f]{8})u,", "\n".join(written.lines))
    assert bytes.fromhex("".join(words)) == values.astype(">f4").tobytes()
