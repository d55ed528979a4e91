# SPDX-License-Identifier: Apache-2.0
"""Placement: a fixed address for every buffer."""

from poetfw.memory.bounds import lower_bound
from poetfw.memory.parts import Placed, place_parts
from poetfw.memory.placement import place
from poetfw.memory.plan import (
    ALIGNMENT,
    Allocation,
    MemoryPlan,
    padded,
    place_beside,
    place_step,
    resident_bytes,
)
from poetfw.memory.problem import Buffer, Placement, PlacementInterrupted, PlacementStatus
from poetfw.memory.step_plan import ONLY, DeviceArena, Message, Part, StepPlan, on_one
from poetfw.memory.validator import validate_placement

__all__ = [
    "ALIGNMENT",
    "ONLY",
    "Allocation",
    "Buffer",
    "DeviceArena",
    "MemoryPlan",
    "Message",
    "Part",
    "Placed",
    "Placement",
    "PlacementInterrupted",
    "PlacementStatus",
    "StepPlan",
    "lower_bound",
    "on_one",
    "padded",
    "place",
    "place_beside",
    "place_parts",
    "place_step",
    "resident_bytes",
    "validate_placement",
]
