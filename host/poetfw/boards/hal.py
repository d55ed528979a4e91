# SPDX-License-Identifier: Apache-2.0
"""What boards of a HAL family may rely on: its folder says."""

from __future__ import annotations

import tomllib
from functools import cache

from poetfw.resources import firmware_templates_dir


@cache
def family_transfers(family: str) -> int:
    """How many transfers may be under way while the core computes: 0 if the core waits for each.

    Args:
        family: an identifier; a family that there is not has none.
    """
    path = firmware_templates_dir() / "hal" / family / "hal.toml"
    if not path.is_file():
        return 0
    transfers: int = tomllib.loads(path.read_text(encoding="utf-8"))["transfers"]
    return transfers
