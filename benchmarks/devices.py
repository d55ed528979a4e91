# SPDX-License-Identifier: Apache-2.0
"""Training on two devices: plans, bounds, baselines and the ceiling, beside XEngine's figure.

Run it with

    python benchmarks/devices.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.errors import InfeasibleError, PlanError
from poetfw.limits import Work
from poetfw.planning import load_devices_problem
from poetfw.schedule.devices import (
    SINGLE,
    Device,
    DevicesPlan,
    DevicesProblem,
    Minimise,
    ceiling,
    greedy_plan,
    simulate_devices,
    single_plan,
    solve_devices,
)

ROOT = Path(__file__).parent
DEVICES = ROOT.parent / "examples" / "devices"
PUBLISHED = ROOT / "published" / "xengine_2022.toml"


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
    row: dict[str, object] = {"case": title}

    def show(name: str, find: Callable[[], float | None]) -> float | None:
        begin = time.perf_counter()
        try:
            time_s = find()
        except (InfeasibleError, PlanError):
            time_s = None
        seconds = time.perf_counter() - begin
        figure = "none found" if time_s is None else f"{time_s * 1e3:9.3f} ms"
        print(f"  {name:36} {figure:>14} {seconds:8.1f} s", flush=True)
        row[name] = time_s
        return time_s

    def alone(device: Device, scheduler: str, more_bytes: int = 0) -> float:
        ram_bytes = device.problem.ram_bytes + more_bytes
        able = replace(device, problem=replace(device.problem, ram_bytes=ram_bytes))
        plan = single_plan(problem, able, Minimise.TIME, scheduler, work=Work(units))
        one = DevicesProblem(problem.name, (able,))
        return simulate_devices(one, plan).time_s

    def replayed(plan: DevicesPlan) -> float:
        return simulate_devices(problem, plan).time_s

    show("no memory limits (ceiling)", lambda: ceiling(problem, Minimise.TIME, Work(units)).cost)
    total = sum(device.problem.ram_bytes for device in problem.devices)
    singles = []
    for device in problem.devices:
        for name, scheduler in SINGLE.items():
            if device.problem.storage is not None or "paging" not in name:
                label = name.replace("single", device.name)
                singles.append(show(label, lambda d=device, s=scheduler: alone(d, s)))
        rest = total - device.problem.ram_bytes
        show(
            f"{device.name} + recompute, both limits",
            lambda d=device, more=rest: alone(d, "poet-paging-off", more),
        )
    show("greedy (HEFT)", lambda: replayed(greedy_plan(problem, Minimise.TIME)))

    def both() -> float:
        answer = solve_devices(problem, Minimise.TIME, work=Work(units))
        row["bound"], row["status"] = answer.bound, answer.status.value
        row["copies"], row["recomputes"] = answer.copies, answer.recomputes
        row["computed"], row["found by"] = answer.computed, answer.scheduler
        return answer.time_s

    best = show("both devices", both)
    if best is not None:
        print(
            f"    {row['status']}, bound {row['bound'] * 1e3:.3f} ms, by {row['found by']}: "  # type: ignore[operator]
            f"{row['computed']}, {row['copies']} copies, {row['recomputes']} recomputes"
        )
        fits = [time_s for time_s in singles if time_s is not None]
        if fits:
            print(f"    {1 - best / min(fits):.1%} less than the best single device")
    return row


def main() -> int:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first case only, less work")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    published = tomllib.loads(PUBLISHED.read_text())
    share = published["faster_than_best_single_device_checkmate_max"]
    print(
        f"XEngine reports at most {share:.1%} less than the best single device with recomputing.\n"
        "It says neither within which limit that is, nor what no plan can beat. Below, each\n"
        "device alone has its own limit, and the sum of both. Costs are assumed, not measured."
    )
    cases = CASES[:1] if arguments.quick else CASES
    rows = [run(case, 10.0 if arguments.quick else 60.0) for case in cases]
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
