# SPDX-License-Identifier: Apache-2.0
"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any


def html_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """HTML table of values, escaped; without heads, the first value of each row is one."""

    def row(kinds: Sequence[str], values: Sequence[Any]) -> str:
        texts = ("" if value is None else escape(str(value)) for value in values)
        cells = (f"<{k}>{text}</{k}>" for k, text in zip(kinds, texts, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    first = "td" if heads else "th"
    body = [row([first, *["td"] * (len(each) - 1)], each) for each in rows]
    head = row(["th"] * len(heads), heads) if heads else ""
    return f"<table>{head}{''.join(body)}</table>"
