# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from schedule_problems import STORAGE, chain, plan

from poetfw.common.errors import PlanError
from poetfw.schedule import Node, ScheduleProblem, Step, StepKind, simulate

KEEP = "a b c /b d /a /c e /d"
PAGE = "a -a b /a c /b +a d /a /c e /d"
RECOMPUTE = "a b /a c /b a d /a /c e /d"


def with_node(name: str, **changes: object) -> ScheduleProblem:
    problem = chain()
    nodes = tuple(
        replace(node, **changes) if node.name == name else node  # type: ignore[arg-type]
        for node in problem.nodes
    )
    return replace(problem, nodes=nodes)


def test_bytes_energy_and_time_of_keeping_everything() -> None:
    simulation = simulate(chain(), plan(KEEP))
    assert simulation.during_bytes == (100, 300, 650, 600, 500, 500, 400, 100, 100)
    assert simulation.live_bytes == (100, 300, 600, 400, 500, 400, 100, 100, 0)
    assert simulation.peak_bytes == 650
    assert simulation.energy_j == simulation.compute_energy_j == 15.0
    assert simulation.paging_energy_j == 0.0
    assert simulation.time_s == 15.0
    assert (simulation.recomputes, simulation.page_ins, simulation.page_outs) == (0, 0, 0)


def test_paging_moves_whole_blocks() -> None:
    simulation = simulate(chain(550), plan(PAGE))
    assert simulation.peak_bytes == 550
    assert simulation.paging_energy_j == pytest.approx(0.25 + 0.128 + 0.5 + 0.256)
    assert simulation.time_s == pytest.approx(15 + 0.5 + 0.128 + 1 + 0.256)
    assert (simulation.recomputes, simulation.page_ins, simulation.page_outs) == (0, 1, 1)


def test_recomputing_costs_again() -> None:
    simulation = simulate(chain(550), plan(RECOMPUTE))
    assert simulation.energy_j == 16.0
    assert (simulation.recomputes, simulation.peak_bytes) == (1, 550)


def test_every_recompute_counts() -> None:
    assert simulate(chain(), plan("a b /a a /a c /b a d /a /c e /d")).recomputes == 2


