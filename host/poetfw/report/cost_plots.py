# SPDX-License-Identifier: Apache-2.0
"""Plots of op costs: fitted and analytic over measured."""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.costs import ComparedOp
from poetfw.report.drawing import BLACK, BLUE, GREY, VERMILLION, literal, new_figure, render, short


def draw_costs(ops: Sequence[ComparedOp], title: str, kind: str) -> bytes:
    """The measured ops as one picture, the bytes of an `svg` or `png` file.

    Each op is a dot for the fitted model and one for the analytic model; on the diagonal, the
    model agrees with the measurement.
    """
    series = (
        ("fitted", BLUE, "o", [(op.measured_s, op.fitted_s) for op in ops]),
        ("analytic", VERMILLION, "^", [(op.measured_s, op.analytic_s) for op in ops]),
    )
    with new_figure(6.0, 5.0) as figure:
        axes = figure.subplots()
        seen: list[float] = []
        for label, colour, marker, pairs in series:
            points = [(x, y) for x, y in pairs if x and y]
            seen += [value for point in points for value in point]
            axes.plot(
                [x * 1e3 for x, _ in points],
                [y * 1e3 for _, y in points],
                marker,
                color=colour,
                ms=4,
                alpha=0.7,
                label=label,
            )
        if seen:
            ends = [min(seen) * 1e3, max(seen) * 1e3]
            axes.plot(ends, ends, color=GREY, lw=1, zorder=0)
            axes.set_xscale("log")
            axes.set_yscale("log")
        axes.set_title(literal(short(title, 70)), fontsize=9)
        axes.set_xlabel("measured (ms)")
        axes.set_ylabel("model (ms)")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, frameon=False)
    return render(figure, kind, f"{title}: what models say of ops, over what was measured")


def draw_ops(ops: Sequence[ComparedOp], title: str, kind: str) -> bytes:
    """Draw the costs of each op as measured, fitted and analytic: an `svg` or `png` file."""
    series = (
        ("measured", BLACK, "|", [op.measured_s for op in ops]),
        ("fitted", BLUE, "o", [op.fitted_s for op in ops]),
        ("analytic", VERMILLION, "^", [op.analytic_s for op in ops]),
    )
    with new_figure(7.0, 1.2 + 0.2 * len(ops)) as figure:
        axes = figure.subplots()
        for label, colour, marker, times_s in series:
            points = [(time_s * 1e3, place) for place, time_s in enumerate(times_s) if time_s]
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                marker,
                color=colour,
                ms=9 if marker == "|" else 4,
                alpha=0.8,
                label=label,
            )
        axes.set_yticks(range(len(ops)), [literal(short(op.name, 40)) for op in ops], fontsize=7)
        axes.invert_yaxis()
        if any(time_s for *_, times_s in series for time_s in times_s):
            axes.set_xscale("log")
        axes.set_xlabel("time (ms)")
        axes.set_title(literal(short(title, 70)), fontsize=9)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, frameon=False)
    return render(figure, kind, f"{title}: the ops that take longest")
