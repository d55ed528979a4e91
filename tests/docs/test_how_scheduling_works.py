# SPDX-License-Identifier: Apache-2.0
"""The worked example of docs/how-scheduling-works.md, number by number."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from docs.pages import fenced, read, table
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.schedule.compact import WINDOW, Compact, formulate
from poetfw.schedule.contract import SMALL_SHARE
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolverOptions, Vector, solve_program
from poetfw.schedule.problem import Schedule, ScheduleProblem, StepKind
from poetfw.schedule.problem_json import problem_from_json
from poetfw.schedule.simulator import simulate
from poetfw.schedule.solve import checkpoint_all_schedule, solve

NAME = "docs/how-scheduling-works.md"
PAGE = read(NAME)
TEXT = " ".join(PAGE.split())
EXACT = SolverOptions(gap=0.0)


@pytest.fixture(scope="module")
def problem() -> ScheduleProblem:
    return problem_from_json(fenced(NAME, "json"))


@pytest.fixture(scope="module")
def schedule(problem: ScheduleProblem) -> Schedule:
    return solve(problem)


@pytest.fixture(scope="module")
def compact(problem: ScheduleProblem) -> Compact:
    return formulate(Indexed.of(problem))


@pytest.fixture(scope="module")
def chosen(problem: ScheduleProblem, schedule: Schedule, compact: Compact) -> Vector:
    values = compact.start(Indexed.of(problem), schedule.plan)
    assert values is not None
    return values


def test_keeping_everything_is_beyond_the_budget(problem: ScheduleProblem) -> None:
    kept = checkpoint_all_schedule(problem)
    assert f"takes {kept.energy_j * 1e3:g} mJ, and {kept.peak_bytes:,} bytes at `g3`" in TEXT
    assert kept.peak_bytes > problem.ram_bytes
    assert f"is {problem.ram_bytes:,}. So `f2`" in TEXT
    sizes = {node.name: node.output_bytes for node in problem.nodes}
    together = sizes["f1"] + sizes["f2"] + sizes["f3"]
    assert f"`f3` together already take {together:,} bytes" in TEXT
    assert together > problem.ram_bytes


def test_the_plan_is_the_answer_and_its_bytes_are_the_simulators(
    problem: ScheduleProblem, schedule: Schedule
) -> None:
    assert f"and takes {schedule.energy_j * 1e3:g} mJ" in TEXT
    assert schedule.bound_j == pytest.approx(schedule.energy_j)
    during = simulate(problem, schedule.plan).during_bytes
    live: set[str] = set()
    rows = []
    for step, size in zip(schedule.plan, during, strict=True):
        live = live | {step.node} if step.kind is StepKind.COMPUTE else live - {step.node}
        rows.append([step.kind.value, step.node, f"{size:,}", ", ".join(sorted(live))])
    assert table(PAGE, "step", "node", "bytes", "then in RAM") == rows


def test_the_variables_that_are_1(
    problem: ScheduleProblem, compact: Compact, chosen: Vector
) -> None:
    names = [node.name for node in problem.nodes]
    rows = [
        [
            stage,
            *(
                ", ".join(names[i] for (s, i), x in sorted(kind.items()) if s == t and chosen[x])
                for kind in (compact.stay, compact.recompute, compact.page_in, compact.page_out)
            ),
        ]
        for t, stage in enumerate(names)
    ]
    assert table(PAGE, "stage", "S", "R", "P", "O") == rows


def test_the_prices_that_the_page_compares(problem: ScheduleProblem) -> None:
    millijoules = {node.name: f"{node.energy_j * 1e3:g}" for node in problem.nodes}
    assert problem.storage is not None
    size = problem.nodes[1].output_bytes
    out = f"{problem.storage.page_out_energy_j(size) * 1e3:g}"
    back = f"{problem.storage.page_in_energy_j(size) * 1e3:g}"
    assert f"page it: {out} mJ out and {back} mJ in" in TEXT
    assert f"recompute it: {millijoules['f2']} mJ, and {millijoules['f1']} mJ for `f1`" in TEXT
    once, total = re.findall(
        rf"(\d+) \+ {millijoules['f1']} \+ {millijoules['f2']} = (\d+) mJ", PAGE
    )[0]
    assert float(once) == pytest.approx(sum(node.energy_j for node in problem.nodes) * 1e3)
    assert int(total) == int(once) + int(millijoules["f1"]) + int(millijoules["f2"])


def test_what_the_page_says_of_single_variables(
    problem: ScheduleProblem, compact: Compact, chosen: Vector
) -> None:
    index = {node.name: i for i, node in enumerate(problem.nodes)}
    kinds = {"S": (compact.stay,), "R": (compact.recompute,), "P": (compact.page_in,)}
    kinds["H"] = kinds["S"] + kinds["R"] + kinds["P"]

    def value(kind: str, stage: str, node: str) -> float:
        key = index[stage], index[node]
        return sum(chosen[columns[key]] for columns in kinds[kind] if key in columns)

    said = PAGE.split("## Why the rows hold")[1].split("If a transfer took")[0]
    claims = re.findall(r"([SRPH])\[(g\d),([fg]\d)\] = (\d)", said)
    assert len(claims) == 4
    for kind, stage, node, number in claims:
        assert value(kind, stage, node) == int(number), (kind, stage, node)
    ((*left, right_kind, right_stage, right_node, a, b),) = re.findall(
        r"([SRPH])\[(g\d),([fg]\d)\] ≤ ([SRPH])\[(g\d),([fg]\d)\], (\d) ≤ (\d)", said
    )
    assert [value(*left), value(right_kind, right_stage, right_node)] == [int(a), int(b)]


def test_the_rows_hold_for_the_variables_of_the_page(
    compact: Compact, chosen: Vector, schedule: Schedule
) -> None:
    program = compact.program
    whole = [i for i, integer in enumerate(program.integer) if integer]
    for column in whole:
        program.equal([(column, 1.0)], chosen[column])
    solution = solve_program(program, EXACT, Work())
    assert solution.objective == pytest.approx(schedule.energy_j)


def test_the_chain_of_u(problem: ScheduleProblem, schedule: Schedule) -> None:
    sizes = {node.name: node.output_bytes for node in problem.nodes}
    rows = table(PAGE, "produced", "adds up to U", "bytes")
    during = simulate(problem, schedule.plan).during_bytes
    last = [i for i, step in enumerate(schedule.plan) if step.kind is StepKind.COMPUTE][-3:]
    for (node, terms, total), step in zip(rows, last, strict=True):
        numbers = "".join(c for c in _without_brackets(terms) if c in "0123456789+-")
        assert _sum(numbers) == during[step] == int(total.replace(",", "")), node
        for size, named in re.findall(r"([\d,]+) \((\w+)", terms):
            assert size == f"{sizes[named]:,}"
        assert schedule.plan[step].node == node
    assert f"would be {during[last[-1]] + sizes['f1']:,} bytes" in TEXT


def test_cheaper_transfers_are_paged(problem: ScheduleProblem) -> None:
    assert problem.storage is not None
    cheap = replace(
        problem,
        storage=replace(
            problem.storage,
            page_in=replace(problem.storage.page_in, energy_j=1e-3),
            page_out=replace(problem.storage.page_out, energy_j=1e-3),
        ),
    )
    answer = solve(cheap)
    kinds = [step.kind for step in answer.plan]
    assert kinds.count(StepKind.PAGE_IN) == kinds.count(StepKind.PAGE_OUT) == 1
    assert {s.node for s in answer.plan if s.kind is StepKind.PAGE_IN} == {"f2"}
    assert answer.recomputes == 0
    assert f"no R, {answer.energy_j * 1e3:g} mJ" in TEXT


def test_the_relaxation(problem: ScheduleProblem) -> None:
    compact = formulate(Indexed.of(problem))
    compact.program.integer = [False] * compact.program.columns
    solution = solve_program(compact.program, EXACT, Work())
    assert solution.values is not None
    assert f"its optimum is {solution.objective * 1e3:g} mJ" in TEXT
    assert solution.values[compact.recompute[4, 1]] == pytest.approx(0.5)
    assert solution.values[compact.stay[4, 1]] == pytest.approx(0.5)


def test_no_smaller_budget_is_enough(problem: ScheduleProblem) -> None:
    with pytest.raises(InfeasibleError, match=f"{problem.ram_bytes:,}"):
        solve(replace(problem, ram_bytes=problem.ram_bytes - 1))


def test_the_settings_of_the_search_are_those_of_the_page() -> None:
    assert f"about {WINDOW} nodes before the one" in TEXT
    assert f"together {SMALL_SHARE:.0%} of the budget" in TEXT


def test_the_example_is_json_with_a_line_per_node() -> None:
    assert len(json.loads(fenced(NAME, "json"))["nodes"]) == fenced(NAME, "json").count('{"name"')


def _without_brackets(text: str) -> str:
    return "".join(part.split(")")[-1] for part in text.split("(")).replace(",", "")


def _sum(terms: str) -> int:
    return sum(map(int, terms.replace("-", "+-").split("+")))
