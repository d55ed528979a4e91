# SPDX-License-Identifier: Apache-2.0
"""Executed instructions of every op of several networks' training steps, as rows for a database.

Runs the project's own kernels on the emulated machine of a board, as benchmarks/kernels.py does,
and writes what `poetfw costs import` reads. --prices fits the prices of the analytic model to the
recorded cycles and writes boards/cores. With --errors nothing is run: of each held-out network it
says by how much the fitted and the analytic model miss what was recorded, as docs/costs.md has it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from poetfw.common.resources import cores_dir
from poetfw.costs.exchange import to_json
from workloads.kernels.cases import CASES
from workloads.kernels.measuring import BenchError, Measured, compiler_version
from workloads.op_costs import (
    KEPT,
    PRICED,
    count,
    counted_cases,
    held_out_errors,
    kept_counts,
    prices,
    record,
    row_of,
    setup_of,
)


def main() -> int:
    """Record, or judge what was recorded."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/op_costs.py --errors"
    )
    parser.add_argument("--board", choices=tuple(CASES), help="only this one")
    parser.add_argument("--record", action="store_true", help=f"keep the counts in {KEPT.name}")
    parser.add_argument("--only", default="", help="beginnings of kinds to count again")
    parser.add_argument("--out", type=Path, help="write rows for `poetfw costs import` here")
    parser.add_argument("--prices", action="store_true", help="write boards/cores")
    parser.add_argument("--errors", action="store_true", help="say how far the models are")
    arguments = parser.parse_args()
    if arguments.record and arguments.board:
        parser.error("--record keeps the counts of all boards: leave --board out")
    if arguments.prices:
        for board, core in PRICED.items():
            (cores_dir() / f"{core}.toml").write_text(prices(board))
        return 0
    if arguments.errors:
        for board in [arguments.board] if arguments.board else CASES:
            print(f"\n| {board} | ops | median, largest, step: fitted ||| analytic |||")
            for name, fitted, analytic in held_out_errors(board):
                print(f"| {name} | {len(fitted.ops)} | {fitted} | {analytic} |")
        return 0
    counts: dict[str, dict[str, Measured]] = {}
    rows = []
    for board in [arguments.board] if arguments.board else CASES:
        cases = counted_cases(board)
        counts[board] = kept_counts(board) if arguments.only else {}
        kinds = tuple(arguments.only.split(","))
        counts[board] |= count(board, [c for c in cases if c.kind.startswith(kinds)])
        setup = setup_of(board, compiler_version(board))
        by_key = {case.key: case for case in cases}
        rows += [row_of(by_key[key], one.instructions, setup) for key, one in counts[board].items()]
    if arguments.out:
        arguments.out.write_bytes(to_json(rows))
    if arguments.record:
        KEPT.write_text(record(compiler_version("nrf52840"), counts))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(str(error))
