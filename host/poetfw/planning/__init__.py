# SPDX-License-Identifier: Apache-2.0
"""Decisions of a build before its project is written: model, problem, budget, plan, addresses."""

from poetfw.planning.budget import arena_budget, plan_within
from poetfw.planning.build import Build, Image, folders_of, report_build, schedule_bytes
from poetfw.planning.choices import (
    choose_optimizer,
    derive_program,
    load_model,
    make_ring,
    order_program,
)
from poetfw.planning.costing import costs_from, database_for
from poetfw.planning.curve import Curve, Point, budgets_between, smallest_budget
from poetfw.planning.decision import Decision, Progress, Searching, decide
from poetfw.planning.devices import devices_problem, load_devices_problem, read_device
from poetfw.planning.held_out import effect_of_format, held_out_batches
from poetfw.planning.homes import sets_of
from poetfw.planning.inference import plan_evaluation, with_lower_peak
from poetfw.planning.kept_features import choose_features
from poetfw.planning.more_ram import saved_by_more_ram
from poetfw.planning.needs import RamNeeds, ram_needs
from poetfw.planning.plans import Plan, lower_plan, place_plan, plan_unscheduled
from poetfw.planning.problem import schedule_problem
from poetfw.planning.several import boards_of, plan_on_devices
from poetfw.planning.stored import effect_of_storing
from poetfw.planning.training_problem import TrainingProblem
from poetfw.planning.unbuilt import (
    load_schedule_problem,
    load_training_problem,
    training_problem_of,
)
from poetfw.planning.update_plan import UpdatePlan, Updates, calibration_batches
from poetfw.planning.watchdog import require_fed, watchdog_time_ms
from poetfw.settings import BuildSettings, DevicesSettings

__all__ = [
    "Build",
    "BuildSettings",
    "Curve",
    "Decision",
    "DevicesSettings",
    "Image",
    "Plan",
    "Point",
    "Progress",
    "RamNeeds",
    "Searching",
    "TrainingProblem",
    "UpdatePlan",
    "Updates",
    "arena_budget",
    "boards_of",
    "budgets_between",
    "calibration_batches",
    "choose_features",
    "choose_optimizer",
    "costs_from",
    "database_for",
    "decide",
    "derive_program",
    "devices_problem",
    "effect_of_format",
    "effect_of_storing",
    "folders_of",
    "held_out_batches",
    "load_devices_problem",
    "load_model",
    "load_schedule_problem",
    "load_training_problem",
    "lower_plan",
    "make_ring",
    "order_program",
    "place_plan",
    "plan_evaluation",
    "plan_on_devices",
    "plan_unscheduled",
    "plan_within",
    "ram_needs",
    "read_device",
    "report_build",
    "require_fed",
    "saved_by_more_ram",
    "schedule_bytes",
    "schedule_problem",
    "sets_of",
    "smallest_budget",
    "training_problem_of",
    "watchdog_time_ms",
    "with_lower_peak",
]
