# SPDX-License-Identifier: Apache-2.0
"""Functions in assembly: a comment that says which loops and registers each has, and its code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from poetfw.kernels.assembler import Assembler


def nested(loops: Sequence[str]) -> Iterator[str]:
    """Lines of C, each within the one before."""
    for depth, line in enumerate(loops):
        yield "    " * depth + line


def source_text(
    name: str, lines: Iterable[str], registers: Mapping[str, str], code: Assembler
) -> str:
    """A function in assembly, with a comment; registers whose text is empty are left out."""
    used = (f"{register:10}{text}" for register, text in registers.items() if text)
    comment = "\n".join(f" *   {line}" for line in (*lines, "", *used)).replace(" *   \n", " *\n")
    return f"""/*
{comment}
 */
   function {name}
{code.text()}
   end_function {name}
"""
