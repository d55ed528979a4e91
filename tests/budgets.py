# SPDX-License-Identifier: Apache-2.0
"""Examples that hypothesis tries: few in `make test`, all with `--hypothesis-profile=thorough`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

FEWEST = 8


def register() -> None:
    """Register both profiles, and load the quick one; `max_examples` is a share in percent."""
    settings.register_profile("thorough", max_examples=100, deadline=None)
    settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
    settings.load_profile("quick")


def examples(thorough: int, **how: Any) -> settings:
    """Settings of a test that tries `thorough` examples where time does not matter."""
    share = thorough * settings.default.max_examples // 100  # type: ignore[attr-defined]
    return settings(max_examples=max(FEWEST, share), deadline=None, **how)
