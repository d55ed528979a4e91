# SPDX-License-Identifier: Apache-2.0
"""The plan of updates: what to train of a model within a budget of bytes or joules.

What a choice is worth is its gradient energy: the squared norm of its gradient, the mean over some
batches of the training data. It is what one step of plain gradient descent on this choice takes off
the loss, to the first order, divided by the learning rate.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from poetfw.boards import Board
from poetfw.common.errors import ConfigError, InfeasibleError
from poetfw.common.limits import RAISE_TIME_LIMIT, Deadline, OutOfTime, Work
from poetfw.costs import CostProvider
from poetfw.firmware import BLOCK_BYTES
from poetfw.importers import DataSet
from poetfw.ir import Role
from poetfw.memory import resident_bytes
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.planning.advice import smaller_batch
from poetfw.planning.choices import choose_optimizer, order_program
from poetfw.planning.inference import plan_evaluation
from poetfw.planning.plans import plan_unscheduled
from poetfw.planning.update_program import Choice, Needs, UpdateProgram
from poetfw.settings import BuildSettings, UpdateBudget
from poetfw.training import (
    Program,
    Reference,
    Selection,
    input_channels,
    make_program,
    matching_parameters,
)

SHARES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1))
"""Shares of a weight's input channels that may be trained."""

_ROUNDS = 12
"""Number of times that a plan is measured and the program's limits are corrected by its error."""

_TRIALS = 40
"""Number of further plans that are measured, with one choice more or one larger choice."""

_MEASURING_WORK = 20.0
"""Units of work, of orders and addresses, after which no further plan is measured."""


@dataclass(frozen=True)
class UpdatePlan:
    """A choice of what to train.

    Attributes:
        choices: all that could be trained.
        scores: the gradient energy of each of them.
        alone: what each takes if nothing else is trained, by the program.
        chosen: what is trained.
        estimate: what that takes by the program.
        needs: what it takes in fact: its training step was derived, ordered and placed.
        full: the same of training everything.
        rounds: how many plans were measured.
    """

    choices: tuple[Choice, ...]
    scores: tuple[float, ...]
    alone: tuple[Needs, ...]
    chosen: tuple[Choice, ...]
    estimate: Needs
    needs: Needs
    full: Needs
    rounds: int

    @property
    def score(self) -> float:
        """The gradient energy of what is trained."""
        return sum(s for c, s in zip(self.choices, self.scores, strict=True) if c in self.chosen)

    @property
    def full_score(self) -> float:
        """The gradient energy of all parameters."""
        pairs = zip(self.choices, self.scores, strict=True)
        return sum(score for choice, score in pairs if choice.channels is None)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "schema_version": 1,
            "choices": [
                {
                    **asdict(choice),
                    "gradient_energy": score,
                    "alone": asdict(alone),
                    "chosen": choice in self.chosen,
                }
                for choice, score, alone in zip(self.choices, self.scores, self.alone, strict=True)
            ],
            "gradient_energy": self.score,
            "full_gradient_energy": self.full_score,
            "estimate": asdict(self.estimate),
            "needs": asdict(self.needs),
            "full": asdict(self.full),
            "rounds": self.rounds,
        }

    @property
    def selection(self) -> Selection:
        """The trained parameters, as `--train` takes them."""
        return selection_of(self.chosen)


def limits_of(budget: UpdateBudget, full: Needs, kept_bytes: int) -> Needs:
    """A budget's limits, where training everything takes `full`, and the weights so many bytes.

    Limits are at least one byte and the smallest positive number of joules.
    """
    size, energy_j = math.inf, math.inf
    if budget.size_bytes is not None:
        size = budget.size_bytes
    if budget.arena_bytes is not None:
        size = min(size, budget.arena_bytes - kept_bytes)
    if budget.bytes_share is not None:
        size = min(size, math.floor(budget.bytes_share * full.size_bytes))
    if budget.energy_j is not None:
        energy_j = budget.energy_j
    if budget.energy_share is not None:
        energy_j = min(energy_j, budget.energy_share * full.energy_j)
    return Needs(max(size, 1), max(energy_j, sys.float_info.min))


