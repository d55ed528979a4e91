# SPDX-License-Identifier: Apache-2.0
"""The compact formulation: POET's schedule with far fewer variables than Algorithm 1.

Stage t computes node t for the first time. Before that it may *produce* tensors of earlier nodes,
in topological order: R recomputes a node, P pages a tensor in. AUX is unbounded, so it is optimal
to page a tensor out at most once, right after its first computation: one binary O per tensor
replaces Algorithm 1's S_AUX and M_out. Variables that cannot help are left out.

    S[t,i]    tensor i stays in RAM from stage t - 1 into stage t
    R[t,i]    stage t recomputes node i, i < t
    P[t,i]    stage t pages tensor i in, i < t
    O[i]      tensor i is paged out once
    F[t,i,k]  tensor i is freed in stage t right after node k is recomputed, k < t
    U[t,k]    bytes live in stage t once k is produced

The program, with tensor sizes m and workspaces w in bytes:

    minimise Σ c[i] + Σ c[i] R[t,i] + Σ in[i] P[t,i] + Σ out[i] O[i]  subject to
    H[t,i] = S[t,i] + R[t,i] + P[t,i]                 i is held in stage t: a shorthand
    H[t,i] = 1                                        i an input of t
    H[t,i] ≤ 1                                        other i < t
    P[t,i] ≤ O[i]
    R[t,k] + Σ_{j<k} F[t,i,j] ≤ H[t,i]                i an input of k
    S[t+1,i] + Σ_j F[t,i,j] ≤ H[t,i]
    F[t,i,k] ≤ R[t,k]
    U[t,k] = U[t,k'] - Σ m[i] F[t,i,k'] + m[k] (R + P)[t,k]     k' the node produced before k
    U[t,k] + w[k] R[t,k] ≤ budget;  U before t, after its frees, + m[t] + w[t] ≤ budget

If node k may take over the RAM of its input i, F[t,i,k] is already subtracted in U[t,k]; if node t
may take over i, m[t] counts only if S[t+1,i] = 1.

Each row for F combines three conditions: a freed tensor was held, is not read later in the stage,
and does not stay. Separate rows would have the same integral solutions but a weaker relaxation.

The *outline* of the program is the relaxation without F and U, of half the size:

    R[t,k] ≤ H[t,i]                                   i an input of k
    S[t+1,i] ≤ H[t,i]
    Σ_inputs m[i] + Σ_others m[i] S[t+1,i] + m[t] + w[t] ≤ budget

with the other rows unchanged. These rows are implied: F ≥ 0, and the bytes live before t, after its
frees, include all inputs of t and at least the share S[t+1,i] ≤ H[t,i] - Σ_j F[t,i,j] of every
other i. The outline ignores the bytes live during a recompute; `cuts.slots` adds them as cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from poetfw.common.limits import Deadline
from poetfw.schedule.coefficients import BudgetUnits, Costs
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, Term
from poetfw.schedule.plan import StageEvents
from poetfw.schedule.problem import ExecutionPlan, StepKind

Key = tuple[int, int]
"""(stage, node)."""

WINDOW = 20
"""Default window of a first search, in nodes; see `formulate`."""


class Objective(Enum):
    """The objective of a program."""

    ENERGY = auto()
    TIME = auto()
    PEAK = auto()
    """Peak RAM in bytes; the budget becomes a variable."""


@dataclass(frozen=True)
class Compact:
    """The program and its columns.

    Attributes:
        program: the program to solve.
        stay, recompute, page_in: columns S, R and P by (stage, node).
        page_out: columns O by (stage, node); the stage is the node's own.
        first: first stage with rows; see `formulate`.
    """

    program: IntegerProgram
    stay: dict[Key, int]
    recompute: dict[Key, int]
    page_in: dict[Key, int]
    page_out: dict[Key, int]
    first: int = 0

    def stages(self, values: Vector) -> StageEvents:
        """Recomputes and page-ins of each stage in a solution."""
        return StageEvents(
            recomputes=frozenset(key for key, x in self.recompute.items() if values[x] > 0.5),
            page_ins=frozenset(key for key, x in self.page_in.items() if values[x] > 0.5),
        )

    def start(self, graph: Indexed, plan: ExecutionPlan) -> Vector | None:
        """Translate a plan in stages to a starting solution, with F and U left at 0.

        Steps on tensors with 0 bytes in the graph are skipped.

        Returns:
            The solution by column; None if `first` is not 0 or a step of the plan has no column.
        """
        if self.first:
            return None
        values = np.zeros(self.program.columns)
        position = {node.name: i for i, node in enumerate(graph.problem.nodes)}
        live: set[int] = set()
        stage = 0
        opening = True
        chosen: list[tuple[dict[Key, int], Key]] = []
        for step in plan:
            i = position[step.node]
            if not graph.size[i] and i != stage:
                continue
            if step.kind in (StepKind.COMPUTE, StepKind.PAGE_IN):
                if opening:
                    chosen += [(self.stay, (stage, j)) for j in live]
                opening = i == stage
                if opening:
                    stage += 1
                else:
                    kind = self.recompute if step.kind is StepKind.COMPUTE else self.page_in
                    chosen.append((kind, (stage, i)))
                if graph.size[i]:
                    live.add(i)
            elif step.kind is StepKind.FREE:
                live.discard(i)
            else:
                chosen.append((self.page_out, (i, i)))
        for columns, key in chosen:
            if key not in columns:
                return None
            values[columns[key]] = 1.0
        return values


def formulate(
    graph: Indexed,
    objective: Objective = Objective.ENERGY,
    window: int | None = None,
    close_stages: bool = False,
    first: int = 0,
    outline: bool = False,
    at_most: StageEvents | None = None,
    deadline: Deadline | None = None,
) -> Compact:
    """Build the program.

    Args:
        graph: the problem. `Objective.PEAK` ignores its budget.
        objective: quantity to minimise.
        window: if given, only backward stages recompute, and only forward nodes at most about this
            many nodes before those that the stage differentiates: a restriction, for speed.
        close_stages: forbid productions in stages whose productions can move to a neighbour: a
            slight restriction, for speed; see `_closed_stages`.
        first: ignore RAM in stages before this one, so their tensors may stay until it: a
            relaxation. S[t,i] is the same column in all of them.
        outline: build the outline only; S, R, P and O have the same indices in both programs.
        at_most: allow only these productions; None for all. A restriction, for speed.
        deadline: time at which to give up; None for never.

    Raises:
        OutOfTime: the deadline has passed.
    """
    return _Builder(
        graph,
        objective,
        window,
        close_stages,
        first,
        outline,
        at_most,
        deadline or Deadline(),
    ).build()


class _Builder:
    def __init__(
        self,
        graph: Indexed,
        objective: Objective,
        window: int | None,
        close_stages: bool,
        first: int,
        outline: bool,
        at_most: StageEvents | None,
        deadline: Deadline,
    ) -> None:
        self.graph = graph
        self.first = first
        self.outline = outline
        self.at_most = at_most
        self.deadline = deadline
        self.program = IntegerProgram()
        self.memory = BudgetUnits.of(graph, graph.problem.ram_bytes)
        match objective:
            case Objective.ENERGY:
                self.costs = Costs.energy(graph)
            case Objective.TIME:
                self.costs = Costs.time(graph)
            case Objective.PEAK:
                self.costs = Costs.nothing(graph)
        self.program.offset = math.fsum(self.costs.compute)
        if objective is Objective.PEAK:
            self.program.tolerance = 0.9 * self.memory.divisor_bytes
        self.peak = (
            self.program.continuous(float(self.memory.unit_bytes), upper=sum(self.memory.size) + 1)
            if objective is Objective.PEAK
            else None
        )
        self.closed = _closed_stages(graph) if close_stages else frozenset[int]()
        self.windows = recomputed_near(graph, window)
        for t in sorted(self.closed, reverse=True):  # the previous stage produces for this one
            own, before = self.windows[t], self.windows[t - 1]
            first = min(own.start, before.start) if before else own.start
            self.windows[t - 1] = range(first, min(max(own.stop, before.stop), t - 1))
        self.stay: dict[Key, int] = {}
        self.recompute: dict[Key, int] = {}
        self.page_in: dict[Key, int] = {}
        self.page_out: dict[Key, int] = {}

    def build(self) -> Compact:
        self.make_recomputes()
        self.make_page_ins()
        self.make_stays()
        for t in self.deadline.during(range(self.first, self.graph.n)):
            if self.outline:
                self.limit_outline(t)
            else:
                self.limit_memory(t)
        columns = (self.recompute, self.page_in, self.page_out)
        limit_time(self.program, self.graph, *columns)
        return Compact(self.program, self.stay, *columns, self.first)

    def make_recomputes(self) -> None:
        for i in self.deadline.during(range(self.graph.n)):
            if not self.graph.size[i]:
                continue
            for t in range(max(self.first, i + 1), self.graph.last_recompute[i] + 1):
                if i in self.windows[t] and t not in self.closed and self.may_recompute(t, i):
                    self.recompute[t, i] = self.program.binary(self.costs.compute[i])

    def may_recompute(self, t: int, i: int) -> bool:
        """True if `at_most` allows stage t to recompute node i."""
        return self.at_most is None or (t, i) in self.at_most.recomputes

    def runs(self, t: int, k: int) -> bool:
        """True if node k can run in stage t."""
        return k == t or (t, k) in self.recompute

    def uses(self, t: int, i: int) -> bool:
        """True if a reader of tensor i can run in stage t."""
        return any(self.runs(t, k) for k in self.graph.consumers[i])

    def serves(self, t: int) -> Iterator[int]:
        """Stage t and the closed stages after it, for which t produces; empty if t is closed."""
        if t in self.closed:
            return
        yield t
        while (t := t + 1) in self.closed:
            yield t

    def make_page_ins(self) -> None:
        """Create P only in stages that use the tensor: an earlier page-in only holds RAM longer."""
        for i in self.deadline.during(range(self.graph.n)):
            if not self.graph.pageable[i]:
                continue
            stages = [
                t
                for t in range(max(self.first, i + 1), self.graph.last_use[i] + 1)
                if any(self.uses(s, i) for s in self.serves(t))
            ]
            # Paging over a single stage boundary helps only if something is recomputed in between.
            stages = [
                t for t in stages if t > i + 1 or any((t, k) in self.recompute for k in range(i))
            ]
            if self.at_most is not None:  # the same columns as elsewhere, even if unused here
                stages = [t for t in range(self.graph.n) if (t, i) in self.at_most.page_ins]
            if not stages:
                continue
            out = self.page_out[i, i] = self.program.binary(self.costs.page_out[i])
            for t in stages:
                self.page_in[t, i] = self.program.binary(self.costs.page_in[i])
                self.program.at_most([(self.page_in[t, i], 1), (out, -1)], 0)

    def make_stays(self) -> None:
        for i in self.deadline.during(range(self.graph.n)):
            if not self.graph.size[i]:
                continue
            for t in range(i + 1, self.graph.last_use[i] + 1):
                # If stage t - 1 neither produces nor can read the tensor, freeing it in that stage
                # is no better than freeing it before: one variable serves both.
                idle = t - 1 > i and not self.makes(t - 1, i) and not self.uses(t - 1, i)
                if idle or i + 1 < t <= self.first:
                    self.stay[t, i] = self.stay[t - 1, i]
                else:
                    self.stay[t, i] = self.program.binary()

    def makes(self, t: int, i: int) -> bool:
        return (t, i) in self.recompute or (t, i) in self.page_in

    def present(self, t: int, i: int, coefficient: float) -> list[Term]:
        """The terms of S + R + P at (t, i)."""
        return [
            (columns[t, i], coefficient)
            for columns in (self.stay, self.recompute, self.page_in)
            if (t, i) in columns
        ]

    def limit_outline(self, t: int) -> None:
        """Add the outline's rows: stage t has its inputs in RAM and fits beside all that stays."""
        size, workspace, inputs = self.memory.size, self.memory.workspace, self.graph.inputs[t]
        for i in range(t):
            if i in inputs:
                self.program.equal(self.present(t, i, 1), 1)
                continue
            present, absent = self.present(t, i, 1), self.present(t, i, -1)
            if len(present) > 1:
                self.program.at_most(present, 1)
            kept = self.stay.get((t + 1, i))
            for k in self.graph.consumers[i]:
                if (t, k) in self.recompute:
                    self.program.at_most([(self.recompute[t, k], 1), *absent], 0)
            if kept is not None and kept != self.stay[t, i]:
                self.program.at_most([(kept, 1), *absent], 0)
        stays = [i for i in range(t) if i not in inputs and (t + 1, i) in self.stay]
        live = [(self.stay[t + 1, i], size[i]) for i in stays]
        taken = self.graph.in_place[t]
        if taken is not None and (t + 1, taken) in self.stay:
            live.append((self.stay[t + 1, taken], size[t]))
        made = size[t] if taken is None else 0.0
        self.limit(live, sum(size[i] for i in inputs) + made + workspace[t])

    def require_residency(self, t: int) -> dict[int, list[tuple[int, int]]]:
        """Require that the inputs of stage t are in RAM, and create its columns F.

        Returns:
            Per recomputed node, pairs (tensor that may be freed after it, column F).
        """
        freed: dict[int, list[tuple[int, int]]] = {}
        for i in self.deadline.during(range(t)):
            present = self.present(t, i, 1)
            absent = self.present(t, i, -1)
            if i in self.graph.inputs[t]:
                self.program.equal(present, 1)
                continue
            if len(present) > 1:
                self.program.at_most(present, 1)
            kept = self.stay.get((t + 1, i))
            readers = [k for k in self.graph.consumers[i] if (t, k) in self.recompute]
            frees: list[Term] = []
            for k in readers:
                again = self.recompute[t, k]
                self.program.at_most([(again, 1), *frees, *absent], 0)
                if kept is None and k == readers[-1]:
                    freed.setdefault(k, []).append((i, again))
                    break
                free = self.program.continuous()
                self.program.at_most([(free, 1), (again, -1)], 0)
                freed.setdefault(k, []).append((i, free))
                frees.append((free, 1))
            if kept is not None and kept != self.stay[t, i]:
                self.program.at_most([(kept, 1), *frees, *absent], 0)
        return freed

    def limit_memory(self, t: int) -> None:
        """Require that stage t fits in RAM at each of its compute steps."""
        size, workspace = self.memory.size, self.memory.workspace
        again = [k for k in range(t) if (t, k) in self.recompute]
        freed = self.require_residency(t)
        live: list[Term] = [(self.stay[t, i], size[i]) for i in range(t) if (t, i) in self.stay]
        paged = [i for i in range(t) if (t, i) in self.page_in]
        # Page-ins only add bytes, so the peak is always at a compute step.
        for k in again:
            live += [(self.page_in[t, i], size[i]) for i in paged if i <= k]
            paged = [i for i in paged if i > k]
            live.append((self.recompute[t, k], size[k]))
            frees = [(i, column, -size[i]) for i, column in freed.get(k, ())]
            live += [(column, size_k) for i, column, size_k in frees if i == self.graph.in_place[k]]
            used = self.program.continuous(
                upper=self.memory.budget if self.peak is None else math.inf
            )
            self.program.equal([*live, (used, -1)], 0)
            if workspace[k] or self.peak is not None:
                self.limit([(used, 1), (self.recompute[t, k], workspace[k])])
            rest = [(column, size_k) for i, column, size_k in frees if i != self.graph.in_place[k]]
            live = [(used, 1), *rest]
        live += [(self.page_in[t, i], size[i]) for i in paged]
        taken = self.graph.in_place[t]
        if taken is None:
            self.limit(live, size[t] + workspace[t])
        elif (kept := self.stay.get((t + 1, taken))) is None:
            self.limit(live, workspace[t])
        else:
            self.limit([*live, (kept, size[t])], workspace[t])

    def limit(self, terms: list[Term], constant: float = 0.0) -> None:
        """Require Σ terms + constant ≤ budget."""
        if self.peak is None:
            self.program.at_most(terms, self.memory.budget - constant)
        else:
            self.program.at_most([*terms, (self.peak, -1)], -constant)


