# SPDX-License-Identifier: Apache-2.0
"""Schedules of one training step on several devices: placement, recomputation, copies, paging."""

from poetfw.schedule.several.baselines import (
    SINGLE,
    Ceiling,
    ceiling,
    greedy_plan,
    single_plan,
    xengine_plan,
)
from poetfw.schedule.several.comparison import Row, best_alone, compare_devices
from poetfw.schedule.several.problem import (
    AtOnce,
    Device,
    DevicesFigures,
    DevicesProblem,
    DevicesSchedule,
    Link,
    Minimise,
    require_same_graph,
    validate_devices,
    without_overlap,
)
from poetfw.schedule.several.problem_json import (
    DevicesAnswer,
    devices_answer_from_json,
    devices_from_json,
    devices_schedule_to_json,
    devices_to_json,
)
from poetfw.schedule.several.simulator import device_step_costs, simulate_devices
from poetfw.schedule.several.solve import DevicesInterrupted, solve_devices

__all__ = [
    "SINGLE",
    "AtOnce",
    "Ceiling",
    "Device",
    "DevicesAnswer",
    "DevicesFigures",
    "DevicesInterrupted",
    "DevicesProblem",
    "DevicesSchedule",
    "Link",
    "Minimise",
    "Row",
    "best_alone",
    "ceiling",
    "compare_devices",
    "device_step_costs",
    "devices_answer_from_json",
    "devices_from_json",
    "devices_schedule_to_json",
    "devices_to_json",
    "greedy_plan",
    "require_same_graph",
    "simulate_devices",
    "single_plan",
    "solve_devices",
    "validate_devices",
    "without_overlap",
    "xengine_plan",
]
