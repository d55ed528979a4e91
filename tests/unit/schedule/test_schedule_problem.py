# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from schedule_problems import STORAGE, chain, plan

from poetfw.common.errors import ProblemError
from poetfw.common.transfer import OverlapCosts
from poetfw.schedule import (
    Node,
    ScheduleProblem,
    Transfer,
    plan_from_json,
    problem_from_json,
    problem_to_json,
    schedule_to_json,
    solve,
    validate,
)


def node(name: str, *inputs: str, **changes: Any) -> Node:
    return replace(Node(name, inputs, 1.0, 1.0, 4), **changes)


def problem(*nodes: Node) -> ScheduleProblem:
    return ScheduleProblem("p", 100, None, STORAGE, nodes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (problem(), "problem 'p' has no nodes: it needs at least one"),
        (problem(node("a"), node("a")), "node 'a' appears 2 times: names must be unique"),
        (problem(node("a", "x")), "node 'a' reads 'x', which is not a node"),
        (
            problem(node("a", "b"), node("b")),
            "node 'a' reads 'b', which comes after it: nodes must be in topological order",
        ),
        (problem(node("a", "a")), "node 'a' is part of a cycle: 'a' -> 'a'"),
        (
            problem(node("a", time_s=-1.0)),
            "node 'a' has time_s -1.0: expected a finite number, 0 or more",
        ),
        (
            problem(node("a", energy_j=math.nan)),
            "node 'a' has energy_j nan: expected a finite number, 0 or more",
        ),
        (
            problem(node("a", output_bytes=-4)),
            "node 'a' has output_bytes -4: expected a finite number, 0 or more",
        ),
        (
            problem(node("a", workspace_bytes=-4)),
            "node 'a' has workspace_bytes -4: expected a finite number, 0 or more",
        ),
        (
            problem(node("a"), node("b", recompute_before="a")),
            "node 'b' has recompute_before 'a', which is not a later node",
        ),
        (
            replace(problem(node("a")), ram_bytes=-1),
            "problem 'p' has ram_bytes -1: expected a finite number, 0 or more",
        ),
        (
            replace(problem(node("a")), deadline_s=math.inf),
            "problem 'p' has deadline_s inf: expected a finite number, 0 or more",
        ),
        (
            replace(problem(node("a")), storage=replace(STORAGE, block_bytes=0)),
            "storage has block_bytes 0: expected 1 or more",
        ),
        (
            replace(
                problem(node("a")), storage=replace(STORAGE, page_in=Transfer(0.0, 0.0, 0.0, 0.0))
            ),
            "storage's page_in has bandwidth_bytes_per_s 0.0: expected more than 0",
        ),
        (
            replace(
                problem(node("a")),
                storage=replace(
                    STORAGE,
                    page_out=Transfer(1.0, 0.0, 0.0, 0.0, OverlapCosts(1.0, 0.0, 0.0, -1.0)),
                ),
            ),
            "storage's page_out.beside has core_s_per_byte -1.0: expected a finite number, "
            "0 or more",
        ),
        (
            replace(problem(node("a")), storage=replace(STORAGE, trailer_bytes=-1)),
            "storage has trailer_bytes -1: expected a finite number, 0 or more",
        ),
    ],
)
def test_validate_names_what_is_wrong(wrong: ScheduleProblem, message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        validate(wrong)
    assert str(caught.value) == message


def test_validate_names_a_cycle() -> None:
    with pytest.raises(ProblemError, match=r"node '[ab]' is part of a cycle: .* -> "):
        validate(problem(node("a", "b"), node("b", "a")))


def test_a_node_may_read_a_tensor_twice() -> None:
    validate(twice := problem(node("a"), node("b", "a", "a")))
    assert solve(twice).peak_bytes == 8


def test_problems_survive_json() -> None:
    nodes = (*chain().nodes, node("f", recompute=False, page=False, recompute_before="g"))
    written = replace(chain(), nodes=(*nodes, node("g")), deadline_s=30.0)
    assert written.storage is not None
    beside = replace(written.storage.page_in, beside=OverlapCosts(math.inf, 0.1, 0.2, 0.3))
    paged = replace(written.storage, page_in=beside, overlap=True, trailer_bytes=16)
    for original in (written, replace(written, storage=paged), chain(storage=None)):
        assert problem_from_json(json.dumps(problem_to_json(original))) == original


def test_problems_by_hand_may_leave_out_what_is_usual() -> None:
    transfer = {"bandwidth_bytes_per_s": 1, "latency_s": 0, "energy_j_per_byte": 0}
    read = problem_from_json(
        json.dumps(
            {
                "schema_version": 1,
                "name": "by hand",
                "ram_bytes": 10,
                "storage": {"block_bytes": 1, "page_in": transfer, "page_out": transfer},
                "nodes": [
                    {"name": "a", "inputs": [], "time_s": 1, "energy_j": 1, "output_bytes": 4}
                ],
            }
        )
    )
    assert read.nodes == (Node("a", (), 1.0, 1.0, 4, 0, True, True, False, None),)
    assert read.deadline_s is None
    assert read.storage is not None
    assert read.storage.page_in == Transfer(1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema_version",), 2, "at schema_version"),
        (("surprise",), 1, "at surprise: there is no such key"),
        (("ram_bytes",), "10", "at ram_bytes"),
        (("ram_bytes",), 1.5, "at ram_bytes"),
        (("nodes", 0, "time_s"), math.nan, "NaN is not a number of JSON"),
        (("nodes", 0, "inputs"), "a", "at nodes.0.inputs"),
        (("nodes", 1, "output_bytes"), None, "at nodes.1.output_bytes"),
        (("nodes", 0, "inputs"), ["b"], "node 'a' is part of a cycle"),
        (("storage", "page_in", "latency_s"), "fast", "at storage.page_in.latency_s"),
        (("storage", "page_in", "latency_s"), -1.0, "storage's page_in has latency_s -1.0"),
    ],
)
def test_malformed_problems_are_refused(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    document = problem_to_json(problem(node("a"), node("b", "a")))
    if path == ("nodes", 0, "inputs") and value == ["b"]:
        document["nodes"][1]["inputs"] = ["a"]
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ProblemError) as caught:
        problem_from_json(json.dumps(document), "p.json")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe\xff", "null", "[]"])
def test_what_is_no_problem_is_refused(text: str | bytes) -> None:
    with pytest.raises(ProblemError, match=r"^p\.json"):
        problem_from_json(text, "p.json")


def test_an_answer_holds_its_plan() -> None:
    schedule = solve(chain(550))
    text = json.dumps(schedule_to_json(schedule))
    assert plan_from_json(text) == schedule.plan
    assert set(json.loads(text)) >= {
        *("scheduler", "status", "energy_j", "compute_energy_j", "paging_energy_j", "time_s"),
        *("peak_bytes", "overhead", "bound_j", "bound_covers", "gap", "overhead_gap"),
        *("recomputes", "page_ins", "page_outs", "plan"),
    }


def test_plans_are_read_strictly() -> None:
    assert plan_from_json('{"plan": [{"step": "page_in", "node": "a"}]}') == plan("+a")
    for wrong in ('{"steps": []}', '{"plan": [{"step": "jump", "node": "a"}]}', "[1]"):
        with pytest.raises(ProblemError, match="the answer"):
            plan_from_json(wrong)
