# SPDX-License-Identifier: Apache-2.0
"""Source of a report: the JSON files of a built project, read as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poetfw.common.errors import ModelError, OutputError
from poetfw.common.reading import read_bytes
from poetfw.firmware.project import RUN_DIR
from poetfw.ir import Graph
from poetfw.memory import ONLY, MemoryPlan, StepPlan
from poetfw.report.stage_files import (
    MALFORMED,
    PLAN,
    stage_document,
    step_costs_of,
    training_of,
)
from poetfw.report.summary import RUN_REPORT, BuildReport, RunReport
from poetfw.schedule import StepCost
from poetfw.training import Program

ProjectFiles = Mapping[str, bytes]
"""Contents of a project's files by path relative to its folder, with `/` between the names."""

_Read = Callable[[str], bytes | None]


@dataclass(frozen=True)
class ReportSource:
    """A build and, if there was one, its last run.

    Attributes:
        build: the build.
        program: training and evaluation step.
        plan: the plan of the training step, as the evaluating program sees it.
        step_costs: planned times and energies of the plan's steps.
        memories: addresses of each memory's buffers, by the memory's name; of a program in a folder
            of its own, only its memory's.
        run: the last run of this plan; None without one.
    """

    build: BuildReport
    program: Program
    plan: StepPlan
    step_costs: tuple[StepCost, ...]
    memories: Mapping[str, MemoryPlan]
    run: RunReport | None

    @property
    def graph(self) -> Graph:
        """The training step."""
        return self.program.training


def read_source(project: Path | ProjectFiles) -> ReportSource:
    """Read a built project.

    Args:
        project: its folder, or its files.

    Raises:
        OutputError: A file is missing or malformed.
    """
    if isinstance(project, Path):
        build = BuildReport.read(project / "build.json")
        return _source(build, str(project), lambda name: _content(project / name))
    if "build.json" not in project:
        raise OutputError("the files of a project have no build.json", "run `poetfw build`")
    return _source(BuildReport.from_json(project["build.json"], "build.json"), "", project.get)


def _content(path: Path) -> bytes | None:
    try:
        return read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error


def _source(build: BuildReport, folder: str, read: _Read) -> ReportSource:
    prefix = f"{folder}: " if folder else ""
    here = build.parts[0].memory
    places = {name: "" if name == ONLY else f"{name}/" for name in build.memories}
    if read(PLAN) is not None:  # the folder of one program
        places = {here: ""}
    if any(name in (".", "..") or "/" in name or "\\" in name for name in places):
        raise OutputError(f"{prefix}build.json names no memories", "run `poetfw build` again")

    def document(memory: str, name: str) -> dict[str, Any]:
        path = f"{places[memory]}{name}"
        content = read(path)
        if content is None:
            raise OutputError(f"{prefix}{path} is missing", "run `poetfw build` again")
        return stage_document(name, content)

    try:
        plan = document(here, PLAN)
        return ReportSource(
            build,
            Program.from_json(document(here, "graph.json")),
            training_of(plan),
            step_costs_of(plan),
            {name: MemoryPlan.from_json(document(name, "memory.json")) for name in places},
            _run(build, read(f"{RUN_DIR}/{RUN_REPORT}")),
        )
    except MALFORMED as error:
        raise OutputError(
            f"{prefix}a stage file is malformed: {error}", "run `poetfw build` again"
        ) from error


def _run(build: BuildReport, content: bytes | None) -> RunReport | None:
    """The last run; None without one, or if it was of another build."""
    if content is None:
        return None
    try:
        run = RunReport.from_json(content)
    except ValueError as error:
        raise ModelError(
            f"{RUN_DIR}/{RUN_REPORT} is not what `poetfw run` wrote: {error}"
        ) from error
    ran = {name: program.plan_id for name, program in run.memories.items()}
    return run if ran == {n: program.plan_id for n, program in build.memories.items()} else None
