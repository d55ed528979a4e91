# SPDX-License-Identifier: Apache-2.0
"""Parallel devices: list scheduling and a lower bound of the time."""

from __future__ import annotations

import math

from poetfw.common.limits import Work
from poetfw.schedule.milp import IntegerProgram, SolverOptions, solve_program
from poetfw.schedule.several.fitting import Fitter, Recipe
from poetfw.schedule.several.problem import AtOnce, DevicesProblem, Minimise

_ROUNDING = 1e-9


def at_once(problem: DevicesProblem, work: Work) -> AtOnce:
    """Lower bounds for devices that work in parallel."""
    fitter = Fitter(problem, Minimise.TIME)
    ends: list[float] = []
    for i in range(fitter.n):
        begin = max((ends[k] for k in fitter.after[i]), default=0.0)
        ends.append(begin + min(of[i] for of in fitter.cost))
    program = IntegerProgram()
    longest = program.continuous(1.0, math.inf)
    loads = [[(longest, -1.0)] for _ in fitter.devices]
    for i in range(fitter.n):
        parts = []
        for d in fitter.devices:
            if fitter.cost[d][i] < math.inf:
                parts.append((program.continuous(), 1.0))
                loads[d].append((parts[-1][0], fitter.cost[d][i]))
        program.equal(parts, 1.0)
    for load in loads:
        program.at_most(load, 0.0)
    shared = solve_program(program, SolverOptions(), work)
    balanced_s = shared.bound if math.isfinite(shared.bound) else 0.0
    return AtOnce(max(ends), max(0.0, balanced_s) * (1 - _ROUNDING))


def earliest(fitter: Fitter) -> Recipe:
    """Place each node where it ends first, longest path to the end first (HEFT).

    Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing", 2002, with ranks averaged over the devices and without insertion into
    gaps. A tensor is copied once per device, over the one link of a pair. The only check on RAM is
    whether a node fits on a device by itself.
    """
    rank = [0.0] * fitter.n
    readers: list[list[int]] = [[] for _ in range(fitter.n)]
    for k in range(fitter.n):
        for i in fitter.after[k]:
            readers[i].append(k)
    pairs = [pair for pair in fitter.copy if fitter.copy[pair][0] < math.inf]
    for i in reversed(range(fitter.n)):
        runs = [of[i] for of in fitter.cost if of[i] < math.inf]
        read = fitter.graph.consumers[i]
        moved = sum(fitter.copy[pair][i] for pair in pairs) / max(1, len(pairs)) / len(runs)
        rank[i] = sum(runs) / len(runs) + max(
            (rank[k] + (moved if k in read else 0.0) for k in readers[i]), default=0.0
        )
    order = sorted(range(fitter.n), key=lambda i: (-rank[i], i))
    ready: dict[tuple[int, int], float] = {}
    done = [0.0] * fitter.n
    busy = [0.0] * len(fitter.graphs)
    links: dict[frozenset[int], float] = {}
    place, begins = [0] * fitter.n, [0.0] * fitter.n
    for i in order:
        best: tuple[float, float, int, list[tuple[int, int, float]]] | None = None
        for d in fitter.devices:
            if not fitter.fits(d, i):
                continue
            begin, copies = max([busy[d], *(done[k] for k in fitter.after[i])]), []
            used: dict[frozenset[int], float] = {}
            for u in fitter.graph.inputs[i]:
                if (d, u) not in ready:
                    e = place[u]
                    link = frozenset((d, e))
                    free = max(used.get(link, links.get(link, 0.0)), done[u])
                    used[link] = free + fitter.copy[e, d][u]
                    copies.append((u, e, used[link]))
                begin = max(begin, ready.get((d, u), copies[-1][2] if copies else 0.0))
            end = begin + fitter.cost[d][i]
            if best is None or end < best[0]:
                best = (end, begin, d, copies)
        if best is None:
            best = (busy[0], busy[0], 0, [])
        end, begins[i], d, copies = best
        for u, e, there in copies:
            ready[d, u] = there
            links[frozenset((d, e))] = max(there, links.get(frozenset((d, e)), 0.0))
        place[i], done[i], busy[d], ready[d, i] = d, end, end, end
    position = {i: number for number, i in enumerate(order)}
    by_time = sorted(range(fitter.n), key=lambda i: (begins[i], position[i]))
    return fitter.recipe(place, by_time)
