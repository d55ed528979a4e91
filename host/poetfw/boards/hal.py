# SPDX-License-Identifier: Apache-2.0
"""Properties of the HAL families, read from their folders."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from functools import cache
from typing import Any

from poetfw.common.resources import firmware_templates_dir


def families() -> list[str]:
    """Names of all HAL families, sorted."""
    folder = firmware_templates_dir() / "hal"
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def family_transfers(family: str) -> int:
    """Number of transfers that may overlap with computing: 0 if the core waits for each.

    Args:
        family: an identifier; unknown families have none.
    """
    transfers: int = _said(family).get("transfers", 0)
    return transfers


def family_threads(family: str) -> bool:
    """True if the family supports threads.

    Args:
        family: an identifier; unknown families have none.
    """
    threads: bool = _said(family).get("threads", False)
    return threads


def family_watchdog(family: str) -> tuple[int, int] | None:
    """Range of the period of the family's watchdog in ms; None without one.

    Args:
        family: an identifier; a family inherits the watchdog of the family that it reuses.
    """
    for used in sorted(with_used([family])):
        if "watchdog_ms" in _said(used):
            shortest, longest = _said(used)["watchdog_ms"]
            return shortest, longest
    return None


def family_bytes(family: str, memory: str) -> int | None:
    """Size of a memory of the family's emulated machine; None if its `hal.toml` has none.

    Args:
        family: an identifier; a family inherits the machine of the family that it reuses.
        memory: `ram_bytes` or `flash_bytes`.
    """
    sizes = [_said(used)[memory] for used in with_used([family]) if memory in _said(used)]
    return min(sizes, default=None)


def with_used(families: Collection[str]) -> frozenset[str]:
    """The given families and those whose files they reuse.

    Args:
        families: identifiers; unknown ones are returned as they are.
    """
    found = set(families)
    waiting = list(families)
    while waiting:
        used = set(_said(waiting.pop()).get("uses", ())) - found
        found |= used
        waiting += used
    return frozenset(found)


@cache
def _said(family: str) -> dict[str, Any]:
    path = firmware_templates_dir() / "hal" / family / "hal.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
