# SPDX-License-Identifier: Apache-2.0
"""Plans: schedules of the training and the evaluation step, and addresses of their buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from poetfw.boards import Board
from poetfw.common.limits import Deadline, Work
from poetfw.costs import CostProvider, analytic_costs
from poetfw.firmware import BLOCK_BYTES, KeptFeatures, Lowering, Prediction, Ring, Slot, lower
from poetfw.ir import Graph
from poetfw.memory import (
    ONLY,
    MemoryPlan,
    StepPlan,
    padded,
    place_beside,
    place_parts,
)
from poetfw.models import Model
from poetfw.optimizers import Optimizer
from poetfw.planning.choices import choose_optimizer, order_program
from poetfw.planning.homes import all_streamed, least_budget, streaming_obstacle
from poetfw.planning.inference import least_evaluation, plan_evaluation, schedule_within
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import Schedule, solve
from poetfw.settings import BuildSettings
from poetfw.training import Program, make_prediction, make_program


@dataclass(frozen=True)
class Plan:
    """One way to run a program: when each op runs, and where every buffer lies.

    Attributes:
        training: the schedule of the training step.
        evaluation: the schedule of the evaluation step; without steps where that is done elsewhere.
        step: the training step with its parts, as the program of one memory sees it.
        memories: where every buffer lies, by the name of each memory.
    """

    training: Schedule
    evaluation: Schedule
    step: StepPlan
    memories: Mapping[str, MemoryPlan]

    @property
    def memory(self) -> MemoryPlan:
        """Addresses of the selected program's buffers."""
        return self.memories[self.step.here]

    @property
    def limit_bytes(self) -> int:
        """Limit of the selected arena in bytes: its devices' limits plus resident bytes."""
        arenas = [part.arena for part in self.step.own]
        return min(a.offset for a in arenas) + sum(a.limit_bytes for a in arenas)

    def of(self, memory: str) -> Plan:
        """The plan with the program of another memory selected."""
        step = self.step.of(memory)
        evaluation = self.evaluation if step.evaluates_here else replace(self.evaluation, plan=())
        return replace(self, evaluation=evaluation, step=step)


def plan_unscheduled(
    program: Program, board: Board, costs: CostProvider, deadline: Deadline | None = None
) -> Plan:
    """Plan that computes everything once and pages nothing, without a limit on RAM."""
    table = costs(program.training, board)
    training = solve(schedule_problem(program.training, board, table, None), "checkpoint-all")
    evaluation = plan_evaluation(program, board, costs)
    return place_plan(program, training, evaluation, deadline)


def place_plan(
    program: Program,
    training: Schedule,
    evaluation: Schedule,
    deadline: Deadline | None = None,
) -> Plan:
    """Assign addresses for both steps on a single device, without a limit on RAM."""
    placed = place_parts(
        program,
        training.plan,
        evaluation.plan,
        {ONLY: ONLY},
        {ONLY: None},
        BLOCK_BYTES,
        deadline=deadline,
    )
    return Plan(training, evaluation, *placed)


def lower_plan(
    program: Program,
    board: Board,
    plan: Plan,
    slots: Sequence[Slot],
    ring: Ring | None = None,
    slices: bool = False,
    watchdog_ms: int | None = None,
    kept: KeptFeatures | None = None,
) -> Lowering:
    """Lower a plan to the views of its project."""
    evaluates = plan.step.evaluates_here
    prediction = plan_prediction(program, board, plan.memory) if evaluates else None
    steps = plan.step, plan.evaluation.plan
    return lower(
        *(program, board, *steps, plan.memory, slots, prediction),
        *(ring, slices, watchdog_ms, kept),
    )


def plan_prediction(program: Program, board: Board, memory: MemoryPlan) -> Prediction:
    """Prediction of one sample by the evaluation step's ops, within the arena of a plan."""
    graph = make_prediction(program)
    problem = schedule_problem(graph, board, analytic_costs(graph, board), None)
    unlimited = solve(problem, "checkpoint-all")
    available = memory.arena_bytes - memory.page_buffer_offset - padded(BLOCK_BYTES)
    plan = schedule_within(graph, board, analytic_costs, available, unlimited, Work()).plan
    return Prediction(graph, plan, place_beside(memory, BLOCK_BYTES, graph, plan))


@dataclass(frozen=True)
class RamNeeds:
    """RAM needed to train a model with the default settings.

    Attributes:
        peak_bytes: size of the arena if everything is computed once and kept, with the model's
            default optimizer.
        smallest_bytes: by board name, the smallest budget with paging: resident bytes plus the
            larger of the largest op's and the evaluation step's tensors. None for a board without
            storage, where only a search can tell.
        streamed: names of boards where all weights that can be are streamed, because they do not
            fit the RAM otherwise.
    """

    peak_bytes: int
    smallest_bytes: Mapping[str, int | None]
    streamed: frozenset[str] = frozenset()


def ram_needs(model: Model, boards: Sequence[Board]) -> RamNeeds:
    """RAM needed to train a model with the boards' defaults.

    The search is that of `least_evaluation`, where evaluation takes more than one op of training.

    Raises:
        ModelError: The model cannot be trained in batches of this size.
    """

    @cache
    def derive(optimizer: Optimizer) -> Program:
        options = model.loss_options
        return order_program(make_program(model.graph, model.loss, optimizer, options=options))

    whole = plan_unscheduled(derive(model.optimizer), boards[0], analytic_costs)
    needs: dict[str, int | None] = {}
    streamed: set[str] = set()
    evaluations: list[tuple[Graph, int]] = []

    def least(program: Program, board: Board) -> int:
        known = next((size for graph, size in evaluations if graph == program.evaluation), None)
        evaluation = known or least_evaluation(program, board, analytic_costs).peak_bytes
        if known is None:  # it is the same on all boards with the same kernels
            evaluations.append((program.evaluation, evaluation))
        return least_budget(program, board, analytic_costs, evaluation)

    for board in boards:
        if board.storage is None:
            needs[board.name] = None
            continue
        settings = BuildSettings(board.name).on(board)
        program = derive(choose_optimizer(settings, model))
        size = least(program, board)
        if size > board.unreserved_bytes and not streaming_obstacle(settings, board):
            streamable = order_program(all_streamed(program))
            if streamable.streamed:
                streamed.add(board.name)
                size = least(streamable, board)
        needs[board.name] = size
    return RamNeeds(whole.memory.peak_bytes, needs, frozenset(streamed))
