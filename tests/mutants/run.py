# SPDX-License-Identifier: Apache-2.0
"""Breaks the code on purpose, one small mistake at a time, and says which ones no test notices.

Each `*.toml` beside this file holds the mutations of one area. One is applied at a time, to a copy
of the checkout, and the tests that should notice it are run there.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import click
import pytest
from hypothesis import Phase, settings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LISTS = Path(__file__).parent
CHECKOUT = LISTS.parents[1]
LARGEST_SURVIVING_SHARE = 0.03
TIMES_AS_LONG, LONGEST_START_S = 5, 30
"""A mutation that makes its tests run for so many times as long, and their start so long, has
been noticed."""
COUNTED = 25
"""Where there is no bar to show how far it is, a line does, every so many mutations."""

_PRELOADED = "pytest,hypothesis,numpy,onnx,cvxpy,torch,click,rich.progress"
"""Most of a test's time would go into importing these."""

_PYTEST = (
    *("-x", "-q", "--tb=no", "-m", "not slow"),
    *("-p", "no:cacheprovider", "-p", "no:anyio", "-p", "no:xdist"),
    *("--hypothesis-seed=0", "--hypothesis-profile=mutants"),
)
_PASSED, _FAILED = 0, 1
_UNUSED = "".join(
    f'_Pragma("GCC diagnostic ignored \\"-Wunused-{what}\\"") '
    for what in ("parameter", "variable", "function", "but-set-variable")
)


class Fate(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"
    SURVIVED = "survived"
    STALE = "stale"
    """Its text is not in its file exactly once, or a test that it names is gone."""
    BROKEN = "broken"
    """Its tests could not begin: any import, or the C compiler, would notice it."""
    MISJUDGED = "misjudged"
    """It is said to change nothing, but a test failed."""


@dataclass(frozen=True)
class Mutant:
    """A small mistake.

    Attributes:
        area: name of the list it is in.
        path: the file it is made in, from the checkout's root.
        old: text that is in the file exactly once; a space stands for any white space.
        new: what replaces it.
        tests: arguments of pytest: the tests that should notice.
        equivalent: why none can notice, if so.
    """

    area: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.old} → {self.new}"

    def applied(self, text: str) -> tuple[str, int]:
        """A file's text with the mistake, and how often it was made.

        A C compiler that is told to take warnings for errors is not to notice what is unused now.
        """
        old = r"\s+".join(re.escape(word) for word in self.old.split())
        broken, times = re.subn(old, lambda _: self.new, text)
        return (_UNUSED if self.path.endswith(".c") else "") + broken, times

    def stale(self, root: Path) -> str | None:
        """Why it does not apply to a checkout any more; None if it does."""
        file = root / self.path
        found = self.applied(file.read_text())[1] if file.is_file() else 0
        if found != 1:
            return f"its text is found {found} times"
        gone = [test for test in self.tests if not (root / test.partition("::")[0]).exists()]
        return f"there is no {gone[0]}" if gone else None


@dataclass(frozen=True)
class Verdict:
    """What became of a mutation, which test failed or what else to know, and how long it took."""

    mutant: Mutant
    fate: Fate
    note: str = ""
    time_s: float = 0.0

    @property
    def acceptable(self) -> bool:
        """Whether all is well, but for the share that may survive."""
        explained = self.fate is Fate.SURVIVED and self.mutant.equivalent is not None
        return self.fate is Fate.KILLED or explained


def load(lists: Path = LISTS) -> list[Mutant]:
    """The mutations of every list in a folder."""
    return [
        Mutant(
            area=path.stem,
            path=file["path"],
            old=mutant["old"],
            new=mutant["new"],
            tests=tuple(mutant.get("tests", file["tests"])),
            equivalent=mutant.get("equivalent"),
        )
        for path in sorted(lists.glob("*.toml"))
        for file in tomllib.loads(path.read_text())["file"]
        for mutant in file["mutants"]
    ]


@dataclass
class Seen:
    """What is known of a run of tests.

    Attributes:
        times_s: seconds by test.
        failed: the first test that failed, and why; empty if none did.
        begun: whether that was the test's doing or its fixture's: not an import's or a compiler's.
    """

    times_s: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    begun: bool = True


