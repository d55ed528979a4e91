"""`poetfw run`: train on the twin, or on this computer."""

from __future__ import annotations

from pathlib import Path

import click

from poetfw.boards import load_board
from poetfw.cli import output
from poetfw.cli.options import Positive, board_option, json_option, option, out_folder, out_option
from poetfw.devices import Event
from poetfw.report import RunReport
from poetfw.running import RunSettings, make_request, open_project, run_project


@click.command(epilog="Example:  poetfw run --board nrf52840 --steps 10 --verify")
@board_option
@option("--steps", type=click.IntRange(1), help="Training steps.  [default: the model's epochs]")
@option("--epochs", type=click.IntRange(1), help="Passes over the training samples.")
@option(
    "--verify",
    is_flag=True,
    help="Compare with the NumPy reference, and bit by bit with a run that keeps everything.",
)
@option(
    "--timeout",
    type=Positive(),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a run may take.",
)
@out_option
@json_option
def run(
    board: str,
    steps: int | None,
    epochs: int | None,
    verify: bool,
    timeout: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run the firmware that `poetfw build` made, on the board's emulated twin."""
    known = load_board(board)
    project = open_project(out_folder(out, known), known.name)
    settings = RunSettings(steps, epochs, verify, timeout)
    total = make_request(project, settings).steps
    with output.progress_bar() as update:

        def on_event(event: Event) -> None:
            if event.word == "step":
                update(event.number, total, f"loss {event.real('loss'):.4f}")

        def on_stage(text: str) -> None:
            update(0, total, text)

        report = run_project(project, settings, on_stage, on_event)
    if as_json:
        output.print_json(report.to_json())
    else:
        _print(report)


def _print(report: RunReport) -> None:
    where = "its emulated twin" if report.emulated else "this computer"
    rows = [
        ("steps", f"{report.steps:,}"),
        ("loss", f"{report.loss[0]:.4f} → {report.loss[-1]:.4f}"),
    ]
    if report.accuracy is not None:
        rows.append(("held-out accuracy", f"{report.accuracy:.2%}"))
    if report.mean_squared_error is not None:
        rows.append(("held-out mean squared error", f"{report.mean_squared_error:.6f}"))
    rows.append(("arena high-water mark", output.size(report.high_water_bytes)))
    if report.stack_high_water_bytes:
        rows.append(("stack high-water mark", output.size(report.stack_high_water_bytes)))
    if report.instructions is not None:
        rows.append(("instructions (emulated)", f"{report.instructions:,}"))
    rows += [
        ("read from storage", output.size(report.storage_bytes_read)),
        ("written to storage", output.size(report.storage_bytes_written)),
        ("trained weights", report.trained),
    ]
    if report.verify is not None:
        identical = "yes" if report.verify.bit_identical_to_unscheduled else "NO"
        gradients = report.verify.max_rel_error_gradients
        rows += [
            ("largest relative error of losses", f"{report.verify.max_rel_error_loss:.2e}"),
            ("… of gradients", "none stored" if gradients is None else f"{gradients:.2e}"),
            ("… of weights", f"{report.verify.max_rel_error_weights:.2e}"),
            ("same bits as without schedule", identical),
        ]
    output.results.print(output.facts(f"{report.board}, on {where}", rows))
