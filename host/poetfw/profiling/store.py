# SPDX-License-Identifier: Apache-2.0
"""Storage of measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from poetfw.costs import Case, Measurement, Setup


class Store(Protocol):
    """Measurements, kept for the next time."""

    def known(
        self, setup: Setup, kernel_versions: Mapping[Case, str]
    ) -> Mapping[Case, Measurement]:
        """Measurements under a set-up, of these cases with these versions of their kernels."""

    def check_writable(self) -> None:
        """Check that measurements could be kept."""

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements. When this returns, they are kept whatever happens to the power."""


class MemoryStore:
    """Measurements that are kept as long as this is."""

    def __init__(self) -> None:
        self.rows: list[Measurement] = []

    def known(
        self, setup: Setup, kernel_versions: Mapping[Case, str]
    ) -> Mapping[Case, Measurement]:
        """Measurements under a set-up, of these cases with these versions of their kernels."""
        return {
            row.case: row
            for row in self.rows
            if row.setup == setup and kernel_versions.get(row.case) == row.kernel_version
        }

    def check_writable(self) -> None:
        """They can always be kept."""

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements."""
        self.rows += measurements
