# SPDX-License-Identifier: Apache-2.0
"""Schedule problems and answers as JSON, with strict parsing."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, ValidationError

from poetfw.common.errors import ProblemError
from poetfw.common.reading import first_flaw, parse_json
from poetfw.common.transfer import OverlapCosts, Transfer
from poetfw.schedule.problem import (
    ExecutionPlan,
    Node,
    Schedule,
    ScheduleProblem,
    ScheduleSummary,
    Step,
    StepKind,
    Storage,
)
from poetfw.schedule.validation import validate

SCHEMA_VERSION = 1


class StrictTable(BaseModel):
    """Part of a document: unknown keys are refused, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class BesideTable(StrictTable):
    """Costs of a transfer that overlaps computing, as in `poetfw.common.transfer.OverlapCosts`."""

    bandwidth_bytes_per_s: float | None
    latency_s: float
    core_latency_s: float
    core_s_per_byte: float


class TransferTable(StrictTable):
    """Costs of a transfer, as in `poetfw.common.transfer.Transfer`."""

    bandwidth_bytes_per_s: float | None
    """None stands for an infinite bandwidth: JSON has no infinity."""
    latency_s: float
    energy_j_per_byte: float
    energy_j: float = 0.0
    beside: BesideTable | None = None


class _Storage(StrictTable):
    block_bytes: int
    page_in: TransferTable
    page_out: TransferTable
    overlap: bool = False
    trailer_bytes: int = 0


class _Node(StrictTable):
    name: str
    inputs: Annotated[list[str], FailFast()]
    time_s: float
    energy_j: float
    output_bytes: int
    workspace_bytes: int = 0
    recompute: bool = True
    page: bool = True
    backward: bool = False
    recompute_before: str | None = None
    in_place: str | None = None


class _Problem(StrictTable):
    schema_version: Literal[1]
    name: str
    ram_bytes: int
    deadline_s: float | None = None
    storage: _Storage | None
    nodes: Annotated[list[_Node], FailFast()]
    resident_bytes: int = 0


class _Step(StrictTable):
    step: Literal["compute", "page_in", "page_out", "free"]
    node: str


class _Answer(BaseModel):
    """Plan of an answer; its figures are ignored, the simulator recomputes them."""

    model_config = ConfigDict(extra="ignore", strict=True)
    plan: Annotated[list[_Step], FailFast()]


_Document = TypeVar("_Document", bound=BaseModel)


def problem_from_json(text: str | bytes, source: str = "the problem") -> ScheduleProblem:
    """The problem that a JSON document describes.

    Args:
        text: the document.
        source: name of the document in messages, e.g. its file name.

    Raises:
        ProblemError: the document does not match the schema, or `validate` refuses the problem.
    """
    document = read_table(_Problem, text, source)
    problem = ScheduleProblem(
        name=document.name,
        ram_bytes=document.ram_bytes,
        deadline_s=document.deadline_s,
        storage=_storage(document.storage) if document.storage else None,
        nodes=tuple(
            Node(**(node.model_dump() | {"inputs": tuple(node.inputs)})) for node in document.nodes
        ),
        resident_bytes=document.resident_bytes,
    )
    validate(problem)
    return problem


def problem_to_json(problem: ScheduleProblem) -> dict[str, Any]:
    """The problem as plain JSON values, in the format of `problem_from_json`."""
    storage = problem.storage
    return {
        "schema_version": SCHEMA_VERSION,
        "name": problem.name,
        "ram_bytes": problem.ram_bytes,
        **({"resident_bytes": problem.resident_bytes} if problem.resident_bytes else {}),
        "deadline_s": problem.deadline_s,
        "storage": None
        if storage is None
        else asdict(storage)
        | {
            "page_in": transfer_to_json(storage.page_in),
            "page_out": transfer_to_json(storage.page_out),
        },
        "nodes": [asdict(node) | {"inputs": list(node.inputs)} for node in problem.nodes],
    }


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    """The answer as plain JSON values, in the format of `plan_from_json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        **asdict(ScheduleSummary.of(schedule)),
        "plan": plan_to_json(schedule.plan),
    }


def plan_to_json(plan: ExecutionPlan) -> list[dict[str, str]]:
    """The steps as plain JSON values; `device` is omitted if there is only one device."""
    return [
        {"step": step.kind.value, "node": step.node}
        | ({"device": step.device} if step.device else {})
        | ({} if step.target is None else {"target": step.target})
        for step in plan
    ]


def plan_from_json(text: str | bytes, source: str = "the answer") -> ExecutionPlan:
    """The plan of an answer; the answer's figures are ignored.

    Raises:
        ProblemError: the document is not an answer.
    """
    answer = read_table(_Answer, text, source)
    return tuple(Step(StepKind(step.step), step.node) for step in answer.plan)


def _storage(document: _Storage) -> Storage:
    return Storage(
        document.block_bytes,
        transfer_of(document.page_in),
        transfer_of(document.page_out),
        document.overlap,
        document.trailer_bytes,
    )


def transfer_of(document: TransferTable) -> Transfer:
    """Convert the transfer costs of a document."""
    beside = document.beside
    return Transfer(
        _rate(document.bandwidth_bytes_per_s),
        document.latency_s,
        document.energy_j_per_byte,
        document.energy_j,
        None
        if beside is None
        else OverlapCosts(
            _rate(beside.bandwidth_bytes_per_s),
            beside.latency_s,
            beside.core_latency_s,
            beside.core_s_per_byte,
        ),
    )


def _rate(bandwidth: float | None) -> float:
    return math.inf if bandwidth is None else bandwidth


def transfer_to_json(transfer: Transfer) -> dict[str, Any]:
    """Transfer costs as plain JSON values, in the format of `TransferTable`."""
    document = asdict(transfer)
    if transfer.beside is None:
        del document["beside"]
    for rates in filter(None, (document, document.get("beside"))):
        if math.isinf(rates["bandwidth_bytes_per_s"]):
            rates["bandwidth_bytes_per_s"] = None
    return document


def read_table(kind: type[_Document], text: str | bytes, source: str) -> _Document:
    """Parse a whole document.

    Args:
        kind: model of the document.
        text: the document.
        source: name of the document in messages.

    Raises:
        ProblemError: the document is not JSON or does not match the model.
    """
    try:
        return kind.model_validate(parse_json(text))
    except ValidationError as error:  # a subclass of ValueError, so it comes first
        raise ProblemError(f"{source}: {first_flaw(error)}") from error
    except ValueError as error:
        raise ProblemError(f"{source} is not JSON: {error}") from error