class Updates:
    """A model on a board, of which parts may be trained."""

    def __init__(
        self, settings: BuildSettings, model: Model, board: Board, costs: CostProvider
    ) -> None:
        """Choose among all parameters that neither the settings nor the model's author freeze."""
        self._model, self._board, self._costs = model, board, costs
        self._optimizer = choose_optimizer(settings, model)
        self._undecayed = matching_parameters(model.graph, settings.no_decay)
        frozen = matching_parameters(model.graph, settings.freeze).union(model.frozen)
        names = [tensor.name for tensor in model.graph.with_role(Role.PARAMETER)]
        self._parameters = [name for name in names if name not in frozen]
        if not self._parameters:
            raise ConfigError(f"all parameters of model {model.name!r} are frozen")

    def choices(self) -> tuple[Choice, ...]:
        """All that may be trained."""
        found: dict[Choice, None] = {}
        for name in self._parameters:
            channels = input_channels(self._model.graph, name)
            for share in SHARES if channels is not None else (Fraction(1),):
                count = math.ceil(share * (channels or 1))
                found[Choice(name, None if count == (channels or 1) else count)] = None
        return tuple(found)

    def program(self, selection: Selection, *, fuse: bool = True) -> Program:
        """The training and evaluation step of a selection, in the order they are derived in."""
        names = {tensor.name for tensor in self._model.graph.with_role(Role.PARAMETER)}
        return make_program(
            self._model.graph,
            self._model.loss,
            self._optimizer,
            names - selection.parameters,
            channels=selection.channels,
            options=self._model.loss_options,
            undecayed=self._undecayed,
            fuse_updates=fuse,
        )

    def everything(self) -> Selection:
        """All that may be trained, as a whole."""
        return Selection(frozenset(self._parameters))

    @property
    def kept_bytes(self) -> int:
        """Bytes in the arena whatever is trained: running statistics and the page buffer."""
        return resident_bytes(self._model.graph.with_role(Role.STATE), BLOCK_BYTES)

    def measure(self, selection: Selection, work: Work) -> Needs:
        """Measure the needs of training a selection, as a build without a budget would do it.

        What is spent is counted, and does not end it: only the deadline and a build's limits do.
        """
        deadline = work.deadline
        before = deadline.work
        program = order_program(self.program(selection), deadline)
        plan = plan_unscheduled(program, self._board, self._costs, deadline)
        work.spend(deadline.work - before)
        return Needs(plan.memory.peak_bytes - self.kept_bytes, plan.training.energy_j)

    def _alone(self, choice: Choice) -> Program:
        """The program of one choice, where its gradient is stored as it is beside others.

        Without the other choices, an update could be applied at once and no gradient be stored.
        """
        selection = selection_of([choice])
        stored = self.program(selection, fuse=False)
        graph = stored.training
        gradient = graph.by_name[stored.parameter_gradients[choice.parameter]]
        read = graph.by_name[graph.producer[gradient.base or gradient.name].inputs[0]]
        return self.program(selection) if gradient.size_bytes > read.size_bytes else stored

    def gradient_energy(
        self,
        choices: Sequence[Choice],
        batches: Iterable[tuple[Array, Array]],
        deadline: Deadline | None = None,
    ) -> tuple[float, ...]:
        """The squared norm of each choice's gradient at the model's weights: its mean over batches.

        Where the deadline passes, it is the mean over those batches that were done, at least one.

        Raises:
            ConfigError: a gradient is not finite.
        """
        program = self.program(self.everything(), fuse=False)
        totals, count = np.zeros(len(choices)), 0
        for x, y in batches:
            if count and deadline is not None and deadline.has_passed():
                break
            reference = Reference(program, self._model.weights, np.float32)
            with np.errstate(all="ignore"):
                reference.step(x, y)
            count += 1
            for at, choice in enumerate(choices):
                gradient = reference.gradients[choice.parameter].astype(np.float64)
                if choice.channels is not None:
                    gradient = gradient[:, : choice.channels]
                totals[at] += float((gradient**2).sum())
        if not np.isfinite(totals).all():
            raise ConfigError(
                "gradients on the calibration batches are not finite",
                "start from other weights, with --weights",
            )
        return tuple((totals / max(count, 1)).tolist())

    def plan(
        self,
        budget: UpdateBudget,
        batches: Iterable[tuple[Array, Array]],
        work: Work,
        progress: Callable[[str], None] = lambda text: None,
    ) -> UpdatePlan:
        """The selection of most gradient energy within a budget.

        The program's estimate decides, and what it chose is measured. Where that breaks the budget
        or leaves some of it, the program's limits are corrected by as much, and it decides again.
        At last, choices that the estimate thinks too large are added where measuring allows it.

        Args:
            budget: what training may take.
            batches: what gradients are calculated of.
            work: what the search may do.
            progress: called with what begins now.

        Raises:
            InfeasibleError: nothing that could be trained fits the budget, or the time limit passed
                before anything was known.
        """
        deadline, measuring = work.deadline, work.beside(_MEASURING_WORK)
        choices = self.choices()
        progress("measuring what full training takes")
        full = self.measure(self.everything(), measuring)
        limits = limits_of(budget, full, self.kept_bytes)
        progress("calculating gradients on calibration batches")
        scores = self.gradient_energy(choices, batches, deadline)
        whole = self.program(self.everything(), fuse=False)
        try:
            problem = UpdateProgram(
                whole,
                plan_evaluation(whole, self._board, self._costs).peak_bytes,
                choices,
                self._alone,
                lambda graph: self._costs(graph, self._board),
                lambda done: progress(f"deriving training graphs, {done} of {len(choices)}"),
                deadline,
            )
        except OutOfTime:
            raise InfeasibleError(
                f"the time limit passed before the {len(choices)} choices of {self._model.name!r} "
                "were known",
                RAISE_TIME_LIMIT,
                "give fewer --calibration-batches, or leave parameters out by --freeze",
            ) from None
        alone = tuple(problem.needs([at]) for at in range(len(choices)))
        best: UpdatePlan | None = None
        tried: dict[tuple[Choice, ...], Needs] = {}
        inner = limits
        if full.within(limits):
            everything = tuple(choice for choice in choices if choice.channels is None)
            places = [choices.index(choice) for choice in everything]
            estimate = problem.needs(places)
            return UpdatePlan(choices, scores, alone, everything, estimate, full, full, 1)
        while len(tried) < _ROUNDS:
            progress(f"choosing what to train: round {len(tried) + 1}")
            with work.phase("choices") as part:
                chosen, estimate = problem.solve(scores, inner, part)
            if not chosen and not tried:  # it may yet fit: the program errs on the other side
                at = min(range(len(choices)), key=lambda at: _excess(alone[at], limits))
                chosen, estimate = (choices[at],), alone[at]
            if not chosen or chosen in tried or (best is not None and not measuring.is_left()):
                break
            needs = tried[chosen] = self.measure(selection_of(chosen), measuring)
            found = UpdatePlan(choices, scores, alone, chosen, estimate, needs, full, len(tried))
            if needs.within(limits) and (best is None or found.score > best.score):
                best = found
            inner = _corrected(inner, limits, estimate, needs)
        if best is None:
            arena = (budget.arena_bytes, self.kept_bytes)
            advice = [RAISE_TIME_LIMIT] if deadline.decided else []
            raise _infeasible(limits, tried, arena, [*advice, *smaller_batch(whole)])
        progress("trying what the estimate may think too large")
        return self._widened(replace(best, rounds=len(tried)), limits, problem, measuring)

    def _widened(
        self, plan: UpdatePlan, limits: Needs, problem: UpdateProgram, work: Work
    ) -> UpdatePlan:
        """The plan with one choice more, or a larger one, for as long as any fits when measured.

        Those that add most gradient energy are tried first, and each only once.
        """
        worth = dict(zip(plan.choices, plan.scores, strict=True))
        refused: set[Choice] = set()
        while True:
            now = {choice.parameter: choice for choice in plan.chosen}
            gains = {
                choice: score - (worth[now[choice.parameter]] if choice.parameter in now else 0.0)
                for choice, score in worth.items()
                if choice not in refused
            }
            choice = max(gains, key=gains.__getitem__, default=None)
            if choice is None or gains[choice] <= 0 or len(refused) == _TRIALS:
                return plan
            if not work.is_left():
                return plan
            refused.add(choice)
            wanted = {**now, choice.parameter: choice}.values()
            needs = self.measure(selection_of(wanted), work)
            rounds = plan.rounds + 1
            if needs.within(limits):
                places = [at for at, known in enumerate(plan.choices) if known in wanted]
                chosen = tuple(plan.choices[at] for at in places)
                estimate = problem.needs(places)
                plan = replace(plan, chosen=chosen, estimate=estimate, needs=needs)
            plan = replace(plan, rounds=rounds)


