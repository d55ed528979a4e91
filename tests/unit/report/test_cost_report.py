# SPDX-License-Identifier: Apache-2.0
"""A profile's report: a page, tables that other programs read, and pictures."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

from poetfw.costs import ComparedOp, Fit, read_measurements
from poetfw.report import cost_report
from unit.costs.test_cost_database import row

OPS = (
    ComparedOp("conv | 1", "conv2d", 2e-3, 1.9e-3, 8e-3),
    ComparedOp("relu", "relu", 1e-3, None, 1e-3),
    ComparedOp("load x", "load_x", None, None, 5e-3),
)
CASES = (row(), replace(row(), energy_j=2e-6, energy_spread_j=1e-7))
SUMMARY = (
    "every op is measured, but for loads: 1 by the board file; paging by the board file (qemu)"
)
FITS = (Fit("conv2d", {"macs": 1e-9}, 12, 0.01, 0.07),)


def test_errors_are_those_of_what_was_measured(tmp_path: Path) -> None:
    files = cost_report(OPS, CASES, FITS, "net on board", "qemu", SUMMARY)
    page = files["report.md"].decode()
    assert f"{SUMMARY}. There are 2 cases" in page
    assert "| fitted | 1 | 5.00% | 5.00% | -5.00% |" in page
    assert "| analytic | 2 | 150.00% | 300.00% | +200.00% |" in page  # 9 ms of 3
    assert "| conv \\| 1 | conv2d | 2 | 1.9 | 8 |" in page
    assert "| load x | load_x | - | - | 5 |" in page
    assert "| conv2d | 12 | 1.00% | 7.00% |" in page
    assert "| 2 | 0.1 | none |" in page
    ops = list(csv.DictReader(io.StringIO(files["ops.csv"].decode())))
    assert [op["measured_s"] for op in ops] == ["0.002", "0.001", ""]
    (tmp_path / "cases.csv").write_bytes(files["cases.csv"])
    assert read_measurements(tmp_path / "cases.csv") == CASES
    assert {name for name in files if name.endswith(".svg")} == {"models.svg", "ops.svg"}
    for name in ("models.svg", "ops.svg"):
        assert name in page
        assert files[name].startswith(b"<?xml")
    assert files == cost_report(OPS, CASES, FITS, "net on board", "qemu", SUMMARY)


def test_where_nothing_was_measured_there_is_a_page(tmp_path: Path) -> None:
    page = cost_report(OPS[2:], (), (), "net on board", "nothing", "analytic")["report.md"].decode()
    assert "| fitted | 0 | - | - | - |" in page
