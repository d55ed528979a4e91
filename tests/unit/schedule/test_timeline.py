# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from poetfw.common.transfer import BusyTimes, OverlapCosts
from poetfw.schedule import (
    Node,
    ScheduleProblem,
    Step,
    StepKind,
    Storage,
    Transfer,
    simulate,
    solve,
)
from poetfw.schedule.timeline import Clock
from poetfw.schedule.transfers import hasten_page_ins, plan_transfers

COMPUTE, IN, OUT, FREE = StepKind.COMPUTE, StepKind.PAGE_IN, StepKind.PAGE_OUT, StepKind.FREE
SECOND = Transfer(bandwidth_bytes_per_s=100.0, latency_s=0.0, energy_j_per_byte=0.0)


def chain(overlap: bool, ram_bytes: int = 1000) -> ScheduleProblem:
    """a → b → c → d, and d reads a again; each takes 1 s, each transfer 1 s."""
    names = "abcd"
    nodes = [
        Node(name, (names[i - 1],) if i else (), time_s=1.0, energy_j=1.0, output_bytes=100)
        for i, name in enumerate(names)
    ]
    nodes[3] = replace(nodes[3], inputs=("c", "a"))
    return ScheduleProblem(
        "chain", ram_bytes, None, Storage(1, SECOND, SECOND, overlap), tuple(nodes)
    )


PAGED = (
    Step(COMPUTE, "a"),
    Step(OUT, "a"),
    Step(COMPUTE, "b"),
    Step(FREE, "a"),
    Step(COMPUTE, "c"),
    Step(FREE, "b"),
    Step(IN, "a"),
    Step(COMPUTE, "d"),
    Step(FREE, "a"),
    Step(FREE, "c"),
    Step(FREE, "d"),
)


def test_core_and_channel_wait_for_each_other_where_they_must() -> None:
    clock = Clock(overlap=True)
    clock.compute((), 1.0)
    clock.page_out("a", BusyTimes(5.0))  # 1 to 6
    assert clock.makespan_s == 6.0
    clock.compute(("a",), 1.0)  # 1 to 2: reading what is on its way out is no matter
    clock.take_over("a")  # but writing over it is
    clock.compute(("a",), 1.0)  # 6 to 7
    clock.page_in("a", BusyTimes(2.0))  # 7 to 9
    clock.page_in("b", BusyTimes(2.0))  # 9 to 11
    clock.compute(("a",), 1.0)  # 9 to 10
    clock.free("b")  # 11
    starts = [span.start_s for span in clock.spans]
    assert starts == [0.0, 1.0, 1.0, 6.0, 7.0, 9.0, 9.0, 11.0]
    assert clock.makespan_s == 11.0
    assert clock.stall_s == (6.0 - 2.0) + (9.0 - 7.0) + (11.0 - 10.0)


@pytest.mark.parametrize(("ram_bytes", "time_s"), [(300, 5.0), (299, 6.0)])
def test_what_is_on_its_way_out_is_freed_later_where_there_is_room(
    ram_bytes: int, time_s: float
) -> None:
    """a is written from 1 s to 4 s: b takes 1 s of that, and so may c, with a still in RAM.

    Page-ins take no time, so that to begin them earlier helps nothing.
    """
    problem = chain(overlap=True, ram_bytes=ram_bytes)
    slow = replace(SECOND, bandwidth_bytes_per_s=100 / 3)
    at_once = replace(SECOND, bandwidth_bytes_per_s=math.inf)
    nodes = (*problem.nodes[:3], replace(problem.nodes[3], output_bytes=50))
    problem = replace(problem, storage=Storage(1, at_once, slow, overlap=True), nodes=nodes)
    assert simulate(problem, PAGED).time_s == 6.0
    planned = plan_transfers(problem, PAGED)
    after = simulate(problem, planned)
    moved = planned.index(Step(FREE, "a")) > planned.index(Step(COMPUTE, "c"))
    assert (moved, after.time_s) == (ram_bytes == 300, time_s)


def test_what_is_written_over_is_not_freed_later() -> None:
    """b takes over a, for which it waits; freed later, a would need bytes that are not there."""
    problem = chain(overlap=True, ram_bytes=250)
    a, b, c, d = problem.nodes
    nodes = (a, replace(b, in_place="a"), replace(c, output_bytes=50), replace(d, inputs=("c",)))
    slow = replace(SECOND, bandwidth_bytes_per_s=100 / 3)
    problem = replace(problem, storage=Storage(1, SECOND, slow, overlap=True), nodes=nodes)
    over = (
        *(Step(COMPUTE, "a"), Step(OUT, "a"), Step(COMPUTE, "b"), Step(FREE, "a")),
        *(Step(COMPUTE, "c"), Step(FREE, "b"), Step(COMPUTE, "d"), Step(FREE, "c")),
        Step(FREE, "d"),
    )
    assert plan_transfers(problem, over) == over


