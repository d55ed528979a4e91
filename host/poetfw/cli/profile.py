# SPDX-License-Identifier: Apache-2.0
"""`poetfw profile`: measures the costs of ops and transfers on a board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poetfw.api.folders import out_folder
from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.common.errors import DeviceError, OutputError, PortError, listed
from poetfw.common.option_values import METERS
from poetfw.common.output_file import check_output_files, replace_file
from poetfw.settings import (
    BuildSettings,
    DatabaseSettings,
    NetworkSettings,
    PortSettings,
    Printed,
    ProjectSettings,
    Settings,
    Target,
    TrainingSettings,
    like,
    setting,
)

if TYPE_CHECKING:
    from poetfw.boards import Board
    from poetfw.costs import Database, Measurement
    from poetfw.profiling import Metering, ProfileReport, Refused

_BESIDE = "\0"  # stands for the default folder; no folder has this name


@dataclass(frozen=True)
class Profiled(Target):
    """Board, and network whose ops are measured."""

    model: str = like(
        NetworkSettings,
        "model",
        what="Network whose ops are measured.",
        metavar="NAME|FILE.pt2|FILE.onnx",
        group="Options",
    )


@dataclass(frozen=True)
class Instruments(Settings):
    """Twin, meter and report of a measurement."""

    emulator: str | None = setting("Measure on this twin of the board.", metavar="NAME")
    meter: str = setting(f"Energy meter: {METERS}.", "none", metavar="METER")
    report: str | None = setting(
        "Write a report with tables and plots of measured, fitted and analytic costs.",
        otherwise="report/ in the sketch's folder",
        metavar="[FOLDER]",
        alone=_BESIDE,
    )


@dataclass(frozen=True)
class SketchFolder(ProjectSettings):
    """Folder of the profiling program; None for the board's default."""

    out: Path | None = like(
        ProjectSettings, "out", what="Folder of the sketch.", otherwise="build/BOARD-profile"
    )


@command("Example:  poetfw profile --board nrf52840 --model digits-cnn --emulator qemu")
def profile(
    of: Profiled,
    training: TrainingSettings,
    instruments: Instruments,
    line: PortSettings,
    database: DatabaseSettings,
    sketch: SketchFolder,
    printed: Printed,
) -> int:
    """Measure the costs of a network's ops and transfers on a board, into a database.

    Only unknown costs are measured. Each result is stored at once, so an interrupted profile
    resumes where it stopped. With --emulator, instructions are counted: they are not times of the
    board.
    """
    from poetfw import profiling
    from poetfw.boards import load_board
    from poetfw.costs import Database
    from poetfw.profiling import ProfileSettings

    known = load_board(of.board)
    emulator, port = instruments.emulator, line.port
    meter, report = instruments.meter, instruments.report
    if emulator is None and port is None:
        emulator = _this_computer(known)
        port = _port(known) if emulator is None else None
    folder = sketch.out if sketch.out is not None else _default_folder(known)
    build = BuildSettings.of(of, training)
    settings = ProfileSettings(build, emulator, port, folder, meter=meter)
    if meter != "none" and emulator is not None and _emulates(known, emulator):
        output.warn(
            f"the meter does not measure a board while {emulator} emulates it: plans ignore it"
        )
    place = None if report is None else folder / "report" if report == _BESIDE else Path(report)
    if place is not None:
        check_output_files(place)
    store = Database(database.db or Database.default_path())
    with output.progress_bar() as update:
        found = profiling.profile(settings, store, update)
    if printed.as_json:
        output.print_json(found.to_json())
    else:
        _print(found)
    if found.metering is not None:
        _print_metered(found.metering, printed.as_json)
    if place is not None:
        with output.spinner() as progress:
            progress("drawing the report")
            _write_report(found, known, store, of.model, place)
    too_large = [one for one in found.left_out if not one.failed]
    if too_large:
        output.warn(
            f"{len(too_large)} cases do not fit the board: {_named(too_large)}. Plans take fitted "
            "or analytic costs of these ops; with a smaller --batch, more of them fit"
        )
    failed = [one for one in found.left_out if one.failed]
    if not failed:
        return 0
    error = DeviceError(f"{len(failed)} cases could not be measured: {_named(failed)}")
    output.print_error(error, as_json=False)  # the JSON document has been printed
    return error.exit_code


