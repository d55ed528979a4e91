# SPDX-License-Identifier: Apache-2.0
"""Files of small built projects, planned once, from which pages are made."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from poetfw.boards import load_board
from poetfw.common.limits import Deadline
from poetfw.costs import analytic_costs
from poetfw.firmware import Traffic, statement_numbers
from poetfw.memory import ONLY
from poetfw.models.bert import BertSize, bert
from poetfw.pipeline import plan_build
from poetfw.planning import (
    Build,
    BuildSettings,
    DevicesSettings,
    plan_unscheduled,
    report_build,
    saved_by_more_ram,
    schedule_problem,
)
from poetfw.report import (
    BuildReport,
    Evaluation,
    RunReport,
    StepTrace,
    TimedStep,
    Verification,
    json_bytes,
)
from poetfw.report.html import ProjectFiles, ReportSource, read_source
from poetfw.schedule import StepKind, step_costs
from poetfw.training import make_program

DEVICES = Path(__file__).parents[3] / "examples/devices"
TIGHT = BuildSettings("nrf52840", "mlp", batch=8, ram_bytes=58_000, work_limit=0.3)
TICK_S = 1 / 64e6


@cache
def tight() -> Build:
    """A build that recomputes and pages."""
    build = plan_build(TIGHT, lambda _: None)
    assert build.plan.training.page_ins
    assert build.plan.training.recomputes
    command = ("poetfw", "build", "--board", "nrf52840", "--ram", "58000")
    saves = saved_by_more_ram(build, TIGHT, Deadline())
    return replace(build, **saves._asdict(), command=command)


@cache
def two(apart: bool = False) -> Build:
    """A build for two devices that work at once."""
    names = ("linux-big.toml", "linux-small.toml")
    devices = DevicesSettings(
        tuple(DEVICES / name for name in names),
        ram_fractions=None if apart else (0.9, 1.0),
        parallel=True,
        apart=apart,
    )
    settings = BuildSettings("", "mlp", batch=8, work_limit=0.3, devices=devices)
    return plan_build(settings, lambda _: None)


def report_of(build: Build) -> BuildReport:
    return report_build(build, Path("folder"))


def files_of(build: Build, run: RunReport | None = None) -> ProjectFiles:
    files = {**build.project.files, "build.json": json_bytes(report_of(build).to_json())}
    return files if run is None else {**files, "run/report.json": json_bytes(run.to_json())}


def ran(build: Build) -> RunReport:
    """A run that nobody made: its figures are as planned, and each statement's ticks its number."""
    report = report_of(build)
    plan = build.plan.step
    ops = {op.name: op for op in build.program.training.ops}
    timed = tuple(
        TimedStep(n, step.node, ops[step.node].kind, 1000.0 * n)
        for n, step in zip(statement_numbers(plan.steps), plan.steps, strict=True)
        if step.kind is not StepKind.FREE
    )
    program = {
        "board": report.board,
        "plan_id": report.plan_id,
        "emulator": "qemu",
        "port": None,
        "emulated": True,
        "computed": 1,
        "sent_bytes": 0,
        "high_water_bytes": report.peak_bytes,
        "parts": report.parts,
        "arenas": {ONLY: report.peak_bytes},
        "stack_high_water_bytes": 800,
        "ticks": 1_000_000,
        "tick_unit": "instructions",
        "tick_s": TICK_S,
        "step_s": 0.25,
        "instructions": 1_000_000,
        "storage_bytes_read": 1,
        "storage_bytes_written": 1,
        "step_traffic": Traffic(4, 512, 512),
        "planned_traffic": Traffic(4, 512, 512),
        "blocks_written": 4,
        "blocks_per_epoch": 1.0,
        "storage_file": None,
        "storage_erases": None,
        "damaged": {},
        "begun_anew": False,
        "measured_energy_j": None,
        "energy_source": None,
        "repeated_commands": 0,
        "trained": "folder/run/storage.img",
    }
    from poetfw.report import ProgramRun

    verified = Verification(True, (), 1e-7, 1e-6, 1e-7, True, True, None, None)
    return RunReport(
        **program,
        steps=3,
        resumed_from=0,
        loss=(2.5, 1.25, 0.5),
        accuracy=0.75,
        held_out_loss=None,
        evaluations=(Evaluation(3, 0.75, None),),
        messages=0,
        message_bytes=0,
        planned_step_s=report.schedule.time_s,
        planned_by="analytic",
        memories={ONLY: ProgramRun(**program)},
        verify=verified,
        trace=StepTrace("instructions", 1_000_000, timed),
        step_instructions=1000.0,
        planned_instructions=1020.0,
        command=("poetfw", "run", "--board", "nrf52840", "--trace"),
    )


@cache
def large() -> ReportSource:
    """A network of 12 attention blocks that keeps everything, with the report of another build."""
    model = bert("deep", BertSize(12, 16, 2, sequence=8, vocabulary=50, positions=16), 1, seed=0)
    program = make_program(model.graph, model.loss, model.optimizer)
    board = load_board("rpi4")
    plan = plan_unscheduled(program, board, analytic_costs)
    table = analytic_costs(program.training, board)
    problem = schedule_problem(program.training, board, table, None)
    source = read_source(files_of(tight(), ran(tight())))
    return replace(
        source,
        program=program,
        plan=plan.step,
        step_costs=step_costs(problem, plan.step.steps),
        memories=plan.memories,
        run=None,
    )
