# SPDX-License-Identifier: Apache-2.0
"""Heuristics find what they found before: their work is counted, so their answers do not vary.

Properties say that an answer is legal; these figures, that a heuristic is still as good as it was.
Of each answer a digest is kept, and of a heuristic's answers the sum of energies or bytes, which
says whether others are better. `pytest tests/golden --update-golden` writes known_answers.json
again; the diff is to be reviewed, and a failed test prints the answers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from textwrap import wrap
from zlib import crc32

import pytest

from made_problems import training_chain, with_ram_fraction
from poetfw.common.errors import InfeasibleError, UnsuitableError
from poetfw.common.limits import Work
from poetfw.memory import Buffer, place
from poetfw.memory.ordering import from_schedule_problem, order_ops
from poetfw.schedule import SCHEDULERS, ScheduleProblem, solve
from poetfw.schedule.several import Minimise, solve_devices
from properties.devices_brute_force import random_devices
from properties.random_graphs import random_graph

FILE = Path(__file__).with_name("known_answers.json")


HEURISTICS = [name for name in SCHEDULERS if not name.startswith(("poet", "checkmate"))]
"""Schedulers that solve no integer program, whose optimum tests/properties compare."""


def problems() -> Iterator[ScheduleProblem]:
    """Training steps with ever less RAM, and graphs of every kind."""
    for share in (0.9, 0.75, 0.6):
        yield with_ram_fraction(training_chain(blocks=2), share)
    yield from map(random_graph, range(60))


def digest(parts: Iterable[object]) -> str:
    return f"{crc32(' '.join(map(str, parts)).encode()):08x}"


def plans(scheduler: str) -> Iterator[str]:
    for problem in problems():
        try:
            found = solve(problem, scheduler, work=Work(2.0))
        except (InfeasibleError, UnsuitableError) as error:
            yield type(error).__name__
        else:
            plan = digest(found.plan)
            yield f"{found.energy_j:.6g} J, {found.peak_bytes} B, plan {plan}"


def plans_of_two() -> Iterator[str]:
    for seed in range(39, 79):
        try:
            found = solve_devices(random_devices(seed), list(Minimise)[seed % 2], work=Work(2.0))
        except InfeasibleError as error:
            yield type(error).__name__
        else:
            yield f"{found.energy_j:.6g} J, {found.time_s:.6g} s, plan {digest(found.plan)}"


def orders() -> Iterator[str]:
    for problem in problems():
        found = order_ops(from_schedule_problem(problem))
        yield f"{found.peak_bytes} B, order {digest(found.order)}"


def placements() -> Iterator[str]:
    for seed in range(20):
        rng = random.Random(seed)
        buffers = []
        for i in range(rng.randint(10, 60)):
            begin, size = rng.randrange(40), rng.randint(1, 999)
            last = begin + rng.randint(1, 12)
            buffers.append(Buffer(str(i), begin, last, size, rng.choice([1, 4, 700])))
        found = place(buffers, work=Work(0.05))
        proven = f"at least {found.lower_bound_bytes} B"
        yield f"{found.height_bytes} B, {proven}, offsets {digest(found.offsets.items())}"


SEARCHES: dict[str, Callable[[], Iterator[str]]] = {
    **{name: lambda name=name: plans(name) for name in HEURISTICS},
    "two devices": plans_of_two,
    "orders": orders,
    "placements": placements,
}


@pytest.mark.parametrize("name", SEARCHES)
def test_answers_are_those_of_before(name: str, request: pytest.FixtureRequest) -> None:
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    answers = [*SEARCHES[name]()]
    energies = [float(answer.partition(" ")[0]) for answer in answers if answer[0].isdigit()]
    digests = " ".join(digest([answer]) for answer in answers)
    found = {"sum": float(f"{sum(energies):.6g}"), "answers": wrap(digests, 90)}
    if request.config.getoption("--update-golden"):
        known[name] = found
        FILE.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    assert found == known[name], "\n".join(answers)


def test_no_answer_is_of_a_search_that_there_is_no_more() -> None:
    assert json.loads(FILE.read_text()).keys() == SEARCHES.keys()
