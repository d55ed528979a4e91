# SPDX-License-Identifier: Apache-2.0
"""The published methods against trying every plan."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from brute_force import Order, least_energy
from numpy.typing import NDArray
from random_graphs import GRAPHS, about, chunks, random_graph

from made_problems import with_ram_fraction
from poetfw.common.errors import InfeasibleError, UnsuitableError
from poetfw.schedule import Node, ScheduleProblem, Storage, Transfer, simulate, solve
from poetfw.schedule.baselines.offloading import Offloading, lower_bound_s
from poetfw.schedule.baselines.registry import BASELINES
from poetfw.schedule.transfers import plan_transfers


def alike(links: int, slots: int) -> ScheduleProblem:
    """A chain of links that are alike, in RAM for so many tensors; only links take energy."""
    nodes = [Node("x", (), 0.0, 0.0, 1)]
    for i in range(links):
        nodes.append(Node(f"f{i}", (nodes[-1].name,), 1.0, 1.0, 1))
    gradient = nodes[-1].name
    for i in reversed(range(links)):
        nodes.append(Node(f"b{i}", (nodes[i].name, gradient), 1.0, 0.0, 1, backward=True))
        gradient = f"b{i}"
    return ScheduleProblem("alike", slots, None, None, tuple(nodes))


@pytest.mark.parametrize(
    ("links", "slots"),
    [(6, 4), (7, 4), *(pytest.param(n, s, marks=pytest.mark.slow) for n, s in [(12, 4), (9, 5)])],
)
def test_binomial_checkpointing_computes_no_link_too_often(links: int, slots: int) -> None:
    problem = alike(links, slots)
    plan = BASELINES["griewank"].plan(problem)
    assert simulate(problem, plan).energy_j == least_energy(problem, Order.GIVEN)


def busy(seed: int, links: int) -> ScheduleProblem:
    """A chain of links that differ; transfers of all tensors take 1.5 times as long as compute."""
    rng = random.Random(seed)
    sizes = [rng.randint(200, 1000) for _ in range(links)]
    times_s = [rng.uniform(0.5, 1.5) for _ in range(links)]
    channel = Transfer(2 * sum(sizes) / (1.5 * 3 * sum(times_s)), 0.0, 0.0)
    nodes = [Node("x", (), 0.0, 0.0, 1, page=False)]
    for i in range(links):
        nodes.append(Node(f"f{i}", (nodes[-1].name,), times_s[i], 0.0, sizes[i]))
    gradient = nodes[-1].name
    for i in reversed(range(links)):
        size = nodes[i].output_bytes
        inputs = (nodes[i].name, gradient)
        nodes.append(Node(f"b{i}", inputs, 2 * times_s[i], 0.0, size, backward=True))
        gradient = f"b{i}"
    return ScheduleProblem("busy", 0, None, Storage(1, channel, channel, True), tuple(nodes))


def least_paging_time_s(offloading: Offloading) -> float:
    """What no step takes less than that pages any choice of tensors, each as a whole.

    Pages go out in the order in which they are made, and in in that in which they are wanted. The
    backward pass is the forward pass in reverse; page-ins may begin at any moment.
    """
    graph, gaps = offloading.graph, offloading.gaps
    choices = np.arange(1 << len(gaps))
    best_s = math.inf
    for part in np.array_split(choices, max(1, len(choices) >> 16)):
        paged = [(part >> k & 1).astype(bool) for k in range(len(gaps))]
        out, into = [gap.tensor for gap in gaps], [gap.end for gap in gaps]
        ahead_s = _pass_s(offloading, paged, range(offloading.forward), out)
        back = range(graph.n - 1, offloading.forward - 1, -1)
        back_s = _pass_s(offloading, paged, back, into)
        moves = zip(gaps, paged, strict=True)
        moved_s = sum(
            p * (offloading.out_s(g.tensor) + offloading.in_s(g.tensor)) for g, p in moves
        )
        best_s = min(best_s, float(np.maximum(ahead_s + back_s, moved_s).min()))
    return best_s


def _pass_s(
    offloading: Offloading, paged: Sequence[NDArray[np.bool_]], order: range, begun: Sequence[int]
) -> NDArray[np.float64]:
    """Seconds that one pass takes for each choice, with transfers that begin after these nodes."""
    graph, gaps = offloading.graph, offloading.gaps
    core_s = np.zeros(len(paged[0]))
    channel_s = core_s.copy()
    gone_s = [core_s] * len(gaps)
    size = [graph.size[gap.tensor] for gap in gaps]
    queue: list[int] = []
    for t in order:
        live = np.full(len(core_s), float(offloading.kept[t]))
        away = [k for k in queue if gaps[k].start < t < gaps[k].end]
        for k in away:
            live -= size[k] * (paged[k] & (gone_s[k] <= core_s))
        for k in away:
            waits = (live > graph.problem.ram_bytes) & paged[k] & (gone_s[k] > core_s)
            core_s = np.where(waits, gone_s[k], core_s)
            live -= size[k] * waits
        core_s = np.where(live > graph.problem.ram_bytes, np.inf, core_s)
        core_s = core_s + graph.problem.nodes[t].time_s
        for k in [k for k in range(len(gaps)) if begun[k] == t]:
            queue.append(k)
            done_s = np.maximum(core_s, channel_s) + offloading.out_s(gaps[k].tensor)
            channel_s = np.where(paged[k], done_s, channel_s)
            gone_s[k] = channel_s
    return core_s


@pytest.mark.parametrize(
    ("seed", "links"),
    [
        (0, 12),
        (1, 12),
        *(pytest.param(s, n, marks=pytest.mark.slow) for s, n in [(2, 14), (3, 20)]),
    ],
)
def test_dynprog_pages_about_as_well_as_any_choice_does(seed: int, links: int) -> None:
    chain = busy(seed, links)
    far = 0
    for fraction in (0.3, 0.4, 0.5, 0.7):
        problem = with_ram_fraction(chain, fraction)
        offloading = Offloading.of(problem, "test")
        best_s, bound_s = least_paging_time_s(offloading), lower_bound_s(problem)
        assert best_s >= bound_s * (1 - 1e-9)
        if best_s < math.inf:
            plan = plan_transfers(problem, BASELINES["dynprog"].plan(problem))
            time_s = simulate(problem, plan).time_s
            assert best_s * (1 - 1e-9) <= time_s <= max(1.06 * best_s, bound_s)
            assert time_s <= 1.2 * bound_s or fraction < 0.5
            far += best_s > 1.2 * bound_s
    assert far or links > 12  # the paper's ratio is out of reach for some of the short ones


PAGING_ONLY = (
    *("greedy", "dynprog", "vdnn", "autoswap", "tflms"),
    *("swap-on-demand", "swap-reduced", "swap-proactive"),
)


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:200], 2))
def test_ours_pages_at_no_more_energy_and_in_no_more_time(numbers: range) -> None:
    for number in numbers:
        problem = replace(random_graph(number), deadline_s=None)
        with about(problem):
            compare_with_ours(problem)


@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 8), marks=pytest.mark.slow)], ids=["one", "many"]
)
def test_ours_is_never_worse_where_the_channel_is_busy(seeds: range) -> None:
    for seed in seeds:
        channel = Transfer(900.0, 0.0, 1.0)
        chain = replace(busy(seed, 6), storage=Storage(1, channel, channel, overlap=True))
        assert compare_with_ours(with_ram_fraction(chain, 0.85)) >= 3


def compare_with_ours(problem: ScheduleProblem) -> int:
    """Compare ours with each that only pages, by energy, and by energy within the other's time."""
    try:
        ours = solve(problem, "poet-remat-off")
    except InfeasibleError:
        ours = None
    compared = 0
    for name in PAGING_ONLY:
        try:
            theirs = solve(problem, name)
        except UnsuitableError:
            continue
        assert ours is not None
        assert ours.recomputes == theirs.recomputes == 0
        assert ours.energy_j <= theirs.energy_j * (1 + 1e-9)
        in_time = solve(replace(problem, deadline_s=theirs.time_s), "poet-remat-off")
        assert in_time.time_s <= theirs.time_s * (1 + 1e-9)
        assert in_time.energy_j <= theirs.energy_j * (1 + 1e-9)
        compared += 1
    return compared
