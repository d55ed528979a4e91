from __future__ import annotations

from schedule_problems import chain, plan

from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.furthest_use import furthest_use
from poetfw.schedule.examples import random_problem
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import Stages, lower
from poetfw.schedule.problem import StepKind
from poetfw.schedule.simulator import simulate

GRAPH = Indexed.of(chain())


def test_keeping_everything_frees_after_the_last_use() -> None:
    assert checkpoint_all(GRAPH) == plan("a b c /b d /a /c e /d")


def test_recomputes_and_page_ins_end_the_residency_before() -> None:
    assert lower(GRAPH, Stages(recomputes=frozenset({(3, 0)}))) == plan(
        "a b /a c /b a d /a /c e /d"
    )
    assert lower(GRAPH, Stages(page_ins=frozenset({(3, 0)}))) == plan(
        "a -a b /a c /b +a d /a /c e /d"
    )


def test_productions_nobody_uses_are_left_out() -> None:
    useless = Stages(recomputes=frozenset({(3, 1), (4, 0)}), page_ins=frozenset({(4, 2)}))
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


def test_indices_know_how_long_tensors_can_help() -> None:
    assert GRAPH.inputs == ((), (0,), (1,), (0, 2), (3,))
    assert GRAPH.consumers == ((1, 3), (2,), (3,), (4,), ())
    assert GRAPH.last_use == (4, 4, 4, 4, 4)
    assert GRAPH.last_recompute == (4, 4, 4, 4, 4)
    assert GRAPH.working_set(2) == 550
