# SPDX-License-Identifier: Apache-2.0
"""Placements made to fit: where RAM runs out, a tensor is copied away or recomputed later.

Memory is elastic until an op needs room. Then the tensor goes whose coming back takes least for the
bytes and the stages that its room is free: one that nobody reads any more takes nothing, one that
another device holds as well takes a copy, another a copy there and back, or its recomputation from
what is held. That is a greedy answer to what a recipe leaves open. A recipe says where each node is
computed first, in which order, and of some tensors what becomes of them; small changes of a
recipe, each replayed whole, are the search.
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

_LOOKS_PER_UNIT = 500_000  # nodes looked at, in a unit of work
_STEP_WORK = 20  # such looks that each step takes, with its replay
_THRESHOLD = 0.01
_ORDERS_SHARE = 0.4  # of the changes, where the order may change
_FARTHEST = 60  # positions that a node moves
_TRIES_PER_NODE = 40  # changes without a better recipe, after which there is none
_STALE = 200  # changes without a better recipe, after which the best is the beginning again
_NEVER = math.inf
_FAR = 1e6  # times what a tensor that shall stay would take to come back


class Fate(Enum):
    """The fate of a tensor when its room is needed."""

    CHEAPEST = 0
    COPIED = 1
    DROPPED = 2
    KEPT = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """The decisions about a plan before it is made to fit.

    Attributes:
        order: the nodes, each after those it reads.
        place: per node, the device that computes it first, by number.
        fate: per node, what becomes of its tensor.
    """

    order: tuple[int, ...]
    place: tuple[int, ...]
    fate: tuple[Fate, ...]


class _NoRoom(Exception):
    """An op and what it reads need more RAM than there is, or the device cannot compute it."""


class Fitter:
    """A problem as lists: what recipes are followed in.

    Args:
        problem: valid.
        minimise: what to.
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
        """A recipe with every fate open; a node that does not fit is computed elsewhere."""
        fits = [
            d if self.fits(d, i) else next((e for e in self.devices if self.fits(e, i)), d)
            for i, d in enumerate(place)
        ]
        steps = tuple(range(self.n) if order is None else order)
        return Recipe(steps, tuple(fits), (Fate.CHEAPEST,) * self.n)

    def fits(self, d: int, i: int) -> bool:
        """True if a device can compute a node at all."""
        return self.cost[d][i] < _NEVER and self.graphs[d].working_set(i) <= self.ram[d]

    def follow(self, recipe: Recipe, work: Work) -> list[Made] | None:
        """The steps of a recipe, frees left out; None if it does not fit."""
        following = _Following(self, recipe)
        try:
            return following.run()
        except _NoRoom:
            return None
        finally:
            work.spend((following.looked + _STEP_WORK * len(following.made)) / _LOOKS_PER_UNIT)


class _Following:
    """One recipe followed, step by step."""

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

    # What a tensor is worth --------------------------------------------------------------------

    def next_use(self, i: int, d: int | None = None, after: bool = False) -> float:
        """The position of the next node that reads a tensor, on one device or on any.

        Args:
            i: whose tensor.
            d: the device; None for any.
            after: whether what the present position computes first is past.
        """
        reads = self.reads[-1 if d is None else d][i]
        while reads and reads[-1] < self.now:
            reads.pop()
        if after and reads and reads[-1] == self.now:
            return reads[-2] if len(reads) > 1 else _NEVER
        return reads[-1] if reads else _NEVER

    def remake(self, d: int, i: int, until: float, without: int = -1, depth: int = 8) -> float:
        """About what computing a tensor again on a device takes, from what is held now."""
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
        """True if a node may not be computed any more at a position of the order."""
        end = self.fitter.ends[i]
        return end < self.fitter.n and self.at[end] < position

    def score(self, d: int, i: int) -> tuple[float, int | None]:
        """The cost of giving up a tensor per byte and position, and where to copy it first."""
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
        """True if a tensor comes to a device without anything that is read again going there."""
        needs = self.fitter.graph.size[i] + beside
        if self.free[d] >= needs:
            return True
        dead = [u for u in self.held[d] if u not in self.pinned[d] and self.next_use(u) == _NEVER]
        return self.free[d] + sum(self.fitter.graph.size[u] for u in dead) >= needs

    # What is done ------------------------------------------------------------------------------

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
        """True if the op that runs now takes over the room of an input, which is saved if it must.

        It does where nobody reads the input after it, or where there is no room for both.
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
        """Bring a tensor to a device: copied, or computed again there or elsewhere."""
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
"""Cost of the steps of a recipe, seconds or joules; infinite where they are refused."""


def improve(
    fitter: Fitter,
    recipe: Recipe,
    judge: Judge,
    work: Work,
    least: float = 0.0,
    orders: bool = False,
) -> Recipe:
    """A better recipe, by small changes: a tensor's fate, where some nodes in a row run, or when.

    A change that makes it worse is taken too, at first up to 1% and in the end none (threshold
    accepting: Dueck, Scheuer, 1990). Numbers are drawn from a seed, so the same work gets the same
    recipe.

    Args:
        fitter: of the problem.
        recipe: where to begin.
        judge: says what is better.
        work: what to do; all of it is done unless `least` is reached, or nothing better is found
            for long.
        least: nothing is better than this.
        orders: whether the order may change.
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
    """A recipe with one small change."""
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
    """A recipe in which one node comes earlier or later, as far as others allow."""
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
