# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of plans for several devices whose memory has limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

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

_CUTS_SHARE = 0.4  # of the work; the rest is for the integer program
_LEAST_VIOLATION = 1e-3
_EACH = 12  # lineages at most for one target in one round
_LINEAGES, _ROUNDED = 300, 200  # cuts of each family in one round: the most violated ones
_LEAST_SIZE = 0.03  # of the budget: sizes by which cuts are rounded
_TOLERANCE = 1e-9  # relative: costs are sums of the same numbers in different orders
_SEPARATION_WORK = 2e-6  # units for each pair of a block and a node
_ROUND_WORK = 1e-10  # units for each squared nonzero, to begin from a basis that has new rows


@dataclass(frozen=True, slots=True)
class Bounded:
    """The result of the relaxation by blocks.

    Attributes:
        bound: no plan in stages takes less; infinite if there is none.
        place: per node, the device that computes it first in the best solution; None without one.
    """

    bound: float
    place: tuple[int, ...] | None


def bound_by_blocks(
    problem: DevicesProblem, minimise: Minimise, known: float, options: SolverOptions, work: Work
) -> Bounded:
    """Solve the relaxation by blocks, with cuts, as far as the work goes.

    Args:
        problem: valid.
        minimise: what to.
        known: what the best known plan takes; infinite without one.
        options: how to solve programs.
        work: what may be done.
    """
    placement = formulate_placement(problem, minimise)
    relaxed = Relaxation(placement.program).solve(work)
    bound = min(relaxed.bound, known)
    if bound == known or not work.is_left():
        return Bounded(bound, None)
    ruled_out = rule_out(placement, relaxed, known)
    priced = Indexed.of(problem.priced(problem.devices[0], minimise))
    try:
        blocks = formulate_devices_blocks(
            problem, minimise, cost_blocks(priced), ruled_out, work.deadline
        )
    except OutOfTime:
        return Bounded(bound, None)
    bound = max(bound, _strengthen(blocks, problem, known, work.part(work.left * _CUTS_SHARE)))
    if bound >= known:
        return Bounded(known, None)
    solution = solve_program(blocks.program, options, work)
    if solution.outcome is SolveOutcome.INFEASIBLE:
        return Bounded(known, None)
    bound = min(known, max(bound, solution.bound))
    return Bounded(bound, None if solution.values is None else blocks.place(solution.values))


def rule_out(
    placement: PlacementProgram,
    relaxed: Relaxed,
    known: float,
) -> RuledOut:
    """Rule out values of plans that take less than a known one.

    A plan's computations and copies, each counted once however often it does them, are a solution
    of the placement, and what it does again comes on top. So what raises the placement's bound
    above the known plan is not done, and neither is again what costs more than the difference and
    no other device does.

    Args:
        placement: the program of the best placement.
        relaxed: what that program's relaxation says.
        known: what the known plan takes; infinite without one.
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
    """Add cuts, and fix what no plan better than a known one does; what none takes less than."""
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
