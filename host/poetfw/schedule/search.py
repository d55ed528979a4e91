# SPDX-License-Identifier: Apache-2.0
"""Phases of the search: starts, restrictions, relaxations, and when each stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from poetfw.common.errors import PlanError, UnsuitableError
from poetfw.common.limits import Deadline, OutOfTime, Work
from poetfw.schedule.algorithm_1 import formulate_algorithm_1
from poetfw.schedule.all_orders import NODES, search_all_orders
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.furthest_use import furthest_use
from poetfw.schedule.baselines.registry import BASELINES, published_plan
from poetfw.schedule.blocks import BlockRelaxation, cost_blocks, formulate_blocks
from poetfw.schedule.bounds import quick_plan, small_plan
from poetfw.schedule.compact import WINDOW, Compact, formulate
from poetfw.schedule.contract import SMALL_SHARE, Contraction, Means, contract
from poetfw.schedule.cuts.cut import Cut, Residency
from poetfw.schedule.cuts.lineage import Lineage
from poetfw.schedule.cuts.narrow import Narrow
from poetfw.schedule.cuts.relaxation import Relaxed
from poetfw.schedule.every_plan import bound_of_every_plan
from poetfw.schedule.fixing import without_what_costs_more
from poetfw.schedule.found import Incumbent
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import DEFAULT_SOLVER, IntegerProgram, SolverOptions, solve_program
from poetfw.schedule.on_demand import search_on_demand
from poetfw.schedule.orders import in_better_order, search_orders
from poetfw.schedule.plan import StageEvents, lower
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.sequences import search_sequences
from poetfw.schedule.simulator import accepts, unlimited
from poetfw.schedule.strengthen import hold, strengthen, strengthen_blocks
from poetfw.schedule.transfers import plan_transfers
from poetfw.schedule.turn import search_turn

_TIGHTENINGS = 3
_FIRST_PLAN_SHARE = 0.25  # of the work
_BLOCKS_SHARE = 0.15  # of the work left
_CUTS_SHARE = 0.5  # of a pass; the rest is for its integer program
_PROOF_SHARE = 0.7  # the same where there is no window, for bounds
_FAR_SHARE = 0.95  # the same where an integer program would not get to branch
_FAR = 1e-2  # gaps above are that far
_INTEGER_SHARE = 0.25  # of the work left: what it gets if its cuts took less, else as much as they
_LEAST_SHARE = 0.05  # of the work for programs in stages: with less left none is begun
_TIMES = 2.0  # as much as the search before took: it has a smaller program, and left a gap
_OTHER_SHARE = 0.1  # of it, in another order: nothing that is proven of that stays
_STALLED_SHARE = 1.5e-5  # of the objective's offset: integer programs that gain less are ended
_FEWER_BLOCKS = 0.5  # of the stages: more blocks make no smaller program
_SMALL = 1_000  # recomputations that a program could choose from: then it is solved at once
_LARGE = 20_000  # recomputations that a program could choose from: then blocks must do
_STAGED = 1_000  # nodes: programs in stages of more do not fit in memory
_TURN_SHARE = 0.3  # of the work
_EVERY_SHARE = 0.1  # of the work
_EVERY_WORK = 1.0  # units at least: the last thing that a search does
_ORDER_SHARE = 0.1  # of the work
_PUBLISHED_SHARE = 0.2  # of the work, for each order
_ON_DEMAND_SHARE = 0.1  # of the work, for each order
_SEQUENCES_SHARE = 0.3  # of the work at most, else the overhead
_LOOK_SHARE = 0.25  # of the work nearby, for each order
_USED_SHARE = 0.6  # of it, for what the relaxation of each order uses
_MOVES_SHARE = 0.05  # of the work left
_WINDOW_STAGES = 6_000  # 20 nodes in 300 stages
_LEAST_WINDOW = 8
_LARGE_WINDOW_SHARE = 0.7
_WINDOW_SHARE = 0.4  # of the work left, for plans; global bounds come from what follows
_UNFOUND_SHARE = 0.5  # of it, while there is no plan: that there is none must be explained


@dataclass(frozen=True, slots=True)
class SolveOptions(SolverOptions):
    """Options of the search for a schedule.

    Attributes:
        window: how far from what a stage differentiates it may compute again, in a first search
            whose result starts the unrestricted one: at most, for there are shorter ones for
            large problems. None to search without restriction at once.
        small_share: tensors that together take at most this share of the budget are looked at
            less closely in the first search; see `contract`.
        least_share: the same for bounds, which small tensors add to.
        other_orders: whether to leave the problem's order of first computations for better ones.
    """

    window: int | None = WINDOW
    small_share: float = SMALL_SHARE
    least_share: float = 0.01
    other_orders: bool = True


def search_checkpoint_all(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """The plan that keeps everything, if it fits: then nothing is better."""
    best.offer(checkpoint_all(Indexed.of(best.problem)))


def search_compact(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """The best plan that the compact formulation finds, and never a worse than its start.

    It starts from the best of the published methods. A first program, of the contracted problem
    and restricted to a window, finds a good plan quickly, in an order where less is beyond the
    budget and in the problem's. Those that follow, of relaxations and of the problem itself, bound
    what plans in the problem's order take. Each leaves out what cannot be part of a plan that is
    better than the best known. If this is in the other order, they look there for better ones with
    the work that is left. At last the best plan may leave its order.

    Large graphs begin with the plan by what is kept over the turn, and what is proven of every
    plan, in any order, may end their search. Of the others it is proven at the end. The smallest
    are then searched in all orders.

    A deadline is left out at first: where the plans found nearby meet it, it stays out.
    """
    problem = best.problem
    graph = Indexed.of(problem)
    best.offer(checkpoint_all(graph))
    if best.found.gap <= 0:
        return
    if max(map(graph.working_set, range(graph.n))) > problem.ram_bytes:
        best.prove(math.inf)
        return
    large = _is_large(graph)
    if graph.is_rigid:
        _search_rigid(best, options, work)
    elif large:
        best.offer(furthest_use(graph))
        _search_turn(best, work)
    if best.found.gap > options.gap and not graph.is_rigid:
        with best.at_leisure():
            _search_in_phases(best, options, work)
            is_in_time = best.keep_in_time()
        if not is_in_time:
            _search_in_phases(best, options, work)
    if best.found.gap > 0 and not large and not graph.is_rigid:
        _bound_every_plan(best, work, _EVERY_WORK)
    is_proven = best.found.energy_j <= best.found.every_j
    if graph.n <= NODES and options.other_orders and not is_proven:
        with best.phase("all orders", work):
            search_all_orders(best, work)


def _search_rigid(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Search for an order that fits; without recompute or paging, all plans take equal energy."""
    _bound_every_plan(best, work, work.left * _EVERY_SHARE)
    if math.isfinite(best.found.every_j) and options.other_orders:
        with best.phase("order", work.part(work.left * _ORDER_SHARE)) as part:
            best.offer(checkpoint_all(Indexed.of(in_better_order(best.problem, part))))


