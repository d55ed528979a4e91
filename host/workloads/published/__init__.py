# SPDX-License-Identifier: Apache-2.0
"""Figures that papers and other libraries publish, each file with its source."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from poetfw.common.option_values import LARGEST_BYTES
from poetfw.comparisons.comparison import Task
from poetfw.settings import BuildSettings


class PaperTask(Task):
    """A training step as papers schedule it: its weights stay in RAM, whatever the board holds."""

    @property
    def settings(self) -> BuildSettings:
        """Settings with RAM for all weights."""
        return replace(super().settings, ram_bytes=LARGEST_BYTES)


def published(name: str) -> dict[str, Any]:
    """The figures of a file of this folder, which is named without `.toml`."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text())
