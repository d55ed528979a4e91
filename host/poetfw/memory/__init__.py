# SPDX-License-Identifier: Apache-2.0
"""Fixed addresses for every buffer."""

from poetfw.memory.bounds import lower_bound
from poetfw.memory.devices import DeviceArena, WorkersPlan, place_devices
from poetfw.memory.partners import (
    Message,
    Partner,
    PartnerPlan,
    evaluator,
    messages_of,
    place_partners,
)
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
    "Message",
    "Partner",
    "PartnerPlan",
    "Placement",
    "PlacementInterrupted",
    "PlacementStatus",
    "WorkersPlan",
    "evaluator",
    "lower_bound",
    "messages_of",
    "padded",
    "place",
    "place_beside",
    "place_devices",
    "place_partners",
    "plan_memory",
    "resident_bytes",
    "validate_placement",
]
