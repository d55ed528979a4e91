# SPDX-License-Identifier: Apache-2.0
"""Block relaxation: the compact program with consecutive stages merged, to bound large problems.

A block B is a run of consecutive stages a … b. It maps a solution of the compact program to

    S[B,i]    S[a,i]: tensor i is in RAM when the block begins, i < a
    R[B,i]    max R[t,i]: some stage of the block recomputes i
    P[B,i]    max P[t,i]: some stage of the block pages i in
    K[B,i]    i is kept: it stays from the beginning of the block, or from its first computation in
              the block, until the next block
    O[i]      as before

and has the rows that these values always meet. With H = S + R + P at (B,i), for tensors i < a:

    H ≥ 1                              a node of the block reads i
    R[B,k] ≤ H                         k reads i
    K[B,i] ≤ S[B,i]
    S[B+1,i] ≤ K[B,i] + R[B,i] + P[B,i]
    P[B,i] ≤ O[i]

Proof: going back from the stage that reads i to stage a, the tensor was in RAM at a, or a stage of
the block produced it; a tensor in RAM at the end was kept or produced. Costs, and times under a
deadline, only shrink: a block pays once for several productions of a tensor. If a block neither
produces nor can read a tensor, one variable serves its beginning and end, as in the compact
program.

Memory: while node t of the block is first computed, RAM holds its inputs, workspace and output,
each other tensor that a later node of the block reads (unless the block produces it), and each
kept tensor:

    w[t] + m[t] + Σ_inputs m[i] + Σ_later m[i] (1 - R - P)[B,i] + Σ_others m[i] K[B,i]  ≤  budget;

If t may take over its input i, m[t] is replaced by the term that i has as an "other" tensor. A
stage computes its own node last, so all tensors in RAM at the next block's beginning are live at
the last node of the block: its row has S[B+1,i] in place of K[B,i], which can be smaller. While
node k is recomputed, RAM holds its workspace, output and inputs (except an input that it takes
over), and all other kept tensors i < a:

    (w[k] + m[k] + Σ_inputs m[i]) R[B,k] + Σ_others m[i] K[B,i]  ≤  budget.

Every solution of the compact program maps to one that costs no more, so the least energy is a lower
bound. Single-stage blocks lose little; few, large blocks make a small program. `cuts.lineage` holds
for blocks as for stages, and lineages found with blocks are useful cuts for stages. The memory rows
are knapsacks for `cuts.rounding`: 1 - R - P, K, S and R are lower bounds of residency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from poetfw.common.limits import Deadline
from poetfw.schedule.coefficients import BudgetUnits, Costs
from poetfw.schedule.compact import Key, limit_time
from poetfw.schedule.cuts.cut import NOWHERE, Residency, table
from poetfw.schedule.cuts.lineage import Lineage
from poetfw.schedule.cuts.rounding import Item, Knapsack
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, Term

_LARGE_SHARE = 3e-3
_BLOCK_SHARE = 8e-3
_FORWARD_NODES = 10


@dataclass(frozen=True)
class BlockRelaxation:
    """The program and its columns.

    Attributes:
        program: the program to solve.
        graph: the problem.
        blocks: the stages of each block.
        stay, recompute, page_in, keep: columns S, R, P and K by (block, node).
        page_out: columns O by (block, node); the block is the node's own.
        kept: columns Σ m K by block.
        knapsacks: the memory rows.
    """

    program: IntegerProgram
    graph: Indexed
    blocks: tuple[range, ...]
    stay: dict[Key, int] = field(default_factory=dict)
    recompute: dict[Key, int] = field(default_factory=dict)
    page_in: dict[Key, int] = field(default_factory=dict)
    keep: dict[Key, int] = field(default_factory=dict)
    page_out: dict[Key, int] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)
    knapsacks: list[Knapsack] = field(default_factory=list)

    @property
    def residency(self) -> Residency:
        """Residency for cuts, with one period per block."""
        made = tuple(b for b, stages in enumerate(self.blocks) for _ in stages)
        kinds = (self.stay, self.recompute, self.page_in, self.page_out)
        stay, recompute, page_in, page_out = (
            table(columns, len(self.blocks), self.graph.n) for columns in kinds
        )
        return Residency(self.graph, made, stay, recompute, page_in, page_out)

    def in_stages(self, lineage: Lineage, stages: Residency) -> list[Lineage]:
        """Translate a lineage of blocks to lineages of the compact program.

        There is one per stage of the lineage's last block that reads the target; all begin at the
        first stage of its first block.

        Args:
            lineage: a lineage of this program.
            stages: columns of the compact program.
        """
        target, since = lineage.path[0], self.blocks[lineage.since].start
        reader = lineage.reader
        return [
            replace(lineage, period=t, since=since)
            for t in self.blocks[lineage.period]
            if t >= stages.first
            and (
                target in self.graph.inputs[t]
                if reader is None
                else stages.recompute[t, reader] != NOWHERE
            )
        ]


def formulate_blocks(
    graph: Indexed, blocks: Sequence[range], deadline: Deadline | None = None
) -> BlockRelaxation:
    """Build the relaxation, minimising energy.

    Args:
        graph: the problem.
        blocks: the stages of each block; together all stages, in order.
        deadline: time at which to give up; None for never.

    Raises:
        OutOfTime: the deadline has passed.
    """
    return _Builder(graph, blocks, deadline or Deadline()).build()


class _Builder:
    def __init__(self, graph: Indexed, blocks: Sequence[range], deadline: Deadline) -> None:
        self.graph = graph
        self.deadline = deadline
        self.memory = BudgetUnits.of(graph, graph.problem.ram_bytes)
        self.costs = Costs.energy(graph)
        self.program = IntegerProgram(offset=math.fsum(self.costs.compute))
        self.made = BlockRelaxation(self.program, graph, tuple(blocks))
        self.blocks_of = [b for b, stages in enumerate(blocks) for _ in stages]

    def build(self) -> BlockRelaxation:
        blocks = tuple(enumerate(self.made.blocks))
        for b, stages in self.deadline.during(blocks):
            self.make_recomputes(b, stages)
            self.make_page_ins(b, stages)
        for b, stages in self.deadline.during(blocks):
            self.make_stays(b, stages)
        for b, stages in self.deadline.during(blocks):
            self.require_residency(b, stages)
            self.limit_memory(b, stages)
        limit_time(
            self.program, self.graph, self.made.recompute, self.made.page_in, self.made.page_out
        )
        return self.made

    def make_recomputes(self, b: int, stages: range) -> None:
        for i in range(stages.stop - 1):
            again = range(max(stages.start, i + 1), stages.stop)
            if self.graph.size[i] and again.start <= self.graph.last_recompute[i]:
                self.made.recompute[b, i] = self.program.binary(self.costs.compute[i])

    def uses(self, b: int, i: int) -> bool:
        """True if a reader of tensor i can run in block b after i is first computed."""
        stages = self.made.blocks[b]
        return any(
            max(stages.start, i + 1) <= k < stages.stop or (b, k) in self.made.recompute
            for k in self.graph.consumers[i]
        )

    def make_page_ins(self, b: int, stages: range) -> None:
        for i in range(stages.stop - 1):
            if (
                self.graph.pageable[i]
                and max(stages.start, i + 1) <= self.graph.last_use[i]
                and self.uses(b, i)
            ):
                key = (self.blocks_of[i], i)
                if key not in self.made.page_out:
                    self.made.page_out[key] = self.program.binary(self.costs.page_out[i])
                page_in = self.made.page_in[b, i] = self.program.binary(self.costs.page_in[i])
                self.program.at_most([(page_in, 1), (self.made.page_out[key], -1)], 0)

    def make_stays(self, b: int, stages: range) -> None:
        """Create columns S of the next block and K of this one."""
        if b + 1 == len(self.made.blocks):
            return
        for i in range(stages.stop):
            if not self.graph.size[i] or self.graph.last_use[i] < stages.stop:
                continue
            held = self.made.stay.get((b, i))
            produced = self.productions(b, i)
            if held is not None and not produced and not self.uses(b, i):
                self.made.keep[b, i] = self.made.stay[b + 1, i] = held
                continue
            stay = self.made.stay[b + 1, i] = self.program.binary()
            keep = self.made.keep[b, i] = self.program.binary() if produced else stay
            if held is not None:
                self.program.at_most([(keep, 1), (held, -1)], 0)
            if produced:
                self.program.at_most([(stay, 1), (keep, -1), *negative(produced)], 0)

    def productions(self, b: int, i: int) -> list[Term]:
        """The terms of R + P at (b, i)."""
        kinds = (self.made.recompute, self.made.page_in)
        return [(columns[b, i], 1.0) for columns in kinds if (b, i) in columns]

    def require_residency(self, b: int, stages: range) -> None:
        """Require that inputs from earlier blocks are in RAM."""

        def held(i: int) -> list[Term]:
            stay = self.made.stay.get((b, i))
            return [*self.productions(b, i), *([(stay, 1.0)] if stay is not None else [])]

        for i in sorted({i for t in stages for i in self.graph.inputs[t] if i < stages.start}):
            self.program.at_most(negative(held(i)), -1)
        for k in range(stages.stop):
            if (b, k) in self.made.recompute:
                for i in self.graph.inputs[k]:
                    if i < stages.start:
                        terms = [(self.made.recompute[b, k], 1.0), *negative(held(i))]
                        self.program.at_most(terms, 0)

    def limit_memory(self, b: int, stages: range) -> None:
        size, keep, stay = self.graph.size, self.made.keep, self.made.stay
        later: set[int] = set()
        for t in reversed(stages):
            taken, inputs = self.graph.in_place[t], self.graph.inputs[t]
            items = [Item(size[i], 1.0) for i in inputs]
            others = [i for i in range(t) if i not in inputs]
            if taken is not None:
                others.append(taken)
            elif size[t]:
                items.append(Item(size[t], 1.0))
            for i in others:
                if i in later:
                    items.append(Item(size[i], 1.0, tuple(negative(self.productions(b, i)))))
                elif (b, i) in keep:
                    column = stay[b + 1, i] if t == stages[-1] else keep[b, i]
                    items.append(Item(size[i], 0.0, ((column, 1.0),)))
            self.limit(Knapsack(tuple(items), self.graph.workspace[t]))
            later.update(inputs)
        held = [
            (keep[b, i], size[i] / self.memory.unit_bytes)
            for i in range(stages.start)
            if (b, i) in keep
        ]
        kept = self.made.kept[b] = self.program.continuous(upper=self.memory.budget)
        self.program.equal([*held, (kept, -1)], 0)
        for k in range(stages.stop):
            if (b, k) in self.made.recompute:
                self.limit_memory_again(b, k, stages.start)

    def limit_memory_again(self, b: int, k: int, start: int) -> None:
        """Require that block b fits in RAM while node k is recomputed."""
        size, inputs, keep = self.graph.size, self.graph.inputs[k], self.made.keep
        again = self.made.recompute[b, k]
        made = size[k] + self.graph.workspace[k]
        during = [made, *(size[i] for i in inputs if i != self.graph.in_place[k])]
        kept = [i for i in range(start) if i != k and i not in inputs and (b, i) in keep]
        items = (
            *(Item(bytes_, 0.0, ((again, 1.0),)) for bytes_ in during),
            *(Item(size[i], 0.0, ((keep[b, i], 1.0),)) for i in kept),
        )
        self.made.knapsacks.append(Knapsack(items, 0, recompute=again))
        # Use the column Σ m K: rows of a few terms instead of hundreds.
        unit = self.memory.unit_bytes
        read = [i for i in {k, *inputs} if i < start and (b, i) in keep]
        terms = [(again, sum(during) / unit), *((keep[b, i], -size[i] / unit) for i in read)]
        self.program.at_most([(self.made.kept[b], 1.0), *terms], self.memory.budget)

    def limit(self, knapsack: Knapsack) -> None:
        """Require that the items of a knapsack fit in the budget."""
        self.made.knapsacks.append(knapsack)
        unit, left = self.memory.unit_bytes, self.memory.budget
        left -= knapsack.reserved / unit
        terms: list[Term] = []
        for item in knapsack.items:
            left -= item.constant * item.size / unit
            terms += [(x, a * item.size / unit) for x, a in item.terms]
        self.program.at_most(terms, left)


def negative(terms: Sequence[Term]) -> list[Term]:
    """The terms with negated coefficients."""
    return [(x, -a) for x, a in terms]


def cost_blocks(graph: Indexed) -> tuple[range, ...]:
    """Split the stages into blocks by energy: some 60 to 90 for large networks.

    In the forward pass a block ends before a node of high energy. In the backward pass it ends once
    it has its share of the energy and the next node reads a forward tensor new to the block.
    """
    nodes = graph.problem.nodes
    total_j = math.fsum(node.energy_j for node in nodes)
    starts = [0]
    seen: set[int] = set()
    spent_j = 0.0
    for t in range(1, graph.n):
        node = nodes[t]
        forward = {i for i in graph.inputs[t] if not nodes[i].backward}
        if not node.backward:
            new = node.energy_j > _LARGE_SHARE * total_j and t - starts[-1] >= _FORWARD_NODES
        else:
            enough = spent_j > _BLOCK_SHARE * total_j
            new = not nodes[t - 1].backward or (enough and not forward <= seen)
        if new:
            starts.append(t)
            seen, spent_j = set(), 0.0
        seen |= forward
        spent_j += node.energy_j
    stops = [*starts[1:], graph.n]
    return tuple(range(start, stop) for start, stop in zip(starts, stops, strict=True))