def test_without_overlap_every_step_takes_its_time() -> None:
    simulation = simulate(chain(overlap=False), PAGED)
    assert simulation.time_s == 6.0
    assert simulation.stall_s == 0.0
    assert [span for span in simulation.spans if span.end_s > span.start_s] == [
        (float(i), float(i + 1)) for i in range(6)
    ]


def test_with_overlap_only_waiting_takes_time() -> None:
    simulation = simulate(chain(overlap=True), PAGED)
    assert simulation.time_s == 5.0  # the page-out hides behind b, the page-in does not
    assert simulation.stall_s == 1.0
    assert simulation.spans[1] == (1.0, 2.0)
    assert simulation.spans[6] == (3.0, 4.0)


def test_a_free_waits_for_its_page_out() -> None:
    plan = (PAGED[0], PAGED[1], PAGED[2], PAGED[3])
    slow = replace(SECOND, bandwidth_bytes_per_s=50.0)
    problem = chain(overlap=True)
    assert problem.storage is not None
    problem = replace(problem, storage=replace(problem.storage, page_out=slow))
    simulation = simulate(problem, (*plan, *PAGED[4:]))
    assert simulation.spans[3] == (3.0, 3.0)
    assert simulation.stall_s == 2.0


def test_the_planner_begins_page_ins_early_enough() -> None:
    problem = chain(overlap=True)
    plan = plan_transfers(problem, PAGED)
    assert sorted(plan) == sorted(PAGED)
    assert simulate(problem, plan).time_s == 4.0
    assert plan.index(Step(IN, "a")) < plan.index(Step(COMPUTE, "c"))


def test_what_cannot_be_improved_stays_as_it_is() -> None:
    problem = chain(overlap=True)
    planned = plan_transfers(problem, PAGED)
    assert plan_transfers(problem, planned) is planned


def test_the_planner_respects_the_budget() -> None:
    problem = chain(overlap=True, ram_bytes=300)
    plan = plan_transfers(problem, PAGED)
    simulation = simulate(problem, plan)
    assert simulation.peak_bytes <= 300
    assert simulation.time_s <= simulate(problem, PAGED).time_s


def test_without_overlap_the_planner_changes_nothing() -> None:
    assert plan_transfers(chain(overlap=False), PAGED) is PAGED


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_planned_transfers_are_legal_and_never_slower(seed: int, in_place: bool) -> None:
    rng = random.Random(seed)
    count = rng.randint(4, 9)
    nodes = []
    for i in range(2 * count):
        inputs = [f"n{i - 1}"] if i else []
        if i >= count and 2 * count - 1 - i != i - 1:
            inputs.append(f"n{2 * count - 1 - i}")
        nodes.append(
            Node(
                f"n{i}",
                tuple(inputs),
                rng.uniform(0.1, 2),
                1.0,
                200 if in_place else rng.choice([100, 200, 300]),
                backward=i >= count,
                in_place=inputs[0] if in_place and inputs and rng.random() < 0.7 else None,
            )
        )
    problem = ScheduleProblem("random", 900, None, Storage(1, SECOND, SECOND, True), tuple(nodes))
    plan = solve(problem, "poet-remat-off").plan
    planned = plan_transfers(problem, plan)
    before, after = simulate(problem, plan), simulate(problem, planned)
    assert sorted(planned) == sorted(plan)
    assert after.time_s <= before.time_s
    assert after.energy_j == pytest.approx(before.energy_j)
    hastened = hasten_page_ins(problem, plan)
    assert sorted(hastened) == sorted(plan)
    simulate(problem, hastened)


def test_hastened_page_ins_begin_where_there_is_room() -> None:
    roomy, full = chain(overlap=True), chain(overlap=True, ram_bytes=200)
    into, c = Step(IN, "a"), Step(COMPUTE, "c")
    hastened = hasten_page_ins(roomy, PAGED)
    assert hastened.index(into) < hastened.index(c)
    nodes = (*full.nodes[:3], replace(full.nodes[3], output_bytes=0))
    full = replace(full, nodes=nodes)
    plan = tuple(step for step in PAGED if step != Step(FREE, "d"))
    hastened = hasten_page_ins(full, plan)
    assert hastened.index(into) > hastened.index(c)
    assert hasten_page_ins(chain(overlap=False), PAGED) is PAGED