def selection_of(choices: Iterable[Choice]) -> Selection:
    """Choices, as `--train` takes them."""
    counts = {choice.parameter: choice.channels for choice in choices}
    parts = {name: count for name, count in counts.items() if count is not None}
    return Selection(frozenset(counts), parts)


def calibration_batches(
    data: DataSet, batch: int, count: int, seed: int
) -> Iterator[tuple[Array, Array]]:
    """Up to `count` whole batches of the training data, drawn without replacement."""
    order = np.random.default_rng(seed).permutation(len(data.x_train))
    for first in range(0, min(count, len(order) // batch) * batch, batch):
        rows = order[first : first + batch]
        yield data.x_train[rows], data.y_train[rows]


def _corrected(inner: Needs, limits: Needs, estimate: Needs, needs: Needs) -> Needs:
    """The program's limits, after a plan took other than it had estimated.

    Where the plan breaks a limit, tighter by what it is over, and below the plan; where it keeps
    all, wider by what the program thought too much.
    """

    def corrected(inner: float, limit: float, estimate: float, actual: float) -> float:
        if actual > limit:
            return min(inner - (actual - limit), estimate * (1 - 1e-9))
        return inner if not needs.within(limits) else max(inner, limit + estimate - actual)

    return Needs(
        corrected(inner.size_bytes, limits.size_bytes, estimate.size_bytes, needs.size_bytes),
        corrected(inner.energy_j, limits.energy_j, estimate.energy_j, needs.energy_j),
    )


def _excess(needs: Needs, limits: Needs) -> float:
    return max(needs.size_bytes / limits.size_bytes, needs.energy_j / limits.energy_j)


def _infeasible(
    limits: Needs,
    tried: Mapping[tuple[Choice, ...], Needs],
    arena: tuple[int | None, int],
    advice: Iterable[str],
) -> InfeasibleError:
    """Say which limit nothing keeps; `arena` is its limit and what the weights take of it."""
    least = min(tried.values(), key=lambda needs: _excess(needs, limits))
    size_bytes, energy_j = int(least.size_bytes), least.energy_j
    arena_bytes, kept_bytes = arena
    if arena_bytes is not None and size_bytes > arena_bytes - kept_bytes:
        what = f"an arena of {arena_bytes:,} bytes is too small: the least found to train anything "
        what += f"takes {kept_bytes + size_bytes:,}, {kept_bytes:,} of them weights that never "
        what += "leave RAM and the page buffer"
        size_bytes += kept_bytes
    elif size_bytes > limits.size_bytes:
        what = f"{limits.size_bytes:,.0f} bytes are too few: the least found to train anything is "
        what += f"{size_bytes:,}"
    else:
        what = f"{limits.energy_j:.6g} J are too few: the least found to train anything is "
        what += f"{energy_j:.6g}"
    return InfeasibleError(
        what,
        "give it a larger budget",
        *advice,
        minimum_budget_bytes=size_bytes,
    )
