# SPDX-License-Identifier: Apache-2.0
"""`poetfw run`: train on a twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import command, refuse
from poetfw.cli.desk import connected
from poetfw.cli.folders import built_folder
from poetfw.common.errors import listed
from poetfw.common.output_file import replace_file
from poetfw.settings import (
    Built,
    Detailed,
    OfOneProgram,
    OneMachine,
    RunOutput,
    RunSettings,
    Where,
    declared,
)

if TYPE_CHECKING:
    from poetfw.report import (
        PartnersReport,
        ProgramRun,
        RunOutcome,
        RunReport,
        StepTrace,
        Verification,
    )
    from poetfw.tools import Event


@command("Example:  poetfw run --board nrf52840 --steps 10 --verify")
def run(
    built: Built,
    settings: RunSettings,
    where: Where,
    machine: OneMachine,
    files: RunOutput,
    printed: Detailed,
) -> int:
    """Run the firmware that `poetfw build` made, on a twin of its board or on the board itself.

    `poetfw boards` shows which twins there are. With --on-board the firmware and the storage image
    must be on the board (`poetfw flash`).

    With --verify, the command ends with exit code 4 if the run is not what it should be.

    With --trace, another step is timed op by op, in a copy of the project.

    With --resume, training goes on where the run before was cut, or ended. --steps and --epochs
    count from the very beginning.
    """
    from poetfw.report.event_files import check_events_folder, write_events
    from poetfw.runs import on_board, remote, together
    from poetfw.runs.execution import open_project
    from poetfw.runs.running import (
        expect_whole,
        make_request,
        metrics_csv,
        run_project,
    )
    from poetfw.runs.step_trace import expect_one_device, trace_step
    from poetfw.tools.ssh import Host

    if files.tensorboard is not None:
        check_events_folder(files.tensorboard)
    folder, label = built_folder(built)
    if together.holds_partners(folder):
        return _run_partners(folder, settings, where, printed)
    if not machine.on_board:
        for flag in ("--port", "--host"):
            refuse(click.get_current_context(), flag, "needs --on-board")
    port, *others = where.ports or (None,)
    if others:
        refuse(
            click.get_current_context(),
            "--port",
            f"is given {len(where.ports)} times, and {folder} is for one board",
        )
    project = open_project(folder, label, where.emulator, machine.on_board, machine.threads)
    expect_whole(project)
    if files.trace:
        expect_one_device(project)
    total = make_request(project, settings).steps
    with output.progress_bar() as update:

        def on_event(event: Event) -> None:
            if event.word == "step":
                update(event.number, total, f"loss {event.real('loss'):.4f}")

        def on_stage(text: str) -> None:
            update(0, total, text)

        if not machine.on_board:
            report = run_project(project, settings, on_stage, on_event)
        elif machine.host is not None:
            report = remote.run_there(project, settings, Host(machine.host), update, on_event)
        else:
            with connected(project, port, settings.silence_s) as (desk, name):
                report = on_board.run_on_board(project, settings, desk, name, update)
        if files.trace:
            report = replace(report, trace=trace_step(project, settings, on_stage))
    if files.metrics is not None:
        replace_file(files.metrics, metrics_csv(report))
    if files.tensorboard is not None:
        write_events(files.tensorboard, report)
    return _finish(report, lambda: _print(report, printed.verbose), printed.as_json)


_ANEW = ": these begin their training anew in each run, as no checkpoints of all belong together"
_NOT_OF_PARTNERS = {
    "--on-board": "; --port DEVICE=PORT says which device is where",
    "--resume": _ANEW,
    "--checkpoint-every": _ANEW,
}


def _run_partners(folder: Path, settings: RunSettings, where: Where, printed: Detailed) -> int:
    """Run a build with a program for each device; the exit code."""
    from poetfw.runs import together

    for model in (OfOneProgram, OneMachine, RunOutput):
        for declaration in declared(model).values():
            refuse(
                click.get_current_context(),
                declaration.flag,
                f"is for a build of one program, and {folder} has one for each device"
                f"{_NOT_OF_PARTNERS.get(declaration.flag, '')}",
            )
    partners = together.open_partners(folder, where.emulator, ports_of_devices(where.ports))
    with output.progress_bar() as update:

        def on_stage(text: str) -> None:
            update(0, 1, text)

        report = together.run_partners(partners, settings, on_stage, update)
    return _finish(report, lambda: _print_partners(report, printed.verbose), printed.as_json)


def _finish(report: RunOutcome, show: Callable[[], None], as_json: bool) -> int:
    """Print a report, and what the run missed; the exit code."""
    from poetfw.runs.verification import verdict

    if as_json:
        output.print_json(report.to_json())
    else:
        show()
    found = report.verify
    if found is None or found.ok:
        return 0
    refused = verdict(found)
    output.print_error(refused, as_json=False)  # the JSON document has been printed
    return refused.exit_code


def ports_of_devices(ports: Sequence[str]) -> dict[str, str]:
    """The port of each device that is at one, by its name.

    Raises:
        UsageError: one is nobody's, a device has two, or two devices have one.
    """
    found: dict[str, str] = {}
    for text in ports:
        name, _, port = text.partition("=")
        wrong = None
        if not (name and port):
            wrong = (
                f"{text!r:.200} does not say whose it is: write DEVICE=PORT, such as "
                "sensor=/dev/ttyACM0"
            )
        elif name in found:
            wrong = f"is given twice for device {name!r:.200}"
        elif port in found.values():
            wrong = f"{port!r:.200} is given for two devices"
        if wrong is not None:
            raise click.UsageError(f"--port {wrong}")
        found[name] = port
    return found


def _print_partners(report: PartnersReport, verbose: bool) -> None:
    rows = [
        ("steps", f"{report.steps:,}"),
        *_learned(report),
        ("messages of a step", f"{report.messages:,}, {output.size(report.message_bytes)}"),
        ("a step by the plan", f"{report.planned_step_s:.4g} s"),
    ]
    for name, one in report.devices.items():
        counted = ", an instruction a cycle" if one.tick_unit == "instructions" else ""
        planned = f"{output.size(one.high_water_bytes)} of {output.size(one.arena_bytes)} planned"
        rows += [
            (name, _place(one)),
            ("… computes of a step", f"{one.computed:,} ops, {one.step_s or 0.0:.4g} s{counted}"),
            ("… sends of a step", output.size(one.sent_bytes)),
            ("… arena high-water mark", planned),
            ("… trained weights", one.trained),
        ]
        if one.repeated_commands:
            rows.append(("… commands sent to it again", f"{one.repeated_commands:,}"))
    rows += _verified(report.verify)
    output.results.print(output.facts("devices on boards of their own", rows, verbose=verbose))


def _place(program: ProgramRun) -> str:
    """Board of a program, and where it ran."""
    where = f"its emulated twin ({program.emulator})" if program.emulated else "this computer"
    if program.port is not None:
        where = f"the board at {program.port}"
    return f"{program.board}, on {where}"


def _learned(report: RunOutcome) -> list[tuple[str, str]]:
    """Losses and metric of a run."""
    rows = []
    if report.loss:
        rows.append(("loss", f"{report.loss[0]:.4f} → {report.loss[-1]:.4f}"))
    if report.accuracy is not None:
        rows.append(("held-out accuracy", f"{report.accuracy:.2%}"))
    if report.held_out_loss is not None:
        rows.append(("held-out loss", f"{report.held_out_loss:.6f}"))
    return rows


def _energy(report: RunReport) -> list[tuple[str, str]]:
    if report.measured_energy_j is None:
        return []
    return [(f"energy, measured ({report.energy_source})", f"{report.measured_energy_j:.3f} J")]


def _step_time(report: RunReport) -> list[tuple[str, str]]:
    """Rows with the time of a step, and the time that was planned."""
    planned_s, step_s = report.planned_step_s, report.step_s
    if not step_s:
        return []
    counted = ", an instruction a cycle" if report.instructions is not None else ""
    took = (f"a step took{counted}", f"{step_s:.4f} s")
    if report.arenas:  # planned for the devices in the files, which are not what ran it
        return [took, ("… by the plan, on its devices", f"{planned_s:.3g} s")]
    planned = f"{planned_s:.4f} s"
    if report.instructions is None:  # else they are seconds of two kinds
        planned += f", {planned_s / step_s - 1:+.1%}"
    costs = output.Detail("… whose costs are", report.planned_by)
    return [took, ("… by the plan", planned), costs]


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
    if report.begun_anew:
        rows.append(("began anew", "no commit was whole"))
    rows += [
        (f"damaged {_SAMPLES[kind]}, skipped", f"{len(found):,}: {listed([*map(str, found)])}")
        for kind, found in report.damaged.items()
    ]
    if len(report.evaluations) > 1:
        rows.append(("… of so many that were trained", f"{len(report.loss):,}"))
    rows += _learned(report)
    rows.append(("arena high-water mark", output.size(report.high_water_bytes)))
    rows += [(f"… of {device}", output.size(used)) for device, used in report.arenas.items()]
    if report.stack_high_water_bytes:
        rows.append(("stack high-water mark", output.size(report.stack_high_water_bytes)))
    if report.instructions is not None:
        rows.append(output.Detail("instructions (emulated)", f"{report.instructions:,}"))
    rows += [
        *_step_time(report),
        output.Detail("read from storage", output.size(report.storage_bytes_read)),
        output.Detail("written to storage", output.size(report.storage_bytes_written)),
        output.Detail(
            "… since the build",
            f"{report.blocks_written:,} blocks, {report.blocks_per_epoch:,.1f} an epoch",
        ),
        *([("sectors erased", f"{report.storage_erases:,}")] if report.storage_erases else []),
        *([("storage is a file", _FILES[report.storage_file])] if report.storage_file else []),
        *_energy(report),
        ("trained weights", report.trained),
    ]
    rows += _verified(report.verify)
    output.results.print(output.facts(_place(report), rows, verbose=verbose))
    if report.trace is not None:
        _print_trace(report.trace)


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
