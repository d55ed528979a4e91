# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 against POET's published program, on the network "linear" that is published with it.

The program here is written from the public code of POET (its PuLP formulation), not from ours, with
its own quirks: stages and nodes are not restricted to what can matter, pages come in between two
stages, transfers take no time, and the loss, which the first gradient names twice, is freed twice.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from poetfw.schedule import Node, ScheduleProblem, SolveOptions, Storage, Transfer, solve
from poetfw.schedule.paper_model import as_published

# The MKR1000's row of POET's chip table: FLOP per joule and per second, watts of the card.
FLOP_PER_S = 2000 / 0.012
FLOP_PER_J = FLOP_PER_S / (0.020 * 3.3)
CARD_W = 0.33
PAGE_IN = Transfer(4616.51e3, 0.109e-3, CARD_W / 4616.51e3, CARD_W * 0.109e-3)
PAGE_OUT = Transfer(4440e3, 0.113e-3, CARD_W / 4440e3, CARD_W * 0.113e-3)
DEADLINE = 7.6  # times the runtime of computing everything once
EXACT = SolveOptions(gap=1e-9)


def linear_network(ram_bytes: int) -> ScheduleProblem:
    """Six linear layers, each with a ReLU, and a loss; a gradient reads its layer and the next."""
    widths = (784, 10, 120, 100, 200, 10, 10)
    layers: list[tuple[int, float]] = [(widths[0], 0.0)]  # numbers of the output, FLOP
    for inner, outer in pairwise(widths):
        layers += [(outer, 2.0 * (inner + 1) * outer + outer), (outer, float(outer))]
    layers.append((10, 100.0))

    def node(name: str, inputs: tuple[str, ...], numbers: int, flop: float) -> Node:
        return Node(name, inputs, flop / FLOP_PER_S, flop / FLOP_PER_J, 4 * numbers)

    nodes = [
        node(f"f{i}", (f"f{i - 1}",) if i else (), numbers, flop)
        for i, (numbers, flop) in enumerate(layers)
    ]
    gradient = f"f{len(layers) - 1}"
    for i in reversed(range(len(layers) - 1)):
        inputs = tuple(dict.fromkeys((f"f{i}", f"f{i + 1}", gradient)))
        gradient = f"b{i}"
        nodes.append(node(gradient, inputs, layers[i + 1][0], 2 * layers[i][1]))
    deadline_s = DEADLINE * sum(node.time_s for node in nodes)
    storage = Storage(1, PAGE_IN, PAGE_OUT)
    return ScheduleProblem("linear", ram_bytes, deadline_s, storage, tuple(nodes))


