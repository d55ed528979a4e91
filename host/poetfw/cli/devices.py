# SPDX-License-Identifier: Apache-2.0
"""`--devices` of `poetfw schedule`, `poetfw compare` and `poetfw build`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.api.answers import followed, read_answer, read_file
from poetfw.cli import output
from poetfw.cli.command import command_deadline
from poetfw.common.errors import ProblemError
from poetfw.common.limits import Work
from poetfw.settings import CellLimits, Solver
from poetfw.settings.schedule import Answer, Compared, Several, TaskBudget, TaskSettings

if TYPE_CHECKING:
    from poetfw.schedule import ExecutionPlan
    from poetfw.schedule.several import (
        DevicesFigures,
        DevicesProblem,
        DevicesSchedule,
    )
    from poetfw.schedule.several.solve import Tell


def schedule_devices(
    task: TaskSettings,
    budget: TaskBudget,
    several: Several,
    solver: Solver,
    work: Work,
    answer: Answer,
) -> int:
    """Run `poetfw schedule` for several devices; returns the exit code."""
    from poetfw.common.output_file import replace_file
    from poetfw.report import draw_timeline, json_bytes
    from poetfw.schedule import SolveOptions
    from poetfw.schedule.several import (
        DevicesInterrupted,
        Minimise,
        devices_schedule_to_json,
        devices_to_json,
        require_same_graph,
        simulate_devices,
        solve_devices,
    )

    minimise, plot, replay = several.minimise, several.plot, answer.replay
    problem = _load(task, budget.ram_fraction, work)
    problem = replace(problem, parallel=several.parallel or problem.parallel)
    if budget.deadline_s is not None:
        problem = replace(problem, deadline_s=budget.deadline_s)

    def draw(plan: ExecutionPlan) -> None:
        if plot is not None:
            replace_file(plot, draw_timeline(problem, plan, plot.suffix[1:]))

    if answer.export is not None:
        replace_file(answer.export, json_bytes(devices_to_json(problem)))
        output.messages.print(f"wrote {output.escaped(str(answer.export))}")
        return 0
    if replay is not None:
        plan, tensor_bytes = read_answer(replay)
        with followed(replay):
            require_same_graph(problem, tensor_bytes)
            figures = simulate_devices(problem, plan)
        draw(plan)
        if answer.as_json:
            output.print_json({"schema_version": 1, "legal": True, **asdict(figures)})
        else:
            output.results.print(
                output.facts(f"legal plan of {problem.name}", _rows(problem, figures))
            )
        return 0
    if (
        minimise == "energy"
        and not problem.parallel
        and not any(
            device.idle_w or any(node.energy_j for node in device.problem.nodes)
            for device in problem.devices
        )
    ):
        raise ProblemError(
            "no device file gives its power: every plan takes 0 J",
            "add active_w or idle_w to the device files, or minimise time",
        )
    options, code = SolveOptions(solver=solver.solver), 0
    with output.spinner() as progress:
        progress(f"{problem.name} on {', '.join(device.name for device in problem.devices)}")
        tell = log_of_devices(minimise)
        try:
            found = solve_devices(problem, Minimise(minimise), options, work, tell)
        except DevicesInterrupted as interrupted:
            found, code = interrupted.schedule, 130
    draw(found.plan)
    if answer.as_json:
        output.print_json(devices_schedule_to_json(found) | output.spent_json(work.deadline))
    else:
        rows = [*_proven(found), *_rows(problem, found), *output.spent_rows(work.deadline)]
        output.results.print(output.facts(f"{problem.name} on several devices", rows))
    return code


def _load(
    task: TaskSettings | Compared, ram_fractions: Sequence[float] | None, work: Work
) -> DevicesProblem:
    """Read a problem file, or build the problem of a model on the devices of some files.

    Raises:
        UsageError: Fractions are given with a problem file, or device files without a model.
    """
    from poetfw.planning import load_devices_problem
    from poetfw.schedule.several import devices_from_json

    names = task.devices or ()
    if len(names) == 1 and names[0].endswith(".json"):
        if ram_fractions is not None:
            raise click.UsageError("--ram-fraction needs device files: a problem has its budgets")
        return devices_from_json(read_file(Path(names[0])), names[0])
    if task.model is None:
        raise click.UsageError("--devices with device files needs --model")
    paths = [Path(name) for name in names]
    return load_devices_problem(
        paths, task.model, task.batch, ram_fractions, output.warn, work.deadline
    )


def log_of_devices(minimise: str) -> Tell:
    """Callback that prints the progress of a search for a plan of several devices."""
    unit = {"time": "s", "energy": "J"}[minimise]

    def report(phase: str, cost: float, bound: float) -> None:
        output.messages.print(f"{phase}: {cost:.6g} {unit}, bound {bound:.6g} {unit}")

    return report


def _proven(answer: DevicesSchedule) -> list[tuple[str, str]]:
    unit = {"time": "s", "energy": "J"}[answer.minimised.value]
    once, in_turn = answer.at_once, None
    if once is not None:
        in_turn = "no plan" if once.sequential_s is None else f"{once.sequential_s:.6g} s"
    return [
        ("status", answer.status.value),
        (f"{answer.minimised.value} (analytic)", f"{answer.cost:.6g} {unit}"),
        ("bound", f"{answer.bound:.6g} {unit}, of {answer.bound_covers.in_words}"),
        ("gap", output.gap_or_none(answer.gap)),
        *(
            [("without memory limits", f"{answer.ceiling:.6g} {unit}")]
            if once is None
            else [
                ("critical path", f"{once.path_s:.6g} s"),
                ("balanced work", f"{once.balanced_s:.6g} s"),
                ("sequential execution", f"{in_turn}"),
            ]
        ),
        ("scheduler", answer.scheduler),
    ]


def _rows(problem: DevicesProblem, figures: DevicesFigures) -> list[tuple[str, str]]:
    rows = [
        (
            device.name,
            f"{figures.computed[device.name]} steps, peak "
            f"{output.size(figures.peak_bytes[device.name])} of "
            f"{output.size(device.problem.ram_bytes)}",
        )
        for device in problem.devices
    ]
    return [
        *rows,
        ("energy per step", f"{figures.energy_j:.6g} J"),
        ("time per step", f"{figures.time_s:.6g} s"),
        ("copies", f"{figures.copies}"),
        ("recomputes", f"{figures.recomputes}"),
        ("page-outs, page-ins", f"{figures.page_outs}, {figures.page_ins}"),
    ]


def _over(cost: float, alone: float) -> str:
    return f"{round(cost / alone - 1, 3) + 0.0:+.1%}"  # + 0.0 turns -0.0 into 0.0


def compare_on_devices(
    task: Compared, fractions: Sequence[float] | None, limits: CellLimits, as_json: bool
) -> int:
    """Run `poetfw compare` for several devices; returns the exit code."""
    from poetfw.schedule.several import Minimise, best_alone, compare_devices, validate_devices

    deadline = command_deadline(limits.time_limit_s)
    problem = _load(task, fractions, Work(limits.work_limit, deadline))
    validate_devices(problem)
    with output.spinner() as progress:
        rows = []
        for row in compare_devices(problem, Minimise.TIME, limits.work_limit, deadline):
            rows.append(row)
            progress(f"{problem.name}: {row.name}: done")
    alone = best_alone(rows)
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "name": problem.name,
                "devices": [device.name for device in problem.devices],
                "ram_bytes": [device.problem.ram_bytes for device in problem.devices],
                "best_alone_s": alone,
                "rows": [
                    {
                        "name": row.name,
                        "time_s": row.cost,
                        "reason": row.reason,
                        "bound": row.bound,
                        "alone": row.alone,
                    }
                    for row in rows
                ],
            }
        )
        return 0
    cells = [
        [
            row.name,
            "-" if row.cost is None else f"{row.cost:.4g} s",
            "" if row.cost is None or alone is None else _over(row.cost, alone),
            "no plan beats it" if row.bound else row.reason,
        ]
        for row in rows
    ]
    columns = ["", "time (analytic)", "over the best alone", ""]
    output.results.print(output.table(f"{problem.name} on several devices", columns, cells))
    return 0
