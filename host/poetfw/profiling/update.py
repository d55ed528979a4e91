# SPDX-License-Identifier: Apache-2.0
"""Progress callback of profiles."""

from __future__ import annotations

from collections.abc import Callable

Update = Callable[[int, int, str], None]
"""Progress callback: number done, total, and a description of the activity."""
