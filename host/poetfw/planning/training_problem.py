# SPDX-License-Identifier: Apache-2.0
"""The schedule problem of a training step without its budget, and the budgets that it may have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from poetfw.boards import Board
from poetfw.common.errors import InfeasibleError
from poetfw.common.option_values import LARGEST_BYTES
from poetfw.costs import CostTable
from poetfw.schedule import MODELS_AS, ScheduleProblem, checkpoint_all_schedule, minimum_budget


@dataclass(frozen=True)
class TrainingProblem:
    """A schedule problem of which the budget is still to be set.

    Attributes:
        problem: the schedule problem, with what is resident.
        evaluation_bytes: what the evaluation step, which keeps everything, needs of the budget.
        board: where it runs; None for a problem from a file.
        costs: what its ops cost there; None for a problem from a file.
    """

    problem: ScheduleProblem
    evaluation_bytes: int = 0
    board: Board | None = None
    costs: CostTable | None = None

    @cached_property
    def _minimum_bytes(self) -> int:
        """The smallest budget beside resident bytes, found once for all that are refused."""
        return minimum_budget(self.problem).bytes

    @cached_property
    def _shared_bytes(self) -> int:
        """Peak of keeping everything, without resident bytes."""
        return checkpoint_all_schedule(self.problem).peak_bytes

    def within(self, budget_bytes: int) -> ScheduleProblem:
        """The problem within a budget, of which resident bytes are a part.

        Raises:
            InfeasibleError: the resident bytes, or what evaluation needs, are more.
        """
        resident_bytes = self.problem.resident_bytes
        needed = max(resident_bytes, self.evaluation_bytes)
        if needed > budget_bytes:
            if resident_bytes > budget_bytes:
                why = "parameters, optimizer state and the page buffer, which never leave RAM, take"
            else:
                why = "evaluation, which keeps all that it needs again, takes"
            minimum = max(needed, resident_bytes + self._minimum_bytes)
            raise InfeasibleError(
                f"the budget of {budget_bytes:,} bytes is too small: at least {minimum:,} are "
                f"needed, and {why} {needed:,}",
                f"give it {minimum:,} bytes or more",
                minimum_budget_bytes=minimum,
            )
        return replace(self.problem, ram_bytes=budget_bytes - resident_bytes)

    def before(self, deadline_s: float | None) -> TrainingProblem:
        """The problem with a deadline; None for none."""
        return replace(self, problem=replace(self.problem, deadline_s=deadline_s))

    def budget_bytes(self, fraction: float | Fraction) -> int:
        """The budget at a fraction of what keeping everything takes beside resident bytes."""
        shared_bytes = int(fraction * self._shared_bytes)
        return min(LARGEST_BYTES, self.problem.resident_bytes + shared_bytes)

    def fraction_of(self, budget_bytes: int) -> Fraction:
        """The fraction that corresponds to a budget in bytes."""
        return Fraction(budget_bytes - self.problem.resident_bytes, self._shared_bytes)

    def modelled_as(self, name: str) -> TrainingProblem:
        """The problem as `poetfw.schedule.MODELS_AS` has it; POET's paper models only training."""
        evaluation_bytes = self.evaluation_bytes if name == "device" else 0
        problem = MODELS_AS[name](self.problem)
        return replace(self, problem=problem, evaluation_bytes=evaluation_bytes)
