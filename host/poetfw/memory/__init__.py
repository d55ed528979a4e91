# SPDX-License-Identifier: Apache-2.0
"""Fixed addresses for every buffer."""

from poetfw.memory.bounds import lower_bound
from poetfw.memory.devices import DeviceArena, WorkersPlan, place_devices
from poetfw.memory.placement import place
from poetfw.memory.plan import (
    ALIGNMENT,
    Allocation,
    MemoryPlan,
    padded,
    place_beside,
    plan_memory,
    resident_bytes,
)
from poetfw.memory.problem import Buffer, Placement, PlacementInterrupted, PlacementStatus
from poetfw.memory.validator import validate_placement

__all__ = [
    "ALIGNMENT",
    "Allocation",
    "Buffer",
    "DeviceArena",
    "MemoryPlan",
    "Placement",
    "PlacementInterrupted",
    "PlacementStatus",
    "WorkersPlan",
    "lower_bound",
    "padded",
    "place",
    "place_beside",
    "place_devices",
    "plan_memory",
    "resident_bytes",
    "validate_placement",
]
