# SPDX-License-Identifier: Apache-2.0
"""`poetfw plan-update`: choice of the parameters to train within a budget of bytes or joules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import command, command_deadline
from poetfw.common.limits import Deadline
from poetfw.settings import (
    BuildSettings,
    CostSettings,
    NetworkSettings,
    Printed,
    Settings,
    Target,
    TrainingSettings,
    UpdateBudget,
    UpdateLimits,
    setting,
)
from poetfw.settings.values import OutputFile

if TYPE_CHECKING:
    from poetfw.models import Model
    from poetfw.planning import UpdatePlan


_CHOSEN = ("--train", "is what plan-update chooses: leave parameters out by --freeze")
"""Refusal of `--train`, but for `*`, which tells what an ONNX file does not: weights."""


@dataclass(frozen=True)
class UpdateSettings(Settings):
    """Calibration data, and output file of the selection."""

    calibration_batches: int = setting(
        "Training batches used to estimate gradient energy.",
        8,
        type=click.IntRange(1, 10_000),
    )
    out: Path | None = setting(
        "Write the selection to this file, for --train.",
        type=OutputFile(".json"),
        metavar="FILE.json",
        own=True,
    )


@command(
    "Example:  poetfw plan-update --board nrf52840 --model net.pt2 --weights trained.npz "
    "--data samples.npz --bytes-fraction 0.5 --out plan.json && poetfw build --board nrf52840 "
    "--model net.pt2 --weights trained.npz --data samples.npz --train plan.json",
    lambda given: [] if "*" in (given["train"] or ()) else [_CHOSEN],
    name="plan-update",
)
def plan_update(
    target: Target,
    network: NetworkSettings,
    budget: UpdateBudget,
    training: TrainingSettings,
    costs: CostSettings,
    limits: UpdateLimits,
    selecting: UpdateSettings,
    printed: Printed,
) -> None:
    """Choose the parameters to train: the most gradient energy within a budget.

    Bytes are those of training with everything kept; a schedule may reduce them in a build. The
    selected training is derived and placed: its exact bytes and energy meet the budget.
    """
    from poetfw.boards import load_board
    from poetfw.common.limits import Work
    from poetfw.common.output_file import replace_file
    from poetfw.importers import load_data
    from poetfw.planning import Updates, costs_from, database_for, load_model
    from poetfw.planning import calibration_batches as batches_of
    from poetfw.report import json_bytes

    end, out = command_deadline(limits.time_limit_s), selecting.out
    board = load_board(target.board)
    settings = BuildSettings.of(target, network, training).on(board)
    with output.spinner() as progress:
        progress("reading board, model and data")
        model = load_model(settings)
        data = load_data(settings.data, model, settings.features)
        provider = costs_from(database_for(settings.board, costs.costs, costs.db))
        plan = Updates(settings, model, board, provider).plan(
            budget,
            batches_of(data, model.batch, selecting.calibration_batches, settings.seed),
            Work(limits.work_limit, end),
            progress,
        )
    for warning in model.warnings:
        output.warn(warning)
    file = plan.selection.to_json(model.graph)
    if out is not None:
        replace_file(out, json_bytes(file))
    if printed.as_json:
        output.print_json(plan.to_json() | {"selection": file} | output.spent_json(end))
    else:
        _print(plan, model, board.label, end)
        if out is not None:
            output.messages.print(f"wrote {output.escaped(str(out))}")


def _print(plan: UpdatePlan, model: Model, board: str, end: Deadline) -> None:
    chosen = {choice.parameter: choice.channels for choice in plan.chosen}
    rows = []
    for choice, score, alone in zip(plan.choices, plan.scores, plan.alone, strict=True):
        if choice.channels != chosen.get(choice.parameter):
            continue
        part = "-"
        if choice.parameter in chosen:
            whole = model.graph.by_name[choice.parameter].shape
            part = "all" if choice.channels is None else f"{choice.channels} of {whole[1]} channels"
        rows.append(
            (
                choice.parameter,
                f"{alone.size_bytes:,.0f}",
                f"{alone.energy_j:.4g}",
                f"{score:.4g}",
                part,
            )
        )
    columns = ("parameter", "bytes, alone", "joules, alone", "gradient energy", "trained")
    output.results.print(output.table(f"{model.name} on {board}", columns, rows))
    summary = [
        ("gradient energy", f"{plan.score:.4g}, {_percent(plan.score, plan.full_score)} of all"),
        (
            "bytes of training",
            f"{plan.needs.size_bytes:,.0f}, {_percent(plan.needs.size_bytes, plan.full.size_bytes)}"
            f" of full training's {plan.full.size_bytes:,.0f}",
        ),
        ("… as estimated", f"{plan.estimate.size_bytes:,.0f}"),
        (
            "joules per step",
            f"{plan.needs.energy_j:.6g}, {_percent(plan.needs.energy_j, plan.full.energy_j)} of "
            f"full training's {plan.full.energy_j:.6g}",
        ),
        ("… by the estimate", f"{plan.estimate.energy_j:.6g}"),
        ("plans measured", f"{plan.rounds}"),
        *output.spent_rows(end),
    ]
    output.results.print(output.facts("selection", summary))


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "all"