def limit_time(
    program: IntegerProgram,
    graph: Indexed,
    recompute: Mapping[Key, int],
    page_in: Mapping[Key, int],
    page_out: Mapping[Key, int],
) -> None:
    """Require that the training step meets the problem's deadline, if there is one.

    Args:
        program: the program, changed in place.
        graph: the problem.
        recompute: columns R by (stage, node).
        page_in: columns P by (stage, node).
        page_out: columns O by (stage, node).
    """
    deadline_s = graph.problem.deadline_s
    if deadline_s is None:
        return
    times = Costs.time(graph)
    unit = deadline_s or 1.0

    def spent(columns: Mapping[Key, int], time_s: tuple[float, ...]) -> list[Term]:
        return [(column, time_s[key[1]] / unit) for key, column in columns.items()]

    computing = spent(recompute, times.compute)
    moving = spent(page_in, times.page_in) + spent(page_out, times.page_out)
    spare = (deadline_s - math.fsum(times.compute)) / unit
    storage = graph.problem.storage
    if storage is not None and storage.overlap:
        # Necessary for core and channel separately; the transfer planner decides the overlap.
        core_in = spent(page_in, tuple(storage.moving_in(m).core_s for m in graph.size))
        core_out = spent(page_out, tuple(storage.moving_out(m).core_s for m in graph.size))
        program.at_most(computing + core_in + core_out, spare)
        program.at_most(moving, deadline_s / unit)
    else:
        program.at_most(computing + moving, spare)


