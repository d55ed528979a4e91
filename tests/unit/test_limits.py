# SPDX-License-Identifier: Apache-2.0
"""Work decides what a search finds; the clock only when it ends too early, and then it is said."""

import ast
import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

import poetfw
from made_problems import training_chain, with_ram_fraction
from poetfw import pipeline
from poetfw.cli import main
from poetfw.cli.main import cli
from poetfw.common.limits import Deadline, OutOfTime, Spent, Work
from poetfw.importers import DataSet, load_data
from poetfw.memory import Buffer
from poetfw.memory.ordering import OrderingProblem, OrderOp, order_ops
from poetfw.memory.placement import place
from poetfw.planning import BuildSettings
from poetfw.schedule import SolveOptions, solve
from poetfw.schedule.compact import formulate
from poetfw.schedule.highs import Highs, LinearModel, SolveOutcome
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolverOptions, solve_program
from poetfw.schedule.problem import Status

PACKAGE = Path(poetfw.__file__).parent

CLOCKS = {
    "common/limits.py": "ends searches",
    "costs/exchange.py": "refuses what was measured in the future",
    "cli/demo.py": "prints what the demo took",
    "cli/live.py": "times the steps that it shows",
    "common/system.py": "knows when the process began",
    "tools/link/pipe.py": "waits for a device",
    "tools/link/port.py": "waits for a device",
    "tools/process.py": "waits for compilers and emulators",
    "tools/runner.py": "waits for a device",
    "meters/polled.py": "says when a meter was read",
    "profiling/measuring.py": "dates measurements",
}
"""Modules that may read a clock, and what for."""


def ticking(step_s: float) -> Callable[[], float]:
    """A clock that goes on by so much each time that it is read."""
    return itertools.count(0.0, step_s).__next__


def test_only_what_waits_for_machines_reads_another_clock() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if any(name.split(".")[0] in ("time", "timeit", "datetime") for name in names):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == set(CLOCKS)


def test_a_part_is_spent_of_the_whole_and_logged() -> None:
    deadline = Deadline(100.0, ticking(1.0))
    work = Work(10.0, deadline)
    for units in (2.0, 0.5):
        with work.part(4.0).phase("search") as part:
            assert part.left == 4.0
            part.spend(units)
    assert work.left == 7.5
    assert work.part(100.0).left == 7.5
    beside = work.beside(3.0)
    beside.spend(1.0)
    assert work.left == 7.5
    assert deadline.timing().phases == (Spent("search", 2.5, 2.0),)
    assert not deadline.decided


def test_a_deadline_counts_from_the_beginning_without_what_is_excluded_or_reserved() -> None:
    now_s = 12.0
    deadline = Deadline(20.0, lambda: now_s, began_s=9.0)
    assert (deadline.start_s, deadline.elapsed_s, deadline.left_s) == (3.0, 3.0, 17.0)
    with deadline.excluded():
        now_s += 5.0
    assert (deadline.elapsed_s, deadline.left_s) == (8.0, 17.0)
    assert not deadline.has_passed()
    assert not deadline.decided
    assert deadline.has_passed(17.0)
    assert deadline.decided
    deadline.reserve(2.0)
    assert deadline.left_s == 11.0
    now_s += 11.0
    assert deadline.has_passed()
    with pytest.raises(OutOfTime):
        next(deadline.during([1]))


