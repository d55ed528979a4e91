# SPDX-License-Identifier: Apache-2.0
"""Local search over placements, each made to fit the RAM by evictions, copies and recomputation.

Where an op lacks room, the tensor is evicted whose return costs least per byte and per stage of
freed room. A tensor that is not read again costs nothing; one that another device also holds costs
a copy; any other costs a copy there and back, or its recomputation from resident tensors. This
greedy rule fills in what a recipe leaves open. A recipe gives the device of each node's first
computation, the order, and the fate of some tensors. The search makes small changes to a recipe and
replays the whole plan for each.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from poetfw.common.limits import Work
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import StepKind
from poetfw.schedule.several.plan import Made
from poetfw.schedule.several.problem import (
    DevicesProblem,
    Minimise,
)

_LOOKS_PER_UNIT = 500_000  # node visits per work unit
_STEP_WORK = 20  # node visits per step, with its replay
_THRESHOLD = 0.01
_ORDERS_SHARE = 0.4  # of the changes, where the order may change
_FARTHEST = 60  # most positions that a node moves
_TRIES_PER_NODE = 40  # changes per node without improvement until the search stops
_STALE = 200  # changes without improvement until the search restarts from the best recipe
_NEVER = math.inf
_FAR = 1e6  # factor on the cost of evicting a tensor whose fate is to stay


class Fate(Enum):
    """Fate of a tensor when its room is needed."""

    CHEAPEST = 0
    COPIED = 1
    DROPPED = 2
    KEPT = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """Decisions of a plan before it is made to fit.

    Attributes:
        order: nodes in topological order.
        place: per node, the index of the device that computes it first.
        fate: per node, the fate of its tensor.
    """

    order: tuple[int, ...]
    place: tuple[int, ...]
    fate: tuple[Fate, ...]


class _NoRoom(Exception):
    """An op and its inputs exceed the RAM, or the device cannot compute it."""


class Fitter:
    """Problem as lists, in which recipes are followed.

    Args:
        problem: valid.
        minimise: the objective.
    """

    def __init__(self, problem: DevicesProblem, minimise: Minimise) -> None:
        self.graphs = [Indexed.of(problem.priced(device, minimise)) for device in problem.devices]
        graph = self.graphs[0]
        self.graph, self.n = graph, graph.n
        self.devices = range(len(self.graphs))
        self.ram = [device.problem.ram_bytes for device in problem.devices]
        self.cost = [
            [_NEVER if node.name in device.lacks else node.energy_j for node in of.problem.nodes]
            for of, device in zip(self.graphs, problem.devices, strict=True)
        ]
        number = {device.name: d for d, device in enumerate(problem.devices)}
        pairs = [(a, b) for a in self.devices for b in self.devices if a != b]
        self.buffer = dict.fromkeys(pairs, 0) | {
            (number[x.source], number[x.target]): x.buffer_bytes for x in problem.links
        }
        self.copy = {pair: [_NEVER] * self.n for pair in pairs} | {
            (number[x.source], number[x.target]): [
                problem.cost(minimise, x.transfer.cost_j(size), x.transfer.time_s(size))
                for size in graph.size
            ]
            for x in problem.links
        }
        position = {node.name: i for i, node in enumerate(graph.problem.nodes)}
        nodes = graph.problem.nodes
        self.ends = [
            graph.n if node.recompute_before is None else position[node.recompute_before]
            for node in nodes
        ]
        self.after = [{position[name] for name in node.inputs} for node in nodes]
        for i, end in enumerate(self.ends):
            if end < graph.n:
                self.after[end].add(i)
        self.least = min((c for of in self.cost for c in of if c), default=1.0)
        self.again = [node.recompute and node.output_bytes > 0 for node in nodes]

    def recipe(self, place: Sequence[int], order: Sequence[int] | None = None) -> Recipe:
        """Recipe with every fate open; a node that does not fit moves to another device."""
        fits = [
            d if self.fits(d, i) else next((e for e in self.devices if self.fits(e, i)), d)
            for i, d in enumerate(place)
        ]
        steps = tuple(range(self.n) if order is None else order)
        return Recipe(steps, tuple(fits), (Fate.CHEAPEST,) * self.n)

    def fits(self, d: int, i: int) -> bool:
        """True if the device can compute the node and has room for it."""
        return self.cost[d][i] < _NEVER and self.graphs[d].working_set(i) <= self.ram[d]

    def follow(self, recipe: Recipe, work: Work) -> list[Made] | None:
        """Steps of a recipe without frees; None if it does not fit."""
        following = _Following(self, recipe)
        try:
            return following.run()
        except _NoRoom:
            return None
        finally:
            work.spend((following.looked + _STEP_WORK * len(following.made)) / _LOOKS_PER_UNIT)


class _Following:
    """State while one recipe is followed."""

    def __init__(self, fitter: Fitter, recipe: Recipe) -> None:
        self.fitter, self.recipe = fitter, recipe
        self.held: list[dict[int, None]] = [{} for _ in fitter.devices]
        self.free = list(fitter.ram)
        self.pinned: list[dict[int, int]] = [{} for _ in fitter.devices]
        self.made: list[Made] = []
        self.looked = 0
        self.now = 0
        self.at = [0] * fitter.n
        self.reads: list[list[list[int]]] = [
            [[] for _ in range(fitter.n)] for _ in (*fitter.devices, None)
        ]
        for position, i in enumerate(recipe.order):
            self.at[i] = position
        for k in reversed(recipe.order):
            for u in fitter.graph.inputs[k]:
                self.reads[recipe.place[k]][u].append(self.at[k])
                self.reads[-1][u].append(self.at[k])

    def run(self) -> list[Made]:
        for position, i in enumerate(self.recipe.order):
            self.now = position
            self.compute(self.recipe.place[i], i, i)
        return self.made

    # Cost of an eviction -----------------------------------------------------------------------

    def next_use(self, i: int, d: int | None = None, after: bool = False) -> float:
        """Position of the next node that reads a tensor, on one device or on any.

        Args:
            i: node that makes the tensor.
            d: the device; None for any.
            after: True to skip the node that the present position computes.
        """
        reads = self.reads[-1 if d is None else d][i]
        while reads and reads[-1] < self.now:
            reads.pop()
        if after and reads and reads[-1] == self.now:
            return reads[-2] if len(reads) > 1 else _NEVER
        return reads[-1] if reads else _NEVER

    def remake(self, d: int, i: int, until: float, without: int = -1, depth: int = 8) -> float:
        """Estimated cost of recomputing a tensor on a device from resident tensors."""
        fitter = self.fitter
        self.looked += 1
        if not fitter.again[i] or not depth or self.passed(i, until):
            return _NEVER
        cost = fitter.cost[d][i]
        held = self.held[d]
        for u in fitter.graph.inputs[i]:
            if u == without or u not in held:
                least = self.remake(d, u, until, without, depth - 1)
                for e in fitter.devices:
                    if u in self.held[e] and e != d and fitter.copy[e, d][u] < least:
                        least = fitter.copy[e, d][u]
                cost += least
                if cost == _NEVER:
                    break
        return cost

    def passed(self, i: int, position: float) -> bool:
        """True if a node may no longer be computed at a position of the order."""
        end = self.fitter.ends[i]
        return end < self.fitter.n and self.at[end] < position

    def score(self, d: int, i: int) -> tuple[float, int | None]:
        """Cost of evicting a tensor per byte and position, and the device to copy it to first."""
        fitter = self.fitter
        fate, here, soon = self.recipe.fate[i], self.next_use(i, d), self.next_use(i)
        others = [e for e in fitter.devices if e != d]
        back = [fitter.copy[e, d][i] for e in others if i in self.held[e]]
        cost, target = 0.0, None
        if back:
            cost, soon = (0.0 if here == _NEVER else min(back)), here
        elif soon < _NEVER:
            cost = _NEVER if fate is Fate.COPIED else self.remake(d, i, soon, without=i)
            for e in others if fate is not Fate.DROPPED or cost == _NEVER else ():
                way = fitter.copy[d, e][i] + (0.0 if here == _NEVER else fitter.copy[e, d][i])
                if way < cost and self.has_room(e, i, fitter.buffer[d, e]):
                    cost, target = way, e
            if cost == _NEVER and fate is Fate.COPIED:  # no room elsewhere
                cost = self.remake(d, i, soon, without=i)
        if fate is Fate.KEPT:
            cost = cost * _FAR + fitter.least
        return cost / (fitter.graph.size[i] * max(1, min(soon, fitter.n) - self.now)), target

    def has_room(self, d: int, i: int, beside: int) -> bool:
        """True if a device has room for a tensor without evicting tensors that are read again."""
        needs = self.fitter.graph.size[i] + beside
        if self.free[d] >= needs:
            return True
        dead = [u for u in self.held[d] if u not in self.pinned[d] and self.next_use(u) == _NEVER]
        return self.free[d] + sum(self.fitter.graph.size[u] for u in dead) >= needs

    # Steps -------------------------------------------------------------------------------------

    def compute(self, d: int, i: int, stage: int) -> None:
        if self.fitter.cost[d][i] == _NEVER:
            raise _NoRoom
        graph = self.fitter.graph
        pinned = self.pinned[d]
        for u in graph.inputs[i]:
            pinned[u] = pinned.get(u, 0) + 1
        for u in graph.inputs[i]:
            if u not in self.held[d]:
                self.fetch(d, u)
        taken = graph.in_place[i]
        room = graph.size[i] + self.fitter.graphs[d].workspace[i]
        dies = taken is not None and pinned[taken] == 1 and self.gives_up(d, taken, room)
        if dies:
            room -= graph.size[i]
        self.make_room(d, room)
        self.made.append(Made(stage, i, StepKind.COMPUTE, d))
        for u in graph.inputs[i]:
            self.unpin(d, u)
        if taken is not None and dies:
            self.lose(d, taken)
        if graph.size[i]:
            self.held[d][i] = None
            self.free[d] -= graph.size[i]

    def gives_up(self, d: int, u: int, room: int) -> bool:
        """True if the current op overwrites input u in place; saves the input first if needed.

        The op overwrites it if no later op reads it, or if there is no room for both.
        """
        saved = any(u in self.held[e] for e in self.fitter.devices if e != d)
        if self.next_use(u, d, after=True) == _NEVER and (
            saved or self.next_use(u, after=True) == _NEVER
        ):
            return True
        size, held = self.fitter.graph.size, self.held[d]
        if self.free[d] + sum(size[v] for v in held if v not in self.pinned[d]) >= room:
            return False
        if saved or self.remake(d, u, self.now + 1, without=u) < _NEVER:
            return True
        _, target = self.score(d, u)
        if target is not None:
            self.send(d, target, u)
        return target is not None

    def fetch(self, d: int, u: int) -> None:
        """Bring a tensor to a device: copy it, or recompute it there or elsewhere."""
        fitter = self.fitter
        best = (self.remake(d, u, self.now, without=u), d, True)
        for e in fitter.devices:
            if e != d:
                held = u in self.held[e]
                first = 0.0 if held else self.remake(e, u, self.now, without=u)
                best = min(best, (first + fitter.copy[e, d][u], e, not held))
        cost, source, again = best
        if cost == _NEVER:
            raise _NoRoom
        if again:
            self.compute(source, u, self.recipe.order[self.now])
        if source != d and u not in self.held[d]:
            self.send(source, d, u)

    def send(self, source: int, target: int, u: int) -> None:
        buffer = self.fitter.buffer[source, target]
        self.pinned[source][u] = self.pinned[source].get(u, 0) + 1
        self.make_room(target, self.fitter.graph.size[u] + buffer)
        if buffer:
            self.make_room(source, buffer)
        self.unpin(source, u)
        self.made.append(Made(self.recipe.order[self.now], u, StepKind.COPY, source, target))
        self.held[target][u] = None
        self.free[target] -= self.fitter.graph.size[u]

    def make_room(self, d: int, needs: int) -> None:
        while self.free[d] < needs:
            least: tuple[float, int, int | None] | None = None
            for u in self.held[d]:
                if u not in self.pinned[d]:
                    score, target = self.score(d, u)
                    if score < _NEVER and (least is None or score < least[0]):
                        least = (score, u, target)
            if least is None:
                raise _NoRoom
            _, u, target = least
            if target is not None:
                self.send(d, target, u)
            self.lose(d, u)

    def unpin(self, d: int, u: int) -> None:
        self.pinned[d][u] -= 1
        if not self.pinned[d][u]:
            del self.pinned[d][u]

    def lose(self, d: int, u: int) -> None:
        del self.held[d][u]
        self.free[d] += self.fitter.graph.size[u]


Judge = Callable[[list[Made]], float]
"""Cost of a recipe's steps, seconds or joules; infinite if they are refused."""


