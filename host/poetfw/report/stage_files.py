"""The stage files: every value between two stages, as JSON in the project folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from poetfw.costs import CostTable
from poetfw.errors import ModelError, OutputError
from poetfw.firmware import Slot, SlotPurpose
from poetfw.memory import MemoryPlan
from poetfw.schedule import ExecutionPlan, Schedule
from poetfw.training import Program

SCHEMA_VERSION = 1


def stage_files(
    program: Program,
    costs: CostTable,
    training: Schedule,
    evaluation: Schedule,
    memory: MemoryPlan,
    slots: Sequence[Slot],
    names: Mapping[str, str],
) -> dict[str, bytes]:
    """The content of each stage file, by its name. The same input gives the same bytes."""
    schedule = asdict(training)
    del schedule["plan"], schedule["solve_time_s"]
    documents: dict[str, dict[str, Any]] = {
        "graph.json": program.to_json(),
        "costs.json": costs.to_json(),
        "schedule.json": schedule,
        "plan.json": {
            "training": _plan_json(training.plan),
            "evaluation": _plan_json(evaluation.plan),
        },
        "memory.json": memory.to_json(),
        "slots.json": {"slots": [asdict(slot) for slot in slots]},
        "names.json": {"names": dict(names)},
    }
    return {
        name: json_bytes({"schema_version": SCHEMA_VERSION, **document})
        for name, document in documents.items()
    }


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A JSON document as the bytes of a file, the same for the same document."""
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def _plan_json(plan: ExecutionPlan) -> list[dict[str, str]]:
    return [{"step": step.kind, "node": step.node} for step in plan]


@dataclass(frozen=True)
class Stages:
    """What a run needs of a built project."""

    program: Program
    slots: tuple[Slot, ...]


def read_stages(folder: Path) -> Stages:
    """The stages that a build wrote to its project folder.

    Raises:
        OutputError: a file is missing or malformed.
    """
    try:
        program = Program.from_json(json.loads((folder / "graph.json").read_bytes()))
        slots = json.loads((folder / "slots.json").read_bytes())["slots"]
        return Stages(
            program,
            tuple(
                Slot(s["tensor"], SlotPurpose(s["purpose"]), s["first_block"], s["size_bytes"])
                for s in slots
            ),
        )
    except (OSError, ValueError, KeyError, TypeError, ModelError) as error:
        raise OutputError(
            f"{folder}: a stage file is missing or malformed: {error}",
            "run `poetfw build` again",
        ) from error
