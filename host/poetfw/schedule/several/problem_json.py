# SPDX-License-Identifier: Apache-2.0
"""Problems with several devices and their answers as JSON files, read strictly."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, FailFast, Strict

from poetfw.schedule.problem import ExecutionPlan, Step, StepKind
from poetfw.schedule.problem_json import (
    StrictTable,
    TransferTable,
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

SCHEMA_VERSION = 1


class _Device(StrictTable):
    name: str
    idle_w: float = 0.0
    lacks: Annotated[tuple[str, ...], FailFast(), Strict(False)] = ()
    problem: dict[str, Any]
    """As `poetfw.schedule.problem_from_json` reads it."""


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
    """Of an answer, only this is read: its figures are the simulator's to find again."""

    model_config = ConfigDict(extra="ignore", strict=True)
    plan: Annotated[list[_Step], FailFast()]
    tensor_bytes: dict[str, int] | None = None


def devices_from_json(text: str | bytes, source: str = "the problem") -> DevicesProblem:
    """The problem that a JSON document describes.

    Args:
        text: the document.
        source: what to call it in messages, e.g. its file name.

    Raises:
        ProblemError: it is not such a document, or `validate_devices` refuses the problem.
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
    """The problem as plain JSON values, as `devices_from_json` reads them."""
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
            {
                "source": link.source,
                "target": link.target,
                "transfer": transfer_to_json(link.transfer),
                "buffer_bytes": link.buffer_bytes,
            }
            for link in problem.links
        ],
    }


def devices_schedule_to_json(schedule: DevicesSchedule) -> dict[str, Any]:
    """The answer as plain JSON values; its `plan` is what `devices_plan_from_json` reads."""
    return {
        "schema_version": SCHEMA_VERSION,
        **asdict(schedule),
        "plan": [
            {"step": step.kind.value, "node": step.node, "device": step.device}
            | ({} if step.target is None else {"target": step.target})
            for step in schedule.plan
        ],
    }


class DevicesAnswer(NamedTuple):
    """An answer as it is read: its plan, and of which graph it is, see `require_same_graph`."""

    plan: ExecutionPlan
    tensor_bytes: dict[str, int] | None = None


def devices_plan_from_json(text: str | bytes, source: str = "the answer") -> ExecutionPlan:
    """The plan of an answer, see `devices_answer_from_json`."""
    return devices_answer_from_json(text, source).plan


def devices_answer_from_json(text: str | bytes, source: str = "the answer") -> DevicesAnswer:
    """An answer: of the document's keys, only `plan` and `tensor_bytes` are read.

    Raises:
        ProblemError: the document holds no plan for several devices.
    """
    answer = read_table(_Answer, text, source)
    steps = tuple(
        Step(StepKind(step.step), step.node, step.device, step.target) for step in answer.plan
    )
    return DevicesAnswer(steps, answer.tensor_bytes)
