# SPDX-License-Identifier: Apache-2.0
"""Training on two devices: plans, bounds, baselines and the ceiling, beside XEngine's figure."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from poetfw.planning import load_devices_problem
from poetfw.schedule.several import DevicesSchedule, Minimise, Row, best_alone, compare_devices
from workloads.published import published

DEVICES = Path(__file__).parents[1] / "examples" / "devices"


@dataclass(frozen=True, slots=True)
class Case:
    """A model on two devices, with limits as fractions of what keeping everything takes."""

    model: str
    devices: tuple[str, str]
    fractions: tuple[float, float]


TX2, IGPU = ("tx2-gpu", "tx2-a57"), ("igpu-gpu", "igpu-cpu")
CASES = (
    Case("vgg16", IGPU, (0.62, 0.62)),
    Case("vgg16", TX2, (0.60, 0.90)),
    Case("resnet18", TX2, (0.3, 0.3)),
    Case("resnet18", TX2, (0.2, 0.3)),
)


def run(case: Case, units: float) -> dict[str, object]:
    """Measure and print one case; the same as plain JSON values."""
    paths = [DEVICES / f"{name}.toml" for name in case.devices]
    problem = load_devices_problem(paths, case.model, ram_fractions=case.fractions)
    title = f"{case.model} on {' and '.join(case.devices)}, within {case.fractions}"
    print(f"\n{title}", flush=True)
    rows: list[Row] = []
    begin = time.perf_counter()
    for row in compare_devices(problem, Minimise.TIME, units):
        seconds, begin = time.perf_counter() - begin, time.perf_counter()
        figure = "none found" if row.cost is None else f"{row.cost * 1e3:9.3f} ms"
        print(f"  {row.name:40} {figure:>14} {seconds:8.1f} s", flush=True)
        rows.append(row)
        if row.answer is not None:
            print(f"    {_known(row.answer, best_alone(rows))}", flush=True)
    return {
        "case": title,
        "rows": {row.name: row.cost for row in rows},
        "best_alone_s": best_alone(rows),
        "copies": {row.name: row.answer.copies for row in rows if row.answer is not None},
        "recomputes": {row.name: row.answer.recomputes for row in rows if row.answer is not None},
    }


def _known(answer: DevicesSchedule, alone: float | None) -> str:
    less = "no device fits alone" if alone is None else f"{1 - answer.cost / alone:.1%} less than"
    less += "" if alone is None else " the best device alone within its own limit"
    return (
        f"{less}; {answer.status.value}, bound {answer.bound * 1e3:.3f} ms, by "
        f"{answer.scheduler}: {answer.computed}, {answer.copies} copies, "
        f"{answer.recomputes} recomputes"
    )


def main() -> int:
    """Measure every case."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/devices.py --quick"
    )
    parser.add_argument("--quick", action="store_true", help="the first case only, less work")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    share = published("xengine_2022")["faster_than_best_single_device_checkmate_max"]
    print(
        f"XEngine reports at most {share:.1%} less than the best single device with recomputing.\n"
        "It says neither within which limit that is, nor what no plan can beat. Below, each\n"
        "device alone has its own limit, and the sum of both. Costs are assumed, not measured.\n"
        "Where the fast device's limit is so low that it must compute much again, or fits no\n"
        "more, while the other has room for its tensors, the difference is as large as one likes:\n"
        "compare the two limits of ResNet-18. Within all limits together there is little left."
    )
    cases = CASES[:1] if arguments.quick else CASES
    rows = [run(case, 10.0 if arguments.quick else 60.0) for case in cases]
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
