# SPDX-License-Identifier: Apache-2.0
"""`poetfw build`: from a model to firmware."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.devices import (
    followed,
    log_of_devices,
    read_answer,
)
from poetfw.cli.options import (
    Bytes,
    Positive,
    batch_options,
    command_deadline,
    cost_options,
    json_option,
    limit_options,
    network_options,
    option,
    out_option,
    parse_fractions,
    parse_names,
    scheduler_option,
    settings_of_optimizer,
    threads_option,
    training_options,
    verbose_option,
)
from poetfw.common.limits import Deadline
from poetfw.settings import BuildSettings, DevicesSettings

if TYPE_CHECKING:
    from poetfw.planning import MoreRam
    from poetfw.report import BuildReport


@click.command(
    cls=Command,
    epilog="Example:  poetfw build --board nrf52840 --model net.pt2 --data samples.npz --batch 16",
)
@option(
    "--board",
    group="Board",
    first=True,
    metavar="NAME|FILE.toml[:STORAGE]",
    help="The board, and which of its storages; `poetfw boards` lists what is known.",
)
@option(
    "--devices",
    group="Several devices",
    excludes=(
        "--board",
        "--ram",
        "--scheduler",
        "--slices",
        "--watchdog",
        "--ring",
        "--ring-share",
        "--costs",
        "--db",
        "--threads",
    ),
    callback=parse_names,
    metavar="FILE.toml,...",
    help="Instead of a board: several devices of one, each with an arena of its own.",
)
@option(
    "--ram-fraction",
    group="Several devices",
    needs=("--devices",),
    callback=parse_fractions,
    metavar="F,...",
    help="With --devices: what each has for tensors, as fractions of what keeping everything "
    "takes.  [default: what its file says]",
)
@option(
    "--parallel",
    group="Several devices",
    needs=("--devices",),
    is_flag=True,
    help="With --devices: let them work at once.",
)
@option(
    "--apart",
    group="Several devices",
    needs=("--devices",),
    excludes=("--weights-in-flash", "--checkpoint-every"),
    is_flag=True,
    help="With --devices: a program for each, on a board of its own; their boards may differ.",
)
@option(
    "--replay",
    group="Several devices",
    needs=("--devices",),
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="ANSWER.json",
    help="With --devices: follow the plan in an answer of `poetfw schedule --devices --json`.",
)
@network_options
@batch_options
@option(
    "--ram",
    "ram_bytes",
    group="Budget",
    first=True,
    type=Bytes(1),
    metavar="SIZE",
    help="Budget of the arena.  [default: the board's RAM without stack and static data]",
)
@option(
    "--deadline",
    "deadline_s",
    group="Budget",
    first=True,
    type=Positive(),
    metavar="SECONDS",
    help="Upper bound on the time of one training step.",
)
@scheduler_option
@training_options
@option(
    "--weights-in-flash",
    group="Storage and application",
    is_flag=True,
    help="Let the program hold the initial weights: then it can begin without a storage.",
)
@threads_option("[default: the board file's]")
@option(
    "--seed",
    group="Training",
    type=click.IntRange(0, 2**32 - 1),
    default=BuildSettings.seed,
    show_default=True,
    help="Decides initial weights and the order of samples.",
)
@option(
    "--checkpoint-every",
    group="Storage and application",
    type=click.IntRange(0, 2**32 - 1),
    default=BuildSettings.checkpoint_every,
    show_default="at the end only",
    metavar="STEPS",
    help="How often the board writes to storage what it would go on from after a power cut.",
)
@option(
    "--checkpoint-sets",
    group="Storage and application",
    type=click.IntRange(2, 1024),
    default=BuildSettings.checkpoint_sets,
    show_default=True,
    help="Places in storage that checkpoints take in turn; more of them wear out later.",
)
@option(
    "--slices",
    group="Storage and application",
    is_flag=True,
    help="Let the application have a training step done in parts: poetfw_train_some.",
)
@option(
    "--watchdog",
    "watchdog_s",
    group="Storage and application",
    type=Positive(),
    metavar="SECONDS",
    help="Have the board's watchdog reset it where the training hangs for so long.  "
    "[default: no watchdog]",
)
@option(
    "--ring",
    group="Storage and application",
    type=click.IntRange(0, 1 << 16),
    default=BuildSettings.ring,
    show_default=True,
    metavar="SAMPLES",
    help="How many samples of its own the device keeps in storage, to learn from.",
)
@option(
    "--ring-share",
    group="Storage and application",
    type=click.IntRange(1),
    metavar="SAMPLES",
    help="How many samples of each training step come from the ring.  [default: half of them]",
)
@cost_options
@limit_options(time="for all but the compilers")
@option(
    "--toolchain",
    group="Output",
    type=click.Choice(("auto", "system", "stock")),
    default="auto",
    show_default=True,
    help="Compile with this computer's compiler, or with the board's stock PlatformIO platform.",
)
@option(
    "--generate-only",
    group="Output",
    first=True,
    is_flag=True,
    help="Write the project, but do not compile it.",
)
@out_option
@verbose_option
@json_option
def build(
    board: str | None,
    devices: tuple[str, ...] | None,
    ram_fraction: tuple[float, ...] | None,
    parallel: bool,
    apart: bool,
    replay: Path | None,
    costs: str | None,
    db: Path | None,
    time_limit: float,
    toolchain: str,
    generate_only: bool,
    out: Path | None,
    verbose: bool,
    as_json: bool,
    **options: Any,  # the fields of BuildSettings
) -> None:
    """Schedule the training of a model on a board, write its firmware, and compile it."""
    from poetfw.firmware import check_output_folder
    from poetfw.pipeline import compile_build, plan_build, write_build
    from poetfw.planning import (
        boards_of,
        costs_from,
        database_for,
        folders_of,
        saved_by_more_ram,
    )
    from poetfw.tools import choose_environment

    end = command_deadline(time_limit)
    if board is None and devices is None:
        raise click.UsageError("Missing option '--board': give either --board or --devices")
    several = None
    if devices is not None:
        answer = None if replay is None else read_answer(replay)
        files = tuple(map(Path, devices))
        several = DevicesSettings(files, ram_fraction, parallel, answer, apart)
    settings = BuildSettings(
        board=board or "",
        devices=several,
        time_limit_s=time_limit,
        optimizer_settings=settings_of_optimizer(options),
        **options,
    )
    boards = boards_of(settings)
    default = Path("build") / "-".join(n or b.label.replace(":", "-") for n, b in boards.items())
    folder = default if out is None else out
    for project in (folder, *folders_of(boards, folder).values()):
        check_output_folder(project)
    for known in [] if generate_only else boards.values():
        choose_environment(known, toolchain)  # a missing compiler shall not cost a solve first
    with output.spinner() as progress, followed(replay):
        planned = plan_build(
            settings,
            progress,
            costs_from(None if board is None else database_for(board, costs, db)),
            deadline=end,
            tell=output.search_log(progress, end),
            tell_of_devices=log_of_devices("time"),
        )
        report = write_build(planned, folder)
        if not generate_only:
            report = compile_build(planned, report, folder, toolchain, progress)
        more = None
        if devices is None and not as_json:
            more = saved_by_more_ram(planned, settings.on(planned.image.board), end)
    for warning in planned.model.warnings:
        output.warn(warning)
    if as_json:
        output.print_json(report.to_json())
    else:
        run = ["--board", settings.board] if settings.board else []
        run += [] if folder == default and run else ["--out", str(folder)]
        _print(report, folder, end, run, more, verbose)


_LAYER_NAMES = {
    "conv2d": ("convolution", "convolutions"),
    "batch_norm": ("batch norm", "batch norms"),
    "linear": ("linear", "linear"),
    "dropout": ("dropout", "dropouts"),
}
"""Usual names of layers, in the singular and the plural; other kinds keep their own names."""


def _layers(report: BuildReport) -> str:
    kinds = [kind for kind in _LAYER_NAMES if kind in report.layers]
    kinds += [kind for kind in report.layers if kind not in _LAYER_NAMES]
    text = ", ".join(
        f"{report.layers[kind]} {_LAYER_NAMES.get(kind, (kind, kind))[report.layers[kind] != 1]}"
        for kind in kinds
    )
    if not report.frozen:
        return text
    more = f" and {len(report.frozen) - 4} more" if len(report.frozen) > 4 else ""
    return f"{text}; frozen: {', '.join(report.frozen[:4])}{more}"


def _saved(more: MoreRam, energy_j: float) -> str:
    """The advice of a build that fits badly: `1,024 B more: 11.5 mJ a step instead of 62.8`."""
    energies = f"{more.energy_j * 1e3:.3g} mJ a step instead of {energy_j * 1e3:.3g}"
    return f"{output.size(more.size_bytes)} more: {energies}"


def _trained(report: BuildReport) -> str:
    text = f"{report.trained_weights:,} of {report.weights:,} weights"
    parts = [f"{part} of {name}" for name, part in report.trained_in_part.items()]
    more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
    return f"{text}; {', '.join(parts[:4])}{more}" if parts else text


def _print(
    report: BuildReport,
    folder: Path,
    end: Deadline,
    run: Sequence[str],
    more: MoreRam | None,
    verbose: bool,
) -> None:
    """Print what a build came to: the model, each program with its devices, and the plan."""
    schedule = report.schedule
    apart = len(report.memories) > 1
    energy = f"{schedule.energy_j * 1e3:.3f} mJ"
    trained = "trained", _trained(report)
    basis = ", ".join(source for source, count in report.cost_sources.items() if count)
    rows = [
        ("model", f"{report.model}, batch {report.batch}"),
        output.Detail("layers", _layers(report)),
        output.Detail("optimizer", report.optimizer),
        *([trained] if report.trained_weights < report.weights else [output.Detail(*trained)]),
        ("keeping everything", output.size(report.checkpoint_all_peak_bytes)),
        *(row for name in report.memories for row in _program_rows(name, report.of(name))),
        (
            "schedule",
            f"{schedule.scheduler}: {schedule.recomputes} recomputes, "
            f"{schedule.page_outs} page-outs, {schedule.page_ins} page-ins",
        ),
        *(output.proven_rows(schedule) if report.devices == 1 else []),
        *([] if more is None else [("with more RAM", _saved(more, schedule.energy_j))]),
        output.Detail("costs", report.costs),
        *output.details(output.kernels_rows(report.kernels_by)),
        *([(f"energy per step ({basis})", energy)] if report.devices == 1 else []),
        (f"time per step ({basis})", f"{schedule.time_s:.4g} s"),
        *output.spent_rows(end),
        output.Detail("projects" if apart else "project", str(folder)),
    ]
    where = "boards of their own" if apart else report.board
    output.results.print(output.facts(f"{report.model} on {where}", rows, verbose=verbose))
    if report.elf is not None:
        output.results.print(f"Run it:  {output.escaped(shlex.join(['poetfw', 'run', *run]))}")


def _program_rows(name: str, report: BuildReport) -> list[tuple[str, str]]:
    """Rows of a program's RAM and flash; one of several programs has a name."""
    rows = [(name, f"a program for {report.board}")] if name else []
    if report.devices == 1:
        rows.append(output.Detail("smallest possible", output.size(report.minimum_budget_bytes)))
    rows += [
        ("budget", output.size(report.budget_bytes)),
        ("peak", output.size(report.peak_bytes)),
    ]
    if report.live_bytes < report.peak_bytes:
        rows.append(output.Detail("… live at once", output.size(report.live_bytes)))
    if report.devices > 1:
        arenas = [part.arena for part in report.parts]
        rows += [
            (f"… of {a.device}", f"{output.size(a.size_bytes)} of {output.size(a.limit_bytes)}")
            for a in arenas
        ]
        rows.append(("… for the whole run", output.size(min(a.offset for a in arenas))))
    if report.flash_bytes is None or report.ram_bytes is None:
        return rows
    rows.append(("flash used", output.size(report.flash_bytes)))
    if report.frozen_bytes:
        rows.append(output.Detail("… of it frozen weights", output.size(report.frozen_bytes)))
    if report.schedule_bytes is not None:
        rows.append(
            output.Detail("… of it added by the schedule", output.size(report.schedule_bytes))
        )
    return [
        *rows,
        ("RAM used, stack included", output.size(report.ram_bytes)),
        output.Detail("firmware", str(report.elf)),
    ]