def _search_turn(best: Incumbent, work: Work) -> None:
    """The plan by what is kept over the turn, and what is proven of every plan."""
    with best.at_leisure():
        with best.phase("over the turn", work.part(work.left * _TURN_SHARE)) as part:
            search_turn(best, part)
        best.keep_in_time()
    _bound_every_plan(best, work, work.left * _EVERY_SHARE)


def _bound_every_plan(best: Incumbent, work: Work, units: float) -> None:
    """Prove what every plan takes, with some work even where none is left."""
    part = work.beside(units)
    with best.phase("every plan", part):
        best.prove_of_every_plan(bound_of_every_plan(Indexed.of(best.problem), part))
    work.spend(units - part.left)


def _search_in_phases(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """See `search_compact`. At leisure it ends early, where the plans nearby are not in time."""
    _try_published(best, work)
    _run_on_demand(best, options, work)
    problem = best.problem
    graph = Indexed.of(problem)
    ordered = problem
    if options.other_orders and not _is_large(graph) and _is_dear(best, options):
        with best.phase("order", work.part(work.left * _ORDER_SHARE)) as part:
            ordered = in_better_order(problem, part)
        if ordered != problem:
            with best.in_order(ordered):
                _try_published(best, work)
                _run_on_demand(best, options, work)
    _improve_start(best, options, work)
    if graph.n > _STAGED:
        if best.keep_in_time() and best.found.plan is not None:
            _search_orders(best, best.found.plan, options, work)
        return
    units = work.left * _FIRST_PLAN_SHARE
    tightest: ExecutionPlan | None = None
    for first in (small_plan, quick_plan):
        if best.found.plan is None:
            with best.phase("first plan", work.part(units)) as part:
                quick = first(ordered, options, part)
                best.offer(quick)
                tightest = tightest or quick
    in_stages = work.part(work.left * (1 - _MOVES_SHARE))
    least, other = (in_stages.left * share for share in (_LEAST_SHARE, _OTHER_SHARE))
    chosen = _choose_order(best, ordered, options, in_stages)
    if not best.keep_in_time():
        return
    for order in dict.fromkeys((problem, chosen)):
        part = in_stages if order == problem else in_stages.part(other)
        with best.in_order(order):
            for search in (_search_relaxation, _search_everything):
                before = part.left
                if before > least and part.is_left() and best.found.gap > options.gap:
                    search(best, options, part)
                least = max(least, (before - part.left) * _TIMES)
    _search_orders(best, best.found.plan or tightest, options, work)


def _search_orders(
    best: Incumbent, start: ExecutionPlan | None, options: SolveOptions, work: Work
) -> None:
    if options.other_orders and start and _is_dear(best, options):
        with best.phase("other orders", work):
            search_orders(best, start, work)


def _is_dear(best: Incumbent, options: SolveOptions) -> bool:
    """True if the best plan takes more than one that keeps everything, by more than the gap."""
    once_j = math.fsum(node.energy_j for node in best.problem.nodes)
    return best.found.energy_j > once_j * (1 + options.gap)


def _choose_order(
    best: Incumbent, ordered: ScheduleProblem, options: SolveOptions, work: Work
) -> ScheduleProblem:
    """Search nearby in two orders; return the one of the best plan.

    The order whose relaxation asks for less energy comes first and gets most of the work.

    Args:
        best: what is known.
        ordered: the problem in the other order, or as given.
        options: how to search.
        work: of which a part is for this.
    """
    share = _LARGE_WINDOW_SHARE if _is_large(Indexed.of(ordered)) else _WINDOW_SHARE
    part = work.part(work.left * share * (1 if best.found.plan is not None else _UNFOUND_SHARE))
    orders = list(dict.fromkeys((ordered, best.problem)))
    if not _has_nearby(best, options):
        return orders[0]
    passes = {order: _nearby(best, order, options) for order in orders}
    if options.solver == DEFAULT_SOLVER:
        with best.phase("orders" if len(orders) > 1 else "plans nearby", part):
            passes = {order: _look(best, attempt, part) for order, attempt in passes.items()}
        orders.sort(key=lambda order: passes[order].bound_j)
    chosen = orders[0]
    for search, share_each in ((_search_used, _USED_SHARE), (_search_nearby, 1.0)):
        for order in orders:
            if not part.is_left() or best.found.gap <= options.gap:
                break
            known_j = best.found.energy_j
            with best.in_order(order):
                search(best, options, part.part(part.left * share_each), passes[order])
            if best.found.energy_j < known_j:
                chosen = order
    return chosen


def _try_published(best: Incumbent, work: Work) -> None:
    with best.phase("published methods", work.part(work.left * _PUBLISHED_SHARE)) as part:
        best.offer(furthest_use(Indexed.of(best.problem)))
        for plan in _published_plans(best, part):
            best.offer(plan)


def _published_plans(best: Incumbent, work: Work) -> Iterator[ExecutionPlan]:
    """Plans of the published methods, one after the other while there is work.

    One that makes an illegal plan is named and left out.
    """
    for name, baseline in BASELINES.items():
        if not work.is_left():
            return
        try:
            yield published_plan(best.problem, baseline, work)
        except UnsuitableError:
            continue
        except PlanError as error:
            best.tell(f"published methods: {name} is left out, its plan is illegal: {error}")
        except OutOfTime:
            if work.deadline.has_passed():
                raise


def _run_on_demand(best: Incumbent, options: SolveOptions, work: Work) -> None:
    if _choices(Indexed.of(best.problem)) > _SMALL and _is_dear(best, options):
        with best.phase("on demand", work.part(work.left * _ON_DEMAND_SHARE)) as part:
            search_on_demand(best, part)


def _improve_start(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Move the events of the best plan, the longer the more it takes beyond keeping everything."""
    problem, found = best.problem, best.found
    if problem.deadline_s is not None or found.plan is None or not _is_dear(best, options):
        return
    if _choices(Indexed.of(problem)) > _SMALL:
        once_j = math.fsum(node.energy_j for node in problem.nodes)
        share = min(_SEQUENCES_SHARE, (found.energy_j - once_j) / found.energy_j)
        with best.phase("moves", work.part(work.left * share)) as part:
            search_sequences(best, part)


@dataclass(frozen=True, slots=True)
class _Hints:
    """Cuts that a relaxation by blocks rests on."""

    blocks: BlockRelaxation
    lineages: tuple[Lineage, ...]

    def cuts(self, residency: Residency) -> list[Cut]:
        """As cuts of the program itself."""
        stages = [x for lineage in self.lineages for x in self.blocks.in_stages(lineage, residency)]
        return list({cut.terms: cut for cut in (x.cut(residency) for x in stages)}.values())


@dataclass(frozen=True, slots=True)
class _Pass:
    """A program to solve, starting from the plan of the one before.

    Attributes:
        contraction: the problem and what stands for it.
        window: where it may compute again; None for anywhere.
        first: the first stage that it looks at; those before are free.
        hints: cuts to begin with.
        relaxed: what its outline proves, if that is known already.
        at_most: what stages may produce; None for anything.
    """

    contraction: Contraction
    window: int | None = None
    first: int = 0
    hints: _Hints | None = None
    relaxed: Relaxed | None = None
    at_most: StageEvents | None = None

    @property
    def bound_j(self) -> float:
        """A lower bound of its plans, as far as one is known."""
        return self.relaxed.bound if self.relaxed else -math.inf

    def formulate(self, graph: Indexed, deadline: Deadline, outline: bool = False) -> Compact:
        """The program of the contracted problem, or of one that is tighter."""
        return formulate(
            graph,
            window=self.window,
            close_stages=self.window is not None,
            first=self.first,
            outline=outline,
            at_most=None if outline else self.at_most,
            deadline=deadline,
        )


def _search_used(best: Incumbent, options: SolveOptions, work: Work, attempt: _Pass) -> None:
    """Search what the relaxation of a pass uses: few columns, of which plans are made at once."""
    relaxed = attempt.relaxed
    if relaxed is None or not relaxed.used or relaxed.bound >= best.found.energy_j:
        return
    graph = Indexed.of(attempt.contraction.contracted)
    outline = attempt.formulate(graph, work.deadline, outline=True)
    recomputes, page_ins = (
        frozenset(key for key, x in columns.items() if x in relaxed.used)
        for columns in (outline.recompute, outline.page_in)
    )
    with best.phase("plans nearby", work):
        _improve(best, options, work, replace(attempt, at_most=StageEvents(recomputes, page_ins)))


def _search_nearby(best: Incumbent, options: SolveOptions, work: Work, attempt: _Pass) -> None:
    """Search the contracted problem for plans that compute again only within a window."""
    relaxed = attempt.relaxed
    if relaxed is not None and relaxed.bound >= best.found.energy_j * (1 - options.gap):
        return  # nothing nearby is better
    with best.phase("plans nearby", work):
        _improve(best, options, work, attempt)


def _has_nearby(best: Incumbent, options: SolveOptions) -> bool:
    """True if there is a backward pass, and the options have a window."""
    return options.window is not None and any(node.backward for node in best.problem.nodes)


def _nearby(best: Incumbent, problem: ScheduleProblem, options: SolveOptions) -> _Pass:
    """The contracted problem, in the order of this one, and its window."""
    better = without_what_costs_more(problem, best.found.energy_j)
    nearby = contract(better, Means.RESTRICTION, options.small_share)
    assert options.window is not None
    stages = len(nearby.contracted.nodes)
    window = min(options.window, max(_LEAST_WINDOW, _WINDOW_STAGES // stages))
    return _Pass(nearby, window)


def _look(best: Incumbent, attempt: _Pass, work: Work) -> _Pass:
    """A pass, with what its plans take at least."""
    part = work.part(work.left * _LOOK_SHARE)
    graph = Indexed.of(attempt.contraction.contracted)
    outline = attempt.formulate(graph, work.deadline, outline=True)
    return replace(attempt, relaxed=strengthen(graph, outline, best.found.energy_j, part))


def _search_relaxation(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Bound what any plan takes: by blocks, and where that is small enough by all stages."""
    better = without_what_costs_more(best.problem, best.found.energy_j)
    relaxed = contract(better, Means.RELAXATION, options.least_share)
    graph = Indexed.of(relaxed.contracted)
    ranges = cost_blocks(graph)
    attempt = _Pass(relaxed, first=_first_backward(relaxed.contracted))
    if options.solver != DEFAULT_SOLVER or len(ranges) > _FEWER_BLOCKS * graph.n:
        if relaxed.contracted != better:
            with best.phase("relaxation", work):
                _improve(best, options, work, attempt)
        return
    blocks = formulate_blocks(graph, ranges, work.deadline)
    is_large = _is_large(graph)
    part = work.part(work.left * (1.0 if is_large else _BLOCKS_SHARE))
    with best.phase("blocks", part):
        bound_j, lineages = strengthen_blocks(blocks, best.found.energy_j, part)
        if is_large:
            proof = solve_program(blocks.program, replace(options, heuristics=False), part)
            bound_j = max(bound_j, proof.bound)
        best.prove(bound_j)
    if is_large or best.found.gap <= options.gap:
        return
    attempt = replace(attempt, hints=_Hints(blocks, tuple(lineages)))
    with best.phase("relaxation", work):
        proving = replace(options, heuristics=False, stalled_share=_STALLED_SHARE)
        _improve(best, proving, work, attempt)


def _first_backward(problem: ScheduleProblem) -> int:
    """The first stage of the backward pass; 0 without one."""
    return next((t for t, node in enumerate(problem.nodes) if node.backward), 0)


def _choices(graph: Indexed) -> int:
    """Recomputations that a program could choose from."""
    return sum(last - i for i, last in enumerate(graph.last_recompute))


def _is_large(graph: Indexed) -> bool:
    """True if the unrestricted program is more than a computer holds."""
    return _choices(graph) > _LARGE


def _search_everything(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Search the problem as it is, unless it is large."""
    if _is_large(Indexed.of(best.problem)):
        return
    better = without_what_costs_more(best.problem, best.found.energy_j)
    with best.phase("all plans", work):
        _improve(best, options, work, _Pass(Contraction.nothing(better)))


def search_algorithm_1(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """The best plan that Algorithm 1 finds."""
    best.offer(checkpoint_all(Indexed.of(best.problem)))
    if best.found.gap <= 0:
        return

    def write(problem: ScheduleProblem, _: ExecutionPlan | None) -> _Written:
        formulation = formulate_algorithm_1(Indexed.of(problem), work.deadline)
        return _Written(formulation.program, formulation.stages)

    with best.phase("Algorithm 1", work):
        _run(best, options, work, _Pass(Contraction.nothing(best.problem)), write)


@dataclass(frozen=True)
class _Written:
    """A problem as a program.

    Attributes:
        program, stages: what to solve, and what its columns stand for.
        start: a solution.
        bound_j: what its relaxation proves.
        units: work that solving it may take.
    """

    program: IntegerProgram
    stages: Callable[[Vector], StageEvents]
    start: Vector | None = None
    bound_j: float = -math.inf
    units: float = math.inf


_Write = Callable[[ScheduleProblem, ExecutionPlan | None], _Written]
"""Writes a problem as a program that starts from a plan of it."""


def _improve(best: Incumbent, options: SolveOptions, work: Work, attempt: _Pass) -> None:
    """Solve the compact formulation of a pass, starting from what is known."""

    def write(problem: ScheduleProblem, start: ExecutionPlan | None) -> _Written:
        graph = Indexed.of(problem)
        window, deadline = attempt.window, work.deadline
        units = math.inf
        relaxed = attempt.relaxed if problem is attempt.contraction.contracted else None
        if relaxed is None and options.solver == DEFAULT_SOLVER:
            outline = attempt.formulate(graph, deadline, outline=True)
            cuts = attempt.hints.cuts(Residency.of(graph, outline)) if attempt.hints else []
            far = _FAR_SHARE if best.found.gap > _FAR else _PROOF_SHARE
            share = _CUTS_SHARE if window is not None else far
            cutting = work.part(work.left * share)
            left = work.left
            relaxed = strengthen(graph, outline, best.found.energy_j, cutting, cuts)
            if window is None:
                units = max(left - work.left, _INTEGER_SHARE * work.left)
        compact = attempt.formulate(graph, deadline)
        first = compact.start(graph, start) if start else None
        if relaxed is None:
            return _Written(compact.program, compact.stages, first)
        if attempt.at_most is not None:
            outline = attempt.formulate(graph, deadline, outline=True)
            relaxed = Narrow.of(compact, outline).relaxed(relaxed)
        hold(compact.program, relaxed, best.found.energy_j)
        return _Written(compact.program, compact.stages, first, relaxed.bound, units)

    _run(best, options, work, attempt, write)


def _run(best: Incumbent, options: SolveOptions, work: Work, attempt: _Pass, write: _Write) -> None:
    """Solve the program of a pass until the simulator accepts its plan for the problem.

    The plan may overrun the budget or the deadline, by what a relaxation leaves out or by a
    solver's tolerance; then the program is solved again with that much less of it.
    """
    problem, contraction = best.problem, attempt.contraction
    tightened = contraction.contracted
    for _ in range(_TIGHTENINGS):
        written = write(tightened, _start(tightened, contraction, best.found.plan))
        proves = tightened is contraction.contracted and attempt.window is None
        if proves:
            best.prove(written.bound_j)
        graph = Indexed.of(tightened)
        read = partial(_read, problem, contraction, graph, written, work.deadline)
        watch = partial(_offer, best, read)
        part = work.part(written.units)
        solution = solve_program(written.program, options, part, written.start, watch)
        if proves:
            best.prove(solution.bound)
        if solution.values is None:
            break
        plan = read(solution.values)
        if accepts(problem, plan):
            best.offer(plan)
            break
        overrun = unlimited(problem, plan)
        ram_bytes = tightened.ram_bytes - max(0, overrun.peak_bytes - problem.ram_bytes)
        deadline_s = tightened.deadline_s
        if deadline_s is not None and problem.deadline_s is not None:
            deadline_s -= max(0.0, overrun.time_s - problem.deadline_s)
        tightened = replace(tightened, ram_bytes=ram_bytes, deadline_s=deadline_s)
        if not work.is_left():
            break


def _offer(best: Incumbent, read: Callable[[Vector], ExecutionPlan], values: Vector) -> None:
    """Tell of a solution while the solver goes on."""
    best.offer(read(values))


def _read(
    problem: ScheduleProblem,
    contraction: Contraction,
    graph: Indexed,
    written: _Written,
    deadline: Deadline,
    values: Vector,
) -> ExecutionPlan:
    """The plan of the problem that a solution of a pass stands for."""
    plan = contraction.expand(lower(graph, written.stages(values)))
    return plan_transfers(problem, plan, deadline)


def _start(
    problem: ScheduleProblem, contraction: Contraction, known: ExecutionPlan | None
) -> ExecutionPlan | None:
    """The best known plan as one of a pass; else the plan that pages the furthest next use."""
    start = contraction.contract(known) if known is not None else None
    if start is not None and accepts(problem, start):
        return start
    return furthest_use(Indexed.of(problem))