def improve(
    fitter: Fitter,
    recipe: Recipe,
    judge: Judge,
    work: Work,
    least: float = 0.0,
    orders: bool = False,
) -> Recipe:
    """Improve a recipe by small changes to a tensor's fate, a run of nodes' device, or the order.

    Threshold accepting (Dueck, Scheuer, 1990): a change that raises the cost is accepted too, by at
    most 1% at first and 0 at the end. The random numbers are seeded, so the same work limit gives
    the same recipe.

    Args:
        fitter: the problem.
        recipe: start of the search.
        judge: cost of a recipe's steps.
        work: work limit; used up unless the search reaches `least` or stalls.
        least: lower bound on the cost.
        orders: True to change the order too.
    """
    draw = random.Random(0)
    large = max(fitter.graph.size) // 64
    tensors = [i for i in range(fitter.n) if fitter.graph.size[i] > large]
    total = max(work.left, 1e-9)

    def judged(of: Recipe) -> float:
        made = fitter.follow(of, work)
        return math.inf if made is None else judge(made)

    best, best_cost = recipe, judged(recipe)
    now, now_cost = best, best_cost
    stale = 0
    while work.is_left() and best_cost > least and stale < _TRIES_PER_NODE * fitter.n:
        if orders and draw.random() < _ORDERS_SHARE:
            changed = moved_at_random(fitter, now, draw)
        else:
            changed = changed_at_random(fitter, now, tensors, draw)
        cost = judged(changed)
        if cost <= now_cost * (1 + _THRESHOLD * work.left / total):
            now, now_cost = changed, cost
        stale += 1
        if cost < best_cost:
            best, best_cost, stale = changed, cost, 0
        elif stale % _STALE == 0:
            now, now_cost = best, best_cost
    return best


