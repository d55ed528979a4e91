# SPDX-License-Identifier: Apache-2.0
"""Programs strengthened by cuts, and by the incumbent's energy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from poetfw.common.limits import Work
from poetfw.schedule.compact import Compact
from poetfw.schedule.cuts.cut import Cut, Residency
from poetfw.schedule.cuts.lineage import Lineage, separate_lineages
from poetfw.schedule.cuts.relaxation import Relaxation, Relaxed
from poetfw.schedule.cuts.rounding import Knapsack, Rounding
from poetfw.schedule.cuts.rounds import Rounds, Separate, tighten
from poetfw.schedule.cuts.slots import separate_slots
from poetfw.schedule.fixing import cut_off, fix_by_reduced_costs
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram

_SEPARATION_WORK = 3e-4
"""Work units per node and round of separation."""

_SLOT_LEAST = 0.01
"""Violations of slot cuts up to this are ignored."""


@dataclass(frozen=True, slots=True)
class _Separation:
    """Settings for the separation of cuts.

    Attributes:
        least: violations of lineage cuts up to this are ignored.
        each: maximum number of lineages per target.
        lineages, slots: maximum number of cuts of each family per round; the most violated ones.
        least_size: smallest divisor of the rounding, as a share of the budget.
    """

    least: float = 0.01
    each: int = 6
    lineages: int = 400
    slots: int = 200
    least_size: float = 0.02


def strengthen(
    graph: Indexed,
    outline: Compact,
    energy_j: float,
    work: Work,
    cuts: Sequence[Cut] = (),
) -> Relaxed:
    """Prove a lower bound of a compact program by its outline and cuts.

    Args:
        graph: the problem.
        outline: outline of its program, minimising energy.
        energy_j: joules of the incumbent, at which to stop; infinite without one.
        work: limit; the work done is subtracted from it.
        cuts: initial cuts.
    """
    residency, how = Residency.of(graph, outline), _Separation()
    rounding = Rounding.of(graph, how.least_size, _SLOT_LEAST)

    def separate(values: Vector) -> list[Cut]:
        work.spend(_SEPARATION_WORK * graph.n)
        lineages = _foremost(separate_lineages(residency, values, how.least, how.each))
        slots = separate_slots(residency, values, rounding)
        slots.sort(key=lambda cut: -cut.violation(values))
        return [x.cut(residency) for x in lineages[: how.lineages]] + slots[: how.slots]

    return _tighten(outline.program, separate, energy_j, work, cuts)


def hold(program: IntegerProgram, relaxed: Relaxed, energy_j: float) -> None:
    """Add a relaxation's cuts to a program, fix columns by reduced costs, and cut off worse plans.

    Args:
        program: the program, changed in place; plans better than the incumbent remain feasible.
        relaxed: result for this program or for its outline, whose columns are the program's first.
        energy_j: joules of the incumbent; infinite without one.
    """
    for cut in relaxed.cuts:
        program.at_most([(x, -a) for x, a in cut.terms], -cut.bound)
    fix_by_reduced_costs(program, relaxed, energy_j)
    if math.isfinite(energy_j):
        cut_off(program, energy_j)


def strengthen_periods(
    program: IntegerProgram,
    residency: Residency,
    knapsacks: Sequence[Knapsack],
    energy_j: float,
    work: Work,
) -> tuple[Relaxed, list[Lineage]]:
    """Prove a lower bound of a program in periods, such as blocks of stages, by cuts.

    Args:
        program: the program.
        residency: its columns.
        knapsacks: its limits of RAM.
        energy_j: objective at which to stop, such as the incumbent's; infinite for none.
        work: limit; the work done is subtracted from it.

    Returns:
        The relaxation with the best bound, and the lineages whose cuts are tight.
    """
    graph, how = residency.graph, _Separation(least=1e-3, each=12)
    rounding = Rounding.of(graph, how.least_size, _SLOT_LEAST)
    lineages: dict[object, Lineage] = {}

    def separate(values: Vector) -> list[Cut]:
        work.spend(_SEPARATION_WORK * graph.n)
        cuts = []
        for lineage in _foremost(separate_lineages(residency, values, how.least, how.each)):
            cut = lineage.cut(residency)
            lineages[cut.terms] = lineage
            cuts.append(cut)
        return cuts[: how.lineages] + rounding.cuts(values, knapsacks)[: how.slots]

    relaxed = _tighten(program, separate, energy_j, work)
    return relaxed, [lineages[cut.terms] for cut in relaxed.cuts if cut.terms in lineages]


def _tighten(
    program: IntegerProgram,
    separate: Separate,
    energy_j: float,
    work: Work,
    cuts: Sequence[Cut] = (),
) -> Relaxed:
    relaxation = Relaxation(program)
    if cuts:
        relaxation.add(cuts)
    return tighten(relaxation, separate, Rounds(enough=energy_j), work)


def _foremost(lineages: Iterable[Lineage]) -> list[Lineage]:
    """Lineages by descending violation, only the first for each target, path end and s."""
    ordered = sorted(lineages, key=lambda lineage: -lineage.violation)
    kept = {(x.path[0], x.path[-1], x.since): x for x in reversed(ordered)}
    return [x for x in ordered if kept[x.path[0], x.path[-1], x.since] is x]
