# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from schedule_problems import STORAGE, chain, plan

from made_problems import random_problem
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.furthest_use import furthest_use
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import StageEvents, lower
from poetfw.schedule.problem import Node, ScheduleProblem, StepKind
from poetfw.schedule.simulator import simulate

GRAPH = Indexed.of(chain())


def test_keeping_everything_frees_after_the_last_use() -> None:
    assert checkpoint_all(GRAPH) == plan("a b c /b d /a /c e /d")


def test_recomputes_and_page_ins_end_the_residency_before() -> None:
    assert lower(GRAPH, StageEvents(recomputes=frozenset({(3, 0)}))) == plan(
        "a b /a c /b a d /a /c e /d"
    )
    assert lower(GRAPH, StageEvents(page_ins=frozenset({(3, 0)}))) == plan(
        "a -a b /a c /b +a d /a /c e /d"
    )


def test_productions_nobody_uses_are_left_out() -> None:
    useless = StageEvents(recomputes=frozenset({(3, 1), (4, 0)}), page_ins=frozenset({(4, 2)}))
    assert lower(GRAPH, useless) == checkpoint_all(GRAPH)


def test_furthest_use_pages_what_is_wanted_latest() -> None:
    assert furthest_use(Indexed.of(chain(550))) == plan("a -a b /a c /b +a d /a /c e /d")
    assert furthest_use(Indexed.of(chain(550, storage=None))) is None


def test_furthest_use_reaches_the_largest_working_set() -> None:
    for seed in range(50):
        problem = random_problem(seed, 10, slack=0.0, plain=True)
        steps = furthest_use(Indexed.of(problem))
        assert steps is not None
        simulation = simulate(problem, steps)
        assert simulation.page_ins > 0
        assert sum(step.kind is StepKind.COMPUTE for step in steps) == len(problem.nodes)


def over_its_input() -> ScheduleProblem:
    """a -> b, which may take over a -> c; d reads a and c, and update u ends what a may do."""
    nodes = (
        Node("a", (), 1.0, 1.0, 100, recompute_before="u"),
        Node("b", ("a",), 1.0, 1.0, 100, 7, in_place="a"),
        Node("u", ("b",), 1.0, 1.0, 0, recompute=False),
        Node("c", ("b",), 1.0, 1.0, 300),
        Node("d", ("a", "c"), 1.0, 1.0, 50, backward=True),
    )
    return ScheduleProblem("over its input", 1000, None, STORAGE, nodes)


def test_what_is_taken_over_is_freed_once_and_right_after() -> None:
    graph = Indexed.of(over_its_input())
    assert lower(graph, StageEvents()) == plan("a b u c /b d /d /a /c")
    again = StageEvents(page_ins=frozenset({(4, 0)}))
    assert lower(graph, again) == plan("a -a b /a u c /b +a d /d /a /c")
    simulate(graph.problem, lower(graph, again))


def test_a_tensor_is_paged_out_once_however_often_it_is_produced() -> None:
    stages = StageEvents(recomputes=frozenset({(2, 0)}), page_ins=frozenset({(3, 0)}))
    names = ("a", "b", "c", "d")
    inputs = ((), ("a",), ("a", "b"), ("a", "c"))
    nodes = tuple(
        Node(name, reads, 1.0, 1.0, 100) for name, reads in zip(names, inputs, strict=True)
    )
    graph = Indexed.of(ScheduleProblem("often", 1000, None, STORAGE, nodes))
    assert lower(graph, stages) == plan("a -a b /a a c /a /b +a d /d /a /c")


def test_indices_know_what_an_update_ends_and_what_is_taken_over() -> None:
    graph = Indexed.of(over_its_input())
    assert graph.last_recompute == (2, 4, 2, 4, 4)
    assert graph.last_use == (4, 4, 2, 4, 4)
    assert graph.in_place == (None, 0, None, None, None)
    assert [graph.working_set(i) for i in range(5)] == [100, 107, 100, 400, 450]
    assert graph.pageable == (True, True, False, True, True)


def test_indices_know_how_long_tensors_can_help() -> None:
    assert GRAPH.inputs == ((), (0,), (1,), (0, 2), (3,))
    assert GRAPH.consumers == ((1, 3), (2,), (3,), (4,), ())
    assert GRAPH.last_use == (4, 4, 4, 4, 4)
    assert GRAPH.last_recompute == (4, 4, 4, 4, 4)
    assert GRAPH.working_set(2) == 550
