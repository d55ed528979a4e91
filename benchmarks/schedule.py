# SPDX-License-Identifier: Apache-2.0
"""Schedules: how good they are proven to be, in what time, and beside the papers' figures.

    python benchmarks/schedule.py           all, in about two hours of a core
    python benchmarks/schedule.py --quick   fewer cases, in about 2 minutes
    python benchmarks/schedule.py --only tight growth   recurrent networks, attention and a U-Net in
        little RAM, and GPT-like networks of up to 50,013 nodes
    python benchmarks/schedule.py --rows gru lstm/16   rows whose names begin so
    python benchmarks/schedule.py --json FILE   writes each row to FILE as it is measured; the same
        command continues where it was stopped
    python benchmarks/schedule.py --long --rows lstm/16   record what ten times the work finds
    python benchmarks/schedule.py --without moves --work 20 --rows gru/16/0.4   what a method of
        the search is worth: the same without it

Each solve runs in a process of its own, so that its peak memory is known. Every cost (seconds,
joules) is that of the analytic model of a board; nothing here was measured on hardware.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from poetfw.boards import load_board
from poetfw.common.errors import InfeasibleError, UnsuitableError
from poetfw.common.limits import WORK_LIMIT, Work
from poetfw.comparisons.comparison import Comparison, Task, settle
from poetfw.schedule import (
    BoundCovers,
    Schedule,
    ScheduleProblem,
    SearchProgress,
    SolveOptions,
    checkpoint_all_schedule,
    solve,
)
from poetfw.schedule.contract import Contraction
from workloads import BOARDS
from workloads.published import PaperTask
from workloads.published import published as read_published
from workloads.tight import LONG_RUN_WORK, TIGHT, TIMES, run_tight, write_known

CVXPY_LIMIT_S = 2.0
MEMORY_LIMIT_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Case:
    """A schedule to find by a search's usual work, and what it shall come to.

    Attributes:
        model, batch, board, model_as: what is trained, and where.
        fraction: budget, as a share of what keeping everything takes.
        energy: the most it may take, in percent of keeping everything; None for any.
        gap: the largest that may be left.
        cpu_s: processor seconds that it may take.
        deadline: in steps that keep everything; None for none.
        overlap: whether transfers overlap with computing; None for what the board says.
    """

    model: str
    fraction: float
    energy: float | None
    gap: float
    cpu_s: float = 75.0
    batch: int = 1
    board: str = "poet-m4f"
    model_as: str = "device"
    deadline: float | None = None
    overlap: bool | None = None

    @property
    def name(self) -> str:
        """Model, batch, board and budget as one word, unique among `certified_cases`."""
        parts: list[object] = [self.model, self.batch, self.board, self.fraction]
        parts += [] if self.model_as == "device" else [f"as-{self.model_as}"]
        parts += [] if self.deadline is None else [self.deadline]
        parts += {None: [], True: ["overlap"], False: ["no-overlap"]}[self.overlap]
        return "/".join(map(str, parts))


@dataclass(frozen=True)
class Answer:
    """What came of a case.

    Attributes:
        case: the case.
        nodes: size of the problem.
        reason: why there is no plan; empty with one.
        objective, bound: energy in percent of checkpoint-all's.
        gap: proven distance of the two; see `Schedule`.
        bound_covers: of which plans the bound holds.
        overhead_gap: the gap as a share of the overhead; see `Schedule`.
        cpu_s: processor seconds in all.
        cvxpy_s: of these, in the solution of programs but not in HiGHS itself, importing cvxpy
            left out.
        memory_bytes: most that the process had in RAM.
    """

    case: Case
    nodes: int
    reason: str = ""
    objective: float = 0.0
    bound: float = 0.0
    gap: float = 1.0
    bound_covers: str = ""
    overhead_gap: float = 1.0
    cpu_s: float = 0.0
    cvxpy_s: float = 0.0
    memory_bytes: int = 0

    @property
    def misses(self) -> tuple[str, ...]:
        """Which limits are missed."""
        case = self.case
        limits = {
            "energy": case.energy is None or round(self.objective, 2) <= case.energy,
            "gap": self.gap <= case.gap,
            "time": self.cpu_s <= case.cpu_s,
            "cvxpy": self.cvxpy_s <= CVXPY_LIMIT_S,
            "memory": self.memory_bytes <= MEMORY_LIMIT_BYTES,
        }
        return ("plan",) if self.reason else tuple(n for n, met in limits.items() if not met)


def certified_cases(quick: bool) -> Iterator[Case]:
    """What must be solved, and how well."""
    yield Case("resnet18", 0.7, 100.07, 1e-4)
    yield Case("vgg16", 0.4, 100.29, 1e-4, 60.0)
    yield Case("digits-cnn", 0.5, 129.68, 1e-4, batch=32)
    if quick:
        return
    yield Case("resnet18", 0.6, 100.11, 2e-4)
    yield Case("resnet18", 0.5, 100.30, 2e-4)
    yield Case("resnet18", 0.4, 101.47, 1.5e-3)
    yield Case("resnet18", 0.3, 103.23, 3e-3)
    yield Case("resnet18", 0.25, 105.3, 1e-2)
    yield Case("resnet18", 0.4, None, 1e-3, board="poet-mkr1000")
    yield Case("resnet18", 0.4, None, 1e-3, board="rpi4")
    yield Case("resnet18", 0.4, 104.34, 8e-3, board="tx2")
    yield Case("vgg16", 0.3, 102.34, 1e-3, 60.0)
    yield Case("vgg16", 0.5, 100.11, 1e-4, 60.0)
    yield Case("bert-base", 0.3, 103.42, 2e-3, 90.0)
    yield Case("bert-base", 0.5, 101.3, 2e-3, 90.0)
    yield Case("resnet50", 0.4, None, 1e-2, 300.0)
    yield Case("mobilenetv2", 0.4, None, 1e-2, 300.0)
    for fraction in (0.4, 0.5):
        for deadline in (1.02, 1.1, 1.3):
            for overlap in (False, True):
                yield Case("resnet18", fraction, None, 5e-3, deadline=deadline, overlap=overlap)
    for fraction in (0.4, 0.5):
        yield Case("resnet18", fraction, None, 5e-3, model_as="poet")


def board_of(name: str) -> str:
    """A board as `--board` takes it, by its name or that of a file of `BOARDS`."""
    path = BOARDS / f"{name}.toml"
    return str(path) if path.exists() else name


@contextmanager
def clocked(target: Any, name: str, total: list[float]) -> Iterator[None]:
    """Add the processor's seconds spent in a function to a total, as long as this block runs."""
    original: Callable[..., Any] = getattr(target, name)

    def timed(*arguments: Any, **settings: Any) -> Any:
        began_s = time.process_time()
        try:
            return original(*arguments, **settings)
        finally:
            total[0] += time.process_time() - began_s

    with instead(target, name, timed):
        yield