class Watch:
    """A plugin of pytest: runs the cheapest tests first, and keeps what it sees of them.

    Args:
        costs: seconds by test, in an earlier run.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        self._costs = costs
        self.seen = Seen()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # By module: its fixtures are made again where another's tests come between.
        modules: defaultdict[Path, float] = defaultdict(float)
        for item in items:
            modules[item.path] += self._costs.get(item.nodeid, 0.0)

        def cost(item: pytest.Item) -> tuple[float, Path, float]:
            return modules[item.path], item.path, self._costs.get(item.nodeid, 0.0)

        items.sort(key=cost)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        times_s = self.seen.times_s
        times_s[report.nodeid] = times_s.get(report.nodeid, 0.0) + report.duration

    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]
    ) -> None:
        if self.seen.failed or call.excinfo is None:
            return
        error = call.excinfo.value
        self.seen.failed = f"{node.nodeid}: {call.excinfo.exconly().splitlines()[0]}"
        compiler = isinstance(error, subprocess.CalledProcessError) and "gcc" in error.cmd[0]
        imported = isinstance(node, pytest.Collector) or isinstance(error, ImportError)
        self.seen.begun = not (compiler or imported)


class Copy:
    """A copy of the checkout in which mutations are made."""

    def __init__(self, checkout: Path, folder: Path, costs: Mapping[str, float]) -> None:
        self.root = folder / "checkout"
        self._temporary = folder / "temporary"
        self._costs = costs
        shutil.copytree(checkout, self.root, ignore=shutil.ignore_patterns(".*", "build", "dist"))
        # Tests may ask for the mode of a file, but not run what lies in this copy's `.venv`.
        (self.root / ".venv").symlink_to(checkout / ".venv")

    def judge(self, mutant: Mutant) -> Verdict:
        """Make the mistake, run the tests, take it back."""
        began_s = time.monotonic()
        fate, note = self._fate(mutant)
        return Verdict(mutant, fate, note, round(time.monotonic() - began_s, 2))

    def _fate(self, mutant: Mutant) -> tuple[Fate, str]:
        reason = mutant.stale(self.root)
        if reason is not None:
            return Fate.STALE, reason
        file = self.root / mutant.path
        right, times = file.read_text(), file.stat()
        # Compiled modules are taken as up to date by time in seconds and size.
        file.write_text(mutant.applied(right)[0])
        os.utime(file, (times.st_atime + 60, times.st_mtime + 60))
        usual_s = sum(s for name, s in self._costs.items() if name.startswith(mutant.tests))
        try:
            code, seen = self.run(mutant.tests, LONGEST_START_S + TIMES_AS_LONG * usual_s)
        finally:
            file.write_text(right)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        if code == _PASSED:
            return Fate.SURVIVED, ""
        if code > _FAILED or not seen.begun:
            return Fate.BROKEN, seen.failed or f"pytest ended with code {code}"
        fate = Fate.KILLED if mutant.equivalent is None else Fate.MISJUDGED
        return fate, seen.failed or "it crashes"

    def run(self, tests: Sequence[str], longest_s: float | None = None) -> tuple[int, Seen]:
        """Run tests: pytest's exit code, below 0 for a crash, and what was seen.

        Without a limit of time, what Python compiles is kept for other runs.
        """
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        seen = self._temporary / "seen.json"
        arguments = (self.root, self._temporary, seen, tests, self._costs, longest_s is None)
        process = _CONTEXT.Process(target=_pytest, args=arguments)
        process.start()
        process.join(longest_s)
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return _FAILED, Seen(failed="it takes too long")
        assert process.exitcode is not None
        return process.exitcode, Seen(**json.loads(seen.read_text())) if seen.exists() else Seen()


_CONTEXT = multiprocessing.get_context("forkserver")


def _pytest(
    root: Path,
    temporary: Path,
    seen: Path,
    tests: Sequence[str],
    costs: Mapping[str, float],
    keep_compiled: bool,
) -> None:
    """Run tests in a copy; this process ends with pytest's exit code."""
    os.setsid()
    with (temporary / "output").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root / "host")
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    sys.path.insert(0, str(root / "host"))
    if not keep_compiled:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
    # What another run found may not help, nor a busy machine fail it; no example need be small.
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", phases=phases, database=None, deadline=None)
    gc.freeze()  # pytest collects garbage again and again: not what was there before it
    watch = Watch(costs)
    code = pytest.main([*_PYTEST, *tests], plugins=[watch])
    seen.write_text(json.dumps(asdict(watch.seen)))
    sys.stdout.flush()
    os._exit(code)


