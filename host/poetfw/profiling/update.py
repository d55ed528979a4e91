# SPDX-License-Identifier: Apache-2.0
"""Progress reports of measuring."""

from __future__ import annotations

from collections.abc import Callable

Update = Callable[[int, int, str], None]
"""Is told how many of how many are done, and what is being done."""
