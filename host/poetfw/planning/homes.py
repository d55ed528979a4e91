# SPDX-License-Identifier: Apache-2.0
"""Choice of the weights that are streamed from storage, if a budget does not hold all of them.

Weights are streamed with their optimizer state. How many are streamed, the largest first, and how
much workspace an op may take for their tiles, is chosen by solving a few candidates with little
work each. From the best one on, candidates leave somewhat more or less RAM to activations, and
stream the weights whose transfers take least energy for that. Then the schedule of the best one is
searched.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from poetfw.boards import Arithmetic, Board
from poetfw.common.errors import InfeasibleError, ModelError
from poetfw.common.limits import Deadline, OutOfTime, Work
from poetfw.costs import CostProvider, CostTable, OpCost
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Role
from poetfw.memory import resident_bytes
from poetfw.ops import ImageLayout, TileLayout
from poetfw.ops.nests import WeightSlices
from poetfw.ops.streamed import gathered_bytes
from poetfw.planning.budget import place_within
from poetfw.planning.choices import order_program
from poetfw.planning.inference import least_evaluation, plan_evaluation
from poetfw.planning.keeping import groups_of, streamed_names
from poetfw.planning.problem import schedule_problem
from poetfw.planning.storing import held_at_once, least_candidates, stored_candidates
from poetfw.schedule import (
    ExecutionPlan,
    ScheduleProblem,
    StepKind,
    Storage,
    largest_working_set,
    minimum_budget,
)
from poetfw.settings import BuildSettings
from poetfw.training import (
    Program,
    StreamableWeight,
    not_loadable,
    storable_tensors,
    stream,
    streamable_vectors,
    streamable_weights,
    streamed_ops,
)

STREAMING_SETS = 3
"""Smallest number of sets where weights are streamed: one set is being written all the time."""

_SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2)
"""Shares of the budget that an op's tiles may take: candidates."""

_ENOUGH = 1.02
"""Traffic of streamed weights, as a multiple of the least, for which tiles are large enough."""

_BESIDE = (0.0, *(sign / part for part in (4, 8, 16, 32, 64, 2) for sign in (-1, 1)))
"""RAM beside resident tensors that is tried, less that of the best candidate, as a share of it."""

_WORK = 0.4
"""Work units of a candidate's searches: the first one, and others where it cannot be placed."""

_BETWEEN_SHARE = 1 / 6
"""Share of the work for searches with somewhat more or less RAM: after it, none begins."""

_REQUEST_BYTES = 495
"""Bytes that take as long as the latency of a request, for the choice of tiles."""


def sets_of(settings: BuildSettings, program: Program) -> int:
    """Number of commit sets of a build."""
    return max(settings.checkpoint_sets, STREAMING_SETS if program.streamed else 0)


def streaming_obstacle(settings: BuildSettings, board: Board) -> str:
    """Reason why trained weights cannot be streamed on a board; empty if they can."""
    storage = board.storage
    if storage is not None and storage.erase_bytes is not None:
        return f"the storage {storage.kind!r} is erased by sectors, which every step would wear out"
    return reading_obstacle(settings, board)


def reading_obstacle(settings: BuildSettings, board: Board) -> str:
    """Reason why frozen weights cannot be streamed on a board; empty if they can."""
    if board.storage is None:
        return "the board has no storage"
    if board.compute.arithmetic is Arithmetic.FMA:
        return "with fused multiply-adds, slices of a layer have other bits than the layer"
    if settings.weights_in_flash:
        return "--weights-in-flash starts without a storage image"
    return ""


def can_stream(program: Program) -> bool:
    """True if a program has tensors that can be streamed."""
    return bool(streamable_weights(program) or streamable_vectors(program))


def can_use_storage(program: Program) -> bool:
    """True if some weight can be streamed, or some tensor stored."""
    return can_stream(program) or bool(storable_tensors(program.training))


