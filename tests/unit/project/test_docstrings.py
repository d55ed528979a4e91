# SPDX-License-Identifier: Apache-2.0
"""Docstrings begin with a noun or a verb."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HOST = Path(__file__).parents[3] / "host"
QUESTIONS = ("How", "If", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why")
ENDINGS = ("", "ever")


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Lines and texts of docstrings, those of constants and fields included."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def begins_with_a_question(text: str) -> bool:
    first = (text.split() or [""])[0].strip(",:;.")
    return first in {word + ending for word in QUESTIONS for ending in ENDINGS}


def test_no_docstring_begins_with_a_question() -> None:
    found = [
        f"{path.relative_to(HOST)}:{line}: {text.splitlines()[0]}"
        for path in sorted(HOST.rglob("*.py"))
        for line, text in docstrings(path.read_text(encoding="utf-8"))
        if begins_with_a_question(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ('"""How to search."""', True),
        ('def f():\n    """Whatever is left."""', True),
        ('class C:\n    size: int\n    """Where, in bytes."""', True),
        ('ROUNDS = 3\n"""Number of rounds."""', False),
        ('"""Whole blocks."""', False),
    ],
)
def test_questions_are_found_wherever_they_are(source: str, refused: bool) -> None:
    assert [begins_with_a_question(text) for _, text in docstrings(source)] == [refused]
