# SPDX-License-Identifier: Apache-2.0
"""Choice of the weights that are streamed from storage, if a budget does not hold all of them.

Weights are streamed with their optimizer state, the largest first. How many are streamed, and how
much workspace an op may take for their tiles, is chosen by solving a few candidates with little
work each, before the schedule of the best one is searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from poetfw.boards import Arithmetic, Board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.costs import CostProvider
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import resident_bytes
from poetfw.ops import TileLayout
from poetfw.ops.streamed import backward_bytes, forward_bytes
from poetfw.planning.choices import order_program
from poetfw.planning.inference import plan_evaluation
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import largest_working_set, solve
from poetfw.settings import BuildSettings
from poetfw.training import Program, StreamableWeight, stream, streamable_weights

STREAMING_SETS = 3
"""Smallest number of sets where weights are streamed: one set is being written all the time."""

_SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2)
"""Shares of the budget that an op's tiles may take: candidates."""

_WORK = 0.3
"""Work units of a candidate's search."""

_REQUEST_BYTES = 495
"""Bytes that take as long as the latency of a request, for the choice of tiles."""


def sets_of(settings: BuildSettings, program: Program) -> int:
    """Number of commit sets of a build."""
    return max(settings.checkpoint_sets, STREAMING_SETS if program.streamed else 0)


def streaming_obstacle(settings: BuildSettings, board: Board) -> str:
    """Reason why weights cannot be streamed on a board; empty if they can."""
    storage = board.storage
    if storage is None:
        return "the board has no storage"
    if storage.erase_bytes is not None:
        return f"the storage {storage.kind!r} is erased by sectors, which every step would wear out"
    if board.compute.arithmetic is Arithmetic.FMA:
        return "with fused multiply-adds, slices of a layer have other bits than the layer"
    if settings.weights_in_flash:
        return "--weights-in-flash starts without a storage image"
    return ""


def all_streamed(program: Program) -> Program:
    """The program with every streamable weight streamed, which takes the most static data."""
    return stream(program, _tiles(streamable_weights(program), 0))


@dataclass(frozen=True)
class _Candidate:
    program: Program
    energy_j: float


def stream_within(
    program: Program,
    board: Board,
    costs: CostProvider,
    budget_bytes: int,
    settings: BuildSettings,
    work: Work,
) -> Program:
    """The program with the streamed weights with which a step takes the least energy found.

    Args:
        program: a program without streamed weights.
        board: board with storage.
        costs: provider of op costs.
        budget_bytes: budget of the arena.
        settings: settings with the deadline.
        work: limit of the search.

    Returns:
        The best program; if none is known to fit, that with all weights streamed in the tiles
        of least RAM, which the smallest possible budget refers to.
    """
    weights = streamable_weights(program)
    best: _Candidate | None = None
    for streamed in _candidates(program, weights, budget_bytes):
        resident = resident_bytes(streamed.resident, BLOCK_BYTES)
        table = costs(streamed.training, board)
        problem = schedule_problem(streamed.training, board, table, None, settings.deadline_s)
        evaluation = plan_evaluation(streamed, board, costs).peak_bytes
        needed = resident + max(largest_working_set(problem), evaluation)
        if needed > budget_bytes:
            continue
        limited = replace(problem, ram_bytes=budget_bytes - resident, resident_bytes=resident)
        with work.part(_WORK).phase("homes of weights") as part:
            try:
                found = solve(limited, work=part)
            except InfeasibleError:
                continue
        if best is None or found.energy_j < best.energy_j:
            best = _Candidate(streamed, found.energy_j)
    if best is not None:
        return order_program(best.program, work.deadline)
    return order_program(stream(program, _tiles(weights, 0)))


def _candidates(
    program: Program, weights: tuple[StreamableWeight, ...], budget_bytes: int
) -> Iterator[Program]:
    """Programs with some of the weights streamed: as few as can fit, one more, and all."""
    resident = resident_bytes(program.resident, BLOCK_BYTES)
    fewest = len(weights)
    for count in range(1, len(weights) + 1):
        resident -= weights[count - 1].group_bytes
        if resident < budget_bytes:
            fewest = count
            break
    for share in _SHARES:
        tiles = _tiles(weights, int(budget_bytes * share))
        for count in sorted({fewest, min(fewest + 1, len(weights)), len(weights)}):
            names = [each.weight.name for each in weights[:count]]
            yield stream(program, {name: tiles[name] for name in names})


def _tiles(weights: tuple[StreamableWeight, ...], limit_bytes: int) -> dict[str, tuple[int, int]]:
    return {each.weight.name: best_tile(each, limit_bytes) for each in weights}


def best_tile(weight: StreamableWeight, limit_bytes: int) -> tuple[int, int]:
    """Output and input channels of the tiles with the least traffic, within a workspace.

    If no tile fits the limit, the one with the smallest workspace.
    """
    found = []
    shape = weight.weight.shape
    for outputs in _divisors(shape[0]):
        for inputs in _divisors(shape[1]):
            tiling = TileLayout.of(shape, (outputs, inputs))
            workspace = max(
                forward_bytes(tiling),
                sum(backward_bytes(tiling, 1 + len(weight.states), weight.x)),
            )
            row = sum(tiling.tile_request_bytes) + tiling.rows * _REQUEST_BYTES
            moved = 2 * (1 + len(weight.states)) * (tiling.column_request_bytes + _REQUEST_BYTES)
            traffic = tiling.columns * (row + moved)
            excess = max(0, workspace - limit_bytes)
            found.append(((excess, traffic, workspace), (outputs, inputs)))
    return min(found)[1]


def _divisors(extent: int) -> list[int]:
    return [each for each in range(1, extent + 1) if extent % each == 0]
