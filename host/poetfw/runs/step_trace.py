# SPDX-License-Identifier: Apache-2.0
"""Durations of each op and each transfer of a training step, measured on a twin."""

from __future__ import annotations

import shutil
from dataclasses import replace

from poetfw.common.errors import ConfigError, OutputError
from poetfw.firmware import IMAGE, statement_numbers, write_project
from poetfw.firmware.project import RUN_DIR
from poetfw.firmware.step_ticks import timed_project
from poetfw.planning import Progress
from poetfw.report import StepTrace, TimedStep
from poetfw.runs.execution import BuiltProject
from poetfw.schedule import ExecutionPlan, Step, StepKind
from poetfw.settings import RunSettings
from poetfw.tools import build_environments, emulator_of, run_slices


def trace_step(project: BuiltProject, settings: RunSettings, progress: Progress) -> StepTrace:
    """Build a copy of a project with timers in its training step, run it on the twin and report.

    Only the time limits of the settings are used.

    Raises:
        ConfigError: The project is for several devices.
        DeviceError: The firmware hangs, faults or reports an error.
        OutputError: The project is not complete, or its files cannot be written.
        ToolError: A compiler or the emulator is missing or fails.
    """
    steps = _steps(project)
    emulator = emulator_of(project.twin.machine)
    machine = emulator.counting(project.twin.machine)
    folder = project.folder / RUN_DIR / "timed"
    copy = timed_project(project.folder, project.board)
    progress("building the step that is timed")
    write_project(copy, folder)
    environment = project.environment_of(machine)
    elf = build_environments(folder, [environment])[environment]
    image = folder / IMAGE
    try:
        shutil.copyfile(project.image, image)
        emulator.require()
        emulator.prepare(machine, image, 0)
        progress("timing each op of a step")
        command = emulator.command(machine, elf)
        found = run_slices(command, folder, settings.timeout_s, len(steps), settings.silence_s)
    except OSError as error:
        raise OutputError(f"{image} cannot be written: {error.strerror or error}") from error
    finally:
        image.unlink(missing_ok=True)
    if not found.ticks.keys() <= steps.keys():
        raise OutputError(
            f"{project.folder}: the training step has other statements than its plan",
            "run `poetfw build` again",
        )
    return StepTrace(
        tick_unit=found.tick_unit,
        whole_ticks=found.whole,
        steps=tuple(replace(steps[n], ticks=ticks) for n, ticks in found.ticks.items()),
    )


def expect_one_device(project: BuiltProject) -> ExecutionPlan:
    """Return a project's plan, after checking that it is for one device.

    Raises:
        ConfigError: The plan is for several devices.
    """
    plan = project.stages.training
    if len(plan.parts) > 1:
        raise ConfigError("--trace times the steps of one device, and the build is for several")
    return plan.steps


def _steps(project: BuiltProject) -> dict[int, TimedStep]:
    """Statements of the training step without times, by number."""
    plan = expect_one_device(project)
    kinds = {op.name: op.kind for op in project.stages.program.training.ops}
    return {
        number: _untimed(number, step, kinds[step.node])
        for number, step in zip(statement_numbers(plan), plan, strict=True)
        if step.kind is not StepKind.FREE
    }


def _untimed(number: int, step: Step, kind: str) -> TimedStep:
    operator = kind if step.kind is StepKind.COMPUTE else str(step.kind)
    return TimedStep(number, step.node, operator, 0.0)
