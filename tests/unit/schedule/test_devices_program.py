# SPDX-License-Identifier: Apache-2.0
"""The rows of the program for several devices, one by one: what each keeps from being too cheap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem, Storage, Transfer
from poetfw.schedule.milp import SolverOptions, solve_program
from poetfw.schedule.several import Device, DevicesProblem, Link, Minimise
from poetfw.schedule.several.program import formulate_devices

AT_ONCE = Transfer(1e9, 1.0, 0.0)  # 1 s for any tensor
SLOW = Transfer(1e9, 5.0, 0.0)
STORAGE = Storage(1, AT_ONCE, AT_ONCE)

Graph = dict[str, str]
"""Per node, the nodes that it reads, as letters; a capital's output has no bytes, others' 10."""

CHAIN = {"a": "", "b": "a", "c": "b", "D": "ac"}


def device(
    name: str, graph: Graph, ram_bytes: int, lacks: str = "", storage: Storage | None = None
) -> Device:
    """A device that computes each node in 1 s, never again."""
    nodes = tuple(
        Node(i, tuple(inputs), 1.0, 0.0, 0 if i.isupper() else 10, recompute=False)
        for i, inputs in graph.items()
    )
    problem = ScheduleProblem("rows", ram_bytes, None, storage, nodes)
    return Device(name, problem, frozenset(lacks))


def changed(device: Device, name: str, **changes: Any) -> Device:
    """The device with another node."""
    nodes = device.problem.nodes
    after = tuple(replace(x, **changes) if x.name == name else x for x in nodes)
    return replace(device, problem=replace(device.problem, nodes=after))


def least_s(left: Device, right: Device, *links: Link) -> float:
    """What the program's best solution takes; infinite without one."""
    problem = DevicesProblem("rows", (left, right), links)
    program = formulate_devices(problem, Minimise.TIME).program
    return solve_program(program, SolverOptions(gap=0.0), Work(60.0)).objective


def both_ways(transfer: Transfer = AT_ONCE, buffer_bytes: int = 0) -> tuple[Link, Link]:
    return (
        Link("left", "right", transfer, buffer_bytes),
        Link("right", "left", transfer, buffer_bytes),
    )


def test_what_comes_back_from_storage_has_gone_there() -> None:
    # Beside b and c there is no room for a. The other device has none for any output.
    left, right = device("left", CHAIN, 20, storage=STORAGE), device("right", CHAIN, 0)
    assert least_s(left, right, *both_ways()) == pytest.approx(4 + 1 + 1)


def test_what_goes_to_storage_has_come_to_the_device() -> None:
    graph = {"a": "", "B": "a"}
    left, right = device("left", graph, 20, "B"), device("right", graph, 20, "a", STORAGE)
    assert least_s(left, right, *both_ways(SLOW)) == pytest.approx(2 + 5)


def test_a_copy_is_of_what_is_there() -> None:
    # a waits on the other device, which has room for nothing more.
    left, right = device("left", CHAIN, 20), device("right", CHAIN, 10)
    assert least_s(left, right, *both_ways()) == pytest.approx(4 + 1 + 1)


@pytest.mark.parametrize(("left_bytes", "right_bytes"), [(14, 100), (100, 14)])
def test_a_copys_buffer_takes_room_on_both_sides(left_bytes: int, right_bytes: int) -> None:
    graph = {"a": "", "B": "a"}
    left, right = device("left", graph, left_bytes, "B"), device("right", graph, right_bytes, "a")
    assert least_s(left, right, *both_ways(buffer_bytes=4)) == pytest.approx(3)
    assert least_s(left, right, *both_ways(buffer_bytes=5)) == float("inf")


def test_what_never_comes_to_a_device_is_not_read_there() -> None:
    graph = {"a": "", "B": "a"}
    left, right = device("left", graph, 20, "a"), device("right", graph, 20, "B")
    assert least_s(left, right, Link("left", "right", AT_ONCE)) == float("inf")


@pytest.mark.parametrize(("workspace_bytes", "least"), [(9, 5.0), (10, float("inf"))])
def test_what_is_computed_again_has_its_workspace(workspace_bytes: int, least: float) -> None:
    left, right = (
        changed(device(*of), "a", recompute=True, workspace_bytes=workspace_bytes)
        for of in (("left", CHAIN, 29), ("right", CHAIN, 0))
    )
    assert least_s(left, right, *both_ways()) == pytest.approx(least)


@pytest.mark.parametrize(("ram_bytes", "least"), [(25, 3.0), (24, float("inf"))])
def test_what_is_read_later_is_not_taken_over(ram_bytes: int, least: float) -> None:
    graph = {"a": "", "b": "a", "C": "ab"}
    left, right = (
        changed(device(*of), "b", in_place="a", workspace_bytes=5)
        for of in (("left", graph, ram_bytes), ("right", graph, 0))
    )
    assert least_s(left, right, *both_ways()) == pytest.approx(least)
