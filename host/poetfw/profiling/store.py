# SPDX-License-Identifier: Apache-2.0
"""Stores of measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from poetfw.costs import Case, Measurement, Setup


class Store(Protocol):
    """Persistent store of measurements."""

    def known(
        self, setup: Setup, kernel_versions: Mapping[Case, str]
    ) -> Mapping[Case, Measurement]:
        """Measurements of cases under a set-up, restricted to the given kernel versions."""

    def check_writable(self) -> None:
        """Check that measurements can be stored."""

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Store measurements durably: they survive a power cut once this returns."""


class MemoryStore:
    """Store in memory, for as long as the object lives."""

    def __init__(self) -> None:
        self.rows: list[Measurement] = []

    def known(
        self, setup: Setup, kernel_versions: Mapping[Case, str]
    ) -> Mapping[Case, Measurement]:
        """Measurements of cases under a set-up, restricted to the given kernel versions."""
        return {
            row.case: row
            for row in self.rows
            if row.setup == setup and kernel_versions.get(row.case) == row.kernel_version
        }

    def check_writable(self) -> None:
        """Do nothing: memory can always be written."""

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Store measurements."""
        self.rows += measurements
