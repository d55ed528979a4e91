# SPDX-License-Identifier: Apache-2.0
"""Cuts cut off fractions only, and relaxations are never above what they relax."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from brute_force import Order, best_plan
from random_graphs import CHECKED, GRAPHS, about, chunks, random_graph

from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Work
from poetfw.schedule import ExecutionPlan, ScheduleProblem
from poetfw.schedule.baselines.registry import BASELINES
from poetfw.schedule.blocks import BlockRelaxation, formulate_blocks
from poetfw.schedule.coefficients import BudgetUnits
from poetfw.schedule.compact import Compact, formulate
from poetfw.schedule.contract import Contraction
from poetfw.schedule.cuts.cut import Cut, Residency
from poetfw.schedule.cuts.lineage import Lineage, separate_lineages
from poetfw.schedule.cuts.narrow import Narrow
from poetfw.schedule.cuts.relaxation import Relaxation
from poetfw.schedule.cuts.rounding import Rounding
from poetfw.schedule.cuts.rounds import Rounds, tighten
from poetfw.schedule.cuts.slots import separate_slots
from poetfw.schedule.fixing import cut_off, fix_by_reduced_costs, without_what_costs_more
from poetfw.schedule.highs import SolveOutcome, Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, SolverOptions, solve_program
from poetfw.schedule.moments import Moments, Precedence
from poetfw.schedule.sequences import Workload
from poetfw.schedule.simulator import accepts
from poetfw.schedule.strengthen import hold, strengthen

EXACT = SolverOptions(gap=0.0)
ENOUGH = 120.0
LEAST = 1e-4  # cuts that are violated by less are not worth a test
ROUNDS = Rounds(most=12, stalled_share=0.0)
Record = Callable[[str, object], None]


class Separated:
    """A program of a problem, the cuts that rounds of separation found, and solutions of it."""

    def __init__(
        self,
        problem: ScheduleProblem,
        **how: object,
    ):
        self.problem = problem
        self.graph = Indexed.of(problem)
        self.compact = formulate(self.graph, **how)  # type: ignore[arg-type]
        self.residency = Residency.of(self.graph, self.compact)
        self.lineages: list[Lineage] = []
        self.slots: list[Cut] = []
        self.relaxation = Relaxation(self.compact.program)
        self.bound = tighten(self.relaxation, self.separate, ROUNDS, Work(ENOUGH)).bound

    def separate(self, values: Vector) -> list[Cut]:
        lineages = separate_lineages(self.residency, values, LEAST, each=3)
        rounding = Rounding.of(self.graph, 0.0, LEAST)
        slots = separate_slots(self.residency, values, rounding)
        cuts = [lineage.cut(self.residency) for lineage in lineages]
        for lineage, cut in zip(lineages, cuts, strict=True):
            assert cut.violation(values) == pytest.approx(lineage.violation, abs=1e-6)
        assert all(cut.violation(values) > 0.5 * LEAST for cut in cuts + slots)
        self.lineages += lineages
        self.slots += slots
        return cuts + slots

    @property
    def cuts(self) -> list[Cut]:
        return [lineage.cut(self.residency) for lineage in self.lineages] + self.slots

    def solutions(self, rng: random.Random) -> Iterator[Vector]:
        """Solutions of the program: the best, two at random corners, and all known plans."""
        for costs in (
            None,
            *(rng.choices((-3, -1, 0, 1, 4), k=self.program.columns) for _ in "12"),
        ):
            solution = least(self.program, costs)
            if solution is not None:
                yield solution
        for plan in known_plans(self.problem):
            staged = Contraction.nothing(self.problem).contract(plan)
            if accepts(self.problem, staged):
                start = self.compact.start(self.graph, staged)
                if start is not None:
                    yield start

    @property
    def program(self) -> IntegerProgram:
        return self.compact.program


def known_plans(problem: ScheduleProblem) -> Iterator[ExecutionPlan]:
    """The best plan of all, where that can be found, and those of the published methods."""
    overlap = problem.storage is not None and problem.storage.overlap
    if len(problem.nodes) <= 7 and not (overlap and problem.deadline_s):
        best = best_plan(problem, Order.STAGES)
        if best is not None:
            yield best.plan
    for baseline in BASELINES.values():
        try:
            yield baseline.plan(problem)
        except UnsuitableError:
            continue


def least(program: IntegerProgram, costs: Sequence[float] | None = None) -> Vector | None:
    """A solution of the least objective, or of other costs; None if there is no solution."""
    program = program if costs is None else replace(program, costs=list(costs), offset=0.0)
    solution = solve_program(program, EXACT, Work(ENOUGH))
    assert solution.outcome in (SolveOutcome.OPTIMAL, SolveOutcome.INFEASIBLE)
    return solution.values


def objective(program: IntegerProgram, values: Vector | None) -> float | None:
    return None if values is None else program.offset + float(np.dot(program.costs, values))


def with_cuts(program: IntegerProgram, cuts: Sequence[Cut]) -> IntegerProgram:
    """A copy of a program, and cuts as rows of it."""
    copy = IntegerProgram(program.offset, program.tolerance, [*program.costs], [*program.upper])
    copy.integer = [*program.integer]
    matrix, low, high = program.matrix()
    for r in range(len(low)):
        span = slice(matrix.indptr[r], matrix.indptr[r + 1])
        terms = list(zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True))
        (copy.equal if low[r] == high[r] else copy.at_most)(terms, high[r])
    for cut in cuts:
        copy.at_most([(x, -a) for x, a in cut.terms], -cut.bound)
    return copy


def most_violated(program: IntegerProgram, cut: Cut) -> float:
    """By how much a solution of a program can violate a cut at most; negative if none does."""
    costs = [0.0] * program.columns
    for x, a in cut.terms:
        costs[x] = a
    values = least(program, costs)
    return -np.inf if values is None else cut.violation(values)


def problem_of(number: int) -> tuple[ScheduleProblem, dict[str, object]]:
    """A random problem, and how to write it down: every fourth with a window and closed stages."""
    how: dict[str, object] = {"close_stages": True, "window": 3} if number % 4 == 2 else {}
    return random_graph(number), how


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:2_000], 8))
def test_no_solution_violates_a_cut(numbers: range, record_property: Record) -> None:
    found = [0, 0]
    for number in numbers:
        problem, how = problem_of(number)
        rng = random.Random(number)
        with about(problem):
            separated = Separated(problem, **how)
            if not separated.program.columns:
                continue
            found[0] += len(separated.lineages)
            found[1] += len(separated.slots)
            for solution in separated.solutions(rng):
                for cut in separated.cuts:
                    assert cut.violation(solution) <= 1e-6, cut
            best = objective(separated.program, least(separated.program))
            cut_down = with_cuts(separated.program, separated.cuts)
            assert objective(cut_down, least(cut_down)) == pytest.approx(best)
            assert best is None or separated.bound <= best + 1e-6 * abs(best)
            for cuts in (separated.cuts[: len(separated.lineages)], separated.slots):
                for cut in rng.sample(cuts, min(2, len(cuts))):
                    assert most_violated(separated.program, cut) <= 1e-6, cut
    assert all(found)
    record_property(CHECKED, list(numbers))
    record_property("lineage cuts", found[0])
    record_property("slot cuts", found[1])


@pytest.mark.parametrize("numbers", chunks(GRAPHS[7_100:8_300], 8))
def test_outlines_and_what_they_use_take_no_plan_away(
    numbers: range, record_property: Record
) -> None:
    found = smaller = 0
    for number in numbers:
        problem, how = problem_of(number)
        rng = random.Random(number)
        with about(problem):
            separated = Separated(problem, **how)
            outline = formulate(separated.graph, outline=True, **how)  # type: ignore[arg-type]
            columns = outline.program.columns
            if not columns:
                continue
            for kind in ("stay", "recompute", "page_in", "page_out"):
                assert getattr(outline, kind) == getattr(separated.compact, kind)
            relaxed = strengthen(separated.graph, outline, np.inf, Work(ENOUGH))
            found += len(relaxed.cuts)
            matrix, low, high = outline.program.matrix()
            for solution in separated.solutions(rng):
                rows = matrix @ solution[:columns]
                assert (rows >= low - 1e-6).all()
                assert (rows <= high + 1e-6).all()
                assert all(cut.violation(solution) <= 1e-6 for cut in relaxed.cuts)
            values = least(separated.program)
            best = objective(separated.program, values)
            if best is None or values is None:
                continue
            assert relaxed.bound <= best + 1e-6 * abs(best)
            # With what one plan produces, there is this plan still.
            known = separated.compact.stages(values)
            few = formulate(separated.graph, at_most=known, **how)  # type: ignore[arg-type]
            smaller += few.program.columns < separated.program.columns
            hold(few.program, Narrow.of(few, outline).relaxed(relaxed), best * (1 + 1e-3))
            if few.program.columns:
                assert objective(few.program, least(few.program)) == pytest.approx(best)
    assert found
    assert smaller
    record_property(CHECKED, list(numbers))
    record_property("cuts of outlines", found)


def with_free_stages(relaxed: Compact, compact: Compact, values: Vector) -> Vector:
    """A solution of the compact program in the columns S, R, P and O of one with free stages."""
    solution = np.zeros(relaxed.program.columns)
    for of_relaxed, of_compact in (
        (relaxed.recompute, compact.recompute),
        (relaxed.page_in, compact.page_in),
        (relaxed.page_out, compact.page_out),
    ):
        for key, x in of_relaxed.items():
            solution[x] = values[of_compact[key]]
    for (t, i), x in relaxed.stay.items():
        stays = compact.stay.get((max(t, relaxed.first), i) if i < relaxed.first else (t, i))
        solution[x] = 0.0 if stays is None else values[stays]
    return solution


def translated_cuts(separated: Separated, rng: random.Random) -> list[Cut]:
    """Cuts that random blocks of a problem give to the program of its stages."""
    blocks = formulate_blocks(separated.graph, random_blocks(separated.graph.n, rng))
    if not blocks.program.columns:
        return []
    lineages, _ = separated_in_periods(blocks)
    residency = separated.residency
    return [x.cut(residency) for of in lineages for x in blocks.in_stages(of, residency)]


@pytest.mark.parametrize("numbers", chunks(GRAPHS[5_600:7_100], 4))
def test_free_stages_give_cuts_that_hold(numbers: range, record_property: Record) -> None:
    found = nearby = 0
    for number in numbers:
        problem, rng = random_graph(number), random.Random(number)
        first = rng.randrange(len(problem.nodes))
        with about(problem):
            separated, free = Separated(problem), Separated(problem, first=first)
            if not free.program.columns:
                continue
            best = objective(separated.program, least(separated.program))
            relaxed = objective(free.program, least(free.program))
            assert best is None or (relaxed is not None and relaxed <= best + 1e-6 * best)
            cuts = [*free.cuts, *translated_cuts(free, rng)]
            for solution in separated.solutions(rng):
                mapped = with_free_stages(free.compact, separated.compact, solution)
                for cut in cuts:
                    assert cut.violation(mapped) <= 1e-6, cut
            found += len(cuts)
            rows = free.program.rows
            outline = formulate(free.graph, first=first, outline=True)
            strengthened = strengthen(free.graph, outline, np.inf, Work(ENOUGH))
            bound = strengthened.bound
            hold(free.program, strengthened, np.inf)
            nearby += free.program.rows - rows
            assert objective(free.program, least(free.program)) == pytest.approx(relaxed)
            assert relaxed is None or bound <= relaxed + 1e-6 * abs(relaxed)
    assert found
    assert nearby
    record_property(CHECKED, list(numbers))
    record_property("cuts", found)


def random_blocks(stages: int, rng: random.Random) -> list[range]:
    starts = [0, *(t for t in range(1, stages) if rng.random() < 0.6)]
    return [range(a, b) for a, b in zip(starts, [*starts[1:], stages], strict=True)]


def in_blocks(blocks: BlockRelaxation, compact: Compact, values: Vector) -> Vector:
    """A solution of the compact program as one of blocks, as its module says."""
    solution = np.zeros(blocks.program.columns)

    def stays(t: int, i: int) -> bool:
        return (t, i) in compact.stay and values[compact.stay[t, i]] > 0.5

    for of_blocks, of_stages in (
        (blocks.recompute, compact.recompute),
        (blocks.page_in, compact.page_in),
        (blocks.page_out, compact.page_out),
    ):
        for (t, i), x in of_stages.items():
            if values[x] > 0.5:
                b = next(b for b, stages in enumerate(blocks.blocks) if t in stages)
                solution[of_blocks[b, i]] = 1.0
    for (b, i), x in blocks.stay.items():
        solution[x] = stays(blocks.blocks[b].start, i)
    for (b, i), x in blocks.keep.items():
        stages = blocks.blocks[b]
        kept = all(stays(t, i) for t in range(max(stages.start, i + 1), stages.stop + 1))
        if x not in blocks.stay.values():
            solution[x] = kept
        else:
            assert solution[x] == kept
    unit = BudgetUnits.of(blocks.graph, blocks.graph.problem.ram_bytes).unit_bytes
    for b, x in blocks.kept.items():
        kept_before = [i for c, i in blocks.keep if c == b and i < blocks.blocks[b].start]
        solution[x] = sum(
            solution[blocks.keep[b, i]] * blocks.graph.size[i] / unit for i in kept_before
        )
    return solution


@pytest.mark.parametrize("numbers", chunks(GRAPHS[2_000:3_500], 8))
def test_blocks_are_never_above_what_they_relax(numbers: range, record_property: Record) -> None:
    found, translated = [0, 0], 0
    for number in numbers:
        problem, rng = random_graph(number), random.Random(number)
        with about(problem):
            separated = Separated(problem)
            blocks = formulate_blocks(separated.graph, random_blocks(separated.graph.n, rng))
            if not blocks.program.columns:
                continue
            lineages, knapsacks = separated_in_periods(blocks)
            cuts = [lineage.cut(blocks.residency) for lineage in lineages] + knapsacks
            found[0] += len(lineages)
            found[1] += len(knapsacks)
            matrix, low, high = blocks.program.matrix()
            for solution in separated.solutions(rng):
                mapped = in_blocks(blocks, separated.compact, solution)
                rows = matrix @ mapped
                assert (rows >= low - 1e-6).all()
                assert (rows <= high + 1e-6).all()
                assert all(cut.violation(mapped) <= 1e-6 for cut in cuts)
                energy = objective(separated.program, solution)
                assert objective(blocks.program, mapped) <= energy + 1e-6  # type: ignore[operator]
            cut_down = with_cuts(blocks.program, cuts)
            best = objective(separated.program, least(separated.program))
            bound = objective(cut_down, least(cut_down))
            assert best is None or (bound is not None and bound <= best + 1e-6)
            for lineage in rng.sample(lineages, min(2, len(lineages))):
                for of_stages in blocks.in_stages(lineage, separated.residency):
                    cut = of_stages.cut(separated.residency)
                    assert most_violated(separated.program, cut) <= 1e-6, cut
                    translated += 1
    assert any(found)
    assert translated or not found[0]
    record_property(CHECKED, list(numbers))


@pytest.mark.slow
def test_blocks_of_one_stage_lose_little() -> None:
    equal = []
    for number in GRAPHS[2_000:2_060]:
        graph = Indexed.of(random_graph(number))
        program = formulate(graph).program
        stages = [range(t, t + 1) for t in range(graph.n)]
        best = objective(program, least(program)) if program.columns else None
        if best is not None:
            relaxed = formulate_blocks(graph, stages).program
            equal.append(objective(relaxed, least(relaxed)) == pytest.approx(best))
    assert len(equal) > 50
    assert sum(equal) > 0.95 * len(equal)


def separated_in_periods(blocks: BlockRelaxation | Moments) -> tuple[list[Lineage], list[Cut]]:
    """The cuts that rounds of separation find: lineages, and of knapsacks."""
    residency = blocks.residency
    rounding = Rounding.of(blocks.graph, 0.0, LEAST)
    found: list[Lineage] = []
    knapsacks: list[Cut] = []

    def separate(values: Vector) -> list[Cut]:
        lineages = separate_lineages(residency, values, LEAST)
        of_memory = rounding.cuts(values, blocks.knapsacks)
        found.extend(lineages)
        knapsacks.extend(of_memory)
        return [lineage.cut(residency) for lineage in lineages] + of_memory

    tighten(Relaxation(blocks.program), separate, ROUNDS, Work(ENOUGH))
    return found, knapsacks


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:1_500], 50))
def test_no_choice_at_moments_violates_a_cut(numbers: range, record_property: Record) -> None:
    """Moments at random nodes of a path: every integral solution of the program meets the cuts."""
    found = [0, 0]
    for number in numbers:
        problem, rng = random_graph(number), random.Random(number)
        with about(problem):
            precedence = Precedence(Workload(Indexed.of(problem)))
            moments = precedence.moments(random_chain(precedence, rng))
            if not moments.program.columns:
                continue
            lineages, knapsacks = separated_in_periods(moments)
            found[0] += len(lineages)
            found[1] += len(knapsacks)
            cuts = [lineage.cut(moments.residency) for lineage in lineages] + knapsacks
            assert all(most_violated(moments.program, cut) <= 1e-6 for cut in cuts)
    record_property(CHECKED, [*numbers])
    assert min(found) > 0


def random_chain(precedence: Precedence, rng: random.Random) -> list[int]:
    """Some nodes of a random path, at least one."""
    path = [rng.randrange(precedence.workload.n)]
    while before := precedence.before[path[0]]:
        path.insert(0, rng.choice(before))
    while after := precedence.after[path[-1]]:
        path.append(rng.choice(after))
    return [i for i in path if rng.random() < 0.7] or path[:1]


@pytest.mark.parametrize("numbers", chunks(GRAPHS[3_500:5_000], 8))
def test_better_plans_survive_a_known_one(numbers: range, record_property: Record) -> None:
    fixed = 0
    for number in numbers:
        problem = random_graph(number)
        with about(problem):
            separated = Separated(problem)
            best = objective(separated.program, least(separated.program))
            if best is None:
                continue
            known = best * (1 + 1e-3)
            few = Separated(without_what_costs_more(problem, known))
            relaxed = few.relaxation.solve(Work(ENOUGH))
            fixed += fix_by_reduced_costs(few.program, relaxed, known)
            cut_off(few.program, known)
            assert objective(few.program, least(few.program)) == pytest.approx(best)
    assert fixed
    record_property(CHECKED, list(numbers))


@pytest.mark.parametrize("numbers", chunks(GRAPHS[5_000:5_600], 8))
def test_a_bound_holds_however_early_the_solver_stops(
    numbers: range, record_property: Record
) -> None:
    stopped = 0
    for number in numbers:
        problem = random_graph(number)
        with about(problem):
            program = formulate(Indexed.of(problem)).program
            values = least(program)
            if not program.columns or values is None:
                continue
            best = objective(program, values)
            relaxation = Relaxation(program)
            units = 2e-9 * program.nonzeros  # two iterations
            early = [relaxation.solve(Work(units)) for _ in range(8)]
            stopped += early[0].values is None
            relaxed = relaxation.solve(Work(ENOUGH))
            assert relaxed.values is not None
            for bound in (x.bound for x in (*early, relaxed)):
                assert bound <= best + 1e-6  # type: ignore[operator]
    assert stopped
    record_property(CHECKED, list(numbers))
