# SPDX-License-Identifier: Apache-2.0
"""`poetfw costs`: measured costs, accuracy of the fitted model, import and export."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.common.errors import CostsError, listed
from poetfw.settings import (
    DatabaseSettings,
    NetworkSettings,
    Printed,
    Settings,
    Target,
    TrainingSettings,
    like,
    setting,
)
from poetfw.settings.values import File, OutputFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poetfw.costs import ComparedOp, Fit, Measured, Measurement


@dataclass(frozen=True)
class CostListing(Settings):
    """Database rows to show, import and export."""

    board: str | None = like(
        Target, "board", what="Show only this board, and its fits.", required=False, group=""
    )
    model: str | None = like(
        NetworkSettings,
        "model",
        what="Also show every op of this model's training.",
        default=None,
        metavar="NAME|FILE.pt2|FILE.onnx",
        needs=("--board",),
        group="",
    )
    batch: int | None = like(TrainingSettings, "batch", group="")
    imported: tuple[Path, ...] = setting(
        "Add the rows of this file first. May be given repeatedly.",
        (),
        flag="--import",
        type=File(),
        metavar="FILE.csv|FILE.json",
        multiple=True,
    )
    export: Path | None = setting(
        "Export the rows to this file.",
        type=OutputFile(".csv", ".json"),
        metavar="FILE.csv|FILE.json",
        own=True,
    )
    plot: Path | None = setting(
        "Plot the costs of the model's ops to this file.",
        type=OutputFile(".svg", ".png"),
        metavar="FILE.svg|FILE.png",
        needs=("--model",),
    )


@command("Example:  poetfw costs --board nrf52840 --model resnet8 --plot costs.svg")
def costs(listing: CostListing, where: DatabaseSettings, printed: Printed) -> None:
    """Show measured costs; import and export measurements.

    With --board, the accuracy of the fitted cost model is shown, by 5-fold cross-validation. With
    --model, every op is shown with its measured, fitted and analytic cost.
    """
    from poetfw.boards import load_board
    from poetfw.common.output_file import replace_file
    from poetfw.costs import (
        Database,
        compare_costs,
        fits_of,
        read_measurements,
        to_csv,
        to_json,
        usable,
    )
    from poetfw.firmware.case_version import case_version
    from poetfw.planning import derive_program, load_model
    from poetfw.report import draw_costs
    from poetfw.settings import BuildSettings
    from poetfw.training import AS_FILED

    model, export, plot = listing.model, listing.export, listing.plot
    database = Database(where.db or Database.default_path())
    if where.db is not None and not listing.imported:
        database.require()
    found = {path: read_measurements(path) for path in listing.imported}
    for path, some in found.items():
        if not some:
            output.warn(f"{path} holds no rows")
    read = [row for some in found.values() for row in some]
    if read:
        database.add(read)
    for path, some in found.items():
        output.messages.print(f"rows imported from {output.escaped(str(path))}: {len(some):,}")
    known = None if listing.board is None else load_board(listing.board)
    rows = database.all() if known is None else database.of_board(known.label)
    if export is not None:
        replace_file(export, to_csv(rows) if export.suffix == ".csv" else to_json(rows))
    measured = None if known is None else usable(rows, known, case_version)
    fits = () if measured is None else fits_of(measured)
    compared: tuple[ComparedOp, ...] = ()
    if known is not None and model is not None and measured is not None:
        settings = BuildSettings(
            board=known.label, model=model, batch=listing.batch, train=AS_FILED
        ).on(known)
        program = derive_program(settings, load_model(settings))
        compared = compare_costs(program.training, known, measured)
        if plot is not None:
            if all(op.measured_s is None for op in compared):
                raise CostsError(
                    f"no op of {model} at batch {settings.samples} was measured on {known.label}: "
                    "there is nothing to draw",
                    f"measure them: `poetfw profile --board {known.label} --model {model}`",
                    f"name another database than {database.path} with --db",
                )
            title = f"{model} on {known.label}, batch {settings.samples}: {measured.basis}"
            replace_file(plot, draw_costs(compared, title, plot.suffix[1:]))
    if printed.as_json:
        output.print_json(
            {
                "schema_version": 1,
                "db": str(database.path),
                "imported": len(read),
                "rows": len(rows),
                "usable": None if measured is None else len(measured.rows),
                "stale": None if measured is None else measured.stale,
                "basis": None if measured is None else measured.basis,
                "fits": [asdict(fit) for fit in fits],
                "ops": [asdict(op) for op in compared],
            }
        )
        return
    _print_rows(database.path, rows)
    if measured is not None:
        _print_fits(measured, fits)
    if compared:
        _print_ops(compared)


def _print_rows(path: Path, rows: Sequence[Measurement]) -> None:
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for row in rows:
        setup = row.setup
        conditions = (setup.board, setup.machine or "the board", setup.meter, setup.compiler)
        groups.setdefault(conditions, []).append(row)
    lines = [
        (*conditions, f"{len({row.case for row in found})}", f"{len(found)}", found[-1].measured_at)
        for conditions, found in groups.items()
    ]
    columns = ("board", "on", "meter", "compiler", "cases", "rows", "last")
    output.results.print(output.table(f"measured costs in {path}", columns, lines))


def _print_fits(measured: Measured, fits: Sequence[Fit]) -> None:
    lines = [
        (
            fit.name,
            f"{fit.rows}",
            f"{100 * fit.median_error:.2f}%",
            f"{100 * fit.largest_error:.2f}%",
        )
        for fit in fits
    ]
    title = (
        f"{len(measured.rows)} cases to plan with: {measured.basis or 'nothing'}; "
        f"{measured.stale} rows are stale"
    )
    if kinds := sorted({case.kind for case in measured.stale_cases}):
        title += f"; nothing else is known of cases of {listed(kinds)}"
    columns = ("fit", "cases", "median error", "largest error")
    output.results.print(output.table(title, columns, lines))


def _print_ops(compared: Sequence[ComparedOp]) -> None:
    lines = [
        (op.name, op.kind, *map(_ms, (op.measured_s, op.fitted_s, op.analytic_s)))
        for op in compared
    ]
    columns = ("op", "kind", "measured ms", "fitted ms", "analytic ms")
    output.results.print(output.table("ops of the training step", columns, lines))


def _ms(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s * 1e3:.4g}"
