# SPDX-License-Identifier: Apache-2.0
"""Phases of the search (first plans, restrictions, relaxations) and their shares of the work."""

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
from poetfw.schedule.strengthen import hold, strengthen, strengthen_periods
from poetfw.schedule.transfers import plan_transfers
from poetfw.schedule.turn import search_turn

_TIGHTENINGS = 3
_FIRST_PLAN_SHARE = 0.25  # of the work
_BLOCKS_SHARE = 0.15  # of the work left
_CUTS_SHARE = 0.5  # of a pass, for cuts; the rest is for its integer program
_PROOF_SHARE = 0.7  # the same without a window, where the pass proves bounds
_FAR_SHARE = 0.95  # the same if the gap is too large for branching to help
_FAR = 1e-2  # smallest such gap
_INTEGER_SHARE = 0.25  # of the work left: least share of an integer program without a window
_LEAST_SHARE = 0.05  # of the work for programs in stages: with less left, none is started
_TIMES = 2.0  # work that a larger program needs, in multiples of the smaller one before it
_OTHER_SHARE = 0.1  # of that work, for another order: its bounds do not hold for the given one
_STALLED_SHARE = 1.5e-5  # of the objective's offset: see `SolverOptions.stalled_share`
_ITEM_WORK = 2e-6  # units per item of the blocks' knapsacks, to formulate them
_FEWER_BLOCKS = 0.5  # of the stages: with more blocks the program is not smaller
_SMALL = 1_000  # candidate recomputes: with fewer, the program is solved without local search
_LARGE = 20_000  # candidate recomputes: larger problems are bounded by blocks only
_STAGED = 1_000  # nodes: larger programs in stages do not fit in memory
_TURN_SHARE = 0.3  # of the work
_EVERY_SHARE = 0.1  # of the work
_EVERY_ALONE_SHARE = 0.5  # the same of graphs without programs in stages
_NEAR = 1e-3  # of the energy: with this gap, larger graphs have moves only
_EVERY_WORK = 1.0  # work units at the end of a search, even if none are left
_OUTSIDE_SHARE = 0.3  # of the work left, for the same bound where no other one covers the plan
_ORDER_SHARE = 0.1  # of the work
_PUBLISHED_SHARE = 0.2  # of the work, per order
_ON_DEMAND_SHARE = 0.1  # of the work, per order
_SEQUENCES_SHARE = 0.7  # of the work at most; less if the overhead is a smaller share
_LOOK_SHARE = 0.25  # of the work within the window, per order
_USED_SHARE = 0.6  # of the same, for the columns that each order's relaxation uses
_MOVES_SHARE = 0.05  # of the work left
_WINDOW_STAGES = 6_000  # nodes times stages of a window: 20 nodes for 300 stages
_LEAST_WINDOW = 8
_LARGE_WINDOW_SHARE = 0.7
_WINDOW_SHARE = 0.4  # of the work left, for plans; later phases prove bounds
_UNFOUND_SHARE = 0.5  # of the same, without a plan: keeps work to explain infeasibility


@dataclass(frozen=True, slots=True)
class SolveOptions(SolverOptions):
    """Options of the search for a schedule.

    Attributes:
        window: largest window, in nodes, of a first, restricted search; large problems use smaller
            ones. None to start with the unrestricted search. See `compact.formulate`.
        small_share: share of the budget of the smallest tensors that the first search simplifies;
            see `contract`.
        least_share: the same for lower bounds, which this weakens.
        other_orders: true to also search other orders of first computations.
    """

    window: int | None = WINDOW
    small_share: float = SMALL_SHARE
    least_share: float = 0.01
    other_orders: bool = True


