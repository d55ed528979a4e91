# SPDX-License-Identifier: Apache-2.0
"""Kernels that trade workspace for speed; the schedule decides which ops use them (`variants`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from poetfw.boards import Board
from poetfw.common.limits import Work
from poetfw.costs import CostProvider, CostTable
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Graph, Op
from poetfw.memory import resident_bytes
from poetfw.ops import VARIANT, kind_of
from poetfw.planning.budget import place_within
from poetfw.planning.kernels import Chosen, ChosenBy, faster_with_workspace, with_ops
from poetfw.planning.plans import Plan, place_plan
from poetfw.planning.problem import schedule_problem
from poetfw.planning.variants import Variants, use_faster
from poetfw.schedule import ExecutionPlan, Schedule, Tell, tell_nobody
from poetfw.settings import BuildSettings


@dataclass(frozen=True)
class KernelChoices:
    """A training step on a board, and its ops that have a faster kernel with more workspace.

    Attributes:
        graph: training step with the kernels of least workspace.
        by: evidence for the kernel of each op that has several kernels of least workspace.
        board: target board.
        costs: provider of op costs.
        faster: by name, the ops with a faster kernel, as they use it.
        faster_by: evidence for each op that has a kernel with more workspace.
    """

    graph: Graph
    by: Mapping[str, ChosenBy]
    board: Board
    costs: CostProvider
    faster: Mapping[str, Op]
    faster_by: Mapping[str, ChosenBy]

    @staticmethod
    def of(
        graph: Graph, by: Mapping[str, ChosenBy], board: Board, costs: CostProvider
    ) -> KernelChoices:
        """Find the faster kernels of a step that need more workspace."""
        return KernelChoices(graph, by, board, costs, *faster_with_workspace(graph, board, costs))

    def graph_with(self, names: Collection[str]) -> Graph:
        """The step in which the named ops use their faster kernels."""
        return with_ops(self.graph, {name: self.faster[name] for name in names})

    def table_with(self, names: Collection[str]) -> CostTable:
        """Costs of the step's ops when the named ones use their faster kernels."""
        return self.costs(self.graph_with(names), self.board)

    def chosen_by(self, names: Collection[str]) -> dict[str, ChosenBy]:
        """Evidence for each op's kernel if the named ops use their faster kernels."""
        return {**self.by, **{name: self.faster_by[name] for name in names}}

    def kernels(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Kernel and evidence of each op that does not use its default kernel."""
        graph, by = self.graph_with(names), self.chosen_by(names)
        return {
            op.name: {
                "function": kind_of(op).kernel(op, graph).function,
                "chosen_by": by[op.name].value,
            }
            for op in graph.ops
            if VARIANT in op.attributes
        }

    def with_functions(self, functions: Mapping[str, str]) -> tuple[str, ...]:
        """Names of the ops whose faster kernel is the function given by op name."""
        graph = self.graph_with(self.faster)
        return tuple(
            name
            for name, op in self.faster.items()
            if kind_of(op).kernel(op, graph).function == functions.get(name)
        )

    def variants(
        self, ram_bytes: int, deadline_s: float | None, resident_bytes: int = 0
    ) -> Variants:
        """Schedule problem of the step with both kernels of each op.

        Args:
            ram_bytes: RAM for tensors that are not persistent.
            deadline_s: upper bound on the step's time.
            resident_bytes: bytes of the persistent tensors and the page buffer.
        """
        lean, every = (
            schedule_problem(
                self.graph_with(names), self.board, self.table_with(names), ram_bytes, deadline_s
            )
            for names in ((), self.faster)
        )
        return Variants(lean, every).mapped(partial(replace, resident_bytes=resident_bytes))


def use_workspace(
    chosen: Chosen,
    plan: Plan,
    board: Board,
    costs: CostProvider,
    budget_bytes: int,
    settings: BuildSettings,
    work: Work,
    tell: Tell = tell_nobody,
) -> tuple[Chosen, Plan]:
    """Use faster kernels where their workspace fits the budget.

    Args:
        chosen: the program with the kernels of least workspace.
        plan: plan of this program.
        board: target board.
        costs: provider of op costs.
        budget_bytes: budget of the arena.
        settings: settings with the deadline and the scheduler.
        work: limit of the second search.
        tell: called with the progress of the second search.

    Raises:
        Interrupted: The user interrupted the second search.
    """
    program, evaluation = chosen.program, plan.evaluation
    name = program.training.name
    choices = KernelChoices.of(program.training, chosen.by[name], board, costs)
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    variants = choices.variants(budget_bytes - resident, settings.deadline_s, resident)

    def follow(schedule: Schedule) -> Plan | None:
        running = replace(program, training=choices.graph_with(schedule.faster))
        placed = place_plan(running, schedule, evaluation, work.deadline)
        return placed if placed.memory.arena_bytes <= budget_bytes else None

    def search(known: ExecutionPlan) -> Plan:
        running = replace(program, training=choices.graph_with(choices.faster))
        scheduler = settings.scheduler
        return place_within(
            running, variants.every, budget_bytes, scheduler, evaluation, work, tell, [known]
        )

    found = use_faster(variants, plan, follow, search)
    faster = found.training.faster
    return Chosen(
        replace(program, training=choices.graph_with(faster)),
        {**chosen.by, name: choices.chosen_by(faster)},
    ), found
