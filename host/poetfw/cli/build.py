# SPDX-License-Identifier: Apache-2.0
"""`poetfw build`: from a model to firmware."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.devices import (
    followed,
    log_of_devices,
    print_devices_build,
    print_partners_build,
    read_answer,
)
from poetfw.cli.options import (
    Bytes,
    Positive,
    batch_options,
    command_deadline,
    cost_options,
    json_option,
    leave_out,
    limit_options,
    network_options,
    option,
    out_folder,
    out_option,
    parse_fractions,
    parse_names,
    scheduler_option,
    settings_of_optimizer,
    threads_option,
    training_options,
    typed_options,
)
from poetfw.limits import Deadline
from poetfw.settings import BuildSettings

if TYPE_CHECKING:
    from poetfw.boards import Board
    from poetfw.planning import DevicesBuildSettings, MoreRam
    from poetfw.report import BuildReport


@click.command(
    epilog="Example:  poetfw build --board nrf52840 --model net.pt2 --data samples.npz --batch 16"
)
@option(
    "--board",
    metavar="NAME|FILE.toml[:STORAGE]",
    help="The board, and which of its storages; `poetfw boards` lists what is known.",
)
@option(
    "--devices",
    callback=parse_names,
    metavar="FILE.toml,...",
    help="Instead of a board: several devices of one, each with an arena of its own.",
)
@option(
    "--ram-fraction",
    callback=parse_fractions,
    metavar="F,...",
    help="With --devices: what each has for tensors, as fractions of what keeping everything "
    "takes.  [default: what its file says]",
)
@option("--parallel", is_flag=True, help="With --devices: let them work at once.")
@option(
    "--apart",
    is_flag=True,
    help="With --devices: a program for each, on a board of its own; their boards may differ.",
)
@option(
    "--replay",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="ANSWER.json",
    help="With --devices: follow the plan in an answer of `poetfw schedule --devices --json`.",
)
@network_options
@batch_options
@option(
    "--ram",
    "ram_bytes",
    type=Bytes(1),
    metavar="SIZE",
    help="Budget of the arena.  [default: the board's RAM without stack and static data]",
)
@option(
    "--deadline",
    "deadline_s",
    type=Positive(),
    metavar="SECONDS",
    help="Upper bound on the time of one training step.",
)
@scheduler_option
@training_options
@option(
    "--weights-in-flash",
    is_flag=True,
    help="Let the program hold the initial weights: then it can begin without a storage.",
)
@threads_option("[default: the board file's]")
@option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=BuildSettings.seed,
    show_default=True,
    help="Decides initial weights and the order of samples.",
)
@option(
    "--checkpoint-every",
    type=click.IntRange(0, 2**32 - 1),
    default=BuildSettings.checkpoint_every,
    show_default="at the end only",
    metavar="STEPS",
    help="How often the board writes to storage what it would go on from after a power cut.",
)
@option(
    "--checkpoint-sets",
    type=click.IntRange(2, 1024),
    default=BuildSettings.checkpoint_sets,
    show_default=True,
    help="Places in storage that checkpoints take in turn; more of them wear out later.",
)
@option(
    "--slices",
    is_flag=True,
    help="Let the application have a training step done in parts: poetfw_train_some.",
)
@option(
    "--watchdog",
    "watchdog_s",
    type=Positive(),
    metavar="SECONDS",
    help="Have the board's watchdog reset it where the training hangs for so long.  "
    "[default: no watchdog]",
)
@option(
    "--ring",
    type=click.IntRange(0, 1 << 16),
    default=BuildSettings.ring,
    show_default=True,
    metavar="SAMPLES",
    help="How many samples of its own the device keeps in storage, to learn from.",
)
@option(
    "--ring-share",
    type=click.IntRange(1),
    metavar="SAMPLES",
    help="How many samples of each training step come from the ring.  [default: half of them]",
)
@cost_options
@limit_options(time="for all but the compilers")
@option(
    "--toolchain",
    type=click.Choice(("auto", "system", "stock")),
    default="auto",
    show_default=True,
    help="Compile with this computer's compiler, or with the board's stock PlatformIO platform.",
)
@option("--generate-only", is_flag=True, help="Write the project, but do not compile it.")
@out_option
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
    as_json: bool,
    **options: Any,  # the fields of BuildSettings
) -> None:
    """Schedule the training of a model on a board, write its firmware, and compile it."""
    from poetfw.boards import load_board
    from poetfw.devices import choose_environment, emulator_of
    from poetfw.firmware import check_output_folder
    from poetfw.pipeline import compile_build, plan_build, plan_devices_build, write_build
    from poetfw.planning import (
        DevicesBuildSettings,
        board_of_devices,
        boards_of_partners,
        costs_from,
        database_for,
        read_device,
        saved_by_more_ram,
    )

    end = command_deadline(time_limit)
    if (board is None) is (devices is None):
        missing = "Missing option '--board': " if board is None else ""
        raise click.UsageError(f"{missing}give either --board or --devices")
    _refuse_others(devices is not None, apart)
    settings = BuildSettings(
        board=board or "",
        time_limit_s=time_limit,
        optimizer_settings=settings_of_optimizer(options),
        **options,
    )
    if devices is None:
        known = load_board(settings.board, check_machine=emulator_of).with_threads(settings.threads)
    else:
        files = tuple(map(Path, devices))
        described = [read_device(file) for file in files]
        answer = None if replay is None else read_answer(replay)
        chosen = DevicesBuildSettings(files, ram_fraction, parallel, answer, apart)
        if apart:
            boards = boards_of_partners(described, files)
            with followed(replay):
                _build_apart(settings, chosen, boards, out, toolchain, generate_only, end, as_json)
            return
        known = board_of_devices(described, files)
    folder = out_folder(out, known)
    check_output_folder(folder)
    if not generate_only:
        choose_environment(known, toolchain)  # a missing compiler shall not cost a solve first
    with output.spinner() as progress:
        if devices is None:
            provider = costs_from(database_for(settings.board, costs, db))
            tell = output.search_log(progress, end)
            planned = plan_build(settings, progress, provider, deadline=end, tell=tell)
        else:
            tell_of = log_of_devices("time")
            with followed(replay):
                planned = plan_devices_build(settings, chosen, progress, deadline=end, tell=tell_of)
        report = write_build(planned, folder)
        if not generate_only:
            progress("compiling with PlatformIO")
            report = compile_build(planned, report, folder, toolchain)
        more = None
        if devices is None and not as_json:
            more = saved_by_more_ram(planned, settings.on(planned.board), end)
    for warning in report.warnings:
        output.warn(warning)
    if as_json:
        output.print_json(report.to_json())
    elif devices is not None:
        print_devices_build(report, end)
    else:
        _print(report, end, settings.board, folder == out_folder(None, known), more)


def _build_apart(
    settings: BuildSettings,
    chosen: DevicesBuildSettings,
    boards: Mapping[str, Board],
    out: Path | None,
    toolchain: str,
    generate_only: bool,
    end: Deadline,
    as_json: bool,
) -> None:
    """Build a program for each of several devices."""
    from poetfw.devices import choose_environment
    from poetfw.firmware import check_output_folder
    from poetfw.pipeline import compile_build, plan_partners_build, write_partners

    folder = out if out is not None else Path("build") / "-".join(boards)
    for project in (folder, *(folder / name for name in boards)):
        check_output_folder(project)
    for board in [] if generate_only else boards.values():
        choose_environment(board, toolchain)
    with output.spinner() as progress:
        planned = plan_partners_build(
            settings, chosen, progress, deadline=end, tell=log_of_devices("time")
        )
        reports = write_partners(planned, folder)
        for name in [] if generate_only else reports:
            progress(f"compiling {name!r} with PlatformIO")
            built = planned.partners[name]
            reports[name] = compile_build(built, reports[name], folder / name, toolchain)
    for warning in next(iter(reports.values())).warnings:
        output.warn(warning)
    if as_json:
        documents = {name: report.to_json() for name, report in reports.items()}
        output.print_json({"schema_version": 1, "out_dir": str(folder), "devices": documents})
    else:
        print_partners_build(reports, folder, end)


_OF_A_BOARD = {
    *("ram_bytes", "scheduler", "slices", "watchdog_s", "ring", "ring_share", "costs", "db"),
    "threads",
}
_OF_DEVICES = {"ram_fraction", "parallel", "apart", "replay"}
_NOT_APART = {"weights_in_flash", "checkpoint_every"}


def _refuse_others(on_devices: bool, apart: bool) -> None:
    """Refuse options of a build for one device in one for several, and the other way round.

    Those that come from elsewhere are meant for other commands as well: the user is told of them.

    Raises:
        UsageError: there is one on the command line.
    """
    refused = _OF_A_BOARD if on_devices else _OF_DEVICES
    for name, spelled in typed_options().items():
        if name in refused:
            other = "--devices" if on_devices else "--board"
            raise click.UsageError(f"{spelled} does not go with {other}")
        if apart and name in _NOT_APART:
            raise click.UsageError(f"{spelled} does not go with --apart")
    leave_out(refused, "--devices" if on_devices else "--board")
    leave_out(_NOT_APART if apart else (), "--apart")


_LAYER_NAMES = {
    "conv2d": ("convolution", "convolutions"),
    "batch_norm": ("batch norm", "batch norms"),
    "linear": ("linear", "linear"),
    "dropout": ("dropout", "dropouts"),
}
"""What people call one and several layers of a kind; other kinds go by their own names."""


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
    end: Deadline,
    board: str,
    is_default_folder: bool,
    more: MoreRam | None,
) -> None:
    schedule = report.schedule
    basis = ", ".join(source for source, count in report.cost_sources.items() if count)
    rows = [
        ("model", f"{report.model}, batch {report.batch}"),
        ("layers", _layers(report)),
        ("optimizer", report.optimizer),
        ("trained", _trained(report)),
        ("keeping everything", output.size(report.checkpoint_all_peak_bytes)),
        ("smallest possible", output.size(report.minimum_budget_bytes)),
        ("budget", output.size(report.budget_bytes)),
        ("peak", output.size(report.peak_bytes)),
        *(
            [("… live at once", output.size(report.live_bytes))]
            if report.live_bytes < report.peak_bytes
            else []
        ),
        (
            "schedule",
            f"{schedule.scheduler}: {schedule.recomputes} recomputes, "
            f"{schedule.page_outs} page-outs, {schedule.page_ins} page-ins",
        ),
        *output.proven_rows(schedule),
        *([] if more is None else [("with more RAM", _saved(more, schedule.energy_j))]),
        ("costs", report.costs),
        *output.kernels_rows(report.kernels_by),
        (f"energy per step ({basis})", f"{schedule.energy_j * 1e3:.3f} mJ"),
        (f"time per step ({basis})", f"{schedule.time_s:.3f} s"),
        *output.spent_rows(end),
    ]
    if report.flash_bytes is not None and report.ram_bytes is not None:
        rows += [
            ("flash used", output.size(report.flash_bytes)),
            ("… of it added by the schedule", output.size(report.schedule_bytes or 0)),
            ("RAM used, stack included", output.size(report.ram_bytes)),
            ("firmware", str(report.elf)),
        ]
    rows.append(("project", report.out_dir))
    output.results.print(output.facts(f"{report.model} on {report.board}", rows))
    if report.elf is not None:
        out = [] if is_default_folder else ["--out", report.out_dir]
        command = shlex.join(["poetfw", "run", "--board", board, *out])
        output.results.print(f"Run it:  {output.escaped(command)}")
