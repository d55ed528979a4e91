# SPDX-License-Identifier: Apache-2.0
"""`poetfw plan-update`: what to train of a model within a budget of bytes or joules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.options import (
    Bytes,
    OutputFile,
    Positive,
    batch_options,
    board_option,
    command_deadline,
    cost_options,
    json_option,
    limit_options,
    network_options,
    option,
    settings_of_optimizer,
    training_options,
)
from poetfw.common.limits import Deadline
from poetfw.settings import BuildSettings

if TYPE_CHECKING:
    from poetfw.models import Model
    from poetfw.planning import UpdatePlan

_ENDING = ".json"


@click.command(
    "plan-update",
    cls=Command,
    epilog="Example:  poetfw plan-update --board nrf52840 --model net.pt2 --weights trained.npz "
    "--data samples.npz --bytes-fraction 0.5 --out plan.json && poetfw build --board nrf52840 "
    "--model net.pt2 --weights trained.npz --data samples.npz --train plan.json",
)
@board_option
@network_options
@option(
    "--budget-bytes",
    type=Bytes(1),
    metavar="SIZE",
    help="What training may take: trained weights, optimizer state, activations, gradients.",
)
@option(
    "--bytes-fraction",
    type=Positive(),
    metavar="F",
    help="The same, as a fraction of what training everything takes.",
)
@option(
    "--ram",
    type=Bytes(1),
    metavar="SIZE",
    help="The same, with the weights and the page buffer: the whole arena.",
)
@option(
    "--budget-joules",
    type=Positive(),
    metavar="JOULES",
    help="What a training step may take, by the board's costs.",
)
@option(
    "--joules-fraction",
    type=Positive(),
    metavar="F",
    help="The same, as a fraction of what a step that trains everything takes.",
)
@option(
    "--calibration-batches",
    type=click.IntRange(1, 10_000),
    default=8,
    show_default=True,
    metavar="N",
    help="Batches of the training data that gradients are calculated of.",
)
@batch_options
@training_options
@option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=BuildSettings.seed,
    show_default=True,
    help="Decides initial weights and the calibration batches.",
)
@cost_options
@limit_options(10.0)
@option(
    "--out",
    command="plan-update",
    type=OutputFile(),
    metavar="FILE.json",
    help="Write what is to be trained to this file, for --train.",
)
@json_option
def plan_update(
    budget_bytes: int | None,
    bytes_fraction: float | None,
    ram: int | None,
    budget_joules: float | None,
    joules_fraction: float | None,
    calibration_batches: int,
    costs: str | None,
    db: Path | None,
    work_limit: float,
    time_limit: float,
    out: Path | None,
    as_json: bool,
    **options: Any,  # the fields of BuildSettings
) -> None:
    """Choose what to train of a model: the most gradient energy within a budget.

    Bytes are those of training with everything kept: a build may then take less with a schedule.
    What was chosen is derived and placed, and its own bytes and joules keep the budget.
    """
    from poetfw.boards import load_board
    from poetfw.common.limits import Work
    from poetfw.common.output_file import replace_file
    from poetfw.importers import load_data
    from poetfw.planning import Budget, Updates, costs_from, database_for, load_model
    from poetfw.planning import calibration_batches as batches_of
    from poetfw.report import json_bytes

    budget = Budget(budget_bytes, ram, bytes_fraction, budget_joules, joules_fraction)
    if budget == Budget():
        raise click.UsageError(
            "give a budget: --budget-bytes, --bytes-fraction, --ram, --budget-joules or "
            "--joules-fraction"
        )
    if options["train"]:
        raise click.UsageError(
            "--train is what plan-update chooses: leave parameters out by --freeze"
        )
    if out is not None and out.suffix != _ENDING:
        raise click.BadParameter(f"{out} does not end in {_ENDING}.", param_hint="'--out'")
    end = command_deadline(time_limit)
    board = load_board(options["board"])
    settings = BuildSettings(optimizer_settings=settings_of_optimizer(options), **options)
    settings = settings.on(board)
    with output.spinner() as progress:
        progress("reading board, model and data")
        model = load_model(settings)
        data = load_data(settings.data, model, settings.features)
        provider = costs_from(database_for(settings.board, costs, db))
        plan = Updates(settings, model, board, provider).plan(
            budget,
            batches_of(data, model.batch, calibration_batches, settings.seed),
            Work(work_limit, end),
            progress,
        )
    for warning in model.warnings:
        output.warn(warning)
    file = plan.selection.to_json(model.graph)
    if out is not None:
        replace_file(out, json_bytes(file))
    if as_json:
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
    output.results.print(output.facts("what is trained", summary))


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "all"
