# SPDX-License-Identifier: Apache-2.0
"""Costs of moving bytes between RAM and storage, on a board and in a schedule problem."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_BYTES = 512
"""Size of a storage block in the firmware."""

TRAILER_BYTES = 16
"""End of a slot's last block: magic, payload bytes, generation, CRC-32 of the payload."""


def page_bytes(size_bytes: int, block_bytes: int, trailer_bytes: int = TRAILER_BYTES) -> int:
    """Bytes that move when a tensor of `size_bytes` is paged: whole blocks, with its trailer."""
    return -(-(size_bytes + trailer_bytes) // block_bytes) * block_bytes


@dataclass(frozen=True, slots=True)
class OverlapCosts:
    """Costs of a transfer while the core computes.

    The storage is busy with n bytes (whole blocks) for `latency_s + n / bandwidth_bytes_per_s`
    seconds; of that, and before or after it, the core is busy for
    `core_latency_s + n * core_s_per_byte`: interrupts, copies, checksums.
    """

    bandwidth_bytes_per_s: float
    latency_s: float
    core_latency_s: float
    core_s_per_byte: float


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """Seconds in which core and storage are busy with one transfer.

    Attributes:
        storage_s: seconds that the storage is.
        during_s: seconds of these that the core is.
        apart_s: seconds that the core is while the storage is not: before a page-out, after a
            page-in.
    """

    storage_s: float
    during_s: float = 0.0
    apart_s: float = 0.0

    @property
    def core_s(self) -> float:
        """Seconds that the core is busy."""
        return self.during_s + self.apart_s


@dataclass(frozen=True, slots=True)
class Transfer:
    """Costs of moving bytes between RAM and storage, in one direction.

    A transfer of n bytes (whole blocks) that the core waits for takes
    `latency_s + n / bandwidth_bytes_per_s` seconds and `energy_j + n * energy_j_per_byte` joules.
    With infinite bandwidth, bytes take no time. `beside` has the costs of a transfer that overlaps
    with computing; None if the core takes no part in it and the storage is busy just as long.
    """

    bandwidth_bytes_per_s: float
    latency_s: float
    energy_j_per_byte: float
    energy_j: float = 0.0
    beside: OverlapCosts | None = None

    def time_s(self, size_bytes: int) -> float:
        """Seconds that a transfer of `size_bytes` (whole blocks) takes."""
        return self.latency_s + size_bytes / self.bandwidth_bytes_per_s

    def cost_j(self, size_bytes: int) -> float:
        """Joules that a transfer of `size_bytes` (whole blocks) takes."""
        return self.energy_j + size_bytes * self.energy_j_per_byte

    def moving(self, size_bytes: int) -> BusyTimes:
        """Times that `size_bytes` (whole blocks) keep core and storage busy beside computing."""
        waited_s, beside = self.time_s(size_bytes), self.beside
        if beside is None:
            return BusyTimes(waited_s)
        storage_s = min(waited_s, beside.latency_s + size_bytes / beside.bandwidth_bytes_per_s)
        core_s = min(waited_s, beside.core_latency_s + size_bytes * beside.core_s_per_byte)
        apart_s = min(core_s, waited_s - storage_s)
        return BusyTimes(storage_s, core_s - apart_s, apart_s)
