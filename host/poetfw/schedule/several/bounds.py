# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of plans for several devices under memory limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from poetfw.common.limits import OutOfTime, Work
from poetfw.schedule.blocks import cost_blocks
from poetfw.schedule.cuts.cut import Cut
from poetfw.schedule.cuts.lineage import separate_lineages
from poetfw.schedule.cuts.relaxation import Relaxation, Relaxed
from poetfw.schedule.cuts.rounding import Rounding
from poetfw.schedule.cuts.rounds import Rounds, tighten
from poetfw.schedule.fixing import cut_off, fix_by_reduced_costs
from poetfw.schedule.highs import SolveOutcome, Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolverOptions, solve_program
from poetfw.schedule.several.baselines import PlacementProgram, formulate_placement
from poetfw.schedule.several.blocks import DevicesBlocks, RuledOut, formulate_devices_blocks
from poetfw.schedule.several.problem import DevicesProblem, Minimise

_CUTS_SHARE = 0.4  # of the work left, for few and for many blocks; an integer program gets the rest
_LEAST_VIOLATION = 1e-3
_EACH = 12  # most lineages for one target in one round
_LINEAGES, _ROUNDED = 300, 200  # cuts of each family in one round: the most violated ones
_LEAST_SIZE = 0.03  # of the budget: smallest divisor of rounding cuts
_TOLERANCE = 1e-9  # relative: costs are sums of the same numbers in different orders
_SEPARATION_WORK = 2e-6  # work units per pair of block and node
_ROUND_WORK = 1e-10  # work units per squared nonzero, to restart from a basis with new rows


@dataclass(frozen=True, slots=True)
class Bounded:
    """Result of the block relaxation.

    Attributes:
        bound: lower bound on all plans in stages; infinite if there are none.
        place: per node, the device that computes it first in the best solution; None without one.
    """

    bound: float
    place: tuple[int, ...] | None


def bound_by_blocks(
    problem: DevicesProblem, minimise: Minimise, known: float, options: SolverOptions, work: Work
) -> Bounded:
    """Solve the block relaxation with cuts, until the work limit.

    Args:
        problem: valid.
        minimise: the objective.
        known: cost of the incumbent; infinite without one.
        options: options of the solver.
        work: work limit.
    """
    placement = formulate_placement(problem, minimise)
    relaxed = Relaxation(placement.program).solve(work)
    bound = min(relaxed.bound, known)
    if bound == known or not work.is_left():
        return Bounded(bound, None)
    ruled_out = rule_out(placement, relaxed, known)
    priced = Indexed.of(problem.priced(problem.devices[0], minimise))
    strengthened: list[tuple[float, DevicesBlocks]] = []
    for ranges in (_turn_blocks(priced), cost_blocks(priced)):
        try:
            blocks = formulate_devices_blocks(problem, minimise, ranges, ruled_out, work.deadline)
        except OutOfTime:
            break
        cutting = work.part(work.left * _CUTS_SHARE)
        proven = _strengthen(blocks, problem, known, cutting)
        if proven >= known:
            return Bounded(known, None)
        strengthened.append((proven, blocks))
    if not strengthened:
        return Bounded(bound, None)
    proven, blocks = max(strengthened, key=lambda pair: pair[0])
    solution = solve_program(blocks.program, options, work)
    if solution.outcome is SolveOutcome.INFEASIBLE:
        return Bounded(known, None)
    bound = min(known, max(bound, proven, solution.bound))
    return Bounded(bound, None if solution.values is None else blocks.place(solution.values))


def _turn_blocks(graph: Indexed) -> tuple[range, ...]:
    """Six blocks: the forward and the backward pass in three thirds each.

    Branch and bound gets far in so small a program. That of many blocks ends with its relaxation.
    """
    nodes = graph.problem.nodes
    turn = next((t for t, node in enumerate(nodes) if node.backward), graph.n)
    thirds = (
        begin + (end - begin) * k // 3
        for begin, end in ((0, turn), (turn, graph.n))
        for k in range(3)
    )
    starts = sorted({*thirds, graph.n})
    return tuple(range(start, stop) for start, stop in pairwise(starts))


def rule_out(
    placement: PlacementProgram,
    relaxed: Relaxed,
    known: float,
) -> RuledOut:
    """Rule out values that no plan cheaper than the incumbent has.

    A plan's computations and copies, each counted once, form a solution of the placement;
    recomputations add to its cost. So a value is ruled out if it raises the placement's bound above
    the incumbent, and a recomputation if it costs more than the difference and no other device can
    do it.

    Args:
        placement: program of the best placement.
        relaxed: solution of that program's relaxation.
        known: cost of the incumbent; infinite without one.
    """
    spare = known - relaxed.bound + _TOLERANCE * abs(relaxed.bound)
    costs = relaxed.reduced_costs
    computed = frozenset(key for key, x in placement.runs.items() if costs[x] > spare)
    left = [key for key in placement.runs if key not in computed]
    devices_of = {i: sum(1 for _, k in left if k == i) for _, i in left}
    return RuledOut(
        computed,
        frozenset(
            (d, i)
            for d, i in left
            if devices_of[i] == 1 and placement.program.costs[placement.runs[d, i]] > spare
        ),
        frozenset(key for key, x in placement.copies.items() if costs[x] > spare),
    )


def _strengthen(blocks: DevicesBlocks, problem: DevicesProblem, known: float, work: Work) -> float:
    """Add cuts and fix columns by reduced cost; return the lower bound."""
    roundings = [
        Rounding.of(Indexed.of(device.problem), _LEAST_SIZE, _LEAST_VIOLATION)
        for device in problem.devices
    ]
    residency = blocks.residency

    def separate(values: Vector) -> list[Cut]:
        work.spend(_SEPARATION_WORK * residency.periods * blocks.graph.n)
        work.spend(_ROUND_WORK * blocks.program.nonzeros**2)
        lineages = (
            [] if blocks.page_in else separate_lineages(residency, values, _LEAST_VIOLATION, _EACH)
        )
        lineages.sort(key=lambda lineage: -lineage.violation)
        rounded = [
            cut
            for d, items in blocks.knapsacks
            for cut in (roundings[d].cut(values, items),)
            if cut is not None
        ]
        rounded.sort(key=lambda cut: -cut.violation(values))
        return [x.cut(residency) for x in lineages[:_LINEAGES]] + rounded[:_ROUNDED]

    relaxed = tighten(Relaxation(blocks.program), separate, Rounds(enough=known), work)
    for cut in relaxed.cuts:
        blocks.program.at_most([(x, -a) for x, a in cut.terms], -cut.bound)
    fix_by_reduced_costs(blocks.program, relaxed, known)
    if math.isfinite(known):
        cut_off(blocks.program, known)
    return relaxed.bound