def published_optimum_j(problem: ScheduleProblem) -> float:
    """The optimum of the published program, by SciPy."""
    n = len(problem.nodes)
    assert problem.storage is not None
    assert problem.deadline_s is not None
    position = {node.name: i for i, node in enumerate(problem.nodes)}
    edges = [(position[name], k) for k, node in enumerate(problem.nodes) for name in node.inputs]
    loss = n // 2
    edges.append((loss, loss + 1))
    readers = [[k for i, k in edges if i == node] for node in range(n)]
    size = [node.output_bytes for node in problem.nodes]
    stages = n * n
    compute, in_ram, in_aux, page_in, page_out, used, free = (stages * i for i in range(7))
    columns = free + n * len(edges)
    rows: list[tuple[dict[int, float], float, float]] = []

    def at(block: int, t: int, i: int) -> int:
        return block + t * n + i

    def row(terms: list[tuple[int, float]], least: float, most: float) -> None:
        total: dict[int, float] = {}
        for column, factor in terms:
            total[column] = total.get(column, 0.0) + factor
        rows.append((total, least, most))

    later = [(t, i) for t in range(n) for i in range(t + 1, n)]
    itself = [(t, t) for t in range(n)]
    for block, places in (
        (compute, later),
        (page_in, later),
        (page_out, later),
        (in_ram, later + itself),
        (in_aux, later + itself),
    ):
        row([(at(block, t, i), 1) for t, i in places], 0, 0)
    row([(at(compute, t, t), 1) for t in range(n)], n, n)
    for t in range(n):
        for i, k in edges:
            row([(at(compute, t, k), 1), (at(compute, t, i), -1), (at(in_ram, t, i), -1)], -9, 0)
        for i in range(n):
            if t + 1 < n:
                sources = [(at(block, t, i), -1.0) for block in (in_ram, compute, page_in)]
                row([(at(in_ram, t + 1, i), 1), *sources], -9, 0)
                sources = [(at(block, t, i), -1.0) for block in (in_aux, page_out)]
                row([(at(in_aux, t + 1, i), 1), *sources], -9, 0)
            row([(at(page_in, t, i), 1), (at(in_aux, t, i), -1)], -9, 0)
            row([(at(page_out, t, i), 1), (at(in_ram, t, i), -1)], -9, 0)
        for number, (i, k) in enumerate(edges):
            uses = [j for j in readers[i] if j > k]
            hazards = [(at(compute, t, k), -1.0), *((at(compute, t, j), 1.0) for j in uses)]
            if t + 1 < n:
                hazards.append((at(in_ram, t + 1, i), 1.0))
            most = 1 + len(uses) + (t + 1 < n)
            freed = free + t * len(edges) + number
            row([*hazards, (freed, 1)], 0, 99)  # 1 - free <= 1 + hazards
            row([*hazards, (freed, most)], -99, most - 1)  # most (1 - free) >= 1 + hazards
        held = [(at(in_ram, t, i), float(size[i])) for i in range(n)]
        row([(at(used, t, 0), -1), (at(compute, t, 0), size[0]), *held], 0, 0)
        for k in range(n - 1):
            terms = [(at(used, t, k + 1), -1.0), (at(used, t, k), 1.0)]
            terms.append((at(compute, t, k + 1), size[k + 1]))
            for number, (i, by) in enumerate(edges):
                if by == k:
                    terms.append((free + t * len(edges) + number, -size[i]))
            row(terms, 0, 0)
    times = [(at(compute, t, i), problem.nodes[i].time_s) for t in range(n) for i in range(n)]
    row(times, 0, problem.deadline_s)

    costs = np.zeros(columns)
    for i, node in enumerate(problem.nodes):
        costs[compute + i : compute + stages : n] = node.energy_j
        costs[page_in + i : page_in + stages : n] = problem.storage.page_in_energy_j(size[i])
        costs[page_out + i : page_out + stages : n] = problem.storage.page_out_energy_j(size[i])
    unit = sum(node.energy_j for node in problem.nodes) / 100
    integrality, upper = np.ones(columns), np.ones(columns)
    integrality[used:free], upper[used:free] = 0, problem.ram_bytes
    entries = [(r, c, a) for r, (terms, _, _) in enumerate(rows) for c, a in terms.items()]
    which, where, factors = zip(*entries, strict=True)
    matrix = csr_array((factors, (which, where)), shape=(len(rows), columns))
    limits = LinearConstraint(matrix, [least for _, least, _ in rows], [m for *_, m in rows])
    answer = milp(
        costs / unit,
        integrality=integrality,
        bounds=Bounds(0, upper),
        constraints=limits,
        options={"mip_rel_gap": 1e-9},
    )
    assert answer.success, answer.message
    return float(answer.fun) * unit


@pytest.mark.parametrize(
    "ram_bytes", [*(pytest.param(r, marks=pytest.mark.slow) for r in (3260, 3292, 3400)), 3800]
)
def test_algorithm_1_is_the_published_program(ram_bytes: int) -> None:
    problem = as_published(linear_network(ram_bytes))
    published = published_optimum_j(problem)
    ours = solve(problem, "poet-algorithm-1", EXACT)
    assert ours.energy_j == pytest.approx(published, rel=1e-9)
    assert solve(problem, "poet", EXACT).energy_j == pytest.approx(published, rel=1e-9)
