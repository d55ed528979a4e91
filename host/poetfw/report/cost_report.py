# SPDX-License-Identifier: Apache-2.0
"""A profile as files for people and for spreadsheets: each op measured, fitted and analytic."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from statistics import median

from poetfw.costs import ComparedOp, Fit, Measurement, to_csv
from poetfw.report.cost_plots import draw_costs, draw_ops

_LARGEST = 30


def cost_report(
    ops: Sequence[ComparedOp],
    cases: Sequence[Measurement],
    fits: Sequence[Fit],
    title: str,
    basis: str,
    summary: str,
) -> dict[str, bytes]:
    """Files by name: `report.md`, tables as CSV, and pictures as SVG.

    Args:
        ops: of the training step, in its order.
        cases: what was measured: its distinct ops, and transfers.
        fits: the fits that predict ops without a measurement.
        title: title of the report.
        basis: the conditions of the measurements, with the meter.
        summary: sources of the costs that plans use, from `CostTable.summary`.

    Of the tables, `cases.csv` is one that `poetfw costs --import` reads.
    """
    longest = sorted(ops, key=_longest, reverse=True)[:_LARGEST]
    return {
        "report.md": _page(ops, cases, fits, title, basis, summary).encode(),
        "ops.csv": _table_of(ops),
        "cases.csv": to_csv(cases),
        "models.svg": draw_costs(ops, f"{title}: {basis}", "svg"),
        "ops.svg": draw_ops(longest, title, "svg"),
    }


def _table_of(ops: Sequence[ComparedOp]) -> bytes:
    text = io.StringIO()
    columns = [field.name for field in fields(ComparedOp)]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, ops))
    return text.getvalue().encode()


def _longest(op: ComparedOp) -> float:
    return op.analytic_s if op.measured_s is None else op.measured_s


def _page(
    ops: Sequence[ComparedOp],
    cases: Sequence[Measurement],
    fits: Sequence[Fit],
    title: str,
    basis: str,
    summary: str,
) -> str:
    known = [op for op in ops if op.measured_s]
    lines = [f"# {title}", "", f"Measured on {basis}.", ""]
    lines += [
        f"What plans take: {summary}. There are {len(cases)} cases, transfers included. "
        "Errors are of a model's time against the measured one; the fitted model has "
        "seen these cases, and says below how well it does on those that it has not.",
        "",
    ]
    lines += _table(
        ("model", "ops", "median error", "largest error", "all of them"),
        [
            ("fitted", *_errors([(op.measured_s, op.fitted_s) for op in known])),
            ("analytic", *_errors([(op.measured_s, op.analytic_s) for op in known])),
        ],
    )
    lines += ["![models over what was measured](models.svg)", "", "## Ops", ""]
    lines += ["![the ops that take longest](ops.svg)", ""]
    lines += _table(
        ("op", "operator", "measured ms", "fitted ms", "analytic ms"),
        [(op.name, op.kind, *map(_ms, (op.measured_s, op.fitted_s, op.analytic_s))) for op in ops],
    )
    lines += ["## Cases", ""]
    lines += _table(
        ("case", "operator", "n", "ms", "spread", "uJ", "spread uJ", "meter"),
        [
            (
                one.case.key,
                one.case.kind,
                f"{one.repetitions}",
                _ms(one.time_s),
                f"{one.spread_ticks / one.ticks if one.ticks else 0.0:.2%}",
                f"{one.energy_j * 1e6:.4g}",
                f"{one.energy_spread_j * 1e6:.4g}",
                one.setup.meter,
            )
            for one in cases
        ],
    )
    lines += ["## Fits, on cases that they have not seen", ""]
    lines += _table(
        ("fit", "cases", "median error", "largest error"),
        [
            (fit.name, f"{fit.rows}", f"{fit.median_error:.2%}", f"{fit.largest_error:.2%}")
            for fit in fits
        ],
    )
    return "\n".join(lines)


def _errors(pairs: Sequence[tuple[float | None, float | None]]) -> tuple[str, ...]:
    both = [(measured, said) for measured, said in pairs if measured and said is not None]
    if not both:
        return ("0", "-", "-", "-")
    errors = [abs(said / measured - 1) for measured, said in both]
    whole = sum(said for _, said in both) / sum(measured for measured, _ in both) - 1
    return (f"{len(both)}", f"{median(errors):.2%}", f"{max(errors):.2%}", f"{whole:+.2%}")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    ruled = ["|".join(["", *("---" for _ in columns), ""])]
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (columns, *rows)]
    head, *body = [f"| {line} |" for line in cells]
    return [head, *ruled, *body, ""]


def _ms(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s * 1e3:.4g}"