def with_not_streamed(error: InfeasibleError, program: Program) -> InfeasibleError:
    """The error of a streamed program, with the largest of its weights that cannot be streamed."""
    blocking = not_loadable(program)
    if not blocking:
        return error
    largest = max(
        (tensor for tensor in program.resident if tensor.name in blocking),
        key=lambda tensor: tensor.size_bytes,
    )
    op, size = blocking[largest.name], f"{largest.size_bytes:,} bytes"
    return InfeasibleError(
        f"{error.message}. {len(blocking)} weights cannot be streamed from storage, the largest "
        f"is {largest.name!r} ({size}): op {op.name!r} ({op.kind}) loads none",
        *error.try_next,
        minimum_budget_bytes=error.minimum_budget_bytes,
    )


def traffic_over_floor(program: Program) -> float:
    """Traffic of the streamed ops of a step, each run once, over the least that it can be.

    The least is each streamed tensor, read once by each of its ops, and written once by that which
    updates it.
    """
    graph, moved, least = program.training, 0, 0
    for op, kind in streamed_ops(graph):
        traffic = kind.traffic(op, graph)
        moved += traffic.read_bytes + traffic.written_bytes
        for name, layout in kind.layouts(op, graph).items():
            if isinstance(layout, ImageLayout):  # rows of a table, whatever the tiles
                moved -= traffic.read_bytes
                continue
            least += graph.by_name[name].size_bytes * (2 if name in op.updates else 1)
    return moved / least


def least_budget(
    program: Program, board: Board, costs: CostProvider, evaluation_bytes: int | None = None
) -> int:
    """The smallest budget in bytes for which a plan of a program is known.

    Args:
        program: training and evaluation step.
        board: the board.
        costs: provider of op costs.
        evaluation_bytes: peak of the evaluation step beside resident bytes; None if not known.
    """
    problem = schedule_problem(program.training, board, costs(program.training, board), None)
    if evaluation_bytes is None:
        evaluation_bytes = least_evaluation(program, board, costs).peak_bytes
    needed = max(minimum_budget(problem).bytes, evaluation_bytes)
    return resident_bytes(program.resident, BLOCK_BYTES) + needed


def program_within(
    program: Program,
    board: Board,
    costs: CostProvider,
    budget_bytes: int,
    settings: BuildSettings,
    deadline: Deadline | None = None,
) -> Program:
    """The program that a build trains within a budget: with streamed weights if they do not fit.

    Args:
        program: a program without streamed weights.
        board: the board.
        costs: provider of op costs.
        budget_bytes: budget of the arena.
        settings: settings of the build.
        deadline: end of the search; None for no limit.
    """
    if not program.beyond_flash:
        if not can_stream(program) or streaming_obstacle(settings, board):
            return program
        if least_budget(program, board, costs) <= budget_bytes:
            return program
    work = Work(settings.work_limit, deadline)
    return stream_within(program, board, costs, budget_bytes, settings, work, stores=False).program


def all_streamed(program: Program, *, only_read: bool = False) -> Program:
    """The program with every streamable weight streamed, which takes the most static data.

    With `only_read`, only frozen weights are.
    """
    weights = [each for each in streamable_weights(program) if each.is_frozen or not only_read]
    vectors = () if only_read else streamable_vectors(program)
    return stream(program, _tiles(weights, 0, 0), vectors)


@dataclass(frozen=True)
class ChosenHomes:
    """A program with streamed weights and stored tensors, and what its search found of it.

    Attributes:
        program: the program.
        energy_j: energy of the plan, or a bound of it.
        known: the plan, whose buffers have been placed within the budget, if there is one.
        work: work units of the searches from the best candidate on.
    """

    program: Program
    energy_j: float = 0.0
    known: tuple[ExecutionPlan, ...] = ()
    work: float = 0.0


@dataclass(frozen=True)
class _Homes:
    """Streamed weights, and how much workspace an op may take for their tiles.

    Attributes:
        weights: those that are streamed in tiles.
        vectors: names of those that are streamed as a whole.
        limit_bytes: limit of an op's tiles in bytes.
    """

    weights: tuple[StreamableWeight, ...]
    vectors: tuple[str, ...]
    limit_bytes: int

    def program(self, program: Program, budget_bytes: int) -> Program:
        """The program with these homes, in the best tiles."""
        smallest = stream(program, _tiles(self.weights, 0, 0), self.vectors)
        room = budget_bytes - resident_bytes(smallest.resident, BLOCK_BYTES)
        return stream(program, _tiles(self.weights, self.limit_bytes, room), self.vectors)


