# SPDX-License-Identifier: Apache-2.0
"""Plan of updates: selection of the parameters to train within a budget of bytes or joules.

The score of a choice is its gradient energy: the squared norm of its gradient, averaged over some
batches of the training data. To first order, this is the decrease of the loss by one step of plain
gradient descent on this choice, divided by the learning rate.
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
"""Fractions of a weight's input channels that can be trained."""

_ROUNDS = 12
"""Maximum number of rounds: solve, measure the plan, correct the program's limits by its error."""

_TRIALS = 40
"""Maximum number of measured extensions: plans with one more or one larger choice."""

_MEASURING_WORK = 20.0
"""Limit of work units of orders and addresses, after which no further plan is measured."""


@dataclass(frozen=True)
class UpdatePlan:
    """Selection of the parameters to train, with its needs.

    Attributes:
        choices: all choices.
        scores: gradient energy of each choice.
        alone: needs of training each choice alone, estimated by the program.
        chosen: selected choices.
        estimate: needs of the selection, estimated by the program.
        needs: measured needs of the selection, whose training step was derived, ordered and placed.
        full: measured needs of training everything.
        rounds: number of plans that were measured.
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
        """Gradient energy of the selection."""
        return sum(s for c, s in zip(self.choices, self.scores, strict=True) if c in self.chosen)

    @property
    def full_score(self) -> float:
        """Gradient energy of all parameters."""
        pairs = zip(self.choices, self.scores, strict=True)
        return sum(score for choice, score in pairs if choice.channels is None)

    def to_json(self) -> dict[str, Any]:
        """Plan as plain JSON values."""
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
        """Selected parameters in the format of `--train`."""
        return selection_of(self.chosen)


def limits_of(budget: UpdateBudget, full: Needs, kept_bytes: int) -> Needs:
    """Limits of a budget, given the needs of training everything and the bytes of the weights.

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
    """Choices of parameters to train, for a model on a board."""

    def __init__(
        self, settings: BuildSettings, model: Model, board: Board, costs: CostProvider
    ) -> None:
        """Offer all parameters that neither the settings nor the model freeze."""
        self._model, self._board, self._costs = model, board, costs
        self._optimizer = choose_optimizer(settings, model)
        self._undecayed = matching_parameters(model.graph, settings.no_decay)
        frozen = matching_parameters(model.graph, settings.freeze, model.constants).union(
            model.frozen
        )
        names = [tensor.name for tensor in model.graph.with_role(Role.PARAMETER)]
        self._parameters = [name for name in names if name not in frozen]
        if not self._parameters:
            raise ConfigError(f"all parameters of model {model.name!r} are frozen")

    def choices(self) -> tuple[Choice, ...]:
        """All choices."""
        found: dict[Choice, None] = {}
        for name in self._parameters:
            channels = input_channels(self._model.graph, name)
            for share in SHARES if channels is not None else (Fraction(1),):
                count = math.ceil(share * (channels or 1))
                found[Choice(name, None if count == (channels or 1) else count)] = None
        return tuple(found)

    def program(self, selection: Selection, *, fuse: bool = True) -> Program:
        """Training and evaluation step of a selection, in the derived op order."""
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
        """Choices of whole parameters."""
        return Selection(frozenset(self._parameters))

    @property
    def kept_bytes(self) -> int:
        """Bytes in the arena for any selection: running statistics and the page buffer."""
        return resident_bytes(self._model.graph.with_role(Role.STATE), BLOCK_BYTES)

    def measure(self, selection: Selection, work: Work) -> Needs:
        """Measure the needs of training a selection with the steps of a build without a budget.

        The work is counted but not limited: only the deadline and a build's own limits end it.
        """
        deadline = work.deadline
        before = deadline.work
        program = order_program(self.program(selection), deadline)
        plan = plan_unscheduled(program, self._board, self._costs, deadline)
        work.spend(deadline.work - before)
        return Needs(plan.memory.peak_bytes - self.kept_bytes, plan.training.energy_j)

    def _alone(self, choice: Choice) -> Program:
        """Program of a single choice that stores its gradient, as if others were trained, too.

        Without other choices, the update could be applied at once, without storing the gradient.
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
        """Squared norm of each choice's gradient at the initial weights, averaged over batches.

        If the deadline passes, it is averaged over the batches so far, at least one.

        Raises:
            ConfigError: A gradient is not finite.
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
        """Find the selection of most gradient energy within a budget.

        The program selects by its estimates, and the selection is measured. If it exceeds the
        budget or leaves some of it unused, the program's limits are corrected by the difference,
        and it selects again. Finally, choices that exceed the budget only by the estimates are
        added if they fit when measured.

        Args:
            budget: budget of training.
            batches: batches from which gradients are calculated.
            work: limit of the search.
            progress: called with the name of each stage as it begins.

        Raises:
            InfeasibleError: No choice fits the budget, or the time limit passed before the needs of
                the choices were calculated.
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
                f"the time limit passed before the needs of the {len(choices)} choices of "
                f"{self._model.name!r} were calculated",
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
        """Extend the plan by one more or one larger choice, while one fits when measured.

        Extensions are tried once each, in descending order of added gradient energy.
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
    """Selection of choices in the format of `--train`."""
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
    """Limits for the program's next round, corrected by the error of its estimates.

    An exceeded limit is lowered by the excess, and below the plan's estimate. If the plan is within
    all limits, they are raised by the overestimate.
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
    """Error that no selection meets a limit; `arena` is its limit, and the weights' bytes in it."""
    least = min(tried.values(), key=lambda needs: _excess(needs, limits))
    size_bytes, energy_j = int(least.size_bytes), least.energy_j
    arena_bytes, kept_bytes = arena
    if arena_bytes is not None and size_bytes > arena_bytes - kept_bytes:
        what = f"an arena of {arena_bytes:,} bytes is too small: the smallest selection found "
        what += (
            f"takes {kept_bytes + size_bytes:,}, {kept_bytes:,} of them for weights, which never "
        )
        what += "leave RAM, and the page buffer"
        size_bytes += kept_bytes
    elif size_bytes > limits.size_bytes:
        what = f"{limits.size_bytes:,.0f} bytes are too few: the smallest selection found takes "
        what += f"{size_bytes:,}"
    else:
        what = f"{limits.energy_j:.6g} J are too few: the selection of least energy found takes "
        what += f"{energy_j:.6g}"
    return InfeasibleError(
        what,
        "give it a larger budget",
        *advice,
        minimum_budget_bytes=size_bytes,
    )