def test_a_reserve_leaves_something_to_the_searches() -> None:
    now_s = 0.0
    deadline = Deadline(10.0, lambda: now_s)
    now_s = 8.0
    deadline.reserve(1.0)
    assert deadline.left_s == pytest.approx(0.2)
    endless = Deadline(math.inf, lambda: now_s)
    endless.reserve(1.0)
    assert list(endless.during("abc")) == ["a", "b", "c"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a process began")
def test_a_process_knows_when_it_began() -> None:
    code = (
        "import time; time.sleep(0.3); from poetfw.common.system import process_start_s; "
        "print(time.perf_counter() - process_start_s())"
    )
    before_s = time.perf_counter()
    age = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert 0.3 <= float(age.stdout) <= time.perf_counter() - before_s + 0.02  # in ticks of 10 ms


def test_the_clock_is_not_asked_where_work_decides() -> None:
    def stopped() -> float:
        pytest.fail("read")

    readings = iter([0.0])
    deadline = Deadline(math.inf, lambda: next(readings, None) or 0.0)
    deadline._clock = stopped
    work = Work(1.0, deadline)
    assert work.is_left()
    work.spend(1.0)
    deadline.time_limit_s = 1.0
    assert not work.is_left()


@pytest.mark.parametrize("units", [0.02, 0.1])
def test_the_same_work_finds_the_same_schedule_on_any_clock(units: float) -> None:
    problem = with_ram_fraction(training_chain(4), 0.5)
    answers = []
    for step_s in (0.0, 1e-6, 1e4):
        work = Work(units, Deadline(1e12, ticking(step_s)))
        answers.append((solve(problem, "poet", SolveOptions(gap=0.0), work=work), work.left))
        assert not work.deadline.decided
    assert answers == [answers[0]] * len(answers)
    assert answers[0][0].status is Status.FEASIBLE


def test_more_work_is_not_worse() -> None:
    problem = with_ram_fraction(training_chain(3), 0.5)
    gaps = [solve(problem, work=Work(units)).gap for units in (0.01, 0.1, 60.0)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > gaps[-1]


def test_what_is_known_at_once_needs_no_time() -> None:
    deadline = Deadline(0.0, ticking(0.0))
    problem = with_ram_fraction(training_chain(4), 1.0)
    assert solve(problem, work=Work(60.0, deadline)).status is Status.OPTIMAL
    assert not deadline.decided


def test_orders_and_addresses_end_with_the_time() -> None:
    buffers = [
        Buffer(f"{i}", i * 7 % 13, i * 7 % 13 + 2 + i * 5 % 11, 3 + i * 17 % 23) for i in range(60)
    ]
    enough, none = Work(2.0, Deadline(1e12, ticking(5.0))), Work(2.0, Deadline(0.0))
    assert place(buffers, work=enough).offsets == place(buffers, work=Work(2.0)).offsets
    assert not enough.deadline.decided
    hurried = place(buffers, work=none)
    assert none.deadline.decided == (hurried.height_bytes > hurried.lower_bound_bytes)

    names = [f"{i}" for i in range(12)]
    ops = tuple(OrderOp(name, (), (name,), 0, (), None) for name in names) + tuple(
        OrderOp(f"r{i}", (names[i], names[-1 - i]), (), 0, (), None) for i in range(12)
    )
    problem = OrderingProblem(ops, {name: 1 + i for i, name in enumerate(names)})
    ended = Deadline(0.0)
    order_ops(problem, Work(5.0, ended))
    assert ended.decided
    slow = Work(5.0, Deadline(1e12, ticking(1e3)))
    assert order_ops(problem, slow) == order_ops(problem, Work(5.0))


def test_a_program_beyond_the_work_is_not_begun() -> None:
    program = formulate(Indexed.of(with_ram_fraction(training_chain(4), 0.5))).program
    work = Work(1e-10 * program.nonzeros**2)
    solution = solve_program(program, SolverOptions(), work)
    assert solution.outcome is SolveOutcome.UNKNOWN
    assert solution.bound == program.offset
    assert work.left == 1e-10 * program.nonzeros**2


def linear_model() -> LinearModel:
    """Minimise -x - y with x + y ≤ 1.5 and x, y ≤ 1."""
    return LinearModel(
        costs=np.array([-1.0, -1.0]),
        upper=np.ones(2),
        integer=np.zeros(2, bool),
        matrix=csr_array([[1.0, 1.0]]),
        row_lower=np.array([-math.inf]),
        row_upper=np.array([1.5]),
    )


def test_a_linear_program_is_solved_again_with_more_rows() -> None:
    highs, work = Highs(linear_model(), {}), Work()
    assert highs.run(work).bound == pytest.approx(-1.5)
    highs.add_rows(csr_array([[1.0, 0.0], [1.0, 2.0]]), np.full(2, -math.inf), np.array([0.5, 1.5]))
    answer = highs.run(work)
    assert (answer.outcome, answer.bound) == (SolveOutcome.OPTIMAL, pytest.approx(-1.0))
    assert answer.values == pytest.approx([0.5, 0.5])
    assert highs.run(Work(0.0)).outcome is SolveOutcome.UNKNOWN


def test_work_ends_a_linear_program_too() -> None:
    program = formulate(Indexed.of(with_ram_fraction(training_chain(4), 0.5))).program
    program.integer = [False] * program.columns
    whole = Work(1.0)
    assert solve_program(program, SolverOptions(), whole).outcome is SolveOutcome.OPTIMAL
    taken = 1.0 - whole.left
    assert taken > 0
    part = Work(taken / 2)
    assert solve_program(program, SolverOptions(), part).outcome is not SolveOutcome.OPTIMAL
    assert -taken / 2 < part.left <= 0


def test_unknown_options_of_highs_are_refused() -> None:
    with pytest.raises(ValueError, match="no_such_option"):
        Highs(linear_model(), {"no_such_option": 1})


SCHEDULE = "schedule --board nrf52840 --model digits-cnn --batch 8 --ram-fraction 0.6".split()


def test_the_answer_says_that_the_time_decided() -> None:
    hurried = CliRunner().invoke(cli, [*SCHEDULE, "--time-limit", "1e-6"])
    assert "the time limit of 1e-06 s ended the search" in hurried.stdout
    assert "--time-limit" in hurried.stdout
    hurried = CliRunner().invoke(cli, [*SCHEDULE, "--time-limit", "1e-6", "--json"])
    assert json.loads(hurried.stdout)["time_limited"] is True


def test_without_its_timing_the_answer_is_the_same_twice() -> None:
    documents = []
    for _ in range(2):
        answer = CliRunner().invoke(cli, [*SCHEDULE, "--work-limit", "0.5", "--json"])
        document = json.loads(answer.stdout)
        timing = document.pop("timing")
        assert document["time_limited"] is False
        assert timing["seconds"] >= sum(phase["seconds"] for phase in timing["phases"])
        work = {phase["phase"]: phase["work"] for phase in timing["phases"]}
        assert work["orders"] > 0
        documents.append((document, work))
    assert documents[0] == documents[1]


def test_a_build_says_what_each_phase_took(tmp_path: Path) -> None:
    arguments = "build --board nrf52840 --batch 4 --ram 48000 --generate-only --json".split()
    arguments += ["--work-limit", "0.2"]
    for time_limit, limited in (("600", False), ("1e-6", True)):
        out = tmp_path / time_limit
        answer = CliRunner().invoke(
            cli, [*arguments, "--time-limit", time_limit, "--out", str(out)]
        )
        document = json.loads(answer.stdout)
        assert document["time_limited"] is limited
        phases = [phase["phase"] for phase in document["timing"]["phases"]]
        assert phases[:3] == ["order of ops", "addresses", "smallest budget"]
        assert "order of steps" in phases
        stage = json.loads((out / "schedule.json").read_text())
        assert not {"timing", "time_limited", "solve_time_s"} & set(stage)


def test_a_command_counts_from_when_its_process_began(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "process_start_s", lambda: time.perf_counter() - 50.0)
    monkeypatch.setattr(sys, "argv", ["poetfw", *SCHEDULE, "--time-limit", "45", "--json"])
    assert main._run() == 0
    document = json.loads(capsys.readouterr().out)
    assert document["time_limited"] is True
    assert document["timing"]["seconds"] >= 50.0


def test_cvxpy_is_not_loaded_where_there_is_no_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cvxpy", raising=False)
    program = formulate(Indexed.of(with_ram_fraction(training_chain(2), 0.5))).program
    deadline = Deadline(10.0, lambda: 6.0, began_s=2.0)  # loading took 4 seconds, and 6 are left
    solution = solve_program(program, SolverOptions(), Work(1.0, deadline))
    assert solution.outcome is SolveOutcome.UNKNOWN
    assert deadline.decided
    assert "cvxpy" not in sys.modules


def test_highs_ends_at_the_last_question_before_the_time_limit() -> None:
    now_s = 0.0
    highs = Highs(linear_model(), {})
    highs._work = Work(1.0, Deadline(10.0, lambda: now_s))
    out = SimpleNamespace(simplex_iteration_count=0, ipm_iteration_count=0)
    ended = []
    for moment_s in (1.0, 3.0, 7.0):  # the next question would come at 11
        now_s = moment_s
        answer = SimpleNamespace(user_interrupt=False)
        highs._ask(0, "", out, answer, None)
        ended.append(answer.user_interrupt)
    assert ended == [False, False, True]
    assert highs._work.deadline.decided


def test_a_build_keeps_time_to_be_written_and_does_not_count_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    def read(*arguments: Any) -> DataSet:
        nonlocal now_s
        now_s += 2.0
        return load_data(*arguments)

    def compile_all(*_: object) -> int:
        nonlocal now_s
        now_s += 1000.0
        return 10**6

    monkeypatch.setattr(pipeline, "load_data", read)
    monkeypatch.setattr("poetfw.planning.decision.arena_budget", compile_all)
    monkeypatch.setattr(pipeline, "draw_pictures", lambda *_: {})
    deadline = Deadline(20.0, lambda: now_s)
    build = pipeline.plan_build(BuildSettings("linux", "mlp"), lambda _: None, deadline=deadline)
    assert not build.time_limited
    assert deadline.left_s == 20.0 - 2.0 - 2.5 * 2.0
