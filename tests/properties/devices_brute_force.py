# SPDX-License-Identifier: Apache-2.0
"""Trying every plan in stages of a small problem with several devices, and such problems."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace
from itertools import count

from poetfw.schedule import Node, ScheduleProblem, Storage, Transfer
from poetfw.schedule.several import Device, DevicesProblem, Link, Minimise
from poetfw.schedule.simulator import TIME_TOLERANCE

_COMPUTED, _PAGED, _COPIED = range(3)
"""What a slot does, in this order."""


def least_cost(problem: DevicesProblem, minimise: Minimise) -> float | None:
    """The least cost of any plan in stages, by Dijkstra's algorithm; None if there is none.

    A state says how many nodes were computed, the slot and what it did last, and per device what is
    in RAM and in storage. Anything may be freed or paged out at any time.
    """
    devices, deadline_s = problem.devices, problem.deadline_s
    nodes = devices[0].problem.nodes
    n, many = len(nodes), range(len(devices))
    position = {node.name: i for i, node in enumerate(nodes)}
    inputs = [
        {position[u] for u in node.inputs if nodes[position[u]].output_bytes} for node in nodes
    ]
    number = {device.name: d for d, device in enumerate(devices)}
    links = {(number[x.source], number[x.target]): x for x in problem.links}
    latest_s = float("inf") if deadline_s is None else deadline_s * (1 + TIME_TOLERANCE)

    Sets = tuple[frozenset[int], ...]
    State = tuple[int, int, int, Sets, Sets]
    none: Sets = tuple(frozenset[int]() for _ in many)
    begin: State = (0, -1, 0, none, none)
    known: dict[State, list[tuple[float, float]]] = {begin: [(0.0, 0.0)]}
    tie = count()
    queue: list[tuple[float, float, int, State]] = [(0.0, 0.0, next(tie), begin)]

    def size(ram: frozenset[int]) -> int:
        return sum(nodes[i].output_bytes for i in ram)

    def having(sets: Sets, d: int, i: int) -> Sets:
        return (*sets[:d], sets[d] | {i}, *sets[d + 1 :])

    def lacking(sets: Sets, d: int, i: int) -> Sets:
        return (*sets[:d], sets[d] - {i}, *sets[d + 1 :])

    while queue:
        cost, time_s, _, state = heapq.heappop(queue)
        if (cost, time_s) not in known[state]:
            continue
        done, slot, did, ram, aux = state
        if done == n:
            return cost

        def reach(energy_j: float, more_s: float, state: State) -> None:
            c = cost + problem.cost(minimise, energy_j, more_s)  # noqa: B023
            s = time_s + more_s  # noqa: B023
            if s > latest_s:
                return
            s = s if deadline_s is not None else 0.0
            others = known.setdefault(state, [])
            if any(a <= c + 1e-12 and b <= s + 1e-12 for a, b in others):
                return
            others[:] = [(a, b) for a, b in others if a < c or b < s]
            others.append((c, s))
            heapq.heappush(queue, (c, s, next(tie), state))

        for d in many:
            own, budget = devices[d].problem, devices[d].problem.ram_bytes
            live = size(ram[d])
            for i in ram[d]:
                reach(0, 0, (done, slot, did, lacking(ram, d, i), aux))
                if own.storage is not None and own.nodes[i].page and i not in aux[d]:
                    bytes_ = nodes[i].output_bytes
                    energy_j, out_s = (
                        own.storage.page_out_energy_j(bytes_),
                        own.storage.page_out_time_s(bytes_),
                    )
                    reach(energy_j, out_s, (done, slot, did, ram, having(aux, d, i)))
            for i in range(min(done + 1, n)):
                node, first = own.nodes[i], i == done
                before = node.recompute_before
                late = before is not None and position[before] < done
                allowed = first or (
                    node.recompute and node.output_bytes and not late and i not in ram[d]
                )
                if (
                    allowed
                    and node.name not in devices[d].lacks
                    and (i, _COMPUTED) >= (slot, did)
                    and inputs[i] <= ram[d]
                ):
                    after = having(ram, d, i) if node.output_bytes else ram
                    following = (done + first, i if not first else n + i, _COMPUTED)
                    taken = position.get(node.in_place or "", -1)
                    needs = live + node.output_bytes + node.workspace_bytes
                    if needs <= budget:
                        reach(node.energy_j, node.time_s, (*following, after, aux))
                    if taken in ram[d] and needs - node.output_bytes <= budget:
                        after = lacking(after, d, taken)
                        reach(node.energy_j, node.time_s, (*following, after, aux))
                if i in aux[d] and i not in ram[d] and (i, _PAGED) >= (slot, did):
                    assert own.storage is not None
                    if live + node.output_bytes <= budget:
                        reach(
                            own.storage.page_in_energy_j(node.output_bytes),
                            own.storage.page_in_time_s(node.output_bytes),
                            (done, i, _PAGED, having(ram, d, i), aux),
                        )
        for (a, b), link in links.items():
            for i in ram[a] - ram[b]:
                # Right after its first computation a tensor is copied in the stage that ends there.
                last = slot >= n and slot - n == i
                if not last and (i, _COPIED) < (slot, did):
                    continue
                bytes_, buffer = nodes[i].output_bytes, link.buffer_bytes
                if (
                    size(ram[b]) + bytes_ + buffer <= devices[b].problem.ram_bytes
                    and size(ram[a]) + buffer <= devices[a].problem.ram_bytes
                ):
                    at = slot if last else i
                    reach(
                        link.transfer.cost_j(bytes_),
                        link.transfer.time_s(bytes_),
                        (done, at, _COPIED, having(ram, b, i), aux),
                    )
        if slot >= n:
            reach(0, 0, (done, -1, 0, ram, aux))
    return None


def random_devices(seed: int) -> DevicesProblem:
    """Up to 7 nodes on two devices; in some paging, buffers, a deadline or idle power."""
    rng = random.Random(seed)
    n = rng.choice((3, 4, 5, 5, 6, 6, 7))
    unit = 8
    nodes: list[Node] = []
    for i in range(n):
        sized = [node.name for node in nodes if node.output_bytes]
        inputs = tuple(rng.sample(sized, min(len(sized), rng.choice((1, 1, 2)))))
        output = 0 if i and rng.random() < 0.15 else unit * rng.randint(1, 4)
        taken = next((u for u in inputs if nodes[int(u[1:])].output_bytes == output), None)
        nodes.append(
            Node(
                name=f"n{i}",
                inputs=inputs,
                time_s=0.0,
                energy_j=0.0,
                output_bytes=output,
                recompute=output > 0 and rng.random() < 0.9,
                page=output > 0 and rng.random() < 0.9,
                in_place=taken if rng.random() < 0.5 and output else None,
            )
        )
    for i, node in enumerate(nodes[:-1]):
        if node.recompute and rng.random() < 0.15:
            nodes[i] = replace(node, recompute_before=f"n{rng.randint(i + 1, n - 1)}")
    total = sum(node.output_bytes for node in nodes)
    paging = n <= 5 and rng.random() < 0.4
    devices = []
    for d in range(2):
        own = tuple(
            replace(
                node,
                time_s=rng.randint(1, 20) / 4,
                energy_j=rng.randint(1, 20) / 4,
                workspace_bytes=unit * rng.randint(0, 1),
            )
            for node in nodes
        )
        storage = None
        if paging and rng.random() < 0.7:
            transfer = Transfer(unit * 4, rng.choice((0.25, 0.5)), 0.01, 0.25)
            storage = Storage(unit, transfer, transfer)
        ram = int(rng.uniform(0.4, 0.9) * total) + 2 * unit
        lacks = frozenset(node.name for node in nodes if rng.random() < 0.03)
        problem = ScheduleProblem(f"devices {seed}", ram, None, storage, own)
        devices.append(Device(f"d{d}", problem, lacks, rng.choice((0.0, 0.0, 0.5))))
    links = tuple(
        Link(a, b, Transfer(unit * rng.choice((4, 16)), 0.25, 0.01, 0.1), rng.choice((0, 0, 5)))
        for a, b in (("d0", "d1"), ("d1", "d0"))
    )
    once_s = sum(max(x.problem.nodes[i].time_s for x in devices) for i in range(n))
    deadline_s = rng.uniform(0.5, 1.3) * once_s if rng.random() < 0.4 else None
    return DevicesProblem(f"devices {seed}", tuple(devices), links, deadline_s)
