# SPDX-License-Identifier: Apache-2.0
"""Networks in so little RAM that tensors must be computed again more than once."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.comparisons.comparison import Comparison, Task
from poetfw.schedule import checkpoint_all_schedule, solve
from poetfw.schedule.baselines.registry import BASELINES


@dataclass(frozen=True)
class Tight:
    """A network with a budget in which tensors must be computed again more than once.

    Attributes:
        model, batch: trained on the nRF52840.
        ram_bytes: budget of tensors and workspace; 0 for `fraction`.
        fraction: the same, as a share of what keeping everything takes.
        most: the most energy that it may take, as a multiple of computing each node once.
    """

    model: str
    batch: int
    ram_bytes: int = 0
    fraction: float = 0.0
    most: float = math.inf


TIGHT = (
    Tight("lstm", 16, 90_000, most=1.10),
    Tight("lstm", 16, 75_000, most=1.20),
    Tight("lstm", 16, 70_000, most=1.24),
    Tight("lstm", 16, 60_000, most=1.38),
    Tight("lstm", 16, 50_000, most=11.5),
    Tight("lstm", 16, 42_000),
    *(
        Tight(model, batch, fraction=fraction)
        for model, batch in (("gru", 16), ("transformer-tiny", 4))
        for fraction in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
    ),
)
METHOD_WORK = 2.0
"""Units of work for each published method."""


def run_tight(case: Tight) -> dict[str, Any]:
    """Schedule a network within a budget, in a process of its own; its figures and missed goals."""
    problem = Comparison.of(Task("nrf52840", case.model, case.batch)).ways.lean
    everything = checkpoint_all_schedule(problem)
    ram_bytes = case.ram_bytes or int(case.fraction * everything.peak_bytes)
    problem = replace(problem, ram_bytes=ram_bytes)
    methods: dict[str, float] = {}
    for name in BASELINES:
        with suppress(InfeasibleError):
            method = solve(problem, name, work=Work(METHOD_WORK))
            methods[name] = method.energy_j / everything.energy_j
    began_s = time.process_time()
    try:
        schedule = solve(problem, "poet")
    except InfeasibleError:
        schedule = None
    times = math.inf if schedule is None else schedule.energy_j / everything.energy_j
    best = min(methods.values(), default=math.inf)
    goals = {"energy": times <= case.most, "method": times <= best, "plan": schedule is not None}
    return {
        **asdict(case),
        "most": finite(case.most),
        "ram_bytes": ram_bytes,
        "nodes": len(problem.nodes),
        "times": finite(times),
        "method": min(methods, key=lambda name: methods[name], default=None),
        "method_times": finite(best),
        "gap": None if schedule is None else schedule.gap,
        "cpu_s": time.process_time() - began_s,
        "misses": [name for name, met in goals.items() if not met],
    }


def finite(value: float) -> float | None:
    """A number that JSON has."""
    return value if math.isfinite(value) else None


TIMES = ("times", "method_times")
"""Multiples of the energy of computing each node once: of the search and of the best method."""
