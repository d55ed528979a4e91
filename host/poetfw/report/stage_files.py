# SPDX-License-Identifier: Apache-2.0
"""The stage files: every value between two stages, as JSON in the project folder."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from poetfw.boards import Arithmetic
from poetfw.costs import CostTable
from poetfw.errors import ModelError, OutputError, PlanError
from poetfw.firmware import Slot, assign_slots
from poetfw.ir import Graph
from poetfw.memory import DeviceArena, MemoryPlan, PartnerPlan, WorkersPlan
from poetfw.models import StateEntry
from poetfw.ops import check_shapes, kind_of
from poetfw.reading import parse_json, read_bytes
from poetfw.schedule import ExecutionPlan, ScheduleSummary, Step, StepKind
from poetfw.training import Program

SCHEMA_VERSION = 1
STATE_DICT = "state_dict.json"

_MALFORMED = (
    OSError,
    ModelError,
    PlanError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    AssertionError,  # an op's, whose attribute has another type
)
"""What reading a stage file that somebody changed can raise."""


def stage_files(
    program: Program,
    costs: CostTable,
    training: ScheduleSummary,
    plan: ExecutionPlan | WorkersPlan | PartnerPlan,
    evaluation: ExecutionPlan,
    memory: MemoryPlan,
    slots: Sequence[Slot],
    names: Mapping[str, str],
    arithmetic: Arithmetic,
    state_dict: Sequence[StateEntry] = (),
    kernels_by: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> dict[str, bytes]:
    """The content of each stage file, by its name. The same input gives the same bytes.

    Only models that have names of their author's have `state_dict.json`. By the name of a graph,
    `kernels_by` says what decided which function its ops call; the shape did for all others.
    """
    documents: dict[str, dict[str, Any]] = {
        "graph.json": program.to_json(),
        "costs.json": costs.to_json(),
        "schedule.json": asdict(ScheduleSummary.of(training)),
        "plan.json": {
            "arithmetic": arithmetic,
            **_training_json(plan, program.training, kernels_by.get(program.training.name, {})),
            "evaluation": _plan_json(
                evaluation, program.evaluation, kernels_by.get(program.evaluation.name, {})
            ),
        },
        "memory.json": memory.to_json(),
        "slots.json": {"slots": [asdict(slot) for slot in slots]},
        "names.json": {"names": dict(names)},
    }
    if state_dict:
        documents[STATE_DICT] = {"entries": [asdict(entry) for entry in state_dict]}
    return {
        name: json_bytes({"schema_version": SCHEMA_VERSION, **document})
        for name, document in documents.items()
    }


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A JSON document as the bytes of a file, the same for the same document."""
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def _plan_json(
    plan: Sequence[Step], graph: Graph, kernels_by: Mapping[str, str]
) -> list[dict[str, str]]:
    """Each step, and where it computes, the kernel's function and what decided for that."""
    computed = {
        op.name: {
            "function": kind_of(op).kernel(op, graph).function,
            "chosen_by": kernels_by.get(op.name, "shape"),
        }
        for op in graph.ops
    }
    return [
        {"step": step.kind, "node": step.node}
        | (computed[step.node] if step.kind == StepKind.COMPUTE else {})
        for step in plan
    ]


