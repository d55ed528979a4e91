# SPDX-License-Identifier: Apache-2.0
"""Budget of the arena, the best plan within it, and the error if no plan fits.

In all commands, a budget is the number of bytes that the arena may occupy: with resident bytes
(parameters, optimizer state, running statistics and the page buffer); activations, gradients and
workspace share the rest, which is a problem's `ram_bytes`. Static data and the stack come on top. A
fraction refers to the RAM that keeping every tensor takes, without resident bytes
(`TrainingProblem.budget_bytes`): 0 leaves no RAM for tensors, 1 keeps all. The papers define it so,
too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from poetfw.boards import Board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import RAISE_TIME_LIMIT, Work
from poetfw.costs import CostProvider
from poetfw.firmware import BLOCK_BYTES, KeptFeatures, Ring, assign_slots, render_project
from poetfw.ir import Dtype, Graph
from poetfw.memory import resident_bytes
from poetfw.planning.advice import fewer_layers, smaller_batch
from poetfw.planning.curve import following
from poetfw.planning.inference import (
    least_evaluation,
    search_placeable,
    tightened,
    with_lower_peak,
)
from poetfw.planning.plans import Plan, lower_plan, place_plan
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import (
    ExecutionPlan,
    Schedule,
    ScheduleProblem,
    Tell,
    minimum_budget,
    simulate,
    solve,
    tell_nobody,
)
from poetfw.settings import BuildSettings
from poetfw.tools import static_ram_bytes
from poetfw.training import (
    Program,
    constant_bytes,
    look_up,
    lookup_tables,
    streamable_constants,
)

_MOST_ARENA_BYTES = 2**32 - BLOCK_BYTES

_MINIMUM_SHARE = 0.25  # of the work

_CODE_SHARE = 1 / 4
_LEAST_CODE_BYTES = 65536
"""Flash that is left to code where frozen weights are streamed: a share of it, or more."""


def arena_budget(
    program: Program,
    board: Board,
    plan: Plan,
    ring: Ring | None = None,
    kept: KeptFeatures | None = None,
) -> int:
    """Largest possible budget: the board's RAM without stack, static data and reserved bytes.

    It is less than 4 GiB, as firmware counts bytes in 32 bits.

    Static data is measured: the firmware of a plan is compiled, and the sizes of its objects'
    data sections are summed. The sum is the same for every plan, but depends on the ring and
    on whether features are kept.
    """
    slots = assign_slots(program, plan.training.plan)
    lowering = lower_plan(program, board, plan, slots, ring, kept=kept)
    static = static_ram_bytes(render_project(lowering.view, board), board)
    return min(board.unreserved_bytes - static, _MOST_ARENA_BYTES)


def require_flash(program: Program, boards: Iterable[Board]) -> None:
    """Check that each board's flash has room for the constants: frozen weights and statistics.

    Raises:
        InfeasibleError: The constants of a board exceed its flash; the message names the largest.
    """
    for board in boards:
        if constant_bytes(program) > _flash_bytes(board):
            raise _beyond_flash(program, board)


def keep_in_flash(program: Program, board: Board, obstacle: str) -> Program:
    """The program, with the names of the frozen weights that flash has no room for, if any.

    If not all constants fit, a share of the flash is left to code. The largest tensors that fit the
    rest are in flash, and those that cannot be streamed.

    Args:
        program: a program in which nothing is streamed.
        board: the board.
        obstacle: reason why weights cannot be streamed on the board; empty if they can.

    Raises:
        InfeasibleError: Those that cannot be streamed exceed the flash.
    """
    needed, there = constant_bytes(program), _flash_bytes(board)
    if needed <= there:
        return program
    weights = (each.weight for each in streamable_constants(program))
    choices = [] if obstacle else [*lookup_tables(program), *weights]
    held = needed - sum(each.size_bytes for each in choices)
    if held > there:
        why = f": {obstacle}" if obstacle else ""
        raise _beyond_flash(
            program, board, f". {held:,} bytes of them cannot be streamed from storage{why}"
        )
    names, room = set(), there - max(_LEAST_CODE_BYTES, there * _CODE_SHARE)
    for each in sorted(choices, key=lambda tensor: -tensor.size_bytes):
        if held + each.size_bytes <= room:
            held += each.size_bytes
        else:
            names.add(each.name)
    return replace(look_up(program, names), beyond_flash=frozenset(names))


def _flash_bytes(board: Board) -> int:
    """Bytes of flash for a program."""
    return board.flash_bytes - board.reserved_flash_bytes


def _beyond_flash(program: Program, board: Board, more: str = "") -> InfeasibleError:
    packed = any(tensor.dtype is Dtype.I32 for tensor in program.constants)  # as words
    largest = sorted(program.constants, key=lambda tensor: -tensor.size_bytes)[:3]
    return InfeasibleError(
        f"weights that are not trained take {constant_bytes(program):,} bytes of flash, of which "
        f"{board.label} has {_flash_bytes(board):,}; the largest are "
        + ", ".join(f"{t.name!r:.60} ({t.size_bytes:,})" for t in largest)
        + more,
        *([] if packed else ["--frozen-as int8 keeps weights of layers in a quarter of it"]),
        "train a smaller network, or choose a board with more flash",
    )


def plan_within(
    program: Program,
    board: Board,
    costs: CostProvider,
    budget_bytes: int,
    settings: BuildSettings,
    evaluation: Schedule,
    work: Work,
    tell: Tell = tell_nobody,
    known: Sequence[ExecutionPlan] = (),
) -> tuple[Plan, int]:
    """Find the best plan within a budget; returns it and the smallest feasible budget in bytes.

    Args:
        program: training and evaluation step.
        board: target board.
        costs: provider of op costs.
        budget_bytes: budget of the arena.
        settings: settings with the deadline and the scheduler.
        evaluation: schedule of the evaluation step.
        work: limit of all searches for schedules together. Searches for orders and addresses have
            limits of their own, and the same deadline.
        tell: called with the progress of the search.
        known: plans to start from; ignored unless the scheduler is poet, as others have rules.

    Raises:
        InfeasibleError: No schedule fits; the message names the smallest feasible budget.
    """
    table = costs(program.training, board)
    problem = replace(
        schedule_problem(program.training, board, table, None, settings.deadline_s),
        resident_bytes=resident_bytes(program.resident, BLOCK_BYTES),
    )
    with work.part(work.left * _MINIMUM_SHARE).phase("smallest budget") as part:
        minimum = check_budget(program, board, costs, problem, evaluation, budget_bytes, part)
    scheduler = settings.scheduler
    start = known if scheduler == "poet" else ()
    try:
        plan = place_within(
            program, problem, budget_bytes, scheduler, evaluation, work, tell, start
        )
    except InfeasibleError:
        if scheduler != "poet" or problem.storage is None:
            raise
        swapping = (
            "swap-on-demand"  # nothing lies between the buffers of one op, so there are no gaps
        )
        plan = place_within(program, problem, budget_bytes, swapping, evaluation, work, tell)
    return plan, minimum


def place_within(
    program: Program,
    problem: ScheduleProblem,
    budget_bytes: int,
    scheduler: str,
    evaluation: Schedule,
    work: Work,
    tell: Tell = tell_nobody,
    known: Sequence[ExecutionPlan] = (),
    most_j: float = math.inf,
) -> Plan:
    """Find the best schedule whose buffers can be placed within the budget.

    Args:
        program: training and evaluation step.
        problem: schedule problem of the training step, with resident bytes.
        budget_bytes: budget of the arena.
        scheduler: name of the scheduler.
        evaluation: schedule of the evaluation step.
        work: limit of all attempts together.
        tell: called with the progress of the search.
        known: plans to start from. The answer is never worse than the best that can be placed.
        most_j: energy of a plan that is not worth placing.

    Raises:
        InfeasibleError: No schedule was found whose buffers could be placed.
    """
    deadline = work.deadline
    tried: list[Schedule] = []

    def placed(limited: ScheduleProblem, training: Schedule) -> Plan:
        training = with_lower_peak(limited, training, deadline)
        if limited is not available:  # figures and bounds are those of all RAM
            training = following(available, tried[0], training.plan)
        return place_plan(program, training, evaluation, deadline)

    def attempt(limited: ScheduleProblem, part: Work) -> tuple[Plan, ScheduleProblem | None]:
        tried.append(solve(limited, scheduler, known=known, work=part, tell=tell))
        if tried[-1].energy_j >= most_j:
            raise InfeasibleError(f"the schedules that were found take {most_j:g} J or more")
        plan = placed(limited, tried[-1])
        return plan, tightened(limited, plan.memory.arena_bytes - budget_bytes)

    available = replace(problem, ram_bytes=budget_bytes - problem.resident_bytes)
    found: list[Plan] = []
    try:
        plan, fits = search_placeable(available, attempt, work)
        found += [plan] if fits else []
    except InfeasibleError:
        if not tried:
            raise
    if len(tried) > 1:  # a search in less RAM may have missed them
        others = (following(available, tried[0], plan) for plan in known)
        plans = [placed(available, other) for other in others]
        found += [plan for plan in plans if plan.memory.arena_bytes <= budget_bytes]
    if found:
        return min(found, key=lambda plan: plan.training.energy_j)
    raise InfeasibleError(
        f"no schedule was found whose buffers could be placed within {budget_bytes:,} bytes",
        *([RAISE_TIME_LIMIT] if deadline.decided else []),
        "raise --ram",
        *smaller_batch(program),
    )


def check_budget(
    program: Program,
    board: Board,
    costs: CostProvider,
    problem: ScheduleProblem,
    evaluation: Schedule,
    budget_bytes: int,
    work: Work,
) -> int:
    """Check that some schedule fits the budget; returns the smallest feasible budget in bytes.

    Raises:
        InfeasibleError: No schedule fits the budget; the message says which bytes exceed it.
    """
    resident = resident_bytes(program.resident, BLOCK_BYTES)
    needed, op, exact = minimum_budget(problem, work=work)
    what, needs = f"Op {op!r}", "needs at least" if exact else "needs, as far as is known,"
    if evaluation.peak_bytes > needed:
        evaluation = least_evaluation(program, board, costs, work)
    if evaluation.peak_bytes > needed:
        needed = evaluation.peak_bytes
        what = f"Op {_op_at_peak(program.evaluation, board, costs, evaluation)!r} of the evaluation"
        needs = "needs, as far as is known,"
    if resident + needed <= budget_bytes:
        return resident + needed
    state = _state_bytes(program)
    never_free = (
        f"{resident:,} that are never free (parameters, running statistics and the page buffer"
        + (f", and {state:,} of optimizer state)" if state else ")")
    )
    least = f"{program.training.name} {needs} {resident + needed:,} bytes"
    at_once = f"{what} needs {needed:,} at once"
    if resident > budget_bytes:  # which no schedule can change
        why = f"it cannot hold the {never_free}. {least}, as {at_once} in addition to these"
    else:
        why = f"{least}. {at_once}, in addition to the {never_free}"
    raise InfeasibleError(
        f"the budget of {budget_bytes:,} bytes is too small: {why}",
        *([RAISE_TIME_LIMIT] if work.deadline.decided else []),
        *_ways_out(program, board, resident, needed, budget_bytes),
        minimum_budget_bytes=resident + needed,
    )


def _state_bytes(program: Program) -> int:
    """Bytes of optimizer state: resident tensors that evaluation does not read."""
    names = {name for states in program.parameter_states.values() for name in states}
    return sum(tensor.size_bytes for tensor in program.resident if tensor.name in names)


def _ways_out(
    program: Program, board: Board, resident: int, needed: int, budget_bytes: int
) -> list[str]:
    """Advice for a budget that is too small: measures that can help in this case."""
    advice = []
    if resident + needed <= board.unreserved_bytes:
        advice.append(f"raise the budget to {resident + needed:,} bytes")
    if resident <= budget_bytes:
        advice += smaller_batch(program)
    state = _state_bytes(program)
    if state and resident - state < budget_bytes:
        advice.append(f"set --optimizer sgd --momentum 0: {state:,} bytes of optimizer state less")
    advice += fewer_layers(program)
    return [*advice, "choose a smaller model or a board with more RAM (`poetfw boards`)"]


def _op_at_peak(graph: Graph, board: Board, costs: CostProvider, schedule: Schedule) -> str:
    """Name of the op at the peak of a schedule."""
    problem = schedule_problem(graph, board, costs(graph, board), None)
    during = simulate(problem, schedule.plan).during_bytes
    return schedule.plan[during.index(max(during))].node
