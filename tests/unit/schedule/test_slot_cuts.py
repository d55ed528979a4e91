# SPDX-License-Identifier: Apache-2.0
"""Slot cuts say only of what is live in a slot that it must fit."""

from __future__ import annotations

from poetfw.limits import Work
from poetfw.schedule import Node, ScheduleProblem
from poetfw.schedule.compact import formulate
from poetfw.schedule.cuts.cut import Residency
from poetfw.schedule.cuts.rounding import Rounding
from poetfw.schedule.cuts.slots import separate_slots
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolverOptions, solve_program


def test_what_is_made_again_later_in_a_stage_is_not_live_before() -> None:
    """Stage t makes a, b and c again: a and c, which t reads, do not fit together, nor need they.

    While e runs nothing but its input fits beside it, so this is the only plan.
    """
    nodes = (
        Node("a", (), 1.0, 1.0, 300),
        Node("b", ("a",), 1.0, 1.0, 100),
        Node("c", ("b",), 1.0, 1.0, 300),
        Node("d", ("c",), 1.0, 1.0, 100),
        Node("e", ("d",), 1.0, 1.0, 100, workspace_bytes=300, recompute=False),
        Node("t", ("c", "e"), 1.0, 1.0, 0, recompute=False, backward=True),
    )
    graph = Indexed.of(ScheduleProblem("again", 500, None, None, nodes))
    compact = formulate(graph)
    values = solve_program(compact.program, SolverOptions(gap=0.0), Work()).values
    assert values is not None
    assert compact.stages(values).recomputes == {(5, 0), (5, 1), (5, 2)}
    rounding = Rounding.of(graph, 0.0, 1e-4)
    assert separate_slots(Residency.of(graph, compact), values, rounding) == []
