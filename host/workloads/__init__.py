# SPDX-License-Identifier: Apache-2.0
"""Workloads: networks of papers and of ordinary users, cases of kernels, and recorded figures.

The commands in `benchmarks/` run them and the tests check them. Not part of the wheel.
"""

from __future__ import annotations

from pathlib import Path

BOARDS = Path(__file__).parent / "boards"
"""Devices with the figures that POET publishes of them, where poetfw's own boards have others."""
