# SPDX-License-Identifier: Apache-2.0
"""`poetfw run`: train on a twin."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import Command, Setting, leave_out
from poetfw.cli.desk import chosen_port
from poetfw.cli.options import (
    Folder,
    OutputFile,
    Positive,
    built_board_option,
    built_folder,
    host_option,
    json_option,
    option,
    out_option,
    ports_option,
    threads_option,
    typed_options,
    verbose_option,
)
from poetfw.common.errors import ConfigError, listed
from poetfw.common.option_values import SILENCE_S
from poetfw.common.output_file import replace_file

if TYPE_CHECKING:
    from poetfw.report import (
        ProgramRun,
        RunReport,
        StepTrace,
        Verification,
    )


@click.command(cls=Command, epilog="Example:  poetfw run --board nrf52840 --steps 10 --verify")
@built_board_option
@option(
    "--steps",
    group="Training",
    first=True,
    type=click.IntRange(1),
    help="Training steps.  [default: the model's epochs]",
)
@option(
    "--epochs",
    group="Training",
    first=True,
    type=click.IntRange(1),
    help="Passes over the training samples.",
)
@option(
    "--checkpoint-every",
    group="Training",
    type=click.IntRange(0, 2**32 - 1),
    metavar="STEPS",
    help="Steps between two checkpoints, 0 for one at the end.  [default: the build's]",
)
@option(
    "--resume",
    group="Training",
    first=True,
    excludes=("--verify", "--patience"),
    is_flag=True,
    help="Go on from the last checkpoint, not from the beginning.",
)
@option(
    "--patience",
    group="Training",
    type=click.IntRange(1),
    metavar="EPOCHS",
    help="End when held-out samples got no better for so long; keep the best epoch. On a twin.",
)
@option(
    "--metrics",
    group="Output",
    first=True,
    type=OutputFile(),
    metavar="FILE.csv",
    help="Write loss and metric by step.",
)
@option(
    "--tensorboard",
    group="Output",
    type=Folder(),
    metavar="FOLDER",
    help="Write them as TensorBoard's events, too.",
)
@option(
    "--emulator",
    group="Board",
    first=True,
    metavar="NAME",
    help="Which of the board's twins.  [default: its first]",
)
@option(
    "--on-board",
    "itself",
    group="Board",
    first=True,
    excludes=("--emulator", "--threads", "--trace", "--patience"),
    is_flag=True,
    help="Run it on the board itself, not on a twin.",
)
@threads_option("[default: the build's]")
@ports_option
@host_option
@option(
    "--verify",
    group="Check",
    first=True,
    excludes=("--patience",),
    is_flag=True,
    help="Check every op, compare with NumPy and, bit by bit, with a run that keeps everything.",
)
@option(
    "--trace",
    "trace",
    group="Check",
    first=True,
    is_flag=True,
    help="Time each op and each transfer of a training step, too.",
)
@option(
    "--timeout",
    group="Limits",
    type=Positive(),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a run may take.",
)
@option(
    "--silence",
    group="Limits",
    type=Positive(),
    default=SILENCE_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the device may say nothing, as within a step.",
)
@out_option
@verbose_option
@json_option
def run(
    board: str | None,
    steps: int | None,
    epochs: int | None,
    checkpoint_every: int | None,
    resume: bool,
    patience: int | None,
    metrics: Path | None,
    tensorboard: Path | None,
    emulator: str | None,
    itself: bool,
    threads: int | None,
    ports: tuple[str, ...],
    host: str | None,
    verify: bool,
    trace: bool,
    timeout: float,
    silence: float,
    out: Path | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run the firmware that `poetfw build` made, on a twin of its board or on the board itself.

    `poetfw boards` shows which twins there are. With --on-board the firmware and the storage image
    must be on the board (`poetfw flash`).

    With --verify, the command ends with exit code 4 if the run is not what it should be.

    With --trace, another step is timed op by op, in a copy of the project.

    With --resume, training goes on where the run before was cut, or ended. --steps and --epochs
    count from the very beginning.
    """
    from poetfw.memory import ONLY
    from poetfw.pipeline import REPORT
    from poetfw.report import BuildReport
    from poetfw.report.event_files import check_events_folder, write_events
    from poetfw.runs import desks, remote
    from poetfw.runs.execution import open_build
    from poetfw.runs.running import Launch, RunSettings, metrics_csv, on_twin, run_build
    from poetfw.runs.step_trace import expect_one_device, trace_step
    from poetfw.tools.ssh import Host

    if tensorboard is not None:
        check_events_folder(tensorboard)
    folder, label = built_folder(out, board)
    memories = list(BuildReport.read(folder / REPORT).memories)
    if len(memories) > 1:
        _leave_out_of_several(folder)
        resume = trace = itself = False
        checkpoint_every = patience = threads = host = None
        at = _ports_of_devices(ports)
        if unknown := [name for name in at if name not in memories]:
            raise ConfigError(
                f"--port is given for {unknown[0]!r:.200}, and {folder} has the devices "
                f"{listed([repr(name) for name in memories])}"
            )
    else:
        if not itself and (ports or host is not None):
            raise click.UsageError("--port and --host go with --on-board")
        if len(ports) > 1:
            raise click.UsageError(
                f"--port is given {len(ports)} times, and {folder} is for one board"
            )
        at = dict.fromkeys([ONLY] if itself else [], ports[0] if ports else "")
    settings = RunSettings(
        steps, epochs, verify, timeout, checkpoint_every, resume, patience, silence
    )
    build = open_build(folder, label, emulator, at, threads)
    if trace:
        expect_one_device(build.evaluator)
    launch: Launch = on_twin
    if host is not None:
        launch = functools.partial(remote.on_host, Host(host))
    elif build.apart or at:
        ports_of = {name: port or chosen_port(None) for name, port in at.items()}
        launch = functools.partial(desks.by_desk, ports_of)
    with output.progress_bar() as update:
        report = run_build(build, settings, launch, update)
        if trace:
            traced = trace_step(build.evaluator, settings, lambda text: update(0, 1, text))
            report = replace(report, trace=traced)
    if metrics is not None:
        replace_file(metrics, metrics_csv(report))
    if tensorboard is not None:
        write_events(tensorboard, report)
    return _finish(report, verbose, as_json)


