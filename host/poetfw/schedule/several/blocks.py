# SPDX-License-Identifier: Apache-2.0
"""Block relaxation (`poetfw.schedule.blocks`) for several devices: lower bounds of large problems.

A block is a run of consecutive stages. The relaxation projects a solution of `program` onto these
variables, where block B spans stages a to b, d is a device and c the source of a copy:

    X[d,t]    d computes node t for the first time: R[d,t,t]
    S[d,B,i]  tensor i is on d at the beginning of the block: S[d,a,i], i < a
    R[d,B,i]  some stage of the block recomputes i on d
    C[c,d,B,i], P[d,B,i]  some stage of the block copies i from c to d, or pages it in on d
    O[d,i]    some stage pages i out on d
    K[d,B,i]  i stays on d from the block's beginning, or from X[d,i], to the next block

It keeps the rows that follow for them, with G = S + X + R + P and H = G + ΣC[·,d]:

    Σ_d X[d,t] = 1
    X[d,k] ≤ H[d,B,i] and R[d,B,k] ≤ H[d,B,i]                   k reads i
    C[c,d,B,i] ≤ H[c,B,i] and C[c,d,B,i] ≤ Σ_e G[e,B,i]          a copy has a source
    K[d,B,i] ≤ (S + X)[d,B,i];  S[d,B+1,i] ≤ K[d,B,i] + (R + P + ΣC[·,d])[d,B,i]
    P[d,B,i] ≤ O[d,i]

Proof: between stage a and the stage that reads i, either i was on d already or a stage of the block
brought it. Costs only shrink: a block pays once for repeated computations or copies of a tensor.
If a block can do nothing with a tensor, one column serves for its beginning and end.

Memory: after stage t of the block has computed its node, d holds these tensors, each weighted by
the largest of its lower bounds:

    an input of t        X[d,t]
    t's tensor           X[d,t], less the RAM that it may take over from an input kept by K
    each i < t           K[d,B,i]; with the block's last stage S[d,B+1,i]; and, for a later
                         node k of the block that reads it, X[d,k] - (R + P + ΣC[·,d])[d,B,i]

plus the workspace of t if X[d,t]. While d recomputes node k, it holds k's inputs, output and
workspace if R[d,B,k], plus all tensors kept by K; while i is copied, i and the link's buffer.

So every plan in stages maps to a solution of at most its cost. `cuts.lineage` holds for all devices
together, with S and R replaced by their maximum over the devices: a tensor on any device was there
before or was recomputed on some device, regardless of copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from poetfw.common.limits import Deadline
from poetfw.schedule.blocks import negative
from poetfw.schedule.compact import Key
from poetfw.schedule.cuts.cut import Residency, table
from poetfw.schedule.cuts.rounding import Item
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, Term
from poetfw.schedule.several.problem import DevicesProblem, Minimise
from poetfw.schedule.several.program import indexed_devices

_On = tuple[int, int, int]
"""(device, block, node)."""


@dataclass(frozen=True, slots=True)
class RuledOut:
    """Values that no plan better than the incumbent has.

    Attributes:
        computed: (device, node): the device computes the node.
        again: (device, node): the device recomputes the node.
        copied: (source, target, node).
    """

    computed: frozenset[tuple[int, int]] = frozenset()
    again: frozenset[tuple[int, int]] = frozenset()
    copied: frozenset[tuple[int, int, int]] = frozenset()


@dataclass(frozen=True)
class DevicesBlocks:
    """Block relaxation and its columns.

    Attributes:
        program: the linear program.
        graph: the first device's problem.
        blocks: stages of each block.
        first: columns X by (device, node).
        stay, recompute, page_in, keep: columns S, R, P and K by (device, block, node).
        page_out: columns O by (device, node).
        copy: columns C by (source, target, block, node).
        anywhere, again: by (block, node), the maximum of S and of R over all devices.
        knapsacks: per moment and device, the device and the items that must fit.
    """

    program: IntegerProgram
    graph: Indexed
    blocks: tuple[range, ...]
    first: dict[tuple[int, int], int] = field(default_factory=dict)
    stay: dict[_On, int] = field(default_factory=dict)
    recompute: dict[_On, int] = field(default_factory=dict)
    page_in: dict[_On, int] = field(default_factory=dict)
    page_out: dict[tuple[int, int], int] = field(default_factory=dict)
    keep: dict[_On, int] = field(default_factory=dict)
    copy: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    anywhere: dict[Key, int] = field(default_factory=dict)
    again: dict[Key, int] = field(default_factory=dict)
    knapsacks: list[tuple[int, tuple[Item, ...]]] = field(default_factory=list)

    @property
    def residency(self) -> Residency:
        """Columns of lineage cuts, for tensors that cannot be paged."""
        made = tuple(b for b, stages in enumerate(self.blocks) for _ in stages)
        stay, again, none = (
            table(columns, len(self.blocks), self.graph.n)
            for columns in (self.anywhere, self.again, {})
        )
        return Residency(self.graph, made, stay, again, none, none)

    def place(self, values: Vector) -> tuple[int, ...]:
        """Per node, the device that computes it first in a solution."""
        place = [0] * self.graph.n
        for (d, i), column in self.first.items():
            if values[column] > 0.5:
                place[i] = d
        return tuple(place)


def formulate_devices_blocks(
    problem: DevicesProblem,
    minimise: Minimise,
    blocks: Sequence[range],
    ruled_out: RuledOut | None = None,
    deadline: Deadline | None = None,
) -> DevicesBlocks:
    """Formulate the relaxation.

    Args:
        problem: valid.
        minimise: the objective.
        blocks: stages of each block; together all stages, in order.
        ruled_out: values to leave out, see `RuledOut`.
        deadline: time limit; None for none.

    Raises:
        OutOfTime: the deadline has passed.
    """
    builder = _Builder(problem, minimise, blocks, ruled_out or RuledOut())
    return builder.build(deadline or Deadline())


class _Builder:
    def __init__(
        self,
        problem: DevicesProblem,
        minimise: Minimise,
        blocks: Sequence[range],
        ruled_out: RuledOut,
    ) -> None:
        self.problem, self.minimise, self.ruled_out = problem, minimise, ruled_out
        self.graphs, self.memories, self.links = indexed_devices(problem, minimise)
        self.graph = self.graphs[0]
        self.devices = range(len(self.graphs))
        self.made = DevicesBlocks(IntegerProgram(), self.graph, tuple(blocks))
        self.program = self.made.program

    def build(self, deadline: Deadline) -> DevicesBlocks:
        """Build the whole relaxation."""
        self.make_firsts()
        blocks = tuple(enumerate(self.made.blocks))
        for b, stages in deadline.during(blocks):
            self.make_recomputes(b, stages)
            self.make_transfers(b, stages)
        for b, stages in deadline.during(blocks):
            for d in self.devices:
                self.make_stays(d, b, stages)
            self.make_anywhere(b, stages)
        for b, stages in deadline.during(blocks):
            for d in self.devices:
                self.require_residency(d, b, stages)
                self.limit_memory(d, b, stages)
        return self.made

    # Columns ----------------------------------------------------------------------------------

    def make_firsts(self) -> None:
        least = []
        for i, node in enumerate(self.graph.problem.nodes):
            able = [d for d in self.devices if node.name not in self.problem.devices[d].lacks]
            costs = [graph.problem.nodes[i].energy_j for graph in self.graphs]
            least.append(min(costs[d] for d in able))
            for d in able:
                if (d, i) not in self.ruled_out.computed:
                    self.made.first[d, i] = self.program.binary(costs[d] - least[-1])
            self.program.equal([(x, 1.0) for d in able for x in self.first(d, i)], 1)
        self.program.offset = math.fsum(least)

    def first(self, d: int, i: int) -> tuple[int, ...]:
        """Column X of node i on device d; empty if it does not exist."""
        return (self.made.first[d, i],) if (d, i) in self.made.first else ()

    def make_recomputes(self, b: int, stages: range) -> None:
        for i in range(stages.stop - 1):
            later = max(stages.start, i + 1)
            if not self.graph.size[i] or later > self.graph.last_recompute[i]:
                continue
            columns = []
            for d in self.devices:
                node = self.graphs[d].problem.nodes[i]
                never = self.ruled_out.computed | self.ruled_out.again
                if (d, i) not in never and node.name not in self.problem.devices[d].lacks:
                    again = self.made.recompute[d, b, i] = self.program.binary(node.energy_j)
                    columns.append(again)
            if columns:
                union = self.made.again[b, i] = self.program.continuous()
                self.program.at_most([(union, 1.0), *((x, -1.0) for x in columns)], 0)
                for x in columns:
                    self.program.at_most([(x, 1.0), (union, -1.0)], 0)

    def reads(self, d: int, b: int, i: int) -> list[int]:
        """Columns of the computations and copies that may read tensor i on d in block b."""
        stages = self.made.blocks[b]
        return [
            x
            for k in self.graph.consumers[i]
            for x in (
                *(self.first(d, k) if k in stages else ()),
                *((self.made.recompute[d, b, k],) if (d, b, k) in self.made.recompute else ()),
            )
        ]

    def make_transfers(self, b: int, stages: range) -> None:
        for i in range(stages.stop):
            size = self.graph.size[i]
            if not size or max(i, self.graph.last_use[i]) < stages.start:
                continue
            for (source, target), link in self.links.items():
                if (source, target, i) not in self.ruled_out.copied:
                    transfer = link.transfer
                    time_s = transfer.time_s(size)
                    cost = self.problem.cost(self.minimise, transfer.cost_j(size), time_s)
                    self.made.copy[source, target, b, i] = self.program.binary(cost)
            for d in self.devices if i < stages.stop - 1 else ():
                storage = self.graphs[d].problem.storage
                if storage is None or not self.graphs[d].pageable[i]:
                    continue
                if (d, i) not in self.made.page_out:
                    out_cost = storage.page_out_energy_j(size)
                    self.made.page_out[d, i] = self.program.binary(out_cost)
                page_in = self.program.binary(storage.page_in_energy_j(size))
                self.made.page_in[d, b, i] = page_in
                self.program.at_most([(page_in, 1.0), (self.made.page_out[d, i], -1.0)], 0)

    def brings(self, d: int, b: int, i: int) -> list[Term]:
        """Terms of R, P and copies to d at (b, i)."""
        columns = (self.made.recompute, self.made.page_in)
        return [
            *((of[d, b, i], 1.0) for of in columns if (d, b, i) in of),
            *((x, 1.0) for a in self.devices for x in self.copied(a, d, b, i)),
        ]

    def copied(self, a: int, d: int, b: int, i: int) -> tuple[int, ...]:
        """Column C of a copy from a to d; empty if it does not exist."""
        column = self.made.copy.get((a, d, b, i))
        return () if column is None else (column,)

    def make_stays(self, d: int, b: int, stages: range) -> None:
        """Make S of the next block, and K."""
        if b + 1 == len(self.made.blocks):
            return
        made = self.made
        for i in range(stages.stop):
            if not self.graph.size[i] or self.graph.last_use[i] < stages.stop:
                continue
            brings = self.brings(d, b, i)
            held = [made.stay[d, b, i]] if (d, b, i) in made.stay else []
            held += self.first(d, i) if i in stages else ()
            if not held and not brings:
                continue
            sent = any(self.copied(d, e, b, i) for e in self.devices)
            if held and i < stages.start and not (brings or sent or self.reads(d, b, i)):
                made.keep[d, b, i] = made.stay[d, b + 1, i] = held[0]
                continue
            stay = made.stay[d, b + 1, i] = self.program.binary()
            if held:
                keep = made.keep[d, b, i] = self.program.binary() if brings else stay
                self.program.at_most([(keep, 1.0), *((x, -1.0) for x in held)], 0)
                brings = [(keep, 1.0), *brings]
            if (stay, 1.0) not in brings:
                self.program.at_most([(stay, 1.0), *negative(brings)], 0)

    def make_anywhere(self, b: int, stages: range) -> None:
        """Make S of the next block on any device."""
        for i in range(stages.stop):
            stays = [
                self.made.stay[d, b + 1, i] for d in self.devices if (d, b + 1, i) in self.made.stay
            ]
            if stays:
                union = self.made.anywhere[b + 1, i] = self.program.continuous()
                self.program.at_most([(union, 1.0), *((x, -1.0) for x in stays)], 0)

    # Rows -------------------------------------------------------------------------------------

    def held(self, d: int, b: int, i: int) -> list[Term]:
        """Terms of G."""
        of = (self.made.stay, self.made.recompute, self.made.page_in)
        columns = [columns[d, b, i] for columns in of if (d, b, i) in columns]
        columns += self.first(d, i) if i in self.made.blocks[b] else ()
        return [(x, 1.0) for x in columns]

    def require_residency(self, d: int, b: int, stages: range) -> None:
        """Require that the tensors a block reads or copies are on d."""
        for i in range(stages.stop):
            if not self.graph.size[i]:
                continue
            copies = [(x, 1.0) for a in self.devices for x in self.copied(a, d, b, i)]
            there = negative([*self.held(d, b, i), *copies])
            for x in self.reads(d, b, i):
                self.program.at_most([(x, 1.0), *there], 0)
            for e in self.devices:
                for x in self.copied(d, e, b, i):
                    self.program.at_most([(x, 1.0), *there], 0)
            if copies:
                anywhere = [term for e in self.devices for term in self.held(e, b, i)]
                for x, _ in copies:
                    self.program.at_most([(x, 1.0), *negative(anywhere)], 0)

    def limit_memory(self, d: int, b: int, stages: range) -> None:
        made, size = self.made, self.graph.size
        later: dict[int, list[int]] = {}
        for t in reversed(stages):
            end = made.stay if t == stages[-1] else made.keep
            at = b + 1 if t == stages[-1] else b
            first, taken = self.first(d, t), self.graph.in_place[t]
            items = []
            for i in range(t + 1):
                if not size[i]:
                    continue
                least: list[list[Term]] = []
                if (d, at, i) in end and (i < t or t == stages[-1]):
                    kept = [(end[d, at, i], 1.0)]
                    over = i == t and taken is not None and first
                    least.append([*kept, (first[0], -1.0)] if over else kept)
                if first and (i in self.graph.inputs[t] or (i == t and taken is None)):
                    least.append([(first[0], 1.0)])
                if first and i == t and taken is not None and (d, at, taken) in end:
                    items.append(self.both(size[t], end[d, at, taken], first[0]))
                least += [
                    [(x, 1.0), *negative(self.brings(d, b, i))]
                    for x in (later.get(i, ()) if i < t else ())
                ]
                if least:
                    items.append(self.item(size[i], least))
            if first and self.graphs[d].workspace[t]:
                items.append(Item(self.graphs[d].workspace[t], 0.0, ((first[0], 1.0),)))
            self.limit(d, items)
            for i in self.graph.inputs[t]:
                later.setdefault(i, []).extend(first)
        kept_bytes = self.kept(d, b, stages.start)
        for k in range(stages.stop):
            if (d, b, k) in made.recompute:
                during = [k, *(i for i in self.graph.inputs[k] if i != self.graph.in_place[k])]
                needs = sum(size[i] for i in during) + self.graphs[d].workspace[k]
                beside = [k, *self.graph.inputs[k]]
                self.limit_while(d, b, made.recompute[d, b, k], needs, beside, kept_bytes)
        for (source, target, at, i), x in made.copy.items():
            if at == b and d in (source, target):
                needs = size[i] + self.links[source, target].buffer_bytes
                self.limit_while(d, b, x, needs, [i], kept_bytes)

    def item(self, size: int, least: list[list[Term]]) -> Item:
        """Tensor weighted by the largest of several lower bounds of its residency."""
        if len(least) == 1:
            return Item(size, 0.0, tuple(least[0]))
        there = self.program.continuous()
        for terms in least:
            self.program.at_most([*terms, (there, -1.0)], 0)
        return Item(size, 0.0, ((there, 1.0),))

    def both(self, size: int, one: int, other: int) -> Item:
        """Item that counts if two columns are both 1."""
        there = self.program.continuous()
        self.program.at_most([(one, 1.0), (other, 1.0), (there, -1.0)], 1)
        return Item(size, 0.0, ((there, 1.0),))

    def limit(self, d: int, items: Iterable[Item]) -> None:
        """Require that the items fit in the budget of d."""
        items = tuple(items)
        if not items:
            return
        memory = self.memories[d]
        self.made.knapsacks.append((d, items))
        self.program.at_most(
            [(x, a * item.size / memory.unit_bytes) for item in items for x, a in item.terms],
            memory.budget,
        )

    def kept(self, d: int, b: int, start: int) -> int:
        """Column Σ m K of the tensors kept from the block's beginning."""
        memory, keep = self.memories[d], self.made.keep
        column = self.program.continuous(upper=memory.budget)
        held = [(keep[d, b, i], memory.size[i]) for i in range(start) if (d, b, i) in keep]
        self.program.equal([*held, (column, -1.0)], 0)
        return column

    def limit_while(
        self, d: int, b: int, does: int, needs: int, beside: Iterable[int], kept: int
    ) -> None:
        """Limit an action that needs bytes, plus all kept tensors except those in `beside`."""
        unit = self.memories[d].unit_bytes
        less = [
            (self.made.keep[d, b, i], -self.graph.size[i] / unit)
            for i in set(beside)
            if i < self.made.blocks[b].start and (d, b, i) in self.made.keep
        ]
        budget = self.graphs[d].problem.ram_bytes / unit
        self.program.at_most([(kept, 1.0), (does, needs / unit), *less], budget)
