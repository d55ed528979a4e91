# SPDX-License-Identifier: Apache-2.0
"""Devices that work at once, step by step; and large networks made to fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from poetfw.common.errors import ProblemError
from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem, StepKind, Storage, Transfer
from poetfw.schedule.several import (
    Device,
    DevicesProblem,
    Link,
    Minimise,
    device_step_costs,
    simulate_devices,
    solve_devices,
)
from poetfw.schedule.several.fitting import Fate, Fitter, improve
from poetfw.schedule.several.parallel import at_once, earliest
from poetfw.schedule.several.plan import Made, complete, named
from unit.schedule.schedule_problems import devices_plan as plan

FILES = Path(__file__).parents[3] / "examples" / "devices"


def two(nodes: tuple[Node, ...], ram_bytes: int = 100, parallel: bool = True) -> DevicesProblem:
    """Two devices that are the same, with a link of 10 bytes per second without latency."""
    problem = ScheduleProblem("abc", ram_bytes, None, None, nodes)
    link = Transfer(10.0, 0.0, 0.0)
    return DevicesProblem(
        "abc",
        (Device("left", problem), Device("right", problem)),
        (Link("left", "right", link), Link("right", "left", link)),
        parallel=parallel,
    )


def begins(problem: DevicesProblem, text: str) -> list[float]:
    steps = plan(text)
    costs = device_step_costs(problem, steps)
    return [c.begin_s for s, c in zip(steps, costs, strict=True) if s.kind is not StepKind.FREE]


A = Node("a", (), 1.0, 0.0, 10)


def test_two_devices_compute_while_the_link_copies() -> None:
    nodes = (A, Node("b", ("a",), 4.0, 0.0, 0), Node("c", ("a",), 2.0, 0.0, 0))
    text = (
        "compute:a@left copy:a@left>right compute:b@left free:a@left compute:c@right free:a@right"
    )
    assert begins(two(nodes), text) == [0.0, 1.0, 1.0, 2.0]
    assert simulate_devices(two(nodes), plan(text)).time_s == 5.0
    assert simulate_devices(two(nodes, parallel=False), plan(text)).time_s == 8.0


def test_a_step_waits_for_room_that_is_given_back_elsewhere() -> None:
    # b takes the room of a on the left device, which the copy still reads.
    nodes = (A, Node("b", (), 1.0, 0.0, 10), Node("c", ("a", "b"), 1.0, 0.0, 0))
    text = (
        "compute:a@left copy:a@left>right free:a@left compute:b@left copy:b@left>right "
        "free:b@left compute:c@right free:a@right free:b@right"
    )
    assert begins(two(nodes, 30), text) == [0.0, 1.0, 1.0, 2.0, 3.0]
    assert begins(two(nodes, 20), text) == [0.0, 1.0, 1.0, 2.0, 3.0]
    tight = two(nodes, 20)
    left = replace(tight.devices[0], problem=replace(tight.devices[0].problem, ram_bytes=10))
    tight = replace(tight, devices=(left, tight.devices[1]))
    assert begins(tight, text) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert simulate_devices(tight, plan(text)).peak_bytes == {"left": 10, "right": 20}
    assert simulate_devices(two(nodes, 30), plan(text)).peak_bytes["left"] == 20


def test_room_of_what_is_paged_out_and_copied_waits_for_both() -> None:
    nodes = (A, Node("b", (), 1.0, 0.0, 10), Node("c", ("a", "b"), 1.0, 0.0, 0))
    problem = two(nodes, 20)
    fast = Transfer(100.0, 0.0, 0.0)
    own = replace(problem.devices[0].problem, ram_bytes=10, storage=Storage(1, fast, fast))
    problem = replace(problem, devices=(Device("left", own), problem.devices[1]))
    text = (
        "compute:a@left copy:a@left>right page_out:a@left free:a@left compute:b@left "
        "copy:b@left>right free:b@left compute:c@right free:a@right free:b@right"
    )
    assert begins(problem, text) == [0.0, 1.0, 1.0, 2.0, 3.0, 4.0]


def test_what_takes_over_room_waits_until_it_is_read_no_more() -> None:
    nodes = (
        A,
        Node("b", ("a",), 1.0, 0.0, 10, in_place="a"),
        Node("c", ("a",), 1.0, 0.0, 0),
        Node("d", ("b",), 1.0, 0.0, 0),
    )
    text = (
        "compute:a@left copy:a@left>right compute:b@left free:a@left compute:c@right free:a@right "
        "compute:d@left free:b@left"
    )
    assert begins(two(nodes), text) == [0.0, 1.0, 2.0, 2.0, 3.0]


def test_an_update_waits_for_all_who_read_the_parameters() -> None:
    nodes = (
        A,
        Node("b", ("a",), 3.0, 0.0, 10, recompute_before="update"),
        Node("update", (), 1.0, 0.0, 0, recompute=False),
        Node("after", ("update",), 1.0, 0.0, 0, recompute=False),
    )
    text = "compute:a@left compute:b@left free:a@left free:b@left compute:update@right "
    assert begins(two(nodes), text + "compute:after@left") == [0.0, 1.0, 4.0, 5.0]


def test_no_plan_beats_the_longest_chain_or_equal_shares() -> None:
    nodes = (A, Node("b", ("a",), 4.0, 0.0, 0), Node("c", ("a",), 2.0, 0.0, 0))
    bounds = at_once(two(nodes), Work())
    assert bounds.path_s == 5.0
    assert bounds.balanced_s == pytest.approx(3.5)
    answer = solve_devices(two(nodes))
    assert (answer.time_s, answer.gap) == (5.0, 0.0)
    assert answer.at_once is not None
    assert answer.at_once.sequential_s == 7.0


def test_energy_is_minimised_in_turn_only() -> None:
    with pytest.raises(ProblemError, match="for the least time only"):
        solve_devices(two((A,)), Minimise.ENERGY)


def test_what_has_no_room_is_copied_away_or_computed_again() -> None:
    nodes = (
        replace(A, time_s=1.5),
        Node("b", (), 1.0, 0.0, 10),
        Node("c", ("b",), 1.0, 0.0, 10),
        Node("d", ("a", "c"), 1.0, 0.0, 0),
    )
    fitter = Fitter(two(nodes, 20, parallel=False), Minimise.TIME)
    recipe = fitter.recipe([0] * 4)

    def steps(fate: Fate) -> list[str]:
        made = fitter.follow(replace(recipe, fate=(fate, *recipe.fate[1:])), Work())
        assert made is not None
        whole = named(fitter.graph, ("left", "right"), complete(fitter.graph, made))
        simulate_devices(two(nodes, 20, parallel=False), whole)
        done = [step for step in whole if step.kind is not StepKind.FREE]
        return [f"{step.kind}:{step.node}" for step in done]

    computed = [f"compute:{name}" for name in "abc"]
    # Computing a again takes 1.5 s, two copies 2 s.
    assert steps(Fate.CHEAPEST) == [*computed, "compute:a", "compute:d"]
    assert steps(Fate.COPIED) == [*computed[:2], "copy:a", computed[2], "copy:a", "compute:d"]
    assert Fitter(two(nodes, 10), Minimise.TIME).follow(recipe, Work()) is None


@pytest.mark.parametrize(("fractions", "most_s"), [((0.3, 0.3), 22.79e-3), ((0.2, 0.3), 24.14e-3)])
def test_resnet18_fits_into_less_with_a_second_memory(
    fractions: tuple[float, float], most_s: float
) -> None:
    from poetfw.planning import load_devices_problem

    pair = [FILES / f"tx2-{name}.toml" for name in ("gpu", "a57")]
    problem = load_devices_problem(pair, "resnet18", ram_fractions=fractions)
    fitter = Fitter(problem, Minimise.TIME)

    def replayed(of: DevicesProblem, work: Work, orders: bool) -> float:
        def judge(made: list[Made]) -> float:
            steps = complete(fitter.graph, made)
            return simulate_devices(of, named(fitter.graph, ("tx2-gpu", "tx2-a57"), steps)).time_s

        best = improve(fitter, fitter.recipe([0] * fitter.n), judge, work, orders=orders)
        made = fitter.follow(best, Work())
        assert made is not None
        return judge(made)

    in_turn_s = replayed(problem, Work(0.2), False)
    assert in_turn_s <= most_s
    assert in_turn_s == replayed(problem, Work(0.2), False)
    # At once, what the second device need not wait for takes no time.
    assert replayed(replace(problem, parallel=True), Work(0.2), True) < in_turn_s


def test_what_ends_earliest_uses_both_devices() -> None:
    nodes = (A, Node("b", ("a",), 4.0, 0.0, 0), Node("c", ("a",), 2.0, 0.0, 0))
    recipe = earliest(Fitter(two(nodes), Minimise.TIME))
    assert recipe.order == (0, 1, 2)
    assert recipe.place == (0, 0, 1)


def test_what_was_updated_is_not_computed_again() -> None:
    nodes = (
        replace(A, recompute_before="update"),
        Node("b", (), 1.0, 0.0, 10),
        Node("c", ("b",), 1.0, 0.0, 10),
        Node("update", ("c",), 1.0, 0.0, 0, recompute=False),
        Node("d", ("a", "c"), 1.0, 0.0, 0),
    )
    problem = two(nodes, 20, parallel=False)
    fitter = Fitter(problem, Minimise.TIME)
    made = fitter.follow(fitter.recipe([0] * 5), Work())
    assert made is not None
    steps = named(fitter.graph, ("left", "right"), complete(fitter.graph, made))
    assert simulate_devices(problem, steps).copies == 2


def test_the_same_work_tries_the_same_recipes() -> None:
    nodes = (A, Node("b", ("a",), 4.0, 0.0, 10), Node("c", ("a", "b"), 2.0, 0.0, 0))
    fitter = Fitter(two(nodes), Minimise.TIME)

    def tried() -> list[list[Made]]:
        seen: list[list[Made]] = []

        def judge(made: list[Made]) -> float:
            seen.append(made)
            return 1.0

        improve(fitter, fitter.recipe([0, 0, 0]), judge, Work(), orders=True)
        return seen

    assert len(tried()) > 100
    assert tried() == tried()