def test_hastened_page_ins_come_between_no_op_and_what_it_takes_over() -> None:
    problem = chain(overlap=True, ram_bytes=240)
    a, b, c, d = problem.nodes
    c = replace(c, in_place="b", workspace_bytes=50)  # no room for a beside it
    problem = replace(problem, nodes=(a, b, c, replace(d, output_bytes=0)))
    over = (
        *PAGED[:4],
        *(Step(COMPUTE, "c"), Step(FREE, "b"), Step(IN, "a"), Step(COMPUTE, "d")),
        *(Step(FREE, "c"), Step(FREE, "a")),
    )
    for planned in (hasten_page_ins(problem, over), plan_transfers(problem, over)):
        assert simulate(problem, planned).time_s == simulate(problem, over).time_s


def test_a_hastened_page_in_takes_the_next_ones_room() -> None:
    """While d runs there is room for a or for b."""
    problem = chain(overlap=True, ram_bytes=300)
    a, b, c, d = problem.nodes
    e, f = (replace(d, name=n, inputs=i, output_bytes=0) for n, i in (("e", "da"), ("f", "eb")))
    problem = replace(problem, nodes=(a, b, c, replace(d, inputs=("c",)), e, f))
    both = (
        *(*PAGED[:4], Step(OUT, "b"), Step(COMPUTE, "c"), Step(FREE, "b"), Step(COMPUTE, "d")),
        *(Step(FREE, "c"), Step(IN, "a"), Step(COMPUTE, "e"), Step(FREE, "d"), Step(FREE, "a")),
        *(Step(IN, "b"), Step(COMPUTE, "f"), Step(FREE, "b")),
    )
    hastened = hasten_page_ins(problem, both)
    order = [Step(IN, "a"), Step(COMPUTE, "d"), Step(IN, "b"), Step(COMPUTE, "e")]
    assert [step for step in hastened if step in order] == order
    assert simulate(problem, hastened).peak_bytes == 300


@pytest.mark.parametrize(
    ("beside", "moving"),
    [
        (None, BusyTimes(6.0)),
        (OverlapCosts(200.0, 1.0, 0.5, 0.01), BusyTimes(3.0, 1.5, 3.0)),
        (OverlapCosts(200.0, 1.0, 0.5, 0.0), BusyTimes(3.0, 0.0, 0.5)),
        (OverlapCosts(50.0, 1.0, 0.5, 0.01), BusyTimes(6.0, 4.5, 0.0)),
        (OverlapCosts(200.0, 1.0, 0.5, 0.1), BusyTimes(3.0, 3.0, 3.0)),
    ],
)
def test_nothing_takes_longer_than_a_transfer_that_is_waited_for(
    beside: OverlapCosts | None, moving: BusyTimes
) -> None:
    """Of 400 bytes, in 6 seconds."""
    assert Transfer(100.0, 2.0, 0.0, 0.0, beside).moving(400) == moving


def test_a_trailer_moves_with_every_tensor() -> None:
    quick = replace(SECOND, beside=OverlapCosts(200.0, 0.0, 0.0, 0.0))
    storage = Storage(100, SECOND, quick, overlap=True, trailer_bytes=16)
    assert [storage.paged_bytes(size) for size in (84, 85, 100)] == [100, 200, 200]
    assert storage.moving_in(85) == BusyTimes(2.0)
    assert storage.moving_out(85) == BusyTimes(1.0, 0.0, 0.0)
    assert (storage.page_in_time_s(85), storage.page_out_time_s(85)) == (2.0, 1.0)
    assert replace(storage, overlap=False).moving_out(85) == BusyTimes(2.0)


def test_what_a_transfer_takes_of_the_core_is_never_hidden() -> None:
    """Waited for, it takes 10; the storage is busy for 8 of them, the core for 5."""
    transfer = Transfer(math.inf, 10.0, 0.0, 0.0, OverlapCosts(math.inf, 8.0, 5.0, 0.0))
    moving = transfer.moving(1)
    assert (moving.storage_s, moving.during_s, moving.apart_s) == (8.0, 3.0, 2.0)
    for begin in ("page_in", "page_out"):
        for computing_s, whole_s in ((0.0, 10.0), (20.0, 25.0)):
            clock = Clock(overlap=True)
            getattr(clock, begin)("a", moving)
            clock.compute((), computing_s)
            clock.free("a")
            assert clock.makespan_s == whole_s