def changed_at_random(
    fitter: Fitter, recipe: Recipe, tensors: Sequence[int], draw: random.Random
) -> Recipe:
    """Copy of a recipe with one random small change."""
    if tensors and draw.random() < 0.6:
        fate = list(recipe.fate)
        i = draw.choice(tensors)
        fate[i] = draw.choice([other for other in Fate if other is not fate[i]])
        return replace(recipe, fate=tuple(fate))
    place = list(recipe.place)
    first = draw.randrange(fitter.n)
    d = draw.choice([d for d in fitter.devices if d != place[recipe.order[first]]])
    for i in recipe.order[first : first + draw.choice((1, 1, 2, 3, 5, 8, 13, 21))]:
        if fitter.fits(d, i):
            place[i] = d
    return replace(recipe, place=tuple(place))


def moved_at_random(fitter: Fitter, recipe: Recipe, draw: random.Random) -> Recipe:
    """Copy of a recipe with one node moved earlier or later, as far as dependencies allow."""
    order = list(recipe.order)
    at = draw.randrange(fitter.n)
    i, to, step = order[at], at, draw.choice((-1, 1))
    for _ in range(draw.randint(1, _FARTHEST)):
        beside = to + step
        if not 0 <= beside < fitter.n:
            break
        other = order[beside]
        if other in fitter.after[i] if step < 0 else i in fitter.after[other]:
            break
        to = beside
    order.insert(to, order.pop(at))
    return replace(recipe, order=tuple(order))
