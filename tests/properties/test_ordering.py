# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from budgets import examples
from poetfw.common.limits import Deadline, Work
from poetfw.memory.ordering import OrderingProblem, OrderingStatus, OrderOp, order_ops, peak_bytes
from poetfw.memory.ordering.blocks import OrderingBlocks
from poetfw.memory.ordering.bounds import unavoidable_bytes
from poetfw.memory.ordering.gluing import glue
from poetfw.memory.ordering.ilp import solve_ilp
from poetfw.memory.ordering.indexed import IndexedOps
from poetfw.memory.ordering.search import Effort, OrderingSearch


@st.composite
def problems(draw, most: int) -> OrderingProblem:
    """Random graphs: several outputs, dead and empty ones, workspace, control edges, sharing."""
    rng = draw(st.randoms(use_true_random=False))
    count = draw(st.integers(1, most))
    density = draw(st.sampled_from([0.1, 0.25, 0.5]))
    return random_problem(rng, count, density)


def random_problem(rng: random.Random, count: int, density: float) -> OrderingProblem:
    ops: list[OrderOp] = []
    sizes: dict[str, int] = {}
    for i in range(count):
        outputs = tuple(f"t{i}.{k}" for k in range(rng.choice([0, 1, 1, 1, 2])))
        inputs = tuple(t for t in sizes if rng.random() < density)
        after = tuple(op.name for op in ops if rng.random() < density / 5)
        workspace = rng.choice([0, 0, 0, rng.randrange(6)])
        sizes |= {t: rng.choice([0, 1, rng.randrange(12)]) for t in outputs}
        taken = rng.choice(inputs) if inputs and outputs and rng.random() < 0.6 else None
        if taken is not None:
            sizes[outputs[0]] = sizes[taken]
        ops.append(OrderOp(f"op{i}", inputs, outputs, workspace, after, taken))
    return OrderingProblem(tuple(ops), sizes, rng.randrange(3))


def lowest_peak(problem: OrderingProblem) -> int:
    """The smallest peak by trying every set of ops that can have run."""
    producer = {t: i for i, op in enumerate(problem.ops) for t in op.outputs}
    number = {op.name: i for i, op in enumerate(problem.ops)}
    readers = {t: {i for i, op in enumerate(problem.ops) if t in op.inputs} for t in producer}
    before = [
        {producer[t] for t in op.inputs} | {number[a] for a in op.after} for op in problem.ops
    ]

    def live(ran: frozenset[int]) -> int:
        return sum(problem.sizes[t] for t, i in producer.items() if i in ran and readers[t] - ran)

    @cache
    def peak_from(ran: frozenset[int]) -> int:
        peaks = []
        for i, op in enumerate(problem.ops):
            if i not in ran and before[i] <= ran:
                during = live(ran) + op.workspace_bytes
                during += sum(problem.sizes[t] for t in op.outputs)
                if op.in_place is not None and readers[op.in_place] <= ran | {i}:
                    during -= problem.sizes[op.in_place]
                peaks.append(max(during, peak_from(ran | {i})))
        return min(peaks, default=0)

    return problem.resident_bytes + peak_from(frozenset())


@examples(400)
@given(problems(9))
def test_as_low_as_brute_force(problem):
    lowest = lowest_peak(problem)
    ordering = order_ops(problem, ilp=False)
    assert peak_bytes(problem, ordering.order) == ordering.peak_bytes == lowest
    assert ordering.lower_bound_bytes == lowest
    assert ordering.status is OrderingStatus.OPTIMAL


@examples(300)
@given(problems(9))
def test_gluing_keeps_the_lowest_peak(problem):
    indexed = IndexedOps.of(problem)
    glued = glue(indexed)
    edges = [
        tuple(problem.ops[j].name for j in range(indexed.n) if glued.before[i, j])
        for i in range(indexed.n)
    ]
    order = sorted(range(indexed.n), key=lambda i: (int(glued.before[i].sum()), i))
    constrained = OrderingProblem(
        tuple(replace(op, after=edges[i]) for i in order for op in [problem.ops[i]]),
        problem.sizes,
        problem.resident_bytes,
    )
    assert sorted(i for sequence in glued.sequences for i in sequence) == list(range(indexed.n))
    assert lowest_peak(constrained) == lowest_peak(problem)
    bound = int(unavoidable_bytes(indexed, glued.before).max(initial=0))
    assert problem.resident_bytes + bound <= lowest_peak(problem)


@examples(40)
@given(problems(7))
def test_the_integer_program_agrees(problem):
    indexed = IndexedOps.of(problem)
    order = tuple(range(indexed.n))
    answer = solve_ilp(indexed, glue(indexed), order, 0, Work(20.0))
    lowest = lowest_peak(problem) - problem.resident_bytes
    assert indexed.peak(answer.order) == answer.peak == lowest
    assert answer.lower <= lowest


@examples(60)
@given(problems(60))
def test_never_worse_than_the_given_order(problem):
    ordering = order_ops(problem, Work(0.5), ilp=False)
    assert ordering.lower_bound_bytes <= ordering.peak_bytes <= peak_bytes(problem)
    assert peak_bytes(problem, ordering.order) == ordering.peak_bytes
    assert order_ops(problem, Work(0.5), ilp=False).order == ordering.order


def test_a_search_that_drops_states_proves_nothing_false() -> None:
    """One state kept of those with equally many ops, and none looked for ahead."""
    rng = random.Random(6)
    dropped = proven = 0
    for _ in range(400):
        problem = random_problem(rng, rng.randint(5, 9), 0.15)
        lowest = lowest_peak(problem) - problem.resident_bytes
        indexed = IndexedOps.of(problem)
        blocks = OrderingBlocks.of(indexed, glue(indexed))
        for budget in range(max(0, lowest - 2), lowest + 3):
            found = OrderingSearch(blocks, budget, Effort(1, 0, 0), 10**6, Deadline()).run()
            if found.order is not None:
                assert indexed.peak(blocks.expand(found.order)) <= budget >= lowest
            elif found.proven:
                assert budget < found.next_budget <= lowest
            dropped += found.order is None and budget >= lowest
            proven += found.proven
    assert dropped > 0
    assert proven > 100


def test_a_search_ends_by_its_states_or_by_its_deadline() -> None:
    rng = random.Random(7)
    ended = [0, 0]
    for _ in range(20):
        problem = random_problem(rng, 8, 0.15)
        indexed = IndexedOps.of(problem)
        blocks = OrderingBlocks.of(indexed, glue(indexed))
        budget = lowest_peak(problem) - problem.resident_bytes
        whole = OrderingSearch(blocks, budget, Effort(100, 0, 0), 10**6, Deadline()).run()
        assert whole.order is not None
        for number, limits in enumerate([(-1, Deadline()), (10**6, Deadline(-1.0))]):
            found = OrderingSearch(blocks, budget, Effort(100, 0, 0), *limits).run()
            assert found.order == whole.order or (found.order is None and not found.proven)
            ended[number] += found.order is None
    assert min(ended) > 0
