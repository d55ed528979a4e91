# SPDX-License-Identifier: Apache-2.0
"""The stage files: every value between two stages, as JSON in the project folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from poetfw.boards import Arithmetic
from poetfw.common.errors import DataError, ModelError, OutputError, PlanError
from poetfw.common.reading import parse_json, read_bytes
from poetfw.costs import CostTable
from poetfw.firmware import Slot, assign_slots
from poetfw.importers.weight_files import read_every, safetensors_bytes
from poetfw.ir import Dtype, Graph, Op
from poetfw.memory import MemoryPlan, Message, Part, StepPlan
from poetfw.models import StateEntry
from poetfw.ops import Array, check_shapes, kind_of
from poetfw.ops.tile_tables import TileChoice, table_of
from poetfw.schedule import ExecutionPlan, ScheduleSummary, Span, Step, StepCost, StepKind
from poetfw.training import Program

SCHEMA_VERSION = 1
PLAN = "plan.json"
_SCHEMA_VERSIONS = {PLAN: 3}
STATE_DICT = "state_dict.json"
CONSTANTS = "constants.safetensors"
"""File of the constants' values, which the firmware holds in flash."""
FROZEN = "frozen.safetensors"
"""File of the model's own frozen values, where the firmware holds others in their place."""

MALFORMED = (
    OSError,
    DataError,
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
"""Errors that reading a modified stage file can raise."""


def stage_files(
    program: Program,
    costs: CostTable,
    training: ScheduleSummary,
    plan: StepPlan,
    step_costs: Sequence[StepCost],
    evaluation: ExecutionPlan,
    memory: MemoryPlan,
    slots: Sequence[Slot],
    names: Mapping[str, str],
    arithmetic: Arithmetic,
    tiles: TileChoice,
    weights: Mapping[str, Array],
    state_dict: Sequence[StateEntry] = (),
) -> dict[str, bytes]:
    """The content of each stage file, by its name. The same input gives the same bytes.

    Only imported models have `state_dict.json`, and only programs with constants have
    `constants.safetensors`, with the constants' values. Where the program has made some of them,
    `frozen.safetensors` has the model's own.
    """
    documents: dict[str, dict[str, Any]] = {
        "graph.json": program.to_json(),
        "costs.json": costs.to_json(),
        "schedule.json": asdict(ScheduleSummary.of(training)),
        PLAN: {
            "arithmetic": arithmetic,
            **_training_json(plan, step_costs, program.training, tiles),
            "evaluation": _steps_json(evaluation, program.evaluation, tiles),
        },
        "memory.json": memory.to_json(),
        "slots.json": {"slots": [slot.to_json() for slot in slots]},
        "names.json": {"names": dict(names)},
    }
    if state_dict:
        documents[STATE_DICT] = {"entries": [asdict(entry) for entry in state_dict]}
    files = {
        name: json_bytes({"schema_version": _SCHEMA_VERSIONS.get(name, SCHEMA_VERSION), **document})
        for name, document in documents.items()
    }
    if program.constants:
        values = {**weights, **program.made}
        files[CONSTANTS] = safetensors_bytes({t.name: values[t.name] for t in program.constants})
    if program.made:
        updated = {tensor.name for tensor in program.persistent}
        own = {name: values for name, values in weights.items() if name not in updated}
        files[FROZEN] = safetensors_bytes(own)
    return files


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A JSON document as the bytes of a file, the same for the same document."""
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def _steps_json(plan: Sequence[Step], graph: Graph, tiles: TileChoice) -> list[dict[str, Any]]:
    """Each step; for a compute step also its kernel's function, and the tiles that it runs."""
    computed = {op.name: _kernel_json(op, graph, tiles) for op in graph.ops}
    return [
        {"step": step.kind, "node": step.node, "device": step.device}
        | ({} if step.target is None else {"target": step.target})
        | (computed[step.node] if step.kind == StepKind.COMPUTE else {})
        for step in plan
    ]


def _kernel_json(op: Op, graph: Graph, tiles: TileChoice) -> dict[str, Any]:
    kernel = kind_of(op).kernel(op, graph)
    table = table_of(kernel)
    chosen = None if table is None else tiles(table)
    names = {} if chosen is None else {"tiles": [block.name for block in chosen.blocks]}
    return {"function": kernel.function, **names}


def _training_json(
    plan: StepPlan, costs: Sequence[StepCost], graph: Graph, tiles: TileChoice
) -> dict[str, Any]:
    steps = zip(_steps_json(plan.steps, graph, tiles), costs, strict=True)
    return {
        "memory": plan.here,
        "evaluates": plan.evaluates,
        "at_once": plan.at_once,
        "parts": [asdict(part) for part in plan.parts],
        "buffers": [
            {"source": source, "target": target, "size_bytes": size}
            for (source, target), size in plan.buffers.items()
        ],
        "training": [step | _cost_json(cost) for step, cost in steps],
    }


def _cost_json(cost: StepCost) -> dict[str, Any]:
    """Planned times and energy of a step; waits only where there are any."""
    times = {"begin_s": cost.begin_s, "end_s": cost.end_s, "energy_j": cost.energy_j}
    return times | ({"waits_s": [list(wait) for wait in cost.waits]} if cost.waits else {})


def training_of(document: Mapping[str, Any]) -> StepPlan:
    """The plan of a training step in `plan.json`."""
    return StepPlan(
        steps=tuple(
            Step(StepKind(step["step"]), step["node"], step["device"], step.get("target"))
            for step in document["training"]
        ),
        parts=TypeAdapter(tuple[Part, ...]).validate_python(document["parts"]),
        here=document["memory"],
        evaluates=document["evaluates"],
        at_once=document["at_once"],
        buffers={(b["source"], b["target"]): b["size_bytes"] for b in document["buffers"]},
    )


def step_costs_of(document: Mapping[str, Any]) -> tuple[StepCost, ...]:
    """Planned times and energies of a training step's plan in `plan.json`."""
    return tuple(
        StepCost(
            float(step["begin_s"]),
            float(step["end_s"]),
            float(step["energy_j"]),
            tuple(Span(float(begin), float(end)) for begin, end in step.get("waits_s", ())),
        )
        for step in document["training"]
    )


@dataclass(frozen=True)
class Stages:
    """The parts of a built project that a run needs.

    Attributes:
        program: the training and evaluation step.
        training: the training step's plan.
        messages: what a partner sends and gets.
        memory: addresses.
        slots: places in storage.
        state_dict: where the tensors of the author's network lie in those of the model.
        constants: what the firmware holds in flash, by name.
        frozen: the model's own values of what is not trained, by name.
    """

    program: Program
    training: StepPlan
    messages: tuple[Message, ...]
    memory: MemoryPlan
    slots: tuple[Slot, ...]
    state_dict: tuple[StateEntry, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    frozen: Mapping[str, Array] = field(default_factory=dict)


def read_stages(folder: Path, erase_bytes: int | None) -> Stages:
    """The stages that a build wrote to its project folder.

    Args:
        folder: the project's.
        erase_bytes: what of its board's storage is erased at once; None where nothing is.

    Raises:
        OutputError: A file is missing or malformed.
    """
    try:
        program = Program.from_json(_document(folder, "graph.json"))
        for graph in (program.training, program.evaluation):
            check_shapes(graph)
        plan = training_of(_document(folder, PLAN))
        messages = plan.messages(program)
        slots = slots_of(program, plan, erase_bytes)
        if _document(folder, "slots.json")["slots"] != [slot.to_json() for slot in slots]:
            raise ModelError("slots.json is not what graph.json and plan.json come to")
        memory = MemoryPlan.from_json(_document(folder, "memory.json"))
        constants = _constants(folder, program)
        frozen = _frozen(folder) or constants
        entries = _state_dict(folder, program, frozen)
    except MALFORMED as error:
        raise OutputError(
            f"{folder}: a stage file is missing or malformed: {error}",
            "run `poetfw build` again",
        ) from error
    return Stages(program, plan, messages, memory, slots, entries, constants, frozen)


def slots_of(program: Program, plan: StepPlan, erase_bytes: int | None) -> tuple[Slot, ...]:
    """The slots of a program that follows a plan; see `assign_slots`."""
    return assign_slots(program, plan.steps, erase_bytes, plan.held(program), plan.updated(program))


def _state_dict(
    folder: Path, program: Program, frozen: Mapping[str, Array]
) -> tuple[StateEntry, ...]:
    if not (folder / STATE_DICT).exists():
        return ()
    elements = {tensor.name: tensor.elements for tensor in program.persistent}
    elements |= {name: values.size for name, values in frozen.items()}
    entries = []
    for each in _document(folder, STATE_DICT)["entries"]:
        entry = StateEntry(**{**each, "shape": tuple(each["shape"])})
        end = entry.first + math.prod(entry.shape)
        if not 0 <= entry.first <= end <= elements[entry.tensor] or not isinstance(entry.name, str):
            raise ModelError(f"{entry.name!r} of {STATE_DICT} does not lie within its tensor")
        entries.append(entry)
    return tuple(entries)


def _constants(folder: Path, program: Program) -> Mapping[str, Array]:
    if not program.constants:
        return {}
    values = read_every(folder / CONSTANTS)
    if any(
        values[tensor.name].shape != tensor.shape
        or (values[tensor.name].dtype.kind == "i") is not (tensor.dtype is Dtype.I32)
        for tensor in program.constants
    ):
        raise ModelError(f"{CONSTANTS} has other shapes than graph.json")
    if program.with_values(values) != program:
        raise ModelError(f"{CONSTANTS} holds other values than the firmware")
    return values


def _frozen(folder: Path) -> Mapping[str, Array]:
    return read_every(folder / FROZEN) if (folder / FROZEN).exists() else {}


def _document(folder: Path, name: str) -> dict[str, Any]:
    return stage_document(name, read_bytes(folder / name))


def stage_document(name: str, content: bytes) -> dict[str, Any]:
    """Parse a stage file, and check its version.

    Raises:
        ModelError: It has another version.
        ValueError: It is not JSON.
    """
    document: dict[str, Any] = parse_json(content)
    version = _SCHEMA_VERSIONS.get(name, SCHEMA_VERSION)
    if document["schema_version"] != version:
        said = document["schema_version"]
        raise ModelError(f"{name} has schema_version {said!r:.20}: expected {version}")
    return document
