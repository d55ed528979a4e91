# SPDX-License-Identifier: Apache-2.0
"""Published methods by name, each a function from a problem to a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from poetfw.common.limits import Deadline, Work
from poetfw.schedule.baselines.autoswap import autoswap
from poetfw.schedule.baselines.capuchin import capuchin
from poetfw.schedule.baselines.chen_greedy import chen_greedy
from poetfw.schedule.baselines.chen_sqrt import chen_sqrt
from poetfw.schedule.baselines.dtr import dtr
from poetfw.schedule.baselines.dynprog import dynprog
from poetfw.schedule.baselines.greedy import greedy
from poetfw.schedule.baselines.griewank import griewank
from poetfw.schedule.baselines.nntrainer_swap import (
    swap_on_demand,
    swap_proactive,
    swap_reduced,
)
from poetfw.schedule.baselines.pofo import pofo
from poetfw.schedule.baselines.tflms import tflms
from poetfw.schedule.baselines.vdnn import vdnn
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem

_WALK_WORK = 2e-6  # work units per node, for each item that a published method processes


@dataclass(frozen=True, slots=True)
class Baseline:
    """Published method.

    Attributes:
        description: method and authors, in a few words.
        method: function that finds a plan; see `plan`.
    """

    description: str
    method: Callable[[ScheduleProblem, Deadline], ExecutionPlan]

    def plan(self, problem: ScheduleProblem, deadline: Deadline | None = None) -> ExecutionPlan:
        """Plan of the method.

        Args:
            problem: the problem.
            deadline: time limit; None for none.

        Raises:
            UnsuitableError: the method finds no plan.
            OutOfTime: the deadline has passed.
        """
        return self.method(problem, deadline or Deadline())


def published_plan(problem: ScheduleProblem, baseline: Baseline, work: Work) -> ExecutionPlan:
    """Plan of a published method, within a work limit.

    Args:
        problem: the problem.
        baseline: the method.
        work: work limit. Each item that the method processes counts as a walk through the nodes.

    Raises:
        UnsuitableError: the method finds no plan.
        PlanError: its plan is illegal.
        OutOfTime: the deadline has passed, or no work is left.
    """
    units = len(problem.nodes) * _WALK_WORK
    work.spend(units)
    return baseline.plan(problem, work.metered(units))


def _at_once(
    method: Callable[[ScheduleProblem], ExecutionPlan],
) -> Callable[[ScheduleProblem, Deadline], ExecutionPlan]:
    """Adapt a method that is too fast to need a deadline."""
    return lambda problem, _: method(problem)


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "chen-sqrt": Baseline("recompute √n segments (Chen et al. 2016)", _at_once(chen_sqrt)),
        "chen-greedy": Baseline("recompute segments of b bytes (Chen et al. 2016)", chen_greedy),
        "griewank": Baseline("binomial checkpointing (Griewank and Walther 2000)", griewank),
        "dtr": Baseline("evict and recompute at run time (Kirisame et al. 2021)", dtr),
        "capuchin": Baseline("page first, then recompute (Peng et al. 2020)", capuchin),
        "pofo": Baseline("offload and recompute on a chain (Beaumont et al. 2021)", pofo),
        "greedy": Baseline("page the first tensors (Beaumont et al. 2020)", _at_once(greedy)),
        "dynprog": Baseline("page what delays least (Beaumont et al. 2020)", dynprog),
        "vdnn": Baseline("page what convolutions read (Rhu et al. 2016)", _at_once(vdnn)),
        "autoswap": Baseline("page by priority (Zhang et al. 2019)", autoswap),
        "swap-on-demand": Baseline(
            "page between all uses (Moon et al. 2024)", _at_once(swap_on_demand)
        ),
        "swap-reduced": Baseline("page between uses as needed (Moon et al. 2024)", swap_reduced),
        "swap-proactive": Baseline(
            "page in one op ahead (Moon et al. 2024)", _at_once(swap_proactive)
        ),
        "tflms": Baseline("page the longest edges (Le et al. 2018)", _at_once(tflms)),
    }
)
"""Published methods that are not integer programs of their own."""
