# SPDX-License-Identifier: Apache-2.0
"""How measuring says how far it is."""

from __future__ import annotations

from collections.abc import Callable

Update = Callable[[int, int, str], None]
"""Is told how many of how many are done, and what is being done."""