def recomputed_near(graph: Indexed, window: int | None) -> list[range]:
    """Per stage, the nodes that it may recompute; see `window` of `formulate`."""
    nodes = graph.problem.nodes
    if window is None:
        return [range(t) for t in range(graph.n)]
    backward = [t for t in range(graph.n) if nodes[t].backward]
    largest = {
        t: max((i for i in graph.inputs[t] if not nodes[i].backward), default=None)
        for t in backward
    }
    ranges = [range(0)] * graph.n
    running = graph.n
    differentiated = {}
    for t in backward:
        running = min(running, *(i for i in (largest[t],) if i is not None), graph.n)
        differentiated[t] = running
    running = -1
    for t in reversed(backward):
        running = max(running, *(i for i in (largest[t],) if i is not None), -1)
        low = max(0, min(differentiated[t], t) - window)
        ranges[t] = range(low, min(running, t - 1) + 1)
    return ranges


def _closed_stages(graph: Indexed) -> frozenset[int]:
    """Stages whose productions can move to the stage before or after.

    If stage t reads every input of stage t - 1, its inputs can be produced before both. If node t
    has no tensor and its inputs are in RAM after stage t - 1, the productions of stage t can wait
    for stage t + 1. The only loss: productions of both stages must be in topological order.
    """
    named = {node.recompute_before for node in graph.problem.nodes}
    closed = set()
    waiting = -1  # last stage whose productions wait for the next stage
    for t in range(1, graph.n):
        inputs, before = set(graph.inputs[t]), set(graph.inputs[t - 1])
        if before <= inputs and graph.workspace[t - 1] <= graph.workspace[t] and waiting != t - 1:
            closed.add(t)
        elif (
            not graph.size[t]
            and inputs <= (before | {t - 1}) - {graph.in_place[t - 1]}
            and graph.problem.nodes[t].name not in named
        ):
            closed.add(t)
            waiting = t
    return frozenset(closed)
