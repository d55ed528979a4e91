# SPDX-License-Identifier: Apache-2.0
"""Reading the project's pages, so that what they print can be compared with what is true."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def page(name: str) -> str:
    """A page of docs/, by its file name."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def block(text: str, language: str) -> str:
    """The one fenced block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return found


def table(text: str, *header: str) -> list[list[str]]:
    """The rows of the one table with this header, as the texts of their cells."""
    lines = text.splitlines()
    (at,) = [i for i, line in enumerate(lines) if _cells(line) == list(header)]
    rows = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(_cells(line))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]
