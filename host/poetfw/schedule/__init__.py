# SPDX-License-Identifier: Apache-2.0
"""Schedules that train within the budget: when to compute, recompute and page.

The package can be called: `poetfw.schedule(problem)` (docs/python.md).
"""

from poetfw.common.callable_package import make_callable
from poetfw.common.transfer import Transfer
from poetfw.schedule.bounds import (
    MinimumBudget,
    ShortestTime,
    largest_working_set,
    minimum_budget,
    shortest_time,
    working_sets,
)
from poetfw.schedule.found import SearchProgress, Tell, tell_nobody
from poetfw.schedule.handing import handed
from poetfw.schedule.paper_model import MODELS_AS, as_published
from poetfw.schedule.problem import (
    BoundCovers,
    ExecutionPlan,
    Node,
    PlanFigures,
    Schedule,
    ScheduleProblem,
    ScheduleSummary,
    Status,
    Step,
    StepKind,
    Storage,
    overhead_gap,
)
from poetfw.schedule.problem_json import (
    plan_from_json,
    plan_to_json,
    problem_from_json,
    problem_to_json,
    schedule_to_json,
)
from poetfw.schedule.search import SolveOptions
from poetfw.schedule.simulator import Simulation, simulate, step_costs
from poetfw.schedule.solve import SCHEDULERS, Interrupted, Scheduler, checkpoint_all_schedule, solve
from poetfw.schedule.timeline import Span, StepCost
from poetfw.schedule.validation import validate

__all__ = [
    "MODELS_AS",
    "SCHEDULERS",
    "BoundCovers",
    "ExecutionPlan",
    "Interrupted",
    "MinimumBudget",
    "Node",
    "PlanFigures",
    "Schedule",
    "ScheduleProblem",
    "ScheduleSummary",
    "Scheduler",
    "SearchProgress",
    "ShortestTime",
    "Simulation",
    "SolveOptions",
    "Span",
    "Status",
    "Step",
    "StepCost",
    "StepKind",
    "Storage",
    "Tell",
    "Transfer",
    "as_published",
    "checkpoint_all_schedule",
    "handed",
    "largest_working_set",
    "minimum_budget",
    "overhead_gap",
    "plan_from_json",
    "plan_to_json",
    "problem_from_json",
    "problem_to_json",
    "schedule_to_json",
    "shortest_time",
    "simulate",
    "solve",
    "step_costs",
    "tell_nobody",
    "validate",
    "working_sets",
]

make_callable(__name__, "poetfw.api.searches.schedule")
