# SPDX-License-Identifier: Apache-2.0
"""Unique names."""

from __future__ import annotations

import re
from collections.abc import Collection

_NUMBERED = re.compile(r"(.*) \((\d{1,9})\)", re.DOTALL)


class FreshNames:
    """Makes names unique by appending the smallest free number, without trying each number."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def fresh(self, name: str, *taken: Collection[str]) -> str:
        """`name`, with a number appended if it is in one of the collections."""
        if not any(name in names for names in taken):
            return name
        number = self._next.get(name, 2)
        while any(f"{name} ({number})" in names for names in taken):
            number += 1
        self._next[name] = number
        return f"{name} ({number})"

    def release(self, name: str) -> None:
        """Make a name available again."""
        match = _NUMBERED.fullmatch(name)
        if match is not None and match[1] in self._next:
            self._next[match[1]] = min(self._next[match[1]], int(match[2]))
