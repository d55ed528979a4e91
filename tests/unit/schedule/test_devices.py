# SPDX-License-Identifier: Apache-2.0
"""Schedules for several devices: the simulator's refusals, malformed problems, files, baselines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from poetfw.common.errors import InfeasibleError, PlanError, ProblemError
from poetfw.common.limits import Work
from poetfw.schedule import (
    BoundCovers,
    Node,
    ScheduleProblem,
    SolveOptions,
    Status,
    Storage,
    Transfer,
    solve,
)
from poetfw.schedule.several import (
    Device,
    DevicesInterrupted,
    DevicesProblem,
    Link,
    Minimise,
    ceiling,
    devices_answer_from_json,
    devices_from_json,
    devices_schedule_to_json,
    devices_to_json,
    require_same_graph,
    simulate_devices,
    solve_devices,
    validate_devices,
    xengine_plan,
)
from unit.schedule.schedule_problems import devices_plan as plan

COPY = Transfer(10.0, 1.0, 0.5)  # of 10 bytes: 2 s, 5 J


def graph(times_s: dict[str, float], ram_bytes: int) -> ScheduleProblem:
    """Nodes a → b → c of 10 bytes each; c reads a as well, and leaves nothing."""
    return ScheduleProblem(
        "abc",
        ram_bytes,
        None,
        None,
        (
            Node("a", (), times_s["a"], 1.0, 10),
            Node("b", ("a",), times_s["b"], 1.0, 10),
            Node("c", ("a", "b"), times_s["c"], 1.0, 0),
        ),
    )


def two(slow_bytes: int = 100, fast_bytes: int = 100, buffer_bytes: int = 0) -> DevicesProblem:
    """A slow and a fast device; the slow one is the fast one at node a."""
    return DevicesProblem(
        "abc",
        (
            Device("slow", graph({"a": 1, "b": 9, "c": 9}, slow_bytes)),
            Device("fast", graph({"a": 9, "b": 1, "c": 1}, fast_bytes)),
        ),
        (Link("slow", "fast", COPY, buffer_bytes), Link("fast", "slow", COPY, buffer_bytes)),
    )


LEGAL = (
    "compute:a@slow copy:a@slow>fast free:a@slow compute:b@fast compute:c@fast "
    "free:a@fast free:b@fast"
)


def test_the_best_plan_copies_where_that_is_less_than_it_saves() -> None:
    answer = solve_devices(two(), Minimise.TIME)
    assert answer.plan == plan(LEGAL)
    assert answer.time_s == 5.0  # 1 + a copy of 2 + 1 + 1
    assert answer.energy_j == 8.0
    assert answer.peak_bytes == {"slow": 10, "fast": 20}
    assert answer.ceiling == pytest.approx(5.0)
    assert answer.gap < 1e-8
    assert solve_devices(two(), Minimise.ENERGY).energy_j == 3.0  # one device, no copy


def test_interrupted_it_keeps_the_best_known() -> None:
    def interrupt(phase: str, cost: float, bound: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(DevicesInterrupted) as caught:
        solve_devices(two(), Minimise.TIME, tell=interrupt)
    answer = caught.value.schedule
    assert answer.status is Status.INTERRUPTED
    assert simulate_devices(two(), answer.plan).time_s == answer.time_s
    assert devices_schedule_to_json(answer)["status"] == "interrupted"


def test_interrupted_before_there_is_a_plan_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("poetfw.schedule.several.solve.ceiling", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        solve_devices(two(), Minimise.TIME)
    assert not isinstance(caught.value, DevicesInterrupted)


def test_memory_says_where_and_a_buffer_counts_on_both_sides() -> None:
    # Beside b on the fast device there is no room for a: c needs both.
    assert solve_devices(two(fast_bytes=19), Minimise.TIME).computed == {"slow": 3, "fast": 0}
    # The copy and its buffer take 15 bytes on each of the two.
    assert solve_devices(two(20, 20, 5), Minimise.TIME).time_s == 5.0
    with pytest.raises(PlanError, match="'slow' needs 21 bytes of a budget of 20"):
        simulate_devices(two(20, 100, 11), plan(LEGAL))
    with pytest.raises(PlanError, match="'fast' needs 21 bytes of a budget of 20"):
        simulate_devices(two(100, 20, 11), plan(LEGAL))
    assert solve_devices(two(20, 20, 11), Minimise.TIME).copies == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("compute:a@slow compute:b@fast", "'a' is not in the RAM of 'fast'"),
        ("compute:a@slow copy:a@fast>slow", "'a' is not in the RAM of 'fast'"),
        ("compute:a@slow copy:a@slow>slow", "there is no link to 'slow'"),
        ("compute:a@slow copy:a@slow>fast copy:a@slow>fast", "in the RAM of 'fast' already"),
        ("compute:a@slow copy:a@slow", "a copy has a target device"),
        ("compute:a@slow free:a@slow>fast", "a copy has a target device"),
        ("compute:a@slow free:a@fast", "'a' is not in the RAM of 'fast'"),
        ("compute:a@slow page_out:a@slow", "the device has no storage"),
        ("compute:a@slow page_in:a@slow", "there is no copy of it in AUX"),
        ("compute:z@slow", "there is no such node"),
        ("compute:a@gpu", "there is no device 'gpu'"),
        ("compute:b@slow", "input 'a' has not been computed"),
        ("compute:a@slow free:a@slow", "never computes node 'b'"),
        (f"{LEGAL} compute:a@fast", "ends with tensors in the RAM of 'fast': 'a'"),
        (f"{LEGAL} compute:c@slow", "'a' is not in the RAM of 'slow'"),
    ],
)
def test_illegal_plans_are_refused(text: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        simulate_devices(two(), plan(text))


def test_a_deadline_holds_for_all_devices_together() -> None:
    problem = replace(two(), deadline_s=5.0)
    assert simulate_devices(problem, plan(LEGAL)).time_s == 5.0
    with pytest.raises(PlanError, match="longer than its deadline"):
        simulate_devices(replace(problem, deadline_s=4.9), plan(LEGAL))
    assert solve_devices(problem, Minimise.ENERGY).energy_j == 8.0  # one device takes 11 s
    with pytest.raises(InfeasibleError, match=r"no schedule of 'abc' within 4\.9 s"):
        solve_devices(replace(problem, deadline_s=4.9), Minimise.ENERGY)


def test_idle_power_counts_for_as_long_as_the_step_takes() -> None:
    slow, fast = two().devices
    problem = replace(two(), devices=(replace(slow, idle_w=2.0), fast))
    assert simulate_devices(problem, plan(LEGAL)).energy_j == 8.0 + 2.0 * 5.0
    assert solve_devices(problem, Minimise.ENERGY).energy_j == 18.0  # alone: 3 + 2 * 11


def chains_on(*ram_bytes: int) -> DevicesProblem:
    """Two chains that meet, on a large and a small device: z comes before y."""

    def chains(ram_bytes: int) -> ScheduleProblem:
        nodes = (
            Node("x", (), 1.0, 1.0, 300, recompute=False),
            Node("z", (), 1.0, 1.0, 300, recompute=False),
            Node("y", ("x",), 1.0, 1.0, 100, recompute=False),
            Node("w", ("z",), 1.0, 1.0, 100, recompute=False),
            Node("v", ("y", "w"), 1.0, 1.0, 10),
        )
        return ScheduleProblem("two chains", ram_bytes, None, None, nodes)

    large, small = map(chains, ram_bytes)
    return DevicesProblem(
        "two chains",
        (Device("large", large), Device("small", small)),
        (Link("large", "small", COPY), Link("small", "large", COPY)),
    )


def test_where_no_plan_in_stages_fits_another_order_may() -> None:
    # x and z have no room beside each other.
    problem = chains_on(550, 50)
    with pytest.raises(InfeasibleError, match=r"there is no .* nodes in the order given"):
        solve_devices(problem, options=SolveOptions(other_orders=False))
    answer = solve_devices(problem)
    assert (answer.scheduler, answer.time_s) == ("large alone", 5.0)
    assert (answer.status, answer.bound_covers) == (Status.OPTIMAL, BoundCovers.ALL)


def test_a_plan_below_a_bound_that_does_not_cover_it_has_no_gap() -> None:
    """In the order given, one of two large tensors has to be copied; in another, none."""
    problem = chains_on(550, 450)
    in_order = solve_devices(problem, options=SolveOptions(other_orders=False))
    assert (in_order.status, in_order.bound_covers) == (Status.OPTIMAL, BoundCovers.STAGES)
    answer = solve_devices(problem)
    assert answer.time_s < in_order.time_s
    assert answer.bound_covers is BoundCovers.STAGES
    assert (answer.gap, answer.status) == (None, Status.FEASIBLE)


def test_a_plan_of_which_nothing_is_proven_has_the_gap_to_computing_each_node_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from poetfw.schedule.several import solve as module

    def unproven(*given: Any, **more: Any) -> Any:
        found = solve(*given, **more)
        return replace(found, energy_j=2 * found.energy_j, gap=None)

    monkeypatch.setattr(module, "solve", unproven)
    alone = DevicesProblem("abc", (Device("one", graph({"a": 1, "b": 1, "c": 1}, 30)),), ())
    answer = solve_devices(alone)
    assert (answer.gap, answer.bound_covers) == (0.5, BoundCovers.ALL)


def test_xengines_plans_need_more_ram_than_there_is() -> None:
    # c on the fast device reads b, which was made there, and a, which was copied.
    problem = two(100, 19)
    found = xengine_plan(problem, Minimise.TIME, Work(60.0))
    assert found is not None
    with pytest.raises(PlanError, match="'fast' needs 20 bytes of a budget of 19"):
        simulate_devices(problem, found)
    enough = xengine_plan(two(), Minimise.TIME, Work(60.0))
    assert enough is not None
    assert simulate_devices(two(), enough).time_s == 5.0


def test_the_ceiling_may_compute_on_both_devices() -> None:
    slow, fast = (
        replace(device, problem=graph(times, 100))
        for device, times in zip(
            two().devices, ({"a": 1, "b": 1, "c": 9}, {"a": 1, "b": 9, "c": 1}), strict=True
        )
    )
    links = (Link("slow", "fast", COPY), Link("fast", "slow", COPY))
    problem = DevicesProblem("abc", (slow, fast), links)
    assert ceiling(problem, Minimise.TIME, Work()).cost == pytest.approx(6.0)  # a twice, b copied


def _change(of: DevicesProblem, **changes: Any) -> DevicesProblem:
    slow, fast = of.devices
    return replace(of, devices=(slow, replace(fast, **changes)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: replace(p, devices=()), "has no devices"),
        (lambda p: replace(p, links=()), "no link joins device 'slow' to another"),
        (lambda p: replace(p, links=(Link("slow", "tpu", COPY),)), "does not join two devices"),
        (lambda p: replace(p, links=p.links * 2), "appears 2 times"),
        (lambda p: _change(p, name="slow"), "device 'slow' appears 2 times"),
        (lambda p: _change(p, lacks=frozenset("abc")), "device 'fast' can compute no node"),
        (lambda p: _change(p, idle_w=-1.0), "device 'fast' has idle_w -1.0"),
        (lambda p: replace(p, deadline_s=float("nan")), "has deadline_s nan"),
        (
            lambda p: replace(p, links=(Link("slow", "fast", Transfer(0.0, 1.0, 0.0)),)),
            "bandwidth_bytes_per_s 0.0: expected more than 0",
        ),
        (
            lambda p: replace(p, links=(Link("slow", "fast", COPY, -1),)),
            "buffer_bytes -1",
        ),
        (
            lambda p: _change(p, problem=replace(p.devices[1].problem, deadline_s=1.0)),
            "device 'fast' has a deadline",
        ),
        (
            lambda p: _change(
                p, problem=replace(p.devices[1].problem, nodes=p.devices[1].problem.nodes[:2])
            ),
            "'slow' and 'fast' have different graphs",
        ),
        (
            lambda p: _change(
                p,
                problem=replace(p.devices[1].problem, storage=Storage(1, COPY, COPY, overlap=True)),
            ),
            "storage with overlap",
        ),
    ],
)
def test_malformed_problems_are_refused(
    change: Callable[[DevicesProblem], DevicesProblem], reason: str
) -> None:
    with pytest.raises(ProblemError, match=reason):
        validate_devices(change(two()))


def test_a_node_that_fits_nowhere_is_named_with_what_it_needs() -> None:
    message = "node 'b' fits on no device: it needs 20 bytes on 'slow', which has 19 bytes, and"
    with pytest.raises(InfeasibleError, match=message.replace(", and", " and 20 bytes on 'fast'")):
        validate_devices(two(19, 19))
    slow, fast = two().devices
    nowhere = tuple(replace(device, lacks=frozenset("b")) for device in (slow, fast))
    with pytest.raises(InfeasibleError, match="node 'b' can be computed on no device"):
        validate_devices(replace(two(), devices=nowhere))


def test_problems_and_answers_survive_a_file() -> None:
    problem = replace(two(50, 60, 5), deadline_s=20.0)
    assert devices_from_json(json.dumps(devices_to_json(problem))) == problem
    told = devices_to_json(two())
    required = {name: told[name] for name in ("schema_version", "name", "devices", "links")}
    assert devices_from_json(json.dumps(required)) == two()
    answer = solve_devices(problem, Minimise.TIME)
    text = json.dumps(devices_schedule_to_json(answer))
    assert devices_answer_from_json(text) == (answer.plan, {"a": 10, "b": 10, "c": 0})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"b": 20}, "'b' makes 20 bytes there, and 10 here"),
        ({"d": 0}, "it has a node 'd'"),
        ({"c": None}, "it has no node 'c'"),
    ],
)
def test_an_answer_is_of_one_graph(change: dict[str, int | None], reason: str) -> None:
    other = {name: size for name, size in (two().tensor_bytes | change).items() if size is not None}
    with pytest.raises(PlanError, match=f"not of this model and batch: {reason}"):
        require_same_graph(two(), other)
    require_same_graph(two(), two().tensor_bytes)
    require_same_graph(two(), None)  # written by hand


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema_version": 2}, "at schema_version"),
        ({"more": 1}, "at more: there is no such key"),
        ({"devices": [{"name": "x", "problem": {}}]}, "device 'x': at"),
        ({"links": [{"source": "slow", "target": "fast"}]}, "at links.0.transfer"),
    ],
)
def test_malformed_files_are_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ProblemError, match=reason):
        devices_from_json(json.dumps(devices_to_json(two()) | change))