_ANEW = ": these begin their training anew in each run, as no checkpoints of all belong together"
_OF_ONE_PROGRAM = {
    "board": "",
    "itself": "; --port DEVICE=PORT says which device is where",
    "host": "",
    "threads": "",
    "trace": "",
    "patience": "",
    "resume": _ANEW,
    "checkpoint_every": _ANEW,
}
"""Options that do not go with several programs, and what to say of it."""


def _leave_out_of_several(folder: Path) -> None:
    """Refuse options that several programs do not have, and leave out those that nobody typed."""
    for name, spelled in typed_options().items():
        if name in _OF_ONE_PROGRAM:
            raise click.UsageError(
                f"{spelled} is for a build of one program, and {folder} has one for each device"
                f"{_OF_ONE_PROGRAM[name]}"
            )
    context = click.get_current_context()
    for setting in context.command.params:
        if isinstance(setting, Setting) and setting.name in _OF_ONE_PROGRAM:
            leave_out(
                context, setting, f"does not go with the programs in {folder}, one for each device"
            )


def _finish(report: RunReport, verbose: bool, as_json: bool) -> int:
    """Print a report, and what the run missed; the exit code."""
    from poetfw.runs.verification import verdict

    if as_json:
        output.print_json(report.to_json())
    else:
        _print(report, verbose)
    found = report.verify
    if found is None or found.ok:
        return 0
    refused = verdict(found)
    output.print_error(refused, as_json=False)  # the JSON document has been printed
    return refused.exit_code


