# SPDX-License-Identifier: Apache-2.0
"""Compact program (`poetfw.schedule.compact`) for several devices and copies between them.

Stage t computes node t for the first time, on one of the devices. It walks through the nodes up to
t in order: each slot recomputes a node, pages its tensor in, copies it, and frees tensors.

    S[d,t,i]    tensor i stays in the RAM of device d from stage t - 1 into stage t
    R[d,t,i]    stage t computes node i on d, i ≤ t
    C[a,b,t,i]  stage t copies tensor i from a to b, i ≤ t
    P[d,t,i]    stage t pages tensor i in on d, i < t
    O[d,t,i]    stage t pages tensor i out on d, right after its arrival there
    F[d,t,i,k]  tensor i is freed on d in slot k of stage t
    U[d,t,k]    bytes live on d in slot k, before its frees

With m the bytes of tensors, w the workspaces, b the buffers of copies, and
H = S + R + P + ΣC[·,d] the residency on d in stage t, the program is

    minimise Σ r R + Σ c C + Σ in P + Σ out O  subject to
    Σ_d R[d,t,t] = 1
    C[a,b,t,i] ≤ (S + R + P)[a,t,i]
    O[d,t,i] ≤ (R + ΣC[·,d])[d,t,i];  P[d,t,i] ≤ Σ_{s<t} O[d,s,i]
    R[d,t,k] + Σ_{j<k} F[d,t,i,j] ≤ H[d,t,i]          i an input of k ≤ t
    S[d,t+1,i] + Σ_j F[d,t,i,j] ≤ H[d,t,i]
    F[d,t,i,k] ≤ R[d,t,k], k > i;  F[d,t,i,i] ≤ (ΣC[d,·] + O)[d,t,i]
    U[d,t,k] + w[d,k] R[d,t,k] ≤ budget;  U[d,t,k] - Σ_{i<k} m[i] F[d,t,i,k] + b C ≤ budget

No row bounds H by 1. Bringing a tensor that is resident only adds cost: dropping S from a stage
that recomputes i or pages it in leaves the same tensors, with at least as much room; of two ways to
bring i, or of a stay and a copy, one suffices. A page-out after a recomputation of i can happen
after its first computation instead.

The row for inputs states linearly what XEngine (Schuler, Membarth, Slusallek, ACM TACO 2022) states
by products of binaries. An op takes over the RAM of an input as in the compact program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from poetfw.common.limits import Deadline
from poetfw.schedule.coefficients import BudgetUnits
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, Term
from poetfw.schedule.problem import StepKind
from poetfw.schedule.several.plan import Made
from poetfw.schedule.several.problem import (
    DevicesProblem,
    Link,
    Minimise,
)

_Key = tuple[int, int, int]
"""(device, stage, node)."""


@dataclass
class DevicesProgram:
    """Program and the meaning of its columns.

    Attributes:
        sizes: bytes of each node's tensor.
        program: the integer program.
        made: columns of R, C, P and O.
        stay: columns of S; a tensor that a stage cannot change keeps the previous column.
    """

    sizes: tuple[int, ...]
    program: IntegerProgram = field(default_factory=IntegerProgram)
    made: dict[Made, int] = field(default_factory=dict)
    stay: dict[_Key, int] = field(default_factory=dict)

    def chosen(self, values: Vector) -> list[Made]:
        """Actions that a solution chooses."""
        return [made for made, column in self.made.items() if values[column] > 0.5]

    def start(self, steps: Iterable[Made]) -> Vector | None:
        """Solution of a plan, exact in its integral columns; None if it is not in this program."""
        values = np.zeros(self.program.columns)
        live: set[tuple[int, int]] = set()
        stage = 0
        for step in steps:
            while stage < step.stage:
                stage += 1
                for d, i in live:
                    if (d, stage, i) not in self.stay:
                        return None
                    values[self.stay[d, stage, i]] = 1.0
            if step.kind is StepKind.FREE:
                live.discard((step.device, step.node))
                continue
            if step not in self.made:
                return None
            values[self.made[step]] = 1.0
            if self.sizes[step.node]:
                live.add((step.device if step.target is None else step.target, step.node))
        return values


def formulate_devices(
    problem: DevicesProblem,
    minimise: Minimise,
    copies_take_ram: bool = True,
    deadline: Deadline | None = None,
) -> DevicesProgram:
    """Formulate the program.

    Args:
        problem: valid.
        minimise: the objective.
        copies_take_ram: False counts a copy only from the next stage on, without its buffer, as
            XEngine does; such plans may exceed the RAM.
        deadline: time limit; None for none.

    Raises:
        OutOfTime: the deadline has passed.
    """
    return _Builder(problem, minimise, copies_take_ram).build(deadline or Deadline())


def indexed_devices(
    problem: DevicesProblem, minimise: Minimise
) -> tuple[list[Indexed], list[BudgetUnits], dict[tuple[int, int], Link]]:
    """Nodes and memory of each device, and the links by (source, target) indices."""
    graphs = [Indexed.of(problem.priced(device, minimise)) for device in problem.devices]
    memories = [BudgetUnits.of(graph, graph.problem.ram_bytes) for graph in graphs]
    number = {device.name: d for d, device in enumerate(problem.devices)}
    return graphs, memories, {(number[x.source], number[x.target]): x for x in problem.links}


class _Builder:
    def __init__(
        self,
        problem: DevicesProblem,
        minimise: Minimise,
        copies_take_ram: bool,
    ) -> None:
        self.problem = problem
        self.minimise = minimise
        self.copies_take_ram = copies_take_ram
        self.graphs, self.memories, self.links = indexed_devices(problem, minimise)
        self.graph = self.graphs[0]
        self.devices = range(len(self.graphs))
        self.out = DevicesProgram(self.graph.size)
        self.program = self.out.program
        self.timed: list[Term] = []
        self.least = [
            min(
                graph.problem.nodes[i].energy_j
                for graph, device in zip(self.graphs, problem.devices, strict=True)
                if graph.problem.nodes[i].name not in device.lacks
            )
            for i in range(self.graph.n)
        ]
        self.program.offset = math.fsum(self.least)

    def build(self, deadline: Deadline) -> DevicesProgram:
        """Build the whole program."""
        for t in deadline.during(range(self.graph.n)):
            self.make(t)
        for t in deadline.during(range(self.graph.n)):
            self.make_stays(t)
        for t in deadline.during(range(self.graph.n)):
            for d in self.devices:
                self.limit(d, t)
            firsts = [(column, 1.0) for d in self.devices for column in self.at("compute", d, t, t)]
            self.program.equal(firsts, 1)
        for made, column in self.out.made.items():
            if made.kind is StepKind.PAGE_IN:
                self.program.at_most([(column, 1.0), *self.outs(made)], 0)
        if self.problem.deadline_s is not None:
            unit = self.problem.deadline_s or 1.0
            self.program.at_most([(column, s / unit) for column, s in self.timed], 1.0)
        return self.out

    # Columns ----------------------------------------------------------------------------------

    def column(self, made: Made, cost: float, time_s: float) -> None:
        column = self.out.made[made] = self.program.binary(cost)
        self.timed.append((column, time_s))

    def make(self, t: int) -> None:
        """Make R, C, P and O of stage t."""
        again = {i for i in range(t) if t <= self.graph.last_recompute[i] and self.graph.size[i]}
        for i in (*sorted(again), t):
            for d in self.devices:
                node = self.graphs[d].problem.nodes[i]
                if node.name not in self.problem.devices[d].lacks:
                    made = Made(t, i, StepKind.COMPUTE, d)
                    first = self.least[i] if i == t else 0.0
                    self.column(made, node.energy_j - first, node.time_s)
        for i in range(t + 1):
            size = self.graph.size[i]
            runs = (
                i == t or i in again or any(k == t or k in again for k in self.graph.consumers[i])
            )
            # Evictions and returns of a tensor between its uses may be needed to make room.
            idle = t <= self.graph.last_use[i]
            if not (size and (runs or idle)):
                continue
            for (a, b), link in self.links.items():
                time_s = link.transfer.time_s(size)
                cost = self.problem.cost(self.minimise, link.transfer.cost_j(size), time_s)
                self.column(Made(t, i, StepKind.COPY, a, b), cost, time_s)
            for d in self.devices:
                storage = self.graphs[d].problem.storage
                if storage is None or not self.graphs[d].pageable[i]:
                    continue
                self.column(
                    Made(t, i, StepKind.PAGE_OUT, d),
                    storage.page_out_energy_j(size),
                    storage.page_out_time_s(size),
                )
                if i < t:
                    self.column(
                        Made(t, i, StepKind.PAGE_IN, d),
                        storage.page_in_energy_j(size),
                        storage.page_in_time_s(size),
                    )

    def make_stays(self, t: int) -> None:
        """Make S into stage t; a stage that cannot change a tensor keeps its column."""
        for i in range(t):
            if not self.graph.size[i] or t > self.graph.last_use[i]:
                continue
            for d in self.devices:
                before = self.out.stay.get((d, t - 1, i))
                if before is not None and not self.changes(t - 1, i):
                    self.out.stay[d, t, i] = before
                else:
                    self.out.stay[d, t, i] = self.program.binary()

    def changes(self, t: int, i: int) -> bool:
        """True if stage t can compute, copy or read tensor i."""
        return any(True for d in self.devices for _ in self.at("copy", d, t, i)) or any(
            k == t or any(True for d in self.devices for _ in self.at("compute", d, t, k))
            for k in (i, *self.graph.consumers[i])
        )

    def at(self, kind: str, d: int, t: int, i: int) -> Iterator[int]:
        """Columns of R, P, O, of copies to d ("copy") or from d ("send")."""
        if kind in ("copy", "send"):
            for a, b in self.links:
                if d == (b if kind == "copy" else a):
                    made = Made(t, i, StepKind.COPY, a, b)
                    if made in self.out.made:
                        yield self.out.made[made]
        elif (made := Made(t, i, StepKind(kind), d)) in self.out.made:
            yield self.out.made[made]

    def terms(self, coefficient: float, d: int, t: int, i: int, *kinds: str) -> list[Term]:
        """Terms of the columns of these kinds at (d, t, i); "stay" stands for S."""
        found = [
            (column, coefficient)
            for kind in kinds
            if kind != "stay"
            for column in self.at(kind, d, t, i)
        ]
        if "stay" in kinds and (d, t, i) in self.out.stay:
            found.append((self.out.stay[d, t, i], coefficient))
        return found

    def held(self, coefficient: float, d: int, t: int, i: int) -> list[Term]:
        """Terms of H."""
        return self.terms(coefficient, d, t, i, "stay", "compute", "page_in", "copy")

    def outs(self, page_in: Made) -> list[Term]:
        """Terms of minus all O before a page-in."""
        return [
            (self.out.made[out], -1.0)
            for s in range(page_in.node, page_in.stage)
            if (out := Made(s, page_in.node, StepKind.PAGE_OUT, page_in.device)) in self.out.made
        ]

    # Rows -------------------------------------------------------------------------------------

    def require_residency(self, d: int, t: int) -> dict[int, list[tuple[int, int]]]:
        """Require that d holds what it reads in stage t, and make F; per slot, what it frees."""
        freed: dict[int, list[tuple[int, int]]] = {}
        for i in range(t + 1):
            absent = self.held(-1, d, t, i)
            if not self.graph.size[i]:
                continue
            sources = self.terms(-1, d, t, i, "stay", "compute", "page_in")
            for column in self.at("send", d, t, i):
                self.program.at_most([(column, 1.0), *sources], 0)
            arrivals = self.terms(-1, d, t, i, "compute", "copy")
            for column in self.at("page_out", d, t, i):
                self.program.at_most([(column, 1.0), *arrivals], 0)
            kept = self.terms(1, d, t + 1, i, "stay")
            if kept and kept == self.terms(1, d, t, i, "stay"):
                continue
            frees: list[Term] = []
            for k in (i, *self.graph.consumers[i]) if i < t else ():
                cause = (
                    self.terms(-1, d, t, i, "send", "page_out")
                    if k == i
                    else self.terms(-1, d, t, k, "compute")
                )
                if not cause:
                    continue
                if k > i:
                    self.program.at_most([(cause[0][0], 1.0), *frees, *absent], 0)
                if k < t:
                    free = self.program.continuous()
                    self.program.at_most([(free, 1.0), *cause], 0)
                    freed.setdefault(k, []).append((i, free))
                    frees.append((free, 1.0))
            if kept or frees:
                self.program.at_most([*kept, *frees, *absent], 0)
            if frees and not self.copies_take_ram:
                self.program.at_most([*frees, *sources], 0)  # only resident tensors are freed
        return freed

    def limit(self, d: int, t: int) -> None:
        """Limit the RAM of device d in each slot of stage t."""
        memory, freed = self.memories[d], self.require_residency(d, t)
        size = memory.size
        brings = ("compute", "page_in", *(("copy",) if self.copies_take_ram else ()))
        live: list[Term] = [
            (self.out.stay[d, t, i], size[i]) for i in range(t) if (d, t, i) in self.out.stay
        ]
        for k in range(t):
            arrivals = self.terms(size[k], d, t, k, *brings)
            frees = freed.get(k, [])
            if not arrivals and not frees:
                continue
            taken = self.graph.in_place[k]
            early = [(column, -size[i]) for i, column in frees if i == taken]
            used = self.program.continuous(upper=memory.budget)
            self.program.equal([*live, *arrivals, *early, (used, -1.0)], 0)
            works = self.terms(memory.workspace[k], d, t, k, "compute")
            if works and memory.workspace[k]:
                self.program.at_most([(used, 1.0), *works], memory.budget)
            before = [(used, 1.0), *((c, -size[i]) for i, c in frees if i not in (taken, k))]
            for buffer in self.buffers(d, t, k):
                self.program.at_most([*before, buffer], self.ram(d))
            live = [*before, *((c, -size[i]) for i, c in frees if i == k)]
        self.limit_last(d, t, live, brings)

    def limit_last(self, d: int, t: int, live: list[Term], brings: tuple[str, ...]) -> None:
        """Limit the RAM of slot t of stage t, whose frees follow from S of the next stage."""
        memory = self.memories[d]
        size, taken = memory.size, self.graph.in_place[t]
        arrivals = self.terms(size[t], d, t, t, *brings)
        running = self.terms(1, d, t, t, "compute")
        if taken is not None and running:
            over = self.program.continuous()
            self.program.at_most([(over, 1.0), (running[0][0], -1.0)], 0)
            self.program.at_most([(over, 1.0), *self.terms(1, d, t + 1, taken, "stay")], 1)
            arrivals.append((over, -size[t]))
        works = self.terms(memory.workspace[t], d, t, t, "compute")
        self.program.at_most([*live, *arrivals, *works], memory.budget)
        left = [
            (self.out.stay[d, t + 1, i], size[i])
            for i in range(t)
            if (d, t + 1, i) in self.out.stay
        ]
        left += self.terms(size[t], d, t, t, *brings)
        for buffer in self.buffers(d, t, t):
            self.program.at_most([*left, buffer], self.ram(d))

    def ram(self, d: int) -> float:
        """Budget, not rounded down to whole units: buffers need not be whole units."""
        return self.graphs[d].problem.ram_bytes / self.memories[d].unit_bytes

    def buffers(self, d: int, t: int, k: int) -> Iterator[Term]:
        """Terms of the buffer bytes of each copy of tensor k from or to d."""
        unit_bytes = self.memories[d].unit_bytes
        for (a, b), link in self.links.items():
            made = Made(t, k, StepKind.COPY, a, b)
            if d in (a, b) and made in self.out.made and self.buffer_bytes(link):
                yield self.out.made[made], link.buffer_bytes / unit_bytes

    def buffer_bytes(self, link: Link) -> int:
        """Buffer bytes of a copy; 0 if copies take no RAM in this program."""
        return link.buffer_bytes if self.copies_take_ram else 0