@contextmanager
def instead(target: Any, name: str, value: Any) -> Iterator[None]:
    """Have another value there, as long as this block runs."""
    original = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, original)


def nothing(*_: object) -> None:
    """Do nothing."""


METHODS: Mapping[str, tuple[str, str, Callable[..., Any]]] = {
    "published": ("search", "_try_published", nothing),
    "turn": ("search", "search_turn", nothing),
    "every-plan": ("search", "_bound_every_plan", nothing),
    "on-demand": ("search", "_run_on_demand", nothing),
    "moves": ("search", "_improve_start", nothing),
    "order": ("search", "in_better_order", lambda problem, work: problem),
    "other-orders": ("search", "_search_orders", nothing),
    "nearby": ("search", "_has_nearby", nothing),
    "used": ("search", "_search_used", nothing),
    "dear": ("search", "without_what_costs_more", lambda problem, _: problem),
    "contraction": ("search", "contract", lambda problem, *_: Contraction.nothing(problem)),
    "relaxation": ("search", "_search_relaxation", nothing),
    "all-plans": ("search", "_search_everything", nothing),
    "lineage-cuts": ("strengthen", "separate_lineages", lambda *_: []),
    "slot-cuts": ("strengthen", "separate_slots", lambda *_: []),
}
"""Methods of the search that can be left out: module, function, and what replaces it."""


