# SPDX-License-Identifier: Apache-2.0
"""Breaks the code on purpose, one small mistake at a time, and says which ones no test notices.

Each `*.toml` beside this file holds the mutations of one area. One is applied at a time, to a copy
of the checkout, and the tests that should notice it are run there.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LISTS = Path(__file__).parent
CHECKOUT = LISTS.parents[1]
LARGEST_SURVIVING_SHARE = 0.03
LONGEST_S = 300
"""A mutation that makes a test run for longer than this has been noticed."""

_PRELOADED = "pytest,hypothesis,numpy,onnx,cvxpy,torch"
"""Most of a test's time would go into importing these."""

_PYTEST = ("-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-seed=0")
_PASSED, _FAILED = 0, 1


class Fate(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"
    SURVIVED = "survived"
    STALE = "stale"
    """Its text is not in its file exactly once, or a test that it names is gone."""
    BROKEN = "broken"
    """Its tests could not begin: any import, or the compiler, would notice it."""
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
        """A file's text with the mistake, and how often it was made."""
        old = r"\s+".join(re.escape(word) for word in self.old.split())
        return re.subn(old, lambda _: self.new, text)

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
    """What became of a mutation, and which test failed or what else to know."""

    mutant: Mutant
    fate: Fate
    note: str = ""

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


class Copy:
    """A copy of the checkout in which mutations are made."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._root = folder / "checkout"
        self._temporary = folder / "temporary"
        left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")
        shutil.copytree(checkout, self._root, ignore=left_out)
        # Tests may ask for the mode of a file, but not run what lies in this copy's `.venv`.
        (self._root / ".venv").symlink_to(checkout / ".venv")

    def judge(self, mutant: Mutant) -> Verdict:
        """Make the mistake, run the tests, take it back."""
        reason = mutant.stale(self._root)
        if reason is not None:
            return Verdict(mutant, Fate.STALE, reason)
        file = self._root / mutant.path
        right, times = file.read_text(), file.stat()
        # Compiled modules are taken as up to date by time in seconds and size.
        file.write_text(mutant.applied(right)[0])
        os.utime(file, (times.st_atime + 60, times.st_mtime + 60))
        try:
            code, failed = self.run(mutant.tests, keep_compiled=False)
        finally:
            file.write_text(right)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        if code == _PASSED:
            return Verdict(mutant, Fate.SURVIVED)
        if code > _FAILED or failed.startswith("ERROR"):
            return Verdict(mutant, Fate.BROKEN, failed or f"pytest ended with code {code}")
        fate = Fate.KILLED if mutant.equivalent is None else Fate.MISJUDGED
        return Verdict(mutant, fate, failed or "it crashes")

    def run(self, tests: Sequence[str], *, keep_compiled: bool) -> tuple[int, str]:
        """Pytest's exit code for some tests, below 0 for a crash, and the first that failed."""
        # What Hypothesis found in one run must not help the next.
        shutil.rmtree(self._root / ".hypothesis", ignore_errors=True)
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        output = self._temporary / "output"
        process = _CONTEXT.Process(
            target=_pytest, args=(self._root, self._temporary, output, tests, keep_compiled)
        )
        process.start()
        process.join(None if keep_compiled else LONGEST_S)
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return _FAILED, "it takes too long"
        assert process.exitcode is not None
        lines = output.read_text(errors="replace").splitlines()
        # A test that fails may leave behind what its fixture ends with an error about.
        failed = (line for kind in ("FAILED ", "ERROR ") for line in lines if line.startswith(kind))
        return process.exitcode, next(failed, "")


_CONTEXT = multiprocessing.get_context("forkserver")


def _pytest(
    root: Path, temporary: Path, output: Path, tests: Sequence[str], keep_compiled: bool
) -> None:
    """Run tests in a copy; this process ends with pytest's exit code."""
    os.setsid()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root / "host")
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    sys.path.insert(0, str(root / "host"))
    if not keep_compiled:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
    import pytest

    code = pytest.main([*_PYTEST, *tests])
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
        copies = [Copy(checkout, Path(folder) / str(n)) for n in range(jobs)]
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        for copy in copies:
            code, failed = copy.run(tests, keep_compiled=True)
            if code != _PASSED:
                console.print(f"without any mutation, pytest ends with code {code}: {failed}")
                sys.exit(2)
        columns = (TextColumn("mutations"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=len(mutants))

            def report(verdict: Verdict) -> None:
                progress.advance(task)
                if not verdict.acceptable:
                    progress.console.print(f"{verdict.fate}: {verdict.mutant} {verdict.note}")

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