def test_a_page_stays_in_aux() -> None:
    simulation = simulate(chain(), plan("a -a /a +a b /a +a c /b d /a /c e /d"))
    assert (simulation.page_ins, simulation.page_outs) == (2, 1)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("b", "step 0 (compute of 'b'): input 'a' has not been computed"),
        ("a /a b", "step 2 (compute of 'b'): input 'a' is not in RAM"),
        ("a -a /a b", "step 3 (compute of 'b'): input 'a' is not in RAM"),
        ("a a", "step 1 (compute of 'a'): its tensor is in RAM already"),
        ("a b c d e e", "step 5 (compute of 'e'): it may not be computed again"),
        ("a +a", "step 1 (page-in of 'a'): there is no copy of it in AUX"),
        ("a -a +a", "step 2 (page-in of 'a'): its tensor is in RAM already"),
        ("-a", "step 0 (page-out of 'a'): its tensor is not in RAM"),
        ("a /a /a", "step 2 (free of 'a'): its tensor is not in RAM"),
        ("a b c d e /e", "step 5 (free of 'e'): its tensor is not in RAM"),
        ("nobody", "step 0 (compute of 'nobody'): there is no such node"),
        ("a b /a /b", "the plan never computes node 'c'"),
        ("a b c d e", "the plan ends with tensors in RAM that it must free: 'a', 'b', 'c', 'd'"),
        ("a b c /b d /a /c e", "the plan ends with tensors in RAM that it must free: 'd'"),
    ],
)
def test_refuses(steps: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        simulate(chain(), plan(steps))
    assert str(caught.value) == message


def test_refuses_what_a_node_forbids() -> None:
    with pytest.raises(PlanError, match=r"step 5 .*may not be computed again$"):
        simulate(with_node("a", recompute=False), plan(RECOMPUTE))
    with pytest.raises(PlanError, match=r"step 5 .*may not be computed after 'c'$"):
        simulate(with_node("a", recompute_before="c"), plan(RECOMPUTE))
    simulate(with_node("a", recompute_before="d"), plan(RECOMPUTE))
    with pytest.raises(PlanError, match=r"step 1 .*may not be computed after 'a'$"):
        simulate(with_node("b", recompute_before="a"), plan("a b c d e /a /b /c /d"))
    with pytest.raises(PlanError, match=r"step 5 .*may not be computed after 'b'$"):
        simulate(with_node("a", recompute_before="b"), plan(RECOMPUTE))  # b is freed by then
    with pytest.raises(PlanError, match=r"step 1 .*may not be paged$"):
        simulate(with_node("a", page=False), plan(PAGE))
    with pytest.raises(PlanError, match=r"step 1 .*there is no storage$"):
        simulate(chain(storage=None), plan(PAGE))


def test_refuses_recomputing_side_effects() -> None:
    problem = with_node("e", recompute=True)
    with pytest.raises(PlanError, match=r"step 6 .*only has side effects"):
        simulate(problem, plan("a b c d /a e e"))


@pytest.mark.parametrize(("steps", "peak"), [(KEEP, 650), (PAGE, 550), (RECOMPUTE, 550)])
def test_the_budget_holds_at_every_moment(steps: str, peak: int) -> None:
    simulate(chain(peak), plan(steps))
    with pytest.raises(PlanError, match=rf"needs {peak} bytes of a budget of {peak - 1}"):
        simulate(chain(peak - 1), plan(steps))


def test_a_page_in_needs_room() -> None:
    with pytest.raises(PlanError, match=r"step 5 \(page-in of 'a'\): it needs 600 bytes"):
        simulate(chain(599), plan("a -a b /a c +a /b d /a /c e /d"))


def test_the_deadline_bounds_all_steps() -> None:
    time_s = simulate(chain(), plan(PAGE)).time_s
    simulate(replace(chain(), deadline_s=time_s), plan(PAGE))
    with pytest.raises(PlanError, match="longer than its deadline"):
        simulate(replace(chain(), deadline_s=time_s * 0.999), plan(PAGE))


@pytest.mark.parametrize(("share", "met"), [(1 - 1e-11, True), (1 - 1e-7, False)])
def test_only_rounding_is_forgiven(share: float, met: bool) -> None:
    time_s = simulate(chain(), plan(PAGE)).time_s
    problem = replace(chain(), deadline_s=time_s * share)
    if met:
        simulate(problem, plan(PAGE))
    else:
        with pytest.raises(PlanError, match="longer than its deadline"):
            simulate(problem, plan(PAGE))


def test_what_is_written_over_is_freed_as_any_other_when_it_comes_back() -> None:
    """b takes over a's bytes; a is computed again, read, and freed with bytes of its own."""
    nodes = (
        Node("a", (), 1.0, 1.0, 100),
        Node("b", ("a",), 1.0, 1.0, 100, in_place="a"),
        Node("c", ("b",), 1.0, 1.0, 300),
        Node("d", ("a", "c"), 1.0, 1.0, 50, backward=True),
    )
    problem = ScheduleProblem("in place", 450, None, STORAGE, nodes)
    simulation = simulate(problem, plan("a b /a c /b a d /a /c /d"))
    assert simulation.during_bytes == (100, 100, 100, 400, 400, 400, 450, 450, 350, 50)
    assert simulation.live_bytes == (100, 100, 100, 400, 300, 400, 450, 350, 50, 0)


def test_what_is_freed_later_is_not_written_over() -> None:
    nodes = (
        Node("a", (), 1.0, 1.0, 100),
        Node("b", ("a",), 1.0, 1.0, 100, in_place="a"),
    )
    problem = ScheduleProblem("in place", 200, None, STORAGE, nodes)
    assert simulate(problem, plan("a b /b /a")).live_bytes == (100, 200, 100, 0)


def test_paged_bytes_are_whole_blocks() -> None:
    assert [STORAGE.paged_bytes(n) for n in (0, 1, 64, 65)] == [0, 64, 64, 128]


@pytest.mark.parametrize("other", [(StepKind.FREE, "a"), (StepKind.FREE, "a", "", None), "a", None])
def test_a_step_that_is_compared_with_anything_else_is_refused(other: object) -> None:
    step = Step(StepKind.FREE, "a")
    assert step == Step(StepKind.FREE, "a")
    assert step != Step(StepKind.FREE, "a", "m4")
    assert len({step, Step(StepKind.FREE, "a")}) == 1
    for compare in (step.__eq__, step.__ne__):
        with pytest.raises(TypeError, match="which is not a Step"):
            compare(other)
    with pytest.raises(TypeError, match="which is not a Step"):
        [other].index(step)


def test_a_plan_for_one_device_copies_nothing() -> None:
    copy = Step(StepKind.COPY, "a", "", "m4")
    with pytest.raises(PlanError, match=r"step 1 \(copy of 'a'\): there is one device only"):
        simulate(chain(), (Step(StepKind.COMPUTE, "a"), copy))
