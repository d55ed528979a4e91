# SPDX-License-Identifier: Apache-2.0
"""Stands in for the pictures of a build, whose drawing takes as long as all the rest of it.

tests/unit/report looks at pictures; of builds, those draw them that set the variable `PICTURES`.
"""

from __future__ import annotations

import os
from typing import Any

from poetfw import pipeline

PICTURES = "TESTS_DRAW_PICTURES"
FILES = tuple(f"{name}.{kind}" for name in ("schedule", "memory") for kind in ("svg", "png"))

_draw = pipeline.draw_pictures


def leave_out() -> None:
    """Have builds of this process draw nothing, unless the variable is set."""
    pipeline.draw_pictures = draw  # type: ignore[attr-defined]


def draw(*plan: Any) -> dict[str, bytes]:
    """The files that a build draws, without content unless the variable is set."""
    return _draw(*plan) if PICTURES in os.environ else dict.fromkeys(FILES, b"")