def _training_json(
    plan: ExecutionPlan | WorkersPlan | PartnerPlan,
    graph: Graph,
    kernels_by: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    if isinstance(plan, tuple):
        return {"training": _plan_json(plan, graph, kernels_by)}
    steps = [
        {**said, "device": step.device} | ({} if step.target is None else {"target": step.target})
        for said, step in zip(_plan_json(plan.steps, graph, kernels_by), plan.steps, strict=True)
    ]
    if isinstance(plan, PartnerPlan):
        return {
            "training": steps,
            "device": plan.device,
            "devices": list(plan.devices),
            "evaluates": plan.evaluates,
            "arenas": [asdict(plan.arena)],
        }
    return {
        "training": steps,
        "parallel": plan.parallel,
        "arenas": [asdict(arena) for arena in plan.arenas],
        "buffers": [
            {"source": source, "target": target, "size_bytes": size}
            for (source, target), size in plan.buffers.items()
        ],
    }


def _training_of(document: Mapping[str, Any]) -> ExecutionPlan | WorkersPlan | PartnerPlan:
    """The plan of a training step in `plan.json`."""
    if "arenas" not in document:
        return tuple(Step(StepKind(step["step"]), step["node"]) for step in document["training"])
    arenas = TypeAdapter(tuple[DeviceArena, ...]).validate_python(document["arenas"])
    steps = tuple(
        Step(StepKind(step["step"]), step["node"], step["device"], step.get("target"))
        for step in document["training"]
    )
    if "device" in document:
        (arena,) = arenas
        names = TypeAdapter(tuple[str, ...]).validate_python(document["devices"])
        part = PartnerPlan(steps, document["device"], names, document["evaluates"], arena)
        _require_known({*_devices(steps), part.device, part.evaluates}, names)
        return part
    plan = WorkersPlan(
        steps=steps,
        arenas=arenas,
        parallel=document["parallel"],
        buffers={(b["source"], b["target"]): b["size_bytes"] for b in document["buffers"]},
    )
    _require_known(_devices(steps), [arena.device for arena in arenas])
    return plan


def _devices(steps: Sequence[Step]) -> set[str]:
    return {step.device for step in steps}


def _require_known(devices: Collection[str], arenas: Collection[str]) -> None:
    unknown = set(devices) - set(arenas)
    if unknown:
        raise PlanError(f"plan.json has no arena of {', '.join(map(repr, sorted(unknown)))}")


@dataclass(frozen=True)
class Stages:
    """What a run needs of a built project."""

    program: Program
    training: ExecutionPlan | WorkersPlan | PartnerPlan
    memory: MemoryPlan
    slots: tuple[Slot, ...]
    state_dict: tuple[StateEntry, ...] = ()


def read_stages(folder: Path, erase_bytes: int | None) -> Stages:
    """The stages that a build wrote to its project folder.

    Args:
        folder: the project's.
        erase_bytes: what of its board's storage is erased at once; None where nothing is.

    Raises:
        OutputError: a file is missing or malformed.
    """
    try:
        program = Program.from_json(_document(folder, "graph.json"))
        for graph in (program.training, program.evaluation):
            check_shapes(graph)
        plan = _training_of(_document(folder, "plan.json"))
        slots = slots_of(program, plan, erase_bytes)
        if _document(folder, "slots.json")["slots"] != [asdict(slot) for slot in slots]:
            raise ModelError("slots.json is not what graph.json and plan.json come to")
        memory = MemoryPlan.from_json(_document(folder, "memory.json"))
        entries = _state_dict(folder, program)
    except _MALFORMED as error:
        raise OutputError(
            f"{folder}: a stage file is missing or malformed: {error}",
            "run `poetfw build` again",
        ) from error
    return Stages(program, plan, memory, slots, entries)


def slots_of(
    program: Program, plan: ExecutionPlan | WorkersPlan | PartnerPlan, erase_bytes: int | None
) -> tuple[Slot, ...]:
    """The slots of a program that follows a plan; see `assign_slots`."""
    if isinstance(plan, PartnerPlan):
        return assign_slots(program, (), erase_bytes, plan.held(program), plan.updated(program))
    return assign_slots(program, () if isinstance(plan, WorkersPlan) else plan, erase_bytes)


def _state_dict(folder: Path, program: Program) -> tuple[StateEntry, ...]:
    if not (folder / STATE_DICT).exists():
        return ()
    elements = {tensor.name: tensor.elements for tensor in program.persistent}
    entries = []
    for each in _document(folder, STATE_DICT)["entries"]:
        entry = StateEntry(**{**each, "shape": tuple(each["shape"])})
        end = entry.first + math.prod(entry.shape)
        if not 0 <= entry.first <= end <= elements[entry.tensor] or not isinstance(entry.name, str):
            raise ModelError(f"{entry.name!r} of {STATE_DICT} does not lie within its tensor")
        entries.append(entry)
    return tuple(entries)


def _document(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = parse_json(read_bytes(folder / name))
    return document