def _ports_of_devices(ports: tuple[str, ...]) -> dict[str, str]:
    """The port of each device that is at one, by its name.

    Raises:
        UsageError: a port names no device, a device has two ports, or two devices share one.
    """
    found: dict[str, str] = {}
    for text in ports:
        name, is_named, port = text.partition("=")
        if not (name and is_named and port):
            raise click.UsageError(
                f"--port {text!r:.200} does not say whose it is: write DEVICE=PORT, such as "
                "sensor=/dev/ttyACM0"
            )
        if name in found:
            raise click.UsageError(f"--port is given twice for device {name!r:.200}")
        if port in found.values():
            raise click.UsageError(f"--port {port!r:.200} is given for two devices")
        found[name] = port
    return found


def _place(program: ProgramRun) -> str:
    """Board of a program, and where it ran."""
    where = f"its emulated twin ({program.emulator})" if program.emulated else "this computer"
    if program.port is not None:
        where = f"the board at {program.port}"
    return f"{program.board}, on {where}"


def _learned(report: RunReport) -> list[tuple[str, str]]:
    """Losses and metric of a run."""
    rows = []
    if report.loss:
        rows.append(("loss", f"{report.loss[0]:.4f} → {report.loss[-1]:.4f}"))
    if report.accuracy is not None:
        rows.append(("held-out accuracy", f"{report.accuracy:.2%}"))
    if report.held_out_loss is not None:
        rows.append(("held-out loss", f"{report.held_out_loss:.6f}"))
    return rows


def _planned_rows(report: RunReport) -> list[tuple[str, str]]:
    """Rows with the time that was planned, and how it compares with the time of a step."""
    from poetfw.memory import ONLY

    if not report.step_s:
        return []
    if ONLY not in report.arenas:  # planned for the devices in the files, which are not what ran
        return [("a step by the plan, on its devices", f"{report.planned_step_s:.3g} s")]
    planned = f"{report.planned_step_s:.4f} s"
    if report.instructions is None:  # else they are seconds of two kinds
        planned += f", {report.planned_step_s / report.step_s - 1:+.1%}"
    costs = output.Detail("… whose costs are", report.planned_by)
    return [("a step by the plan", planned), costs]


def _print_trace(trace: StepTrace) -> None:
    shares = [one.ticks / max(1, trace.whole_ticks) for one in trace.steps]
    output.results.print(
        output.table(
            f"a step, {trace.whole_ticks:,} {trace.tick_unit}; its pieces, "
            f"{sum(one.ticks for one in trace.steps):,.0f}",
            ("step", "op", "operator", trace.tick_unit, "share"),
            [
                (
                    str(one.plan_step),
                    output.escaped(one.op),
                    one.operator,
                    f"{one.ticks:,.0f}",
                    f"{share:.2%}",
                )
                for one, share in zip(trace.steps, shares, strict=True)
            ],
        )
    )


_SAMPLES = {"training": "samples", "held_out": "held-out samples", "ring": "places of the ring"}
_FILES = {"direct": "past the system's cache", "cached": "in the system's cache"}


def _print(report: RunReport, verbose: bool) -> None:
    rows: list[tuple[str, str]] = [("steps", f"{report.steps:,}")]
    if report.resumed_from:
        nothing = " (nothing was trained)" if report.resumed_from == report.steps else ""
        rows.append(("… of them done before", f"{report.resumed_from:,}{nothing}"))
    if len(report.evaluations) > 1:
        rows.append(("… of so many that were trained", f"{len(report.loss):,}"))
    rows += _learned(report)
    if report.messages:
        sent = f"{report.messages:,}, {output.size(report.message_bytes)}"
        rows.append(("messages of a step", sent))
    for name, program in report.memories.items():
        rows += [(name, _place(program))] * bool(name) + _program_rows(program)
    rows += _planned_rows(report)
    rows += _verified(report.verify)
    where = _place(report) if len(report.memories) == 1 else "devices on boards of their own"
    output.results.print(output.facts(where, rows, verbose=verbose))
    if report.trace is not None:
        _print_trace(report.trace)