def judge_all(
    mutants: Sequence[Mutant], copies: Sequence[Copy], report: Callable[[Verdict], None]
) -> list[Verdict]:
    """Judge mutations, as many at a time as there are copies; verdicts in the list's order."""
    idle: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        idle.put(copy)

    def judge(mutant: Mutant) -> Verdict:
        copy = idle.get()
        try:
            return copy.judge(mutant)
        finally:
            idle.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        futures = [pool.submit(judge, mutant) for mutant in mutants]
        for future in as_completed(futures):
            report(future.result())
    return [future.result() for future in futures]


@click.command()
@click.option("--only", metavar="PATTERN", default="", help="Those with this text in their name.")
@click.option("-j", "jobs", metavar="N", type=click.IntRange(1), default=1, help="At a time.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@click.option("--lists", type=click.Path(path_type=Path), default=LISTS, hidden=True)
@click.option("--checkout", type=click.Path(path_type=Path), default=CHECKOUT, hidden=True)
@click.option("--preload", default=_PRELOADED, hidden=True)
def main(only: str, jobs: int, as_json: bool, lists: Path, checkout: Path, preload: str) -> None:
    """Apply every mutation of the lists, and print those that no test notices.

    Exits with 1 if more than 3% survive, one survives unexplained, or an entry of the lists is
    wrong; with 2 if a test fails without any mutation.
    """
    os.environ |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    _CONTEXT.set_forkserver_preload(preload.split(","))
    console = Console(stderr=True, highlight=False, markup=False)
    mutants = [mutant for mutant in load(lists) if only in f"{mutant.area}: {mutant}"]
    if not mutants:
        raise click.UsageError(f"no mutation has {only!r} in its name")
    with tempfile.TemporaryDirectory(prefix="poetfw-mutants-") as folder:
        first = Copy(checkout, Path(folder) / "0", {})
        code, seen = first.run(sorted({test for mutant in mutants for test in mutant.tests}))
        if code != _PASSED:
            console.print(f"without any mutation, pytest ends with code {code}: {seen.failed}")
            sys.exit(2)
        console.print(f"{len(seen.times_s)} tests pass without any mutation")
        copies = [Copy(first.root, Path(folder) / str(n), seen.times_s) for n in range(1, jobs + 1)]
        columns = (TextColumn("mutations"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("", total=len(mutants))

            def report(verdict: Verdict) -> None:
                progress.advance(task)
                if not verdict.acceptable:
                    line = f"{verdict.fate}: {verdict.mutant} {verdict.note}"
                    console.print(line, soft_wrap=True)
                done = int(progress.tasks[task].completed)
                if not console.is_terminal and (done % COUNTED == 0 or done == len(mutants)):
                    console.print(f"{done} of {len(mutants)} mutations")

            verdicts = judge_all(mutants, copies, report)
    if as_json:
        click.echo(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    else:
        _summarise(verdicts)
    survived = sum(verdict.fate is Fate.SURVIVED for verdict in verdicts)
    too_many = survived > LARGEST_SURVIVING_SHARE * len(verdicts)
    sys.exit(too_many or not all(verdict.acceptable for verdict in verdicts))


def _summarise(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.fate is not Fate.KILLED:
            why = verdict.mutant.equivalent or verdict.note
            click.echo(f"{verdict.fate}: {verdict.mutant}" + (f"\n    {why}" if why else ""))
    fates = Counter(verdict.fate for verdict in verdicts)
    click.echo(f"{len(verdicts)} mutations: " + ", ".join(f"{n} {f}" for f, n in fates.items()))


if __name__ == "__main__":
    main()
