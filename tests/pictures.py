# SPDX-License-Identifier: Apache-2.0
"""Stands in for the pictures of a build, whose drawing takes as long as all the rest of it.

tests/unit/report looks at pictures; of builds, those draw them that set the variable `PICTURES`.
"""

from __future__ import annotations

import os
from typing import Any

PICTURES = "TESTS_DRAW_PICTURES"
FILES = tuple(f"{name}.{kind}" for name in ("schedule", "memory") for kind in ("svg", "png"))


def leave_out() -> None:
    """Have builds of this process draw nothing, unless the variable is set."""
    from poetfw import pipeline  # late, as whoever imports this may say first that it be compiled

    drawn = pipeline.draw_pictures

    def draw(*plan: Any) -> dict[str, bytes]:
        return drawn(*plan) if PICTURES in os.environ else dict.fromkeys(FILES, b"")

    pipeline.draw_pictures = draw  # type: ignore[attr-defined]
