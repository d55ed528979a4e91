# SPDX-License-Identifier: Apache-2.0
"""Networks whose weights exceed the RAM, planned for arenas of several sizes.

A row for each network and arena: what is streamed and stored, the traffic of a step, its energy and
time, and the time that the plan took. `over floor` is the traffic of streamed tensors with each op
run once, over the least that it can be (3 W + 2 M); whole blocks, trailers and small tiles are the
rest. The planned traffic includes what ops load again that the plan recomputes. Bounds follow.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from poetfw.boards import load_board
from poetfw.common.errors import InfeasibleError
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings, report_build
from poetfw.planning.homes import traffic_over_floor

NETWORKS = {"resnet8": 1, "ds-cnn": 1, "autoencoder": 2}
"""Batch by network: batch norms of the auto-encoder need two samples."""

ARENAS = tuple(size * 1024 for size in (24, 32, 64, 128, 256))
MOST_OVER_FLOOR = {"ds-cnn": 1.15}
"""Traffic over the least; 1.03 for others, which stream no tensors of one block."""
MOST_ENERGY_J = {("nrf52840", "resnet8"): 0.9}
MOST_PLANNING_S = 120.0


def row(board: str, network: str, arena_bytes: int) -> list[str]:
    """A plan's figures, and its bounds.

    Raises:
        InfeasibleError: The network does not fit the arena.
    """
    batch = NETWORKS[network]
    settings = BuildSettings(board, network, batch=batch, data="synthetic", ram_bytes=arena_bytes)
    begin = time.perf_counter()
    build = plan_build(settings, lambda stage: None)
    spent_s = time.perf_counter() - begin
    report = report_build(build, Path())
    schedule, streaming = report.schedule, report.streaming
    lines, bounds = [], []
    if streaming is None:
        moved = "all weights in RAM"
    else:
        size = streaming.read_bytes + streaming.written_bytes
        moved = (
            f"{streaming.streamed_bytes:,} B streamed, {streaming.stored_bytes:,} B stored: "
            f"{size / 1e6:.2f} MB in {streaming.requests:,} requests"
        )
        if streaming.tensors:
            bounds.append(
                (
                    "over floor",
                    traffic_over_floor(build.program),
                    MOST_OVER_FLOOR.get(network, 1.03),
                )
            )
    most_j = MOST_ENERGY_J.get((board, network))
    if most_j is not None:
        bounds += [("J", schedule.energy_j, most_j), ("s of planning", spent_s, MOST_PLANNING_S)]
    gap = "not known" if schedule.gap is None else f"{schedule.gap:.1%}"
    lines.append(
        f"{moved}; {schedule.energy_j:.3f} J (gap {gap}), {schedule.time_s:.1f} s a step; "
        f"planned in {spent_s:.0f} s"
    )
    for name, found, most in bounds:
        lines.append(f"  {found:.3f} {name}, {'within' if found <= most else 'ABOVE'} {most}")
    return lines


def main() -> None:
    """Print a row for each network and arena."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/beyond_ram.py autoencoder --arena 65536",
    )
    parser.add_argument("--board", default="nrf52840", help="board whose figures count")
    parser.add_argument(
        "--arena", type=int, action="append", help="bytes; 24 to 256 KB if left out"
    )
    parser.add_argument("networks", nargs="*", help=f"of {', '.join(NETWORKS)}; all if left out")
    given = parser.parse_args()
    unknown = set(given.networks) - NETWORKS.keys()
    if unknown:
        parser.error(f"no such network: {', '.join(sorted(unknown))}")
    usable = load_board(given.board).unreserved_bytes
    for network in given.networks or NETWORKS:
        for arena in given.arena or ARENAS:
            size = min(arena, usable)
            try:
                lines = row(given.board, network, size)
            except InfeasibleError as error:
                lines = [f"does not fit: {error.message}"]
            print(f"{network} b{NETWORKS[network]} in {size:,} B:", "\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
