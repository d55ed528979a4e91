# SPDX-License-Identifier: Apache-2.0
"""Networks in so little RAM that tensors must be computed again more than once."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from poetfw.boards import load_board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import WORK_LIMIT, Work
from poetfw.comparisons.comparison import Comparison, Task
from poetfw.schedule import ScheduleProblem, checkpoint_all_schedule, solve
from poetfw.schedule.baselines.registry import BASELINES
from workloads.tight_networks import TIGHT_NETWORKS


@dataclass(frozen=True)
class Tight:
    """A network with a budget in which tensors must be computed again more than once.

    Attributes:
        model, batch: trained on the nRF52840; a built-in model, or one of `TIGHT_NETWORKS`.
        ram_bytes: budget of tensors and workspace; 0 for `fraction`.
        fraction: the same, as a share of what keeping everything takes.
        most: the most energy that it may take, as a multiple of computing each node once.
        work: units of work of the search.
    """

    model: str
    batch: int
    ram_bytes: int = 0
    fraction: float = 0.0
    most: float = math.inf
    work: float = WORK_LIMIT

    @property
    def name(self) -> str:
        """Network, batch, budget and unusual work as one word, unique among `TIGHT`."""
        little = "" if self.work == WORK_LIMIT else f"/work-{self.work:g}"
        return f"{self.model}/{self.batch}/{self.ram_bytes or self.fraction}{little}"

    def problem(self) -> ScheduleProblem:
        """The training step within the budget."""
        problem = _unlimited(self.model, self.batch)
        peak_bytes = checkpoint_all_schedule(problem).peak_bytes
        return replace(problem, ram_bytes=self.ram_bytes or int(self.fraction * peak_bytes))


_BOARD = "nrf52840"


@cache
def _unlimited(model: str, batch: int) -> ScheduleProblem:
    """The training step of a network, for any budget."""
    if model in TIGHT_NETWORKS:
        return TIGHT_NETWORKS[model](load_board(_BOARD), batch)
    return Comparison.of(Task(_BOARD, model, batch)).training.problem


TIGHT = (
    Tight("lstm", 16, 90_000, most=1.10),
    Tight("lstm", 16, 90_000, most=1.27, work=6.0),  # 1.2 times what the usual work finds
    Tight("lstm", 16, 75_000, most=1.20),
    Tight("lstm", 16, 70_000, most=1.24),
    Tight("lstm", 16, 60_000, most=1.38),
    Tight("lstm", 16, 50_000, most=11.5),
    Tight("lstm", 16, 42_000),
    *(
        Tight(model, batch, fraction=fraction)
        for model, batch in (("gru", 16), ("rnn", 16), ("transformer-tiny", 4), ("u-net", 2))
        for fraction in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
    ),
    # The shares of RAM at which the LSTM of 8 steps has 90, 70 and 60 kB.
    Tight("lstm-256", 16, fraction=0.66, most=1.10),
    Tight("lstm-256", 16, fraction=0.51, most=1.24),
    Tight("lstm-256", 16, fraction=0.44, most=1.38),
)
METHOD_WORK = 2.0
"""Units of work for each published method."""

KNOWN_FILE = Path(__file__).with_name("tight_known.json")
"""The least energy that long searches found; see `write_known`."""

NEAR = 1.1
"""The most energy of a search by usual work, as a multiple of that of a long one."""

LONG_RUN_WORK = 10 * WORK_LIMIT
"""Units of work of a long search."""


def read_known() -> dict[str, float]:
    """The least energy known by `Tight.name`, as a multiple of computing each node once."""
    rows = json.loads(KNOWN_FILE.read_text())["rows"]
    return {name: float(row["times"]) for name, row in rows.items()}


def write_known(found: Mapping[str, tuple[float, float]]) -> None:
    """Record what searches found, where it is less than what was known.

    Args:
        found: (multiple of computing each node once, units of work) by `Tight.name`.
    """
    document = json.loads(KNOWN_FILE.read_text())
    for name, (times, work) in found.items():
        row = document["rows"].get(name)
        if row is None or times < row["times"]:
            document["rows"][name] = {"times": round(times, 6), "work": work}
    rows = {case.name: document["rows"].get(case.name) for case in TIGHT}
    document["rows"] = {name: row for name, row in rows.items() if row is not None}
    KNOWN_FILE.write_text(json.dumps(document, indent=1) + "\n")


def run_tight(
    case: Tight, work_limit: float | None = None, compared: Collection[str] = tuple(BASELINES)
) -> dict[str, Any]:
    """Schedule a network within a budget, in a process of its own; its figures and missed goals.

    Args:
        case: the network and its budget.
        work_limit: units of work of the search; None for the case's own.
        compared: published methods to run beside it.
    """
    problem = case.problem()
    work_limit = case.work if work_limit is None else work_limit
    once_j = math.fsum(node.energy_j for node in problem.nodes)
    methods: dict[str, float] = {}
    for name in compared:
        with suppress(InfeasibleError):
            methods[name] = solve(problem, name, work=Work(METHOD_WORK)).energy_j / once_j
    began_s = time.process_time()
    try:
        schedule = solve(problem, "poet", work=Work(work_limit))
    except InfeasibleError:
        schedule = None
    times = math.inf if schedule is None else schedule.energy_j / once_j
    best, known = min(methods.values(), default=math.inf), read_known().get(case.name)
    goals = {
        "energy": times <= case.most,
        "method": times <= best,
        "long run": known is None or times <= NEAR * known,
        "plan": schedule is not None,
    }
    return {
        **asdict(case),
        "name": case.name,
        "most": finite(case.most),
        "ram_bytes": problem.ram_bytes,
        "nodes": len(problem.nodes),
        "work": work_limit,
        "times": finite(times),
        "method": min(methods, key=lambda name: methods[name], default=None),
        "method_times": finite(best),
        "long_times": known,
        "gap": None if schedule is None else schedule.gap,
        "cpu_s": time.process_time() - began_s,
        "misses": [name for name, met in goals.items() if not met],
    }


def finite(value: float) -> float | None:
    """A number that JSON has."""
    return value if math.isfinite(value) else None


TIMES = ("times", "method_times", "long_times")
"""Multiples of the energy of computing each node once: of the search, of the best method, and of
the long search."""
