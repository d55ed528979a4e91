# SPDX-License-Identifier: Apache-2.0
"""RAM that training a model takes, without a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from poetfw.boards import Board
from poetfw.costs import analytic_costs
from poetfw.ir import Graph
from poetfw.models import Model
from poetfw.optimizers import Optimizer
from poetfw.planning.choices import choose_optimizer, order_program
from poetfw.planning.homes import all_streamed, least_budget, streaming_obstacle
from poetfw.planning.inference import least_evaluation
from poetfw.planning.plans import plan_unscheduled
from poetfw.settings import BuildSettings
from poetfw.training import Program, make_program


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