def without(methods: Sequence[str], measure: Callable[..., Any], *arguments: Any) -> Any:
    """Result of a function while the search leaves out some of `METHODS`."""
    with ExitStack() as replaced:
        for module, name, replacement in map(METHODS.__getitem__, methods):
            target = importlib.import_module(f"poetfw.schedule.{module}")
            replaced.enter_context(instead(target, name, replacement))
        return measure(*arguments)


def run_case(case: Case, work_limit: float | None = None) -> Answer:
    import cvxpy  # noqa: F401

    from poetfw.schedule import milp, search
    from poetfw.schedule.highs import Highs

    class Timed(Highs):
        """HiGHS where it is cvxpy that has written the program."""

    task = PaperTask(board_of(case.board), case.model, case.batch, case.model_as)
    comparison = Comparison.of(task)
    everything = comparison.everything
    problem = within(comparison, comparison.training.budget_bytes(case.fraction))
    if case.deadline is not None:
        problem = replace(problem, deadline_s=case.deadline * everything.time_s)
    if case.overlap is not None and problem.storage is not None:
        problem = replace(problem, storage=replace(problem.storage, overlap=case.overlap))
    answer = Answer(case, len(problem.nodes))
    programs_s, highs_s = [0.0], [0.0]
    began_s = time.process_time()
    with (
        clocked(search, "solve_program", programs_s),
        clocked(Timed, "run", highs_s),
        instead(milp, "Highs", Timed),
    ):
        try:
            schedule = solve(problem, "poet", work=Work(work_limit or WORK_LIMIT))
        except InfeasibleError as error:
            return replace(answer, reason=error.message)
    assert schedule.bound_j is not None
    return replace(
        answer,
        objective=100 * schedule.energy_j / everything.energy_j,
        bound=100 * schedule.bound_j / everything.energy_j,
        gap=schedule.gap or 0.0,  # None: better than all that the bound covers
        bound_covers=str(schedule.bound_covers),
        overhead_gap=schedule.overhead_gap or 0.0,
        cpu_s=time.process_time() - began_s,
        cvxpy_s=programs_s[0] - highs_s[0],
        memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, called in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


@dataclass
class Rows:
    """Rows to measure: all, or those whose names begin in one of some ways.

    Attributes:
        quick: fewer cases.
        prefixes: beginnings of names; every name has the empty one.
        done: rows that were measured, by group and name.
        file: where they are written after each; None for nowhere.
        without: methods of the search to leave out.
        work: units of work of each search; None for the usual.
    """

    quick: bool
    prefixes: tuple[str, ...] = ("",)
    done: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    file: Path | None = None
    without: tuple[str, ...] = ()
    work: float | None = None

    def measured(
        self, group: str, name: str, measure: Callable[..., Any], *arguments: Any
    ) -> dict[str, Any] | None:
        """A row as plain JSON values, measured unless it was before; None if it is not asked for.

        Args:
            group: the row's group.
            name: its name.
            measure: returns the row; it is called in a process of its own.
            arguments: its arguments.
        """
        if not name.startswith(self.prefixes):
            return None
        rows = self.done.setdefault(group, {})
        if name not in rows:
            rows[name] = json.loads(json.dumps(apart(without, self.without, measure, *arguments)))
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                written = {"costs": "analytic", **self.done}
                self.file.write_text(json.dumps(written, indent=2) + "\n")
        return rows[name]

    def print_verdicts(self) -> None:
        """Print how many rows meet their targets, and the names of the others."""
        verdicts = [
            (f"{group}: {name}", row["misses"])
            for group, rows in self.done.items()
            for name, row in rows.items()
            if "misses" in row
        ]
        missed = [(name, misses) for name, misses in verdicts if misses]
        print(f"\n{len(verdicts) - len(missed)} of {len(verdicts)} rows meet their targets.")
        for name, misses in missed:
            print(f"  missed: {name} ({', '.join(misses)})")


def measure_case(case: Case, work_limit: float | None) -> dict[str, Any]:
    """The figures of `run_case` as plain values."""
    answer = run_case(case, work_limit)
    return {**asdict(answer), "misses": answer.misses}


def print_certified(rows: Rows) -> None:
    print("Certified schedules by POET, with the usual work; 100 is the energy of checkpoint-all.")
    print(
        f"{'model':<11}{'board':<13}{'as':<7}{'nodes':>5}{'RAM':>5}{'deadline':>15}{'energy':>10}"
        f"{'gap':>8}{'of overhead':>13}{'CPU':>8}{'cvxpy':>7}{'memory':>9}   target"
    )
    for case in certified_cases(rows.quick):
        row = rows.measured("certified", case.name, measure_case, case, rows.work)
        if row is None:
            continue
        deadline = "" if case.deadline is None else f"{case.deadline:g}"
        deadline += {None: "", True: ", overlap", False: ", no overlap"}[case.overlap]
        head = f"{case.model:<11}{case.board:<13}{case.model_as:<7}{row['nodes']:>5}"
        head += f"{case.fraction:>5.0%}{deadline:>15}"
        if row["reason"]:
            print(f"{head}  {row['reason']}", flush=True)
            continue
        target = "" if case.energy is None else f"{case.energy:g}, "
        print(
            f"{head}{row['objective']:>10.4f}{row['gap']:>8.3%}{row['overhead_gap']:>13.2%}"
            f"{row['cpu_s']:>7.1f}s{row['cvxpy_s']:>6.1f}s{row['memory_bytes'] / 2**20:>6.0f}MiB"
            f"   {target}{case.gap:.2%} in {case.cpu_s:.0f} s: {verdict(row)}",
            flush=True,
        )


def verdict(row: dict[str, Any]) -> str:
    return f"misses {', '.join(row['misses'])}" if row["misses"] else "met"


@dataclass(frozen=True)
class Layers:
    """A GPT-like network to schedule by a search's usual work, and what it shall come to.

    Attributes:
        layers: 30 nodes each.
        fraction: budget, as a share of what keeping everything takes.
        overhead: the most it may take beyond keeping everything, as a share of that.
        gap: the largest that may be left to the best of all plans.
    """

    layers: int
    fraction: float
    overhead: float
    gap: float

    @property
    def name(self) -> str:
        """Layers and budget as one word, unique among `LAYERS`."""
        return f"gpt-{self.layers}/{self.fraction}"


LAYERS = tuple(
    Layers(layers, fraction, overhead, 5e-3 if layers < 40 else 2e-3)
    for fraction, overheads in (
        (0.3, (0.156, 0.143, 0.139, 0.139, 0.139, 0.139)),
        (0.5, (0.061, 0.050, 0.048, 0.048, 0.048, 0.048)),
    )
    for layers, overhead in zip((10, 40, 200, 400, 800, 1667), overheads, strict=True)
)
FIRST_PLAN_S = 30.0
GROWTH_LIMIT_BYTES = 500 * 10**6


def run_layers(case: Layers, work_limit: float | None = None) -> dict[str, Any]:
    """Schedule a GPT-like network, in a process of its own; its figures and missed goals."""
    from workloads.networks.gpt import gpt

    problem = gpt(case.layers, load_board(board_of("poet-m4f")))
    everything = checkpoint_all_schedule(problem)
    problem = replace(problem, ram_bytes=int(case.fraction * everything.peak_bytes))
    began_s, first_s = time.process_time(), [math.inf, 0.0]

    def tell(progress: SearchProgress) -> None:
        if math.isfinite(progress.energy_j) and math.isinf(first_s[0]):
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            first_s[:] = [time.process_time() - began_s, float(used)]

    schedule = solve(problem, "poet", work=Work(work_limit or WORK_LIMIT), tell=tell)
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert schedule.overhead is not None
    is_of_all = schedule.bound_covers is BoundCovers.ALL
    goals = {
        "overhead": schedule.overhead <= case.overhead,
        "gap": is_of_all and schedule.gap is not None and schedule.gap <= case.gap,
        "first plan": first_s[0] <= FIRST_PLAN_S and first_s[1] <= GROWTH_LIMIT_BYTES,
        "memory": memory_bytes <= MEMORY_LIMIT_BYTES,
    }
    return {
        **asdict(case),
        "nodes": len(problem.nodes),
        "found": schedule.overhead,
        "found_gap": schedule.gap,
        "first_plan_s": first_s[0],
        "first_plan_bytes": first_s[1],
        "cpu_s": time.process_time() - began_s,
        "memory_bytes": memory_bytes,
        "misses": [name for name, met in goals.items() if not met],
    }


def print_growth(rows: Rows) -> None:
    """GPT-like networks of more and more layers, with the usual work."""
    print("\nGPT-like networks on poet-m4f: overhead, and the gap to the best of all plans.")
    print(
        f"{'layers':>6}{'nodes':>8}{'RAM':>6}{'overhead':>10}{'gap':>9}{'first plan':>12}"
        f"{'of it':>9}{'CPU':>8}{'memory':>10}   target"
    )
    for case in LAYERS:
        if rows.quick and case.layers > 40:
            continue
        row = rows.measured("growth", case.name, run_layers, case, rows.work)
        if row is None:
            continue
        gap = "-" if row["found_gap"] is None else f"{row['found_gap']:.3%}"
        print(
            f"{case.layers:>6}{row['nodes']:>8}{case.fraction:>6.0%}{row['found']:>10.3%}{gap:>9}"
            f"{row['first_plan_s']:>10.1f} s{row['first_plan_bytes'] / 2**20:>5.0f}MiB"
            f"{row['cpu_s']:>6.1f} s{row['memory_bytes'] / 2**20:>6.0f}MiB"
            f"   {case.overhead:.1%}, {case.gap:.1%}: {verdict(row)}",
            flush=True,
        )


def print_tight(rows: Rows) -> None:
    """Rows of `TIGHT`, with the usual work."""
    print(
        "\nIn little RAM on nrf52840: energy, as a multiple of computing each node once, that of\n"
        "the best published method, and that of a search with ten times the work."
    )
    print(
        f"{'model':<22}{'nodes':>6}{'RAM':>12}{'energy':>9}{'gap':>8}{'CPU':>8}"
        f"{'methods':>9}{'long run':>9}   best method, target"
    )
    for case in TIGHT[:1] if rows.quick else TIGHT:
        row = rows.measured("tight", case.name, run_tight, case, rows.work)
        if row is None:
            continue
        gap = "-" if row["gap"] is None else f"{row['gap']:.1%}"
        shown = ["-" if row[key] is None else f"{row[key]:.3f}" for key in TIMES]
        goal = "" if row["most"] is None else f", at most {row['most']:g}"
        print(
            f"{case.model + f', batch {case.batch}':<22}{row['nodes']:>6}{row['ram_bytes']:>10,} B"
            f"{shown[0]:>9}{gap:>8}{row['cpu_s']:>6.0f} s{shown[1]:>9}{shown[2]:>9}"
            f"   {row['method'] or '-'}{goal}: {verdict(row)}",
            flush=True,
        )


def record_long_runs(prefixes: tuple[str, ...]) -> None:
    """Search rows of `TIGHT` with ten times the work, and record what is better than known."""
    for case in TIGHT:
        if case.name.startswith(prefixes):
            row = apart(run_tight, case, LONG_RUN_WORK, ())
            print(case.name, row["times"], f"{row['cpu_s']:.0f} s", flush=True)
            if row["times"] is not None:
                write_known({case.name: (row["times"], row["work"])})


def within(comparison: Comparison, budget_bytes: int) -> ScheduleProblem:
    """The problem of training alone within a budget, of which resident bytes are a part."""
    problem = comparison.training.problem
    return replace(problem, ram_bytes=budget_bytes - problem.resident_bytes)


def found(
    comparison: Comparison,
    budget_bytes: int,
    scheduler: str,
    work_limit: float = WORK_LIMIT,
    deadline_s: float | None = None,
) -> Schedule | None:
    """A schedule within a budget in bytes; None without one."""
    problem = replace(within(comparison, budget_bytes), deadline_s=deadline_s)
    try:
        return solve(problem, scheduler, work=Work(work_limit))
    except (UnsuitableError, InfeasibleError):
        return None


def table_3(fraction: float, work_limit: float) -> dict[str, Any]:
    """ResNet-18 on TX2: POFO at a budget, and POET in the published share of POFO's memory.

    POET minimises energy; that it takes no longer than POFO is its deadline, where that is found.
    """
    published = read_published("poet_2022")["table3"]
    share = published["poet"]["memory_kb"] / published["pofo"]["memory_kb"]
    comparison = Comparison.of(Task("tx2", "resnet18"))
    pofo = found(comparison, comparison.training.budget_bytes(fraction), "pofo")
    if pofo is None:
        return {"ram_fraction": fraction, "pofo": None, "poet": None}
    budget_bytes = comparison.training.problem.resident_bytes + int(share * pofo.peak_bytes)
    poet = found(comparison, budget_bytes, "poet", work_limit, pofo.time_s)
    in_time = poet is not None
    if poet is None:
        poet = found(comparison, budget_bytes, "poet", work_limit)
    return {
        "ram_fraction": fraction,
        "pofo": figures(pofo),
        "poet": figures(poet),
        "in_time": in_time,
    }


def figures(schedule: Schedule | None) -> dict[str, float] | None:
    if schedule is None:
        return None
    names = ("peak_bytes", "time_s", "energy_j")
    return {name: getattr(schedule, name) for name in names}


def print_table_3(rows: Rows) -> None:
    published = read_published("poet_2022")["table3"]
    poet, pofo = published["poet"], published["pofo"]
    memory = poet["memory_kb"] / pofo["memory_kb"]
    print("\nTable 3: a training step of ResNet-18 on TX2, batch 1; POET in that share of memory.")
    print(f"{'':<26}{'POET':>24}{'POFO':>24}{'memory':>9}{'time':>8}{'energy':>8}")
    print(
        f"{'published, measured':<26}{poet['memory_kb']:>13,} kB{poet['runtime_ms']:>5.0f} ms"
        f"{pofo['memory_kb']:>13,} kB{pofo['runtime_ms']:>5.0f} ms"
        f"{memory:>9.3f}{poet['runtime_ms'] / pofo['runtime_ms']:>8.3f}{'-':>8}"
    )
    for fraction in (0.5,) if rows.quick else (0.4, 0.5, 0.6, 0.7):
        row = rows.measured(
            "table_3", str(fraction), table_3, fraction, 8.0 if rows.quick else 20.0
        )
        if row is None:
            continue
        label = f"ours, analytic, at {row['ram_fraction']:.0%}"
        theirs, ours = row["pofo"], row["poet"]
        if theirs is None or ours is None:
            who = "POFO" if theirs is None else "POET"
            print(f"{label:<26}no plan of {who} within the budget")
            continue
        label += "" if row["in_time"] else " *"
        ratios = [ours[key] / theirs[key] for key in ("peak_bytes", "time_s", "energy_j")]
        print(
            f"{label:<26}{ours['peak_bytes'] / 1024:>13,.0f} kB{1e3 * ours['time_s']:>5.0f} ms"
            f"{theirs['peak_bytes'] / 1024:>13,.0f} kB{1e3 * theirs['time_s']:>5.0f} ms"
            f"{ratios[0]:>9.3f}{ratios[1]:>8.3f}{ratios[2]:>8.3f}",
            flush=True,
        )
    print("  * No plan in POFO's time was found in that budget; this one had no deadline.")
    print("  Published memory is all that the process has; ours are the tensors of the step.")


def figure_5(quick: bool, model_as: str) -> dict[str, Any]:
    """ResNet-18 on a Cortex-A72: Capuchin and POET at falling budgets."""
    comparison = Comparison.of(Task("rpi4", "resnet18", 1, model_as))
    fractions = (0.4, 0.7) if quick else (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    work_limit = 6.0 if quick else 10.0
    cells = list(comparison.cells(fractions, ("capuchin", "poet"), SolveOptions(), work_limit))
    return {"cells": [cell.to_json() for cell in settle(cells)]}


def print_figure_5(rows: Rows) -> None:
    published = read_published("poet_2022")["figures"]
    low, high = published["fig5_resnet18_a72_capuchin_energy_overhead"]
    ours = published["fig5_resnet18_a72_poet_energy_overhead_max"]
    print("\nFigure 5: ResNet-18 on rpi4, batch 1: energy over that of checkpoint-all.")
    print(f"{'':<26}{'Capuchin':>16}{'POET':>12}")
    print(f"{'published, measured':<26}{f'{low:.0%} to {high:.0%}':>16}{f'up to {ours:.0%}':>12}")
    for model_as in ("device", "poet"):
        row = rows.measured("figure_5", model_as, figure_5, rows.quick, model_as)
        if row is None:
            continue
        overheads: dict[float, dict[str, float | None]] = {}
        for cell in row["cells"]:
            overheads.setdefault(cell["ram_fraction"], {})[cell["scheduler"]] = cell["overhead"]
        for fraction in sorted(overheads, reverse=True):
            both = [overheads[fraction][name] for name in ("capuchin", "poet")]
            shown = ["-" if value is None else f"{value:.3%}" for value in both]
            label = f"analytic, as {model_as}, {fraction:.0%}"
            print(f"{label:<26}{shown[0]:>16}{shown[1]:>12}", flush=True)
    print(
        "  By POET's own chip table paging every tensor once takes a few percent: the published\n"
        "  Capuchin spends its energy on something else. See docs/comparing.md."
    )


GROUPS: Mapping[str, Callable[[Rows], None]] = {
    "certified": print_certified,
    "growth": print_growth,
    "tight": print_tight,
    "table_3": print_table_3,
    "figure_5": print_figure_5,
}
"""Groups of rows by name; each measures and prints its own."""


BEFORE = {
    "lstm/16/90000": 13.8,
    "lstm/16/90000/work-6": 69.0,
    "lstm/16/70000": 19.2,
    "lstm/16/60000": 21.4,
    "gpt-40/0.3": 17.87,
    "gpt-40/0.5": 13.05,
    "gpt-800/0.3": 18.0,
    "mobilenetv2/1/poet-m4f/0.4": 3.453,
    "bert-base/1/poet-m4f/0.3": 3.269,
}
"""Figures before searches began on demand and over the turn; units as in `AFTER`."""

AFTER: Mapping[str, Callable[[dict[str, Any]], float]] = {
    "certified": lambda row: row["objective"] - 100,
    "growth": lambda row: 100 * row["found"],
    "tight": lambda row: row["times"] or math.inf,
}
"""The figure of a row: percent of overhead, or a multiple of computing each node once."""


def print_changes(rows: Rows) -> None:
    """Print rows of `BEFORE` beside what they are now."""
    print(f"\n{'network, budget':<30}{'before':>10}{'now':>10}")
    for group, after in AFTER.items():
        unit = " x" if group == "tight" else "%"
        for name, row in rows.done.get(group, {}).items():
            if name in BEFORE:
                print(f"{name:<30}{BEFORE[name]:>8.3f}{unit:<2}{after(row):>8.3f}{unit:<2}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="about 2 minutes")
    parser.add_argument("--only", choices=GROUPS, nargs="+", help="only these groups of rows")
    parser.add_argument("--long", action="store_true", help='record long searches of "tight"')
    parser.add_argument(
        "--rows", metavar="NAME", nargs="+", default=[""], help="only rows whose names begin so"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every figure here, and continue from it"
    )
    parser.add_argument("--without", choices=METHODS, nargs="+", default=[], help="leave these out")
    parser.add_argument("--work", type=float, metavar="UNITS", help="of each search")
    options = parser.parse_args(arguments)
    if options.json is not None and (options.without or options.work):
        parser.error("--json is for rows of whole searches with the usual work")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    began_s = time.perf_counter()
    if options.long:
        record_long_runs(tuple(options.rows))
        return 0
    rows = Rows(
        options.quick,
        tuple(options.rows),
        file=options.json,
        without=tuple(options.without),
        work=options.work,
    )
    if options.json is not None and options.json.exists():
        rows.done = json.loads(options.json.read_text())
        rows.done.pop("costs", None)
        known = sum(map(len, rows.done.values()))
        print(f"{known} rows are from {options.json}: delete it to measure them again.\n")
    for name in options.only or GROUPS:
        GROUPS[name](rows)
    print_changes(rows)
    rows.print_verdicts()
    print(f"\nAll costs are analytic. {time.perf_counter() - began_s:.0f} s in all.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