def search_checkpoint_all(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Offer the plan that keeps every tensor, which is optimal if it fits."""
    best.offer(checkpoint_all(Indexed.of(best.problem)))


def search_compact(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Search with the compact formulation, starting from the best published method's plan.

    1. Programs of the contracted problem, restricted to a window, find a good plan quickly, in the
       given order and in one that exceeds the budget less.
    2. Programs of relaxations, then of the whole problem, improve the plan and prove lower bounds
       of plans in the given order. They omit variables that no better plan uses. If the incumbent
       is in the other order, the work left goes into the same programs in that order.
    3. A local search changes the order of the incumbent's steps.

    Large graphs start with `search_turn` and a lower bound of all plans, which may end the search;
    other graphs get that bound at the end. The smallest are then searched in all orders.

    The deadline is ignored at first, and for the whole search if the plan found within the window
    meets it.
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
        _search_turn(best, options, work)
    if best.found.gap > options.gap and not graph.is_rigid:
        with best.at_leisure():
            _search_in_phases(best, options, work)
            is_in_time = best.keep_in_time()
        if not is_in_time:
            _search_in_phases(best, options, work)
    if not best.is_best_of_all() and not large and not graph.is_rigid:
        _bound_every_plan(best, work, max(_EVERY_WORK, work.left if best.is_outside() else 0.0))
    if graph.n <= NODES and options.other_orders and not best.is_best_of_all():
        with best.phase("all orders", work):
            search_all_orders(best, work)


def _search_rigid(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Search for an order that fits: without recompute or paging all plans take equal energy."""
    _bound_every_plan(best, work, work.left * _EVERY_SHARE)
    if math.isfinite(best.found.every_j) and options.other_orders:
        with best.phase("order", work.part(work.left * _ORDER_SHARE)) as part:
            best.offer(checkpoint_all(Indexed.of(in_better_order(best.problem, part))))


def _search_turn(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Run `search_turn`, then prove a lower bound of all plans."""
    with best.at_leisure():
        with best.phase("over the turn", work.part(work.left * _TURN_SHARE)) as part:
            search_turn(best, part)
        best.keep_in_time()
    if len(best.problem.nodes) <= _STAGED:
        _bound_every_plan(best, work, work.left * _EVERY_SHARE)
        return
    enough_j = best.found.energy_j * (1 - options.gap)
    _bound_every_plan(best, work, work.left * _EVERY_ALONE_SHARE, enough_j)


def _bound_every_plan(
    best: Incumbent, work: Work, units: float, enough_j: float = math.inf
) -> None:
    """Prove a lower bound of all plans with `units` of work, even if no work is left."""
    part = work.beside(units)
    with best.phase("every plan", part):
        best.prove_of_every_plan(bound_of_every_plan(Indexed.of(best.problem), part, enough_j))
    work.spend(units - part.left)


def _search_in_phases(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Phases of `search_compact`; in `at_leisure`, stop if the incumbent misses the deadline."""
    problem = best.problem
    graph = Indexed.of(problem)
    staged = graph.n <= _STAGED
    near = not staged and best.is_best_of_all(_NEAR)
    if not near:
        _try_published(best, work)
        _run_on_demand(best, options, work)
    ordered = problem
    worth = staged and not (_is_large(graph) and best.is_best_of_all(_FAR))
    if options.other_orders and worth and _is_dear(best, options):
        with best.phase("order", work.part(work.left * _ORDER_SHARE)) as part:
            ordered = in_better_order(problem, part)
        if ordered != problem:
            with best.in_order(ordered):
                _try_published(best, work)
                _run_on_demand(best, options, work)
    _improve_start(best, options, work)
    if not staged:
        if best.keep_in_time() and best.found.plan is not None and not near:
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
    chosen = _choose_order(best, problem if _is_large(graph) else ordered, options, in_stages)
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
    share = 1 - _OUTSIDE_SHARE if best.is_outside() else 1.0
    _search_orders(best, best.found.plan or tightest, options, work.part(work.left * share))


def _search_orders(
    best: Incumbent, start: ExecutionPlan | None, options: SolveOptions, work: Work
) -> None:
    if options.other_orders and start and _is_dear(best, options):
        with best.phase("other orders", work):
            search_orders(best, start, work, options.gap)


def _is_dear(best: Incumbent, options: SolveOptions) -> bool:
    """True if the incumbent's energy exceeds computing each node once by more than the gap."""
    once_j = math.fsum(node.energy_j for node in best.problem.nodes)
    return best.found.energy_j > once_j * (1 + options.gap)


def _choose_order(
    best: Incumbent, ordered: ScheduleProblem, options: SolveOptions, work: Work
) -> ScheduleProblem:
    """Search within the window in both orders; return the order of the best plan.

    The order whose relaxation has the smaller bound comes first and gets most of the work.

    Args:
        best: the incumbent.
        ordered: the problem in the other order, or as given.
        options: options of the search.
        work: limit of the whole search, of which this takes a share.
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
    """Plans of the published methods, until the work is spent.

    Methods that produce an illegal plan are reported and left out.
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
    """Improve the incumbent by `search_sequences`, with more work the larger its overhead."""
    problem, found = best.problem, best.found
    if problem.deadline_s is not None or found.plan is None or not _is_dear(best, options):
        return
    if _choices(Indexed.of(problem)) > _SMALL:
        once_j = math.fsum(node.energy_j for node in problem.nodes)
        share = min(_SEQUENCES_SHARE, (found.energy_j - once_j) / found.energy_j)
        with best.phase("moves", work.part(work.left * share)) as part:
            search_sequences(best, part, options.gap)


@dataclass(frozen=True, slots=True)
class _Hints:
    """Tight lineage cuts of a block relaxation."""

    blocks: BlockRelaxation
    lineages: tuple[Lineage, ...]

    def cuts(self, residency: Residency) -> list[Cut]:
        """The same cuts in the columns of the compact program."""
        stages = [x for lineage in self.lineages for x in self.blocks.in_stages(lineage, residency)]
        return list({cut.terms: cut for cut in (x.cut(residency) for x in stages)}.values())


@dataclass(frozen=True, slots=True)
class _Pass:
    """One program of the search, which starts from the incumbent.

    Attributes:
        contraction: the problem and its contracted form.
        window: window for recomputes, in nodes; None for no restriction.
        first: first stage with RAM rows; see `compact.formulate`.
        hints: initial cuts, or None.
        relaxed: result of its outline's relaxation, if known.
        at_most: productions allowed; None for all.
    """

    contraction: Contraction
    window: int | None = None
    first: int = 0
    hints: _Hints | None = None
    relaxed: Relaxed | None = None
    at_most: StageEvents | None = None

    @property
    def bound_j(self) -> float:
        """Lower bound of the program's plans in joules; -infinity if unknown."""
        return self.relaxed.bound if self.relaxed else -math.inf

    def formulate(self, graph: Indexed, deadline: Deadline, outline: bool = False) -> Compact:
        """The compact program of `graph`, the contracted problem or a tightened one."""
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
    """Solve a pass restricted to the columns that its relaxation uses: small, and fast to solve."""
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
    """Solve a pass whose plans recompute only within the window."""
    relaxed = attempt.relaxed
    if relaxed is not None and relaxed.bound >= best.found.energy_j * (1 - options.gap):
        return  # no plan within the window is better
    with best.phase("plans nearby", work):
        _improve(best, options, work, attempt)


def _has_nearby(best: Incumbent, options: SolveOptions) -> bool:
    """True if the problem has a backward pass and the options a window."""
    return options.window is not None and any(node.backward for node in best.problem.nodes)


def _nearby(best: Incumbent, problem: ScheduleProblem, options: SolveOptions) -> _Pass:
    """The windowed pass of a problem's contraction."""
    better = without_what_costs_more(problem, best.found.energy_j)
    nearby = contract(better, Means.RESTRICTION, options.small_share)
    assert options.window is not None
    stages = len(nearby.contracted.nodes)
    window = min(options.window, max(_LEAST_WINDOW, _WINDOW_STAGES // stages))
    return _Pass(nearby, window)


def _look(best: Incumbent, attempt: _Pass, work: Work) -> _Pass:
    """The pass with the result of its relaxation."""
    part = work.part(work.left * _LOOK_SHARE)
    graph = Indexed.of(attempt.contraction.contracted)
    outline = attempt.formulate(graph, work.deadline, outline=True)
    return replace(attempt, relaxed=strengthen(graph, outline, best.found.energy_j, part))


def _search_relaxation(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Prove a lower bound of plans in stages: by blocks, and by all stages if not too large."""
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
    is_large = _is_large(graph)
    part = work.part(work.left * (1.0 if is_large else _BLOCKS_SHARE))
    with best.phase("blocks", part):
        blocks = formulate_blocks(graph, ranges, work.deadline)
        part.spend(_ITEM_WORK * sum(len(knapsack.items) for knapsack in blocks.knapsacks))
        bounded, lineages = strengthen_periods(
            blocks.program, blocks.residency, blocks.knapsacks, best.found.energy_j, part
        )
        best.prove(bounded.bound)
    if is_large or best.found.gap <= options.gap:
        return
    attempt = replace(attempt, hints=_Hints(blocks, tuple(lineages)))
    with best.phase("relaxation", work):
        proving = replace(options, heuristics=False, stalled_share=_STALLED_SHARE)
        _improve(best, proving, work, attempt)


def _first_backward(problem: ScheduleProblem) -> int:
    """Number of the first backward stage; 0 if there is no backward pass."""
    return next((t for t, node in enumerate(problem.nodes) if node.backward), 0)


def _choices(graph: Indexed) -> int:
    """Number of candidate recomputes: pairs (stage, node) of the unrestricted program."""
    return sum(last - i for i, last in enumerate(graph.last_recompute))


def _is_large(graph: Indexed) -> bool:
    """True if the unrestricted program is too large to solve."""
    return graph.n > _STAGED or _choices(graph) > _LARGE


def _search_everything(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Solve the unrestricted program of the problem, unless it is large."""
    if _is_large(Indexed.of(best.problem)):
        return
    better = without_what_costs_more(best.problem, best.found.energy_j)
    with best.phase("all plans", work):
        _improve(best, options, work, _Pass(Contraction.nothing(better)))


def search_algorithm_1(best: Incumbent, options: SolveOptions, work: Work) -> None:
    """Search with POET's Algorithm 1."""
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
    """A problem written as a program.

    Attributes:
        program: the program to solve.
        stages: converts a solution to recomputes and page-ins.
        start: starting solution by column, or None.
        bound_j: lower bound proven by its relaxation, in joules.
        units: work limit of the solver.
    """

    program: IntegerProgram
    stages: Callable[[Vector], StageEvents]
    start: Vector | None = None
    bound_j: float = -math.inf
    units: float = math.inf


_Write = Callable[[ScheduleProblem, ExecutionPlan | None], _Written]
"""Function that writes a problem as a program, with a plan as its starting solution."""


def _improve(best: Incumbent, options: SolveOptions, work: Work, attempt: _Pass) -> None:
    """Solve the compact formulation of a pass, starting from the incumbent."""

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

    The plan may exceed the budget or the deadline, because of a relaxation or a solver's tolerance.
    Then the program is solved again with the limit reduced by the excess.
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
    """Offer the plan of a solution while the solver continues."""
    best.offer(read(values))


def _read(
    problem: ScheduleProblem,
    contraction: Contraction,
    graph: Indexed,
    written: _Written,
    deadline: Deadline,
    values: Vector,
) -> ExecutionPlan:
    """Convert a solution of a pass to a plan of the problem."""
    plan = contraction.expand(lower(graph, written.stages(values)))
    return plan_transfers(problem, plan, deadline)


def _start(
    problem: ScheduleProblem, contraction: Contraction, known: ExecutionPlan | None
) -> ExecutionPlan | None:
    """The incumbent converted to the pass's problem if legal there; else `furthest_use`'s plan."""
    start = contraction.contract(known) if known is not None else None
    if start is not None and accepts(problem, start):
        return start
    return furthest_use(Indexed.of(problem))