_Candidate = tuple[int, Callable[[], Program]]
"""Bytes that a program takes at least, and what makes it."""


class _Search:
    """Search for the program of least energy among candidates.

    Attributes:
        best: the best one whose plan can be placed; None without one.
        unplaced: of those whose ops fit, but no plan was placed, that whose ops take least energy.
        smallest: of those that do not fit, that of least RAM.
        smallest_bytes: RAM that it takes.
    """

    def __init__(
        self,
        board: Board,
        costs: CostProvider,
        budget_bytes: int,
        settings: BuildSettings,
        work: Work,
    ) -> None:
        self._board, self._costs, self._budget_bytes = board, costs, budget_bytes
        self._deadline_s, self._work = settings.deadline_s, work
        self.best: ChosenHomes | None = None
        self.unplaced: ChosenHomes | None = None
        self.smallest: ChosenHomes | None = None
        self.smallest_bytes = math.inf
        self._too_large: list[_Candidate] = []

    def storage(self, program: Program) -> Storage:
        """The storage with the costs of its transfers."""
        table = self._costs(program.training, self._board)
        storage = self._problem(program, table).storage
        assert storage is not None
        return storage

    def has_more_than(self, units: float) -> bool:
        """True if more work than this is left, and time."""
        return self._work.left > units and self._work.is_left()

    def attempt(self, program: Program) -> bool:
        """Solve a candidate with little work; returns whether it is the best so far."""
        least_bytes = self._least_bytes(program)
        if least_bytes > self._budget_bytes:
            self._too_large.append((least_bytes, lambda: program))
            return False
        return self._solve(program)

    def _least_bytes(self, program: Program) -> int:
        """RAM for resident tensors and any one op, which no order makes smaller."""
        nothing = OpCost(0.0, 0.0)
        free = CostTable(self._board.name, {op.name: nothing for op in program.training.ops})
        problem = self._problem(program, free)
        return resident_bytes(program.resident, BLOCK_BYTES) + largest_working_set(problem)

    def _solve(self, program: Program) -> bool:
        """Solve a candidate; each op runs at least once, so what they all take is a bound."""
        table = self._costs(program.training, self._board)  # of any order
        least_j = math.fsum(node.energy_j for node in self._problem(program, table).nodes)
        most_j = self.best.energy_j if self.best is not None else math.inf
        if least_j >= most_j:
            return False
        program = order_program(program, self._work.deadline)
        resident = resident_bytes(program.resident, BLOCK_BYTES)
        problem = self._problem(program, table)
        evaluation = plan_evaluation(program, self._board, self._costs)
        needed = resident + max(largest_working_set(problem), evaluation.peak_bytes)
        if needed > self._budget_bytes:
            if needed < self.smallest_bytes:
                self.smallest, self.smallest_bytes = ChosenHomes(program), needed
            return False
        problem = replace(problem, resident_bytes=resident)
        try:
            with self._work.part(_WORK).phase("homes of tensors") as part:
                plan = place_within(
                    *(program, problem, self._budget_bytes, "poet", evaluation, part), most_j=most_j
                )
        except InfeasibleError:
            if self.unplaced is None or least_j < self.unplaced.energy_j:
                self.unplaced = ChosenHomes(program, least_j)
            return False
        self.best = ChosenHomes(program, plan.training.energy_j, (plan.training.plan,))
        return True

    def _problem(self, program: Program, table: CostTable) -> ScheduleProblem:
        return schedule_problem(program.training, self._board, table, None, self._deadline_s)

    def attempt_least(self, candidates: Iterable[_Candidate]) -> None:
        """Solve those that may fit, or take less RAM than others, until one fits.

        Those that were attempted are among them.
        """
        for least_bytes, make in sorted([*self._too_large, *candidates], key=lambda each: each[0]):
            if self.best is None and least_bytes < max(self._budget_bytes + 1, self.smallest_bytes):
                with suppress(ModelError, OutOfTime):
                    self._solve(make())


