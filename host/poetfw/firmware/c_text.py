# SPDX-License-Identifier: Apache-2.0
"""Python values as C text: literals, and comments escaped against untrusted strings."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable

import numpy as np

C_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    constexpr continue decltype default delete do double else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public register restrict return short signed sizeof static
    struct switch template this throw true try typedef typeid typename typeof union unsigned using
    virtual void volatile wchar_t while xor xor_eq
    """.split()
)
"""Keywords of C and C++."""


def float_literal(value: float) -> str:
    """The exact f32 nearest to `value`, as a hexadecimal literal."""
    rounded = float(np.float32(value))
    assert math.isfinite(rounded), value
    return f"{rounded.hex()}f"


def literal(value: int | float | str | tuple[float, ...]) -> str:
    """C text of an int, a function's name, a float (as an exact f32 literal) or a table."""
    if isinstance(value, tuple):
        return "(const float[]){\n" + table(value) + "}"
    return float_literal(value) if isinstance(value, float) else str(value)


def table(values: Iterable[float]) -> str:
    """Exact f32 literals with commas between them, on indented lines."""
    indent = " " * 8
    text = ", ".join(map(float_literal, values))
    return textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent)


def string_literal(text: str) -> str:
    """A C string literal; the text must be printable ASCII without quotes or backslashes."""
    assert re.fullmatch(r"[ !#->@-\[\]-~]*", text), text
    return f'"{text}"'


def comment_text(text: str, limit: int = 48) -> str:
    """A model's string made safe and short enough to stand inside a C comment.

    Letters, digits and a few marks stay; everything else (so every way to end the comment, splice
    a line or form a trigraph) becomes "_".
    """
    safe = "".join(c if c.isascii() and (c.isalnum() or c in " _-.,:()[]#+") else "_" for c in text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "~"


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as `[32,8,8,8]`."""
    return "[" + ",".join(map(str, shape)) + "]"


def wrap_call(function: str, arguments: list[str], indent: int, width: int = 100) -> str:
    """`function(arguments)`, broken under its opening parenthesis where it is too wide.

    Args:
        function: what stands before the parenthesis.
        arguments: in order.
        indent: columns that stand before the function on its first line.
        width: last column that may be used.
    """
    lines = [f"{function}("]
    hang = " " * (indent + len(function) + 1)
    used = indent + len(lines[0])
    for number, argument in enumerate(arguments):
        piece = argument + ("," if number + 1 < len(arguments) else "")
        space = "" if number == 0 else " "
        if number and used + len(space + piece) + 3 > width:
            lines.append(hang + piece)
            used = len(lines[-1])
        else:
            lines[-1] += space + piece
            used += len(space + piece)
    return "\n".join(lines) + ")"
