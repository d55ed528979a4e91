# SPDX-License-Identifier: Apache-2.0
"""What moving bytes between RAM and storage costs, on a board and in a schedule problem."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """What moving bytes between RAM and storage costs, in one direction.

    A transfer of n bytes (whole blocks) takes `latency_s + n / bandwidth_bytes_per_s` seconds and
    `energy_j + n * energy_j_per_byte` joules. With infinite bandwidth, bytes take no time.
    """

    bandwidth_bytes_per_s: float
    latency_s: float
    energy_j_per_byte: float
    energy_j: float = 0.0

    def time_s(self, size_bytes: int) -> float:
        """Seconds that a transfer of `size_bytes` (whole blocks) takes."""
        return self.latency_s + size_bytes / self.bandwidth_bytes_per_s

    def cost_j(self, size_bytes: int) -> float:
        """Joules that a transfer of `size_bytes` (whole blocks) takes."""
        return self.energy_j + size_bytes * self.energy_j_per_byte
