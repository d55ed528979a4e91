# SPDX-License-Identifier: Apache-2.0
"""Figures that papers and other libraries publish, each file with its source."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def published(name: str) -> dict[str, Any]:
    """The figures of a file of this folder, which is named without `.toml`."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text())
