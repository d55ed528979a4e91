# SPDX-License-Identifier: Apache-2.0
"""`poetfw run`: trains on a twin or a board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.cli.desk import chosen_port
from poetfw.common.errors import ConfigError, listed
from poetfw.settings import (
    Built,
    Detailed,
    OneMachine,
    RunOutput,
    RunSettings,
    Settings,
    Where,
    setting,
)

if TYPE_CHECKING:
    from poetfw.firmware import Traffic
    from poetfw.report import ProgramRun, RunReport, StepTrace, Verification
    from poetfw.runs.observer import RunObserver


def _inapplicable(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Flags that do not apply to the build's number of programs, each with the reason."""
    from poetfw.api.firmware import open_built

    firmware = open_built(Built(out=given["out"], board=given["board"]))
    return firmware.inapplicable(given["on_board"])


@dataclass(frozen=True)
class Shown(Settings, group="Output"):
    """Display of a run as it goes."""

    live: bool = setting(
        "Show figures of the run as it goes, on a terminal.",
        False,
        first=True,
    )


@contextmanager
def _observer(live: bool) -> Iterator[RunObserver]:
    """Observer that shows a run: live on a terminal that can, else as a progress bar."""
    from poetfw.runs.observer import Reporting

    if live:
        from poetfw.cli.live import can_show, live_display

        if can_show(output.messages):
            with live_display() as display:
                yield display
            return
    with output.progress_bar() as update:
        yield Reporting(update)


@command("Example:  poetfw run --board nrf52840 --steps 10 --verify", _inapplicable)
def run(
    built: Built,
    settings: RunSettings,
    where: Where,
    machine: OneMachine,
    files: RunOutput,
    shown: Shown,
    printed: Detailed,
) -> int:
    """Run the firmware of a build, on a twin of its board or on the board itself.

    `poetfw boards` lists the twins. With --on-board, firmware and storage image must be on the
    board (`poetfw flash`).

    With --verify, the exit code is 4 if the run is not correct.

    With --trace, an additional step is timed op by op, in a copy of the project.

    With --resume, training continues from the last checkpoint of the previous run. --steps and
    --epochs count from the beginning.
    """
    from poetfw.api.firmware import open_built, ports_of

    firmware = open_built(built)
    try:
        ports_of(firmware.programs, where.ports)
    except ConfigError as error:
        raise click.UsageError(error.message) from error
    with _observer(shown.live) as observer:
        finished = firmware.train(
            *(settings, where, machine, files), observer, lambda: chosen_port(None)
        )
    return finish(finished.figures, printed.verbose, printed.as_json)


def finish(report: RunReport, verbose: bool, as_json: bool) -> int:
    """Print a report and failed verification; returns the exit code."""
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


def _place(program: ProgramRun) -> str:
    """Board of a program, and the machine it ran on."""
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
    """Rows with the planned time of a step, compared with the measured one."""
    from poetfw.memory import ONLY

    if not report.step_s:
        return []
    if ONLY not in report.arenas:  # planned for the devices in the files, not for those that ran
        return [("planned time per step, on its devices", f"{report.planned_step_s:.3g} s")]
    planned = f"{report.planned_step_s:.4f} s"
    if not report.emulated:  # else they are seconds of two kinds
        planned += f", {report.planned_step_s / report.step_s - 1:+.1%}"
    costs = output.Detail("… by costs", report.planned_by)
    return [("planned time per step", planned), costs, *_instruction_rows(report)]


def _instruction_rows(report: RunReport) -> list[tuple[str, str]]:
    """Instructions per step: counted, and planned by the prices of the core."""
    counted, planned = report.step_instructions, report.planned_instructions
    if counted is None:
        return []
    if planned is None:
        return [("instructions per step", f"{counted:,.0f}")]
    compared = f"{planned:,.0f} planned, {planned / counted - 1:+.1%}"
    return [("instructions per step", f"{counted:,.0f}; {compared}")]


def _print_trace(trace: StepTrace) -> None:
    shares = [one.ticks / max(1, trace.whole_ticks) for one in trace.steps]
    output.results.print(
        output.table(
            f"a step, {trace.whole_ticks:,} {trace.tick_unit}; its parts, "
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


_SAMPLES = {"training": "samples", "held_out": "held-out samples", "ring": "ring slots"}
_FILES = {"direct": "past the system's cache", "cached": "in the system's cache"}


def _print(report: RunReport, verbose: bool) -> None:
    rows: list[tuple[str, str]] = [("steps", f"{report.steps:,}")]
    if report.resumed_from:
        nothing = " (nothing was trained)" if report.resumed_from == report.steps else ""
        rows.append(("… of them done before", f"{report.resumed_from:,}{nothing}"))
    if len(report.evaluations) > 1:
        rows.append(("… trained in all epochs", f"{len(report.loss):,}"))
    rows += _learned(report)
    if report.messages:
        sent = f"{report.messages:,}, {output.size(report.message_bytes)}"
        rows.append(("messages per step", sent))
    for name, program in report.memories.items():
        rows += [(name, _place(program))] * bool(name) + _program_rows(program, len(report.loss))
    rows += _planned_rows(report)
    rows += verification_rows(report.verify)
    where = _place(report) if len(report.memories) == 1 else "devices on boards of their own"
    output.results.print(output.facts(where, rows, verbose=verbose))
    if report.trace is not None:
        _print_trace(report.trace)


def _program_rows(program: ProgramRun, steps: int) -> list[tuple[str, str]]:
    """Rows on one program, of a run's training steps; their time excludes waiting for messages."""
    rows = [("restarted", "no commit was intact")] if program.begun_anew else []
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
        counted = ", at one cycle per instruction" if program.instructions is not None else ""
        rows.append((f"time per step{counted}", f"{program.step_s:.4g} s"))
    rows.append(output.Detail("ops computed per step", f"{program.computed:,}"))
    if program.sent_bytes:
        rows.append(("sent per step", output.size(program.sent_bytes)))
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
    rows += _traffic_rows(program, steps)
    if program.storage_erases:
        rows.append(("sectors erased", f"{program.storage_erases:,}"))
    if program.storage_file:
        rows.append(("storage is a file", _FILES[program.storage_file]))
    if program.measured_energy_j is not None:
        measured = f"energy, measured ({program.energy_source})"
        rows.append((measured, f"{program.measured_energy_j:.3f} J"))
    return [*rows, ("trained weights", program.trained)]


def _traffic_rows(program: ProgramRun, steps: int) -> list[tuple[str, str]]:
    """Transfers per step: made, and planned if they differ."""
    made, planned = program.step_traffic, program.planned_traffic
    if made is None or not steps:
        return []

    def each(traffic: Traffic) -> str:
        size = output.size(round((traffic.read_bytes + traffic.written_bytes) / steps))
        return f"{traffic.requests / steps:,.6g}, {traffic.blocks / steps:,.6g} blocks, {size}"

    compared = ""
    if planned is not None:
        compared = "; as planned" if made == planned else f"; {each(planned)} planned"
    return [("storage requests per step", each(made) + compared)]


def verification_rows(found: Verification | None) -> list[tuple[str, str]]:
    """Rows of a verification; all but its verdict are details if the run is correct."""
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
    checked = "none: not done for several programs" if ops is None else f"{ops.checked:,}"
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