def stream_within(
    program: Program,
    board: Board,
    costs: CostProvider,
    budget_bytes: int,
    settings: BuildSettings,
    work: Work,
    *,
    stores: bool = True,
) -> ChosenHomes:
    """The program with streamed weights and stored tensors that takes the least energy found.

    Where trained weights cannot be streamed, only frozen ones are, and nothing is stored.

    Args:
        program: a program without streamed weights.
        board: board with storage.
        costs: provider of op costs.
        budget_bytes: budget of the arena.
        settings: settings with the deadline.
        work: limit of the search.
        stores: True to store activations and gradients, too, where nothing fits otherwise.

    Returns:
        The best program; if none is known to fit, that of least RAM, which the smallest possible
        budget refers to: with everything streamed, or with stored tensors.
    """
    only_read = bool(streaming_obstacle(settings, board))
    everything = all_streamed(program, only_read=only_read)
    room = budget_bytes - resident_bytes(everything.resident, BLOCK_BYTES)
    weights, vectors = streamable_weights(program), streamable_vectors(program)
    if only_read:
        weights, vectors = tuple(each for each in weights if each.is_frozen), ()
    search = _Search(board, costs, budget_bytes, settings, work)
    fits = held_at_once(program) <= room
    homes: _Homes | None = None
    for each, streamed in _candidates(program, weights, vectors, budget_bytes) if fits else ():
        best = search.best
        if each.vectors and best is not None and traffic_over_floor(best.program) <= _ENOUGH:
            break  # more RAM for tiles would save little
        homes = each if search.attempt(streamed) else homes
    left = work.left
    if homes is not None and not only_read:
        _search_between(search, program, homes, budget_bytes, left * (1 - _BETWEEN_SHARE))
    between = left - work.left
    stores = stores and not only_read
    continues = board.compute.arithmetic is Arithmetic.SEPARATE
    if stores and search.best is None:
        fits = fits and search.attempt(everything)
        for sums in (True, False) if continues else (False,):  # either may be hard to place
            found = fits
            for candidates in stored_candidates(
                program, budget_bytes, work.deadline, continues=sums
            ):
                for candidate in candidates if not found else ():
                    improved = search.attempt(candidate)
                    if found and not improved:
                        break  # storing more takes more energy
                    found = found or improved
    if search.best is None and search.unplaced is None and not only_read:
        least = least_candidates(
            program, budget_bytes, work.deadline, stores=stores, continues=continues
        )
        search.attempt_least(least)
    chosen = search.best or search.unplaced or search.smallest
    chosen = chosen or ChosenHomes(order_program(everything, work.deadline))
    return replace(chosen, work=between)


def _search_between(
    search: _Search, program: Program, homes: _Homes, budget_bytes: int, least_left: float
) -> None:
    """Solve programs with somewhat more and less RAM for activations than the best so far.

    In each, those weights stay in RAM whose transfers take most energy where ops run as often as in
    the best plan. So an activation that lacks a few bytes gets them from the cheapest weights, and
    weights that the plan would load again and again are not streamed.

    Args:
        search: the search, which has found a plan.
        program: a program in which nothing is streamed.
        homes: homes of its program.
        budget_bytes: budget of the arena.
        least_left: work units that are left to others.
    """
    weights, vectors = streamable_weights(program), streamable_vectors(program)
    never_bytes = resident_bytes(all_streamed(program).resident, BLOCK_BYTES)
    tiles = _tiles(weights, homes.limit_bytes, budget_bytes - never_bytes)
    trained = [each for each in weights if not each.is_frozen]
    groups = groups_of(program, trained, tiles, search.storage(program))
    tried: set[frozenset[str]] = set()
    before: ChosenHomes | None = None
    while search.best is not None and search.best is not before:
        before = search.best
        runs = Counter(step.node for step in before.known[0] if step.kind is StepKind.COMPUTE)
        room = budget_bytes - resident_bytes(before.program.resident, BLOCK_BYTES)
        for share in _BESIDE:
            left = budget_bytes - never_bytes - int(room * (1 + share))
            names = streamed_names(groups, runs, left)
            if names in tried or not search.has_more_than(least_left):
                continue
            tried.add(names)
            streamed = tuple(
                each for each in weights if each.is_frozen or each.weight.name in names
            )
            loaded = tuple(name for name in vectors if name in names)
            candidate = replace(homes, weights=streamed, vectors=loaded)
            search.attempt(candidate.program(program, budget_bytes))


