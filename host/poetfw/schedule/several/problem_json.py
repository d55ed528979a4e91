# SPDX-License-Identifier: Apache-2.0
"""Problems with several devices and their answers as JSON files, read strictly."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, FailFast, Strict

from poetfw.schedule.problem import ExecutionPlan, Step, StepKind
from poetfw.schedule.problem_json import (
    SCHEMA_VERSION,
    StrictTable,
    TransferTable,
    plan_to_json,
    problem_from_json,
    problem_to_json,
    read_table,
    transfer_of,
    transfer_to_json,
)
from poetfw.schedule.several.problem import (
    Device,
    DevicesProblem,
    DevicesSchedule,
    Link,
    validate_devices,
)


class _Device(StrictTable):
    name: str
    idle_w: float = 0.0
    lacks: Annotated[tuple[str, ...], FailFast(), Strict(False)] = ()
    problem: dict[str, Any]
    """In the format of `poetfw.schedule.problem_from_json`."""


class _Link(StrictTable):
    source: str
    target: str
    transfer: TransferTable
    buffer_bytes: int = 0


class _Problem(StrictTable):
    schema_version: Literal[1]
    name: str
    deadline_s: float | None = None
    devices: list[_Device]
    links: list[_Link]
    parallel: bool = False


class _Step(StrictTable):
    step: Literal["compute", "copy", "page_in", "page_out", "free"]
    node: str
    device: str
    target: str | None = None


class _Answer(BaseModel):
    """Keys that are read of an answer; the simulator computes its figures again."""

    model_config = ConfigDict(extra="ignore", strict=True)
    plan: Annotated[list[_Step], FailFast()]
    tensor_bytes: dict[str, int] | None = None


def devices_from_json(text: str | bytes, source: str = "the problem") -> DevicesProblem:
    """Parse a problem from a JSON document.

    Args:
        text: the document.
        source: its name in messages, e.g. its file name.

    Raises:
        ProblemError: the document is malformed, or `validate_devices` refuses the problem.
        InfeasibleError: a node fits on no device that can compute it.
    """
    document = read_table(_Problem, text, source)
    problem = DevicesProblem(
        name=document.name,
        devices=tuple(
            Device(
                name=device.name,
                problem=problem_from_json(
                    json.dumps(device.problem), f"{source}: device {device.name!r}"
                ),
                lacks=frozenset(device.lacks),
                idle_w=device.idle_w,
            )
            for device in document.devices
        ),
        links=tuple(
            Link(link.source, link.target, transfer_of(link.transfer), link.buffer_bytes)
            for link in document.links
        ),
        deadline_s=document.deadline_s,
        parallel=document.parallel,
    )
    validate_devices(problem)
    return problem


def devices_to_json(problem: DevicesProblem) -> dict[str, Any]:
    """Convert a problem to JSON values in the format of `devices_from_json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": problem.name,
        "deadline_s": problem.deadline_s,
        "parallel": problem.parallel,
        "devices": [
            {
                "name": device.name,
                "idle_w": device.idle_w,
                "lacks": sorted(device.lacks),
                "problem": problem_to_json(device.problem),
            }
            for device in problem.devices
        ],
        "links": [
            asdict(link) | {"transfer": transfer_to_json(link.transfer)} for link in problem.links
        ],
    }


def devices_schedule_to_json(schedule: DevicesSchedule) -> dict[str, Any]:
    """Convert a schedule to JSON values; `devices_answer_from_json` reads its `plan`."""
    return {
        "schema_version": SCHEMA_VERSION,
        **asdict(schedule),
        "plan": plan_to_json(schedule.plan),
    }


class DevicesAnswer(NamedTuple):
    """Plan of an answer, and the tensor sizes of its graph, see `require_same_graph`."""

    plan: ExecutionPlan
    tensor_bytes: dict[str, int] | None = None


def devices_answer_from_json(text: str | bytes, source: str = "the answer") -> DevicesAnswer:
    """Parse an answer; only `plan` and `tensor_bytes` of the document are read.

    Raises:
        ProblemError: the document holds no plan for several devices.
    """
    answer = read_table(_Answer, text, source)
    steps = tuple(
        Step(StepKind(step.step), step.node, step.device, step.target) for step in answer.plan
    )
    return DevicesAnswer(steps, answer.tensor_bytes)