def _named(refused: list[Refused]) -> str:
    return listed([f"{one.case.kind}: {one.reason}" for one in refused], "; ", 3)


def _port(board: Board) -> str:
    """The only USB port; the error for a computer without one suggests a twin."""
    from poetfw.tools.link import choose_port

    try:
        return choose_port(None)
    except PortError as error:
        twins = " or ".join(f"--emulator {twin.name}" for twin in board.twins)
        hints = (f"or measure on a twin with {twins}",) if twins else ()
        raise PortError(error.message, *error.try_next, *hints) from None


def _this_computer(board: Board) -> str | None:
    """The twin without emulation if the board is this computer, else None."""
    from poetfw.tools import emulator_of

    for twin in board.twins:
        if not emulator_of(twin.machine).emulates:
            return twin.name
    return None


def _emulates(board: Board, emulator: str) -> bool:
    from poetfw.tools import emulator_of

    return emulator_of(board.twin(emulator).machine).emulates


def _default_folder(board: Board) -> Path:
    built = out_folder(None, board)
    return built.with_name(f"{built.name}-profile")


def _print(report: ProfileReport) -> None:
    rows = [_row(one, report.op_of(one.case)) for one in report.measured]
    where = f" on its twin {report.setup.machine}" if report.setup.machine else ""
    known = len(report.measured) - report.fresh
    left = report.fresh + len(report.left_out)
    unit = report.measured[0].counter.value if report.measured else "ticks"
    output.results.print(
        output.table(
            f"{output.escaped(report.setup.board)}{where}: {known} were known, {left} to measure",
            ("operator", "shape", unit, "spread", "time", "energy", "n"),
            rows,
            spare=("n", "spread", "energy"),
        )
    )


def _write_report(
    found: ProfileReport, board: Board, store: Database, model: str, folder: Path
) -> None:
    """Write a report on the costs measured with this set-up, and their fits, into a folder."""
    from poetfw.costs import compare_costs, fits_of, usable
    from poetfw.firmware.case_version import case_version
    from poetfw.report import cost_report

    rows = [row for row in store.of_board(board.label) if row.setup == found.setup]
    measured = usable(rows, board, case_version)
    files = cost_report(
        compare_costs(found.graph, board, measured),
        found.measured,
        fits_of(measured),
        f"{model} on {board.label}",
        f"{measured.basis or 'nothing'}, with {found.setup.compiler}",
        measured.table(found.graph, board).summary,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror}") from error
    for name, content in files.items():
        replace_file(folder / name, content)
    output.messages.print(f"the report is {output.escaped(str(folder / 'report.md'))}")


def _print_metered(metering: Metering, as_json: bool) -> None:
    if metering.metered and not as_json:
        idle = ", ".join(f"{watts * 1e3:.4g} mW" for watts in metering.idle_w)
        output.messages.print(
            f"energy by {output.escaped(metering.meter.name)}, above the idle board's {idle}; "
            f"aligned by {metering.aligned_by}"
        )
        if not metering.replays:
            output.messages.print(f"traces are in {output.escaped(str(metering.folder))}")
    spikes = [one for one in metering.metered if one.energy.rejected]
    if spikes:
        rejected = sum(one.energy.rejected for one in spikes)
        kinds = listed([one.case.kind for one in spikes], ", ", 3)
        output.warn(f"{rejected} intervals were too far from the others to count: {kinds}")


def _row(one: Measurement, op: str | None) -> tuple[str, ...]:
    from poetfw import profiling

    shape: Any = profiling.shape_of(one.case)
    text = (
        f"{shape:,} B"
        if isinstance(shape, int)
        else " ".join("x".join(map(str, part)) for part in shape)
    )
    return (
        one.case.kind if op is None else f"{one.case.kind} of {op}",
        text,
        f"{one.ticks:,.1f}",
        f"{one.spread_ticks:,.1f}",
        f"{one.time_s * 1e3:.4f} ms",
        f"{one.energy_j * 1e6:.3f} uJ",
        f"{one.repetitions:,}",
    )