def _program_rows(program: ProgramRun) -> list[tuple[str, str]]:
    """Rows of what one program took; its steps are without waiting for messages."""
    rows = [("began anew", "no commit was whole")] if program.begun_anew else []
    rows += [
        (f"damaged {_SAMPLES[kind]}, skipped", f"{len(found):,}: {listed([*map(str, found)])}")
        for kind, found in program.damaged.items()
    ]
    rows.append(("arena high-water mark", output.size(program.high_water_bytes)))
    rows += [
        (
            f"… of {part.device}",
            f"{output.size(program.arenas[part.device])} of "
            f"{output.size(part.arena.size_bytes)} planned",
        )
        for part in program.parts
        if part.device
    ]
    if program.stack_high_water_bytes:
        rows.append(("stack high-water mark", output.size(program.stack_high_water_bytes)))
    if program.instructions is not None:
        rows.append(output.Detail("instructions (emulated)", f"{program.instructions:,}"))
    if program.step_s:
        counted = ", an instruction a cycle" if program.instructions is not None else ""
        rows.append((f"a step took{counted}", f"{program.step_s:.4g} s"))
    rows.append(output.Detail("ops computed of a step", f"{program.computed:,}"))
    if program.sent_bytes:
        rows.append(("sent of a step", output.size(program.sent_bytes)))
    if program.repeated_commands:
        rows.append(("commands sent again", f"{program.repeated_commands:,}"))
    rows += [
        output.Detail("read from storage", output.size(program.storage_bytes_read)),
        output.Detail("written to storage", output.size(program.storage_bytes_written)),
        output.Detail(
            "… since the build",
            f"{program.blocks_written:,} blocks, {program.blocks_per_epoch:,.1f} an epoch",
        ),
    ]
    if program.storage_erases:
        rows.append(("sectors erased", f"{program.storage_erases:,}"))
    if program.storage_file:
        rows.append(("storage is a file", _FILES[program.storage_file]))
    if program.measured_energy_j is not None:
        measured = f"energy, measured ({program.energy_source})"
        rows.append((measured, f"{program.measured_energy_j:.3f} J"))
    return [*rows, ("trained weights", program.trained)]


def _verified(found: Verification | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    ops, gradients = found.ops, found.max_rel_error_gradients
    rows: list[tuple[str, str]] = [
        ("largest relative error of losses", f"{found.max_rel_error_loss:.2e}"),
        ("… of gradients", "none stored" if gradients is None else f"{gradients:.2e}"),
        ("… of weights", f"{found.max_rel_error_weights:.2e}"),
        ("same bits as without schedule", _yes(found.bit_identical_to_unscheduled)),
    ]
    if found.bit_identical_to_traced is not None:
        rows.append(("same bits while traced", _yes(found.bit_identical_to_traced)))
    checked = "none: several programs have them" if ops is None else f"{ops.checked:,}"
    rows.append(("ops checked on their own inputs", checked))
    for name, worst in (
        ("… closest to its bound", None if ops is None else ops.worst),
        ("… first beyond its bound", None if ops is None else ops.first_beyond),
    ):
        if worst is not None:
            error = "no number" if worst.error is None else f"{worst.error:.2e}"
            rows.append((name, f"{worst.op} ({worst.kind}): {error} of {worst.bound:.2e}"))
    if found.examined_steps is not None:
        steps = ", ".join(map(str, found.examined_steps)) or "none"
        rows.append(("steps that differ from the reference", steps))
    verdict = "verified", _yes(found.ok)
    return [*(output.details(rows) if found.ok else rows), verdict]


def _yes(answer: bool) -> str:
    return "yes" if answer else "NO"