def _candidates(
    program: Program,
    weights: tuple[StreamableWeight, ...],
    vectors: tuple[str, ...],
    budget_bytes: int,
) -> Iterator[tuple[_Homes, Program]]:
    """Programs with some of the weights streamed: as few as can fit, one more, and all.

    Programs with streamed vectors, too, come last: with running statistics only, and with all.
    """
    left = resident_bytes(program.resident, BLOCK_BYTES)
    fewest = len(weights)
    frozen = sum(each.is_frozen for each in weights)
    for count in range(max(1, frozen), len(weights) + 1):
        if count > frozen:
            left -= weights[count - 1].group_bytes
        if left < budget_bytes:
            fewest = count
            break
    counts = sorted({fewest, min(fewest + 1, len(weights)), len(weights)})
    choices: list[tuple[int, tuple[str, ...]]] = [(count, ()) for count in counts]
    state = {tensor.name for tensor in program.persistent if tensor.role is Role.STATE}
    statistics = tuple(name for name in vectors if name in state)
    choices += [(len(weights), loaded) for loaded in (statistics, vectors) if loaded]
    for count, loaded in choices:
        tried: list[Program] = []
        for share in _SHARES:
            homes = _Homes(weights[:count], loaded, int(budget_bytes * share))
            streamed = homes.program(program, budget_bytes)
            if streamed not in tried:
                tried.append(streamed)
                yield homes, streamed


def _tiles(
    weights: Sequence[StreamableWeight], limit_bytes: int, room_bytes: int
) -> dict[str, tuple[int, ...]]:
    return {each.weight.name: best_tile(each, limit_bytes, room_bytes) for each in weights}


def best_tile(weight: StreamableWeight, limit_bytes: int, room_bytes: int) -> tuple[int, ...]:
    """The tiles with the least traffic, within a workspace, as for `TileLayout.of`.

    Args:
        weight: the weight.
        limit_bytes: limit of an op's workspace.
        room_bytes: limit of an op's workspace with its inputs and its output.

    Returns:
        The best tile; if none fits the limits, that which exceeds them least.
    """
    found = []
    shape, x_bytes, y_bytes = weight.weight.shape, weight.x.size_bytes, weight.y.size_bytes
    forward_limit = min(limit_bytes, room_bytes - x_bytes - y_bytes)
    backward_limit = forward_limit if weight.back is None else forward_limit - x_bytes
    tensors = len(weight.group)
    by_outputs = weight.back is None
    extents = shape[:1] if by_outputs else shape[:2]
    for tile in product(*map(_divisors, extents)):
        layout = TileLayout.of(shape, tile)
        read = WeightSlices(weight.group[:1], layout, "o", 0, by_rows=not by_outputs)
        updated = WeightSlices(weight.group, layout, "i", 1, updated=True)
        sliced = weight.y if by_outputs else weight.x
        forward = read.buffer_bytes
        if len(weight.y.shape) == 2:
            forward += gathered_bytes(read, weight.y)
        backward = updated.buffer_bytes + gathered_bytes(updated, sliced)
        columns = layout.column_request_bytes
        requests = columns if by_outputs else layout.tile_request_bytes
        if weight.is_frozen:
            requests += columns if weight.back is not None else ()
        else:
            requests += 2 * tensors * columns
        traffic = sum(requests) + len(requests) * _REQUEST_BYTES
        excess = max(0, forward - forward_limit, backward - backward_limit)
        found.append(((excess, traffic, forward + backward), tile))
    return min(found)[1]


def _divisors(extent: int) -> list[int]:
    return [each for each in range(1, extent + 1) if extent % each == 0]
